//! Why a caller is refused, in the words that it may hear.

use std::time::Duration;

use super::Scope;
use super::origin::Refused;

/// Why a token is refused. The caller hears the same in every case; the reason is for the audit alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The text has not the form of a token.
    Malformed,
    /// No token has this id.
    Unknown,
    /// There is a token of this id, and it is another one.
    Wrong,
    /// The token is no longer good.
    Expired,
}

impl Refusal {
    /// Returns the reason in a word, for the audit.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Wrong => "wrong",
            Self::Expired => "expired",
        }
    }
}

/// Why a caller is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// No token was shown.
    #[error("the request has no token")]
    TokenMissing,
    /// The token is not good. The text does not say why: a guesser would learn from it.
    #[error("the token is not valid")]
    TokenInvalid(Refusal),
    /// The token's scope is too low.
    #[error("this needs a token with scope {needed}; this one has scope {has}")]
    ScopeMissing {
        /// What is needed.
        needed: Scope,
        /// What the token has.
        has: Scope,
    },
    /// The caller calls too often.
    #[error("too many requests; the next one is possible in {} ms", millis(*retry_after))]
    RateLimited {
        /// When the next call is possible.
        retry_after: Duration,
    },
    /// The request comes from a page, or by a name, that is not known.
    #[error(transparent)]
    Origin(#[from] Refused),
}

impl From<Refusal> for Denial {
    fn from(refusal: Refusal) -> Self {
        Self::TokenInvalid(refusal)
    }
}

impl Denial {
    /// Every code, with its meaning and the remedy.
    pub const TABLE: &[(&'static str, &'static str, &'static str)] = &[
        (
            "TOKEN_MISSING",
            "The request has no token, and this listener asks for one.",
            "send the header `Authorization: Bearer TOKEN`; nexus-router token new makes one",
        ),
        (
            "TOKEN_INVALID",
            "The token is not one of this router, or no longer is.",
            "check the token; the operator sees the reason in the audit, and can make a new one",
        ),
        (
            "SCOPE_MISSING",
            "The token is good, but its scope does not allow this.",
            "use a token with the scope that the message names",
        ),
        (
            "RATE_LIMITED",
            "The caller sends more requests than it may.",
            "wait as long as the message says; the operator can raise requests_per_second and burst",
        ),
        (
            "HOST_REFUSED",
            "The Host header is missing, malformed, or a name that this router is not known by.",
            "use an IP address or localhost, or add the name to server.allowed_hosts",
        ),
        (
            "ORIGIN_REFUSED",
            "The request comes from a page of an origin that is not allowed.",
            "add the origin to server.allowed_origins if its pages may call",
        ),
    ];

    const fn row(&self) -> usize {
        match self {
            Self::TokenMissing => 0,
            Self::TokenInvalid(_) => 1,
            Self::ScopeMissing { .. } => 2,
            Self::RateLimited { .. } => 3,
            Self::Origin(refused) if refused.is_host() => 4,
            Self::Origin(_) => 5,
        }
    }

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        Self::TABLE[self.row()].0
    }

    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        Self::TABLE[self.row()].2
    }
}

/// Whoever waits as long as it is told must not come too early.
fn millis(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_denial_has_its_code() {
        let denials = [
            (Denial::TokenMissing, "TOKEN_MISSING"),
            (Refusal::Expired.into(), "TOKEN_INVALID"),
            (Denial::ScopeMissing { needed: Scope::Run, has: Scope::Read }, "SCOPE_MISSING"),
            (Denial::RateLimited { retry_after: Duration::from_nanos(1) }, "RATE_LIMITED"),
            (Refused::HostMissing.into(), "HOST_REFUSED"),
            (Refused::OriginMalformed.into(), "ORIGIN_REFUSED"),
        ];
        for (denial, code) in &denials {
            assert_eq!(denial.code(), *code);
        }
        assert_eq!(denials.len(), Denial::TABLE.len());
        assert!(denials[2].0.to_string().contains("scope run; this one has scope read"));
        assert!(denials[3].0.to_string().ends_with("in 1 ms"));
    }

    #[test]
    fn the_caller_does_not_learn_why_its_token_is_refused() {
        let all = [Refusal::Malformed, Refusal::Unknown, Refusal::Wrong, Refusal::Expired];
        let heard: std::collections::BTreeSet<_> = all
            .map(|refusal| {
                let denial = Denial::from(refusal);
                (denial.code(), denial.to_string(), denial.hint())
            })
            .into();
        assert_eq!(heard.len(), 1);
        let reasons: std::collections::BTreeSet<_> = all.map(Refusal::reason).into();
        assert_eq!(reasons.len(), 4);
    }
}
