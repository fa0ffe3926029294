//! Calls of an opened library in two processes that differ in all that a pure function must not notice.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::hearing::Halt;
use super::library::Stage;
use super::opened::call_error;
use super::wire::Task;
use super::{AdapterLoadError, Call, Loader, Opened};

/// What a child sees of the world, beyond its job.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: Option<PathBuf>,
}

/// The text of an answer, byte for byte: an output, or an error.
pub(crate) type Text = Result<String, String>;

impl Surroundings {
    /// Two that have nothing in common: environment, time zone, language, home, working directory.
    fn pair(opened: &Opened) -> [Self; 2] {
        let plain = [("TZ", "UTC"), ("LANG", "C"), ("HOME", "/")];
        let strange = [
            ("TZ", "Asia/Kathmandu"),
            ("LANG", "tr_TR.UTF-8"),
            ("LC_ALL", "tr_TR.UTF-8"),
            ("HOME", "/nonexistent"),
            ("USER", "somebody"),
            ("TMPDIR", "/nonexistent"),
            ("RUST_LOG", "trace"),
            ("RUST_BACKTRACE", "1"),
            ("SOURCE_DATE_EPOCH", "1"),
        ];
        let of = |variables: &[(&str, &str)], directory: Option<&Path>| Self {
            environment: variables
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                .collect(),
            directory: directory.map(Path::to_owned),
        };
        [of(&plain, Some(Path::new("/"))), of(&strange, opened.image.copy.parent())]
    }
}

impl Loader {
    /// Makes each call in a child of its own, in both surroundings. Whoever compares the answers knows
    /// whether they depend on them, or on the time, the process or the memory.
    pub(crate) fn rehearse(
        &self,
        opened: &Opened,
        calls: &[Call<'_>],
    ) -> Result<Vec<[Text; 2]>, AdapterLoadError> {
        let pair = Surroundings::pair(opened);
        let answer = |call: &Call<'_>, surroundings: &Surroundings| {
            let task = Task::Call { request: call.request() };
            let bounds = self.trial_bounds(opened)?;
            let outcome = self.run_child(opened, task, surroundings, bounds)?;
            Ok(match (outcome.result, outcome.answer, outcome.stage) {
                (Ok(_), Some(answer), _) => answer,
                (Ok(_), None, _) => Err("the adapter ended the call without an answer".to_owned()),
                (Err(Halt::Ended(ending)), _, Some(stage)) if stage >= Stage::Call => {
                    Err(call_error(&ending, stage).to_string())
                }
                (Err(halt), _, stage) => return Err(opened.halted(&halt, stage, &outcome.printed)),
            })
        };
        let both = |call| Ok([answer(call, &pair[0])?, answer(call, &pair[1])?]);
        calls.iter().map(both).collect()
    }
}
