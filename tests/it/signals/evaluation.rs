//! What adapters give, held to contracts and policies.
