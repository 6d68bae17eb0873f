//! Spaces against brute force: what the index says of thousands of random small spaces is compared
//! with every point judged by the constraints as written.

mod cases;
mod check;
mod generator;
mod grammar;
mod public;
mod python;
mod random;

pub use random::any_expression;
