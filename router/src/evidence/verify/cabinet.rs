//! The examination of a whole cabinet: every bundle, the log, and whether each has what the other tells of.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::exam::Located;
use super::places::{Places, Spot};
use super::plans::Plans;
use super::verdict::{Findings, Kind, Reason, Standing, Verdict};
use super::{Verifier, walk};
use crate::digest::Digest;
use crate::merkle::{self, Nodes as _};
use crate::seal::{self, Entry, Trust};
use crate::tlog::{self, Checkpoint, Tree};

/// The directory of the log.
pub(super) const LOG: &str = "log";
/// So many bundles are handed to the processors at once; each has an open directory, of which a process may have few.
const BATCH: usize = 128;

/// How many verdicts there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Genuine.
    pub genuine: usize,
    /// Not genuine.
    pub forged: usize,
    /// It could not be told.
    pub unclear: usize,
}

impl Total {
    /// Counts a verdict.
    pub fn count(&mut self, standing: Standing) {
        match standing {
            Standing::Genuine => self.genuine += 1,
            Standing::Forged => self.forged += 1,
            Standing::Unclear => self.unclear += 1,
        }
    }

    /// Returns what they come to: one that is not genuine decides, then one that could not be told.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        match (self.forged, self.unclear, self.genuine) {
            (0, 0, 1..) => Standing::Genuine,
            (0, ..) => Standing::Unclear,
            _ => Standing::Forged,
        }
    }
}

/// What the verifier says of a cabinet besides its bundles.
#[derive(Clone, Debug)]
pub struct Report {
    /// What lies in the cabinet that is no bundle.
    pub cabinet: Verdict,
    /// The log; none if seals do not matter.
    pub log: Option<Verdict>,
    /// How many entries of the log were held against their bundles.
    pub entries: u64,
}

/// A log whose files hold, and which of its entries have a bundle.
struct Ledger {
    directory: PathBuf,
    trust: Arc<Trust>,
    tree: Tree,
    /// Whoever seals meanwhile makes the log longer: what it had at first is what every bundle must be there of.
    first: Checkpoint,
    claimed: Vec<bool>,
    /// What is claimed, for entries that say the same as another: what two processes sealed, or one whose predecessor was
    /// killed, is there once.
    hashes: HashSet<Digest>,
    /// The last tree that was seen to be a beginning of this one.
    beginning: Option<(u64, Digest)>,
}

impl Verifier {
    /// Judges a cabinet: hands each verdict about a bundle to `each`, and returns those about the whole. `since` is the
    /// text of an earlier checkpoint, with whose log this one has to begin.
    #[must_use]
    pub fn cabinet(
        &mut self,
        root: &Path,
        since: Option<&str>,
        each: &mut dyn FnMut(&Verdict),
    ) -> Report {
        let most = self.options.limits.findings;
        let place = root.display().to_string();
        let mut cabinet = Verdict::new(place.clone(), Kind::Cabinet, most);
        let mut log = Verdict::new(LOG.to_owned(), Kind::Log, most);
        let opened = match walk::open_named(root) {
            Ok(opened) => opened,
            Err(error) => {
                let cabinet = Verdict { kind: Kind::Cabinet, ..self.refused(place, &error) };
                return Report { cabinet, log: None, entries: 0 };
            }
        };
        let mut ledger = match (&self.trust, self.options.hashes_only) {
            (_, true) => None,
            (None, false) => {
                let message = "no keys are given that could be trusted; name a trust.json";
                log.findings.tell(Reason::NoTrust, "", message);
                None
            }
            (Some(trust), false) => Ledger::open(&root.join(LOG), trust, since, &mut log),
        };
        let mut found = 0;
        let mut plans = Plans::default();
        let mut judged = |verdicts: Vec<Verdict>| {
            for mut verdict in verdicts {
                if let Some(ledger) = &mut ledger {
                    ledger.claim(&mut verdict);
                }
                if let Some(verdict) = plans.look(verdict) {
                    found += 1;
                    each(&verdict);
                }
            }
        };
        let mut workers = Workers::new(self);
        workers.walk(opened.as_fd(), &mut cabinet.findings, &mut judged);
        let entries = ledger.as_ref().map_or(0, |ledger| ledger.first.size);
        if let Some(ledger) = &mut ledger {
            let mut missing = ledger.unclaimed();
            let late = !missing.findings.list().is_empty() || plans.is_one_unnamed();
            if late && log.standing() == Standing::Genuine {
                // What was sealed a moment ago may appear only now.
                std::thread::sleep(MOMENT);
                let mut again = Findings::new(0);
                workers.walk(opened.as_fd(), &mut again, &mut |verdicts| {
                    for mut verdict in verdicts {
                        ledger.claim(&mut verdict);
                        plans.hear(&verdict);
                    }
                });
                missing = ledger.unclaimed();
            }
            log.findings.extend(missing.findings);
            log.checked.push("entries");
        }
        found += plans.count();
        plans.tell(self.options.hashes_only, &mut cabinet.findings, each);
        if found == 0 && entries == 0 {
            let message = "there is no bundle, and nothing in the log";
            cabinet.findings.tell(Reason::Nothing, "", message);
        }
        let log = (!self.options.hashes_only).then_some(log);
        Report { cabinet, log, entries }
    }
}

/// A verifier for each processor.
struct Workers(Vec<Verifier>);

impl Workers {
    /// Judges every bundle of a cabinet, some at once.
    fn walk(
        &mut self,
        root: BorrowedFd<'_>,
        findings: &mut Findings,
        judged: &mut dyn FnMut(Vec<Verdict>),
    ) {
        let Some(limits) = self.0.first().map(|verifier| verifier.options.limits) else { return };
        let mut batch = Vec::with_capacity(BATCH);
        let mut take = |spot: Spot| {
            batch.push(spot);
            if batch.len() == BATCH {
                judged(self.judge(std::mem::take(&mut batch)));
            }
        };
        Places { limits, findings, found: 0, each: &mut take }.walk(root);
        judged(self.judge(batch));
    }

    fn new(verifier: &Verifier) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(16);
        let one = || Verifier::new(verifier.trust.clone(), verifier.options);
        Self((0..count).map(|_| one()).collect())
    }

    /// Judges some bundles, and returns the verdicts in their order.
    fn judge(&mut self, spots: Vec<Spot>) -> Vec<Verdict> {
        let share = spots.len().div_ceil(self.0.len()).max(1);
        let mut spots = spots.into_iter();
        let parts: Vec<Vec<Spot>> =
            self.0.iter().map(|_| spots.by_ref().take(share).collect()).collect();
        std::thread::scope(|scope| {
            let workers: Vec<_> = self
                .0
                .iter_mut()
                .zip(parts)
                .filter(|(_, part)| !part.is_empty())
                .map(|(verifier, part)| scope.spawn(move || verifier.judge(part)))
                .collect();
            let judged = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
            judged
                .flat_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }
}

impl Verifier {
    fn judge(&mut self, spots: Vec<Spot>) -> Vec<Verdict> {
        let judge = |spot: Spot| {
            // evidence/<task>/<execution>, evidence/<task>/rejections/<id>, evidence/verify/<spec>, plan/<digest>
            let parts = spot.path.split('/').skip(1).map(str::to_owned);
            let names = match spot.kind {
                Kind::Verification => parts.skip(1).collect(),
                Kind::Rejection => {
                    parts.enumerate().filter(|(at, _)| *at != 1).map(|it| it.1).collect()
                }
                _ => parts.collect(),
            };
            self.examine(spot.directory, spot.path, &Located::At { kind: spot.kind, names })
        };
        spots.into_iter().map(judge).collect()
    }
}

impl Ledger {
    /// Opens a log and holds all its files against each other; none if there is nothing to hold bundles against.
    fn open(
        directory: &Path,
        trust: &Arc<Trust>,
        since: Option<&str>,
        verdict: &mut Verdict,
    ) -> Option<Self> {
        let findings = &mut verdict.findings;
        if directory.is_symlink() {
            findings.tell(Reason::Symlink, "", "it is a symbolic link, and no log");
            return None;
        }
        let tree = match Tree::open(directory) {
            Ok(tree) => tree,
            Err(error) => {
                tell(findings, &error, "checkpoint");
                return None;
            }
        };
        let verifiers = trust.verifiers();
        let checkpoint = match Checkpoint::open(tree.checkpoint_text(), &verifiers) {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                tell(findings, &error, "checkpoint");
                return None;
            }
        };
        if !admitted(trust, &checkpoint) {
            let message = "its checkpoint is signed by a key that is not the log's at this size, or by others too";
            findings.tell(Reason::ExpiredKey, "checkpoint", message);
        }
        if let Err(error) = tree.audit(&checkpoint) {
            tell(findings, &error, "tile");
        }
        let entry = |index: u64| {
            if index < tree.size() { tree.entry(index).map(Some) } else { Ok(None) }
        };
        if let Err(error) = trust.verify_successions(|index| entry(index).map_err(Problem::Log)) {
            match error {
                Problem::Log(error) => tell(findings, &error, "tile"),
                Problem::Seal(error) => {
                    findings.tell(Reason::LogRewritten, "", error.to_string());
                }
            }
        }
        verdict.checked.extend(["checkpoint", "tiles", "keys"]);
        if let Some(text) = since {
            earlier(&tree, text, trust, &mut verdict.findings);
            verdict.checked.push("consistency");
        }
        // What the tiles say of the number is checked; a number that they do not hold is told there.
        let claimed = usize::try_from(tree.size()).ok().filter(|size| *size <= MOST_ENTRIES);
        let Some(size) = claimed else {
            let message = format!("it has more than the {MOST_ENTRIES} entries that are looked at");
            verdict.findings.tell(Reason::TooManyEntries, "", message);
            return None;
        };
        Some(Self {
            directory: directory.to_owned(),
            trust: Arc::clone(trust),
            tree,
            first: checkpoint,
            claimed: vec![false; size],
            hashes: HashSet::new(),
            beginning: None,
        })
    }

    /// Looks at the log again, which may have grown since. One that does not continue what it was is not taken.
    fn refresh(&mut self) -> Option<()> {
        let tree = Tree::open(&self.directory).ok()?;
        let checkpoint = tree.checkpoint(&self.trust.verifiers()).ok()?;
        tree.holds(&self.first).ok()?;
        let size = usize::try_from(tree.size()).ok().filter(|size| *size <= MOST_ENTRIES)?;
        if admitted(&self.trust, &checkpoint) && size > self.claimed.len() {
            self.claimed.resize(size, false);
            self.tree = tree;
        }
        Some(())
    }

    /// Holds a bundle against the log.
    fn claim(&mut self, verdict: &mut Verdict) {
        let (Some(basis), Some(hash)) = (&verdict.rests_on, verdict.leaf_hash) else { return };
        let (leaf, beginning) = (basis.leaf, (basis.tree_size, basis.tree_root));
        if beginning.0 > self.tree.size() {
            self.refresh();
        }
        let known = self.beginning == Some(beginning)
            || (beginning.0 <= self.tree.size()
                && merkle::root_at(&self.tree, beginning.0).is_ok_and(|root| root == beginning.1));
        if !known {
            let message = format!(
                "its proof is of a log of {} entries, and the log here does not begin with that",
                beginning.0
            );
            return verdict.findings.tell(Reason::NotInLog, "", message);
        }
        self.beginning = Some(beginning);
        let there = self.tree.node(0, leaf).is_ok_and(|found| found == hash);
        match usize::try_from(leaf).ok().and_then(|leaf| self.claimed.get_mut(leaf)) {
            Some(claimed) if there => {
                *claimed = true;
                self.hashes.insert(hash);
            }
            _ => {
                let message = format!("entry {leaf} of the log is not about it");
                verdict.findings.tell(Reason::NotInLog, "", message);
            }
        }
    }

    /// Tells the entries whose bundles are not there.
    fn unclaimed(&self) -> Verdict {
        let mut verdict = Verdict::new(LOG.to_owned(), Kind::Log, MOST_MISSING);
        let mut index = 0;
        while index < self.first.size {
            let entries = match self.tree.entries_from(index) {
                Ok(entries) if !entries.is_empty() => entries,
                Ok(_) => break,
                Err(error) => {
                    tell(&mut verdict.findings, &error, "tile/entries");
                    break;
                }
            };
            for bytes in entries {
                if index < self.first.size {
                    self.entry(index, &bytes, &mut verdict);
                }
                index += 1;
            }
        }
        verdict
    }

    fn entry(&self, index: u64, bytes: &[u8], verdict: &mut Verdict) {
        let place = format!("entry/{index}");
        let Some(Entry { leaf, .. }) = Entry::parse(bytes) else {
            let message =
                "it is no entry of this program: kind, digests of manifest, spec and statement";
            return verdict.findings.tell(Reason::LogDamaged, &place, message);
        };
        let kept = matches!(
            leaf.kind,
            seal::Kind::Execution | seal::Kind::Rejection | seal::Kind::Verification
        );
        let claimed = usize::try_from(index)
            .ok()
            .and_then(|at| self.claimed.get(at))
            .copied()
            .unwrap_or(false);
        if kept && !claimed && !self.hashes.contains(&merkle::leaf(bytes)) {
            let message = format!(
                "the bundle of this {} with the manifest {} is not in the cabinet, or is not genuine",
                leaf.kind.name(),
                leaf.manifest_sha256
            );
            verdict.findings.tell(Reason::MissingBundle, &place, message);
        }
    }
}

/// So many entries without a bundle are told at most.
const MOST_MISSING: usize = 100;
/// How long it takes until what is sealed has appeared.
const MOMENT: Duration = Duration::from_millis(250);
/// More entries are not held against their bundles.
const MOST_ENTRIES: usize = 1 << 30;

/// Why a succession of keys is not in the log.
enum Problem {
    Log(tlog::Error),
    Seal(seal::Error),
}

impl From<seal::Error> for Problem {
    fn from(error: seal::Error) -> Self {
        Self::Seal(error)
    }
}

/// Says whether the one key signed a checkpoint that is the log's at its size.
fn admitted(trust: &Trust, checkpoint: &Checkpoint) -> bool {
    checkpoint.foreign_signatures() == 0
        && checkpoint.signers().iter().all(|signer| trust.admits_log(signer, checkpoint.size))
}

/// Holds the log to an earlier checkpoint.
fn earlier(tree: &Tree, text: &str, trust: &Trust, findings: &mut Findings) {
    let checkpoint = match Checkpoint::open(text, &trust.verifiers()) {
        Ok(checkpoint) if admitted(trust, &checkpoint) => checkpoint,
        Ok(_) => {
            let message =
                "the earlier checkpoint is signed by a key that was not the log's at its size";
            return findings.tell(Reason::NoTrust, "", message);
        }
        Err(error) => {
            let message = format!("the earlier checkpoint cannot be used: {error}");
            return findings.tell(Reason::NoTrust, "", message);
        }
    };
    if checkpoint.size > tree.size() {
        let (was, is) = (checkpoint.size, tree.size());
        let message = format!("it had {was} entries, and has {is}");
        findings.tell(Reason::LogRewritten, "checkpoint", message);
    } else if let Err(error) = tree.holds(&checkpoint) {
        findings.tell(Reason::LogRewritten, "tile", error.to_string());
    }
}

/// Tells what is wrong with the log.
fn tell(findings: &mut Findings, error: &tlog::Error, file: &str) {
    let reason = match error {
        tlog::Error::File { source, .. } if source.kind() != std::io::ErrorKind::NotFound => {
            Reason::Unreadable
        }
        tlog::Error::UnknownKey { .. } | tlog::Error::Origin { .. } => Reason::UntrustedLog,
        _ => Reason::LogDamaged,
    };
    findings.tell(reason, file, error.to_string());
}
