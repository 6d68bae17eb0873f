//! A pool that compiles all sources of a configuration and answers once for all of them.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evo_protocol::binary::{Binary, CompileOutcome, KernelSource};
use evo_protocol::verdict::Verdict;

use super::error::CompileSetupError;
use super::farm::CompileFarm;
use super::options::FarmOptions;

/// In the order of the configuration's sources, or the verdict on the first source that failed.
pub type VariantOutcome = Result<Vec<Binary>, Box<Verdict>>;

/// Called with a ticket and its outcome, from a thread of the farm.
pub type OnBuilt = Box<dyn Fn(u64, VariantOutcome) + Send + Sync>;

pub struct VariantFarm {
    farm: CompileFarm,
    open: Arc<Mutex<OpenTickets>>,
}

#[derive(Default)]
struct OpenTickets {
    next: u64,
    /// Of each source under way: whose it is, and its position there.
    parts: HashMap<u64, (u64, usize)>,
    answers: HashMap<u64, Vec<(KernelSource, Option<CompileOutcome>)>>,
}

impl VariantFarm {
    pub fn start(options: FarmOptions, on_built: OnBuilt) -> Result<VariantFarm, CompileSetupError> {
        let open = Arc::new(Mutex::new(OpenTickets::default()));
        let shared = Arc::clone(&open);
        let on_done = Box::new(move |part, outcome| {
            let answer = lock(&shared).answered(part, outcome);
            if let Some((ticket, outcome)) = answer {
                on_built(ticket, outcome);
            }
        });
        Ok(VariantFarm { farm: CompileFarm::start(options, on_done)?, open })
    }

    pub fn submit(&self, ticket: u64, sources: Vec<KernelSource>) {
        let parts = lock(&self.open).add(ticket, &sources);
        for (part, source) in parts.zip(sources) {
            self.farm.submit(part, source);
        }
    }

    pub fn cancel(&self) {
        self.farm.cancel();
        let mut open = lock(&self.open);
        open.parts.clear();
        open.answers.clear();
    }
}

impl Deref for VariantFarm {
    type Target = CompileFarm;

    fn deref(&self) -> &CompileFarm {
        &self.farm
    }
}

fn lock(open: &Mutex<OpenTickets>) -> MutexGuard<'_, OpenTickets> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenTickets {
    fn add(&mut self, ticket: u64, sources: &[KernelSource]) -> std::ops::Range<u64> {
        let first = self.next;
        self.next += sources.len() as u64;
        for (position, part) in (first..self.next).enumerate() {
            self.parts.insert(part, (ticket, position));
        }
        self.answers.insert(ticket, sources.iter().map(|source| (source.clone(), None)).collect());
        first..self.next
    }

    /// Waiting for all keeps the answer from depending on which was compiled first.
    fn answered(&mut self, part: u64, outcome: CompileOutcome) -> Option<(u64, VariantOutcome)> {
        let (ticket, position) = self.parts.remove(&part)?;
        let answers = self.answers.get_mut(&ticket)?;
        answers[position].1 = Some(outcome);
        if answers.iter().any(|(_, answer)| answer.is_none()) {
            return None;
        }
        let answers = self.answers.remove(&ticket)?;
        let told = answers.into_iter().filter_map(|(source, answer)| Some(said(&source, answer?)));
        Some((ticket, told.collect()))
    }
}

pub fn said(source: &KernelSource, outcome: CompileOutcome) -> CompileOutcome {
    match source.constants.is_empty() {
        true => outcome,
        false => outcome.map_err(|mut verdict| {
            verdict.message = format!("with {}: {}", source.constants, verdict.message);
            Box::new(verdict.with("constants", source.constants.to_string()))
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evo_protocol::specialization::Specialization;
    use evo_protocol::verdict::VerdictKind;
    use evo_space::genome::ContentHash;

    use super::*;

    fn source(causal: i64) -> KernelSource {
        let constants = Specialization::of(&["CAUSAL".into()], &BTreeMap::from([("CAUSAL".into(), causal)]));
        KernelSource { constants, ..KernelSource::plain("k.cu", "", [""; 0]) }
    }

    fn binary(word: &str) -> Binary {
        Binary {
            hash: ContentHash::of(word.as_bytes()),
            code_hash: ContentHash::of(word.as_bytes()),
            path: word.into(),
            resources: Vec::new(),
            toolchain: String::new(),
            compile_ms: 0.0,
            cached: false,
            log: String::new(),
        }
    }

    #[test]
    fn one_answer_for_all_sources_in_their_order() {
        let mut open = OpenTickets::default();
        let first: Vec<u64> = open.add(7, &[source(0), source(1)]).collect();
        let second: Vec<u64> = open.add(8, &[source(0)]).collect();
        assert!(open.answered(first[1], Ok(binary("one"))).is_none());
        assert_eq!(open.answered(second[0], Ok(binary("other"))).unwrap().0, 8);
        let (ticket, outcome) = open.answered(first[0], Ok(binary("zero"))).unwrap();
        let paths: Vec<String> = outcome.unwrap().iter().map(|own| own.path.display().to_string()).collect();
        assert_eq!((ticket, paths), (7, vec!["zero".to_string(), "one".to_string()]));
        assert!(open.parts.is_empty() && open.answers.is_empty());
    }

    #[test]
    fn the_first_failing_source_is_named_whichever_answers_first() {
        let mut open = OpenTickets::default();
        let parts: Vec<u64> = open.add(1, &[source(0), source(1)]).collect();
        let failed = |word: &str| Err(Box::new(Verdict::new(VerdictKind::CompileError, word)));
        assert!(open.answered(parts[1], failed("late")).is_none());
        let (_, outcome) = open.answered(parts[0], failed("early")).unwrap();
        assert_eq!(outcome.unwrap_err().message, "with CAUSAL=0: early");
    }
}
