//! Files that people name where a space file is wanted: a kernel's source, or a file in another notation. Read as TOML,
//! they would give an error for each line and not the one that helps.

use std::fs;
use std::path::Path;

/// Files of a folder that are looked at for one that names a source, and the longest that is.
const LOOKED_AT: usize = 200;
const SPACE_BYTES: u64 = 1 << 20;

/// What a file is instead of a space, and what to do.
#[derive(Debug)]
pub(super) struct OtherKind {
    pub what: &'static str,
    pub hint: String,
}

/// What the name of a file says that it is, if that rules out a space; `None` where there is no such file.
pub(super) fn of(path: &Path) -> Option<OtherKind> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let what = match extension.as_str() {
        "cu" | "cuh" => "CUDA source",
        "c" | "cc" | "cpp" | "cxx" | "h" | "hpp" => "C++ source",
        "j2" | "jinja" => "a template",
        "ptx" | "cubin" | "so" => "compiled code",
        "py" => "Python",
        "yaml" | "yml" => "YAML",
        "jsonl" => "a list of JSON objects",
        _ => return None,
    };
    if !path.is_file() {
        return None;
    }
    let hint = match what {
        "CUDA source" | "C++ source" | "a template" => about_source(path, what),
        "compiled code" => {
            "evo compiles variants from source: name a space file with `source = \"my.cu\"`".to_string()
        }
        "YAML" => "write the same keys as TOML or JSON".to_string(),
        _ => "name the space file, `my_space.toml` or `my_space.json`".to_string(),
    };
    Some(OtherKind { what, hint })
}

/// The space files beside a source that name it, else how such a file begins.
fn about_source(path: &Path, what: &str) -> String {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return "name the space file".to_string();
    };
    let spaces = spaces_of(path, name);
    if let Some(first) = spaces.first() {
        return format!("`{first}` is a space file that names it");
    }
    if what == "CUDA source" {
        return format!(
            "a space file says what is tuned, how the kernel is launched and what a correct answer is; `evo init {name}` \
             writes a first one"
        );
    }
    let key = if what == "a template" { "template" } else { "source" };
    format!(
        "a space file says what is tuned, how the kernel is launched and what a correct answer is; write one with \
         `{key} = \"{name}\"` in `[kernel]` and name that"
    )
}

fn spaces_of(path: &Path, name: &str) -> Vec<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let quoted = format!("\"{name}\"");
    let is_space = |own: &Path| own.extension().is_some_and(|end| end == "toml" || end == "json");
    let names_it = |own: &Path| {
        let is_short = fs::metadata(own).is_ok_and(|found| found.is_file() && found.len() <= SPACE_BYTES);
        is_short
            && fs::read_to_string(own).is_ok_and(|text| text.contains("kernel") && text.contains(&quoted))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().take(LOOKED_AT).flatten();
    let paths = entries.map(|entry| path.with_file_name(entry.file_name()));
    let mut found: Vec<String> =
        paths.filter(|own| is_space(own) && names_it(own)).map(|own| own.display().to_string()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_told_from_a_space_and_leads_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let OtherKind { what, hint } = of(&path).unwrap();
            let told = format!("{what}; {hint}");
            told.replace(&folder.path().display().to_string(), "")
        };
        let kernel = "extern \"C\" __global__ void k() {}";
        assert_eq!(
            said("k.cu", kernel),
            "CUDA source; a space file says what is tuned, how the \
             kernel is launched and what a correct answer is; `evo init k.cu` writes a first one"
        );
        std::fs::write(folder.path().join("mine.toml"), "[kernel]\nsource = \"k.cu\"\n").unwrap();
        assert!(said("k.cu", kernel).ends_with("; `/mine.toml` is a space file that names it"));
        assert!(of(&folder.path().join("none.cu")).is_none(), "a file that is not there");
        assert_eq!(said("k.yaml", "kernel:\n  name: k\n"), "YAML; write the same keys as TOML or JSON");
    }
}
