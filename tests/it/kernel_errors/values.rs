//! Values that are malformed, missing, of the wrong kind, or impossible together.

use super::{changed, changed_source, message_beside, message_of};

#[test]
fn the_sound_file_has_no_error() {
    insta::assert_snapshot!(changed(&[]), @r"no error");
}

#[test]
fn malformed() {
    insta::assert_snapshot!(changed(&[("[kernel]", "[kernel"), ("UNROLL = [true", "UNROLL = [true true")]), @r"
    error: unclosed table, expected `]`
      --> space.toml:14:8
       |
    14 | [kernel
       |        ^

    error: string values must be quoted, expected literal string
      --> space.toml:21:11
       |
    21 | UNROLL = [true true, false]
       |           ^^^^^^^^^
    ");
}

#[test]
fn bad_expressions() {
    insta::assert_snapshot!(changed(&[("block = \"BLOCK\"", "block = \"BLOCK +\""), ("\"12 * N\"", "\"12 $ N\"")]), @r#"
    error: `block` of launch `saxpy`: expected a value after `+`
     --> space.toml:8:89
      |
    8 | launches = [{ entry = "saxpy", grid = "ceil_div(N, BLOCK * PER_THREAD)", block = "BLOCK +" }]
      |                                                                                         ^
      |
      = hint: write a value after it, or remove it

    error: `bytes` of `objective`: unexpected character `$`
      --> space.toml:28:13
       |
    28 | bytes = "12 $ N"
       |             ^
       |
       = hint: write the bare name
    "#);
}

#[test]
fn wrong_types() {
    insta::assert_snapshot!(changed(&[("default = 128", "default = 128, help = 3"), ("timed = false", "timed = 1"), ("shape = [\"N\"], role = \"input\"", "shape = \"N\", role = \"input\""), ("name = \"saxpy\"", "name = 7")]), @r#"
    error: `shape` of argument `x` is a text, expected a list of expressions
     --> space.toml:3:42
      |
    3 |     { name = "x", dtype = "f32", shape = "N", role = "input" },
      |                                          ^^^

    error: `timed` of problem `small` is an integer, expected true or false
      --> space.toml:10:53
       |
    10 |     { name = "small", sizes = { N = 1000 }, timed = 1 },
       |                                                     ^

    error: `name` of `kernel` is an integer, expected a text
      --> space.toml:15:8
       |
    15 | name = 7
       |        ^

    error: expected a text, found an integer
      --> space.toml:19:58
       |
    19 | BLOCK = { values = [64, 128, 256], default = 128, help = 3 }
       |                                                          ^
    "#);
}

#[test]
fn missing_keys() {
    insta::assert_snapshot!(changed(&[("name = \"x\", dtype = \"f32\", ", ""), ("entry = \"saxpy\", ", ""), ("reference = {", "tiny_reference = {")]), @r#"
    error: an argument has no `name`
     --> space.toml:3:5
      |
    3 |     { shape = ["N"], role = "input" },
      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = hint: add name = "…"

    error: an argument has no `dtype`
     --> space.toml:3:5
      |
    3 |     { shape = ["N"], role = "input" },
      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = hint: add dtype = "f16", "f32", "i32", …

    error: a launch has no `entry`
     --> space.toml:8:13
      |
    8 | launches = [{ grid = "ceil_div(N, BLOCK * PER_THREAD)", block = "BLOCK" }]
      |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = hint: add entry = "…", the name of a __global__ function

    error: `check` has no `reference`
      --> space.toml:23:1
       |
    23 | [check]
       | ^^^^^^^
       |
       = hint: reference = "gemm", or { source = "naive.cu", entry = "naive", grid = […], block = […] }, or { npy = { c = "c.npy" } }, or { command = ["python3", "ref.py"] }

    error: unknown key `tiny_reference` in `check`
      --> space.toml:24:1
       |
    24 | tiny_reference = { source = "naive.cu", entry = "saxpy_naive", grid = "ceil_div(N, 256)", block = 256 }
       | ^^^^^^^^^^^^^^
       |
       = hint: known keys: reference, atol, rtol, trusted_factor, task, seeds, tiny, multiple_of, allow_state, special_values, deterministic, repeats, families, spill_bytes_max, sanitize, sanitizers, host_twin
    "#);
}

#[test]
fn no_output() {
    insta::assert_snapshot!(changed(&[("role = \"inout\"", "role = \"input\"")]), @r#"
    error: the kernel has no output argument
     --> space.toml:2:13
      |
    2 | arguments = [
      |             ^
      |
      = hint: an argument with role = "output" or "inout" holds what is checked
    "#);
}

#[test]
fn empty_value_list() {
    insta::assert_snapshot!(changed(&[("PER_THREAD = [1, 2, 4]", "PER_THREAD = []")]), @r"
    error: `PER_THREAD` has no values
      --> space.toml:20:1
       |
    20 | PER_THREAD = []
       | ^^^^^^^^^^
       |
       = hint: list at least one
    ");
}

#[test]
fn no_valid_point() {
    insta::assert_snapshot!(changed(&[("BLOCK * PER_THREAD <= 512", "BLOCK * PER_THREAD <= 32")]), @r#"
    error: no point satisfies this constraint, so the space has no valid point
     --> space.toml:1:16
      |
    1 | constraints = ["BLOCK * PER_THREAD <= 32"]
      |                ^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
}

/// The nearest valid point is the default then, and has to work itself.
#[test]
fn invalid_default() {
    let invalid = [
        ("default = 128", "default = 256"),
        ("PER_THREAD = [1, 2, 4]", "PER_THREAD = { values = [1, 2, 4], default = 4 }"),
    ];
    assert_eq!(changed(&invalid), "no error");
    let grid = ("\"ceil_div(N, BLOCK * PER_THREAD)\"", "\"N / BLOCK\"");
    insta::assert_snapshot!(changed(&[&invalid[..], &[grid]].concat()), @r#"
    error: grid[0] of launch `saxpy` = `N / BLOCK` is 3.90625, not a whole number (hint: `//` divides whole numbers), in problem `small`
     --> space.toml:8:39
      |
    8 | launches = [{ entry = "saxpy", grid = "N / BLOCK", block = "BLOCK" }]
      |                                       ^^^^^^^^^^^
      |
      = hint: this is the default configuration: BLOCK=256 PER_THREAD=2 UNROLL=true
    "#);
}

#[test]
fn a_fraction_as_grid() {
    insta::assert_snapshot!(changed(&[("\"ceil_div(N, BLOCK * PER_THREAD)\"", "\"N / BLOCK\"")]), @r#"
    error: grid[0] of launch `saxpy` = `N / BLOCK` is 7.8125, not a whole number (hint: `//` divides whole numbers), in problem `small`
     --> space.toml:8:39
      |
    8 | launches = [{ entry = "saxpy", grid = "N / BLOCK", block = "BLOCK" }]
      |                                       ^^^^^^^^^^^
      |
      = hint: this is the default configuration: BLOCK=128 PER_THREAD=1 UNROLL=true
    "#);
}

#[test]
fn fills() {
    insta::assert_snapshot!(changed(&[("role = \"input\" }", "role = \"input\", fill = { uniform = [3, 3] } }"), ("role = \"inout\" }", "role = \"inout\", fill = { normal = 1, constant = 0 } }")]), @r#"
    error: `uniform` of `fill` of argument `x` is an empty range: 3 is not below 3
     --> space.toml:3:84
      |
    3 |     { name = "x", dtype = "f32", shape = ["N"], role = "input", fill = { uniform = [3, 3] } },
      |                                                                                    ^^^^^^
      |
      = hint: `inclusive = true` makes the upper end part of it

    error: `fill` of argument `y` has 2 keys, expected one
     --> space.toml:4:72
      |
    4 |     { name = "y", dtype = "f32", shape = ["N"], role = "inout", fill = { normal = 1, constant = 0 } },
      |                                                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = hint: one of: normal = 1.0, uniform = [0, 10], constant = 0, npy = "a.npy", raw = "a.bin"
    "#);
}

#[test]
fn contradictions() {
    insta::assert_snapshot!(changed(&[("timed = false", "checked = false"), ("value = 0.5", "value = 0.5, role = \"input\"")]), @r#"
    error: `role` of argument `a` has no meaning for a scalar
     --> space.toml:5:54
      |
    5 |     { name = "a", dtype = "f32", value = 0.5, role = "input" },
      |                                                      ^^^^^^^
      |
      = hint: an argument with `value` is a scalar

    error: problem `small` is timed, so it is always checked
      --> space.toml:10:55
       |
    10 |     { name = "small", sizes = { N = 1000 }, checked = false },
       |                                                       ^^^^^
       |
       = hint: add timed = false, or leave `checked` out
    "#);
}

#[test]
fn a_canonical_problem_is_timed() {
    insta::assert_snapshot!(changed(&[("timed = false", "timed = false, canonical = true")]), @r#"
    error: problem `small` is canonical, so it has to be timed
      --> space.toml:10:72
       |
    10 |     { name = "small", sizes = { N = 1000 }, timed = false, canonical = true },
       |                                                                        ^^^^
       |
       = hint: leave `timed = false` out, or `canonical`
    "#);
}

#[test]
fn a_timed_problem_is_left_for_those_that_name_none() {
    let text = changed(&[("sizes = { N = 65536 }", "sizes = { N = 65536 }, on_request = true")]);
    assert!(text.contains("all timed problems are for commands that name them"), "{text}");
    assert!(text.contains("hint: leave `on_request` out of one of the timed problems"), "{text}");
}

#[test]
fn no_kernel() {
    insta::assert_snapshot!(changed(&[("[kernel]\nname = \"saxpy\"\nsource = \"saxpy.cu\"\n", "")]), @r"
    error: `arguments` needs a `kernel`
     --> space.toml:2:13
      |
    2 | arguments = [
      |             ^
      |
      = hint: add [kernel] with name and template or source
    ");
}

#[test]
fn a_file_with_nothing_in_it() {
    insta::assert_snapshot!(message_of(""), @r"
    error: the file has no `parameters`
     --> space.toml:1:1
      |
    1 |
      | ^
      |
      = hint: write for example `[parameters]` and below it `BLOCK = [64, 128, 256]`
    ");
    insta::assert_snapshot!(message_of("[kernel]\nname = \"x\"\n"), @r#"
    error: `kernel` has no `source`
     --> space.toml:1:1
      |
    1 | [kernel]
      | ^^^^^^^^
      |
      = hint: add source = "my.cu" (parameters as macros) or template = "my.cu.j2"

    error: the kernel has no `arguments`
     --> space.toml:1:1
      |
    1 | [kernel]
      | ^^^^^^^^
      |
      = hint: add an [[arguments]] table for each argument of the entry point

    error: the kernel has no `launches`
     --> space.toml:1:1
      |
    1 | [kernel]
      | ^^^^^^^^
      |
      = hint: add [[launches]] with entry, grid and block

    error: the kernel has no `problems`
     --> space.toml:1:1
      |
    1 | [kernel]
      | ^^^^^^^^
      |
      = hint: add [[problems]] with name and sizes

    error: the kernel has no `check`
     --> space.toml:1:1
      |
    1 | [kernel]
      | ^^^^^^^^
      |
      = hint: add [check] with reference = …: a variant is nothing without a check

    error: the file has no `parameters`
     --> space.toml:1:1
      |
    1 | [kernel]
      | ^
      |
      = hint: write for example `[parameters]` and below it `BLOCK = [64, 128, 256]`
    "#);
    insta::assert_snapshot!(message_of("{\"parameters\": {\"A\": [1]}, \"kernel\": []}"), @r#"
    error: `kernel` is a list, expected an object
     --> space.toml:1:38
      |
    1 | {"parameters": {"A": [1]}, "kernel": []}
      |                                      ^^

    error: the kernel has no `arguments`
     --> space.toml:1:38
      |
    1 | {"parameters": {"A": [1]}, "kernel": []}
      |                                      ^^
      |
      = hint: add an object in "arguments": […] for each argument of the entry point

    error: the kernel has no `launches`
     --> space.toml:1:38
      |
    1 | {"parameters": {"A": [1]}, "kernel": []}
      |                                      ^^
      |
      = hint: add "launches": [{…}] with entry, grid and block

    error: the kernel has no `problems`
     --> space.toml:1:38
      |
    1 | {"parameters": {"A": [1]}, "kernel": []}
      |                                      ^^
      |
      = hint: add "problems": [{…}] with name and sizes

    error: the kernel has no `check`
     --> space.toml:1:38
      |
    1 | {"parameters": {"A": [1]}, "kernel": []}
      |                                      ^^
      |
      = hint: add "check": {…} with "reference": …: a variant is nothing without a check
    "#);
}

#[test]
fn ranges_that_do_not_fit() {
    insta::assert_snapshot!(changed(&[("name = \"x\", dtype = \"f32\", shape = [\"N\"], role = \"input\"", "name = \"x\", dtype = \"u8\", shape = [\"N\"], role = \"input\", fill = { uniform = [0, 300] }"), ("role = \"inout\" }", "role = \"inout\", fill = { constant = 1e300, inclusive = true } }")]), @r#"
    error: `uniform` of `fill` of argument `x` is 300, which does not fit `u8`
     --> space.toml:3:87
      |
    3 |     { name = "x", dtype = "u8", shape = ["N"], role = "input", fill = { uniform = [0, 300] } },
      |                                                                                       ^^^
      |
      = hint: `u8` holds 0 to 255

    error: `inclusive` of `fill` of argument `y` has no meaning for `constant`
     --> space.toml:4:104
      |
    4 |     { name = "y", dtype = "f32", shape = ["N"], role = "inout", fill = { constant = 1e300, inclusive = true } },
      |                                                                                                        ^^^^
      |
      = hint: it says whether the upper end of `uniform` may occur
    "#);
    insta::assert_snapshot!(changed(&[("name = \"x\", dtype = \"f32\", shape = [\"N\"], role = \"input\"", "name = \"x\", dtype = \"i16\", shape = [\"N\"], role = \"input\", fill = { uniform = [0, \"N\"] }")]), @r#"
    error: `saxpy` takes other arguments than the file declares:
                the space passes        the source takes
           >  1 x: i16 buffer           const float *x
              2 y: f32 buffer, written  float *y
              3 a: f32                  float a
              4 n: i32                  int n
     --> space.toml:2:13
      |
    2 | arguments = [
      |             ^
      |
      = hint: an argument is declared with the `dtype`, the `role` and in the place that the source gives it

    error: `uniform` of `fill` of argument `x` = `N` is 65536, which does not fit `i16` (`i16` holds -32768 to 32767), in problem `large`
     --> space.toml:3:72
      |
    3 |     { name = "x", dtype = "i16", shape = ["N"], role = "input", fill = { uniform = [0, "N"] } },
      |                                                                        ^^^^^^^^^^^^^^^^^^^^^^
      |
      = hint: this is the default configuration: BLOCK=128 PER_THREAD=1 UNROLL=true

    error: the reference kernel `saxpy_naive` takes other arguments than it is given:
                the space passes  the source takes
           >  1 x: i16 buffer     const float *x
              2 y: f32 buffer     float *y
              3 a: f32            float a
              4 n: i32            int n
      --> space.toml:24:13
       |
    24 | reference = { source = "naive.cu", entry = "saxpy_naive", grid = "ceil_div(N, 256)", block = 256 }
       |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = hint: it gets the kernel's arguments in their order, scratch too; `arguments = […]` in its table names others
    "#);
    insta::assert_snapshot!(changed(&[("role = \"input\" }", "role = \"input\", fill = { uniform = [0, \"BLOCK\"] } }")]), @r#"
    error: `uniform` of `fill` of argument `x`: unknown name `BLOCK`
     --> space.toml:3:89
      |
    3 |     { name = "x", dtype = "f32", shape = ["N"], role = "input", fill = { uniform = [0, "BLOCK"] } },
      |                                                                                         ^^^^^
      |
      = hint: known names: N
    "#);
}

/// It would take a pointer for a number, and every variant would be blamed for its answers.
#[test]
fn a_reference_with_other_arguments() {
    let scratch = "    { name = \"a\", dtype = \"f32\", value = 0.5 },";
    let more =
        format!("    {{ name = \"w\", dtype = \"f32\", shape = [\"N\"], role = \"scratch\" }},\n{scratch}");
    insta::assert_snapshot!(changed(&[(scratch, &more)]), @r#"
    error: `saxpy` takes other arguments than the file declares:
                the space passes        the source takes
              1 x: f32 buffer           const float *x
              2 y: f32 buffer, written  float *y
           >  3 w: f32 buffer           float a
           >  4 a: f32                  int n
           >  5 n: i32                  (nothing)
     --> space.toml:2:13
      |
    2 | arguments = [
      |             ^
      |
      = hint: an argument is declared with the `dtype`, the `role` and in the place that the source gives it

    error: the reference kernel `saxpy_naive` takes other arguments than it is given:
                the space passes  the source takes
              1 x: f32 buffer     const float *x
              2 y: f32 buffer     float *y
           >  3 w: f32 buffer     float a
           >  4 a: f32            int n
           >  5 n: i32            (nothing)
      --> space.toml:25:13
       |
    25 | reference = { source = "naive.cu", entry = "saxpy_naive", grid = "ceil_div(N, 256)", block = 256 }
       |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = hint: it gets the kernel's arguments in their order, scratch too; `arguments = […]` in its table names others
    "#);
}

/// What the source of the variants takes is compared as well, when the file is read.
#[test]
fn a_kernel_with_other_arguments() {
    let other = |from: &str, to: &str| changed(&[(from, to)]);
    insta::assert_snapshot!(other("name = \"x\", dtype = \"f32\"", "name = \"x\", dtype = \"f64\""), @r#"
    error: `saxpy` takes other arguments than the file declares:
                the space passes        the source takes
           >  1 x: f64 buffer           const float *x
              2 y: f32 buffer, written  float *y
              3 a: f32                  float a
              4 n: i32                  int n
     --> space.toml:2:13
      |
    2 | arguments = [
      |             ^
      |
      = hint: an argument is declared with the `dtype`, the `role` and in the place that the source gives it

    error: the reference kernel `saxpy_naive` takes other arguments than it is given:
                the space passes  the source takes
           >  1 x: f64 buffer     const float *x
              2 y: f32 buffer     float *y
              3 a: f32            float a
              4 n: i32            int n
      --> space.toml:24:13
       |
    24 | reference = { source = "naive.cu", entry = "saxpy_naive", grid = "ceil_div(N, 256)", block = 256 }
       |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = hint: it gets the kernel's arguments in their order, scratch too; `arguments = […]` in its table names others
    "#);
    insta::assert_snapshot!(changed_source("float* y,", "const float* y,"), @r#"
    error: `saxpy` takes other arguments than the file declares:
                the space passes        the source takes
              1 x: f32 buffer           const float *x
           >  2 y: f32 buffer, written  const float *y
              3 a: f32                  float a
              4 n: i32                  int n
     --> space.toml:2:13
      |
    2 | arguments = [
      |             ^
      |
      = hint: an argument is declared with the `dtype`, the `role` and in the place that the source gives it
    "#);
    let first = "extern \"C\" __global__ void saxpy(const float* x, float* y, float a, int n) {\n";
    let reads = format!("__constant__ float c_scale;\n{first}    a *= c_scale;\n");
    insta::assert_snapshot!(changed_source(first, &reads), @r#"
    error: the variable `c_scale` is read by `saxpy` and filled by nobody: it is zero in every call
      --> space.toml:14:1
       |
    14 | [kernel]
       | ^^^^^^^^
       |
       = hint: an argument with `symbol = "c_scale"` fills it before each call; or give it a value in the source
    "#);
}

/// In a reference that says `REAL` every floating-point argument is one.
#[test]
fn a_reference_that_takes_a_float_beside_real() {
    let naive = include_str!("../../data/saxpy/naive.cu").replace("float*", "REAL*");
    let text = include_str!("../../data/saxpy/saxpy.toml").replacen("naive.cu", "changed.cu", 1);
    let message = message_beside(&text, &naive);
    assert!(message.contains(">  3 a: REAL           float a"), "{message}");
    assert!(
        message.contains("= hint: its source says `REAL`, so every floating-point argument"),
        "{message}"
    );
    assert_eq!(message_beside(&text, &naive.replace("float a", "REAL a")), "no error");
}

#[test]
fn references_in_double_precision() {
    insta::assert_snapshot!(changed(&[("entry = \"saxpy_naive\",", "entry = \"saxpy_naive\", real = true,"), ("tiny = [{ N = 1 }, { N = \"BLOCK * PER_THREAD + 1\" }, { N = \"BLOCK - 64\" }]", "tiny = []\nspecial_values = \"never\"\nmultiple_of = { M = 4 }")]), @r#"
    error: `real` of `reference` of `check` is true, and `naive.cu` never uses `REAL`
      --> space.toml:24:66
       |
    24 | reference = { source = "naive.cu", entry = "saxpy_naive", real = true, grid = "ceil_div(N, 256)", block = 256 }
       |                                                                  ^^^^
       |
       = hint: write its floating-point types as `REAL`: evo defines it as `double`

    error: `tiny` of `check` is an empty list
      --> space.toml:25:8
       |
    25 | tiny = []
       |        ^^
       |
       = hint: leave `tiny` out, and evo derives shapes; "none" is for a kernel that supports only the sizes of its problems

    error: `special_values` of `check` is `never`, which is unknown
      --> space.toml:26:18
       |
    26 | special_values = "never"
       |                  ^^^^^^^
       |
       = hint: one of: reference, as_default, ignore

    error: the first problem has no size `M`
      --> space.toml:27:17
       |
    27 | multiple_of = { M = 4 }
       |                 ^
       |
       = hint: did you mean `N`?
    "#);
}
