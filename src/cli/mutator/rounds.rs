//! The rounds of a sweep with its mutator, beside the search or after it: what is proposed is judged beside the best so
//! far, and the winner beside the search's champion.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use evo_protocol::device::DeviceInfo;
use evo_protocol::mutator::{MutatorKnowledge, MutatorOrder, MutatorProposal, MutatorResult};
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;
use evo_space::text::quote;
use serde_json::{Value, json};

use super::args::{MutatorWords, SweepMutatorArgs};
use super::judge::EvaluateJudge;
use super::task::{kind, task};
use crate::cli::error::CliError;
use crate::cli::evaluate_args::EvaluateArgs;
use crate::cli::{output, session};
use crate::engine::turns::MeasuringTurns;
use crate::journal::own_folder::OwnFolder;
use crate::kernel::spec::SpaceFile;
use crate::mutator::process::{LiveMutator, MutatorProgram, MutatorStop, Proposer};
use crate::mutator::records::{MUTATORS, MutatorBegun, MutatorEvent, MutatorRecords};
use crate::mutator::species::{
    self, SpeciesBounds, SpeciesCandidate, SpeciesJudge, SpeciesOutcome, SpeciesRow, SpeciesTask,
    SpeciesVerdict,
};
use crate::report::text;
use crate::request::ask::EvaluationLevel;

/// A mutator whose program was started, and asked nothing.
pub struct ReadyMutator {
    command: MutatorWords,
    program: MutatorProgram,
}

/// Starts the mutator of a sweep, where it has one: one that does not start is a mistake of the command line, and
/// nothing is written then.
///
/// # Errors
/// It does not start.
pub fn ready(arguments: &SweepMutatorArgs) -> Result<Option<ReadyMutator>, CliError> {
    let Some(command) = &arguments.mutator else { return Ok(None) };
    let program = started(command)?;
    Ok(Some(ReadyMutator { command: command.clone(), program }))
}

/// Starts a program.
///
/// # Errors
/// It does not start, as a mistake of the command line.
pub fn started(command: &MutatorWords) -> Result<MutatorProgram, CliError> {
    MutatorProgram::start(&command.words).map_err(|error| {
        CliError::usage(format!("the mutator `{}` does not start: {error}", command.text)).with_hint(
            "it is a program with its arguments, which no shell reads: `--mutator \"python3 mutate.py\"`",
        )
    })
}

/// The search over parameters, while it runs or once it is over.
pub trait FoundBySearch {
    /// What it has learned so far.
    fn knows(&self) -> Option<MutatorKnowledge>;

    /// Whether it still runs.
    fn is_running(&self) -> bool;

    /// Its champion, once it is over, which is waited for: the configuration and its hash.
    fn champion(&self) -> Option<(Configuration, String)>;

    /// What has to be shared with it; nothing where it is over.
    fn shared(&self) -> Option<(MeasuringTurns, MutatorStop)>;
}

/// What a run with a mutator is about.
pub struct MutatedSweep<'a> {
    pub file: &'a SpaceFile,
    /// The points of the file that the device can launch.
    pub space: &'a SearchSpace,
    pub device: &'a DeviceInfo,
    /// Timed problems, by name.
    pub problems: &'a [String],
    /// As command lines name it.
    pub device_word: &'a str,
    /// How candidates are judged; its words name the space.
    pub evaluate: &'a EvaluateArgs,
    /// Of the study, whose lock the caller holds.
    pub folder: Option<OwnFolder>,
    /// What searches of proposals begin with.
    pub start: Configuration,
    /// Whether the start has to take its place among what `evo evaluate` accepted first.
    pub confirms_start: bool,
    pub seed: u64,
    pub search: &'a dyn FoundBySearch,
    pub bounds: SpeciesBounds,
}

/// What came of it.
pub struct MutatedOutcome {
    pub outcome: SpeciesOutcome,
    /// The winner paired with the study's champion, where it was accepted beside something else.
    pub beside: Option<SpeciesVerdict>,
    /// Whether the champion that the search found in the end took its place again.
    pub is_overtaken: bool,
    /// Questions that were asked while the search ran.
    pub asked_beside: u32,
    /// Where the exchange is kept.
    pub file: Option<PathBuf>,
    /// Why it is not whole.
    pub trouble: Option<String>,
    restore: Option<String>,
}

/// Plays the rounds with a program.
///
/// # Errors
/// The marks of regions in the space's source are wrong, or there is no such device.
pub fn swept(ready: ReadyMutator, own: &MutatedSweep<'_>) -> Result<MutatedOutcome, CliError> {
    let ReadyMutator { command, program } = ready;
    let kernel = session::kernel_of(own.file)?;
    let SpeciesBounds { proposals, deadline, .. } = own.bounds;
    let task = task(kernel, own.space, own.problems, own.device, proposals, deadline)
        .map_err(|why| CliError::harness(format!("the regions of the source: {why}")))?;
    let mut mutator = LiveMutator::new(command.words, program, task, own.bounds.deadline, output::say);
    if let Some((_, stop)) = own.search.shared() {
        mutator = mutator.stopped_by(stop);
    }
    played(own, &command.text, Box::new(mutator))
}

/// Plays the rounds with whatever proposes.
///
/// # Errors
/// There is no such device.
fn played(
    own: &MutatedSweep<'_>,
    command: &str,
    proposer: Box<dyn Proposer>,
) -> Result<MutatedOutcome, CliError> {
    let kernel = session::kernel_of(own.file)?;
    let is_template = kind(kernel) == "template";
    let mut judge =
        EvaluateJudge::begin(own.evaluate, is_template, own.bounds.until, EvaluationLevel::Confirm)?;
    let shared = own.search.shared();
    let is_beside = shared.is_some();
    if let Some((turns, stop)) = shared {
        judge = judge.beside(turns, stop);
    }
    let file = own.folder.as_ref().map(|folder| folder.place(MUTATORS));
    let mut records = own.folder.clone().map_or_else(MutatorRecords::default, MutatorRecords::to);
    let space = own.evaluate.one.words.first().cloned().unwrap_or_default();
    records.keep(MutatorEvent::Begun(Box::new(MutatorBegun {
        command: command.to_string(),
        space: space.clone(),
        kernel: kernel.name.clone(),
        device: own.device_word.to_string(),
        seed: own.seed,
        problems: own.evaluate.one.problems.clone(),
        start: own.start.clone(),
        rounds: own.bounds.rounds,
        proposals: own.bounds.proposals,
        timeout_s: own.bounds.deadline.as_secs_f64(),
    })));
    if own.confirms_start {
        let candidate = SpeciesCandidate {
            source: None,
            launches: None,
            configuration: own.start.clone(),
            hypothesis: Some("what the search found, before a mutator begins with it".into()),
        };
        judge.confirm(&candidate);
    }
    let (start, source) = (&own.start, kernel.source.text.as_str());
    let task = SpeciesTask { space: own.space, source, start, bounds: own.bounds };
    let mut told = TellingProposer { inner: proposer, search: own.search, asked_beside: 0 };
    let outcome = species::run(&task, &mut told, &mut judge, &mut records);
    let (beside, is_overtaken) = beside_champion(own, &outcome, is_beside, &mut judge);
    judge.rest();
    let asked_beside = told.asked_beside;
    let number = outcome.winner().and_then(|row| row.number);
    let out = &own.evaluate.one.candidate.out;
    let restore = number.map(|number| {
        let out = quote(&out.display().to_string()).into_owned();
        let device = own.device.kind.as_str();
        format!("evo restore {} @{number} --device {device} --out {out} --to FOLDER", quote(&space))
    });
    Ok(MutatedOutcome {
        outcome,
        beside,
        is_overtaken,
        asked_beside,
        file,
        trouble: records.trouble,
        restore,
    })
}

/// The winner side by side with the study's champion; nothing where that is what it was accepted beside. A champion that
/// was found beside the rounds and is faster takes its place again.
fn beside_champion(
    own: &MutatedSweep<'_>,
    outcome: &SpeciesOutcome,
    is_beside: bool,
    judge: &mut EvaluateJudge<'_>,
) -> (Option<SpeciesVerdict>, bool) {
    let Some(winner) = outcome.winner().and_then(|row| row.candidate.as_ref()) else { return (None, false) };
    let champion = own.search.champion();
    let is_known = !is_beside && outcome.accepted() == 1 && !own.confirms_start;
    let Some((configuration, hash)) = champion.filter(|_| !is_known && !judge.is_lost()) else {
        return (None, false);
    };
    let beside = judge.compared(winner, &hash);
    let is_slower = beside.speedup.is_some_and(|speedup| speedup < 1.0);
    if !is_beside || !is_slower || judge.is_lost() {
        return (Some(beside), false);
    }
    let hypothesis = Some("what the search found while the mutator proposed".to_string());
    let again = SpeciesCandidate { source: None, launches: None, configuration, hypothesis };
    (Some(beside), judge.confirm(&again).accepted)
}

/// Adds what the search knows by now to each question, and says each result to a person as well.
struct TellingProposer<'a> {
    inner: Box<dyn Proposer>,
    search: &'a dyn FoundBySearch,
    asked_beside: u32,
}

impl Proposer for TellingProposer<'_> {
    fn propose(
        &mut self,
        order: &MutatorOrder,
        records: &mut MutatorRecords,
    ) -> Option<(u64, Vec<MutatorProposal>)> {
        self.asked_beside += u32::from(self.search.is_running());
        let order = MutatorOrder { knows: self.search.knows(), ..order.clone() };
        self.inner.propose(&order, records)
    }

    fn tell(&mut self, result: &MutatorResult, records: &mut MutatorRecords) {
        output::say(&format!("mutator: {}", line(result)));
        self.inner.tell(result, records);
    }

    fn end(&mut self, records: &mut MutatorRecords) -> Option<String> {
        self.inner.end(records)
    }
}

/// A result in one line.
fn line(own: &MutatorResult) -> String {
    let name = match own.name.trim() {
        "" => own.proposal.clone(),
        name => format!("{} `{}`", own.proposal, evo_space::text::printable(name)),
    };
    let time = own.objective_ns.map(|ns| format!(", {} screened", text::time(ns)));
    let speedup = own.speedup.map(|value| format!(", {value:.3}x beside the best so far"));
    let accepted = if own.accepted { ", accepted" } else { "" };
    let why = match own.objective_ns {
        None => own.message.lines().next().map(|text| format!(": {text}")),
        Some(_) => None,
    };
    let said = format!(
        "{name}: {}{}{}{accepted}{}",
        own.verdict,
        time.unwrap_or_default(),
        speedup.unwrap_or_default(),
        why.unwrap_or_default()
    );
    evo_space::text::printable(&said).into_owned()
}

impl MutatedOutcome {
    /// The field of a command's object.
    pub fn json(&self) -> Value {
        let row = |row: &SpeciesRow| {
            let own = &row.result;
            json!({ "proposal": own.proposal, "name": own.name, "verdict": own.verdict, "message": own.message,
                "configuration": own.configuration, "tried": own.tried, "objective_ns": own.objective_ns,
                "speedup": own.speedup, "accepted": own.accepted, "number": row.number })
        };
        let winner = self.outcome.winner().map(|found| {
            let mut winner = row(found);
            winner["again"] = json!(self.restore);
            let beside = self.beside.as_ref().map_or(found.result.speedup, |own| own.speedup);
            winner["speedup_beside_champion"] = json!(beside);
            winner["overtaken"] = json!(self.is_overtaken);
            winner
        });
        json!({
            "status": "pass", "reason": null, "rounds": self.outcome.rounds, "ended": self.outcome.why,
            "asked_beside": self.asked_beside,
            "file": self.file.as_ref().map(|own| own.display().to_string()), "trouble": self.trouble, "winner": winner,
            "proposals": self.outcome.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// The same for people.
    pub fn text(&self) -> String {
        let (count, accepted) = (self.outcome.rows.len(), self.outcome.accepted());
        let rounds = self.outcome.rounds;
        let mut text = format!(
            "mutator: proposals {count}, rounds {rounds} ({} begun beside the search), accepted {accepted}; {}\n",
            self.asked_beside, self.outcome.why
        );
        match (self.outcome.winner(), &self.restore) {
            (Some(row), _) if self.is_overtaken => {
                let line = line(&row.result);
                text.push_str(&format!(
                    "the search found something faster in the end than the mutator's {line}\n"
                ));
            }
            (Some(row), Some(restore)) => {
                text.push_str(&format!("the best source is now the mutator's {}\n", line(&row.result)));
                if let Some(speedup) = self.beside.as_ref().and_then(|own| own.speedup) {
                    text.push_str(&format!("beside the champion of the search: {speedup:.3}x\n"));
                }
                text.push_str(&format!("to get it: {restore}\n"));
            }
            _ => text.push_str("no proposal takes the place of what the search found\n"),
        }
        if let Some(file) = &self.file {
            text.push_str(&format!("the exchange: {}\n", file.display()));
        }
        if let Some(trouble) = &self.trouble {
            text.push_str(&format!("which is not whole: {trouble}\n"));
        }
        text
    }
}

/// The bounds of a run that begins now.
pub fn bounds(rounds: u16, proposals: u16, deadline: Duration, time: Duration) -> SpeciesBounds {
    SpeciesBounds {
        rounds: u32::from(rounds),
        proposals: usize::from(proposals),
        deadline,
        until: Instant::now() + time,
    }
}
