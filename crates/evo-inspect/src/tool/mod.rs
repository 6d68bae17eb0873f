//! Outside programs: a profiler, a sanitizer, Python. Where they are, which version they have, what they can do, and how
//! one runs. Nothing in here knows search or verdicts.
//! Whatever goes wrong is a [`ToolFailure`]; a tool that did not do its work never counts as having done it.

mod find;
mod kind;
mod permission;
mod probe;
mod run;

pub use find::{ToolPlaces, find, is_program};
pub use kind::{FoundTool, ToolKind, ToolVersion};
pub use permission::{PERMISSION_HINT, profiling_permission};
pub use probe::{GIT_PATIENCE, GitState, SurveyedTool, git_state, locate, probe, survey};
pub use run::{ToolArguments, ToolFailure, ToolState, quoted_end, run_tool, run_under};
