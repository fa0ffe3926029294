//! Decides whether an adapter's `supported_router_versions` includes this router.

use std::str::FromStr as _;

use pep440_rs::{Version, VersionSpecifier};

use crate::python_text::{repr_str, visible};

/// The longest specifier that is looked at, in bytes.
pub const MAX_SPECIFIER_BYTES: usize = 1024;

/// What a specifier says of this router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It includes this router.
    Yes,
    /// It does not include this router.
    No,
    /// It is not a PEP 440 version specifier, for this reason.
    Invalid(String),
}

/// Returns the version of this router.
#[must_use]
pub fn router_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Evaluates a PEP 440 specifier such as `>=1.2,<2` against this router's version.
///
/// Every clause must match; an empty specifier has none and matches. A pre-release of the router counts
/// as a version like any other, because it is already installed.
#[must_use]
pub fn supports(specifier: &str) -> Support {
    match Version::from_str(router_version()) {
        Ok(version) => includes(specifier, &version),
        Err(error) => Support::Invalid(format!("this router's version is not PEP 440: {error}")),
    }
}

fn includes(specifier: &str, version: &Version) -> Support {
    if specifier.len() > MAX_SPECIFIER_BYTES {
        return Support::Invalid(format!(
            "specifier has {} bytes, at most {MAX_SPECIFIER_BYTES} are allowed",
            specifier.len()
        ));
    }
    let mut all = true;
    for clause in specifier.split(',').map(str::trim).filter(|clause| !clause.is_empty()) {
        match VersionSpecifier::from_str(clause) {
            Ok(parsed) => all &= clause_holds(&parsed, version),
            Err(error) => {
                return Support::Invalid(format!(
                    "clause {} is not valid: {}",
                    repr_str(clause),
                    visible(&error.to_string())
                ));
            }
        }
    }
    if all { Support::Yes } else { Support::No }
}

/// Evaluates one clause.
///
/// For `==1.2.0.1.*` the version must first be padded with zeros to the length of the clause (PEP 440,
/// "version matching"); the library compares only the shorter of the two.
fn clause_holds(clause: &VersionSpecifier, version: &Version) -> bool {
    let length = clause.version().release().len();
    if !clause.operator().is_star() || version.release().len() >= length {
        return clause.contains(version);
    }
    let mut release = version.release().to_vec();
    release.resize(length, 0);
    clause.contains(&version.clone().with_release(release))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn holds(specifier: &str, version: &str) -> bool {
        match includes(specifier, &Version::from_str(version).unwrap()) {
            Support::Yes => true,
            Support::No => false,
            Support::Invalid(reason) => panic!("{specifier}: {reason}"),
        }
    }

    #[test]
    fn clauses_follow_pep_440() {
        for (specifier, version, expected) in [
            ("", "1.2.0", true),
            (" ", "1.2.0", true),
            (">=1.0,<2.0", "1.2.0", true),
            (" >= 1.2 , < 2 ,", "1.2.0", true),
            (">=0.9,<1.0", "1.2.0", false),
            (">1.2", "1.2.0", false),
            (">1.2", "1.2.1", true),
            ("<=1.2", "1.2.0", true),
            ("~=1.2", "1.9", true),
            ("~=1.2", "2.0", false),
            ("~=1.2.0", "1.2.7", true),
            ("~=1.2.0", "1.3.0", false),
            ("==1.2", "1.2.0", true),
            ("==1.*", "1.2.0", true),
            ("==2.*", "1.2.0", false),
            ("==1.2.0.0.*", "1.2.0", true),
            ("==1.2.0.1.*", "1.2.0", false),
            ("!=1.2.0.1.*", "1.2.0", true),
            ("!=1.2.0", "1.2.0", false),
            ("!=1.3.*", "1.2.0", true),
            ("!=1.2.*", "1.2.0", false),
            ("===1.2.0", "1.2.0", true),
            ("===1.2", "1.2.0", false),
            ("==1.2.0+local", "1.2.0", false),
            (">=1!0", "1.2.0", false),
        ] {
            assert_eq!(holds(specifier, version), expected, "{version} in {specifier:?}");
        }
    }

    #[test]
    fn pre_releases_come_before_their_release() {
        for (specifier, version, expected) in [
            (">=1.2rc1", "1.2.0", true),
            (">=1.2.0", "1.2.0-rc.1", false),
            (">=1.2", "1.3.0-rc.1", true),
            ("<1.3", "1.3.0-rc.1", false),
            ("<2.0.dev0", "2.0.0-rc.1", false),
            ("==1.3.*", "1.3.0-rc.1", true),
            (">1.2", "1.2.post1", false),
        ] {
            assert_eq!(holds(specifier, version), expected, "{version} in {specifier:?}");
        }
    }

    #[test]
    fn garbage_is_invalid_and_says_where() {
        let bad =
            ["garbage", "1.2", ">=", "=>1", ">=1.*", "~=1", ">=x", ">=1;<2", ">=1 2", "<=1+a"];
        for specifier in bad {
            let Support::Invalid(reason) = supports(&format!(">=1,{specifier}")) else {
                panic!("{specifier} was accepted");
            };
            assert!(
                reason.starts_with(&format!("clause '{specifier}' is not valid: ")),
                "{reason}"
            );
        }
        let Support::Invalid(reason) = supports("\u{1b}[2J\n") else { panic!("accepted") };
        assert!(!reason.contains(char::is_control), "{reason}");
    }

    #[test]
    fn long_specifier_is_refused_unread() {
        assert_eq!(supports(&" ".repeat(MAX_SPECIFIER_BYTES)), Support::Yes);
        assert_eq!(
            supports(&" ".repeat(MAX_SPECIFIER_BYTES + 1)),
            Support::Invalid("specifier has 1025 bytes, at most 1024 are allowed".to_owned())
        );
    }

    #[test]
    fn own_version_is_a_pep_440_version() {
        assert_eq!(supports(&format!("=={}", router_version())), Support::Yes);
        assert_eq!(supports(&format!("!={}", router_version())), Support::No);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(specifier in any::<String>()) {
            let _support = supports(&specifier);
        }

        #[test]
        fn nothing_like_a_specifier_makes_it_panic(
            specifier in "([ ,]?(==|!=|~=|<=|>=|<|>|===)? ?[0-9a-z!+.*-]{0,12}){0,6}",
        ) {
            let _support = supports(&specifier);
        }
    }
}
