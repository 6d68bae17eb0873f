//! A space of listed points: recordings often tell which configurations there were, but not why.

use std::collections::HashMap;

use num_bigint::BigUint;

use crate::count::merge::{Edges, Layers};
use crate::genome::Genome;
use crate::index::Index;
use crate::parameter::Parameter;
use crate::space::{SearchSpace, cartesian};

impl SearchSpace {
    /// The space whose valid points are the listed ones; it has no constraints. Points have a position
    /// inside each parameter's values; one that is listed twice counts once.
    pub fn of_points(parameters: Vec<Parameter>, mut points: Vec<Genome>) -> SearchSpace {
        points.sort_unstable();
        points.dedup();
        if BigUint::from(points.len()) == cartesian(&parameters) {
            // The whole product: without constraints each parameter is a group of its own and needs no
            // common diagram.
            return SearchSpace::new(parameters, Vec::new());
        }
        let index = Index::listed(layers(&points, parameters.len()), parameters.len());
        SearchSpace::of_index(parameters, index)
    }
}

/// The diagram of sorted points: from the last layer up, prefixes with the same completions share a
/// node.
fn layers(points: &[Genome], slots: usize) -> Layers {
    let mut nodes: Vec<Vec<Edges>> = Vec::with_capacity(slots);
    // The node of the layer below that follows each point; points with a common prefix stand together.
    let mut below = vec![0u32; points.len()];
    for slot in (0..slots).rev() {
        let (mut layer, mut shared) = (Vec::<Edges>::new(), HashMap::<Edges, u32>::new());
        let mut start = 0;
        while start < points.len() {
            let prefix = &points[start].positions()[..slot];
            let same = points[start..].iter().take_while(|point| point.positions().starts_with(prefix));
            let end = start + same.count();
            let mut edges: Vec<(u16, u32)> =
                (start..end).map(|at| (points[at].positions()[slot], below[at])).collect();
            // Points with the same value here share the rest of their prefix too, so they have one node
            // below.
            edges.dedup();
            let number = *shared.entry(edges.into_boxed_slice()).or_insert_with_key(|edges| {
                layer.push(edges.clone());
                (layer.len() - 1) as u32
            });
            below[start..end].fill(number);
            start = end;
        }
        nodes.push(layer);
    }
    nodes.reverse();
    Layers { slots: (0..slots).collect(), nodes }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::Value;

    fn parameters() -> Vec<Parameter> {
        let parameter = |(name, count): (&str, i64)| Parameter {
            name: name.into(),
            values: (0..count).map(Value::Int).collect(),
            default: 0,
            help: None,
        };
        [("A", 3), ("B", 2), ("C", 4)].map(parameter).to_vec()
    }

    proptest! {
        #[test]
        fn valid_points_are_the_listed_ones(listed in prop::collection::vec((0u16..3, 0u16..2, 0u16..4), 1..30)) {
            let listed: Vec<Genome> =
                listed.into_iter().map(|(a, b, c)| Genome::from(vec![a, b, c])).collect();
            let space = SearchSpace::of_points(parameters(), listed.clone());
            let mut expected = listed;
            expected.sort();
            expected.dedup();
            prop_assert!(space.is_exact());
            prop_assert_eq!(space.count(), expected.len() as u128);
            for (index, genome) in expected.iter().enumerate() {
                prop_assert_eq!(space.index_of(genome), Some(index as u128));
                prop_assert!(space.contains(genome));
            }
            prop_assert_eq!(space.iter().collect::<Vec<Genome>>(), expected);
        }
    }

    #[test]
    fn without_points_the_space_is_empty() {
        let space = SearchSpace::of_points(parameters(), Vec::new());
        assert_eq!(space.count(), 0);
        assert!(!space.contains(&Genome::from(vec![0, 0, 0])));
    }
}
