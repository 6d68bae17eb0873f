//! Whole-program tests: one binary, a module a subject.
mod compile;
mod compile_command;
mod kernel;
mod kernel_errors;
mod shipped;
mod lane;
mod space;
mod toolchain;
mod worker;
