//! The interface of all search algorithms. A strategy compiles, times and prints nothing, so that any of them runs on
//! any device. The same seed and the same outcomes in the same order give the same proposals.

use std::fmt;

use evo_protocol::evaluation::DEFAULT_ORIGIN;
use evo_space::genome::Genome;

pub use evo_protocol::evaluation::Expectation;
pub use evo_protocol::evaluation::Facts;
pub use evo_protocol::verdict::VerdictClass;

#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    pub genome: Genome,
    pub origin: Origin,
    pub expected: Option<Expectation>,
    /// The timed problem that it is proposed for, by position; `None` where it is for all of them.
    pub target: Option<usize>,
}

impl Proposal {
    pub fn new(genome: Genome, origin: Origin) -> Proposal {
        Proposal { genome, origin, expected: None, target: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProblemTime {
    pub time_ns: f64,
    /// Whether its samples were cut short, so that it is a lower bound.
    pub is_bound: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub genome: Genome,
    pub class: VerdictClass,
    /// To minimize, nanoseconds where it is a time: a lower bound where the class is `Slow`, `None` for failures.
    pub objective_ns: Option<f64>,
    /// What the compiler said of the variant; `None` where it was not compiled or nothing is known.
    pub facts: Option<Facts>,
    /// In order; `None` for a problem on which it was not timed. Empty where problems are not searched apart.
    pub times: Vec<Option<ProblemTime>>,
    pub target: Option<usize>,
}

impl Outcome {
    pub fn new(genome: Genome, class: VerdictClass, objective_ns: Option<f64>) -> Outcome {
        Outcome { genome, class, objective_ns, facts: None, times: Vec::new(), target: None }
    }
}

/// A search algorithm that is asked for points and told what came of them.
///
/// Any number of proposals may be in flight, and their outcomes may come in any order. Strategies of
/// this crate are made by [`create`](crate::create); an own one needs the three methods without a body.
pub trait Strategy {
    /// Valid and never proposed before. Fewer, or none, if the strategy has to wait for outcomes or has nothing left.
    fn ask(&mut self, n: usize) -> Vec<Proposal>;

    /// Learns one outcome. It is also called, in journal order, for every evaluation of a resumed study,
    /// with points that this instance never proposed.
    fn tell(&mut self, outcome: &Outcome);

    /// Whether proposals depend on outcomes. Where they do not, nothing is lost by asking for many at once.
    fn learns(&self) -> bool {
        true
    }

    /// Whether a compiled variant is still worth running. The engine asks when the device could take it, but not about
    /// every variant. `false` ends it with the verdict `passed_over`, which is told like any other, and the strategy is
    /// not asked about it again.
    fn reconsider(&mut self, _genome: &Genome, _facts: &Facts) -> bool {
        true
    }

    /// Takes what earlier studies of the same kernel measured, on other problems or other GPUs, before the first
    /// proposal. Points are of the present search's space; objectives are comparable only within one study. Returns
    /// whether the strategy can use them.
    fn inherit(&mut self, _studies: &[PriorStudy]) -> bool {
        false
    }

    /// How many proposals in flight the strategy makes good use of, given what it knows, where they are evaluated on so
    /// many devices at once, which idle if there are fewer. With more, each
    /// evaluation teaches it less, which matters where evaluations are what is scarce; where compilers would
    /// otherwise idle and the budget is time, more are still worth having. [`Strategy::ask`] does not enforce it.
    fn useful_in_flight(&self, _lanes: usize) -> usize {
        usize::MAX
    }

    /// Whether the strategy has nothing left to propose, whatever it is told.
    fn is_done(&self) -> bool;
}

/// The operator that proposed a point, by its name in journals and reports. Names never change, because old journals are
/// read too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(pub &'static str);

impl Origin {
    /// The default configuration of the space, which every search proposes first.
    pub const DEFAULT: Origin = Origin(DEFAULT_ORIGIN);
    pub const PRIOR: Origin = Origin("prior");
    /// A point of a cheap ranking that was made before the search.
    pub const MICRO: Origin = Origin("micro");
    /// The next point of a low-discrepancy sequence, at the beginning of a search.
    pub const SPREAD: Origin = Origin("spread");
    pub const RANDOM: Origin = Origin("random");
    pub const EXHAUSTIVE: Origin = Origin("exhaustive");
    pub const NEIGHBOR: Origin = Origin("neighbor");
    /// One gene moved to the value just below or above.
    pub const STEP: Origin = Origin("step");
    /// One gene set to any other of its values.
    pub const MUTATION: Origin = Origin("mutation");
    /// Two changes of one gene each.
    pub const DOUBLE: Origin = Origin("double");
    pub const CROSSOVER: Origin = Origin("crossover");
    /// A few genes taken from the whole population.
    pub const POOL: Origin = Origin("pool");
    /// A move along the difference between a worse and a better member.
    pub const DRIFT: Origin = Origin("drift");
    /// One of many uniform draws, chosen by the models.
    pub const SAMPLE: Origin = Origin("sample");
    pub const MODEL: Origin = Origin("model");
    pub const TREES: Origin = Origin("trees");
    pub const PROCESS: Origin = Origin("process");
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PriorStudy {
    /// Points and their objectives; `None` for a point that failed.
    pub outcomes: Vec<(Genome, Option<f64>)>,
}

impl PriorStudy {
    pub fn best(&self) -> Option<(&Genome, f64)> {
        let worked = self.outcomes.iter().filter_map(|(genome, objective)| Some((genome, (*objective)?)));
        worked.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}
