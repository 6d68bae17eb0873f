//! Tasks of other benchmarks as space files: definitions with workloads, as FlashInfer-Bench and SOL-ExecBench have them,
//! and modules of PyTorch, as KernelBench has them.
//!
//! `definition` reads the first two, and what a child process found out about the third; all of them make a
//! `model::BenchmarkTask`, of which `folder` makes files. Whatever has no counterpart here is refused by its name and place.
//! Nothing here runs or compiles anything.

mod definition;
mod folder;
mod model;
#[cfg(test)]
mod tests;

pub use definition::{PROBE, definition, module, workloads};
pub use folder::folder;
pub use model::{BenchmarkTask, TaskForm};
