//! What first space files have in common, whatever they are made from: their texts in TOML, and a reference that is the
//! kernel itself at its defaults.

use std::fmt::Write;

/// What stands above such a reference in a space file.
pub(crate) const REFERENCE_NOTE: &str = "# The kernel at its defaults is the reference: this finds variants that break it, and no mistake that it has itself.\n";

/// A text as TOML has it, whose escapes include those of JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The inside of a list of texts.
pub(crate) fn list<T: AsRef<str>>(all: &[T]) -> String {
    all.iter().map(|own| quoted(own.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Whether a text may stand in a comment, in an `#include` and on a line of its own.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || c == '"' || c == '\\')
}

/// An expression with values in the place of the names that have one.
pub(crate) fn at_values(expression: &str, value_of: &dyn Fn(&str) -> Option<String>) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut text = String::new();
    for piece in expression.split_inclusive(|c: char| !is_word(c)) {
        let name = piece.trim_end_matches(|c: char| !is_word(c));
        text.push_str(value_of(name).as_deref().unwrap_or(name));
        text.push_str(&piece[name.len()..]);
    }
    text
}

/// A source that gives the kernel's macros one value each and includes it: its file's name and its text.
pub(crate) fn reference(command: &str, path: &str, macros: &[(String, String)]) -> (String, String) {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.strip_suffix(".cu").unwrap_or(file);
    let mut text = format!(
        "// The reference of `{command}`: {file} with one value for each of its macros. It finds variants that differ from\n\
         // this one; a simple kernel of your own in its place finds the mistakes of this one, too.\n"
    );
    for (name, value) in macros {
        let _ = writeln!(text, "#define {name} {value}");
    }
    let _ = writeln!(text, "#include \"{path}\"");
    (format!("{stem}_reference.cu"), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_whole_names() {
        let value_of = |name: &str| (name == "B").then(|| "64".to_string());
        assert_eq!(at_values("ceil_div(N, B * BB) + B", &value_of), "ceil_div(N, 64 * BB) + 64");
        assert_eq!(at_values("", &value_of), "");
    }
}
