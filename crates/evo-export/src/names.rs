//! Names that a space file allows, as identifiers of C++ and Python.

use std::collections::BTreeSet;

use evo_kernel::cpp_words::is_cpp_word;

/// Further words that cannot be names there, and names that the templates use themselves.
const TAKEN: &[&str] = &[
    // C++
    "tensor_map",
    "map_encoder",
    "main",
    "std",
    // Python
    "False",
    "None",
    "True",
    "as",
    "assert",
    "async",
    "await",
    "def",
    "del",
    "elif",
    "except",
    "finally",
    "from",
    "global",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "pass",
    "raise",
    "with",
    "yield",
    "self",
    "print",
    "torch",
    "min",
    "max",
    "abs",
    "len",
    "list",
    "dict",
    "tuple",
    "range",
    "type",
    // The templates
    "exact",
    "Exact",
    "NoValue",
    "no_value",
    "ceil_div",
    "floor_div",
    "floor_mod",
    "power",
    "absolute",
    "smallest",
    "largest",
    "is_true",
    "is_one_of",
    "first_false",
    "first_true",
    "to_whole",
    "to_number",
    "value_of",
    "order",
    "sizes",
    "buffers",
    "launch",
    "launches",
    "shapes",
    "check",
    "result",
    "failure",
    "stream",
    "arguments",
    "given",
    "own",
    "detail",
    "turn",
    "times",
    "address",
    "call",
    "evo_export",
    "bytes",
    "offset",
    "planned",
    "device",
    "counted",
];

fn is_taken(name: &str) -> bool {
    is_cpp_word(name) || TAKEN.contains(&name)
}

#[derive(Debug, Default)]
pub struct Identifiers {
    used: BTreeSet<String>,
}

impl Identifiers {
    /// An identifier for a name: the name itself where it can be, else one like it that nothing else has.
    pub fn take(&mut self, name: &str) -> String {
        let mut own: String =
            name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
        if !own.starts_with(|first: char| first.is_ascii_alphabetic()) {
            // C++ keeps names that begin with an underscore to itself, in part.
            own.insert(0, 'x');
        }
        while own.contains("__") {
            own = own.replace("__", "_");
        }
        while is_taken(&own) || self.used.contains(&own) {
            own.push('_');
            if own.ends_with("__") {
                own.truncate(own.len() - 2);
                own.push_str("_x");
            }
        }
        self.used.insert(own.clone());
        own
    }

    /// The same where the identifier with each of these endings is one too.
    pub fn take_with(&mut self, name: &str, endings: &[&str]) -> String {
        let mut own = self.take(name);
        while endings.iter().any(|ending| self.used.contains(&format!("{own}{ending}"))) {
            own = self.take(&format!("{own}_x"));
        }
        self.used.extend(endings.iter().map(|ending| format!("{own}{ending}")));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_endings_keeps_clear_of_all_of_them() {
        let mut own = Identifiers::default();
        assert_eq!(own.take("q_dims"), "q_dims");
        let map = own.take_with("q", &["_dims", "_box"]);
        assert_eq!(map, "q_x");
        assert_ne!(own.take("q_x_box"), "q_x_box");
        assert_eq!(own.take_with("k", &["_dims"]), "k");
    }

    #[test]
    fn names_become_identifiers_that_differ() {
        let mut own = Identifiers::default();
        let names = ["N", "a-b", "a.b", "int", "2d", "_x", "lambda", "a_b", "a__b", "exact"];
        let found = names.map(|name| own.take(name));
        assert_eq!(found, ["N", "a_b", "a_b_", "int_", "x2d", "x_x", "lambda_", "a_b_x", "a_b_x_", "exact_"]);
    }
}
