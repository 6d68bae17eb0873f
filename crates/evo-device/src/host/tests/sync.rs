//! Barriers and warp operations: what they compute, and how those that cannot end are named.

use evo_protocol::verdict::VerdictKind;

use super::*;

/// Runs a kernel `k(int* out)` on one block and gives the error's message without the block's number.
fn stuck(text: &str, threads: u32) -> String {
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 1024]);
    let error = bench.run(1, threads, 0, vec![buffer(out)]).unwrap_err();
    assert_eq!(error.kind, VerdictKind::DivergentBarrier);
    // The device lives on: a kernel that behaves runs afterwards.
    let good = "__global__ void k(int* out) { __syncthreads(); out[threadIdx.x] = 1; }";
    bench.module = bench.device.load(&compile(good, &["k"]), &["k".to_string()]).unwrap();
    bench.run(3, threads, 0, vec![buffer(out)]).unwrap();
    error.message
}

#[test]
fn threads_at_different_barriers_are_named_with_their_lines() {
    let text = "__global__ void k(int* out) {\n  if (threadIdx.x < 64)\n    __syncthreads();\n  else\n    __syncthreads();\n}";
    assert_eq!(
        stuck(text, 256),
        "`k`: threads 0-63 wait at line 3 (`__syncthreads`), threads 64-255 wait at line 5 (`__syncthreads`) (block 0,0,0)"
    );
}

#[test]
fn threads_that_left_do_not_keep_others_at_a_barrier() {
    let text = r#"__global__ void k(int* out, int n) {
        __shared__ int sum;
        if (threadIdx.x == 0) sum = 0;
        __syncthreads();
        if (threadIdx.x >= n) return;
        atomicAdd(&sum, 1);
        __syncthreads();
        int all = __syncthreads_and(1), count = __syncthreads_count(threadIdx.x % 2);
        out[threadIdx.x] = sum + 1000 * all + 10000 * count;
    }"#;
    for threads in [1, 37, 128, 255] {
        let mut bench = Bench::new(text, "k");
        let out = bench.buffer("out", &[0i32; 256]);
        bench.run(1, 256, 0, vec![buffer(out), int(threads)]).unwrap();
        let mut expected = vec![0; 256];
        expected[..threads as usize].fill(threads + 1000 + 10_000 * (threads / 2));
        assert_eq!(bench.values::<i32>(out), expected);
        let notes = bench.device.notes();
        assert_eq!(notes, ["`k`: threads returned before a barrier that others waited at (line 7)"]);
        assert!(bench.device.notes().is_empty());
        bench.run(1, 256, 0, vec![buffer(out), int(256)]).unwrap();
        assert!(bench.device.notes().is_empty());
    }
}

#[test]
fn threads_at_different_barriers_diverge_also_when_others_left() {
    let text = "__global__ void k(int* out) {\n  if (threadIdx.x > 99) return;\n  if (threadIdx.x < 32) __syncthreads();\n  else\n    __syncthreads();\n}";
    assert_eq!(
        stuck(text, 128),
        "`k`: threads 0-31 wait at line 3 (`__syncthreads`), threads 32-99 wait at line 5 (`__syncthreads`), threads 100-127 have returned (block 0,0,0)"
    );
}

#[test]
fn lanes_missing_from_a_warp_operation_are_named() {
    let text = "__global__ void k(int* out) {\n  if (threadIdx.x % 32 < 4)\n    out[0] = __shfl_down_sync(0xffffffff, 1, 1);\n}";
    assert_eq!(
        stuck(text, 32),
        "`k`: threads 0-3 wait at line 3 (`__shfl_down_sync`, mask 0xffffffff), threads 4-31 have returned (block 0,0,0)"
    );
    let text = "__global__ void k(int* out) {\n  if (threadIdx.x < 2) __syncwarp(1);\n}";
    assert_eq!(
        stuck(text, 2),
        "`k`: thread 1 waits at line 2 (`__syncwarp`, mask 0x00000001), thread 0 has returned (block 0,0,0)"
    );
}

#[test]
fn early_exit_without_later_barriers_is_fine() {
    let text =
        "__global__ void k(int* out) { __syncthreads(); if (threadIdx.x & 1) return; out[threadIdx.x] = 1; }";
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 1024]);
    bench.run(1, 1000, 0, vec![buffer(out)]).unwrap();
    assert_eq!(bench.values::<i32>(out).iter().sum::<i32>(), 500);
}

#[test]
fn counting_barriers_count() {
    let text = r#"__global__ void k(int* out) {
        int t = threadIdx.x;
        int count = __syncthreads_count(t % 3 == 0), all = __syncthreads_and(t < 100), any = __syncthreads_or(t == 99);
        int none = __syncthreads_or(0), every = __syncthreads_and(5);
        out[t] = count * 10000 + all * 1000 + any * 100 + none * 10 + every;
    }"#;
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 100]);
    bench.run(1, 100, 0, vec![buffer(out)]).unwrap();
    assert_eq!(bench.values::<i32>(out), [34 * 10_000 + 1101; 100]);
}

#[test]
fn many_barriers_in_a_loop_keep_threads_in_step() {
    let text = r#"__global__ void k(int* out) {
        __shared__ int ring[1024];
        int n = blockDim.x, t = threadIdx.x;
        ring[t] = t;
        for (int i = 0; i < 100; i++) {
            __syncthreads();
            int next = ring[(t + 1) % n];
            __syncthreads();
            ring[t] = next;
        }
        out[t] = ring[t];
    }"#;
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 1024]);
    bench.run(3, 1024, 0, vec![buffer(out)]).unwrap();
    let expected: Vec<i32> = (0..1024).map(|t| (t + 100) % 1024).collect();
    assert_eq!(bench.values::<i32>(out), expected);
}

#[test]
fn warp_operations_compute_over_their_mask() {
    let text = r#"__global__ void k(long long* out) {
        int t = threadIdx.x, lane = t & 31;
        long long v = 0;
        v += __ballot_sync(0xffffffffu, lane % 2) == 0xaaaaaaaau;
        v += (__any_sync(~0u, lane == 31) && !__any_sync(~0u, 0) && __all_sync(~0u, 1)) << 1;
        v += (__reduce_add_sync(~0u, lane) == 496) << 2;
        v += (__reduce_min_sync(~0u, -lane) == -31 && __reduce_max_sync(~0u, (unsigned)-lane) == 0xffffffffu) << 3;
        v += (__match_any_sync(~0u, lane / 16) == (lane < 16 ? 0xffffu : 0xffff0000u)) << 4;
        v += (__shfl_sync(~0u, 1.5 * lane, 7) == 10.5) << 5;
        v += (__shfl_up_sync(~0u, (long long)lane << 40, 1) == (long long)(lane ? lane - 1 : 0) << 40) << 6;
        v += ((float)__shfl_xor_sync(~0u, __float2half((float)lane), 1) == (float)(lane ^ 1)) << 7;
        v += (__shfl_down_sync(~0u, (unsigned char)lane, 4, 8) == (lane % 8 < 4 ? lane + 4 : lane)) << 8;
        if (lane < 8) v += (__reduce_add_sync(0xffu, 1) == 8 && __activemask() == 0xffu) << 9;
        else v += (__reduce_or_sync(0xffffff00u, 1u << lane) == 0xffffff00u) << 9;
        __syncwarp();
        half2 pair = __shfl_xor_sync(~0u, __floats2half2_rn(lane, -lane), 2);
        v += (__low2float(pair) == (lane ^ 2) && __high2float(pair) == -(lane ^ 2)) << 10;
        out[t] = v;
    }"#;
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i64; 96]);
    bench.run(1, 96, 0, vec![buffer(out)]).unwrap();
    assert_eq!(bench.values::<i64>(out), [0x7ff; 96]);
}

#[test]
fn a_waiting_thread_that_sleeps_lets_others_run() {
    let text = r#"__global__ void k(int* out) {
        volatile int* flag = out;
        if (threadIdx.x == 0) { while (*flag == 0) __nanosleep(100); out[1] = 5; }
        else if (threadIdx.x == 200) *flag = 1;
    }"#;
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 2]);
    bench.run(1, 256, 0, vec![buffer(out)]).unwrap();
    assert_eq!(bench.values::<i32>(out), [1, 5]);
}

#[test]
fn traps_and_assertions_name_line_and_thread() {
    let check = |body: &str, kind: VerdictKind, message: &str| {
        let mut bench = Bench::new(&format!("__global__ void k(int* out) {{\n{body}\n}}"), "k");
        let out = bench.buffer("out", &[0i32; 64]);
        let error = bench.run(2, 64, 0, vec![buffer(out)]).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
        assert!(!error.sticky);
    };
    check(
        "if (threadIdx.x == 33 && blockIdx.x == 1) __trap();",
        VerdictKind::CrashTrap,
        "`k`: trap at line 2, thread 33,0,0 of block 1,0,0",
    );
    check(
        // The last thread to come to a barrier goes on first, so it is the one that fails.
        "__syncthreads(); if (blockIdx.x == 0) assert(threadIdx.x < 5);",
        VerdictKind::CrashAssert,
        "`k`: assertion `threadIdx.x < 5` fails at line 2, thread 63,0,0 of block 0,0,0",
    );
}

#[test]
fn a_cooperative_launch_may_spin_between_its_blocks() {
    let text = r#"__global__ void k(int* out) {
        if (threadIdx.x == 0) {
            atomicAdd(&out[0], 1);
            while (atomicAdd(&out[0], 0) < (int)gridDim.x) {}
        }
        __syncthreads();
        if (threadIdx.x == 1) atomicAdd(&out[1], 1);
    }"#;
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 2]);
    let mut bound = bench.bound(2, 32, 0, vec![buffer(out)]);
    bound.cooperative = true;
    bench.device.launch(bench.module, &[bound]).unwrap();
    assert_eq!(bench.values::<i32>(out), [2, 2]);
}
