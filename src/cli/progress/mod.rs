//! Events to the terminal: a bar and a few lines under it where somebody watches, plain lines elsewhere, JSON lines on
//! request. Talk goes to stderr, data to stdout.

mod tally;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use evo_space::text::counted;
use indicatif::{ProgressBar, ProgressStyle};

use self::tally::Tally;
use super::{Call, output};
use crate::event::{Event, Observer};
use crate::report::styled::{StyledLine, Tone, allows_colors};
use crate::report::width::wrapped;

/// Plain lines come at most this often.
const PLAIN_EVERY: Duration = Duration::from_secs(2);
/// The panel is drawn anew this often, so that clocks go on while nothing happens.
const PANEL_EVERY: Duration = Duration::from_millis(250);
/// Of a terminal that does not say.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// With `--json` one object per event goes to stdout.
pub fn observer(call: &Call) -> Box<dyn Observer> {
    if call.is_json() {
        return Box::new(JsonLines(call.clone()));
    }
    // A dumb terminal cannot draw over its lines.
    let is_watched = io::stderr().is_terminal() && std::env::var("TERM").is_ok_and(|term| term != "dumb");
    Box::new(Talk { tally: Tally::default(), is_watched, panel: None, line_at: None })
}

pub struct Silent;

impl Observer for Silent {
    fn observe(&mut self, _event: &Event) {}
}

struct JsonLines(Call);

impl Observer for JsonLines {
    fn observe(&mut self, event: &Event) {
        // A reader that went away is not a reason to stop; everything that matters is on the disk.
        let _ = self.0.line(&serde_json::json!(event));
    }
}

/// For people: single lines for what they should know, and where the run stands in a panel or in lines.
struct Talk {
    tally: Tally,
    is_watched: bool,
    /// From the first event to the last, where somebody watches.
    panel: Option<ProgressBar>,
    /// When the last plain line came.
    line_at: Option<Instant>,
}

impl Talk {
    fn say(&self, line: &str) {
        match &self.panel {
            // Through the panel, which would otherwise be drawn over the line.
            Some(panel) => {
                let line = wrapped(line, terminal_size().0);
                panel.println(output::shown(line.trim_end(), allows_colors(true)));
            }
            None if self.is_watched => output::say(wrapped(line, terminal_size().0).trim_end()),
            None => output::say(line),
        }
    }

    fn begin_panel(&mut self) {
        let panel =
            ProgressBar::new(self.tally.total.unwrap_or(0)).with_style(style(self.tally.total.is_some()));
        panel.set_position(self.tally.done);
        // What was done before this run took none of its time.
        panel.reset_eta();
        panel.enable_steady_tick(PANEL_EVERY);
        self.panel = Some(panel);
        self.draw_panel();
    }

    fn draw_panel(&self) {
        let Some(panel) = &self.panel else { return };
        match self.tally.confirming {
            Some((finalist, of)) => {
                if panel.prefix() != "confirm" {
                    panel.set_prefix("confirm");
                    panel.set_style(style(true));
                }
                panel.set_length(of as u64);
                panel.set_position(finalist as u64);
            }
            None => {
                panel.set_prefix("search");
                panel.set_position(self.tally.done);
            }
        }
        // One column stays free: a line that fills the last one is broken by some terminals.
        let (width, height) = terminal_size();
        let lines = self.tally.lines().into_iter().take(height.saturating_sub(3));
        let cut = |line: String| StyledLine::new(Tone::Plain, line).cut(width.saturating_sub(1)).text(false);
        panel.set_message(lines.map(cut).collect::<Vec<_>>().join("\n"));
    }

    fn end_panel(&mut self) {
        if let Some(panel) = self.panel.take() {
            panel.finish_and_clear();
        }
    }

    fn say_progress(&mut self) {
        self.say(&self.tally.line());
        self.line_at = Some(Instant::now());
    }
}

impl Observer for Talk {
    fn observe(&mut self, event: &Event) {
        self.tally.observe(event);
        if let Some(line) = line_of(event) {
            self.say(&line);
        }
        match event {
            Event::Started { .. } if self.is_watched => self.begin_panel(),
            Event::Stopped { .. } if self.is_watched => self.end_panel(),
            _ if self.is_watched => self.draw_panel(),
            Event::Finished { .. } if self.line_at.is_none_or(|at| at.elapsed() >= PLAIN_EVERY) => {
                self.say_progress();
            }
            Event::Recovered { level, elapsed_ms, .. } => {
                self.say(&format!("worker replaced ({}) in {elapsed_ms:.0} ms", level.as_str()));
            }
            Event::Confirming { finalist: 0, .. } => {
                self.say("confirming: measuring the baseline and the noise floor");
            }
            Event::Confirming { finalist, of, .. } => {
                self.say(&format!("confirming finalist {finalist} of {of}"))
            }
            Event::Stopped { .. } => self.say_progress(),
            _ => {}
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.end_panel();
    }
}

fn style(has_length: bool) -> ProgressStyle {
    let bar = match has_length {
        true => "{bar:30.cyan/dim} {pos}/{len}  {elapsed}  ETA {eta}",
        false => "{pos}  {elapsed}",
    };
    let style = ProgressStyle::with_template(&format!("  {{prefix:9}}{bar}\n{{msg}}"));
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╌")
}

/// A line for an event that is more than a move of numbers.
fn line_of(event: &Event) -> Option<String> {
    match event {
        Event::Started { study, device, seed, valid, total, earlier } => {
            let total =
                total.map_or(String::new(), |total| format!(", up to {}", counted(total, "evaluation")));
            let some = |count: u64, what: &str| match count {
                0 => String::new(),
                count => format!(", {count} {what}"),
            };
            let (done, taken) =
                (some(earlier.evaluations, "done before"), some(earlier.taken_over, "taken over"));
            let valid = counted(valid, "valid configuration");
            Some(format!("study {study} on {device}: {valid}{total}{done}{taken}, seed {seed}"))
        }
        Event::NotFinal { evaluation } => {
            let why = evaluation.verdict.message.lines().next().unwrap_or_default();
            let configuration = &evaluation.configuration;
            Some(format!("note: `{configuration}` has no verdict: {why}; `--resume` tries it again"))
        }
        Event::Notice { message } if message.starts_with("warning: ") => Some(message.clone()),
        Event::Notice { message } => Some(format!("note: {message}")),
        _ => None,
    }
}

fn terminal_size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    let (width, height) = size.unwrap_or(USUAL_SIZE);
    (if width == 0 { USUAL_SIZE.0 } else { width }, if height == 0 { USUAL_SIZE.1 } else { height })
}

#[cfg(test)]
mod tests;
