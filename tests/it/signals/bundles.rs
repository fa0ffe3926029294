//! Proof bundles: made, verified, and tampered with.

mod recorded;

use super::transcript::{Exception, golden, play};
