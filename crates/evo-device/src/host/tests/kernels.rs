//! Modules: what loading and launching refuse, what samples count, and what shared memory is counted.

use evo_protocol::verdict::VerdictKind;
use evo_space::genome::ContentHash;

use super::*;

const ADD: &str = r#"
extern "C" __global__ void __launch_bounds__(256) add(const float* __restrict__ a, const float* b, float* c, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
}
"#;

#[test]
fn a_module_echoes_its_source_and_its_samples_are_times_of_one_call() {
    let mut bench = Bench::new(ADD, "add");
    let hash = ContentHash::of(ADD.as_bytes()).to_string();
    assert_eq!(bench.device.echo(bench.module).unwrap(), Some(hash));
    let x = bench.buffer("a", &vec![1f32; 1000]);
    let bound = bench.bound(4, 32, 0, vec![buffer(x), buffer(x), buffer(x), int(1000)]);
    for mode in [TimingMode::Hot, TimingMode::Cold, TimingMode::Eager] {
        let times = bench.sample(&bound, mode, 3, 4);
        assert_eq!(times.len(), 3);
        assert!(times.iter().all(|time| *time > 0.0));
    }
    assert_eq!(bench.device.check_guards().unwrap(), []);
}

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
fn a_module_can_be_sampled_after_damage_to_shared_memory() {
    let text = "__global__ void k(int n) { extern __shared__ int s[]; s[n] = 1; }";
    let mut bench = Bench::new(text, "k");
    let error = bench.run(1, 32, 100, vec![int(25)]).unwrap_err();
    assert_eq!((error.kind, error.cause.as_deref()), (VerdictKind::OobWrite, Some("shared")));
    let bound = bench.bound(1, 32, 100, vec![int(25)]);
    assert_eq!(bench.sample(&bound, TimingMode::Hot, 1, 1).len(), 1);
}
