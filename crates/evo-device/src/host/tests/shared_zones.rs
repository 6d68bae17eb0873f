//! Zones round shared variables, and whose they are.

use evo_protocol::verdict::VerdictKind;

use super::*;
use crate::device::SampleOrder;

/// The message of the error that a kernel `k(int* out, int n)` of one block gets for what it does to shared memory.
fn damage(body: &str, n: i32) -> Option<String> {
    let text = format!("__global__ void k(int* out, int n) {{\n{body}\n}}");
    let mut bench = Bench::new(&text, "k");
    let out = bench.buffer("out", &[0i32; 64]);
    let error = bench.run(1, 32, 100, vec![buffer(out), int(n)]).err()?;
    assert_eq!((error.kind, error.cause.as_deref()), (VerdictKind::OobWrite, Some("shared")));
    assert!(!error.sticky);
    let bound = bench.bound(1, 32, 100, vec![buffer(out), int(n)]);
    let mode = evo_protocol::measurement::TimingMode::Hot;
    let rotation = &[vec![bound]];
    let order = SampleOrder { rotation, mode, samples: 1, batch: 1, untouched: false };
    bench.device.sample(bench.module, order).unwrap();
    Some(error.message)
}

const TWO: &str = "__shared__ float a[31], b[7]; __shared__ __align__(16) char c[5];
    if (threadIdx.x < 31) a[threadIdx.x] = 1;
    if (threadIdx.x < 7) b[threadIdx.x] = 2;
    if (threadIdx.x < 5) c[threadIdx.x] = 3;
    __syncthreads();
    out[threadIdx.x] = a[threadIdx.x % 31] + b[threadIdx.x % 7] + c[threadIdx.x % 5];";

#[test]
fn a_write_beside_a_static_variable_is_found() {
    assert_eq!(damage(TWO, 0), None);
    let check = |write: &str, n: i32, expected: &str| {
        let message = damage(&format!("{TWO} if (threadIdx.x == 3) {write} = 4;"), n);
        assert_eq!(message.as_deref(), Some(expected), "{write}");
    };
    let place = "in shared memory";
    check(
        "a[n]",
        31,
        &format!("`k`: block 0,0,0 writes directly behind the end of `a` {place} (124 bytes long)"),
    );
    check(
        "a[n]",
        -1,
        &format!("`k`: block 0,0,0 writes 4 bytes before the start of `a` {place} (124 bytes long)"),
    );
    check(
        "b[n]",
        9,
        &format!("`k`: block 0,0,0 writes 8 bytes behind the end of `b` {place} (28 bytes long)"),
    );
    check(
        "c[n]",
        5,
        &format!("`k`: block 0,0,0 writes directly behind the end of `c` {place} (5 bytes long)"),
    );
}

#[test]
fn a_write_beside_dynamic_shared_memory_is_found() {
    let check = |n: i32, expected: Option<&str>| {
        let message = damage(
            "extern __shared__ int s[]; s[n + (int)(threadIdx.x % 2)] = 1; out[n < 0 ? 0 : n] = s[0];",
            n,
        );
        let expected = expected.map(|place| {
            format!(
                "`k`: block 0,0,0 writes {place} `dynamic shared memory` in shared memory (100 bytes long)"
            )
        });
        assert_eq!(message, expected);
    };
    check(23, None);
    check(24, Some("directly behind the end of"));
    check(-2, Some("8 bytes before the start of"));
}

#[test]
fn declarations_of_many_kinds_keep_their_meaning() {
    let text = r#"
    struct Pair { int a; float b; __device__ int sum() const { return a + (int)b; } };
    namespace ns { template <class Real, int COUNT> struct Box { Real values[COUNT]; }; }
    template <class Real, int COUNT> __device__ Real fold(const int* x, int t) {
        __shared__ Real part[COUNT]; __shared__ volatile int flag;
        static __shared__ __align__(32) Real wide[COUNT][2];
        if (t < COUNT) { part[t] = (Real)x[t]; wide[t][0] = part[t]; wide[t][1] = 1; }
        if (t == 0) flag = 5;
        __syncthreads();
        Real sum = 0;
        for (int i = 0; i < COUNT; i++) sum += wide[i][0] * wide[i][1];
        auto twice = [&](Real value) { return value + part[0] * 0 + value; };
        return twice(sum) + flag + (Real)(((size_t)&wide[0][0]) % 32);
    }
    template <int B> __global__ void k(const int* x, int* out) {
        constexpr int M = 2 * B;
        __shared__ Pair pairs[M]; __shared__ ns::Box<ns::Box<int, 2>, (B > 2 ? 3 : 1)> boxes[2], *target;
        alignas(16) __shared__ half2 halves[4];
        __shared__ float4 quad[M]
            , other; // a comment, with a comma
        int t = threadIdx.x;
        if (t < M) { pairs[t].a = t; pairs[t].b = 1.5f * t; quad[t] = make_float4(t, 0, 0, 0); }
        if (t == 0) { target = &boxes[1]; other = make_float4(1, 2, 3, 4); halves[3] = __floats2half2_rn(1, 2); }
        __syncthreads();
        if (t < 2) target->values[t].values[t] = t + 1;
        __syncthreads();
        out[t] = pairs[t % M].sum() + (int)quad[t % M].x + boxes[1].values[1].values[1] + (int)__high2float(halves[3])
            + (int)other.w + fold<float, 8>(x, t) + fold<double, 16>(x, t);
    }
    "#;
    let mut bench = Bench::new(text, "k<4>");
    let (x, out) = (bench.buffer("x", &[1i32; 16]), bench.buffer("out", &[0i32; 32]));
    bench.run(2, 32, 0, vec![buffer(x), buffer(out)]).unwrap();
    let expected: Vec<i32> =
        (0..32).map(|t| t % 8).map(|t| t + t * 3 / 2 + t + 2 + 2 + 4 + 16 + 5 + 32 + 5).collect();
    assert_eq!(bench.values::<i32>(out), expected);
}

#[test]
fn static_shared_memory_is_counted_per_entry() {
    let text = r#"
    __device__ float shared_by_all(int t) { __shared__ float c[100]; c[t % 100] = t; __syncthreads(); return c[t % 100]; }
    extern "C" __global__ void a(float* out) {
        __shared__ float tile[7500]; tile[threadIdx.x] = 1; __syncthreads(); out[threadIdx.x] = tile[threadIdx.x ^ 1] + shared_by_all(threadIdx.x);
    }
    template <int COUNT> __global__ void b(float* out) {
        __shared__ float tile[COUNT]; tile[threadIdx.x] = 2; __syncthreads(); out[threadIdx.x] = tile[threadIdx.x ^ 1] + shared_by_all(threadIdx.x);
    }
    namespace ns { __global__ void c(float* out) { __shared__ float tile[6000]; tile[threadIdx.x] = 3; __syncthreads(); out[threadIdx.x] = tile[threadIdx.x ^ 1]; } }
    "#;
    let entries = ["a", "b<64>", "b<7600>", "ns::c"];
    let names = entries.map(String::from);
    let mut device = HostDevice::with_threads(1).unwrap();
    let module = device.load(&compile(text, &entries), &names).unwrap();
    let mut bench = Bench { device, module, entry: String::new() };
    let out = bench.buffer("out", &[0f32; 32]);
    for (entry, bytes, value) in
        [("a", 30_400, 1.0), ("b<64>", 30_800, 2.0), ("b<7600>", 30_800, 2.0), ("ns::c", 24_400, 3.0)]
    {
        bench.entry = entry.to_string();
        let bound = bench.bound(1, 32, 0, vec![buffer(out)]);
        assert_eq!(
            bench.device.attributes(bench.module, &bound).unwrap().shared_static_bytes,
            bytes,
            "{entry}"
        );
        bench.device.launch(bench.module, &[bound]).unwrap();
        assert_eq!(bench.values::<f32>(out)[0], value);
    }
}
