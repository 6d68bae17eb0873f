//! Ctrl-C, SIGTERM and the end of the terminal (SIGHUP): the first asks for an orderly end, the second for an end
//! now.

use std::io;
use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::ports::Message;
use evo_system::process::is_ignored;

/// Forwards signals to the engine from a thread of its own, for the rest of the process's life.
pub fn watch<B: Send + 'static>(sender: Sender<Message<B>>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // Under `nohup` the end of the terminal is not ours to hear of.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || {
        for (count, _) in (1u32..).zip(signals.forever()) {
            // Once the engine is gone, whoever started it watches for itself.
            let _ = sender.send(Message::Interrupt(count));
        }
    })?;
    Ok(())
}
