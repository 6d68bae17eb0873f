//! What a source says of an entry that the compiler could not find, or could not choose.

use evo_protocol::binary::KernelSource;
use evo_protocol::entry_name::base;
use evo_protocol::verdict::{Verdict, VerdictKind};

use super::lines::SourceLines;

/// `known` are the kernels that were compiled; `why` is what the compiler says.
pub fn refusal(source: &KernelSource, entry: &str, known: &[&str], why: Option<&str>) -> Box<Verdict> {
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let candidates = candidates(&source.text, base(entry));
    let mut message = format!("no single kernel `{entry}` in `{}`", source.file_name);
    if candidates.is_empty() && !known.is_empty() {
        message.push_str(&format!("{why}; it has {}", known.join(", ")));
    } else if candidates.is_empty() {
        message.push_str(&why);
    } else {
        message.push_str(&format!("{why}\nhint: name one of them: {}", candidates.join(", ")));
    }
    Box::new(Verdict::new(VerdictKind::CompileError, message).with_cause("entry"))
}

pub fn of_host(source: &KernelSource, log: &str) -> Option<Box<Verdict>> {
    let line = log.lines().find(|line| line.contains("error: "))?;
    let why = line.strip_prefix("entry points:")?.split_once("error: ")?.1;
    let words: Vec<&str> = why.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let named = |entry: &&String| words.contains(&base(entry));
    let entry = source.entries.iter().find(named).or(source.entries.first())?;
    // What stands in the table around the name is evo's own.
    let own = |word: &&str| word.starts_with("evo_") || ["decltype", "static_cast"].contains(word);
    let why = if words.iter().any(own) { None } else { Some(why) };
    Some(refusal(source, entry, &[], why))
}

/// As a space file could name them: overloads with the types of their parameters, templates with the heads of theirs.
fn candidates(text: &str, name: &str) -> Vec<String> {
    let lines = SourceLines::likely(text);
    let word = |at: usize| lines.word(at);
    let mut found: Vec<String> = Vec::new();
    let named = |at: &usize| word(*at) == name && word(at + 1) == "(";
    for at in (0..lines.tokens.len()).filter(named) {
        // Back to the end of the declaration before.
        let start = (0..at).rev().find(|own| matches!(word(*own), ";" | "}" | "{")).map_or(0, |own| own + 1);
        if !(start..at).any(|own| word(own) == "__global__") {
            continue;
        }
        let Some(close) = lines.closing(at + 1) else { continue };
        let head = (start..at).find(|own| word(*own) == "template" && word(own + 1) == "<");
        let shown = match head {
            Some(head) => {
                let end = (head..at).find(|own| word(*own) == ">").unwrap_or(head + 1);
                format!("`{name}<{}>`", &text[lines.tokens[head + 1].end..lines.tokens[end].start])
            }
            None => {
                let types = (at + 2..close).collect::<Vec<_>>();
                let types = types.split(|own| word(*own) == ",").map(|own| {
                    // The last word is the parameter's name, if a type stands before it.
                    let own: Vec<usize> =
                        own.iter().copied().filter(|at| word(*at) != "__restrict__").collect();
                    let named = own.len() > 1 && lines.is_word(own[own.len() - 1]);
                    let own = if named { &own[..own.len() - 1] } else { &own[..] };
                    own.iter().map(|at| word(*at)).collect::<Vec<_>>().join(" ").replace(" *", "*")
                });
                format!("`{name}({})`", types.collect::<Vec<_>>().join(", "))
            }
        };
        if !found.contains(&shown) {
            found.push(shown);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_shown_as_a_space_file_names_them() {
        let text = "__global__ void f(const float* __restrict__ x, int n) {}\n__device__ void f(char c) {}\n\
                    __global__ void __launch_bounds__(64) f(double *x, unsigned int n);\n\
                    template <typename T, int N> __global__ void f(T* x) { f(1); }\n__global__ void g() {}";
        let found = candidates(text, "f");
        assert_eq!(found, ["`f(const float*, int)`", "`f(double*, unsigned int)`", "`f<typename T, int N>`"]);
        assert_eq!(candidates(text, "g"), ["`g()`"]);
        assert!(candidates(text, "h").is_empty());
    }
}
