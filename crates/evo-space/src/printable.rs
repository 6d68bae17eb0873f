//! Text of unknown origin on its way to a terminal.
//!
//! Names, values, help texts and compiler messages come from files that evo did not write. A terminal obeys
//! escape sequences in them: it changes colors and titles, and some write what they are told to the input.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with every character that a terminal would obey written as `\u001b`. Line ends and tabs stay.
///
/// Inside strings of JSON the result means the same as before.
///
/// ```
/// use evo_space::printable::printable;
///
/// assert_eq!(printable("a\tb\n"), "a\tb\n");
/// assert_eq!(printable("\x1b[2Jgone"), r"\u001b[2Jgone");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_obeyed(letter) {
            // All of them are below 2^16, so that four digits do.
            let _ = write!(shown, "\\u{:04x}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// The same in one line: line ends and tabs are written as `\n` and `\t` too.
///
/// ```
/// use evo_space::printable::printable_line;
///
/// assert_eq!(printable_line("a\tb\nc"), r"a\tb\nc");
/// ```
pub fn printable_line(text: &str) -> String {
    printable(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// At most about `limit` characters of a text: its begin and its end.
pub fn shortened(text: &str, limit: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= limit {
        return Cow::Borrowed(text);
    }
    let tail: String = text.chars().skip(count - limit / 3).collect();
    let head: String = text.chars().take(limit - limit / 3).collect();
    Cow::Owned(format!("{head} … {tail}"))
}

/// Control characters, and those that reverse the direction of the text around them.
fn is_obeyed(letter: char) -> bool {
    let reverses =
        matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() && !matches!(letter, '\n' | '\t') || reverses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_terminal_obeys_is_written_out() {
        let check = |text: &str, expected: &str| assert_eq!(printable(text), expected);
        check("plain é 日本 …", "plain é 日本 …");
        check("\r\x07\x7f\u{9b}31m", r"\u000d\u0007\u007f\u009b31m");
        check("a\u{202e}b", r"a\u202eb");
        check("\x1b]0;title\x07", r"\u001b]0;title\u0007");
    }

    #[test]
    fn long_texts_keep_both_ends() {
        assert_eq!(shortened("short", 10), "short");
        let text = format!("begin{}end", "é".repeat(1000));
        let shown = shortened(&text, 30);
        assert!(shown.starts_with("beginé") && shown.ends_with("éend"), "{shown}");
        assert!(shown.chars().count() < 40, "{shown}");
    }
}
