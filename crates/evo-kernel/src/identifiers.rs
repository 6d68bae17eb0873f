//! Names that a space file or a task allows, as identifiers of C++ and Python.

use std::collections::BTreeSet;

use crate::words::is_one_of;

/// Key words of C++17, two of C++20 that compilers take for such, and key words and functions of Python.
const WORDS: &str = "alignas alignof and asm auto bool break case catch char class const constexpr continue default \
    delete do double else enum explicit export extern false float for friend goto if inline int long \
    mutable namespace new noexcept not nullptr operator or private protected public register return \
    short signed sizeof static struct switch template this throw true try typedef typeid typename \
    union unsigned using virtual void volatile while xor concept requires \
    False None True in is lambda min max abs";

#[derive(Debug)]
pub struct Identifiers {
    taken: &'static str,
    used: BTreeSet<String>,
}

impl Identifiers {
    /// `taken` are further words, with blanks between them, that no identifier may be.
    pub fn new(taken: &'static str) -> Identifiers {
        Identifiers { taken, used: BTreeSet::new() }
    }

    /// An identifier for a name: the name itself where it can be, else one like it that nothing else has.
    pub fn take(&mut self, name: &str) -> String {
        let mut identifier = plain(name);
        let is_word = |name: &str| is_one_of(name, WORDS) || is_one_of(name, self.taken);
        while is_word(&identifier) || self.used.contains(&identifier) {
            identifier += if identifier.ends_with('_') { "x" } else { "_" };
        }
        self.used.insert(identifier.clone());
        identifier
    }

    /// The same where the identifier with each of these endings is one too.
    pub fn take_with(&mut self, name: &str, endings: &[&str]) -> String {
        let mut identifier = self.take(name);
        while endings.iter().any(|ending| self.used.contains(&format!("{identifier}{ending}"))) {
            identifier = self.take(&format!("{identifier}_x"));
        }
        self.used.extend(endings.iter().map(|ending| format!("{identifier}{ending}")));
        identifier
    }
}

/// A text as letters, digits and single underscores, with a letter first: C++ keeps names that begin with an underscore
/// to itself, in part.
pub fn plain(text: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let mut plain: String = text.chars().map(letter).collect();
    if !plain.starts_with(|first: char| first.is_ascii_alphabetic()) {
        plain.insert(0, 'x');
    }
    while plain.contains("__") {
        plain = plain.replace("__", "_");
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_endings_keeps_clear_of_all_of_them() {
        let mut book = Identifiers::new("");
        assert_eq!(book.take("q_dims"), "q_dims");
        let map = book.take_with("q", &["_dims", "_box"]);
        assert_eq!(map, "q_x");
        assert_ne!(book.take("q_x_box"), "q_x_box");
        assert_eq!(book.take_with("k", &["_dims"]), "k");
    }

    #[test]
    fn names_become_identifiers_that_differ() {
        let mut book = Identifiers::new("exact turn");
        let names = ["N", "a-b", "a.b", "int", "2d", "_x", "lambda", "a_b", "a__b", "exact", ""];
        let found = names.map(|name| book.take(name));
        let expected =
            ["N", "a_b", "a_b_", "int_", "x2d", "x_x", "lambda_", "a_b_x", "a_b_x_", "exact_", "x"];
        assert_eq!(found, expected);
    }
}
