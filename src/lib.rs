//! evo finds the fastest correct variant of a CUDA kernel, and proves both words.
//!
//! The tour, in the order data meets the modules: a space file (`space`, `kernel`) gives parameters,
//! constraints and a launch plan. A strategy (`search`) proposes genomes; each becomes a
//! configuration, is rendered to source (`kernel::render`) and compiled in a process of its own
//! (`compile`). The parent's side of a device (`supervise`) decides which gate comes next;
//! a worker process (`worker`) loads the binary, judges it and times it (`timing`). The verdict is journaled (`journal`) before it is used; the
//! one loop that does all this is `engine`. Reports and commands (`report`, `cli`) only read.

pub mod budget;
pub mod cli;
pub mod compile;
pub mod engine;
pub mod event;
pub mod journal;
pub mod kernel;
pub mod process;
pub mod replay;
pub mod report;
pub mod study;
pub mod supervise;
pub mod timing;
pub mod worker;
