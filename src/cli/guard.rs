//! What ends a call from outside: signals, and the limit of the whole command. Either leaves the call's one object, and no worker:
//! the end of this process ends the processes that it started.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evo_protocol::envelope::LimitName;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{Call, CliError, ExitCode, output};
use crate::process::{is_ignored, signal_name};

/// Whoever watches for signals instead ends in order; after the first and the second one the call ends this much later,
/// whatever still runs.
const IN_ORDER: [Duration; 2] = [Duration::from_millis(4500), Duration::from_millis(1500)];

/// Ends the call at Ctrl-C, SIGTERM and the end of the terminal, at once for as long as nobody else watches for them.
pub fn watch_signals(call: &Call) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // A file that may not grow (`ulimit -f`) is then an error of the write, as a full disk is.
    signal_hook::flag::register(libc::SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    // Under `nohup` the end of the terminal is not ours to hear of.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    let call = call.clone();
    let thread = std::thread::Builder::new().name("interrupts".into());
    thread.spawn(move || {
        let (mut ended, mut asked) = (false, 0);
        for signal in signals.forever() {
            let error = CliError::interrupted(format!("interrupted by {}", signal_name(signal)));
            if call.is_watched() {
                if let Some(within) = IN_ORDER.get(asked).copied() {
                    asked += 1;
                    let call = call.clone();
                    // Without a thread the other's order is all there is.
                    let _ = std::thread::Builder::new().name("late".into()).spawn(move || {
                        std::thread::sleep(within);
                        end(&call, error.with_hint("the same command with `--resume` continues"));
                    });
                }
                continue;
            }
            if ended {
                // The command is done and does not get away.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            end(&call, error);
            ended = true;
        }
    })?;
    Ok(())
}

/// Ends the call when it has lasted that long, as `flag` says. `grace` is what a command gets that ends in order by itself.
pub fn limit_total(call: &Call, limit: Duration, flag: &'static str, grace: Duration) -> io::Result<()> {
    let call = call.clone();
    std::thread::Builder::new().name("limit".into()).spawn(move || {
        std::thread::sleep(limit.saturating_add(grace));
        call.hit(LimitName::Total);
        end(&call, total_is_over(limit).with_hint(format!("allow more with `{flag}`")));
    })?;
    Ok(())
}

pub fn total_is_over(limit: Duration) -> CliError {
    CliError::limit(format!("the limit of {} s for the whole command is used up", limit.as_secs_f64()))
}

fn end(call: &Call, error: CliError) {
    let said = format!("error: {error}");
    if let Some(exit) = call.end_now(error) {
        output::say(&said);
        leave(exit);
    }
}

/// Ends the process. Workers and compilers get SIGKILL with it.
#[expect(clippy::exit, reason = "the command's own thread waits for something that may never come")]
pub fn leave(exit: ExitCode) {
    std::process::exit(exit as i32);
}
