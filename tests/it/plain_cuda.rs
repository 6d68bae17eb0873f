//! CUDA as people write it for nvcc: standard headers, the host half of a program in the same file, kernels without
//! `extern "C"`. Each source compiles unchanged.

use std::fs;
use std::path::Path;

use evo::compile::toolbox::Toolbox;
use evo_protocol::binary::CompileOutcome;
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::VerdictKind;

use crate::compile::{Bench, source};
use crate::python;
use crate::skip::skipped;
use crate::support::kernels::data;
use crate::toolchain;

/// What sources for nvcc use of the standard library.
const STANDARD: &str = include_str!("../data/sources/standard.cu");

/// What needs no libcu++.
const SIMPLE: &str = include_str!("../data/sources/simple.cu");

#[test]
fn standard_headers_compile_as_with_nvcc() {
    for (arch, bench) in Bench::cudas(["sm_80", "sm_90a"]) {
        let binary = bench.binary(source("a", STANDARD, "all"));
        assert_eq!(binary.resources[0].entry, "all", "{arch}");
        let others: Vec<&str> = binary.log.lines().filter(|line| line.contains("evo_prelude")).collect();
        assert!(others.is_empty(), "{others:?}");
    }
    // Every header alone, so that none leans on another.
    let Some(bench) = Bench::cuda("sm_80") else { return };
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
    let Some(bench) = Bench::cuda("sm_80") else { return };
    let text = "typedef unsigned long uint64_t;\ntypedef unsigned int uint;\n#define INFINITY 1.0f\n\
                extern \"C\" __global__ void k(uint64_t* x) { x[0] = uint(INFINITY); }";
    bench.binary(source("a", text, "k"));
}

#[test]
fn a_header_beside_an_option_is_meant_and_not_evos_own() {
    let Some(bench) = Bench::cuda("sm_80") else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("helper_cuda.h"), "#define MINE 3\n").unwrap();
    let text = "#include <helper_cuda.h>\nextern \"C\" __global__ void k(int* x) { x[0] = MINE; }";
    let mut own = source("a", text, "k");
    own.options.push(format!("-I{}", folder.path().display()));
    bench.binary(own);
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
const PROGRAM: &str = include_str!("../data/sources/program.cu");

#[test]
fn kernels_compile_inside_of_the_programs_that_launch_them() {
    let host = Bench::host().binary(source("a", PROGRAM, "saxpy"));
    assert_eq!(host.resources[0].entry, "saxpy");
    for (_, bench) in Bench::cudas(["sm_80", "sm_90a"]) {
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
const REDUCTION: &str = include_str!("../data/sources/reduction.cu");

#[test]
fn groups_and_instances_compile_beside_what_chooses_them() {
    for bench in benches() {
        let binary = bench.binary(source("a", REDUCTION, "sum<float, 256>"));
        assert!(binary.resources.iter().any(|own| own.entry == "sum<float, 256>"), "{:?}", binary.resources);
    }
}

#[test]
fn matrix_fragments_compile_beside_functions_that_launch_them() {
    let Some(bench) = Bench::cuda("sm_80") else { return };
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
    bench.binary(source("a", text, "product"));
}

#[test]
fn what_a_kernel_misses_of_the_host_half_is_named_with_its_line() {
    let Some(bench) = Bench::cuda("sm_80") else { return };
    // Under another name, so that no call is seen.
    let text = "float helper(float x) { return x; }\n#define PASTE(a, b) a##b\n\
                extern \"C\" __global__ void k(float* x) { x[0] = PASTE(hel, per)(1); }\n\
                int main() { k<<<1, 1>>>(0); }\n";
    let verdict = bench.verdict(source("a", text, "k"));
    let line =
        source("a", text, "k").text.lines().position(|line| line.contains("float helper")).unwrap() + 1;
    assert!(
        verdict.message.contains(&format!("hint: host code is left out: `helper` (line {line})")),
        "{verdict:?}"
    );
}

#[test]
fn leaving_the_host_half_out_opens_no_file_and_hides_no_kernel() {
    for bench in benches() {
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
const CUTE: &str = include_str!("../data/sources/cute.cu");

#[test]
fn cute_and_cutlass_compile_when_their_folder_is_named() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let folder = match python::installed(&["--no-deps"], &["nvidia-cutlass==4.2.0.0"]) {
        Ok(folder) => folder.join("cutlass_library/source/include"),
        Err(why) => return skipped(&format!("it needs CUTLASS, which comes from PyPI: {why}")),
    };
    for (arch, bench) in Bench::cudas(["sm_80", "sm_90a"]) {
        let mut own = source("a", CUTE, "tiles");
        own.options.push(format!("-I{}", folder.display()));
        let binary = bench.binary(own);
        assert_eq!(binary.resources[0].entry, "tiles", "{arch}");
    }
}

/// A sum by block and a running sum; `cub/cub.cuh` is what sources for nvcc include.
const CUB: &str = include_str!("../data/sources/cub.cu");

#[test]
fn cub_compiles_with_and_without_its_folder_named() {
    for (arch, bench) in Bench::cudas(["sm_80", "sm_90a"]) {
        let mut own = source("a", CUB, "sums");
        let folder = toolchain::nvrtc_dir().join("../include/cccl");
        if arch == "sm_90a" && folder.is_dir() {
            own.options.push(format!("-I{}", folder.canonicalize().unwrap().display()));
        }
        let binary = bench.binary(own);
        assert!(binary.resources[0].shared_static_bytes.is_some_and(|bytes| bytes > 0), "{arch}");
    }
}

/// Kernels without `extern "C"`: a template, overloads, a namespace.
const NAMED: &str = include_str!("../data/sources/named.cu");

/// A host device, and a CUDA one where there is NVRTC.
fn benches() -> Vec<Bench> {
    let cuda = Bench::cuda("sm_90a");
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
    let Some(bench) = Bench::cuda("sm_80") else { return };
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

/// A kernel between headers with the helpers of a host program.
fn beside_host_code(bench: &Bench, text: &str) -> CompileOutcome {
    let mut own = source("a", text, "scale");
    own.options.push(format!("-I{}", data("kernels/host_code").display()));
    bench.compile(own)
}

#[test]
fn host_code_of_headers_is_left_out_and_what_a_kernel_misses_of_it_is_named() {
    let kernel = fs::read_to_string(data("kernels/host_code/k.cu")).unwrap();
    for (_, bench) in Bench::cudas(["sm_80"]) {
        beside_host_code(&bench, &kernel).unwrap();
    }
    // Under another name, so that no call is seen.
    let misses = kernel.replace("twice(x[i])", "PASTE(aver, age)(x[i])");
    let misses = format!("#define PASTE(a, b) a##b\n{misses}");
    let verdict = beside_host_code(&Bench::host(), &misses).unwrap_err();
    let hint = "hint: host code is left out: `average` (utils.h:20); mark";
    assert!(verdict.message.contains(hint), "{}", verdict.message);
    // Errors stand where the files have them.
    let wrong = kernel.replace("twice(x[i])", "thrice(x[i])");
    let verdict = beside_host_code(&Bench::host(), &wrong).unwrap_err();
    let line =
        source("a", &wrong, "scale").text.lines().position(|line| line.contains("thrice")).unwrap() + 1;
    assert!(verdict.message.contains(&format!("test.cu:{line}:")), "{line}: {}", verdict.message);
}
