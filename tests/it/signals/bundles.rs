//! Proof bundles: made, verified, and tampered with.
