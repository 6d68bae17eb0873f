//! T1 files, in which Kernel Tuner, KTT and BAT state tuning problems, as space files of evo.
//!
//! There are two dialects of version 1.0.0 (github.com/odgaard/TuningSchema). KTT's states the launch as `GlobalSize`,
//! Kernel Tuner's as `ProblemSize` with `GridDivX`, `GridDivY` and `GridDivZ`, defaults and constant memory. Whatever has no
//! counterpart here is refused by its name and place; nothing is left out silently.

mod arguments;
mod error;
mod read;
mod values;
mod write;

#[cfg(test)]
mod tests;

pub use error::T1Error;
use read::T1Node;

use crate::sketch::KernelSketch;

/// A T1 file's text as a space file. `name` is the kernel's on the leaderboard; sources are named from the file's folder.
///
/// # Errors
/// The text is not JSON, lacks what the format demands, or asks for something that evo does not have.
pub fn space_of(text: &str, name: &str) -> Result<KernelSketch, T1Error> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| T1Error {
        place: format!("line {}, column {}", error.line(), error.column()),
        what: format!("it is not JSON: {error}"),
        hint: "name a T1 file, as Kernel Tuner and KTT read them".to_string(),
    })?;
    let root = T1Node::root(&value);
    let parameters = values::parameters(&root)?;
    let arguments = arguments::all(&root, &parameters)?;
    write::space(&root, name, &parameters, &arguments)
}
