//! Outside programs: a profiler, a sanitizer, Python. Where they are, which version they have, what they can do, and how
//! one runs. Nothing in here knows search or verdicts.
//! Whatever goes wrong is a [`ToolFailure`]; a tool that did not do its work never counts as having done it.

mod arguments;
mod command;
mod find;
mod git;
mod kind;
mod permission;
mod probe;
mod run;
mod state;
mod survey;
mod version;
mod wrapped;

pub use arguments::ToolArguments;
pub use command::quoted_end;
pub use find::{ToolPlaces, find};
pub use git::{GitState, git_state};
pub use kind::ToolKind;
pub use permission::{PERMISSION_HINT, ProfilingPermission, profiling_permission};
pub use probe::{FoundTool, locate, probe};
pub use run::{ToolRun, fits, run_tool};
pub use state::{ToolFailure, ToolState};
pub use survey::{SurveyedTool, survey};
pub use version::ToolVersion;
pub use wrapped::wrapped_worker;
