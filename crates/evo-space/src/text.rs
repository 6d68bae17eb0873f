//! How messages are written: what a terminal would obey, counts with their nouns, words for a shell, and what to
//! write in a file of either notation.
//!
//! Names, values, help texts and compiler messages come from files that evo did not write. A terminal obeys
//! escape sequences in them: it changes colors and titles, and some write what they are told to the input.

use std::borrow::Cow;
use std::fmt::Display;

/// Every character that a terminal would obey is written as `\u001b`. Line ends and tabs stay. Inside strings of JSON
/// the result means the same as before.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_obeyed(letter) {
            // All of them are below 2^16, so that four digits do.
            true => shown.push_str(&format!("\\u{:04x}", u32::from(letter))),
            false => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// The same in one line: line ends and tabs are written as `\n` and `\t` too.
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

/// A count with its noun, which is given in the singular.
pub fn counted<N: Display>(count: N, noun: &str) -> String {
    let count = count.to_string();
    match (count.as_str(), noun.strip_suffix('y')) {
        ("1", _) => format!("1 {noun}"),
        // `entry`, but not `key`.
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        _ if noun.ends_with('s') || noun.ends_with("sh") || noun.ends_with("ch") => {
            format!("{count} {noun}es")
        }
        _ => format!("{count} {noun}s"),
    }
}

/// Names or values in backticks, with commas between them.
pub fn quoted<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A word as a shell reads it back: in quotes where it holds more than names and numbers do.
pub fn quote(word: &str) -> Cow<'_, str> {
    let plain = |letter: char| letter.is_alphanumeric() || "_-./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

const SECTIONS: &str =
    "arguments check constraints diagnose goals kernel launches objective parameters peers problems";

/// Whether a text is JSON: no TOML file begins with a brace.
pub(crate) fn is_json(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
}

pub(crate) fn as_json(hint: &str) -> String {
    let mut text = hint.replace("and below it", "with");
    for section in SECTIONS.split(' ') {
        text = text.replace(&format!("[[{section}]] table"), &format!("object in \"{section}\": […]"));
        text = text.replace(&format!("[[{section}]]"), &format!("\"{section}\": [{{…}}]"));
        text = text.replace(&format!("[{section}]"), &format!("\"{section}\": {{…}}"));
    }
    objects(&text)
}

pub(crate) fn objects(message: &str) -> String {
    let words = [("a table", "an object"), ("tables", "objects"), ("table", "object")];
    keys(&words.iter().fold(message.to_string(), |text, (toml, json)| text.replace(toml, json)))
}

/// `name = ` becomes `"name": `, outside quoted texts.
fn keys(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 8);
    let mut rest = text;
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    while let Some(at) = rest.find(" = ") {
        let (before, after) = rest.split_at(at);
        let word = before.len() - before.trim_end_matches(is_word).len();
        let (lead, name) = before.split_at(before.len() - word);
        let is_quoted = format!("{shown}{lead}").matches('"').count() % 2 == 1;
        shown.push_str(lead);
        shown += &if name.is_empty() || is_quoted { format!("{name} = ") } else { format!("\"{name}\": ") };
        rest = &after[3..];
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_terminal_obeys_is_written_out() {
        let check = |text: &str, expected: &str| assert_eq!(printable(text), expected);
        check("plain\té 日本 …\n", "plain\té 日本 …\n");
        check("\r\x07\x7f\u{9b}31m", r"\u000d\u0007\u007f\u009b31m");
        check("a\u{202e}b", r"a\u202eb");
        check("\x1b]0;title\x07", r"\u001b]0;title\u0007");
        assert_eq!(printable_line("a\tb\nc"), r"a\tb\nc");
    }

    #[test]
    fn long_texts_keep_both_ends() {
        assert_eq!(shortened("short", 10), "short");
        let text = format!("begin{}end", "é".repeat(1000));
        let shown = shortened(&text, 30);
        assert!(shown.starts_with("beginé") && shown.ends_with("éend"), "{shown}");
        assert!(shown.chars().count() < 40, "{shown}");
    }

    #[test]
    fn only_one_is_singular() {
        let check = |count: u32, noun: &str, expected: &str| assert_eq!(counted(count, noun), expected);
        check(0, "compile process", "0 compile processes");
        check(12, "entry", "12 entries");
        check(1, "evaluation", "1 evaluation");
        check(21, "key", "21 keys");
        check(2, "branch", "2 branches");
        check(1, "entry", "1 entry");
    }

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        let words = ["BLOCK_M=32", "dir/häß.toml", "sp ace/k.toml", "it's", "", "$HOME;"];
        let expected = ["BLOCK_M=32", "dir/häß.toml", "'sp ace/k.toml'", r"'it'\''s'", "''", "'$HOME;'"];
        assert_eq!(words.map(quote), expected);
    }

    #[test]
    fn hints_are_respelled() {
        let check = |hint: &str, expected: &str| assert_eq!(as_json(hint), expected);
        check("add [[problems]] with name and sizes", "add \"problems\": [{…}] with name and sizes");
        check("add an [[arguments]] table for each", "add an object in \"arguments\": […] for each");
        check("add [check] with reference = …: why", "add \"check\": {…} with \"reference\": …: why");
        check("add sizes = { N = 1024 }", "add \"sizes\": { \"N\": 1024 }");
        check("write `[parameters]` and below it `A = [1]`", "write `\"parameters\": {…}` with `\"A\": [1]`");
        check("write `require = \"A = B\"`", "write `\"require\": \"A = B\"`");
        check("a single value is a list too: `[4]`", "a single value is a list too: `[4]`");
        let tables = "it is a table, expected a list of tables";
        assert_eq!(objects(tables), "it is an object, expected a list of objects");
    }

    #[test]
    fn a_brace_tells_json_from_toml() {
        assert!(is_json("\u{feff} \n{\"a\": 1}"));
        assert!(!is_json("a = { b = 1 }"));
    }
}
