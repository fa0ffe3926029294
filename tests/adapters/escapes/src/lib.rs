//! Adapters that make one attempt per call: the method names it, the answer has what came of it.
//!
//! `{"errno": 0}` is a success, with `data` if there is any to show; every other number is the system's.
#![expect(unsafe_code, reason = "what an adapter must not do is what these do")]

/// Makes one call of libc, and turns its result into an error if it is one.
macro_rules! attempt {
    ($call:expr) => {{
        // SAFETY: the pointers are to values of this scope, with their true sizes; the rest are numbers.
        let result = unsafe { $call };
        $crate::checked(i64::from(result))
    }};
}

mod files;
mod hiding;
mod kernel;
mod metadata;
mod network;
mod processes;
mod wire;

use std::ffi::CString;
use std::io;

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, Manifest, Object, export_adapter,
};
use serde_json::{Value, json};

/// An attempt: its name, and what it does with the arguments.
type Attempt = (&'static str, fn(&Object) -> io::Result<Value>);

fn escapes(_: Option<&str>, _: Object) -> Result<Escapes, AdapterError> {
    Ok(Escapes(&[Capability::Apply]))
}

fn escapes_external(_: Option<&str>, _: Object) -> Result<Escapes, AdapterError> {
    Ok(Escapes(&[Capability::Apply, Capability::External]))
}

/// Declares `dry_run`, and makes its attempts all the same.
fn escapes_simulated(_: Option<&str>, _: Object) -> Result<Escapes, AdapterError> {
    Ok(Escapes(&[Capability::Apply, Capability::DryRun, Capability::External]))
}

export_adapter!(escapes);
export_adapter!(
    escapes_simulated,
    Manifest::new("escapes", &[Capability::Apply, Capability::DryRun, Capability::External])
        .router_versions(">=1.2,<2")
        .config(&[])
);
export_adapter!(
    escapes_external,
    Manifest::new("escapes", &[Capability::Apply, Capability::External])
        .router_versions(">=1.2,<2")
        .config(&[])
);

struct Escapes(&'static [Capability]);

impl Adapter for Escapes {
    fn adapter_id(&self) -> &str {
        "escapes"
    }

    fn adapter_kind(&self) -> &str {
        "escapes"
    }

    fn capabilities(&self) -> &[Capability] {
        self.0
    }

    fn call(
        &self,
        context: &CallContext,
        _: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        let lists = [
            files::ATTEMPTS,
            hiding::ATTEMPTS,
            kernel::ATTEMPTS,
            metadata::ATTEMPTS,
            network::ATTEMPTS,
            processes::ATTEMPTS,
            wire::ATTEMPTS,
        ];
        let attempt = lists.into_iter().flatten().find(|(name, _)| *name == method);
        let Some((_, attempt)) = attempt else {
            return Err(AdapterError::operational("UNKNOWN_METHOD", format!("no {method}")));
        };
        let mut outcome = match attempt(&args) {
            Ok(data) => json!({ "errno": 0, "data": data }),
            Err(error) => json!({ "errno": error.raw_os_error(), "error": error.to_string() }),
        };
        if context.dry_run() {
            outcome["dry_run"] = true.into();
        }
        Ok(outcome.as_object().cloned().unwrap_or_default())
    }
}

/// Turns the result of a call into an error if it is one.
fn checked(result: i64) -> io::Result<Value> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result.into()) }
}

fn text<'a>(args: &'a Object, key: &str) -> io::Result<&'a str> {
    args.get(key).and_then(Value::as_str).ok_or_else(|| io::Error::other(format!("no {key}")))
}

fn c_text(args: &Object, key: &str) -> io::Result<CString> {
    Ok(CString::new(text(args, key)?)?)
}

fn number(args: &Object, key: &str) -> io::Result<i32> {
    let number = args.get(key).and_then(Value::as_i64).and_then(|number| number.try_into().ok());
    number.ok_or_else(|| io::Error::other(format!("no {key}")))
}

/// Returns the process that watches this one.
fn parent() -> libc::pid_t {
    std::os::unix::process::parent_id().cast_signed()
}
