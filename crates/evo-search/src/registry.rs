//! Strategies by name, and those that learn nothing.

use evo_space::diagnostic::nearest;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

use super::evolve::Evolve;
pub use super::evolve::FULL;
use super::memory::Unseen;
use super::strategy::{Origin, Outcome, Proposal, Strategy};

/// Spaces with fewer valid points are swept whole by default, where the budget covers them.
pub const SWEPT_WHOLE_BELOW: u128 = 2_000;

type Make = for<'a> fn(&'a SearchSpace, u64) -> Box<dyn Strategy + 'a>;

const STRATEGIES: &[(&str, Make)] = &[
    (FULL, |space, seed| Box::new(Evolve::new(space, seed))),
    (Origin::EXHAUSTIVE.0, |space, seed| Box::new(Unguided::new(Origin::EXHAUSTIVE, space, seed))),
    (Origin::RANDOM.0, |space, seed| Box::new(Unguided::new(Origin::RANDOM, space, seed))),
];

pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    STRATEGIES.iter().map(|(name, _)| *name)
}

#[derive(Debug, Error)]
#[error("unknown strategy `{name}`")]
pub struct UnknownStrategy {
    name: String,
    hint: String,
}

impl UnknownStrategy {
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// Whether there is a strategy of that name, for callers that make it later.
pub fn check(name: &str) -> Result<(), UnknownStrategy> {
    find(name).map(drop)
}

pub fn create<'a>(
    name: &str,
    space: &'a SearchSpace,
    seed: u64,
) -> Result<Box<dyn Strategy + 'a>, UnknownStrategy> {
    Ok(find(name)?(space, seed))
}

fn find(name: &str) -> Result<Make, UnknownStrategy> {
    let known = STRATEGIES.iter().find(|(own, _)| *own == name);
    known.map(|(_, make)| *make).ok_or_else(|| {
        let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`? there are {list}"),
            None => format!("there are {list}"),
        };
        UnknownStrategy { name: name.to_string(), hint }
    })
}

/// A strategy that learns nothing from outcomes.
///
/// Uniform random search without repetition is the baseline that every other search is compared with. Its order is
/// a seeded shuffle of the valid points, so a resumed run continues where the first one stopped.
///
/// Exhaustive search proposes every valid point once: the default configuration first, the rest in a seeded order
/// that spreads over the space, so that a sweep that is stopped early is a uniform sample. Random draws take over
/// where the order cannot continue: in a space that is not counted exactly, when the order meets only holes, and in
/// a space that is too large to walk.
#[derive(Debug)]
struct Unguided<'a> {
    origin: Origin,
    unseen: Unseen<'a>,
    /// Draws what the order does not reach.
    rng: ChaCha8Rng,
}

impl<'a> Unguided<'a> {
    fn new(origin: Origin, space: &'a SearchSpace, seed: u64) -> Unguided<'a> {
        Unguided { origin, unseen: Unseen::new(space, seed), rng: seeded(seed) }
    }
}

impl Strategy for Unguided<'_> {
    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        // Claiming the default uses it up, so this waits until somebody asks for a point.
        if n > 0 {
            proposals.extend(self.unseen.default());
        }
        while proposals.len() < n {
            let next = self.unseen.next_in_order().or_else(|| self.unseen.draw(&mut self.rng));
            let Some(genome) = next else { break };
            proposals.push(Proposal::new(genome, self.origin));
        }
        proposals
    }

    fn learns(&self) -> bool {
        false
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.unseen.note(&outcome.genome);
    }

    fn is_done(&self) -> bool {
        self.unseen.is_exhausted()
    }
}
