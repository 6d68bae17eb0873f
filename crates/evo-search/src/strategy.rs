//! Strategies ask and tell: they propose genomes and learn from evaluations. They compile, time and
//! print nothing, so that any of them runs on any device, and are deterministic for a seed and an
//! order of tells.

pub use evo_protocol::evaluation::Expectation;
use evo_protocol::facts::Facts;
use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;

use super::prior::PriorStudy;

/// A proposed genome and who proposed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    pub genome: Genome,
    /// Operator's name for the record: `default`, `random`, `crossover`, `step`, …
    pub origin: &'static str,
    /// What a model expects of it; none where no model was asked.
    pub expected: Option<Expectation>,
}

impl Proposal {
    /// A proposal without any expectation.
    pub fn new(genome: Genome, origin: &'static str) -> Proposal {
        Proposal { genome, origin, expected: None }
    }
}

/// What a strategy learns of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub genome: Genome,
    pub class: VerdictClass,
    /// What is minimized; a lower bound where the class is `Slow`; none for failures.
    pub objective_ns: Option<f64>,
    /// What the compiler said of it; none where it was not compiled, or nothing is known.
    pub facts: Option<Facts>,
}

impl Outcome {
    /// An outcome of which no facts are known.
    pub fn new(genome: Genome, class: VerdictClass, objective_ns: Option<f64>) -> Outcome {
        Outcome { genome, class, objective_ns, facts: None }
    }
}

/// A search algorithm.
pub trait Strategy {
    /// The name on the command line.
    fn name(&self) -> &str;

    /// Up to `n` proposals, valid and never proposed before; fewer (or none) when it has to wait for
    /// tells or has nothing left.
    fn ask(&mut self, n: usize) -> Vec<Proposal>;

    /// One outcome; also called, in journal order, for every evaluation of a resumed study, with
    /// genomes that this instance never proposed.
    fn tell(&mut self, outcome: &Outcome);

    /// Whether a variant is still worth running, now that it is compiled: asked when the device could
    /// take it. `false` ends it with the verdict `passed_over`, which is told like any other, and it is
    /// never asked about again. The engine runs some variants without asking.
    fn reconsider(&mut self, _genome: &Genome, _facts: &Facts) -> bool {
        true
    }

    /// Takes what earlier studies of the same kernel measured, before the first proposal; whether it
    /// has any use for that.
    fn inherit(&mut self, _studies: &[PriorStudy]) -> bool {
        false
    }

    /// Whether it has nothing left to propose whatever it is told.
    fn is_done(&self) -> bool;
}
