//! Faults end the process, so each runs in a process of its own: this test binary started again with the
//! case's name in the environment.

use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;

use evo_protocol::worker::{Frame, Response};

use super::*;

const CASE: &str = "EVO_HOST_FAULT_CASE";
const OUTPUT: &str = "EVO_HOST_FAULT_OUTPUT";

/// A kernel `k(const float* in, float* out, int n)` with 100 floats in each buffer.
const CASES: &[(&str, &str, &str)] = &[
    (
        "write",
        "if (threadIdx.x == 3) out[104 + blockIdx.x] = 1;",
        "oob_write: thread 3,0,0 of block 0,0,0 writes 16 bytes behind the end of `out` (400 bytes long)",
    ),
    (
        "read",
        "__syncthreads(); if (threadIdx.x == 0) out[0] = in[1000];",
        "oob_read: thread 0,0,0 of block 0,0,0 reads 3600 bytes behind the end of `in` (400 bytes long)",
    ),
    (
        // Two pages back, because the rest of the first page is mapped and only checked afterwards.
        "before",
        "out[0] = in[-2048 + (int)threadIdx.x];",
        "oob_read: thread 0,0,0 of block 0,0,0 reads 8192 bytes before the start of `in`",
    ),
    (
        "shared",
        "extern __shared__ float s[]; s[4 * threadIdx.x] = 1;",
        "oob_write:shared: thread 4,0,0 of block 0,0,0 writes directly behind the end of `dynamic shared memory` (64 bytes long)",
    ),
    (
        "protected",
        "if (threadIdx.x == 5) ((float*)in)[7] = 1;",
        "input_mutated: thread 5,0,0 of block 0,0,0 writes to input `in`, 28 bytes from its start",
    ),
    (
        "behind_protected",
        "((float*)in)[-1] = 1;",
        "oob_write: thread 0,0,0 of block 0,0,0 writes 4 bytes before the start of `in`",
    ),
    (
        "stack",
        "volatile char big[200000]; big[n] = 1; out[0] = big[n];",
        "crash_stack: thread 0,0,0 of block 0,0,0 overflows its stack",
    ),
    (
        "null",
        "*(volatile int*)0 = n;",
        "crash_illegal_address: thread 0,0,0 of block 0,0,0 uses an address outside all buffers",
    ),
    (
        "misaligned",
        "*(float4*)(out + 1) = *(const float4*)(in + 2);",
        "crash_misaligned: thread 0,0,0 of block 0,0,0 uses a misaligned address for a vector access",
    ),
    (
        "divide",
        "out[0] = 5 / (n - 100);",
        "crash_other:divide: thread 0,0,0 of block 0,0,0 divides an integer by zero",
    ),
];

fn run_case(case: &str, output: &str) {
    static REQUEST: AtomicU64 = AtomicU64::new(42);
    let (_, body, _) = CASES.iter().find(|(name, ..)| *name == case).unwrap();
    let text = format!("__global__ void k(const float* in, float* out, int n) {{ {body} }}");
    let mut bench = Bench::new(&text, "k");
    let (x, y) = (bench.buffer("in", &[1f32; 100]), bench.buffer("out", &[0f32; 100]));
    bench.device.protect(x, true).unwrap();
    let file = std::fs::File::create(output).unwrap();
    super::super::fault::install(&REQUEST, file.as_raw_fd()).unwrap();
    bench.run(1, 8, 64, vec![buffer(x), buffer(y), int(100)]).unwrap();
}

#[test]
fn faults_are_named_in_last_words() {
    if let (Ok(case), Ok(output)) = (std::env::var(CASE), std::env::var(OUTPUT)) {
        return run_case(&case, &output);
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "host::tests::faults::faults_are_named_in_last_words";
    for (case, _, expected) in CASES {
        let output = folder.path().join(case);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(CASE, case).env(OUTPUT, &output);
        let status = command.output().unwrap();
        assert_eq!(status.status.code(), Some(139), "{case}: {status:?}");
        let line = std::fs::read_to_string(&output).unwrap();
        let frame: Frame<Response> = serde_json::from_str(&line).unwrap();
        assert_eq!(frame.id, 42);
        let Response::Fault { error } = frame.body else { panic!("{case}: {line}") };
        let cause = error.cause.as_deref().map_or(String::new(), |cause| format!(":{cause}"));
        assert_eq!(format!("{}{cause}: {}", error.kind, error.message), *expected);
        assert!(error.sticky);
    }
}

#[test]
fn a_write_into_the_slack_is_found_afterwards() {
    let text = "__global__ void k(float* out, int n) { out[n] = 1; out[-1] = 2; }";
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0f32; 99]);
    bench.run(1, 1, 0, vec![buffer(out), int(99)]).unwrap();
    let damages = bench.device.check_guards().unwrap();
    let offsets: Vec<i64> = damages.iter().map(|damage| damage.offset).collect();
    assert_eq!(offsets, [-4, 396]);
    bench.device.arm_guards(0xffff_ffff).unwrap();
    assert_eq!(bench.device.check_guards().unwrap(), []);
}
