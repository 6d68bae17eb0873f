//! Signatures of `__global__` functions, read from a source as far as that needs no compiler.
//!
//! A candidate with another argument list than its space would be launched with arguments that it does not expect, so
//! it is refused before anything is compiled. What cannot be read for certain (a macro that writes the signature, a
//! type of the source's own) is left to the compiler and to the launch gate.

use evo_protocol::dtype::DType;
use evo_protocol::entry_name::base;
use evo_protocol::plan::Role;

use super::resolve;
use super::spec::{ArgumentSpec, BufferSpec, KernelSpec, ScalarSpec, TensorMapSpec, distinct};
use super::words::{is_name, is_one_of, tokens, uses_identifier};

#[derive(Clone, Debug, PartialEq)]
pub enum SourceEntry {
    Absent,
    Unreadable,
    /// The parameters of each definition or declaration: several where the preprocessor decides.
    Read(Vec<Vec<SourceParameter>>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SourceParameter {
    /// As the source writes it, with single blanks.
    pub text: String,
    pub kind: ParameterKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// `of` is `None` where its elements are of no type that can be read, such as a vector's or a name of the source's own.
    Pointer {
        of: Option<DType>,
        is_const: bool,
    },
    Scalar(DType),
    TensorMap,
    Unknown,
}

pub fn find(source: &str, entry: &str) -> SourceEntry {
    let entry = base(entry);
    if !uses_identifier(source, entry) {
        return if is_whole(source) { SourceEntry::Absent } else { SourceEntry::Unreadable };
    }
    let tokens = tokens(source);
    let mut found = Vec::new();
    for function in functions(&tokens) {
        let Some((_, inside, _)) = heads(function).find(|(name, ..)| *name == entry) else { continue };
        match split(inside) {
            Some(parameters) => found.push(parameters),
            None => return SourceEntry::Unreadable,
        }
    }
    if found.is_empty() { SourceEntry::Unreadable } else { SourceEntry::Read(found) }
}

/// Headers that define no kernel, by the start of their names.
const LIBRARIES: &str = "cuda cooperative_groups mma.h math cmath cstd std type_traits limits cfloat float.h device_ \
    vector_ cub/ thrust/ utility array tuple";

/// Whether every name of a source stands in its text: none is pasted together, or comes from a header of somebody's.
pub(super) fn is_whole(source: &str) -> bool {
    let is_library = |name: &str| {
        let name = name.trim_start_matches([' ', '\t', '<', '"']);
        LIBRARIES.split(' ').any(|library| name.starts_with(library))
    };
    !source.contains("##") && !source.contains("%:") && includes(source).all(is_library)
}

pub fn names(source: &str) -> Vec<String> {
    let tokens = tokens(source);
    let names = functions(&tokens).filter_map(|function| heads(function).last());
    distinct(names.map(|(name, ..)| name.to_string()))
}

/// The tokens behind each `__global__`, up to the next: so no source makes anybody look at its end again and again.
fn functions<'t, 's>(tokens: &'t [&'s str]) -> impl Iterator<Item = &'t [&'s str]> {
    tokens.split(|token| *token == "__global__").skip(1)
}

/// The words directly before a parenthesis up to the function's body: its attributes, then its name. With what stands in
/// the parenthesis, and behind it.
fn heads<'t, 's>(tokens: &'t [&'s str]) -> impl Iterator<Item = (&'s str, &'t [&'s str], &'t [&'s str])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < tokens.len() && !matches!(tokens[at], "{" | ";" | "}") {
            let head = at;
            at += 1;
            if is_name(tokens[head]) && tokens.get(at) == Some(&"(") {
                at += closed(&tokens[at..])?;
                return Some((tokens[head], &tokens[head + 2..at - 1], &tokens[at..]));
            }
        }
        None
    })
}

/// Where the bodies of all `__global__` functions begin that can be read: the byte behind each opening brace.
pub(super) fn bodies(source: &str) -> Vec<usize> {
    let tokens = tokens(source);
    let body = |function: &[&str]| {
        let mut depth = 0;
        for (at, token) in function.iter().enumerate() {
            if *token == ";" {
                return None;
            }
            depth += i32::from(*token == "(") - i32::from(*token == ")");
            // Braces of a template stand in pairs, or with a percent sign.
            let is_brace = *token == "{" && !matches!(function.get(at + 1), Some(&"{" | &"%"));
            if is_brace && depth == 0 && at > 0 && function[at - 1] == ")" {
                // Tokens are parts of the source.
                return Some(token.as_ptr() as usize - source.as_ptr() as usize + 1);
            }
        }
        None
    };
    functions(&tokens).filter_map(body).collect()
}

pub(super) fn body_of<'t, 's>(tokens: &'t [&'s str], entry: &str) -> &'t [&'s str] {
    let entry = base(entry);
    let named = functions(tokens).filter_map(|function| heads(function).find(|(name, ..)| *name == entry));
    let Some((.., body)) = named.into_iter().find(|(.., behind)| behind.first() == Some(&"{")) else {
        return &[];
    };
    let mut depth = 0;
    let inside = body.iter().take_while(|token| {
        depth += i32::from(**token == "{") - i32::from(**token == "}");
        depth > 0
    });
    &body[1..inside.count().max(1)]
}

/// Tokens from an opening parenthesis to its end, both included.
fn closed(tokens: &[&str]) -> Option<usize> {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        depth += i32::from(*token == "(") - i32::from(*token == ")");
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

fn split(tokens: &[&str]) -> Option<Vec<SourceParameter>> {
    if tokens.is_empty() || tokens == ["void"] {
        return Some(Vec::new());
    }
    let (mut parameters, mut own, mut depth) = (Vec::new(), Vec::new(), 0i32);
    for token in tokens {
        match *token {
            "." => return None,
            "(" | "[" | "<" => depth += 1,
            ")" | "]" | ">" => depth -= 1,
            "," if depth == 0 => {
                parameters.push(parameter(&std::mem::take(&mut own))?);
                continue;
            }
            _ => {}
        }
        own.push(*token);
    }
    parameters.push(parameter(&own)?);
    Some(parameters)
}

fn parameter(tokens: &[&str]) -> Option<SourceParameter> {
    let own = tokens.split(|token| *token == "=").next().filter(|own| !own.is_empty())?;
    Some(SourceParameter { text: spelled(own), kind: kind_of(own) })
}

fn kind_of(tokens: &[&str]) -> ParameterKind {
    if tokens.contains(&"(") || tokens.contains(&"&") {
        return ParameterKind::Unknown;
    }
    // A template's arguments may hold asterisks of their own.
    let before = tokens.split(|token| *token == "<").next().unwrap_or(tokens);
    let after = tokens.rsplit(|token| *token == ">").next().filter(|_| tokens.contains(&">"));
    let outside: Vec<&str> = before.iter().chain(after.unwrap_or_default()).copied().collect();
    let is_pointer = |word: &str| matches!(word, "*" | "[");
    if let Some(at) = outside.iter().position(|word| is_pointer(word)) {
        let (elements, rest) = outside.split_at(at);
        // In front of brackets stands the name.
        let elements = &elements[..at - usize::from(rest[0] == "[" && at > 0)];
        let is_plain = rest[1..].iter().all(|word| !is_pointer(word)) && tokens.len() == outside.len();
        let of = plain_number(elements).filter(|_| is_plain);
        return ParameterKind::Pointer { of, is_const: is_plain && elements.contains(&"const") };
    }
    if is_tensor_map(&outside) {
        return ParameterKind::TensorMap;
    }
    if tokens.contains(&"<") || tokens.contains(&":") {
        return ParameterKind::Unknown;
    }
    // The last word is the name, unless there is none.
    let unnamed = plain_number(&outside);
    let named = || plain_number(outside.split_last().map_or(&[], |(_, words)| words));
    unnamed.or_else(named).map_or(ParameterKind::Unknown, ParameterKind::Scalar)
}

/// The number that the words of a type mean, unless sources give the name to types of their own too.
pub(super) fn plain_number(words: &[&str]) -> Option<DType> {
    let plain = ["const", "volatile", "register", "__grid_constant__"];
    let words: Vec<&str> = words.iter().copied().filter(|word| !plain.contains(word)).collect();
    number(&words).filter(|_| !matches!(words[..], ["uchar" | "ushort" | "uint" | "ssize_t"]))
}

const TENSOR_MAPS: [&str; 2] = ["tensor_map", "CUtensorMap"];

/// Whether the type is a tensor map: its name stands before the parameter's, behind a namespace, or alone.
fn is_tensor_map(words: &[&str]) -> bool {
    let at = words.iter().position(|word| TENSOR_MAPS.contains(word));
    at.is_some_and(|at| {
        at + 1 < words.len() || at == 0 || matches!(words[at - 1], ":" | "const" | "__grid_constant__")
    })
}

/// Types of numbers that are one word, some of C's library and some of CUDA's.
const NUMBERS: [(&str, DType); 12] = [
    ("float", DType::F32),
    ("double", DType::F64),
    ("half __half", DType::F16),
    ("nv_bfloat16 __nv_bfloat16", DType::Bf16),
    ("int8_t", DType::I8),
    ("uint8_t uchar bool", DType::U8),
    ("int16_t", DType::I16),
    ("uint16_t ushort", DType::U16),
    ("int32_t", DType::I32),
    ("uint32_t uint", DType::U32),
    ("int64_t ptrdiff_t ssize_t intptr_t", DType::I64),
    ("uint64_t size_t uintptr_t", DType::U64),
];

/// The number that a type's words mean.
pub(super) fn number(words: &[&str]) -> Option<DType> {
    let has = |word: &str| words.contains(&word);
    if !words.is_empty() && words.iter().all(|word| is_one_of(word, "unsigned signed int long short char")) {
        let (signed, unsigned) = match () {
            () if has("char") => (DType::I8, DType::U8),
            () if has("short") => (DType::I16, DType::U16),
            () if has("long") => (DType::I64, DType::U64),
            () => (DType::I32, DType::U32),
        };
        return Some(if has("unsigned") { unsigned } else { signed });
    }
    let [word] = words else { return None };
    NUMBERS.iter().find(|(names, _)| is_one_of(word, names)).map(|(_, dtype)| *dtype)
}

fn spelled(tokens: &[&str]) -> String {
    let mut text = String::new();
    for token in tokens {
        let word = is_name(token) || *token == "*";
        if !text.is_empty() && word && !text.ends_with(['*', '<', ':']) {
            text.push(' ');
        }
        text.push_str(token);
    }
    text
}

/// What the space passes to one of its entry points, in order; `None` where that is not arguments alone.
pub fn declared<'k>(kernel: &'k KernelSpec, entry: &str) -> Option<Vec<&'k ArgumentSpec>> {
    let launch = kernel.launches.iter().find(|launch| launch.entry == entry)?;
    resolve::declared(kernel, launch, ArgumentSpec::is_passed)
}

/// Whose function takes the arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taker {
    /// It may leave the last arguments out.
    pub is_reference: bool,
    /// Every floating-point argument arrives as `double`.
    pub real: bool,
    /// No other launch of the call could write what it does not.
    pub is_alone: bool,
}

impl Taker {
    /// Whether it has to write such a buffer. A reference may leave what is there already.
    fn writes(self, role: Role) -> bool {
        self.is_alone && (role == Role::Output || (role == Role::Inout && !self.is_reference))
    }
}

/// Both lists side by side where no definition of the entry that can be read takes what is given.
pub fn mismatch(source: &str, entry: &str, given: &[&ArgumentSpec], taker: Taker) -> Option<String> {
    let SourceEntry::Read(definitions) = find(source, entry) else { return None };
    let first = definitions.first()?;
    let fits = |parameters: &Vec<SourceParameter>| {
        (parameters.len() == given.len() || (taker.is_reference && parameters.len() < given.len()))
            && given.iter().zip(parameters).all(|(argument, parameter)| takes(argument, parameter, taker))
    };
    let is_there = definitions.iter().any(fits);
    (!is_there).then(|| side_by_side(given, first, taker))
}

fn takes(argument: &ArgumentSpec, parameter: &SourceParameter, taker: Taker) -> bool {
    let given = |dtype: DType| if taker.real && dtype.is_float() { DType::F64 } else { dtype };
    match (argument, parameter.kind) {
        (_, ParameterKind::Unknown) => true,
        (ArgumentSpec::Buffer(buffer), ParameterKind::Pointer { of, is_const }) => {
            of.is_none_or(|of| points_to(of, given(buffer.dtype))) && !(is_const && taker.writes(buffer.role))
        }
        (ArgumentSpec::Scalar(scalar), ParameterKind::Scalar(dtype)) => {
            let given = given(scalar.dtype);
            given.bytes() == dtype.bytes() && given.is_float() == dtype.is_float()
        }
        (ArgumentSpec::TensorMap(_), ParameterKind::TensorMap) => true,
        _ => false,
    }
}

/// Integers are bits to many kernels, packed or compared as such. A number with a fraction is one of its own type; halves
/// are declared as integers of 16 bits as well.
fn points_to(of: DType, elements: DType) -> bool {
    let is_half = of.is_float() && of.bytes() == 2;
    !of.is_float() || of == elements || (is_half && !elements.is_float() && elements.bytes() == 2)
}

/// The names in the `#include` lines of a text, also in lines that a preprocessor or a template would leave out.
pub fn included(text: &str) -> impl Iterator<Item = &str> {
    includes(text).filter_map(|word| {
        let end = if word.starts_with('<') { '>' } else { '"' };
        word.strip_prefix(['<', '"'])?.split(end).next()
    })
}

/// What stands behind each `#include`.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    lines.filter_map(|rest| rest.trim_start().strip_prefix("include").map(str::trim_start))
}

const ROWS: usize = 14;

/// Both lists side by side, a row an argument, with a mark where they differ.
fn side_by_side(declared: &[&ArgumentSpec], parameters: &[SourceParameter], taker: Taker) -> String {
    let rows = declared.len().max(parameters.len());
    let left =
        |at: usize| declared.get(at).map_or("(nothing)".to_string(), |argument| shown(argument, taker));
    let right = |at: usize| parameters.get(at).map_or("(nothing)", |own| own.text.as_str());
    let differs = |at: usize| match (declared.get(at), parameters.get(at)) {
        (Some(argument), Some(parameter)) => !takes(argument, parameter, taker),
        _ => true,
    };
    // The first difference is among the rows that are shown.
    let first = (0..rows).find(|at| differs(*at)).unwrap_or(0).saturating_sub(ROWS / 2);
    let shown_rows = first..rows.min(first + ROWS);
    let heads = ("the space passes", "the source takes");
    let width = shown_rows.clone().map(|at| left(at).chars().count()).max().unwrap_or(0).max(heads.0.len());
    let mut text = format!("     {:<width$}  {}", heads.0, heads.1);
    for at in shown_rows.clone() {
        let mark = if differs(at) { ">" } else { " " };
        let own: String = right(at).chars().take(60).collect();
        text.push_str(&format!("\n{mark} {:>2} {:<width$}  {own}", at + 1, left(at)));
    }
    let hidden = rows - shown_rows.len();
    if hidden > 0 {
        text.push_str(&format!("\n     … and {hidden} more"));
    }
    text
}

fn shown(argument: &ArgumentSpec, taker: Taker) -> String {
    let word = |dtype: &DType| if taker.real && dtype.is_float() { "REAL" } else { dtype.as_str() };
    match argument {
        ArgumentSpec::Buffer(BufferSpec { name, dtype, role, .. }) => {
            let written = if taker.writes(*role) { ", written" } else { "" };
            format!("{name}: {} buffer{written}", word(dtype))
        }
        ArgumentSpec::Scalar(ScalarSpec { name, dtype, .. }) => format!("{name}: {}", word(dtype)),
        ArgumentSpec::TensorMap(TensorMapSpec { name, of, .. }) => format!("{name}: tensor map of {of}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read_as_people_write_them() {
        let sources = [
            "__global__ void k() {}",
            "extern \"C\" __global__ void k(void);",
            "extern \"C\" __global__ void __launch_bounds__(B * (2), 1) k(const float* __restrict__ x, float *y, int n)\n{",
            "template <int N> __global__ void k(const Pair<int, 3> p, T x[], unsigned long long m, size_t, float a = 1)",
            "// __global__ void k(int a)\n/* __global__ void k(int b) */\n#define X __global__ void k(int c)\n\
             #if A\n__global__ void k(half h)\n#else\n__global__ void k(std::uint8_t c, uint u)\n#endif\n{}",
            // Tensor maps are told by their type, and not by a name.
            "__global__ void k(const __grid_constant__ evo::tensor_map k_map, CUtensorMap, const tensor_map* all, \
             int tensor_map)",
        ];
        let shown = sources.map(|source| {
            let SourceEntry::Read(found) = find(source, "k") else { panic!("{source}") };
            let row = |own: &SourceParameter| format!("  {}: {:?}\n", own.text, own.kind);
            let lists = found.iter().map(|list| list.iter().map(row).collect::<String>());
            format!("{source}\n{}", lists.collect::<Vec<_>>().join("  or\n"))
        });
        insta::assert_snapshot!(shown.concat());
    }

    #[test]
    fn names_of_included_files_are_found_in_both_spellings() {
        let text =
            "#include \"a.cuh\"\n  # include <sub/b.cuh> // why\n// #include \"c\"\n#include MACRO\nint x;";
        assert_eq!(included(text).collect::<Vec<_>>(), ["a.cuh", "sub/b.cuh"]);
    }

    #[test]
    fn what_cannot_be_read_is_left_to_the_compiler() {
        assert_eq!(find("__global__ void other(int n) {}", "k"), SourceEntry::Absent);
        assert_eq!(find("// k\n\"k\"", "k"), SourceEntry::Absent);
        for source in [
            "KERNEL(k)(int n) {}",
            "#include \"kernels.cuh\"\n",
            "# include <mine/kernels.cuh>\n__global__ void other();",
            "#define MAKE(a, b) __global__ void a##b(int n)\nMAKE(x, y)",
            "#define NAME k\n__global__ void NAME(int n) {}",
            "template <class... T> __global__ void k(T... all) {}",
            "__global__ void k(int n",
            "__global__ void other() { k(1); }",
            "__device__ void k(float x) {}",
            "__global__ __global__ ((((",
        ] {
            let found = find(source, "k");
            assert!(matches!(found, SourceEntry::Unreadable | SourceEntry::Absent), "{source}: {found:?}");
        }
        assert_eq!(
            names("__global__ void a(int n) {} __global__ void __launch_bounds__(3) b();"),
            ["a", "b"]
        );
    }
}
