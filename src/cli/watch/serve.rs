//! Serves the page: a thread for each connection, few of them, each with deadlines.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::follow::LivePage;
use super::request::{Refusal, Wanted, read_head, wanted};
use crate::cli::error::CliError;

/// Connections at once; the next one is told to come again.
const CONNECTIONS: usize = 32;
/// Streams among them, so that a page can always be had.
const STREAMS: usize = 16;
/// A client that takes nothing for so long is left.
const PATIENCE: Duration = Duration::from_secs(5);
/// A stream says so often that it is alive, and notices so that its client has left.
const PULSE: Duration = Duration::from_secs(15);

const FIELDS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: \
no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n";

/// 128 random bits, in hexadecimal digits.
pub fn token() -> Result<String, CliError> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| CliError::environment(format!("cannot draw a token from `/dev/urandom`: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[derive(Debug)]
pub struct PageServer {
    pub token: String,
    pub port: u16,
    pub live: Arc<LivePage>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    streams: AtomicUsize,
}

/// One of a limited number; given back when it is dropped.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(count: &'a AtomicUsize, most: usize) -> Option<Place<'a>> {
        let taken =
            count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |own| (own < most).then_some(own + 1));
        taken.ok().map(|_| Place(count))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PageServer {
    /// Serves from now on, in a thread of its own.
    pub fn start(self, listener: TcpListener) -> io::Result<()> {
        let (server, counts) = (Arc::new(self), Arc::new(Counts::default()));
        thread::Builder::new().name("accept".into()).spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Out of file descriptors, for example: others will end.
                    thread::sleep(Duration::from_millis(50));
                    continue;
                };
                let (server, counts) = (Arc::clone(&server), Arc::clone(&counts));
                // A connection for which there is no thread is closed.
                let _ = thread::Builder::new().name("client".into()).spawn(move || {
                    let Some(_place) = Place::take(&counts.connections, CONNECTIONS) else {
                        let _ = refuse(&stream, Refusal(503, "Service Unavailable"));
                        return;
                    };
                    let _ = server.answer(stream, &counts);
                });
            }
        })?;
        Ok(())
    }

    fn answer(&self, mut stream: TcpStream, counts: &Counts) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let Some(head) = read_head(&mut stream) else {
            return refuse(&stream, Refusal(408, "Request Timeout"));
        };
        match wanted(&head, self.port, &self.token) {
            Err(refusal) => refuse(&stream, refusal),
            Ok(Wanted::Page) => {
                let (text, _) = self.live.now();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n{FIELDS}\r\n",
                    text.len()
                );
                stream.write_all(head.as_bytes())?;
                stream.write_all(text.as_bytes())
            }
            Ok(Wanted::Events) => match Place::take(&counts.streams, STREAMS) {
                None => refuse(&stream, Refusal(503, "Service Unavailable")),
                Some(_place) => self.tell(&mut stream),
            },
        }
    }

    /// Says whenever there is a newer page, until the client leaves.
    fn tell(&self, stream: &mut TcpStream) -> io::Result<()> {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{FIELDS}\r\nretry: 2000\n\n")?;
        let (_, mut known) = self.live.now();
        loop {
            let version = self.live.wait(known, PULSE);
            match version > known {
                true => write!(stream, "event: changed\ndata: {version}\n\n")?,
                false => stream.write_all(b": alive\n\n")?,
            }
            known = version;
        }
    }
}

fn refuse(mut stream: &TcpStream, Refusal(number, words): Refusal) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (length, retry) = (words.len() + 1, if number == 503 { "Retry-After: 1\r\n" } else { "" });
    write!(
        stream,
        "HTTP/1.1 {number} {words}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n{retry}{FIELDS}\r\n{words}\n"
    )
}
