//! Words of a C++ source, as far as evo needs to know them without a compiler.

use evo_compile::{CudaTokenKind, SourceLines, tokenize};

/// Whether a source uses an identifier outside comments and literals.
pub(super) fn uses_identifier(source: &str, name: &str) -> bool {
    tokenize(source).iter().any(|token| token.kind == CudaTokenKind::Word && token.text(source) == name)
}

/// Words, numbers and signs of a source, without comments, literals and lines of the preprocessor.
pub(super) fn tokens(source: &str) -> Vec<&str> {
    let lines = SourceLines::likely(source);
    let code = lines.tokens.iter().filter(|token| token.kind != CudaTokenKind::Text);
    code.map(|token| token.text(source)).collect()
}

/// Lines of the preprocessor, joined lines included, outside comments and literals.
pub(super) fn directives(source: &str) -> Vec<&str> {
    let lines = SourceLines::likely(source);
    lines.directives.into_iter().map(|directive| source[directive.range].trim_end()).collect()
}

/// For each opening bracket the place behind the one that closes it, for each closing one the place of the one that opens
/// it; the end and the start where there is none. Looked up rather than searched for, so that no source makes anybody
/// look at its end again and again.
pub(super) fn brackets(tokens: &[&str]) -> Vec<usize> {
    let alone = |token: &&str| if matches!(*token, ")" | "]") { 0 } else { tokens.len() };
    let mut brackets: Vec<usize> = tokens.iter().map(alone).collect();
    for [open, close] in [["(", ")"], ["[", "]"]] {
        let mut opened = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            if *token == open {
                opened.push(at);
            } else if *token == close
                && let Some(from) = opened.pop()
            {
                (brackets[from], brackets[at]) = (at + 1, from);
            }
        }
    }
    brackets
}

/// The tokens up to one of these signs outside of brackets, or up to a bracket that they do not open.
pub(super) fn until<'t, 's>(tokens: &'t [&'s str], signs: &[&str]) -> &'t [&'s str] {
    let mut depth = 0;
    let inside = tokens.iter().take_while(|token| {
        depth += i32::from(matches!(**token, "(" | "[")) - i32::from(matches!(**token, ")" | "]"));
        depth >= 0 && !(depth == 0 && signs.contains(token))
    });
    &tokens[..inside.count()]
}

pub(super) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Whether a word stands in a list with blanks between its words.
pub(super) fn is_one_of(word: &str, list: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

pub(super) fn is_c_name(text: &str) -> bool {
    is_word(text) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Like a name, but it may begin with a digit.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::{directives, tokens, uses_identifier};

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

    #[test]
    fn a_text_in_a_directive_begins_no_comment() {
        let source = "#define GLOB \"*/*\" // \"\n#define ODD \"\nvoid k();\n";
        assert_eq!(directives(source), ["#define GLOB \"*/*\" // \"", "#define ODD \""]);
        assert_eq!(tokens(source), ["void", "k", "(", ")", ";"]);
    }
}
