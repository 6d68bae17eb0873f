//! `evo report --watch`: the page of a study, live, for this machine's own browser. It reads the journal and writes nothing.
//!
//! A thread for each connection, with deadlines, understands as much of HTTP/1.1 (RFC 9112) as a server of one page has
//! to. The page asks for itself again and names the version that it is (`ETag`).

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use evo_system::lock;

use super::report::{self, ChosenStudy};
use super::{Answer, CliError, Result, output, seed};
use crate::journal::error::JournalError;
use crate::journal::reader::JOURNAL;
use crate::report::study_report::{StudyModel, StudyView};

/// How often the journal's length is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// A page is rendered at most once in so many times of what rendering took: 5 % of one processor, so that a sweep on the
/// host device beside it is not disturbed.
const REST: u32 = 20;
const LEAST: Duration = Duration::from_secs(1);

/// Runs the command. A signal ends it (`call`), because nothing here needs to be put in order first.
pub fn run(chosen: ChosenStudy, port: u16) -> Result<Answer> {
    let place = chosen.folder.path().display().to_string();
    let mut shown = length(&chosen)?;
    let first = page(&chosen)?;
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| {
        CliError::environment(format!("cannot listen on port {port} of 127.0.0.1: {error}"))
            .with_hint("name another port, or none")
    })?;
    let trouble = |error: io::Error| CliError::harness(format!("cannot serve the page: {error}"));
    let port = listener.local_addr().map_err(trouble)?.port();
    let token = seed::drawn::<16>("a token")?.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let served = Mutex::new((Arc::from(first), 1));
    let server = Arc::new(PageServer { token: token.clone(), port, page: served });
    let serving = Arc::clone(&server);
    thread::Builder::new().name("accept".into()).spawn(move || serving.accept(&listener)).map_err(trouble)?;
    output::stdout(&format!("http://127.0.0.1:{port}/?token={token}\n"))?;
    output::say(&format!("study: {place}; Ctrl-C ends this"));
    loop {
        thread::sleep(LOOK);
        let (began, length) = (Instant::now(), length(&chosen)?);
        if length == shown {
            continue;
        }
        // A damaged journal that grows may read differently each time; then the page stays as it is for now.
        if let Ok(text) = page(&chosen) {
            server.replace(text);
            shown = length;
        }
        thread::sleep((began.elapsed() * REST).max(LEAST));
    }
}

fn length(chosen: &ChosenStudy) -> Result<u64, JournalError> {
    JournalError::refuse_irregular(&chosen.folder, JOURNAL)?;
    let age = chosen.folder.age(JOURNAL);
    Ok(age.map_err(|error| JournalError::io("read", &chosen.folder.place(JOURNAL), error))?.1)
}

fn page(chosen: &ChosenStudy) -> Result<String> {
    report::rendered(&StudyModel::of(&report::gather(chosen, true)?), StudyView::LivePage)
}

/// Connections at once; the next one is closed.
const CONNECTIONS: usize = 32;
/// A client that takes nothing for so long is left.
const PATIENCE: Duration = Duration::from_secs(5);

/// The end of the connection is that of the body.
const FIELDS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: \
no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n";

struct PageServer {
    token: String,
    port: u16,
    page: Mutex<(Arc<str>, u64)>,
}

impl PageServer {
    fn accept(self: Arc<PageServer>, listener: &TcpListener) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Out of file descriptors, for example: others will end.
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            // One for this function's `self`, one for the page's keeper, and one for each connection.
            if Arc::strong_count(&self) >= CONNECTIONS + 2 {
                continue;
            }
            let server = Arc::clone(&self);
            // A connection for which there is no thread is closed.
            let _ = thread::Builder::new().name("client".into()).spawn(move || server.answer(stream));
        }
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = read_head(&mut stream).ok_or("408 Request Timeout");
        let known = head.and_then(|head| known_version(&head, self.port, &self.token));
        let (text, version) = {
            let page = lock(&self.page);
            (Arc::clone(&page.0), format!("\"{}\"", page.1))
        };
        match known {
            Err(refusal) => {
                write!(stream, "HTTP/1.1 {refusal}\r\nContent-Type: text/plain\r\n{FIELDS}\r\n{refusal}\n")
            }
            Ok(known) if known.as_ref() == Some(&version) => {
                write!(stream, "HTTP/1.1 304 Not Modified\r\n{FIELDS}\r\n")
            }
            Ok(_) => write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nETag: {version}\r\n\
                 Content-Length: {}\r\n{FIELDS}\r\n{text}",
                text.len()
            ),
        }
    }

    fn replace(&self, text: String) {
        let mut page = lock(&self.page);
        if *page.0 != *text {
            *page = (text.into(), page.1 + 1);
        }
    }
}

/// A request's head has some hundred bytes; cookies of other servers of this machine come along.
const HEAD_MAX: usize = 16 << 10;

fn read_head(stream: &mut impl Read) -> Option<Vec<u8>> {
    let (mut head, began) = (Vec::new(), Instant::now());
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&part[..count]);
        if head.len() > HEAD_MAX || began.elapsed() > PATIENCE {
            return None;
        }
    }
    Some(head)
}

/// Which version of the page the client has, where its head asks for the page; otherwise the status of a refusal. The `Host`
/// must be this server's own name, so that no other site's name that somebody lets point to this machine (DNS rebinding)
/// gets an answer, and the token must be right.
fn known_version(head: &[u8], port: u16, token: &str) -> Result<Option<String>, &'static str> {
    const BAD: &str = "400 Bad Request";
    let head = std::str::from_utf8(head).map_err(|_| BAD)?;
    let (line, fields) = head.split_once("\r\n").ok_or(BAD)?;
    let [method, target, "HTTP/1.1"] = line.split(' ').collect::<Vec<_>>()[..] else { return Err(BAD) };
    let field = |name: &str| {
        let all = fields.split("\r\n").filter_map(|line| line.split_once(':'));
        let named = all.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.trim()).collect::<Vec<_>>()
    };
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let [host] = field("host")[..] else { return Err(BAD) };
    if !hosts.iter().any(|name| name == host) {
        return Err("421 Misdirected Request");
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let given = query.split('&').find_map(|pair| pair.strip_prefix("token="));
    let is_elsewhere = |origin: &&str| !hosts.iter().any(|name| format!("http://{name}") == **origin);
    if field("origin").iter().any(is_elsewhere) {
        return Err("403 Forbidden");
    }
    match (method, path) {
        ("GET", _) if !given.is_some_and(|given| is_same(given.as_bytes(), token.as_bytes())) => {
            Err("403 Forbidden")
        }
        ("GET", "/") => Ok(field("if-none-match").first().map(|version| version.to_string())),
        ("GET", _) => Err("404 Not Found"),
        _ => Err("405 Method Not Allowed"),
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
        let version = "hOST:localhost:8080\r\nIf-None-Match: \"3\"";
        let other_origin = format!("{host}\r\nOrigin: http://evil");
        for (line, fields, expected) in [
            ("GET /?token=abc HTTP/1.1", host, Ok(None)),
            ("GET /?a=b&token=abc HTTP/1.1", version, Ok(Some("\"3\""))),
            ("GET /../etc/passwd?token=abc HTTP/1.1", host, Err("404")),
            ("POST /?token=abc HTTP/1.1", host, Err("405")),
            ("GET /?token=abd HTTP/1.1", host, Err("403")),
            ("GET /?token=ab HTTP/1.1", host, Err("403")),
            ("GET / HTTP/1.1", host, Err("403")),
            ("GET /?token=abc HTTP/1.1", "Host: evil.example:8080", Err("421")),
            ("GET /?token=abc HTTP/1.1", "Host: 127.0.0.1", Err("421")),
            ("GET /?token=abc HTTP/1.1", "Host: 127.0.0.1:8080\r\nHost: evil.example", Err("400")),
            ("GET /?token=abc HTTP/1.1", "A: b", Err("400")),
            ("GET /?token=abc HTTP/1.1", &other_origin, Err("403")),
            ("GET /?token=abc HTTP/1.1", "Host: 127.0.0.1:8080\r\nOrigin: null", Err("403")),
            ("GET /?token=abc HTTP/1.0", host, Err("400")),
            ("", "", Err("400")),
        ] {
            let head = format!("{line}\r\n{fields}\r\n\r\n");
            let known = known_version(head.as_bytes(), 8080, "abc").map_err(|refusal| &refusal[..3]);
            assert_eq!(known, expected.map(|known: Option<&str>| known.map(String::from)), "{head}");
        }
        // A head without an end is given up.
        assert_eq!(read_head(&mut vec![b'a'; HEAD_MAX * 2].as_slice()), None);
        assert_eq!(read_head(&mut b"GET /".as_slice()), None);
    }
}
