//! Reading preprocessor directives by text, as far as including goes: for the guard, which refuses some
//! names, and for the scan, which hashes the files behind the others.

/// The text as the compiler's directives see it: continued lines are joined, block comments are blanks. A
/// directive may be split by a continuation, or begin after a comment.
pub fn joined(text: &str) -> String {
    without_comments(&text.replace("\\\n", "").replace("\\\r\n", ""))
}

/// What follows `#include`, `#include_next`, `#import` or `#embed`.
pub fn include_operand(line: &str) -> Option<&str> {
    let line = line.trim_start();
    // `%:` is the digraph of `#`.
    let directive = line.strip_prefix('#').or_else(|| line.strip_prefix("%:"))?.trim_start();
    let end = directive
        .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .unwrap_or(directive.len());
    let (word, operand) = directive.split_at(end);
    ["include", "include_next", "import", "embed"].contains(&word).then(|| operand.trim())
}

/// The text with block comments turned into spaces, except inside string literals.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find(['"', '/']) {
        let (before, found) = rest.split_at(position);
        kept.push_str(before);
        if let Some(comment) = found.strip_prefix("/*") {
            kept.push(' ');
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
            continue;
        }
        // A line comment or a string is kept whole, so that a `/*` in it opens no block comment.
        let length = if found.starts_with("//") {
            found.find('\n').unwrap_or(found.len())
        } else if found.starts_with('"') {
            string_length(found)
        } else {
            1
        };
        kept.push_str(&found[..length]);
        rest = &found[length..];
    }
    kept + rest
}

/// Length of the string literal at the start, which ends at its line's end at the latest.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (position, letter) in text.char_indices().skip(1) {
        match letter {
            '\n' => return position,
            '"' if !escaped => return position + 1,
            _ => escaped = letter == '\\' && !escaped,
        }
    }
    text.len()
}
