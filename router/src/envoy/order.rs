//! What a call asks an envoy to do, read with a pointer for every mistake before anything runs.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::settings::Settings;
use super::staging::Place;
use crate::confine::{Content, WriteMode};
use crate::evidence::{Kind, Ordered, name};
use crate::json::{self, Object, Value};
use crate::role::ActionClass;
use crate::secret::REFERENCE_KEY;

/// Programs that work on repositories.
pub(super) const REPOSITORY_PROGRAMS: [&str; 4] = ["git", "hg", "jj", "svn"];

/// What these read before anything else, and without which they do not begin: settings for all users of a machine.
pub(super) const REPOSITORY_SETTINGS: [&str; 6] = [
    "/etc/gitconfig",
    "/usr/local/etc/gitconfig",
    "/usr/share/git-core",
    "/usr/local/share/git-core",
    "/etc/mercurial",
    "/etc/subversion",
];

/// More arguments, or longer ones in all, are refused: they are sealed with the execution.
const MOST_ARGUMENTS: usize = 4096;
const MOST_ARGUMENT_BYTES: usize = 128 * 1024;
/// A longer standard input is refused.
const MOST_STDIN: usize = 1024 * 1024;
/// Larger contents of a file are refused.
const MOST_CONTENT: usize = 8 * 1024 * 1024;
/// More paths are refused.
const MOST_PATHS: usize = 1000;

/// A mistake in the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) pointer: String,
    pub(super) message: String,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) class: ActionClass,
    pub(super) task: Task,
    pub(super) timeout: Duration,
    /// What of the workspace may be written.
    pub(super) paths: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Run { argv: Vec<String>, cwd: String, env: Vec<String>, stdin: Option<String> },
    Write { path: String, content: Content, mode: WriteMode },
    Pack { paths: Vec<String>, name: String },
}

impl Task {
    /// Returns the places of its own that it knows of, and so has a use for.
    pub(super) fn places(&self) -> Vec<Place> {
        match self {
            Self::Run { env, .. } => {
                env.iter().filter_map(|name| Place::of_variable(name)).collect()
            }
            Self::Write { .. } => Vec::new(),
            Self::Pack { .. } => vec![Place::Artifacts],
        }
    }
}

impl Order {
    /// Reads the arguments of a class.
    pub(super) fn read(
        class: ActionClass,
        args: &Object,
        settings: &Settings,
    ) -> Result<Self, Mistake> {
        let known: &[&str] = match class {
            ActionClass::FileWrite => &["base64", "mode", "path", "text"],
            ActionClass::ArtifactPack => &["name", "paths"],
            _ => &["argv", "cwd", "env", "paths", "stdin", "timeout_s"],
        };
        if let Some(unknown) = args.keys().find(|key| !known.contains(key)) {
            return Err(mistake(
                unknown,
                format!("unknown key; {} has {}", class.name(), known.join(", ")),
            ));
        }
        let mut timeout = settings.timeout;
        let mut paths = vec![".".to_owned()];
        let task = match class {
            ActionClass::FileWrite => {
                let path = path(args, "path")?;
                if path == "." {
                    return Err(mistake("path", "it must be a file inside the workspace"));
                }
                Task::Write { path, content: content(args)?, mode: mode(args)? }
            }
            ActionClass::ArtifactPack => {
                let name = required(args, "name")?;
                if !name::is_output(&name) || name.contains('/') {
                    let message = "it must be a name of A-Z, a-z, 0-9, '.', '_' and '-'";
                    return Err(mistake("name", message));
                }
                let packed = list(args, "paths")?.ok_or_else(|| mistake("", "paths is missing"))?;
                if packed.is_empty() {
                    return Err(mistake("paths", "there must be at least one"));
                }
                for (index, path) in packed.iter().enumerate() {
                    inside(path, &format!("paths/{index}"))?;
                }
                paths = Vec::new();
                Task::Pack { paths: sorted(packed), name }
            }
            _ => {
                if let Some(given) = list(args, "paths")? {
                    for (index, path) in given.iter().enumerate() {
                        inside(path, &format!("paths/{index}"))?;
                    }
                    paths = sorted(given);
                }
                timeout = seconds(args, settings.timeout)?;
                run(class, args, &paths)?
            }
        };
        Ok(Self { class, task, timeout, paths })
    }

    /// An order that asks for nothing.
    pub(super) fn probe() -> Self {
        let argv = vec!["true".to_owned()];
        let task = Task::Run { argv, cwd: ".".to_owned(), env: Vec::new(), stdin: None };
        let timeout = Duration::from_secs(10);
        Self { class: ActionClass::TestExec, task, timeout, paths: vec![".".to_owned()] }
    }

    /// Says what is executed, for its evidence.
    pub(super) fn described(&self, settings: &Settings) -> Ordered {
        let class = self.class.name().to_owned();
        let (argv, cwd, env, kind) = match &self.task {
            Task::Run { argv, cwd, env, .. } => {
                (argv.clone(), cwd.clone(), env.clone(), Kind::Shell)
            }
            Task::Write { path, mode, .. } => {
                let mode = match mode {
                    WriteMode::Create => "create",
                    WriteMode::Replace => "replace",
                    WriteMode::Append => "append",
                };
                (vec![class, mode.to_owned(), path.clone()], ".".to_owned(), vec![], Kind::Python)
            }
            Task::Pack { paths, name } => {
                let argv = [class, name.clone()].into_iter().chain(paths.iter().cloned());
                (argv.collect(), ".".to_owned(), vec![], Kind::Python)
            }
        };
        let paths = match &self.task {
            Task::Write { path, .. } => vec![path.clone()],
            _ => self.paths.clone(),
        };
        let timeout = self.timeout.min(settings.timeout);
        Ordered { argv, cwd, env, kind, paths, timeout }
    }
}

fn run(class: ActionClass, args: &Object, paths: &[String]) -> Result<Task, Mistake> {
    let argv = list(args, "argv")?.ok_or_else(|| mistake("", "argv is missing"))?;
    if argv.is_empty() {
        return Err(mistake("argv", "there must be at least the program"));
    }
    let bytes: usize = argv.iter().map(|argument| argument.len() + 1).sum();
    if argv.len() > MOST_ARGUMENTS || bytes > MOST_ARGUMENT_BYTES {
        let message = format!(
            "there may be at most {MOST_ARGUMENTS} arguments of {MOST_ARGUMENT_BYTES} bytes in all"
        );
        return Err(mistake("argv", message));
    }
    for (index, argument) in argv.iter().enumerate() {
        let wrong = match argument {
            empty if empty.is_empty() => "it must not be empty",
            text if text.contains('\0') => "it must not have NUL",
            _ => continue,
        };
        return Err(mistake(&format!("argv/{index}"), wrong));
    }
    let program = argv[0].rsplit('/').next().unwrap_or_default();
    if class == ActionClass::RepoOps && !REPOSITORY_PROGRAMS.contains(&program) {
        let message = format!("repo_ops runs {}, not {program:?}", REPOSITORY_PROGRAMS.join(", "));
        return Err(mistake("argv/0", message));
    }
    let cwd = match args.get("cwd") {
        None => ".".to_owned(),
        Some(_) => path(args, "cwd")?,
    };
    let covered = |allowed: &String| {
        allowed == "."
            || cwd
                .strip_prefix(allowed.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if !paths.is_empty() && !paths.iter().any(covered) {
        return Err(mistake("cwd", format!("it must lie inside paths, and {cwd:?} does not")));
    }
    let env = list(args, "env")?.unwrap_or_default();
    for (index, variable) in env.iter().enumerate() {
        if !name::is_variable(variable) {
            let message = "it must be the name of a variable: A-Z, 0-9 and '_'";
            return Err(mistake(&format!("env/{index}"), message));
        }
    }
    let stdin = args.get("stdin").map(|value| text(value, "stdin")).transpose()?;
    if stdin.as_ref().is_some_and(|stdin| stdin.len() > MOST_STDIN) {
        return Err(mistake("stdin", format!("it may have at most {MOST_STDIN} bytes")));
    }
    Ok(Task::Run { argv, cwd, env: sorted(env), stdin })
}

fn content(args: &Object) -> Result<Content, Mistake> {
    let content = match (args.get("text"), args.get("base64")) {
        (Some(value), None) => Content::Text(text(value, "text")?),
        (None, Some(value)) => Content::Base64(text(value, "base64")?),
        _ => return Err(mistake("", "there must be either text or base64")),
    };
    let (Content::Text(written) | Content::Base64(written)) = &content;
    if written.len() > MOST_CONTENT {
        return Err(mistake("", format!("the content may have at most {MOST_CONTENT} bytes")));
    }
    match &content {
        Content::Base64(written) if STANDARD.decode(written).is_err() => {
            Err(mistake("base64", "it must be base64, with its padding"))
        }
        _ => Ok(content),
    }
}

fn mode(args: &Object) -> Result<WriteMode, Mistake> {
    match args.get("mode").map(|value| value.as_str()) {
        None | Some(Some("create")) => Ok(WriteMode::Create),
        Some(Some("replace")) => Ok(WriteMode::Replace),
        Some(Some("append")) => Ok(WriteMode::Append),
        Some(_) => Err(mistake("mode", "it must be create, replace or append")),
    }
}

fn seconds(args: &Object, most: Duration) -> Result<Duration, Mistake> {
    let Some(value) = args.get("timeout_s") else { return Ok(most) };
    let seconds = value.as_i64().and_then(|seconds| u64::try_from(seconds).ok());
    match seconds.filter(|seconds| (1..=most.as_secs()).contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => {
            let message = format!("it must be an integer from 1 to {}", most.as_secs());
            Err(mistake("timeout_s", message))
        }
    }
}

fn mistake(below: &str, message: impl Into<String>) -> Mistake {
    let pointer = if below.is_empty() { String::new() } else { format!("/{below}") };
    Mistake { pointer, message: message.into() }
}

/// Returns a text. A reference to a secret stands for itself; when the call is made it has been resolved.
fn text(value: &Value, below: &str) -> Result<String, Mistake> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Object(object) if object.len() == 1 && object.contains_key(REFERENCE_KEY) => {
            Ok(json::to_canonical(value))
        }
        other => Err(mistake(below, format!("it must be a string, not {}", other.type_name()))),
    }
}

fn required(args: &Object, key: &str) -> Result<String, Mistake> {
    let value = args.get(key).ok_or_else(|| mistake("", format!("{key} is missing")))?;
    text(value, key)
}

fn list(args: &Object, key: &str) -> Result<Option<Vec<String>>, Mistake> {
    let Some(value) = args.get(key) else { return Ok(None) };
    let Some(items) = value.as_array() else {
        return Err(mistake(key, format!("it must be an array, not {}", value.type_name())));
    };
    let most = if key == "argv" { MOST_ARGUMENTS } else { MOST_PATHS };
    if items.len() > most {
        return Err(mistake(key, format!("there may be at most {most}")));
    }
    let texts = items.iter().enumerate().map(|(index, item)| text(item, &format!("{key}/{index}")));
    texts.collect::<Result<_, _>>().map(Some)
}

fn path(args: &Object, key: &str) -> Result<String, Mistake> {
    let path = required(args, key)?;
    inside(&path, key)?;
    Ok(path)
}

fn inside(path: &str, below: &str) -> Result<(), Mistake> {
    if name::is_path(path) {
        return Ok(());
    }
    let message = format!(
        "{path:?} must be a path relative to the workspace: no leading '/', no '..', no empty or '.' parts"
    );
    Err(mistake(below, message))
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort_unstable();
    list.dedup();
    list
}

#[cfg(test)]
mod tests;
