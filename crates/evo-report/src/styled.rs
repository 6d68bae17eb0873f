//! Lines with colors: pieces of text with a meaning, drawn plainly or in color. Whether there are colors is decided by
//! what people set (`NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR`, `TERM`) and by whether somebody watches.

use evo_space::text::printable;

/// What a piece of a line means; how it looks follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    /// What a reader looks for first.
    Strong,
    /// Labels, and what is there for completeness.
    Faint,
    Good,
    Bad,
    Warning,
    /// Bars and curves.
    Accent,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        Some(match self {
            Tone::Plain => return None,
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Warning => "33",
            Tone::Accent => "36",
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StyledLine(Vec<(Tone, String)>);

impl StyledLine {
    pub fn new(tone: Tone, text: impl Into<String>) -> StyledLine {
        StyledLine::default().with(tone, text)
    }

    pub fn with(mut self, tone: Tone, text: impl Into<String>) -> StyledLine {
        self.0.push((tone, text.into()));
        self
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// The line in at most so many characters; what is cut off is marked.
    pub fn cut(self, width: usize) -> StyledLine {
        if self.width() <= width {
            return self;
        }
        let mut left = width.saturating_sub(1);
        let mut pieces = Vec::new();
        for (tone, text) in self.0 {
            let kept: String = text.chars().take(left).collect();
            left -= kept.chars().count();
            pieces.push((tone, kept));
            if left == 0 {
                break;
            }
        }
        pieces.push((Tone::Faint, "…".to_string()));
        StyledLine(pieces)
    }

    /// As text, with colors or without; what a terminal would obey in the pieces themselves is written out.
    pub fn text(&self, colors: bool) -> String {
        let piece = |(tone, text): &(Tone, String)| {
            let text = printable(text);
            match tone.code().filter(|_| colors) {
                Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
                None => text.into_owned(),
            }
        };
        self.0.iter().map(piece).collect()
    }
}

/// Whether text for a stream has colors, by the variables that decide on them in this process's environment.
pub fn allows_colors(is_terminal: bool) -> bool {
    allows(|name| std::env::var(name).ok(), is_terminal)
}

fn allows(variable: impl Fn(&str) -> Option<String>, is_terminal: bool) -> bool {
    let is = |name: &str, value: &str| variable(name).as_deref() == Some(value);
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    if is_set("NO_COLOR") {
        return false;
    }
    if is_set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0") {
        return true;
    }
    is_terminal && !is("CLICOLOR", "0") && !is("TERM", "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_follow_the_conventions() {
        let check = |set: &[(&str, &str)], is_terminal: bool, expected: bool| {
            let variable =
                |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
            assert_eq!(allows(variable, is_terminal), expected, "{set:?} {is_terminal}");
        };
        check(&[], true, true);
        check(&[], false, false);
        check(&[("NO_COLOR", "1")], true, false);
        check(&[("NO_COLOR", "")], true, true);
        check(&[("CLICOLOR", "0")], true, false);
        check(&[("CLICOLOR", "1")], false, false);
        check(&[("CLICOLOR_FORCE", "1")], false, true);
        check(&[("CLICOLOR_FORCE", "0")], false, false);
        check(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], true, false);
        check(&[("TERM", "dumb")], true, false);
    }

    #[test]
    fn lines_are_cut_by_what_is_seen() {
        let line =
            StyledLine::new(Tone::Faint, "best ").with(Tone::Good, "1.5×").with(Tone::Plain, " of all");
        assert_eq!((line.width(), line.text(false).as_str()), (16, "best 1.5× of all"));
        assert_eq!(line.text(true), "\x1b[2mbest \x1b[0m\x1b[32m1.5×\x1b[0m of all");
        assert_eq!(line.clone().cut(16), line);
        assert_eq!(line.clone().cut(8).text(false), "best 1.…");
        assert_eq!(line.cut(1).text(false), "…");
        assert_eq!(StyledLine::new(Tone::Plain, "\x1b[2J").text(false), "\\u001b[2J");
    }
}
