//! Events to the terminal: a bar and a few lines under it where somebody watches, plain lines elsewhere, JSON lines on
//! request. Talk goes to stderr, data to stdout.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::VerdictKind;
use evo_space::text::counted;
use indicatif::{ProgressBar, ProgressStyle};

use super::{Call, output};
use crate::event::{Event, LaneActivity, LaneLoad, LaneProgress, Observer};
use crate::report::styled::{StyledLine, Tone, allows_colors};
use crate::report::text::time;
use crate::report::width::wrapped;

/// Plain lines come at most this often.
const PLAIN_EVERY: Duration = Duration::from_secs(2);
/// The panel is drawn anew this often, so that clocks go on while nothing happens.
const PANEL_EVERY: Duration = Duration::from_millis(250);
/// Of a terminal that does not say.
const USUAL_SIZE: (usize, usize) = (80, 24);

const FAILURES: usize = 4;
const LANES: usize = 8;

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

/// What an observer of a sweep keeps in mind, and how it is said.
#[derive(Clone, Debug, Default)]
struct Tally {
    total: Option<u64>,
    done: u64,
    /// Nanoseconds, and the configuration.
    best: Option<(f64, String)>,
    default_ns: Option<f64>,
    mix: BTreeMap<String, u64>,
    /// The first message of each kind of failure, in the order of their coming.
    failures: Vec<(String, String)>,
    lanes: Option<LaneLoad>,
    each: Vec<String>,
    /// Which finalist of how many.
    confirming: Option<(usize, usize)>,
}

impl Tally {
    fn observe(&mut self, event: &Event) {
        match event {
            Event::Started { total, earlier, .. } => {
                self.total = *total;
                self.done = earlier.evaluations;
                self.best = earlier.best.as_ref().map(|(time, best)| (*time, best.to_string()));
                self.default_ns = earlier.default_ns;
                self.mix = earlier.verdicts.clone();
            }
            Event::Finished { evaluation, best } => self.finished(evaluation, *best),
            Event::Lanes(load) => self.lanes = Some(*load),
            Event::LaneProgress { lanes } => self.each = lanes.iter().map(told).collect(),
            Event::Confirming { finalist, of, .. } => self.confirming = Some((*finalist, *of)),
            _ => {}
        }
    }

    fn finished(&mut self, evaluation: &Evaluation, best: bool) {
        self.done += u64::from(evaluation.is_counted());
        let kind = evaluation.verdict.kind;
        *self.mix.entry(kind.to_string()).or_default() += 1;
        if evaluation.is_default() {
            self.default_ns = evaluation.objective_ns;
        }
        if let Some(objective_ns) = evaluation.objective_ns.filter(|_| best) {
            self.best = Some((objective_ns, evaluation.configuration.to_string()));
        }
        let is_quiet = matches!(kind, VerdictKind::Pass | VerdictKind::PassedOver | VerdictKind::TooSlow);
        if !is_quiet && !self.failures.iter().any(|(known, _)| *known == kind.as_str()) {
            let message = evaluation.verdict.message.lines().next().unwrap_or_default().to_string();
            self.failures.push((kind.to_string(), message));
        }
    }

    /// With the default's time, and no factor, because only a confirmation measures both alike.
    fn best_time(&self) -> String {
        let best = self.best.as_ref().map_or("none yet".to_string(), |best| time(best.0));
        let default = self.default_ns.map(|default| format!(" (default {})", time(default)));
        best + &default.unwrap_or_default()
    }

    /// `pass 31, too_slow 9`, most frequent first.
    fn mix(&self) -> String {
        let mut mix: Vec<(&String, &u64)> = self.mix.iter().collect();
        mix.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        mix.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }

    fn line(&self) -> String {
        let count = match self.total {
            Some(total) => format!("{}/{total}", self.done),
            None => self.done.to_string(),
        };
        let lanes = self.lanes.map(|load| format!("device {}", of_load(load))).unwrap_or_default();
        let parts = [count, format!("best {}", self.best_time()), self.mix(), lanes];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }

    fn lines(&self) -> Vec<String> {
        let row = |label: &str, text: String| format!("  {label:<9}{text}");
        let best = self.best.as_ref().map(|best| row("best", format!("{}  {}", self.best_time(), best.1)));
        // The compilers and the search's lane are idle while finalists are confirmed.
        let load = self.lanes.filter(|_| self.confirming.is_none());
        let left = load.and_then(|load| load.left_seconds);
        let left = left.map(|left| row("budget", format!("{left:.0} s left")));
        let each = self.each.iter().take(LANES).enumerate();
        let each = each.map(|(lane, text)| row(&format!("lane {lane}"), text.clone()));
        let more = self.each.len().saturating_sub(LANES);
        let failures = self.failures.iter().take(FAILURES);
        (best.into_iter().chain(left))
            .chain(load.map(|load| row("device", of_load(load))))
            .chain(each)
            .chain((more > 0).then(|| row("", format!("and {more} more lanes"))))
            .chain((!self.mix.is_empty()).then(|| row("verdicts", self.mix())))
            .chain(failures.map(|(kind, message)| row("", format!("{kind}: {message}"))))
            .collect()
    }
}

/// `cuda:1 on node7  working  120 evaluations, 93 % busy, 1 new worker`.
fn told(lane: &LaneProgress) -> String {
    let account = &lane.account;
    let doing = match lane.activity {
        LaneActivity::Working => "working",
        LaneActivity::Idle => "idle   ",
        LaneActivity::Waiting => "waiting for a worker",
        LaneActivity::Out => "out    ",
    };
    let mut all = vec![counted(account.evaluations, "evaluation")];
    all.push(format!("{:.0} % busy", percent(lane.busy)));
    if account.restarts > 0 {
        all.push(counted(account.restarts, "new worker"));
    }
    all.extend(account.out.clone());
    format!("{}  {doing}  {}", account.place(), all.join(", "))
}

/// `98 % busy, 2 queued · compile 35 % busy, 0 queued`.
fn of_load(load: LaneLoad) -> String {
    format!(
        "{:.0} % busy, {} queued · compile {:.0} % busy, {} queued",
        percent(load.device_busy),
        load.device_queue,
        percent(load.compile_busy),
        load.compile_queue
    )
}

/// A share in percent: what is under way is counted as a whole, and may exceed the time that has passed.
fn percent(share: f64) -> f64 {
    (share * 100.0).clamp(0.0, 100.0)
}

#[cfg(test)]
mod tests;
