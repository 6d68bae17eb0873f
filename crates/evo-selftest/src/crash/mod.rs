//! evo, its workers and its compilers are killed at moments of a small sweep on the host device, and the sweep is resumed.
//! It must come to the verdicts of an undisturbed run, lose none, give none twice, and leave no process, lock or scratch
//! file behind.
//!
//! The moments come from a seed: a line of the sweep's journal and a few milliseconds after it. The same seed kills at the
//! same lines; what the machine does in a millisecond is its own. `stage` is the folder with the sweep.

mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use evo::cli::error::CliError;
use evo::cli::selftest::{ProcessLine, SelftestCheck, SelftestReport, processes};
use evo::journal::lock::StudyLock;
use evo::journal::own_folder::OwnFolder;
use evo_space::sample::seeded;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use self::stage::{CrashStage, Sweep, Verdicts};
use crate::order::Order;

/// Moments without `--count`.
const COUNT: usize = 200;
/// Moments in a study.
const MOMENTS: usize = 4;
/// Lines of the journal of a run of the small sweep, about as many as an undisturbed one writes.
const LINES: usize = 20;
/// Milliseconds after the line.
const DELAY_MS: u64 = 150;

/// Who is killed: evo itself, or one of the workers and compilers that are there then.
const EVO: &str = "evo";
const CHILD: &str = "child";
/// One kill in so many is evo's own.
const EVO_SHARE: u32 = 4;

/// evo itself is killed at most this often in a study: what is in flight at three crashes is given up, as it should.
const EVO_KILLS: u32 = 2;
/// Runs without a kill until every variant has its verdict.
const RESUMES: usize = 4;
/// Dying takes a moment, and orphans have two seconds to notice.
const DEATH_PATIENCE: Duration = Duration::from_secs(15);

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
        let mut play = Play {
            stage: &stage,
            random: seeded(seed),
            name: format!("study-{seed}"),
            met: BTreeSet::new(),
            before: Verdicts::new(),
            moments: Vec::new(),
            killed: BTreeMap::new(),
            runs: 0,
            not_final: 0,
            problems: Vec::new(),
        };
        stage.prepare(&play.name)?;
        play.disturb(moments)?;
        play.complete()?;
        play.look_over(&expected)?;
        report.push(play.check(seed, moments));
    }
    Ok(json!({ "name": "host" }))
}

/// A process and when it started, which tells it from a later one with the same number.
type ProcessId = (u32, u64);

/// A study and what became of it.
struct Play<'a> {
    stage: &'a CrashStage,
    random: ChaCha8Rng,
    name: String,
    /// Every process that was seen below evo.
    met: BTreeSet<ProcessId>,
    /// The verdicts that were in the journal when it was last read.
    before: Verdicts,
    /// In words, those that came too late included.
    moments: Vec<String>,
    killed: BTreeMap<&'static str, u32>,
    /// Runs that it took, the first included.
    runs: usize,
    /// Variants that had no verdict for a while.
    not_final: usize,
    problems: Vec<String>,
}

impl Play<'_> {
    fn check(&self, seed: u64, moments: usize) -> SelftestCheck {
        let Play { killed, runs, not_final, problems, .. } = self;
        let told: Vec<String> = killed.iter().map(|(victim, times)| format!("{victim} {times}")).collect();
        let told = told.join(", ");
        let mut message =
            format!("{runs} runs; killed: {told}; {not_final} variants had no verdict for a while");
        if !problems.is_empty() {
            self.moments.iter().for_each(|moment| message += &format!("\n     {moment}"));
            problems.iter().for_each(|problem| message += &format!("\n  ✗  {problem}"));
            message += &format!("\n     again: evo-selftest crash --seed {seed} --count {moments}");
        }
        SelftestCheck::new(&self.name, Some(problems.is_empty()), message).with(&json!({
            "seed": seed, "moments": self.moments, "killed": killed, "runs": runs, "not_final": not_final,
            "problems": problems,
        }))
    }

    fn start(&mut self) -> Result<Sweep, CliError> {
        self.runs += 1;
        Ok(self.stage.start(&self.name)?)
    }

    /// Kills at the moments of the seed.
    fn disturb(&mut self, moments: usize) -> Result<(), CliError> {
        let mut run: Option<Sweep> = None;
        for _ in 0..moments {
            let spares_evo = self.killed.get(EVO).is_some_and(|times| *times >= EVO_KILLS);
            let is_evo = self.random.random_ratio(1, EVO_SHARE) && !spares_evo;
            let victim = if is_evo { EVO } else { CHILD };
            let line = self.random.random_range(0..LINES);
            let delay_ms = self.random.random_range(0..DELAY_MS);
            let chosen = self.random.random::<u32>() as usize;
            let mut sweep = match run.take() {
                Some(sweep) => sweep,
                None => self.start()?,
            };
            let in_time = sweep.wait_for(line)?;
            std::thread::sleep(Duration::from_millis(delay_ms));
            let is_late = !in_time || sweep.has_ended()?;
            let late = if is_late { ": too late" } else { "" };
            self.moments.push(format!("{victim} {delay_ms} ms after line {line}{late}"));
            if is_late {
                sweep.finish()?;
                self.check_kept()?;
                continue;
            }
            let children = descendants(sweep.pid());
            self.met.extend(&children);
            if is_evo {
                sweep.kill()?;
                *self.killed.entry(EVO).or_default() += 1;
                self.check_kept()?;
                continue;
            }
            let child = children.get(chosen % children.len().max(1));
            if child
                .and_then(|id| Pid::from_raw(id.0 as i32))
                .is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
            {
                *self.killed.entry(CHILD).or_default() += 1;
            }
            run = Some(sweep);
        }
        if let Some(sweep) = run {
            sweep.finish()?;
        }
        self.check_kept()
    }

    /// Every verdict that was in the journal is there still, unchanged and once.
    fn check_kept(&mut self) -> Result<(), CliError> {
        let state = self.stage.journal(&self.name)?;
        for (name, verdict) in &self.before {
            if state.verdicts.get(name) != Some(verdict) {
                self.problems.push(format!("the verdict `{verdict}` of `{name}` is lost"));
            }
        }
        self.not_final = self.not_final.max(state.not_final.len());
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
        self.problems.push(format!("not complete after {RESUMES} undisturbed runs"));
        Ok(())
    }

    fn look_over(&mut self, expected: &Verdicts) -> Result<(), CliError> {
        let state = self.stage.journal(&self.name)?;
        let doubled = state.doubled.iter().map(|name| format!("`{name}` has two verdicts"));
        self.problems.extend(doubled);
        for (name, verdict) in expected {
            match state.verdicts.get(name) {
                Some(found) if found == verdict => {}
                Some(found) => self.problems.push(format!("`{name}` is `{found}` instead of `{verdict}`")),
                None => self.problems.push(format!("`{name}` has no verdict")),
            }
        }
        let folder = OwnFolder::open(&self.stage.study(&self.name));
        if let Some(Err(error)) = folder.ok().map(|folder| StudyLock::take(&folder)) {
            self.problems.push(format!("the study's lock is still held: {error}"));
        }
        let scratch = self.stage.scratch(&self.name);
        self.problems.extend(scratch.iter().map(|path| format!("`{}` is left", path.display())));
        let until = Instant::now() + DEATH_PATIENCE;
        let left = loop {
            let left = self.still_running();
            if left.is_empty() || Instant::now() >= until {
                break left;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        self.problems.extend(left.into_iter().map(|pid| format!("process {pid} still runs")));
        Ok(())
    }

    /// Processes that were met, and those with the cache's path in their environment, which compilers inherit.
    fn still_running(&self) -> BTreeSet<u32> {
        let (cache, this) = (self.stage.cache(), std::process::id());
        let marker = cache.as_os_str().as_encoded_bytes();
        let is_ours = |process: &ProcessLine| {
            let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
            let is_marked = environment.windows(marker.len()).any(|window| window == marker);
            let is_met = process.state != 'Z' && self.met.contains(&(process.pid, process.started));
            is_met || (is_marked && process.pid != this)
        };
        processes().iter().filter(|process| is_ours(process)).map(|process| process.pid).collect()
    }
}

/// Every process below `root`.
fn descendants(root: u32) -> Vec<ProcessId> {
    let all: Vec<ProcessLine> = processes().into_iter().filter(|process| process.state != 'Z').collect();
    let (mut found, mut parents) = (Vec::new(), vec![root]);
    // A process has one parent, so nobody is met twice.
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.push(process.pid);
            found.push((process.pid, process.started));
        }
    }
    found
}
