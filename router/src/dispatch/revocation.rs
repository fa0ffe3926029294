//! Revocation: the caller of a run is checked again before each step.

use std::sync::Arc;

use nexus_router_sdk::AdapterError;

use super::{Execution, Surroundings};
use crate::caller::{Caller, CheckedCaller, Revocation};
use crate::event::Failure;
use crate::request::Mode;
use crate::scope::Scope;

/// State of the caller of a run.
#[derive(Debug, Default)]
pub(super) struct CallerState {
    checked: CheckedCaller,
    /// Set once: a run of a revoked caller ends.
    revoked: Option<Revocation>,
}

impl Execution {
    /// Checks the caller. A changed role or scope applies from here on.
    ///
    /// # Errors
    /// When the token of the caller is no longer valid, or its scope does not include the mode of the run.
    pub(super) fn check_caller(&mut self, around: &Surroundings) -> Result<(), Revocation> {
        if let Some(revoked) = &self.caller_state.revoked {
            return Err(revoked.clone());
        }
        let Some(caller) = &self.origin.caller else { return Ok(()) };
        let recorder = &self.recorder;
        let checked =
            self.caller_state.checked.update(&around.caller_check, caller, || recorder.now());
        let checked = checked.and_then(|changed| match changed {
            Some(caller) => reaching(caller, self.mode).map(Some),
            None => Ok(None),
        });
        match checked {
            Ok(None) => Ok(()),
            Ok(Some(caller)) => {
                self.origin.caller = Some(Arc::new(caller));
                Ok(())
            }
            Err(revocation) => {
                self.revoke(revocation.clone());
                Err(revocation)
            }
        }
    }

    /// Ends the run before its next step.
    pub(super) fn revoke(&mut self, revocation: Revocation) {
        let run_id = &self.recorder.header().run_id;
        tracing::info!(run_id, reason = revocation.message, "the caller of a run was revoked");
        self.caller_state.revoked = Some(revocation);
    }

    /// Returns the failure of a run whose caller was revoked while a step was open.
    pub(super) fn revoked(&self) -> Option<Failure> {
        self.caller_state.revoked.as_ref().map(failure)
    }
}

/// Rejects a caller whose scope does not include the mode of its run any more.
pub(super) fn reaching(caller: Caller, mode: Mode) -> Result<Caller, Revocation> {
    let needed = match mode {
        Mode::Apply => Scope::Apply,
        Mode::DryRun => Scope::Run,
    };
    if caller.scope.includes(needed) {
        return Ok(caller);
    }
    let Caller { name, scope, .. } = caller;
    let message = format!("the token of '{name}' has scope {scope}, and the run needs {needed}");
    Err(Revocation { message })
}

/// Returns the failure of a run whose caller was revoked.
pub(super) fn failure(revocation: &Revocation) -> Failure {
    Failure::Revoked { message: revocation.message.clone() }
}

/// Returns the error of a call that was not made because its caller was revoked.
pub(super) fn denial(revocation: Revocation) -> AdapterError {
    let details = serde_json::json!({ "called": false, "denied_by": "token" });
    AdapterError::operational(Revocation::CODE, revocation.message).details(details)
}
