//! Rewrites static `__shared__` variables of functions so that each lies between two checked zones.
//!
//! Only what is sure to mean the same is rewritten. A variable becomes a reference, so a source with local classes,
//! with lambdas that capture by copy, with `goto` or with `decltype` of a name keeps all its declarations as they
//! are, and so does a declaration among the cases of a `switch` or one that is not a plain list of names with
//! extents.

use super::tokens::{CudaTokenKind, SourceTokens};

#[derive(Debug)]
pub struct ZonedShared {
    pub first: usize,
    pub last: usize,
    pub text: String,
    pub count: usize,
}

/// Whether references can stand in for variables in this source.
pub fn allows_references(code: &SourceTokens<'_>, scopes: &[bool]) -> bool {
    (0..code.tokens.len()).all(|at| match code.word(at) {
        "]" if matches!(code.word(at + 1), "(" | "{") => captures_by_reference(code, at),
        "struct" | "class" | "union" if scopes[at] => {
            // A name behind it, and then no body: `struct float4 x`.
            !matches!(code.word(at + 1), "{") && !matches!(code.word(at + 2), "{" | ":")
        }
        // It may not jump over a reference.
        "goto" => false,
        "decltype" | "typeof" | "__typeof__" => code.word(at + 3) != ")",
        _ => true,
    })
}

fn captures_by_reference(code: &SourceTokens<'_>, close: usize) -> bool {
    let open = (0..close).rev().find(|&at| code.word(at) == "[");
    let Some(open) = open else { return false };
    let list: Vec<&str> = (open + 1..close).map(|at| code.word(at)).collect();
    list.split(|word| *word == ",").all(|entry| entry.first() == Some(&"&"))
}

/// Rewrites the declaration whose `__shared__` stands at `at`, in a function of the kernel `kernel` or in one that any
/// kernel may call; its variables get numbers from `number` on.
pub fn zoned(code: &SourceTokens<'_>, at: usize, number: usize, kernel: Option<&str>) -> Option<ZonedShared> {
    if in_directive(code.source, code.tokens[at].start) || among_cases(code, at) {
        return None;
    }
    let first = declaration_start(code, at)?;
    let last = (at..code.tokens.len()).find(|&at| matches!(code.word(at), ";" | "=" | "{" | "}" | "#"))?;
    if code.word(last) != ";" {
        return None;
    }
    let words: Vec<usize> = (first..last)
        .filter(|&at| !matches!(code.word(at), "static" | "__shared__" | "thread_local"))
        .collect();
    let declarators = declarators(code, &words)?;
    let specifiers = &words[..declarators[0].start];
    let mut out = String::new();
    for (index, declarator) in declarators.iter().enumerate() {
        let name = code.word(words[declarator.name]);
        if specifiers.iter().any(|&at| code.word(at) == name) {
            return None;
        }
        let mut declaration = spell(code, specifiers);
        declaration.push(' ');
        declaration.push_str(&spell(code, &words[declarator.start..declarator.end]));
        let (number, kernel) = (number + index, kernel.unwrap_or(""));
        out.push_str(&format!("EVO_SHARED({number}, {name}, \"{kernel}\", {declaration}) "));
    }
    Some(ZonedShared { first, last, text: out.trim_end().to_string(), count: declarators.len() })
}

struct DeclaratorSpan {
    start: usize,
    name: usize,
    end: usize,
}

/// Splits `T *a[4], b` at its commas; nothing if it has parentheses where none are expected.
fn declarators(code: &SourceTokens<'_>, words: &[usize]) -> Option<Vec<DeclaratorSpan>> {
    let text = |index: usize| code.word(words[index]);
    let is_word = |index: usize| code.is(words[index], CudaTokenKind::Word);
    let (mut spans, mut brackets, mut angles) = (Vec::<DeclaratorSpan>::new(), 0, 0);
    let (mut name, mut extents, mut names) = (None, false, 0);
    for index in 0..=words.len() {
        let word = if index < words.len() { text(index) } else { "," };
        let inside = brackets > 0 || angles > 0;
        match word {
            "," if !inside => {
                let name = name.take()?;
                let start = match spans.last() {
                    Some(span) => span.end + 1,
                    None => (0..name).rev().find(|&at| !matches!(text(at), "*" | "&"))? + 1,
                };
                spans.push(DeclaratorSpan { start, name, end: index });
                (extents, names) = (false, 0);
            }
            "(" if !inside && !is_attribute(text(index.checked_sub(1)?)) => return None,
            "(" | "[" => {
                extents |= word == "[" && !inside;
                brackets += 1;
            }
            ")" | "]" => brackets -= 1,
            "<" if brackets == 0 => angles += 1,
            ">" if brackets == 0 => angles -= 1,
            _ if !inside && !extents && is_word(index) && !is_attribute(word) => {
                names += 1;
                name = Some(index);
            }
            _ if !inside && !extents && !matches!(word, "*" | "&" | ":") && !is_attribute(word) => {
                return None;
            }
            _ => {}
        }
        // Unbalanced, or a single word, which cannot be both type and name.
        if brackets < 0 || angles < 0 || (names == 1 && index + 1 == words.len() && spans.is_empty()) {
            return None;
        }
    }
    Some(spans)
}

fn is_attribute(word: &str) -> bool {
    matches!(word, "alignas" | "__align__" | "__builtin_align__")
}

/// The first token of the declaration: qualifiers may stand before `__shared__`. Nothing if what stands before them
/// does not end a statement or a directive.
fn declaration_start(code: &SourceTokens<'_>, at: usize) -> Option<usize> {
    let mut first = at;
    while first > 0 {
        match code.word(first - 1) {
            "static" | "volatile" => first -= 1,
            ")" => {
                let open = (0..first - 1).rev().find(|&at| code.word(at) == "(")?;
                if open == 0 || !is_attribute(code.word(open - 1)) {
                    return None;
                }
                first = open - 1;
            }
            ";" | "{" | "}" => return Some(first),
            _ if in_directive(code.source, code.tokens[first - 1].start) => return Some(first),
            _ => return None,
        }
    }
    None
}

fn among_cases(code: &SourceTokens<'_>, at: usize) -> bool {
    let Some(brace) = code.enclosing(at, "{", "}").filter(|&brace| brace > 0 && code.word(brace - 1) == ")")
    else {
        return false;
    };
    code.enclosing(brace - 1, "(", ")").is_some_and(|open| open > 0 && code.word(open - 1) == "switch")
}

/// Whether a place lies in a preprocessor directive, whose lines may be continued.
fn in_directive(source: &str, offset: usize) -> bool {
    let mut end = offset;
    loop {
        let start = source[..end].rfind('\n').map_or(0, |line_break| line_break + 1);
        let before = source[..start].trim_end_matches(['\n', '\r']);
        if start == 0 || !before.ends_with('\\') {
            return source[start..].trim_start_matches([' ', '\t']).starts_with('#');
        }
        end = before.len();
    }
}

/// The words as they stand, with one space where there was any, and `alignas` as C++ takes it in any place.
fn spell(code: &SourceTokens<'_>, words: &[usize]) -> String {
    let mut out = String::new();
    for (index, &at) in words.iter().enumerate() {
        let token = &code.tokens[at];
        if index > 0 && code.tokens[words[index - 1]].end != token.start {
            out.push(' ');
        }
        match code.word(at) {
            "alignas" if code.is(at + 2, CudaTokenKind::Number) => out.push_str("__align__"),
            text => out.push_str(text),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(body: &str) -> Option<String> {
        let source = format!("void f() {{ {body}");
        let code = SourceTokens::of(&source);
        let at = (0..code.tokens.len()).find(|at| code.word(*at) == "__shared__").unwrap();
        zoned(&code, at, 1, Some("k")).map(|zoned| zoned.text)
    }

    fn check(body: &str, expected: &str) {
        assert_eq!(rewritten(body).as_deref(), Some(expected), "{body}");
    }

    #[test]
    fn declarations_become_zoned_variables() {
        check("__shared__ float tile[32][33];", "EVO_SHARED(1, tile, \"k\", float tile[32][33])");
        check("static __shared__ volatile\n  int flag;", "EVO_SHARED(1, flag, \"k\", volatile int flag)");
        check(
            "volatile __shared__ unsigned long long x;",
            "EVO_SHARED(1, x, \"k\", volatile unsigned long long x)",
        );
        check(
            "__shared__ __align__(16) ns::T<A<int>, (4 > 2)> a[N * (M + 1)], *b[2];",
            "EVO_SHARED(1, a, \"k\", __align__(16) ns::T<A<int>, (4 > 2)> a[N * (M + 1)]) \
             EVO_SHARED(2, b, \"k\", __align__(16) ns::T<A<int>, (4 > 2)> *b[2])",
        );
        check(
            "alignas(16) __shared__ T x[A < B ? 1 : 2];",
            "EVO_SHARED(1, x, \"k\", __align__(16) T x[A < B ? 1 : 2])",
        );
        check("__shared__ typename S::T s;", "EVO_SHARED(1, s, \"k\", typename S::T s)");
        check("switch (f(1)) { case 0: { __shared__ int x;", "EVO_SHARED(1, x, \"k\", int x)");
        check("\n#pragma unroll\n__shared__ int x;", "EVO_SHARED(1, x, \"k\", int x)");
    }

    #[test]
    fn what_is_not_understood_stays() {
        for body in [
            "__shared__ float (*p)[4];",
            "__shared__ int x = 3;",
            "__shared__ union { int i; float f; } u;",
            "float __shared__ x[4];",
            "__shared__ tile tile[4];",
            "\n#define S \\\n __shared__ int x;",
            "__shared__ x;",
            "switch (f(1)) { case 0: { g(); } __shared__ int x;",
        ] {
            assert_eq!(rewritten(body), None, "{body}");
        }
    }

    #[test]
    fn sources_that_need_variables_keep_them() {
        let check = |source: &str, expected: bool| {
            let code = SourceTokens::of(source);
            let scopes: Vec<bool> = code.tokens.iter().map(|token| token.start > 8).collect();
            assert_eq!(allows_references(&code, &scopes), expected, "{source}");
        };
        check("void f() { auto g = [&](int i) { return s[i]; }; if (a[3]) { x[i] = 1; } }", true);
        check("void f() { auto g = [=](int i) { return s[i]; }; }", false);
        check("void f() { auto g = [](int i) { return i; }; }", false);
        check("void f() { auto g = [&, x](int i) { return i; }; }", false);
        check("void f() { struct P { int x; }; }", false);
        check("void f() { struct P x; }", true);
        check("struct P { int x; }; void f() {}", true);
        check("void f() { decltype(s) t; }", false);
        check("void f() { decltype(s[0] + 1) t; }", true);
    }
}
