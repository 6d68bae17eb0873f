//! A first space file for a plain kernel, drawn from its source: its signature says what the arguments are, its macros
//! what can be tuned, its use of `blockIdx` how it is launched. Whatever is guessed is marked, in the file and in a list.
//!
//! Nothing is compiled here. What a source does not say plainly is guessed on the safe side: a grid that is too large
//! is slow, one that is too small is wrong.

use evo_protocol::dtype::DType;

use crate::signature::{self, SourceEntry};
use crate::sketch::definitions::Definitions;
use crate::sketch::write::is_plain;
use crate::words;

mod arguments;
mod definitions;
mod launch;
pub mod write;

/// CUDA passes fewer.
const PARAMETERS_MAX: usize = 1024;

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
    if let Some(odd) = [entry.as_str(), request.path].into_iter().find(|own| !is_plain(own)) {
        return Err(SketchError::Odd(odd.to_string()));
    }
    if parameters.len() > PARAMETERS_MAX {
        return Err(SketchError::Unreadable(entry));
    }
    let tokens = words::tokens(request.source);
    let body = signature::body_of(&tokens, &entry);
    let definitions = Definitions::of(request.source, &tokens);
    let mut guesses = Vec::new();
    let brackets = words::brackets(body);
    let mut arguments = arguments::read(&entry, &parameters, body, &brackets, &mut guesses)?;
    let mut tunables = definitions::tunables(&tokens, &definitions, &mut guesses);
    let mut extents = launch::IndexExtents::of(&arguments, body);
    let clues = launch::LaunchClues::of(&arguments, (body, &brackets), &tokens, &definitions, &tunables);
    let launch = launch::guess(&clues, &mut extents, &mut tunables, &mut guesses);
    if tunables.is_empty() {
        return Err(SketchError::NothingToTune(entry));
    }
    for argument in &mut arguments {
        argument.shape = extents.shape(&argument.name, body, &brackets);
    }
    Ok(write::written(request, &entry, &arguments, &tunables, &launch, guesses))
}

#[derive(Clone, Copy, Debug)]
pub struct SketchRequest<'a> {
    pub source: &'a str,
    pub path: &'a str,
    pub name: &'a str,
    /// The entry point; the only one of the source where absent.
    pub entry: Option<&'a str>,
}

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SketchGuess {
    pub what: String,
    pub why: String,
}

#[derive(Clone, Debug)]
pub struct KernelSketch {
    pub space: String,
    /// Files beside it, such as a reference's source where the kernel does not compile without values for its macros:
    /// names and texts.
    pub beside: Vec<(String, String)>,
    pub entry: String,
    pub guesses: Vec<SketchGuess>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum SketchRole {
    Input,
    Output,
    /// Read and written; `from_zero` where it is only added to.
    Inout {
        from_zero: bool,
    },
    Size(String),
    /// A whole number that measures no array, such as a radius: a size of its own name with a small value.
    Small(String),
    Number,
}

impl SketchRole {
    fn word(&self) -> &'static str {
        match self {
            SketchRole::Input => "input",
            SketchRole::Output => "output",
            SketchRole::Inout { .. } => "inout",
            SketchRole::Size(_) | SketchRole::Small(_) => "a size",
            SketchRole::Number => "a number",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct SketchArgument {
    pub(super) name: String,
    pub(super) dtype: DType,
    /// Elements of one element of a vector type such as `float4`.
    pub(super) lanes: u64,
    pub(super) role: SketchRole,
    pub(super) doubt: Option<String>,
    pub(super) holds_places: bool,
    /// Outermost first, where its indices say it.
    pub(super) shape: Option<Vec<String>>,
}

impl SketchArgument {
    pub(super) fn size(&self) -> Option<&str> {
        if let SketchRole::Size(name) = &self.role { Some(name) } else { None }
    }
}

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
pub struct SketchLaunch {
    pub block: Vec<String>,
    pub grid: Vec<String>,
    pub shared_bytes: Option<String>,
}

/// The guess of every file whose reference is the kernel itself.
pub(crate) fn guessed_reference(guesses: &mut Vec<SketchGuess>) {
    let why = "evo has no other answer to compare with";
    guessed(guesses, "the reference is the kernel itself at its defaults", why);
}

pub fn guessed(guesses: &mut Vec<SketchGuess>, what: impl Into<String>, why: impl Into<String>) {
    guesses.push(SketchGuess { what: what.into(), why: why.into() });
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;

    /// Holds a sketch to what stands in `tests/drawn`: the space file, the files beside it and the guesses.
    #[track_caller]
    pub(crate) fn check_drawn(name: &str, drawn: &KernelSketch) {
        let mut text = drawn.space.clone();
        drawn.beside.iter().for_each(|(file, own)| text += &format!("\n== {file}\n{own}"));
        text += "\n== guesses\n";
        drawn.guesses.iter().for_each(|guess| text += &format!("{}: {}\n", guess.what, guess.why));
        let path = format!("{}/tests/drawn/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        assert!(text == fs::read_to_string(&path).unwrap(), "{path} does not have:\n{text}");
    }

    #[test]
    fn sources_are_drawn_as_people_write_them() {
        for (name, source) in [
            ("scale", include_str!("../../tests/drawn/scale.cu")),
            // Macros with defaults; a switch is told from counts.
            ("items", include_str!("../../tests/drawn/items.cu")),
            // Shapes from indices.
            ("matmul", include_str!("../../tests/drawn/matmul.cu")),
            // A name that nothing defines, and a reference that does.
            ("undefined", include_str!("../../tests/drawn/undefined.cu")),
            // What is added to begins with zeros.
            ("histogram", include_str!("../../tests/drawn/histogram.cu")),
            ("total", include_str!("../../tests/drawn/total.cu")),
        ] {
            let request = SketchRequest { source, path: "k.cu", name: "k", entry: None };
            check_drawn(name, &sketch(request).unwrap_or_else(|error| panic!("{name}: {error}")));
        }
    }

    #[test]
    fn sources_that_cannot_be_drawn_say_why() {
        let two = "__global__ void a(int n) {} __global__ void b(int n) {}";
        let sources = [
            ("int main() {}", None),
            (two, None),
            (two, Some("c")),
            ("__global__ void k(struct P p) {}", None),
            ("__global__ void k(float** x) {}", None),
            ("template <class... T> __global__ void k(T... all) {}", None),
        ];
        let refused = sources.map(|(source, entry)| {
            let error = sketch(SketchRequest { source, path: "k.cu", name: "k", entry }).unwrap_err();
            format!("{source} {entry:?}\n  {error}; {}\n", error.hint())
        });
        insta::assert_snapshot!(refused.concat());
        for source in [
            "__global__",
            "__global__ void k(",
            "__global__ void k(int n) {",
            "__global__ void k(const float* x) { x[",
            "#define",
        ] {
            let _ = sketch(SketchRequest { source, path: "k.cu", name: "k", entry: None });
        }
    }

    /// A search that begins anew at every place would take hours on these; a test that does not end fails.
    #[test]
    fn long_sources_of_one_kind_come_to_an_end() {
        let many = |text: &str| text.repeat(1 << 16);
        let kernel = |body: &str| {
            format!(
                "__global__ void k(float* x, int n) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; {body} }}"
            )
        };
        let doubled: String =
            (1..40).map(|at| format!("#define D{at} D{0} * D{0} * D{0} * D{0}\n", at - 1)).collect();
        for source in [
            kernel(&many("x[")),
            kernel(&many("x(")),
            kernel(&many("x & ((")),
            kernel(&many("int a = b = ")),
            kernel(&many("NAME_ + ")),
            many("__global__ void k(int n, "),
            many("__global__ k("),
            many("#define A 1\n#ifndef B\n") + &kernel("x[i] = A;"),
            (0..1 << 14).map(|at| format!("#ifndef M{at}\n#define M{at} 2\n#endif\n")).collect::<String>()
                + &kernel("x[i] = M1;"),
            format!("#define D0 2\n{doubled}{}", kernel("int j = blockIdx.x * D39; if (j < n) x[j] = 1;")),
            format!("__global__ void k({}int n) {{}}", many("float* x, ")),
        ] {
            let _ = sketch(SketchRequest { source: &source, path: "k.cu", name: "k", entry: None });
        }
    }
}
