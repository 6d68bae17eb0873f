//! Synthetic spaces: too large to list, and still with a known optimum.
//!
//! Recordings judge searches on spaces that somebody could measure completely. Real spaces are larger, and
//! nobody knows how good the best configuration found in one really is. In a synthetic space formulas stand in
//! for the device: the time of a point is `OPTIMUM_NS` times the product of 1 + loss over several losses. No loss
//! is ever negative, and at one planted valid point every loss is 0, so that no point can be faster. There is no
//! noise and no seed: a point always takes the same time or fails in the same way.
//!
//! `point` reads a point's parameters and has the terms that losses are made of. `kernels` and `shapes` hold the
//! spaces as they are written down, `space` opens one by name, `run` lets a strategy search it.

mod kernels;
mod point;
mod run;
mod shapes;
mod space;

pub use run::{SyntheticOptions, SyntheticRun, run};
pub use space::{OPTIMUM_NS, Synthetic, UnknownSynthetic, names};

#[cfg(test)]
mod tests;
