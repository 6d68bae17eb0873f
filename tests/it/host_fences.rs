//! What a variant for the host device may not hold: code that runs when it is loaded, and inline assembly.

use evo_protocol::binary::KernelSource;

use crate::compile::{Bench, source};
use crate::support::BRIEF;
use crate::support::stage::Stage;
use crate::sweep;

const KERNEL: &str = "extern \"C\" __global__ void k(float* x) { x[threadIdx.x] = 1.0f; }\n";

fn variant(number: usize, text: &str) -> KernelSource {
    source(&format!("fenced {number}"), &format!("{text}\n{KERNEL}"), "k")
}

/// The label of each source's verdict; `pass` where it compiles.
fn check(expected: &str, texts: &[&str]) {
    let bench = Bench::host();
    for (number, text) in texts.iter().enumerate() {
        let outcome = bench.compile(variant(number, text));
        let label = outcome.as_ref().map_or_else(|verdict| verdict.label(), |_| "pass".to_string());
        assert_eq!(label, expected, "{text}\n{outcome:?}");
    }
}

#[test]
fn code_that_runs_when_a_module_is_loaded_is_refused() {
    check(
        "static_reject:constructor",
        &[
            "extern \"C\" int puts(const char*); __attribute__((constructor)) static void c() { puts(\"x\"); }",
            "extern \"C\" int puts(const char*); __attribute__((destructor)) static void d() { puts(\"x\"); }",
            "extern \"C\" int puts(const char*); struct S { S() { puts(\"x\"); } } s;",
            "extern \"C\" int puts(const char*); struct S { ~S() { puts(\"x\"); } } s;",
            "extern \"C\" int getpid(); int number = getpid();",
            "static void c() {} __attribute__((section(\".init_array\"), used)) static void (*const p)() = c;",
            "static void c() {} __attribute__((section(\".ctors\"), used)) static void (*p)() = c;",
            // The name of an entry of the start files, which other modules have.
            "extern \"C\" int puts(const char*); __attribute__((constructor)) static void frame_dummy() { puts(\"x\"); }",
            "extern \"C\" void _init() {}",
            "extern \"C\" { static void one() {} static void (*pick())() { return one; } \
             void two() __attribute__((ifunc(\"pick\"), visibility(\"default\"))); } \
             void use() { two(); }",
        ],
    );
}

/// The instrumented build may hold what the other does not: the sanitizer defines macros. Its constructors are taken out
/// of the loader's table, because the compiler adds one of its own, and everything else is refused here too.
#[test]
fn code_that_runs_only_when_an_instrumented_module_is_loaded_is_refused() {
    let bench = Bench::host();
    let texts = [
        "extern \"C\" void _init() {}",
        "extern \"C\" { static void one() {} static void (*pick())() { return one; } \
         void two() __attribute__((ifunc(\"pick\"), visibility(\"default\"))); } \
         void use() { two(); }",
    ];
    for (number, text) in texts.iter().enumerate() {
        let source = KernelSource { instrumented: true, ..variant(number, text) };
        let outcome = bench.compile(source);
        let label = outcome.as_ref().map_or_else(|verdict| verdict.label(), |_| "pass".to_string());
        assert_eq!(label, "static_reject:constructor", "{text}\n{outcome:?}");
    }
}

#[test]
fn inline_assembly_is_refused_however_it_is_written() {
    check(
        "static_reject:asm",
        &[
            "__device__ void f() { asm(\"nop\"); }",
            "__device__ void f() { __asm(\"nop\"); }",
            "__device__ void f() { __asm__ volatile(\"nop\"); }",
            "asm(\".globl x\");",
            "__device__ void f() { a\\\nsm(\"nop\"); }",
            "#define JOIN(a, b) a##b\n__device__ void f() { JOIN(__a, sm__)(\"nop\"); }",
            "#define WORD asm\n__device__ void f() { WORD(\"nop\"); }",
            "int f() __asm(\"g\");",
            "_Pragma(\"GCC diagnostic push\") __device__ void f() { __asm__(\"nop\"); }",
            "#define P(x) _Pragma(#x)\nP(GCC poison nothing)\n#define A(x) x\n__device__ void f() { A(asm)(\"nop\"); }",
            "__device__ void f() { typeof(({ asm(\"nop\"); 1; })) x = 1; (void)x; }",
            "__device__ void f() { (void)sizeof(({ __extension__ ({ __asm(\"nop\"); 1; }); })); }",
            "template <int N> __device__ void g() { [] { asm(\"nop\"); }(); }",
            "__device__ void f() { %:ifdef X\n%:endif\n __as\\\nm__(\"nop\"); }",
            "register int number asm(\"rsp\");",
            // A macro of the C library that makes a name for the assembler.
            "__REDIRECT(int f, (), g);",
        ],
    );
}

#[test]
fn what_only_looks_like_either_compiles() {
    check(
        "pass",
        &[
            "// asm(\"nop\");\n__device__ const char text[] = \"asm\"; struct Row { int assembly; };",
            "#ifndef EVO_HOST\nasm(\"nop\");\n#endif",
            "#include <cstring>\n#include <cstdint>\n#include <type_traits>\n__device__ void f(char* a, const char* b) { memcpy(a, b, 4); }",
            "#include <atomic>\n#include <limits>\n#include <array>\n#include <cmath>\n#include <cuda_fp16.h>",
            "struct S { int x; constexpr S() : x(3) {} }; __device__ S s; __device__ int table[4] = {1, 2, 3, 4};",
        ],
    );
    let bench = Bench::host();
    let checked = KernelSource { instrumented: true, ..variant(0, "") };
    assert!(bench.compile(checked).is_ok());
}

/// What `evo preflight` says of the fences, and whether it found all of them.
fn fences(words: &str) -> (String, Option<bool>) {
    let report = Stage::empty().run(&format!("preflight --device host --json {words}")).ends(0).object();
    let findings = report["findings"].as_array().unwrap();
    let own = findings.iter().find(|one| one["name"] == "sandbox").expect("a line about the fences");
    (own["message"].as_str().unwrap().to_string(), own["ok"].as_bool())
}

#[test]
fn preflight_says_of_each_fence_whether_it_holds() {
    let (said, all) = fences("");
    for fence in ["user", "pid", "network", "ipc", "landlock", "seccomp", "limits"] {
        assert!(said.contains(fence), "nothing is said of {fence}: {said}");
    }
    assert_eq!(all, (!said.contains("not here")).then_some(true), "{said}");
    let text = Stage::empty().run("preflight --device host").out;
    assert!(text.lines().any(|line| line.contains("sandbox") && line.contains(&said)), "{text}");
}

#[test]
fn without_the_sandbox_variants_run_and_preflight_says_so() {
    let (said, found) = fences("--sandbox off");
    assert_eq!(found, Some(true), "what was declined is not missing: {said}");
    assert!(said.starts_with("off: host variants run in processes of their own"), "{said}");
    let bench = sweep::Bench::new();
    let judged = format!("--device host --seed 7 {BRIEF} --sandbox");
    for sandbox in ["on", "off"] {
        bench.run(&format!("test-one scale.toml BLOCK=32 VEC=1 FACTOR=2 {judged} {sandbox}")).ends(0);
    }
    bench.sweep("--sandbox off --strategy exhaustive --finalists 0").ends(0);
    assert_eq!(sweep::right_or_wrong(bench.verdicts()), sweep::expected());
    // The fence is really gone: a kernel that opens a file is refused with it alone.
    let intruder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/intruder/intruder.toml");
    for (sandbox, code) in [("on", 1), ("off", 0)] {
        bench.run(&format!("test-one {intruder} ATTACK=open {judged} {sandbox}")).ends(code);
    }
}
