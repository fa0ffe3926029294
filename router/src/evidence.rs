//! Sealed directories of executions: written whole, normalized, verified without trust.
//!
//! What was asked is an [`ExecutionSpec`], what it may read an [`Inputs`] manifest, what came of it an
//! [`Output`], which is normalized before it is sealed. A [`Cabinet`] keeps all that as directories which are
//! there whole or not at all. **Secrets never enter**: callers hand over values in which secrets were replaced
//! already, for nothing here could tell a secret from a text, and what is sealed can never be taken back.

mod acting;
pub mod cabinet;
pub mod canonical;
mod directory;
mod docket;
mod finding;
pub mod inputs;
mod keeper;
pub mod manifest;
pub mod name;
pub mod normalize;
mod ordered;
pub mod output;
mod placing;
pub mod plan;
mod planned;
mod promise;
mod reader;
pub mod rejection;
mod settle;
pub mod spec;
mod staged;
pub mod statement;
pub mod summary;
pub mod verification;
pub mod verify;
mod wrap;

pub use acting::Acting;
pub(crate) use acting::pinned;
pub use cabinet::{Cabinet, Error, Execution, Left};
pub use docket::OpenCase;
pub use finding::{Finding, Findings};
pub use inputs::Inputs;
pub use keeper::{Case, KeepError, Keeper, task_id};
pub use manifest::Manifest;
pub use normalize::{Normalized, Redactor, normalize};
pub use ordered::{Ordered, Report};
pub use output::Output;
pub use plan::{Authorization, Grant, Permission, Plan, PlanStep};
pub use planned::Planned;
pub use promise::Leftover;
pub use rejection::Rejection;
pub use spec::{ExecutionSpec, Kind, SpecFields};
pub use staged::{Published, SealFiles, Staged, StagedKind};
pub use summary::{Outcome, RunSummary};
pub use verification::Verification;
pub use wrap::Given;
