//! How a space hangs together: what its constraints link, and how large the diagrams of it are.

use crate::space::SearchSpace;

/// The make-up of a space's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceShape {
    /// Groups of two or more parameters that constraints link; other parameters are free.
    pub groups: usize,
    /// Parameters of the largest such group.
    pub largest: usize,
    /// Nodes of all diagrams, those of single parameters too.
    pub nodes: usize,
}

impl SearchSpace {
    /// What the constraints link.
    pub fn shape(&self) -> SpaceShape {
        let linked = || {
            let sizes = self.index.diagrams().iter().map(|diagram| diagram.layers.len());
            sizes.filter(|parameters| *parameters > 1)
        };
        let layers = self.index.diagrams().iter().flat_map(|diagram| &diagram.layers);
        SpaceShape {
            groups: linked().count(),
            largest: linked().max().unwrap_or(0),
            nodes: layers.map(|layer| layer.counts.len()).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::space;

    #[test]
    fn groups_are_what_constraints_link() {
        let check = |constraints: &str, groups: usize, largest: usize, nodes: usize| {
            let parameters =
                "parameters = { A = [1, 2, 3], B = [1, 2, 3], C = [1, 2], D = [1, 2], E = [1, 2] }";
            let space = space(&format!("{parameters}\nconstraints = [{constraints}]"));
            assert_eq!(space.shape(), SpaceShape { groups, largest, nodes }, "{constraints}");
        };
        check("", 0, 0, 5);
        check("'A > 1'", 0, 0, 5);
        check("'A == B'", 1, 2, 7);
        check("'A == B', 'C != E'", 2, 2, 8);
        check("'A == B', 'C != A'", 1, 3, 9);
    }
}
