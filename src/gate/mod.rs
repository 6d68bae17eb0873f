//! The chain of checks a variant passes before anybody believes it: limits, launch, answers, honesty.

pub mod case;
pub mod compare;
mod disagree;
pub mod element;
pub mod expected;
pub mod expected_cache;
#[cfg(test)]
pub(crate) mod fake;
pub mod honesty;
pub mod inputs;
pub mod judge;
pub mod launch;
mod launch_check;
pub mod pipeline;
pub mod pool;
pub mod reference;
mod repeat;
pub mod resources;
pub mod run;
mod shapes;
pub mod wrong;
