//! The laboratory's program as a whole, and searches that no recording can judge: one binary, a module per subject.
mod bench_search;
mod large_spaces;
