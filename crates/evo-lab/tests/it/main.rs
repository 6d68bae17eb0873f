//! Whole-program tests of the laboratory: one binary, a module per subject.
mod bench_search;
mod bench_synthetic;
mod program;
