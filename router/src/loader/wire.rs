//! What the loader and its child process say to each other: a job, and messages on the way.

use serde::{Deserialize, Serialize};

use super::library::Stage;
use crate::grant::Feature;
use crate::sandbox::{Confinement, Profile};

/// What the child is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// The private copy, as bytes: a path need not be text.
    pub(super) library: Vec<u8>,
    pub(super) function: String,
    pub(super) adapter_id: Option<String>,
    /// The configuration's JSON text, as it crosses the ABI.
    pub(super) config: String,
    pub(super) task: Task,
    pub(super) profile: Profile,
}

/// How much the child is to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    /// Open, make, describe, drop: what a host will do.
    Load,
    /// The same, and look for side effects and shared state.
    Examine,
    /// The same, with a call in between. The text is the request as it crosses the ABI.
    Call { request: String },
    /// Open, make, describe, and carry out calls for as long as there is somebody who makes them.
    Serve,
}

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// The child is confined, and no foreign code has run yet. The descriptor that hears of connects may
    /// come with it. The session is the child's own, in which everything is that it starts.
    Confined { confinement: Confinement, session: u32 },
    /// The child is about to be confined, and observed: the descriptor that hears of what it attempts comes with it.
    Listener {},
    /// The child does not go on, because it cannot be confined.
    Unconfined { missing: Vec<Feature> },
    /// The child does not go on, because confining it failed.
    Unfit { why: String },
    /// The next step is about to be taken.
    Stage(Stage),
    /// The library could not be opened.
    Refused { reason: String, text: String },
    /// The factory returned this error text.
    FactoryFailed { error: String },
    /// The answer to the call: the output's or the error's text.
    Answer(Result<String, String>),
    /// The work is done.
    Done(Observations),
    /// Calls can be made. The text is the instance's description.
    Serving { description: String },
}

/// What the child saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Observations {
    /// The instance's description, as it gave it.
    pub(crate) description: String,
    /// The confinement that was in force, as the child said before the library ran.
    #[serde(skip)]
    pub(crate) confinement: Confinement,
    /// What loading changed in the process, or would have changed outside of it, a line each. Only when examined.
    pub(crate) side_effects: Vec<String>,
    /// Whether the router was told of what the child attempted. The child itself does not say that.
    #[serde(skip)]
    pub(crate) is_observed: bool,
    /// What the sandbox denied that would have changed nothing, a line each.
    #[serde(skip)]
    pub(crate) denied: Vec<String>,
    /// How a second instance differed from the first, if it did. Only when examined.
    pub(crate) second_instance: Option<String>,
}
