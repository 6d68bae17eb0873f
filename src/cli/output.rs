//! Data goes to stdout, talk to stderr, so that people and pipes are both served.

use std::io::{self, IsTerminal, Write};

use evo_space::text::printable;

use super::{CliError, Result};
use crate::report::styled::{StyledLine, Tone, allows_colors};

/// The words with which lines of talk begin, and how they look.
const LEADS: [(&str, Tone); 4] =
    [("error:", Tone::Bad), ("warning:", Tone::Warning), ("hint:", Tone::Accent), ("note:", Tone::Accent)];

/// Writes to stdout, with what a terminal would obey written out; a reader that has left (`| head`) is not an error.
pub fn stdout(text: &str) -> Result<()> {
    raw(&printable(text))
}

/// Writes lines to stdout, in color where somebody watches and wants it.
pub fn styled(lines: &[StyledLine]) -> Result<()> {
    let colors = allows_colors(io::stdout().is_terminal());
    raw(&lines.iter().map(|line| line.text(colors) + "\n").collect::<String>())
}

fn raw(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

pub fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::harness(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// One line of talk on stderr. Nobody listening is not an error.
pub fn say(text: &str) {
    let colors = allows_colors(io::stderr().is_terminal());
    let _ = writeln!(io::stderr().lock(), "{}", shown(text, colors));
}

/// Talk as it is shown: with what a terminal would obey written out, and with colored leads.
pub fn shown(text: &str, colors: bool) -> String {
    let line = |line: &str| {
        let lead = LEADS.iter().find_map(|(lead, tone)| Some((*lead, *tone, line.strip_prefix(lead)?)));
        match lead {
            Some((lead, tone, rest)) => StyledLine::new(tone, lead).with(Tone::Plain, rest),
            None => StyledLine::new(Tone::Plain, line),
        }
        .text(colors)
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leads_are_colored_and_escapes_are_written_out() {
        assert_eq!(shown("error: no \x1b[2J\nhint: yes", false), "error: no \\u001b[2J\nhint: yes");
        assert_eq!(shown("error: no\n  error: x", true), "\x1b[31merror:\x1b[0m no\n  error: x");
    }
}
