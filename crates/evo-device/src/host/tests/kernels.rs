//! Whole kernels: addition, transposition, reduction, dynamic memory, atomics, and what loading refuses.

use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;
use evo_space::genome::ContentHash;

use super::*;
use crate::device::SampleOrder;

const ADD: &str = r#"
extern "C" __global__ void __launch_bounds__(256) add(const float* __restrict__ a, const float* b, float* c, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
}
"#;

#[test]
fn vectors_are_added_by_many_blocks() {
    let mut bench = Bench::new(ADD, "add");
    let a: Vec<f32> = (0..10_000).map(|i| i as f32).collect();
    let (x, y) = (bench.buffer("a", &a), bench.buffer("b", &a));
    let z = bench.buffer("c", &vec![0f32; a.len()]);
    bench.run(7, 256, 0, vec![buffer(x), buffer(y), buffer(z), int(10_000)]).unwrap();
    let expected: Vec<f32> = a.iter().map(|value| 2.0 * value).collect();
    assert_eq!(bench.values::<f32>(z), expected);
    assert_eq!(bench.device.check_guards().unwrap(), []);
    let hash = ContentHash::of(ADD.as_bytes()).to_string();
    assert_eq!(bench.device.echo(bench.module).unwrap(), Some(hash));
}

#[test]
fn samples_are_times_of_one_call() {
    let mut bench = Bench::new(ADD, "add");
    let x = bench.buffer("a", &vec![1f32; 1000]);
    let bound = bench.bound(4, 32, 0, vec![buffer(x), buffer(x), buffer(x), int(1000)]);
    for mode in [TimingMode::Hot, TimingMode::Cold, TimingMode::Eager] {
        let rotation = &[vec![bound.clone()]];
        let order = SampleOrder { rotation, mode, samples: 3, batch: 4, untouched: false };
        let times = bench.device.sample(bench.module, order).unwrap();
        assert_eq!(times.len(), 3);
        assert!(times.iter().all(|time| *time > 0.0));
    }
}

#[test]
fn every_call_is_whole_whether_threads_were_awake_or_not() {
    let text = "__global__ void k(int* out) { if (threadIdx.x == 0) atomicAdd(out, 1); }";
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 1]);
    let (several, one) = (bench.bound(7, 32, 0, vec![buffer(out)]), bench.bound(1, 32, 0, vec![buffer(out)]));
    let mut blocks = 0;
    for turn in 0..60 {
        let mode = [TimingMode::Hot, TimingMode::Cold, TimingMode::Eager][turn % 3];
        let batch = if mode == TimingMode::Hot { 2 } else { 1 };
        for (bound, own) in [(&several, 7), (&one, 1)] {
            let rotation = &[vec![bound.clone()]];
            let order = SampleOrder { rotation, mode, samples: 2, batch, untouched: false };
            bench.device.sample(bench.module, order).unwrap();
            bench.device.launch(bench.module, std::slice::from_ref(bound)).unwrap();
            blocks += own * (2 * batch as i32 + 1);
        }
        if turn % 4 == 0 {
            // Longer than any thread looks for work before it sleeps.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    assert_eq!(bench.values::<i32>(out), [blocks]);
}

#[test]
fn arguments_and_bounds_are_compared_with_the_signature() {
    let mut bench = Bench::new(ADD, "add");
    let x = bench.buffer("a", &[1f32; 16]);
    let mut check = |block: u32, arguments: Vec<BoundArgument>, cause: &str, message: &str| {
        let error = bench.run(1, block, 0, arguments).unwrap_err();
        assert_eq!((error.kind, error.cause.as_deref()), (VerdictKind::LaunchFail, Some(cause)));
        assert!(error.message.contains(message), "{}", error.message);
    };
    let full = vec![buffer(x), buffer(x), buffer(x), int(16)];
    check(32, full[..3].to_vec(), "arguments", "takes 4 arguments, the launch gives 3");
    check(32, vec![int(1), buffer(x), buffer(x), int(16)], "arguments", "argument 1 of `add` is a pointer");
    check(32, vec![buffer(x); 4], "arguments", "argument 4 of `add` is not a pointer");
    let long = BoundArgument::Scalar(vec![0; 8]);
    check(32, vec![buffer(x), buffer(x), buffer(x), long], "arguments", "a number of 4 bytes");
    check(512, full, "threads", "launch bounds allow 256");
}

#[test]
fn an_unknown_entry_and_a_broken_file_do_not_load() {
    let mut device = HostDevice::with_threads(1).unwrap();
    let binary = compile(ADD, &["add"]);
    let error = device.load(&binary, &["sub".to_string()]).unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (VerdictKind::LoadError, "the module has no entry point `sub`")
    );
    let error = device.load(b"nonsense", &[]).unwrap_err();
    assert_eq!(error.kind, VerdictKind::LoadError);
    assert!(error.message.starts_with("the module: "), "{}", error.message);
}

#[test]
fn modules_are_told_apart_after_others_were_unloaded() {
    let mut device = HostDevice::with_threads(1).unwrap();
    // Descriptors are used again after unloading, which is how two modules could get one name.
    for value in [3, 5, 8] {
        let text = format!("__global__ void k(int* x) {{ __shared__ int s; s = {value}; *x = s; }}");
        let module = device.load(&compile(&text, &["k"]), &["k".to_string()]).unwrap();
        let mut bench = Bench { device, module, entry: "k".to_string() };
        let x = bench.buffer("x", &[0i32]);
        bench.run(1, 1, 0, vec![buffer(x)]).unwrap();
        assert_eq!(bench.values::<i32>(x), [value]);
        bench.device.unload(module).unwrap();
        device = bench.device;
    }
}

#[test]
fn a_tiled_transpose_uses_static_shared_memory() {
    let text = r#"
    template <int TILE> __device__ void move(const float* x, float* y, int rows, int columns) {
        __shared__ float tile[TILE][TILE + 1];
        int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
        if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
        __syncthreads();
        int out_row = blockIdx.x * TILE + threadIdx.y, out_column = blockIdx.y * TILE + threadIdx.x;
        if (out_row < columns && out_column < rows) y[out_row * rows + out_column] = tile[threadIdx.x][threadIdx.y];
    }
    __global__ void transpose(const float* x, float* y, int rows, int columns) { move<16>(x, y, rows, columns); }
    "#;
    let mut bench = Bench::new(text, "transpose");
    // Neither is a multiple of the tile, so that the tiles at the edges are cut.
    let (rows, columns) = (37, 50);
    let x: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    let (from, to) = (bench.buffer("x", &x), bench.buffer("y", &vec![-1f32; x.len()]));
    let mut bound = bench.bound(4, 16, 0, vec![buffer(from), buffer(to), int(rows), int(columns)]);
    (bound.grid, bound.block) = ([4, 3, 1], [16, 16, 1]);
    bench.device.launch(bench.module, std::slice::from_ref(&bound)).unwrap();
    let y = bench.values::<f32>(to);
    for (at, value) in y.iter().enumerate() {
        let (row, column) = (at as i32 / rows, at as i32 % rows);
        assert_eq!(*value, x[(column * columns + row) as usize]);
    }
    assert_eq!(bench.device.attributes(bench.module, &bound).unwrap().shared_static_bytes, 16 * 17 * 4);
}

#[test]
fn a_block_reduction_by_shuffles_and_atomics_sums() {
    let text = r#"
    __device__ __forceinline__ float warp_sum(float v) {
        #pragma unroll
        for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
        return v;
    }
    __global__ void sum(const float* x, float* out, int n) {
        __shared__ float part[32];
        float s = 0;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
        s = warp_sum(s);
        int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        if (lane == 0) part[warp] = s;
        __syncthreads();
        if (warp == 0) {
            s = lane < blockDim.x / 32 ? part[lane] : 0.0f;
            s = warp_sum(s);
            if (lane == 0) atomicAdd(out, s);
        }
    }
    "#;
    let mut bench = Bench::new(text, "sum");
    let x: Vec<f32> = (0..5000).map(|i| (i % 7) as f32).collect();
    let (input, output) = (bench.buffer("x", &x), bench.buffer("out", &[0f32]));
    bench.run(9, 256, 0, vec![buffer(input), buffer(output), int(5000)]).unwrap();
    assert_eq!(bench.values::<f32>(output), [x.iter().sum::<f32>()]);
}

#[test]
fn dynamic_shared_memory_arrives_poisoned_and_ends_where_it_was_asked_to() {
    let text = r#"
    extern __shared__ __align__(16) unsigned words[];
    __global__ void k(unsigned* out, int n) {
        extern __shared__ float again[];
        out[threadIdx.x] = words[threadIdx.x];
        __syncthreads();
        again[threadIdx.x] = (float)threadIdx.x;
        __syncthreads();
        out[n + threadIdx.x] = (unsigned)again[n - 1 - threadIdx.x];
    }
    "#;
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0u32; 128]);
    bench.run(2, 64, 256, vec![buffer(out), int(64)]).unwrap();
    let values = bench.values::<u32>(out);
    assert!(values[..64].iter().all(|word| *word == u32::MAX));
    assert!(values[64..].iter().enumerate().all(|(at, value)| *value == 63 - at as u32));
    let error = bench.run(1, 64, 228 * 1024, vec![buffer(out), int(64)]).unwrap_err();
    assert_eq!((error.kind, error.cause.as_deref()), (VerdictKind::LaunchFail, Some("smem")));
}

#[test]
fn static_shared_memory_is_poisoned_before_every_block() {
    let text = r#"
    __global__ void k(unsigned* out) {
        __shared__ unsigned word;
        if (threadIdx.x == 0) { out[blockIdx.x] = word; word = 7; }
    }
    "#;
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0u32; 8]);
    bench.run(8, 32, 0, vec![buffer(out)]).unwrap();
    assert_eq!(bench.values::<u32>(out), [u32::MAX; 8]);
}

#[test]
fn atomics_meet_across_blocks() {
    let text = r#"
    __global__ void k(int* add, unsigned* inc, int* max, unsigned long long* wide, double* real, int* cas) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        atomicAdd(add, 1);
        atomicInc(inc, 9);
        atomicMax(max, i);
        atomicAdd(wide, 1ull << 33);
        atomicAdd(real, 0.5);
        atomicCAS(&cas[i % 4], 0, i);
    }
    "#;
    let mut bench = Bench::new(text, "k");
    let add = bench.buffer("add", &[0i32]);
    let inc = bench.buffer("inc", &[0u32]);
    let max = bench.buffer("max", &[-1i32]);
    let (wide, real) = (bench.buffer("wide", &[0u64]), bench.buffer("real", &[0f64]));
    let cas = bench.buffer("cas", &[0i32; 4]);
    let arguments = [add, inc, max, wide, real, cas].map(buffer).to_vec();
    bench.run(50, 101, 0, arguments).unwrap();
    assert_eq!(bench.values::<i32>(add), [5050]);
    assert_eq!(bench.values::<u32>(inc), [0]);
    assert_eq!(bench.values::<i32>(max), [5049]);
    assert_eq!(bench.values::<u64>(wide), [5050 << 33]);
    assert_eq!(bench.values::<f64>(real), [2525.0]);
    for (at, value) in bench.values::<i32>(cas).into_iter().enumerate() {
        assert!(value != 0 && value % 4 == at as i32);
    }
}
