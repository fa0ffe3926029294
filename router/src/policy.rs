//! What the operator lays down for every run, whatever its caller allows.

mod conditions;
mod contract;
mod decision;
mod defaults;
mod difference;
mod hint;
pub mod history;
mod keeping;
mod mismatch;
mod names;
mod offered;
mod roles;
mod rules;
mod secrets;
mod unusable;
mod version;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::caller::Caller;
use crate::config::{
    ApprovalSettings, Outputs, PolicyDefault, PolicySettings, Rule, SecretBinding, SourceEntry,
};
use crate::interface::UnusableContract;
use crate::json::Object;
use crate::role::{ActionClass, Role};
use crate::signal::Judge;

pub(crate) use conditions::CallInput;
pub use contract::{Contract, Contracts};
pub use decision::{DecisionText, DecisionTexts};
pub use defaults::{DefaultsTooLarge, InputDefaults};
pub use difference::{PermissionChange, Permissions};
pub use hint::{Hint, Hints};
pub use keeping::{Keeping, KeptOperation};
pub use mismatch::RuleKey;
pub use names::is_plain;
pub(crate) use offered::template_fits;
pub use offered::{
    AdapterOffer, CallerReach, CatalogueState, OfferedOperations, OfferedTool, Operations,
};

pub(crate) use rules::RuleDecision;

/// The law of a router. The default allows what the caller's own policy allows.
#[derive(Clone, Debug)]
pub struct Law {
    /// Whether runs may apply at all.
    pub apply: bool,
    /// A plan with more steps is refused.
    pub max_steps: Option<u64>,
    /// No run takes longer.
    pub max_run: Option<Duration>,
    /// The first rule that fits decides.
    pub rules: Vec<Rule>,
    /// The decision about calls that no rule fits.
    pub default: PolicyDefault,
    /// The operations that callers below admin scope may call; absent means all.
    pub offered: Option<Arc<OfferedOperations>>,
    /// The operations in the catalogues that are known, by the adapters' ids.
    pub catalogues: BTreeMap<String, Arc<Operations>>,
    /// The operations (tool, method) that tools name, of adapters whose operations are not known.
    pub spellings: BTreeMap<String, Vec<(String, String)>>,
    /// The classes of operations, as the tool specs say.
    pub classes: Classes,
    /// What callers call operations, as the tool specs say.
    pub names: Names,
    /// What operations take and give, as the tool specs say.
    pub contracts: Contracts,
    /// The interface contracts that adapters keep, by the adapters' ids.
    pub interfaces: BTreeMap<String, Arc<Keeping>>,
    /// Adapters that are not called because their contract was removed or does not hold, by their ids.
    pub unusable: BTreeMap<String, UnusableContract>,
    /// Who judges the outputs of adapters, by the adapters' ids.
    pub signals: BTreeMap<String, Arc<Judge>>,
    /// The roles whose outputs adapters give whole, by the adapters' ids.
    pub roles: BTreeMap<String, Role>,
    /// What adapters may ask the router to fetch for them, by the ids of those who ask.
    pub sources: BTreeMap<String, Arc<[SourceEntry]>>,
    /// Calls whose arguments may refer to secrets, by the names of the secrets.
    pub secrets: BTreeMap<String, SecretBinding>,
    /// Whether adapters without one are not called.
    pub contract_required: bool,
    /// What becomes of an output that breaks its contract.
    pub outputs: Outputs,
    /// What is hinted of operations, as the tool specs say.
    pub hints: Hints,
    /// What adapters offer, whichever of their operations callers see.
    pub offers: BTreeMap<String, Offering>,
    /// Adapters of whose operations nothing is known yet, and why.
    pub unknown: BTreeMap<String, String>,
    /// How people are asked.
    pub approvals: ApprovalSettings,
    /// Texts of the decisions, which runs record.
    pub decisions: DecisionTexts,
}

/// An operation: adapter, tool and method.
pub type Key = (String, String, String);

/// The classes of operations.
pub type Classes = BTreeMap<Key, ActionClass>;

/// The names of operations.
pub type Names = BTreeMap<Key, Vec<String>>;

/// What an adapter's operations are called and are, if callers see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    /// Stands before their names.
    pub prefix: String,
    /// What kind of thing they do.
    pub action_class: Option<ActionClass>,
}

/// The call that is judged.
#[derive(Clone, Copy, Debug)]
pub struct Act<'a> {
    /// The adapter.
    pub adapter_id: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The method.
    pub method: &'a str,
}

impl Act<'_> {
    /// Returns the operation that is called.
    #[must_use]
    pub fn key(self) -> Key {
        (self.adapter_id.to_owned(), self.tool.to_owned(), self.method.to_owned())
    }
}

/// What the law says of a call that it does not deny.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It may be made.
    Allow,
    /// It may be made if a person says so.
    Ask {
        /// The id of the rule that asks for it.
        rule: String,
        /// Why, in the operator's words.
        reason: Option<String>,
    },
}

/// Why a call must not be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Denial {
    /// The stable code.
    pub code: &'static str,
    /// What is told.
    pub message: String,
    /// What else is known.
    pub details: Object,
}

impl Default for Law {
    fn default() -> Self {
        Self {
            apply: true,
            max_steps: None,
            max_run: None,
            rules: Vec::new(),
            default: PolicyDefault::Allow,
            offered: None,
            catalogues: BTreeMap::new(),
            spellings: BTreeMap::new(),
            classes: Classes::new(),
            names: Names::new(),
            contracts: Contracts::new(),
            interfaces: BTreeMap::new(),
            unusable: BTreeMap::new(),
            signals: BTreeMap::new(),
            roles: BTreeMap::new(),
            sources: BTreeMap::new(),
            secrets: BTreeMap::new(),
            contract_required: false,
            outputs: Outputs::default(),
            hints: Hints::new(),
            offers: BTreeMap::new(),
            unknown: BTreeMap::new(),
            approvals: ApprovalSettings::default(),
            decisions: DecisionTexts::default(),
        }
    }
}

impl Law {
    /// Makes the law of a configuration. What is hinted of operations is put in afterwards, where it is known.
    #[must_use]
    pub fn new(settings: &PolicySettings, classes: Classes) -> Self {
        Self {
            apply: settings.apply,
            max_steps: Some(settings.max_steps),
            max_run: Some(settings.max_run),
            rules: settings.rules.clone(),
            default: settings.default.unwrap_or_default(),
            classes,
            approvals: settings.approvals,
            ..Self::default()
        }
    }

    /// Decides about an operation without arguments, for listings. Only calls that every condition result denies are
    /// denied. A conditional rule that allows or asks fits; one that denies does not.
    ///
    /// # Errors
    /// With the denial, if a rule or the caller's role forbids the call. Nobody is asked about what a role
    /// forbids.
    pub fn judge(&self, caller: Option<&Caller>, act: Act<'_>) -> Result<Judgement, Denial> {
        let class = self.class_of(act);
        self.judge_by_operation(act)?;
        let judgement = self.judge_by_rules(caller, (act, class), None)?.judgement;
        self.judge_by_role(caller, act, class)?;
        Ok(judgement)
    }

    /// Judges one call that is made in a class, whatever the tools say of it.
    pub(crate) fn judge_in(
        &self,
        caller: Option<&Caller>,
        (act, class): (Act<'_>, Option<ActionClass>),
        input: &CallInput<'_>,
    ) -> Result<RuleDecision, Denial> {
        self.judge_by_operation(act)?;
        let decision = self.judge_by_rules(caller, (act, class), Some(input))?;
        self.judge_by_role(caller, act, class)?;
        Ok(decision)
    }

    fn judge_by_operation(&self, act: Act<'_>) -> Result<(), Denial> {
        self.check_usability(act)?;
        self.judge_by_contract(act)?;
        self.judge_by_names(act)?;
        self.judge_by_catalogue(act)
    }

    /// Rules may go by what a catalogue says of an operation, so none is called before it is known.
    fn judge_by_catalogue(&self, act: Act<'_>) -> Result<(), Denial> {
        let Some(why) = self.unknown.get(act.adapter_id).filter(|_| !self.rules.is_empty()) else {
            return Ok(());
        };
        let mut details = Object::new();
        details.insert("denied_by", "operator");
        let message = format!(
            "adapter '{}' has not told its catalogue yet, so nobody can say which rules hold for {}.{}: {why}",
            act.adapter_id, act.tool, act.method
        );
        Err(Denial { code: "CATALOGUE_UNKNOWN", message, details })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Annotation, Effect, Pattern};

    const ACT: Act<'_> = Act { adapter_id: "shop", tool: "orders", method: "cancel" };

    fn key() -> (String, String, String) {
        (ACT.adapter_id.to_owned(), ACT.tool.to_owned(), ACT.method.to_owned())
    }

    fn rule(effect: Effect) -> Rule {
        Rule::any(effect)
    }

    fn ask(rule: usize) -> Judgement {
        Judgement::Ask { rule: Rule::default_id(rule), reason: None }
    }

    #[test]
    fn first_rule_that_fits_decides_whatever_its_effect() {
        let elsewhere = || Rule { tool: Pattern::new("x*"), ..rule(Effect::Deny) };
        let law = |effects: &[Effect]| Law {
            rules: std::iter::once(elsewhere()).chain(effects.iter().copied().map(rule)).collect(),
            ..Law::default()
        };
        let (allow, deny, approve) = (Effect::Allow, Effect::Deny, Effect::Approve);
        assert_eq!(law(&[]).judge(None, ACT), Ok(Judgement::Allow));
        assert_eq!(law(&[approve, deny]).judge(None, ACT), Ok(ask(1)));
        assert_eq!(law(&[allow, approve]).judge(None, ACT), Ok(Judgement::Allow));
        assert!(law(&[deny, approve]).judge(None, ACT).is_err());
        let mut law = law(&[approve]);
        law.rules[1].reason = Some("ask Ada".to_owned());
        let reason = Some("ask Ada".to_owned());
        assert_eq!(law.judge(None, ACT), Ok(Judgement::Ask { rule: "rule-2".to_owned(), reason }));
    }

    #[test]
    fn default_decides_when_no_rule_fits() {
        let elsewhere = Rule { tool: Pattern::new("x*"), ..rule(Effect::Deny) };
        let here = Rule { tool: Pattern::new("orders"), ..rule(Effect::Allow) };
        let mut law = Law { rules: vec![elsewhere], ..Law::default() };
        assert_eq!(law.judge(None, ACT), Ok(Judgement::Allow));
        law.default = PolicyDefault::Deny;
        for caller in [None, Some(&Caller::local())] {
            let denial = law.judge(caller, ACT).unwrap_err();
            assert_eq!(denial.code, "PERMISSION_DENIED");
            assert_eq!(denial.details.get("denied_by").unwrap().as_str(), Some("default"));
        }
        law.rules.push(here);
        assert_eq!(law.judge(None, ACT), Ok(Judgement::Allow));
    }

    #[test]
    fn rules_compare_names_without_case() {
        let asks = |rule: Rule| {
            let law = Law { rules: vec![rule], ..Law::default() };
            let caller = Caller { name: "ci".to_owned(), ..Caller::local() };
            law.judge(Some(&caller), ACT) == Ok(ask(0))
        };
        let bare = || rule(Effect::Approve);
        assert!(asks(Rule { adapter: Pattern::new("SHOP"), ..bare() }));
        assert!(asks(Rule { tool: Pattern::new("Ord*"), ..bare() }));
        assert!(asks(Rule { method: Pattern::new("CANCEL"), ..bare() }));
        assert!(asks(Rule { token: Pattern::new("ci"), ..bare() }));
        assert!(!asks(Rule { token: Pattern::new("CI"), ..bare() }), "another token");
    }

    #[test]
    fn nobody_is_asked_about_what_a_role_forbids() {
        let scout = Caller { name: "s".to_owned(), role: Some(Role::Scout), ..Caller::local() };
        let mut law = Law { rules: vec![rule(Effect::Approve)], ..Law::default() };
        assert_eq!(law.judge(Some(&scout), ACT).unwrap_err().code, "ROLE_REFUSED");
        law.classes.insert(key(), ActionClass::DataLookup);
        assert_eq!(law.judge(Some(&scout), ACT), Ok(ask(0)));
    }

    #[test]
    fn rules_hold_for_what_is_not_offered_and_for_what_is_not_known_yet() {
        let named = Rule { tool: Pattern::new("shop.*"), ..rule(Effect::Deny) };
        let classed = Rule { action_class: Some(ActionClass::FileWrite), ..rule(Effect::Approve) };
        let mut law = Law { rules: vec![named, classed], ..Law::default() };
        assert_eq!(law.judge(None, ACT), Ok(Judgement::Allow));
        let offering = |prefix: &str| {
            let action_class = Some(ActionClass::FileWrite);
            BTreeMap::from([(
                "shop".to_owned(),
                Offering { prefix: prefix.to_owned(), action_class },
            )])
        };
        law.offers = offering("other.");
        assert_eq!(law.judge(None, ACT), Ok(ask(1)));
        law.offers = offering("shop.");
        assert_eq!(law.judge(None, ACT).unwrap_err().code, "PERMISSION_DENIED");
        let envoy = Caller { name: "e".to_owned(), role: Some(Role::Envoy), ..Caller::local() };
        law.rules.clear();
        assert_eq!(law.judge(Some(&envoy), ACT).unwrap_err().code, "ROLE_REFUSED");
        law.unknown.insert("shop".to_owned(), "it sleeps".to_owned());
        assert_eq!(law.judge(None, ACT), Ok(Judgement::Allow), "there is no rule");
        law.rules.push(Rule { tool: Pattern::new("x*"), ..rule(Effect::Deny) });
        let denial = law.judge(None, ACT).unwrap_err();
        assert_eq!(denial.code, "CATALOGUE_UNKNOWN");
        assert!(denial.message.ends_with("it sleeps"), "{}", denial.message);
    }

    #[test]
    fn rules_go_by_class_and_by_token() {
        let by_class = Rule { action_class: Some(ActionClass::FileWrite), ..rule(Effect::Approve) };
        let mut law = Law { rules: vec![by_class], ..Law::default() };
        assert_eq!(law.judge(None, ACT), Ok(Judgement::Allow), "it has no class");
        law.classes.insert(key(), ActionClass::RepoOps);
        assert_eq!(law.judge(None, ACT), Ok(Judgement::Allow), "it has another class");
        law.classes.insert(key(), ActionClass::FileWrite);
        assert_eq!(law.judge(None, ACT), Ok(ask(0)));
        law.rules[0].token = Pattern::new("ci");
        assert_eq!(law.judge(None, ACT), Ok(Judgement::Allow));
        let ci = Caller { name: "ci".to_owned(), ..Caller::local() };
        assert_eq!(law.judge(Some(&ci), ACT), Ok(ask(0)));
    }

    #[test]
    fn rules_go_by_what_is_hinted() {
        let asks = |hint: Option<Hint>, name: &str| {
            let annotation = Annotation::ALL.iter().find(|(known, _)| *known == name).unwrap().1;
            let rule = Rule { annotation: Some(annotation), ..rule(Effect::Approve) };
            let mut law = Law { rules: vec![rule], ..Law::default() };
            law.hints.extend(hint.map(|hint| (key(), hint)));
            law.judge(None, ACT) == Ok(ask(0))
        };
        let unknown = ["not_read_only", "destructive", "not_idempotent", "open_world"];
        for (name, _) in Annotation::ALL {
            assert_eq!(asks(None, name), unknown.contains(name), "{name}");
            assert_eq!(asks(Some(Hint::default()), name), unknown.contains(name), "{name}");
        }
        let reads = Hint { read_only: Some(true), ..Hint::default() };
        assert!(asks(Some(reads), "read_only") && !asks(Some(reads), "not_read_only"));
        assert!(asks(Some(reads), "not_destructive"), "what reads only destroys nothing");
        let contradicts = Hint { destructive: Some(true), ..reads };
        assert!(asks(Some(contradicts), "destructive"), "what is said counts");
        let closed = Hint { open_world: Some(false), idempotent: Some(true), ..Hint::default() };
        assert!(asks(Some(closed), "not_open_world") && asks(Some(closed), "idempotent"));
    }
}
