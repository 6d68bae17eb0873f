//! Events to the terminal: a panel where somebody watches, plain lines elsewhere, JSON lines on
//! request. Talk goes to stderr, data to stdout.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::VerdictKind;
use evo_space::text::counted;
use evo_system::lock;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::call::Call;
use super::output;
use crate::event::{Event, LaneLoad, Observer};
use crate::report::styled::{StyledLine, Tone, allows_colors};
use crate::report::text::time;
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
    Box::new(Talk { tally: Arc::default(), began: Instant::now(), is_watched, panel: None, line_at: None })
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

/// For people: single lines for what they should know, and where the run stands in a panel or in lines.
struct Talk {
    tally: Arc<Mutex<Tally>>,
    began: Instant,
    is_watched: bool,
    /// From the first event to the last, where somebody watches.
    panel: Option<ProgressBar>,
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
        let (tally, began) = (Arc::clone(&self.tally), self.began);
        let colors = allows_colors(true);
        let draw = move |_: &ProgressState, to: &mut dyn fmt::Write| {
            let (width, height) = terminal_size();
            let (width, height) = (width.saturating_sub(1), height.saturating_sub(2));
            // One column stays free: a line that fills the last one is broken by some terminals.
            let lines = lines(&lock(&tally), began.elapsed(), width, height);
            let lines: Vec<String> = lines.iter().map(|line| line.text(colors)).collect();
            let _ = to.write_str(&lines.join("\n"));
        };
        let style =
            ProgressStyle::with_template("{panel}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let panel = ProgressBar::new_spinner().with_style(style.with_key("panel", draw));
        panel.enable_steady_tick(PANEL_EVERY);
        self.panel = Some(panel);
    }

    fn end_panel(&mut self) {
        if let Some(panel) = self.panel.take() {
            panel.finish_and_clear();
        }
    }

    fn say_progress(&mut self) {
        let line = lock(&self.tally).line();
        self.say(&line);
        self.line_at = Some(Instant::now());
    }
}

impl Observer for Talk {
    fn observe(&mut self, event: &Event) {
        lock(&self.tally).observe(event, self.began.elapsed());
        if let Some(line) = line_of(event) {
            self.say(&line);
        }
        match event {
            Event::Started { .. } if self.is_watched => self.begin_panel(),
            Event::Stopped { .. } if self.is_watched => self.end_panel(),
            _ if self.is_watched => {}
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

/// Verdicts by which the rate is measured: enough to be steady, few enough to follow a change.
const WINDOW: usize = 32;

const RATE_LEAST: usize = 3;

#[derive(Clone, Debug)]
struct BestSoFar {
    objective_ns: f64,
    configuration: String,
    /// When this run found it; absent for one of an earlier run.
    at: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Confirming {
    finalist: usize,
    of: usize,
    /// When it began, and how long it and the others were expected to take, seconds.
    since: Duration,
    left_seconds: Option<f64>,
}

/// What an observer of a sweep keeps in mind. Times are given from outside, so that what is shown of them can be tested.
#[derive(Clone, Debug, Default)]
struct Tally {
    total: Option<u64>,
    done: u64,
    best: Option<BestSoFar>,
    default_ns: Option<f64>,
    mix: BTreeMap<String, u64>,
    /// The first message of each kind of failure, in the order of their coming.
    failures: Vec<(String, String)>,
    lanes: Option<LaneLoad>,
    confirming: Option<Confirming>,
    /// What is left of a wall budget, seconds, and when that was said.
    left: Option<(f64, Duration)>,
    verdicts: VecDeque<Duration>,
}

impl Tally {
    fn observe(&mut self, event: &Event, at: Duration) {
        match event {
            Event::Started { total, earlier, .. } => {
                self.total = *total;
                self.done = earlier.evaluations;
                self.best = earlier.best.as_ref().map(|(objective_ns, best)| BestSoFar {
                    objective_ns: *objective_ns,
                    configuration: best.to_string(),
                    at: None,
                });
                self.default_ns = earlier.default_ns;
                self.mix = earlier.verdicts.clone();
            }
            Event::Finished { evaluation, best } => self.finished(evaluation, *best, at),
            Event::Lanes(load) => {
                self.lanes = Some(*load);
                self.left = load.left_seconds.map(|left| (left, at));
            }
            Event::Confirming { finalist, of, left_seconds } => {
                let (finalist, of, left_seconds) = (*finalist, *of, *left_seconds);
                self.confirming = Some(Confirming { finalist, of, since: at, left_seconds });
            }
            _ => {}
        }
    }

    fn finished(&mut self, evaluation: &Evaluation, best: bool, at: Duration) {
        self.done += u64::from(evaluation.is_counted());
        let kind = evaluation.verdict.kind;
        *self.mix.entry(kind.to_string()).or_default() += 1;
        if evaluation.is_default() {
            self.default_ns = evaluation.objective_ns;
        }
        if let Some(objective_ns) = evaluation.objective_ns.filter(|_| best) {
            let configuration = evaluation.configuration.to_string();
            self.best = Some(BestSoFar { objective_ns, configuration, at: Some(at) });
        }
        let is_quiet = matches!(kind, VerdictKind::Pass | VerdictKind::PassedOver | VerdictKind::TooSlow);
        if !is_quiet && !self.failures.iter().any(|(known, _)| *known == kind.as_str()) {
            let message = evaluation.verdict.message.lines().next().unwrap_or_default().to_string();
            self.failures.push((kind.to_string(), message));
        }
        if evaluation.is_counted() && evaluation.taken_over_from.is_none() {
            self.verdicts.push_back(at);
            if self.verdicts.len() > WINDOW {
                self.verdicts.pop_front();
            }
        }
    }

    /// Over the last evaluations; a stage that stalls lowers it.
    fn rate(&self, now: Duration) -> Option<f64> {
        let first = self.verdicts.front().filter(|_| self.verdicts.len() >= RATE_LEAST)?;
        let seconds = now.saturating_sub(*first).as_secs_f64();
        (seconds > 0.0).then(|| (self.verdicts.len() - 1) as f64 / seconds)
    }

    /// Unknown until enough was seen, and again once an estimate has run out, because 0 would promise an end that
    /// nothing points to.
    fn eta(&self, now: Duration) -> Option<f64> {
        if let Some(confirming) = self.confirming {
            let passed = now.saturating_sub(confirming.since).as_secs_f64();
            return Some(confirming.left_seconds? - passed).filter(|left| *left > 0.0);
        }
        let left = self.left.map(|(left, at)| left - now.saturating_sub(at).as_secs_f64());
        if left.is_some_and(|left| left <= 0.0) {
            return None;
        }
        let search = self.total.zip(self.rate(now)).map(|(total, rate)| {
            let confirm_seconds = self.lanes.and_then(|load| load.confirm_seconds).unwrap_or(0.0);
            total.saturating_sub(self.done) as f64 / rate + confirm_seconds
        });
        match (left, search) {
            (Some(left), Some(search)) => Some(left.min(search)),
            (left, search) => left.or(search),
        }
    }

    /// No factor, because only a confirmation measures both alike.
    fn default_time(&self) -> String {
        self.default_ns.map(|default| format!(" (default {})", time(default))).unwrap_or_default()
    }

    /// `pass 31, too_slow 9`, most frequent first.
    fn mix(&self) -> Vec<(&str, u64)> {
        let mut mix: Vec<(&str, u64)> =
            self.mix.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        mix.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        mix
    }

    fn count(&self) -> String {
        match self.total {
            Some(total) => format!("{}/{total}", self.done),
            None => self.done.to_string(),
        }
    }

    fn line(&self) -> String {
        let best = self.best.as_ref().map_or("none yet".to_string(), |best| time(best.objective_ns));
        let mix: Vec<String> = self.mix().iter().map(|(name, count)| format!("{name} {count}")).collect();
        let lanes = self.lanes.map(|load| format!("device {}", of_load(load))).unwrap_or_default();
        let parts = [self.count(), format!("best {best}{}", self.default_time()), mix.join(", "), lanes];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }
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

const FAILURES: usize = 4;

const BAR: usize = 30;

const LABEL: usize = 11;

/// What is drawn on a terminal while a sweep runs: a few lines of fixed places, each cut to the width. `now`
/// counts from the command's start; at most `height` lines come back.
fn lines(tally: &Tally, now: Duration, width: usize, height: usize) -> Vec<StyledLine> {
    let mut lines = vec![first(tally, now, width)];
    lines.extend(best(tally));
    lines.extend(improvement(tally, now));
    lines.extend(lanes(tally));
    if !tally.mix.is_empty() {
        lines.push(mix(tally));
    }
    let failures = tally.failures.iter().take(FAILURES);
    lines.extend(failures.map(|(kind, message)| {
        StyledLine::new(Tone::Plain, " ".repeat(LABEL))
            .with(Tone::Warning, kind)
            .with(Tone::Faint, format!(": {message}"))
    }));
    lines.truncate(height.max(1));
    lines.into_iter().map(|line| line.cut(width)).collect()
}

fn label(name: &str) -> StyledLine {
    StyledLine::new(Tone::Faint, format!("  {name:<width$}", width = LABEL - 2))
}

/// What does not fit is left out from the right, and the bar gives way first.
fn first(tally: &Tally, now: Duration, width: usize) -> StyledLine {
    let eta = match tally.eta(now) {
        Some(seconds) => format!("  ETA {}", clock(Duration::from_secs_f64(seconds.min(1e9)))),
        // Nothing was seen that a guess could rest on.
        None => "  ETA unknown".to_string(),
    };
    let elapsed = clock(now);
    if let Some(confirming) = tally.confirming {
        let what = match confirming.finalist {
            0 => "baseline and noise floor".to_string(),
            finalist if width < 72 => format!("finalist {finalist} of {}", confirming.of),
            finalist => format!("finalist {finalist} of {} in fresh processes", confirming.of),
        };
        return label("confirm").with(Tone::Strong, what).with(Tone::Faint, format!("  {elapsed}{eta}"));
    }
    let rate = tally.rate(now).map(|rate| format!("  {}/s", number(rate))).unwrap_or_default();
    let tail = format!("  {elapsed}{rate}{eta}");
    let count = tally.count();
    let room = width.saturating_sub(LABEL + count.chars().count() + tail.chars().count() + 1);
    let mut line = label("search");
    if let Some(total) = tally.total.filter(|total| *total > 0 && room >= 8) {
        let cells = room.min(BAR);
        let full = ((tally.done as f64 / total as f64).min(1.0) * cells as f64).floor() as usize;
        line = line
            .with(Tone::Accent, "━".repeat(full))
            .with(Tone::Faint, "╌".repeat(cells - full))
            .with(Tone::Plain, " ");
    }
    line.with(Tone::Strong, count).with(Tone::Faint, tail)
}

fn best(tally: &Tally) -> Option<StyledLine> {
    let best = tally.best.as_ref()?;
    let line =
        label("best").with(Tone::Strong, time(best.objective_ns)).with(Tone::Plain, tally.default_time());
    Some(line.with(Tone::Plain, format!("  {}", best.configuration)))
}

fn improvement(tally: &Tally, now: Duration) -> Option<StyledLine> {
    let since = match tally.best.as_ref()?.at {
        Some(at) => format!("last improvement {} ago", clock(now.saturating_sub(at))),
        None => "no improvement in this run".to_string(),
    };
    Some(label("").with(Tone::Faint, since))
}

fn lanes(tally: &Tally) -> Option<StyledLine> {
    // The compilers and the search's lane are idle while finalists are confirmed.
    let load = tally.lanes.filter(|_| tally.confirming.is_none())?;
    Some(label("device").with(Tone::Plain, of_load(load)))
}

fn mix(tally: &Tally) -> StyledLine {
    let entries = tally.mix().into_iter().enumerate();
    entries.fold(label("verdicts"), |line, (position, (name, count))| {
        let tone = match name {
            "pass" => Tone::Good,
            "too_slow" | "passed_over" => Tone::Plain,
            _ => Tone::Warning,
        };
        let gap = if position == 0 { "" } else { " · " };
        line.with(Tone::Faint, gap).with(tone, format!("{name} {count}"))
    })
}

/// `0:07`, `12:34`, `3:04:05`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use evo_protocol::evaluation::DEFAULT_ORIGIN;
    use evo_protocol::verdict::Verdict;
    use evo_space::genome::Configuration;

    use super::*;
    use crate::event::Earlier;
    use crate::journal::example as fake;

    fn resumed() -> Event {
        let best = Configuration::new(vec![("A".into(), 4.into())]);
        let verdicts = BTreeMap::from([("pass".to_string(), 12), ("too_slow".to_string(), 4)]);
        let earlier = Earlier {
            evaluations: 16,
            best: Some((2500.0, best)),
            default_ns: Some(5000.0),
            verdicts,
            taken_over: 4,
        };
        let (study, device) = ("gemm-host".into(), "cpu".into());
        Event::Started { study, device, seed: 7, valid: 900, total: Some(48), earlier }
    }

    #[test]
    fn the_first_lines_say_what_is_ahead_and_what_was_found_before() {
        let event = resumed();
        let mut tally = Tally::default();
        tally.observe(&event, Duration::ZERO);
        insta::assert_snapshot!(tally.line(), @"16/48 · best 2.500 µs (default 5.000 µs) · pass 12, too_slow 4");
        insta::assert_snapshot!(line_of(&event).unwrap(), @"study gemm-host on cpu: 900 valid configurations, up to 48 evaluations, 16 done before, 4 taken over, seed 7");
        // A warning is not a note.
        let line = |message: &str| line_of(&Event::Notice { message: message.into() }).unwrap();
        assert_eq!([line("slow"), line("warning: slow")], ["note: slow", "warning: slow"]);
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn begun(total: Option<u64>) -> Tally {
        let mut tally = Tally::default();
        let (study, device) = ("gemm-host".into(), "cpu".into());
        let earlier = Earlier::default();
        tally.observe(&Event::Started { study, device, seed: 7, valid: 900, total, earlier }, seconds(0));
        tally
    }

    fn finished(number: u64, verdict: Verdict, objective_ns: Option<f64>, best: bool) -> Event {
        let values = vec![("BLOCK_M".into(), (16 << (number % 4)).into()), ("NUM_WARPS".into(), 4.into())];
        let origin = if number == 0 { DEFAULT_ORIGIN } else { "evolve" };
        let evaluation = fake::evaluation(number, Configuration::new(values), origin, verdict);
        Event::Finished { evaluation: Box::new(Evaluation { objective_ns, ..evaluation }), best }
    }

    fn lanes(confirm_seconds: Option<f64>, left_seconds: Option<f64>) -> Event {
        Event::Lanes(LaneLoad {
            compile_busy: 0.35,
            device_busy: 0.981,
            compile_queue: 0,
            device_queue: 2,
            compile_jobs: 4,
            confirm_seconds,
            left_seconds,
        })
    }

    /// Twelve seconds into a search: one verdict a second, three improvements and two kinds of failure.
    fn searching() -> Tally {
        let mut tally = begun(Some(64));
        let times = [9000.0, 8500.0, 6000.0, 6100.0, 4000.0, 4100.0, 4050.0, 3000.0];
        let mut best = f64::INFINITY;
        for (number, time) in times.into_iter().enumerate() {
            let event = finished(number as u64, Verdict::pass(), Some(time), time < best);
            best = best.min(time);
            tally.observe(&event, seconds(1 + number as u64));
        }
        let wrong = "`c`: elements are outside the tolerance; 64 of 4160 elements, largest error 1.1e+01; only sizes of N fail";
        tally.observe(&finished(8, Verdict::new(VerdictKind::WrongAnswer, wrong), None, false), seconds(9));
        let refused = "gemm.cu(12): error: identifier \"x\" is undefined\nmore";
        tally.observe(
            &finished(9, Verdict::new(VerdictKind::CompileError, refused), None, false),
            seconds(10),
        );
        tally.observe(&finished(10, Verdict::new(VerdictKind::TooSlow, "slow"), None, false), seconds(11));
        tally.observe(&lanes(Some(9.0), None), seconds(12));
        tally
    }

    fn drawn(tally: &Tally, now: Duration, width: usize) -> String {
        let lines = lines(tally, now, width, 20);
        assert!(lines.iter().all(|line| line.width() <= width), "{lines:?}");
        lines.iter().map(|line| line.text(false).trim_end().to_string()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_search_fits_its_columns() {
        insta::assert_snapshot!("a_search_at_60_columns", drawn(&searching(), seconds(12), 60));
        insta::assert_snapshot!("a_search_at_100_columns", drawn(&searching(), seconds(12), 100));
        // Colors change no width, and few rows keep the first.
        let tally = searching();
        let colored = lines(&tally, seconds(12), 100, 20);
        assert!(colored[0].text(true).contains("\x1b[36m"));
        assert_eq!(lines(&tally, seconds(12), 100, 3), colored[..3]);
        assert_eq!(lines(&tally, seconds(12), 20, 0).len(), 1);
    }

    #[test]
    fn the_start_guesses_nothing() {
        insta::assert_snapshot!(drawn(&begun(Some(64)), seconds(0), 100));
        insta::assert_snapshot!(drawn(&begun(None), seconds(61), 60));
    }

    #[test]
    fn a_confirmation_counts_down() {
        let mut tally = searching();
        tally.observe(&Event::Confirming { finalist: 0, of: 2, left_seconds: Some(9.0) }, seconds(20));
        insta::assert_snapshot!(drawn(&tally, seconds(22), 100));
        tally.observe(&Event::Confirming { finalist: 1, of: 2, left_seconds: Some(5.0) }, seconds(25));
        insta::assert_snapshot!(drawn(&tally, seconds(36), 60));
    }

    #[test]
    fn the_time_left_includes_the_confirmation_and_a_budget() {
        let check = |tally: &Tally, expected: Option<f64>| assert_eq!(tally.eta(seconds(12)), expected);
        check(&begun(Some(64)), None);
        // Ten verdicts in eleven seconds leave 53 of 64, and nine seconds of confirmation.
        check(&searching(), Some(53.0 / (10.0 / 11.0) + 9.0));
        let mut budgeted = searching();
        budgeted.observe(&lanes(Some(9.0), Some(30.0)), seconds(10));
        check(&budgeted, Some(28.0));
        // An estimate that has run out says nothing about the time that is still to come.
        assert_eq!(budgeted.eta(seconds(41)), None);
        let mut unlimited = begun(None);
        unlimited.observe(&lanes(None, Some(30.0)), seconds(12));
        check(&unlimited, Some(30.0));
    }
}
