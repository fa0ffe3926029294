//! Circuit breaker of one adapter: rejects calls while the service behind it fails, and closes after one good probe.
//!
//! A breaker has three states. Closed, it counts failures in a row. Open, it rejects every call until its pause is over.
//! Half-open, it lets a single call through: if that is answered the circuit closes, and else it opens for longer.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Settings of circuit breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Whether circuits open at all.
    pub enabled: bool,
    /// Failures in a row that open a circuit.
    pub failures: u32,
    /// The pause until the first probe. It doubles with every probe that fails.
    pub pause: Duration,
    /// The longest pause.
    pub max_pause: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            failures: 5,
            pause: Duration::from_secs(5),
            max_pause: Duration::from_secs(60),
        }
    }
}

/// Kind of a call, which decides when it may probe a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// It changes nothing outside.
    ReadOnly,
    /// It may change something, and its adapter is not known to have calls that only read.
    Effects,
    /// It may change something, and its adapter also has calls that only read. Those probe first.
    EffectsBesideReads,
}

/// Outcome of a call, as far as it tells something about the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceOutcome<'a> {
    /// The service answered, if only with an error.
    Answered,
    /// The service failed, with this stable code.
    Failed(&'a str),
    /// The outcome tells nothing.
    Unknown,
}

/// Change of a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CircuitChange {
    /// The circuit opened after so many failures in a row.
    Opened {
        /// Failures in a row.
        failures: u32,
        /// The stable code of the last one.
        code: String,
        /// The pause until the first probe.
        pause: Duration,
    },
    /// The circuit closed: a probe was answered, or an operator reset it.
    Closed,
}

/// Rejection of a call by an open circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCircuit {
    /// Failures in a row.
    pub failures: u32,
    /// The stable code of the last one.
    pub code: String,
    /// The time until a call may be let through.
    pub left: Duration,
}

/// State of a circuit, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitStatus {
    /// `closed`, `open` or `half_open`.
    pub state: &'static str,
    /// Failures in a row.
    pub failures: u32,
    /// The stable code of the failure that opened the circuit or kept it open; only while it is not closed.
    pub code: Option<String>,
    /// The time until the next probe, while the circuit is open.
    pub left: Option<Duration>,
}

/// Circuit breaker of one adapter. A call under a closed circuit costs two loads of an atomic.
#[derive(Debug, Default)]
pub struct Breaker(Arc<Circuit>);

#[derive(Debug, Default)]
struct Circuit {
    /// Failures in a row.
    failures: AtomicU32,
    is_open: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Closed,
    Open {
        until: Instant,
        pause: Duration,
        code: String,
        /// Whether a probe is under way.
        probing: bool,
    },
}

/// Permission of a breaker for one call. A probe that is dropped without an outcome makes room for another.
#[derive(Debug, Default)]
#[must_use = "the outcome of the call is reported with its pass"]
pub struct BreakerPass {
    probe: Option<Arc<Circuit>>,
}

impl BreakerPass {
    /// Reports whether the call is the probe of a half-open circuit.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.probe.is_some()
    }
}

impl Drop for BreakerPass {
    fn drop(&mut self) {
        if let Some(circuit) = self.probe.take()
            && let State::Open { probing, .. } = &mut *circuit.lock()
        {
            *probing = false;
        }
    }
}

impl Circuit {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, state: &mut State, (now, pause): (Instant, Duration), code: &str) {
        *state = State::Open { until: now + pause, pause, code: code.to_owned(), probing: false };
        self.is_open.store(true, Ordering::Release);
    }

    fn close(&self, state: &mut State) {
        *state = State::Closed;
        self.failures.store(0, Ordering::Release);
        self.is_open.store(false, Ordering::Release);
    }
}

impl Breaker {
    /// The longest wait in the error of a call while a probe is under way.
    const PROBE_WAIT: Duration = Duration::from_secs(1);

    /// Lets a call through, or rejects it. The clock is read only if the circuit is not closed.
    ///
    /// # Errors
    /// When the circuit is open, or half-open and another call probes or has to.
    pub fn admit(
        &self,
        settings: &BreakerSettings,
        kind: CallKind,
        now: impl FnOnce() -> Instant,
    ) -> Result<BreakerPass, OpenCircuit> {
        if !self.0.is_open.load(Ordering::Acquire) || !settings.enabled {
            return Ok(BreakerPass::default());
        }
        let mut state = self.0.lock();
        let State::Open { until, code, probing, .. } = &mut *state else {
            return Ok(BreakerPass::default());
        };
        let from = match kind {
            CallKind::ReadOnly | CallKind::Effects => *until,
            CallKind::EffectsBesideReads => *until + settings.pause,
        };
        let left = from.saturating_duration_since(now());
        let left =
            if left.is_zero() && *probing { settings.pause.min(Self::PROBE_WAIT) } else { left };
        if left.is_zero() {
            *probing = true;
            return Ok(BreakerPass { probe: Some(Arc::clone(&self.0)) });
        }
        let failures = self.0.failures.load(Ordering::Acquire);
        Err(OpenCircuit { failures, code: code.clone(), left })
    }

    /// Takes the outcome of a call into account. Returns how the circuit changed, if it did.
    pub fn report(
        &self,
        settings: &BreakerSettings,
        mut pass: BreakerPass,
        outcome: ServiceOutcome<'_>,
        now: impl FnOnce() -> Instant,
    ) -> Option<CircuitChange> {
        match (pass.probe.take(), outcome) {
            (None, ServiceOutcome::Answered) => {
                // Written only after a failure, so that calls in parallel do not share a cache line that changes.
                if self.0.failures.load(Ordering::Acquire) > 0
                    && !self.0.is_open.load(Ordering::Acquire)
                {
                    self.0.failures.store(0, Ordering::Release);
                }
                None
            }
            (None, ServiceOutcome::Unknown) => None,
            (None, ServiceOutcome::Failed(code)) => self.count_failure(settings, code, now()),
            (Some(circuit), ServiceOutcome::Unknown) => {
                pass.probe = Some(circuit);
                None
            }
            (Some(circuit), outcome) => {
                let mut state = circuit.lock();
                // Somebody may have reset it meanwhile.
                let State::Open { pause, .. } = &*state else { return None };
                let pause = pause.saturating_mul(2).min(settings.max_pause).max(settings.pause);
                if let ServiceOutcome::Failed(code) = outcome {
                    circuit.failures.fetch_add(1, Ordering::AcqRel);
                    circuit.open(&mut state, (now(), pause), code);
                    return None;
                }
                circuit.close(&mut state);
                Some(CircuitChange::Closed)
            }
        }
    }

    fn count_failure(
        &self,
        settings: &BreakerSettings,
        code: &str,
        now: Instant,
    ) -> Option<CircuitChange> {
        if !settings.enabled {
            return None;
        }
        let mut state = self.0.lock();
        // A call that began before the circuit opened says nothing new.
        if matches!(*state, State::Open { .. }) {
            return None;
        }
        let failures = self.0.failures.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        if failures < settings.failures {
            return None;
        }
        self.0.open(&mut state, (now, settings.pause), code);
        Some(CircuitChange::Opened { failures, code: code.to_owned(), pause: settings.pause })
    }

    /// Closes the circuit in any state. Returns whether it was open.
    pub fn reset(&self) -> bool {
        let mut state = self.0.lock();
        let was_open = matches!(*state, State::Open { .. });
        self.0.close(&mut state);
        was_open
    }

    /// Returns the state of the circuit.
    #[must_use]
    pub fn status(&self, now: Instant) -> CircuitStatus {
        let failures = self.0.failures.load(Ordering::Acquire);
        match &*self.0.lock() {
            State::Closed => CircuitStatus { state: "closed", failures, code: None, left: None },
            State::Open { until, code, .. } => {
                let left = until.saturating_duration_since(now);
                let left = Some(left).filter(|left| !left.is_zero());
                let state = if left.is_some() { "open" } else { "half_open" };
                CircuitStatus { state, failures, code: Some(code.clone()), left }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BreakerSettings = BreakerSettings {
        enabled: true,
        failures: 3,
        pause: Duration::from_secs(5),
        max_pause: Duration::from_secs(12),
    };
    const FAILED: ServiceOutcome<'_> = ServiceOutcome::Failed("TIMEOUT");

    /// Breaker with a clock of its own.
    struct Bench {
        breaker: Breaker,
        settings: BreakerSettings,
        now: Instant,
    }

    impl Bench {
        fn new() -> Self {
            Self { breaker: Breaker::default(), settings: SETTINGS, now: Instant::now() }
        }

        fn opened() -> Self {
            let mut bench = Self::new();
            for _ in 0..3 {
                bench.call(FAILED);
            }
            assert_eq!(bench.state(), "open");
            bench
        }

        fn pass(&self, seconds: u64) -> Self {
            let breaker = Breaker(Arc::clone(&self.breaker.0));
            Self { breaker, now: self.now + Duration::from_secs(seconds), settings: self.settings }
        }

        fn admit(&self, kind: CallKind) -> Result<BreakerPass, OpenCircuit> {
            self.breaker.admit(&self.settings, kind, || self.now)
        }

        fn report(&self, pass: BreakerPass, outcome: ServiceOutcome<'_>) -> Option<CircuitChange> {
            self.breaker.report(&self.settings, pass, outcome, || self.now)
        }

        fn call(&mut self, outcome: ServiceOutcome<'_>) -> Option<CircuitChange> {
            let pass = self.admit(CallKind::Effects).unwrap();
            self.report(pass, outcome)
        }

        fn left(&self, kind: CallKind) -> u64 {
            self.admit(kind).unwrap_err().left.as_secs()
        }

        fn state(&self) -> &'static str {
            self.breaker.status(self.now).state
        }
    }

    #[test]
    fn failures_in_a_row_open_the_circuit() {
        let mut bench = Bench::new();
        for _ in 0..5 {
            assert_eq!((bench.call(FAILED), bench.call(FAILED)), (None, None));
            assert_eq!(bench.call(ServiceOutcome::Answered), None);
        }
        assert_eq!((bench.call(FAILED), bench.call(FAILED)), (None, None));
        // What tells nothing about the service does not count, and resets nothing.
        assert_eq!(bench.call(ServiceOutcome::Unknown), None);
        let pause = SETTINGS.pause;
        let opened = CircuitChange::Opened { failures: 3, code: "TIMEOUT".to_owned(), pause };
        assert_eq!(bench.call(FAILED), Some(opened));
        let rejected = bench.admit(CallKind::ReadOnly).unwrap_err();
        let expected = OpenCircuit { failures: 3, code: "TIMEOUT".to_owned(), left: pause };
        assert_eq!(rejected, expected);
        let status = bench.breaker.status(bench.now);
        assert_eq!((status.state, status.left), ("open", Some(pause)));
        assert_eq!(status.code.as_deref(), Some("TIMEOUT"));
    }

    #[test]
    fn half_open_circuit_lets_one_probe_through() {
        let bench = Bench::opened();
        assert_eq!(bench.pass(4).left(CallKind::ReadOnly), 1);
        let later = bench.pass(5);
        assert_eq!(later.state(), "half_open");
        let probe = later.admit(CallKind::ReadOnly).unwrap();
        assert!(probe.is_probe());
        assert_eq!(later.left(CallKind::ReadOnly), 1);
        assert_eq!(later.report(probe, ServiceOutcome::Answered), Some(CircuitChange::Closed));
        assert_eq!(later.state(), "closed");
        assert!(!later.admit(CallKind::Effects).unwrap().is_probe());
        assert_eq!(later.breaker.status(later.now).failures, 0);
    }

    #[test]
    fn failed_probes_lengthen_the_pause_up_to_its_limit() {
        let mut bench = Bench::opened();
        for (pause, next) in [(5, 10), (10, 12), (12, 12)] {
            bench = bench.pass(pause);
            let probe = bench.admit(CallKind::ReadOnly).unwrap();
            assert_eq!(bench.report(probe, FAILED), None);
            assert_eq!(bench.left(CallKind::ReadOnly), next);
        }
    }

    #[test]
    fn probe_without_an_outcome_makes_room_for_another() {
        let later = Bench::opened().pass(5);
        drop(later.admit(CallKind::ReadOnly).unwrap());
        let probe = later.admit(CallKind::ReadOnly).unwrap();
        assert_eq!(later.report(probe, ServiceOutcome::Unknown), None);
        assert_eq!(later.state(), "half_open");
        assert!(later.admit(CallKind::ReadOnly).unwrap().is_probe());
    }

    #[test]
    fn calls_that_read_probe_before_those_with_effects() {
        let later = Bench::opened().pass(5);
        assert_eq!(later.left(CallKind::EffectsBesideReads), 5);
        assert!(later.admit(CallKind::Effects).unwrap().is_probe());
        assert!(later.admit(CallKind::ReadOnly).unwrap().is_probe());
        // If nobody reads, a call with effects probes in the end.
        assert!(later.pass(5).admit(CallKind::EffectsBesideReads).unwrap().is_probe());
    }

    #[test]
    fn late_outcomes_change_nothing_of_an_open_circuit() {
        let bench = Bench::new();
        let [first, second] = [(); 2].map(|()| bench.admit(CallKind::Effects).unwrap());
        let bench = Bench { breaker: Breaker(Arc::clone(&bench.breaker.0)), ..Bench::new() };
        for _ in 0..3 {
            let pass = BreakerPass::default();
            bench.report(pass, FAILED);
        }
        assert_eq!(bench.report(first, FAILED), None);
        assert_eq!(bench.report(second, ServiceOutcome::Answered), None);
        assert_eq!((bench.state(), bench.breaker.status(bench.now).failures), ("open", 3));
    }

    #[test]
    fn reset_and_disabled_circuits_let_calls_through() {
        let mut bench = Bench::opened();
        assert!(bench.breaker.reset() && !bench.breaker.reset());
        assert_eq!(bench.state(), "closed");
        assert_eq!(bench.call(FAILED), None);
        let mut disabled = Bench::opened();
        disabled.settings.enabled = false;
        assert!(disabled.admit(CallKind::Effects).is_ok());
        let mut never = Bench::new();
        never.settings.enabled = false;
        for _ in 0..9 {
            assert_eq!(never.call(FAILED), None);
        }
        assert_eq!(never.state(), "closed");
    }
}
