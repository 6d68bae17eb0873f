//! Conditions of checked runs: what depends on the order of turns, on what memory holds before it is written, or on
//! where a buffer lies gives another output under one of a few conditions. What does not, does not.

use super::*;
use crate::device::SampleOrder;

/// Outputs of a kernel `k(int* out)` with 256 zeros under some conditions, on one processor thread.
fn outputs(text: &str, grid: u32, threads: u32, conditions: &[RunConditions]) -> Vec<Vec<i32>> {
    let mut bench = Bench::on(HostDevice::with_threads(1).unwrap(), text, "k");
    let out = bench.buffer("out", &[0i32; 256]);
    let run = |conditions: &RunConditions| {
        bench.device.set_conditions(*conditions).unwrap();
        bench.device.fill(out, 0).unwrap();
        bench.run(grid, threads, 256, vec![buffer(out)]).unwrap();
        bench.values::<i32>(out)
    };
    conditions.iter().map(run).collect()
}

/// Ascending order, and two pairs of opposite orders.
fn orders() -> Vec<RunConditions> {
    let order = |order| RunConditions { order, ..RunConditions::default() };
    [None, Some(2), Some(3), Some(10), Some(11)].map(order).to_vec()
}

fn residues() -> Vec<RunConditions> {
    let residue = |residue| RunConditions { residue, ..RunConditions::default() };
    [None, Some(0x7fff_ffff), Some(0x7e00_0000), Some(0xfe00_0000)].map(residue).to_vec()
}

fn differ(outputs: &[Vec<i32>]) -> bool {
    outputs.iter().any(|output| *output != outputs[0])
}

#[test]
fn missing_barriers_show_in_some_order_of_turns() {
    let cases = [
        (
            "__syncthreads between two warps",
            2,
            64,
            "__shared__ int s[64]; int t = threadIdx.x; s[t] = t + 1; if (t >= 32) out[t] = s[t - 32]; else if (t == 0) out[blockIdx.x] = 5;",
        ),
        (
            "__syncthreads before the next round",
            1,
            128,
            "__shared__ int s[128]; int t = threadIdx.x; s[t] = t; for (int i = 0; i < 3; i++) { __syncthreads(); int v = s[(t + 33) % 128]; s[t] = v + 1; } __syncthreads(); out[t] = s[t];",
        ),
        (
            "__syncwarp between lanes",
            1,
            32,
            "__shared__ int s[32]; int t = threadIdx.x; s[t] = t + 1; if (t > 0) out[t] = s[t - 1];",
        ),
        (
            "an earlier block's output",
            4,
            32,
            "int b = blockIdx.x; if (threadIdx.x == 0) out[b] = b == 0 ? 7 : out[b - 1] + 1;",
        ),
        (
            "the last thread's sum",
            1,
            96,
            "__shared__ int n; int t = threadIdx.x; if (t == 0) n = 0; __syncthreads(); int old = n; n = old + 1; if (t == 95) out[0] = n;",
        ),
    ];
    for (name, grid, threads, body) in cases {
        let text = format!("__global__ void k(int* out) {{ {body} }}");
        let results = outputs(&text, grid, threads, &orders());
        assert!(differ(&results), "{name}: all orders give {:?}", &results[0][..64]);
        assert_eq!(results, outputs(&text, grid, threads, &orders()), "{name}: a seed gives one output");
    }
}

#[test]
fn kernels_with_their_barriers_are_right_in_every_order() {
    let body = r#"
        __shared__ int s[256];
        int t = threadIdx.x, lane = t % 32, sum = 0;
        s[t] = t;
        for (int i = 0; i < 5; i++) {
            __syncthreads();
            int next = s[(t + 37) % blockDim.x];
            __syncthreads();
            s[t] = next;
            for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(~0u, next, o);
            if (lane < 11) sum += __popc(__activemask()) >= 1;
            __syncwarp();
        }
        if (t >= 200) return;
        __syncthreads();
        atomicAdd(&out[t], s[(t + 1) % blockDim.x] + sum);
    "#;
    let text = format!("__global__ void k(int* out) {{ {body} }}");
    assert!(!differ(&outputs(&text, 9, 256, &orders())));
    assert!(!differ(&outputs(&text, 9, 256, &residues())));
}

#[test]
fn what_is_read_before_it_is_written_depends_on_the_residue() {
    let cases = [
        ("shared memory that nobody writes", "__shared__ int s[64]; out[threadIdx.x] = s[threadIdx.x];"),
        (
            "static shared memory",
            "__shared__ int s[64]; if (threadIdx.x < 9) s[threadIdx.x] = 1; out[threadIdx.x] = s[threadIdx.x];",
        ),
        ("dynamic shared memory", "extern __shared__ int s[]; out[threadIdx.x] = s[threadIdx.x];"),
        (
            "a maximum over shared memory",
            "__shared__ float s[64]; s[threadIdx.x] = max(s[threadIdx.x], 3.0f); out[threadIdx.x] = s[threadIdx.x] > 100;",
        ),
        (
            "a local array",
            "volatile int a[40]; a[threadIdx.x % 7] = 1; out[threadIdx.x] = a[threadIdx.x % 40];",
        ),
        (
            "a deep local array",
            "volatile int a[3000]; a[threadIdx.x % 7] = 1; out[threadIdx.x] = a[100 * (threadIdx.x % 30)];",
        ),
        (
            "a local array behind a barrier",
            "volatile int a[40]; __syncthreads(); out[threadIdx.x] = a[threadIdx.x % 40];",
        ),
    ];
    for (name, body) in cases {
        let text = format!("__global__ void k(int* out) {{ {body} }}");
        let results = outputs(&text, 2, 64, &residues());
        assert!(differ(&results[1..]), "{name}: {:?}", &results[1][..64]);
        // Without a pattern a stack holds what other tests left there, addresses among it.
        let again = outputs(&text, 2, 64, &residues());
        assert_eq!(results[1..], again[1..], "{name}: a pattern gives one output");
    }
    let text =
        "__global__ void k(int* out) { extern __shared__ int s[]; out[threadIdx.x] = s[threadIdx.x]; }";
    assert_eq!(outputs(text, 1, 64, &residues())[2][..64], [0x7e00_0000; 64]);
}

#[test]
fn every_thread_of_a_residue_run_begins_on_the_pattern() {
    // All threads run one after another on the same fiber: each would find what the one before it left.
    let text = "__global__ void k(int* out) { volatile int a[200]; int n = 0; for (int i = 0; i < 200; i++) n += a[i] == 0x12345678; \
                for (int i = 0; i < 200; i++) a[i] = i; out[threadIdx.x] = n; }";
    let conditions = RunConditions { residue: Some(0x1234_5678), ..RunConditions::default() };
    let results = outputs(text, 1, 256, &[conditions]);
    assert!(results[0].iter().all(|count| *count >= 195), "{:?}", results[0]);
}

#[test]
fn samples_are_taken_under_the_default_conditions() {
    let text = "__global__ void k(int* out) { __shared__ int s; if (threadIdx.x == 31) s = 4; if (threadIdx.x == 0) out[0] += 1; out[1] = (long long)out % 4096; }";
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 256]);
    let conditions =
        RunConditions { placement: Placement::Start, order: Some(1), residue: Some(5), clock: Some(7) };
    bench.device.set_conditions(conditions).unwrap();
    let bound = bench.bound(1, 32, 0, vec![buffer(out)]);
    let mode = evo_protocol::measurement::TimingMode::Hot;
    let rotation = &[vec![bound.clone()]];
    let order = SampleOrder { rotation, mode, samples: 2, batch: 3, untouched: false };
    bench.device.sample(bench.module, order).unwrap();
    assert_eq!(bench.values::<i32>(out)[..2], [6, 4096 - 1024]);
    bench.device.launch(bench.module, &[bound]).unwrap();
    assert_eq!(bench.values::<i32>(out)[..2], [7, 0]);
}

#[test]
fn nothing_stays_in_shared_memory_from_block_to_block_or_call_to_call() {
    let text = "__global__ void k(int* out) { __shared__ int a; extern __shared__ int b[]; if (threadIdx.x == 0) { \
                if (((volatile int*)&a)[0] == 77) atomicAdd(out, 1); if (((volatile int*)b)[5] == 78) atomicAdd(out, 1); \
                ((volatile int*)&a)[0] = 77; ((volatile int*)b)[5] = 78; } }";
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 1]);
    let bound = bench.bound(50, 32, 64, vec![buffer(out)]);
    let mode = evo_protocol::measurement::TimingMode::Hot;
    let rotation = &[vec![bound]];
    let order = SampleOrder { rotation, mode, samples: 3, batch: 4, untouched: false };
    bench.device.sample(bench.module, order).unwrap();
    assert_eq!(bench.values::<i32>(out), [0]);
}

#[test]
fn a_buffer_placed_at_its_start_keeps_contents_and_finds_other_slack() {
    let text = "__global__ void k(float* out, int n) { out[n] = 1; out[0] += 2; }";
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[3f32; 100]);
    let start = RunConditions { placement: Placement::Start, ..RunConditions::default() };
    bench.device.set_conditions(start).unwrap();
    let later = bench.buffer("later", &[1f32; 5]);
    bench.run(1, 1, 0, vec![buffer(out), int(700)]).unwrap();
    let damages = bench.device.check_guards().unwrap();
    let offsets: Vec<(&str, i64)> =
        damages.iter().map(|damage| (damage.buffer.as_str(), damage.offset)).collect();
    assert_eq!(offsets, [("out", 2800)]);
    bench.device.set_conditions(RunConditions::default()).unwrap();
    assert_eq!(bench.values::<f32>(out)[..2], [5.0, 3.0]);
    assert_eq!(bench.values::<f32>(later), [1.0; 5]);
    assert_eq!(bench.device.check_guards().unwrap(), []);
}

#[test]
fn a_protected_buffer_can_be_read_by_kernels_and_changed_by_the_device() {
    let text = "__global__ void k(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x]; }";
    let mut bench = Bench::new(text, "k");
    let (input, output) = (bench.buffer("in", &[1i32; 8]), bench.buffer("out", &[0i32; 8]));
    assert!(bench.device.protect(input, true).unwrap());
    bench.device.fill(input, 9).unwrap();
    bench.device.write(input, &[7, 0, 0, 0]).unwrap();
    bench.device.arm_guards(3).unwrap();
    bench.run(1, 8, 0, vec![buffer(input), buffer(output)]).unwrap();
    assert_eq!(bench.values::<i32>(output), [7, 9, 9, 9, 9, 9, 9, 9]);
    bench.device.copy(output, input).unwrap();
    assert!(bench.device.protect(input, false).unwrap());
    bench.run(1, 8, 0, vec![buffer(output), buffer(input)]).unwrap();
    assert_eq!(bench.device.check_guards().unwrap(), []);
}

#[test]
fn clocks_start_where_a_run_says_and_waits_end() {
    // Readings of the last of three threads of a second block; a wait of a million ticks; the order of readings.
    let text = "__global__ void k(int* out) {
        long long first = clock64(), second = clock(); unsigned long long third = globaltimer();
        long long last = third; int back = 0;
        while (last - first < 1000000) { long long now = clock64(); back += now < last; last = now; }
        if (blockIdx.x == 1 && threadIdx.x == 2) {
            out[0] = (int)(first & 0xffff); out[1] = (int)(second - first); out[2] = (int)(third - second);
            out[3] = back; out[4] = (int)(first >> 16 & 0xffffff); } }";
    let clock = |clock| RunConditions { clock, ..RunConditions::default() };
    let out = outputs(text, 2, 3, &[clock(Some(0)), clock(Some((1 << 40) - 1)), clock(None)]);
    assert_eq!(out[0][..5], [0, 1, 1, 0, 0]);
    assert_eq!(out[1][..5], [0xffff, 1, 1, 0, 0xff_ffff]);
    // The machine's own clock, which began long before and may have ticked once between two readings.
    assert!(out[2][3] == 0 && out[2][1] >= 0 && out[2][4] != 0, "{:?}", &out[2][..5]);
}
