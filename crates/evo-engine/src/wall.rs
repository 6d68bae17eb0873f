//! What a wall budget leaves for each part of a run. The budget covers the whole command: confirmation and the
//! views at the end get a reserve, which is estimated anew from what the steps have cost so far.

use std::time::Duration;

use evo_journal::budget::CommandClock;

use crate::ahead::Mean;

const SHARE: f64 = 0.25;

/// What is reserved for the least that can be confirmed, over what it is expected to cost.
const MARGIN: f64 = 1.1;

/// A budget is called too short where less than this share of that cost is left; the first is for as long as only one
/// evaluation shows what it is, which also waited for the answers of the reference.
const TOO_SHORT: [f64; 2] = [0.5, 0.75];

/// A confirmation is tried with this share of what it is expected to cost.
const WORTH_TRYING: f64 = 0.5;

const CLOSING: f64 = 0.02;
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// A task on the device that is nearly done may overrun the budget by this share; at least and at most this long.
const GRACE: f64 = 0.03;
const GRACE_MIN: Duration = Duration::from_millis(500);
const GRACE_MAX: Duration = Duration::from_secs(5);

/// A variant that is on the device at the first interrupt is given up after this: the command is to end within 5 s.
const INTERRUPTED: Duration = Duration::from_secs(2);

/// All sampling of a confirmation that a budget limits takes this share of what is left, each series at least so long; one
/// that would take longer than the last of these takes what it takes.
const SAMPLED: f64 = 0.25;
const SAMPLED_LEAST: Duration = Duration::from_millis(100);
const SAMPLED_MOST: Duration = Duration::from_secs(5);

/// What steps are expected to take before one was seen, seconds. What is guessed too high keeps a run from being
/// confirmed that could be, and what is guessed too low gives the search time that the confirmation then lacks.
#[derive(Debug)]
struct Guess {
    /// An evaluation at full depth takes this many times as long as one that passed in the search, and this much more,
    /// once and on each problem.
    factor: f64,
    deep: f64,
    deep_each: f64,
    /// What the baseline takes more, in what the first evaluation took more than others: it too waits for answers.
    answers: f64,
    process: f64,
    process_each: f64,
}

/// On an H200 (`attention_decode`, 2026-11-23) full depth took 0.7 s more on one problem and 0.8 to 1.1 s more on three, a
/// fresh process 0.35 s on one and 1.2 to 1.6 s on three whose buffers are large, and at most 0.8 s on eight small ones.
const ON_GPU: Guess =
    Guess { factor: 1.5, deep: 0.4, deep_each: 0.2, answers: 0.5, process: 0.3, process_each: 0.3 };

/// On a host with two processors and other work (`softmax`, `gemm`, `reduction`, 2026-11-29) the gates at full depth took
/// 3 to 4 times as long as in the search, and a process 0.4 s a problem, nearly all of it timing.
const ON_HOST: Guess =
    Guess { factor: 3.0, deep: 0.0, deep_each: 0.6, answers: 0.0, process: 0.0, process_each: 0.6 };

/// Of a comparison that is cut to its least, of a whole one that is decided late, and of a noise floor.
const PROCESSES_LEAST: u32 = 2;
const PROCESSES_WHOLE: u32 = 3;
const PROCESSES_FLOOR: u32 = 2;

/// Four checks of `gemm` took 2.9 s on an H200 (2026-11-23). A look that nobody demands is tried with less.
const SANITIZER: Duration = Duration::from_secs(3);
const SANITIZER_LEAST: Duration = Duration::from_secs(1);

/// What looks that nobody demands may add: this share of what the command took without them, or this if that is more.
const SANITIZING: f64 = 0.25;
const SANITIZING_LEAST: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Costs {
    /// In the lane, for variants that passed in the search, in order; the first one stands alone until there is another.
    full: Vec<f64>,
    first: Option<f64>,
    default: Option<f64>,
    baseline: Option<f64>,
    deep: Mean,
    pub is_host: bool,
    /// Whether finalists are looked at by a sanitizer, whether that is demanded, and how long it takes.
    pub has_sanitizer: bool,
    pub demands_sanitizer: bool,
    pub sanitizer: Mean,
    /// On one problem.
    floor: Mean,
    pair: Mean,
    /// One fresh process of a comparison, on one problem.
    process: Mean,
}

impl Costs {
    /// The first also waited for the answers of the reference, so it stands in only as long as there is no other.
    pub(super) fn note_full(&mut self, seconds: f64, is_default: bool) {
        match self.first {
            None => self.first = Some(seconds),
            Some(_) => self.full.insert(self.full.partition_point(|own| *own < seconds), seconds),
        }
        self.default = self.default.or((is_default && !self.full.is_empty()).then_some(seconds));
    }

    pub(super) fn note_deep(&mut self, took: Duration, is_baseline: bool) {
        match is_baseline {
            true => self.baseline = Some(took.as_secs_f64()),
            false => self.deep.add(took.as_secs_f64()),
        }
    }

    fn sanitizer(&self) -> f64 {
        self.sanitizer.value().unwrap_or(SANITIZER.as_secs_f64())
    }

    /// A comparison in so many processes; a noise floor where nobody says how many.
    pub(super) fn note_pairs(&mut self, took: Duration, processes: Option<u32>, problems: usize) {
        let each = took.as_secs_f64() / problems.max(1) as f64;
        if processes.is_some() { &mut self.pair } else { &mut self.floor }.add(each);
        self.process.add(each / f64::from(processes.unwrap_or(PROCESSES_FLOOR).max(1)));
    }

    /// The baseline and a finalist at full depth; `None` before anything was measured. A baseline that took longer than
    /// expected lets expect the same of finalists.
    fn deep(&self, problems: usize) -> Option<[f64; 2]> {
        let Guess { factor, deep, deep_each, answers, .. } = self.guess();
        let full = self.full()?;
        let expected = |full: f64| factor * full + deep + deep_each * problems as f64;
        let more = answers * (self.first.unwrap_or(full) - full).max(0.0);
        let baseline = expected(self.default.unwrap_or(full).max(full)) + more;
        let pace = self.baseline.map_or(1.0, |took| took / baseline);
        Some([self.baseline.unwrap_or(baseline), self.deep.value().unwrap_or(pace * expected(full))])
    }

    fn demanded_look(&self) -> f64 {
        if self.has_sanitizer && self.demands_sanitizer { self.sanitizer() } else { 0.0 }
    }

    fn guess(&self) -> &'static Guess {
        if self.is_host { &ON_HOST } else { &ON_GPU }
    }

    /// The lower median: finalists are among the faster ones, and on a busy machine some wait for long. One alone may be
    /// slow by chance, so it is not taken for more than the first.
    fn full(&self) -> Option<f64> {
        match self.full.as_slice() {
            [] => self.first,
            [only] => Some(self.first.map_or(*only, |first| first.min(*only))),
            all => all.get((all.len() - 1) / 2).copied(),
        }
    }

    fn processes(&self, count: u32, problems: usize) -> f64 {
        let (problems, guess) = (problems as f64, self.guess());
        let seen = self.process.value().map(|each| each * problems);
        f64::from(count) * seen.unwrap_or(guess.process + guess.process_each * problems)
    }

    fn floor(&self, problems: usize) -> f64 {
        self.seen(self.floor, PROCESSES_FLOOR, problems)
    }

    fn seen(&self, each: Mean, processes: u32, problems: usize) -> f64 {
        let seen = each.value().map(|each| each * problems as f64);
        seen.unwrap_or_else(|| self.processes(processes, problems))
    }

    /// One finalist whose comparisons are cut to their least, seconds.
    fn finalist_least(&self, problems: usize) -> Option<f64> {
        let [_, finalist] = self.deep(problems)?;
        Some(finalist + self.demanded_look() + self.processes(PROCESSES_LEAST, problems))
    }

    /// The baseline with its noise floor and one finalist, seconds.
    fn least(&self, problems: usize) -> Option<f64> {
        let [baseline, _] = self.deep(problems)?;
        Some(baseline + self.demanded_look() + self.floor(problems) + self.finalist_least(problems)?)
    }

    /// The baseline and all finalists, seconds.
    fn whole(&self, finalists: usize, problems: usize) -> Option<f64> {
        let look = if self.has_sanitizer { self.sanitizer() } else { 0.0 };
        let [baseline, finalist] = self.deep(problems)?;
        let each = finalist + look + self.seen(self.pair, PROCESSES_WHOLE, problems);
        Some(baseline + look + self.floor(problems) + finalists as f64 * each)
    }
}

#[derive(Debug)]
pub(super) struct Wall {
    clock: CommandClock,
    budget: Option<Duration>,
    /// When the run ends whatever its budget, by the same clock.
    cut: Option<Duration>,
    finalists: usize,
    problems: usize,
    is_too_short: bool,
    is_told: bool,
    pub costs: Costs,
}

impl Wall {
    pub(super) fn new(
        clock: CommandClock,
        budget: Option<Duration>,
        finalists: usize,
        problems: usize,
    ) -> Wall {
        let (cut, costs, is_too_short, is_told) = (None, Costs::default(), false, false);
        Wall { clock, budget, cut, finalists, problems, is_too_short, is_told, costs }
    }

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

    pub(super) fn left_to_search(&self) -> Option<Duration> {
        Some(self.left()?.saturating_sub(self.reserve()))
    }

    /// What is left to a confirmation whose task is on the device.
    pub(super) fn left_with_grace(&self) -> Option<Duration> {
        self.until(self.budget.map(|budget| budget + budget.mul_f64(GRACE).clamp(GRACE_MIN, GRACE_MAX)))
    }

    /// Finds out whether the budget is too short for a confirmation, as soon as a variant shows what one costs; the search
    /// then gets all of it, unless others show that it is enough. The budget that would do, the first time. `is_over` for
    /// a run that confirmed nothing.
    pub(super) fn found_too_short(&mut self, is_over: bool) -> Option<Duration> {
        self.budget.filter(|_| self.finalists > 0)?;
        let (left, least) = (self.left()?.as_secs_f64(), self.costs.least(self.problems)?);
        let [of_one, of_several] = TOO_SHORT;
        self.is_too_short = if self.costs.full.is_empty() { of_one } else { of_several } * least > left;
        if self.is_told || !is_over && !self.is_too_short {
            return None;
        }
        self.is_told = true;
        Some(self.elapsed() + Duration::from_secs_f64(MARGIN * least) + CLOSING_MAX)
    }

    pub(super) fn sampling_max(&self) -> Option<Duration> {
        let series = 2 * self.problems.max(1) * (self.finalists + 1);
        let share = self.left()?.mul_f64(SAMPLED / series as f64).max(SAMPLED_LEAST);
        (share < SAMPLED_MOST).then_some(share)
    }

    /// A quarter of the budget, at least what the baseline and one finalist are expected to cost, at most what all
    /// finalists are. Nothing where the budget is too short for any, and nothing before a variant has passed.
    pub(super) fn reserve(&self) -> Duration {
        let budget = self.budget.unwrap_or_default();
        if self.finalists == 0 || self.is_too_short {
            return Duration::ZERO;
        }
        let share = budget.mul_f64(SHARE);
        let least = self.costs.least(self.problems);
        let whole = self.costs.whole(self.finalists, self.problems);
        let (Some(least), Some(whole)) = (least, whole) else { return Duration::ZERO };
        // The first one waited for the answers of the reference, and the second may be slow: others show more.
        let unlikely = match self.costs.full.len() {
            0 => least > budget.as_secs_f64() / 2.0,
            1 => least > self.left().unwrap_or_default().as_secs_f64(),
            _ => false,
        };
        if unlikely {
            return Duration::ZERO;
        }
        // The variant on the device at the end of the search is finished first.
        let least = MARGIN * least + self.costs.full().unwrap_or_default();
        Duration::from_secs_f64(share.as_secs_f64().min(whole).max(least))
    }

    /// The search is over, so the time is good for nothing else, and what the steps cost is only guessed until then.
    pub(super) fn fits_confirmation(&self) -> bool {
        self.fits(self.costs.least(self.problems).map(|least| WORTH_TRYING * least))
    }

    /// Whether there is time for a noise floor: without one, a comparison still has its interval.
    pub(super) fn fits_floor(&self) -> bool {
        let floor = self.costs.floor(self.problems);
        self.fits(self.costs.finalist_least(self.problems).map(|least| floor + least))
    }

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

    pub(super) fn left_to_looks(&self, spent: Duration) -> Duration {
        let without = self.elapsed().saturating_sub(spent);
        let left = without.mul_f64(SANITIZING).max(SANITIZING_LEAST).saturating_sub(spent);
        self.left().map_or(left, |all| all.min(left))
    }

    pub(super) fn fits_look(&self, within: Option<Duration>) -> bool {
        let expected = self.costs.sanitizer.value().unwrap_or(SANITIZER_LEAST.as_secs_f64());
        within.is_none_or(|within| within.as_secs_f64() >= expected)
    }

    pub(super) fn fits_pairs(&self, problems: usize) -> bool {
        self.fits(Some(self.costs.processes(PROCESSES_LEAST, problems)))
    }

    /// Seconds, with the baseline before them or without it. Unknown before a variant has passed.
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

    use evo_journal::budget::StopReason;
    use evo_journal::reader;
    use evo_journal::record::JournalRecord;
    use evo_journal::replay::History;
    use evo_supervise::job::Judgement;

    use super::*;
    use crate::fake::{FakeJob, PlayedTime, Script, TestStudy, passed};

    /// A hundred variants that all pass; the default is not the best.
    const HUNDRED: &str = "[parameters]\nA = { values = [0, 1, 2, 3, 4, 5, 10, 11, 12, 13], default = 13 }\nB = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n";

    /// A second in the search, and so many milliseconds at full depth.
    fn surprising(played: &PlayedTime, deep: u64) -> Script {
        let played = played.clone();
        Arc::new(move |job| {
            played.pass(if job.deep { deep } else { 1000 });
            Judgement { device_ms: 1000.0, ..passed(job) }
        })
    }

    fn timed(played: &PlayedTime) -> Script {
        surprising(played, 4000)
    }

    fn bench(wall: u64, finalists: usize) -> (TestStudy, PlayedTime) {
        let mut bench = TestStudy::new(HUNDRED);
        bench.options.budget.wall = Some(Duration::from_secs(wall));
        bench.options.finalists = finalists;
        let played = bench.play_time(3000, 2000);
        (bench, played)
    }

    /// Of a minute a quarter is the confirmation's: the baseline with its noise floor takes 6 s, a finalist 7 s. What
    /// came before the first evaluation counts, no more is reserved than the finalists need, and a budget that is too
    /// short for a confirmation goes to the search.
    #[test]
    fn the_budget_covers_the_confirmation() {
        use StopReason::{SpaceExhausted, Wall};
        for (wall, finalists, before, reason, confirmed, left_out, searched) in [
            (60, 3, 0, Wall, 2, 2, 42..=46),
            (60, 3, 30_000, Wall, 2, 2, 12..=16),
            (600, 1, 0, SpaceExhausted, 2, 0, 100..=100),
            (6, 3, 0, Wall, 0, 3, 5..=7),
        ] {
            let (bench, played) = bench(wall, finalists);
            played.pass(before);
            let ran = bench.run(timed(&played));
            let summary = &ran.summary;
            assert_eq!(
                (summary.end.reason, summary.confirmed, summary.left_out),
                (reason, confirmed, left_out)
            );
            assert_eq!((summary.end.finalists_left, ran.log.deep.len()), (left_out as u64, confirmed));
            let evaluated = ran.log.evaluated.len();
            assert!(searched.contains(&evaluated), "{evaluated} evaluations of a second each");
            assert!(played.now() <= wall * 1000, "{} ms", played.now());
            assert_eq!(bench.open().history.confirmations.len(), confirmed);
            // Said once, as soon as two variants have shown what one costs.
            let told = ran.events.iter().filter(|event| event.contains("too short to confirm anything"));
            let told: Vec<&String> = told.collect();
            assert_eq!(told.len(), usize::from(confirmed == 0), "{told:?}");
            assert!(told.iter().all(|told| told.contains("one confirmation take about 1")), "{told:?}");
        }
    }

    #[test]
    fn a_budget_ends_with_a_confirmed_finalist_or_was_called_too_short() {
        for budget in [5, 12, 14, 16, 20, 25, 30, 45] {
            let (mut bench, _) = bench(budget, 3);
            let played = bench.play_time(1500, 1000);
            let ran = bench.run(surprising(&played, 2000));
            let is_told = ran.tells("too short to confirm anything");
            let confirmed = ran.summary.confirmed;
            assert_eq!(confirmed >= 2, !is_told, "{budget} s: {confirmed} confirmed");
            assert!(played.now() <= budget * 1000 + 1000, "{budget} s: {} ms", played.now());
            assert!(is_told == (budget < 12) && ran.log.evaluated.len() >= 2, "{budget} s");
        }
    }

    /// Of a budget in seconds, of which nothing is used up.
    fn scripted(budget: Option<u64>, finalists: usize, problems: usize) -> Wall {
        let budget = budget.map(Duration::from_secs);
        Wall::new(CommandClock::scripted(&Arc::default()), budget, finalists, problems)
    }

    #[test]
    fn sampling_shares_what_is_left() {
        let sampled = |budget: Option<u64>, problems| scripted(budget, 3, problems).sampling_max();
        assert_eq!(sampled(Some(50), 1), Some(Duration::from_secs(49).mul_f64(0.25 / 8.0)));
        assert_eq!(sampled(Some(2), 4), Some(Duration::from_millis(100)), "never less than a race takes");
        assert_eq!((sampled(Some(600), 1), sampled(None, 1)), (None, None));
    }

    #[test]
    fn a_baseline_alone_is_not_published() {
        let (bench, played) = bench(60, 1);
        let ran = bench.run(surprising(&played, 8_000));
        assert_eq!((ran.summary.confirmed, ran.summary.left_out, ran.log.deep.len()), (0, 1, 1));
        assert!(bench.open().history.confirmations.is_empty());
        // A surprise may overrun the budget a little.
        assert!(played.now() <= 63_000, "{} ms", played.now());
    }

    #[test]
    fn comparisons_share_what_is_left() {
        let (mut bench, _) = bench(100, 1);
        let played = bench.play_time(1000, 1000);
        bench.drifts = vec![0.9; 3];
        let ran = bench.run(surprising(&played, 500));
        let within = ran.log.within[0].expect("there is a budget");
        assert!(within <= Duration::from_secs(30) && within >= Duration::from_secs(2), "{within:?}");
        // The baseline drifts in each of them, so the comparison is repeated as long as there is room.
        assert!((2..=3).contains(&ran.log.paired), "{}", ran.log.paired);
        assert!(ran.log.within.windows(2).all(|pair| pair[1] < pair[0]), "{:?}", ran.log.within);
        assert!(played.now() <= 100_000, "{} ms", played.now());
        bench.options.budget.wall = None;
        let ran = bench.run(timed(&played));
        assert!(ran.log.within.iter().all(Option::is_none));
    }

    /// A script that hangs on one job until the test is over; by then an hour has passed.
    fn hangs(played: &PlayedTime, at: fn(&FakeJob, usize) -> bool) -> (Script, mpsc::Sender<()>) {
        let (release, gate) = mpsc::channel::<()>();
        let (gate, inner, played) = (Mutex::new((gate, 0)), timed(played), played.clone());
        let script: Script = Arc::new(move |job| {
            let mut gate = gate.lock().unwrap();
            gate.1 += 1;
            if at(job, gate.1) {
                played.pass(3_600_000);
                let _ = gate.0.recv();
            }
            inner(job)
        });
        (script, release)
    }

    #[test]
    fn a_hang_does_not_hold_up_the_end_of_a_budget() {
        let (mut bench, played) = bench(60, 3);
        let (script, release) = hangs(&played, |_, count| count == 8);
        let ran = bench.run(script);
        drop(release);
        assert_eq!((ran.summary.end.reason, ran.summary.confirmed), (StopReason::Wall, 0));
        assert_eq!((ran.summary.end.evaluations, ran.summary.left_out), (7, 3));
        ran.said("was still on the device");
        // evo ended the run itself, so the variant has no strike, and the next run proposes it again.
        assert!(bench.open().history.struck.is_empty());
        bench.options.budget.wall = None;
        let ran = bench.run(timed(&played));
        assert_eq!((ran.summary.end.evaluations, ran.summary.end.reason), (100, StopReason::SpaceExhausted));
    }

    #[test]
    fn a_hang_in_the_confirmation_ends_it() {
        let (bench, played) = bench(60, 3);
        let (script, release) = hangs(&played, |job, _| job.deep && !job.label.starts_with("A=13"));
        let ran = bench.run(script);
        drop(release);
        assert_eq!((ran.summary.end.reason, ran.summary.confirmed), (StopReason::Wall, 0));
        assert_eq!(ran.summary.left_out, 3);
    }

    #[test]
    fn a_resumed_study_confirms_the_finalists_that_were_left() {
        let (mut bench, played) = bench(60, 2);
        let first = bench.run(timed(&played));
        assert_eq!((first.summary.confirmed, first.summary.left_out), (2, 1), "{:?}", first.log.deep);
        // No more evaluations: the second run has the same finalists.
        bench.options.budget.evaluations = Some(1);
        played.milliseconds.store(0, std::sync::atomic::Ordering::Relaxed);
        let second = bench.run(timed(&played));
        assert_eq!(second.log.deep[0], first.log.deep[0], "the baseline");
        assert_ne!(second.log.deep[1], first.log.deep[1], "first the one that was left");
        assert_eq!(second.summary.left_out, 0);
        // With no time for a finalist that is confirmed already, none is left.
        played.milliseconds.store(47_000, std::sync::atomic::Ordering::Relaxed);
        let third = bench.run(timed(&played));
        assert_eq!((third.log.deep.len(), third.summary.left_out), (2, 0), "{:?}", third.log.deep);
        let history = bench.open().history;
        let section = evo_journal::leaderboard::section(&history).unwrap();
        assert_eq!(section.entries().count(), 3, "the baseline and two finalists");
    }

    #[test]
    fn reserves_follow_what_was_seen() {
        let check = |budget: u64, finalists, full: Option<f64>, expected: f64| {
            let mut wall = scripted(Some(budget), finalists, 1);
            full.iter().for_each(|seconds| wall.costs.note_full(*seconds, false));
            let reserve = wall.reserve().as_secs_f64();
            assert!((reserve - expected).abs() < 1e-6, "{reserve}, not {expected}");
        };
        // Nothing passed, nothing to confirm, or not enough time.
        check(60, 3, None, 0.0);
        check(60, 0, Some(0.2), 0.0);
        check(5, 3, Some(0.2), 0.0);
        // The baseline and one finalist with a margin of a tenth: 2 × (1.5 × 0.2 s + 0.6 s), and two processes of 0.6 s for floor and
        // comparison each; and the variant that is still on the device.
        check(9, 3, Some(0.2), 1.1 * 4.2 + 0.2);
        // A quarter, or what three finalists need: 4 × 0.9 s, a floor of 1.2 s, three comparisons of 1.8 s.
        check(20, 3, Some(0.2), 5.0);
        check(600, 3, Some(0.2), 10.2);
    }

    #[test]
    fn many_small_problems_do_not_keep_a_run_from_being_confirmed() {
        // Eight problems of microseconds, 0.7 s an evaluation, 55 s: the least is expected to fit into half of that, because
        // a fresh process opens once for all problems.
        let mut wall = scripted(Some(55), 3, 8);
        [5.0, 0.7, 0.7].into_iter().for_each(|seconds| wall.costs.note_full(seconds, false));
        let reserve = wall.reserve().as_secs_f64();
        assert!((18.0..27.5).contains(&reserve), "{reserve}");
    }

    #[test]
    fn the_first_evaluation_counts_only_until_there_is_another() {
        let mut wall = scripted(Some(600), 3, 1);
        wall.costs.note_full(5.0, false);
        let alone = wall.reserve();
        wall.costs.note_full(0.2, false);
        assert!(alone > Duration::from_secs(30) && wall.reserve() < Duration::from_secs(13), "{alone:?}");
    }

    /// The stamps of a study's records, in order, and the kinds of those without one.
    fn stamps(bench: &TestStudy) -> (Vec<u64>, Vec<JournalRecord>) {
        let records = reader::read(&bench.journal()).unwrap().records;
        let without = records.iter().filter(|one| one.at_ms().is_none()).cloned().collect();
        (records.iter().filter_map(JournalRecord::at_ms).collect(), without)
    }

    #[test]
    fn every_record_has_a_stamp_and_a_resumed_study_goes_on_from_the_last() {
        let (mut bench, played) = bench(60, 1);
        played.pass(700);
        bench.run(timed(&played));
        let (first, without) = stamps(&bench);
        assert!(without.is_empty(), "{without:?}");
        assert_eq!(first[0], 700, "the header is written after the start");
        assert!(first.is_sorted() && *first.last().unwrap() == played.now(), "{first:?}");
        // A later command has a clock of its own.
        played.milliseconds.store(300, std::sync::atomic::Ordering::Relaxed);
        bench.options.finalists = 0;
        bench.run(timed(&played));
        let (both, without) = stamps(&bench);
        assert!(without.is_empty() && both.is_sorted(), "{both:?}");
        assert_eq!(both[first.len()], first.last().unwrap() + 300);
        let table = std::fs::read_to_string(bench.out.path().join("s/results.csv")).unwrap();
        let mut rows = table.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
        let column = rows.next().unwrap().iter().position(|name| name == "at_ms").unwrap();
        let told: Vec<u64> = rows.map(|row| row[column].parse().unwrap()).collect();
        let evaluations = bench.open().history.evaluations;
        assert_eq!(told, evaluations.iter().filter_map(|one| one.at_ms).collect::<Vec<_>>());
        assert!(told.len() == evaluations.len() && told.is_sorted());
    }

    #[test]
    fn records_of_before_there_were_stamps_are_read() {
        let (bench, played) = bench(60, 1);
        bench.run(timed(&played));
        let records = reader::read(&bench.journal()).unwrap().records;
        let older = records.iter().map(|record| {
            let mut value = serde_json::to_value(record).unwrap();
            value.as_object_mut().unwrap().remove("at_ms").expect("a stamp");
            serde_json::from_value::<JournalRecord>(value).unwrap()
        });
        let older: Vec<JournalRecord> = older.collect();
        assert!(older.iter().all(|record| record.at_ms().is_none()));
        let history = History::replay(reader::Journal { records: older, ..Default::default() });
        assert_eq!((history.last_ms, history.evaluations.len()), (0, bench.open().history.evaluations.len()));
    }

    #[test]
    fn a_sanitizer_that_is_not_demanded_takes_nothing_from_the_least_confirmation() {
        let wall = |has_sanitizer, demands_sanitizer| {
            let mut wall = scripted(Some(100), 1, 1);
            // The first one waits for the reference, so the second one counts.
            [1.0, 1.0].into_iter().for_each(|seconds| wall.costs.note_full(seconds, false));
            (wall.costs.has_sanitizer, wall.costs.demands_sanitizer) = (has_sanitizer, demands_sanitizer);
            wall
        };
        let reserve = |has, demands| wall(has, demands).reserve();
        // Room is left for it where there is room, and the least that is reserved grows only where it is demanded.
        assert!(reserve(false, false) < reserve(true, false) && reserve(true, false) < reserve(true, true));
        let own = wall(true, false);
        let fits = |seconds| own.fits_look(Some(Duration::from_secs(seconds)));
        assert!(own.fits_look(None) && fits(1) && !fits(0), "the first look is tried with a second");
        let (baseline, finalist) = (own.left_to_sanitizer(true), own.left_to_sanitizer(false));
        assert!(baseline < finalist && finalist < own.left());
    }
}
