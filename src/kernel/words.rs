//! Words of a C++ source, as far as evo needs to know them without a compiler.

/// Whether a source uses an identifier outside comments and literals.
pub(super) fn uses_identifier(source: &str, name: &str) -> bool {
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if first == '"' || first == '\'' {
            literal_length(rest, first)
        } else if first.is_ascii_digit() {
            // A number may contain quotes: 1'000.
            rest.find(|c| !is_word(c) && c != '\'').unwrap_or(rest.len())
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            if &rest[..end] == name {
                return true;
            }
            end
        } else {
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    false
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Bytes of a literal with its quotes; one that does not end takes its line.
fn literal_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::uses_identifier;

    #[test]
    fn identifiers_are_found_in_code_only() {
        let uses = |source: &str| uses_identifier(source, "REAL");
        assert!(uses("void f(const REAL* x)"));
        assert!(uses("/* REAL */ REAL x;"));
        assert!(uses("char c = '\\''; REAL x;"));
        assert!(uses("int n = 1'000; REAL x;"));
        assert!(!uses("// REAL\nfloat x;"));
        assert!(!uses("/* REAL"));
        assert!(!uses("\"a \\\" REAL\" SURREAL REAL_T é"));
        assert!(!uses("'REAL"));
    }
}
