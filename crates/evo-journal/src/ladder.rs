//! What was tried on a kernel and where it led, in time order: champions of studies, evaluations and gate runs of all
//! devices in an output folder. A ladder is read and never written. The champions of all studies come from their
//! journals.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use evo_protocol::device::DeviceKind;
use evo_protocol::leaderboard::{Leaderboard, LeaderboardSection, RankedEntry};
use evo_protocol::words;
use evo_space::genome::{Configuration, ContentHash};

use super::error::JournalError;
use super::iterations::{
    GATES, GateRun, ITERATIONS, Incumbent, Iteration, IterationCandidate, incumbent, incumbents,
};
use super::leaderboard::{self, Succession};
use super::line::numbered;
use super::own_folder::OwnFolder;
use super::reader::{self, JOURNAL};
use super::record::{JournalRecord, now};
use evo_timing::acceptance::RivalDecision;

words! {
    #[derive(Default, PartialOrd, Ord)]
    StepKind {
        #[default]
        Champion = "champion",
        Evaluation = "evaluation",
        Gate = "gate",
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LadderStep {
    pub kind: StepKind,
    pub number: u64,
    pub at: String,
    pub study: Option<String>,
    pub git_commit: Option<String>,
    pub git_dirty: Option<bool>,
    pub hypothesis: Option<String>,
    pub configuration: Configuration,
    pub source_hash: Option<ContentHash>,
    pub has_own_source: bool,
    /// Median time of each problem, nanoseconds; absent where it has none.
    pub p50_ns: BTreeMap<String, Option<f64>>,
    /// Its time over that of what it was compared with; below 1 is faster.
    pub change_ratio: Option<f64>,
    pub against: String,
    /// `champion` or `behind`; `keep`, `reject` or `revert`; `pass`, `fail`, `noisy` or `not_run`.
    pub decision: String,
    pub why: String,
    pub is_best: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Rung {
    pub kernel: String,
    pub device_kind: String,
    /// The newest device's name.
    pub device: String,
    pub steps: Vec<LadderStep>,
    pub iterations: Vec<Iteration>,
    pub incumbent: Option<Incumbent>,
    pub gates: Vec<GateRun>,
    pub section: Option<LeaderboardSection>,
}

impl Rung {
    /// What `@champion` means everywhere.
    pub fn champion(&self) -> Option<&LadderStep> {
        self.steps.iter().rev().find(|step| step.kind == StepKind::Champion && step.decision == "champion")
    }

    pub fn best(&self) -> Option<&LadderStep> {
        self.steps.iter().rev().find(|step| step.is_best)
    }

    pub fn last_at(&self) -> &str {
        self.steps.last().map_or("", |step| &step.at)
    }

    pub fn folder_name(&self) -> String {
        format!("{}-{}", self.kernel, self.device_kind)
    }

    /// An accepted evaluation outranks champions, as it does where `evo evaluate` chooses a rival.
    fn settle(&mut self) {
        // Stable: of one second, champions come before evaluations, and those before gates.
        self.steps.sort_by(|a, b| a.at.cmp(&b.at).then(a.kind.cmp(&b.kind)));
        let mut accepted = incumbents(&self.iterations);
        // The pointer decides where both differ.
        if let Some(own) = self.incumbent.as_ref().map(|own| own.number).filter(|own| !accepted.contains(own))
        {
            accepted.push(own);
        }
        let mut is_accepted = false;
        for step in &mut self.steps {
            match step.kind {
                StepKind::Champion => step.is_best = step.decision == "champion" && !is_accepted,
                StepKind::Evaluation => {
                    step.is_best = accepted.contains(&step.number);
                    is_accepted |= step.is_best;
                }
                StepKind::Gate => {}
            }
        }
    }
}

#[derive(Debug, Default)]
pub struct Ladder {
    /// By kernel, then by kind of device.
    pub rungs: Vec<Rung>,
    pub notes: Vec<String>,
}

impl Ladder {
    /// Nothing where there is no such folder. What is damaged is left out and noted.
    pub fn read(out: &Path) -> Result<Ladder, JournalError> {
        let mut ladder = Ladder::default();
        let Some(out) = output_folder(out)? else { return Ok(ladder) };
        ladder.read_champions(&out)?;
        for name in out.names().map_err(|error| JournalError::io("read", out.path(), error))? {
            let Ok(folder) = out.folder(&name) else { continue };
            if folder.exists(ITERATIONS) || folder.exists(GATES) {
                ladder.read_lines(&folder, &name)?;
            }
        }
        ladder.rungs.retain(|own| !own.steps.is_empty());
        ladder.rungs.sort_by(|a, b| (&a.kernel, &a.device_kind).cmp(&(&b.kernel, &b.device_kind)));
        ladder.rungs.iter_mut().for_each(Rung::settle);
        Ok(ladder)
    }

    pub fn kernels(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.rungs.iter().map(|own| own.kernel.as_str()).collect();
        names.dedup();
        names
    }

    fn rung(&mut self, kernel: &str, kind: &str) -> &mut Rung {
        let found = self.rungs.iter().position(|own| own.kernel == kernel && own.device_kind == kind);
        let at = found.unwrap_or(self.rungs.len());
        if found.is_none() {
            self.rungs.push(Rung { kernel: kernel.into(), device_kind: kind.into(), ..Rung::default() });
        }
        &mut self.rungs[at]
    }

    fn read_champions(&mut self, out: &OwnFolder) -> Result<(), JournalError> {
        let found = sections_in(out)?;
        self.notes.extend(found.notes);
        // As `evo leaderboard --rebuild` does: a champion falls only to a faster one.
        let mut board = Leaderboard::empty(now());
        for (_, section) in found.sections {
            let key = section.key();
            let mut step = champion_step(&section);
            let is_taken = leaderboard::merge(&mut board, section) == Succession::Taken;
            let Some(held) = board.sections.iter().find(|own| own.key() == key) else { continue };
            step.decision = if is_taken { "champion" } else { "behind" }.to_string();
            step.change_ratio =
                held.history.last().filter(|_| is_taken).and_then(|own| own.ratio_to_previous);
            let held = held.clone();
            let rung = self.rung(&held.kernel, held.device.kind.as_str());
            rung.device.clone_from(&held.device.name);
            rung.section = Some(held);
            // More evaluations of the study that holds the section name the same champion again.
            let is_again = |own: &LadderStep| own.study == step.study && own.number == step.number;
            if !rung.steps.iter().any(is_again) {
                rung.steps.push(step);
            }
        }
        Ok(())
    }

    fn read_lines(&mut self, folder: &OwnFolder, name: &str) -> Result<(), JournalError> {
        let Some((_, kind)) = name.rsplit_once('-') else { return Ok(()) };
        let evaluations = numbered::<Iteration>(folder)?;
        let gates = numbered::<GateRun>(folder)?;
        self.notes.extend(evaluations.notes);
        self.notes.extend(gates.notes);
        let newest = evaluations.lines.last().map(|line| (&line.kernel, &line.device));
        let Some((kernel, device)) =
            newest.or_else(|| gates.lines.last().map(|line| (&line.kernel, &line.device)))
        else {
            return Ok(());
        };
        let pointer = incumbent(folder).unwrap_or_else(|why| {
            self.notes.push(why);
            None
        });
        let rung = self.rung(kernel, kind);
        rung.device.clone_from(device);
        rung.steps.extend(evaluations.lines.iter().map(evaluation_step));
        rung.steps.extend(gates.lines.iter().map(gate_step));
        rung.iterations = evaluations.lines;
        rung.gates = gates.lines;
        rung.incumbent = pointer;
        Ok(())
    }
}

fn champion_step(section: &LeaderboardSection) -> LadderStep {
    let RankedEntry { number, configuration, source_hash, results, .. } = &section.champion;
    let mode = section.ranking.as_str();
    let p50_ns =
        results.iter().map(|own| (own.problem.clone(), own.modes.get(mode).map(|own| own.p50_ns))).collect();
    LadderStep {
        kind: StepKind::Champion,
        number: *number,
        at: section.confirmed_at.clone(),
        study: Some(section.study.name.clone()),
        git_commit: section.environment.git_commit.clone(),
        git_dirty: section.environment.git_dirty,
        configuration: configuration.clone(),
        source_hash: source_hash.clone(),
        p50_ns,
        against: "the champion before it".into(),
        why: format!("the champion of study `{}`", section.study.name),
        ..LadderStep::default()
    }
}

fn evaluation_step(line: &Iteration) -> LadderStep {
    let why = match line.decision {
        RivalDecision::Reject if !line.correct => format!("{}: {}", line.verdict, line.message),
        _ => line.why.clone(),
    };
    LadderStep {
        kind: StepKind::Evaluation,
        number: line.number,
        at: line.at.clone(),
        git_commit: line.git_commit.clone(),
        git_dirty: line.git_dirty,
        hypothesis: line.hypothesis.clone(),
        p50_ns: line.problems.iter().map(|own| (own.problem.clone(), own.p50_ns)).collect(),
        change_ratio: line.score.map(|score| 1.0 / score),
        against: line.against.clone(),
        decision: line.decision.as_str().to_string(),
        why,
        ..candidate_step(&line.candidate)
    }
}

fn gate_step(line: &GateRun) -> LadderStep {
    LadderStep {
        kind: StepKind::Gate,
        number: line.number,
        at: line.at.clone(),
        git_commit: line.git_commit.clone(),
        git_dirty: line.git_dirty,
        p50_ns: line.problems.iter().map(|own| (own.problem.clone(), own.candidate_p50_ns)).collect(),
        change_ratio: line.ratio(),
        against: line.baseline.clone(),
        decision: line.decision.clone(),
        why: line.why.clone(),
        ..candidate_step(&line.candidate)
    }
}

fn candidate_step(candidate: &IterationCandidate) -> LadderStep {
    LadderStep {
        configuration: candidate.configuration.clone(),
        source_hash: candidate.source_hash.clone(),
        has_own_source: candidate.source.is_some(),
        ..LadderStep::default()
    }
}

#[derive(Debug, Default)]
pub struct StudySections {
    pub studies: usize,
    /// In the order in which the runs ended, each with the time of its end.
    pub sections: Vec<(String, LeaderboardSection)>,
    pub notes: Vec<String>,
}

/// A damaged line is left out and noted, as is a link.
pub fn sections_in(out: &OwnFolder) -> Result<StudySections, JournalError> {
    let mut found = StudySections::default();
    for name in out.names().map_err(|error| JournalError::io("read", out.path(), error))? {
        let Some(study) = study(out, &name, &mut found.notes) else { continue };
        found.studies += 1;
        let journal = reader::read_in(&study)?;
        let path = study.place(JOURNAL);
        found.notes.extend(journal.rejected.iter().map(|rejected| {
            format!("line {} of `{}` is damaged: {}", rejected.line, path.display(), rejected.reason)
        }));
        let newest = journal.records.iter().rev().find_map(|record| match record {
            JournalRecord::Study(header) => Some(header),
            _ => None,
        });
        if newest.is_some_and(|header| header.device.kind == DeviceKind::Replay) {
            let text = "is a replay, in which nothing was measured: it is not on the board";
            found.notes.push(format!("`{}` {text}", path.display()));
        }
        found.sections.extend(leaderboard::sections(&journal.records));
    }
    found.sections.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Neither the folder nor its journal may be a link.
fn study(out: &OwnFolder, name: &str, notes: &mut Vec<String>) -> Option<OwnFolder> {
    let mut skip = |link: PathBuf| {
        notes.push(format!("`{}` is a link, which evo does not follow: it is left out", link.display()));
    };
    let Ok(folder) = out.folder(name) else {
        if out.place(name).is_dir() {
            skip(out.place(name));
        }
        return None;
    };
    if folder.has_link(JOURNAL) {
        skip(folder.place(JOURNAL));
    }
    folder.has_file(JOURNAL).then_some(folder)
}

pub fn output_folder(out: &Path) -> Result<Option<OwnFolder>, JournalError> {
    match OwnFolder::open(out) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JournalError::io("open", out, error)),
    }
}
