//! The search space: parameters, constraints and the points that satisfy them.

use num_bigint::BigUint;

use crate::count::merge::{Edges, Layers, SharedNodes};
use crate::count::problem::Problem;
use crate::expr::ExprError;
use crate::genome::{Configuration, Genome};
use crate::index::{Allowed, Index, Limits, Points, Size};
pub use crate::parameter::{Constraint, Parameter};
use crate::value::Value;
use crate::watch::SpaceWatch;

/// Parameters, constraints and an index of the valid points in canonical order (lexicographic by value position).
///
/// Points are [`Genome`]s: for each parameter the position of its value. Most people read a space from a
/// text with [`SearchSpace::parse`]; it can be built from parts as well:
///
/// ```
/// use evo_space::{Constraint, Expr, Genome, Parameter, SearchSpace, Value};
///
/// let parameter = |name: &str, values: &[i64]| Parameter {
///     name: name.into(),
///     values: values.iter().copied().map(Value::Int).collect(),
///     default: 0,
///     help: None,
/// };
/// let divides = Constraint { expr: Expr::parse("A % B == 0")?, because: None, parameters: vec![0, 1], span: None };
/// let space = SearchSpace::new(vec![parameter("A", &[6, 8, 9]), parameter("B", &[2, 3])], vec![divides]);
/// assert_eq!(space.count(), 4);
/// let genome = Genome::from(vec![1, 1]);
/// assert!(!space.contains(&genome));
/// assert_eq!(space.violations(&genome)[0].expr.text(), "A % B == 0");
/// # Ok::<(), evo_space::ExprError>(())
/// ```
#[derive(Debug)]
pub struct SearchSpace {
    parameters: Vec<Parameter>,
    constraints: Vec<Constraint>,
    pub(crate) index: Index,
    has_default: bool,
}

#[derive(Clone, Debug)]
pub struct Violation<'a> {
    pub constraint: &'a Constraint,
    pub error: Option<ExprError>,
}

impl SearchSpace {
    /// Constraints must read parameters only, by name; each parameter has 1 to 65,535 values. An empty space is not an
    /// error here, and neither is one that is too entangled to count: see `is_exact`.
    pub fn new(parameters: Vec<Parameter>, constraints: Vec<Constraint>) -> SearchSpace {
        SearchSpace::with_limits(parameters, constraints, Limits::default())
    }

    /// The same with other limits on the work of construction; beyond them some constraints are left out
    /// of the index and checked point by point (`is_exact` is false then).
    pub fn with_limits(
        parameters: Vec<Parameter>,
        constraints: Vec<Constraint>,
        limits: Limits,
    ) -> SearchSpace {
        SearchSpace::watched(parameters, constraints, limits, &SpaceWatch::default())
    }

    /// The same under a watch. If that ended the work, the space is not the one that was asked for.
    pub(crate) fn watched(
        parameters: Vec<Parameter>,
        constraints: Vec<Constraint>,
        limits: Limits,
        watch: &SpaceWatch,
    ) -> SearchSpace {
        let problem = Problem::new(&parameters, &constraints.iter().collect::<Vec<_>>(), watch);
        let index = Index::new(&problem, limits);
        SearchSpace { parameters, constraints, index, has_default: true }
    }

    /// For a space that was recorded without a default that would deserve to be tried first.
    #[must_use]
    pub fn without_default(self) -> SearchSpace {
        SearchSpace { has_default: false, ..self }
    }

    /// Whether the default configuration was chosen by the author of the space.
    pub fn has_default(&self) -> bool {
        self.has_default
    }

    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    pub fn cartesian(&self) -> BigUint {
        cartesian(&self.parameters)
    }

    pub fn size(&self) -> Size {
        self.index.size()
    }

    /// Whether the valid points are counted. If not, the constraints entangle the parameters too much: a part of them
    /// is then checked point by point, indices have holes, and searches are bounded where this is said.
    pub fn is_exact(&self) -> bool {
        self.index.is_exact()
    }

    /// Number of valid points at any size. If the space is not exact, an upper bound; 0 is always exact.
    pub fn valid(&self) -> &BigUint {
        &self.index.total
    }

    /// As `valid`; `u128::MAX` stands for that many or more. Indices run below it.
    pub fn count(&self) -> u128 {
        self.index.count
    }

    /// The valid point at a canonical index. If the space is not exact, `None` also for a hole: a
    /// point that some constraint refuses after all.
    pub fn genome_at(&self, index: u128) -> Option<Genome> {
        self.index.point(index).map(Genome::from)
    }

    /// The canonical index of a valid point; `None` also where it does not fit 128 bits.
    pub fn index_of(&self, genome: &Genome) -> Option<u128> {
        self.index.index(genome.positions())
    }

    pub fn contains(&self, genome: &Genome) -> bool {
        self.index.contains(genome.positions())
    }

    pub fn violations(&self, genome: &Genome) -> Vec<&Constraint> {
        self.explain(genome).into_iter().map(|violation| violation.constraint).collect()
    }

    /// Constraints that the point violates, each with the reason if it has no value there.
    pub fn explain(&self, genome: &Genome) -> Vec<Violation<'_>> {
        let configuration = self.configuration(genome);
        // By the tree and not the compiled form, because only the tree says why there is no value.
        let violation = |constraint| match Constraint::evaluate(constraint, &configuration) {
            Ok(true) => None,
            value => Some(Violation { constraint, error: value.err() }),
        };
        self.constraints.iter().filter_map(violation).collect()
    }

    /// In canonical order. If the space is not exact, the way from one to the next can be long.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Genome> + '_> {
        Box::new(Points::new(&self.index).map(Genome::from))
    }

    /// Those from an index on. If the space is not exact, indices are not numbers of points.
    pub fn iter_from(&self, index: u128) -> Box<dyn Iterator<Item = Genome> + '_> {
        Box::new(Points::starting_at(&self.index, index).map(Genome::from))
    }

    /// The valid points with the given positions at the given slots; a slot that is fixed twice has to
    /// be at both. A slot or position that the space does not have leaves nothing. Parameters keep all of their values.
    #[must_use]
    pub fn fixed(&self, fixed: &[(usize, u16)]) -> SearchSpace {
        let mut allowed: Allowed = vec![None; self.parameters.len()];
        for (slot, position) in fixed {
            match allowed.get_mut(*slot) {
                Some(Some(before)) if !before.contains(position) => before.clear(),
                Some(positions) => *positions = Some(vec![*position]),
                None => allowed.fill(Some(Vec::new())),
            }
        }
        SearchSpace {
            parameters: self.parameters.clone(),
            constraints: self.constraints.clone(),
            index: self.index.restricted(&allowed),
            has_default: self.has_default,
        }
    }

    /// Positions that occur in some valid point, ascending. If the space is not exact, some may occur in none.
    pub fn effective_domains(&self) -> Vec<Vec<u16>> {
        self.index.domains().to_vec()
    }

    /// Names and values of a point, whose positions must be inside this space's value lists.
    pub fn configuration(&self, genome: &Genome) -> Configuration {
        let pairs = self.parameters.iter().zip(genome.positions());
        Configuration::new(
            pairs.map(|(p, at)| (p.name.clone(), p.values[usize::from(*at)].clone())).collect(),
        )
    }

    /// The point of a configuration; `None` if a value is not among the parameter's, or is missing.
    pub fn genome(&self, configuration: &Configuration) -> Option<Genome> {
        let position = |parameter: &Parameter| {
            let value: &Value = configuration.get(&parameter.name)?;
            parameter.position(value).map(|at| at as u16)
        };
        self.parameters.iter().map(position).collect::<Option<Vec<u16>>>().map(Genome::from)
    }

    #[must_use]
    pub fn with_default(mut self, genome: &Genome) -> SearchSpace {
        for (parameter, position) in self.parameters.iter_mut().zip(genome.positions()) {
            parameter.default = usize::from(*position);
        }
        self
    }

    pub fn default_genome(&self) -> Genome {
        Genome::from(self.parameters.iter().map(|parameter| parameter.default as u16).collect::<Vec<u16>>())
    }

    /// The space whose valid points are the listed ones; it has no constraints. Points have a position
    /// inside each parameter's values; one that is listed twice counts once.
    pub fn of_points(parameters: Vec<Parameter>, mut points: Vec<Genome>) -> SearchSpace {
        points.sort_unstable();
        points.dedup();
        if BigUint::from(points.len()) == cartesian(&parameters) {
            return SearchSpace::new(parameters, Vec::new());
        }
        let index = Index::listed(layers(&points, parameters.len()), parameters.len());
        SearchSpace { parameters, constraints: Vec::new(), index, has_default: true }
    }
}

pub(crate) fn cartesian(parameters: &[Parameter]) -> BigUint {
    parameters.iter().fold(BigUint::from(1u8), |product, parameter| product * parameter.values.len())
}

/// Of sorted points: from the last layer up, prefixes with the same completions share a node.
fn layers(points: &[Genome], slots: usize) -> Layers {
    let mut nodes: Vec<Vec<Edges>> = Vec::with_capacity(slots);
    // The node of the layer below that follows each point; points with a common prefix stand together.
    let mut below = vec![0u32; points.len()];
    for slot in (0..slots).rev() {
        let (mut layer, mut start) = (SharedNodes::default(), 0);
        for same in points.chunk_by(|a, b| a.positions()[..slot] == b.positions()[..slot]) {
            let end = start + same.len();
            let children = same.iter().zip(&below[start..end]);
            let mut edges: Vec<(u16, u32)> =
                children.map(|(point, child)| (point.positions()[slot], *child)).collect();
            edges.dedup();
            below[start..end].fill(layer.number(&edges));
            start = end;
        }
        nodes.push(layer.nodes);
    }
    nodes.reverse();
    Layers { slots: (0..slots).collect(), nodes }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;

    use super::*;
    use crate::count::RelaxLimits;
    use crate::expr::Expr;
    use crate::sample::seeded;
    use crate::testing::{is_uniform, space};

    const LINKED: &str = "constraints = ['A * B + C <= 14', 'B % D != 1', '(A + 2 * B + 3 * C + 5 * D) % 7 < 3', 'E > F']\n\
                          [parameters]\nA = [1, 2, 3, 4, 5]\nB = [1, 2, 3, 4, 5]\nC = [1, 2, 3, 4, 5]\nD = [2, 3, 4]\n\
                          E = [1, 2, 3]\nF = [1, 2, 3]\nG = [1, 2]";

    #[test]
    fn counts_beyond_128_bits_are_exact() {
        let values = (0..1000).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
        let lines = (0..50).map(|at| format!("P{at} = [{values}]\n")).collect::<String>();
        let space = space(&format!("constraints = ['P3 < P7']\n[parameters]\n{lines}"));
        assert_eq!(space.cartesian(), BigUint::from(1000u32).pow(50));
        assert_eq!(*space.valid(), BigUint::from(1000u32).pow(48) * 499_500u32);
        assert_eq!(space.count(), u128::MAX);
        let index = u128::MAX / 3;
        let genome = space.genome_at(index).unwrap();
        assert_eq!(space.index_of(&genome), Some(index));
        assert!(space.contains(&space.sample(&mut seeded(1)).unwrap()));
    }

    #[test]
    fn a_linked_group_beyond_128_bits_is_counted_and_sampled() {
        let values = (0..150).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
        let lines = (0..40).map(|at| format!("P{at} = [{values}]\n")).collect::<String>();
        let chain = (1..40).map(|at| format!("'P{} <= P{at}'", at - 1)).collect::<Vec<_>>().join(", ");
        let space = space(&format!("constraints = [{chain}]\n[parameters]\n{lines}"));
        // Ascending sequences of 40 out of 150: multisets, 189 over 40.
        let binomial = (1..=40u32).fold(BigUint::from(1u8), |all, k| all * (149 + k) / k);
        assert!(binomial.bits() > 128 && *space.valid() == binomial);
        let mut rng = seeded(5);
        let mut sum = 0.0;
        for _ in 0..400 {
            let genome = space.sample(&mut rng).unwrap();
            assert!(space.contains(&genome) && space.violations(&genome).is_empty());
            sum += f64::from(genome.positions()[0]);
        }
        // The deviation of the least is about its average; 400 draws divide it by 20.
        let (least, expected) = (sum / 400.0, 149.0 / 41.0);
        assert!((least - expected).abs() < 5.0 * expected / 20.0, "{least}");
        for index in [0, 12345, 1 << 90, u128::MAX - 1] {
            let genome = space.genome_at(index).unwrap();
            assert_eq!(space.index_of(&genome), Some(index));
        }
        assert_eq!(space.genome_at(u128::MAX), None);
        // The index of the last point does not fit 128 bits, but the point is as valid as any.
        let last = Genome::from(vec![149; 40]);
        assert!(space.contains(&last));
        assert_eq!(space.index_of(&last), None);
    }

    #[test]
    fn sampling_is_uniform() {
        let counted = space(
            "parameters = { A = [1, 2, 3, 4, 5], B = [1, 2, 3, 4, 5], C = [0, 1] }\nconstraints = ['A * B <= 6']",
        );
        let linked = space(LINKED);
        let limits = Limits { steps: 1, relax: RelaxLimits { steps: 20, trials: 8, edges: 1000 } };
        let rejecting =
            SearchSpace::with_limits(linked.parameters().to_vec(), linked.constraints().to_vec(), limits);
        assert!(!rejecting.is_exact());
        for space in [&counted, &counted.fixed(&[(0, 1)]), &rejecting] {
            let points: Vec<Genome> = space.iter().collect();
            let mut seen = vec![0f64; points.len()];
            let mut rng = seeded(11);
            for _ in 0..100 * points.len() {
                seen[points.binary_search(&space.sample(&mut rng).unwrap()).unwrap()] += 1.0;
            }
            assert!(is_uniform(&seen), "{seen:?}");
        }
    }

    #[test]
    fn fixed_twice_has_to_agree() {
        let space =
            space("parameters = { A = [1, 2, 3], B = [1, 2, 3], C = [1, 2] }\nconstraints = ['A <= B']");
        let check = |fixed: &[(usize, u16)], count: u128| {
            let part = space.fixed(fixed);
            assert_eq!((part.count(), part.iter().count() as u128), (count, count), "{fixed:?}");
            assert_eq!(part.sample(&mut seeded(1)).is_none(), count == 0, "{fixed:?}");
        };
        check(&[], 12);
        check(&[(0, 1)], 4);
        check(&[(0, 1), (0, 1), (2, 0)], 2);
        check(&[(0, 1), (0, 2), (0, 1)], 0);
        check(&[(0, 7)], 0);
        check(&[(3, 0)], 0);
        check(&[(3, 0), (0, 1)], 0);
        check(&[(0, 2), (1, 0)], 0);
    }

    #[test]
    fn thirty_hashed_parameters_are_searched() {
        let values = (1..=60).map(|value| (value * 7919 % 10_007).to_string()).collect::<Vec<_>>().join(", ");
        let lines = (0..30).map(|at| format!("P{at} = [{values}]\n")).collect::<String>();
        let free = space(&format!("[parameters]\n{lines}"));
        let sum = (0..30).map(|at| format!("P{at} * P{} * {}", (at + 7) % 30, at + 2)).collect::<Vec<_>>();
        let expr = Expr::parse(&format!("({}) % 1000003 == 17", sum.join(" + "))).unwrap();
        let constraint = Constraint { expr, because: None, parameters: (0..30).collect(), span: None };
        let limits = Limits { steps: 100_000, ..Limits::default() };
        let space = SearchSpace::with_limits(free.parameters().to_vec(), vec![constraint], limits);
        assert!(!space.is_exact());
        assert!(matches!(space.size(), Size::Unknown { estimate: 0.0, spread, .. } if spread > 0.0));
        let mut rng = seeded(2);
        let sample = space.sample(&mut rng);
        assert!(sample.is_none_or(|genome| space.contains(&genome)));
        let repaired = space.repair(&space.default_genome(), &mut rng);
        assert!(repaired.is_none_or(|genome| space.contains(&genome)));
    }
}
