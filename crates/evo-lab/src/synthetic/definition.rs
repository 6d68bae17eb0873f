//! A synthetic space as it is written down.

use evo_protocol::verdict::VerdictClass;

use super::point::Point;

/// What a point loses against the optimum, one number of at least 0 for each cause; or how it fails.
pub(super) type Losses = Result<Vec<f64>, VerdictClass>;

/// A space of the set.
pub(super) struct Definition {
    pub name: &'static str,
    /// What is hard about it, in half a sentence.
    pub about: &'static str,
    /// Its space file.
    pub text: fn() -> String,
    /// The values of the planted point in declared order, separated by spaces.
    pub planted: fn() -> String,
    pub losses: fn(&Point) -> Losses,
}
