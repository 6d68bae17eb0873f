//! Whole-program tests: one binary, a module a subject.

mod space;
mod worker;
