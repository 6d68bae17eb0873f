//! Variants under a sanitizer: the finalists, and the best of every so many generations once the search is over.
//!
//! The lane asks the sanitizer, so it never runs while something is timed on the same device. What it finds is written
//! down before anything acts on it, and a resumed study takes an answer over instead of asking for it again.
//!
//! Where somebody demands the answer, a finalist has to have it before it is compared. Else the looks come after all
//! comparisons and get a share of the command's own time; what does not fit is `not_run`, and ranks.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, GateReport, GateState};

use super::confirm::{Deep, Rebuilt};
use super::error::EngineError;
use super::lane::Task;
use super::ports::{LaneAnswer, NoSanitizer, Recipe, SanitizerAnswer};
use super::run::Engine;
use evo_journal::leaderboard::again;
use evo_journal::record::{Confirmation, SanitizedVariant, now};

impl<R: Recipe> Engine<'_, R> {
    /// Tells what is begun beside the search and the confirmation: these will be looked at, in this order.
    pub(super) fn announce_looks(&self, numbers: impl Iterator<Item = u64>) {
        if !self.options.sanitize.finalists || !self.sanitizer.is_there {
            return;
        }
        let evaluation = |number| Some(&self.study.history.evaluations[*self.ledger.index.get(&number)?]);
        let open = numbers.filter_map(evaluation).filter(|own| self.known(own).is_none());
        let configurations = open.map(|own| own.configuration.clone()).collect();
        self.lanes.send(self.lanes.first(), Task::LookAhead(configurations));
    }

    /// Takes in what is known of a finalist that passed, and where an answer is demanded, looks at it. What is found is
    /// its verdict.
    pub(super) fn sanitize_finalist(
        &mut self,
        deep: &mut Deep<R>,
        is_baseline: bool,
    ) -> Result<(), EngineError> {
        if !self.options.sanitize.finalists || !deep.evaluation.may_rank() || self.ending.is_early() {
            return Ok(());
        }
        let within = self.time.wall.left_to_sanitizer(is_baseline);
        // Without a sanitizer the answer costs nothing.
        let answer = match self.options.sanitize.demanded || !self.sanitizer.is_there {
            true => self.sanitized(&deep.evaluation, &deep.job, within)?,
            false => self.known(&deep.evaluation),
        };
        answer.into_iter().for_each(|answer| answer.told(&mut deep.evaluation));
        Ok(())
    }

    /// Looks at what was confirmed and has no answer, the fastest first. Those in which something is found.
    pub(super) fn sanitize_confirmed(&mut self, baseline: u64) -> Result<Vec<u64>, EngineError> {
        if !self.options.sanitize.finalists || !self.sanitizer.is_there {
            return Ok(Vec::new());
        }
        let is_asked = |report: &GateReport| report.evidence.get("tool").is_some();
        let is_open = |own: &&Confirmation| {
            let evaluation = &own.evaluation;
            let has_answer = evaluation.gate(Gate::Sanitize).is_some_and(is_asked);
            own.baseline == baseline && evaluation.may_rank() && !has_answer
        };
        let confirmations = self.study.history.confirmations.iter().filter(is_open);
        let time = |own: &Confirmation| own.pairs.iter().map(|pair| pair.ratio.ln()).sum::<f64>();
        let mut open: Vec<(f64, u64)> = confirmations.map(|own| (time(own), own.number)).collect();
        open.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        open.dedup_by_key(|own| own.1);
        let mut refused = Vec::new();
        for (_, number) in open {
            if !self.ending.is_early() && self.look_at(number, "a finalist")? {
                refused.push(number);
            }
        }
        Ok(refused)
    }

    /// Looks at a variant of the search; whether something is found, which is its verdict from then on.
    fn look_at(&mut self, number: u64, what: &str) -> Result<bool, EngineError> {
        let Some(Rebuilt { screened, job, .. }) = self.rebuilt(number, None)? else { return Ok(false) };
        let answer = self.sanitized(&screened, &job, self.left_to_look())?;
        let Some(verdict) = answer.and_then(|answer| answer.verdict) else { return Ok(false) };
        // Its file has the verdict of before.
        self.undone.unwritten.push(screened.generation);
        let (configuration, label) = (&screened.configuration, verdict.label());
        self.notice(format!("`{configuration}`, {what}: {label}: {}", verdict.message))?;
        Ok(true)
    }

    /// How long a look may take for which nothing waits.
    fn left_to_look(&self) -> Option<Duration> {
        if self.options.sanitize.demanded {
            return self.time.wall.left();
        }
        let spent = self.sanitizer.tally.map_or(0.0, |tally| tally.seconds);
        Some(self.time.wall.left_to_looks(Duration::from_secs_f64(spent)))
    }

    /// Whether the sanitizer's answer is there, where it is demanded.
    pub(super) fn has_answer(&mut self, evaluation: &Evaluation) -> Result<bool, EngineError> {
        let report = evaluation.gate(Gate::Sanitize);
        let has_passed = report.is_some_and(|report| report.state == GateState::Pass);
        if has_passed || !self.options.sanitize.demanded || !evaluation.may_rank() {
            return Ok(true);
        }
        let why = report.map_or(String::new(), |report| format!(": {}", report.message));
        let finalist = &evaluation.configuration;
        self.notice(format!(
            "`{finalist}` is not confirmed: compute-sanitizer is demanded and gave no answer{why}"
        ))?;
        Ok(false)
    }

    /// Looks at the best of every so many generations, as far as time allows. They come last, because the board needs
    /// the finalists.
    pub(super) fn sanitize_generations(&mut self) -> Result<(), EngineError> {
        let Some(every) = self.options.sanitize.every.filter(|_| self.sanitizer.is_there) else {
            return Ok(());
        };
        for (generation, number) in self.due(every) {
            if self.ending.is_early() || !self.time.wall.fits_look(self.left_to_look()) {
                return Ok(());
            }
            self.look_at(number, &format!("the best of generation {}", generation + 1))?;
        }
        Ok(())
    }

    /// The best of every so many generations, without those that have an answer.
    fn due(&self, every: NonZeroU32) -> Vec<(u32, u64)> {
        let mut best = BTreeMap::<u32, (f64, u64)>::new();
        for one in &self.study.history.evaluations {
            let is_own = one.is_timed() && one.duplicate_of.is_none() && one.taken_over_from.is_none();
            let is_due = (one.generation + 1).is_multiple_of(every.get());
            let Some(objective) = one.objective_ns.filter(|_| is_own && is_due) else { continue };
            let place = best.entry(one.generation).or_insert((objective, one.number));
            if objective < place.0 {
                *place = (objective, one.number);
            }
        }
        let answered = |number: &u64| {
            let evaluation = self.ledger.index.get(number).map(|at| &self.study.history.evaluations[*at]);
            evaluation.is_some_and(|one| self.known(one).is_some())
        };
        let best = best.into_iter().map(|(generation, (_, number))| (generation, number));
        best.filter(|(_, number)| !answered(number)).collect()
    }

    /// The answer of an earlier look at the same code.
    fn known(&self, evaluation: &Evaluation) -> Option<SanitizerAnswer> {
        let known = self.study.history.sanitized.get(&evaluation.number)?;
        let is_same = known.code_hash.is_some() && known.code_hash == evaluation.code_hash;
        (is_same && known.report.state != GateState::NotRun).then(|| SanitizerAnswer {
            report: known.report.clone(),
            verdict: known.verdict.clone(),
            looked: false,
            is_late: false,
        })
    }

    /// An answer, old or new; `None` when the run has to end.
    fn sanitized(
        &mut self,
        evaluation: &Evaluation,
        job: &R::Job,
        within: Option<Duration>,
    ) -> Result<Option<SanitizerAnswer>, EngineError> {
        if let Some(known) = self.known(evaluation) {
            return Ok(Some(known));
        }
        let began = self.time.wall.elapsed();
        let is_demanded = self.options.sanitize.demanded;
        let mut answer = if self.sanitizer.is_there && !is_demanded && !self.time.wall.fits_look(within) {
            let none = NoSanitizer("no time was left for compute-sanitizer").answer();
            SanitizerAnswer { is_late: true, ..none }
        } else {
            let configuration = evaluation.configuration.clone();
            let look = Task::Sanitize { job: Box::new(job.clone()), configuration, within };
            self.lanes.send(self.fleet.confirming, look);
            let Some(LaneAnswer::Sanitized(answer)) = self.lane_answer()? else { return Ok(None) };
            *answer
        };
        let took = self.time.wall.elapsed().saturating_sub(began);
        if answer.is_late && !is_demanded {
            let command = again("sanitize", self.study.header(), &evaluation.configuration);
            answer.report.message += &format!("; `{command}` takes the time");
        }
        let is_missing = answer.report.state == GateState::NotRun;
        if answer.looked || is_demanded {
            let tally = self.sanitizer.tally.get_or_insert_default();
            tally.variants += u64::from(answer.looked);
            tally.findings += u64::from(answer.verdict.is_some());
            tally.unanswered += u64::from(is_missing);
            tally.seconds += took.as_secs_f64();
        }
        if answer.looked {
            self.time.wall.costs.note_sanitizer(took);
        }
        if answer.looked || answer.is_late {
            self.study.sanitized(SanitizedVariant {
                number: evaluation.number,
                configuration_hash: evaluation.configuration_hash.clone(),
                code_hash: evaluation.code_hash.clone(),
                report: answer.report.clone(),
                verdict: answer.verdict.clone(),
                at: now(),
                at_ms: None,
            })?;
        }
        Ok(Some(answer))
    }
}
