//! Beside what fixtures say of kernels: what loading and launching refuse, what samples count, what shared memory is
//! counted, and what watched launches tell.

use evo_protocol::verdict::VerdictKind;

use super::*;

const ADD: &str = r#"
extern "C" __global__ void __launch_bounds__(256) add(const float* __restrict__ a, const float* b, float* c, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
}
"#;

#[test]
fn every_call_is_whole_whether_threads_were_awake_or_not() {
    let text = "__global__ void k(int* out) { if (threadIdx.x == 0) atomicAdd(out, 1); }";
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 1]);
    let mut expected = 0;
    for turn in 0..60 {
        let mode = [TimingMode::Hot, TimingMode::Cold, TimingMode::Eager][turn % 3];
        let batch = if mode == TimingMode::Hot { 2 } else { 1 };
        for blocks in [7, 1] {
            bench.sample(&bench.bound(blocks, 32, 0, vec![buffer(out)]), mode, 2, batch);
            bench.run(blocks, 32, 0, vec![buffer(out)]).unwrap();
            expected += blocks as i32 * (2 * batch as i32 + 1);
        }
        if turn % 4 == 0 {
            // Longer than any thread looks for work before it sleeps.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    assert_eq!(bench.values::<i32>(out), [expected]);
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
fn static_shared_memory_is_counted_per_entry() {
    let text = r#"
    __device__ float shared_by_all(int t) { __shared__ float c[100]; c[t % 100] = t; __syncthreads(); return c[t % 100]; }
    extern "C" __global__ void a(float* out) {
        __shared__ float tile[7500]; tile[threadIdx.x] = 1; __syncthreads(); out[threadIdx.x] = tile[threadIdx.x ^ 1] + shared_by_all(threadIdx.x);
    }
    template <int COUNT> __global__ void b(float* out) {
        __shared__ float tile[COUNT]; tile[threadIdx.x] = 2; __syncthreads(); out[threadIdx.x] = tile[threadIdx.x ^ 1] + shared_by_all(threadIdx.x);
    }
    __global__ void unlisted(float* out) { __shared__ float tile[5000]; tile[threadIdx.x] = 4; __syncthreads(); out[threadIdx.x] = tile[threadIdx.x ^ 1]; }
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

#[test]
fn a_protected_buffer_can_be_read_by_kernels_and_changed_by_the_device() {
    let text = "__global__ void k(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x]; }";
    let mut bench = Bench::new(text, "k");
    let (input, output) = (bench.buffer("in", &[1i32; 8]), bench.buffer("out", &[0i32; 8]));
    bench.device.protect(input, true).unwrap();
    bench.device.fill(input, 9).unwrap();
    bench.device.write(input, &[7, 0, 0, 0]).unwrap();
    bench.device.arm_guards(3).unwrap();
    bench.run(1, 8, 0, vec![buffer(input), buffer(output)]).unwrap();
    assert_eq!(bench.values::<i32>(output), [7, 9, 9, 9, 9, 9, 9, 9]);
    bench.device.copy(output, input).unwrap();
    bench.device.protect(input, false).unwrap();
    bench.run(1, 8, 0, vec![buffer(output), buffer(input)]).unwrap();
    assert_eq!(bench.device.check_guards().unwrap(), []);
}

#[test]
fn the_memory_of_a_module_is_known_before_it_is_loaded() {
    let bytes = |declaration: &str| {
        let text = format!(
            "{declaration} extern \"C\" __global__ void k(float* y) {{ y[0] = table[threadIdx.x]; }}"
        );
        initializers::data_bytes(&compile(&text, &["k"]))
    };
    let small = bytes("__device__ float table[4];");
    assert!(small < 64 << 10, "{small}");
    for large in [
        "__device__ float table[1 << 18];",
        "__device__ float table[1 << 18] = {1, 2};",
        "__constant__ float table[1 << 18] = {1};",
    ] {
        assert!(
            bytes(large) >= (1 << 20) && bytes(large) < (1 << 20) + (64 << 10),
            "{large}: {}",
            bytes(large)
        );
    }
}

/// A counter that threads read and write without atomic operations loses counts only where they take turns in
/// between.
#[test]
fn threads_give_way_at_accesses() {
    let text = "__global__ void k(int* count) { volatile int* own = count; int old = *own; *own = old + 1; }";
    let mut bench = Bench::watched(text, "k");
    let mut counted = |order: u64| {
        let count = bench.buffer("count", &[0i32]);
        let bound = bench.bound(1, 128, 0, vec![buffer(count)]);
        let watch = watch(&[(count, WatchedContents::Given)], order);
        let report = bench.device.launch_watched(bench.module, &[bound], &watch).unwrap().unwrap();
        assert!(report.accesses >= 256, "{report:?}");
        bench.values::<i32>(count)[0]
    };
    let (first, again, other) = (counted(7), counted(7), counted(8));
    assert!(first < 128 && other < 128, "{first} {other}");
    assert_eq!(first, again, "the same seed takes the same turns");
}

#[test]
fn a_module_without_instruments_is_not_watched() {
    let mut bench = Bench::new("__global__ void k(int* out) { out[0] = 1; }", "k");
    let out = bench.buffer("out", &[0i32]);
    let bound = bench.bound(1, 1, 0, vec![buffer(out)]);
    let watch = watch(&[(out, WatchedContents::Output)], 1);
    assert_eq!(bench.device.launch_watched(bench.module, &[bound], &watch), Ok(None));
}

#[test]
fn a_cluster_in_which_nobody_goes_on_gives_its_blocks_as_evidence() {
    let text = "#include <evo/ptx.cuh>
        __global__ void k() { if (evo::cluster_rank() == 1) evo::bar_sync(1, 96); evo::cluster_sync(); }";
    let mut bench = Bench::new(text, "k");
    let bound = BoundLaunch { cluster: Some([2, 1, 1]), ..bench.bound(2, 64, 0, vec![]) };
    let error = bench.device.launch(bench.module, &[bound]).unwrap_err();
    assert_eq!(error.evidence["cluster"][1]["block"], serde_json::json!([1, 0, 0]));
}
