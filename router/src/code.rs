//! Every stable code that the router shows, with its meaning and remedy: what `explain` knows.

use nexus_router_sdk::code;

use crate::check::CHECKS;
use crate::loader::{AdapterLoadError, Reason};

/// A code and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// The code.
    pub code: &'static str,
    /// Where it appears.
    pub kind: Kind,
    /// What it means.
    pub meaning: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

/// Where a code appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As the code of an error.
    Error,
    /// As the reason of an [`AdapterLoadError`].
    LoadReason,
    /// As the id of a check of `adapter validate`.
    Check,
    /// As the code of an adapter's error.
    Adapter,
}

impl Kind {
    /// Returns a name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error code",
            Self::LoadReason => "reason of a failed load",
            Self::Check => "check of adapter validate",
            Self::Adapter => "error code of adapters",
        }
    }
}

/// Returns every code.
pub fn all() -> impl Iterator<Item = Code> {
    let reasons = Reason::ALL.iter().map(|reason| Code {
        code: reason.code(),
        kind: Kind::LoadReason,
        meaning: reason.meaning(),
        remedy: reason.remedy(),
    });
    let checks = CHECKS.iter().map(|check| Code {
        code: check.id,
        kind: Kind::Check,
        meaning: check.doc,
        remedy: check.remedy,
    });
    OWN.iter().copied().chain(reasons).chain(checks)
}

/// Finds a code, whatever the case of its letters.
#[must_use]
pub fn find(code: &str) -> Option<Code> {
    all().find(|known| known.code.eq_ignore_ascii_case(code))
}

/// Returns the codes nearest to a text.
#[must_use]
pub fn near(code: &str) -> Vec<&'static str> {
    let code = code.to_ascii_uppercase();
    let mut scored: Vec<(f64, &str)> =
        all().map(|known| (strsim::jaro_winkler(&code, known.code), known.code)).collect();
    scored.retain(|(score, _)| *score > 0.8);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, known)| known).collect()
}

const fn row(code: &'static str, kind: Kind, meaning: &'static str, remedy: &'static str) -> Code {
    Code { code, kind, meaning, remedy }
}

/// The codes that no other table holds.
const OWN: &[Code] = &[
    row(
        AdapterLoadError::CODE,
        Kind::Error,
        "An adapter could not be loaded; its reason says why.",
        "look up the reason with nexus-router explain",
    ),
    row(
        "ADAPTER_ALREADY_REGISTERED",
        Kind::Error,
        "Two adapters in one registry have the same adapter_id.",
        "give one of them another adapter_id",
    ),
    row(
        "UNKNOWN_ADAPTER",
        Kind::Error,
        "No adapter of that id is registered.",
        "register it, or name another",
    ),
    row(
        "CAPABILITY_MISSING",
        Kind::Error,
        "The chosen adapter does not declare a capability that the work needs.",
        "choose an adapter that declares it",
    ),
    row(
        "ADAPTER_CRASHED",
        Kind::Adapter,
        "The adapter killed or ended its process during a call.",
        "report it to the adapter's author",
    ),
    row(
        code::ADAPTER_PANICKED,
        Kind::Adapter,
        "The adapter panicked; the panic was caught at the boundary.",
        "report it to the adapter's author, with details.at",
    ),
    row(
        code::BUG_ERROR,
        Kind::Adapter,
        "The adapter found itself in a state that it holds impossible.",
        "report it to the adapter's author",
    ),
    row(
        code::TIMEOUT,
        Kind::Adapter,
        "The operation took longer than its limit.",
        "raise the adapter's timeout_s, or look at what is slow",
    ),
    row(
        code::CANCELLED,
        Kind::Adapter,
        "The caller no longer wanted the answer.",
        "nothing: somebody decided so",
    ),
    row(
        code::NONZERO_EXIT,
        Kind::Adapter,
        "A program ended with a status other than zero.",
        "look at details.returncode and details.stderr_excerpt",
    ),
    row(
        code::INVALID_JSON,
        Kind::Adapter,
        "A reply was not a JSON object.",
        "look at details; the other side must answer with a JSON object",
    ),
    row(
        code::CONNECTION_FAILED,
        Kind::Adapter,
        "No network connection could be made.",
        "check that the address is right and that the service runs",
    ),
    row("HTTP_ERROR", Kind::Adapter, "An HTTP request failed.", "look at details.status_code"),
    row(
        code::INVALID_ARGUMENT,
        Kind::Adapter,
        "The call's tool, method or arguments do not fit the adapter.",
        "correct the call; the message names the part",
    ),
    row(
        code::CONFIG_REJECTED,
        Kind::Adapter,
        "The factory refused the configuration.",
        "correct it; inspect lists the parameters",
    ),
    row(
        code::OUTPUT_TOO_LARGE,
        Kind::Adapter,
        "The output is larger than the limit.",
        "ask for less, or raise the adapter's limit",
    ),
    row(
        code::UNSUPPORTED,
        Kind::Adapter,
        "The adapter asked the host for something that this host does not do.",
        "use a host that does, or do without",
    ),
    row(
        "INVALID_JSON_OUTPUT",
        Kind::Adapter,
        "A program printed something else than one JSON object.",
        "look at details.stdout_head; the program must print a JSON object",
    ),
    row(
        "COMMAND_NOT_FOUND",
        Kind::Adapter,
        "The program to run is not there.",
        "check base_cmd, and PATH in env or env_allow",
    ),
    row(
        "PERMISSION_DENIED",
        Kind::Adapter,
        "The program may not be run by this user.",
        "check the file's mode and owner",
    ),
    row(
        "OS_ERROR",
        Kind::Adapter,
        "The system refused to run the program.",
        "the message is the system's own",
    ),
    row(
        "CWD_NOT_FOUND",
        Kind::Adapter,
        "The working directory of the program is not there.",
        "correct cwd",
    ),
    row(
        "CWD_NOT_DIRECTORY",
        Kind::Adapter,
        "The working directory of the program is something else.",
        "correct cwd",
    ),
    row(
        "ENV_INVALID",
        Kind::Adapter,
        "A name or value of env is not usable as an environment variable.",
        "env must be an object of strings",
    ),
    row(
        "STDERR_ON_SUCCESS",
        Kind::Adapter,
        "The program printed to standard error although it succeeded, and strict_stderr is on.",
        "look at details.stderr_excerpt, or turn strict_stderr off",
    ),
    row(
        "DRY_RUN_UNSUPPORTED",
        Kind::Adapter,
        "The adapter cannot pretend, and was asked to.",
        "choose an adapter that declares dry_run",
    ),
    row(
        "HOST_NOT_ALLOWED",
        Kind::Adapter,
        "The request, or a redirect, leads to a host that is not in allowed_hosts.",
        "add the host to allowed_hosts if it is to be trusted",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_unique_well_formed_and_explained() {
        let mut seen = BTreeSet::new();
        for known in all() {
            assert!(seen.insert(known.code), "{} stands twice", known.code);
            assert!(nexus_router_sdk::code::is_well_formed(known.code), "{}", known.code);
            assert!(known.meaning.ends_with('.'), "{}", known.code);
            assert!(!known.remedy.is_empty(), "{}", known.code);
        }
        // Programs depend on these; a code may be added, never renamed or removed.
        for stable in include_str!("../../tests/golden/codes.txt").lines() {
            assert!(seen.remove(stable), "{stable} was renamed or removed");
        }
        assert!(seen.is_empty(), "add to tests/golden/codes.txt: {seen:?}");
        for standard in code::ALL {
            assert!(find(standard).is_some(), "{standard} is not explained");
        }
        // The codes of our own adapters, as their documentation lists them.
        let documented = include_str!("../../adapters/README.md").lines();
        let codes: Vec<&str> = documented
            .filter_map(|line| line.strip_prefix("- `")?.strip_suffix('`'))
            .filter(|code| nexus_router_sdk::code::is_well_formed(code))
            .collect();
        assert!(codes.len() > 15, "{codes:?}");
        for listed in codes {
            assert!(find(listed).is_some(), "{listed} is not explained");
        }
        assert_eq!(find("timeout").unwrap().code, "TIMEOUT");
        assert_eq!(near("LIBRARY_NOT_FOUMD").first(), Some(&"LIBRARY_NOT_FOUND"));
    }
}
