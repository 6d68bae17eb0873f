//! compute-sanitizer, and the host device beside it, behind the engine's port.
//!
//! The host device's looks at a GPU's candidates, one after the other on a thread of their own: they need processors, so
//! they go on while the GPU searches and compares.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use evo_inspect::sanitize::{LookOrder, SanitizerCheck, SanitizerLook, SanitizerOutcome, look, unlooked};
use evo_inspect::tool::{FoundTool, ToolFailure, ToolState};
use evo_inspect::twin::{HostLook, TwinAnswer};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::GateState;
use evo_space::genome::Configuration;
use evo_supervise::job::Job;
use evo_supervise::lane::LaneOptions;
use evo_system::lock;

use crate::ports::{Sanitizer, SanitizerAnswer};

#[derive(Debug)]
pub struct DeviceSanitizer {
    pub kind: DeviceKind,
    pub tool: Result<FoundTool, ToolFailure>,
    /// What workers are told; the tool gets a worker of its own.
    pub options: LaneOptions,
    pub checks: Vec<SanitizerCheck>,
    pub limit: Duration,
    /// Whether somebody demands an answer: then a problem is looked at beside the small shapes, and without the tool evo's
    /// own checks of the host device launch everything once more. They watch every launch there anyway.
    pub is_demanded: bool,
    /// Checks that did not come to an end on a variant. They are not made on others: every one would wait as long.
    pub stuck: Vec<SanitizerCheck>,
    pub twin: Option<TwinLooks>,
}

fn unending(check: SanitizerCheck) -> ToolFailure {
    let name = check.as_str();
    ToolFailure::new(
        ToolState::TimedOut,
        format!("{name} did not come to an end on an earlier variant of this run"),
    )
    .with_hint(format!(
        "`sanitizers` in `[check]` of the space file names the checks to make; leave {name} out"
    ))
}

impl Sanitizer<Job> for DeviceSanitizer {
    fn is_there(&self) -> bool {
        let stands_in = self.is_demanded && self.kind == DeviceKind::Host;
        self.tool.is_ok() || stands_in || self.twin.is_some()
    }

    fn look_ahead(&mut self, configurations: Vec<Configuration>) {
        self.twin.iter().for_each(|twin| twin.ask_for(&configurations, true));
    }

    fn sanitize(
        &mut self,
        job: &Job,
        configuration: &Configuration,
        within: Option<Duration>,
    ) -> SanitizerAnswer {
        let is_there = self.is_there();
        if let Some(failure) = self.tool.as_ref().err().filter(|_| !is_there) {
            return SanitizerAnswer::unlooked(unlooked(failure));
        }
        // Each waits for its own process: the tool for the GPU, the twin for compilers and a processor.
        let until = Instant::now() + within.map_or(self.limit, |within| within.min(self.limit));
        self.twin.iter().for_each(|twin| twin.ask_for(std::slice::from_ref(configuration), false));
        let look = self.by_tool(job, within);
        let look = look.beside(self.twin.as_ref().map(|twin| twin.answer(configuration, until)));
        let report = look.report();
        let is_late = report.state == GateState::NotRun && look.is_late();
        SanitizerAnswer { report, verdict: look.verdict(), looked: true, is_late }
    }
}

impl DeviceSanitizer {
    fn by_tool(&mut self, job: &Job, within: Option<Duration>) -> SanitizerLook {
        let (stuck, checks) = self.checks.iter().partition::<Vec<_>, _>(|check| self.stuck.contains(check));
        let mut look = look(&LookOrder {
            kind: self.kind,
            tool: self.tool.as_ref(),
            checks: &checks,
            options: &self.options,
            job,
            small_only: !self.is_demanded,
            limit: self.limit,
            within,
        });
        // Where the run itself was short of time, the check may well end on another day.
        if within.is_none_or(|within| within > self.limit) {
            let endless = |outcome: &&SanitizerOutcome| {
                outcome.failure.as_ref().is_some_and(|failure| failure.state == ToolState::TimedOut)
            };
            self.stuck.extend(look.outcomes.iter().filter(endless).map(|outcome| outcome.check));
        }
        look.outcomes
            .extend(stuck.into_iter().map(|check| SanitizerOutcome::not_run(check, unending(check))));
        look
    }
}

#[derive(Debug)]
pub struct TwinLooks(Arc<TwinDesk>);

#[derive(Debug)]
struct TwinDesk {
    look: Box<dyn HostLook>,
    limit: Duration,
    state: Mutex<TwinState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TwinState {
    waiting: VecDeque<Configuration>,
    running: Option<Configuration>,
    answers: Vec<(Configuration, TwinAnswer)>,
}

impl TwinLooks {
    pub fn new(look: Box<dyn HostLook>, limit: Duration) -> TwinLooks {
        let (state, changed) = (Mutex::default(), Condvar::new());
        TwinLooks(Arc::new(TwinDesk { look, limit, state, changed }))
    }

    /// Looks at these in this order: before what was asked for and not begun, or in its place.
    fn ask_for(&self, configurations: &[Configuration], in_place: bool) {
        let mut state = lock(&self.0.state);
        let before = std::mem::take(&mut state.waiting);
        let later = before.iter().filter(|own| !in_place && !configurations.contains(own));
        let open = configurations.iter().filter(|own| state.is_open(own));
        state.waiting = open.chain(later).cloned().collect();
        self.run(state);
    }

    pub(crate) fn answer(&self, configuration: &Configuration, until: Instant) -> TwinAnswer {
        let mut state = lock(&self.0.state);
        loop {
            if let Some((_, answer)) = state.answers.iter().find(|(own, _)| own == configuration) {
                return answer.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.waiting.retain(|own| own != configuration);
                return TwinAnswer::Late;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Starts the thread, unless it runs. It ends when nothing waits.
    fn run(&self, mut state: MutexGuard<'_, TwinState>) {
        if state.running.is_some() || state.waiting.is_empty() {
            return;
        }
        state.running = state.waiting.pop_front();
        drop(state);
        let desk = Arc::clone(&self.0);
        if let Err(error) = thread::Builder::new().name("twin".into()).spawn(move || desk.serve()) {
            let mut state = lock(&self.0.state);
            if let Some(configuration) = state.running.take() {
                state.answers.push((configuration, TwinAnswer::Silent(error.to_string())));
            }
        }
    }
}

impl Drop for TwinLooks {
    fn drop(&mut self) {
        lock(&self.0.state).waiting.clear();
    }
}

impl TwinState {
    fn is_open(&self, configuration: &Configuration) -> bool {
        self.answers.iter().all(|(own, _)| own != configuration)
            && self.running.as_ref() != Some(configuration)
    }
}

impl TwinDesk {
    fn serve(&self) {
        loop {
            let Some(configuration) = lock(&self.state).running.clone() else { return };
            let look = catch_unwind(AssertUnwindSafe(|| self.look.look(&configuration, self.limit)));
            let answer = look.unwrap_or_else(|_| TwinAnswer::Silent("evo panicked".to_string()));
            let mut state = lock(&self.state);
            state.answers.push((configuration, answer));
            state.running = state.waiting.pop_front();
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use evo_space::value::Value;

    use super::*;

    fn point(value: i64) -> Configuration {
        Configuration::new(vec![("A".into(), Value::Int(value))])
    }

    #[derive(Debug)]
    struct Held(Mutex<Receiver<()>>, Mutex<Sender<Configuration>>);

    impl HostLook for Held {
        fn look(&self, configuration: &Configuration, _limit: Duration) -> TwinAnswer {
            let _ = self.1.lock().unwrap().send(configuration.clone());
            let _ = self.0.lock().unwrap().recv();
            TwinAnswer::Clean { cases: 1 }
        }
    }

    #[test]
    fn looks_go_on_by_themselves_and_the_one_that_is_waited_for_comes_first() {
        let ((go, held), (began, begun)) = (channel(), channel());
        let hours = || Instant::now() + Duration::from_secs(3600);
        let twin = TwinLooks::new(Box::new(Held(Mutex::new(held), Mutex::new(began))), Duration::ZERO);
        twin.ask_for(&[point(0), point(1), point(2)], true);
        assert_eq!(begun.recv().unwrap(), point(0));
        // Whoever has no time does not wait, and what was not begun is not begun for nothing.
        assert_eq!(twin.answer(&point(1), Instant::now()), TwinAnswer::Late);
        twin.ask_for(&[point(0), point(3), point(4)], true);
        twin.ask_for(&[point(4)], false);
        for _ in 0..3 {
            go.send(()).unwrap();
        }
        assert_eq!(twin.answer(&point(3), hours()), TwinAnswer::Clean { cases: 1 });
        assert_eq!(begun.try_iter().collect::<Vec<_>>(), [point(4), point(3)]);
        assert_eq!(twin.answer(&point(0), Instant::now()), TwinAnswer::Clean { cases: 1 });
    }
}
