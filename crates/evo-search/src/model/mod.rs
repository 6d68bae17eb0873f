//! Surrogate models: from what was measured to what the rest of a space may give.
//!
//! They are pure numbers: no clock, no file, no name of a parameter. The same seed and the same
//! observations in the same order give the same predictions. [`features`] turns points into numbers. Two
//! models that err differently learn from them: [`forest`], extremely randomized trees, and [`process`], a
//! Gaussian process. [`validity`] learns which points fail, [`facts`] what the compiler's report says about
//! the time, and [`acquisition`] says which points are worth measuring.
//!
//! A model is asked about all valid points before each proposal. So each has two forms: one predicts
//! the points it is given, the other holds its predictions for a fixed set of points and corrects them when
//! an observation is added (`Forest::watch`, `ProcessScreen`), which takes a few operations for each point.

pub mod acquisition;
mod cholesky;
pub mod codes;
pub mod facts;
pub mod features;
pub mod forest;
mod forest_options;
mod formula;
mod kernel;
mod likelihood;
pub mod matrix;
pub(crate) mod normal;
mod optimize;
mod prediction;
pub mod process;
pub mod process_screen;
mod split;
mod tree;
pub mod validity;

pub(crate) use self::prediction::mixed;
pub use self::prediction::{ModelPrediction, Regressor};
