//! Honest timing: sampling modes, stop rules, statistics, paired comparison.

pub mod sample;
