//! Words of a command line that a person copies into a shell.

use std::borrow::Cow;

/// A word as a shell reads it back: in quotes where it holds more than names and numbers do.
pub fn quote(word: &str) -> Cow<'_, str> {
    let plain = |letter: char| letter.is_alphanumeric() || "_-./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        let check = |word: &str, expected: &str| assert_eq!(quote(word), expected);
        check("BLOCK_M=32", "BLOCK_M=32");
        check("dir/häß.toml", "dir/häß.toml");
        check("sp ace/k.toml", "'sp ace/k.toml'");
        check("it's", r"'it'\''s'");
        check("", "''");
        check("$HOME;", "'$HOME;'");
    }
}
