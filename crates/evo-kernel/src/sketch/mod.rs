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
    let mut arguments = arguments::read(&entry, &parameters, body, &mut guesses)?;
    let mut tunables = definitions::tunables(&tokens, &definitions, &mut guesses);
    let mut extents = launch::IndexExtents::of(&arguments, body);
    let clues = launch::LaunchClues::of(&arguments, body, &tokens, &definitions, &tunables);
    let launch = launch::guess(&clues, &mut extents, &mut tunables, &mut guesses);
    if tunables.is_empty() {
        return Err(SketchError::NothingToTune(entry));
    }
    let brackets = arguments::closings(body);
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
    /// Its values are places of another array.
    pub(super) holds_places: bool,
    /// Outermost first, where its indices say it.
    pub(super) shape: Option<Vec<String>>,
}

impl SketchArgument {
    pub(super) fn size(&self) -> Option<&str> {
        match &self.role {
            SketchRole::Size(name) => Some(name),
            _ => None,
        }
    }

    fn is_buffer(&self) -> bool {
        matches!(self.role, SketchRole::Input | SketchRole::Output | SketchRole::Inout { .. })
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

pub fn guessed(guesses: &mut Vec<SketchGuess>, what: impl Into<String>, why: impl Into<String>) {
    guesses.push(SketchGuess { what: what.into(), why: why.into() });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(source: &str) -> KernelSketch {
        let request = SketchRequest { source, path: "k.cu", name: "k", entry: None };
        sketch(request).unwrap_or_else(|error| panic!("{error}: {source}"))
    }

    #[track_caller]
    fn has(drawn: &KernelSketch, lines: &[&str]) {
        for line in lines {
            assert!(drawn.space.contains(line), "no `{line}` in\n{}", drawn.space);
        }
    }

    #[test]
    fn a_kernel_without_macros_gets_a_parameter_for_its_block() {
        let drawn = drawn(
            "__global__ void scale(const float* __restrict__ x, float* y, float a, int n) {\n\
             int i = blockIdx.x * blockDim.x + threadIdx.x;\n if (i < n) y[i] = a * x[i];\n}",
        );
        has(
            &drawn,
            &[
                "BLOCK = { values = [32, 64, 128, 256, 512, 1024], default = 256 }",
                "name = \"x\"\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"input\"\n",
                "name = \"y\"\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"output\"\n",
                "name = \"a\"\ndtype = \"f32\"\nvalue = 1.0",
                "name = \"n\"\ndtype = \"i32\"\nvalue = \"N\"",
                "grid = [\"ceil_div(N, BLOCK)\"]",
                "grid = [\"ceil_div(N, 256)\"], block = [\"256\"]",
            ],
        );
        assert_eq!(drawn.beside, []);
    }

    #[test]
    fn macros_with_defaults_are_tunables_and_switches_are_told_from_counts() {
        let drawn = drawn(
            "#ifndef BLOCK\n#define BLOCK 128\n#endif\n#ifndef ITEMS\n#define ITEMS 4\n#endif\n#ifndef STAGE\n#define STAGE 0\n\
             #endif\n#define FIXED 3\n#define TILE (BLOCK * ITEMS)\n\
             extern \"C\" __global__ void __launch_bounds__(BLOCK) k(const double* x, double* y, long long n) {\n\
             long long tile = (long long)blockIdx.x * TILE;\n#if STAGE\n#endif\n\
             for (int i = 0; i < ITEMS; ++i) { long long at = tile + threadIdx.x + i * BLOCK; if (at < n) y[at] = FIXED * x[at]; }\n}",
        );
        has(
            &drawn,
            &[
                "BLOCK = { values = [32, 64, 128, 256, 512], default = 128 }",
                "ITEMS = { values = [1, 2, 4, 8], default = 4 }",
                "STAGE = { values = [0, 1], default = 0 }",
                "dtype = \"i64\"\nvalue = \"N\"",
                "shape = [\"N\"]\nrole = \"output\"",
                "grid = [\"ceil_div(N, (BLOCK * ITEMS))\"]",
                "block = [\"BLOCK\"]",
                "grid = [\"ceil_div(N, (128 * 4))\"]",
            ],
        );
        assert!(drawn.guesses.iter().any(|own| own.what == "`FIXED` stays 3"), "{:?}", drawn.guesses);
    }

    #[test]
    fn matrices_are_measured_by_their_indices() {
        let drawn = drawn(
            "__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K) {\n\
             int row = blockIdx.y * blockDim.y + threadIdx.y; int col = blockIdx.x * blockDim.x + threadIdx.x;\n\
             if (row >= M || col >= N) return;\n float sum = 0;\n for (int k = 0; k < K; k++) sum += A[row * K + k] * B[k * N + col];\n\
             C[row * N + col] = sum;\n}",
        );
        has(
            &drawn,
            &[
                "name = \"A\"\ndtype = \"f32\"\nshape = [\"M\", \"K\"]\nrole = \"input\"",
                "shape = [\"K\", \"N\"]",
                "shape = [\"M\", \"N\"]\nrole = \"output\"",
                "grid = [\"ceil_div(N, BLOCK_X)\", \"ceil_div(M, BLOCK_Y)\"]",
                "sizes = { M = 1024, N = 1280, K = 768 }",
            ],
        );
    }

    #[test]
    fn names_that_nothing_defines_are_tunables_with_a_reference_of_their_own() {
        let drawn = drawn(
            "__global__ void vector_add(float *c, float *a, float *b, int n) {\n\
             int i = blockIdx.x * block_size_x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }",
        );
        has(
            &drawn,
            &[
                "block_size_x = { values = [32, 64, 128, 256, 512, 1024], default = 256 }",
                "block = [\"block_size_x\"]",
                "name = \"c\"\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"output\"\n",
                "role = \"input\"  # guess: it is not `const`, but the kernel does not write it",
                "source = \"k_reference.cu\"",
            ],
        );
        let (name, text) = &drawn.beside[0];
        assert_eq!(*name, "k_reference.cu");
        assert!(text.ends_with("#define block_size_x 256\n#include \"k.cu\"\n"), "{text}");
    }

    #[test]
    fn what_is_added_to_begins_with_zeros() {
        let histogram = drawn(
            "__global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {\n\
             for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[data[i]], 1u);\n}",
        );
        has(
            &histogram,
            &[
                "dtype = \"u32\"",
                "role = \"inout\"  # guess: the kernel adds to it",
                "fill = { constant = 0 }",
            ],
        );
        let rows = drawn(
            "__global__ void total(const float4* x, float* y, int rows, int cols) {\n\
             int row = blockIdx.x; float sum = 0; for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[row * cols + c].x;\n\
             if (threadIdx.x == 0) y[row] = sum;\n}",
        );
        has(
            &rows,
            &[
                "shape = [\"ROWS\", \"4 * COLS\"]",
                "shape = [\"ROWS\"]\nrole = \"output\"",
                "grid = [\"ROWS\"]",
                "block = [\"BLOCK\"]",
            ],
        );
    }

    #[test]
    fn sources_that_cannot_be_drawn_say_why() {
        let refused = |source: &str, entry: Option<&str>| {
            sketch(SketchRequest { source, path: "k.cu", name: "k", entry }).unwrap_err()
        };
        assert_eq!(refused("int main() {}", None), SketchError::NoKernel);
        let two = "__global__ void a(int n) {} __global__ void b(int n) {}";
        assert_eq!(refused(two, None), SketchError::Several(vec!["a".into(), "b".into()]));
        assert!(matches!(refused(two, Some("c")), SketchError::NoSuchKernel(name, _) if name == "c"));
        assert!(matches!(refused("__global__ void k(struct P p) {}", None), SketchError::Type { .. }));
        assert!(matches!(refused("__global__ void k(float** x) {}", None), SketchError::Type { .. }));
        assert!(matches!(
            refused("template <class... T> __global__ void k(T... all) {}", None),
            SketchError::Unreadable(_)
        ));
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
