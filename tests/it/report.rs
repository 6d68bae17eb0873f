//! `evo report` and `evo watch` on a kept journal: the same bytes each time, nothing of a kernel's that is markup, a
//! page that checks itself in a browser, and a server that answers nobody else.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::skip;
use crate::support::answer::{ended, holds};
use crate::support::processes::{send, wait};
use crate::support::stage::{Ran, Stage};

const STUDY: &str = "blur-small";

const KEPT: &str = include_str!("../data/report/journal.jsonl");

/// A folder with the kept study.
fn stage() -> Stage {
    let stage = Stage::empty();
    stage.write("evidence/blur-small/journal.jsonl", KEPT);
    stage
}

fn read(stage: &Stage, name: &str) -> String {
    stage.read(&format!("evidence/{STUDY}/{name}"))
}

fn report(stage: &Stage, words: &str) -> Value {
    let words = format!("report {words} --json");
    let output = stage.evo(&words).env("TZ", "Asia/Tokyo").env("LC_ALL", "tr_TR").output().unwrap();
    ended(&Ran::of(&words, &output), "0", "pass", true)
}

#[test]
fn the_same_records_give_the_same_bytes() {
    let (one, other) = (stage(), stage());
    let object = report(&one, STUDY);
    holds(&object, &json!({ "result.winner.number": 61, "result.confirmed": true }));
    sleep(Duration::from_millis(1100));
    report(&other, "--out evidence --to elsewhere/deep");
    for name in ["report.json", "report.md", "final_summary.md", "report.html"] {
        assert_eq!(read(&one, name), other.read(&format!("elsewhere/deep/{name}")), "{name}");
    }
    let data: Value = serde_json::from_str(&read(&one, "report.json")).unwrap();
    holds(&data, &json!({ "schema": "evo.report", "model.winner.number": 61 }));
    insta::assert_snapshot!("report_log", read(&one, "report.md"));
    insta::assert_snapshot!("report_summary", read(&one, "final_summary.md"));
}

/// Elements, classes and headings of the page, without the numbers of its charts and the rows of its data.
fn outline(page: &str) -> String {
    let body = page.split("<body").nth(1).unwrap().split("<script").next().unwrap();
    let mut lines = Vec::new();
    let mut rest = body;
    while let Some((_, after)) = rest.split_once('<') {
        let Some((tag, text)) = after.split_once('>') else { break };
        let name = tag.split([' ', '/']).next().unwrap();
        let text = text.split('<').next().unwrap().trim();
        match name {
            "section" | "figure" => lines.push(format!("<{tag}>")),
            "h1" | "h2" | "h3" | "caption" => lines.push(format!("  {name}: {text}")),
            "th" => lines.push(format!("    {text}")),
            _ => {}
        }
        rest = after;
    }
    lines.join("\n")
}

#[test]
fn texts_of_kernels_are_no_markup() {
    let stage = stage();
    report(&stage, STUDY);
    let page = read(&stage, "report.html");
    insta::assert_snapshot!("report_outline", outline(&page));
    // Its own two: data and script.
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    for hostile in ["<img src=x", "<b>markup", "--><b>", "\u{1b}["] {
        assert!(!page.contains(hostile), "{hostile}");
    }
    assert!(page.contains("&gt;&lt;script&gt;alert(1)"));
    for name in ["report.md", "final_summary.md"] {
        let text = read(&stage, name);
        assert!(!text.contains("<script") && !text.contains('\u{1b}'), "{name}");
    }
    let policy =
        page.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(
        policy.contains("default-src &#x27;none&#x27;") || policy.contains("default-src 'none'"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    // Style and script by attribute would need a policy that allows any.
    assert!(!page.contains(" style=\"") && !page.contains(" onclick=") && !page.contains("src=\""));
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["rows"].as_array().unwrap().len(), 33);
    assert!(page.len() - data.to_string().len() < 200_000, "the page has {} bytes", page.len());
}

#[test]
fn studies_without_a_winner_have_a_report() {
    let stage = stage();
    let header = KEPT.lines().next().unwrap();
    let write = |text: String| {
        stage.write("evidence/blur-small/journal.jsonl", &text);
        (report(&stage, STUDY), read(&stage, "report.html"), read(&stage, "final_summary.md"))
    };
    let (object, page, summary) = write(format!("{header}\n"));
    assert!(object["result"]["winner"].is_null());
    assert!(page.contains("Nothing was evaluated yet") && summary.contains("Nothing was evaluated yet"));
    let refused = |line: &&str| {
        ["wrong_answer", "crash_", "compile_error"]
            .iter()
            .any(|kind| line.contains(&format!(r#""verdict":{{"kind":"{kind}"#)))
    };
    let lines: Vec<&str> = KEPT.lines().filter(refused).collect();
    assert!(!lines.is_empty());
    let (object, page, _) = write(format!("{header}\n{}\n", lines.join("\n")));
    assert_eq!(object["result"]["passed"], 0);
    assert!(page.contains(&format!("None of {} evaluations passed", lines.len())), "{}", lines.len());
    // A flipped digit, a torn end.
    let damaged =
        KEPT.replacen("exhaustive", "exhaustivf", 1).replacen(r#""number":61"#, r#""number":62"#, 1);
    let (object, page, summary) = write(format!("{damaged}{{\"crc\":\"12"));
    assert!(object["result"]["notes"].to_string().contains("damaged"), "{object}");
    assert!(page.contains("is damaged and left out") && summary.contains("is torn"));
}

#[test]
fn the_page_checks_itself_in_a_browser() {
    let stage = stage();
    report(&stage, STUDY);
    let Some((page, asked)) = opened(&stage, "evidence/blur-small/report.html") else { return };
    let root =
        page.split("<html").nth(1).and_then(|own| own.split('>').next()).unwrap_or_default().to_string();
    assert!(root.contains("data-ok=\"1\"") && !root.contains("data-errors"), "{root}");
    // The script has drawn the table of all rows.
    assert!(page.contains("All evaluations</caption>") && page.contains("33 rows"));
    assert!(asked.is_empty(), "the page asked for {asked:?}");
    // The same look at a page that does ask for something finds it.
    let other = "<!DOCTYPE html><html><body><img src=\"http://localhost:9/x.png\"></body></html>";
    let (_, asked) = opened(stage.write("other.html", other), "other.html").unwrap();
    assert!(asked.iter().any(|own| own.contains("x.png")), "{asked:?}");
    // The policy itself: with its script changed by one letter, the page runs nothing.
    let text = read(&stage, "report.html").replace("\"use strict\";", "\"use strict\" ;");
    let (page, _) = opened(stage.write("other.html", &text), "other.html").unwrap();
    assert!(!page.split("<head").next().unwrap().contains("data-ok"));
}

/// A page as Chromium has it after its script, without a window, and what the page asked the network for; what the browser asks for on its
/// own account is left out.
fn opened(stage: &Stage, page: &str) -> Option<(String, Vec<String>)> {
    if !skip::has_programs(&["chromium"], "the look of a report") {
        return None;
    }
    let url = format!("file://{}", stage.at(page).display());
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--log-net-log={}", stage.at("net.json").display()))
        .args(["--dump-dom", &url])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = stage.read("net.json");
    let by_page =
        |line: &&str| line.contains("\"initiator\":") && !line.contains("\"initiator\":\"not an origin\"");
    let named =
        log.lines().filter(by_page).filter_map(|line| line.split("\"url\":\"").nth(1)?.split('"').next());
    Some((page, named.filter(|own| *own != url.as_str()).map(String::from).collect()))
}

/// A running `evo watch`.
struct Watch {
    child: Child,
    port: u16,
    token: String,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watch {
    fn start(stage: &Stage) -> Watch {
        let mut command = stage.evo("watch blur-small");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (port, token) =
            line.trim().strip_prefix("http://127.0.0.1:").unwrap().split_once("/?token=").unwrap();
        Watch { port: port.parse().unwrap(), token: token.to_string(), child }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn ask(&self, target: &str, host: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

#[test]
fn a_study_is_watched_from_this_machine_alone() {
    let stage = stage();
    let half: String = KEPT.lines().take(30).map(|line| format!("{line}\n")).collect();
    stage.write("evidence/blur-small/journal.jsonl", &half);
    let mut watch = Watch::start(&stage);
    let (host, page) = (watch.host(), format!("/?token={}", watch.token));
    let first = watch.ask(&page, &host);
    assert!(
        first.starts_with("HTTP/1.1 200 ")
            && first.contains("data-live")
            && first.contains("nothing is confirmed yet")
    );
    assert!(watch.ask("/?token=0123", &host).starts_with("HTTP/1.1 403 "));
    assert!(watch.ask(&page, "evil.example").starts_with("HTTP/1.1 421 "));
    assert!(watch.ask(&format!("/journal.jsonl?token={}", watch.token), &host).starts_with("HTTP/1.1 404 "));
    // Clients that say nothing do not keep others away.
    let silent: Vec<TcpStream> = (0..20).map(|_| watch.connect()).collect();
    assert!(watch.ask(&page, &host).starts_with("HTTP/1.1 200 "));
    drop(silent);
    let version =
        |answer: &str| answer.lines().find_map(|line| line.strip_prefix("ETag: ").map(String::from));
    let known = format!("{host}\r\nIf-None-Match: {}", version(&first).unwrap());
    assert!(watch.ask(&page, &known).starts_with("HTTP/1.1 304 "));
    let study = stage.at("evidence/blur-small");
    let mut journal = fs::File::options().append(true).open(study.join("journal.jsonl")).unwrap();
    journal.write_all(&KEPT.as_bytes()[half.len()..]).unwrap();
    let mut next = String::new();
    wait("another page", || {
        next = watch.ask(&page, &known);
        !next.starts_with("HTTP/1.1 304 ")
    });
    assert!(next.contains("faster than the default configuration"), "{next}");
    assert_eq!(fs::read_dir(&study).unwrap().count(), 1, "nothing is written");
    send(&watch.child, Signal::INT);
    assert_eq!(watch.child.wait().unwrap().code(), Some(5));
}
