//! Threads that wait for others by reading memory again and again.

use std::time::{Duration, Instant};

use super::*;
use crate::host::machine;

#[test]
fn a_block_of_threads_that_spin_on_global_memory_lets_the_last_warp_run() {
    let text = r#"__global__ void k(int* out) {
        volatile int* flag = out + 256 * blockIdx.x;
        if (threadIdx.x < 224) { while (*flag == 0) {} }
        else if (threadIdx.x == 255) atomicExch((int*)flag, 1);
        __syncthreads();
        if (threadIdx.x != 0) flag[threadIdx.x] = 2;
    }"#;
    let mut bench = Bench::new(text, "k");
    let out = bench.buffer("out", &[0i32; 512]);
    let began = Instant::now();
    bench.run(2, 256, 0, vec![buffer(out)]).unwrap();
    // 7 warps wait; were every one of their threads given a slice, it would take over 2 seconds.
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    assert_eq!(bench.values::<i32>(out).iter().filter(|value| **value == 2).count(), 510);
}

/// Long arithmetic in many registers, vectors and x87 numbers among them.
const ARITHMETIC: &str = r#"__global__ void k(double* out, int n) {
    double a[16];
    float b[32];
    unsigned h = threadIdx.x + 1;
    long double x = 1.0L + threadIdx.x;
    for (int i = 0; i < 16; i++) a[i] = 1.0 + i + threadIdx.x;
    for (int i = 0; i < 32; i++) b[i] = 0.5f * i + threadIdx.x;
    for (int k = 0; k < n; k++) {
        #pragma GCC unroll 16
        for (int i = 0; i < 16; i++) a[i] = a[i] * 0.999999 + 1e-3 * (i + 1);
        #pragma GCC unroll 32
        for (int i = 0; i < 32; i++) b[i] = b[i] * 0.9999f + 1e-2f * (i + 1);
        h = h * 1664525u + 1013904223u;
        x = x * 0.9999999999L + (h >> 16);
        if (h % 977 == 0) a[h % 16] += 1e-9;
    }
    double sum = h + (double)x;
    for (int i = 0; i < 16; i++) sum += a[i];
    for (int i = 0; i < 32; i++) sum += b[i];
    out[threadIdx.x] = sum;
}"#;

#[test]
fn interrupted_arithmetic_keeps_every_bit() {
    let binary = compile(ARITHMETIC, &["k"]);
    let run = |slice: Duration| {
        let device = HostDevice::described(machine::describe(), 1, slice).unwrap();
        let mut bench = Bench::on(device, &binary, "k");
        let out = bench.buffer("out", &[0f64; 8]);
        bench.run(1, 8, 0, vec![buffer(out), int(400_000)]).unwrap();
        (
            bench.values::<f64>(out).into_iter().map(f64::to_bits).collect::<Vec<_>>(),
            bench.device.interruptions(),
        )
    };
    let (whole, none) = run(Duration::from_secs(3600));
    assert_eq!(none, 0);
    let mut interruptions = 0;
    // On a busy machine the thread that interrupts may not have its turn during a whole run.
    for _ in 0..50 {
        let (sliced, some) = run(Duration::from_micros(200));
        assert_eq!(whole, sliced);
        interruptions += some;
        if interruptions > 20 {
            break;
        }
    }
    assert!(cfg!(not(target_arch = "x86_64")) || interruptions > 20, "{interruptions} interruptions");
}
