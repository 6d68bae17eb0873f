//! Conditions of runs beside the order of turns and what memory holds: places of buffers, protection, clocks.

use super::*;

#[test]
fn samples_are_taken_under_the_default_conditions() {
    let text = "__global__ void k(int* out) { __shared__ int s; if (threadIdx.x == 31) s = 4; if (threadIdx.x == 0) out[0] += 1; out[1] = (long long)out % 4096; }";
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 256]);
    let conditions =
        RunConditions { placement: Placement::Start, order: Some(1), residue: Some(5), clock: Some(7) };
    bench.device.set_conditions(conditions).unwrap();
    let bound = bench.bound(1, 32, 0, vec![buffer(out)]);
    bench.sample(&bound, TimingMode::Hot, 2, 3);
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
    bench.sample(&bound, TimingMode::Hot, 3, 4);
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
