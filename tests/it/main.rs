//! Whole-program tests: one binary, a module a subject.
mod bad_input;
mod compile;
mod compile_command;
mod compile_ends;
mod kernel;
mod kernel_errors;
mod lane;
mod malformed;
mod shipped;
mod space;
mod space_command;
mod space_lists;
mod space_properties;
mod sweep;
mod tidy;
mod toolchain;
mod worker;
