//! What a worker prints: always drained, the end of it kept, all of it counted.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Kept bytes; what came before is counted and forgotten.
const KEEP: usize = 64 * 1024;

/// A capped log, filled by a thread of its own.
#[derive(Clone, Debug)]
pub struct Log {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    tail: VecDeque<u8>,
    total: u64,
    closed: bool,
}

impl Log {
    /// Drains `source` until its end.
    pub fn drain(source: impl Read + Send + 'static) -> std::io::Result<Log> {
        let log = Log { shared: Arc::default() };
        let writer = log.clone();
        thread::Builder::new().name("worker log".into()).spawn(move || writer.fill(source))?;
        Ok(log)
    }

    fn fill(&self, mut source: impl Read) {
        let mut buffer = [0u8; 16 * 1024];
        loop {
            let read = match source.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            let mut state = self.lock();
            state.total += read as u64;
            state.tail.extend(&buffer[..read]);
            let excess = state.tail.len().saturating_sub(KEEP);
            state.tail.drain(..excess);
        }
        self.lock().closed = true;
        self.shared.1.notify_all();
    }

    /// Bytes printed so far.
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// The last `bytes` bytes, cut at a line where possible.
    pub fn tail(&self, bytes: usize) -> String {
        let state = self.lock();
        let skip = state.tail.len().saturating_sub(bytes);
        let kept: Vec<u8> = state.tail.iter().skip(skip).copied().collect();
        let text = String::from_utf8_lossy(&kept);
        match text.split_once('\n') {
            Some((_, rest)) if skip > 0 && !rest.is_empty() => rest.to_string(),
            _ => text.into_owned(),
        }
    }

    /// Waits until the other end is closed, for a short time: a dead worker's last words.
    pub fn wait_closed(&self, limit: Duration) {
        let (_, changed) = &*self.shared;
        let _ = changed.wait_timeout_while(self.lock(), limit, |state| !state.closed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_everything_counted() {
        let mut text = vec![b'x'; 1_000_000];
        text.extend_from_slice(b"\nlast words\n");
        let log = Log::drain(std::io::Cursor::new(text)).unwrap();
        log.wait_closed(Duration::from_secs(10));
        assert_eq!(log.total(), 1_000_012);
        assert_eq!(log.tail(100), "last words\n");
        assert!(log.tail(usize::MAX).len() <= KEEP);
    }
}
