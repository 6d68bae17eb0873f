//! Names of a task as names of a kernel's: identifiers of C++, each once, and none that the language or the skeleton uses.

use std::collections::BTreeSet;

use evo_kernel::cpp_words::is_cpp_word;
use evo_kernel::label::{LABEL_MAX, is_label};

/// Further words that cannot be names: of Python and CUDA, and those of the skeleton.
const TAKEN: &[&str] = &[
    "BLOCK",
    "half",
    "i",
    "in",
    "is",
    "lambda",
    "None",
    "True",
    "False",
    "min",
    "max",
    "abs",
    "ceil_div",
    "blockIdx",
    "blockDim",
    "threadIdx",
    "gridDim",
    "warpSize",
];
#[derive(Debug, Default)]
pub(super) struct NameBook {
    used: BTreeSet<String>,
}

impl NameBook {
    /// A name like this one that nothing else has.
    pub(super) fn take(&mut self, wanted: &str) -> String {
        let mut name = identifier(wanted);
        let is_word = |name: &str| is_cpp_word(name) || TAKEN.contains(&name);
        while is_word(&name) || !self.used.insert(name.clone()) {
            name.push('_');
        }
        name
    }
}

/// An identifier of C++ that looks like the text.
pub(super) fn identifier(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let name: String = text.chars().take(LABEL_MAX / 2).map(plain).collect();
    match name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => name,
        false => format!("t_{}", name.trim_start_matches('_')),
    }
}

/// A name of a kernel or of a problem that looks like the text.
pub(super) fn label(text: &str, otherwise: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = text.chars().take(LABEL_MAX).map(plain).collect();
    let name = name.trim_start_matches(['.', '-']).to_string();
    if is_label(&name) { name } else { otherwise.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_and_differ() {
        let mut book = NameBook::default();
        assert_eq!(book.take("linear.weight"), "linear_weight");
        assert_eq!(book.take("linear_weight"), "linear_weight_");
        assert_eq!(book.take("default"), "default_");
        assert_eq!(book.take("1x"), "t_1x");
        assert_eq!(book.take(""), "t_");
        assert_eq!(label("../a b", "w"), "_a_b");
        assert_eq!(label("...", "w"), "w");
    }
}
