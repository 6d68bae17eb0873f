//! The engine's own state in named parts.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use evo_protocol::device::Telemetry;
use evo_protocol::evaluation::Evaluation;
use evo_space::genome::Genome;

use super::ports::{Recipe, Utilization};
use super::variant::Variant;
use evo_journal::budget::StopReason;
use evo_protocol::leaderboard::Throughput;

pub(super) struct Flight<R: Recipe> {
    pub variants: BTreeMap<u64, Variant<R::Prepared>>,
    pub waiting: VecDeque<u64>,
    pub compiling: usize,
    /// The lowest number goes first, so that the default configuration sets the standing early.
    pub ready: BTreeMap<u64, R::Job>,
    pub on_lane: Vec<u64>,
    /// In flight at a crash, not final, or tried once in this run with nothing but trouble. They run before everything
    /// else.
    pub again: VecDeque<Variant<R::Prepared>>,
}

impl<R: Recipe> Flight<R> {
    pub(super) fn new() -> Flight<R> {
        Flight {
            variants: BTreeMap::new(),
            waiting: VecDeque::new(),
            compiling: 0,
            ready: BTreeMap::new(),
            on_lane: Vec::new(),
            again: VecDeque::new(),
        }
    }

    /// What is on a lane is kept when a run is abandoned, but nothing will come from a lost device.
    pub(super) fn leave_lanes(&mut self) {
        self.variants.clear();
        self.on_lane.clear();
    }

    /// `cancelled` are the numbers that the lane gave back.
    pub(super) fn keep_on_lane(&mut self, cancelled: &[u64]) {
        self.on_lane.retain(|number| !cancelled.contains(number));
        let on_lane = &self.on_lane;
        self.variants.retain(|number, _| on_lane.contains(number));
        // An answer that a compiler still sends finds no variant, and the engine ignores it.
        self.compiling = 0;
        self.waiting.clear();
        self.ready.clear();
        // The next run of the study queues what has strikes again, and proposes retries again.
        self.again.clear();
    }
}

#[derive(Default)]
pub(super) struct Ledger {
    pub known: HashSet<Genome>,
    pub index: HashMap<u64, usize>,
    // A set and not a maximum: what was in flight at a crash leaves holes, which are filled again.
    used_numbers: HashSet<u64>,
    next_number: u64,
    pub finished_before: u64,
    /// Passed over in this study, or taken over from another.
    pub uncounted: u64,
    pub passed_over_in_a_row: u32,
}

impl Ledger {
    pub(super) fn new(evaluations: &[Evaluation]) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.recount(evaluations);
        ledger
    }

    pub(super) fn recount(&mut self, evaluations: &[Evaluation]) {
        self.uncounted = evaluations.iter().filter(|one| !one.is_counted()).count() as u64;
        self.finished_before = evaluations.len() as u64 - self.uncounted;
    }

    pub(super) fn use_number(&mut self, number: u64) {
        self.used_numbers.insert(number);
    }

    /// The lowest number that is free, so that a resumed study has no gaps.
    pub(super) fn take_number(&mut self) -> u64 {
        while self.used_numbers.contains(&self.next_number) {
            self.next_number += 1;
        }
        self.used_numbers.insert(self.next_number);
        self.next_number
    }
}

#[derive(Default)]
pub(super) struct Ending {
    /// Set once nothing more is proposed; the run ends when nothing is in flight.
    pub stop: Option<StopReason>,
    /// End without waiting for the device: the user asked twice, or the wall time is used up.
    pub at_once: bool,
}

impl Ending {
    /// Whether the run was cut short, so that nothing more is confirmed.
    pub(super) fn is_early(&self) -> bool {
        self.at_once || self.stop.is_some_and(|reason| reason.is_early())
    }
}

pub(super) struct RunClock {
    pub started: Instant,
    pub ticked: Instant,
    /// Shares of busy time refer to it, so that they cover the search and neither its idle end nor the confirmation.
    pub last_verdict: Duration,
    device_busy_seconds: f64,
    compile_busy_seconds: f64,
    utilization: Option<Utilization>,
    gpu_busy: Option<f64>,
    pub device_at_start: Option<Telemetry>,
}

impl RunClock {
    pub(super) fn new(device_at_start: Option<Telemetry>, utilization: Option<Utilization>) -> RunClock {
        let now = Instant::now();
        RunClock {
            started: now,
            ticked: now,
            last_verdict: Duration::ZERO,
            device_busy_seconds: 0.0,
            compile_busy_seconds: 0.0,
            utilization,
            gpu_busy: None,
            device_at_start,
        }
    }

    pub(super) fn note_verdict(&mut self, device_busy_seconds: f64, compile_busy_seconds: f64) {
        self.last_verdict = self.started.elapsed();
        self.device_busy_seconds = device_busy_seconds;
        self.compile_busy_seconds = compile_busy_seconds;
        self.gpu_busy = self.utilization.as_ref().and_then(|mean| mean());
    }

    pub(super) fn throughput(&self, evaluations: u64, jobs: usize) -> Throughput {
        let seconds = self.last_verdict.as_secs_f64();
        let jobs = jobs.max(1);
        let share = |busy: f64| if seconds > 0.0 { (busy / seconds).min(1.0) } else { 0.0 };
        Throughput {
            search_seconds: seconds,
            evaluations_per_second: if seconds > 0.0 { evaluations as f64 / seconds } else { 0.0 },
            device_busy: share(self.device_busy_seconds),
            gpu_busy: self.gpu_busy,
            compile_busy: share(self.compile_busy_seconds / jobs as f64),
            compile_jobs: jobs as u32,
        }
    }
}
