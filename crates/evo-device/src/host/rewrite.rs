//! Token-aware rewriting of CUDA source for a C++ compiler: comments and strings are left alone, and no line moves, so
//! that compiler messages and barrier lines fit the rendered text.
//!
//! Dynamic shared memory becomes a pointer, and each static `__shared__` variable of a function comes to lie between two
//! checked zones. Of the latter only what is sure to mean the same is rewritten. A variable becomes a reference, so a
//! source with local classes, with lambdas that capture by copy, with `goto` or with `decltype` of a name keeps all its
//! declarations as they are, and so does a declaration among the cases of a `switch` or one that is not a plain list of
//! names with extents.

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
    let scopes = Scopes::of(code);
    let zones = allows_references(code, &scopes.in_function);
    let mut rewriting = Rewriting {
        code,
        scopes,
        zones,
        zoned: 0,
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
    scopes: Scopes<'a>,
    /// Whether static variables get zones, and how many have them so far.
    zones: bool,
    zoned: usize,
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
            "__shared__" => self.fixed(at),
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
        if !self.scopes.in_function[first] {
            self.aliases.extend(names);
            return Some(Edit { first, last, text: String::new() });
        }
        let pointers = names
            .iter()
            .map(|(name, element)| format!("auto* const {name} = evo_dynamic_shared<{element}>();"));
        Some(Edit { first, last, text: pointers.collect::<Vec<_>>().join(" ") })
    }

    fn fixed(&mut self, at: usize) -> Option<Edit> {
        if self.zones && self.scopes.in_function[at] {
            let kernel = self.scopes.kernel[at].unwrap_or("");
            if let Some((edit, count)) = zoned(self.code, at, self.zoned + 1, kernel) {
                self.zoned += count;
                return Some(edit);
            }
        }
        // In the middle of a declaration, which C++ refuses there but CUDA's compiler takes.
        let alignas = at + 1;
        let text = "__align__".to_string();
        is_number_alignas(self.code, alignas).then_some(Edit { first: alignas, last: alignas, text })
    }
}

/// Of each token: whether it stands in a function, and in which kernel's body.
struct Scopes<'a> {
    in_function: Vec<bool>,
    kernel: Vec<Option<&'a str>>,
}

impl<'a> Scopes<'a> {
    fn of(code: &'a SourceTokens<'a>) -> Scopes<'a> {
        let mut scopes = Scopes { in_function: Vec::new(), kernel: Vec::new() };
        let mut open: Vec<(bool, Option<&str>)> = Vec::new();
        let mut announced = None;
        for at in 0..code.tokens.len() {
            match code.word(at) {
                "__global__" => announced = kernel_name(code, at),
                // A declaration without a body.
                ";" => announced = None,
                "{" => open.push((!opens_namespace(code, at), announced.take())),
                "}" => drop(open.pop()),
                _ => {}
            }
            scopes.in_function.push(open.iter().any(|(is_function, _)| *is_function));
            scopes.kernel.push(open.iter().rev().find_map(|(_, kernel)| *kernel));
        }
        scopes
    }
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

fn is_number_alignas(code: &SourceTokens<'_>, at: usize) -> bool {
    code.word(at) == "alignas" && code.is(at + 2, CudaTokenKind::Number)
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

/// Whether references can stand in for variables in this source.
fn allows_references(code: &SourceTokens<'_>, in_function: &[bool]) -> bool {
    (0..code.tokens.len()).all(|at| match code.word(at) {
        "]" if matches!(code.word(at + 1), "(" | "{") => captures_by_reference(code, at),
        "struct" | "class" | "union" if in_function[at] => {
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
    let Some(open) = code.partner(close) else { return false };
    let list: Vec<&str> = (open + 1..close).map(|at| code.word(at)).collect();
    list.split(|word| *word == ",").all(|entry| entry.first() == Some(&"&"))
}

/// The declaration whose `__shared__` stands at `at`, in a function of the kernel `kernel` or in one that any kernel may
/// call, and how many variables it has; they get numbers from `number` on.
fn zoned(code: &SourceTokens<'_>, at: usize, number: usize, kernel: &str) -> Option<(Edit, usize)> {
    if in_directive(code.source, code.tokens[at].start) || among_cases(code, at) {
        return None;
    }
    let first = declaration_start(code, at)?;
    let last = code.next_of(at, &[";", "=", "{", "}", "#"])?;
    if code.word(last) != ";" {
        return None;
    }
    let words: Vec<usize> = (first..last)
        .filter(|&at| !matches!(code.word(at), "static" | "__shared__" | "thread_local"))
        .collect();
    let declarators = declarators(code, &words)?;
    let specifiers = &words[..declarators[0].start];
    let mut variables = Vec::new();
    for (number, declarator) in (number..).zip(&declarators) {
        let name = code.word(words[declarator.name]);
        if specifiers.iter().any(|&at| code.word(at) == name) {
            return None;
        }
        let (specifiers, declarator) =
            (spell(code, specifiers), spell(code, &words[declarator.start..declarator.end]));
        variables.push(format!("EVO_SHARED({number}, {name}, \"{kernel}\", {specifiers} {declarator})"));
    }
    Some((Edit { first, last, text: variables.join(" ") }, variables.len()))
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
                let open = code.partner(first - 1)?;
                if !is_attribute(code.before(open, 1)) {
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
    let condition = code.brace(at).and_then(|brace| code.partner(brace.checked_sub(1)?));
    condition.is_some_and(|open| code.before(open, 1) == "switch")
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
            "alignas" if is_number_alignas(code, at) => out.push_str("__align__"),
            text => out.push_str(text),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        assert_eq!(rewrite(source).text, expected);
    }

    #[test]
    fn a_declaration_in_a_function_becomes_a_pointer() {
        check(
            "void f() { extern __shared__ float s[]; }",
            "void f() { auto* const s = evo_dynamic_shared<float>(); }",
        );
        check(
            "void f() { extern __shared__ __align__(16) unsigned char s[]; }",
            "void f() { auto* const s = evo_dynamic_shared<unsigned char>(); }",
        );
        check(
            "void f() { extern __shared__ alignas(sizeof(float4)) T<int, 2> s[]; }",
            "void f() { auto* const s = evo_dynamic_shared<T < int , 2 >>(); }",
        );
        check(
            "void f() { __align__(8) extern __shared__ float a[], b[][33]; }",
            "void f() { __align__(8) auto* const a = evo_dynamic_shared<float>(); auto* const b = evo_dynamic_shared<float[33]>(); }",
        );
    }

    #[test]
    fn lines_stay_where_they_are() {
        let text = "void f() {\n extern __shared__\n  float s[];\n s[0] = 1;\n}\n";
        let rewritten = rewrite(text).text;
        assert_eq!(rewritten.lines().nth(3), Some(" s[0] = 1;"));
    }

    #[test]
    fn a_declaration_at_file_scope_is_replaced_where_it_is_used() {
        check(
            "namespace a::b {\nextern __shared__ int s[];\nvoid f() { s[0] = x.s + y->s; } }",
            "namespace a::b {\n\nvoid f() { (evo_dynamic_shared<int>())[0] = x.s + y->s; } }",
        );
        check(
            "extern __shared__ int s[];\nextern \"C\" { void f() { g(s); } }",
            "\nextern \"C\" { void f() { g((evo_dynamic_shared<int>())); } }",
        );
    }

    #[test]
    fn comments_strings_and_other_externs_are_left_alone() {
        for text in [
            "// extern __shared__ float s[];\n",
            "/* extern __shared__ float s[]; */ int s;",
            "const char* t = \"extern __shared__ float s[];\";",
            "extern \"C\" __global__ void k() {}",
            "__shared__ float s[32][33]; void f() {}",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn alignas_after_shared_becomes_an_attribute() {
        check("__shared__ alignas(16) float s[4];", "__shared__ __align__(16) float s[4];");
    }

    #[test]
    fn static_variables_know_the_kernel_that_they_stand_in() {
        check(
            "template <int N> __global__ void __launch_bounds__(N) a(int x) { if (x) { __shared__ int s[N], t; } }\n\
             __device__ void b() {\n __shared__\n  float u;\n}\n__global__ void c(); void d() { __shared__ int v; }",
            "template <int N> __global__ void __launch_bounds__(N) a(int x) { if (x) { EVO_SHARED(1, s, \"a\", int s[N]) EVO_SHARED(2, t, \"a\", int t) } }\n\
             __device__ void b() {\n EVO_SHARED(3, u, \"\", float u)\n\n}\n__global__ void c(); void d() { EVO_SHARED(4, v, \"\", int v) }",
        );
        check(
            "void f() { auto g = [=](int i) { return i; }; __shared__ alignas(16) int s; }",
            "void f() { auto g = [=](int i) { return i; }; __shared__ __align__(16) int s; }",
        );
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

    fn zoned_in(body: &str) -> Option<String> {
        let source = format!("void f() {{ {body}");
        let code = SourceTokens::of(&source);
        let at = (0..code.tokens.len()).find(|at| code.word(*at) == "__shared__").unwrap();
        zoned(&code, at, 1, "k").map(|(edit, _)| edit.text)
    }

    #[test]
    fn declarations_become_zoned_variables() {
        let check = |body: &str, expected: &str| {
            assert_eq!(zoned_in(body).as_deref(), Some(expected), "{body}");
        };
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
            assert_eq!(zoned_in(body), None, "{body}");
        }
    }

    #[test]
    fn sources_that_need_variables_keep_them() {
        let check = |source: &str, expected: bool| {
            let code = SourceTokens::of(source);
            let in_function: Vec<bool> = code.tokens.iter().map(|token| token.start > 8).collect();
            assert_eq!(allows_references(&code, &in_function), expected, "{source}");
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
