//! Variables of a module that code reads and nobody gives a value.
//!
//! They are zero in the variant and, as likely, in its reference, which hides a wrong coefficient. Found by the text: what
//! may be written somewhere, or declared again, is left alone. Each token is looked at a bounded number of times.

use std::collections::{HashMap, HashSet};

use super::signature::{is_whole, plain_number};
use super::words::{brackets, directives, is_name, is_one_of, tokens};

struct Variable {
    at: usize,
    is_constant: bool,
    is_array: bool,
    has_value: bool,
    uses: usize,
    /// Whether some use may be another thing than a read.
    is_doubtful: bool,
}

/// The first in the source of which `is_filled` does not say that an argument fills it.
pub(super) fn unfilled(source: &str, is_filled: impl Fn(&str) -> bool) -> Option<&str> {
    let tokens = tokens(source);
    let mut variables = declared(&tokens);
    if variables.is_empty() {
        return None;
    }
    let behind = brackets(&tokens);
    for (at, token) in tokens.iter().enumerate() {
        let Some(variable) = variables.get_mut(token).filter(|variable| variable.at != at) else { continue };
        variable.uses += 1;
        let is_read = variable.is_constant || is_read(&tokens, &behind, at, variable.is_array);
        variable.is_doubtful |= !is_read || is_declared_again(&tokens[..at]);
    }
    // Code that is not in the tokens may write variables, but not those in constant memory.
    let is_whole = is_whole(source);
    let words = |line| str::split(line, |c: char| !(c.is_alphanumeric() || c == '_'));
    let in_macros: HashSet<&str> = directives(source).into_iter().flat_map(words).collect();
    let is_unfilled = |name: &str, variable: &Variable| {
        let is_seen = variable.is_constant || (is_whole && !in_macros.contains(name));
        is_seen && variable.uses > 0 && !variable.is_doubtful && !variable.has_value && !is_filled(name)
    };
    let found = variables.into_iter().filter(|(name, variable)| is_unfilled(name, variable));
    found.min_by_key(|(_, variable)| variable.at).map(|(name, _)| name)
}

/// The variables that words for their memory declare. Functions are none, nor are those of another file, and one of several
/// in a declaration is left alone.
fn declared<'s>(tokens: &[&'s str]) -> HashMap<&'s str, Variable> {
    let mut variables: HashMap<&str, Variable> = HashMap::new();
    let mut start = 0;
    for end in 0..tokens.len() {
        if !matches!(tokens[end], ";" | "{" | "}" | "=" | "," | "(") {
            continue;
        }
        let words = &tokens[std::mem::replace(&mut start, end + 1)..end];
        let memory = words.iter().rposition(|word| matches!(*word, "__constant__" | "__device__"));
        let name = words.iter().position(|word| *word == "[").unwrap_or(words.len()).checked_sub(1);
        let (Some(memory), Some(name)) = (memory, name) else { continue };
        if !matches!(tokens[end], ";" | "{" | "=")
            || name <= memory
            || !is_name(words[name])
            || words.contains(&"extern")
        {
            continue;
        }
        let variable = Variable {
            at: end - words.len() + name,
            is_constant: words.contains(&"__constant__"),
            is_array: words.contains(&"["),
            has_value: tokens[end] != ";",
            uses: 0,
            is_doubtful: false,
        };
        // Of several definitions the preprocessor takes one.
        let has_value = variable.has_value;
        let known = variables.entry(words[name]).or_insert(variable);
        known.has_value |= has_value;
        known.is_doubtful |= known.at != end - words.len() + name && !known.is_constant;
    }
    variables
}

/// Whether a use reads an element and does nothing else, as far as its text shows.
fn is_read(tokens: &[&str], behind: &[usize], at: usize, is_array: bool) -> bool {
    let mut next = at + 1;
    while tokens.get(next) == Some(&"[") {
        next = behind[next];
    }
    let sign = |at: usize| tokens.get(at).copied().unwrap_or_default();
    let (first, second, third) = (sign(next), sign(next + 1), sign(next + 2));
    let is_shift = matches!(first, "<" | ">") && first == second;
    let is_assigned = (first == "=" && second != "=")
        || (matches!(first, "+" | "-" | "*" | "/" | "%" | "&" | "|" | "^") && second == "=")
        || (is_shift && third == "=")
        || (matches!(first, "+" | "-") && first == second);
    let before = |back: usize| at.checked_sub(back).map_or("", |at| tokens[at]);
    let is_taken = matches!((before(2), before(1)), (_, "&" | ".") | ("-", ">" | "-") | ("+", "+"));
    let is_whole_array = is_array && next == at + 1;
    let is_structure = matches!((first, second), ("." | "[", _) | ("-", ">"));
    !(is_whole_array || is_assigned || is_taken || is_structure)
}

/// Whether a name that stands behind these tokens is declared there, as a parameter or a local variable may be.
fn is_declared_again(before: &[&str]) -> bool {
    let [.., other, last] = before else { return false };
    let is_type = |word: &str| is_name(word) && !is_one_of(word, "return else do case sizeof throw");
    is_type(last)
        || (matches!(*last, "*" | "&")
            && (plain_number(&[*other]).is_some() || is_one_of(other, "const auto")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_nobody_fills_are_found() {
        let found = |head: &str, body: &str| {
            let source = format!("{head};\n__global__ void k(float* y) {{ {body}; }}");
            unfilled(&source, |name| name == "filled").is_some()
        };
        for (head, body) in [
            ("__constant__ float c[3]", "y[0] = c[1] + 1"),
            ("static __constant__ __device__ int n, m; __constant__ float c", "y[0] = c"),
            ("__constant__ float c", "if (y[0] > 1) return c * 2"),
            ("__device__ float c[3][4]", "if (c[1][2] == 0) y[0] += c[0][1]"),
            ("__device__ const Pair* c", "y[0] = c[0]"),
            ("#include <cuda_fp16.h>\n__device__ float c", "y[0] = 2 * c"),
        ] {
            assert!(found(head, body), "{head}: {body}");
        }
        for (head, body) in [
            ("__constant__ float c[3] = { 1, 2, 3 }", "y[0] = c[1]"),
            ("extern __constant__ float c[3]", "y[0] = c[1]"),
            ("__constant__ float filled[3]", "y[0] = filled[1]"),
            ("__constant__ float c[3]", "y[0] = 1"),
            ("#if A\n__constant__ int c = 1;\n#else\n__constant__ int c;\n#endif\nint d", "y[0] = c"),
            ("__constant__ float c; __device__ float f(float c)", "y[0] = f(1)"),
            ("__constant__ float c", "float c = 2; y[0] = c"),
            ("__device__ float c[3]", "c[0] = y[0]; y[1] = c[0]"),
            ("__device__ float c[3]", "y[1] = c[0]++"),
            ("__device__ unsigned c", "y[1] = atomicAdd(&c, 1)"),
            ("__device__ float c[3]", "float* p = c; y[1] = c[0] + p[0]"),
            ("__device__ unsigned c", "c <<= 1; y[0] = c"),
            ("__device__ Pair c[2]", "c[0].first = 1; y[0] = c[1].first"),
            ("__device__ float c(float a)", "y[0] = c(1)"),
            ("__device__ Pair<int, 2> c", "y[0] = c"),
            ("__device__ float c[3];\n#define PUT(v) c[0] = (v)\nint d", "PUT(1); y[0] = c[0]"),
            ("#include \"fill.cuh\"\n__device__ float c[3]", "y[0] = c[0]"),
        ] {
            assert!(!found(head, body), "{head}: {body}");
        }
    }

    /// A hostile source costs no more than its length.
    #[test]
    fn long_sources_come_to_an_end() {
        for part in
            ["__device__ ", "__device__ int c = ", "__constant__ int c; c ", "c[", "__device__ float c["]
        {
            assert!(unfilled(&part.repeat(200_000), |_| false).is_none() || part.contains("; c "));
        }
    }
}
