//! The judge in the child: gates run against a device, answers held against fp64 references.
//!
//! What an answer means for the variant's way through the gates is decided in the parent (`supervise::cascade`).

mod afterwards;
pub mod agreement;
mod answers;
mod bench;
mod bounds;
mod case;
mod certainty;
mod command;
mod compare;
mod deep;
mod drawn;
mod element;
mod expected;
mod expected_cache;
#[cfg(test)]
mod fake;
mod family;
mod foreign;
mod foresight;
mod fresh;
mod gates;
pub mod honesty;
mod infinities;
mod inputs;
mod instrumented;
mod kept;
mod launch_check;
mod moves;
mod naive;
mod npy;
pub mod on_device;
mod own_answers;
mod parity;
mod perturb;
mod plain;
mod pool;
mod prepared;
mod reference;
mod repeat;
mod run;
mod shapes;
mod state;
#[cfg(test)]
mod tests;
mod timed;
mod wrong;

pub use bench::{Asked, Failure, found};
pub use run::bind;
pub use state::{Answers, Judge};
pub use timed::{TimedProblem, Turns};
