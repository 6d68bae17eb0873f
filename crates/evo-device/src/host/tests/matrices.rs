//! `mma.h`: products of fragments against plain loops over small whole numbers, which every type holds exactly.

use evo_protocol::verdict::VerdictKind;

use super::*;

fn product(shape: [usize; 3], types: [&str; 4], layouts: [&str; 2]) {
    let [m, n, k] = shape;
    let [operand, stored, sum, out] = types;
    let text = format!(
        r#"
        #include <mma.h>
        #include <cuda_fp16.h>
        #include <cuda_bf16.h>
        using namespace nvcuda;
        extern "C" __global__ void k(const float* a, const float* b, float* c) {{
            __shared__ alignas(32) {stored} left[{m} * {k}], right[{k} * {n}];
            __shared__ alignas(32) {out} sums[{m} * {n}];
            for (int at = threadIdx.x; at < {m} * {k}; at += 32) {{
                int row = at / {k}, column = at % {k};
                left[{left_row} ? at : column * {m} + row] = ({stored})a[at];
            }}
            for (int at = threadIdx.x; at < {k} * {n}; at += 32) {{
                int row = at / {n}, column = at % {n};
                right[{right_row} ? at : column * {k} + row] = ({stored})b[at];
            }}
            __syncwarp();
            wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {operand}, wmma::{left_layout}> x;
            wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {operand}, wmma::{right_layout}> y;
            wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {sum}> z;
            wmma::fill_fragment(z, ({sum})1);
            wmma::load_matrix_sync(x, left, {left_row} ? {k} : {m});
            wmma::load_matrix_sync(y, right, {right_row} ? {n} : {k});
            for (int at = 0; at < y.num_elements; at++) y.x[at] = y.x[at] + y.x[at];
            wmma::mma_sync(z, x, y, z);
            wmma::store_matrix_sync(sums, z, {m}, wmma::mem_col_major);
            __syncwarp();
            for (int at = threadIdx.x; at < {m} * {n}; at += 32) c[at] = (float)sums[at % {n} * {m} + at / {n}];
        }}
    "#,
        left_row = layouts[0] == "row_major",
        right_row = layouts[1] == "row_major",
        left_layout = layouts[0],
        right_layout = layouts[1],
    );
    let small = |at: usize, step: usize| (at * step % 7) as f32 - 3.0;
    let left: Vec<f32> = (0..m * k).map(|at| small(at, 5)).collect();
    let right: Vec<f32> = (0..k * n).map(|at| small(at, 3)).collect();
    let mut bench = Bench::new(&text, "k");
    let (a, b) = (bench.buffer("a", &left), bench.buffer("b", &right));
    let c = bench.buffer("c", &vec![0f32; m * n]);
    bench.run(1, 32, 0, vec![buffer(a), buffer(b), buffer(c)]).unwrap();
    let sum = |at: usize| {
        let terms = (0..k).map(|inner| left[at / n * k + inner] * right[inner * n + at % n]);
        1.0 + 2.0 * terms.sum::<f32>()
    };
    assert_eq!(bench.values::<f32>(c), (0..m * n).map(sum).collect::<Vec<f32>>(), "{types:?} {shape:?}");
}

#[test]
fn fragments_of_every_type_and_layout() {
    let layouts = ["row_major", "col_major"];
    product([16, 16, 16], ["half", "half", "float", "float"], layouts);
    product([32, 8, 16], ["half", "half", "half", "half"], ["col_major", "row_major"]);
    product([8, 32, 16], ["__nv_bfloat16", "__nv_bfloat16", "float", "float"], ["row_major", "row_major"]);
    product([16, 16, 16], ["signed char", "signed char", "int", "int"], layouts);
    product([16, 16, 8], ["wmma::precision::tf32", "float", "float", "float"], layouts);
    product([8, 8, 4], ["double", "double", "double", "double"], ["col_major", "col_major"]);
}

#[test]
fn what_a_gpu_demands_of_fragments() {
    let refused = |body: &str| {
        let text = format!(
            "#include <mma.h>\nusing namespace nvcuda;\nextern \"C\" __global__ void k(float* c) {{\n \
             wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;\n wmma::fill_fragment(z, 1.0f);\n{body}\n}}"
        );
        let mut bench = Bench::new(&text, "k");
        let c = bench.buffer("c", &[0f32; 512]);
        let error = bench.run(1, 32, 0, vec![buffer(c)]).unwrap_err();
        (error.kind, error.message)
    };
    let (kind, message) = refused(" wmma::store_matrix_sync(c + 1, z, 16, wmma::mem_row_major);");
    assert_eq!(kind, VerdictKind::CrashMisaligned, "{message}");
    assert!(message.contains("no multiple of 32 bytes") && message.contains("line 6"), "{message}");
    let (_, message) = refused(" wmma::store_matrix_sync(c, z, 17, wmma::mem_row_major);");
    assert!(message.contains("no multiples of 16 bytes apart"), "{message}");
    let (kind, message) =
        refused(" if (threadIdx.x < 31) wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);");
    assert_eq!(kind, VerdictKind::DivergentBarrier);
    assert!(message.contains("threads 0-30 wait at line 6"), "{message}");
}
