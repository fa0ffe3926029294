//! `nexus-router interface freeze`: locks contracts, or drafts the first one of an adapter.

use std::path::{Path, PathBuf};

use nexus_router_sdk::Capability;
use semver::Version;

use super::super::output::tell;
use super::super::{Answer, Error, adapter};
use super::{Place, lock, read, tell_findings};
use crate::config::{ConfigFile, Environment};
use crate::interface::{
    Approvers, Before, Class, Draft, EXTENSION, Finding, Interface, Lock, Revision, Shelf,
    is_droppable, is_pending, required_bump, too_small,
};
use crate::json::Object;
use crate::loader::manifest::ManifestView;
use crate::loader::{FactoryRef, LoadRequest, Loader, Placement};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// Contracts to lock as they are.
    #[arg(value_name = "FILE", required_unless_present_any = ["from", "remove"])]
    files: Vec<PathBuf>,
    /// Draft a contract for this adapter, module:function.
    #[arg(long, value_name = "REF", conflicts_with = "files")]
    from: Option<String>,
    /// Write drafts without locking them: nobody is held to them.
    #[arg(long, conflicts_with_all = ["remove", "lock"])]
    draft: bool,
    /// Lock what --from drafts as it is.
    #[arg(long, requires = "from")]
    lock: bool,
    /// The configuration of that adapter as a JSON object, or @FILE.
    #[arg(long, value_name = "JSON", default_value = "{}", requires = "from")]
    adapter_config: String,
    /// Examples of calls: a file with a JSON object, by operation a list of objects with input, and output or
    /// error; or an object with tool, method and examples.
    #[arg(long, value_name = "FILE", requires = "from")]
    examples: Option<PathBuf>,
    /// The id of the adapter in the contract [default: its own].
    #[arg(long, value_name = "ID", requires = "from")]
    id: Option<String>,
    /// A directory with adapters; may be given more than once.
    #[arg(long, value_name = "DIR")]
    adapter_path: Vec<PathBuf>,
    /// Record that an adapter is removed: a revision that breaks whoever uses it.
    #[arg(long, value_name = "ID", conflicts_with_all = ["files", "from"])]
    remove: Option<String>,
    #[command(flatten)]
    place: Place,
}

impl Arguments {
    /// Returns whether only drafts are written.
    const fn only_drafts(&self) -> bool {
        self.draft || (self.from.is_some() && !self.lock)
    }
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    // Held until the end: two who freeze at once must not lose what the other locked.
    let (shelf, trust, _alone) = arguments.place.open_or_create_alone(environment)?;
    let mut locked = lock(&shelf)?.clone();
    if !arguments.only_drafts() {
        refuse_without_keys(&locked, &trust.approvers)?;
    }
    if let Some(id) = &arguments.remove {
        return remove(&shelf, locked, id, &trust.approvers);
    }
    let Some(contracts) = contracts(arguments, &shelf, environment)? else {
        tell("nothing was written");
        return Ok(Answer::No);
    };
    if arguments.only_drafts() {
        return write_drafts(&shelf, &contracts);
    }
    let mut refused = false;
    for (path, interface) in &contracts {
        match add(&mut locked, interface, &trust.approvers) {
            Ok(told) => tell(&format!("{}: {told}", path.display())),
            Err(problem) => {
                tell(&format!("{}: {problem}", path.display()));
                refused = true;
            }
        }
    }
    if refused {
        tell("nothing was locked");
        return Ok(Answer::No);
    }
    // A file of another place is locked here, so it has to be here.
    let elsewhere = contracts.iter().filter(|(path, interface)| !is_on(&shelf, path, interface));
    let elsewhere: Vec<&Interface> = elsewhere.map(|(_, interface)| interface).collect();
    for written in shelf.commit(&locked, &elsewhere)? {
        tell(&format!("wrote {}", written.display()));
    }
    remove_drafts(&shelf, &contracts);
    tell("nexus-router interface anchors prints what anchors the history in router.toml");
    Ok(Answer::Yes)
}

/// Reads the contracts to freeze, each with its file. What is wrong with them is told, and then there is nothing.
fn contracts(
    arguments: &Arguments,
    shelf: &Shelf,
    environment: &Environment,
) -> Result<Option<Vec<(PathBuf, Interface)>>, Error> {
    let mut contracts = Vec::new();
    if let Some(factory_ref) = &arguments.from {
        match draft(arguments, factory_ref, environment)? {
            Ok(interface) => {
                let id = &interface.adapter_id;
                for path in [shelf.path(id), shelf.draft_path(id)] {
                    if path.exists() {
                        let message = format!("there is a contract already: {}", path.display());
                        return Err(Error::usage(message, "change that one, and freeze it"));
                    }
                }
                contracts.push((shelf.path(id), interface));
            }
            Err(findings) => {
                tell_findings("the draft", &findings);
                return Ok(None);
            }
        }
    }
    let mut is_sound = true;
    for path in &arguments.files {
        match read(path)? {
            Ok(interface) => contracts.push((path.clone(), interface)),
            Err(findings) => {
                tell_findings(&path.display().to_string(), &findings);
                is_sound = false;
            }
        }
    }
    Ok(is_sound.then_some(contracts))
}

fn write_drafts(shelf: &Shelf, contracts: &[(PathBuf, Interface)]) -> Result<Answer, Error> {
    for (_, interface) in contracts {
        let path = shelf.write_draft(interface)?;
        let path = path.display();
        tell(&format!("wrote the draft {path}; nexus-router interface freeze {path} locks it"));
    }
    Ok(Answer::Yes)
}

/// Removes drafts that are locked now.
fn remove_drafts(shelf: &Shelf, contracts: &[(PathBuf, Interface)]) {
    for (path, interface) in contracts {
        let draft = shelf.draft_path(&interface.adapter_id);
        let real = |path: &Path| path.canonicalize().ok();
        if real(path).is_some() && real(path) == real(&draft) {
            // One that stays does no harm.
            match std::fs::remove_file(&draft) {
                Ok(()) => tell(&format!("removed the draft {}", draft.display())),
                Err(error) => tell(&format!("the draft {} stays: {error}", draft.display())),
            }
        }
    }
}

/// Refuses to change a lock with approvals whose keys the configuration does not have: what is approved would look as
/// if it were not.
fn refuse_without_keys(lock: &Lock, approvers: &Approvers) -> Result<(), Error> {
    let approvals = lock.revisions.iter().flat_map(|revision| &revision.approvals);
    let mut unknown = approvals.map(|approval| approval.key).filter(|key| !approvers.knows(*key));
    let Some(key) = unknown.next() else { return Ok(()) };
    let message = format!("the lock has approvals by {key}, which [contracts] does not have");
    let hint =
        "name the router.toml with the keys (--config FILE); a former key stays there with until";
    Err(Error::usage(message, hint))
}

/// Takes out the newest revision of an adapter if it may give way to another one.
fn drop_pending(lock: &mut Lock, id: &str, approvers: &Approvers) -> Result<(), String> {
    if !is_pending(lock, id, approvers) {
        return Ok(());
    }
    let Some(place) = lock.revisions.iter().rposition(|it| it.adapter_id == id) else {
        return Ok(());
    };
    let version = lock.revisions[place].version.clone();
    if !is_droppable(lock, id, approvers) {
        return Err(format!(
            "{id} {version} is signed by author and reviewer, and does not give way; nexus-router interface verify \
             tells what it lacks"
        ));
    }
    lock.revisions.remove(place);
    tell(&format!("{id} {version}, which was not approved, gives way"));
    Ok(())
}

fn is_on(shelf: &Shelf, path: &Path, interface: &Interface) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    let own = real(&shelf.path(&interface.adapter_id));
    own.is_some() && real(path) == own
}

/// Adds a revision to the lock, and tells what is to be done next.
fn add(lock: &mut Lock, interface: &Interface, approvers: &Approvers) -> Result<String, String> {
    let Interface { adapter_id, version, .. } = interface;
    let same = lock.latest(adapter_id).is_some_and(|it| it.digest() == interface.digest);
    // What was never approved was never in force, and gives way to what follows it.
    if !same {
        drop_pending(lock, adapter_id, approvers)?;
    }
    let before = Before::of(lock, adapter_id);
    let mut previous = None;
    let mut told = format!("locked {adapter_id} {version}, sha256 {}", interface.digest);
    if let Some(before) = before {
        if before.contract.is_some_and(|contract| contract.digest == interface.digest) {
            return Ok(format!("{adapter_id} {version} is locked already"));
        }
        if *version <= before.version {
            return Err(format!(
                "{adapter_id} {version} is not newer than {}, which is locked: raise the version",
                before.version
            ));
        }
        let changes = before.changes(Some(interface));
        if let Some(problem) = too_small(&before, version, &changes) {
            return Err(problem);
        }
        if required_bump(&changes) == Some(Class::Major) {
            told.push_str(&format!(
                "; it breaks others, so it holds when nexus-router interface test {adapter_id} passed, and \
                 author and reviewer signed it with nexus-router interface approve {adapter_id}"
            ));
        }
        previous = Some(before.digest);
    }
    lock.revisions.push(Revision {
        adapter_id: adapter_id.clone(),
        version: version.clone(),
        previous,
        contract: Some(interface.clone()),
        approvals: Vec::new(),
        tested: None,
    });
    Ok(told)
}

fn remove(shelf: &Shelf, mut lock: Lock, id: &str, approvers: &Approvers) -> Result<Answer, Error> {
    if let Err(problem) = drop_pending(&mut lock, id, approvers) {
        tell(&problem);
        return Ok(Answer::No);
    }
    let before = Before::of(&lock, id).filter(|before| before.contract.is_some());
    let Some(before) = before else {
        tell(&format!("there is no contract of {id}; nexus-router interface list lists them"));
        return Ok(Answer::No);
    };
    let version = Version::new(before.version.major + 1, 0, 0);
    let revision = Revision {
        adapter_id: id.to_owned(),
        version,
        previous: Some(before.digest),
        contract: None,
        approvals: Vec::new(),
        tested: None,
    };
    lock.revisions.push(revision);
    shelf.write_lock(&lock)?;
    tell(&format!(
        "{id} is removed, which breaks others: it holds when author and reviewer signed it with nexus-router \
         interface approve {id}, and {id}{EXTENSION} is gone"
    ));
    Ok(Answer::Yes)
}

/// Writes a contract from what an adapter says of itself, and from examples.
fn draft(
    arguments: &Arguments,
    factory_ref: &str,
    environment: &Environment,
) -> Result<Result<Interface, Vec<Finding>>, Error> {
    let config = adapter::read_object("--adapter-config", &arguments.adapter_config)?;
    let examples = match &arguments.examples {
        Some(file) => adapter::read_object("--examples", &format!("@{}", file.display()))?,
        None => serde_json::Map::new(),
    };
    let found = ConfigFile::find(arguments.place.config_file.as_deref(), environment)?;
    let loader = Loader::with_path(environment, &arguments.adapter_path, &found.adapter_path);
    let config = serde_json::Value::Object(config);
    let request = LoadRequest {
        factory_ref,
        adapter_id: arguments.id.as_deref(),
        config: &config,
        pin: None,
    };
    let confined = Loader { placement: Placement::worker(), ..loader.clone() };
    let loaded = confined.load(&request)?;
    let manifest = manifest(&loader, factory_ref)?;
    let catalog = match loaded.has_catalog() {
        true => loaded.catalog(loader.limits.time).unwrap_or_default(),
        false => nexus_router_sdk::Catalog::default(),
    };
    let kind = loaded.adapter_kind();
    let draft = Draft {
        adapter_id: arguments.id.as_deref().unwrap_or(loaded.adapter_id()),
        version: "1.0.0",
        description: &format!("The adapter {kind}."),
        external: loaded.capabilities().contains(&Capability::External),
        error_codes: &manifest.error_codes,
        tools: &catalog.tools,
        examples: &Object::from(&examples),
    };
    Ok(draft.contract().and_then(Interface::from_document))
}

/// Reads the manifest of an adapter; without one there is nothing in it.
fn manifest(loader: &Loader, factory_ref: &str) -> Result<ManifestView, Error> {
    let function = FactoryRef::parse(factory_ref)?.function().to_owned();
    let records = loader.find(factory_ref).map(|path| Loader::factories(&path)).transpose()?;
    let record = records.into_iter().flatten().find(|record| record.factory == function);
    let manifest = record.and_then(|record| record.manifest).unwrap_or_default();
    Ok(ManifestView::read(&manifest))
}
