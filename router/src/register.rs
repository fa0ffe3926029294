//! The register: the tool specs that passed the gates, as files, and what became of each since.
//!
//! A file beside the specs says which were registered, by digest. One that was changed by hand since is not what
//! was let through, and one that the contracts do not allow any more is not let through again: both are disabled,
//! with the reason.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::files;
use crate::files::staged;
use crate::interface::{Finding, History, Interface};
use crate::json::{self, Limits, Object, Value};
use crate::mapping::{Known, MAX_BYTES, Report, ToolDocument, gate_4, gate_6};

/// What the register says that it is.
const FORMAT: &str = "nexus-router.tool-register/1";
/// The name of the register beside the specs.
const NAME: &str = "register.json";
/// How the names of the specs' files end.
const EXTENSION: &str = ".tool.json";
/// A longer register is none.
const LIMITS: Limits = Limits { bytes: 16 << 20, depth: 8, values: 1_000_000 };

/// The register cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The register is none.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// What the register says of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The version of its spec.
    pub version: String,
    /// The digest of its spec.
    pub digest: Digest,
    /// The version and the digest of the contract that it was registered for; none if it is local.
    pub contract: Option<(String, Digest)>,
    /// When it was registered.
    pub registered_at: String,
    /// That somebody disabled it, and why.
    pub disabled: Option<Disabled>,
}

/// That somebody disabled a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disabled {
    /// Why.
    pub reason: String,
    /// When.
    pub at: String,
}

/// How a registered tool stands now.
#[derive(Debug)]
pub struct Standing {
    /// The tool.
    pub tool_id: String,
    /// What the register says of it.
    pub entry: Entry,
    /// Its spec, if its file can be read.
    pub document: Option<ToolDocument>,
    /// Why it cannot be called, if it cannot.
    pub disabled: Option<String>,
    /// Why it cannot be called although it is enabled, if that is known: no adapter keeps its contract.
    pub unavailable: Option<String>,
    /// What a gate says that does not let it through any more.
    pub refused: Option<Report>,
}

/// The registered tools of a directory.
#[derive(Debug)]
pub struct Register {
    directory: PathBuf,
    /// The files of the specs that are staged.
    staged: Vec<PathBuf>,
    /// The tools by id.
    pub entries: BTreeMap<String, Entry>,
}

impl Register {
    /// Reads the register of a directory. One that is not there is empty.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(NAME);
        let (directory, entries) = (directory.to_owned(), BTreeMap::new());
        let mut register = Self { directory, staged: Vec::new(), entries };
        let bytes = match files::read_bounded(&path, LIMITS.bytes) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(register),
            Err(source) => return Err(Error::File { path, source }),
        };
        let malformed = |problem: String| Error::Malformed { path: path.clone(), problem };
        let document = json::parse(&bytes, LIMITS).map_err(|error| malformed(error.to_string()))?;
        if document.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(malformed(format!("format must be {FORMAT:?}")));
        }
        let tools = document.get("tools").and_then(Value::as_object);
        for (tool_id, entry) in tools.ok_or_else(|| malformed("it has no tools".to_owned()))?.iter()
        {
            let entry = Entry::read(entry);
            let entry = entry.ok_or_else(|| malformed(format!("/tools/{tool_id} is no entry")))?;
            register.entries.insert(tool_id.to_owned(), entry);
        }
        Ok(register)
    }

    /// Waits until nobody else changes the register, and keeps others from it as long as what is returned is there.
    ///
    /// # Errors
    /// When the directory cannot be made or locked.
    pub fn seize(directory: &Path) -> Result<File, Error> {
        let path = directory.join(".register.seized");
        files::seize(&path).map_err(|source| Error::File { path: path.clone(), source })
    }

    /// Finishes or undoes what was interrupted when specs were registered. The caller must hold the register.
    ///
    /// # Errors
    /// When something cannot be read or written.
    pub fn repair(&self) -> Result<(), Error> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        let directory = &self.directory;
        let entries = match std::fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(at(directory))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(at(directory))?.file_name();
            let name = name.to_string_lossy();
            let staged = staged::staged_for(&name);
            let own = |name: &&str| *name == NAME || name.ends_with(EXTENSION);
            names.extend(staged.filter(own).map(str::to_owned));
        }
        for name in names {
            let path = directory.join(&name);
            let tool_id = name.strip_suffix(EXTENSION).unwrap_or_default();
            match self.staged(tool_id) {
                Some(_) => staged::publish(&path).map_err(at(&path))?,
                None => staged::discard(&path).map_err(at(&path))?,
            }
        }
        Ok(())
    }

    /// Stages a spec that was let through, with the contract that let it; it counts only when the register is saved.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(
        &mut self,
        document: &ToolDocument,
        contract: Option<&Interface>,
        at: &str,
    ) -> Result<(), Error> {
        let path = self.path(&document.tool_id);
        let mut text = json::to_pretty(&document.document) + "\n";
        if text.len() > MAX_BYTES {
            text = json::to_compact(&document.document);
        }
        let staged = match text.len() {
            0..=MAX_BYTES => staged::stage(&path, text.as_bytes()),
            long => Err(too_large(long, MAX_BYTES)),
        };
        staged.map_err(|source| Error::File { path: path.clone(), source })?;
        self.staged.push(path);
        let entry = Entry {
            version: document.version.to_string(),
            digest: document.digest,
            contract: contract.map(|contract| (contract.version.to_string(), contract.digest)),
            registered_at: at.to_owned(),
            disabled: None,
        };
        self.entries.insert(document.tool_id.clone(), entry);
        Ok(())
    }

    /// Records that somebody disabled a tool. Says whether there is such a tool.
    ///
    /// # Errors
    /// When the register cannot be written.
    pub fn disable(&mut self, tool_id: &str, reason: &str, at: &str) -> Result<bool, Error> {
        let Some(entry) = self.entries.get_mut(tool_id) else { return Ok(false) };
        entry.disabled = Some(Disabled { reason: reason.to_owned(), at: at.to_owned() });
        self.save()?;
        Ok(true)
    }

    /// Removes a tool. Returns whether there was one.
    ///
    /// # Errors
    /// When the register cannot be written.
    pub fn unregister(&mut self, tool_id: &str) -> Result<bool, Error> {
        if self.entries.remove(tool_id).is_none() {
            return Ok(false);
        }
        self.save()?;
        // Its file counts for nothing any more.
        let path = self.path(tool_id);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::File { path, source })
            }
            _ => Ok(true),
        }
    }

    /// Writes what the register says and the specs that were staged: all of it, or nothing.
    ///
    /// # Errors
    /// When it cannot be written, or would be too large to be read; then it is as before.
    pub fn save(&mut self) -> Result<(), Error> {
        let mut tools = Object::new();
        for (tool_id, entry) in &self.entries {
            tools.insert(tool_id.as_str(), entry.to_json());
        }
        let mut object = Object::with_capacity(2);
        object.insert("format", FORMAT);
        object.insert("tools", tools);
        let (path, text) = (self.directory.join(NAME), json::to_pretty(&object.into()) + "\n");
        let written = match json::parse(text.as_bytes(), LIMITS) {
            Ok(_) => staged::replace(&path, text.as_bytes()),
            Err(_) if text.len() > LIMITS.bytes => Err(too_large(text.len(), LIMITS.bytes)),
            Err(error) => Err(io::Error::other(format!("it could not be read again: {error}"))),
        };
        written.map_err(|source| Error::File { path, source })?;
        for path in std::mem::take(&mut self.staged) {
            staged::publish(&path).map_err(|source| Error::File { path, source })?;
        }
        let directory = &self.directory;
        staged::sync_directory(directory)
            .map_err(|source| Error::File { path: directory.clone(), source })
    }

    /// Returns the staged spec of a tool, if it is the one that the register says: it was not moved to its place yet.
    fn staged(&self, tool_id: &str) -> Option<ToolDocument> {
        let entry = self.entries.get(tool_id)?;
        let bytes = staged::read_staged(&self.path(tool_id), MAX_BYTES).ok().flatten()?;
        let document = ToolDocument::read(&bytes).ok()?;
        (document.digest == entry.digest && document.tool_id == tool_id).then_some(document)
    }

    fn path(&self, tool_id: &str) -> PathBuf {
        self.directory.join(format!("{tool_id}{EXTENSION}"))
    }

    /// Returns the file that says what is registered.
    #[must_use]
    pub fn file(directory: &Path) -> PathBuf {
        directory.join(NAME)
    }

    /// Judges every tool again, by what there is now and what there was.
    #[must_use]
    pub fn judge(&self, known: &Known<'_>, history: &History) -> Vec<Standing> {
        let entries = self.entries.iter();
        entries.map(|(tool_id, entry)| self.stands(tool_id, entry, (known, history))).collect()
    }

    /// Reads the specs that are there, whatever the register says of them.
    pub fn documents(&self) -> impl Iterator<Item = ToolDocument> {
        self.entries.keys().filter_map(|tool_id| self.read(tool_id).ok())
    }

    /// Returns what the first gate says that does not let a spec through.
    #[must_use]
    pub fn refused(document: &ToolDocument, known: &Known<'_>) -> Option<Report> {
        let reports = [gate_4, gate_6].into_iter().map(|gate| gate(document, known));
        reports.into_iter().find(|report| !report.passed())
    }

    fn stands(
        &self,
        tool_id: &str,
        entry: &Entry,
        (known, history): (&Known<'_>, &History),
    ) -> Standing {
        let mut standing = Standing {
            tool_id: tool_id.to_owned(),
            entry: entry.clone(),
            document: None,
            disabled: None,
            unavailable: None,
            refused: None,
        };
        let document = match self.read(tool_id) {
            Ok(document) => document,
            Err(why) => {
                standing.disabled = Some(why);
                return standing;
            }
        };
        if document.digest != entry.digest {
            // What it says now was never let through, and counts for nothing.
            let why = "its file was changed since it was registered; register it again";
            standing.disabled = Some(why.to_owned());
            return standing;
        }
        standing.disabled = if let Some(Disabled { reason, at }) = &entry.disabled {
            Some(format!("it was disabled at {at}: {reason}"))
        } else {
            standing.refused = Self::refused(&document, known);
            let violations = standing.refused.iter().flat_map(|report| &report.violations);
            let why = violations.map(ToString::to_string).next();
            why.or_else(|| disowned(&document, entry, history))
        };
        standing.document = Some(document);
        standing
    }

    fn read(&self, tool_id: &str) -> Result<ToolDocument, String> {
        if let Some(staged) = self.staged(tool_id) {
            return Ok(staged);
        }
        let bytes = files::read_bounded(&self.path(tool_id), MAX_BYTES)
            .map_err(|error| format!("its file cannot be read: {error}"))?;
        let document = ToolDocument::read(&bytes).map_err(|findings| {
            let first = findings.first().map(Finding::to_string).unwrap_or_default();
            format!("its file is no tool spec any more: {first}")
        })?;
        match document.tool_id == tool_id {
            true => Ok(document),
            false => Err(format!("its file is that of the tool {}", document.tool_id)),
        }
    }
}

/// Tells that a tool was registered for a contract that is no revision of the lock: then it was made anew, and what
/// the version means now is not what it meant.
fn disowned(document: &ToolDocument, entry: &Entry, history: &History) -> Option<String> {
    let adapter_id = document.adapter_id.as_ref()?;
    let Some((version, digest)) = &entry.contract else {
        return Some("the register does not say for which contract it is".to_owned());
    };
    let known = history.get(adapter_id).is_some_and(|digests| digests.contains(digest));
    (!known).then(|| {
        format!(
            "it was registered for a contract {adapter_id} {version} that is not in the lock any more; look at what \
             changed, and register it again"
        )
    })
}

fn too_large(bytes: usize, most: usize) -> io::Error {
    io::Error::other(format!("it would have {bytes} bytes; files up to {most} bytes can be read"))
}

impl Entry {
    fn read(value: &Value) -> Option<Self> {
        let text = |value: &Value, name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let disabled = match value.get("disabled") {
            None | Some(Value::Null) => None,
            Some(said) => Some(Disabled { reason: text(said, "reason")?, at: text(said, "at")? }),
        };
        let contract = match value.get("contract") {
            None | Some(Value::Null) => None,
            Some(said) => Some((text(said, "version")?, text(said, "sha256")?.parse().ok()?)),
        };
        Some(Self {
            contract,
            version: text(value, "version")?,
            digest: text(value, "sha256")?.parse().ok()?,
            registered_at: text(value, "registered_at")?,
            disabled,
        })
    }

    fn to_json(&self) -> Object {
        let mut object = Object::with_capacity(4);
        object.insert("version", self.version.as_str());
        object.insert("sha256", self.digest.to_string());
        object.insert("registered_at", self.registered_at.as_str());
        if let Some((version, digest)) = &self.contract {
            let mut contract = Object::with_capacity(2);
            contract.insert("version", version.as_str());
            contract.insert("sha256", digest.to_string());
            object.insert("contract", contract);
        }
        if let Some(Disabled { reason, at }) = &self.disabled {
            let mut disabled = Object::with_capacity(2);
            disabled.insert("reason", reason.as_str());
            disabled.insert("at", at.as_str());
            object.insert("disabled", disabled);
        }
        object
    }
}
