//! Reads the description of a call.

use std::path::Path;

use super::super::Error;
use crate::caller::Caller;
use crate::clock::{Clock, Timestamp};
use crate::files::read_named;
use crate::json::{self, Limits, Object, Value};
use crate::near::likeness;
use crate::policy::history::{PolicyCall, RecordedCaller};
use crate::request::Mode;
use crate::role::Role;
use crate::scope::Scope;

/// Members of a call.
const MEMBERS: [&str; 7] = ["adapter", "tool", "method", "args", "caller", "mode", "now"];
/// Members of a caller.
const CALLER_MEMBERS: [&str; 4] = ["name", "scope", "role", "claims"];
/// Names more alike than this are meant.
const ALIKE: f64 = 0.8;

/// Problem of a call, with its remedy.
struct CallProblem {
    message: String,
    hint: String,
}

/// Reads the file of a call, or standard input.
pub(super) fn read(path: &Path) -> Result<PolicyCall, Error> {
    let shown = path.display();
    let limit = Limits::REQUEST.bytes;
    let bytes = read_named(path, limit).map_err(|error| {
        Error::usage(format!("cannot read {shown}: {error}"), "name a file with a call, or -")
    })?;
    if bytes.len() > limit {
        let message = format!("{shown} is longer than {limit} bytes");
        return Err(Error::usage(message, "shorten the arguments of the call"));
    }
    let value = json::parse(&bytes, Limits::REQUEST).map_err(|error| {
        Error::usage(format!("{shown} is not JSON: {error}"), "write one JSON object")
    })?;
    call(value)
        .map_err(|problem| Error::usage(format!("{shown}: {}", problem.message), problem.hint))
}

fn call(value: Value) -> Result<PolicyCall, CallProblem> {
    let found = value.type_name();
    let Some(mut object) = value.into_object() else {
        return Err(problem(format!("the call is of type {found}"), "write one JSON object"));
    };
    refuse_unknown(&object, &MEMBERS, "")?;
    let mode = match text(&object, "mode")? {
        None => Mode::Apply,
        Some(name) => Mode::from_name(&name)
            .ok_or_else(|| problem(format!("mode is {name:?}"), "write dry_run or apply"))?,
    };
    let at = match text(&object, "now")? {
        None => Clock::System.now(),
        Some(moment) => Timestamp::parse(&moment).ok_or_else(|| {
            problem(format!("now is {moment:?}"), "write a time such as 2026-11-16T08:00:00Z")
        })?,
    };
    let caller = match object.remove("caller") {
        None | Some(Value::Null) => RecordedCaller::Host,
        Some(Value::Object(object)) => RecordedCaller::Known(caller(&object)?),
        Some(other) => return Err(wrong_type("caller", &other, "an object")),
    };
    let args = match object.remove("args") {
        None => Object::new(),
        Some(Value::Object(args)) => args,
        Some(other) => return Err(wrong_type("args", &other, "an object")),
    };
    Ok(PolicyCall {
        run_id: String::new(),
        step_id: String::new(),
        goal: String::new(),
        mode,
        at,
        caller,
        adapter_id: needed(&object, "adapter")?,
        tool: needed(&object, "tool")?,
        method: text(&object, "method")?.unwrap_or_else(|| "call".to_owned()),
        args,
        redacted: false,
    })
}

fn caller(object: &Object) -> Result<Caller, CallProblem> {
    refuse_unknown(object, &CALLER_MEMBERS, "caller.")?;
    let scope = match text(object, "scope")? {
        None => {
            let hint = format!("write {}", names(Scope::ALL.map(Scope::name)));
            return Err(problem("caller.scope is missing".to_owned(), &hint));
        }
        Some(name) => Scope::from_name(&name).ok_or_else(|| {
            let hint = format!("write {}", names(Scope::ALL.map(Scope::name)));
            problem(format!("caller.scope is {name:?}"), &hint)
        })?,
    };
    let role = match text(object, "role")? {
        None => None,
        Some(name) => Some(Role::from_name(&name).ok_or_else(|| {
            let hint = format!("write {}, or leave it out", names(Role::ALL.map(Role::name)));
            problem(format!("caller.role is {name:?}"), &hint)
        })?),
    };
    match object.get("claims") {
        None => {}
        Some(Value::Object(claims)) if claims.is_empty() => {}
        Some(Value::Object(_)) => {
            let hint = "leave it out: callers do not have claims yet";
            return Err(problem("caller.claims is not empty".to_owned(), hint));
        }
        Some(other) => return Err(wrong_type("caller.claims", other, "an object")),
    }
    let name = text(object, "name")?.filter(|name| !name.is_empty()).ok_or_else(|| {
        problem("caller.name is missing".to_owned(), "write the name of the token")
    })?;
    Ok(Caller { name, token_id: None, role, scope })
}

fn refuse_unknown(object: &Object, known: &[&str], place: &str) -> Result<(), CallProblem> {
    let Some(name) = object.keys().find(|name| !known.contains(name)) else { return Ok(()) };
    let nearest = known
        .iter()
        .copied()
        .max_by(|one, other| likeness(name, one).total_cmp(&likeness(name, other)));
    let hint = match nearest.filter(|nearest| likeness(name, nearest) > ALIKE) {
        Some(nearest) => format!("did you mean {place}{nearest}?"),
        None => format!("the members are {}", known.join(", ")),
    };
    Err(problem(format!("{place}{name} is not a member of a call"), &hint))
}

fn text(object: &Object, key: &str) -> Result<Option<String>, CallProblem> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong_type(key, other, "a string")),
    }
}

fn needed(object: &Object, key: &str) -> Result<String, CallProblem> {
    let found = text(object, key)?.filter(|text| !text.is_empty());
    found.ok_or_else(|| problem(format!("{key} is missing"), &format!("write {key} as a string")))
}

fn wrong_type(key: &str, found: &Value, wanted: &str) -> CallProblem {
    problem(format!("{key} is of type {}", found.type_name()), &format!("write {wanted}"))
}

fn names<const N: usize>(names: [&str; N]) -> String {
    names.join(", ")
}

fn problem(message: String, hint: &str) -> CallProblem {
    CallProblem { message, hint: hint.to_owned() }
}
