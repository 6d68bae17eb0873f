//! The chain of checks a variant passes before anybody believes it: limits, launch, answers, honesty.

pub mod launch;
pub mod pipeline;
pub mod resources;
