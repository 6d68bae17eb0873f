//! The one check of names that become file names, columns and lines of reports.

/// Longest name, in characters. Names of studies are made of two, and files allow 255 bytes.
pub const LABEL_MAX: usize = 100;

pub const LABEL_HINT: &str = "use up to 100 letters, digits, `.`, `-` and `_`, and no `.` at the start";

/// No dot at the start, because `.` and `..` are folders and other such files are hidden.
pub fn is_label(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    !text.is_empty() && text.len() <= LABEL_MAX && text.chars().all(plain) && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_short() {
        for good in ["k", "gemm-f16.v2", "128", "_x", "-x", &"a".repeat(LABEL_MAX)] {
            assert!(is_label(good), "{good}");
        }
        let long = "a".repeat(LABEL_MAX + 1);
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "a\u{1b}[2J", "é", "a\n", "=1", "../x", &long] {
            assert!(!is_label(bad), "{bad}");
        }
    }
}
