//! The real compilers and the real device behind the engine's ports, and the signals of the one who runs it.

use std::io;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use evo_compile::farm::CompileFarm;
use evo_protocol::binary::Binary;
use evo_protocol::device::Telemetry;
use evo_protocol::leaderboard::{PairedDecision, PairedProblem};
use evo_protocol::worker::PairedTimes;
use evo_supervise::job::{Job, Judgement, Standing};
use evo_supervise::lane::{Lane, Renewal};
use evo_system::process::is_ignored;
use evo_timing::paired::{self, PairedComparison};
use evo_timing::stats::median;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ports::{Compilers, Evaluate, Message, PairAnswer, Rivals};
use crate::prepared::PreparedKernel;

/// Fresh processes of a paired comparison whose interval decides at once: one may be lucky.
const PROCESSES_MIN: usize = 2;

/// Fresh processes of one that is not decided yet, on any machine.
const PROCESSES: usize = 3;

const BLOCKS: u32 = 4;

/// An inconclusive comparison is extended up to this many processes, while it has taken less than
/// `EXTENDED_WITHIN`: on a GPU always, on a slow host never.
const PROCESSES_MAX: usize = 9;
const EXTENDED_WITHIN: Duration = Duration::from_secs(3);

pub struct LiveCompilers {
    pub farm: CompileFarm,
    pub inbox: Sender<Message<Vec<Binary>>>,
}

impl Compilers<PreparedKernel> for LiveCompilers {
    fn submit(&mut self, ticket: u64, prepared: &PreparedKernel) {
        let inbox = self.inbox.clone();
        // The engine may be gone already at the end of a run.
        let deliver = move |outcome| drop(inbox.send(Message::Compiled(ticket, outcome)));
        self.farm.submit_all(prepared.sources.clone(), deliver);
    }

    fn cancel(&mut self) {
        self.farm.cancel();
    }

    fn jobs(&self) -> usize {
        self.farm.jobs()
    }

    fn busy_seconds(&self) -> f64 {
        self.farm.busy_seconds()
    }
}

impl Evaluate<Job> for Lane {
    fn evaluate(&mut self, job: &Job, standing: &Standing) -> Judgement {
        Lane::evaluate(self, job, standing)
    }

    fn expect_pairs(&mut self) {
        Lane::expect_pairs(self);
    }

    fn pair(&mut self, rivals: &Rivals<Job>) -> Vec<PairAnswer> {
        let (began, mut rounds) = (Instant::now(), 0);
        let mut matches: Vec<Match> =
            rivals.problems.iter().map(|problem| Match { problem: *problem, ..Match::default() }).collect();
        loop {
            // Starting a process costs more than the comparison itself.
            let open: Vec<usize> =
                matches.iter().filter(|own| own.answer.is_none()).map(|own| own.problem).collect();
            if open.is_empty() {
                return matches.into_iter().filter_map(|own| own.answer).collect();
            }
            match Lane::pair(self, &rivals.baseline, &rivals.finalist, &open, BLOCKS) {
                Ok(times) => {
                    rounds += 1;
                    let taken = began.elapsed();
                    let most = if taken < EXTENDED_WITHIN { PROCESSES_MAX } else { PROCESSES };
                    let most = if has_room(taken, rounds, rivals.within) { most } else { 0 };
                    let waiting = matches.iter_mut().filter(|own| own.answer.is_none());
                    waiting.zip(times).for_each(|(own, times)| own.add(rivals, times, most));
                }
                Err(error) => {
                    let message = error.to_string();
                    let waiting = matches.iter_mut().filter(|own| own.answer.is_none());
                    waiting.for_each(|own| own.answer = Some(Err(message.clone())));
                }
            }
        }
    }

    fn noise_floor(&mut self, job: &Job, problems: usize) -> Result<f64, String> {
        let floor = Lane::noise_floor(self, job, problems).map_err(|error| error.to_string())?.floor;
        if floor.is_finite() { Ok(floor) } else { Err("too few blocks".to_string()) }
    }

    fn begin(&mut self) {
        Lane::begin(self);
    }

    fn telemetry(&mut self) -> Option<Telemetry> {
        Lane::telemetry(self)
    }

    fn renew(&mut self) -> Option<Renewal> {
        Lane::renew(self)
    }
}

#[derive(Default)]
struct Match {
    problem: usize,
    /// Log ratios, kept apart by process, because the interval is resampled within processes.
    processes: Vec<Vec<f64>>,
    /// By process too: rivals are paired within a process, so what two processes differ by hits both alike.
    baseline_ns: Vec<Vec<f64>>,
    finalist_ns: Vec<f64>,
    answer: Option<PairAnswer>,
}

impl Match {
    /// `most`: processes after which it is answered, decided or not.
    fn add(&mut self, rivals: &Rivals<Job>, times: PairedTimes, most: usize) {
        self.baseline_ns.push(times.a_ns);
        self.finalist_ns.extend(times.b_ns);
        self.processes.push(times.log_ratios);
        let count = self.processes.len();
        if count < PROCESSES_MIN {
            return;
        }
        // Resampling is seeded by the job, so that the same ratios always give the same interval.
        let seed = rivals.finalist.candidate.check.seed;
        let comparison = paired::compare(&self.processes, rivals.noise_floor, seed);
        if comparison.decision != PairedDecision::Ambiguous || count >= most {
            self.answer = Some(self.outcome(rivals, comparison));
        }
    }

    fn outcome(&self, rivals: &Rivals<Job>, comparison: PairedComparison) -> PairAnswer {
        if !comparison.log_ratio.is_finite() {
            return Err("no block was timed".to_string());
        }
        Ok(PairedProblem {
            problem: rivals.finalist.timed[self.problem].name.clone(),
            ratio: comparison.log_ratio.exp(),
            ratio_low: comparison.low.exp(),
            ratio_high: comparison.high.exp(),
            processes: self.processes.len() as u32,
            pairs: self.processes.iter().map(Vec::len).sum::<usize>() as u32,
            decision: comparison.decision,
            baseline_ns: median(&self.baseline_ns.concat()),
            finalist_ns: median(&self.finalist_ns),
            baseline_drift: self.baseline_ns.iter().filter_map(|own| paired::drift(own)).reduce(f64::max),
        })
    }
}

/// Processes without which a comparison decides nothing; what they take beyond their time is the lane's to end.
const PROCESSES_LEAST: usize = 2;

fn has_room(taken: Duration, processes: usize, within: Option<Duration>) -> bool {
    processes < PROCESSES_LEAST
        || within.is_none_or(|within| taken + taken / processes.max(1) as u32 <= within)
}

/// Forwards Ctrl-C, SIGTERM and the end of the terminal (SIGHUP), the first of which asks for an orderly end and the second
/// for an end now, to the engine from a thread of its own, for the rest of the process's life.
pub fn watch_signals<B: Send + 'static>(sender: Sender<Message<B>>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // Under `nohup` the end of the terminal is not ours to hear of.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || {
        for (count, _) in (1u32..).zip(signals.forever()) {
            // Once the engine is gone, whoever started it watches for itself.
            let _ = sender.send(Message::Interrupt(count));
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_takes_one_more_process_only_while_it_fits() {
        let check = |taken: u64, processes, within: Option<u64>, expected| {
            let within = within.map(Duration::from_millis);
            assert_eq!(
                has_room(Duration::from_millis(taken), processes, within),
                expected,
                "{taken} {within:?}"
            );
        };
        check(1200, 2, None, true);
        check(1200, 2, Some(1800), true);
        check(1200, 2, Some(1799), false);
        check(1200, 2, Some(0), false);
        check(1200, 1, Some(0), true);
    }
}
