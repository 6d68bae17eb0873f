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

use evo_journal::leaderboard::again;
use evo_journal::record::{Confirmation, SanitizedVariant, now};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, GateReport, GateState};

use crate::confirm::{Deep, Rebuilt};
use crate::lane::Task;
use crate::ports::{NoSanitizer, Recipe, SanitizerAnswer};
use crate::run::Engine;
use crate::trouble::EngineResult;

impl<R: Recipe> Engine<'_, R> {
    pub(super) fn announce_looks(&self, numbers: impl Iterator<Item = u64>) {
        if !self.options.sanitize.finalists || !self.has_sanitizer {
            return;
        }
        let evaluations = numbers.filter_map(|number| self.evaluation_of(number));
        let open = evaluations.filter(|evaluation| self.known(evaluation).is_none());
        let configurations = open.map(|own| own.configuration.clone()).collect();
        // Nobody waits for the answer.
        let call = Task::Call(Box::new(move |_, sanitizer| sanitizer.look_ahead(configurations)));
        self.lanes.send(self.lanes.first(), call);
    }

    /// Where an answer is demanded, looks at the finalist. What is found is its verdict.
    pub(super) fn sanitize_finalist(&mut self, deep: &mut Deep<R>, is_baseline: bool) -> EngineResult {
        if !self.options.sanitize.finalists || !deep.evaluation.may_rank() || self.ending.is_early() {
            return Ok(());
        }
        let within = self.wall.left_to_sanitizer(is_baseline);
        // Without a sanitizer the answer costs nothing.
        let answer = match self.options.sanitize.demanded || !self.has_sanitizer {
            true => self.sanitized(&deep.evaluation, &deep.job, within)?,
            false => self.known(&deep.evaluation),
        };
        if let Some(SanitizerAnswer { report, verdict, .. }) = answer {
            // Without its objective a variant with a finding cannot rank.
            deep.evaluation.sanitized(&report, verdict.as_ref());
        }
        Ok(())
    }

    /// Looks at what was confirmed and has no answer, the fastest first. Those in which something is found.
    pub(super) fn sanitize_confirmed(&mut self, baseline: u64) -> EngineResult<Vec<u64>> {
        if !self.options.sanitize.finalists || !self.has_sanitizer {
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
    fn look_at(&mut self, number: u64, what: &str) -> EngineResult<bool> {
        let Some(Rebuilt { screened, job, .. }) = self.rebuilt(number, None)? else { return Ok(false) };
        let answer = self.sanitized(&screened, &job, self.left_to_look())?;
        let Some(verdict) = answer.and_then(|answer| answer.verdict) else { return Ok(false) };
        // Its file has the verdict of before.
        self.undone.unwritten.push(screened.generation);
        let (configuration, label) = (&screened.configuration, verdict.label());
        self.notice(format!("`{configuration}`, {what}: {label}: {}", verdict.message))?;
        Ok(true)
    }

    fn left_to_look(&self) -> Option<Duration> {
        if self.options.sanitize.demanded {
            return self.wall.left();
        }
        let spent = self.looks.map_or(0.0, |tally| tally.seconds);
        Some(self.wall.left_to_looks(Duration::from_secs_f64(spent)))
    }

    pub(super) fn has_answer(&mut self, evaluation: &Evaluation) -> EngineResult<bool> {
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

    /// As far as time allows, and last, because the board needs the finalists.
    pub(super) fn sanitize_generations(&mut self) -> EngineResult {
        let Some(every) = self.options.sanitize.every.filter(|_| self.has_sanitizer) else {
            return Ok(());
        };
        for (generation, number) in self.due(every) {
            if self.ending.is_early() || !self.wall.fits_look(self.left_to_look()) {
                return Ok(());
            }
            self.look_at(number, &format!("the best of generation {}", generation + 1))?;
        }
        Ok(())
    }

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
        let answered =
            |number: &u64| self.evaluation_of(*number).is_some_and(|one| self.known(one).is_some());
        let best = best.into_iter().map(|(generation, (_, number))| (generation, number));
        best.filter(|(_, number)| !answered(number)).collect()
    }

    fn known(&self, evaluation: &Evaluation) -> Option<SanitizerAnswer> {
        let known = self.study.history.sanitized.get(&evaluation.number)?;
        let is_same = known.code_hash.is_some() && known.code_hash == evaluation.code_hash;
        (is_same && known.report.state != GateState::NotRun).then(|| SanitizerAnswer {
            verdict: known.verdict.clone(),
            ..SanitizerAnswer::unlooked(known.report.clone())
        })
    }

    /// An answer, old or new; `None` when the run has to end.
    fn sanitized(
        &mut self,
        evaluation: &Evaluation,
        job: &R::Job,
        within: Option<Duration>,
    ) -> EngineResult<Option<SanitizerAnswer>> {
        if let Some(known) = self.known(evaluation) {
            return Ok(Some(known));
        }
        let began = self.wall.elapsed();
        let is_demanded = self.options.sanitize.demanded;
        let mut answer = if self.has_sanitizer && !is_demanded && !self.wall.fits_look(within) {
            let none = NoSanitizer("no time was left for compute-sanitizer").answer();
            SanitizerAnswer { is_late: true, ..none }
        } else {
            let (job, configuration) = (job.clone(), evaluation.configuration.clone());
            let look = self.ask(self.fleet.confirming, move |_, sanitizer| {
                sanitizer.sanitize(&job, &configuration, within)
            })?;
            let Some(answer) = look else { return Ok(None) };
            answer
        };
        let took = self.wall.elapsed().saturating_sub(began);
        if answer.is_late && !is_demanded {
            let command = again("sanitize", self.study.header(), &evaluation.configuration);
            answer.report.message += &format!("; `{command}` takes the time");
        }
        let is_missing = answer.report.state == GateState::NotRun;
        if answer.looked || is_demanded {
            let tally = self.looks.get_or_insert_default();
            tally.variants += u64::from(answer.looked);
            tally.findings += u64::from(answer.verdict.is_some());
            tally.unanswered += u64::from(is_missing);
            tally.seconds += took.as_secs_f64();
        }
        if answer.looked {
            self.wall.costs.sanitizer.add(took.as_secs_f64());
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use evo_journal::leaderboard::section;
    use evo_protocol::verdict::{Verdict, VerdictKind};

    use super::*;
    use crate::fake::{FakeSanitizer, Plays, TestStudy, all_pass};
    use crate::run::SanitizePlan;

    /// Eighteen points, of which `A=0 B=0` is the default and the fastest.
    const PLAIN: &str = "parameters = { A = [0, 1, 2, 3, 4, 5], B = [0, 1, 2] }";

    const FINALISTS: SanitizePlan = SanitizePlan { finalists: true, every: None, demanded: false };

    fn answer(state: GateState, message: &str, found: Option<Verdict>) -> SanitizerAnswer {
        let mut report = GateReport { state, cases: 4, ..GateReport::not_run(Gate::Sanitize, message) };
        report.evidence.insert("tool", "compute-sanitizer");
        report.evidence.insert("version", "2025.3.1.0");
        SanitizerAnswer { report, verdict: found, looked: true, is_late: false }
    }

    fn race_in(labels: &'static [&'static str]) -> FakeSanitizer {
        Arc::new(move |job| match labels.contains(&job.label.as_str()) {
            true => {
                let verdict =
                    Verdict::new(VerdictKind::Sanitizer, "racecheck: a race").with_cause("racecheck");
                answer(GateState::Fail, "racecheck: a race", Some(verdict))
            }
            false => answer(GateState::Pass, "all four found nothing", None),
        })
    }

    fn no_answer() -> FakeSanitizer {
        Arc::new(|_| answer(GateState::NotRun, "it was ended at its deadline", None))
    }

    fn study(sanitizer: Option<FakeSanitizer>, plan: SanitizePlan) -> TestStudy {
        let mut bench = TestStudy::confirming(PLAIN, 2);
        bench.options.sanitize = plan;
        bench.sanitizer = sanitizer;
        bench
    }

    fn board(bench: &TestStudy) -> Vec<(String, Option<GateState>)> {
        let Some(section) = section(&bench.open().history) else { return Vec::new() };
        let row = |entry: &evo_protocol::leaderboard::RankedEntry| {
            (entry.configuration.to_string(), entry.sanitizer.as_ref().map(|note| note.state))
        };
        section.entries().map(row).collect()
    }

    #[test]
    fn what_is_found_is_a_verdict_and_what_is_not_looked_at_may_rank() {
        let mut plays = Plays::default();
        let mut play = |title: &str, sanitizer: Option<FakeSanitizer>, plan, runs: fn(&mut TestStudy)| {
            plays.play(title, PLAIN, |bench| {
                (bench.options.finalists, bench.options.sanitize, bench.sanitizer) = (2, plan, sanitizer);
                bench.run(all_pass());
                runs(bench);
            });
        };
        let once = |_: &mut TestStudy| {};
        let twice = |bench: &mut TestStudy| drop(bench.run(all_pass()));
        let later = |bench: &mut TestStudy| {
            bench.with(|own| own.sanitizer = Some(race_in(&[]))).run(all_pass());
        };
        let race = |labels| Some(race_in(labels));
        let demanding = SanitizePlan { demanded: true, ..FINALISTS };
        play("the next candidate moves up", race(&["A=0 B=1"]), FINALISTS, once);
        play("a faulty baseline is compared with and does not rank", race(&["A=0 B=0"]), FINALISTS, once);
        play("a tool without an answer keeps nothing off the board", Some(no_answer()), FINALISTS, later);
        play("nor does none", None, FINALISTS, once);
        // An answer later on is enough: nothing is searched again.
        play("unless an answer is demanded", Some(no_answer()), demanding, later);
        play("which none gives", None, demanding, later);
        play("a demanded look comes before the comparison", race(&["A=0 B=1"]), demanding, once);
        play("a resumed study takes answers over", race(&["A=0 B=1"]), FINALISTS, twice);
        let every = |generations| SanitizePlan { every: NonZeroU32::new(generations), ..FINALISTS };
        // Generations of four, counted from 0. A finalist is not looked at again.
        play("the best of every second generation is looked at once", race(&[]), every(2), twice);
        play("a finding in the best of a generation", race(&["A=1 B=1"]), every(1), |bench| {
            let history = bench.history();
            let refused = history.evaluations.iter().find(|one| !one.verdict.is_pass()).unwrap();
            let view = bench.folder().place(&format!("gen-{:03}.json", refused.generation));
            let view = std::fs::read_to_string(view).unwrap();
            assert!(view.contains("racecheck"), "the view has the verdict of before");
        });
        insta::assert_snapshot!(plays.0);
    }

    #[test]
    fn the_evidence_is_in_the_journal_and_in_the_confirmation_and_in_the_row() {
        let bench = study(Some(race_in(&["A=0 B=1"])), FINALISTS);
        bench.run(all_pass());
        let history = bench.open().history;
        let refused = history.confirmations.iter().find(|one| !one.evaluation.may_rank()).unwrap();
        let gate = refused.evaluation.gate(Gate::Sanitize).unwrap();
        assert_eq!(gate.evidence.get("version").unwrap(), "2025.3.1.0");
        assert_eq!(
            (history.sanitized.len(), refused.evaluation.verdict.label()),
            (3, "sanitizer:racecheck".into())
        );
        let champion = section(&history).unwrap().champion;
        assert_eq!(champion.sanitizer.unwrap().version.as_deref(), Some("2025.3.1.0"));
    }

    #[test]
    fn looks_that_nobody_demands_add_a_quarter_or_two_seconds() {
        let looked = |before: u64, expected: &[&str], within: u64| {
            let mut bench = study(None, FINALISTS);
            let played = bench.play_time(0, 0);
            played.pass(before);
            bench.sanitizer = Some(Arc::new(move |job| {
                played.pass(1500);
                race_in(&[])(job)
            }));
            let ran = bench.run(all_pass());
            assert_eq!(ran.log.sanitized, expected, "after {before} ms");
            assert_eq!(ran.log.looks_within[0], Some(Duration::from_millis(within)));
            // The host device began when the default had passed, and goes on with the finalists.
            assert_eq!(ran.log.looks_ahead, [vec!["A=0 B=0"], vec!["A=0 B=1", "A=0 B=0"]]);
            assert_eq!(ran.summary.confirmed, 2);
            bench
        };
        looked(12_000, &["A=0 B=0", "A=0 B=1"], 3000);
        let bench = looked(1000, &["A=0 B=0"], 2000);
        // What did not fit ranks all the same, and the board says how to look at it.
        let states = board(&bench).into_iter().map(|(_, state)| state.unwrap()).collect::<Vec<_>>();
        assert_eq!(states, [GateState::Pass, GateState::NotRun]);
        let section = section(&bench.open().history).unwrap();
        let note = section.entries().nth(1).unwrap().sanitizer.clone().unwrap().message;
        assert!(note.contains("no time was left for compute-sanitizer; `evo sanitize"), "{note}");
        assert!(note.contains(" A=0 B=1 --device "), "{note}");
    }

    #[test]
    fn confirmations_of_before_the_demand_do_not_rank_under_it() {
        let mut bench = study(None, FINALISTS);
        bench.run(all_pass());
        assert_eq!(board(&bench).len(), 2);
        bench.options.sanitize.demanded = true;
        assert_eq!(board(&bench), []);
    }
}
