//! `evo-lab bench-search --synthetic`: how near strategies come to a known optimum in spaces too large to list.

mod answer;
mod compare;
mod json;
mod table;

pub use answer::answer;
