//! Words of a C++ source, as far as evo needs to know them without a compiler.

/// Whether a source uses an identifier outside comments and literals.
pub(super) fn uses_identifier(source: &str, name: &str) -> bool {
    let (found, directives) = pieces(source);
    found.contains(&name) || directives.iter().any(|line| tokens(&line[1..]).contains(&name))
}

/// Words, numbers and signs of a source, without comments, literals and lines of the preprocessor.
pub(super) fn tokens(source: &str) -> Vec<&str> {
    pieces(source).0
}

/// Lines of the preprocessor, joined lines included, outside comments and literals.
pub(super) fn directives(source: &str) -> Vec<&str> {
    pieces(source).1
}

/// Tokens and directives.
fn pieces(source: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut found, mut directives) = (Vec::new(), Vec::new());
    let (mut rest, mut begins_line) = (source, true);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if first == '#' && begins_line {
            let length = directive_length(rest);
            directives.push(&rest[..length]);
            length
        } else if first == '"' || first == '\'' {
            literal_length(rest, first)
        } else if first.is_whitespace() {
            first.len_utf8()
        } else {
            let word = |c: char| is_word(c) || (first.is_ascii_digit() && c == '\'');
            let end = match is_word(first) {
                true => rest.find(|c| !word(c)).unwrap_or(rest.len()),
                false => first.len_utf8(),
            };
            found.push(&rest[..end]);
            end
        };
        begins_line = match first {
            '\n' => true,
            _ => begins_line && (first.is_whitespace() || rest.starts_with("/*")),
        };
        rest = &rest[length..];
    }
    (found, directives)
}

/// Bytes of a line of the preprocessor, joined lines included, without its end.
fn directive_length(text: &str) -> usize {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        length += line.len();
        let own = line.trim_end_matches(['\n', '\r']);
        if !own.ends_with('\\') {
            return length - (line.len() - own.len());
        }
    }
    length
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
        assert!(uses("  #define T REAL // double"));
        assert!(!uses("#define T float // REAL"));
    }
}
