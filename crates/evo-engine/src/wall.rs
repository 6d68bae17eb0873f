//! What a wall budget leaves for each part of a run. The budget covers the whole command: confirmation and the
//! views at the end get a reserve, which is estimated anew from what the steps have cost so far.
//!
//! Pure decisions over durations; `run` asks when to end the search, `confirm` which step still fits.

use std::time::Duration;

use super::mean::Mean;
use evo_journal::clock::CommandClock;

/// The share of a budget that confirmation gets, within what it needs.
const SHARE: f64 = 0.25;

/// A confirmation that would take more than this share is not made: a search that has the whole budget finds more
/// than one that is cut in half for a confirmation that does not fit.
const SHARE_MAX: f64 = 0.5;

/// What is reserved for the least that can be confirmed, over what it is expected to cost.
const MARGIN: f64 = 1.1;

/// A confirmation is tried with this share of what it is expected to cost.
const WORTH_TRYING: f64 = 0.5;

/// The share that writing views and ranking get, and the most they get.
const CLOSING: f64 = 0.02;
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// A task on the device at the end of the budget may take this share of it longer, so that a comparison that is
/// nearly done is not lost; at least and at most this long.
const GRACE: f64 = 0.05;
const GRACE_MIN: Duration = Duration::from_millis(500);
const GRACE_MAX: Duration = Duration::from_secs(5);

/// A variant that is on the device at the first interrupt is given up after this: the command is to end within 5 s.
const INTERRUPTED: Duration = Duration::from_secs(2);

/// An evaluation at full depth takes this many times as long as one that passed in the search, and some seconds more.
const DEEP_FACTOR: f64 = 1.5;

/// What steps are expected to take before one was seen, seconds. What is guessed too high keeps a run from being
/// confirmed that could be, and what is guessed too low gives the search time that the confirmation then lacks.
#[derive(Debug)]
struct Guess {
    /// What full depth takes more, once and on each problem.
    deep: f64,
    deep_each: f64,
    /// A fresh process of a comparison, once and on each problem.
    process: f64,
    process_each: f64,
}

/// On an H200 (`attention_decode`, 2026-11-23) full depth took 0.7 s more on one problem and 0.8 to 1.1 s more on three, a
/// fresh process 0.35 s on one and 1.2 to 1.6 s on three whose buffers are large, and at most 0.8 s on eight small ones.
const ON_GPU: Guess = Guess { deep: 0.4, deep_each: 0.2, process: 0.3, process_each: 0.3 };

/// On a host full depth took half as long again (`tests/data/golden`), and a process 0.4 s a problem, nearly all of it
/// timing; machines with other work take longer.
const ON_HOST: Guess = Guess { deep: 0.0, deep_each: 0.6, process: 0.0, process_each: 0.6 };

/// Fresh processes of a comparison that is cut to its least, of a whole one that is decided late, and of a noise
/// floor.
const PROCESSES_LEAST: u32 = 2;
const PROCESSES_WHOLE: u32 = 3;
const PROCESSES_FLOOR: u32 = 2;

/// A look of a demanded sanitizer before any was seen: four checks of `gemm` took 2.9 s on an H200 (2026-11-23). One that
/// nobody demands is tried with less.
const SANITIZER: Duration = Duration::from_secs(3);
const SANITIZER_LEAST: Duration = Duration::from_secs(1);

/// What looks that nobody demands may add: this share of what the command took without them, or this if that is more.
const SANITIZING: f64 = 0.25;
const SANITIZING_LEAST: Duration = Duration::from_secs(2);

/// What the steps of a confirmation cost, seconds; before one was seen, what is expected of it.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// In the lane, for a variant that passed in the search; the first one stands alone until there is another.
    full: Mean,
    first: Option<f64>,
    deep: Mean,
    /// Whether what was not seen yet is guessed as on a host.
    pub is_host: bool,
    /// Whether finalists are looked at by a sanitizer, whether that is demanded, and how long it takes.
    pub has_sanitizer: bool,
    pub demands_sanitizer: bool,
    sanitizer: Mean,
    /// On one problem.
    floor: Mean,
    pair: Mean,
    /// One fresh process of a comparison, on one problem.
    process: Mean,
}

impl Costs {
    /// A variant that passed in the search. The first also waited for the answers of the reference, which the others
    /// find, so it stands in only as long as there is no other.
    pub(super) fn note_full(&mut self, seconds: f64) {
        match self.first {
            None => self.first = Some(seconds),
            Some(_) => self.full.add(seconds),
        }
    }

    pub(super) fn note_deep(&mut self, took: Duration) {
        self.deep.add(took.as_secs_f64());
    }

    pub(super) fn note_sanitizer(&mut self, took: Duration) {
        self.sanitizer.add(took.as_secs_f64());
    }

    /// A look of the sanitizer, seconds.
    fn sanitizer(&self) -> f64 {
        self.sanitizer.value().unwrap_or(SANITIZER.as_secs_f64())
    }

    /// A noise floor on so many problems.
    pub(super) fn note_floor(&mut self, took: Duration, problems: usize) {
        let each = took.as_secs_f64() / problems.max(1) as f64;
        self.floor.add(each);
        self.process.add(each / f64::from(PROCESSES_FLOOR));
    }

    /// A comparison on so many problems, in so many processes.
    pub(super) fn note_pairs(&mut self, took: Duration, processes: u32, problems: usize) {
        let each = took.as_secs_f64() / problems.max(1) as f64;
        self.pair.add(each);
        self.process.add(each / f64::from(processes.max(1)));
    }

    /// An evaluation at full depth; `None` before anything was measured.
    fn deep(&self, problems: usize) -> Option<f64> {
        let Guess { deep, deep_each, .. } = self.guess();
        let expected = |full: f64| DEEP_FACTOR * full + deep + deep_each * problems as f64;
        self.deep.value().or_else(|| self.full().map(expected))
    }

    /// The same with the look of the sanitizer after it, where nothing is confirmed without one.
    fn deep_least(&self, problems: usize) -> Option<f64> {
        let look = if self.has_sanitizer && self.demands_sanitizer { self.sanitizer() } else { 0.0 };
        Some(self.deep(problems)? + look)
    }

    fn guess(&self) -> &'static Guess {
        if self.is_host { &ON_HOST } else { &ON_GPU }
    }

    fn full(&self) -> Option<f64> {
        self.full.value().or(self.first)
    }

    /// So many fresh processes, each on all problems.
    fn processes(&self, count: u32, problems: usize) -> f64 {
        let (problems, guess) = (problems as f64, self.guess());
        let seen = self.process.value().map(|each| each * problems);
        f64::from(count) * seen.unwrap_or(guess.process + guess.process_each * problems)
    }

    fn floor(&self, problems: usize) -> f64 {
        let seen = self.floor.value().map(|each| each * problems as f64);
        seen.unwrap_or_else(|| self.processes(PROCESSES_FLOOR, problems))
    }

    fn pair(&self, problems: usize) -> f64 {
        let seen = self.pair.value().map(|each| each * problems as f64);
        seen.unwrap_or_else(|| self.processes(PROCESSES_WHOLE, problems))
    }

    /// One finalist whose comparisons are cut to their least, seconds.
    fn finalist_least(&self, problems: usize) -> Option<f64> {
        Some(self.deep_least(problems)? + self.processes(PROCESSES_LEAST, problems))
    }

    /// The baseline with its noise floor and one finalist, seconds.
    fn least(&self, problems: usize) -> Option<f64> {
        Some(self.deep_least(problems)? + self.floor(problems) + self.finalist_least(problems)?)
    }

    /// The baseline and all finalists, seconds.
    fn whole(&self, finalists: usize, problems: usize) -> Option<f64> {
        let look = if self.has_sanitizer { self.sanitizer() } else { 0.0 };
        let deep = self.deep(problems)? + look;
        let each = deep + self.pair(problems);
        Some(deep + self.floor(problems) + finalists as f64 * each)
    }
}

/// The wall budget of a run, measured by the clock of the command.
#[derive(Debug)]
pub(super) struct Wall {
    clock: CommandClock,
    budget: Option<Duration>,
    /// When the run ends whatever its budget, by the same clock.
    cut: Option<Duration>,
    finalists: usize,
    /// Timed problems.
    problems: usize,
    pub costs: Costs,
}

impl Wall {
    pub(super) fn new(
        clock: CommandClock,
        budget: Option<Duration>,
        finalists: usize,
        problems: usize,
    ) -> Wall {
        Wall { clock, budget, cut: None, finalists, problems, costs: Costs::default() }
    }

    /// Time since the command began.
    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// The user wants out: what is on the device may come to its end, if that is soon.
    pub(super) fn cut(&mut self) {
        self.cut.get_or_insert(self.clock.elapsed() + INTERRUPTED);
    }

    /// What is left until the views must be written; `None` without a budget.
    pub(super) fn left(&self) -> Option<Duration> {
        self.until(self.budget.map(|budget| budget.saturating_sub(budget.mul_f64(CLOSING).min(CLOSING_MAX))))
    }

    fn until(&self, end: Option<Duration>) -> Option<Duration> {
        Some(end.into_iter().chain(self.cut).min()?.saturating_sub(self.elapsed()))
    }

    /// What is left of the search.
    pub(super) fn left_to_search(&self) -> Option<Duration> {
        Some(self.left()?.saturating_sub(self.reserve()))
    }

    /// What is left to a confirmation whose task is on the device.
    pub(super) fn left_with_grace(&self) -> Option<Duration> {
        self.until(self.budget.map(|budget| budget + budget.mul_f64(GRACE).clamp(GRACE_MIN, GRACE_MAX)))
    }

    /// What is kept for confirmation: a quarter of the budget, at least what the baseline and one finalist are
    /// expected to cost, at most what all finalists are. Nothing where half of the budget would not do, and nothing
    /// before a variant has passed, because there is nothing to confirm.
    pub(super) fn reserve(&self) -> Duration {
        let budget = self.budget.unwrap_or_default();
        if self.finalists == 0 {
            return Duration::ZERO;
        }
        let share = budget.mul_f64(SHARE);
        let least = self.costs.least(self.problems);
        let whole = self.costs.whole(self.finalists, self.problems);
        let (Some(least), Some(whole)) = (least, whole) else { return Duration::ZERO };
        if least > budget.as_secs_f64() * SHARE_MAX {
            return Duration::ZERO;
        }
        // The variant on the device at the end of the search is finished first.
        let least = MARGIN * least + self.costs.full().unwrap_or_default();
        Duration::from_secs_f64(share.as_secs_f64().min(whole).max(least))
    }

    /// Whether it is worth trying to confirm the baseline and one finalist. The search is over, so the time is good
    /// for nothing else, and what the steps cost is only guessed until the first of them was made.
    pub(super) fn fits_confirmation(&self) -> bool {
        self.fits(self.costs.least(self.problems).map(|least| WORTH_TRYING * least))
    }

    /// Whether it is worth trying to confirm the first finalist: the baseline, whose costs it is judged by, also
    /// waited for answers of the reference.
    pub(super) fn fits_first_finalist(&self) -> bool {
        self.fits(self.costs.finalist_least(self.problems).map(|least| WORTH_TRYING * least))
    }

    /// Whether one more finalist can be confirmed, its comparisons cut to their least if need be.
    pub(super) fn fits_finalist(&self) -> bool {
        self.fits(self.costs.finalist_least(self.problems))
    }

    /// How long a sanitizer may look: after the baseline one finalist has to fit, after a finalist its comparisons.
    pub(super) fn left_to_sanitizer(&self, is_baseline: bool) -> Option<Duration> {
        let pairs = self.costs.processes(PROCESSES_LEAST, self.problems);
        let after =
            if is_baseline { self.costs.finalist_least(self.problems).unwrap_or(pairs) } else { pairs };
        Some(self.left()?.saturating_sub(Duration::from_secs_f64(after)))
    }

    /// What is left to looks that nobody demands, of which those so far took `spent`.
    pub(super) fn left_to_looks(&self, spent: Duration) -> Duration {
        let without = self.elapsed().saturating_sub(spent);
        let left = without.mul_f64(SANITIZING).max(SANITIZING_LEAST).saturating_sub(spent);
        self.left().map_or(left, |all| all.min(left))
    }

    /// Whether a look of the sanitizer fits into such a time.
    pub(super) fn fits_look(&self, within: Option<Duration>) -> bool {
        let expected = self.costs.sanitizer.value().unwrap_or(SANITIZER_LEAST.as_secs_f64());
        within.is_none_or(|within| within.as_secs_f64() >= expected)
    }

    /// Whether a comparison can be made once more on so many problems.
    pub(super) fn fits_pairs(&self, problems: usize, within: Option<Duration>) -> bool {
        let least = self.costs.processes(PROCESSES_LEAST, problems);
        within.is_none_or(|within| within.as_secs_f64() >= least)
    }

    /// What the confirmation of so many finalists is expected to take, seconds, with the baseline before them or without
    /// it. Unknown before a variant has passed.
    pub(super) fn confirmation(&self, finalists: usize, with_baseline: bool) -> Option<f64> {
        if self.finalists == 0 {
            return Some(0.0);
        }
        let whole = self.costs.whole(finalists, self.problems)?;
        let baseline = if with_baseline { 0.0 } else { self.costs.whole(0, self.problems)? };
        Some(whole - baseline)
    }

    fn fits(&self, seconds: Option<f64>) -> bool {
        match (self.left(), seconds) {
            (Some(left), Some(seconds)) => left.as_secs_f64() >= seconds,
            // Nothing was measured, so there is nothing to go by but whether there is time at all.
            (Some(left), None) => !left.is_zero(),
            (None, _) => true,
        }
    }
}
