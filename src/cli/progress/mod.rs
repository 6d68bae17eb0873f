//! Events to the terminal: a panel where somebody watches, plain lines elsewhere, JSON lines on
//! request. Talk goes to stderr, data to stdout.

mod live;
mod panel;
mod tally;
mod words;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use self::live::LivePanel;
use self::tally::Tally;
use super::call::Call;
use super::output;
use crate::event::{Event, Observer};

/// Plain lines come at most this often.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// With `--json` one object per event goes to stdout.
pub fn observer(call: &Call) -> Box<dyn Observer> {
    // A dumb terminal cannot draw over its lines.
    let can_draw = std::io::stderr().is_terminal() && std::env::var("TERM").is_ok_and(|term| term != "dumb");
    if call.is_json() {
        Box::new(JsonLines(call.clone()))
    } else if can_draw {
        Box::new(LivePanel::new())
    } else {
        Box::new(Plain { tally: Tally::default(), began: Instant::now(), told: None })
    }
}

/// For programs that read one object at the end.
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

struct Plain {
    tally: Tally,
    began: Instant,
    told: Option<Instant>,
}

impl Plain {
    fn progress(&mut self) {
        output::say(&self.tally.line());
        self.told = Some(Instant::now());
    }
}

impl Observer for Plain {
    fn observe(&mut self, event: &Event) {
        self.tally.observe(event, self.began.elapsed());
        if let Some(line) = words::told(event) {
            output::say(&line);
        }
        match event {
            Event::Finished { .. } if self.told.is_none_or(|told| told.elapsed() >= PLAIN_EVERY) => {
                self.progress();
            }
            Event::Recovered { level, elapsed_ms, .. } => {
                output::say(&format!("worker replaced ({}) in {elapsed_ms:.0} ms", level.as_str()));
            }
            Event::Confirming { finalist, of, .. } => output::say(&words::confirming(*finalist, *of)),
            Event::Stopped { .. } => self.progress(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
