//! CUDA as people write it for nvcc: standard headers, the host half of a program in the same file, kernels without
//! `extern "C"`. Each source compiles unchanged.

use std::fs;
use std::path::Path;

use evo::compile::toolbox::Toolbox;
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::VerdictKind;

use crate::compile::{Bench, source};
use crate::python;
use crate::skip::skipped;
use crate::toolchain;

/// What sources for nvcc use of the standard library.
const STANDARD: &str = r#"
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <iostream>
#include <vector>

using namespace std;

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

template <typename T, int N>
__device__ T largest(const std::array<T, N>& values) {
    static_assert(std::is_floating_point_v<T> && std::is_same<T, float>::value, "single precision");
    T most = -std::numeric_limits<T>::infinity();
    for (int i = 0; i < N; ++i) most = std::max(most, values[i]);
    return most;
}

extern "C" __global__ void all(const float* in, float* out, std::uint32_t count, size_t stride) {
    const uint at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    assert(stride < UINT64_MAX);
    std::array<float, 3> own = {in[at], FLT_MAX, -INFINITY};
    auto both = std::make_tuple(int32_t(at), std::abs(in[at]));
    std::pair<int, float> sum = std::make_pair(0, 0.0f);
    for (int i = 0; i < ceil_div(100, 32); ++i) sum.second += sqrt(2) * pow(i, 2) + fabs(in[at]) + floor(i / 2);
    std::swap(own[0], own[1]);
    float local[ceil_div(9, 4)] = {};
    memset(local, 0, sizeof local);
    const bool odd = isnan(in[at]) || std::isinf(own[2]) || at == uint(INT_MAX);
    if (odd) printf("%d\n", std::get<0>(both));
    using Sum = std::conditional_t<(sizeof(float) > 2), std::plus<float>, std::minus<float>>;
    out[at * stride] = Sum()(largest<float, 3>(own), std::get<1>(both)) + min(sum.second, float(M_PI)) + local[0] + NAN;
}
"#;

/// What needs no libcu++.
const SIMPLE: &str = r#"
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <cuda_runtime.h>
extern "C" __global__ void simple(float* out, uint32_t count) {
    static_assert(INT64_MAX == LLONG_MAX && UINT8_MAX == 255 && SIZE_MAX == std::numeric_limits<uint64_t>::max(), "");
    constexpr float none = std::numeric_limits<float>::quiet_NaN(), most = INFINITY;
    const uint at = threadIdx.x;
    if (at < count) out[at] = std::fmax(none, std::sqrt(out[at])) + most + FLT_EPSILON + DBL_MIN + offsetof(float2, y);
}
"#;

#[test]
fn standard_headers_compile_as_with_nvcc() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    for arch in ["sm_80", "sm_90a"] {
        let binary = Bench::cuda(arch).binary(source("a", STANDARD, "all"));
        assert_eq!(binary.resources[0].entry, "all", "{arch}");
        let others: Vec<&str> = binary.log.lines().filter(|line| line.contains("evo_prelude")).collect();
        assert!(others.is_empty(), "{others:?}");
    }
    // Every header alone, so that none leans on another.
    let bench = Bench::cuda("sm_80");
    for name in
        STANDARD.lines().filter_map(|line| line.strip_prefix("#include ")).chain(["<complex>", "<bit>"])
    {
        let text =
            format!("#include {name}\nextern \"C\" __global__ void k(uint64_t* x) {{ x[0] = INT_MAX; }}");
        bench.binary(source("a", &text, "k"));
    }
}

#[test]
fn a_source_with_its_own_integers_keeps_them() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let text = "typedef unsigned long uint64_t;\ntypedef unsigned int uint;\n#define INFINITY 1.0f\n\
                extern \"C\" __global__ void k(uint64_t* x) { x[0] = uint(INFINITY); }";
    Bench::cuda("sm_80").binary(source("a", text, "k"));
}

#[test]
fn a_header_beside_an_option_is_meant_and_not_evos_own() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("helper_cuda.h"), "#define MINE 3\n").unwrap();
    let text = "#include <helper_cuda.h>\nextern \"C\" __global__ void k(int* x) { x[0] = MINE; }";
    let mut own = source("a", text, "k");
    own.options.push(format!("-I{}", folder.path().display()));
    Bench::cuda("sm_80").binary(own);
}

/// NVRTC without any headers: its libraries in a folder of their own.
fn bare_nvrtc(folder: &Path) -> Toolbox {
    let library = toolchain::nvrtc_dir();
    let library = match library.join("libnvrtc.so.13").exists() {
        true => library.to_path_buf(),
        false => library.join("nvidia/cu13/lib"),
    };
    for entry in fs::read_dir(library).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("libnvrtc") && !name.contains("static") {
            let to = folder.join(&name);
            fs::hard_link(entry.path(), &to).or_else(|_| fs::copy(entry.path(), &to).map(drop)).unwrap();
        }
    }
    Toolbox { nvrtc_dir: Some(folder.to_path_buf()), cuda_homes: Vec::new(), ..toolchain::toolbox() }
}

#[test]
fn a_machine_with_nothing_but_nvrtc_compiles_the_simple_headers_and_names_the_package_for_others() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let deep = folder.path().join("a/b/c");
    fs::create_dir_all(&deep).unwrap();
    let toolbox = bare_nvrtc(&deep);
    if ["/usr/local/cuda/include", "/usr/include"]
        .iter()
        .any(|own| Path::new(own).join("cuda_fp16.h").exists())
    {
        return skipped("it needs a machine without CUDA headers in the usual places");
    }
    let bench = Bench::new(DeviceKind::Cuda, "sm_80", toolbox);
    bench.binary(source("a", SIMPLE, "simple"));
    let text = "#include <tuple>\nextern \"C\" __global__ void k(int* x) { x[0] = 1; }";
    let verdict = bench.verdict(source("a", text, "k"));
    let said = format!("{} {:?}", verdict.message, verdict.evidence);
    assert!(said.contains("<tuple> on CUDA needs libcu++") && said.contains("nvidia-cuda-cccl"), "{said}");
}

/// A program as CUDA's samples are: kernels between helpers that allocate, time, launch and print.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <iostream>
#include <vector>
#include <chrono>
#include <cuda_runtime.h>
#include <helper_cuda.h>
#include "helper_functions.h"

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t status = (call);                                                     \
        if (status != cudaSuccess) {                                                     \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            exit(EXIT_FAILURE);                                                          \
        }                                                                                \
    } while (0)

typedef std::chrono::steady_clock Clock;
static std::vector<float> samples;
float *d_x = nullptr, *d_y = nullptr;

class Stopwatch {
public:
    Stopwatch() : begin(Clock::now()) {}
    double ms() const { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); }
private:
    Clock::time_point begin;
};

struct Factors { float a, b; };
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ inline float scaled(Factors f, float x) { return f.a * x + f.b; }
void launch(int n);

__global__ void warm(float* x) { x[threadIdx.x] = 0; }

__global__ void saxpy(float a, const float* x, float* y, int n) {
    __shared__ float tile[ceil_div(1000, 8)];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x % 125] = i < n ? x[i] : 0;
    if (i < n) y[i] = scaled({a, 0.0f}, x[i]) + y[i];
}

std::ostream& operator<<(std::ostream& out, const Factors& f) { return out << f.a << " " << f.b; }

void reference(float a, const std::vector<float>& x, std::vector<float>& y) {
    for (size_t i = 0; i < x.size(); ++i) y[i] = scaled({a, 0}, x[i]) + y[i];
}

void launch(int n) {
    warm<<<1, 32>>>(d_x);
    saxpy<<<ceil_div(n, 128), 128>>>(2.0f, d_x, d_y, n);
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 1 << 20;
    Stopwatch watch;
    CHECK(cudaMalloc(&d_x, n * sizeof(float)));
    launch(n);
    checkCudaErrors(cudaDeviceSynchronize());
    std::cout << Factors{1, 2} << watch.ms() << std::endl;
    return 0;
}
"#;

#[test]
fn kernels_compile_inside_of_the_programs_that_launch_them() {
    let host = Bench::host().binary(source("a", PROGRAM, "saxpy"));
    assert_eq!(host.resources[0].entry, "saxpy");
    if toolchain::lacks_nvrtc() {
        return;
    }
    for arch in ["sm_80", "sm_90a"] {
        let bench = Bench::cuda(arch);
        let binary = bench.binary(source("a", PROGRAM, "saxpy"));
        let names: Vec<&str> = binary.resources.iter().map(|own| own.entry.as_str()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.contains(&"saxpy") && names.contains(&"warm"), "{names:?}");
        // Another host half is the same code.
        let other = PROGRAM.replace("atoi(argv[1])", "atoi(argv[2])");
        assert!(bench.binary(source("a", &other, "saxpy")).cached);
    }
}

/// Groups, a struct for shared memory by type, a host function that chooses instances, a container of Thrust.
const REDUCTION: &str = r#"
#ifndef REDUCTION_H
#define REDUCTION_H
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <thrust/device_vector.h>
#include <helper_cuda.h>

namespace cg = cooperative_groups;
extern "C" bool is_power(unsigned int x);

template <class T> struct DynamicShared {
    __device__ inline operator T*() { extern __shared__ int room[]; return (T*)room; }
};
template <> struct DynamicShared<double> {
    __device__ inline operator double*() { extern __shared__ double room_of_doubles[]; return (double*)room_of_doubles; }
};

template <typename T, unsigned int block>
__global__ void sum(const T* __restrict__ in, T* __restrict__ out, unsigned int n) {
    T* parts = DynamicShared<T>();
    cg::thread_block all = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(all);
    T own = 0;
    for (unsigned int i = blockIdx.x * block + threadIdx.x; i < n; i += block * gridDim.x) own += in[i];
    own = cg::reduce(warp, own, cg::plus<T>());
    if (warp.thread_rank() == 0) parts[threadIdx.x / 32] = own;
    cg::sync(all);
    if (threadIdx.x == 0) {
        for (unsigned int i = 1; i < block / 32; ++i) own += parts[i];
        out[blockIdx.x] = own;
    }
}

template <class T> void sum_all(int n, int threads, T* in, T* out) {
    dim3 grid(64, 1, 1);
    switch (threads) {
        case 512: sum<T, 512><<<grid, 512, 64 * sizeof(T)>>>(in, out, n); break;
        case 256: sum<T, 256><<<grid, 256, 32 * sizeof(T)>>>(in, out, n); break;
    }
    getLastCudaError("sum");
}
template void sum_all<int>(int n, int threads, int* in, int* out);
template void sum_all<float>(int n, int threads, float* in, float* out);

float on_the_host(const thrust::device_vector<float>& all) { return all[0]; }
#endif
"#;

#[test]
fn groups_and_instances_compile_beside_what_chooses_them() {
    for bench in benches() {
        let binary = bench.binary(source("a", REDUCTION, "sum<float, 256>"));
        assert!(binary.resources.iter().any(|own| own.entry == "sum<float, 256>"), "{:?}", binary.resources);
    }
}

#[test]
fn matrix_fragments_compile_beside_functions_that_launch_them() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let text = "#include <thrust/device_vector.h>\n#include <memory>\n#include <mma.h>\nusing namespace nvcuda;\n\
                using namespace std;\n__global__ void product(const half* a, const half* b, float* c, int n) {\n\
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;\n\
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;\n\
                wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;\nwmma::fill_fragment(sum, 0.0f);\n\
                wmma::load_matrix_sync(left, a, n);\nwmma::load_matrix_sync(right, b, n);\n\
                wmma::mma_sync(sum, left, right, sum);\n\
                wmma::store_matrix_sync(c, sum, n, wmma::mem_row_major);\n}\n\
                template <typename F> void timed(F&& run) { run(); cudaDeviceSynchronize(); }\n\
                int main() try { timed([] { product<<<1, 32>>>(0, 0, 0, 16); }); } catch (...) { return 1; }\n";
    Bench::cuda("sm_80").binary(source("a", text, "product"));
}

#[test]
fn what_a_kernel_misses_of_the_host_half_is_named_with_its_line() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    // Under another name, so that no call is seen.
    let text = "float helper(float x) { return x; }\n#define PASTE(a, b) a##b\n\
                extern \"C\" __global__ void k(float* x) { x[0] = PASTE(hel, per)(1); }\n\
                int main() { k<<<1, 1>>>(0); }\n";
    let verdict = Bench::cuda("sm_80").verdict(source("a", text, "k"));
    let line =
        source("a", text, "k").text.lines().position(|line| line.contains("float helper")).unwrap() + 1;
    assert!(
        verdict.message.contains(&format!("hint: host code is left out: `helper` (line {line})")),
        "{verdict:?}"
    );
}

#[test]
fn leaving_the_host_half_out_opens_no_file_and_hides_no_kernel() {
    for bench in
        [Some(Bench::host()), (!toolchain::lacks_nvrtc()).then(|| Bench::cuda("sm_80"))].into_iter().flatten()
    {
        for hidden in [
            // Blanks before it make a directive of what was none.
            "void f() { k<<<1, 1>>>(0); } #include \"/etc/passwd\" __device__ int x;\n",
            "int main() {\n#include \"/etc/passwd\"\n}\n",
            "int main() { const char* s = \"/*\"; }\n#include \"/etc/passwd\"\n// */\n",
        ] {
            let text = format!("extern \"C\" __global__ void k(float* x) {{ x[0] = 1; }}\n{hidden}");
            let verdict = bench.verdict(source("a", &text, "k"));
            assert_eq!(verdict.label(), "static_reject:include", "{text}: {verdict:?}");
        }
        // The launch means the kernel that is compiled, and not one in a text or a comment.
        let text = "/* extern \"C\" __global__ void k(float* x) {} */\n\
                    const char* shown = R\"(extern \"C\" __global__ void k(float* x) {})\";\n\
                    int main() { return 0; }\n";
        let verdict = bench.verdict(source("a", text, "k"));
        assert_eq!(verdict.kind, VerdictKind::CompileError, "{verdict:?}");
    }
}

/// A copy by tiles, as CuTe's tutorials have it, with numbers of CUTLASS.
const CUTE: &str = r#"
#include <cute/tensor.hpp>
#include <cutlass/array.h>
#include <cutlass/cutlass.h>
#include <cutlass/numeric_types.h>

using namespace cute;

extern "C" __global__ void tiles(const float* in, float* out, int rows, int columns) {
    auto shape = make_shape(rows, columns);
    auto from = make_tensor(make_gmem_ptr(in), shape, make_stride(columns, Int<1>{}));
    auto to = make_tensor(make_gmem_ptr(out), shape, make_stride(columns, Int<1>{}));
    auto tile = make_shape(Int<32>{}, Int<32>{});
    auto place = make_coord(blockIdx.y, blockIdx.x);
    auto threads = make_layout(make_shape(Int<8>{}, Int<32>{}), make_stride(Int<32>{}, Int<1>{}));
    auto mine = local_partition(local_tile(from, tile, place), threads, threadIdx.x);
    auto theirs = local_partition(local_tile(to, tile, place), threads, threadIdx.x);
    auto held = make_tensor_like(mine);
    cute::copy(mine, held);
    cutlass::Array<cutlass::half_t, 2> pair;
    pair[0] = cutlass::half_t(held(0));
    held(0) = float(pair[0]);
    cute::copy(held, theirs);
}
"#;

#[test]
fn cute_and_cutlass_compile_when_their_folder_is_named() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let folder = match python::installed(&["--no-deps"], &["nvidia-cutlass==4.2.0.0"]) {
        Ok(folder) => folder.join("cutlass_library/source/include"),
        Err(why) => return skipped(&format!("it needs CUTLASS, which comes from PyPI: {why}")),
    };
    for arch in ["sm_80", "sm_90a"] {
        let mut own = source("a", CUTE, "tiles");
        own.options.push(format!("-I{}", folder.display()));
        let binary = Bench::cuda(arch).binary(own);
        assert_eq!(binary.resources[0].entry, "tiles", "{arch}");
    }
}

/// A sum by block and a running sum; `cub/cub.cuh` is what sources for nvcc include.
const CUB: &str = r#"
#include <cub/cub.cuh>

extern "C" __global__ void __launch_bounds__(128) sums(const float* in, float* total, int* running) {
    using Reduce = cub::BlockReduce<float, 128>;
    using Scan = cub::BlockScan<int, 128>;
    __shared__ union { typename Reduce::TempStorage reduce; typename Scan::TempStorage scan; } room;
    const float sum = Reduce(room.reduce).Sum(in[blockIdx.x * 128 + threadIdx.x]);
    if (threadIdx.x == 0) total[blockIdx.x] = sum;
    __syncthreads();
    int before;
    Scan(room.scan).ExclusiveSum(int(threadIdx.x), before);
    running[blockIdx.x * 128 + threadIdx.x] = before;
}
"#;

#[test]
fn cub_compiles_with_and_without_its_folder_named() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    for (arch, named) in [("sm_80", false), ("sm_90a", true)] {
        let mut own = source("a", CUB, "sums");
        let folder = toolchain::nvrtc_dir().join("../include/cccl");
        if named && folder.is_dir() {
            own.options.push(format!("-I{}", folder.canonicalize().unwrap().display()));
        }
        let binary = Bench::cuda(arch).binary(own);
        assert!(binary.resources[0].shared_static_bytes.is_some_and(|bytes| bytes > 0), "{arch}");
    }
}

/// Kernels without `extern "C"`: a template, overloads, a namespace.
const NAMED: &str = r#"
#define WIDTH 8
template <typename T, int N>
__global__ void __launch_bounds__(N * 16) fill(T* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = T(N); }
namespace deep { template <int N> __global__ void fill(float* x) { x[threadIdx.x] = N; } }
__global__ void add(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }
__global__ void add(double* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 2; }
__global__ void alone(float* x) { x[threadIdx.x] = 3; }
"#;

/// A host device, and a CUDA one where there is NVRTC.
fn benches() -> Vec<Bench> {
    let cuda = (!toolchain::lacks_nvrtc()).then(|| Bench::cuda("sm_90a"));
    [Bench::host()].into_iter().chain(cuda).collect()
}

#[test]
fn entries_are_named_by_template_arguments_signatures_and_namespaces() {
    for bench in benches() {
        let mut hashes = Vec::new();
        for entry in [
            "alone",
            "fill<float, 4>",
            "fill<float, 2 * WIDTH>",
            "fill<double, WIDTH>(double*, int)",
            "deep::fill<4>",
            "add(float*, int)",
            "add(double *, int)",
        ] {
            let binary = bench.binary(source("a", NAMED, entry));
            assert!(binary.resources.iter().any(|own| own.entry == entry), "{entry}: {:?}", binary.resources);
            assert!(fs::read(&binary.path).unwrap().starts_with(b"\x7fELF"));
            hashes.push(binary.code_hash);
        }
        // One file has both overloads; what is launched of it differs.
        if bench.options.kind == DeviceKind::Cuda {
            assert_ne!(hashes[5], hashes[6]);
        }
    }
}

#[test]
fn entries_of_a_cubin_have_their_symbols_with_them() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let bench = Bench::cuda("sm_80");
    let mut own = source("a", NAMED, "fill<float, 4>");
    own.entries.extend(["add(double*, int)", "alone"].map(String::from));
    let binary = fs::read(bench.binary(own).path).unwrap();
    let symbol = |entry: &str| evo_device::binary_notes::symbol_of(&binary, entry);
    assert_eq!(symbol("fill<float, 4>"), Some("_Z4fillIfLi4EEvPT_i"));
    assert_eq!(symbol("add(double*, int)"), Some("_Z3addPdi"));
    assert_eq!(symbol("alone"), None, "the device finds a plain name by itself");
}

#[test]
fn an_ambiguous_entry_asks_for_more_and_shows_what_there_is() {
    for bench in benches() {
        for (entry, hint) in [
            ("add", "hint: name one of them: `add(float*, int)`, `add(double*, int)`"),
            ("add(char*)", "hint: name one of them: `add(float*, int)`, `add(double*, int)`"),
            ("fill", "`fill<typename T, int N>`"),
            ("fill<float>", "`fill<typename T, int N>`"),
        ] {
            let verdict = bench.verdict(source("a", NAMED, entry));
            assert_eq!(verdict.label(), "compile_error:entry", "{entry}: {verdict:?}");
            assert!(verdict.message.contains(hint), "{entry}: {}", verdict.message);
            assert!(
                verdict.message.starts_with(&format!("no single kernel `{entry}`")),
                "{}",
                verdict.message
            );
        }
        // What is wrong with the source comes first.
        let verdict = bench.verdict(source("a", &format!("{NAMED}\nint x = missing;"), "fill<float, 4>"));
        assert!(verdict.cause.is_none() && verdict.message.contains("missing"), "{verdict:?}");
    }
}
