//! Files that are missing, and templates that do not render.

use super::changed;

#[test]
fn missing_files() {
    insta::assert_snapshot!(changed(&[("\"saxpy.cu\"", "\"saxpi.cu\""), ("\"naive.cu\"", "\"attention_simt.cu\"")]), @r#"
    error: `source` of `kernel`: there is no file `saxpi.cu`
      --> space.toml:16:10
       |
    16 | source = "saxpi.cu"
       |          ^^^^^^^^^^
       |
       = hint: looked for `saxpi.cu`

    error: `source` of `reference` of `check`: there is no file `attention_simt.cu`
      --> space.toml:24:24
       |
    24 | reference = { source = "attention_simt.cu", entry = "saxpy_naive", grid = "ceil_div(N, 256)", block = 256 }
       |                        ^^^^^^^^^^^^^^^^^^^
       |
       = hint: did you mean the embedded `attention_simt.cu.j2`?
    "#);
}

#[test]
fn unknown_builtin() {
    insta::assert_snapshot!(changed(&[("reference = { source = \"naive.cu\", entry = \"saxpy_naive\", grid = \"ceil_div(N, 256)\", block = 256 }", "reference = \"gem\"")]), @r#"
    error: `reference` of `check` is `gem`, which is unknown
      --> space.toml:24:13
       |
    24 | reference = "gem"
       |             ^^^^^
       |
       = hint: did you mean `gemm`?
    "#);
}

#[test]
fn builtin_without_its_arguments() {
    insta::assert_snapshot!(changed(&[("reference = { source = \"naive.cu\", entry = \"saxpy_naive\", grid = \"ceil_div(N, 256)\", block = 256 }", "reference = \"gemm\"")]), @r#"
    error: reference `gemm` needs arguments that are not there: `b`, `c`
      --> space.toml:24:13
       |
    24 | reference = "gemm"
       |             ^^^^^^
       |
       = hint: it computes `c` from `a`, `b`
    "#);
}

#[test]
fn template_reads_unknown_names() {
    insta::assert_snapshot!(changed(&[("source = \"saxpy.cu\"", "template = \"broken.cu.j2\"")]), @r#"
    error: broken.cu.j2:3: the template reads `BLOK`, which is not a parameter
      --> space.toml:16:12
       |
    16 | template = "broken.cu.j2"
       |            ^^^^^^^^^^^^^^
       |
       = hint: did you mean `BLOCK`?

    error: broken.cu.j2:3: the template reads `N`, which is not a parameter
      --> space.toml:16:12
       |
    16 | template = "broken.cu.j2"
       |            ^^^^^^^^^^^^^^
       |
       = hint: a size of problems is an argument; `specialize` makes it a template variable too
    "#);
}

#[test]
fn template_is_malformed() {
    insta::assert_snapshot!(changed(&[("source = \"saxpy.cu\"", "template = \"open.cu.j2\"")]), @r#"
    error: open.cu.j2:2: unexpected end of input, expected end of block in `%>`
      --> space.toml:16:12
       |
    16 | template = "open.cu.j2"
       |            ^^^^^^^^^^^^
    "#);
}

#[test]
fn template_refuses_the_default() {
    insta::assert_snapshot!(changed(&[("source = \"saxpy.cu\"", "template = \"refuses.cu.j2\"")]), @r#"
    error: refuses.cu.j2:2: no 128 in `fail('no ' ~ BLOCK)`
      --> space.toml:16:12
       |
    16 | template = "refuses.cu.j2"
       |            ^^^^^^^^^^^^^^^
       |
       = hint: this is the default configuration: BLOCK=128 PER_THREAD=1 UNROLL=true
    "#);
}

#[test]
fn template_and_source() {
    insta::assert_snapshot!(changed(&[("source = \"saxpy.cu\"", "source = \"saxpy.cu\"\ntemplate = \"gemm.cu.j2\"")]), @r#"
    error: `kernel` has both `template` and `source`
      --> space.toml:16:10
       |
    16 | source = "saxpy.cu"
       |          ^^^^^^^^^^
       |
       = hint: a template is rendered; a source gets parameters as -D macros
    "#);
}
