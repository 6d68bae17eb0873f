//! Parameters that change nothing: whichever of their values is taken, the machine code and the launches are
//! the same. Either the source does not read them, or the compiler makes the same of all values.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::observation::Observation;

/// Pairs of variants from which a parameter is called dead; fewer say little, since a parameter may matter
/// in one branch of the source alone.
const PAIRS_MIN: usize = 3;

/// A parameter without effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadParameter {
    /// The parameter's name.
    pub parameter: String,
    /// Pairs of evaluated variants that differ in this parameter alone; each had the same machine code and the
    /// same launches.
    pub pairs: usize,
}

/// The dead parameters among `names`, which are in the order of the space.
pub fn dead<'a>(names: impl Iterator<Item = &'a str>, known: &[Observation<'_>]) -> Vec<DeadParameter> {
    // What was refused before it compiled has no code, and says nothing here.
    let built: Vec<&Observation<'_>> =
        known.iter().filter(|one| one.evaluation.code_hash.is_some()).collect();
    let dead = names.enumerate().filter_map(|(slot, name)| {
        let pairs = equal_pairs(slot, &built)?;
        (pairs >= PAIRS_MIN).then(|| DeadParameter { parameter: name.to_string(), pairs })
    });
    dead.collect()
}

/// How many pairs differ in one parameter alone; `None` where a pair has different code or launches.
fn equal_pairs(slot: usize, built: &[&Observation<'_>]) -> Option<usize> {
    // By all other positions: the variant that ran for the first of a group, and the size of the group.
    let mut groups: HashMap<Vec<u16>, (u64, usize)> = HashMap::new();
    for one in built {
        let mut others = one.genome.positions().to_vec();
        others.remove(slot);
        // Equal code alone is not enough: a parameter may decide the launches. The engine takes a variant for
        // another's twin only where both are equal.
        let ran = one.evaluation.duplicate_of.unwrap_or(one.evaluation.number);
        let group = groups.entry(others).or_insert((ran, 0));
        if group.0 != ran {
            return None;
        }
        group.1 += 1;
    }
    Some(groups.values().map(|(_, size)| size * (size - 1) / 2).sum())
}
