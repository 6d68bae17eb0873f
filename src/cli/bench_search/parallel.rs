//! Runs side by side, each with one core to itself, and how far they are.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Plain lines of progress come at most this often.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Does `work` for each number below `count`, so many at a time as there are `jobs` (or cores); results in
/// order of number, or the first error. The order in which they end does not matter.
pub fn each<T, E>(
    count: usize,
    jobs: Option<usize>,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> anyhow::Result<Vec<T>>
where
    T: Send,
    E: std::error::Error + Send + Sync + 'static,
{
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let talk = Talk::new(count);
    let results = Mutex::new((0..count).map(|_| None).collect::<Vec<Option<T>>>());
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(None::<E>));
    let worker = || {
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < count
        {
            match work(number) {
                Ok(result) => results.lock().expect("no holder panics")[number] = Some(result),
                Err(error) => {
                    next.store(count, Ordering::Relaxed);
                    failure.lock().expect("no holder panics").get_or_insert(error);
                }
            }
            talk.step();
        }
    };
    thread::scope(|scope| -> anyhow::Result<()> {
        for _ in 0..jobs.unwrap_or(cores).min(count) {
            // What a strategy does in parallel stays on the core of its run.
            let core = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
            let worker = &worker;
            scope.spawn(move || core.install(worker));
        }
        Ok(())
    })?;
    talk.finish();
    if let Some(error) = failure.into_inner().expect("no holder panics") {
        return Err(error.into());
    }
    Ok(results.into_inner().expect("no holder panics").into_iter().flatten().collect())
}

/// Progress on stderr: a bar where somebody watches, a line now and then elsewhere.
struct Talk {
    bar: Option<ProgressBar>,
    count: usize,
    start: Instant,
    /// Runs done, and when that was last said.
    state: Mutex<(usize, Instant)>,
}

impl Talk {
    fn new(count: usize) -> Talk {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {elapsed} of about {duration}")
            .expect("a valid template");
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(count as u64).with_style(style));
        Talk { bar, count, start: Instant::now(), state: Mutex::new((0, Instant::now())) }
    }

    fn step(&self) {
        let mut state = self.state.lock().expect("no holder panics");
        state.0 += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(state.0 as u64);
        } else if state.1.elapsed() >= PLAIN_EVERY {
            state.1 = Instant::now();
            eprintln!("{}/{} runs, {:.0} s", state.0, self.count, self.start.elapsed().as_secs_f64());
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
