//! Versions as tools print them.

use std::fmt::{self, Display, Formatter};

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
        let read = |text: &str| ToolVersion::first_in(text).map(|version| version.to_string());
        let sanitizer = "NVIDIA (R) Compute Sanitizer\nCopyright (c) 2020-2026 NVIDIA Corporation\n\
                         Version 2026.4.0.0 (build 39022338) (public-release)\n";
        assert_eq!(read(sanitizer).as_deref(), Some("2026.4.0.0"));
        let nvcc =
            "Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.36424714_0\n";
        assert_eq!(read(nvcc).as_deref(), Some("13.0"));
        assert_eq!(read("git version 2.43.0-rc1").as_deref(), Some("2.43.0"));
        assert_eq!(read("Python 3.12.3+\n").as_deref(), Some("3.12.3"));
        assert_eq!(read("1.11.1\n").as_deref(), Some("1.11.1"));
        for nothing in ["", "no numbers", "2024", "1.", "99999999999.1", "\u{fc}.1"] {
            assert_eq!(read(nothing), None, "{nothing:?}");
        }
        assert!(ToolVersion::of(&[2025, 10]) > ToolVersion::of(&[2025, 9, 3]));
    }
}
