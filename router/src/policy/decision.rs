//! Recorded form of the policy's decisions: the effect, the rule and the digest of the policy.
//!
//! The texts of rules and of the default are made once for each policy. The text of a denial is made when it is recorded.

use std::sync::{Arc, OnceLock};

use serde_json::Map;

use super::Law;
use crate::config::{Effect, PolicyDefault};
use crate::json::{self, Object};

/// Canonical JSON text of a decision: `{"effect":"allow","policy":"DIGEST","rule":"ID"}`. Without `rule`, the default
/// decides. A denial by something other than rules has `by`, and the rule that would have let the call through.
pub type DecisionText = Arc<str>;

/// Texts of a policy's decisions, made when the first one is recorded. A copy of a policy makes its own.
#[derive(Debug, Default)]
pub struct DecisionTexts(OnceLock<Texts>);

#[derive(Debug)]
struct Texts {
    version: String,
    /// Whether the policy is that of a router without a configuration, which records no decisions.
    is_bare: bool,
    rules: Vec<DecisionText>,
    default: DecisionText,
}

impl Clone for DecisionTexts {
    fn clone(&self) -> Self {
        // The copy may be changed.
        Self::default()
    }
}

impl Law {
    fn texts(&self) -> &Texts {
        self.decisions.0.get_or_init(|| {
            let version = self.version();
            let rules =
                self.rules.iter().enumerate().map(|(index, rule)| {
                    text(rule.effect, &version, (None, Some(&rule.id_at(index))))
                });
            let default = match self.default {
                PolicyDefault::Allow => Effect::Allow,
                PolicyDefault::Deny => Effect::Deny,
            };
            Texts {
                is_bare: version == Self::default().version(),
                rules: rules.collect(),
                default: text(default, &version, (None, None)),
                version,
            }
        })
    }

    /// Returns the version of the law, computed once. The law must not change afterwards.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.texts().version
    }

    /// Returns the text of a decision by a rule, or by the default. None if the law records no decisions.
    pub(crate) fn decision_text(&self, rule: Option<usize>) -> Option<DecisionText> {
        let texts = self.texts();
        if texts.is_bare {
            return None;
        }
        Some(Arc::clone(match rule {
            Some(index) => texts.rules.get(index)?,
            None => &texts.default,
        }))
    }

    /// Returns the text of a denial. Its details name the rule or the other check that denied the call; `rule` is the
    /// one that had let the call through to that check.
    pub(crate) fn denial_text(
        &self,
        details: &Map<String, serde_json::Value>,
        rule: Option<usize>,
    ) -> Option<DecisionText> {
        let Texts { version, is_bare, .. } = self.texts();
        if *is_bare {
            return None;
        }
        let member = |key: &str| details.get(key).and_then(serde_json::Value::as_str);
        let by = member("denied_by").filter(|by| !["rule", "default"].contains(by));
        let passed = rule.and_then(|index| Some(self.rules.get(index)?.id_at(index)));
        Some(text(Effect::Deny, version, (by, passed.as_deref().or(member("rule")))))
    }
}

fn text(effect: Effect, version: &str, (by, rule): (Option<&str>, Option<&str>)) -> DecisionText {
    let mut object = Object::with_capacity(4);
    object.insert("effect", effect.name());
    object.insert("policy", version);
    for (key, value) in [("by", by), ("rule", rule)] {
        if let Some(value) = value {
            object.insert(key, value);
        }
    }
    json::to_canonical(&object.into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rule;

    #[test]
    fn decisions_name_effect_policy_and_rule() {
        let named = Rule { id: Some("no-x".to_owned()), ..Rule::any(Effect::Deny) };
        let law = Law { rules: vec![Rule::any(Effect::Approve), named], ..Law::default() };
        let version = law.version();
        let expect = |rule: Option<usize>, effect: &str, id: &str| {
            let text = law.decision_text(rule).unwrap();
            let expected = format!(r#"{{"effect":"{effect}","policy":"{version}"{id}}}"#);
            assert_eq!(*text, *expected);
        };
        expect(Some(0), "approve", r#","rule":"rule-1""#);
        expect(Some(1), "deny", r#","rule":"no-x""#);
        expect(None, "allow", "");
        let denial = |details: serde_json::Value| {
            law.denial_text(details.as_object().unwrap(), None).unwrap().to_string()
        };
        assert!(denial(serde_json::json!({"denied_by": "rule", "rule": "no-x"})).contains("no-x"));
        assert!(denial(serde_json::json!({"denied_by": "role"})).contains(r#""by":"role""#));
        assert!(!denial(serde_json::json!({"denied_by": "default"})).contains("by"));
        let operator = serde_json::json!({"denied_by": "operator"});
        let passed = law.denial_text(operator.as_object().unwrap(), Some(0)).unwrap();
        let expected =
            format!(r#"{{"by":"operator","effect":"deny","policy":"{version}","rule":"rule-1"}}"#);
        assert_eq!(*passed, *expected);
        assert_eq!(law.digest(), version);
    }

    #[test]
    fn router_without_configuration_records_no_decisions() {
        assert_eq!(Law::default().decision_text(None), None);
        assert_eq!(Law::default().denial_text(&Map::new(), None), None);
        let law = Law::default();
        assert_eq!(law.decision_text(None), None);
        let mut copy = law.clone();
        copy.apply = false;
        assert!(copy.decision_text(None).is_some(), "a copy makes its own texts");
        assert_eq!(law.decision_text(None), None);
    }
}
