//! Token-aware rewriting of CUDA source for a C++ compiler: comments and strings are left alone, and
//! no line moves, so that compiler messages and barrier lines fit the rendered text.

use super::static_shared;
use super::tokens::{CudaToken, CudaTokenKind, tokenize};

#[derive(Debug)]
pub struct Rewritten {
    pub text: String,
    /// Function names with the first argument of their `__launch_bounds__`.
    pub launch_bounds: Vec<(String, String)>,
    /// The largest alignment with which dynamic shared memory is declared, bytes; 0 without any.
    pub shared_alignment: u32,
}

pub fn rewrite(source: &str) -> Rewritten {
    let tokens = tokenize(source);
    let scopes = function_scopes(source, &tokens);
    let zoned = static_shared::allows_references(source, &tokens, &scopes);
    let mut writer = SourceWriter { source, out: String::with_capacity(source.len() + 256), done: 0 };
    let mut launch_bounds = Vec::new();
    let mut aliases: Vec<(String, String)> = Vec::new();
    let mut kernels = KernelBodies::default();
    let mut variables = 0;
    let mut shared_alignment = 0;
    let mut at = 0;
    while at < tokens.len() {
        let word = tokens[at].text(source);
        kernels.step(source, &tokens, at);
        match word {
            "extern" => {
                if let Some(declaration) = dynamic_shared(source, &tokens, at) {
                    shared_alignment = shared_alignment.max(declaration.alignment);
                    let text = if scopes[at] { declaration.as_locals() } else { String::new() };
                    if !scopes[at] {
                        aliases.extend(declaration.names);
                    }
                    writer.replace(tokens[at].start, tokens[declaration.last].end, &text);
                    at = declaration.last;
                }
            }
            "__shared__" => {
                let local = zoned && scopes[at];
                let kernel = kernels.current();
                let rewritten =
                    local.then(|| static_shared::zoned(source, &tokens, at, variables + 1, kernel)).flatten();
                if let Some(declaration) = rewritten {
                    let (first, last) = (tokens[declaration.first].start, tokens[declaration.last].end);
                    writer.replace(first, last, &declaration.text);
                    variables += declaration.count;
                    at = declaration.last;
                } else if let Some(alignas) = number_alignas(source, &tokens, at + 1) {
                    writer.replace(alignas.start, alignas.end, "__align__");
                }
            }
            "__launch_bounds__" => launch_bounds.extend(launch_bound(source, &tokens, at)),
            _ => {
                if let Some((_, element)) = aliases.iter().find(|(name, _)| name == word)
                    && !is_member(source, &tokens, at)
                {
                    writer.replace(
                        tokens[at].start,
                        tokens[at].end,
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
    let tokens = tokenize(source);
    let marked = (0..tokens.len()).filter(|at| tokens[*at].text(source) == "__global__");
    let mut names: Vec<String> = Vec::new();
    for name in marked.filter_map(|at| kernel_name(source, &tokens, at)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn function_scopes(source: &str, tokens: &[CudaToken]) -> Vec<bool> {
    let mut scopes: Vec<bool> = Vec::new();
    let mut inside = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        match token.text(source) {
            "{" => scopes.push(!opens_namespace(source, tokens, at)),
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
    fn step(&mut self, source: &str, tokens: &[CudaToken], at: usize) {
        match tokens[at].text(source) {
            "__global__" => self.announced = kernel_name(source, tokens, at),
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

fn kernel_name(source: &str, tokens: &[CudaToken], at: usize) -> Option<String> {
    let mut open = at;
    loop {
        open = (open + 1..tokens.len()).find(|&next| tokens[next].text(source) == "(")?;
        match tokens[open - 1].text(source) {
            "__launch_bounds__" | "__cluster_dims__" | "__maxnreg__" | "__attribute__" | "__align__" => {
                open = closing(source, tokens, open)?;
            }
            _ => break,
        }
    }
    let name = (at..open).rev().find(|&before| {
        tokens[before].kind == CudaTokenKind::Word
            && tokens.get(before + 1).is_some_and(|next| matches!(next.text(source), "(" | "<"))
    })?;
    Some(tokens[name].text(source).to_string())
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

fn dynamic_shared(source: &str, tokens: &[CudaToken], first: usize) -> Option<DynamicShared> {
    let text = |at: usize| tokens.get(at).map(|token| token.text(source));
    // A brace or `=` before the semicolon means a function or a definition, neither of which is shared
    // memory.
    let last = (first..tokens.len()).find(|&at| matches!(text(at), Some(";" | "{" | "}" | "=")))?;
    if text(last) != Some(";") || !(first..last).any(|at| text(at) == Some("__shared__")) {
        return None;
    }
    let mut words = Vec::new();
    let mut alignment = 0;
    let mut at = first + 1;
    while at < last {
        match text(at)? {
            "__shared__" => {}
            "alignas" | "__align__" | "__attribute__" | "__builtin_align__" => {
                let close = closing(source, tokens, at + 1)?;
                let number = (at..close).find_map(|inside| text(inside)?.parse().ok());
                alignment = alignment.max(number.unwrap_or(0));
                at = close
            }
            _ => words.push(at),
        }
        at += 1;
    }
    let bracket = words.iter().position(|&at| text(at) == Some("["))?;
    let name_at = bracket.checked_sub(1)?;
    // With spaces, or `unsigned char` would become one word.
    let element = words[..name_at].iter().filter_map(|&at| text(at)).collect::<Vec<_>>().join(" ");
    if element.is_empty() {
        return None;
    }
    let mut names = Vec::new();
    for declarator in words[name_at..].split(|&at| text(at) == Some(",")) {
        let name = text(*declarator.first()?)?.to_string();
        let after = declarator.iter().position(|&at| text(at) == Some("]"))?;
        let extents: String = declarator[after + 1..].iter().filter_map(|&at| text(at)).collect();
        names.push((name, format!("{element}{extents}")));
    }
    Some(DynamicShared { names, last, alignment })
}

/// `alignas(16)` in the middle of a declaration, which C++ refuses there but CUDA's compiler takes.
fn number_alignas<'a>(source: &str, tokens: &'a [CudaToken], at: usize) -> Option<&'a CudaToken> {
    let is_alignas = tokens.get(at)?.text(source) == "alignas";
    let argument = tokens.get(at + 2)?;
    (is_alignas && argument.kind == CudaTokenKind::Number).then(|| &tokens[at])
}

/// The function name behind `__launch_bounds__(bound, …)` and the text of `bound`.
fn launch_bound(source: &str, tokens: &[CudaToken], at: usize) -> Option<(String, String)> {
    let close = closing(source, tokens, at + 1)?;
    let mut depth = 0;
    let mut end = close;
    for (inside, token) in tokens.iter().enumerate().take(close).skip(at + 2) {
        match token.text(source) {
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
    let bound = source[tokens[at + 2].start..tokens[end].start].trim().replace('\n', " ");
    // Other attributes with arguments of their own may stand between the bounds and the name.
    let paren = (close + 1..tokens.len()).find(|&next| {
        tokens[next].text(source) == "("
            && !matches!(tokens[next - 1].text(source), "__cluster_dims__" | "__maxnreg__")
    })?;
    let name = &tokens[paren - 1];
    (name.kind == CudaTokenKind::Word && !bound.is_empty()).then(|| (name.text(source).to_string(), bound))
}

fn closing(source: &str, tokens: &[CudaToken], open: usize) -> Option<usize> {
    if tokens.get(open)?.text(source) != "(" {
        return None;
    }
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text(source) {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Whether the `{` at `at` opens a namespace or `extern "C"`, which leave declarations at file scope.
fn opens_namespace(source: &str, tokens: &[CudaToken], at: usize) -> bool {
    let Some(previous) = at.checked_sub(1).map(|before| &tokens[before]) else { return false };
    // A literal before a brace can only be the language of `extern "C"`.
    if previous.kind == CudaTokenKind::Text || previous.text(source) == "namespace" {
        return true;
    }
    // Walks back over a name such as `a::b`, whose colons are a mark each.
    let mut before = at - 1;
    while before > 0
        && matches!(tokens[before].text(source), ":" | "inline")
            | (tokens[before].kind == CudaTokenKind::Word)
    {
        if tokens[before].text(source) == "namespace" {
            return true;
        }
        before -= 1;
    }
    tokens[before].text(source) == "namespace"
}

fn is_member(source: &str, tokens: &[CudaToken], at: usize) -> bool {
    let before = |distance: usize| at.checked_sub(distance).map(|index| tokens[index].text(source));
    match before(1) {
        Some(".") => true,
        Some(">") => before(2) == Some("-"),
        Some(":") => before(2) == Some(":"),
        _ => false,
    }
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
