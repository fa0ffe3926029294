//! `nexus-router evidence proof run | verify`.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Subcommand, ValueEnum};

use super::super::output::{Output, tell};
use super::super::{Answer, Error};
use super::Format;
use crate::app::{App, Named};
use crate::config::{ConfigFile, Environment};
use crate::json::{Object, to_jcs};
use crate::proof::{self, Asked, Assignments, Verdict, Wanted};
use crate::python_text::visible;

#[derive(Subcommand)]
pub(in crate::cli) enum Verb {
    /// Execute both roles for real, twice in fresh sandboxes, try what must not succeed, seal all of it, and verify it.
    Run(RunArguments),
    /// Verify a proof from its bytes alone.
    Verify(VerifyArguments),
}

/// Whether a proof without a scout may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Scout {
    /// It may not.
    #[default]
    Required,
    /// It may, and says so.
    Optional,
}

#[derive(clap::Args)]
struct Common {
    /// The directory of proofs, with one log for all of them [default: proof in the data directory].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// An earlier checkpoint that the log must continue: a copy of log/checkpoint, or of the whole directory.
    #[arg(long, value_name = "PATH")]
    previous: Option<PathBuf>,
    /// The keys that are trusted [default: keys/trust.json of the directory].
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Whether a proof holds in which the scout was skipped, because its libraries are not there.
    #[arg(long, value_enum, default_value_t)]
    scout: Scout,
    /// The format of the answer; text is the artifact in one line, and the verdict in another.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const EXITS: &str = "\
Exits 0 if the proof holds, 2 if it does not, and 3 if it does not because of the scout alone. The last line is \
OK:weekly_proof_verified, or FAIL: and the first thing that is wrong.";

#[derive(clap::Args)]
#[command(after_help = EXITS.to_owned() + "

Examples:
  nexus-router evidence proof run
  nexus-router evidence proof run --root proof --previous last-week/checkpoint
  nexus-router evidence proof run --root proof --assign scout=provider/model-2")]
pub(in crate::cli) struct RunArguments {
    #[command(flatten)]
    common: Common,
    /// Who stands behind a role: ROLE=PROVIDER/MODEL. It is recorded, and gives the role nothing.
    #[arg(long, value_name = "ROLE=NAME")]
    assign: Vec<String>,
    /// A directory with adapters; may be given more than once, and comes before all others.
    #[arg(long, value_name = "DIR")]
    adapter_path: Vec<PathBuf>,
}

#[derive(clap::Args)]
#[command(after_help = EXITS.to_owned() + "

Examples:
  nexus-router evidence proof verify
  nexus-router evidence proof verify --root proof --trust trust.json --previous checkpoint-of-last-week
  nexus-router evidence proof verify --root proof --run run-0001")]
pub(in crate::cli) struct VerifyArguments {
    #[command(flatten)]
    common: Common,
    /// The run [default: the last one].
    #[arg(long, value_name = "ID")]
    run: Option<String>,
}

pub(super) fn run(verb: &Verb, environment: &Environment) -> Result<Answer, Error> {
    let begun = Instant::now();
    match verb {
        Verb::Run(arguments) => {
            let place = arguments.common.place(environment)?;
            let assignments = Assignments::read(arguments.assign.iter().map(String::as_str))
                .map_err(|why| {
                    Error::usage(format!("--assign: {why}"), "write --assign scout=PROVIDER/MODEL")
                })?;
            let adapter_path = arguments.adapter_path.clone();
            let wanted = Wanted { adapter_path, assignments };
            let run_id = proof::run(&place, &wanted, environment)
                .map_err(|error| Error::usage(error.to_string(), error.hint()))?;
            let answer = arguments.common.verified(&place, Some(run_id), environment);
            tell(&format!("proved in {:.1} s", begun.elapsed().as_secs_f64()));
            answer
        }
        Verb::Verify(arguments) => {
            let place = arguments.common.place(environment)?;
            arguments.common.verified(&place, arguments.run.clone(), environment)
        }
    }
}

impl Common {
    fn place(&self, environment: &Environment) -> Result<proof::Place, Error> {
        let root = match &self.root {
            Some(root) => root.clone(),
            // What router.toml says of the data directory holds here too, and nothing else of it.
            None => {
                let config = ConfigFile::find(None, environment)?;
                App::new(environment, config, Named::default()).data_dir()?.join("proof")
            }
        };
        Ok(proof::Place::new(root))
    }

    fn verified(
        &self,
        place: &proof::Place,
        run_id: Option<String>,
        environment: &Environment,
    ) -> Result<Answer, Error> {
        let asked = Asked {
            run_id,
            trust: self.trust.clone(),
            previous: self.previous.clone(),
            scout: match self.scout {
                Scout::Required => proof::Scout::Required,
                Scout::Optional => proof::Scout::Optional,
            },
        };
        let verdict = proof::verify(place, &asked);
        self.show(&verdict, environment)?;
        Ok(match &verdict.holds {
            Ok(_) => Answer::Yes,
            Err(failure) if failure.of_scout => Answer::Scoutless,
            Err(_) => Answer::Unclear,
        })
    }

    fn show(&self, verdict: &Verdict, environment: &Environment) -> Result<(), Error> {
        let mut output = Output::new(environment);
        match self.format {
            Format::Text => {
                if let Some(artifact) = &verdict.artifact {
                    output.line(&visible(&to_jcs(artifact).unwrap_or_default()))?;
                }
                let more = verdict.findings.iter().skip(1);
                more.for_each(|finding| tell(&format!("also: {}", visible(finding))));
                output.line(&visible(&verdict.line()))?;
            }
            Format::Json => {
                let findings = verdict.findings.iter().map(|finding| finding.as_str().into());
                let mut object = Object::with_capacity(3);
                object.insert("proof", verdict.artifact.clone());
                object.insert("findings", findings.collect::<Vec<_>>());
                object.insert("verdict", verdict.line());
                output.value(&object.into())?;
            }
        }
        Ok(())
    }
}
