//! Who is told of the calls that the gate denies in the operator's name, and of what people decide.

use std::fmt;
use std::sync::{Arc, OnceLock};

use nexus_router_sdk::AdapterError;

use crate::approval::Approval;
use crate::caller::{Caller, Revocation};
use crate::policy::{Act, Law};
use crate::secret;

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
type Hear = Box<dyn Fn(&Approval) + Send + Sync>;

/// Is told of denied calls and of decisions. Cheap to clone; all clones are the same. It knows nobody at first:
/// the router is there before the log that it tells.
#[derive(Clone, Default)]
pub struct Witness {
    denials: Arc<OnceLock<Tell>>,
    decisions: Arc<OnceLock<Hear>>,
}

impl Witness {
    /// Names who is told from now on. Only the first one counts.
    pub fn tell(&self, tell: impl Fn(Denied<'_>) + Send + Sync + 'static) {
        // A second one would be a mistake of the host, and the first has its reasons.
        drop(self.denials.set(Box::new(tell)));
    }

    /// Names who is told of every approval that is decided from now on. Only the first one counts.
    pub fn hear(&self, hear: impl Fn(&Approval) + Send + Sync + 'static) {
        drop(self.decisions.set(Box::new(hear)));
    }

    /// Tells of an approval that was decided.
    pub(crate) fn decided(&self, approval: &Approval) {
        if let Some(hear) = self.decisions.get() {
            hear(approval);
        }
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
            Some("token") => Revocation::CODE,
            Some("offer") => "NOT_OFFERED",
            Some("catalogue" | "name") if error.code == Law::NAME_INVALID => Law::NAME_INVALID,
            Some("catalogue" | "name") => Law::UNKNOWN_OPERATION,
            Some("rule") if error.code == Law::CONDITION_FAILED => Law::CONDITION_FAILED,
            Some("rule" | "default" | "operator") => "PERMISSION_DENIED",
            Some("secrets") if error.code == secret::Error::NOT_BOUND => secret::Error::NOT_BOUND,
            _ => return,
        };
        if let Some(tell) = self.denials.get() {
            tell(Denied { code, run_id, caller, act });
        }
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = [self.denials.get().is_some(), self.decisions.get().is_some()];
        f.debug_tuple("Witness").field(&told).finish()
    }
}
