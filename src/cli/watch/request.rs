//! One request of a browser, as far as a server of one page has to understand it: HTTP/1.1 (RFC 9112), GET only.

use std::io::Read;
use std::time::{Duration, Instant};

/// A request's head has some hundred bytes; cookies of other servers of this machine come along.
const HEAD_MAX: usize = 16 << 10;
/// A whole head has to arrive within this time.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Page,
    /// The stream that says when the page has changed.
    Events,
}

/// Why nothing is served: the status line's number and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub u16, pub &'static str);

const BAD: Refusal = Refusal(400, "Bad Request");

/// Reads a head up to its empty line; `None` where it does not come in time.
pub fn read_head(stream: &mut impl Read) -> Option<Vec<u8>> {
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
pub fn wanted(head: &[u8], port: u16, token: &str) -> Result<Wanted, Refusal> {
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
