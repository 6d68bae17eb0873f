//! Species: each source that a mutator proposes, with a small search of its own over the space's parameters. All get a
//! tiny budget, the faster half is tuned further, and the fastest is compared with the best so far. Who judges and who
//! proposes come from outside, so that a run can be repeated without either.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evo_protocol::mutator::{
    MutatorFailure, MutatorOperator, MutatorOrder, MutatorParent, MutatorProposal, MutatorResult,
};
use evo_space::Neighborhood;
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;
use serde_json::Value;

use super::archive::SpeciesArchive;
use super::edits::{edited, replaced};
use super::process::Proposer;
use super::records::{MutatorEvent, MutatorRecords};
use super::wire;

/// Configurations that every species gets.
const FIRST: usize = 3;
/// Configurations that the faster half gets beyond them.
const FURTHER: usize = 6;
/// Failures in a row after which a species gets no more configurations.
const FAILURES_MAX: usize = 2;
/// A species is compared side by side where its screening is at most so much slower than the best one's: screenings on
/// a busy machine differ by some percent.
const WITHIN: f64 = 1.05;
/// Parents of a question.
const PARENTS_MAX: usize = 2;
/// What the space's own source is called among parents.
pub const OWN: &str = "space";

/// What is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeciesCandidate {
    /// In place of the space's source.
    pub source: Option<String>,
    /// The text of a launch file.
    pub launches: Option<String>,
    pub configuration: Configuration,
    pub hypothesis: Option<String>,
}

/// What became of a candidate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeciesVerdict {
    pub verdict: String,
    /// In words that its author may read.
    pub message: String,
    /// Only of a candidate that passed every gate that was asked for.
    pub objective_ns: Option<f64>,
    pub speedup: Option<f64>,
    pub accepted: bool,
    /// Of its line in `iterations.jsonl`.
    pub number: Option<u64>,
    pub resources: Value,
    pub log_tail: String,
    /// The whole answer, as its author may read it.
    pub answer: Value,
}

/// Who judges: as `evo evaluate` does.
pub trait SpeciesJudge {
    /// Every gate once, and the time of a screening.
    fn screen(&mut self, candidate: &SpeciesCandidate) -> SpeciesVerdict;

    /// Every gate at full depth, and the comparison with the best so far.
    fn confirm(&mut self, candidate: &SpeciesCandidate) -> SpeciesVerdict;

    /// Gives the device back until the next candidate.
    fn rest(&mut self);

    /// Whether no more can be judged.
    fn is_lost(&self) -> bool;
}

/// Bounds of a run.
#[derive(Clone, Copy, Debug)]
pub struct SpeciesBounds {
    pub rounds: u32,
    /// Of a question.
    pub proposals: usize,
    /// For an answer.
    pub deadline: Duration,
    /// When no new question is asked and no new candidate is judged.
    pub until: Instant,
}

/// What a run is about.
#[derive(Clone, Copy, Debug)]
pub struct SpeciesTask<'a> {
    pub space: &'a SearchSpace,
    /// The space's own source.
    pub source: &'a str,
    /// What searches begin with: the champion's configuration.
    pub start: &'a Configuration,
    pub bounds: SpeciesBounds,
}

/// One proposal at the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeciesRow {
    pub result: MutatorResult,
    /// Of the line in `iterations.jsonl`.
    pub number: Option<u64>,
    pub candidate: Option<SpeciesCandidate>,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeciesOutcome {
    pub rounds: u32,
    pub rows: Vec<SpeciesRow>,
    /// Why it ended.
    pub why: String,
}

impl SpeciesOutcome {
    /// The proposal that was accepted last: each was compared with the one before it.
    pub fn winner(&self) -> Option<&SpeciesRow> {
        self.rows.iter().rev().find(|row| row.result.accepted)
    }

    /// Proposals that were accepted.
    pub fn accepted(&self) -> usize {
        self.rows.iter().filter(|row| row.result.accepted).count()
    }
}

/// A source with what is known of it.
#[derive(Clone, Debug)]
struct Species {
    id: String,
    proposal: MutatorProposal,
    candidate: SpeciesCandidate,
    /// Its configuration was proposed too.
    is_fixed: bool,
    tried: Vec<Configuration>,
    /// The best verdict, else the last one.
    verdict: SpeciesVerdict,
    confirmed: Option<SpeciesVerdict>,
}

/// Asks, judges and tells until the rounds, the time or the proposer's ideas are used up.
pub fn run(
    task: &SpeciesTask<'_>,
    proposer: &mut dyn Proposer,
    judge: &mut dyn SpeciesJudge,
    records: &mut MutatorRecords,
) -> SpeciesOutcome {
    let mut round = SpeciesRounds {
        task,
        judge,
        records,
        known: BTreeMap::new(),
        elites: Vec::new(),
        archive: SpeciesArchive::default(),
        passed: BTreeMap::new(),
    };
    round.begin();
    let mut outcome = SpeciesOutcome { rounds: 0, rows: Vec::new(), why: String::new() };
    let mut last: Vec<Species> = Vec::new();
    let mut failures: Vec<MutatorFailure> = Vec::new();
    outcome.why = loop {
        if outcome.rounds == task.bounds.rounds {
            break format!("all {} rounds were played", outcome.rounds);
        }
        if round.is_over() {
            break round.why_over();
        }
        // What thinks must not hold what measures.
        round.judge.rest();
        let order = round.order(outcome.rounds, &last, std::mem::take(&mut failures));
        let Some((id, proposals)) = proposer.propose(&order, round.records) else {
            break "the mutator was given up".to_string();
        };
        if proposals.is_empty() {
            break "the mutator has nothing more to propose".to_string();
        }
        outcome.rounds += 1;
        let (species, mut rows) = round.play(id, &order, proposals);
        rows.extend(species.iter().map(row));
        rows.sort_by_key(|row| position(&row.result.proposal));
        for row in &rows {
            proposer.tell(&row.result, round.records);
            failures.extend(failure(&row.result));
        }
        outcome.rows.extend(rows);
        last = species;
    };
    round.judge.rest();
    if let Some(why) = proposer.end(round.records) {
        outcome.why = why;
    }
    round.records.keep(MutatorEvent::Ended { why: outcome.why.clone() });
    outcome
}

/// The state between rounds.
struct SpeciesRounds<'r> {
    task: &'r SpeciesTask<'r>,
    judge: &'r mut dyn SpeciesJudge,
    records: &'r mut MutatorRecords,
    /// Every species of the run, which later proposals may name as their parent.
    known: BTreeMap<String, SpeciesCandidate>,
    /// Species that passed: the best first.
    elites: Vec<Species>,
    archive: SpeciesArchive,
    /// Every species that passed, for those of the archive.
    passed: BTreeMap<String, Species>,
}

impl SpeciesRounds<'_> {
    /// Judges the space's own source, so that there is a parent with a time.
    fn begin(&mut self) {
        let candidate = SpeciesCandidate {
            source: None,
            launches: None,
            configuration: self.task.start.clone(),
            hypothesis: None,
        };
        let mut own = species(OWN.to_string(), MutatorProposal::default(), candidate.clone(), true);
        self.known.insert(OWN.to_string(), candidate);
        self.try_one(&mut own, self.task.start.clone());
        self.archived(&own);
        self.elites.push(own);
    }

    /// Takes a species into the archive, if it passed.
    fn archived(&mut self, own: &Species) {
        if let Some(objective_ns) = own.verdict.objective_ns {
            self.archive.add(&own.id, &own.verdict.resources, &own.candidate.configuration, objective_ns);
            self.passed.insert(own.id.clone(), own.clone());
        }
    }

    fn is_over(&self) -> bool {
        self.judge.is_lost() || Instant::now() >= self.task.bounds.until
    }

    fn why_over(&self) -> String {
        match self.judge.is_lost() {
            true => "nothing more can be judged: the device is lost".to_string(),
            false => "its time is used up".to_string(),
        }
    }

    /// The next question.
    fn order(&mut self, round: u32, last: &[Species], failures: Vec<MutatorFailure>) -> MutatorOrder {
        let failed = || last.iter().filter(|own| own.verdict.objective_ns.is_none());
        let all_failed = !last.is_empty() && failed().count() == last.len();
        let best = || self.elites.iter().take(1);
        // Another kind than the best is a beginning in two rounds of three.
        let other = match self.elites.first() {
            Some(best) if round > 0 && !all_failed && round % 3 != 1 => self.archive.other(&best.id),
            _ => None,
        };
        let other = other.and_then(|id| self.passed.get(&id));
        let (operator, parents): (MutatorOperator, Vec<&Species>) = match (round, other) {
            (0, _) => (MutatorOperator::Init, best().collect()),
            _ if all_failed => (MutatorOperator::Repair, failed().take(PARENTS_MAX).collect()),
            (_, Some(other)) if round.is_multiple_of(3) => {
                (MutatorOperator::Crossover, best().chain([other]).collect())
            }
            (_, None) if round.is_multiple_of(3) && self.elites.len() > PARENTS_MAX => {
                (MutatorOperator::Crossover, self.elites.iter().take(PARENTS_MAX).collect())
            }
            (_, Some(other)) => (MutatorOperator::Mutate, vec![other]),
            _ => (MutatorOperator::Mutate, best().collect()),
        };
        let left = self.task.bounds.until.saturating_duration_since(Instant::now());
        MutatorOrder {
            n: self.task.bounds.proposals,
            deadline_s: self.task.bounds.deadline.min(left).as_secs_f64().max(0.1),
            budget_left_s: left.as_secs_f64(),
            operator,
            parents: parents.into_iter().map(|own| self.parent(own)).collect(),
            failures,
            archive: self.archive.elites(),
            // Whoever passes it on knows what the search knows by then.
            knows: None,
        }
    }

    fn parent(&self, own: &Species) -> MutatorParent {
        MutatorParent {
            id: own.id.clone(),
            source: own.candidate.source.clone().unwrap_or_else(|| self.task.source.to_string()),
            configuration: own.candidate.configuration.clone(),
            verdict: own.verdict.verdict.clone(),
            objective_ns: own.verdict.objective_ns,
            resources: own.verdict.resources.clone(),
            bottleneck: None,
            log_tail: own.verdict.log_tail.clone(),
        }
    }

    /// Judges the proposals of one answer. Those that are not judged come back as rows.
    fn play(
        &mut self,
        id: u64,
        order: &MutatorOrder,
        proposals: Vec<MutatorProposal>,
    ) -> (Vec<Species>, Vec<SpeciesRow>) {
        let (mut all, mut rows) = (Vec::new(), Vec::new());
        for (at, proposal) in proposals.into_iter().enumerate() {
            let id = format!("{id}.{}", at + 1);
            match self.understood(&id, order, &proposal) {
                Ok(own) => {
                    self.known.insert(id, own.candidate.clone());
                    all.push(own);
                }
                Err(why) => rows.push(refused(&id, &proposal, why)),
            }
        }
        for own in &mut all {
            self.first(own);
        }
        let mut passed: Vec<usize> =
            (0..all.len()).filter(|at| all[*at].verdict.objective_ns.is_some()).collect();
        passed.sort_by(|a, b| time(&all[*a]).total_cmp(&time(&all[*b])));
        // Half of them, and at least one.
        passed.truncate(passed.len().div_ceil(2));
        for at in &passed {
            self.further(&mut all[*at]);
        }
        passed.sort_by(|a, b| time(&all[*a]).total_cmp(&time(&all[*b])));
        if let Some(best) = passed.first() {
            self.confirm(&mut all[*best]);
        }
        for own in all.iter().filter(|own| own.verdict.objective_ns.is_some()) {
            self.known.insert(own.id.clone(), own.candidate.clone());
            self.archived(own);
            match own.confirmed.as_ref().is_some_and(|own| own.accepted) {
                true => self.elites.insert(0, own.clone()),
                false => self.elites.push(own.clone()),
            }
        }
        // Behind the best one, which was compared side by side, screenings decide.
        self.elites[1..].sort_by(|a, b| time(a).total_cmp(&time(b)));
        self.elites.truncate(8);
        (all, rows)
    }

    /// The species that a proposal means.
    fn understood(
        &self,
        id: &str,
        order: &MutatorOrder,
        proposal: &MutatorProposal,
    ) -> Result<Species, String> {
        wire::check(proposal)?;
        let hypothesis = proposal.thought.clone().or_else(|| Some(proposal.name.clone()));
        let hypothesis = hypothesis.filter(|text| !text.trim().is_empty());
        let configuration = self.task.start.clone();
        let mut candidate = SpeciesCandidate { source: None, launches: None, configuration, hypothesis };
        if let Some(genome) = &proposal.genome {
            candidate.configuration = self.point(genome)?;
            return Ok(species(id.to_string(), proposal.clone(), candidate, true));
        }
        let parent = match &proposal.parent {
            Some(name) => self
                .known
                .get(name)
                .ok_or_else(|| format!("its parent `{}` is none of this run", wire::shown(name)))?,
            None => {
                let first = order.parents.first().and_then(|own| self.known.get(&own.id));
                first.ok_or("there is no parent")?
            }
        };
        let base = parent.source.as_deref().unwrap_or(self.task.source);
        let text = match (&proposal.source, &proposal.edits) {
            (Some(source), _) => source.clone(),
            (None, Some(edits)) => edited(base, edits)?,
            (None, None) => return Err("it has no source".to_string()),
        };
        // Regions are the space's, whatever the parents did in theirs.
        replaced(self.task.source, &text)?;
        candidate.source = Some(text);
        candidate.launches = match &proposal.launch {
            Some(launch) => serde_json::to_string(launch).ok(),
            // What an edited source is launched with goes with it.
            None if proposal.edits.is_some() => parent.launches.clone(),
            None => None,
        };
        Ok(species(id.to_string(), proposal.clone(), candidate, false))
    }

    /// The configuration of a genome; what it leaves out is the start's.
    fn point(&self, genome: &BTreeMap<String, Value>) -> Result<Configuration, String> {
        let mut all = serde_json::to_value(self.task.start).unwrap_or_default();
        for (name, value) in genome {
            if all.get(name).is_none() {
                return Err(format!("the space has no parameter `{}`", wire::shown(name)));
            }
            all[name] = value.clone();
        }
        let point = serde_json::from_value::<Configuration>(all).map_err(|error| error.to_string())?;
        match self.task.space.genome(&point) {
            Some(genome) => Ok(self.task.space.configuration(&genome)),
            None => Err(format!("`{point}` is not a point of the space")),
        }
    }

    /// The tiny budget: the start, the default, and the neighbor of the start.
    fn first(&mut self, own: &mut Species) {
        let space = self.task.space;
        let mut points = vec![own.candidate.configuration.clone()];
        if !own.is_fixed {
            points.push(space.configuration(&space.default_genome()));
            points.extend(neighbors(space, self.task.start));
        }
        let mut failures = 0;
        for point in points {
            if own.tried.len() == FIRST || failures == FAILURES_MAX || self.is_over() {
                return;
            }
            if !own.tried.contains(&point) {
                failures = if self.try_one(own, point) { 0 } else { failures + 1 };
            }
        }
    }

    /// Steps to the neighbors of the species' best configuration.
    fn further(&mut self, own: &mut Species) {
        let mut left = if own.is_fixed { 0 } else { FURTHER };
        while left > 0 {
            let best = own.candidate.configuration.clone();
            let untried: Vec<Configuration> = neighbors(self.task.space, &best)
                .into_iter()
                .filter(|point| !own.tried.contains(point))
                .take(left)
                .collect();
            if untried.is_empty() {
                return;
            }
            for point in untried {
                if self.is_over() {
                    return;
                }
                left -= 1;
                self.try_one(own, point);
                if own.candidate.configuration != best {
                    break;
                }
            }
        }
    }

    /// Screens one configuration; whether it passed.
    fn try_one(&mut self, own: &mut Species, point: Configuration) -> bool {
        own.tried.push(point.clone());
        let candidate = SpeciesCandidate { configuration: point.clone(), ..own.candidate.clone() };
        let verdict = self.judge.screen(&candidate);
        self.keep(&own.id, &point, &verdict);
        let passed = verdict.objective_ns.is_some();
        let is_first = own.tried.len() == 1;
        let best = own.verdict.objective_ns;
        let is_better = match (verdict.objective_ns, best) {
            (Some(new), Some(old)) => new < old,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            // The first failure stands: it is that of the start.
            (None, None) => is_first,
        };
        if is_better {
            own.verdict = verdict;
            own.candidate.configuration = point;
        }
        passed
    }

    /// Compares a species with the best so far, where that may be worth it.
    fn confirm(&mut self, own: &mut Species) {
        let best = self.elites.first().and_then(|own| own.verdict.objective_ns);
        let is_near = best.is_none_or(|best| time(own) <= best * WITHIN);
        if !is_near || self.is_over() {
            return;
        }
        let verdict = self.judge.confirm(&own.candidate);
        self.keep(&own.id, &own.candidate.configuration, &verdict);
        if verdict.objective_ns.is_none() {
            // What passes a screening and fails at full depth is not a parent.
            own.verdict = SpeciesVerdict { objective_ns: None, ..verdict.clone() };
        }
        own.confirmed = Some(verdict);
    }

    fn keep(&mut self, id: &str, point: &Configuration, verdict: &SpeciesVerdict) {
        self.records.keep(MutatorEvent::Judged {
            proposal: id.to_string(),
            configuration: point.clone(),
            answer: verdict.answer.clone(),
        });
    }
}

fn species(id: String, proposal: MutatorProposal, candidate: SpeciesCandidate, is_fixed: bool) -> Species {
    let verdict = SpeciesVerdict {
        verdict: "not_run".into(),
        message: "the time was used up before its turn".into(),
        ..SpeciesVerdict::default()
    };
    Species { id, proposal, candidate, is_fixed, tried: Vec::new(), verdict, confirmed: None }
}

/// Valid neighbors, each with one parameter moved to the nearest value on a side.
fn neighbors(space: &SearchSpace, point: &Configuration) -> Vec<Configuration> {
    let Some(genome) = space.genome(point) else { return Vec::new() };
    let all = space.neighbors(&genome, Neighborhood::HammingAdjacent);
    all.iter().map(|genome| space.configuration(genome)).collect()
}

fn time(own: &Species) -> f64 {
    own.verdict.objective_ns.unwrap_or(f64::INFINITY)
}

/// Where a proposal stood in its answer.
fn position(id: &str) -> usize {
    id.rsplit('.').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn row(own: &Species) -> SpeciesRow {
    let told = own.confirmed.as_ref().unwrap_or(&own.verdict);
    SpeciesRow {
        result: MutatorResult {
            proposal: own.id.clone(),
            name: own.proposal.name.clone(),
            verdict: told.verdict.clone(),
            message: told.message.clone(),
            configuration: (!own.tried.is_empty()).then(|| own.candidate.configuration.clone()),
            tried: own.tried.len(),
            objective_ns: own.verdict.objective_ns,
            speedup: own.confirmed.as_ref().and_then(|own| own.speedup),
            accepted: own.confirmed.as_ref().is_some_and(|own| own.accepted),
            resources: told.resources.clone(),
            log_tail: told.log_tail.clone(),
        },
        number: own.confirmed.as_ref().and_then(|own| own.number),
        candidate: Some(own.candidate.clone()),
    }
}

/// The row of a proposal that is not judged.
fn refused(id: &str, proposal: &MutatorProposal, why: String) -> SpeciesRow {
    let result = MutatorResult {
        proposal: id.to_string(),
        name: wire::shown(&proposal.name),
        verdict: "refused".to_string(),
        message: why,
        configuration: None,
        tried: 0,
        objective_ns: None,
        speedup: None,
        accepted: false,
        resources: Value::Null,
        log_tail: String::new(),
    };
    SpeciesRow { result, number: None, candidate: None }
}

/// What a proposer should learn from a failure.
fn failure(result: &MutatorResult) -> Option<MutatorFailure> {
    let passed = result.objective_ns.is_some();
    (!passed).then(|| MutatorFailure {
        id: result.proposal.clone(),
        name: result.name.clone(),
        verdict: result.verdict.clone(),
        lesson: result.message.clone(),
    })
}

#[cfg(test)]
#[path = "species_tests.rs"]
mod tests;
