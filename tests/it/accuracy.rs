//! What single precision costs a task: honest kernels that need room, and kernels that lie within the usual bounds.
//! All through `evo test-one` on the host device, beside a reference that writes its types as `REAL`.

use serde_json::Value;

use crate::support::{BRIEF, evo};

/// A task: space file, kernel and reference.
type Task = [&'static str; 3];

/// The verdict on a kernel, with its cause.
fn verdict(task: Task, fault: &str) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in ["s.toml", "k.cu", "n.cu"].into_iter().zip(task) {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let words = format!("test-one s.toml {fault} {BRIEF} --device host --seed 7 --json");
    let output = evo(folder.path(), &words).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let verdict = answer["verdict"].as_str().unwrap();
    (answer["cause"].as_str().map_or(verdict.to_string(), |cause| format!("{verdict}:{cause}")), answer)
}

fn check(task: Task, honest: &[&str], lies: &[&str]) {
    for fault in honest {
        let (found, answer) = verdict(task, fault);
        assert_eq!(found, "pass", "{fault}: {answer:#}");
    }
    for fault in lies {
        let (found, answer) = verdict(task, fault);
        assert!(found.starts_with("wrong_answer"), "{fault}: {found}: {answer:#}");
    }
}

/// Pairs of elements that turn by an angle, which grows with the position.
const ROPE: Task = [
    r#"
kernel = { name = "rope", source = "k.cu" }
parameters = { FAULT = [0, 1, 2], BLOCK = [64] }
arguments = [
    { name = "x", dtype = "f32", shape = ["S", "D"], role = "input" },
    { name = "y", dtype = "f32", shape = ["S", "D"], role = "output" },
    { name = "s", dtype = "i32", value = "S" },
    { name = "d", dtype = "i32", value = "D" },
]
launches = [{ entry = "rope", grid = "ceil_div(S * (D // 2), BLOCK)", block = "BLOCK" }]
problems = [{ name = "p", sizes = { S = 4096, D = 64 } }, { name = "q", sizes = { S = 1000, D = 32 }, timed = false }]
check = { multiple_of = { D = "2" }, reference = { source = "n.cu", entry = "naive", grid = "ceil_div(S * (D // 2), 64)", block = 64 } }
"#,
    r#"
extern "C" __global__ void rope(const float* x, float* y, int s, int d) {
    int i = blockIdx.x * BLOCK + threadIdx.x, half = d / 2;
    if (i >= s * half) return;
    int pos = i / half, at = i % half;
    // log2(10000)
    float angle = pos * exp2f(-13.287712379549449f * (2.0f * at / d));
#if FAULT == 1
    // Every angle as a multiple of 1/1024 turn of the sine: a table of few entries.
    angle = rintf(angle * 163.0f) / 163.0f;
#elif FAULT == 2
    if (pos >= s - 8) angle = (float)(pos - 1) * exp2f(-13.287712379549449f * (2.0f * at / d));
#endif
    float c = cosf(angle), n = sinf(angle);
    float a = x[pos * d + 2 * at], b = x[pos * d + 2 * at + 1];
    y[pos * d + 2 * at] = a * c - b * n;
    y[pos * d + 2 * at + 1] = a * n + b * c;
}
"#,
    r#"
extern "C" __global__ void naive(const REAL* x, REAL* y, int s, int d) {
    int i = blockIdx.x * 64 + threadIdx.x, half = d / 2;
    if (i >= s * half) return;
    int pos = i / half, at = i % half;
    REAL angle = pos * pow((REAL)10000, -(REAL)2 * at / d);
    REAL c = cos(angle), n = sin(angle);
    REAL a = x[pos * d + 2 * at], b = x[pos * d + 2 * at + 1];
    y[pos * d + 2 * at] = a * c - b * n;
    y[pos * d + 2 * at + 1] = a * n + b * c;
}
"#,
];

/// Inverses of 3 × 3 matrices, a few of them nearly singular.
const INVERSE: Task = [
    r#"
kernel = { name = "inverse", source = "k.cu" }
parameters = { FAULT = [0, 1, 2], BLOCK = [64] }
arguments = [
    { name = "a", dtype = "f32", shape = ["B", 3, 3], role = "input" },
    { name = "y", dtype = "f32", shape = ["B", 3, 3], role = "output" },
    { name = "b", dtype = "i32", value = "B" },
]
launches = [{ entry = "inverse", grid = "ceil_div(B, BLOCK)", block = "BLOCK" }]
problems = [{ name = "p", sizes = { B = 20000 } }, { name = "q", sizes = { B = 777 }, timed = false }]
check = { reference = { source = "n.cu", entry = "naive", grid = "ceil_div(B, 64)", block = 64 }, special_values = "ignore" }
"#,
    r#"
// Gauss and Jordan with pivots.
extern "C" __global__ void inverse(const float* a, float* y, int b) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= b) return;
    float m[3][6];
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) { m[r][c] = a[9 * i + 3 * r + c]; m[r][c + 3] = r == c ? 1.0f : 0.0f; }
    for (int p = 0; p < 3; p++) {
        int best = p;
        for (int r = p + 1; r < 3; r++) if (fabsf(m[r][p]) > fabsf(m[best][p])) best = r;
        for (int c = 0; c < 6; c++) { float t = m[p][c]; m[p][c] = m[best][c]; m[best][c] = t; }
        float over = 1.0f / m[p][p];
        for (int c = 0; c < 6; c++) m[p][c] *= over;
        for (int r = 0; r < 3; r++) {
            if (r == p) continue;
            float f = m[r][p];
            for (int c = 0; c < 6; c++) m[r][c] -= f * m[p][c];
        }
    }
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            float v = m[r][c + 3];
#if FAULT == 1
            v *= 1.000004f;
#elif FAULT == 2
            if (i % 97 == 0) v *= 1.001f;
#endif
            y[9 * i + 3 * r + c] = v;
        }
}
"#,
    r#"
extern "C" __global__ void naive(const REAL* a, REAL* y, int b) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= b) return;
    const REAL* m = a + 9 * i;
    REAL c00 = m[4] * m[8] - m[5] * m[7], c01 = m[5] * m[6] - m[3] * m[8], c02 = m[3] * m[7] - m[4] * m[6];
    REAL over = 1 / (m[0] * c00 + m[1] * c01 + m[2] * c02);
    REAL* o = y + 9 * i;
    o[0] = c00 * over; o[1] = (m[2] * m[7] - m[1] * m[8]) * over; o[2] = (m[1] * m[5] - m[2] * m[4]) * over;
    o[3] = c01 * over; o[4] = (m[0] * m[8] - m[2] * m[6]) * over; o[5] = (m[2] * m[3] - m[0] * m[5]) * over;
    o[6] = c02 * over; o[7] = (m[1] * m[6] - m[0] * m[7]) * over; o[8] = (m[0] * m[4] - m[1] * m[3]) * over;
}
"#,
];

/// The product of two matrices.
const PRODUCT: Task = [
    r#"
kernel = { name = "product", source = "k.cu" }
parameters = { FAULT = [0, 1, 2, 3, 4, 5], BLOCK = [64] }
arguments = [
    { name = "a", dtype = "f32", shape = ["M", "K"], role = "input" },
    { name = "b", dtype = "f32", shape = ["K", "N"], role = "input" },
    { name = "c", dtype = "f32", shape = ["M", "N"], role = "output" },
    { name = "m", dtype = "i32", value = "M" },
    { name = "n", dtype = "i32", value = "N" },
    { name = "k", dtype = "i32", value = "K" },
]
launches = [{ entry = "product", grid = "ceil_div(M * N, BLOCK)", block = "BLOCK" }]
problems = [{ name = "p", sizes = { M = 160, N = 96, K = 512 } }, { name = "q", sizes = { M = 90, N = 70, K = 130 }, timed = false }]
check = { reference = { source = "n.cu", entry = "naive", grid = "ceil_div(M * N, 64)", block = 64 } }
"#,
    r#"
#include <cuda_fp16.h>
__device__ float operand(float v) {
#if FAULT == 1
    // 16 bits of a number.
    return __uint_as_float((__float_as_uint(v) + 0x80u) & ~0xffu);
#else
    return v;
#endif
}
extern "C" __global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= m * n) return;
    int row = i / n, col = i % n;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int p = 0; p < k; p++) sum[p % 4] += operand(a[row * k + p]) * operand(b[p * n + col]);
    float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
#if FAULT == 2
    all *= 1.000002f;
#elif FAULT == 3
    // Halves for one column in sixteen, in pieces of 32 that are added in full.
    if (col % 16 == 7 && row % 64 == 9) {
        all = 0.0f;
        for (int p = 0; p < k; p += 32) {
            __half part = __float2half(0.0f);
            for (int q = p; q < p + 32 && q < k; q++) part = __hadd(part, __float2half(a[row * k + q] * b[q * n + col]));
            all += __half2float(part);
        }
    }
#elif FAULT == 4
    // The product of the smaller numbers is left out.
    all = 0.0f;
    for (int p = 0; p < k; p++) {
        float t = a[row * k + p] * b[p * n + col];
        if (fabsf(t) > 3e-5f) all += t;
    }
#elif FAULT == 5
    // Honest: in one chain, from the end.
    all = 0.0f;
    for (int p = k - 1; p >= 0; p--) all = fmaf(a[row * k + p], b[p * n + col], all);
#endif
    c[i] = all;
}
"#,
    r#"
extern "C" __global__ void naive(const REAL* a, const REAL* b, REAL* c, int m, int n, int k) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= m * n) return;
    REAL sum = 0;
    for (int p = 0; p < k; p++) sum += a[i / n * k + p] * b[p * n + i % n];
    c[i] = sum;
}
"#,
];

/// Rows without their mean, and of one size.
const NORM: Task = [
    r#"
kernel = { name = "norm", source = "k.cu" }
parameters = { FAULT = [0, 1, 2], BLOCK = [64] }
arguments = [
    { name = "x", dtype = "f32", shape = ["R", "N"], role = "input" },
    { name = "y", dtype = "f32", shape = ["R", "N"], role = "output" },
    { name = "r", dtype = "i32", value = "R" },
    { name = "n", dtype = "i32", value = "N" },
]
launches = [{ entry = "norm", grid = "R", block = "BLOCK" }]
problems = [{ name = "p", sizes = { R = 96, N = 500 } }, { name = "q", sizes = { R = 33, N = 129 }, timed = false }]
check = { special_values = "ignore", reference = { source = "n.cu", entry = "naive", grid = "R", block = 1 } }
"#,
    r#"
// A layer norm in one pass over the values: Welford's mean and spread in each thread.
extern "C" __global__ void norm(const float* x, float* y, int r, int n) {
    __shared__ float means[BLOCK], squares[BLOCK], counts[BLOCK];
    const float* in = x + (size_t)blockIdx.x * n;
    float mean = 0.0f, square = 0.0f, count = 0.0f;
    for (int i = threadIdx.x; i < n; i += BLOCK) {
        count += 1.0f;
        float d = in[i] - mean;
        mean += d / count;
        square += d * (in[i] - mean);
    }
    means[threadIdx.x] = mean, squares[threadIdx.x] = square, counts[threadIdx.x] = count;
    __syncthreads();
    for (int h = BLOCK / 2; h > 0; h /= 2) {
        if (threadIdx.x < h) {
            float ca = counts[threadIdx.x], cb = counts[threadIdx.x + h], c = ca + cb;
            if (c > 0.0f) {
                float d = means[threadIdx.x + h] - means[threadIdx.x];
                means[threadIdx.x] += d * cb / c;
                squares[threadIdx.x] += squares[threadIdx.x + h] + d * d * ca * cb / c;
                counts[threadIdx.x] = c;
            }
        }
        __syncthreads();
    }
    float scale = rsqrtf(squares[0] / n + 1e-5f);
#if FAULT == 1
    scale = rsqrtf(squares[0] / n + 1.2e-5f);
#elif FAULT == 2
    scale = __uint_as_float((__float_as_uint(scale) + 0x20u) & ~0x3fu) * 1.0000015f;
#endif
    for (int i = threadIdx.x; i < n; i += BLOCK) y[(size_t)blockIdx.x * n + i] = (in[i] - means[0]) * scale;
}
"#,
    r#"
extern "C" __global__ void naive(const REAL* x, REAL* y, int r, int n) {
    const REAL* in = x + (size_t)blockIdx.x * n;
    REAL mean = 0, square = 0;
    for (int i = 0; i < n; i++) mean += in[i];
    mean /= n;
    for (int i = 0; i < n; i++) square += (in[i] - mean) * (in[i] - mean);
    REAL over = 1 / sqrt(square / n + (REAL)1e-5);
    for (int i = 0; i < n; i++) y[(size_t)blockIdx.x * n + i] = (in[i] - mean) * over;
}
"#,
];

#[test]
fn angles_in_single_precision_are_honest_and_a_coarse_table_is_not() {
    check(ROPE, &["FAULT=0"], &["FAULT=1"]);
}

#[test]
fn matrices_that_are_nearly_singular_have_room_and_the_others_do_not() {
    check(INVERSE, &["FAULT=0"], &["FAULT=2"]);
}

#[test]
fn lies_within_the_usual_bounds_are_larger_than_what_single_precision_costs() {
    // Which rule sees them first depends on the values, and so on the seed.
    check(PRODUCT, &["FAULT=0", "FAULT=5"], &["FAULT=1", "FAULT=2", "FAULT=3"]);
    check(NORM, &["FAULT=0"], &["FAULT=2"]);
}
