//! `nexus-router config …`: writes, checks and shows the configuration.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::output::{Form, Output, tell};
use super::{Answer, Error};
use crate::access;
use crate::access::origin::Guard;
use crate::app::{self, App, Named, UnmatchedSetting, UnreadyAdapter, full_text};
use crate::caller::Caller;
use crate::check::Status;
use crate::config::{self, ConfigFile, Environment, Origin, Problem};
use crate::json::{Object, Value};
use crate::python_text::visible;

const INIT_HELP: &str = "\
Examples:
  nexus-router config init
  nexus-router config init /etc/nexus-router/router.toml";

const CHECK_HELP: &str = "\
Examples:
  nexus-router config check
  nexus-router config check --load --strict
  nexus-router config check --config-file /etc/nexus-router/router.toml --load && \
systemctl reload nexus-router";

const SHOW_HELP: &str = "\
Examples:
  nexus-router config show
  NEXUS_ROUTER__SERVER__CONNECTIONS=64 nexus-router config show --format json";

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Write a router.toml with every setting and its default.
    #[command(after_help = INIT_HELP)]
    Init(InitArguments),
    /// Tell everything that is wrong with the configuration. Exits 0 if nothing is, 1 if something is.
    #[command(after_help = CHECK_HELP)]
    Check(CheckArguments),
    /// Show every setting in force with its source: default, line of the file, or variable. Secrets are not shown.
    #[command(after_help = SHOW_HELP)]
    Show(ShowArguments),
}

#[derive(clap::Args)]
pub(super) struct InitArguments {
    /// The file, which must not be there yet.
    #[arg(default_value = ConfigFile::DEFAULT_NAME)]
    file: PathBuf,
}

#[derive(clap::Args)]
struct Which {
    /// The configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    which: Which,
    /// Load the adapters too, which runs code of theirs.
    #[arg(long)]
    load: bool,
    /// Exit 1 also if a rule, offer or tool matches nothing, or an adapter is offered to nobody.
    #[arg(long)]
    strict: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

#[derive(clap::Args)]
pub(super) struct ShowArguments {
    #[command(flatten)]
    which: Which,
    /// The format of the answer; for people, it is TOML.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Init(arguments) => init(&arguments, environment),
        Verb::Check(arguments) => check(&arguments, environment),
        Verb::Show(arguments) => show(&arguments, environment),
    }
}

fn init(arguments: &InitArguments, environment: &Environment) -> Result<Answer, Error> {
    let shown = arguments.file.display();
    config::write_sample(&arguments.file).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "name another file, or remove this one first",
            _ => "check the path, and that this user may write there",
        };
        Error::usage(format!("cannot write {shown}: {error}"), hint)
    })?;
    Output::new(environment).line(&format!("created {}", visible(&shown.to_string())))?;
    tell(&format!("next: nexus-router config check --config-file {}", visible(&shown.to_string())));
    Ok(Answer::Yes)
}

/// What a check found out.
struct Checked {
    file: Option<PathBuf>,
    config: Option<ConfigFile>,
    problems: Vec<Problem>,
    /// Settings that match nothing.
    warnings: Vec<Problem>,
    strict: bool,
}

fn check(arguments: &CheckArguments, environment: &Environment) -> Result<Answer, Error> {
    let strict = arguments.strict;
    let checked = match ConfigFile::trace(arguments.which.config_file.as_deref(), environment) {
        Ok((config, origins)) => {
            let mut problems = config.problems(&origins, config::variable);
            let server = &config.server;
            if let Err(bad) = Guard::new(&server.allowed_hosts, &server.allowed_origins) {
                let (message, hint) = (bad.to_string(), bad.hint().to_owned());
                problems.push(Problem { origin: Origin::Default, message, hint });
            }
            let mut warnings = config.risky_grants(environment, &origins);
            match unmatched(&config, environment, arguments.load) {
                Ok(found) => {
                    for one in found {
                        let list = if one.is_refused { &mut problems } else { &mut warnings };
                        list.push(one.into_problem(&origins));
                    }
                }
                Err(found) => problems.extend(found),
            }
            Checked {
                file: config.source.clone(),
                config: Some(config),
                problems,
                warnings,
                strict,
            }
        }
        Err(config::Error::Invalid { path, first, others }) => {
            let problems = std::iter::once(first).chain(others).collect();
            Checked { file: path, config: None, problems, warnings: Vec::new(), strict }
        }
        Err(error) => return Err(error.into()),
    };
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => output.value(&checked.to_json())?,
        Form::Human => checked.human(&mut output)?,
    }
    Ok(if checked.is_ok() { Answer::Yes } else { Answer::No })
}

/// Lists the settings that match nothing. With the adapters loaded more is known, and tools of adapters that are
/// missing are errors.
fn unmatched(
    config: &ConfigFile,
    environment: &Environment,
    load: bool,
) -> Result<Vec<UnmatchedSetting>, Vec<Problem>> {
    let app = App::new(environment, config.clone(), Named::default());
    let file = app.data_dir().ok().map(|directory| directory.join(access::FILE_NAME));
    // Without a readable file any token may exist.
    let tokens = file.and_then(|file| access::list(&file).ok()).map(|tokens| {
        let names = tokens.into_iter().map(|token| token.name);
        let configured = config.tokens.iter().map(|token| token.name.clone());
        names.chain(configured).chain([Caller::LOCAL.to_owned()]).collect()
    });
    if !load {
        return Ok(app.unmatched_in_file(tokens));
    }
    let found = app.unmatched(tokens).and_then(|found| Ok((found, app.unready_adapters()?)));
    let found = found.map_err(|error| {
        if let app::Error::Config(refused) = &error
            && let config::Error::Invalid { first, others, .. } = refused.as_ref()
        {
            return std::iter::once(first).chain(others).cloned().collect();
        }
        let (message, hint) = (full_text(&error), error.hint());
        vec![Problem { origin: Origin::Default, message, hint }]
    });
    let (found, unready) = found?;
    let problem = |one: UnreadyAdapter| {
        let failure = one.failure.filter(|failure| !failure.needs_config)?;
        let message = format!("adapter '{}' does not load: {}", one.adapter_id, failure.error);
        let hint = failure.error.hint().to_owned();
        Some(Problem { origin: Origin::Default, message, hint })
    };
    let problems: Vec<Problem> = unready.into_iter().filter_map(problem).collect();
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

impl Checked {
    fn is_ok(&self) -> bool {
        self.problems.is_empty() && (self.warnings.is_empty() || !self.strict)
    }

    fn human(&self, output: &mut Output) -> std::io::Result<()> {
        let signs = [output.sign(Status::Fail), output.sign(Status::Warn)];
        let problems = self.problems.iter().map(|problem| (&signs[0], problem));
        let warnings = self.warnings.iter().map(|warning| (&signs[1], warning));
        for (sign, problem) in problems.chain(warnings) {
            let place = match &problem.origin {
                Origin::Variable(name) => format!("{name}: "),
                Origin::File { .. } | Origin::Default => String::new(),
            };
            let message = visible(&format!("{place}{}", problem.placed()));
            output.line(&format!("{sign} {message}\n  hint: {}", visible(&problem.hint)))?;
        }
        let file = self.file.as_deref().map_or_else(|| "no file".to_owned(), shown);
        let warned = match self.warnings.len() {
            0 => String::new(),
            1 => ", 1 warning".to_owned(),
            warnings => format!(", {warnings} warnings"),
        };
        match &self.config {
            Some(config) if self.is_ok() => output.line(&format!(
                "ok: {file}, {} adapters, {} tools, {} listeners{warned}",
                config.adapters.len(),
                config.tools.len(),
                config.listeners.len()
            )),
            _ => output.line(&format!("not ok: {file}, {} problems{warned}", self.problems.len())),
        }
    }

    fn to_json(&self) -> Value {
        let problem_json = |problem: &Problem| {
            let mut object = Object::new();
            object.insert("message", problem.message.as_str());
            object.insert("hint", problem.hint.as_str());
            match &problem.origin {
                Origin::File { line, column } => {
                    object.insert("line", *line);
                    object.insert("column", *column);
                }
                Origin::Variable(name) => object.insert("variable", name.as_str()),
                Origin::Default => {}
            }
            Value::Object(object)
        };
        let mut answer = Object::new();
        answer.insert("ok", self.is_ok());
        let file = self.file.as_deref().map(|file| file.display().to_string());
        answer.insert("file", file.map_or(Value::Null, Value::from));
        if let Some(config) = &self.config {
            answer.insert("adapters", config.adapters.len());
            answer.insert("tools", config.tools.len());
            answer.insert("listeners", config.listeners.len());
        }
        answer.insert("problems", self.problems.iter().map(problem_json).collect::<Vec<_>>());
        answer.insert("warnings", self.warnings.iter().map(problem_json).collect::<Vec<_>>());
        answer.into()
    }
}

fn shown(path: &Path) -> String {
    visible(&path.display().to_string())
}

fn show(arguments: &ShowArguments, environment: &Environment) -> Result<Answer, Error> {
    let file = arguments.which.config_file.as_deref();
    let (mut config, mut origins) = ConfigFile::trace(file, environment)?;
    if !environment.adapter_path.is_empty() {
        // Both are searched, and the directories of the variable come first.
        let configured = std::mem::take(&mut config.adapter_path);
        config.adapter_path = environment.adapter_path.iter().cloned().chain(configured).collect();
        origins.note("adapter_path", config::ADAPTER_PATH_VARIABLE);
    }
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Human => output.text(&config.to_toml(&origins))?,
        Form::Json => {
            let mut shown = config.to_json();
            shown.insert("sources", config.sources(&origins));
            output.value(&shown.into())?;
        }
    }
    Ok(Answer::Yes)
}
