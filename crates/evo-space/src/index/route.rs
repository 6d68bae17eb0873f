//! The way between index and point for spaces of fewer than 2^64 points, which is nearly all: the same
//! descent as in `Index`, over tables that lie flat in slot order and with 64-bit arithmetic. The 50
//! parameters of the tensor contraction take 0.6 µs each way.
//!
//! What a step at one slot skips is multiplied by the completions of the other groups: a constant for groups that have
//! not begun, 1 for those that have ended, so that only groups that interleave with this slot are looked up.

use super::diagram::Diagram;

/// Larger diagrams are not copied: 64 MiB.
const MAX_EDGES: usize = 4 << 20;

const FEW_GROUPS: usize = 32;

#[derive(Debug)]
pub struct Route {
    stops: Vec<RouteStop>,
    /// For each stop and node the beginning of its edges; each stop has one entry more than nodes.
    starts: Vec<u32>,
    edges: Vec<RouteEdge>,
    counts: Vec<u64>,
    open: Vec<Open>,
    groups: usize,
    total: u64,
}

#[derive(Debug)]
struct RouteStop {
    group: u32,
    starts: u32,
    open: (u32, u32),
    later: u64,
}

#[derive(Clone, Copy, Debug)]
struct RouteEdge {
    position: u16,
    child: u32,
    before: u64,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    group: u32,
    counts: u32,
}

impl Route {
    /// The tables of diagrams that decide all slots at these places (group and layer), if there is a
    /// point, the points are fewer than 2^64 and the tables are not too large.
    pub fn new(diagrams: &[Diagram], places: &[(usize, usize)]) -> Option<Route> {
        let total = diagrams
            .iter()
            .try_fold(1u64, |product, diagram| product.checked_mul(u64::try_from(&diagram.total).ok()?))?;
        let edges = |diagram: &Diagram| {
            diagram.layers.iter().flat_map(|layer| layer.nodes()).map(<[_]>::len).sum::<usize>()
        };
        if total == 0 || diagrams.iter().map(edges).sum::<usize>() > MAX_EDGES {
            return None;
        }
        let mut route = Route {
            stops: Vec::with_capacity(places.len()),
            starts: Vec::new(),
            edges: Vec::new(),
            counts: Vec::new(),
            open: Vec::new(),
            groups: diagrams.len(),
            total,
        };
        // A stop needs to know where the next stops of other groups begin.
        let firsts: Vec<u32> = places.iter().map(|place| route.copy(diagrams, *place)).collect();
        for (slot, (group, _)) in places.iter().enumerate() {
            route.connect(diagrams, *group, slot, &firsts);
        }
        Some(route)
    }

    fn copy(&mut self, diagrams: &[Diagram], (group, depth): (usize, usize)) -> u32 {
        let layer = &diagrams[group].layers[depth];
        let stop =
            RouteStop { group: group as u32, starts: self.starts.len() as u32, open: (0, 0), later: 1 };
        self.stops.push(stop);
        let first = self.counts.len() as u32;
        for edges in layer.nodes() {
            self.starts.push(self.edges.len() as u32);
            self.edges.extend(edges.iter().map(|edge| RouteEdge {
                position: edge.position,
                child: edge.child,
                // The total is below 2^64, so every count of a node or an edge fits as well.
                before: edge.before as u64,
            }));
        }
        self.counts.extend(layer.counts.iter().map(|count| *count as u64));
        self.starts.push(self.edges.len() as u32);
        first
    }

    fn connect(&mut self, diagrams: &[Diagram], own: usize, slot: usize, firsts: &[u32]) {
        let begin = self.open.len() as u32;
        let mut later = 1;
        for (group, diagram) in diagrams.iter().enumerate().filter(|(group, _)| *group != own) {
            match diagram.layers.iter().position(|layer| layer.slot > slot) {
                None => {}
                Some(0) => later *= diagram.layers[0].counts[0] as u64,
                Some(next) => {
                    let counts = firsts[diagram.layers[next].slot];
                    self.open.push(Open { group: group as u32, counts });
                }
            }
        }
        self.stops[slot].open = (begin, self.open.len() as u32);
        self.stops[slot].later = later;
    }

    pub fn point(&self, index: u128) -> Option<Vec<u16>> {
        let mut index = u64::try_from(index).ok().filter(|index| *index < self.total)?;
        let point = self.with_nodes(|nodes| {
            let step = |stop: &RouteStop| {
                let edges = self.edges_of(stop, nodes);
                // A forced value has no completions before it.
                if let [only] = edges {
                    nodes[stop.group as usize] = only.child;
                    return only.position;
                }
                let rest = self.completions_elsewhere(stop, nodes);
                // A 64-bit division costs more than the comparison, and spaces with one group always have a rest of 1.
                let own = if rest == 1 { index } else { index / rest };
                // Where each edge has one completion, the index is the number of the edge.
                let edge = match edges.get(own as usize) {
                    Some(edge) if edge.before == own => edge,
                    _ => &edges[edges.partition_point(|edge| edge.before <= own) - 1],
                };
                index -= edge.before * rest;
                nodes[stop.group as usize] = edge.child;
                edge.position
            };
            self.stops.iter().map(step).collect()
        });
        Some(point)
    }

    pub fn index(&self, positions: &[u16]) -> Option<u64> {
        self.with_nodes(|nodes| {
            let mut index = 0;
            for (stop, position) in self.stops.iter().zip(positions) {
                let edge = find(self.edges_of(stop, nodes), *position)?;
                // Cannot overflow: each term counts points that come before this one.
                index += edge.before * self.completions_elsewhere(stop, nodes);
                nodes[stop.group as usize] = edge.child;
            }
            Some(index)
        })
    }

    fn edges_of(&self, stop: &RouteStop, nodes: &[u32]) -> &[RouteEdge] {
        let start = (stop.starts + nodes[stop.group as usize]) as usize;
        &self.edges[self.starts[start] as usize..self.starts[start + 1] as usize]
    }

    fn completions_elsewhere(&self, stop: &RouteStop, nodes: &[u32]) -> u64 {
        let open = &self.open[stop.open.0 as usize..stop.open.1 as usize];
        let counts = open.iter().map(|open| self.counts[(open.counts + nodes[open.group as usize]) as usize]);
        counts.fold(stop.later, |product, count| product * count)
    }

    /// Gives each group's next node, which is its first one, without allocating if there are few.
    fn with_nodes<T>(&self, work: impl FnOnce(&mut [u32]) -> T) -> T {
        if self.groups <= FEW_GROUPS {
            work(&mut [0; FEW_GROUPS][..self.groups])
        } else {
            work(&mut vec![0; self.groups])
        }
    }
}

/// The edge for a value position; most nodes have all positions between their least and greatest.
fn find(edges: &[RouteEdge], position: u16) -> Option<&RouteEdge> {
    let guess = usize::from(position.checked_sub(edges.first()?.position)?);
    match edges.get(guess) {
        Some(edge) if edge.position == position => Some(edge),
        _ => edges.binary_search_by_key(&position, |edge| edge.position).ok().map(|at| &edges[at]),
    }
}

#[cfg(test)]
mod tests {
    use crate::space::SearchSpace;
    use crate::testing::{check_against_brute_force, space};

    #[track_caller]
    fn routed(text: &str) -> SearchSpace {
        let space = space(text);
        assert!(space.index.route().is_some(), "a small space has a route");
        space
    }

    #[test]
    fn small_spaces_have_a_route() {
        let interleaved = "constraints = ['A + D < 5', 'B != E', 'C * F % 2 == 0', 'G > 1']\n[parameters]\n\
             A = [1, 2, 3]\nB = [1, 2, 3]\nC = [1, 2, 3]\nD = [3, 1, 2]\nE = [2, 3]\nF = [1, 2, 4]\nG = [1, 2, 3]";
        let gaps_between_positions = "constraints = ['(A + B) % 3 != 1', 'A * C > B', 'B != 2']\n[parameters]\n\
             A = [1, 2, 3, 4, 5]\nB = [1, 2, 3, 4, 6]\nC = [1, 3]";
        let single_value = "[parameters]\nA = [7]\nB = ['x', 'y']\nC = [1, 2, 3]";
        for text in [interleaved, gaps_between_positions, single_value] {
            check_against_brute_force(&routed(text));
        }
        let more_groups_than_fit_the_stack: Vec<String> =
            (0..40).map(|at| format!("P{at} = [{}]", ["1", "1, 2"][at % 7 / 6])).collect();
        let names = more_groups_than_fit_the_stack.join("\n");
        check_against_brute_force(&routed(&format!(
            "constraints = ['P0 + P39 == 2']\n[parameters]\n{names}"
        )));
    }

    #[test]
    fn spaces_of_two_to_the_64_points_and_more_have_none() {
        let cube = |count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("P{at} = [1, 2]")).collect();
            space(&format!("[parameters]\n{}", names.join("\n")))
        };
        assert!(cube(63).index.route().is_some());
        assert!(cube(64).index.route().is_none());
    }
}
