//! Two policies about the same calls: equal, narrower, wider or both.

use std::collections::{BTreeMap, BTreeSet};

use super::call::{CallReader, PolicyCall, ReadEvent};
use super::evaluate::PolicyOutcome;
use super::file::PolicyFile;
use super::world::{Gap, Worlds};
use crate::clock::Timestamp;
use crate::config::Effect;
use crate::event::Line;
use crate::store::EventVisitor;

/// Direction in which a new policy changes the decision about a call. The order is deny, approve, allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// The effect is the same.
    Equal,
    /// The new effect permits less.
    Narrows,
    /// The new effect permits more.
    Widens,
}

impl Change {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Narrows => "narrows",
            Self::Widens => "widens",
        }
    }

    fn of(old: Effect, new: Effect) -> Self {
        match rank(new).cmp(&rank(old)) {
            std::cmp::Ordering::Less => Self::Narrows,
            std::cmp::Ordering::Equal => Self::Equal,
            std::cmp::Ordering::Greater => Self::Widens,
        }
    }
}

const fn rank(effect: Effect) -> u8 {
    match effect {
        Effect::Deny => 0,
        Effect::Approve => 1,
        Effect::Allow => 2,
    }
}

/// Result of a comparison over all calls that can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// No effect changes.
    Equal,
    /// Some calls are permitted less, none more.
    Narrows,
    /// Some calls are permitted more, none less.
    Widens,
    /// Some calls are permitted more, others less.
    Mixed,
}

impl PolicyVerdict {
    /// Returns the verdict about something that is narrowed, widened or both.
    #[must_use]
    pub const fn of(narrows: bool, widens: bool) -> Self {
        match (narrows, widens) {
            (false, false) => Self::Equal,
            (true, false) => Self::Narrows,
            (false, true) => Self::Widens,
            (true, true) => Self::Mixed,
        }
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Narrows => "narrows",
            Self::Widens => "widens",
            Self::Mixed => "mixed",
        }
    }
}

/// Comparison of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallComparison {
    /// The direction is known.
    Judged {
        /// The direction.
        change: Change,
        /// The decision of the old policy.
        old: PolicyOutcome,
        /// The decision of the new policy.
        new: PolicyOutcome,
    },
    /// The direction depends on something that is missing.
    Unjudged {
        /// Everything that is missing.
        gaps: BTreeSet<Gap>,
        /// The directions that are possible.
        possible: BTreeSet<Change>,
    },
}

/// Call whose effect changes.
#[derive(Clone, Debug)]
pub struct ChangedCall {
    /// The call, without its arguments.
    pub call: PolicyCall,
    /// The direction.
    pub change: Change,
    /// The decision of the old policy.
    pub old: PolicyOutcome,
    /// The decision of the new policy.
    pub new: PolicyOutcome,
}

/// Call that cannot be judged.
#[derive(Clone, Debug)]
pub struct UnjudgedCall {
    /// The call, without its arguments.
    pub call: PolicyCall,
    /// Everything that is missing.
    pub gaps: BTreeSet<Gap>,
    /// The directions that are possible.
    pub possible: BTreeSet<Change>,
}

/// Counts and examples of a comparison.
#[derive(Clone, Debug, Default)]
pub struct ComparisonReport {
    /// Calls that were compared.
    pub total: u64,
    /// Calls with the same effect.
    pub equal: u64,
    /// Calls that are permitted less.
    pub narrowed: u64,
    /// Calls that are permitted more.
    pub widened: u64,
    /// Calls that cannot be judged.
    pub unjudged: u64,
    /// Calls that cannot be judged and may be permitted more.
    pub may_widen: u64,
    /// Calls by what is missing. A call with two gaps counts twice.
    pub gaps: BTreeMap<Gap, u64>,
    /// Decisions whose record does not name the call.
    pub unreadable: u64,
    /// The first calls that are permitted more.
    pub widening: Vec<ChangedCall>,
    /// The first calls that are permitted less.
    pub narrowing: Vec<ChangedCall>,
    /// The first calls that cannot be judged.
    pub unjudged_calls: Vec<UnjudgedCall>,
}

impl ComparisonReport {
    /// Returns the verdict about the calls that can be judged.
    #[must_use]
    pub const fn verdict(&self) -> PolicyVerdict {
        PolicyVerdict::of(self.narrowed > 0, self.widened > 0)
    }
}

/// Compares two policies call by call.
#[derive(Debug)]
pub struct PolicyComparison {
    /// The old policy.
    pub old: PolicyFile,
    /// The new policy.
    pub new: PolicyFile,
    /// The counts so far.
    pub report: ComparisonReport,
    /// Calls before this time are left out.
    since: Option<Timestamp>,
    /// The most calls of each kind that are listed.
    limit: usize,
    reader: CallReader,
}

impl PolicyComparison {
    /// Prepares a comparison.
    #[must_use]
    pub fn new(old: PolicyFile, new: PolicyFile, since: Option<Timestamp>, limit: usize) -> Self {
        let (report, reader) = (ComparisonReport::default(), CallReader::default());
        Self { old, new, report, since, limit, reader }
    }

    /// Compares one call.
    pub fn compare(&mut self, call: &PolicyCall) -> CallComparison {
        // Runs of the command line bring adapters along that neither configuration has.
        let is_foreign = self.old.lacks(call) && self.new.lacks(call);
        let worlds = Worlds::decide(|world| {
            let old = self.old.evaluate(call, world, is_foreign, &mut ())?;
            let new = self.new.evaluate(call, world, is_foreign, &mut ())?;
            Ok((old, new))
        });
        let change =
            |(old, new): &(PolicyOutcome, PolicyOutcome)| Change::of(old.effect, new.effect);
        let mut possible: BTreeSet<Change> = worlds.decisions.iter().map(change).collect();
        if !worlds.is_complete() {
            possible.extend([Change::Equal, Change::Narrows, Change::Widens]);
        }
        match (possible.len(), worlds.decisions.first()) {
            (1, Some(first)) => {
                let (change, (old, new)) = (change(first), *first);
                CallComparison::Judged { change, old, new }
            }
            _ => CallComparison::Unjudged { gaps: worlds.gaps, possible },
        }
    }

    /// Compares one call, and counts it.
    pub fn add(&mut self, call: PolicyCall) {
        let compared = self.compare(&call);
        let report = &mut self.report;
        report.total += 1;
        // Reports omit arguments.
        let call = PolicyCall { args: crate::json::Object::new(), ..call };
        match compared {
            CallComparison::Judged { change: Change::Equal, .. } => report.equal += 1,
            CallComparison::Judged { change, old, new } => {
                let (count, list) = match change {
                    Change::Widens => (&mut report.widened, &mut report.widening),
                    Change::Narrows | Change::Equal => {
                        (&mut report.narrowed, &mut report.narrowing)
                    }
                };
                *count += 1;
                if list.len() < self.limit {
                    list.push(ChangedCall { call, change, old, new });
                }
            }
            CallComparison::Unjudged { gaps, possible } => {
                report.unjudged += 1;
                report.may_widen += u64::from(possible.contains(&Change::Widens));
                for gap in &gaps {
                    *report.gaps.entry(*gap).or_default() += 1;
                }
                if report.unjudged_calls.len() < self.limit {
                    report.unjudged_calls.push(UnjudgedCall { call, gaps, possible });
                }
            }
        }
    }
}

impl EventVisitor for PolicyComparison {
    fn visit(&mut self, line: &Line<'_>) {
        let read = self.reader.read(line);
        // An event without a readable time may be of any time.
        let is_earlier = |since| Timestamp::parse(&line.ts).is_some_and(|at| at < since);
        match read {
            ReadEvent::Other => {}
            _ if self.since.is_some_and(is_earlier) => {}
            ReadEvent::Decision(call) => self.add(*call),
            ReadEvent::Unreadable => self.report.unreadable += 1,
        }
    }
}
