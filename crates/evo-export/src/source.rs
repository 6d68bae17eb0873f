//! The kernel's source as a file that compiles by itself: no macro is left to set, and evo's own header is gone.

use evo_protocol::binary::{HEADER_END, KernelSource};

#[derive(Clone, Debug, PartialEq)]
pub struct PlainSource {
    pub text: String,
    /// Options that the compiler needs beside it: no macros, no folders.
    pub options: Vec<String>,
    pub includes: Vec<String>,
}

/// Takes evo's header off a rendered source and writes the macros of its options into it.
pub fn plain(source: &KernelSource, title: &[String]) -> PlainSource {
    let body = source.text.split_once(HEADER_END).map_or(source.text.as_str(), |(_, body)| body);
    let body = match body.split_once('\n') {
        Some((first, rest)) if first.starts_with("#line ") => rest,
        _ => body,
    };
    let mut text: String = title.iter().map(|line| format!("// {}\n", one_line(line))).collect();
    let (macros, others): (Vec<&String>, Vec<&String>) = source
        .options
        .iter()
        .partition(|option| option.starts_with("-D") || option.starts_with("--define-macro="));
    if !macros.is_empty() {
        text.push('\n');
    }
    for option in macros {
        let given = option.trim_start_matches("--define-macro=").trim_start_matches("-D");
        let (name, value) = given.split_once('=').unwrap_or((given, "1"));
        text.push_str(&format!("#define {name} {value}\n"));
    }
    text.push('\n');
    text.push_str(&body.replace("#include <evo/", "#include \"evo/").lines().map(closed).collect::<String>());
    let is_folder = |option: &&&String| option.starts_with("-I") || option.starts_with("--include-path=");
    PlainSource {
        options: others.iter().filter(|own| !is_folder(own)).map(|own| own.to_string()).collect(),
        includes: includes(&text),
        text,
    }
}

/// A line of which the include of one of evo's headers, now opened by a quote, is closed by one.
fn closed(line: &str) -> String {
    match line.starts_with("#include \"evo/") {
        true => format!("{}\n", line.replacen('>', "\"", 1)),
        false => format!("{line}\n"),
    }
}

/// A header of evo's, for a folder `evo` that holds all of them: they include each other as neighbors, so that no compiler
/// has to be told of the folder.
pub fn neighboring(header: &str) -> String {
    let line = |line: &str| match line.strip_prefix("#include <evo/") {
        Some(rest) => format!("#include \"{}\n", rest.replacen('>', "\"", 1)),
        None => format!("{line}\n"),
    };
    header.lines().map(line).collect()
}

pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '\\' { '?' } else { c }).collect()
}

pub fn includes(text: &str) -> Vec<String> {
    let named = |line: &str| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let close = if rest.starts_with('<') { '>' } else { '"' };
        let rest = rest.strip_prefix(['<', '"'])?;
        Some(rest.split(close).next()?.to_string())
    };
    text.lines().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_are_baked_in_and_the_header_is_gone() {
        let text = format!(
            "// evo: k\n{HEADER_END}#line 1 \"k.cu\"\n#include <evo/ptx.cuh>\n#include \"a.h\"\nint a[A];\n"
        );
        let source = KernelSource {
            options: ["-DA=4", "-DB", "--use_fast_math", "-Ifolder"].map(String::from).into(),
            ..KernelSource::plain("k.cu", text, [""; 0])
        };
        let found = plain(&source, &["k A=4".to_string()]);
        assert_eq!(
            found.text,
            "// k A=4\n\n#define A 4\n#define B 1\n\n#include \"evo/ptx.cuh\"\n#include \"a.h\"\nint a[A];\n"
        );
        assert_eq!(found.options, ["--use_fast_math"]);
        assert_eq!(found.includes, ["evo/ptx.cuh", "a.h"]);
    }

    #[test]
    fn headers_of_evo_find_each_other_without_a_folder() {
        let own = "#pragma once\n#include <cuda.h>\n#include <evo/ptx_sm90.cuh>  // more\nint a;\n";
        let expected = "#pragma once\n#include <cuda.h>\n#include \"ptx_sm90.cuh\"  // more\nint a;\n";
        assert_eq!(neighboring(own), expected);
    }
}
