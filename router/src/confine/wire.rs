//! What the router and the child say to each other: a job, and how it comes along.

use serde::{Deserialize, Serialize};

use crate::grant::Feature;
use crate::sandbox::{Confinement, Profile};

/// What the child is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) profile: Profile,
    /// Where in the workspace.
    pub(crate) cwd: String,
    pub(crate) act: Act,
}

/// What is done in the sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    /// Nothing: the sandbox is all that is wanted.
    Nothing,
    /// A program is started.
    Start(Program),
    /// A file of the workspace is written.
    Write { path: String, content: Content, mode: WriteMode },
    /// Files of the workspace are packed into a file of this directory.
    Pack { paths: Vec<String>, directory: String, name: String },
}

/// A program, and what it sees.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The file.
    pub(crate) file: String,
    /// What it is called, and its arguments.
    pub(crate) argv: Vec<String>,
    /// All of its environment; values need not be text.
    pub(crate) environment: Vec<(String, Vec<u8>)>,
    /// What it reads from standard input.
    pub(crate) stdin: Option<String>,
}

/// What is written to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Content {
    Text(String),
    Base64(String),
}

/// How a file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WriteMode {
    /// It must not be there.
    #[default]
    Create,
    /// Whatever is there is replaced at once.
    Replace,
    /// It goes on where it ended.
    Append,
}

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// It is about to be confined. With it comes the descriptor that hears of calls which the router decides on.
    Asking,
    /// It is confined, and nothing foreign has run.
    Confined { confinement: Confinement, session: u32 },
    /// It does not go on, because the kernel lacks this.
    Unconfined { missing: Vec<Feature> },
    /// It does not go on, because confining it failed.
    Unfit { why: String },
    /// The program cannot be started.
    Unstarted { why: String },
    /// What was to be done with files is done, or not.
    Acted { refused: Option<String> },
}
