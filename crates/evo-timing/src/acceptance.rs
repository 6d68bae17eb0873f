//! Whether a candidate takes its rival's place: the rule of `evo evaluate`, as a pure function of what was measured.
//!
//! A gain counts where the median reaches what was asked for and the whole interval lies above the noise floor. A
//! loss counts against a candidate as soon as it cannot be excluded, except for the slowest calls, where only a loss
//! that is shown counts: the 90th percentile of a few hundred samples is too uncertain for more.

use std::cmp::Ordering;

use evo_protocol::words;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::paired::claimable;
use super::stats::{Interval, below, quantile, sorted};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcceptanceRule {
    /// Least gain, as a share: 0.03.
    pub accept: f64,
    pub on: usize,
    /// A slowdown beyond this share asks to go back.
    pub revert_above: f64,
}

/// The largest slowdown of the other problems that is borne, as a share.
pub const WORSE_MAX: f64 = 0.02;

/// Fewer samples than this have no 90th percentile that could be compared.
const TAIL_SAMPLES_MIN: usize = 20;
const TAIL_RESAMPLES: usize = 2_000;

#[derive(Clone, Debug, PartialEq)]
pub struct RivalProblem {
    pub problem: String,
    pub canonical: bool,
    /// Candidate's time over the rival's, with its 95 % interval; absent where it could not be measured.
    pub ratio: Option<TimeRatio>,
    /// The 95 % interval of the ratio of 90th percentiles; absent where there are too few samples.
    pub tail: Option<Interval>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeRatio {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RivalFindings {
    pub correct: bool,
    /// Demanded gates that did not run and may not be left out.
    pub missing: Vec<String>,
    /// Machine code and launches are the rival's.
    pub is_same_code: bool,
    /// Why there is no comparison.
    pub not_compared: Option<String>,
    pub noise_floor: Option<f64>,
    pub problems: Vec<RivalProblem>,
}

words! {
    RivalDecision {
        Keep = "keep",
        Reject = "reject",
        Revert = "revert",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Ruling {
    pub decision: RivalDecision,
    pub why: String,
    /// Whether it is shown that the candidate is not slower; `None` where that cannot be told.
    pub not_slower: Option<bool>,
}

pub fn decide(rule: &AcceptanceRule, found: &RivalFindings) -> Ruling {
    let reject = |why: String, not_slower| Ruling { decision: RivalDecision::Reject, why, not_slower };
    if !found.correct {
        return reject("it did not pass its gates".into(), Some(false));
    }
    if !found.missing.is_empty() {
        return reject(format!("did not run, though demanded: {}", found.missing.join(", ")), None);
    }
    if found.is_same_code {
        return reject("same machine code and launches".into(), Some(true));
    }
    if let Some(why) = &found.not_compared {
        return reject(why.clone(), None);
    }
    let Some(floor) = found.noise_floor.filter(|floor| floor.is_finite()) else {
        return reject("the noise floor could not be measured".into(), None);
    };
    if let Some(lost) = found.problems.iter().find(|problem| problem.ratio.is_none()) {
        return reject(format!("`{}` could not be compared", lost.problem), None);
    }
    if found.problems.is_empty() {
        return reject("no problem was compared".into(), None);
    }
    let compared = Compared { rule, floor, problems: &found.problems };
    let not_slower = compared.not_slower();
    if let Some(why) = compared.revert() {
        return Ruling { decision: RivalDecision::Revert, why, not_slower };
    }
    if let Some(why) = compared.refusal() {
        return reject(why, not_slower);
    }
    let why = format!("faster by {} or more on {}", share(rule.accept), compared.gaining().1);
    Ruling { decision: RivalDecision::Keep, why, not_slower }
}

/// Problems that all have a ratio.
struct Compared<'a> {
    rule: &'a AcceptanceRule,
    floor: f64,
    problems: &'a [RivalProblem],
}

impl Compared<'_> {
    /// The median of a ratio whose interval lies on this side of the noise.
    fn beyond(&self, problem: &RivalProblem, side: Ordering) -> Option<f64> {
        let TimeRatio { median, low, high } = problem.ratio?;
        let interval = Interval { low: low.ln(), high: high.ln() };
        (interval.against(self.floor.ln_1p()) == Some(side)).then_some(median)
    }

    fn gains(&self, problem: &RivalProblem) -> bool {
        let least = 1.0 + self.rule.accept;
        self.beyond(problem, Ordering::Less).is_some_and(|median| 1.0 / median >= least)
    }

    fn loses(&self, problem: &RivalProblem) -> bool {
        let most = 1.0 + self.rule.revert_above;
        self.beyond(problem, Ordering::Greater).is_some_and(|median| median > most)
    }

    fn canonical(&self) -> impl Iterator<Item = &RivalProblem> {
        self.problems.iter().filter(|problem| problem.canonical)
    }

    /// `2 of 3 canonical problems` gain.
    fn gaining(&self) -> (usize, String) {
        let gaining = self.canonical().filter(|problem| self.gains(problem)).count();
        (gaining, format!("{gaining} of {} canonical problems", self.canonical().count()))
    }

    /// One that is slower on a problem and faster on others by more is a trade and not slower.
    fn revert(&self) -> Option<String> {
        let slower: Vec<&RivalProblem> = self.canonical().filter(|problem| self.loses(problem)).collect();
        let sum: f64 =
            self.canonical().filter_map(|problem| problem.ratio).map(|ratio| ratio.median.ln()).sum();
        let worst = slower.first()?.ratio?;
        (sum > 0.0).then(|| {
            format!(
                "slower by more than {} on {} of {} canonical problems (`{}`: {:+.1} %)",
                share(self.rule.revert_above),
                slower.len(),
                self.canonical().count(),
                slower[0].problem,
                (worst.median - 1.0) * 100.0
            )
        })
    }

    fn refusal(&self) -> Option<String> {
        let wanted = self.rule.on.min(self.canonical().count()).max(1);
        let (gaining, of) = self.gaining();
        if gaining < wanted {
            let (accept, floor) = (share(self.rule.accept), share(self.floor));
            return Some(format!(
                "faster by {accept} with the interval above the noise floor of {floor} on {of}; {wanted} are needed"
            ));
        }
        // Whatever does not gain must not lose.
        let others = self.problems.iter().filter(|problem| !self.gains(problem));
        let mut losses = others.filter_map(|problem| problem.ratio.map(|ratio| (problem, ratio.high - 1.0)));
        if let Some((problem, loss)) = losses.find(|(_, loss)| *loss > WORSE_MAX) {
            let (loss, most) = (share(loss), share(WORSE_MAX));
            return Some(format!("`{}` may be slower by {loss}; at most {most} is borne", problem.problem));
        }
        let least = 1.0 + claimable(self.floor);
        self.problems.iter().find_map(|RivalProblem { problem, tail, .. }| match tail {
            None => Some(format!("`{problem}` has too few samples to compare its p90")),
            Some(tail) if tail.low > least => {
                Some(format!("the p90 of `{problem}` is worse by {} at least", share(tail.low - 1.0)))
            }
            Some(_) => None,
        })
    }

    /// Under a noise floor above the allowed loss, only an interval that lies wholly below it shows so.
    fn not_slower(&self) -> Option<bool> {
        if self.canonical().any(|problem| self.loses(problem)) {
            return Some(false);
        }
        let most = self.rule.revert_above;
        let is_shown = |problem: &RivalProblem| {
            self.floor <= most || problem.ratio.is_some_and(|ratio| ratio.high <= 1.0 + most)
        };
        self.canonical().all(is_shown).then_some(true)
    }
}

fn share(value: f64) -> String {
    let percent = (value * 1000.0).round() / 10.0;
    format!("{percent} %")
}

/// From the samples of both; `None` for too few. Deterministic for a seed.
pub fn tail_ratio(candidate_ns: &[f64], rival_ns: &[f64], seed: u64) -> Option<Interval> {
    if candidate_ns.len().min(rival_ns.len()) < TAIL_SAMPLES_MIN {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut resampled = |samples: &[f64]| {
        let drawn: Vec<f64> = samples.iter().map(|_| samples[below(&mut random, samples.len())]).collect();
        quantile(&sorted(&drawn), 0.9)
    };
    let ratios: Vec<f64> =
        (0..TAIL_RESAMPLES).map(|_| resampled(candidate_ns) / resampled(rival_ns)).collect();
    let interval = Interval::of(&ratios);
    (interval.low.is_finite() && interval.high.is_finite()).then_some(interval)
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::Rng;

    use super::*;
    use crate::paired;
    use crate::stats::median;

    const RULE: AcceptanceRule = AcceptanceRule { accept: 0.03, on: 2, revert_above: 0.02 };
    const FLAT: Interval = Interval { low: 0.99, high: 1.01 };

    fn problem(median: f64, width: f64) -> RivalProblem {
        let ratio = TimeRatio { median, low: median - width, high: median + width };
        RivalProblem { problem: "p".into(), canonical: true, ratio: Some(ratio), tail: Some(FLAT) }
    }

    fn found(problems: Vec<RivalProblem>) -> RivalFindings {
        RivalFindings { correct: true, noise_floor: Some(0.002), problems, ..RivalFindings::default() }
    }

    #[test]
    fn known_cases() {
        let (even, fast, gain) = (problem(1.0, 0.005), problem(0.5, 0.01), problem(0.9, 0.01));
        let other = |own: RivalProblem| RivalProblem { canonical: false, ..own };
        let tail = |low, high| RivalProblem { tail: Some(Interval { low, high }), ..gain.clone() };
        let with = |own: RivalProblem| found(vec![gain.clone(), gain.clone(), own]);
        let noisy = |floor, own| RivalFindings { noise_floor: Some(floor), ..found(vec![own]) };
        let both = || found(vec![fast.clone(), fast.clone()]);
        let lost = RivalProblem { ratio: None, ..fast.clone() };
        let few = RivalProblem { tail: None, ..gain.clone() };
        let rows = [
            // What says nothing about speed.
            ("failed", RivalFindings { correct: false, ..both() }),
            ("a gate is missing", RivalFindings { missing: vec!["honesty".into()], ..both() }),
            ("equal code", RivalFindings { is_same_code: true, ..both() }),
            ("not compared", RivalFindings { not_compared: Some("no rival".into()), ..both() }),
            ("no noise floor", RivalFindings { noise_floor: None, ..both() }),
            ("no number for one", RivalFindings { noise_floor: Some(f64::NAN), ..both() }),
            ("nothing compared", found(Vec::new())),
            ("one is lost", found(vec![fast.clone(), lost])),
            // Gains are needed on enough canonical problems; one is all of them.
            ("both gain", found(vec![problem(0.95, 0.005), problem(0.95, 0.005)])),
            ("one gains too little", found(vec![problem(0.95, 0.005), problem(0.98, 0.005)])),
            ("the only one gains", found(vec![problem(0.95, 0.005)])),
            ("another alone gains", found(vec![even.clone(), other(gain.clone())])),
            ("it and another gain", found(vec![problem(0.95, 0.005), other(gain.clone())])),
            ("the interval reaches into the noise", found(vec![problem(0.95, 0.0495)])),
            ("a noisy gain", noisy(0.1, problem(0.95, 0.005))),
            // Losses elsewhere.
            ("one may lose", with(problem(1.01, 0.015))),
            ("another may lose", with(other(problem(1.01, 0.015)))),
            ("one may lose a little", with(problem(1.01, 0.005))),
            ("a slow tail", with(tail(1.04, 1.2))),
            ("perhaps a slow tail", with(tail(1.004, 1.2))),
            ("too few for a tail", with(few)),
            ("a trade: slower on one, and faster by more on the others", with(problem(1.1, 0.01))),
            // Slower asks to go back.
            ("three times as slow", found(vec![problem(3.0, 0.1)])),
            ("slower on one of two", found(vec![problem(1.03, 0.005), even])),
            ("a little slower", found(vec![problem(1.015, 0.005)])),
            ("slower within the noise", found(vec![problem(1.03, 0.03)])),
            ("slower below the floor", noisy(0.05, problem(1.03, 0.005))),
            ("slower on another", found(vec![problem(1.0, 0.001), other(problem(3.0, 0.1))])),
        ];
        let told = rows.map(|(name, found)| {
            let Ruling { decision, why, not_slower } = decide(&RULE, &found);
            format!("{name}: {}, not slower {not_slower:?}: {why}", decision.as_str())
        });
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn tails_of_a_few_samples_are_not_compared() {
        let samples: Vec<f64> = (0..200).map(|at| 100.0 + f64::from(at * 37 % 101) / 50.0).collect();
        assert_eq!(tail_ratio(&samples[..19], &samples, 1), None);
        let same = tail_ratio(&samples, &samples, 1).unwrap();
        assert!(same.low <= 1.0 && same.high >= 1.0, "{same:?}");
        let slow: Vec<f64> = samples.iter().map(|own| own * 1.5).collect();
        assert!(tail_ratio(&slow, &samples, 1).unwrap().low > 1.4);
    }

    fn normal(random: &mut ChaCha8Rng, deviation: f64) -> f64 {
        let uniform = |random: &mut ChaCha8Rng| (f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0;
        let (one, two) = (uniform(random), uniform(random));
        deviation * (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
    }

    /// How many of `runs` comparisons are accepted: three problems, 1 % noise in each block and sample.
    fn accepted(runs: u64, gain: f64) -> usize {
        let noise_of = |random: &mut ChaCha8Rng, count: usize, center: f64| -> Vec<f64> {
            (0..count).map(|_| center + normal(random, 0.01)).collect()
        };
        let one = |seed: u64| {
            let random = &mut ChaCha8Rng::seed_from_u64(seed);
            let center = -(1.0 + gain).ln();
            let series: Vec<Vec<Vec<f64>>> =
                (0..3).map(|_| (0..3).map(|_| noise_of(random, 16, center)).collect()).collect();
            let medians = series.iter().map(|own| median(&own.concat()));
            // Without medians that are low enough nothing is accepted, whatever the intervals are.
            if medians.filter(|median| (-median).exp() >= 1.0 + RULE.accept).count() < RULE.on {
                return false;
            }
            let mut floor = 0.0_f64;
            for _ in 0..3 {
                let equal = [(); 2].map(|()| noise_of(random, 12, 0.0));
                floor = floor.max(paired::noise_floor(&equal, seed).floor);
            }
            let problems = series.iter().map(|blocks| {
                let compared = paired::compare(blocks, floor, seed);
                let samples = |random: &mut ChaCha8Rng, center: f64| -> Vec<f64> {
                    noise_of(random, 100, center).into_iter().map(f64::exp).collect()
                };
                let (own, rival) = (samples(random, center), samples(random, 0.0));
                let (median, low, high) = (compared.log_ratio.exp(), compared.low.exp(), compared.high.exp());
                let tail = tail_ratio(&own, &rival, seed);
                RivalProblem { tail, ratio: Some(TimeRatio { median, low, high }), ..problem(1.0, 0.0) }
            });
            let found = RivalFindings { noise_floor: Some(floor), ..found(problems.collect()) };
            decide(&RULE, &found).decision == RivalDecision::Keep
        };
        (0..runs).filter(|seed| one(*seed)).count()
    }

    #[test]
    fn equal_rivals_are_hardly_ever_accepted() {
        assert!(accepted(1_000, 0.0) <= 10);
    }

    #[test]
    fn a_gain_of_five_percent_is_found() {
        let runs = 60;
        assert!(accepted(runs, 0.05) * 100 >= 95 * runs as usize);
    }
}
