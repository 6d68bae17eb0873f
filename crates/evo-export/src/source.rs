//! The kernel's source as a file that compiles by itself: no macro is left to set, and evo's own header is gone.

use evo_protocol::binary::{HEADER_END, KernelSource};

#[derive(Clone, Debug, PartialEq)]
pub struct PlainSource {
    pub text: String,
    /// Options that the compiler needs beside it: no macros, no folders.
    pub options: Vec<String>,
}

/// Takes evo's header off a rendered source and writes the macros of its options into it.
pub fn plain(source: &KernelSource, title: &[String]) -> PlainSource {
    let body = source.text.split_once(HEADER_END).map_or(source.text.as_str(), |(_, body)| body);
    let body = match body.split_once('\n') {
        Some((first, rest)) if first.starts_with("#line ") => rest,
        _ => body,
    };
    let mut text: String = title.iter().map(|line| format!("// {}\n", one_line(line))).collect();
    let is_macro = |option: &&String| option.starts_with("-D") || option.starts_with("--define-macro=");
    let (macros, others): (Vec<&String>, Vec<&String>) = source.options.iter().partition(is_macro);
    if !macros.is_empty() {
        text.push('\n');
    }
    for option in macros {
        let given = option.trim_start_matches("--define-macro=").trim_start_matches("-D");
        let (name, value) = given.split_once('=').unwrap_or((given, "1"));
        text.push_str(&format!("#define {name} {value}\n"));
    }
    text.push('\n');
    text.push_str(&neighboring(body, "evo/"));
    let is_folder = |option: &String| option.starts_with("-I") || option.starts_with("--include-path=");
    let options = others.into_iter().filter(|option| !is_folder(option)).cloned().collect();
    PlainSource { text, options }
}

/// A text that includes evo's headers in quotes, from `folder`: so no compiler has to be told where they are, and headers
/// find each other as neighbors.
pub fn neighboring(text: &str, folder: &str) -> String {
    let line = |line: &str| match line.strip_prefix("#include <evo/") {
        Some(rest) => format!("#include \"{folder}{}\n", rest.replacen('>', "\"", 1)),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '\\' { '?' } else { c }).collect()
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
    }

    #[test]
    fn headers_of_evo_find_each_other_without_a_folder() {
        let own = "#pragma once\n#include <cuda.h>\n#include <evo/ptx_sm90.cuh>  // more\nint a;\n";
        let expected = "#pragma once\n#include <cuda.h>\n#include \"ptx_sm90.cuh\"  // more\nint a;\n";
        assert_eq!(neighboring(own, ""), expected);
    }
}
