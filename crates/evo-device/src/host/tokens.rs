//! A C++ tokenizer that is just good enough to tell code from comments and strings.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CudaTokenKind {
    /// An identifier or keyword.
    Word,
    Number,
    Text,
    Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaToken {
    pub kind: CudaTokenKind,
    pub start: usize,
    pub end: usize,
}

impl CudaToken {
    pub fn text<'a>(&self, source: &'a str) -> &'a str {
        &source[self.start..self.end]
    }
}

/// A source and its tokens by number.
pub struct SourceTokens<'a> {
    pub source: &'a str,
    pub tokens: Vec<CudaToken>,
    /// Of each bracket the other one of its pair.
    partners: Vec<Option<usize>>,
}

impl<'a> SourceTokens<'a> {
    pub fn of(source: &'a str) -> SourceTokens<'a> {
        let tokens = tokenize(source);
        let mut partners = vec![None; tokens.len()];
        // A pair for each kind, so that a bracket too many spoils its own kind only.
        let (pairs, mut open) = (["()", "[]", "{}"], [const { Vec::<usize>::new() }; 3]);
        for (at, token) in tokens.iter().enumerate() {
            let text = token.text(source);
            let Some(kind) = pairs.iter().position(|pair| pair.contains(text) && text.len() == 1) else {
                continue;
            };
            if pairs[kind].starts_with(text) {
                open[kind].push(at);
            } else if let Some(opening) = open[kind].pop() {
                (partners[at], partners[opening]) = (Some(opening), Some(at));
            }
        }
        SourceTokens { source, tokens, partners }
    }

    /// Nothing behind the end.
    pub fn word(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text(self.source))
    }

    /// Nothing before the start.
    pub fn before(&self, at: usize, distance: usize) -> &'a str {
        at.checked_sub(distance).map_or("", |before| self.word(before))
    }

    pub fn is(&self, at: usize, kind: CudaTokenKind) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == kind)
    }

    /// The other one of a pair of brackets.
    pub fn partner(&self, at: usize) -> Option<usize> {
        self.partners.get(at).copied().flatten()
    }

    /// The `)` of the `(` at that number.
    pub fn closing(&self, open: usize) -> Option<usize> {
        if self.word(open) == "(" { self.partner(open) } else { None }
    }

    /// The first of these words at that number or behind it.
    pub fn next_of(&self, at: usize, words: &[&str]) -> Option<usize> {
        (at..self.tokens.len()).find(|&at| words.contains(&self.word(at)))
    }
}

pub fn tokenize(source: &str) -> Vec<CudaToken> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let start = at;
        match rest[0] {
            byte if byte.is_ascii_whitespace() => at += 1,
            b'/' if rest.starts_with(b"//") => at = find(bytes, at, b"\n", 0),
            b'/' if rest.starts_with(b"/*") => at = find(bytes, at + 2, b"*/", 2),
            b'R' if rest.starts_with(b"R\"") => {
                at = raw_string_end(bytes, at + 2);
                tokens.push(CudaToken { kind: CudaTokenKind::Text, start, end: at });
            }
            quote @ (b'"' | b'\'') => {
                at = quoted_end(bytes, at + 1, quote);
                tokens.push(CudaToken { kind: CudaTokenKind::Text, start, end: at });
            }
            byte if is_word(byte) => {
                let number = byte.is_ascii_digit();
                // A digit separator belongs to its number, not to a character literal.
                while at < bytes.len()
                    && (is_word(bytes[at]) || (number && matches!(bytes[at], b'.' | b'\'')))
                {
                    at += 1;
                }
                let kind = if number { CudaTokenKind::Number } else { CudaTokenKind::Word };
                tokens.push(CudaToken { kind, start, end: at });
            }
            _ => {
                at += 1;
                // A token is a slice of the source, which must not be cut inside a character.
                while !source.is_char_boundary(at) {
                    at += 1;
                }
                tokens.push(CudaToken { kind: CudaTokenKind::Mark, start, end: at });
            }
        }
    }
    tokens
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// Offset of `what` at or behind `from`, plus `extra`; the end when it is missing.
fn find(bytes: &[u8], from: usize, what: &[u8], extra: usize) -> usize {
    let from = from.min(bytes.len());
    let found = bytes[from..].windows(what.len()).position(|window| window == what);
    found.map_or(bytes.len(), |offset| from + offset + extra)
}

fn quoted_end(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            // A quote that is never closed must not swallow the rest of the source.
            b'\n' => return at,
            byte if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

fn raw_string_end(bytes: &[u8], at: usize) -> usize {
    let open = find(bytes, at, b"(", 0);
    let mut close = vec![b')'];
    close.extend_from_slice(&bytes[at.min(open)..open]);
    close.push(b'"');
    find(bytes, open, &close, close.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(source: &str, expected: &[&str]) {
        let texts: Vec<&str> = tokenize(source).iter().map(|token| token.text(source)).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn comments_vanish_and_strings_are_whole() {
        check("a/*b*/c//d\ne", &["a", "c", "e"]);
        check(r#"x = "a\"//b" + 'c';"#, &["x", "=", r#""a\"//b""#, "+", "'c'", ";"]);
        check("R\"x(a)\")x\" b", &["R\"x(a)\")x\"", "b"]);
        check("1'000.5f[2]", &["1'000.5f", "[", "2", "]"]);
        check("é \"open", &["é", "\"open"]);
    }

    proptest! {
        #[test]
        fn any_text_is_tokenized_without_overlap(source in "\\PC*") {
            let tokens = tokenize(&source);
            for pair in tokens.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start);
            }
            for token in tokens {
                prop_assert!(!token.text(&source).is_empty());
            }
        }
    }
}
