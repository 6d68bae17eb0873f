//! `evo report --watch`: the page of a study, live, for this machine's own browser. It reads the journal and writes nothing.
//!
//! A thread for each connection, few of them, each with deadlines, understands as much of HTTP/1.1 (RFC 9112) as a server
//! of one page has to.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::error::CliError;
use super::output;
use super::report::{self, ChosenStudy};
use crate::journal::error::JournalError;
use crate::journal::own_folder::OwnFolder;
use crate::journal::reader::{self, JOURNAL, Journal};
use crate::journal::record::FORMAT;
use crate::report::standing::Standing;
use crate::report::study_report::{LoadedStudy, ReportMaterial, StudyModel, StudyView};

/// Runs the command. A signal ends it (`guard`), because nothing here needs to be put in order first.
pub fn run(chosen: ChosenStudy, port: u16) -> Result<Answer, CliError> {
    let place = chosen.folder.path().display().to_string();
    let mut follower = Follower::begin(chosen)?;
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| {
        CliError::environment(format!("cannot listen on port {port} of 127.0.0.1: {error}"))
            .with_hint("name another port, or none")
    })?;
    let trouble = |error: std::io::Error| CliError::harness(format!("cannot serve the page: {error}"));
    let port = listener.local_addr().map_err(trouble)?.port();
    let live = Arc::new(LivePage::new(follower.page()?));
    let token = token()?;
    PageServer { token: token.clone(), port, live: Arc::clone(&live) }.start(listener).map_err(trouble)?;
    output::stdout(&format!("http://127.0.0.1:{port}/?token={token}\n"))?;
    output::say(&format!("study: {place}; Ctrl-C ends this"));
    follower.follow(&live)
}

/// How often the journal's length is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// A page is rendered at most once in so many times of what rendering took: 5 % of one processor, so that a sweep on the
/// host device beside it is not disturbed.
const REST: u32 = 20;
/// And not more often than this.
const LEAST: Duration = Duration::from_secs(1);

/// The page as it is now.
#[derive(Debug)]
struct LivePage {
    state: Mutex<PageState>,
    changed: Condvar,
}

#[derive(Debug)]
struct PageState {
    text: Arc<str>,
    version: u64,
}

impl LivePage {
    fn new(text: String) -> LivePage {
        LivePage { state: Mutex::new(PageState { text: text.into(), version: 1 }), changed: Condvar::new() }
    }

    /// The page and its version.
    fn now(&self) -> (Arc<str>, u64) {
        let state = self.lock();
        (Arc::clone(&state.text), state.version)
    }

    /// Waits until there is a newer version than `known`; gives the version there is after `patience` at the latest.
    fn wait(&self, known: u64, patience: Duration) -> u64 {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |state| state.version <= known);
        waited.unwrap_or_else(PoisonError::into_inner).0.version
    }

    fn replace(&self, text: String) {
        let mut state = self.lock();
        if *state.text != *text {
            state.text = text.into();
            state.version += 1;
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a journal as it grows.
#[derive(Debug)]
struct Follower {
    folder: OwnFolder,
    /// What was decoded, up to the last whole line.
    journal: Journal,
    /// A copy of the header as `study.json` has it, for a journal that lacks its own.
    copy: String,
    peers: Option<Standing>,
}

impl Follower {
    /// Reads what there is.
    fn begin(chosen: ChosenStudy) -> Result<Follower, CliError> {
        let material = report::gather(&chosen)?;
        let copy = serde_json::json!({ "header": material.study.header }).to_string();
        let (folder, journal, peers) = (chosen.folder, Journal::default(), material.peers);
        let mut follower = Follower { folder, journal, copy, peers };
        follower.catch_up()?;
        Ok(follower)
    }

    /// Decodes the lines that are new; whether there are any.
    fn catch_up(&mut self) -> Result<bool, JournalError> {
        JournalError::refuse_irregular(&self.folder, JOURNAL)?;
        let fail = |error| JournalError::io("read", &self.folder.place(JOURNAL), error);
        let (_, length) = self.folder.age(JOURNAL).map_err(fail)?;
        if length == self.journal.length {
            return Ok(false);
        }
        let bytes = self.folder.read(JOURNAL).map_err(fail)?;
        // Shorter than what is known: a resumed run has cut off a torn line, or it is another journal.
        if (bytes.len() as u64) < self.journal.length {
            self.journal = Journal::default();
        }
        let start = usize::try_from(self.journal.length).unwrap_or(usize::MAX).min(bytes.len());
        // A last line without its newline is still being written.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(start, |at| (at + 1).max(start));
        let fresh = reader::parse(&bytes[start..end]);
        let is_new = end > start;
        self.journal.records.extend(fresh.records);
        self.journal.rejected.extend(fresh.rejected);
        self.journal.length = end as u64;
        Ok(is_new)
    }

    /// The page as of what was read.
    fn page(&mut self) -> Result<String, CliError> {
        let records = self.journal.records.clone();
        let known = Journal { records, length: self.journal.length, ..Journal::default() };
        let study = LoadedStudy::of(known, self.copy.as_bytes()).filter(|own| own.header.format <= FORMAT);
        let path = self.folder.place(JOURNAL);
        let mut study = study.ok_or_else(|| CliError::from(JournalError::NoHeader { path }))?;
        let damaged = self.journal.rejected.len();
        if damaged > 0 {
            study.damage.push(format!("{damaged} damaged lines of the journal are left out"));
        }
        study.keep_insight(&self.folder);
        let material = ReportMaterial { peers: self.peers.clone(), ..ReportMaterial::of(study) };
        report::rendered(&StudyModel::of(&material), StudyView::LivePage)
    }

    /// Renders the page again whenever there is more, until a signal ends the process.
    fn follow(&mut self, live: &LivePage) -> Result<Answer, CliError> {
        let mut pending = false;
        let mut rest_until = Instant::now();
        loop {
            std::thread::sleep(LOOK);
            pending |= self.catch_up()?;
            if !pending || Instant::now() < rest_until {
                continue;
            }
            let began = Instant::now();
            live.replace(self.page()?);
            pending = false;
            rest_until = Instant::now() + (began.elapsed() * REST).max(LEAST);
        }
    }
}

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
fn token() -> Result<String, CliError> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| CliError::environment(format!("cannot draw a token from `/dev/urandom`: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[derive(Debug)]
struct PageServer {
    token: String,
    port: u16,
    live: Arc<LivePage>,
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
    fn start(self, listener: TcpListener) -> io::Result<()> {
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

/// A request's head has some hundred bytes; cookies of other servers of this machine come along.
const HEAD_MAX: usize = 16 << 10;
/// A whole head has to arrive within this time.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Page,
    /// The stream that says when the page has changed.
    Events,
}

/// Why nothing is served: the status line's number and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal(u16, &'static str);

const BAD: Refusal = Refusal(400, "Bad Request");

/// Reads a head up to its empty line; `None` where it does not come in time.
fn read_head(stream: &mut impl Read) -> Option<Vec<u8>> {
    let (mut head, began) = (Vec::new(), Instant::now());
    let mut part = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&part[..count]);
        if head.len() > HEAD_MAX || began.elapsed() > HEAD_TIME {
            return None;
        }
    }
    Some(head)
}

/// What a head asks for. The `Host` must be this server's own name, so that no other site's name that somebody lets
/// point to this machine (DNS rebinding) gets an answer, and the token must be right.
fn wanted(head: &[u8], port: u16, token: &str) -> Result<Wanted, Refusal> {
    let head = std::str::from_utf8(head).map_err(|_| BAD)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some("HTTP/1.1")) = (method, target, version) else { return Err(BAD) };
    let field = |name: &str| {
        let all = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        all.filter(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect::<Vec<_>>()
    };
    let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let [host] = field("host")[..] else { return Err(BAD) };
    if !own.iter().any(|name| name == host) {
        return Err(Refusal(421, "Misdirected Request"));
    }
    let from_elsewhere = |origin: &&str| !own.iter().any(|name| format!("http://{name}") == **origin);
    if field("origin").iter().any(from_elsewhere) {
        return Err(Refusal(403, "Forbidden"));
    }
    if method != "GET" {
        return Err(Refusal(405, "Method Not Allowed"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let given = query.split('&').find_map(|pair| pair.strip_prefix("token="));
    if !given.is_some_and(|given| is_same(given.as_bytes(), token.as_bytes())) {
        return Err(Refusal(403, "Forbidden"));
    }
    match path {
        "/" => Ok(Wanted::Page),
        "/events" => Ok(Wanted::Events),
        _ => Err(Refusal(404, "Not Found")),
    }
}

/// Compares without saying by its time where two texts differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str, fields: &str) -> Result<Wanted, u16> {
        let head = format!("{line}\r\n{fields}\r\n\r\n");
        wanted(head.as_bytes(), 8080, "abc").map_err(|refusal| refusal.0)
    }

    #[test]
    fn only_the_page_and_its_stream_are_served() {
        let host = "Host: 127.0.0.1:8080";
        assert_eq!(asked("GET /?token=abc HTTP/1.1", host), Ok(Wanted::Page));
        assert_eq!(asked("GET /events?a=b&token=abc HTTP/1.1", "hOST:localhost:8080"), Ok(Wanted::Events));
        assert_eq!(asked("GET /../etc/passwd?token=abc HTTP/1.1", host), Err(404));
        assert_eq!(asked("POST /?token=abc HTTP/1.1", host), Err(405));
        assert_eq!(asked("GET /?token=abd HTTP/1.1", host), Err(403));
        assert_eq!(asked("GET /?token=ab HTTP/1.1", host), Err(403));
        assert_eq!(asked("GET / HTTP/1.1", host), Err(403));
        assert_eq!(asked("GET /?token=abc HTTP/1.1", "Host: evil.example:8080"), Err(421));
        assert_eq!(asked("GET /?token=abc HTTP/1.1", "Host: 127.0.0.1"), Err(421));
        assert_eq!(asked("GET /?token=abc HTTP/1.1", &format!("{host}\r\nHost: evil.example")), Err(400));
        assert_eq!(asked("GET /?token=abc HTTP/1.1", "A: b"), Err(400));
        assert_eq!(asked("GET /?token=abc HTTP/1.1", &format!("{host}\r\nOrigin: http://evil")), Err(403));
        assert_eq!(asked("GET /?token=abc HTTP/1.1", &format!("{host}\r\nOrigin: null")), Err(403));
        assert_eq!(asked("GET /?token=abc HTTP/1.0", host), Err(400));
        assert_eq!(asked("", ""), Err(400));
        assert_eq!(wanted(b"\xff\xfe\r\n\r\n", 1, "").map_err(|own| own.0), Err(400));
    }

    #[test]
    fn a_head_without_an_end_is_given_up() {
        let endless = vec![b'a'; HEAD_MAX * 2];
        assert_eq!(read_head(&mut endless.as_slice()), None);
        assert_eq!(read_head(&mut b"GET /".as_slice()), None);
        assert_eq!(read_head(&mut b"GET / HTTP/1.1\r\n\r\n".as_slice()).map(|own| own.len()), Some(18));
    }
}
