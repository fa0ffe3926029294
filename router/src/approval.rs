//! Approvals: what a person is asked about a call, and what the answer was.

use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::json::{self, Object, Value};

/// How a question was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Decision {
    /// Somebody said yes.
    Approved,
    /// Somebody said no.
    Denied,
    /// Nobody said anything in time.
    Expired,
    /// The run ended before anybody said anything.
    Void,
}

impl Decision {
    /// Every decision.
    pub const ALL: [Self; 4] = [Self::Approved, Self::Denied, Self::Expired, Self::Void];

    /// Returns the name in events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Void => "void",
        }
    }

    /// Finds a decision by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|decision| decision.name() == name)
    }
}

/// A decision, with who made it and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// How it was settled.
    pub decision: Decision,
    /// Who settled it; nobody, if it expired.
    pub by: Option<String>,
    /// Why, in their words.
    pub reason: Option<String>,
    /// When.
    pub at: String,
}

/// A question about one call of one run, bound to exactly this call, and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// Its id.
    pub approval_id: String,
    /// The run that waits, or did.
    pub run_id: String,
    /// The step.
    pub step_id: String,
    /// The adapter that is to be called.
    pub adapter_id: String,
    /// Tool, method and arguments as recorded.
    pub call: Object,
    /// What the plan grants to the step beyond its role.
    pub grants: Vec<Value>,
    /// The digest of the recorded arguments, of the grants, and of the keyed digest of the original arguments.
    pub args_digest: String,
    /// The version of the law that asks.
    pub policy_version: String,
    /// The id of the rule of that law.
    pub rule: String,
    /// Why it is asked, in the operator's words.
    pub asked_because: Option<String>,
    /// Who wants the call made, if that is known.
    pub caller: Option<Caller>,
    /// When it was asked.
    pub requested_at: String,
    /// Until when it may be answered, and the answer be used.
    pub expires_at: String,
    /// For how long the run had been under way.
    pub under_way_ms: u64,
    /// The answer.
    pub ruling: Option<Ruling>,
}

/// Keyed digests of the arguments that a caller gave. Only the store that records the approval can make them, so nobody
/// can guess a short secret from one.
pub trait ArgumentKey: std::fmt::Debug + Sync {
    /// Returns the keyed digest of the parts.
    ///
    /// # Errors
    /// When the key cannot be read.
    fn keyed_digest(&self, parts: &[&[u8]]) -> Result<Digest, String>;
}

/// Returns the keyed digest of the arguments and the interaction of a call as its caller gave them.
///
/// # Errors
/// When the key cannot be read.
pub fn original_digest(
    key: &dyn ArgumentKey,
    args: &Object,
    interaction: Option<&Object>,
) -> Result<Digest, String> {
    let (args, more) = (canonical(args), interaction.map(canonical).unwrap_or_default());
    key.keyed_digest(&[args.as_bytes(), more.as_bytes()])
}

/// Returns the keyed digest of a whole step that redaction changed, as its caller gave it.
///
/// # Errors
/// When the key cannot be read.
pub fn original_step_digest(key: &dyn ArgumentKey, step: &Object) -> Result<Digest, String> {
    key.keyed_digest(&[b"step", canonical(step).as_bytes(), b""])
}

/// Returns the digest that binds an approval to one call. It covers the arguments and the interaction as recorded, the
/// grants of the plan, and the keyed digest of the original arguments. Calls that only redaction makes equal differ.
#[must_use]
pub fn args_digest(
    args: &Object,
    interaction: Option<&Object>,
    grants: &[Value],
    original: Digest,
) -> Digest {
    let (args, more) = (canonical(args), interaction.map(canonical).unwrap_or_default());
    let grants = json::to_canonical(&grants.to_vec().into());
    let original = original.to_string();
    Digest::of_parts(&[
        b"nexus-router approval arguments 2",
        args.as_bytes(),
        more.as_bytes(),
        grants.as_bytes(),
        original.as_bytes(),
    ])
}

fn canonical(object: &Object) -> String {
    let mut text = String::new();
    json::write_canonical_object(&mut text, object);
    text
}

/// Says in words what a plan grants to a step. Nothing is left out: what is not known is told as it is written.
#[must_use]
pub fn told_grants(grants: &[Value]) -> String {
    let told = |grant: &Value| {
        let Some(name) = grant.get("grant").and_then(Value::as_str) else {
            return json::to_compact(grant);
        };
        let targets = grant.get("targets").and_then(Value::as_array).unwrap_or_default();
        let targets: Vec<&str> = targets.iter().filter_map(Value::as_str).collect();
        if targets.is_empty() {
            name.to_owned()
        } else {
            format!("{name} to {}", targets.join(", "))
        }
    };
    grants.iter().map(told).collect::<Vec<_>>().join("; ")
}

impl Approval {
    /// Reads what `APPROVAL_REQUESTED` says. A caller, or grants, that cannot be read must not be taken for none.
    #[must_use]
    pub fn read(run_id: &str, requested_at: &str, payload: &Object) -> Option<Self> {
        let text = |key: &str| payload.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| {
            payload.get(key).and_then(Value::as_i64).and_then(|it| u64::try_from(it).ok())
        };
        let caller = match payload.get("caller") {
            None => None,
            Some(caller) => Some(Caller::read(caller.as_object()?)?),
        };
        let grants = match payload.get("grants") {
            None => Vec::new(),
            Some(grants) => grants.as_array()?.to_vec(),
        };
        Some(Self {
            approval_id: text("approval_id")?,
            run_id: run_id.to_owned(),
            step_id: text("step_id")?,
            adapter_id: text("adapter_id")?,
            call: payload.get("call")?.as_object()?.clone(),
            grants,
            args_digest: text("args_digest")?,
            policy_version: text("policy_version")?,
            // Older versions recorded the index.
            rule: text("rule").or_else(|| Some(format!("rule-{}", number("rule")? + 1)))?,
            asked_because: text("reason"),
            caller,
            requested_at: requested_at.to_owned(),
            expires_at: text("expires_at")?,
            under_way_ms: number("under_way_ms").unwrap_or_default(),
            ruling: None,
        })
    }

    /// Returns the tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.call.get("tool").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.call.get("method").and_then(Value::as_str).unwrap_or_default()
    }

    /// Says whether its time was over at a moment. One whose time cannot be read has none.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        Timestamp::parse(&self.expires_at).is_none_or(|end| end <= now)
    }

    /// Returns `open`, or how it was settled.
    #[must_use]
    pub fn state(&self) -> &'static str {
        self.ruling.as_ref().map_or("open", |ruling| ruling.decision.name())
    }

    /// Returns the form that callers get.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Object::new();
        object.insert("approval_id", self.approval_id.as_str());
        object.insert("state", self.state());
        object.insert("run_id", self.run_id.as_str());
        object.insert("step_id", self.step_id.as_str());
        object.insert("adapter_id", self.adapter_id.as_str());
        object.insert("call", self.call.clone());
        object.insert("grants", self.grants.clone());
        object.insert("args_digest", self.args_digest.as_str());
        object.insert("policy_version", self.policy_version.as_str());
        object.insert("rule", self.rule.as_str());
        object.insert("reason", self.asked_because.as_deref());
        let caller = self.caller.as_ref();
        object.insert("caller", caller.map_or(Value::Null, |caller| caller.to_json().into()));
        object.insert("requested_at", self.requested_at.as_str());
        object.insert("expires_at", self.expires_at.as_str());
        object.insert("decided", self.ruling.as_ref().map_or(Value::Null, Ruling::to_json));
        object.into()
    }
}

impl Ruling {
    fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(4);
        object.insert("decision", self.decision.name());
        object.insert("by", self.by.as_deref());
        object.insert("reason", self.reason.as_deref());
        object.insert("at", self.at.as_str());
        object.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    fn object(text: &str) -> Object {
        parse(text.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap()
    }

    fn list(text: &str) -> Vec<Value> {
        parse(text.as_bytes(), Limits::REQUEST).unwrap().as_array().unwrap().to_vec()
    }

    fn digest_of(args: &str, interaction: Option<&Object>, grants: &str) -> Digest {
        args_digest(&object(args), interaction, &list(grants), Digest::of(b"original"))
    }

    #[test]
    fn digest_covers_arguments_in_any_order() {
        let one = digest_of(r#"{"a":1,"b":[2]}"#, None, "[]");
        assert_eq!(one, digest_of(r#"{"b":[2],"a":1}"#, None, "[]"));
        assert_ne!(one, digest_of(r#"{"a":1,"b":[3]}"#, None, "[]"));
        let answered = object(r#"{"inputs":{}}"#);
        assert_ne!(one, digest_of(r#"{"a":1,"b":[2]}"#, Some(&answered), "[]"));
        assert_ne!(one, Digest::of(br#"{"a":1,"b":[2]}"#));
    }

    #[test]
    fn digest_covers_grants() {
        let digests = [
            "[]",
            r#"[{"grant":"shell_exec"}]"#,
            r#"[{"grant":"network","targets":["a:1"]}]"#,
            r#"[{"grant":"network","targets":["a:1","b:2"]}]"#,
        ]
        .map(|text| digest_of(r#"{"a":1}"#, None, text).to_string());
        let different: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(different.len(), digests.len(), "{digests:?}");
    }

    #[test]
    fn grants_are_told_in_full() {
        let told = |text: &str| told_grants(&list(text));
        assert_eq!(told("[]"), "");
        let both = r#"[{"grant":"shell_exec"},{"grant":"network","targets":["a:1","b:2"]}]"#;
        assert_eq!(told(both), "shell_exec; network to a:1, b:2");
        assert_eq!(told(r#"[{"strange":1}]"#), r#"{"strange":1}"#);
    }

    #[test]
    fn what_is_recorded_is_read_back_and_a_strange_caller_is_not_nobody() {
        let payload = r#"{"adapter_id":"shop","approval_id":"x","args_digest":"d","call":{"args":{},
            "method":"buy","tool":"orders"},"caller":{"name":"ci"},"expires_at":"2026-11-16T00:00:00.000Z",
            "policy_version":"v","reason":"why","rule":2,"step_id":"s","under_way_ms":7}"#;
        let mut payload = object(payload);
        let approval = Approval::read("r", "t", &payload).unwrap();
        assert_eq!(
            (approval.tool(), approval.method(), approval.rule.as_str()),
            ("orders", "buy", "rule-3")
        );
        assert_eq!(approval.caller.as_ref().unwrap().name, "ci");
        assert_eq!((approval.state(), approval.under_way_ms), ("open", 7));
        let end = Timestamp::parse(&approval.expires_at).unwrap();
        assert!(approval.is_expired(end));
        assert!(!approval.is_expired(Timestamp::from_millis(end.as_millis() - 1)));
        assert!(Approval { expires_at: "soon".to_owned(), ..approval.clone() }.is_expired(end));
        assert_eq!(approval.grants, []);
        payload.insert("grants", list(r#"[{"grant":"shell_exec"}]"#));
        let granted = Approval::read("r", "t", &payload).unwrap();
        assert_eq!(granted.grants, list(r#"[{"grant":"shell_exec"}]"#));
        assert_eq!(granted.to_json().get("grants").unwrap().as_array(), Some(&granted.grants[..]));
        payload.insert("grants", "all");
        assert_eq!(Approval::read("r", "t", &payload), None);
        payload.insert("grants", Vec::new());
        payload.insert("caller", object(r#"{"name":"ci","role":"king"}"#));
        assert_eq!(Approval::read("r", "t", &payload), None);
    }
}
