//! What becomes of runs whose process is gone: they go on, or they are ended; none is left running by
//! nobody.

use std::sync::Arc;

use crate::clock::Clock;
use crate::dispatch::{Broken, Cancel, Execution, Obstacle, Surroundings};
use crate::event::Failure;
use crate::outcome::Outcome;
use crate::recorder::Recorder;
use crate::registry::Unavailability;
use crate::run::Phase;
use crate::store::{self, Orphan, Status, Store};

/// What became of a run that was left behind.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The run.
    pub run_id: String,
    /// What was done with it.
    pub how: How,
    /// Its status now.
    pub status: Status,
}

/// What was done with a run that was left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// It went on, and is over.
    Resumed,
    /// It went on, and waits for an approval.
    Waits,
    /// It was ended as interrupted.
    Ended {
        /// Why it could not go on.
        why: String,
        /// Whether a call was under way of which nobody knows what it did.
        in_doubt: bool,
    },
    /// It could neither go on nor be ended, or goes on when its adapter is available.
    Left {
        /// Why.
        why: String,
    },
}

/// What to do with runs that could go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resumable {
    /// Carry them out.
    #[default]
    Resume,
    /// End them like the others.
    End,
    /// Leave them as they are.
    Leave,
}

/// Returns why the adapter of a run that was left behind cannot be called now, if nothing else is in the way.
pub(crate) fn unavailable_adapter(
    store: &Store,
    clock: Clock,
    around: &Surroundings,
    orphan: &Orphan,
) -> Option<Unavailability> {
    // Anything else that is wrong with the run is found when it is recovered.
    let recorder = Recorder::resume(store.clone(), clock, orphan).ok()?;
    let phase = recorder.run().phase();
    if orphan.copied || phase.is_terminal() || matches!(phase, Phase::Empty | Phase::Waiting) {
        return None;
    }
    Execution::take_up(recorder, orphan, Arc::default()).obstacle(around)?.unavailable
}

/// Carries a run on, or ends it.
pub(crate) async fn recover(
    store: &Store,
    clock: Clock,
    around: &Surroundings,
    orphan: &Orphan,
    resumable: Resumable,
    cancelled: Arc<Cancel>,
) -> Recovered {
    let run_id = orphan.log.record.header.run_id.clone();
    let left = |why: String| Recovered {
        run_id: run_id.clone(),
        how: How::Left { why },
        status: Status::Running,
    };
    let recorder = match Recorder::resume(store.clone(), clock, orphan) {
        Ok(recorder) => recorder,
        Err(unfit) => return left(unfit.to_string()),
    };
    if recorder.run().phase().is_terminal() || recorder.run().phase() == Phase::Empty {
        return left("its log does not fit its status".to_owned());
    }
    // A person is waited for, whoever is gone; but what is asked in a copy, only the other store may answer.
    if recorder.run().phase() == Phase::Waiting && !orphan.copied {
        return left("it waits for an approval".to_owned());
    }
    let mut execution = Execution::take_up(recorder, orphan, cancelled);
    execution.charge_caller(around);
    let copied = orphan.copied.then(|| Obstacle {
        why: "it was under way when the store was copied; only the other store knows what became of it"
            .to_owned(),
        in_doubt: true,
        ..Obstacle::default()
    });
    let obstacle = copied.or_else(|| execution.obstacle(around));
    let obstacle = match (obstacle, resumable) {
        (None, Resumable::Leave) => return left("it can be resumed".to_owned()),
        (None, Resumable::End) => {
            let why = "its process was gone between two calls".to_owned();
            Some(Obstacle { why, ..Obstacle::default() })
        }
        (obstacle, _) => obstacle,
    };
    let (carried, how) = match obstacle {
        None => (execution.carry_out(around).await, How::Resumed),
        Some(obstacle) => {
            let (why, in_doubt) = (obstacle.why.clone(), obstacle.in_doubt);
            (execution.end(Some(obstacle.failure())).await, How::Ended { why, in_doubt })
        }
    };
    match carried {
        Ok(()) => {
            let waits = execution.recorder().run().phase() == Phase::Waiting;
            let how = if waits { How::Waits } else { how };
            Recovered { run_id, how, status: execution.into_outcome().status }
        }
        Err(broken) => {
            // It has an owner now, so nobody else will see to it.
            drop(abandon(execution, &broken));
            left(broken.to_string())
        }
    }
}

/// Ends a run because its caller does not want it any more.
///
/// # Errors
/// When its log is damaged, or the store cannot record the end.
pub(crate) async fn cancel(store: &Store, clock: Clock, orphan: &Orphan) -> Result<(), Broken> {
    let recorder = Recorder::resume(store.clone(), clock, orphan)
        .map_err(|unfit| store::Error::Damaged(unfit.to_string()))?;
    let mut execution = Execution::take_up(recorder, orphan, Arc::default());
    let ended = execution.end(Some(Failure::Cancelled)).await;
    if let Err(broken) = &ended {
        drop(abandon(execution, broken));
    }
    ended
}

/// Ends a run that the store could not record, as soon as the store can again.
pub(crate) fn abandon(mut execution: Execution, broken: &Broken) -> Outcome {
    let message = format!("the record could not be written: {broken}");
    // Before a call with effects the store is asked, so one that is open was not made, unless it is the
    // program that is at fault. Any other call has no effects.
    let called = matches!(execution.recorder().run().phase(), Phase::Called(_));
    let in_doubt = called && matches!(broken, Broken::Illegal(_));
    if let Err(illegal) = execution.end_later(Failure::Interrupted { message, in_doubt }) {
        tracing::error!(%illegal, "a run could not be ended");
    }
    execution.into_outcome()
}
