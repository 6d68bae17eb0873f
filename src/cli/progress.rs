//! Events to the terminal: bars where somebody watches, plain lines elsewhere, JSON lines on
//! request. Talk goes to stderr, data to stdout.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use evo_protocol::evaluation::Evaluation;
use evo_space::counted::counted;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::call::Call;
use super::output;
use crate::event::{Event, Observer};
use crate::report::text::time;

/// Plain lines come at most this often.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// An observer for stdout and stderr as they are; with `--json` one object per event goes to stdout.
pub fn observer(call: &Call) -> Box<dyn Observer> {
    if call.is_json() {
        Box::new(JsonLines(call.clone()))
    } else if std::io::stderr().is_terminal() {
        Box::new(Bars::new())
    } else {
        Box::new(Plain::default())
    }
}

struct JsonLines(Call);

impl Observer for JsonLines {
    fn observe(&mut self, event: &Event) {
        // A reader that went away is not a reason to stop; everything that matters is on the disk.
        let _ = self.0.line(&crate::report::json::event(event));
    }
}

/// What both forms of talk keep in mind.
#[derive(Default)]
struct Tally {
    total: Option<u64>,
    done: u64,
    best: Option<(f64, String)>,
    mix: BTreeMap<String, u64>,
    lanes: String,
}

impl Tally {
    /// Goes on from what earlier runs found.
    fn started(&mut self, event: &Event) {
        let Event::Started { total, earlier, .. } = event else { return };
        self.total = *total;
        self.done = earlier.evaluations;
        self.best = earlier.best.as_ref().map(|(objective, best)| (*objective, best.to_string()));
        self.mix = earlier.verdicts.clone();
    }

    fn finished(&mut self, evaluation: &Evaluation, best: bool) {
        self.done += u64::from(evaluation.is_counted());
        *self.mix.entry(evaluation.verdict.kind.to_string()).or_default() += 1;
        if let Some(objective) = evaluation.objective_ns.filter(|_| best) {
            self.best = Some((objective, evaluation.configuration.to_string()));
        }
    }

    fn lanes(&mut self, event: &Event) {
        if let Event::Lanes { compile_busy, device_busy, compile_queue, device_queue } = event {
            self.lanes = format!(
                "device {:.0} % busy, {device_queue} queued · compile {:.0} % busy, {compile_queue} queued",
                device_busy * 100.0,
                compile_busy * 100.0
            );
        }
    }

    fn mix(&self) -> String {
        let mut mix: Vec<_> = self.mix.iter().collect();
        mix.sort_by(|a, b| b.1.cmp(a.1));
        mix.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }

    fn line(&self) -> String {
        let best = self.best.as_ref().map_or("none yet".to_string(), |(ns, _)| time(*ns));
        let parts = [self.count(), format!("best {best}"), self.mix(), self.lanes.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }

    fn count(&self) -> String {
        match self.total {
            Some(total) => format!("{}/{total}", self.done),
            None => self.done.to_string(),
        }
    }
}

fn started(event: &Event) -> Option<String> {
    let Event::Started { study, device, seed, valid, total, earlier } = event else { return None };
    let total = total.map_or(String::new(), |total| format!(", up to {}", counted(total, "evaluation")));
    let said = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let (resumed, taken) = (said(earlier.evaluations, "done before"), said(earlier.taken_over, "taken over"));
    Some(format!(
        "study {study} on {device}: {}{total}{resumed}{taken}, seed {seed}",
        counted(valid, "valid configuration")
    ))
}

fn not_final(evaluation: &Evaluation) -> String {
    let why = evaluation.verdict.message.lines().next().unwrap_or_default();
    format!("note: `{}` has no verdict: {why}; `--resume` tries it again", evaluation.configuration)
}

fn confirming(finalist: usize, of: usize) -> String {
    match finalist {
        0 => "measuring the baseline and the noise floor".to_string(),
        _ => format!("confirming finalist {finalist} of {of} in fresh processes"),
    }
}

/// Lines for logs.
#[derive(Default)]
struct Plain {
    tally: Tally,
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
        match event {
            Event::Started { .. } => {
                self.tally.started(event);
                output::say(&started(event).unwrap_or_default());
            }
            Event::Finished { evaluation, best } => {
                self.tally.finished(evaluation, *best);
                if self.told.is_none_or(|told| told.elapsed() >= PLAIN_EVERY) {
                    self.progress();
                }
            }
            Event::Lanes { .. } => self.tally.lanes(event),
            Event::Recovered { level, elapsed_ms, .. } => {
                output::say(&format!("worker replaced ({}) in {elapsed_ms:.0} ms", level.as_str()));
            }
            Event::NotFinal { evaluation } => output::say(&not_final(evaluation)),
            Event::Confirming { finalist, of } => {
                output::say(&format!("confirming finalist {finalist} of {of}"))
            }
            Event::Notice { message } => output::say(&format!("note: {message}")),
            Event::Stopped { .. } => self.progress(),
            Event::Compiling { .. } | Event::Evaluating { .. } | Event::Generation { .. } => {}
        }
    }
}

/// Bars for people.
struct Bars {
    tally: Tally,
    all: MultiProgress,
    main: ProgressBar,
    best: ProgressBar,
    mix: ProgressBar,
    compile: ProgressBar,
    device: ProgressBar,
}

impl Bars {
    fn new() -> Bars {
        let all = MultiProgress::new();
        let line = |template: &str, length| {
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = all.add(ProgressBar::new(length));
            bar.set_style(style.progress_chars("━╸ "));
            bar
        };
        Bars {
            tally: Tally::default(),
            main: line("  search  {bar:30} {pos}/{len}  {elapsed_precise}  ETA {eta}", 0),
            compile: line("  compile {bar:30} {msg}", 100),
            device: line("  device  {bar:30} {msg}", 100),
            best: line("  best    {msg}", 1),
            mix: line("  so far  {msg}", 1),
            all,
        }
    }

    fn found(&self) {
        self.mix.set_message(self.tally.mix());
        if let Some((objective, name)) = &self.tally.best {
            self.best.set_message(format!("{} · {name}", time(*objective)));
        }
    }

    fn lanes(&self, event: &Event) {
        let Event::Lanes { compile_busy, device_busy, compile_queue, device_queue } = event else { return };
        for (bar, busy, queue) in
            [(&self.compile, compile_busy, compile_queue), (&self.device, device_busy, device_queue)]
        {
            let percent = (busy * 100.0).min(100.0);
            bar.set_position(percent as u64);
            bar.set_message(format!("{percent:.0} % busy, {queue} queued"));
        }
    }
}

impl Observer for Bars {
    fn observe(&mut self, event: &Event) {
        match event {
            Event::Started { .. } => {
                let _ = self.all.println(started(event).unwrap_or_default());
                self.tally.started(event);
                self.main.set_length(self.tally.total.unwrap_or(0));
                self.main.set_position(self.tally.done);
                self.found();
                // What earlier runs evaluated does not count towards the speed of this one.
                self.main.reset_eta();
                self.main.enable_steady_tick(Duration::from_millis(200));
            }
            Event::Finished { evaluation, best } => {
                self.tally.finished(evaluation, *best);
                self.main.set_position(self.tally.done);
                self.found();
            }
            Event::Lanes { .. } => self.lanes(event),
            Event::NotFinal { evaluation } => {
                let _ = self.all.println(not_final(evaluation));
            }
            Event::Confirming { finalist, of } => {
                self.compile.set_message("idle");
                self.device.set_message(confirming(*finalist, *of));
            }
            Event::Notice { message } => {
                // Through the bars, which would otherwise be drawn over the line.
                let _ = self.all.println(format!("note: {message}"));
            }
            Event::Stopped { .. } => {
                for bar in [&self.main, &self.compile, &self.device, &self.best, &self.mix] {
                    bar.finish_and_clear();
                }
            }
            Event::Recovered { .. }
            | Event::Compiling { .. }
            | Event::Evaluating { .. }
            | Event::Generation { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use evo_space::genome::Configuration;

    use super::*;
    use crate::budget::StopReason;
    use crate::event::Earlier;

    #[test]
    fn every_event_is_one_json_object_that_names_itself() {
        let events = [
            Event::Started {
                study: "s".into(),
                device: "d".into(),
                seed: 7,
                valid: 1 << 70,
                total: None,
                earlier: Earlier::default(),
            },
            Event::Evaluating { number: 3 },
            Event::Lanes { compile_busy: 0.5, device_busy: 0.9, compile_queue: 1, device_queue: 2 },
            Event::Stopped { reason: StopReason::Wall },
        ];
        let lines: Vec<String> =
            events.iter().map(|event| crate::report::json::event(event).to_string()).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        {"event":"started","study":"s","device":"d","seed":7,"valid":"1180591620717411303424","total":null,"resumed":0,"taken_over":0,"best_ns":null}
        {"event":"evaluating","number":3}
        {"event":"lanes","compile_busy":0.5,"device_busy":0.9,"compile_queue":1,"device_queue":2}
        {"event":"stopped","reason":"wall"}
        "#);
    }

    /// A study that goes on after sixteen evaluations.
    fn resumed() -> Event {
        let best = Configuration::new(vec![("A".into(), 4.into())]);
        let verdicts = BTreeMap::from([("pass".to_string(), 12), ("too_slow".to_string(), 4)]);
        let earlier = Earlier { evaluations: 16, best: Some((2500.0, best)), verdicts, taken_over: 4 };
        let (study, device) = ("gemm-host".into(), "cpu".into());
        Event::Started { study, device, seed: 7, valid: 900, total: Some(48), earlier }
    }

    #[test]
    fn progress_goes_on_from_what_was_found_before() {
        let mut tally = Tally::default();
        tally.started(&resumed());
        insta::assert_snapshot!(tally.line(), @"16/48 · best 2.500 µs · pass 12, too_slow 4");
    }

    #[test]
    fn the_first_line_says_what_is_ahead() {
        let event = resumed();
        insta::assert_snapshot!(started(&event).unwrap(), @"study gemm-host on cpu: 900 valid configurations, up to 48 evaluations, 16 done before, 4 taken over, seed 7");
    }
}
