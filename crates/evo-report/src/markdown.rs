//! Pieces of Markdown in which no text of a kernel or a compiler can mean anything.

use evo_space::text::{printable, shortened};

/// Characters of a message that are kept.
const MESSAGE: usize = 300;

/// Text in one line, in which nothing is markup.
pub fn plain(text: &str) -> String {
    escaped(&one_line(text))
}

/// Text as it is, in which nothing is markup.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // Not every renderer knows a backslash before these.
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            // An underscore inside of a word is only an underscore, and so are signs that count at the start of a line.
            '\\' | '`' | '*' | '[' | ']' | '|' => safe.extend(['\\', letter]),
            other => safe.push(other),
        }
    }
    safe
}

/// Text as code in one line.
pub fn code(text: &str) -> String {
    let line = one_line(text);
    // Fences of a code span are longer than any run of backticks inside.
    let fence = "`".repeat(longest_run(&line) + 1);
    let pad = if line.starts_with('`') || line.ends_with('`') || line.is_empty() { " " } else { "" };
    // In a table, a bar would end the cell even inside of code.
    format!("{fence}{pad}{}{pad}{fence}", line.replace('|', "\\|"))
}

pub fn block(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", printable(text.trim_end()).trim_end())
}

/// A finding with its names as code: the only markup in it are evo's own backticks.
pub fn named(finding: &str) -> String {
    let part = |(at, text): (usize, &str)| if at % 2 == 1 { code(text) } else { escaped(text) };
    finding.split('`').enumerate().map(part).collect()
}

fn one_line(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), MESSAGE).into_owned()
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}
