//! Lines of a source on which threads meet in memory on purpose.
//!
//! racecheck calls two accesses a race where no barrier lies between them, though one of them be a flag that the other
//! waits for, or a lock. By the memory model of PTX (ISA, "Memory Consistency Model") such accesses are *strong*: volatile, atomic,
//! relaxed, acquire or release, and two strong accesses are never a data race. Machine code does not tell them from
//! weak ones; PTX does.

use std::collections::{BTreeMap, BTreeSet};

use evo_device::binary_notes;

/// Words of an instruction that goes to a thread's own memory or to what nobody writes.
const ELSEWHERE: [&str; 3] = ["param", "local", "const"];
const STRONG: [&str; 4] = ["volatile", "relaxed", "acquire", "release"];

/// Lines, as `k.cu:6`, whose every access to shared memory is strong, or to global memory where they have no other. The
/// name is the file's without its folders, so what two files of one name say counts for both.
pub fn strong_lines(ptx: &[u8]) -> Vec<String> {
    let ptx = String::from_utf8_lossy(ptx);
    // Most kernels have nothing of the kind, and their PTX may be long.
    if !STRONG.iter().chain(&["atom.", "red.", "mbarrier."]).any(|word| ptx.contains(word)) {
        return Vec::new();
    }
    let files: BTreeMap<&str, &str> = ptx.lines().filter_map(file).collect();
    // Whether all that was seen on a line in shared and in global memory is strong.
    let mut seen: BTreeMap<(&str, &str), [Option<bool>; 2]> = BTreeMap::new();
    let mut place = None;
    for line in ptx.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix(".loc") {
            let mut words = rest.split_whitespace();
            place = words.next().zip(words.next());
        } else if [".entry", ".func"].iter().any(|word| line.contains(word)) {
            place = None;
        } else if let (Some((is_global, strong)), Some((number, own))) = (access(line), place)
            && let Some(file) = files.get(number)
        {
            *seen.entry((*file, own)).or_default()[usize::from(is_global)].get_or_insert(true) &= strong;
        }
    }
    let strong = seen.into_iter().filter(|(_, [shared, global])| shared.or(*global) == Some(true));
    strong.map(|((file, line), _)| format!("{file}:{line}")).collect()
}

pub fn strong_in_all(binaries: &[Vec<u8>]) -> BTreeSet<String> {
    let mut sets = binaries
        .iter()
        .map(|binary| binary_notes::strong_lines(binary).map(String::from).collect::<BTreeSet<_>>());
    let first = sets.next().unwrap_or_default();
    sets.fold(first, |all, own| all.intersection(&own).cloned().collect())
}

/// Compilers and tools write folders differently.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `.file 1 "k.cu"`.
fn file(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.trim().strip_prefix(".file")?.trim().split_once(char::is_whitespace)?;
    let path = rest.split('"').nth(1)?;
    Some((number, base_name(path)))
}

/// Whether an instruction accesses global memory (or what may be shared memory), and whether that is strong.
fn access(line: &str) -> Option<(bool, bool)> {
    let line = match line.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace)?.1.trim_start(),
        None => line,
    };
    let operation = line.split([' ', '\t', ';']).next()?;
    // A declaration.
    if operation.starts_with('.') {
        return None;
    }
    // `shared::cta` is shared, and so on.
    let words: Vec<&str> = operation.split('.').map(|word| word.split("::").next().unwrap_or(word)).collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    // Without a word the address is generic and may be shared.
    let is_global = has(&["global"]) && !has(&["shared"]);
    let strong = match words[0] {
        "ld" | "st" if has(&ELSEWHERE) => None,
        "atom" | "red" | "mbarrier" => Some(true),
        "ld" | "st" => Some(has(&STRONG)),
        "wmma" => has(&["load", "store"]).then_some(false),
        // Copies and matrices.
        _ => has(&["shared", "global"]).then_some(false),
    };
    strong.map(|strong| (is_global, strong))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evo_protocol::binary::KernelSource;

    const PTX: &str = include_str!("strong.ptx");

    #[test]
    fn a_line_is_strong_only_if_all_of_it_is() {
        assert_eq!(
            strong_lines(PTX.as_bytes()),
            ["flags.h:6", "k.cu:11", "k.cu:12", "k.cu:3", "k.cu:6", "k.cu:8"]
        );
        // Two files of one name.
        let merged = strong_lines(PTX.replace("flags.h", "x/k.cu").as_bytes());
        assert_eq!(merged, ["k.cu:11", "k.cu:12", "k.cu:3", "k.cu:6", "k.cu:8"]);
        let weak = PTX.replace("flags.h", "k.cu").replace("atom.shared::cta.exch.b32", "ld.shared.u32");
        assert_eq!(strong_lines(weak.as_bytes()), ["k.cu:11", "k.cu:12", "k.cu:3", "k.cu:8"]);
        assert_eq!(strong_lines(b""), Vec::<String>::new());
    }

    #[test]
    fn builds_of_one_source_must_agree() {
        let kept = |lines: &[&str]| {
            let mut binary = b"ELF".to_vec();
            let strong_lines = lines.iter().map(|line| line.to_string()).collect();
            binary_notes::BinaryNotes { strong_lines, ..Default::default() }.append(&mut binary);
            binary
        };
        let both = strong_in_all(&[kept(&["k.cu:3", "k.cu:6"]), kept(&["k.cu:6"])]);
        assert_eq!(both.into_iter().collect::<Vec<_>>(), ["k.cu:6"]);
        assert!(strong_in_all(&[kept(&["k.cu:3"]), kept(&[])]).is_empty());
        assert!(strong_in_all(&[]).is_empty());
    }

    #[test]
    fn lines_where_threads_meet_on_purpose_are_kept_behind_the_code() {
        let Some(nvrtc) = crate::nvrtc_for("lines of flags") else { return };
        let lines = |flag: &str| {
            let text = format!(
                "extern \"C\" __global__ void spin(float* y) {{ __shared__ {flag} int f; __shared__ float d[64];\n\
                 if (threadIdx.x == 0) f = 0;\n__syncthreads();\nif (threadIdx.x == 64) {{\n\
                 d[y[1] > 0] = y[2];\n__threadfence_block();\nf = 1; }}\nif (threadIdx.x == 0) {{\n\
                 while (!f) {{}}\n__threadfence_block();\ny[0] = d[y[3] > 0]; }} }}\n"
            );
            let source = KernelSource::plain("spin.cu", text, ["spin"]);
            let (bytes, _) = nvrtc.compile(&source, "sm_80").unwrap();
            strong_in_all(&[bytes]).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(lines("volatile"), ["spin.cu:2", "spin.cu:7", "spin.cu:9"]);
        assert!(lines("").is_empty());
    }
}
