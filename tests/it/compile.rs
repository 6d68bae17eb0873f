//! The compile farm with real compilers, and with fake ones that misbehave.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;

use evo::compile::toolbox::Toolbox;
use evo::compile::{CompileFarm, FarmOptions, compile_one, own_kernels};
use evo_protocol::binary::{Binary, CompileOutcome, EntryResources, HEADER_END, KernelSource};
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::ContentHash;

use crate::toolchain;

/// A kernel that compiles everywhere.
pub const SCALE: &str = r#"
#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(256) scale(float* x, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) x[i] = FACTOR * tile[255 - threadIdx.x];
}
"#;

/// A source with its header, as rendering makes it.
pub fn source(label: &str, text: &str, entry: &str) -> KernelSource {
    let variant_hash = ContentHash::of(label.as_bytes());
    let symbol = format!(
        "extern \"C\" {{ extern __device__ const char evo_variant_hash[]; __device__ const char evo_variant_hash[] = \"{variant_hash}\"; }}"
    );
    let text = format!("// {label}\n{symbol}\n{HEADER_END}{text}");
    let options = vec!["-DFACTOR=2.0f".to_string()];
    KernelSource { options, variant_hash, ..KernelSource::plain("test.cu", text, [entry]) }
}

/// A cache of its own, and short limits.
pub struct Bench {
    pub folder: tempfile::TempDir,
    pub options: FarmOptions,
}

impl Bench {
    /// `None`, and a line that says so, where there is no NVRTC.
    pub fn cuda(arch: &str) -> Option<Bench> {
        (!toolchain::lacks_nvrtc()).then(|| Bench::new(DeviceKind::Cuda, arch, toolchain::toolbox()))
    }

    pub fn cudas<const N: usize>(archs: [&'static str; N]) -> Vec<(&'static str, Bench)> {
        archs.into_iter().filter_map(|arch| Some((arch, Bench::cuda(arch)?))).collect()
    }

    pub fn host() -> Bench {
        Bench::new(DeviceKind::Host, "host", toolchain::host_toolbox())
    }

    /// A C++ compiler made of a shell script, which opens what it likes. It gets `--version` right; `body` is the rest.
    pub fn fake(body: &str) -> Bench {
        let mut bench = Bench::host();
        bench.options.checks = CheckSet::without(GateCheck::IncludePaths, None);
        let script = bench.folder.path().join("cxx");
        let preamble =
            "case \"$*\" in *--version*) echo 'fake (test) 1.0'; exit 0;; *c++-header*) exit 1;; esac";
        fs::write(&script, format!("#!/bin/bash\n{preamble}\n{body}\n")).unwrap();
        // Through bash: a file just written may be "busy" for a direct start while another test forks.
        bench.options.toolbox.cxx = Some(format!("bash {}", script.display()));
        bench
    }

    pub fn new(kind: DeviceKind, arch: &str, toolbox: Toolbox) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let options = FarmOptions { jobs: 1, cache, toolbox, ..FarmOptions::new(kind, arch) };
        Bench { folder, options }
    }

    pub fn compile(&self, source: KernelSource) -> CompileOutcome {
        compile_one(&self.options, source).unwrap()
    }

    pub fn binary(&self, source: KernelSource) -> Binary {
        self.compile(source).unwrap_or_else(|verdict| panic!("{verdict:?}"))
    }

    pub fn verdict(&self, source: KernelSource) -> Verdict {
        *self.compile(source).expect_err("compiles")
    }

    /// Scratch folders and half-written files that are left.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let folder = self.options.cache.join("v5/tmp");
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

fn entry<'a>(binary: &'a Binary, name: &str) -> &'a EntryResources {
    binary.resources.iter().find(|entry| entry.entry == name).unwrap()
}

#[test]
fn cubins_for_each_target_report_every_kernel() {
    for (arch, bench) in Bench::cudas(["sm_80", "sm_89", "sm_90a"]) {
        let text = format!("{SCALE}\n__global__ void plain(float* x) {{ x[threadIdx.x] += 1.0f; }}");
        let binary = bench.binary(source("a", &text, "scale"));
        assert!(fs::read(&binary.path).unwrap().starts_with(b"\x7fELF"));
        assert!(binary.toolchain.starts_with("nvrtc 13"), "{}", binary.toolchain);
        let scale = entry(&binary, "scale");
        assert_eq!((scale.shared_static_bytes, scale.threads_max), (Some(1024), Some(256)), "{arch}");
        assert_eq!((scale.stack_bytes, scale.spill_store_bytes), (Some(0), Some(0)), "{arch}");
        assert!(scale.registers.is_some_and(|registers| (1..=64).contains(&registers)), "{arch} {scale:?}");
        let plain = entry(&binary, "plain");
        assert_eq!((plain.shared_static_bytes, plain.threads_max), (Some(0), None), "{arch}");
    }
}

#[test]
fn forced_launch_bounds_spill_and_the_spills_are_counted() {
    let Some(bench) = Bench::cuda("sm_90a") else { return };
    let text = r#"
extern "C" __global__ void __launch_bounds__(1024, 2) heavy(float* x) {
    float v[96];
    #pragma unroll
    for (int i = 0; i < 96; i++) v[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 96; i++) x[i * 1024 + threadIdx.x] = v[i] * v[95 - i] + v[(i * 7) % 96];
}"#;
    let binary = bench.binary(source("a", text, "heavy"));
    let heavy = entry(&binary, "heavy");
    assert_eq!(heavy.registers, Some(32));
    assert!(heavy.spill_store_bytes.unwrap() > 0 && heavy.spill_load_bytes.unwrap() > 0, "{heavy:?}");
    assert!(heavy.stack_bytes.unwrap() > 0);
}

#[test]
fn static_shared_memory_beyond_the_target_has_a_cause() {
    // The assembler itself allows sm_90 more than the 48 KiB of its elders.
    for ((_, bench), kibibytes) in Bench::cudas(["sm_89", "sm_90a"]).into_iter().zip([64, 256]) {
        let text = format!(
            "extern \"C\" __global__ void big(float* x) {{ __shared__ float t[{}]; \
             t[threadIdx.x] = x[0]; __syncthreads(); x[threadIdx.x] = t[threadIdx.x ^ 5]; }}",
            kibibytes * 256
        );
        let verdict = bench.verdict(source("a", &text, "big"));
        assert_eq!(verdict.label(), "compile_error:smem", "{verdict:?}");
        assert!(verdict.message.contains("shared data"), "{}", verdict.message);
    }
}

#[test]
fn a_syntax_error_names_its_line_and_is_remembered() {
    let Some(bench) = Bench::cuda("sm_80") else { return };
    let broken = source("a", "extern \"C\" __global__ void k() { int x = ; }", "k");
    let verdict = bench.verdict(broken.clone());
    assert_eq!(verdict.kind, VerdictKind::CompileError);
    assert!(verdict.message.contains("test.cu(4): error"), "{}", verdict.message);
    assert!(verdict.evidence.get("log").is_some());
    assert_eq!(bench.verdict(broken), verdict);
}

#[test]
fn an_entry_that_is_not_in_the_source_is_named() {
    let Some(bench) = Bench::cuda("sm_80") else { return };
    let verdict = bench.verdict(source("a", SCALE, "scael"));
    assert_eq!(verdict.label(), "compile_error:entry");
    assert!(
        verdict.message.contains("`scael`") && verdict.message.contains("it has scale"),
        "{}",
        verdict.message
    );
}

#[test]
fn an_unknown_target_and_a_missing_nvrtc_are_errors_of_the_setup() {
    let Some(bench) = Bench::cuda("sm_42") else { return };
    let error = compile_one(&bench.options, source("a", SCALE, "scale")).unwrap_err();
    assert!(error.to_string().contains("does not compile for `sm_42`; it knows sm_"), "{error}");
    let mut bench = Bench::cuda("sm_80").unwrap();
    bench.options.toolbox.nvrtc_dir = Some(bench.folder.path().to_path_buf());
    let error = compile_one(&bench.options, source("a", SCALE, "scale")).unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.starts_with("pip install")), "{error:?}");
}

/// Code that differs only in what the loader fills in: the function of a library, or the variable.
const FILLED_IN: &str = r#"
extern "C" { __device__ float first[4] = {1.f, 2.f, 3.f, 4.f}; __device__ float second[4] = {9.f, 2.f, 3.f, 4.f}; }
extern "C" __global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = FUNCTION(x[i]) + TABLE[i & 3];
}
"#;

fn check_filled_in(bench: &Bench) {
    let hash = |label: &str, function: &str, table: &str| {
        let mut one = source(label, FILLED_IN, "scale");
        one.options = vec![format!("-DFUNCTION={function}"), format!("-DTABLE={table}")];
        bench.binary(one).code_hash
    };
    let plain = hash("UNUSED=1", "erff", "first");
    assert_eq!(plain, hash("UNUSED=2", "erff", "first"));
    assert_ne!(plain, hash("UNUSED=1", "tgammaf", "first"), "another function is another kernel");
    assert_ne!(plain, hash("UNUSED=1", "erff", "second"), "another table is another kernel");
}

#[test]
fn what_the_loader_fills_in_is_part_of_the_code() {
    check_filled_in(&Bench::host());
    Bench::cudas(["sm_80", "sm_90a"]).iter().for_each(|(_, bench)| check_filled_in(bench));
}

/// Equal code under different hashes, in both compilers; other code has another code hash.
fn check_code_hash(bench: &Bench) {
    let first = bench.binary(source("UNUSED=1", SCALE, "scale"));
    let second = bench.binary(source("UNUSED=2", SCALE, "scale"));
    assert_ne!(first.hash, second.hash);
    assert_eq!(first.code_hash, second.code_hash);
    let mut other = source("UNUSED=1", SCALE, "scale");
    other.options = vec!["-DFACTOR=3.0f".to_string()];
    assert_ne!(bench.binary(other).code_hash, first.code_hash);
}

#[test]
fn a_dead_parameter_gives_equal_code() {
    check_code_hash(&Bench::host());
    Bench::cuda("sm_89").iter().for_each(check_code_hash);
}

/// The second request is answered from the cache; a damaged entry is compiled again.
fn check_cache(bench: &Bench) {
    let first = bench.binary(source("a", SCALE, "scale"));
    assert!(!first.cached);
    let again = bench.binary(source("a", SCALE, "scale"));
    assert!(again.cached);
    assert_eq!(
        (&again.hash, &again.resources, again.compile_ms),
        (&first.hash, &first.resources, first.compile_ms)
    );
    let mut bytes = fs::read(&first.path).unwrap();
    bytes.truncate(100);
    fs::write(&first.path, bytes).unwrap();
    let repaired = bench.binary(source("a", SCALE, "scale"));
    assert!(!repaired.cached);
    assert_eq!(ContentHash::of(&fs::read(&repaired.path).unwrap()), repaired.hash);
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}

/// Edits of a header are seen in the same cache, and so is a new header that shadows the old one.
fn check_headers(bench: &Bench) {
    let folder = |name: &str| bench.folder.path().join(name);
    let write = |name: &str, value: i32| {
        fs::create_dir_all(folder(name).parent().unwrap()).unwrap();
        fs::write(folder(name), format!("#define OFFSET {value}\n")).unwrap();
    };
    fs::create_dir_all(folder("first")).unwrap();
    write("second/offset.h", 1);
    let mut source = source("a", &SCALE.replace("= FACTOR", "= OFFSET + FACTOR"), "scale");
    source.text =
        source.text.replace("#include <cuda_fp16.h>", "#include <cuda_fp16.h>\n#include \"offset.h\"");
    let include = |name: &str| format!("-I{}", folder(name).display());
    source.options.extend([include("first"), include("second")]);
    let compile = || bench.binary(source.clone());
    let first = compile();
    assert!(!first.cached && compile().cached);
    write("second/offset.h", 2);
    let edited = compile();
    assert!(!edited.cached && edited.code_hash != first.code_hash);
    write("first/offset.h", 3);
    let shadowed = compile();
    assert!(!shadowed.cached && shadowed.code_hash != edited.code_hash);
    assert!(compile().cached);
    fs::remove_file(folder("first/offset.h")).unwrap();
    write("second/offset.h", 1);
    let back = compile();
    assert!(back.cached && back.hash == first.hash, "the first answer is still there");
}

#[test]
fn an_edited_or_shadowed_header_is_compiled_again() {
    check_headers(&Bench::host());
    Bench::cuda("sm_80").iter().for_each(check_headers);
}

#[test]
fn arguments_of_the_compiler_are_part_of_the_key() {
    let mut bench = Bench::host();
    let source = source("a", &SCALE.replace("= FACTOR", "= X + FACTOR"), "scale");
    let mut compile = |cxx: &str| {
        bench.options.toolbox.cxx = Some(cxx.to_string());
        bench.binary(source.clone())
    };
    let (one, two) = (compile("c++ -DX=1"), compile("c++ -DX=2"));
    assert!(!two.cached && one.code_hash != two.code_hash);
    assert!(compile("c++ -DX=1").cached);
}

#[test]
fn the_cache_answers_and_heals() {
    check_cache(&Bench::host());
    Bench::cuda("sm_80").iter().for_each(check_cache);
}

#[test]
fn helper_kernels_are_compiled_once() {
    let Some(bench) = Bench::cuda("sm_90a") else { return };
    let text = "extern \"C\" __global__ void fill(unsigned* x, unsigned v) { x[threadIdx.x] = v; }";
    let compiled = |text: &str| own_kernels(&bench.options, KernelSource::plain("own.cu", text, [""; 0]));
    let compile = || compiled(text).unwrap();
    let path = compile();
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    assert_eq!(compile(), path);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
    let error = compiled("no C++").unwrap_err();
    assert!(error.to_string().contains("helper kernels do not compile for `sm_90a`"), "{error}");
}

#[test]
fn a_farm_answers_every_source_good_and_bad() {
    let Some(bench) = Bench::cuda("sm_90a") else { return };
    let (sender, receiver) = mpsc::channel();
    let options = FarmOptions { jobs: 2, ..bench.options.clone() };
    let farm = CompileFarm::start(options).unwrap();
    assert_eq!(farm.jobs(), 2);
    for ticket in 0..10 {
        let text = if ticket % 3 == 0 { "not C++" } else { SCALE };
        let sender = sender.clone();
        let done = move |outcome: CompileOutcome| sender.send((ticket, outcome.is_ok())).unwrap();
        farm.submit(source(&format!("N={ticket}"), text, "scale"), done);
    }
    let mut seen: Vec<(u64, bool)> = receiver.iter().take(10).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..10).map(|ticket| (ticket, ticket % 3 != 0)).collect::<Vec<_>>());
    assert_eq!(farm.pending(), 0);
    assert!(farm.busy_seconds() > 0.0);
    drop(farm);
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}

#[test]
fn a_compile_bomb_meets_its_memory_limit_and_the_next_source_compiles() {
    let Some(mut bench) = Bench::cuda("sm_90a") else { return };
    let bomb = r#"
extern "C" __global__ void bomb(float* x) {
    #pragma unroll
    for (int i = 0; i < 64; i++)
    #pragma unroll
    for (int j = 0; j < 64; j++)
    #pragma unroll
    for (int l = 0; l < 64; l++) x[i * j * l] += x[i + j * l] * x[l];
}"#;
    bench.options.memory_bytes = 300 << 20;
    let (sender, receiver) = mpsc::channel();
    let farm = CompileFarm::start(bench.options.clone()).unwrap();
    for source in [source("a", bomb, "bomb"), source("b", SCALE, "scale")] {
        let sender = sender.clone();
        farm.submit(source, move |outcome| sender.send(outcome).unwrap());
    }
    let verdict = receiver.recv().unwrap().unwrap_err();
    assert_eq!(verdict.kind, VerdictKind::CompileOom, "{verdict:?}");
    assert!(receiver.recv().unwrap().is_ok());
}

#[test]
fn a_source_that_reads_this_machine_s_files_is_refused() {
    let verdict = Bench::host().verdict(source("a", "#include \"/etc/passwd\"\n", "k"));
    assert_eq!(verdict.label(), "static_reject:include");
}

#[test]
fn what_the_compiler_opens_is_judged_whatever_names_it() {
    let mut bench = Bench::host();
    let folder = bench.folder.path().to_path_buf();
    fs::create_dir(folder.join("inc")).unwrap();
    // The include folder's author trusts a macro, which the kernel defines.
    fs::write(folder.join("inc/lib.h"), "#include CONFIG\n").unwrap();
    fs::write(folder.join("inc/config.h"), "#include <cfloat>\n").unwrap();
    bench.options.jobs = 1;
    let option = format!("-I{}", folder.join("inc").display());
    let compile = |config: &str| {
        let text = format!("#define CONFIG \"{config}\"\n#include \"lib.h\"\n{SCALE}");
        let mut source = source("a", &text, "scale");
        source.options.push(option.clone());
        bench.compile(source)
    };
    compile("config.h").unwrap();
    let secret = folder.join("secret.txt");
    // Both a file that the compiler would quote in its errors, and one that compiles.
    for text in ["the password is hunter2 ;\n", "static const int secret = 7;\n"] {
        fs::write(&secret, text).unwrap();
        let verdict = *compile(&secret.display().to_string()).unwrap_err();
        assert_eq!(verdict.label(), "static_reject:include");
        assert!(
            verdict.message.contains("makes the compiler open") && verdict.message.contains("secret.txt")
        );
        assert!(!format!("{verdict:?}").contains("hunter2"), "{verdict:?}");
    }
}

#[test]
fn a_compiler_that_aborts_is_a_crash() {
    let verdict = Bench::fake("echo working; kill -ABRT $$").verdict(source("a", SCALE, "scale"));
    assert_eq!(verdict.kind, VerdictKind::CompilerCrash, "{verdict:?}");
    assert!(verdict.message.contains("SIGABRT"), "{}", verdict.message);
    // It writes nothing for any source, so this one is not to blame.
    let verdict = Bench::fake("true").verdict(source("a", SCALE, "scale"));
    assert_eq!(verdict.kind, VerdictKind::HarnessError, "{verdict:?}");
    // And here it is: others get a file.
    let picky = "case \"$*\" in *probe*) exec c++ \"$@\";; esac; true";
    let verdict = Bench::fake(picky).verdict(source("a", SCALE, "scale"));
    assert_eq!(verdict.kind, VerdictKind::CompilerCrash, "{verdict:?}");
}

#[test]
fn a_flood_of_messages_is_drained_and_cut() {
    let flood =
        "echo 'test.cu:1: error: the first'; yes 'note: and so on and so on' | head -n 400000; exit 1";
    let verdict = Bench::fake(flood).verdict(source("a", SCALE, "scale"));
    assert_eq!(verdict.kind, VerdictKind::CompileError);
    assert_eq!(verdict.message, "test.cu:1: error: the first");
    assert_eq!(verdict.evidence.get("log_truncated"), Some(&true.into()));
    assert!(verdict.evidence.get("log").unwrap().as_str().unwrap().len() < 21 * 1024);
}

#[test]
fn a_compiler_that_eats_memory_meets_its_limit() {
    let mut bench = Bench::fake("exec python3 -c 'x = bytearray(3 << 30)'");
    bench.options.memory_bytes = 1 << 30;
    let verdict = bench.verdict(source("a", SCALE, "scale"));
    assert_eq!(verdict.kind, VerdictKind::CompileOom, "{verdict:?}");
}

#[test]
fn host_sources_become_shared_objects_and_errors_name_their_line() {
    let bench = Bench::host();
    let binary = bench.binary(source("a", SCALE, "scale"));
    assert!(fs::read(&binary.path).unwrap().starts_with(b"\x7fELF"));
    assert_eq!(binary.path.extension().unwrap(), "so");
    let verdict = bench.verdict(source("b", "extern \"C\" __global__ void k() { int x = ; }", "k"));
    assert_eq!(verdict.kind, VerdictKind::CompileError);
    assert!(verdict.message.contains("test.cu:4"), "{}", verdict.message);
}

#[test]
fn an_unwritable_cache_is_an_error_with_a_hint() {
    let mut bench = Bench::host();
    bench.options.cache = PathBuf::from("/proc/nowhere");
    let error = compile_one(&bench.options, source("a", SCALE, "scale")).unwrap_err();
    assert!(error.hint().unwrap().contains("EVO_CACHE_DIR"), "{error}");
}
