//! Standard headers for NVRTC, which has none: sources for nvcc include `<cstdint>` or `<cmath>`, or rely on what nvcc
//! brings along without being asked.
//!
//! Each is a thin file in memory. What it gives is libcu++'s, whose folder comes with the CUDA headers; the simplest
//! headers have a form of their own beside it, so that a machine with nothing but NVRTC compiles them too. Headers that
//! only the host half of a program needs (`<iostream>`) are empty.

use std::path::PathBuf;

use evo_device::host::tokens::{CudaTokenKind, tokenize};

/// Makes NVRTC read this header before every source.
const PRELUDE_OPTION: &str = "--pre-include=evo_prelude.h";

/// Functions without an execution space are the device's. nvcc takes `constexpr` functions in constant expressions and
/// constructors that the host alone runs; NVRTC refuses to read on when it meets one.
const DEVICE_SPACE: &str = "--device-as-default-execution-space";

const OWN_INTEGERS: &str = "-DEVO_OWN_INTEGERS";

macro_rules! texts {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("include/", $name)))),*] };
}

const TEXTS: &[(&str, &str)] = texts! {
    "evo_prelude.h" "algorithm" "array" "bit" "cassert" "cfloat" "climits" "cmath" "complex" "cstddef" "cstdint"
    "cstdio" "cstdlib" "cstring" "functional" "limits" "numeric" "optional" "tuple" "type_traits" "utility"
};

macro_rules! of_c {
    ($($name:literal)*) => { [$((concat!($name, ".h"), concat!("c", $name))),*] };
}

const OF_C: [(&str, &str); 9] =
    of_c!("assert" "float" "limits" "math" "stddef" "stdint" "stdio" "stdlib" "string");

/// The whole of CUB, which is more than NVRTC reads.
const CUB: (&str, &str) = ("cub/cub.cuh", include_str!("include/cub.cuh"));

pub(super) const OF_HOSTS: &str = "\
    any cctype chrono condition_variable csignal ctime ctype.h deque filesystem fstream future getopt.h \
    iomanip ios iosfwd iostream list locale map mutex omp.h ostream pthread.h queue random regex set \
    signal.h sstream stack stdexcept string sys/stat.h sys/time.h sys/types.h thread time.h unistd.h \
    unordered_map unordered_set vector";

/// Others that a kernel may include, and has nothing of.
const WITHOUT_USE: &str = "\
    atomic cerrno cinttypes cstdarg errno.h exception initializer_list inttypes.h iterator memory new ratio \
    stdarg.h string_view typeinfo";

const AROUND_CUDA: &str = "\
    cublasLt.h cublas_v2.h cuda_profiler_api.h cufft.h curand.h cusolverDn.h cusparse.h helper_cuda.h \
    helper_functions.h helper_image.h helper_string.h helper_timer.h nvToolsExt.h nvrtc.h nvtx3/nvToolsExt.h";

/// Headers of the toolkit that a machine with nothing but NVRTC lacks, and whose contents NVRTC knows.
const BUILT_IN: &str = "\
    cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h device_functions.h vector_functions.h \
    vector_types.h";

/// What files decide that a cached result stands for: another libcu++ gives other code.
pub const VERSIONS: &[&str] = &["cuda/version", "cuda/std/__cccl/version.h", "cub/version.cuh"];

/// Every header by the name that sources include. `own` are the folders that options name: a file that lies there is
/// meant, and not ours. `toolkit` are the CUDA header folders.
pub fn headers(own: &[PathBuf], toolkit: &[PathBuf]) -> Vec<(&'static str, &'static str)> {
    let text_of = |name: &str| TEXTS.iter().find(|(own, _)| *own == name).map_or("", |(_, text)| *text);
    let lies_in = |folders: &[PathBuf], name: &str| folders.iter().any(|folder| folder.join(name).is_file());
    let plain = TEXTS.iter().copied();
    let of_c = OF_C.iter().map(|(name, of)| (*name, text_of(of)));
    let empty = empty_names().map(|name| (name, ""));
    let built_in = BUILT_IN.split(' ').filter(|name| !lies_in(toolkit, name)).map(|name| (name, ""));
    let found = plain.chain(of_c).chain(empty).chain(built_in).filter(|(name, _)| !lies_in(own, name));
    let has_cub = lies_in(own, CUB.0) || lies_in(toolkit, CUB.0);
    found.chain(has_cub.then_some(CUB)).collect()
}

fn empty_names() -> impl Iterator<Item = &'static str> {
    [OF_HOSTS, WITHOUT_USE, AROUND_CUDA].into_iter().flat_map(|names| names.split(' '))
}

pub fn fingerprint() -> Vec<Vec<u8>> {
    let texts = TEXTS.iter().chain([&CUB]).flat_map(|(name, text)| [*name, *text]);
    let names = OF_C.iter().map(|(name, _)| *name).chain(empty_names()).chain(BUILT_IN.split(' '));
    let options = [PRELUDE_OPTION, DEVICE_SPACE];
    texts.chain(names).chain(options).map(|part| part.as_bytes().to_vec()).collect()
}

pub fn options(text: &str) -> Vec<String> {
    let own = defines_integers(text).then_some(OWN_INTEGERS);
    [PRELUDE_OPTION, DEVICE_SPACE].into_iter().chain(own).map(String::from).collect()
}

/// Whether a source defines integers of a size itself, as sources for NVRTC do.
fn defines_integers(text: &str) -> bool {
    let is_one = |word: &str| {
        let bits =
            word.strip_prefix('u').unwrap_or(word).strip_prefix("int").and_then(|w| w.strip_suffix("_t"));
        bits.is_some_and(|bits| ["8", "16", "32", "64", "ptr"].contains(&bits))
    };
    let tokens: Vec<_> = tokenize(text);
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text(text));
    let mut in_typedef = false;
    (0..tokens.len()).any(|at| {
        match word(at) {
            "typedef" => in_typedef = true,
            ";" => in_typedef = false,
            _ => {}
        }
        let defined =
            matches!(word(at.wrapping_sub(1)), "using" | "define") || in_typedef && word(at + 1) == ";";
        tokens[at].kind == CudaTokenKind::Word && defined && is_one(word(at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_the_users_is_meant_and_not_ours() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("helper_cuda.h"), "").unwrap();
        std::fs::write(root.path().join("cuda_runtime.h"), "").unwrap();
        let own = [root.path().to_path_buf()];
        let has = |headers: &[(&str, &str)], name: &str| headers.iter().any(|(own, _)| *own == name);
        let plain = headers(&[], &[]);
        let all = "cstdint stdint.h helper_cuda.h iostream cuda_runtime.h evo_prelude.h";
        assert!(all.split(' ').all(|name| has(&plain, name)));
        assert!(!has(&plain, "cub/cub.cuh"));
        assert!(!has(&headers(&own, &[]), "helper_cuda.h"));
        assert!(!has(&headers(&[], &own), "cuda_runtime.h"), "the toolkit's own is taken");
        assert!(has(&headers(&[], &own), "helper_cuda.h"));
    }

    #[test]
    fn no_header_has_two_texts() {
        let mut names: Vec<&str> = headers(&[], &[]).iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn own_definitions_of_integers_are_seen() {
        let defining = "typedef unsigned long uint64_t;|using int8_t = signed char;|#define uint32_t unsigned|\
                        #ifdef __CUDACC_RTC__\ntypedef unsigned long long\n  uintptr_t;\n#endif";
        assert_eq!(defining.split('|').find(|text| !defines_integers(text)), None);
        let others = "uint64_t x;|typedef uint32_t word;|using std::uint32_t;|// typedef int int8_t;";
        assert_eq!(others.split('|').find(|text| defines_integers(text)), None);
        assert!(options("typedef int int32_t;").contains(&OWN_INTEGERS.to_string()));
    }
}
