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

use evo_protocol::evaluation::{DEFAULT_ORIGIN, Evaluation, TakenOver};
use evo_protocol::verdict::VerdictKind;
use evo_space::genome::{ContentHash, Genome};
use evo_space::text::counted;

use super::ago::ago;
use super::apart;
use super::carry::{Inheritance, best_of, is_lasting, is_still_too_slow, preference};
use super::error::EngineError;
use super::ports::Recipe;
use super::run::Engine;
use super::variant::{Twin, Variant, code_and_plan, without_device};
use evo_journal::budget::StopReason;
use evo_journal::conditions::Conditions;
use evo_journal::record::now;
use evo_report::study::EarlierResult;
use evo_supervise::job::Standing;

/// What proposed a configuration whose study called it the default, where another one is the default now.
const ORIGIN: &str = "earlier";

/// Configurations that are rendered before the search, to compare their keys: 2.6 ms each for `gemm` and 7.5 ms for
/// `attention_simt` in an unoptimized build (two cores, 2026). Further ones are compared when the search asks for them.
/// Few in tests, whose observer reads the journal at each verdict.
const AT_ONCE: usize = if cfg!(test) { 20 } else { 500 };

/// Sources of results that a message names.
const NAMED: usize = 3;

impl<R: Recipe> Engine<'_, R> {
    /// Finds out which results of before an edit of this study hold after it.
    pub(super) fn settle_history(&mut self) -> Result<(), EngineError> {
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
        for generation in 0..complete as u32 {
            if let Err(error) = self.study.write_generation(generation, self.slice(generation)) {
                self.warn_of_view(&error, "the journal has its evaluations");
            }
        }
        if measured > 0 { self.say_at_start(message) } else { Ok(()) }
    }

    /// Numbers of set-aside evaluations that hold as they stand.
    fn holding(&self) -> Vec<u64> {
        let mut held: Vec<&Evaluation> =
            self.study.history.set_aside.iter().filter(|one| self.is_as_before(one)).collect();
        let standing = self.standing_with(held.iter().copied());
        held.retain(|one| one.verdict.kind != VerdictKind::TooSlow || self.is_still_slow(one, &standing));
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

    /// Takes over what other studies measured of this space, and keeps the rest for variants whose machine code
    /// turns out to be the same.
    pub(super) fn take_over(&mut self) -> Result<(), EngineError> {
        let mut earlier = std::mem::take(&mut self.known.earlier);
        for message in std::mem::take(&mut earlier.notices) {
            self.say_at_start(message)?;
        }
        if self.options.remeasure {
            return Ok(());
        }
        let conditions = self.study.header().conditions.as_ref().map(Conditions::hash);
        earlier.results.extend(self.own_before(conditions.as_ref()));
        let found = self.find(&earlier.results);
        let taken: Vec<&EarlierResult> = found.taken.iter().map(|one| one.result).collect();
        let message = told(&taken, found.measured);
        for taken in found.taken {
            self.record_taken_over(taken)?;
        }
        self.ledger.recount(&self.study.history.evaluations);
        if let Some(message) = message {
            self.say_at_start(message)?;
        } else if found.measured == 0 && earlier.elsewhere > 0 {
            let (count, why) = (earlier.elsewhere, earlier.differences.join("; "));
            let message = format!("none of {count} earlier results of this kernel can be taken over: {why}");
            self.say_at_start(message)?;
        }
        self.known.inheritance = Inheritance::new(earlier.results);
        Ok(())
    }

    /// In the journal now, and to observers once the run is announced.
    fn say_at_start(&mut self, message: String) -> Result<(), EngineError> {
        self.study.note(message.clone())?;
        self.study.notices.push(message);
        Ok(())
    }

    /// What this study measured before an edit under the conditions of today, as if another had.
    fn own_before(&self, conditions: Option<&ContentHash>) -> Vec<EarlierResult> {
        let history = &self.study.history;
        let (study, at) = (&self.study.header().study, &history.set_aside_at);
        let result = |one: &Evaluation| {
            let mut evaluation = one.clone();
            evaluation.measurements.iter_mut().for_each(|own| own.raw_ns.clear());
            EarlierResult { study: study.clone(), at: at.clone(), evaluation }
        };
        let same = |one: &&Evaluation| one.key.as_ref().map(|key| &key.conditions) == conditions;
        history.set_aside.iter().filter(|one| one.key.is_some()).filter(same).map(result).collect()
    }

    /// The results that hold for configurations of this space that the study has not evaluated.
    fn find<'e>(&self, results: &'e [EarlierResult]) -> Found<'e> {
        let mut found = Found::default();
        for mut group in by_configuration(results) {
            let Some(genome) = self.point(&group[0].evaluation.configuration) else { continue };
            if self.ledger.known.contains(&genome) {
                continue;
            }
            found.measured += 1;
            if found.measured > AT_ONCE {
                continue;
            }
            let Ok(prepared) = self.recipe.prepare(&group[0].evaluation.configuration) else { continue };
            let identity = self.recipe.identity(&prepared);
            let Some(key) = identity.key() else { continue };
            group.retain(|one| {
                one.evaluation.key.as_ref() == Some(&key) && is_lasting(&one.evaluation.verdict)
            });
            if let Some(result) = group.into_iter().min_by_key(|one| preference(one)) {
                found.taken.push(Taken { genome, text: identity.text, result });
            }
        }
        let passing = found.taken.iter().map(|one| &one.result.evaluation);
        let standing = self.standing_with(passing);
        found.taken.retain(|taken| {
            let one = &taken.result.evaluation;
            one.verdict.kind != VerdictKind::TooSlow || self.is_still_slow(one, &standing)
        });
        let default = self.space.default_genome();
        found.taken.sort_by_cached_key(|taken| {
            let one = taken.result;
            // The default first, as in a search; then as they were measured.
            (taken.genome != default, one.at.clone(), one.study.clone(), one.evaluation.number)
        });
        found
    }

    /// Records a result as this study's own, without its cost.
    fn record_taken_over(&mut self, taken: Taken<'_>) -> Result<(), EngineError> {
        let Taken { genome, text, result } = taken;
        let is_default = genome == self.space.default_genome();
        let mut evaluation = adopted(result, self.ledger.take_number(), text);
        match (is_default, evaluation.is_default()) {
            (true, _) => evaluation.origin = DEFAULT_ORIGIN.to_string(),
            (false, true) => evaluation.origin = ORIGIN.to_string(),
            (false, false) => {}
        }
        self.join_twins(&mut evaluation);
        let position = self.study.history.evaluations.len();
        self.study.record_taken_over(&mut evaluation)?;
        self.ledger.index.insert(evaluation.number, position);
        self.ledger.known.insert(genome.clone());
        self.teach(genome, &evaluation);
        self.improve_standing(&evaluation);
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
        let Some(position) = self.ledger.index.get(owner) else { return };
        let original = &self.study.history.evaluations[*position];
        evaluation.duplicate_of = Some(original.duplicate_of.unwrap_or(original.number));
        evaluation.verdict = original.verdict.clone();
        evaluation.gates.clone_from(&original.gates);
        evaluation.measurements.clone_from(&original.measurements);
        evaluation.objective_ns = original.objective_ns;
    }

    /// Ends a variant that is ready for the compilers with the result that another study has of its source; gives it
    /// back where there is none.
    pub(super) fn take_over_source(
        &mut self,
        variant: Variant<R::Prepared>,
    ) -> Result<Option<Variant<R::Prepared>>, EngineError> {
        let identity = variant.prepared.as_ref().map(|(_, identity)| identity);
        let found =
            identity.and_then(|identity| Some((identity, self.known.inheritance.of_source(identity)?)));
        let Some((identity, result)) = found.filter(|(_, result)| self.holds_now(result)) else {
            return Ok(Some(variant));
        };
        let mut evaluation = adopted(result, variant.number, identity.text.clone());
        evaluation.origin.clone_from(&variant.origin);
        evaluation.expected = variant.expected;
        evaluation.aimed_at.clone_from(&variant.aimed_at);
        self.join_twins(&mut evaluation);
        self.flight.variants.insert(variant.number, variant);
        self.settle_uncounted(evaluation)?;
        Ok(None)
    }

    /// Whether it would come out the same against the best so far.
    fn holds_now(&self, result: &EarlierResult) -> bool {
        let one = &result.evaluation;
        one.verdict.kind != VerdictKind::TooSlow || self.is_still_slow(one, &self.known.standing)
    }

    /// Whether a variant that was too slow is too slow for this standing, by the rule of this study.
    fn is_still_slow(&self, one: &Evaluation, standing: &Standing) -> bool {
        let header = self.study.header();
        match header.per_problem {
            true => apart::is_behind_everywhere(one, standing, header.ranking),
            false => is_still_too_slow(one, standing),
        }
    }

    /// What newcomers would be measured against with these evaluations known too.
    fn standing_with<'e>(&self, evaluations: impl Iterator<Item = &'e Evaluation>) -> Standing {
        let header = self.study.header();
        if !header.per_problem {
            return best_of(&self.known.standing, evaluations, header.ranking);
        }
        let mut standing = self.known.standing.clone();
        evaluations
            .filter(|one| one.verdict.is_pass())
            .for_each(|one| apart::improve(&mut standing, one, header.ranking));
        standing
    }

    /// Ends a variant in flight that takes no place in the budget, as one that is passed over.
    fn settle_uncounted(&mut self, evaluation: Evaluation) -> Result<(), EngineError> {
        if matches!(self.ending.stop, Some(StopReason::Evaluations | StopReason::Generations)) {
            self.ending.stop = None;
        }
        self.settle(evaluation)
    }

    /// Ends a compiled variant with the result that another study has of its machine code; whether there is one.
    pub(super) fn take_over_code(
        &mut self,
        number: u64,
        code: Option<&ContentHash>,
    ) -> Result<bool, EngineError> {
        let found = code.and_then(|code| Some((code, self.known.inheritance.of_code(code)?)));
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

/// A result under a number of this study, without what it cost in the study that measured it.
fn adopted(result: &EarlierResult, number: u64, text: Option<ContentHash>) -> Evaluation {
    Evaluation {
        number,
        source_hash: text,
        taken_over_from: Some(source_of(result)),
        ..without_device(result.evaluation.clone())
    }
}

/// Results of one configuration each: what passed comes first, the fastest before all others, so that it decides what
/// is still too slow. The order is always the same, as the strategy has to hear of the same results.
fn by_configuration(results: &[EarlierResult]) -> Vec<Vec<&EarlierResult>> {
    let mut groups: BTreeMap<&ContentHash, Vec<&EarlierResult>> = BTreeMap::new();
    for result in results {
        groups.entry(&result.evaluation.configuration_hash).or_default().push(result);
    }
    let mut groups: Vec<Vec<&EarlierResult>> = groups.into_values().collect();
    let passed = |one: &&&EarlierResult| one.evaluation.verdict.is_pass();
    let time = |group: &Vec<&EarlierResult>| {
        let times = group.iter().filter(passed).filter_map(|one| one.evaluation.objective_ns);
        times.fold(f64::INFINITY, f64::min)
    };
    groups.sort_by(|a, b| time(a).total_cmp(&time(b)));
    groups
}

/// A result for a point of this space.
struct Taken<'e> {
    genome: Genome,
    /// Hash of the whole text as it is rendered now.
    text: Option<ContentHash>,
    result: &'e EarlierResult,
}

/// What is taken over of the results that were found.
#[derive(Default)]
struct Found<'e> {
    taken: Vec<Taken<'e>>,
    /// Configurations of this space that somebody measured under these conditions.
    measured: usize,
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
fn told(taken: &[&EarlierResult], measured: usize) -> Option<String> {
    if measured == 0 {
        return None;
    }
    let mut newest: BTreeMap<String, String> = BTreeMap::new();
    for source in taken.iter().map(|one| source_of(one)) {
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
