//! What stays of programs, what goes, and that nothing else changes.

use super::*;
use crate::lines::DirectiveLine;

fn half(text: &str, entries: &[&str]) -> String {
    let entries: Vec<String> = entries.iter().map(|entry| entry.to_string()).collect();
    let own = device_half(text, &entries, &[]);
    assert_eq!(own.unclear, None, "{text}");
    assert_eq!(own.text.len(), text.len());
    assert_eq!(own.text.matches('\n').count(), text.matches('\n').count());
    let lines = own.text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(half(text, &["k"]), expected.trim_end(), "{text}");
}

#[test]
fn functions_that_are_handed_over_by_name_stay() {
    let text = "void (*signal(int, void (*)(int)))(int);\nstatic void none(int) {}\nstatic void other(int) {}\n\
                __global__ void k(int other) { signal(other, none); }\nint main() { k<<<1, 1>>>(2); }\n";
    let expected = "void (*signal(int, void (*)(int)))(int);\nstatic void none(int) {}\n\
                    __global__ void k(int other) { signal(other, none); }";
    check(text, expected);
}

const PROGRAM: &str = include_str!("program.cu");

#[test]
fn the_host_half_of_a_program_is_left_out() {
    insta::assert_snapshot!(half(PROGRAM, &["k"]));
    let own = device_half(PROGRAM, &["k".to_string()], &[]);
    let expected = [("launch".to_string(), 20), ("count".to_string(), 26), ("main".to_string(), 27)];
    assert_eq!(own.skipped, expected);
}

#[test]
fn a_source_without_a_host_half_is_left_as_it_is() {
    for text in [
        "__global__ void k() {}",
        "float helper(float x) { return x; }\nextern \"C\" __global__ void k(float* x) { x[0] = 1; }",
        "int unused; struct P { int a; };\n__global__ void k() { printf(\"<<<\"); }",
        "// int main() { cudaMalloc(); }\n__global__ void k() {}",
        "",
        "}}}{{{((( \" ' <<<",
    ] {
        let own = device_half(text, &["k".to_string()], &[]);
        assert!(matches!(own.text, Cow::Borrowed(_)), "{text}: {own:?}");
    }
}

#[test]
fn what_the_device_half_names_stays() {
    // Through macros, options, types of other functions, template arguments, classes.
    let host = "int main() { return 0; }\n";
    for kept in [
        "#define TWICE(x) twice(x)\nfloat twice(float x) { return x; }\n__global__ void k(float* x) { x[0] = TWICE(1); }",
        "struct A { int a; };\nstruct B { A a; };\nB make() { return {}; }\n__global__ void k() { make(); }",
        "template <class T> struct Op { static T f(); };\ntemplate <> struct Op<float> { static float f(); };\n__global__ void k() { Op<float>::f(); }",
        "enum { LEFT, RIGHT };\nenum class Side : int { up };\n__global__ void k(Side s) { int x = LEFT; }",
        "namespace a { namespace b {\nint f() { return 1; }\n} }\n__global__ void k(int* x) { x[0] = a::b::f(); }",
        "typedef int (*function)(int);\nusing real = float;\n__global__ void k(function f, real x) {}",
        "extern \"C\" {\n__global__ void k() {}\n}",
        "float2 operator+(float2 a, float2 b) { return a; }\n__global__ void k() {}",
        "static_assert(sizeof(int) == 4, \"\");\n__global__ void k() {}",
        "#ifdef A\n__global__ void k(int a) {\n#else\n__global__ void k() {\n#endif\n}",
        "#if 0\n } it's { not code\n#endif\n__global__ void k() {}",
        "#define KERNEL(name) __global__ void name\nKERNEL(k)(int n) { __shared__ int x; }",
        "#define MAKE(T) template __global__ void k<T>(T*);\nMAKE(float)\nMAKE(int)\n__device__ int x;",
    ] {
        assert_eq!(half(&format!("{kept}\n{host}"), &["k"]), kept, "{kept}");
    }
    let text = format!(
        "float scale(float x) {{ return x; }}\n__global__ void k(float* x) {{ x[0] = OP(1); }}\n{host}"
    );
    let with = device_half(&text, &["k".to_string()], &["-DOP=scale".to_string()]);
    assert!(with.text.contains("float scale("), "{}", with.text);
    for folder in ["-Iinclude/scale", "--include-path=scale"] {
        let with = device_half(&text, &["k".to_string()], &[folder.to_string()]);
        assert!(!with.text.contains("float scale("), "{folder}: {}", with.text);
    }
    // A kernel whose execution space is written in a header.
    assert_eq!(half(&format!("KERNEL void k() {{}}\n{host}"), &["k<float>"]), "KERNEL void k() {}");
}

#[test]
fn a_macro_before_the_end_of_a_namespace_takes_nothing_of_what_follows() {
    let kernel = "__global__ void k(float* x) { int i = threadIdx.x; x[i] = 1; __syncthreads(); }";
    let text =
        format!("#define MARK\nnamespace n {{ int a;\nMARK }}\n{kernel}\nint main() {{ return 0; }}\n");
    check(&text, &format!("#define MARK\nnamespace n {{\nMARK }}\n{kernel}"));
}

#[test]
fn names_of_the_host_are_no_reason_to_keep_what_has_them() {
    check(
        "void init(float* x) { cudaFree(x); }\nfloat sum(std::vector<float> v) { return 0; }\n\
         template <typename T> class Buffer { std::vector<T> own; };\n\
         extern \"C\" void start(int n) { k<<<1, 1>>>(); }\n\
         template <typename T> __global__ void k(T* x) { T init = 0; float sum = 1; x->start(); x[0] = init + sum; }",
        "template <typename T> __global__ void k(T* x) { T init = 0; float sum = 1; x->start(); x[0] = init + sum; }",
    );
}

#[test]
fn directives_inside_of_what_goes_stay_and_stay_whole() {
    check(
        "__global__ void k() {}\nint main() {\n#include \"own.h\"\n#define A 1 /* goes\non */ \\\n  + 2\n  k<<<1, 1>>>(); /* x */ }",
        "__global__ void k() {}\n#include \"own.h\"\n#define A 1 /* goes\non */ \\\n  + 2",
    );
}

#[test]
fn what_cannot_be_told_apart_is_said_with_its_line() {
    for (text, line) in [
        ("__global__ void k() {}\nint main() { if (1) {\n}\n__global__ void late() {}\n", 2),
        ("// a comment \\\n goes on\n__global__ void k() {}\nint main() { }", 4),
        ("__global__ void k() {}\nvoid f() { auto s = u8R\"(})\"; k<<<1, 1>>>(); }", 2),
    ] {
        let own = device_half(text, &["k".to_string()], &[]);
        assert!(matches!(own.text, Cow::Borrowed(_)), "{text}: {own:?}");
        assert_eq!(own.unclear, Some(line), "{text}");
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

#[test]
fn whatever_the_text_nothing_moves_and_directives_and_kernels_stay() {
    let mut dice = Dice(7);
    let pieces = "{ } ( ) /* */ // \" ' \n#if~1\n \n#else\n \n#endif\n \\\n é R\"x( ;".split(' ');
    let pieces: Vec<String> = pieces.map(|piece| piece.replace('~', " ")).collect();
    let mut halves = 0;
    for _ in 0..3000 {
        let mut text = PROGRAM.to_string();
        for _ in 0..1 + dice.below(3) {
            let mut at = dice.below(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            match dice.below(3) {
                0 => text.insert_str(at, &pieces[dice.below(pieces.len())]),
                1 => text.truncate(at),
                _ if at < text.len() => drop(text.remove(at)),
                _ => {}
            }
        }
        let own = device_half(&text, &["k".to_string()], &[]);
        halves += usize::from(matches!(own.text, Cow::Owned(_)));
        assert_eq!(own.text.len(), text.len());
        assert_eq!(own.text.matches('\n').count(), text.matches('\n').count());
        if own.text == text {
            continue;
        }
        if let (Some(before), Some(after)) = (SourceLines::read(&text), SourceLines::read(&own.text)) {
            let stays = |own: &&DirectiveLine| {
                !included(&text, own).and_then(|file| file.name()).is_some_and(is_host_header)
            };
            let spaces = |lines: &SourceLines<'_>| {
                (0..lines.tokens.len()).filter(|at| lines.word(*at) == "__global__").count()
            };
            let before_spaces = spaces(&before);
            let before: Vec<_> = before.directives.iter().filter(stays).collect();
            assert_eq!(before, after.directives.iter().collect::<Vec<_>>(), "{text}");
            assert_eq!(before_spaces, spaces(&after), "{text}");
        }
    }
    assert!(halves > 1000, "{halves}");
}
