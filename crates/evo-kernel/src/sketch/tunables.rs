//! What can be tuned: macros with a default, and names that the source leaves to whoever compiles it.

use std::collections::BTreeSet;

use super::definitions::{Definitions, is_name};
use super::model::{SketchGuess, SketchTunable, guessed};

/// Most threads of a block.
pub(super) const THREADS_MAX: i64 = 1024;

/// More tunables than this are a source that means something else.
const TUNABLES_MAX: usize = 64;

/// Names that look like macros and are somebody else's.
const FOREIGN: &[&str] =
    &["INFINITY", "NAN", "NULL", "M_PI", "M_E", "HUGE_VALF", "HUGE_VAL", "RAND_MAX", "REAL", "NDEBUG", "EOF"];

/// Starts of such names.
const FOREIGN_STARTS: &[&str] = &[
    "__", "CUDART_", "CUDA_", "FLT_", "DBL_", "INT_", "UINT_", "INT8_", "INT16_", "INT32_", "INT64_",
    "LONG_", "CHAR_", "SHRT_", "M_", "LLONG_", "UCHAR_", "USHRT_", "ULONG_", "UINT8_", "UINT16_", "UINT32_",
    "UINT64_",
];

/// Reads the tunables of a source, in the order in which it offers them.
pub(super) fn read(
    tokens: &[&str],
    definitions: &Definitions<'_>,
    guesses: &mut Vec<SketchGuess>,
) -> Vec<SketchTunable> {
    let mut found = Vec::new();
    for (name, default) in definitions.offered().take(TUNABLES_MAX) {
        let flag = (0..=1).contains(&default) && (definitions.is_flag(name) || is_switch(name, tokens));
        let values = if flag { vec![0, 1] } else { around(default, is_block(name)) };
        let why = format!("around the source's own {default}");
        found.push(SketchTunable { name: name.to_string(), values, default, is_undefined: false, why });
    }
    for name in undefined(tokens, definitions) {
        let default = if is_block(name) && !name.to_lowercase().ends_with(['y', 'z']) { 256 } else { 1 };
        let (values, default) = match is_block(name) {
            true if default == 1 => (vec![1, 2, 4, 8, 16], 1),
            true => (vec![32, 64, 128, 256, 512, 1024], 256),
            false => (vec![1, 2, 4, 8], 1),
        };
        let why = "the source leaves it to whoever compiles it".to_string();
        found.push(SketchTunable { name: name.to_string(), values, default, is_undefined: true, why });
    }
    for own in &found {
        let values: Vec<String> = own.values.iter().map(i64::to_string).collect();
        guessed(guesses, format!("`{}` is one of {}", own.name, values.join(", ")), own.why.clone());
    }
    let used: BTreeSet<&str> = tokens.iter().copied().collect();
    for (name, value) in definitions.fixed().filter(|(name, _)| used.contains(name)) {
        guessed(
            guesses,
            format!("`{name}` stays {value}"),
            format!("nothing guards it: put its `#define` between `#ifndef {name}` and `#endif` to tune it"),
        );
    }
    found
}

/// Whether a name is a count of threads of a block.
pub(super) fn is_block(name: &str) -> bool {
    let name = name.to_lowercase();
    let counts_work = ["per_thread", "items", "elems", "work"].iter().any(|word| name.contains(word));
    !counts_work
        && (name.contains("block")
            || name.contains("threads")
            || name == "tpb"
            || name == "bx"
            || name == "by")
}

/// Whether the code asks for the name as for something that is on or off.
fn is_switch(name: &str, tokens: &[&str]) -> bool {
    let lower = name.to_lowercase();
    if ["use_", "enable_", "has_", "with_", "do_"].iter().any(|start| lower.starts_with(start)) {
        return true;
    }
    let sign = |at: Option<usize>| at.and_then(|at| tokens.get(at)).copied().unwrap_or("");
    (0..tokens.len()).filter(|at| tokens[*at] == name).any(|at| {
        let (before, after) = (sign(at.checked_sub(1)), sign(Some(at + 1)));
        let asked = matches!(before, "(" | "&" | "|" | "!") && matches!(after, ")" | "&" | "|" | "?");
        asked && (before != "(" || sign(at.checked_sub(2)) == "if" || after != ")")
    })
}

/// Values around a default, ascending: powers of two where it is one.
fn around(default: i64, is_block: bool) -> Vec<i64> {
    if default < 1 {
        return vec![default, default + 1];
    }
    let max = if is_block { THREADS_MAX } else { i64::MAX / 8 };
    let factors: &[(i64, i64)] = match (default, is_block) {
        (1, _) => &[(1, 1), (2, 1), (4, 1), (8, 1)],
        (_, true) => &[(1, 4), (1, 2), (1, 1), (2, 1), (4, 1)],
        (_, false) => &[(1, 4), (1, 2), (1, 1), (2, 1)],
    };
    let scaled = |(up, down): &(i64, i64)| (default % down == 0).then(|| default.saturating_mul(*up) / down);
    let mut values: Vec<i64> =
        factors.iter().filter_map(scaled).filter(|own| (1..=max).contains(own)).collect();
    if !values.contains(&default) {
        values.push(default);
    }
    values.sort_unstable();
    values
}

/// Names in code that look like macros and that nothing defines, each once.
fn undefined<'s>(tokens: &[&'s str], definitions: &Definitions<'_>) -> Vec<&'s str> {
    let declaring = [
        "int",
        "unsigned",
        "typename",
        "class",
        "struct",
        "enum",
        "auto",
        "float",
        "double",
        "bool",
        "size_t",
        "long",
        "short",
        "char",
        "const",
        "half",
        "void",
        "using",
        "namespace",
        "goto",
        "uint32_t",
        "int32_t",
        "uint",
        "T",
    ];
    let (mut names, mut declared) = (Vec::new(), BTreeSet::new());
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| looks_like_macro(token)) {
        let before = at.checked_sub(1).map(|at| tokens[at]).unwrap_or("");
        let after = tokens.get(at + 1).copied().unwrap_or("");
        if declaring.contains(&before) {
            declared.insert(*token);
        }
        let is_value = !matches!(before, "." | ":") && !matches!(after, "(" | ":");
        if is_value && is_name(token) && !definitions.is_defined(token) && seen.insert(*token) {
            names.push(*token);
        }
    }
    names.retain(|name| !declared.contains(name));
    names.truncate(TUNABLES_MAX);
    names.retain(|name| !is_type(name, tokens));
    names
}

/// Whether it is used as a type: a name directly before another one, or before an asterisk and a name at the start of
/// a statement.
fn is_type(name: &str, tokens: &[&str]) -> bool {
    (0..tokens.len().saturating_sub(1)).any(|at| tokens[at] == name && is_name(tokens[at + 1]))
}

fn looks_like_macro(token: &str) -> bool {
    let kernel_tuner = ["block_size_x", "block_size_y", "block_size_z"].contains(&token)
        || token.strip_prefix("tile_size_").is_some_and(|axis| ["x", "y", "z"].contains(&axis));
    let upper = token.len() > 1
        && token.starts_with(|c: char| c.is_ascii_uppercase())
        && token.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let foreign = FOREIGN.contains(&token) || FOREIGN_STARTS.iter().any(|start| token.starts_with(start));
    (kernel_tuner || upper) && !foreign
}
