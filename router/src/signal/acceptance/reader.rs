//! Reads acceptance policies, with every mistake at once.

use super::{AcceptancePolicy, Action, Condition, Op, Rule};
use crate::digest::Digest;
use crate::json::{self, Limits, Object, Value, to_canonical, to_repr};
use crate::signal::lint::Finding;
use crate::signal::pattern::is_snake_case;

/// The largest policy, and the most that is in it.
const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 32, values: 50_000 };
/// The most rules, and the most conditions of each: more is a program, and takes time with every call.
const MAX_RULES: usize = 1000;
const MAX_CONDITIONS: usize = 100;

const MEMBERS: [&str; 5] =
    ["policy_id", "policy_version", "description", "default_action", "rules"];
const RULE_MEMBERS: [&str; 4] = ["name", "description", "conditions", "action"];
const CONDITION_MEMBERS: [&str; 3] = ["field", "op", "value"];

impl AcceptancePolicy {
    /// Returns how many bytes of a file are read, so that one that is too large is seen to be.
    pub const MAX_BYTES: usize = LIMITS.bytes;

    /// Reads the text of a policy.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn read(text: &[u8]) -> Result<Self, Vec<Finding>> {
        let value = json::parse(text, LIMITS).map_err(|error| {
            vec![Finding::error(error.pointer(), format!("{}: {error}", error.code()))]
        })?;
        Self::of(&value)
    }

    /// Takes a policy.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn of(value: &Value) -> Result<Self, Vec<Finding>> {
        let Some(policy) = value.as_object() else {
            return Err(vec![Finding::error("", "the policy is not a JSON object")]);
        };
        let mut reader = Reader::default();
        reader.members("", policy, &MEMBERS);
        let (policy_id, policy_version) =
            (reader.text("", policy, "policy_id"), reader.text("", policy, "policy_version"));
        let default_action = match policy.get("default_action") {
            None => Action::RequireReview,
            Some(given) => reader.default_action(given),
        };
        let given = match policy.get("rules") {
            Some(Value::Array(rules)) => rules.as_slice(),
            None => &[],
            Some(_) => {
                reader.wrong("/rules", "rules must be a list");
                &[]
            }
        };
        if given.len() > MAX_RULES {
            reader.wrong("/rules", format!("there are more than {MAX_RULES} rules"));
        }
        let rules: Vec<Rule> = given
            .iter()
            .take(MAX_RULES)
            .enumerate()
            .filter_map(|(at, rule)| reader.rule(&format!("/rules/{at}"), rule))
            .collect();
        if !reader.findings.is_empty() {
            return Err(reader.findings);
        }
        let mut hashed = Object::with_capacity(2);
        hashed.insert("default", default_action.name());
        hashed.insert("rules", given.to_vec());
        let policy_hash = Digest::of(to_canonical(&hashed.into()).as_bytes()).to_string();
        Ok(Self { policy_id, policy_version, default_action, rules, policy_hash })
    }
}

#[derive(Default)]
struct Reader {
    findings: Vec<Finding>,
}

impl Reader {
    fn wrong(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Finding::error(pointer, message));
    }

    /// Refuses members that nobody knows: a misspelt condition must not be one that is left out.
    fn members(&mut self, pointer: &str, object: &Object, known: &[&str]) {
        for key in object.keys().filter(|key| !key.starts_with('_') && !known.contains(key)) {
            let message = format!("unknown member {}; known are {known:?}", to_repr(&key.into()));
            self.wrong(pointer, message);
        }
    }

    fn text(&mut self, pointer: &str, object: &Object, key: &str) -> Option<String> {
        let value = object.get(key)?;
        if value.as_str().is_none() {
            self.wrong(format!("{pointer}/{key}"), format!("{key} must be a text"));
        }
        value.as_str().map(str::to_owned)
    }

    fn action(&mut self, pointer: &str, given: &Value) -> Option<Action> {
        let action = given.as_str().and_then(Action::from_name);
        if action.is_none() {
            let known = Action::ALL.map(Action::name).join(", ");
            self.wrong(pointer, format!("unknown action {}; known are {known}", shortened(given)));
        }
        action
    }

    fn default_action(&mut self, given: &Value) -> Action {
        let pointer = "/default_action";
        match self.action(pointer, given) {
            Some(Action::AutoAccept) => {
                let message = "default_action must not be auto_accept: what no rule knows would be accepted; \
                               write require_review, and a rule for what is to be accepted";
                self.wrong(pointer, message);
                Action::RequireReview
            }
            Some(action) => action,
            None => Action::RequireReview,
        }
    }

    fn rule(&mut self, pointer: &str, given: &Value) -> Option<Rule> {
        let Some(rule) = given.as_object() else {
            self.wrong(pointer, "a rule must be an object");
            return None;
        };
        self.members(pointer, rule, &RULE_MEMBERS);
        let name = self.text(pointer, rule, "name");
        let action = match rule.get("action") {
            Some(given) => self.action(&format!("{pointer}/action"), given),
            None => {
                self.wrong(pointer, "a rule must have an action");
                None
            }
        };
        let Some(Value::Array(given)) = rule.get("conditions") else {
            self.wrong(format!("{pointer}/conditions"), "a rule must have a list of conditions");
            return None;
        };
        if given.is_empty() && action == Some(Action::AutoAccept) {
            let message = "a rule without a condition accepts everything; name what must hold";
            self.wrong(format!("{pointer}/conditions"), message);
        }
        if given.len() > MAX_CONDITIONS {
            let message = format!("there are more than {MAX_CONDITIONS} conditions");
            self.wrong(format!("{pointer}/conditions"), message);
        }
        let conditions: Vec<Condition> = given
            .iter()
            .take(MAX_CONDITIONS)
            .enumerate()
            .filter_map(|(at, one)| self.condition(&format!("{pointer}/conditions/{at}"), one))
            .collect();
        Some(Rule { name, conditions, action: action?, document: rule.clone() })
    }

    fn condition(&mut self, pointer: &str, given: &Value) -> Option<Condition> {
        let Some(condition) = given.as_object() else {
            self.wrong(pointer, "a condition must be an object");
            return None;
        };
        self.members(pointer, condition, &CONDITION_MEMBERS);
        let field = condition.get("field").and_then(Value::as_str).filter(|it| is_snake_case(it));
        if field.is_none() {
            self.wrong(format!("{pointer}/field"), "field must be the snake_case name of a field");
        }
        let name = condition.get("op").unwrap_or(&Value::Null);
        let op = Op::ALL.iter().find(|(known, _)| name.as_str() == Some(known));
        let Some((_, op)) = op else {
            let known = Op::ALL.map(|(known, _)| known).join(" ");
            let message = format!("unknown op {}; known are {known}", shortened(name));
            self.wrong(format!("{pointer}/op"), message);
            return None;
        };
        let value = condition.get("value").unwrap_or(&Value::Null);
        let scalar =
            |value: &Value| !matches!(value, Value::Null | Value::Array(_) | Value::Object(_));
        let fits = match (op, value) {
            (Op::In, Value::Array(choices)) => !choices.is_empty() && choices.iter().all(scalar),
            (Op::In, _) => false,
            (op, value) if op.orders() => scalar(value) && value.as_bool().is_none(),
            (_, value) => scalar(value),
        };
        if !fits {
            let wanted = match op {
                Op::In => "a list of texts, numbers, true or false that is not empty",
                op if op.orders() => "a text or a number",
                _ => "a text, a number, true or false",
            };
            self.wrong(format!("{pointer}/value"), format!("{} needs {wanted}", op.name()));
        }
        Some(Condition { field: field?.to_owned(), op: *op, value: value.clone() })
    }
}

fn shortened(value: &Value) -> String {
    let text = to_repr(value);
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
