//! Keeping the start and the end of a stream that may be endless.
//!
//! A compiler that floods its log must neither fill our memory nor block on a full pipe: everything is
//! read, most of it is dropped.

use std::collections::VecDeque;
use std::io::{self, Read};

/// The kept parts of a stream.
#[derive(Debug)]
pub struct Drain {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    dropped: u64,
}

impl Drain {
    /// Keeps at most `max` bytes: two thirds from the start, one third from the end.
    pub fn new(max: usize) -> Drain {
        Drain {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_max: max * 2 / 3,
            tail_max: max / 3,
            dropped: 0,
        }
    }

    /// Takes some bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = (self.head_max - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        let skipped = rest.len().saturating_sub(self.tail_max);
        let rest = &rest[skipped..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..excess);
        self.tail.extend(rest);
        self.dropped += (skipped + excess) as u64;
    }

    /// Reads a stream to its end.
    pub fn read_all(mut self, mut stream: impl Read) -> io::Result<Drain> {
        let mut buffer = [0u8; 16 * 1024];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(self),
                Ok(length) => self.push(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether anything was dropped.
    pub fn truncated(&self) -> bool {
        self.dropped > 0
    }

    /// What was kept, with a note where something is missing.
    pub fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.dropped == 0 {
            return String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        format!("{head}\n[… {} bytes left out …]\n{tail}", self.dropped)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Drain::new(self.head_max + self.tail_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(max: usize, chunks: &[&str], expected: &str, truncated: bool) {
        let mut drain = Drain::new(max);
        chunks.iter().for_each(|chunk| drain.push(chunk.as_bytes()));
        assert_eq!((drain.text().as_str(), drain.truncated()), (expected, truncated), "{chunks:?}");
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
    fn a_flood_is_read_to_its_end() {
        let drain = Drain::new(900).read_all(io::repeat(b'x').take(1_000_000)).unwrap();
        assert!(drain.truncated() && drain.text().len() < 1000);
    }
}
