//! Token-aware rewriting of CUDA source for a C++ compiler: comments and strings are left alone, and no line moves, so
//! that compiler messages and barrier lines fit the rendered text.
//!
//! Dynamic shared memory becomes a pointer; static `__shared__` variables stay as they are declared, but for
//! where `alignas` stands.

use super::tokens::{CudaTokenKind, SourceTokens};

#[derive(Debug)]
pub struct Rewritten {
    pub text: String,
    /// Function names with the first argument of their `__launch_bounds__`.
    pub launch_bounds: Vec<(String, String)>,
    /// The largest alignment with which dynamic shared memory is declared, bytes; 0 without any.
    pub shared_alignment: u32,
}

pub fn rewrite(source: &str) -> Rewritten {
    let code = &SourceTokens::of(source);
    let mut rewriting = Rewriting {
        code,
        in_function: in_function(code),
        aliases: Vec::new(),
        launch_bounds: Vec::new(),
        shared_alignment: 0,
    };
    let mut text = String::with_capacity(source.len() + 256);
    let (mut at, mut done) = (0, 0);
    while at < code.tokens.len() {
        if let Some(edit) = rewriting.edit(at) {
            let (start, end) = (code.tokens[edit.first].start, code.tokens[edit.last].end);
            text.push_str(&source[done..start]);
            text.push_str(&edit.text);
            text.extend(source[start..end].matches('\n'));
            (at, done) = (edit.last, end);
        }
        at += 1;
    }
    text.push_str(&source[done..]);
    let Rewriting { launch_bounds, shared_alignment, .. } = rewriting;
    Rewritten { text, launch_bounds, shared_alignment }
}

/// Each once, in the source's order.
pub fn kernel_names(source: &str) -> Vec<String> {
    let code = &SourceTokens::of(source);
    let marked = (0..code.tokens.len()).filter(|at| code.word(*at) == "__global__");
    let mut names: Vec<String> = Vec::new();
    for name in marked.filter_map(|at| kernel_name(code, at)) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_string());
        }
    }
    names
}

/// What stands at some tokens, both included, becomes a text.
struct Edit {
    first: usize,
    last: usize,
    text: String,
}

struct Rewriting<'a> {
    code: &'a SourceTokens<'a>,
    /// Of each token: whether it stands in a function.
    in_function: Vec<bool>,
    /// Dynamic shared memory of the file's scope, with its element types.
    aliases: Vec<(&'a str, String)>,
    launch_bounds: Vec<(String, String)>,
    shared_alignment: u32,
}

impl Rewriting<'_> {
    fn edit(&mut self, at: usize) -> Option<Edit> {
        let code = self.code;
        match code.word(at) {
            "extern" => self.dynamic(at),
            // In the middle of a declaration C++ refuses it, but CUDA's compiler takes it.
            "alignas" if code.is(at + 2, CudaTokenKind::Number) && is_of_shared(code, at) => {
                Some(Edit { first: at, last: at, text: "__align__".to_string() })
            }
            // Whether it holds a type or a number only the compiler knows, but in front it may hold both.
            "__shared__" if code.word(at + 1) == "alignas" && !code.is(at + 3, CudaTokenKind::Number) => {
                let last = code.closing(at + 2)?;
                let qualifies = |at: &usize| matches!(code.word(*at), "static" | "volatile");
                let first = (0..at).rev().take_while(qualifies).last().unwrap_or(at);
                let words: Vec<&str> = (at + 1..=last).chain(first..=at).map(|at| code.word(at)).collect();
                Some(Edit { first, last, text: words.join(" ") })
            }
            "__launch_bounds__" => {
                self.launch_bounds.extend(launch_bound(code, at));
                None
            }
            word => {
                let (_, element) = self.aliases.iter().find(|(name, _)| *name == word)?;
                let text = format!("(evo_dynamic_shared<{element}>())");
                (!is_member(code, at)).then_some(Edit { first: at, last: at, text })
            }
        }
    }

    fn dynamic(&mut self, first: usize) -> Option<Edit> {
        let DynamicShared { names, last, alignment } = dynamic_shared(self.code, first)?;
        self.shared_alignment = self.shared_alignment.max(alignment);
        if !self.in_function[first] {
            self.aliases.extend(names);
            return Some(Edit { first, last, text: String::new() });
        }
        let pointers = names
            .iter()
            .map(|(name, element)| format!("auto* const {name} = evo_dynamic_shared<{element}>();"));
        Some(Edit { first, last, text: pointers.collect::<Vec<_>>().join(" ") })
    }
}

fn in_function(code: &SourceTokens<'_>) -> Vec<bool> {
    let mut open: Vec<bool> = Vec::new();
    let inside = |at| {
        match code.word(at) {
            "{" => open.push(!opens_namespace(code, at)),
            "}" => drop(open.pop()),
            _ => {}
        }
        open.contains(&true)
    };
    (0..code.tokens.len()).map(inside).collect()
}

fn kernel_name<'a>(code: &'a SourceTokens<'_>, at: usize) -> Option<&'a str> {
    let mut open = code.next_of(at + 1, &["("])?;
    while matches!(
        code.word(open - 1),
        "__launch_bounds__" | "__cluster_dims__" | "__maxnreg__" | "__attribute__" | "__align__"
    ) {
        open = code.next_of(code.closing(open)? + 1, &["("])?;
    }
    let is_name = |at: &usize| code.is(*at, CudaTokenKind::Word) && matches!(code.word(at + 1), "(" | "<");
    (at..open).rev().find(is_name).map(|name| code.word(name))
}

/// `extern __shared__ T a[], b[][33];`: names with their element types, and the `;`.
struct DynamicShared<'a> {
    names: Vec<(&'a str, String)>,
    last: usize,
    /// Bytes, where it is a number; other alignments count as 0.
    alignment: u32,
}

fn dynamic_shared<'a>(code: &'a SourceTokens<'_>, first: usize) -> Option<DynamicShared<'a>> {
    // A brace or `=` before the semicolon means a function or a definition, neither of which is shared
    // memory.
    let last = code.next_of(first, &[";", "{", "}", "="])?;
    if code.word(last) != ";" || !(first..last).any(|at| code.word(at) == "__shared__") {
        return None;
    }
    let mut words = Vec::new();
    let mut alignment = 0;
    let mut at = first + 1;
    while at < last {
        match code.word(at) {
            "__shared__" => {}
            "alignas" | "__align__" | "__attribute__" | "__builtin_align__" => {
                let close = code.closing(at + 1)?;
                let number = (at..close).find_map(|inside| code.word(inside).parse().ok());
                alignment = alignment.max(number.unwrap_or(0));
                at = close
            }
            _ => words.push(at),
        }
        at += 1;
    }
    let bracket = words.iter().position(|&at| code.word(at) == "[")?;
    let name_at = bracket.checked_sub(1)?;
    // With spaces, or `unsigned char` would become one word.
    let element = words[..name_at].iter().map(|&at| code.word(at)).collect::<Vec<_>>().join(" ");
    if element.is_empty() {
        return None;
    }
    let mut names = Vec::new();
    for declarator in words[name_at..].split(|&at| code.word(at) == ",") {
        let name = code.word(*declarator.first()?);
        let after = declarator.iter().position(|&at| code.word(at) == "]")?;
        let extents: String = declarator[after + 1..].iter().map(|&at| code.word(at)).collect();
        names.push((name, format!("{element}{extents}")));
    }
    Some(DynamicShared { names, last, alignment })
}

/// Whether the `alignas` there is part of a declaration of shared memory.
fn is_of_shared(code: &SourceTokens<'_>, at: usize) -> bool {
    let is_within = |at: &usize| !matches!(code.word(*at), ";" | "{" | "}");
    let behind = (at..code.tokens.len()).take_while(is_within);
    (0..at).rev().take_while(is_within).chain(behind).any(|at| code.word(at) == "__shared__")
}

/// The function name behind `__launch_bounds__(bound, …)` and the text of `bound`.
fn launch_bound(code: &SourceTokens<'_>, at: usize) -> Option<(String, String)> {
    let close = code.closing(at + 1)?;
    let mut end = at + 2;
    // Only a comma outside all brackets ends the first argument: `f(1, 2) * 3` is one.
    while end < close && code.word(end) != "," {
        end = code.partner(end).unwrap_or(end).max(end) + 1;
    }
    let bound = code.source[code.tokens[at + 2].start..code.tokens[end].start].trim().replace('\n', " ");
    // Other attributes with arguments of their own may stand between the bounds and the name.
    let paren = (close + 1..code.tokens.len()).find(|&next| {
        code.word(next) == "(" && !matches!(code.word(next - 1), "__cluster_dims__" | "__maxnreg__")
    })?;
    let named = code.is(paren - 1, CudaTokenKind::Word) && !bound.is_empty();
    named.then(|| (code.word(paren - 1).to_string(), bound))
}

/// Whether the `{` at `at` opens a namespace or `extern "C"`, which leave declarations at file scope.
fn opens_namespace(code: &SourceTokens<'_>, at: usize) -> bool {
    let Some(mut before) = at.checked_sub(1) else { return false };
    // A literal before a brace can only be the language of `extern "C"`.
    if code.is(before, CudaTokenKind::Text) || code.word(before) == "namespace" {
        return true;
    }
    // Walks back over a name such as `a::b`, whose colons are a mark each.
    while before > 0 && matches!(code.word(before), ":" | "inline") | code.is(before, CudaTokenKind::Word) {
        if code.word(before) == "namespace" {
            return true;
        }
        before -= 1;
    }
    code.word(before) == "namespace"
}

fn is_member(code: &SourceTokens<'_>, at: usize) -> bool {
    matches!((code.before(at, 2), code.before(at, 1)), (_, ".") | ("-", ">") | (":", ":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_of_shared_memory_become_what_cpp_can_say() {
        let in_a_function = |body: &str| format!("void f() {{ {body} }}");
        for (body, expected) in [
            ("extern __shared__ float s[];", "auto* const s = evo_dynamic_shared<float>();"),
            (
                "extern __shared__ __align__(16) unsigned char s[];",
                "auto* const s = evo_dynamic_shared<unsigned char>();",
            ),
            (
                "extern __shared__ alignas(sizeof(float4)) T<int, 2> s[];",
                "auto* const s = evo_dynamic_shared<T < int , 2 >>();",
            ),
            (
                "__align__(8) extern __shared__ float a[], b[][33];",
                "__align__(8) auto* const a = evo_dynamic_shared<float>(); auto* const b = evo_dynamic_shared<float[33]>();",
            ),
            ("__shared__ alignas(16) float s[4];", "__shared__ __align__(16) float s[4];"),
            ("__shared__ alignas(float4) float s[4];", "alignas ( float4 ) __shared__ float s[4];"),
            (
                "static __shared__ alignas(float4) float s[4];",
                "alignas ( float4 ) static __shared__ float s[4];",
            ),
            ("static alignas(16) __shared__ T s;", "static __align__(16) __shared__ T s;"),
            ("static alignas(16) volatile __shared__ T s;", "static __align__(16) volatile __shared__ T s;"),
            (
                "struct alignas(16) S { int s; }; __shared__ S s;",
                "struct alignas(16) S { int s; }; __shared__ S s;",
            ),
            ("__shared__ volatile alignas(16) int s;", "__shared__ volatile __align__(16) int s;"),
            ("__shared__ int s; alignas(16) int t;", "__shared__ int s; alignas(16) int t;"),
        ] {
            assert_eq!(rewrite(&in_a_function(body)).text, in_a_function(expected));
        }
        for (source, expected) in [
            (
                "namespace a::b {\nextern __shared__ int s[];\nvoid f() { s[0] = x.s + y->s; } }",
                "namespace a::b {\n\nvoid f() { (evo_dynamic_shared<int>())[0] = x.s + y->s; } }",
            ),
            (
                "extern __shared__ int s[];\nextern \"C\" { void f() { g(s); } }",
                "\nextern \"C\" { void f() { g((evo_dynamic_shared<int>())); } }",
            ),
            (
                "void f() {\n extern __shared__\n  float s[];\n s[0] = 1;\n}\n",
                "void f() {\n auto* const s = evo_dynamic_shared<float>();\n\n s[0] = 1;\n}\n",
            ),
        ] {
            assert_eq!(rewrite(source).text, expected);
        }
        for text in [
            "// extern __shared__ float s[];\n",
            "/* extern __shared__ float s[]; */ int s;",
            "const char* t = \"extern __shared__ float s[];\";",
            "extern \"C\" __global__ void k() {}",
            "__shared__ float s[32][33]; void f() {}",
        ] {
            assert_eq!(rewrite(text).text, text);
        }
    }

    #[test]
    fn launch_bounds_are_found_in_both_places() {
        let text = "extern \"C\" __global__ void __launch_bounds__(f(1, 2) * 3, 2) a(int x);\n\
                    __global__ __launch_bounds__(64) void b() {}";
        let expected = [("a".to_string(), "f(1, 2) * 3".to_string()), ("b".to_string(), "64".to_string())];
        assert_eq!(rewrite(text).launch_bounds, expected);
        assert_eq!(rewrite(text).shared_alignment, 0);
        let text =
            "void f() { extern __shared__ __align__(1024) char a[]; extern __shared__ alignas(16) int b[]; }";
        assert_eq!(rewrite(text).shared_alignment, 1024);
    }
}
