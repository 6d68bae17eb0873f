//! The rounds of a sweep with its mutator, after the search: what is proposed is judged beside the champion.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use evo_protocol::device::DeviceInfo;
use evo_protocol::mutator::{MutatorKnowledge, MutatorOrder, MutatorProposal, MutatorResult};
use evo_space::genome::Configuration;
use evo_space::shell::quote;
use evo_space::space::SearchSpace;
use serde_json::{Value, json};

use super::args::{MutatorWords, SweepMutatorArgs};
use super::judge::EvaluateJudge;
use super::task::{kind, task};
use crate::cli::error::CliError;
use crate::cli::evaluate_args::EvaluateArgs;
use crate::cli::{output, session};
use crate::journal::own_folder::OwnFolder;
use crate::kernel::spec::SpaceFile;
use crate::mutator::process::{LiveMutator, MutatorProgram, Proposer};
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
    /// Of the configuration of the study's champion, if it has one.
    pub champion: Option<String>,
    /// Whether the start has to take its place among what `evo evaluate` accepted first.
    pub confirms_start: bool,
    pub seed: u64,
    /// What the search has learned.
    pub knows: Option<MutatorKnowledge>,
    pub bounds: SpeciesBounds,
}

/// What came of it.
pub struct MutatedOutcome {
    pub outcome: SpeciesOutcome,
    /// The winner paired with the study's champion, where it was accepted beside something else.
    pub beside: Option<SpeciesVerdict>,
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
    let mutator = LiveMutator::new(command.words, program, task, own.bounds.deadline, output::say);
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
    let task = SpeciesTask { space: own.space, source, start, knows: own.knows.as_ref(), bounds: own.bounds };
    let mut told = TellingProposer(proposer);
    let outcome = species::run(&task, &mut told, &mut judge, &mut records);
    let beside = beside_champion(own, &outcome, &mut judge);
    judge.rest();
    let number = outcome.winner().and_then(|row| row.number);
    let out = &own.evaluate.one.candidate.out;
    let restore = number.map(|number| {
        let out = quote(&out.display().to_string()).into_owned();
        let device = own.device.kind.as_str();
        format!("evo restore {} @{number} --device {device} --out {out} --to FOLDER", quote(&space))
    });
    Ok(MutatedOutcome { outcome, beside, file, trouble: records.trouble, restore })
}

/// The winner side by side with the study's champion; nothing where that is what it was accepted beside.
fn beside_champion(
    own: &MutatedSweep<'_>,
    outcome: &SpeciesOutcome,
    judge: &mut EvaluateJudge<'_>,
) -> Option<SpeciesVerdict> {
    let winner = outcome.winner()?.candidate.as_ref()?;
    let is_known = outcome.accepted() == 1 && !own.confirms_start;
    match &own.champion {
        Some(hash) if !is_known && !judge.is_lost() => Some(judge.beside(winner, hash)),
        _ => None,
    }
}

/// Says each result to a person as well.
struct TellingProposer(Box<dyn Proposer>);

impl Proposer for TellingProposer {
    fn propose(
        &mut self,
        order: &MutatorOrder,
        records: &mut MutatorRecords,
    ) -> Option<(u64, Vec<MutatorProposal>)> {
        self.0.propose(order, records)
    }

    fn tell(&mut self, result: &MutatorResult, records: &mut MutatorRecords) {
        output::say(&format!("mutator: {}", line(result)));
        self.0.tell(result, records);
    }

    fn end(&mut self, records: &mut MutatorRecords) -> Option<String> {
        self.0.end(records)
    }
}

/// A result in one line.
fn line(own: &MutatorResult) -> String {
    let name = match own.name.trim() {
        "" => own.proposal.clone(),
        name => format!("{} `{}`", own.proposal, evo_space::printable::printable(name)),
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
    evo_space::printable::printable(&said).into_owned()
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
            winner
        });
        json!({
            "status": "pass", "reason": null, "rounds": self.outcome.rounds, "ended": self.outcome.why,
            "file": self.file.as_ref().map(|own| own.display().to_string()), "trouble": self.trouble, "winner": winner,
            "proposals": self.outcome.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// The same for people.
    pub fn text(&self) -> String {
        let (count, accepted) = (self.outcome.rows.len(), self.outcome.accepted());
        let rounds = self.outcome.rounds;
        let mut text = format!(
            "mutator: proposals {count}, rounds {rounds}, accepted {accepted}; {}\n",
            self.outcome.why
        );
        match (self.outcome.winner(), &self.restore) {
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
