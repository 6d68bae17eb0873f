//! A search that is running, as a mutator beside it sees it: what was evaluated so far, whose turn the device is, and how
//! it ended.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use evo_protocol::evaluation::Evaluation;
use evo_protocol::mutator::MutatorKnowledge;
use evo_protocol::verdict::VerdictClass;
use evo_search::insight::{ENOUGH, Insight, expected_points};
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;

use super::knowledge::{EXPECTED, knowledge};
use crate::cli::mutator::FoundBySearch;
use crate::engine::turns::MeasuringTurns;
use crate::event::{Event, Observer};
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::StudyHeader;
use crate::mutator::process::MutatorStop;
use crate::study::Study;

/// A search between its first evaluation and its end. Clones are the same search.
#[derive(Clone, Default)]
pub struct RunningSearch(Arc<RunningState>);

#[derive(Default)]
struct RunningState {
    turns: MeasuringTurns,
    stop: MutatorStop,
    told: Mutex<ToldOfSearch>,
    changed: Condvar,
}

#[derive(Default)]
struct ToldOfSearch {
    study: Option<BegunStudy>,
    evaluations: Vec<Evaluation>,
    end: Option<SearchEnd>,
}

/// A study whose search has begun.
#[derive(Clone)]
pub struct BegunStudy {
    pub header: StudyHeader,
    pub folder: OwnFolder,
}

/// How a search ended.
#[derive(Clone, Default)]
pub struct SearchEnd {
    /// Of its champion: the configuration and its hash.
    pub champion: Option<(Configuration, String)>,
}

impl RunningSearch {
    /// Whose turn the device is.
    pub fn turns(&self) -> &MeasuringTurns {
        &self.0.turns
    }

    /// The study is open.
    pub fn begin(&self, study: &Study) {
        let folder = study.out().folder(&study.header().study).ok();
        let mut told = self.lock();
        told.evaluations.clone_from(&study.history.evaluations);
        told.study = folder.map(|folder| BegunStudy { header: study.header().clone(), folder });
    }

    /// An observer that sees what `inner` sees.
    pub fn watched(&self, inner: Box<dyn Observer>) -> Box<dyn Observer> {
        Box::new(WatchedSearch { search: self.clone(), inner })
    }

    /// The search is over. The first end counts.
    pub fn end(&self, end: SearchEnd) {
        self.lock().end.get_or_insert(end);
        self.0.changed.notify_all();
    }

    /// The search was broken off: a mutator that thinks is killed, and nothing more of it is judged.
    pub fn break_off(&self) {
        self.0.stop.stop();
        self.end(SearchEnd::default());
    }

    /// Breaks the search off where this thread panics: whoever waits for its end would wait for ever.
    pub fn ended_by_panic(&self) -> impl Drop {
        EndOnPanic(self.clone())
    }

    /// Waits until enough was measured to tell a mutator something; nothing where the search is over by then.
    pub fn enough(&self) -> Option<BegunStudy> {
        let mut told = self.lock();
        while told.end.is_none() {
            if let Some(study) = told.study.as_ref().filter(|_| is_enough(&told.evaluations)) {
                return Some(study.clone());
            }
            told = self.0.changed.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// The fastest that passed so far.
    pub fn best(&self) -> Option<Configuration> {
        let told = self.lock();
        let passed = told.evaluations.iter().filter(|one| one.verdict.is_pass());
        let timed = passed.filter_map(|one| Some((one.objective_ns?, &one.configuration)));
        timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, own)| own.clone())
    }

    fn lock(&self) -> MutexGuard<'_, ToldOfSearch> {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a model has enough to learn from, and a mutator something to begin with.
fn is_enough(evaluations: &[Evaluation]) -> bool {
    let is_timed = |one: &&Evaluation| {
        matches!(one.verdict.kind.class(), VerdictClass::Ok | VerdictClass::Slow)
            && one.objective_ns.is_some()
    };
    evaluations.iter().filter(is_timed).count() >= ENOUGH
        && evaluations.iter().any(|one| one.verdict.is_pass())
}

struct EndOnPanic(RunningSearch);

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_off();
        }
    }
}

struct WatchedSearch {
    search: RunningSearch,
    inner: Box<dyn Observer>,
}

impl Observer for WatchedSearch {
    fn observe(&mut self, event: &Event) {
        if let Event::Finished { evaluation, .. } = event {
            self.search.lock().evaluations.push((**evaluation).clone());
            self.search.0.changed.notify_all();
        }
        self.inner.observe(event);
    }
}

/// A running search with the space that it searches.
pub struct SearchBeside<'a> {
    pub search: &'a RunningSearch,
    pub space: &'a SearchSpace,
    pub seed: u64,
}

impl FoundBySearch for SearchBeside<'_> {
    fn knows(&self) -> Option<MutatorKnowledge> {
        // Out of the lock: the search must not wait for a model.
        let evaluations = self.search.lock().evaluations.clone();
        let insight = Insight::of(self.space, &evaluations, self.seed);
        let expected = expected_points(self.space, &evaluations, self.seed, EXPECTED);
        Some(knowledge(&insight, expected))
    }

    fn is_running(&self) -> bool {
        self.search.lock().end.is_none()
    }

    fn champion(&self) -> Option<(Configuration, String)> {
        let mut told = self.search.lock();
        loop {
            match &told.end {
                Some(end) => return end.champion.clone(),
                None => told = self.search.0.changed.wait(told).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn shared(&self) -> Option<(MeasuringTurns, MutatorStop)> {
        Some((self.search.0.turns.clone(), self.search.0.stop.clone()))
    }
}

/// A search that was over before anything was asked.
pub struct EndedSearch {
    pub knows: Option<MutatorKnowledge>,
    pub champion: Option<(Configuration, String)>,
}

impl FoundBySearch for EndedSearch {
    fn knows(&self) -> Option<MutatorKnowledge> {
        self.knows.clone()
    }

    fn is_running(&self) -> bool {
        false
    }

    fn champion(&self) -> Option<(Configuration, String)> {
        self.champion.clone()
    }

    fn shared(&self) -> Option<(MeasuringTurns, MutatorStop)> {
        None
    }
}
