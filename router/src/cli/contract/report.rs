//! What the verbs that write and judge contracts have in common: which files are meant, and how findings are told.

use std::collections::HashSet;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::super::Error;
use super::super::output::Output;
use crate::check::Status;
use crate::json::{Object, Value, to_indented};
use crate::python_text::visible;
use crate::signal::{Finding, LIMITS, ReadError, SCAFFOLD_FILE, Severity, read};

/// How the names of contracts end in a directory.
const EXTENSION: &str = ".adapter_contract.json";
/// So many files are looked at by one call.
const MAX_FILES: usize = 200_000;

/// Where a contract is.
pub(super) struct Source {
    /// As it is told.
    pub(super) shown: String,
    place: Place,
}

enum Place {
    Input,
    File(PathBuf),
    /// A directory in which there is none.
    Nothing,
    /// A directory that cannot be read, and why.
    Closed(String),
}

/// What is there.
pub(super) enum Loaded {
    /// A contract, and the text that it was read from.
    Contract(Vec<u8>, Object),
    /// Something else, and what is wrong with it.
    Refused(Finding),
    /// It cannot be read, and why.
    Unreadable(String),
}

impl Source {
    /// Returns the file, if it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        if let Place::File(path) = &self.place { Some(path) } else { None }
    }

    /// Reads what is there.
    pub(super) fn load(&self) -> Loaded {
        let missing = || Finding::error("", format!("file_not_found: {}", self.shown));
        let bytes = match &self.place {
            Place::Input => {
                let mut bytes = Vec::new();
                let bounded = std::io::stdin().lock().take(LIMITS.bytes as u64 + 1);
                { bounded }.read_to_end(&mut bytes).map(|_| bytes)
            }
            Place::File(path) => crate::files::read_bounded(path, LIMITS.bytes),
            Place::Nothing => return Loaded::Refused(missing()),
            Place::Closed(why) => return Loaded::Unreadable(why.clone()),
        };
        match bytes {
            Ok(bytes) => match read(&bytes) {
                Ok(declaration) => Loaded::Contract(bytes, declaration),
                Err(error) => Loaded::Refused(refusal(&error)),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Loaded::Refused(missing()),
            Err(error) => Loaded::Unreadable(format!("cannot be read: {error}")),
        }
    }
}

/// Returns the finding of a text that is no contract.
fn refusal(error: &ReadError) -> Finding {
    match error {
        ReadError::Json(error) => {
            let kind = if error.code() == "JSON_NOT_UTF8" {
                "UnicodeDecodeError"
            } else {
                "JSONDecodeError"
            };
            Finding::error(
                error.pointer(),
                format!("json_parse_failed: {kind}: {error}; {}", error.hint()),
            )
        }
        ReadError::NoObject(_) => Finding::error("", error.to_string()),
    }
}

/// Reads one contract, for a verb that cannot do without it.
pub(super) fn one(path: &Path, missing: &str, prefix: &str) -> Result<Object, Error> {
    let bytes = crate::files::read_bounded(path, LIMITS.bytes).map_err(|error| {
        let hint = "name the file of a contract; nexus-router contract scaffold writes one";
        match error.kind() {
            ErrorKind::NotFound => Error::usage(missing, hint),
            _ => Error::usage(format!("cannot read {}: {error}", path.display()), hint),
        }
    })?;
    read(&bytes).map_err(|error| {
        Error::usage(format!("{prefix}{error}"), "nexus-router contract lint tells what is wrong")
    })
}

/// Returns the contracts that are meant, each once: files as they are named, and those of directories in the order of
/// their paths. In a directory and below, a contract is a file whose name ends in `.adapter_contract.json`, or that
/// `scaffold` wrote; what begins with a dot is passed over, and links to directories are not followed.
pub(super) fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, Error> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for path in paths {
        let shown = path.display().to_string();
        if path.as_os_str() == "-" {
            if seen.insert(path.clone()) {
                found.push(Source { shown, place: Place::Input });
            }
            continue;
        }
        if !path.is_dir() {
            if seen.insert(path.clone()) {
                found.push(Source { shown, place: Place::File(path.clone()) });
            }
            continue;
        }
        if !walk(path, &mut found, &mut seen)? {
            found.push(Source { shown, place: Place::Nothing });
        }
    }
    Ok(found)
}

/// Adds the contracts of a directory that were not named yet. Says whether there are any at all.
fn walk(
    directory: &Path,
    found: &mut Vec<Source>,
    seen: &mut HashSet<PathBuf>,
) -> Result<bool, Error> {
    let before = found.len();
    let mut below = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        let entries = match std::fs::read_dir(&next) {
            Ok(entries) => entries,
            Err(error) => {
                let shown = next.display().to_string();
                let why = format!("cannot be read: {error}");
                found.push(Source { shown, place: Place::Closed(why) });
                continue;
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            } else if (name.ends_with(EXTENSION) || name == SCAFFOLD_FILE) && !entry.path().is_dir()
            {
                below.push(entry.path());
            }
        }
        if below.len() + pending.len() > MAX_FILES {
            return Err(Error::usage(
                format!(
                    "{} has more than {MAX_FILES} contracts and directories",
                    directory.display()
                ),
                "name fewer at once",
            ));
        }
    }
    let any = !below.is_empty() || found.len() > before;
    below.sort_unstable();
    below.retain(|path| seen.insert(path.clone()));
    found.extend(
        below
            .into_iter()
            .map(|path| Source { shown: path.display().to_string(), place: Place::File(path) }),
    );
    Ok(any)
}

/// Writes a file in the place of another, whole, with the same permissions. A link stays one.
pub(super) fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let path = std::fs::canonicalize(path)?;
    let permissions = std::fs::metadata(&path)?.permissions();
    crate::files::write_whole(&path, text.as_bytes())?;
    std::fs::set_permissions(&path, permissions)
}

/// Writes a value as the AiGentsy tools do: indented, and in ASCII.
pub(super) fn print(output: &mut Output, value: Object) -> std::io::Result<()> {
    output.line(&to_indented(&value.into()))
}

/// Returns the messages of a severity.
pub(super) fn messages<'a>(
    findings: impl IntoIterator<Item = &'a Finding>,
    severity: Severity,
) -> Vec<Value> {
    let findings = findings.into_iter().filter(|finding| finding.severity == severity);
    findings.map(|finding| finding.message.as_str().into()).collect()
}

/// Says whether one of the findings is an error.
pub(super) fn any_error(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Error)
}

/// Returns the form of a finding for programs.
pub(super) fn finding_json(file: &str, finding: &Finding) -> Value {
    let mut object = Object::with_capacity(5);
    object.insert("severity", severity(finding));
    object.insert("file", file);
    object.insert("pointer", finding.pointer.as_str());
    object.insert("message", finding.message.as_str());
    object.insert("remedy", finding.remedy());
    object.into()
}

/// Returns the form of a finding for people: one line with its place and what to do.
pub(super) fn finding_line(output: &Output, file: &str, finding: &Finding) -> String {
    let sign = output.sign(match finding.severity {
        Severity::Error => Status::Fail,
        Severity::Warning => Status::Warn,
    });
    let Finding { pointer, message, .. } = finding;
    let place = if pointer.is_empty() { String::new() } else { format!(" {pointer}") };
    format!("{sign} {}", visible(&format!("{file}{place}: {message} ({})", finding.remedy())))
}

/// Returns the form of a finding for GitHub: an annotation of a file.
pub(super) fn finding_annotation(file: &str, finding: &Finding) -> String {
    let message = format!("{}: {}", finding.pointer, finding.message);
    let message = message.strip_prefix(": ").unwrap_or(&message);
    annotation(severity(finding), file, &format!("{message}\nhint: {}", finding.remedy()))
}

/// Writes a command of GitHub workflows. No text can end it and begin another.
pub(super) fn annotation(level: &str, file: &str, message: &str) -> String {
    let data = |text: &str| {
        let lines: Vec<String> = text.split('\n').map(visible).collect();
        lines.join("\n").replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
    };
    let file = data(&visible(file)).replace(':', "%3A").replace(',', "%2C");
    format!("::{level} file={file},title=signal contract::{}", data(message))
}

fn severity(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// Tells of files that could not be read or written, when everything else was told: then there is no whole answer.
pub(super) fn whole(closed: &[(String, String)]) -> Result<(), Error> {
    let Some((file, why)) = closed.first() else { return Ok(()) };
    let more = match closed.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Err(Error::usage(
        format!("{file} {why}{more}"),
        "name regular files that can be read and written, or - for standard input",
    ))
}
