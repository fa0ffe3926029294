//! The codes of what calls under way ask the router for.

use super::Row;

/// Of adapters: calls get them as errors of the host, and may pass them on.
pub(super) const ADAPTERS: &[Row] = &[
    (
        "ASK_REFUSED",
        "What the call asked the router for is not asked so, or not by this call.",
        "correct what the message names; router.toml gives an adapter its sources, each for one action class",
    ),
    (
        "ASK_LIMIT",
        "The call asked the router for more than one call may, in all or at once.",
        "ask for less in one call, and wait for an answer before asking again",
    ),
    (
        "SOURCE_UNKNOWN",
        "The adapter has no source of that name, or its adapter is not there.",
        "use a name that the message lists, or add the source to [[adapters.sources]] in router.toml",
    ),
    (
        "SOURCE_FAILED",
        "A source did not do what it was asked for, or its answer is not where the configuration says.",
        "read the message; look at the adapter behind the source, or at searches and documents of the scout",
    ),
];

/// Of errors.
pub(super) const ERRORS: &[Row] = &[(
    "SOURCE_UNUSABLE",
    "A source in router.toml names what cannot be fetched for a scout.",
    "correct the source: an adapter that is configured, without a role, and an operation that only reads",
)];
