//! Pure functions of samples: statistics, when to stop sampling, paired comparison, noise floor.

pub mod acceptance;
pub mod paired;
pub mod policy;
pub mod regression;
pub mod stats;
