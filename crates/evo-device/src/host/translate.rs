//! From rendered CUDA source to a C++ translation unit, with the headers and flags it needs.
//!
//! The source is kept as it is, line for line, but for what C++ cannot say: `extern __shared__ T name[];` becomes a
//! pointer to the block's dynamic shared memory.

use evo_protocol::binary::KernelSource;
use evo_protocol::entry_name::{EntryName, base};
use evo_protocol::verdict::{Verdict, VerdictKind};

use super::headers::{self, SEE_HEADER};
use super::rewrite;

pub use super::headers::{SHIPPED_HEADERS, headers};
pub use super::lacking::about_missing;
pub use super::zones::pad;

/// Declarations of the C library that carry names for the assembler; sources that include other headers get them first.
const BEFORE_FENCE: &str =
    "#include <string.h>\n#include <wchar.h>\n#include <time.h>\n#include <pthread.h>\n#include <locale.h>\n";

/// Makes the preprocessor refuse inline assembly, also where it is pasted, spliced or made by a macro. The names
/// behind the three keywords are macros of headers that expand to them.
const ASSEMBLY_FENCE: &str =
    "#pragma GCC poison asm __asm __asm__ __REDIRECT __REDIRECT_NTH __REDIRECT_NTHNL EVO_FIELD\n";

/// Words of g++ and of clang++ about a name behind the fence.
const FENCE_WORDS: [&str; 2] = ["attempt to use poisoned \"", "attempt to use a poisoned identifier"];

pub fn about_assembly(log: &str) -> Option<&str> {
    log.lines().map(str::trim).find(|line| FENCE_WORDS.iter().any(|words| line.contains(words)))
}

/// In NVRTC's words, because it is the same mistake as there.
pub fn about_entry(log: &str, source: &KernelSource) -> Option<String> {
    let undeclared = |line: &&str| {
        let says = ["was not declared", "undeclared identifier", "no member named", "is not a member of"];
        line.contains(ENTRY_TABLE)
            && line.contains("error: ")
            && says.iter().any(|words| line.contains(words))
    };
    let line = log.lines().find(undeclared)?;
    let quoted = line.split(['\'', '`', '‘', '’']).nth(1)?;
    let entry =
        source.entries.iter().find(|entry| entry.split(['<', ':']).any(|part| part.trim() == quoted))?;
    let names = rewrite::kernel_names(&source.text);
    // A kernel of that name stands in a namespace, or behind a condition of the preprocessor.
    if names.iter().any(|name| name == quoted) {
        return None;
    }
    let has = if names.is_empty() { "has none".to_string() } else { format!("has {}", names.join(", ")) };
    Some(format!("no single kernel `{entry}` in `{}`; it {has}", source.file_name))
}

const ENTRY_TABLE: &str = "entry points";

/// A section that claims to hold intermediate code would have the linker compile it, past every other flag.
const NO_INTERMEDIATE_CODE: &str = "-fno-lto";

pub const LINK_FLAGS: [&str; 4] = [
    "-shared",
    // Their constructors and destructors would be the only ones in an honest module (`initializers.rs`).
    "-nostartfiles",
    "-Wl,-Bsymbolic,--as-needed",
    NO_INTERMEDIATE_CODE,
];

/// For object files, the same for every variant; the include folder, `-o` and the input are the caller's.
///
/// `-march=native` ties a binary to this processor, so a macro names the processor. Contraction to fused multiply-add
/// is allowed, as a GPU's compiler does; other liberties with floating point are not.
pub fn flags() -> Vec<String> {
    let mut flags: Vec<String> = [
        "-x",
        "c++",
        "-std=c++17",
        "-O2",
        "-march=native",
        // Some systems define it. The checked copies of the C library's functions then stand where the instrumented
        // build has its own, and clash with them.
        "-U_FORTIFY_SOURCE",
        "-ffp-contract=fast",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fno-strict-aliasing",
        // A null pointer is then an address like others, and using it a fault, as on a GPU.
        "-fno-delete-null-pointer-checks",
        "-fno-exceptions",
        "-fno-rtti",
        // `new` gives null where the device heap is full.
        "-fcheck-new",
        "-fno-threadsafe-statics",
        "-fno-semantic-interposition",
        "-fstack-clash-protection",
        // Unique symbols of shared memory in templates would keep a module from being unloaded.
        "-fvisibility=hidden",
        "-fPIC",
        NO_INTERMEDIATE_CODE,
        // Each shared variable is then a section of its own, which `zones::pad` can lengthen.
        "-fdata-sections",
        "-c",
        "-w",
    ]
    .map(String::from)
    .into();
    flags.push(format!("-DEVO_PROCESSOR=\"{}\"", super::machine::processor_key()));
    flags
}

/// Little is optimized, so that accesses stay those of the source; wide accesses of the compiler's own making would
/// look misaligned.
pub fn instrumented_flags(gcc: bool) -> Vec<String> {
    let mut flags: Vec<String> = flags().into_iter().filter(|flag| *flag != "-O2").collect();
    let own: &[&str] = match gcc {
        true => &[
            "--param=tsan-distinguish-volatile=1",
            "--param=tsan-instrument-func-entry-exit=0",
            // It would move a load in front of the condition under which the source reads.
            "-fno-tree-loop-im",
        ],
        false => &[
            "-mllvm",
            "-tsan-distinguish-volatile=1",
            "-mllvm",
            "-tsan-instrument-func-entry-exit=0",
            "-fno-vectorize",
            "-fno-slp-vectorize",
        ],
    };
    // A macro of the text would keep the compiler from taking the precompiled header.
    let common =
        ["-DEVO_INSTRUMENTED=1", "-O1", "-g1", "-gdwarf-4", "-fsanitize=thread,alignment,object-size"];
    flags.extend(common.iter().chain(own).map(|flag| flag.to_string()));
    flags
}

/// Of the flags that make an object file those that precompile a header for it; it is taken where they are the same.
pub fn header_flags(flags: &[String]) -> Vec<String> {
    let own = flags.iter().filter(|flag| !["-x", "c++", "-c"].contains(&flag.as_str()));
    ["-x", "c++-header"].map(String::from).into_iter().chain(own.cloned()).collect()
}

/// What a C++ compiler gets on its command line: include folders. NVRTC's own options (`--use_fast_math`,
/// `-maxrregcount`, …) are dropped; macros are written into the translation unit.
pub fn options(options: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        if option == "-I" {
            kept.push(option.clone());
            kept.extend(rest.next().cloned());
        } else if option.starts_with("-I") {
            kept.push(option.clone());
        } else if let Some(folder) = option.strip_prefix("--include-path=") {
            kept.push(format!("-I{folder}"));
        }
    }
    kept
}

/// Where no option names another: the limits of a launch are its, too, and `evo/ptx_sm90.cuh` has bodies for its
/// instructions here.
const ARCHITECTURE: u32 = 90;

/// What NVRTC defines before a source begins, so that a source takes the same branches on every device.
fn predefined(options: &[String]) -> String {
    let architecture = architecture(options).unwrap_or(ARCHITECTURE);
    let mut text =
        format!("#define __CUDA_ARCH__ {architecture}0\n#define __CUDA_ARCH_LIST__ {architecture}0\n");
    if architecture == ARCHITECTURE {
        text.push_str("#define __CUDA_ARCH_FEAT_SM90_ALL 1\n");
    }
    text.push_str("#define __CUDACC__ 1\n#define __CUDACC_RTC__ 1\n#define __NVCC_DIAG_PRAGMA_SUPPORT__ 1\n");
    text.push_str("#define __CUDACC_VER_MAJOR__ 13\n#define __CUDACC_VER_MINOR__ 0\n");
    text.push_str("#define CUDA_VERSION 13000\n#define CUDART_VERSION 13000\n");
    text
}

/// The compute capability that options ask for: 80 for `-arch=sm_80` or `--gpu-architecture=compute_80`; the last one counts.
fn architecture(options: &[String]) -> Option<u32> {
    let named = |at: usize| {
        let option = options[at].as_str();
        match ["--gpu-architecture", "-arch"].iter().find_map(|name| option.strip_prefix(name))? {
            "" => options.get(at + 1).map(String::as_str),
            value => value.strip_prefix('='),
        }
    };
    let number = |value: &str| {
        let digits = value.strip_prefix("sm_").or(value.strip_prefix("compute_"))?;
        digits.trim_end_matches(|letter: char| letter.is_ascii_alphabetic()).parse().ok()
    };
    (0..options.len()).rev().find_map(|at| named(at).and_then(number))
}

/// Macros stand behind our header, because on the command line a parameter named `N` would change the header itself,
/// and spoil its precompiled form.
fn directives(options: &[String]) -> String {
    let mut text = String::new();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        let (kind, name) = match option.as_str() {
            "-D" | "-U" => (&option[..2], rest.next().map_or("", String::as_str)),
            _ => match option.strip_prefix("--define-macro=") {
                Some(definition) => ("-D", definition),
                None => (option.get(..2).unwrap_or(""), option.get(2..).unwrap_or("")),
            },
        };
        let name = name.replace(['\n', '\r'], " ");
        match (kind, name.split_once('=')) {
            ("-D", Some((name, value))) => text.push_str(&format!("#define {name} {value}\n")),
            ("-D", None) => text.push_str(&format!("#define {name} 1\n")),
            ("-U", _) => text.push_str(&format!("#undef {name}\n")),
            _ => {}
        }
    }
    text
}

pub fn translation_unit(source: &KernelSource) -> Result<String, Box<Verdict>> {
    for entry in &source.entries {
        if EntryName::parse(entry).is_none() {
            let message = format!("`{entry}` cannot be the name of an entry point");
            return Err(Box::new(Verdict::new(VerdictKind::CompileError, message).with_cause("entry")));
        }
    }
    let rewritten = rewrite::rewrite(&source.text);
    let file_name = source.file_name.replace(['\\', '"', '\n'], "_");
    let mut text = String::with_capacity(rewritten.text.len() + 2048);
    text.push_str(SEE_HEADER);
    if source.instrumented {
        text.push_str("#include \"evo_instrument.h\"\n");
    }
    if includes_others(&source.text) {
        text.push_str(BEFORE_FENCE);
    }
    // Before the options' macros, because a parameter named `N` would change them.
    for name in headers::apart().filter(|name| includes(&source.text, name)) {
        text.push_str(&format!("#include <{name}>\n"));
    }
    // Before the options' macros too, since a macro that is older than the fence may still say `asm`.
    text.push_str(ASSEMBLY_FENCE);
    text.push_str(&predefined(&source.options));
    text.push_str(&directives(&source.options));
    // Compiler messages and barrier lines then count from the rendered kernel's first line.
    text.push_str(&format!("#line 1 \"{file_name}\"\n"));
    text.push_str(&rewritten.text);
    text.push_str(&format!("\n#line 1 \"{ENTRY_TABLE}\"\n"));
    if source.instrumented {
        text.push_str("#undef no_sanitize\n");
    }
    // A source that brings its own hash keeps it. Two definitions would not compile.
    if !source.text.contains("evo_variant_hash") {
        text.push_str(&format!(
            "extern \"C\" {{ extern const char evo_variant_hash[]; const char evo_variant_hash[] = \"{}\"; }}\n",
            source.variant_hash
        ));
    }
    text.push_str(&entry_table(source, &rewritten));
    Ok(text)
}

fn includes(text: &str, name: &str) -> bool {
    let named = |line: &str| line.contains(&format!("<{name}>")) || line.contains(&format!("\"{name}\""));
    text.lines().any(|line| line.contains("include") && named(line))
}

/// Whether a source includes more than headers that evo brings. Where the text does not tell, it does.
fn includes_others(text: &str) -> bool {
    let own = |line: &str| headers::plain().any(|name| line.contains(&format!("<{name}>")));
    text.lines().any(|line| line.contains("include") && !own(line))
}

fn entry_table(source: &KernelSource, rewritten: &rewrite::Rewritten) -> String {
    let mut text = String::from("static const evo_entry evo_entry_list[] = {\n");
    for entry in &source.entries {
        let bound = rewritten.launch_bounds.iter().find(|(name, _)| name == base(entry));
        // A bound of a template may be an argument of the template, which has no meaning here.
        let usable = |bound: &str| !entry.contains('<') || !bound.contains(char::is_alphabetic);
        let threads_max = bound.map_or("0", |(_, bound)| bound.as_str());
        let threads_max = if usable(threads_max) { threads_max } else { "0" };
        let function = match EntryName::parse(entry) {
            Some(name) if name.is_qualified() => name.expression(),
            _ => format!("evo_kernel(&{entry})"),
        };
        let launcher = format!("evo_launcher<decltype({function}), {function}>");
        text.push_str(&format!(
            "{{\"{entry}\", {launcher}::evo_run, {launcher}::evo_signature, {launcher}::evo_arity, (uint32_t)({threads_max})}},\n"
        ));
    }
    // C++ has no arrays without elements, so the list ends with one that is not counted.
    text.push_str("{0, 0, 0, 0, 0}};\n");
    text.push_str(&format!(
        "EVO_MODULE(evo_entry_list, {}, (const char*)evo_variant_hash, {}, \"{}\")\n",
        source.entries.len(),
        rewritten.shared_alignment,
        rewrite::kernel_names(&source.text).join(" ")
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str, entries: &[&str]) -> KernelSource {
        KernelSource::plain("k.cu", text, entries.iter().copied())
    }

    #[test]
    fn a_unit_has_its_parts_in_order() {
        let text = "#include <cstring>\n__global__ void __launch_bounds__(2 * N, 2) a(int x) {}\n__global__ void b() {}\n";
        let options = vec!["-DX=asm".to_string()];
        let own = KernelSource { options, instrumented: true, ..source(text, &["a", "b"]) };
        let unit = translation_unit(&own).unwrap();
        // Behind a macro, a precompiled header is not taken.
        assert!(unit.starts_with(SEE_HEADER), "{unit}");
        let mut rest = unit.as_str();
        for part in [
            "evo_instrument.h",
            "<string.h>",
            "poison asm",
            "#define X asm",
            "__global__ void __launch_bounds__",
            "#undef no_sanitize",
            "evo_variant_hash[] = ",
            "(uint32_t)(2 * N)",
            "{\"b\", evo_launcher<decltype(evo_kernel(&b)), evo_kernel(&b)>::evo_run",
            ", \"a b\")",
        ] {
            let (_, behind) = rest.split_once(part).unwrap_or_else(|| panic!("{part} in {unit}"));
            rest = behind;
        }
        let unit = translation_unit(&source(
            "#include <math.h>\nextern \"C\" const char evo_variant_hash[] = \"1\";",
            &[],
        ))
        .unwrap();
        assert_eq!(unit.matches("char evo_variant_hash[]").count(), 1, "a source with its own hash keeps it");
        assert!(!unit.contains("<string.h>") && !unit.contains("no_sanitize"));
        assert!(LINK_FLAGS.contains(&"-fno-lto"), "a section may claim to hold intermediate code");
        let flags = instrumented_flags(true);
        assert!(flags.contains(&"-DEVO_INSTRUMENTED=1".to_string()) && !flags.contains(&"-O2".to_string()));
    }

    #[test]
    fn a_strange_entry_name_is_a_compile_error() {
        let verdict = translation_unit(&source("", &["a\"; system("])).unwrap_err();
        assert_eq!(verdict.label(), "compile_error:entry");
    }

    #[test]
    fn a_source_takes_the_branches_of_the_architecture_that_is_asked_for() {
        let asked = |options: &[&str]| {
            let options: Vec<String> = options.iter().map(|option| option.to_string()).collect();
            let text = predefined(&options);
            let line = text.lines().next().unwrap().to_string();
            (line, text.contains("FEAT_SM90_ALL"))
        };
        let line = |number: &str| format!("#define __CUDA_ARCH__ {number}");
        assert_eq!(asked(&[]), (line("900"), true));
        assert_eq!(asked(&["-arch=sm_80"]), (line("800"), false));
        assert_eq!(asked(&["-arch=sm_80", "--gpu-architecture", "compute_90a"]), (line("900"), true));
        assert_eq!(asked(&["-DA", "--gpu-architecture=compute_120f"]), (line("1200"), false));
        assert_eq!(asked(&["-arch=native"]), (line("900"), true));
    }

    #[test]
    fn a_mistyped_entry_is_told_as_nvrtc_tells_it() {
        let own = source("__global__ void conv2d() {}\ntemplate <int N> __global__ void t() {}", &["conv2"]);
        let gcc = "entry points:2:34: error: ‘conv2’ was not declared in this scope; did you mean ‘conv2d’?\n\
                   entry points:2:48: error: template argument 1 is invalid";
        let expected = "no single kernel `conv2` in `k.cu`; it has conv2d, t";
        assert_eq!(about_entry(gcc, &own).as_deref(), Some(expected));
        let clang = "entry points:2:34: error: use of undeclared identifier 'conv2'; did you mean 'conv2d'?";
        assert_eq!(about_entry(clang, &own).as_deref(), Some(expected));
        assert_eq!(about_entry("k.cu:2:34: error: ‘conv2’ was not declared in this scope", &own), None);
        assert_eq!(about_entry(gcc, &source("namespace a { __global__ void conv2(); }", &["conv2"])), None);
    }

    #[test]
    fn macros_become_directives_and_includes_stay_options() {
        let given = "-DA=1 --use_fast_math -D B=x=2 -I/x --define-macro=C=3 -DF(x)=x -DD -UA";
        let given: Vec<String> = given.split(' ').map(String::from).collect();
        assert_eq!(options(&given), ["-I/x"]);
        assert_eq!(
            directives(&given),
            "#define A 1\n#define B x=2\n#define C 3\n#define F(x) x\n#define D 1\n#undef A\n"
        );
    }
}
