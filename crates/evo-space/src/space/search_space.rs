//! The search space: parameters, constraints and the points that satisfy them.

use num_bigint::BigUint;

use crate::constraint::Constraint;
use crate::count::problem::Problem;
use crate::expr::ExprError;
use crate::genome::{Configuration, Genome};
use crate::index::{Index, Limits, Size};
use crate::parameter::Parameter;
use crate::value::Value;
use crate::watch::SpaceWatch;

/// Parameters, constraints and an index of the valid points in canonical order (lexicographic by
/// value position).
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

/// A constraint that a point does not satisfy.
#[derive(Clone, Debug)]
pub struct Violation<'a> {
    /// The constraint.
    pub constraint: &'a Constraint,
    /// Set when the constraint has no value there, such as a division by zero.
    pub error: Option<ExprError>,
}

impl SearchSpace {
    /// Builds the index of the valid points. Constraints must read parameters only, by name; each
    /// parameter has 1 to 65,535 values. An empty space is not an error here, and neither is one that is
    /// too entangled to count: see `is_exact`.
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

    /// A space without constraints whose index says it all.
    pub(crate) fn of_index(parameters: Vec<Parameter>, index: Index) -> SearchSpace {
        SearchSpace { parameters, constraints: Vec::new(), index, has_default: true }
    }

    /// The same space without a default configuration that would deserve to be tried first: it was
    /// recorded without one.
    #[must_use]
    pub fn without_default(self) -> SearchSpace {
        SearchSpace { has_default: false, ..self }
    }

    /// Whether the default configuration was chosen by the author of the space.
    pub fn has_default(&self) -> bool {
        self.has_default
    }

    /// The parameters in declared order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The constraints in declared order.
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Number of points, valid or not.
    pub fn cartesian(&self) -> BigUint {
        cartesian(&self.parameters)
    }

    /// The number of valid points, or what is known about it.
    pub fn size(&self) -> Size {
        self.index.size()
    }

    /// Whether the valid points are counted. If not, the constraints entangle the parameters too
    /// much: a part of them is then checked point by point, indices have holes, and searches are
    /// bounded where this is said.
    pub fn is_exact(&self) -> bool {
        self.index.is_exact()
    }

    /// Number of valid points, exact at any size. If the space is not exact, an upper bound; 0 is
    /// always exact.
    pub fn valid(&self) -> &BigUint {
        self.index.total()
    }

    /// Number of valid points, or an upper bound like `valid`; `u128::MAX` stands for that many or
    /// more. Indices run below it.
    pub fn count(&self) -> u128 {
        u128::try_from(self.index.total()).unwrap_or(u128::MAX)
    }

    /// The sum of the cartesian ranks of all valid points (a point's rank is its index among all
    /// points, valid or not): it tells sets of equal size apart. If the space is not exact, the sum over
    /// all indices, holes included.
    pub fn rank_sum(&self) -> BigUint {
        let mut strides = vec![BigUint::from(1u8); self.parameters.len()];
        for slot in (1..strides.len()).rev() {
            strides[slot - 1] = &strides[slot] * self.parameters[slot].values.len();
        }
        self.index.weighted_sum(|slot, position| &strides[slot] * position)
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

    /// Whether the point satisfies every constraint.
    pub fn contains(&self, genome: &Genome) -> bool {
        self.index.contains(genome.positions())
    }

    /// Constraints that the point violates.
    pub fn violations(&self, genome: &Genome) -> Vec<&Constraint> {
        self.explain(genome).into_iter().map(|violation| violation.constraint).collect()
    }

    /// Constraints that the point violates, each with the reason if it has no value there.
    pub fn explain(&self, genome: &Genome) -> Vec<Violation<'_>> {
        let configuration = self.configuration(genome);
        let violation = |constraint| {
            // By the tree and not the compiled form, because only the tree says why there is no value.
            let value = Constraint::evaluate(constraint, &configuration);
            let error = match value {
                Ok(true) => return None,
                Ok(false) => None,
                Err(error) => Some(error),
            };
            Some(Violation { constraint, error })
        };
        self.constraints.iter().filter_map(violation).collect()
    }

    /// All valid points in canonical order, lazily. If the space is not exact, the way from one to
    /// the next can be long.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Genome> + '_> {
        Box::new(self.index.iter().map(Genome::from))
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

    /// The same space with another default: each parameter's is the value that it has in a point of
    /// this space.
    #[must_use]
    pub fn with_default(mut self, genome: &Genome) -> SearchSpace {
        for (parameter, position) in self.parameters.iter_mut().zip(genome.positions()) {
            parameter.default = usize::from(*position);
        }
        self
    }

    /// The point of all defaults; it may be invalid.
    pub fn default_genome(&self) -> Genome {
        Genome::from(self.parameters.iter().map(|parameter| parameter.default as u16).collect::<Vec<u16>>())
    }
}

/// Number of points, valid or not.
pub(crate) fn cartesian(parameters: &[Parameter]) -> BigUint {
    parameters.iter().fold(BigUint::from(1u8), |product, parameter| product * parameter.values.len())
}
