//! Results that outlive an edit of the space: what the study itself measured before an edit, and what other studies
//! in the evidence folder measured. A result holds where its measurement key is the one of today
//! ([`Identity::key`](super::ports::Identity::key)), and is of a kind that chance does not decide (`carry`).
//!
//! Keys are compared by source, which needs no compiler, before the search for a limited number and for the others
//! when they are proposed. A source that was edited may still give the same machine code: such a variant is compiled,
//! and then takes over the result of that code.
//!
//! What was taken over counts against no budget, is told to the strategy like any outcome, and may be a finalist,
//! which is measured afresh. So no number enters the leaderboard that this run has not confirmed.

use std::collections::{BTreeMap, HashSet};

use evo_journal::definition::Conditions;
use evo_journal::record::now;
use evo_protocol::evaluation::{DEFAULT_ORIGIN, Evaluation, TakenOver};
use evo_report::study::EarlierResult;
use evo_space::genome::{Configuration, ContentHash, Genome};
use evo_space::text::counted;
use evo_supervise::job::Standing;
use jiff::Timestamp;

use crate::carry::{Inheritance, holds_beside, improve};
use crate::ports::Recipe;
use crate::run::Engine;
use crate::trouble::EngineResult;
use crate::variant::{Twin, Variant, code_and_plan, with_result_of, without_device};

/// What proposed a configuration whose study called it the default, where another one is the default now.
const ORIGIN: &str = "earlier";

/// Configurations that are rendered before the search, to compare their keys: 2.6 ms each for `gemm` and 7.5 ms for
/// `attention_simt` in an unoptimized build (two cores, 2026). Further ones are compared when the search asks for them.
/// Few in tests, whose observer reads the journal at each verdict.
const AT_ONCE: usize = if cfg!(test) { 20 } else { 500 };

const NAMED: usize = 3;

impl<R: Recipe> Engine<'_, R> {
    pub(super) fn settle_history(&mut self) -> EngineResult {
        if !self.study.history.is_unsettled {
            return Ok(());
        }
        let measured = self.study.history.set_aside.len();
        let kept = if self.options.remeasure { Vec::new() } else { self.holding() };
        let message =
            format!("{} of {} of before the edit hold after it", kept.len(), counted(measured, "result"));
        self.study.keep(kept)?;
        self.ledger.recount(&self.study.history.evaluations);
        let complete = self.counted() / u64::from(self.options.population.get());
        (0..complete as u32).for_each(|generation| self.write_again(generation));
        if measured > 0 { self.say_at_start(message) } else { Ok(()) }
    }

    fn holding(&self) -> Vec<u64> {
        let mut held: Vec<&Evaluation> =
            self.study.history.set_aside.iter().filter(|one| self.is_as_before(one)).collect();
        let standing = self.standing_with(held.iter().copied());
        held.retain(|one| holds_beside(one, &standing, self.study.header()));
        // A twin whose original is gone would keep its machine code out of the confirmation.
        let numbers: HashSet<u64> = held.iter().map(|one| one.number).collect();
        held.retain(|one| one.duplicate_of.is_none_or(|original| numbers.contains(&original)));
        held.iter().map(|one| one.number).collect()
    }

    /// Whether a configuration would come to this evaluation again, in the same role.
    fn is_as_before(&self, one: &Evaluation) -> bool {
        let Some(genome) = self.point(&one.configuration) else { return false };
        // The baseline is found by its origin.
        if one.is_default() != (genome == self.space.default_genome()) {
            return false;
        }
        match self.recipe.prepare(&one.configuration) {
            Ok(prepared) => {
                let identity = self.recipe.identity(&prepared);
                // The header too, which does not count otherwise: confirmations look for edits by the whole text.
                one.key.is_some() && identity.key() == one.key && identity.text == one.source_hash
            }
            Err(refused) => one.key.is_none() && one.verdict.label() == refused.verdict.label(),
        }
    }

    /// What is left is kept for variants whose machine code turns out to be the same.
    pub(super) fn take_over(&mut self) -> EngineResult {
        let mut earlier = std::mem::take(&mut self.earlier);
        for message in std::mem::take(&mut earlier.notices) {
            self.say_at_start(message)?;
        }
        if self.options.remeasure {
            return Ok(());
        }
        let conditions = self.study.header().conditions.as_ref().map(Conditions::hash);
        earlier.results.extend(self.own_before(conditions.as_ref()));
        let configurations = by_time(&earlier.results);
        self.inheritance = Inheritance::new(earlier.results);
        let (taken, measured) = self.find(configurations);
        let message = told(&taken, measured);
        for (genome, evaluation) in taken {
            self.record_taken_over(genome, evaluation)?;
        }
        self.ledger.recount(&self.study.history.evaluations);
        if let Some(message) = message {
            self.say_at_start(message)?;
        } else if measured == 0 && earlier.elsewhere > 0 {
            let (count, why) = (earlier.elsewhere, earlier.differences.join("; "));
            let message = format!("none of {count} earlier results of this kernel can be taken over: {why}");
            self.say_at_start(message)?;
        }
        Ok(())
    }

    /// In the journal now, and to observers once the run is announced.
    fn say_at_start(&mut self, message: String) -> EngineResult {
        self.study.note(message.clone())?;
        self.study.notices.push(message);
        Ok(())
    }

    fn own_before(&self, conditions: Option<&ContentHash>) -> Vec<EarlierResult> {
        let history = &self.study.history;
        let (study, at) = (&self.study.header().study, &history.set_aside_at);
        let result = |evaluation: &Evaluation| EarlierResult::new(study, at, evaluation.clone());
        let same = |one: &&Evaluation| one.key.as_ref().map(|key| &key.conditions) == conditions;
        history.set_aside.iter().filter(|one| one.key.is_some()).filter(same).map(result).collect()
    }

    /// What is taken over before the search, in the order in which it is recorded, and of how many configurations.
    fn find(&self, configurations: Vec<Configuration>) -> (Vec<(Genome, Evaluation)>, usize) {
        let points = configurations.into_iter().filter_map(|own| Some((self.point(&own)?, own)));
        let points: Vec<(Genome, Configuration)> =
            points.filter(|(genome, _)| !self.ledger.known.contains(genome)).collect();
        let mut taken = Vec::new();
        for (genome, configuration) in points.iter().take(AT_ONCE) {
            let Ok(prepared) = self.recipe.prepare(configuration) else { continue };
            let identity = self.recipe.identity(&prepared);
            if let Some(result) = self.inheritance.of_source(&identity) {
                taken.push((genome.clone(), adopted(result, configuration, identity.text)));
            }
        }
        let standing = self.standing_with(taken.iter().map(|(_, one)| one));
        taken.retain(|(_, one)| holds_beside(one, &standing, self.study.header()));
        let default = self.space.default_genome();
        // The default first, as in a search; then as they were measured.
        taken.sort_by_cached_key(|(genome, one)| {
            let source = one.taken_over_from.clone();
            (*genome != default, source.map(|source| (source.at, source.study, source.number)))
        });
        (taken, points.len())
    }

    fn record_taken_over(&mut self, genome: Genome, mut evaluation: Evaluation) -> EngineResult {
        evaluation.number = self.ledger.take_number();
        match (genome == self.space.default_genome(), evaluation.is_default()) {
            (true, _) => evaluation.origin = DEFAULT_ORIGIN.to_string(),
            (false, true) => evaluation.origin = ORIGIN.to_string(),
            (false, false) => {}
        }
        self.join_twins(&mut evaluation);
        let position = self.study.history.evaluations.len();
        self.study.record_taken_over(&mut evaluation)?;
        self.learn(position, Some(genome), &evaluation);
        Ok(())
    }

    /// Makes it the original of its machine code, or a twin of the one that this study has.
    fn join_twins(&mut self, evaluation: &mut Evaluation) {
        evaluation.duplicate_of = None;
        let Some(code) = evaluation.code_hash.as_ref().zip(evaluation.key.as_ref()) else { return };
        let code = code_and_plan(code.0, &code.1.plan);
        let Some(Twin::Known { owner, .. }) = self.twins.codes.get(&code) else {
            self.twins.codes.insert(code, Twin::Known { owner: evaluation.number, answer: () });
            return;
        };
        let Some(original) = self.evaluation_of(*owner) else { return };
        evaluation.duplicate_of = Some(original.duplicate_of.unwrap_or(original.number));
        *evaluation = with_result_of(evaluation.clone(), original);
    }

    /// Ends the variant with the result that another study has of its source; gives it back where there is none.
    pub(super) fn take_over_source(
        &mut self,
        variant: Variant<R::Prepared>,
    ) -> EngineResult<Option<Variant<R::Prepared>>> {
        let identity = variant.prepared.as_ref().map(|(_, identity)| identity);
        let found = identity.and_then(|identity| Some((identity, self.inheritance.of_source(identity)?)));
        let Some((identity, result)) = found.filter(|(_, result)| self.holds_now(result)) else {
            return Ok(Some(variant));
        };
        let mut evaluation = adopted(result, &variant.configuration, identity.text.clone());
        evaluation.number = variant.number;
        evaluation.origin.clone_from(&variant.origin);
        evaluation.expected = variant.expected;
        evaluation.aimed_at.clone_from(&variant.aimed_at);
        self.join_twins(&mut evaluation);
        self.flight.variants.insert(variant.number, variant);
        self.settle_uncounted(evaluation)?;
        Ok(None)
    }

    fn holds_now(&self, result: &EarlierResult) -> bool {
        holds_beside(&result.evaluation, &self.standing, self.study.header())
    }

    fn standing_with<'e>(&self, evaluations: impl Iterator<Item = &'e Evaluation>) -> Standing {
        let mut standing = self.standing.clone();
        for evaluation in evaluations {
            improve(&mut standing, evaluation, self.study.header());
        }
        standing
    }

    /// Ends a variant in flight that takes no place in the budget, as one that is passed over.
    fn settle_uncounted(&mut self, evaluation: Evaluation) -> EngineResult {
        self.make_room();
        self.settle(evaluation)
    }

    pub(super) fn take_over_code(&mut self, number: u64, code: Option<&ContentHash>) -> EngineResult<bool> {
        let found = code.and_then(|code| Some((code, self.inheritance.of_code(code)?)));
        let Some((code, result)) = found.filter(|(_, result)| self.holds_now(result)) else {
            return Ok(false);
        };
        let Some(variant) = self.flight.variants.get(&number) else { return Ok(false) };
        let evaluation = variant.taken_over(&result.evaluation, source_of(result));
        self.twins.codes.insert(code.clone(), Twin::Known { owner: number, answer: () });
        self.settle_uncounted(evaluation)?;
        Ok(true)
    }
}

/// A result as one of a configuration of this study, without what it cost in the study that measured it.
fn adopted(result: &EarlierResult, configuration: &Configuration, text: Option<ContentHash>) -> Evaluation {
    Evaluation {
        configuration: configuration.clone(),
        configuration_hash: configuration.hash(),
        source_hash: text,
        taken_over_from: Some(source_of(result)),
        ..without_device(result.evaluation.clone())
    }
}

/// The configurations of results: what passed comes first, the fastest before all others, so that it decides what is
/// still too slow. The order is always the same, as the strategy has to hear of the same results.
fn by_time(results: &[EarlierResult]) -> Vec<Configuration> {
    let mut times: BTreeMap<&ContentHash, (f64, &Configuration)> = BTreeMap::new();
    for EarlierResult { evaluation, .. } in results {
        let place = times.entry(&evaluation.configuration_hash);
        let place = place.or_insert((f64::INFINITY, &evaluation.configuration));
        let time = evaluation.objective_ns.filter(|_| evaluation.verdict.is_pass());
        place.0 = place.0.min(time.unwrap_or(f64::INFINITY));
    }
    let mut times: Vec<(f64, &Configuration)> = times.into_values().collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    times.into_iter().map(|(_, configuration)| configuration.clone()).collect()
}

/// The study that measured a result, also where the result came from a study that took it over itself.
fn source_of(result: &EarlierResult) -> TakenOver {
    result.evaluation.taken_over_from.clone().unwrap_or_else(|| TakenOver {
        study: result.study.clone(),
        number: result.evaluation.number,
        at: result.at.clone(),
    })
}

/// `took over 44 of 48 results measured before (study `gemm-host`, 12 min ago); `--remeasure` measures them again`.
fn told(taken: &[(Genome, Evaluation)], measured: usize) -> Option<String> {
    if measured == 0 {
        return None;
    }
    let mut newest: BTreeMap<String, String> = BTreeMap::new();
    for source in taken.iter().filter_map(|(_, one)| one.taken_over_from.clone()) {
        let at = newest.entry(source.study).or_default();
        *at = std::mem::take(at).max(source.at);
    }
    let mut sources: Vec<(String, String)> = newest.into_iter().collect();
    sources.sort_by(|a, b| b.1.cmp(&a.1));
    let now = now();
    let more = sources.len().saturating_sub(NAMED);
    let mut shown: Vec<String> =
        sources.iter().take(NAMED).map(|(study, at)| format!("study `{study}`, {}", ago(at, &now))).collect();
    shown.extend((more > 0).then(|| match more {
        1 => "1 more study".to_string(),
        more => format!("{more} more studies"),
    }));
    let (count, all) = (taken.len(), counted(measured, "result"));
    Some(match (count, measured - count) {
        (0, _) => format!(
            "none of {all} measured before is taken over: the source or the launches have changed, or \
             chance and the best so far may decide them otherwise now"
        ),
        (_, rest) => {
            let rest = match rest {
                0 => String::new(),
                rest => {
                    let are = if rest == 1 { "is" } else { "are" };
                    format!("; {rest} {are} compared or measured when the search asks for them")
                }
            };
            format!(
                "took over {count} of {all} measured before ({}); `--remeasure` measures them again{rest}",
                shown.join("; ")
            )
        }
    })
}

/// `12 min ago`; `at an unknown time` where a time cannot be read. Both are RFC 3339.
pub(super) fn ago(at: &str, now: &str) -> String {
    let (Ok(at), Ok(now)) = (at.parse::<Timestamp>(), now.parse::<Timestamp>()) else {
        return "at an unknown time".to_string();
    };
    // A clock that was set back since makes it just now.
    let seconds = (now.as_second() - at.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use evo_journal::record::JournalRecord;
    use evo_journal::replay::History;
    use evo_journal::{line, reader};
    use evo_protocol::verdict::{Verdict, VerdictKind};
    use evo_report::study::{EarlierLimits, EarlierResults};

    use super::*;
    use crate::fake::{Plays, Ran, Script, TestStudy, all_pass, failing, passed};

    #[test]
    fn times_are_said_in_words() {
        let check = |at: &str, expected: &str| assert_eq!(ago(at, "2026-01-10T12:00:00Z"), expected);
        check("2026-01-10T11:59:18Z", "42 s ago");
        check("2026-01-10T11:48:01Z", "11 min ago");
        check("2026-01-08T13:00:00Z", "47 h ago");
        check("2026-01-01T00:00:00Z", "9 days ago");
        check("2026-02-01T00:00:00Z", "0 s ago");
        check("yesterday", "at an unknown time");
    }

    const FOUR: &str = "[parameters]\nA = [0, 1]\nB = [0, 1]\n";
    const SIX: &str = "[parameters]\nA = [0, 1, 2]\nB = [0, 1]\n";

    impl Ran {
        fn evaluated(&self) -> Vec<&str> {
            let mut labels: Vec<&str> = self.log.evaluated.iter().map(String::as_str).collect();
            labels.sort_unstable();
            labels
        }
    }

    /// A study in which everything of the space has passed.
    fn measured(space: &str) -> TestStudy {
        let bench = TestStudy::new(space);
        bench.run(all_pass());
        bench
    }

    fn one_is(kind: VerdictKind) -> Script {
        failing(kind, |job| job.label == "A=1 B=0")
    }

    #[test]
    fn what_holds_is_not_measured_again() {
        let mut plays = Plays::default();
        // Numbers that rank are a run's own: its champion and its baseline are measured afresh.
        plays.play("another study measures only what is new", FOUR, |bench| {
            bench.run(all_pass());
            bench.named("t").edit(SIX).with(|own| own.options.finalists = 1).run(all_pass());
            // It names the study that measured, not the one that took over.
            bench.named("u").run(all_pass());
        });
        plays.play("a resumed study keeps what holds, with its number", FOUR, |bench| {
            bench.run(all_pass());
            let before = bench.find("A=1 B=1");
            // One value more, one less.
            bench.edit("[parameters]\nA = [0, 1, 2]\nB = [1]\n").budget(3).run(all_pass());
            assert_eq!(bench.find("A=1 B=1"), before);
            // Without a further edit nothing is said or asked again. Back in the first space what was measured holds.
            bench.run(all_pass());
            bench.edit(FOUR).run(all_pass());
            let numbers: BTreeSet<u64> = bench.history().numbers().collect();
            assert!(numbers.len() > 4, "no number is given twice");
        });
        plays.play("what is kept counts against the budget, what is taken over does not", FOUR, |bench| {
            bench.run(all_pass());
            bench.edit("[parameters]\nA = [0, 1, 2, 3]\nB = [0, 1]\n").budget(6).run(all_pass());
            bench.named("t").budget(1).run(all_pass());
        });
        plays.play("other conditions are named", FOUR, |bench| {
            bench.with(|own| own.conditions.add("check rtol", "0.001")).run(all_pass());
            bench.with(|own| own.conditions.add("check rtol", "0.01")).named("t").run(all_pass());
            bench.named("s").run(all_pass());
        });
        let late = "[parameters]\nA = [0, 1]\nLATE = [0]\n";
        plays.play("equal code holds under equal conditions alone", late, |bench| {
            bench.run(all_pass());
            bench.with(|own| own.conditions.add("check rtol", "0.01"));
            bench.edit(&late.replace("[0]", "[1]")).run(all_pass());
            bench.edit(&late.replace("[0]", "[2]")).run(all_pass());
        });
        let grid = "[parameters]\nA = [0, 1]\nGRID = [1]\nLATE = [0]\n";
        plays.play("another plan does not hold, other text with equal code does", grid, |bench| {
            bench.run(all_pass());
            bench.named("grid").edit(&grid.replace("[1]", "[2]")).run(all_pass());
            // LATE is in the source, not in the machine code: compiled, and then known, which uses no budget.
            bench.named("late").edit("[parameters]\nA = [0, 1, 2]\nGRID = [1]\nLATE = [1]\n");
            bench.budget(1).run(all_pass());
            bench.budget(None).run(all_pass());
        });
        plays.play("a refusal stands against a later pass", FOUR, |bench| {
            bench.run(one_is(VerdictKind::WrongAnswer));
            bench.named("t").with(|own| own.options.remeasure = true).run(all_pass());
            bench.named("u").with(|own| own.options.remeasure = false).run(all_pass());
        });
        let three = "[parameters]\nA = [0, 3, 4]\n";
        plays.play("too slow holds while something as fast is there", three, |bench| {
            bench.run(racing());
            bench.named("t").run(racing());
            // Without the variant that it lost to it may be the best, in the study that measured it too.
            bench.named("u").edit("[parameters]\nA = [0, 4]\n").run(all_pass());
            bench.named("s").run(all_pass());
        });
        let dead = "[parameters]\nA = [0, 1]\nDEAD = [0, 1]\n";
        // Or it could not be confirmed. Both at once stay twins.
        plays.play("a twin whose original is gone speaks for itself", dead, |bench| {
            bench.run(all_pass());
            bench.edit("[parameters]\nA = [0, 1]\nDEAD = [1]\n").run(all_pass());
            bench.named("t").edit(dead).run(all_pass());
        });
        plays.play("another default is found by its origin", "[parameters]\nA = [0, 1, 2]\n", |bench| {
            bench.run(all_pass());
            bench.edit("[parameters]\nA = { values = [0, 1, 2], default = 2 }\n").run(all_pass());
            bench.named("t").run(all_pass());
        });
        plays.play("remeasure takes nothing over", FOUR, |bench| {
            bench.run(all_pass());
            bench.named("t").with(|own| own.options.remeasure = true).run(all_pass());
            bench.named("s").edit(SIX).run(all_pass());
        });
        let many = |count: usize| {
            let values: Vec<String> = (0..count).map(|value| value.to_string()).collect();
            format!("[parameters]\nA = [0]\nB = [{}]\n", values.join(", "))
        };
        // Nothing that is known is compiled.
        plays.play("more than is compared before the search", &many(30), |bench| {
            bench.run(all_pass());
            bench.named("t").edit(&many(31)).budget(1).run(all_pass());
            bench.budget(None).run(all_pass());
        });
        for kind in "wrong_answer crash_trap hang noisy timing_escape worker_died harness_error".split(' ') {
            plays.play(&format!("after {kind} of one"), FOUR, |bench| {
                bench.run(one_is(VerdictKind::named(kind).unwrap()));
                bench.named("t").run(all_pass());
            });
        }
        plays.play("results of before keys were kept are measured again", FOUR, |bench| {
            bench.run(all_pass());
            let records = reader::read(&bench.journal()).unwrap().records.into_iter().map(|mut record| {
                match &mut record {
                    JournalRecord::Evaluation(one) => one.key = None,
                    JournalRecord::Study(header) => header.conditions = None,
                    _ => {}
                }
                line::encode(&record).unwrap()
            });
            std::fs::write(bench.journal(), records.collect::<String>()).unwrap();
            bench.named("t").run(all_pass());
        });
        insta::assert_snapshot!(plays.0);
    }

    /// `A=3` is fast; whoever comes later and is slower is too slow.
    fn racing() -> Script {
        Arc::new(|job| {
            let mut result = passed(job);
            let fast = job.label.starts_with("A=3");
            if fast {
                result.objective_ns = Some(500.0);
                result.measurements[0].p50_ns = 500.0;
            } else if job.label.starts_with("A=4") {
                let time = result.objective_ns.unwrap();
                let verdict = Verdict::new(VerdictKind::TooSlow, "").with("ratio", time / 500.0);
                result.verdict = verdict.with(Verdict::RACED, true);
            }
            result
        })
    }

    #[test]
    fn a_run_that_died_before_it_settled_an_edit_is_settled_by_the_next() {
        let mut bench = measured(FOUR);
        // Opened after the edit, and killed at once.
        drop(bench.edit(SIX).open());
        assert!(bench.history().evaluations.is_empty() && bench.history().is_unsettled);
        let ran = bench.run(all_pass());
        ran.said("4 of 4 results of before the edit hold after it");
        assert_eq!(ran.evaluated(), ["A=2 B=0", "A=2 B=1"]);
        // The header of the edit is lost: what is kept still says where the edit was.
        let text = std::fs::read_to_string(bench.journal()).unwrap();
        let damaged: Vec<String> = text
            .lines()
            .enumerate()
            .map(|(at, line)| match at > 0 && line.contains(r#""kind":"study""#) {
                true => line.replacen("\"crc\":\"", "\"crc\":\"x", 1),
                false => line.to_string(),
            })
            .collect();
        let journal = reader::parse((damaged.join("\n") + "\n").as_bytes());
        assert_eq!(journal.rejected.len(), 2);
        assert_eq!(History::replay(journal).evaluations.len(), 6);
    }

    #[test]
    fn a_run_that_died_while_it_took_over_takes_over_the_rest() {
        let mut bench = measured(FOUR);
        bench.named("t").edit(SIX).run(all_pass());
        let (expected, bytes) = (bench.verdicts(), std::fs::read(bench.journal()).unwrap());
        for step in 0..12 {
            let cut = bytes.len() * step / 12;
            std::fs::write(bench.journal(), &bytes[..cut]).unwrap();
            let ran = bench.run(all_pass());
            assert_eq!(bench.verdicts(), expected, "cut at byte {cut}");
            assert_eq!(ran.summary.end.taken_over, 4, "cut at byte {cut}");
            assert!(ran.evaluated().iter().all(|label| label.starts_with("A=2")), "{:?}", ran.evaluated());
        }
    }

    #[test]
    fn older_and_foreign_and_damaged_studies_stop_nothing() {
        let mut bench = measured(FOUR);
        let journal = std::fs::read_to_string(bench.journal()).unwrap();
        let place = |name: &str, text: &str| {
            let folder = bench.out.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("journal.jsonl"), text).unwrap();
        };
        place("empty", "");
        place("noise", "\u{0}\u{1}not a journal\n{}\n");
        place("headless", journal.split_once('\n').unwrap().1);
        place("flipped", &journal.replace("\"objective_ns\":1010.0", "\"objective_ns\":1.0"));
        std::os::unix::fs::symlink(bench.out.path().join("s"), bench.out.path().join("link")).unwrap();
        std::fs::create_dir_all(bench.out.path().join("pipe/journal.jsonl")).unwrap();
        std::fs::remove_dir_all(bench.out.path().join("s")).unwrap();
        let ran = bench.named("t").edit(SIX).run(all_pass());
        assert_eq!(ran.evaluated(), ["A=1 B=0", "A=2 B=0", "A=2 B=1"]);
        ran.said("1 damaged line of study `flipped` is left out");
        ran.said(
            "results of `empty`, `headless`, `noise` are not looked at: no journal of this evo can be read there",
        );
        ran.said("took over 3 of 3 results measured before (study `flipped`");
    }

    #[test]
    fn reading_is_bounded() {
        let mut bench = measured(FOUR);
        let own = bench.named("t").open();
        let size = std::fs::metadata(bench.out.path().join("s/journal.jsonl")).unwrap().len();
        let read = |bytes, folders| {
            EarlierResults::beside(own.out(), own.header(), EarlierLimits { folders, bytes })
        };
        assert_eq!(read(size, 1).results.len(), 4);
        let refused = read(size - 1, 1);
        assert!(refused.results.is_empty());
        assert_eq!(refused.notices.len(), 1, "{:?}", refused.notices);
        assert!(read(size, 0).results.is_empty());
        // A run beside this one may be in the middle of a line.
        let journal = bench.out.path().join("s/journal.jsonl");
        let whole = std::fs::read_to_string(&journal).unwrap();
        std::fs::write(&journal, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
        let torn = read(2 * size, 1);
        assert!(torn.results.len() >= 4 && torn.notices.is_empty(), "{:?}", torn.notices);
    }
}
