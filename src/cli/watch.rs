//! `evo report --watch`: the page of a study, live, for this machine's own browser. It reads the journal and writes nothing.
//!
//! A thread for each connection, few of them, each with deadlines, understands as much of HTTP/1.1 (RFC 9112) as a server
//! of one page has to. The page asks for itself again and names the version that it is (`ETag`).

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use evo_system::lock;

use super::answer::Answer;
use super::error::CliError;
use super::output;
use super::report::{self, ChosenStudy};
use super::seed;
use crate::journal::error::JournalError;
use crate::journal::own_folder::OwnFolder;
use crate::journal::reader::{self, JOURNAL, Journal};
use crate::journal::record::FORMAT;
use crate::report::standing::Standing;
use crate::report::study_report::{LoadedStudy, ReportMaterial, StudyModel, StudyView};

/// How often the journal's length is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// A page is rendered at most once in so many times of what rendering took: 5 % of one processor, so that a sweep on the
/// host device beside it is not disturbed.
const REST: u32 = 20;
const LEAST: Duration = Duration::from_secs(1);

/// Runs the command. A signal ends it (`guard`), because nothing here needs to be put in order first.
pub fn run(chosen: ChosenStudy, port: u16) -> Result<Answer, CliError> {
    let place = chosen.folder.path().display().to_string();
    let mut follower = Follower::begin(chosen)?;
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| {
        CliError::environment(format!("cannot listen on port {port} of 127.0.0.1: {error}"))
            .with_hint("name another port, or none")
    })?;
    let trouble = |error: io::Error| CliError::harness(format!("cannot serve the page: {error}"));
    let port = listener.local_addr().map_err(trouble)?.port();
    let token = seed::drawn::<16>("a token")?.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let page = LivePage { text: follower.page()?.into(), version: 1 };
    let server = Arc::new(PageServer { token: token.clone(), port, page: Mutex::new(page) });
    server.clone().start(listener).map_err(trouble)?;
    output::stdout(&format!("http://127.0.0.1:{port}/?token={token}\n"))?;
    output::say(&format!("study: {place}; Ctrl-C ends this"));
    loop {
        thread::sleep(LOOK);
        if follower.length()? == follower.shown {
            continue;
        }
        let began = Instant::now();
        server.replace(follower.page()?);
        thread::sleep((began.elapsed() * REST).max(LEAST));
    }
}

/// A journal that grows.
#[derive(Debug)]
struct Follower {
    folder: OwnFolder,
    /// Bytes that the page is of.
    shown: u64,
    /// A copy of the header as `study.json` has it, for a journal that lacks its own.
    copy: String,
    peers: Option<Standing>,
}

impl Follower {
    fn begin(chosen: ChosenStudy) -> Result<Follower, CliError> {
        let material = report::gather(&chosen)?;
        let copy = serde_json::json!({ "header": material.study.header }).to_string();
        Ok(Follower { folder: chosen.folder, shown: 0, copy, peers: material.peers })
    }

    fn length(&self) -> Result<u64, JournalError> {
        JournalError::refuse_irregular(&self.folder, JOURNAL)?;
        let fail = |error| JournalError::io("read", &self.folder.place(JOURNAL), error);
        Ok(self.folder.age(JOURNAL).map_err(fail)?.1)
    }

    fn page(&mut self) -> Result<String, CliError> {
        self.shown = self.length()?;
        let path = self.folder.place(JOURNAL);
        let bytes = self.folder.read(JOURNAL).map_err(|error| JournalError::io("read", &path, error))?;
        // Half a line is one that is being written.
        let journal = Journal { torn: false, ..reader::parse(&bytes) };
        let study = LoadedStudy::of(journal, self.copy.as_bytes());
        let study = study.filter(|study| study.header.format <= FORMAT);
        let mut study = study.ok_or_else(|| CliError::from(JournalError::NoHeader { path }))?;
        study.keep_insight(&self.folder);
        let material = ReportMaterial { peers: self.peers.clone(), ..ReportMaterial::of(study) };
        report::rendered(&StudyModel::of(&material), StudyView::LivePage)
    }
}

/// Connections at once; the next one is told to come again.
const CONNECTIONS: usize = 32;
/// A client that takes nothing for so long is left.
const PATIENCE: Duration = Duration::from_secs(5);

const FIELDS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: \
no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n";

struct PageServer {
    token: String,
    port: u16,
    page: Mutex<LivePage>,
}

struct LivePage {
    text: Arc<str>,
    version: u64,
}

impl PageServer {
    fn start(self: Arc<PageServer>, listener: TcpListener) -> io::Result<()> {
        thread::Builder::new().name("accept".into()).spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Out of file descriptors, for example: others will end.
                    thread::sleep(Duration::from_millis(50));
                    continue;
                };
                let server = Arc::clone(&self);
                // A connection for which there is no thread is closed.
                let _ = thread::Builder::new().name("client".into()).spawn(move || {
                    // One for this function's `self`, one for the page's keeper, and one for each connection.
                    match Arc::strong_count(&server) > CONNECTIONS + 2 {
                        true => refuse(&stream, Refusal(503, "Service Unavailable")),
                        false => server.answer(stream),
                    }
                });
            }
        })?;
        Ok(())
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let Some(head) = read_head(&mut stream) else {
            return refuse(&stream, Refusal(408, "Request Timeout"));
        };
        let known = match known_version(&head, self.port, &self.token) {
            Ok(known) => known,
            Err(refusal) => return refuse(&stream, refusal),
        };
        let (text, version) = {
            let page = lock(&self.page);
            (Arc::clone(&page.text), format!("\"{}\"", page.version))
        };
        if known.as_ref() == Some(&version) {
            return write!(stream, "HTTP/1.1 304 Not Modified\r\n{FIELDS}\r\n");
        }
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nETag: {version}\r\n{FIELDS}\r\n{text}",
            text.len()
        )
    }

    fn replace(&self, text: String) {
        let mut page = lock(&self.page);
        if *page.text != *text {
            *page = LivePage { text: text.into(), version: page.version + 1 };
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
const HEAD_TIME: Duration = Duration::from_secs(5);

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

/// Which version of the page the client has, where its head asks for the page. The `Host` must be this server's own name, so
/// that no other site's name that somebody lets point to this machine (DNS rebinding) gets an answer, and the token must be
/// right.
fn known_version(head: &[u8], port: u16, token: &str) -> Result<Option<String>, Refusal> {
    let head = std::str::from_utf8(head).map_err(|_| BAD)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some("HTTP/1.1")) = (method, target, version) else { return Err(BAD) };
    let field = |name: &str| {
        let all = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        all.filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect::<Vec<_>>()
    };
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let [host] = field("host")[..] else { return Err(BAD) };
    if !hosts.iter().any(|name| name == host) {
        return Err(Refusal(421, "Misdirected Request"));
    }
    let from_elsewhere = |origin: &&str| !hosts.iter().any(|name| format!("http://{name}") == **origin);
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
        "/" => Ok(field("if-none-match").first().map(|version| version.to_string())),
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

    #[test]
    fn only_the_page_is_served() {
        let host = "Host: 127.0.0.1:8080";
        let other_origin = format!("{host}\r\nOrigin: http://evil");
        for (line, fields, expected) in [
            ("GET /?token=abc HTTP/1.1", host, Ok(None)),
            (
                "GET /?a=b&token=abc HTTP/1.1",
                "hOST:localhost:8080\r\nIf-None-Match: \"3\"",
                Ok(Some("\"3\"")),
            ),
            ("GET /../etc/passwd?token=abc HTTP/1.1", host, Err(404)),
            ("POST /?token=abc HTTP/1.1", host, Err(405)),
            ("GET /?token=abd HTTP/1.1", host, Err(403)),
            ("GET /?token=ab HTTP/1.1", host, Err(403)),
            ("GET / HTTP/1.1", host, Err(403)),
            ("GET /?token=abc HTTP/1.1", "Host: evil.example:8080", Err(421)),
            ("GET /?token=abc HTTP/1.1", "Host: 127.0.0.1", Err(421)),
            ("GET /?token=abc HTTP/1.1", "Host: 127.0.0.1:8080\r\nHost: evil.example", Err(400)),
            ("GET /?token=abc HTTP/1.1", "A: b", Err(400)),
            ("GET /?token=abc HTTP/1.1", &other_origin, Err(403)),
            ("GET /?token=abc HTTP/1.1", "Host: 127.0.0.1:8080\r\nOrigin: null", Err(403)),
            ("GET /?token=abc HTTP/1.0", host, Err(400)),
            ("", "", Err(400)),
        ] {
            let head = format!("{line}\r\n{fields}\r\n\r\n");
            let known = known_version(head.as_bytes(), 8080, "abc").map_err(|refusal| refusal.0);
            assert_eq!(known, expected.map(|known: Option<&str>| known.map(String::from)), "{head}");
        }
        assert_eq!(known_version(b"\xff\xfe\r\n\r\n", 1, "").map_err(|refusal| refusal.0), Err(400));
    }

    #[test]
    fn a_head_without_an_end_is_given_up() {
        let endless = vec![b'a'; HEAD_MAX * 2];
        assert_eq!(read_head(&mut endless.as_slice()), None);
        assert_eq!(read_head(&mut b"GET /".as_slice()), None);
        assert_eq!(read_head(&mut b"GET / HTTP/1.1\r\n\r\n".as_slice()).map(|head| head.len()), Some(18));
    }
}
