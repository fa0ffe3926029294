//! Who is told of the calls that the gate denies in the operator's name.

use std::fmt;
use std::sync::{Arc, OnceLock};

use nexus_router_sdk::AdapterError;

use crate::caller::Caller;
use crate::policy::Act;

/// A call that was denied by a rule, a role or the operator's policy.
#[derive(Clone, Copy, Debug)]
pub struct Denied<'a> {
    /// The stable code.
    pub code: &'static str,
    /// The run.
    pub run_id: &'a str,
    /// Who asked for the run, if that is known.
    pub caller: Option<&'a Caller>,
    /// What was to be called.
    pub act: Act<'a>,
}

type Tell = Box<dyn Fn(Denied<'_>) + Send + Sync>;

/// Is told of denied calls. Cheap to clone; all clones are the same. It knows nobody at first: the router
/// is there before the log that it tells.
#[derive(Clone, Default)]
pub struct Witness(Arc<OnceLock<Tell>>);

impl Witness {
    /// Names who is told from now on. Only the first one counts.
    pub fn tell(&self, tell: impl Fn(Denied<'_>) + Send + Sync + 'static) {
        // A second one would be a mistake of the host, and the first has its reasons.
        drop(self.0.set(Box::new(tell)));
    }

    /// Tells of a call that was not let through, unless that was the caller's own wish or mistake.
    pub(crate) fn see(
        &self,
        error: &AdapterError,
        run_id: &str,
        caller: Option<&Caller>,
        act: Act<'_>,
    ) {
        let by = error.details.get("denied_by").and_then(serde_json::Value::as_str);
        let code = match by {
            Some("role") => "ROLE_REFUSED",
            Some("rule" | "operator") => "PERMISSION_DENIED",
            _ => return,
        };
        if let Some(tell) = self.0.get() {
            tell(Denied { code, run_id, caller, act });
        }
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Witness").field(&self.0.get().is_some()).finish()
    }
}
