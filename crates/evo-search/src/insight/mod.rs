//! What a finished study says beyond its winner: which parameters decided the time, which values were
//! never tried or change nothing, when the best variant came, how random search would have done, and whether the model's
//! expectations were right.
//!
//! Everything follows from the evaluations, the space and a seed, whatever strategy proposed the points,
//! so the same journal gives the same result. Parts that rest on too few evaluations are left out.

mod baseline;
mod calibration;
mod dead;
mod expected;
mod importance;
mod micro;
mod observation;
mod study;

#[cfg(test)]
mod tests;

pub use self::baseline::{Basis, RandomSearch, RandomStep};
pub use self::calibration::ModelCalibration;
pub use self::dead::DeadParameter;
pub use self::expected::{ExpectedPoint, expected_points};
pub use self::importance::{Importance, ParameterShare};
pub use self::observation::ENOUGH;
pub use self::study::{Best, Insight, OperatorCounts, Values};
pub use crate::micro::MicroAgreement;
