//! The outside programs that evo knows, and versions as they print them.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::{Display, Formatter};
use std::path::PathBuf;

use evo_protocol::words;

words! {
    #[derive(Hash)]
    ToolKind {
        Ncu = "ncu",
        ComputeSanitizer = "compute-sanitizer",
        Nvcc = "nvcc",
        Python = "python3",
        Ninja = "ninja",
        Git = "git",
    }
}

#[derive(Default)]
pub(super) struct ToolRow {
    variable: Option<&'static str>,
    /// Folders below a CUDA toolkit in which it may lie. A `*` stands for one folder, the newest first.
    pub toolkit_folders: &'static [&'static str],
    /// The same below the root.
    pub own_folders: &'static [&'static str],
    /// The same below Python's packages: pip's `nvidia` packages.
    pub package_folders: &'static [&'static str],
    /// What its `--version` says beside the numbers: another program of that name is not taken for it.
    pub mark: &'static str,
    /// Whether its options are read from its `--help`: those that a version lacks are left out.
    pub has_options: bool,
    oldest: [u32; 2],
}

impl ToolKind {
    pub(super) fn row(self) -> ToolRow {
        match self {
            ToolKind::Ncu => ToolRow {
                variable: Some("EVO_NCU"),
                toolkit_folders: &["bin", "nsight-compute", "nsight-compute-*"],
                own_folders: &["opt/nvidia/nsight-compute/*"],
                package_folders: &["nvidia/*/bin", "nvidia/nsight_compute/*"],
                mark: "Nsight Compute",
                has_options: true,
                // That of CUDA 11.8, with which sm_90 came.
                oldest: [2022, 3],
            },
            ToolKind::ComputeSanitizer => ToolRow {
                variable: Some("EVO_COMPUTE_SANITIZER"),
                toolkit_folders: &["bin", "compute-sanitizer"],
                package_folders: &["nvidia/*/bin", "nvidia/*/compute-sanitizer"],
                mark: "Compute Sanitizer",
                has_options: true,
                // Older ones were not looked at; what a newer one lacks shows in its options.
                oldest: [2022, 1],
                ..ToolRow::default()
            },
            ToolKind::Nvcc => ToolRow {
                toolkit_folders: &["bin"],
                package_folders: &["nvidia/*/bin"],
                mark: "Cuda compiler driver",
                oldest: [12, 0],
                ..ToolRow::default()
            },
            ToolKind::Python => ToolRow {
                variable: Some("EVO_PYTHON"),
                mark: "Python 3",
                oldest: [3, 9],
                ..ToolRow::default()
            },
            ToolKind::Ninja => ToolRow { oldest: [1, 8], ..ToolRow::default() },
            ToolKind::Git => ToolRow { mark: "git version", oldest: [1, 8], ..ToolRow::default() },
        }
    }

    pub fn variable(self) -> Option<&'static str> {
        self.row().variable
    }

    pub fn oldest(self) -> ToolVersion {
        ToolVersion::of(&self.row().oldest)
    }

    pub(super) fn install_hint(self) -> String {
        match (self, self.variable()) {
            (ToolKind::ComputeSanitizer, _) => {
                "pip install nvidia-cuda-sanitizer-api, install a CUDA toolkit, or set EVO_COMPUTE_SANITIZER"
                    .to_string()
            }
            (_, Some(variable)) => format!("install it, or set {variable} to the program"),
            (_, None) => format!("install it, or put `{}` on the PATH", self.as_str()),
        }
    }
}

#[derive(Clone, Debug)]
pub struct FoundTool {
    pub kind: ToolKind,
    pub path: PathBuf,
    pub version: ToolVersion,
    /// Its long options, such as `--xml`; empty where nobody asks for them.
    pub options: BTreeSet<String>,
}

/// The numbers of a version: `2025.3.1.0`, `13.0.88`, `3.12.3`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolVersion(Vec<u32>);

impl ToolVersion {
    /// The first version in a text: two or more numbers with dots between them, after an optional `V` or `v`.
    pub fn first_in(text: &str) -> Option<ToolVersion> {
        let words = text.split(|letter: char| letter.is_whitespace() || ",()".contains(letter));
        words.filter_map(ToolVersion::of_word).find(|version| version.0.len() > 1)
    }

    pub fn of(numbers: &[u32]) -> ToolVersion {
        ToolVersion(numbers.to_vec())
    }

    fn of_word(word: &str) -> Option<ToolVersion> {
        let word = word.strip_prefix(['V', 'v']).unwrap_or(word);
        // What follows the numbers is the packager's: `2.43.0-rc1`, `3.12.3+`.
        let end = word.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(word.len());
        let numbers = word[..end].trim_end_matches('.');
        let numbers: Result<Vec<u32>, _> = numbers.split('.').map(str::parse).collect();
        numbers.ok().map(ToolVersion)
    }
}

impl Display for ToolVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&words.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_tools_print() {
        let sanitizer = "NVIDIA (R) Compute Sanitizer\nCopyright (c) 2020-2026 NVIDIA Corporation\n\
                         Version 2026.4.0.0 (build 39022338) (public-release)\n";
        let nvcc =
            "Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.36424714_0\n";
        let plain = ["git version 2.43.0-rc1", "Python 3.12.3+\n", "1.11.1\n"];
        let nothing = ["", "no numbers", "2024", "1.", "99999999999.1", "\u{fc}.1"];
        let told = [sanitizer, nvcc].into_iter().chain(plain).chain(nothing).map(|text| {
            let version = ToolVersion::first_in(text).map(|version| version.to_string());
            format!("{text:?}: {version:?}")
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
        assert!(ToolVersion::of(&[2025, 10]) > ToolVersion::of(&[2025, 9, 3]));
    }
}
