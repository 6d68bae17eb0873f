//! Which units machine code uses: kernels that hold one instruction each, compiled for each target.

use evo::compile::instructions::instruction_use;

use crate::compile::{Bench, source};
use crate::toolchain;

const MMA: &str = "unsigned a, b; asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 \
    {%0,%1},{%2,%3},{%4},{%5,%6};\" : \"=r\"(a), \"=r\"(b) : \"r\"(x[0]), \"r\"(x[1]), \"r\"(x[2]), \"r\"(x[3]), \
    \"r\"(x[4])); x[threadIdx.x] = a ^ b;";
const COPY: &str = "__shared__ unsigned s[64]; unsigned at = __cvta_generic_to_shared(s + threadIdx.x); \
    asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4; cp.async.wait_all;\" :: \"r\"(at), \"l\"(x)); \
    __syncthreads(); x[threadIdx.x] = s[threadIdx.x ^ 1];";
const BULK: &str = "__shared__ __align__(128) unsigned s[64]; __shared__ unsigned long long b; \
    unsigned at = __cvta_generic_to_shared(s), bar = __cvta_generic_to_shared(&b); \
    asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1; \
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 128, [%0];\" \
    :: \"r\"(bar), \"r\"(at), \"l\"(x)); x[threadIdx.x] = s[threadIdx.x ^ 1];";
const WGMMA: &str = "float d[4] = {}; unsigned long long a = x[0]; asm volatile(\"{ .reg .pred p; setp.ne.b32 p, 1, 0; \
    wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %4, p, 1, 1, 0, 0; \
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }\" : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \
    \"+f\"(d[3]) : \"l\"(a)); x[threadIdx.x] = d[0] + d[1] + d[2] + d[3];";

fn check(arch: &str, body: &str, expected: (&str, &str)) {
    let text = format!("#include <cuda_fp16.h>\nextern \"C\" __global__ void k(unsigned* x) {{ {body} }}");
    let bench = Bench::cuda(arch).unwrap();
    let binary = bench.binary(source(&format!("{arch} {body}"), &text, "k"));
    let used = instruction_use(arch, &std::fs::read(&binary.path).unwrap()).expect("it can be read");
    assert_eq!((used.arithmetic.as_str(), used.loads.as_str()), expected, "{arch}: {body}");
}

#[test]
fn each_unit_is_seen_in_the_machine_code() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    for arch in ["sm_75", "sm_80", "sm_90a"] {
        check(arch, "x[threadIdx.x] = threadIdx.x;", ("none", "none"));
        check(arch, "x[threadIdx.x] = x[threadIdx.x + 32] ^ threadIdx.x;", ("none", "ld"));
        check(arch, "float* y = (float*)x; y[threadIdx.x] = y[1] * y[2] + y[3];", ("fma", "ld"));
        check(arch, "__half2* y = (__half2*)x; y[threadIdx.x] = __hfma2(y[1], y[2], y[3]);", ("fma", "ld"));
        check(arch, MMA, ("mma", "ld"));
    }
    for arch in ["sm_80", "sm_90a"] {
        check(arch, COPY, ("none", "cp.async"));
    }
    check("sm_90a", BULK, ("none", "tma"));
    check("sm_90a", WGMMA, ("wgmma", "ld"));
}

#[test]
fn what_is_not_known_is_not_guessed() {
    assert_eq!(instruction_use("sm_120", b"\x7fELF"), None, "an architecture of which nothing was read off");
    assert_eq!(instruction_use("sm_90a", b"no object file"), None);
    assert_eq!(instruction_use("host", b""), None);
}
