//! evo finds the fastest variant of a CUDA kernel that still gives correct results, and shows the evidence for
//! both claims.
//!
//! The modules in the order in which data passes through them: a space file (`kernel`, `evo_space`) gives
//! parameters, constraints and a launch plan. A strategy (`evo_search`) proposes genomes. Each genome becomes a
//! configuration, is rendered to source (`kernel::render`) and is compiled in a process of its own (`compile`).
//! The parent's side of a device (`supervise`) decides which gate comes next. A worker process (`worker`) loads
//! the binary on a device (`evo_device`), judges it and times it (`timing`). The verdict is written to the
//! journal (`journal`) before it is used. One loop (`engine`) drives all of this. Reports and commands
//! (`report`, `cli`) only read the result.

pub mod bench;
pub mod cli;
pub mod mcp;
pub mod peer;
pub mod request;
pub mod task;

// The layers below, under the names by which the product's code calls them.
pub use evo_compile as compile;
pub use evo_engine::{self as engine, replay};
pub use evo_inspect::{self as inspect, tool};
pub use evo_journal::{self as journal, budget};
pub use evo_kernel as kernel;
pub use evo_report::{self as report, event, study};
pub use evo_supervise as supervise;
pub use evo_system::{machine_name, process, regular};
pub use evo_timing as timing;
pub use evo_worker as worker;
