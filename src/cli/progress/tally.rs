//! What an observer of a sweep keeps in mind. Times are given from outside, so that what is shown of them can be
//! tested.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::VerdictKind;
use evo_space::text::counted;

use crate::event::{Event, LaneActivity, LaneLoad, LaneProgress};
use crate::report::text::time;

/// Verdicts by which the rate is measured: enough to be steady, few enough to follow a change.
const WINDOW: usize = 32;

const RATE_LEAST: usize = 3;

#[derive(Clone, Debug)]
pub struct BestSoFar {
    pub objective_ns: f64,
    pub configuration: String,
    /// When this run found it; absent for one of an earlier run.
    pub at: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub struct Confirming {
    pub finalist: usize,
    pub of: usize,
    /// When it began, and how long it and the others were expected to take, seconds.
    pub since: Duration,
    pub left_seconds: Option<f64>,
}

#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub total: Option<u64>,
    pub done: u64,
    pub best: Option<BestSoFar>,
    pub default_ns: Option<f64>,
    /// The best so far after each evaluation that had one, nanoseconds.
    pub trail: Vec<f64>,
    pub mix: BTreeMap<String, u64>,
    /// The first message of each kind of failure, in the order of their coming.
    pub failures: Vec<(String, String)>,
    pub lanes: Option<LaneLoad>,
    pub each: Vec<String>,
    pub confirming: Option<Confirming>,
    /// What is left of a wall budget, seconds, and when that was said.
    left: Option<(f64, Duration)>,
    verdicts: VecDeque<Duration>,
}

impl Tally {
    pub fn observe(&mut self, event: &Event, at: Duration) {
        match event {
            Event::Started { total, earlier, .. } => {
                self.total = *total;
                self.done = earlier.evaluations;
                self.best = earlier.best.as_ref().map(|(objective_ns, best)| BestSoFar {
                    objective_ns: *objective_ns,
                    configuration: best.to_string(),
                    at: None,
                });
                self.default_ns = earlier.default_ns;
                self.mix = earlier.verdicts.clone();
            }
            Event::Finished { evaluation, best } => self.finished(evaluation, *best, at),
            Event::Lanes(load) => {
                self.lanes = Some(*load);
                self.left = load.left_seconds.map(|left| (left, at));
            }
            Event::LaneProgress { lanes } => self.each = lanes.iter().map(told).collect(),
            Event::Confirming { finalist, of, left_seconds } => {
                let (finalist, of, left_seconds) = (*finalist, *of, *left_seconds);
                self.confirming = Some(Confirming { finalist, of, since: at, left_seconds });
            }
            _ => {}
        }
    }

    fn finished(&mut self, evaluation: &Evaluation, best: bool, at: Duration) {
        self.done += u64::from(evaluation.is_counted());
        let kind = evaluation.verdict.kind;
        *self.mix.entry(kind.to_string()).or_default() += 1;
        if evaluation.is_default() {
            self.default_ns = evaluation.objective_ns;
        }
        if let Some(objective_ns) = evaluation.objective_ns.filter(|_| best) {
            let configuration = evaluation.configuration.to_string();
            self.best = Some(BestSoFar { objective_ns, configuration, at: Some(at) });
        }
        self.trail.extend(self.best.as_ref().map(|best| best.objective_ns));
        let is_quiet = matches!(kind, VerdictKind::Pass | VerdictKind::PassedOver | VerdictKind::TooSlow);
        if !is_quiet && !self.failures.iter().any(|(known, _)| *known == kind.as_str()) {
            let message = evaluation.verdict.message.lines().next().unwrap_or_default().to_string();
            self.failures.push((kind.to_string(), message));
        }
        if evaluation.is_counted() && evaluation.taken_over_from.is_none() {
            self.verdicts.push_back(at);
            if self.verdicts.len() > WINDOW {
                self.verdicts.pop_front();
            }
        }
    }

    /// Over the last evaluations; a stage that stalls lowers it.
    pub fn rate(&self, now: Duration) -> Option<f64> {
        let first = self.verdicts.front().filter(|_| self.verdicts.len() >= RATE_LEAST)?;
        let seconds = now.saturating_sub(*first).as_secs_f64();
        (seconds > 0.0).then(|| (self.verdicts.len() - 1) as f64 / seconds)
    }

    /// Unknown until enough was seen, and again once an estimate has run out, because 0 would promise an end that
    /// nothing points to.
    pub fn eta(&self, now: Duration) -> Option<f64> {
        if let Some(confirming) = self.confirming {
            let passed = now.saturating_sub(confirming.since).as_secs_f64();
            return Some(confirming.left_seconds? - passed).filter(|left| *left > 0.0);
        }
        let left = self.left.map(|(left, at)| left - now.saturating_sub(at).as_secs_f64());
        if left.is_some_and(|left| left <= 0.0) {
            return None;
        }
        let search = self.total.zip(self.rate(now)).map(|(total, rate)| {
            let confirm_seconds = self.lanes.and_then(|load| load.confirm_seconds).unwrap_or(0.0);
            total.saturating_sub(self.done) as f64 / rate + confirm_seconds
        });
        match (left, search) {
            (Some(left), Some(search)) => Some(left.min(search)),
            (left, search) => left.or(search),
        }
    }

    /// No factor, because only a confirmation measures both alike.
    pub fn default_time(&self) -> String {
        self.default_ns.map(|default| format!(" (default {})", time(default))).unwrap_or_default()
    }

    /// `pass 31, too_slow 9`, most frequent first.
    pub fn mix(&self) -> Vec<(&str, u64)> {
        let mut mix: Vec<(&str, u64)> =
            self.mix.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        mix.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        mix
    }

    /// `16/48`.
    pub fn count(&self) -> String {
        match self.total {
            Some(total) => format!("{}/{total}", self.done),
            None => self.done.to_string(),
        }
    }

    pub fn line(&self) -> String {
        let best = self.best.as_ref().map_or("none yet".to_string(), |best| time(best.objective_ns));
        let mix: Vec<String> = self.mix().iter().map(|(name, count)| format!("{name} {count}")).collect();
        let lanes = self.lanes.map(|load| format!("device {}", of_load(load))).unwrap_or_default();
        let parts = [self.count(), format!("best {best}{}", self.default_time()), mix.join(", "), lanes];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }
}

/// `cuda:1 on node7  working  120 evaluations, 93 % busy, 1 new worker`.
fn told(lane: &LaneProgress) -> String {
    let account = &lane.account;
    let doing = match lane.activity {
        LaneActivity::Working => "working",
        LaneActivity::Idle => "idle   ",
        LaneActivity::Waiting => "waiting for a worker",
        LaneActivity::Out => "out    ",
    };
    let mut all = vec![counted(account.evaluations, "evaluation")];
    all.push(format!("{:.0} % busy", percent(lane.busy)));
    if account.restarts > 0 {
        all.push(counted(account.restarts, "new worker"));
    }
    all.extend(account.out.clone());
    format!("{}  {doing}  {}", account.place(), all.join(", "))
}

/// `98 % busy, 2 queued · compile 35 % busy, 0 queued`.
pub fn of_load(load: LaneLoad) -> String {
    format!(
        "{:.0} % busy, {} queued · compile {:.0} % busy, {} queued",
        percent(load.device_busy),
        load.device_queue,
        percent(load.compile_busy),
        load.compile_queue
    )
}

/// A share in percent: what is under way is counted as a whole, and may exceed the time that has passed.
fn percent(share: f64) -> f64 {
    (share * 100.0).clamp(0.0, 100.0)
}
