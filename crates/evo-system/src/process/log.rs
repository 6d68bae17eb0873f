//! What a child prints, kept in part and counted in full.
//!
//! A compiler or a kernel that floods its output must neither fill our memory nor block on a full pipe:
//! everything is read, most of it is dropped.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};

#[derive(Clone, Debug)]
pub struct CappedLog {
    head: Vec<u8>,
    // A ring: the oldest bytes leave without moving the others.
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    total: u64,
}

impl CappedLog {
    /// Two thirds from the start, one third from the end, since compilers put causes first and totals last.
    pub fn new(max: usize) -> CappedLog {
        CappedLog::with_ends(max * 2 / 3, max / 3)
    }

    pub fn of_end(max: usize) -> CappedLog {
        CappedLog::with_ends(0, max)
    }

    fn with_ends(head_max: usize, tail_max: usize) -> CappedLog {
        CappedLog { head: Vec::new(), tail: VecDeque::new(), head_max, tail_max, total: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = (self.head_max - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // Cut before it is stored, so that a single large piece never takes more memory than the limit.
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    pub fn read_all(mut self, mut stream: impl Read) -> io::Result<CappedLog> {
        let mut buffer = [0u8; 64 << 10];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(self),
                Ok(length) => self.push(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn truncated(&self) -> bool {
        self.dropped() > 0
    }

    fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    pub fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if !self.truncated() {
            return String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        format!("{head}\n[… {} bytes left out …]\n{tail}", self.dropped())
    }

    /// Cut at a line where possible.
    pub fn tail(&self, bytes: usize) -> String {
        let skip = self.tail.len().saturating_sub(bytes);
        let kept: Vec<u8> = self.tail.iter().skip(skip).copied().collect();
        let text = String::from_utf8_lossy(&kept);
        match text.split_once('\n') {
            Some((_, rest)) if skip > 0 && !rest.is_empty() => rest.to_string(),
            _ => text.into_owned(),
        }
    }

    pub fn clear(&mut self) {
        *self = CappedLog::with_ends(self.head_max, self.tail_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(max: usize, chunks: &[&str], expected: &str, truncated: bool) {
        let mut log = CappedLog::new(max);
        chunks.iter().for_each(|chunk| log.push(chunk.as_bytes()));
        assert_eq!((log.text().as_str(), log.truncated()), (expected, truncated), "{chunks:?}");
    }

    #[test]
    fn starts_and_ends_are_kept() {
        check(9, &["abc", "def"], "abcdef", false);
        check(9, &["abcdefghi"], "abcdefghi", false);
        check(9, &["abcdef", "ghij"], "abcdef\n[… 1 bytes left out …]\nhij", true);
        check(9, &["abcdefXXXXXXXXghi"], "abcdef\n[… 8 bytes left out …]\nghi", true);
        check(9, &["a", "bcdefX", "XX", "Xgh", "i"], "abcdef\n[… 4 bytes left out …]\nghi", true);
    }

    #[test]
    fn the_end_is_kept_and_everything_counted() {
        let mut log = CappedLog::of_end(64 * 1024);
        log.push(&vec![b'x'; 1_000_000]);
        log.push(b"\nlast words\n");
        assert_eq!(log.total(), 1_000_012);
        assert_eq!(log.tail(100), "last words\n");
        assert_eq!(log.tail(usize::MAX).len(), 64 * 1024);
    }
}
