//! Operations that callers below admin scope may call, on every path.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nexus_router_sdk::Catalog;

use super::{Act, Denial, Law};
use crate::caller::Caller;
use crate::config::Pattern;
use crate::json::{Object, Value};

/// Everything that is offered: operations by adapter, and the tools that name operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfferedOperations {
    /// Offers by the adapters' ids. An adapter that is not here offers nothing.
    pub adapters: BTreeMap<String, AdapterOffer>,
    /// Tools by the names that callers use.
    pub tools: BTreeMap<String, OfferedTool>,
}

/// Offer of one adapter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdapterOffer {
    /// The state of its catalogue, which decides whether the patterns count.
    pub catalogue: CatalogueState,
    /// Offered operations: methods by tool.
    pub operations: Operations,
    /// Patterns of offered tools. They decide only for adapters without a catalogue.
    pub patterns: Vec<Pattern>,
    /// URIs of offered resources, compared with case.
    pub resources: BTreeSet<String>,
    /// Templates of offered resources, compared with case.
    pub templates: BTreeSet<String>,
    /// Offered prompts, by the adapter's own names.
    pub prompts: BTreeSet<String>,
}

/// Operations of one adapter: methods by tool.
pub type Operations = BTreeMap<String, BTreeSet<String>>;

/// State of an adapter's catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatalogueState {
    /// The adapter has no catalogue.
    #[default]
    Absent,
    /// The router has the catalogue.
    Known,
    /// The adapter has a catalogue, and has not sent it yet.
    Pending,
}

/// Operation behind an offered tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedTool {
    /// The adapter.
    pub adapter_id: String,
    /// The adapter's tool.
    pub tool: String,
    /// The tool's method.
    pub method: String,
    /// The longest time of a call, if the step says none.
    pub timeout: Option<Duration>,
}

/// Offer state of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfferState {
    Offered,
    NotOffered,
    /// A pattern may offer it, once the catalogue is known.
    Undecided,
}

/// Operations that one caller may name.
#[derive(Clone, Copy, Debug)]
pub struct CallerReach<'a>(Option<&'a OfferedOperations>);

impl CallerReach<'_> {
    /// Returns whether an adapter may be named to the caller.
    #[must_use]
    pub fn shows(self, adapter_id: &str) -> bool {
        self.0.is_none_or(|offered| offered.adapters.contains_key(adapter_id))
    }
}

impl Law {
    /// Returns the reach of a caller: everything for administrators, the command line and embedding hosts.
    #[must_use]
    pub fn reach(&self, caller: Option<&Caller>) -> CallerReach<'_> {
        let bounded = caller.is_some_and(|caller| !caller.is_admin());
        CallerReach(self.offered.as_deref().filter(|_| bounded))
    }

    /// Finds the operation that a tool name stands for. The method is that of the operation, or `call`.
    #[must_use]
    pub fn offered_tool(&self, name: &str, method: &str) -> Option<&OfferedTool> {
        let tool = self.offered.as_deref()?.tools.get(name)?;
        (method == "call" || method == tool.method).then_some(tool)
    }

    /// Denies calls of operations that are not offered to their caller.
    ///
    /// # Errors
    /// With the denial.
    pub fn judge_by_offer(
        &self,
        caller: Option<&Caller>,
        act: Act<'_>,
        args: &Object,
    ) -> Result<(), Denial> {
        let CallerReach(Some(offered)) = self.reach(caller) else { return Ok(()) };
        let Act { adapter_id, tool, method } = act;
        let mut details = Object::new();
        match offered.state(act, args) {
            OfferState::Offered => Ok(()),
            OfferState::Undecided => {
                let why = self.unknown.get(adapter_id).map_or("no answer", String::as_str);
                let message = format!(
                    "adapter '{adapter_id}' has not sent its catalogue, so {tool}.{method} is not offered yet: {why}"
                );
                details.insert("denied_by", "operator");
                Err(Denial { code: "CATALOGUE_UNKNOWN", message, details })
            }
            OfferState::NotOffered => {
                let message = format!("{tool}.{method} of adapter '{adapter_id}' is not offered");
                details.insert("denied_by", "offer");
                Err(Denial { code: "NOT_OFFERED", message, details })
            }
        }
    }
}

impl OfferedOperations {
    fn state(&self, act: Act<'_>, args: &Object) -> OfferState {
        let Some(offer) = self.adapters.get(act.adapter_id) else { return OfferState::NotOffered };
        if contains(&offer.operations, act) {
            return OfferState::Offered;
        }
        let fits = || offer.patterns.iter().any(|pattern| pattern.matches_name(act.tool));
        match offer.catalogue {
            CatalogueState::Absent if fits() => OfferState::Offered,
            CatalogueState::Pending if fits() => OfferState::Undecided,
            CatalogueState::Known if offer.has_resource_or_prompt(act, args) => OfferState::Offered,
            _ => OfferState::NotOffered,
        }
    }
}

impl AdapterOffer {
    /// Returns whether the offer has nothing that a caller could use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let tools = !self.operations.is_empty()
            || self.catalogue != CatalogueState::Known && !self.patterns.is_empty();
        let others = [&self.resources, &self.templates, &self.prompts];
        !tools && others.iter().all(|names| names.is_empty())
    }

    /// Returns whether a call reads, follows, gets or completes something that is offered.
    fn has_resource_or_prompt(&self, act: Act<'_>, args: &Object) -> bool {
        let text = |object: &Object, key: &str| -> Option<String> {
            object.get(key).and_then(Value::as_str).map(str::to_owned)
        };
        let resource = |uri: &String| {
            self.resources.contains(uri)
                || self.templates.contains(uri)
                || self.templates.iter().any(|template| template_fits(template, uri))
        };
        let prompt = |name: &String| self.prompts.contains(name);
        match (act.tool, act.method) {
            Catalog::READ | Catalog::SUBSCRIBE | Catalog::UNSUBSCRIBE => {
                text(args, "uri").is_some_and(|uri| resource(&uri))
            }
            Catalog::PROMPT => text(args, "name").is_some_and(|name| prompt(&name)),
            Catalog::COMPLETE => {
                let reference = args.get("ref").and_then(Value::as_object);
                reference.is_some_and(|reference| {
                    text(reference, "uri").is_some_and(|uri| resource(&uri))
                        || text(reference, "name").is_some_and(|name| prompt(&name))
                })
            }
            _ => false,
        }
    }
}

/// Returns whether operations contain the one of a call.
pub(super) fn contains(operations: &Operations, act: Act<'_>) -> bool {
    operations.get(act.tool).is_some_and(|methods| methods.contains(act.method))
}

/// Returns whether a URI may come of a template: its literal parts stand in order, and every expression in
/// between takes at least one character. The adapter itself knows better; this only finds the adapter.
pub(crate) fn template_fits(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut parts = template.split('{');
    let Some(after) = parts.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = after;
    for part in parts {
        let Some((_, literal)) = part.split_once('}') else { return false };
        if literal.is_empty() {
            // The next expression begins at once, or the template ends.
            if rest.is_empty() {
                return false;
            }
            continue;
        }
        let at = rest.char_indices().skip(1).find(|(at, _)| rest[*at..].starts_with(literal));
        let Some((at, _)) = at else { return false };
        rest = &rest[at + literal.len()..];
    }
    template.ends_with('}') || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::json::{Limits, parse};

    const ACT: Act<'_> = Act { adapter_id: "files", tool: "read_file", method: "call" };

    fn offer(catalogue: CatalogueState) -> AdapterOffer {
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        AdapterOffer {
            catalogue,
            operations: Operations::from([("read_file".to_owned(), set("call"))]),
            patterns: vec![Pattern::new("List_*").unwrap()],
            resources: set("file:///a"),
            templates: set("note://{id}"),
            prompts: set("greet"),
        }
    }

    fn law(catalogue: CatalogueState) -> Law {
        let adapters = BTreeMap::from([("files".to_owned(), offer(catalogue))]);
        let offered = Some(Arc::new(OfferedOperations { adapters, ..Default::default() }));
        Law { offered, ..Law::default() }
    }

    fn caller() -> Caller {
        let mut recorded = Caller::local().to_json();
        recorded.insert("scope", "apply");
        Caller::read(&recorded).unwrap()
    }

    fn code(law: &Law, act: Act<'_>, args: &str) -> &'static str {
        let args = parse(args.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap();
        assert_eq!(law.judge_by_offer(None, act, &args), Ok(()), "the host has every operation");
        let admin = Caller::local();
        assert_eq!(law.judge_by_offer(Some(&admin), act, &args), Ok(()), "so has an administrator");
        let denial = law.judge_by_offer(Some(&caller()), act, &args).err();
        denial.map_or("offered", |denial| denial.code)
    }

    #[test]
    fn only_offered_operations_reach_callers_below_admin() {
        for catalogue in [CatalogueState::Absent, CatalogueState::Known, CatalogueState::Pending] {
            let law = law(catalogue);
            assert_eq!(code(&law, ACT, "{}"), "offered");
            let others = [
                Act { tool: "move_file", ..ACT },
                Act { tool: "READ_FILE", ..ACT },
                Act { method: "other", ..ACT },
                Act { adapter_id: "mail", ..ACT },
            ];
            for other in others {
                assert_eq!(code(&law, other, "{}"), "NOT_OFFERED", "{catalogue:?} {other:?}");
            }
        }
        assert_eq!(code(&Law::default(), Act { adapter_id: "mail", ..ACT }, "{}"), "offered");
    }

    #[test]
    fn patterns_decide_for_adapters_without_a_catalogue() {
        let act = Act { tool: "list_all", method: "any", ..ACT };
        for (catalogue, expected) in [
            (CatalogueState::Absent, "offered"),
            (CatalogueState::Known, "NOT_OFFERED"),
            (CatalogueState::Pending, "CATALOGUE_UNKNOWN"),
        ] {
            assert_eq!(code(&law(catalogue), act, "{}"), expected, "{catalogue:?}");
        }
    }

    #[test]
    fn resources_and_prompts_are_offered_one_by_one() {
        let law = law(CatalogueState::Known);
        for ((tool, method), args, expected) in [
            (Catalog::READ, r#"{"uri":"file:///a"}"#, "offered"),
            (Catalog::READ, r#"{"uri":"note://7"}"#, "offered"),
            (Catalog::READ, r#"{"uri":"file:///b"}"#, "NOT_OFFERED"),
            (Catalog::READ, "{}", "NOT_OFFERED"),
            (Catalog::SUBSCRIBE, r#"{"uri":"file:///a"}"#, "offered"),
            (Catalog::UNSUBSCRIBE, r#"{"uri":"file:///b"}"#, "NOT_OFFERED"),
            (Catalog::PROMPT, r#"{"name":"greet"}"#, "offered"),
            (Catalog::PROMPT, r#"{"name":"other"}"#, "NOT_OFFERED"),
            (Catalog::COMPLETE, r#"{"ref":{"name":"greet"}}"#, "offered"),
            (Catalog::COMPLETE, r#"{"ref":{"uri":"note://{id}"}}"#, "offered"),
            (Catalog::COMPLETE, r#"{"ref":{"name":"other"}}"#, "NOT_OFFERED"),
        ] {
            let act = Act { tool, method, ..ACT };
            assert_eq!(code(&law, act, args), expected, "{tool}.{method} {args}");
        }
        assert!(!offer(CatalogueState::Known).is_empty() && AdapterOffer::default().is_empty());
    }

    #[test]
    fn templates_find_their_uris() {
        for (template, uri, expected) in [
            ("test://template/{id}/data", "test://template/123/data", true),
            ("test://template/{id}/data", "test://template//data", false),
            ("test://template/{id}/data", "test://template/123/other", false),
            ("test://template/{id}/data", "test://template/123/data/more", false),
            ("file:///{+path}", "file:///a/b", true),
            ("file:///{+path}", "file:///", false),
            ("a{b}{c}d", "axxd", true),
            ("plain", "plain", true),
            ("plain", "plain2", false),
            ("broken{", "brokenx", false),
            ("é{x}", "éé", true),
        ] {
            assert_eq!(template_fits(template, uri), expected, "{template} {uri}");
        }
    }
}
