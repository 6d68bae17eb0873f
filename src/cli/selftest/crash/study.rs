//! One study: begun, disturbed at its moments, resumed until it is complete, and looked over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use evo_space::sample::seeded;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::moment::{Moment, Victim};
use super::processes::{self, ProcessId};
use super::stage::{CrashStage, Sweep, Verdicts};
use crate::cli::error::CliError;
use crate::journal::lock::StudyLock;
use crate::journal::own_folder::OwnFolder;

/// Moments in a study.
pub const MOMENTS: usize = 4;

/// evo itself is killed at most this often in a study: what is in flight at three crashes is given up, as it should.
const EVO_KILLS: usize = 2;

/// Runs without a kill until every variant has its verdict.
const RESUMES: usize = 4;

/// A victim that is not there yet is waited for this long.
const VICTIM_PATIENCE: Duration = Duration::from_millis(400);

/// Dying takes a moment, and orphans have two seconds to notice.
const DEATH_PATIENCE: Duration = Duration::from_secs(15);

/// What became of a study.
#[derive(Debug, Default, Serialize)]
pub struct PlayedStudy {
    pub seed: u64,
    /// In words, those that came too late included.
    pub moments: Vec<String>,
    /// Who was killed.
    pub killed: BTreeMap<Victim, u32>,
    /// Runs that it took, the first included.
    pub runs: usize,
    /// Variants that had no verdict for a while.
    pub not_final: usize,
    /// What must not be.
    pub problems: Vec<String>,
}

/// Plays the study of a seed with at most `moments` moments; `expected` are an undisturbed run's verdicts.
pub fn play(
    stage: &CrashStage,
    seed: u64,
    moments: usize,
    expected: &Verdicts,
) -> Result<PlayedStudy, CliError> {
    let name = format!("study-{seed}");
    stage.prepare(&name)?;
    let mut play = Play {
        stage,
        random: seeded(seed),
        name,
        seen: BTreeSet::new(),
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
    seen: BTreeSet<ProcessId>,
    /// The verdicts that were in the journal when it was last read.
    before: Verdicts,
    played: PlayedStudy,
}

impl Play<'_> {
    fn start(&mut self) -> Result<Sweep, CliError> {
        self.played.runs += 1;
        Ok(self.stage.start(&self.name, 1)?)
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
            self.seen.extend(processes::descendants(sweep.pid()).into_iter().map(|(id, _)| id));
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
            self.seen.extend(all.iter().map(|(id, _)| *id));
            let kind: Vec<ProcessId> =
                all.into_iter().filter(|(_, kind)| *kind == victim).map(|(id, _)| id).collect();
            if let Some(pid) =
                kind.get(chosen % kind.len().max(1)).and_then(|id| Pid::from_raw(id.pid as i32))
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

    /// Resumes until nothing is left to do.
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
                Some(own) if own == verdict => {}
                Some(own) => problems.push(format!("`{name}` is `{own}` instead of `{verdict}`")),
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

    /// Processes that outlive the study.
    fn leftovers(&self) -> BTreeSet<u32> {
        let until = Instant::now() + DEATH_PATIENCE;
        loop {
            let mut left: BTreeSet<u32> = processes::running(&self.seen).into_iter().collect();
            left.extend(processes::marked(&self.stage.cache()));
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
