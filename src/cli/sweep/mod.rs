//! `evo sweep`: search a space, confirm the best, rank them.
//!
//! Everything that the user can get wrong is checked (`plan`) before anything is written.

mod conditions;
mod execute;
mod plan;
mod result;
mod search;
mod subject;
mod workers;

use serde_json::Value;

use super::args::SweepArgs;
use super::report::after_sweep;
use super::{Answer, Call, Result, output};
use crate::budget::CommandClock;

pub use execute::execute;
pub use plan::{SweepPlan, SweepSubject};
pub use result::SweepAnswer;

pub fn run(arguments: &SweepArgs, call: &Call) -> Result<Answer> {
    // Before anything else: a wall budget covers reading the space and starting the device too.
    let clock = CommandClock::start();
    arguments.limits.begin_orderly(call)?;
    let plan = SweepPlan::of(arguments, clock)?;
    call.chose(None, plan.seed);
    let outcome = execute(&plan, call)?;
    let profile: Option<Value> = result::champion(&plan, &outcome, call);
    // A view of what is on the disk already, so trouble with it changes nothing about how the sweep ends.
    if let Err(error) = after_sweep(outcome.study.out(), &outcome.study.header().study) {
        output::say(&format!("warning: report.html was not written: {error}"));
    }
    result::report(&plan, &outcome, profile, call)
}
