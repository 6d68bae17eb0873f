//! Whole-program tests: one binary, a module a subject.

mod kernel;
mod kernel_errors;
mod space;
mod worker;
