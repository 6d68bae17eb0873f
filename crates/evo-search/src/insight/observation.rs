//! Evaluations as the parts of an insight need them: a point, and what became of it.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;

/// Fewest measured evaluations that a model learns from; with fewer, the parts that need one are left out.
pub const ENOUGH: usize = 20;

/// An evaluation that says something about the kernel.
pub(super) struct Observation<'a> {
    pub(super) genome: Genome,
    pub(super) evaluation: &'a Evaluation,
    pub(super) fate: Fate,
}

/// What became of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    /// Measured, nanoseconds.
    Measured(f64),
    /// Correct as far as it was checked, and given up because it takes longer than this, nanoseconds.
    Beyond(f64),
    Failed,
}

impl Observation<'_> {
    /// Natural logarithm of the time, or of the lower bound that is known of it.
    pub(super) fn log_time(&self) -> Option<f64> {
        match self.fate {
            Fate::Measured(time) | Fate::Beyond(time) => Some(time.ln()),
            Fate::Failed => None,
        }
    }
}

/// The evaluations that say something about the kernel, in their order. Left out are those that failed
/// by our own trouble, those that were not run, and points that the space no longer holds.
pub(super) fn observations<'a>(space: &SearchSpace, evaluations: &'a [Evaluation]) -> Vec<Observation<'a>> {
    let fate = |one: &Evaluation| {
        let time = one.objective_ns.filter(|time| time.is_finite() && *time > 0.0);
        match (one.verdict.kind.class(), time) {
            (VerdictClass::Harness | VerdictClass::PassedOver, _) => None,
            (VerdictClass::Ok, Some(time)) => Some(Fate::Measured(time)),
            // A race measures as well as a full measurement does; a screening stops as soon as it can.
            (VerdictClass::Slow, Some(time)) if one.is_raced() => Some(Fate::Measured(time)),
            (VerdictClass::Slow, Some(time)) => Some(Fate::Beyond(time)),
            _ => Some(Fate::Failed),
        }
    };
    let told = |evaluation| {
        let fate = fate(evaluation)?;
        Some(Observation { genome: space.genome(&evaluation.configuration)?, evaluation, fate })
    };
    evaluations.iter().filter_map(told).collect()
}

/// At most `most` items, spread evenly over all of them.
pub(super) fn thinned<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let count = all.len();
    // The scaled position steps up `most` times, at equal distances.
    let keeps = |at: usize| count <= most || at * most / count != (at + 1) * most / count;
    all.into_iter().enumerate().filter(|(at, _)| keeps(*at)).map(|(_, one)| one).collect()
}
