//! Names that do not exist, in keys, words and expressions.

use super::changed;

#[test]
fn unknown_keys() {
    insta::assert_snapshot!(changed(&[("role = \"input\"", "roole = \"input\", rol = \"input\""), ("[check]", "[check]\nseed = 4"), ("[objective]", "[objektive]")]), @r#"
    error: argument `x` has no `role`
     --> space.toml:3:5
      |
    3 |     { name = "x", dtype = "f32", shape = ["N"], roole = "input", rol = "input" },
      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = hint: one of: input, output, inout, scratch

    error: unknown key `roole` in argument `x`
     --> space.toml:3:49
      |
    3 |     { name = "x", dtype = "f32", shape = ["N"], roole = "input", rol = "input" },
      |                                                 ^^^^^
      |
      = hint: did you mean `role`?

    error: unknown key `rol` in argument `x`
     --> space.toml:3:66
      |
    3 |     { name = "x", dtype = "f32", shape = ["N"], roole = "input", rol = "input" },
      |                                                                  ^^^
      |
      = hint: did you mean `role`?

    error: unknown key `seed` in `check`
      --> space.toml:24:1
       |
    24 | seed = 4
       | ^^^^
       |
       = hint: did you mean `seeds`?

    error: unknown key `objektive` in the file
      --> space.toml:28:2
       |
    28 | [objektive]
       |  ^^^^^^^^^
       |
       = hint: did you mean `objective`?
    "#);
}

#[test]
fn unknown_names() {
    insta::assert_snapshot!(changed(&[("value = \"N\"", "value = \"M\""), ("\"ceil_div(N, BLOCK * PER_THREAD)\"", "\"ceil_div(N, BLOK * PER_THREAD)\""), ("\"12 * N\"", "\"12 * n + 1\"")]), @r#"
    error: `value` of argument `n`: unknown name `M`
     --> space.toml:6:43
      |
    6 |     { name = "n", dtype = "i32", value = "M" },
      |                                           ^
      |
      = hint: known names: BLOCK, PER_THREAD, UNROLL, N

    error: `grid` of launch `saxpy`: unknown name `BLOK`
     --> space.toml:8:52
      |
    8 | launches = [{ entry = "saxpy", grid = "ceil_div(N, BLOK * PER_THREAD)", block = "BLOCK" }]
      |                                                    ^^^^
      |
      = hint: did you mean `BLOCK`?

    error: `bytes` of `objective`: unknown name `n`
      --> space.toml:28:15
       |
    28 | bytes = "12 * n + 1"
       |               ^
       |
       = hint: did you mean `N`?
    "#);
}

#[test]
fn a_size_that_one_problem_lacks() {
    insta::assert_snapshot!(changed(&[("sizes = { N = 65536 }", "sizes = { N = 65536, K = 4 }"), ("\"12 * N\"", "\"12 * K\"")]), @r#"
    error: `bytes` of `objective`: problem `small` has no size `K`
      --> space.toml:28:15
       |
    28 | bytes = "12 * K"
       |               ^
       |
       = hint: problem `large` has it; an expression is evaluated for every problem
    "#);
}

#[test]
fn a_reference_may_not_read_parameters() {
    insta::assert_snapshot!(changed(&[("grid = \"ceil_div(N, 256)\"", "grid = \"ceil_div(N, BLOCK)\"")]), @r#"
    error: `grid` of `reference` of `check`: unknown name `BLOCK`
      --> space.toml:24:79
       |
    24 | reference = { source = "naive.cu", entry = "saxpy_naive", grid = "ceil_div(N, BLOCK)", block = 256 }
       |                                                                               ^^^^^
       |
       = hint: known names: N
    "#);
}

#[test]
fn unknown_words() {
    insta::assert_snapshot!(changed(&[("dtype = \"f32\"", "dtype = \"fp32\""), ("role = \"inout\"", "role = \"in_out\""), ("[objective]", "[objective]\nranking = \"warm\""), ("timed = false", "timed = false, device = \"gpu\"")]), @r#"
    error: `dtype` of argument `x` is `fp32`, which is unknown
     --> space.toml:3:27
      |
    3 |     { name = "x", dtype = "fp32", shape = ["N"], role = "input" },
      |                           ^^^^^^
      |
      = hint: did you mean `f32`?

    error: `role` of argument `y` is `in_out`, which is unknown
     --> space.toml:4:56
      |
    4 |     { name = "y", dtype = "f32", shape = ["N"], role = "in_out" },
      |                                                        ^^^^^^^^
      |
      = hint: did you mean `inout`?

    error: `device` of problem `small` is `gpu`, which is unknown
      --> space.toml:10:69
       |
    10 |     { name = "small", sizes = { N = 1000 }, timed = false, device = "gpu" },
       |                                                                     ^^^^^
       |
       = hint: one of: host, cuda

    error: `ranking` of `objective` is `warm`, which is unknown
      --> space.toml:28:11
       |
    28 | ranking = "warm"
       |           ^^^^^^
       |
       = hint: one of: hot, cold
    "#);
}

#[test]
fn duplicates() {
    insta::assert_snapshot!(changed(&[("name = \"y\"", "name = \"x\""), ("name = \"large\"", "name = \"small\"")]), @r#"
    error: two arguments are called `x`
     --> space.toml:4:14
      |
    4 |     { name = "x", dtype = "f32", shape = ["N"], role = "inout" },
      |              ^^^

    error: two problems are called `small`
      --> space.toml:11:14
       |
    11 |     { name = "small", sizes = { N = 65536 } },
       |              ^^^^^^^
    "#);
}

#[test]
fn unknown_launch_argument() {
    insta::assert_snapshot!(changed(&[("block = \"BLOCK\"", "block = \"BLOCK\", arguments = [\"x\", \"yy\", \"n\"]")]), @r#"
    error: `arguments` of launch `saxpy`: no argument is called `yy`
     --> space.toml:8:109
      |
    8 | launches = [{ entry = "saxpy", grid = "ceil_div(N, BLOCK * PER_THREAD)", block = "BLOCK", arguments = ["x", "yy", "n"] }]
      |                                                                                                             ^^^^
      |
      = hint: did you mean `y`?
    "#);
}

#[test]
fn a_size_called_like_a_parameter() {
    insta::assert_snapshot!(changed(&[("sizes = { N = 1000 }", "sizes = { N = 1000, BLOCK = 4 }")]), @r#"
    error: `BLOCK` is both a parameter and a size
      --> space.toml:10:43
       |
    10 |     { name = "small", sizes = { N = 1000, BLOCK = 4 }, timed = false },
       |                                           ^^^^^
       |
       = hint: rename one of them
    "#);
}

#[test]
fn bad_tiny_shapes() {
    insta::assert_snapshot!(changed(&[("{ N = 1 }", "{ M = 1 }"), ("\"BLOCK - 64\"", "\"BLOCK - X\"")]), @r#"
    error: the first problem has no size `M`
      --> space.toml:25:11
       |
    25 | tiny = [{ M = 1 }, { N = "BLOCK * PER_THREAD + 1" }, { N = "BLOCK - X" }]
       |           ^
       |
       = hint: did you mean `N`?

    error: size `N` in an entry of `tiny` of `check`: unknown name `X`
      --> space.toml:25:69
       |
    25 | tiny = [{ M = 1 }, { N = "BLOCK * PER_THREAD + 1" }, { N = "BLOCK - X" }]
       |                                                                     ^
       |
       = hint: known names: BLOCK, PER_THREAD, UNROLL, N
    "#);
}

#[test]
fn names_that_open_nothing() {
    let open = |name: &str| {
        let error = evo::kernel::catalog::open(name).unwrap_err();
        format!("{error}\nhint: {}", error.hint().unwrap())
    };
    insta::assert_snapshot!(open("gem"), @r"
    no space `gem` here
    hint: did you mean `gemm`?
    ");
    insta::assert_snapshot!(open("convolution"), @r"
    no space `convolution` here
    hint: shipped: attention_simt, attention_mma, attention_mma_bf16, attention_mma_d80, attention_mma_d96, attention_mma_d128, attention_mma_d256, attention_layouts, attention_ladder, attention_decode, attention_decode_bf16, attention_decode_d64, attention_decode_layouts, attention_hopper, attention_hopper_bf16, attention_hopper_d80, attention_hopper_d96, attention_hopper_d128, attention_hopper_d256, attention_hopper_layouts, gemm_hopper, gemm_hopper_bf16, gemm, gemm_mma, gemm_mma_bf16, softmax, rmsnorm, reduction, transpose, faults, faults_heads; a file is named by its path
    ");
    insta::assert_snapshot!(open("no/such/file.toml").lines().next().unwrap(), @r"cannot read the space file `no/such/file.toml`: No such file or directory (os error 2)");
}
