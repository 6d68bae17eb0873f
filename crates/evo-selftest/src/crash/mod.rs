//! evo, its workers and its compilers are killed at moments of a small sweep on the host device, and the sweep is resumed.
//! It must come to the verdicts of an undisturbed run, lose none, give none twice, and leave no process, lock or scratch
//! file behind.
//!
//! The moments come from a seed: an event of the sweep and a few milliseconds after it. The same seed kills at the same
//! events; what the machine does in a millisecond is its own. `stage` is the folder with the sweep, `processes` finds whom
//! to kill.

mod processes;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use evo::cli::error::CliError;
use evo::cli::selftest::{SelftestCheck, SelftestReport};
use evo::journal::lock::StudyLock;
use evo::journal::own_folder::OwnFolder;
use evo_space::sample::seeded;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::Value;

use self::processes::ProcessId;
use self::stage::{CrashStage, Sweep, Verdicts};
use crate::order::Order;

/// Moments without `--count`.
const COUNT: usize = 200;

/// An undisturbed run, then studies with kills until there were enough moments: a check each.
pub fn run(order: &Order, report: &mut SelftestReport) -> Result<Value, CliError> {
    let count = order.count.unwrap_or(COUNT);
    let stage = CrashStage::new()?;
    stage.prepare("undisturbed")?;
    stage.start("undisturbed")?.finish()?;
    let expected = stage.journal("undisturbed")?.verdicts;
    if expected.is_empty() {
        return Err(CliError::environment("the sweep of the self-test does not run on this machine")
            .with_hint("`evo preflight --device host` shows what is missing"));
    }
    for number in 0..count.div_ceil(MOMENTS) {
        let (seed, moments) = (order.seed.wrapping_add(number as u64), MOMENTS.min(count - number * MOMENTS));
        let played = play(&stage, seed, moments, &expected)?;
        report.push(played.check(moments));
    }
    Ok(serde_json::json!({ "name": "host" }))
}

/// Events of a run of the small sweep, about as many as an undisturbed one has.
const EVENTS: usize = 34;

/// Milliseconds after the event.
const DELAY_MS: u64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    Evo,
    DeviceWorker,
    CompileWorker,
    Compiler,
}

impl Victim {
    const ALL: [Victim; 4] = [Victim::Evo, Victim::DeviceWorker, Victim::CompileWorker, Victim::Compiler];

    fn as_str(self) -> &'static str {
        match self {
            Victim::Evo => "evo",
            Victim::DeviceWorker => "device worker",
            Victim::CompileWorker => "compile worker",
            Victim::Compiler => "compiler",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    victim: Victim,
    /// Events that the run has told by then.
    event: usize,
    delay_ms: u64,
}

impl Moment {
    /// The next moment of a seed; `evo` says whether evo itself may be the victim.
    fn draw(random: &mut ChaCha8Rng, evo: bool) -> Moment {
        let victims = if evo { &Victim::ALL[..] } else { &Victim::ALL[1..] };
        let victim = victims[random.random_range(0..victims.len())];
        // A compiler is at work only while sources are left.
        let events = if victim == Victim::Compiler { EVENTS / 2 } else { EVENTS };
        Moment { victim, event: random.random_range(0..events), delay_ms: random.random_range(0..DELAY_MS) }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ms after event {}", self.victim.as_str(), self.delay_ms, self.event)
    }
}

/// Moments in a study.
const MOMENTS: usize = 4;

/// evo itself is killed at most this often in a study: what is in flight at three crashes is given up, as it should.
const EVO_KILLS: usize = 2;

/// Runs without a kill until every variant has its verdict.
const RESUMES: usize = 4;

/// A victim that is not there yet is waited for this long.
const VICTIM_PATIENCE: Duration = Duration::from_millis(400);

/// Dying takes a moment, and orphans have two seconds to notice.
const DEATH_PATIENCE: Duration = Duration::from_secs(15);

#[derive(Debug, Default, Serialize)]
struct PlayedStudy {
    seed: u64,
    /// In words, those that came too late included.
    moments: Vec<String>,
    killed: BTreeMap<Victim, u32>,
    /// Runs that it took, the first included.
    runs: usize,
    /// Variants that had no verdict for a while.
    not_final: usize,
    problems: Vec<String>,
}

impl PlayedStudy {
    fn check(&self, moments: usize) -> SelftestCheck {
        let killed = self.killed.iter().map(|(victim, times)| format!("{} {times}", victim.as_str()));
        let killed: Vec<String> = killed.collect();
        let mut message = format!(
            "{} runs; killed: {}; {} variants had no verdict for a while",
            self.runs,
            killed.join(", "),
            self.not_final
        );
        if !self.problems.is_empty() {
            self.moments.iter().for_each(|moment| message += &format!("\n     {moment}"));
            self.problems.iter().for_each(|problem| message += &format!("\n  ✗  {problem}"));
            message += &format!("\n     again: evo-selftest crash --seed {} --count {moments}", self.seed);
        }
        let name = format!("study-{}", self.seed);
        SelftestCheck::new(&name, Some(self.problems.is_empty()), message).with(self)
    }
}

/// Plays the study of a seed with at most `moments` moments; `expected` are an undisturbed run's verdicts.
fn play(stage: &CrashStage, seed: u64, moments: usize, expected: &Verdicts) -> Result<PlayedStudy, CliError> {
    let name = format!("study-{seed}");
    stage.prepare(&name)?;
    let mut play = Play {
        stage,
        random: seeded(seed),
        name,
        met: BTreeSet::new(),
        before: Verdicts::new(),
        played: PlayedStudy { seed, ..PlayedStudy::default() },
    };
    play.disturb(moments)?;
    play.complete()?;
    play.look_over(expected)?;
    Ok(play.played)
}

struct Play<'a> {
    stage: &'a CrashStage,
    random: ChaCha8Rng,
    name: String,
    /// Every process that was seen below evo.
    met: BTreeSet<ProcessId>,
    /// The verdicts that were in the journal when it was last read.
    before: Verdicts,
    played: PlayedStudy,
}

impl Play<'_> {
    fn start(&mut self) -> Result<Sweep, CliError> {
        self.played.runs += 1;
        Ok(self.stage.start(&self.name)?)
    }

    /// Kills at the moments of the seed.
    fn disturb(&mut self, moments: usize) -> Result<(), CliError> {
        let mut run: Option<Sweep> = None;
        for _ in 0..moments {
            let evo_kills = self.played.killed.get(&Victim::Evo).copied().unwrap_or(0);
            let moment = Moment::draw(&mut self.random, (evo_kills as usize) < EVO_KILLS);
            let chosen = self.random.random::<u32>() as usize;
            let mut sweep = match run.take() {
                Some(sweep) => sweep,
                None => self.start()?,
            };
            let in_time = sweep.wait_for(moment.event)?;
            std::thread::sleep(Duration::from_millis(moment.delay_ms));
            if !in_time || sweep.has_ended()? {
                self.played.moments.push(format!("{moment}: too late"));
                sweep.finish()?;
                self.check_kept()?;
                continue;
            }
            self.played.moments.push(moment.to_string());
            self.met.extend(processes::descendants(sweep.pid()).into_iter().map(|(id, _)| id));
            if moment.victim == Victim::Evo {
                sweep.kill()?;
                self.count(Victim::Evo);
                self.check_kept()?;
                continue;
            }
            if self.kill_one(&mut sweep, moment.victim, chosen)? {
                self.count(moment.victim);
            }
            run = Some(sweep);
        }
        if let Some(sweep) = run {
            sweep.finish()?;
        }
        self.check_kept()
    }

    fn count(&mut self, victim: Victim) {
        *self.played.killed.entry(victim).or_default() += 1;
    }

    /// Kills one of evo's processes of a kind; whether there was one.
    fn kill_one(&mut self, sweep: &mut Sweep, victim: Victim, chosen: usize) -> Result<bool, CliError> {
        let until = Instant::now() + VICTIM_PATIENCE;
        loop {
            let all = processes::descendants(sweep.pid());
            self.met.extend(all.iter().map(|(id, _)| *id));
            let kind: Vec<ProcessId> =
                all.into_iter().filter(|(_, kind)| *kind == victim).map(|(id, _)| id).collect();
            if let Some(pid) = kind.get(chosen % kind.len().max(1)).and_then(|id| Pid::from_raw(id.0 as i32))
            {
                return Ok(kill_process(pid, Signal::KILL).is_ok());
            }
            if Instant::now() >= until || sweep.has_ended()? {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Every verdict that was in the journal is there still, unchanged and once.
    fn check_kept(&mut self) -> Result<(), CliError> {
        let state = self.stage.journal(&self.name)?;
        for (name, verdict) in &self.before {
            if state.verdicts.get(name) != Some(verdict) {
                self.played.problems.push(format!("the verdict `{verdict}` of `{name}` is lost"));
            }
        }
        self.played.not_final = self.played.not_final.max(state.not_final.len());
        self.before = state.verdicts;
        Ok(())
    }

    fn complete(&mut self) -> Result<(), CliError> {
        for _ in 0..RESUMES {
            let status = self.start()?.finish()?;
            self.check_kept()?;
            if status.success() && self.stage.journal(&self.name)?.not_final.is_empty() {
                return Ok(());
            }
        }
        self.played.problems.push(format!("not complete after {RESUMES} undisturbed runs"));
        Ok(())
    }

    fn look_over(&mut self, expected: &Verdicts) -> Result<(), CliError> {
        let state = self.stage.journal(&self.name)?;
        let problems = &mut self.played.problems;
        problems.extend(state.doubled.iter().map(|name| format!("`{name}` has two verdicts")));
        for (name, verdict) in expected {
            match state.verdicts.get(name) {
                Some(found) if found == verdict => {}
                Some(found) => problems.push(format!("`{name}` is `{found}` instead of `{verdict}`")),
                None => problems.push(format!("`{name}` has no verdict")),
            }
        }
        let folder = OwnFolder::open(&self.stage.study(&self.name));
        if let Some(Err(error)) = folder.ok().map(|folder| StudyLock::take(&folder)) {
            problems.push(format!("the study's lock is still held: {error}"));
        }
        problems.extend(
            self.stage.scratch(&self.name).iter().map(|path| format!("`{}` is left", path.display())),
        );
        let left = self.leftovers();
        self.played.problems.extend(left.into_iter().map(|pid| format!("process {pid} still runs")));
        Ok(())
    }

    fn leftovers(&self) -> BTreeSet<u32> {
        let until = Instant::now() + DEATH_PATIENCE;
        loop {
            let mut left: BTreeSet<u32> = processes::running(&self.met).into_iter().collect();
            left.extend(processes::marked(&self.stage.cache()));
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_moments() {
        let draw = |seed| {
            let mut random = seeded(seed);
            (0..50).map(|_| Moment::draw(&mut random, true)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let all = draw(7);
        assert!(Victim::ALL.iter().all(|victim| all.iter().any(|moment| moment.victim == *victim)));
        let mut random = seeded(7);
        assert!((0..50).all(|_| Moment::draw(&mut random, false).victim != Victim::Evo));
    }
}
