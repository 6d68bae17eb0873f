//! How wide text for a terminal may be, and prose cut to that width.

use std::{env, io};

/// The width of files and pipes, and of terminals that do not tell theirs.
const DEFAULT_WIDTH: usize = 100;

/// Below this a table is cut off by the terminal rather than by us.
const LEAST_WIDTH: usize = 40;

/// The columns that text on stdout may take: `COLUMNS` if it is set, else the terminal's, else 100.
pub fn stdout_width() -> usize {
    let told = env::var("COLUMNS").ok().and_then(|text| text.trim().parse::<usize>().ok());
    let asked = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let width = told.or_else(asked).filter(|width| *width > 0);
    width.unwrap_or(DEFAULT_WIDTH).max(LEAST_WIDTH)
}

/// Breaks a line between words, but not before a percent sign; the further lines are indented by two blanks.
/// Ends with a newline.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.replace(" %", "\u{a0}%").split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(&line);
            lines.push('\n');
            line = format!("  {word}");
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    (lines + &line + "\n").replace('\u{a0}', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("a bc def", 20), "a bc def\n");
        assert_eq!(wrapped("a bc def gh", 6), "a bc\n  def\n  gh\n");
        assert_eq!(wrapped("unbreakable", 4), "unbreakable\n");
        assert_eq!(wrapped("a 5 %", 4), "a\n  5 %\n");
    }
}
