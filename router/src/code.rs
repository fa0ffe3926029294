//! Every stable code that the router shows, with its meaning and remedy: what `explain` knows.

mod approvals;
mod calls;
mod contracts;
mod envoy;
mod evidence;
mod failures;
mod memory;
mod own;
mod sources;

use nexus_router_sdk::translate;

use crate::check::CHECKS;
use crate::loader::Reason;
use crate::{access, bundle, config, mapping, replay, router, store, takeover, telemetry};
use own::OWN;

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
    /// As the reason of an [`AdapterLoadError`](crate::loader::AdapterLoadError).
    LoadReason,
    /// As the id of a check of `adapter validate`.
    Check,
    /// As the code of an adapter's error.
    Adapter,
    /// As the reason why a bundle is refused.
    Bundle,
    /// As what became of a run or of a step, other than by its adapter.
    Run,
    /// As the code of a violation that replay reports.
    Violation,
    /// As the code of an error in a tool spec.
    ToolSpec,
    /// As the id of a rule for tool specs.
    Rule,
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
            Self::Bundle => "reason why a bundle is refused",
            Self::Run => "error code of runs",
            Self::Violation => "violation that replay reports",
            Self::ToolSpec => "error code of tool specs",
            Self::Rule => "rule for tool specs",
        }
    }
}

/// A row of a module's own table: code, meaning and remedy.
type Row = (&'static str, &'static str, &'static str);

/// Returns every code. The same code may appear in two places, with a meaning in each.
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
    let tables: [(Kind, &[Row]); 24] = [
        (Kind::Run, approvals::RUNS),
        (Kind::Adapter, approvals::ADAPTERS),
        (Kind::Adapter, calls::ADAPTERS),
        (Kind::Run, calls::RUNS),
        (Kind::Run, failures::RUNS),
        (Kind::Run, contracts::RUNS),
        (Kind::Error, contracts::ERRORS),
        (Kind::Run, envoy::RUNS),
        (Kind::Error, envoy::ERRORS),
        (Kind::Run, evidence::RUNS),
        (Kind::Error, evidence::ERRORS),
        (Kind::Adapter, sources::ADAPTERS),
        (Kind::Error, sources::ERRORS),
        (Kind::Error, calls::REQUESTS),
        (Kind::Error, config::Error::TABLE),
        (Kind::Error, store::Error::TABLE),
        (Kind::Error, takeover::Error::TABLE),
        (Kind::Error, access::Error::TABLE),
        (Kind::Error, access::Denial::TABLE),
        (Kind::Error, telemetry::Error::TABLE),
        (Kind::Error, router::Refusal::TABLE),
        (Kind::Error, router::ShareRefusal::TABLE),
        (Kind::Bundle, bundle::Error::TABLE),
        (Kind::Violation, replay::CODES),
    ];
    let tables = tables.into_iter().flat_map(|(kind, rows)| {
        rows.iter().map(move |(code, meaning, remedy)| row(code, kind, meaning, remedy))
    });
    let translators = translate::RULES
        .iter()
        .map(|rule| row(rule.code, Kind::Adapter, rule.meaning, rule.remedy));
    OWN.iter()
        .chain(memory::TABLE)
        .copied()
        .chain(tables)
        .chain(translators)
        .chain(reasons)
        .chain(checks)
        .chain(rules())
}

/// The rules for tool specs, by code; those that share one are told by id.
fn rules() -> impl Iterator<Item = Code> {
    let boundary = row(
        mapping::BOUNDARY,
        Kind::ToolSpec,
        "A tool crosses the line between what the router does itself and what adapters do.",
        "look up the check_id with nexus-router explain",
    );
    let rules = mapping::RULES.iter().flat_map(|rule| {
        let row = |code, kind| row(code, kind, rule.meaning, rule.remedy);
        let code = (rule.code != mapping::BOUNDARY).then(|| row(rule.code, Kind::ToolSpec));
        // Where the code is the id in upper case, either is found by the other.
        let id = (!rule.code.eq_ignore_ascii_case(rule.id)).then(|| row(rule.id, Kind::Rule));
        code.into_iter().chain(id)
    });
    std::iter::once(boundary).chain(rules)
}

/// Finds what a code means in each place where it appears, whatever the case of its letters.
pub fn find(code: &str) -> impl Iterator<Item = Code> {
    all().filter(move |known| known.code.eq_ignore_ascii_case(code))
}

/// Returns the codes nearest to a text.
#[must_use]
pub fn near(code: &str) -> Vec<&'static str> {
    let code = code.to_ascii_uppercase();
    let mut scored: Vec<(f64, &str)> =
        all().map(|known| (crate::near::likeness(&code, known.code), known.code)).collect();
    scored.retain(|(score, _)| *score > 0.8);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.dedup_by_key(|known| known.1);
    scored.into_iter().take(3).map(|(_, known)| known).collect()
}

const fn row(code: &'static str, kind: Kind, meaning: &'static str, remedy: &'static str) -> Code {
    Code { code, kind, meaning, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Illegal;
    use nexus_router_sdk::code;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_unique_well_formed_and_explained() {
        let mut places = BTreeSet::new();
        for known in all() {
            let place = (known.code, known.kind.name());
            assert!(places.insert(place), "{} stands twice as {}", place.0, place.1);
            let code = match known.kind {
                Kind::Rule => known.code.to_ascii_uppercase(),
                _ => known.code.to_owned(),
            };
            assert!(nexus_router_sdk::code::is_well_formed(&code), "{code}");
            assert!(known.meaning.ends_with('.'), "{}", known.code);
            assert!(!known.remedy.is_empty(), "{}", known.code);
        }
        let mut seen: BTreeSet<&str> = places.into_iter().map(|(code, _)| code).collect();
        // Programs depend on these; a code may be added, never renamed or removed.
        for stable in include_str!("../../tests/golden/codes.txt").lines() {
            assert!(seen.remove(stable), "{stable} was renamed or removed");
        }
        assert!(seen.is_empty(), "add to tests/golden/codes.txt: {seen:?}");
        for standard in code::ALL.iter().chain(&Illegal::CODES) {
            assert!(find(standard).next().is_some(), "{standard} is not explained");
        }
        // The codes of our own adapters, as their documentation lists them.
        let documented = include_str!("../../adapters/README.md").lines();
        let codes: Vec<&str> = documented
            .filter_map(|line| line.strip_prefix("- `")?.strip_suffix('`'))
            .filter(|code| nexus_router_sdk::code::is_well_formed(code))
            .collect();
        assert!(codes.len() > 15, "{codes:?}");
        for listed in codes {
            assert!(find(listed).next().is_some(), "{listed} is not explained");
        }
        assert_eq!(find("timeout").next().unwrap().code, "TIMEOUT");
        assert_eq!(near("LIBRARY_NOT_FOUMD").first(), Some(&"LIBRARY_NOT_FOUND"));
    }
    #[test]
    fn what_is_refused_as_json_is_explained() {
        use crate::json::{Limits, parse};
        let deep = "[".repeat(600);
        let long = "9".repeat(5000);
        let many = format!("[{}0]", "0,".repeat(1_000_000));
        let texts: [(&[u8], &str); 9] = [
            (many.as_bytes(), "JSON_TOO_MANY_VALUES"),
            (&[b' '; 65], "JSON_TOO_LARGE"),
            (deep.as_bytes(), "JSON_TOO_DEEP"),
            (b"{", "JSON_SYNTAX"),
            (br#"{"a":1,"a":1}"#, "JSON_DUPLICATE_KEY"),
            (b"NaN", "JSON_NOT_FINITE"),
            (br#""\ud800""#, "JSON_LONE_SURROGATE"),
            (b"\xff", "JSON_NOT_UTF8"),
            (long.as_bytes(), "JSON_INTEGER_TOO_LONG"),
        ];
        for (text, code) in texts {
            let bytes = if code == "JSON_TOO_LARGE" { 64 } else { usize::MAX };
            let error = parse(text, Limits { bytes, ..Limits::REQUEST }).unwrap_err();
            assert_eq!(error.code(), code);
            assert!(find(code).next().is_some(), "{code}");
        }
    }
}
