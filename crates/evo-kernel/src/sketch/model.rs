//! What is known of a kernel before its space file is written, and what was guessed.

use evo_protocol::dtype::DType;

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
    #[error("`{0}` has a quote, a backslash or a control character")]
    Odd(String),
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
            SketchError::Odd(_) => "name files and kernels without them".to_string(),
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
pub(super) enum SketchRole {
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
pub(super) struct SketchArgument {
    pub(super) name: String,
    pub(super) dtype: DType,
    /// Elements of one element of a vector type such as `float4`.
    pub(super) lanes: u64,
    pub(super) role: SketchRole,
    /// Why the role is a guess.
    pub(super) doubt: Option<String>,
}

impl SketchArgument {
    /// The size that it is, where arrays are measured by it.
    pub(super) fn size(&self) -> Option<&str> {
        match &self.role {
            SketchRole::Size(name) => Some(name),
            _ => None,
        }
    }
}

/// A parameter of the space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SketchTunable {
    pub(super) name: String,
    pub(super) values: Vec<i64>,
    pub(super) default: i64,
    /// The source gives it no value: it does not compile without one.
    pub(super) is_undefined: bool,
    pub(super) why: String,
}

/// Extents of a launch, fastest first, as expressions of space files.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct SketchLaunch {
    pub(super) block: Vec<String>,
    pub(super) grid: Vec<String>,
    pub(super) shared_bytes: Option<String>,
}

/// Keeps a guess.
pub(super) fn guessed(guesses: &mut Vec<SketchGuess>, what: impl Into<String>, why: impl Into<String>) {
    guesses.push(SketchGuess { what: what.into(), why: why.into() });
}
