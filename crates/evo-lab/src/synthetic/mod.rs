//! Synthetic spaces: too large to list, and still with a known optimum.
//!
//! Recordings judge searches on spaces that somebody could measure completely. Real spaces are larger, and
//! nobody knows how good the best configuration found in one really is. In a synthetic space formulas stand in
//! for the device: the time of a point is `OPTIMUM_NS` times the product of 1 + loss over several losses. No loss
//! is ever negative, and at one planted valid point every loss is 0, so that no point can be faster. There is no
//! noise and no seed: a point always takes the same time or fails in the same way.
//!
//! `point` reads a point's parameters and has the terms that losses are made of. `kernels` and `shapes` hold the
//! spaces as they are written down.

mod kernels;
mod point;
mod shapes;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Instant;

use evo_protocol::verdict::VerdictClass;
use evo_search::registry::{self, UnknownStrategy};
use evo_search::strategy::{Outcome, Proposal};
use evo_space::diagnostic::nearest;
use evo_space::genome::Genome;
use evo_space::space::{Parameter, SearchSpace};
use thiserror::Error;

use self::point::{Definition, Point};

/// The time of the planted point in every space.
pub const OPTIMUM_NS: f64 = 1e6;

const SET: &[Definition] = &[
    kernels::MATRIX_TILES,
    kernels::HIDDEN_LIMITS,
    shapes::SWITCHES,
    shapes::LONG_LISTS,
    shapes::DECEPTIVE,
    shapes::PAIRWISE,
    kernels::MOSTLY_IRRELEVANT,
    shapes::ENTANGLED,
];

pub struct Synthetic {
    definition: &'static Definition,
    pub space: SearchSpace,
    planted: Genome,
}

#[derive(Debug, Error)]
#[error("unknown synthetic space `{name}`")]
pub struct UnknownSynthetic {
    name: String,
    hint: String,
}

impl UnknownSynthetic {
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

pub fn names() -> impl Iterator<Item = &'static str> {
    SET.iter().map(|definition| definition.name)
}

impl Synthetic {
    pub fn open(name: &str) -> Result<Synthetic, UnknownSynthetic> {
        let definition = SET.iter().find(|definition| definition.name == name).ok_or_else(|| {
            let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`? there are {list}"),
                None => format!("there are {list}"),
            };
            UnknownSynthetic { name: name.to_string(), hint }
        })?;
        let space = SearchSpace::parse(&(definition.text)()).expect("the set holds spaces");
        let planted = genome_of(&space, &(definition.planted)());
        assert!(space.contains(&planted), "the planted point of `{name}` is not valid");
        Ok(Synthetic { definition, space, planted })
    }

    pub fn name(&self) -> &'static str {
        self.definition.name
    }

    pub fn about(&self) -> &'static str {
        self.definition.about
    }

    /// A point that no other is faster than.
    pub fn optimum(&self) -> &Genome {
        &self.planted
    }

    /// The time of a point over that of the optimum, at least 1; or how the point fails.
    pub fn ratio(&self, genome: &Genome) -> Result<f64, VerdictClass> {
        let losses = (self.definition.losses)(&Point::new(self.space.parameters(), genome))?;
        assert!(
            losses.iter().all(|loss| *loss >= 0.0),
            "`{}` gives less than nothing: {losses:?}",
            self.name()
        );
        // A product, so that a loss costs the same share of the time whatever the others are.
        Ok(losses.iter().map(|loss| 1.0 + loss).product())
    }

    pub fn evaluate(&self, genome: &Genome) -> Outcome {
        let (class, objective_ns) = match self.ratio(genome) {
            Ok(ratio) => (VerdictClass::Ok, Some(OPTIMUM_NS * ratio)),
            Err(class) => (class, None),
        };
        Outcome::new(genome.clone(), class, objective_ns)
    }
}

fn genome_of(space: &SearchSpace, values: &str) -> Genome {
    let words: Vec<&str> = values.split_whitespace().collect();
    assert_eq!(words.len(), space.parameters().len(), "one value for each parameter");
    let position = |(parameter, word): (&Parameter, &&str)| {
        let at = parameter.values.iter().position(|value| value.to_string() == **word);
        at.unwrap_or_else(|| panic!("`{}` has no value `{word}`", parameter.name)) as u16
    };
    Genome::from(space.parameters().iter().zip(&words).map(position).collect::<Vec<u16>>())
}

#[derive(Clone, Copy, Debug)]
pub struct SyntheticOptions {
    pub seed: u64,
    /// Proposals in flight: this many are asked for before the strategy is told of the oldest.
    pub batch: usize,
    /// The budget; failed evaluations count.
    pub evaluations: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyntheticRun {
    /// The best time so far over the optimum, after each evaluation; infinite while every evaluation has failed.
    pub best: Vec<f64>,
    /// The strategy's own time before each of them, milliseconds.
    pub own_ms: Vec<f64>,
}

impl SyntheticRun {
    pub fn best_after(&self, evaluations: usize) -> f64 {
        let last = self.best.len().min(evaluations);
        last.checked_sub(1).map_or(f64::INFINITY, |last| self.best[last])
    }
}

/// Runs the strategy of that name to the end of the budget, or until it has no proposals left.
pub fn run(
    synthetic: &Synthetic,
    strategy: &str,
    options: SyntheticOptions,
) -> Result<SyntheticRun, UnknownStrategy> {
    // Creating the strategy counts as its own time before the first proposal.
    let mut own = Instant::now();
    let mut search = registry::create(strategy, &synthetic.space, options.seed)?;
    let (mut run, mut flight) = (SyntheticRun::default(), VecDeque::<Proposal>::new());
    let mut best = f64::INFINITY;
    while run.best.len() < options.evaluations {
        // Never more in flight than evaluations are left: a strategy must not plan for results that never come.
        let left = options.evaluations - run.best.len();
        flight.extend(search.ask(options.batch.clamp(1, left) - flight.len()));
        let Some(Proposal { genome, .. }) = flight.pop_front() else { break };
        run.own_ms.push(own.elapsed().as_secs_f64() * 1e3);
        let outcome = synthetic.evaluate(&genome);
        best = outcome.objective_ns.map_or(best, |time| best.min(time / OPTIMUM_NS));
        run.best.push(best);
        own = Instant::now();
        search.tell(&outcome);
    }
    Ok(run)
}
