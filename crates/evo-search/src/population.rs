//! The best points so far, best first, from which a search by variation draws its parents.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::memory::Member;

/// Members in order of objective; among equals, earlier ones come first.
#[derive(Debug)]
pub struct Population {
    members: Vec<Member>,
    capacity: usize,
}

impl Population {
    pub fn new(capacity: usize) -> Population {
        Population { members: Vec::with_capacity(capacity + 1), capacity }
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Adds a point unless it is a member already. The worst member leaves if there are too many.
    pub fn insert(&mut self, member: Member) {
        let before =
            |own: &Member| own.objective.total_cmp(&member.objective).then(own.arrival.cmp(&member.arrival));
        // Arrival breaks ties: a point that comes back from memory takes the place that it had.
        let at = self.members.partition_point(|own| before(own).is_lt());
        if at < self.capacity && self.members.iter().all(|own| own.genome != member.genome) {
            self.members.insert(at, member);
            self.members.truncate(self.capacity);
        }
    }

    pub fn clear(&mut self) {
        self.members.clear();
    }

    /// Draws a member by rank: each, best first, is taken with chance `greed`, and a uniform one if none was.
    pub fn pick(&self, greed: f64, rng: &mut ChaCha8Rng) -> Option<&Member> {
        self.members.iter().find(|_| rng.random_bool(greed)).or_else(|| self.any(rng))
    }

    pub fn any(&self, rng: &mut ChaCha8Rng) -> Option<&Member> {
        if self.members.is_empty() {
            None
        } else {
            Some(&self.members[rng.random_range(0..self.members.len())])
        }
    }
}

#[cfg(test)]
mod tests {
    use evo_space::genome::Genome;
    use evo_space::sample::seeded;

    use super::*;

    fn member(objective: f64, arrival: u64, gene: u16) -> Member {
        Member { objective, arrival, genome: Genome::from(vec![gene]) }
    }

    #[test]
    fn the_best_stay_in_order_and_nobody_twice() {
        let mut population = Population::new(3);
        for (arrival, objective) in [5.0, 3.0, 9.0, 3.0, 4.0, 8.0].into_iter().enumerate() {
            population.insert(member(objective, arrival as u64, arrival as u16));
        }
        population.insert(member(1.0, 9, 3));
        let order: Vec<u16> = population.members().iter().map(|own| own.genome.positions()[0]).collect();
        assert_eq!(order, [1, 3, 4]);
    }

    #[test]
    fn the_front_is_picked_more_often_and_everyone_sometimes() {
        let mut population = Population::new(5);
        assert_eq!(population.pick(0.3, &mut seeded(1)), None);
        (0..5).for_each(|at| population.insert(member(f64::from(at), 0, at)));
        let mut hits = [0; 5];
        let mut rng = seeded(1);
        for _ in 0..4000 {
            hits[usize::from(population.pick(0.4, &mut rng).unwrap().genome.positions()[0])] += 1;
        }
        assert!(hits.is_sorted_by(|a, b| a > b) && hits[4] > 100, "{hits:?}");
    }
}
