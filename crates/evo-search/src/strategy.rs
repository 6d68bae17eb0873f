//! The interface of all search algorithms: ask for points, tell what came of them.
//!
//! A strategy compiles, times and prints nothing, so that any of them runs on any device. It is
//! deterministic: the same seed and the same outcomes in the same order give the same proposals.

pub use evo_protocol::evaluation::Expectation;
pub use evo_protocol::facts::Facts;
pub use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;

use super::origin::Origin;
use super::prior::PriorStudy;

/// A proposed point and the operator that proposed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The point.
    pub genome: Genome,
    /// The operator, for the journal.
    pub origin: Origin,
    /// What a model expects of the point; `None` where no model was asked.
    pub expected: Option<Expectation>,
    /// The timed problem that it is proposed for, by position; `None` where it is for all of them.
    pub target: Option<usize>,
}

impl Proposal {
    /// A proposal without an expectation.
    pub fn new(genome: Genome, origin: Origin) -> Proposal {
        Proposal { genome, origin, expected: None, target: None }
    }
}

/// A time on one of the timed problems.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProblemTime {
    /// Nanoseconds.
    pub time_ns: f64,
    /// Whether its samples were cut short, so that it is a lower bound.
    pub is_bound: bool,
}

/// What a strategy learns of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The point.
    pub genome: Genome,
    /// What became of it.
    pub class: VerdictClass,
    /// The number to minimize, nanoseconds where it is a time: a lower bound where the class is `Slow`,
    /// `None` for failures.
    pub objective_ns: Option<f64>,
    /// What the compiler said of the variant; `None` where it was not compiled or nothing is known.
    pub facts: Option<Facts>,
    /// Its time on each timed problem, in order; `None` for a problem on which it was not timed. Empty where problems
    /// are not searched apart.
    pub times: Vec<Option<ProblemTime>>,
    /// The problem that it was proposed for, by position.
    pub target: Option<usize>,
}

impl Outcome {
    /// An outcome without compiled facts and without times of single problems.
    pub fn new(genome: Genome, class: VerdictClass, objective_ns: Option<f64>) -> Outcome {
        Outcome { genome, class, objective_ns, facts: None, times: Vec::new(), target: None }
    }
}

/// A search algorithm that is asked for points and told what came of them.
///
/// Any number of proposals may be in flight, and their outcomes may come in any order. Strategies of
/// this crate are made by [`create`](crate::create); an own one needs four methods:
///
/// ```
/// use evo_search::{Origin, Outcome, Proposal, Strategy};
/// use evo_space::genome::Genome;
/// use evo_space::space::SearchSpace;
///
/// /// Proposes every point once, in the order of the space.
/// struct InOrder {
///     left: Vec<Genome>,
/// }
///
/// impl Strategy for InOrder {
///     fn name(&self) -> &str {
///         "in_order"
///     }
///
///     fn ask(&mut self, n: usize) -> Vec<Proposal> {
///         let taken = self.left.len().min(n);
///         let points = self.left.drain(..taken);
///         points.map(|genome| Proposal::new(genome, Origin::Other("next"))).collect()
///     }
///
///     // The order does not depend on outcomes, but a point that a resumed study has measured is not
///     // proposed again.
///     fn tell(&mut self, outcome: &Outcome) {
///         self.left.retain(|genome| *genome != outcome.genome);
///     }
///
///     fn is_done(&self) -> bool {
///         self.left.is_empty()
///     }
/// }
///
/// let space = SearchSpace::parse("[parameters]\nTILE = [1, 2, 4]\nUNROLL = [1, 2]\n").unwrap();
/// let mut strategy = InOrder { left: space.iter().collect() };
/// assert_eq!(strategy.ask(4).len(), 4);
/// assert_eq!(strategy.ask(4).len(), 2);
/// assert!(strategy.is_done());
/// ```
pub trait Strategy {
    /// The name on the command line.
    fn name(&self) -> &str;

    /// Up to `n` proposals, valid and never proposed before. Fewer, or none, if the strategy has to wait
    /// for outcomes or has nothing left.
    fn ask(&mut self, n: usize) -> Vec<Proposal>;

    /// Learns one outcome. It is also called, in journal order, for every evaluation of a resumed study,
    /// with points that this instance never proposed.
    fn tell(&mut self, outcome: &Outcome);

    /// Whether a proposal that waited for a compiler is still worth compiling, now that other outcomes are known.
    /// `false` ends it as in [`Strategy::reconsider`]. The engine asks only after an outcome, and compiles some
    /// variants without asking.
    fn is_worth_compiling(&mut self, _genome: &Genome) -> bool {
        true
    }

    /// Whether proposals depend on outcomes. Where they do not, nothing is lost by asking for many at once.
    fn learns(&self) -> bool {
        true
    }

    /// Whether a variant is still worth running, now that it is compiled. The engine asks when the device
    /// could take the variant. `false` ends the variant with the verdict `passed_over`, which is told like
    /// any other, and the strategy is not asked about the variant again. The engine runs some variants
    /// without asking.
    fn reconsider(&mut self, _genome: &Genome, _facts: &Facts) -> bool {
        true
    }

    /// Takes what earlier studies of the same kernel measured, before the first proposal. Returns whether
    /// the strategy can use them.
    fn inherit(&mut self, _studies: &[PriorStudy]) -> bool {
        false
    }

    /// How many proposals in flight the strategy makes good use of, given what it knows. With more, each
    /// evaluation teaches it less, which matters where evaluations are what is scarce; where compilers would
    /// otherwise idle and the budget is time, more are still worth having. [`Strategy::ask`] does not enforce it.
    fn useful_in_flight(&self) -> usize {
        usize::MAX
    }

    /// How many proposals in flight the strategy makes good use of where they are evaluated on so many devices at once,
    /// which idle if there are fewer.
    fn useful_on_lanes(&self, lanes: usize) -> usize {
        self.useful_in_flight().saturating_mul(lanes.max(1))
    }

    /// Up to `n` points that it would propose next as things stand, most likely first. Asking changes nothing of what it
    /// proposes. An engine may compile them while compilers idle: a point that is then proposed is ready at once, and
    /// was still chosen with everything known. None from strategies that cannot tell.
    fn likely(&self, _n: usize) -> Vec<Genome> {
        Vec::new()
    }

    /// Whether the strategy has nothing left to propose, whatever it is told.
    fn is_done(&self) -> bool;
}
