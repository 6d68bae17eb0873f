//! The panel on a terminal: drawn anew a few times a second, so that clocks go on while nothing happens.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::tally::Tally;
use super::{panel, words};
use crate::cli::output;
use crate::event::{Event, Observer};
use crate::report::styled::allows_colors;
use crate::report::width::wrapped;

const EVERY: Duration = Duration::from_millis(250);

const USUAL: (usize, usize) = (80, 24);

pub struct LivePanel {
    shared: Arc<Mutex<Drawn>>,
    stop: Option<Sender<()>>,
    clock: Option<JoinHandle<()>>,
}

struct Drawn {
    tally: Tally,
    all: MultiProgress,
    rows: Vec<ProgressBar>,
    began: Instant,
    colors: bool,
    is_running: bool,
}

impl LivePanel {
    pub fn new() -> LivePanel {
        let drawn = Drawn {
            tally: Tally::default(),
            all: MultiProgress::new(),
            rows: Vec::new(),
            began: Instant::now(),
            colors: allows_colors(true),
            is_running: false,
        };
        let shared = Arc::new(Mutex::new(drawn));
        let (stop, stopped) = mpsc::channel::<()>();
        let own = Arc::clone(&shared);
        // Without the thread the panel is drawn at events alone.
        let clock = thread::Builder::new().name("panel".into()).spawn(move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                lock(&own).draw();
            }
        });
        LivePanel { shared, stop: Some(stop), clock: clock.ok() }
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(clock) = self.clock.take() {
            let _ = clock.join();
        }
        lock(&self.shared).clear();
    }
}

impl Drop for LivePanel {
    fn drop(&mut self) {
        self.end();
    }
}

impl Observer for LivePanel {
    fn observe(&mut self, event: &Event) {
        if let Event::Stopped { .. } = event {
            return self.end();
        }
        let mut drawn = lock(&self.shared);
        let now = drawn.began.elapsed();
        drawn.tally.observe(event, now);
        if let Some(line) = words::told(event) {
            // Through the panel, which would otherwise be drawn over the line.
            let line = wrapped(&line, terminal_size().0);
            let line = output::shown(line.trim_end(), drawn.colors);
            match drawn.is_running {
                true => drop(drawn.all.println(line)),
                false => eprintln!("{line}"),
            }
        }
        match event {
            Event::Started { .. } => {
                drawn.is_running = true;
                drawn.draw();
            }
            // Verdicts may come a hundred times a second; the clock draws often enough.
            Event::Confirming { .. } => drawn.draw(),
            _ => {}
        }
    }
}

impl Drawn {
    fn draw(&mut self) {
        if !self.is_running {
            return;
        }
        let (width, height) = terminal_size();
        // One column stays free: a line that fills the last one is broken by some terminals.
        let lines = panel::lines(
            &self.tally,
            self.began.elapsed(),
            width.saturating_sub(1),
            height.saturating_sub(2),
        );
        while self.rows.len() < lines.len() {
            let style =
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            let row = self.all.add(ProgressBar::new_spinner());
            row.set_style(style);
            self.rows.push(row);
        }
        for row in self.rows.drain(lines.len()..) {
            row.finish_and_clear();
        }
        for (row, line) in self.rows.iter().zip(lines) {
            row.set_message(line.text(self.colors));
        }
    }

    fn clear(&mut self) {
        self.is_running = false;
        self.rows.drain(..).for_each(|row| row.finish_and_clear());
        let _ = self.all.clear();
    }
}

fn lock(shared: &Mutex<Drawn>) -> MutexGuard<'_, Drawn> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn terminal_size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    let (width, height) = size.unwrap_or(USUAL);
    (if width == 0 { USUAL.0 } else { width }, if height == 0 { USUAL.1 } else { height })
}
