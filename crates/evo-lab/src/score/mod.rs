//! Scores searches on recorded spaces by the auto-tuning community's method: random search scores 0, and
//! finding the optimum at once scores 1.
//!
//! Source: Willemsen et al., "A Methodology for Comparing Auto-Tuning Optimization Algorithms". `yardstick`
//! decides how long a search is watched and what random search is expected to find in that time. `run_progress` puts
//! a run on the clock. `typical` turns many runs into one curve. `scores` compares the curve with the baseline.

mod run_progress;
mod scores;
mod typical;
mod yardstick;

pub use run_progress::{Hit, RunProgress, TOLERANCES};
pub use scores::{Aggregate, SpaceScore, TargetReached, aggregate, score};
pub use yardstick::{NotScorable, POINTS, Price, Yardstick};
