//! A first space file for a plain kernel, drawn from its source: its signature says what the arguments are, its macros
//! what can be tuned, its use of `blockIdx` how it is launched. Whatever is guessed is marked, in the file and in a list.
//!
//! Nothing is compiled here. What a source does not say plainly is guessed on the safe side: a grid that is too large
//! is slow, one that is too small is wrong.

mod arguments;
mod definitions;
mod extents;
mod launch;
mod tunables;
mod write;

use evo_protocol::dtype::DType;

use super::signature::{self, SourceEntry};
use super::words;
use definitions::Definitions;

/// A kernel's source, and which kernel of it.
#[derive(Clone, Copy, Debug)]
pub struct SketchRequest<'a> {
    /// The source's text.
    pub source: &'a str,
    /// Its path as the space file will name it.
    pub path: &'a str,
    /// The kernel's name on the leaderboard.
    pub name: &'a str,
    /// The entry point; the only one of the source where absent.
    pub entry: Option<&'a str>,
}

/// Why nothing can be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SketchError {
    #[error("the source has no `__global__` function")]
    NoKernel,
    #[error("the source has no `__global__` function `{0}`")]
    NoSuchKernel(String, Vec<String>),
    #[error("the source has {} `__global__` functions: {}", .0.len(), .0.join(", "))]
    Several(Vec<String>),
    #[error("the signature of `{0}` cannot be read")]
    Unreadable(String),
    #[error(
        "`{0}` has nothing to tune: no macro with a default, and it does not ask for the size of its block"
    )]
    NothingToTune(String),
    #[error("parameter `{text}` of `{entry}` has a type that a space file cannot pass")]
    Type { entry: String, text: String },
}

impl SketchError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            SketchError::NoKernel => "name a CUDA source with a kernel in it".to_string(),
            SketchError::NoSuchKernel(_, names) => format!("it has {}", names.join(", ")),
            SketchError::Several(names) => format!("name one of them, as in `--entry {}`", names[0]),
            SketchError::Unreadable(_) => {
                "a macro or a parameter pack writes it; write the space file by hand (docs/space_files.md)"
                    .to_string()
            }
            SketchError::NothingToTune(_) => "give a number in it a name with a default: `#ifndef BLOCK`, \
                 `#define BLOCK 256`, `#endif`"
                .to_string(),
            SketchError::Type { .. } => {
                "buffers of numbers, whole numbers and floating-point numbers can be passed; \
                 pass a structure's fields one by one, and name a template's types: `--entry 'f<float>'`"
                    .to_string()
            }
        }
    }
}

/// Something that was guessed: what, and why so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SketchGuess {
    pub what: String,
    pub why: String,
}

/// A first space file.
#[derive(Clone, Debug)]
pub struct KernelSketch {
    /// The text of the space file.
    pub space: String,
    /// A reference's source beside it, where the kernel does not compile without values for its macros: name and text.
    pub reference: Option<(String, String)>,
    pub entry: String,
    /// What to look at before the numbers count.
    pub guesses: Vec<SketchGuess>,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
enum SketchRole {
    Input,
    Output,
    /// Read and written; `from_zero` where it is only added to.
    Inout {
        from_zero: bool,
    },
    /// A size by which arrays are measured, under this name.
    Size(String),
    /// A whole number that measures no array, such as a radius: a size of its own name with a small value.
    Small(String),
    /// A number.
    Number,
}

/// An argument of the kernel.
#[derive(Clone, Debug, PartialEq)]
struct SketchArgument {
    name: String,
    dtype: DType,
    /// Elements of one element of a vector type such as `float4`.
    lanes: u64,
    role: SketchRole,
    /// Why the role is a guess.
    doubt: Option<String>,
}

impl SketchArgument {
    /// The size that it is, where arrays are measured by it.
    fn size(&self) -> Option<&str> {
        match &self.role {
            SketchRole::Size(name) => Some(name),
            _ => None,
        }
    }
}

/// A parameter of the space.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SketchTunable {
    name: String,
    values: Vec<i64>,
    default: i64,
    /// The source gives it no value: it does not compile without one.
    is_undefined: bool,
    why: String,
}

/// Extents of a launch, fastest first, as expressions of space files.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct SketchLaunch {
    block: Vec<String>,
    grid: Vec<String>,
    shared_bytes: Option<String>,
}

/// Draws a space file.
///
/// # Errors
/// The source has no kernel, several and none is chosen, one whose signature cannot be read or passed, or one with
/// nothing to tune.
pub fn sketch(request: SketchRequest<'_>) -> Result<KernelSketch, SketchError> {
    let names = signature::names(request.source);
    let entry = match (request.entry, &names[..]) {
        (Some(entry), _) => entry.to_string(),
        (None, []) => return Err(SketchError::NoKernel),
        (None, [only]) => only.clone(),
        (None, _) => return Err(SketchError::Several(names)),
    };
    let parameters = match signature::find(request.source, &entry) {
        SourceEntry::Absent if names.is_empty() => return Err(SketchError::NoKernel),
        SourceEntry::Absent => return Err(SketchError::NoSuchKernel(entry, names)),
        SourceEntry::Unreadable if !names.contains(&entry) && !names.is_empty() => {
            return Err(SketchError::NoSuchKernel(entry, names));
        }
        SourceEntry::Unreadable => return Err(SketchError::Unreadable(entry)),
        SourceEntry::Read(mut definitions) => definitions.pop().unwrap_or_default(),
    };
    let tokens = words::tokens(request.source);
    let body = signature::body_of(&tokens, &entry);
    let definitions = Definitions::of(request.source, &tokens);
    let mut guesses = Vec::new();
    let arguments = arguments::read(&entry, &parameters, body, &mut guesses)?;
    let mut tunables = tunables::read(&tokens, &definitions, &mut guesses);
    let mut extents = extents::Extents::of(&arguments, body);
    let clues = launch::LaunchClues { arguments: &arguments, body, tokens: &tokens };
    let launch = launch::guess(clues, &mut extents, &definitions, &mut tunables, &mut guesses);
    if tunables.is_empty() {
        return Err(SketchError::NothingToTune(entry));
    }
    let shapes = arguments.iter().map(|own| extents.shape(&own.name, body)).collect();
    let drawing = write::Drawing {
        request,
        entry: &entry,
        arguments: &arguments,
        shapes,
        tunables: &tunables,
        launch: &launch,
    };
    Ok(write::written(&drawing, guesses))
}

/// Keeps a guess.
fn guessed(guesses: &mut Vec<SketchGuess>, what: impl Into<String>, why: impl Into<String>) {
    guesses.push(SketchGuess { what: what.into(), why: why.into() });
}

#[cfg(test)]
mod tests;
