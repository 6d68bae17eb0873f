//! Samples, their statistics, when to stop taking them, and paired comparison.

pub mod measure;
pub mod noise;
pub mod paired;
pub mod policy;
pub mod stats;
pub mod stopping;
