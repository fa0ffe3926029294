//! The wire between the loader and its child process: what they say to each other, one JSON line each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::library::Stage;
use super::notice::Notice;
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
    /// How long the whole dry run may take.
    pub(super) time: Duration,
    /// What the child may use and reach.
    pub(super) profile: Profile,
    /// The process that must outlive the child.
    pub(super) parent: u32,
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
}

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// The child is confined, and no foreign code has run yet.
    Confined(Confinement),
    /// The next step is about to be taken.
    Stage(Stage),
    /// The library could not be opened.
    Refused { reason: String, text: String },
    /// The factory returned this error text.
    FactoryFailed { error: String },
    /// The adapter told the host something.
    Notice(Notice),
    /// The answer to the call: the output's or the error's text.
    Answer(Result<String, String>),
    /// The work is done.
    Done(Observations),
}

/// What the child saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Observations {
    /// The instance's description, as it gave it.
    pub(crate) description: String,
    /// The confinement that was in force, as the child said before the library ran.
    #[serde(skip)]
    pub(crate) confinement: Confinement,
    /// What loading changed in the process, a line each. Only when examined.
    pub(crate) side_effects: Vec<String>,
    /// How a second instance differed from the first, if it did. Only when examined.
    pub(crate) second_instance: Option<String>,
}
