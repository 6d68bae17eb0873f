//! Token-aware rewriting of CUDA source for a C++ compiler: comments and strings are left alone, and
//! no line moves, so that compiler messages and barrier lines fit the rendered text.

use super::static_shared;
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
    let scopes = function_scopes(code);
    let zoned = static_shared::allows_references(code, &scopes);
    let mut writer = SourceWriter { source, out: String::with_capacity(source.len() + 256), done: 0 };
    let mut launch_bounds = Vec::new();
    let mut aliases: Vec<(String, String)> = Vec::new();
    let mut kernels = KernelBodies::default();
    let mut variables = 0;
    let mut shared_alignment = 0;
    let mut at = 0;
    while at < code.tokens.len() {
        let word = code.word(at);
        kernels.step(code, at);
        match word {
            "extern" => {
                if let Some(declaration) = dynamic_shared(code, at) {
                    shared_alignment = shared_alignment.max(declaration.alignment);
                    let locals = if scopes[at] { declaration.as_locals() } else { String::new() };
                    if !scopes[at] {
                        aliases.extend(declaration.names);
                    }
                    writer.replace(code.tokens[at].start, code.tokens[declaration.last].end, &locals);
                    at = declaration.last;
                }
            }
            "__shared__" => {
                let local = zoned && scopes[at];
                let kernel = kernels.current();
                let rewritten =
                    local.then(|| static_shared::zoned(code, at, variables + 1, kernel)).flatten();
                if let Some(declaration) = rewritten {
                    let (first, last) =
                        (code.tokens[declaration.first].start, code.tokens[declaration.last].end);
                    writer.replace(first, last, &declaration.text);
                    variables += declaration.count;
                    at = declaration.last;
                } else if is_number_alignas(code, at + 1) {
                    let alignas = code.tokens[at + 1];
                    writer.replace(alignas.start, alignas.end, "__align__");
                }
            }
            "__launch_bounds__" => launch_bounds.extend(launch_bound(code, at)),
            _ => {
                if let Some((_, element)) = aliases.iter().find(|(name, _)| name == word)
                    && !is_member(code, at)
                {
                    writer.replace(
                        code.tokens[at].start,
                        code.tokens[at].end,
                        &format!("(evo_dynamic_shared<{element}>())"),
                    );
                }
            }
        }
        at += 1;
    }
    Rewritten { text: writer.finish(), launch_bounds, shared_alignment }
}

/// Each once, in the source's order.
pub fn kernel_names(source: &str) -> Vec<String> {
    let code = &SourceTokens::of(source);
    let marked = (0..code.tokens.len()).filter(|at| code.word(*at) == "__global__");
    let mut names: Vec<String> = Vec::new();
    for name in marked.filter_map(|at| kernel_name(code, at)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn function_scopes(code: &SourceTokens<'_>) -> Vec<bool> {
    let mut scopes: Vec<bool> = Vec::new();
    let mut inside = Vec::with_capacity(code.tokens.len());
    for at in 0..code.tokens.len() {
        match code.word(at) {
            "{" => scopes.push(!opens_namespace(code, at)),
            "}" => drop(scopes.pop()),
            _ => {}
        }
        inside.push(scopes.contains(&true));
    }
    inside
}

#[derive(Default)]
struct KernelBodies {
    depth: usize,
    announced: Option<String>,
    /// A kernel, and the depth of braces at which its body ends.
    open: Option<(String, usize)>,
}

impl KernelBodies {
    fn step(&mut self, code: &SourceTokens<'_>, at: usize) {
        match code.word(at) {
            "__global__" => self.announced = kernel_name(code, at),
            // A declaration without a body.
            ";" => self.announced = None,
            "{" => {
                if let Some(name) = self.announced.take() {
                    self.open = Some((name, self.depth));
                }
                self.depth += 1;
            }
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                self.open.take_if(|(_, depth)| *depth == self.depth);
            }
            _ => {}
        }
    }

    fn current(&self) -> Option<&str> {
        self.open.as_ref().map(|(name, _)| name.as_str())
    }
}

fn kernel_name(code: &SourceTokens<'_>, at: usize) -> Option<String> {
    let mut open = at;
    loop {
        open = (open + 1..code.tokens.len()).find(|&next| code.word(next) == "(")?;
        match code.word(open - 1) {
            "__launch_bounds__" | "__cluster_dims__" | "__maxnreg__" | "__attribute__" | "__align__" => {
                open = code.closing(open)?;
            }
            _ => break,
        }
    }
    let name = (at..open)
        .rev()
        .find(|&before| code.is(before, CudaTokenKind::Word) && matches!(code.word(before + 1), "(" | "<"))?;
    Some(code.word(name).to_string())
}

struct SourceWriter<'a> {
    source: &'a str,
    out: String,
    done: usize,
}

impl SourceWriter<'_> {
    fn replace(&mut self, start: usize, end: usize, text: &str) {
        self.out.push_str(&self.source[self.done..start]);
        self.out.push_str(text);
        let lines = self.source[start..end].matches('\n').count();
        self.out.extend(std::iter::repeat_n('\n', lines));
        self.done = end;
    }

    fn finish(mut self) -> String {
        self.out.push_str(&self.source[self.done..]);
        self.out
    }
}

/// `extern __shared__ T a[], b[][33];`: names with their element types, and the `;`.
struct DynamicShared {
    names: Vec<(String, String)>,
    last: usize,
    /// Bytes, where it is a number; other alignments count as 0.
    alignment: u32,
}

impl DynamicShared {
    fn as_locals(&self) -> String {
        let one = |(name, element): &(String, String)| {
            format!("auto* const {name} = evo_dynamic_shared<{element}>();")
        };
        self.names.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

fn dynamic_shared(code: &SourceTokens<'_>, first: usize) -> Option<DynamicShared> {
    // A brace or `=` before the semicolon means a function or a definition, neither of which is shared
    // memory.
    let last = (first..code.tokens.len()).find(|&at| matches!(code.word(at), ";" | "{" | "}" | "="))?;
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
        let name = code.word(*declarator.first()?).to_string();
        let after = declarator.iter().position(|&at| code.word(at) == "]")?;
        let extents: String = declarator[after + 1..].iter().map(|&at| code.word(at)).collect();
        names.push((name, format!("{element}{extents}")));
    }
    Some(DynamicShared { names, last, alignment })
}

/// `alignas(16)` in the middle of a declaration, which C++ refuses there but CUDA's compiler takes.
fn is_number_alignas(code: &SourceTokens<'_>, at: usize) -> bool {
    code.word(at) == "alignas" && code.is(at + 2, CudaTokenKind::Number)
}

/// The function name behind `__launch_bounds__(bound, …)` and the text of `bound`.
fn launch_bound(code: &SourceTokens<'_>, at: usize) -> Option<(String, String)> {
    let close = code.closing(at + 1)?;
    let mut depth = 0;
    let mut end = close;
    for inside in at + 2..close {
        match code.word(inside) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            // Only a comma outside all brackets ends the first argument: `f(1, 2) * 3` is one.
            "," if depth == 0 => {
                end = inside;
                break;
            }
            _ => {}
        }
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
    let before = |distance: usize| at.checked_sub(distance).map_or("", |index| code.word(index));
    matches!((before(2), before(1)), (_, ".") | ("-", ">") | (":", ":"))
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
}
