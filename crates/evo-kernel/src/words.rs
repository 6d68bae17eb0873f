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
