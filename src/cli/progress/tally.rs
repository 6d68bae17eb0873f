//! What an observer of a sweep keeps in mind, and how it is said.

use std::collections::BTreeMap;

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::VerdictKind;
use evo_space::text::counted;

use crate::event::{Event, LaneActivity, LaneLoad, LaneProgress};
use crate::report::text::time;

const FAILURES: usize = 4;

const LANES: usize = 8;

#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub total: Option<u64>,
    pub done: u64,
    /// Nanoseconds, and the configuration.
    best: Option<(f64, String)>,
    default_ns: Option<f64>,
    mix: BTreeMap<String, u64>,
    /// The first message of each kind of failure, in the order of their coming.
    failures: Vec<(String, String)>,
    lanes: Option<LaneLoad>,
    each: Vec<String>,
    /// Which finalist of how many.
    pub confirming: Option<(usize, usize)>,
}

impl Tally {
    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::Started { total, earlier, .. } => {
                self.total = *total;
                self.done = earlier.evaluations;
                self.best = earlier.best.as_ref().map(|(time, best)| (*time, best.to_string()));
                self.default_ns = earlier.default_ns;
                self.mix = earlier.verdicts.clone();
            }
            Event::Finished { evaluation, best } => self.finished(evaluation, *best),
            Event::Lanes(load) => self.lanes = Some(*load),
            Event::LaneProgress { lanes } => self.each = lanes.iter().map(told).collect(),
            Event::Confirming { finalist, of, .. } => self.confirming = Some((*finalist, *of)),
            _ => {}
        }
    }

    fn finished(&mut self, evaluation: &Evaluation, best: bool) {
        self.done += u64::from(evaluation.is_counted());
        let kind = evaluation.verdict.kind;
        *self.mix.entry(kind.to_string()).or_default() += 1;
        if evaluation.is_default() {
            self.default_ns = evaluation.objective_ns;
        }
        if let Some(objective_ns) = evaluation.objective_ns.filter(|_| best) {
            self.best = Some((objective_ns, evaluation.configuration.to_string()));
        }
        let is_quiet = matches!(kind, VerdictKind::Pass | VerdictKind::PassedOver | VerdictKind::TooSlow);
        if !is_quiet && !self.failures.iter().any(|(known, _)| *known == kind.as_str()) {
            let message = evaluation.verdict.message.lines().next().unwrap_or_default().to_string();
            self.failures.push((kind.to_string(), message));
        }
    }

    /// With the default's time, and no factor, because only a confirmation measures both alike.
    fn best_time(&self) -> String {
        let best = self.best.as_ref().map_or("none yet".to_string(), |best| time(best.0));
        let default = self.default_ns.map(|default| format!(" (default {})", time(default)));
        best + &default.unwrap_or_default()
    }

    /// `pass 31, too_slow 9`, most frequent first.
    fn mix(&self) -> String {
        let mut mix: Vec<(&String, &u64)> = self.mix.iter().collect();
        mix.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        mix.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }

    pub fn line(&self) -> String {
        let count = match self.total {
            Some(total) => format!("{}/{total}", self.done),
            None => self.done.to_string(),
        };
        let lanes = self.lanes.map(|load| format!("device {}", of_load(load))).unwrap_or_default();
        let parts = [count, format!("best {}", self.best_time()), self.mix(), lanes];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }

    pub fn lines(&self) -> Vec<String> {
        let row = |label: &str, text: String| format!("  {label:<9}{text}");
        let best = self.best.as_ref().map(|best| row("best", format!("{}  {}", self.best_time(), best.1)));
        // The compilers and the search's lane are idle while finalists are confirmed.
        let load = self.lanes.filter(|_| self.confirming.is_none());
        let left = load.and_then(|load| load.left_seconds);
        let left = left.map(|left| row("budget", format!("{left:.0} s left")));
        let each = self.each.iter().take(LANES).enumerate();
        let each = each.map(|(lane, text)| row(&format!("lane {lane}"), text.clone()));
        let more = self.each.len().saturating_sub(LANES);
        let failures = self.failures.iter().take(FAILURES);
        (best.into_iter().chain(left))
            .chain(load.map(|load| row("device", of_load(load))))
            .chain(each)
            .chain((more > 0).then(|| row("", format!("and {more} more lanes"))))
            .chain((!self.mix.is_empty()).then(|| row("verdicts", self.mix())))
            .chain(failures.map(|(kind, message)| row("", format!("{kind}: {message}"))))
            .collect()
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
fn of_load(load: LaneLoad) -> String {
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
