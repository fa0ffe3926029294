//! The log of all weeks: it holds, it continues what it was, and every entry of this week has its bundle.

use std::collections::BTreeSet;
use std::path::Path;

use super::artifact::Logged;
use super::evidence::{Check, Examined};
use super::{Place, file};
use crate::files;
use crate::json::Value;
use crate::merkle;
use crate::seal::{self, Entry, Kind, Trust};
use crate::tlog::{Checkpoint, Tree};

/// A longer file is no checkpoint.
pub(super) const MAX_CHECKPOINT: usize = 128 * 1024;

impl Logged {
    /// Reads what an artifact says of the log.
    pub(super) fn of(artifact: &Value) -> Option<Self> {
        let number = |name: &str| u64::try_from(artifact.get(name)?.as_i64()?).ok();
        let text = |name: &str| Some(artifact.get(name)?.as_str()?.to_owned());
        Some(Self {
            run_id: text("run_id")?,
            prev_tree_size: number("prev_tree_size")?,
            tree_size: number("tree_size")?,
            checkpoint_root: text("checkpoint_root")?,
        })
    }
}

/// Holds the bundles of a run against the log, and the log against what it was.
pub(super) fn examine(
    examined: &mut Examined,
    (place, run): (&Place, &Path),
    trust: &Trust,
    logged: &Logged,
    previous: Option<&str>,
) {
    let opened = Tree::open(&seal::log_directory(place.root())).and_then(|tree| {
        let checkpoint = tree.checkpoint(&trust.verifiers())?;
        tree.audit(&checkpoint)?;
        Ok((tree, checkpoint))
    });
    let (tree, checkpoint) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            tracing::warn!(%error, "the log does not hold");
            return examined.tell(Check::Consistency, "log_damaged:log");
        }
    };
    if !admitted(trust, &checkpoint) {
        examined.tell(Check::Consistency, "untrusted_log:log/checkpoint");
    }
    consistent(examined, &tree, (place, run), trust, logged);
    if let Some(text) = previous {
        held(examined, &tree, trust, ("previous", text), None);
    }
    claimed(examined, &tree, logged);
}

fn admitted(trust: &Trust, checkpoint: &Checkpoint) -> bool {
    checkpoint.foreign_signatures() == 0
        && checkpoint.signers().iter().all(|signer| trust.admits_log(signer, checkpoint.size))
}

/// Holds the log to every checkpoint that is kept here: that from before this run, that after it, and those of other runs.
fn consistent(
    examined: &mut Examined,
    tree: &Tree,
    (place, run): (&Place, &Path),
    trust: &Trust,
    logged: &Logged,
) {
    let mut notes = vec![
        (run.join(file::PREVIOUS), "checkpoint.previous".to_owned(), Some(logged.prev_tree_size)),
        (run.join(file::CHECKPOINT), "checkpoint".to_owned(), Some(logged.tree_size + 1)),
    ];
    for other in place.runs().unwrap_or_default() {
        if other != logged.run_id {
            notes.push((place.of_run(&other).join(file::CHECKPOINT), other, None));
        }
    }
    for (path, name, size) in notes {
        let bytes = files::read_bounded(&path, MAX_CHECKPOINT).unwrap_or_default();
        let text = String::from_utf8(bytes).unwrap_or_default();
        held(examined, tree, trust, (&name, &text), size);
    }
    let begins = logged.prev_tree_size <= logged.tree_size && logged.tree_size < tree.size();
    let root = begins.then(|| merkle::root_at(tree, logged.tree_size).ok()).flatten();
    if root.map(|root| root.to_string()).as_deref() != Some(logged.checkpoint_root.as_str()) {
        examined.tell(Check::Consistency, "log_rewritten:checkpoint_root");
    }
}

/// Holds the log to one checkpoint, which may have to be of a certain size.
fn held(
    examined: &mut Examined,
    tree: &Tree,
    trust: &Trust,
    (name, text): (&str, &str),
    size: Option<u64>,
) {
    let checkpoint = match Checkpoint::open(text, &trust.verifiers()) {
        Ok(checkpoint) if admitted(trust, &checkpoint) => checkpoint,
        _ => return examined.tell(Check::Consistency, format!("checkpoint_untrusted:{name}")),
    };
    let wrong = size.is_some_and(|size| size != checkpoint.size);
    if wrong || checkpoint.size > tree.size() || tree.holds(&checkpoint).is_err() {
        examined.tell(Check::Consistency, format!("log_rewritten:{name}"));
    }
}

/// Holds every bundle to its entry, and every entry of this run to its bundle.
fn claimed(examined: &mut Examined, tree: &Tree, logged: &Logged) {
    let week = logged.prev_tree_size..logged.tree_size;
    let mut leaves = BTreeSet::new();
    for (place, basis) in std::mem::take(&mut examined.claims) {
        let within = basis.tree_size <= tree.size()
            && merkle::root_at(tree, basis.tree_size).is_ok_and(|root| root == basis.tree_root);
        let reason = match (within, week.contains(&basis.leaf)) {
            (false, _) => "not_in_log",
            (true, false) => "other_week",
            (true, true) if !leaves.insert(basis.leaf) => "twice_in_log",
            (true, true) => continue,
        };
        examined.tell(Check::Inclusion, format!("{reason}:{place}"));
    }
    for index in week {
        let entry = tree.entry(index).ok().and_then(|bytes| Entry::parse(&bytes));
        match entry.map(|entry| entry.leaf.kind) {
            Some(Kind::Key) => {}
            Some(_) if leaves.contains(&index) => {}
            Some(kind) => {
                examined.tell(Check::Inclusion, format!("missing_bundle:{}:{index}", kind.name()));
            }
            None => return examined.tell(Check::Inclusion, format!("log_damaged:entry:{index}")),
        }
    }
}
