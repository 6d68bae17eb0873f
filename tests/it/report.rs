//! `evo report` and `evo watch` on a kept journal: the same bytes each time, nothing of a kernel's that is markup, a
//! page that checks itself in a browser, and a server that answers nobody else.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::skip;
use crate::support::{self, answer};

const STUDY: &str = "blur-small";

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/report/journal.jsonl")
}

/// A folder with the kept study.
fn stage() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let study = folder.path().join("evidence").join(STUDY);
    fs::create_dir_all(&study).unwrap();
    fs::copy(kept(), study.join("journal.jsonl")).unwrap();
    folder
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join("evidence").join(STUDY).join(name)).unwrap()
}

#[track_caller]
fn report(folder: &Path, words: &str, code: i32, status: &str) -> Value {
    let words = format!("report {words} --json");
    let output =
        support::evo(folder, &words).env("TZ", "Asia/Tokyo").env("LC_ALL", "tr_TR").output().unwrap();
    let object = answer::judged("report", &words, &output, code, status);
    if object["error"].is_null() {
        answer::hold_nulls(&object);
    }
    object
}

#[test]
fn the_same_records_give_the_same_bytes() {
    let (one, other) = (stage(), stage());
    let object = report(one.path(), STUDY, 0, "pass");
    assert_eq!(object["result"]["winner"]["number"], 61);
    assert_eq!(object["result"]["confirmed"], true);
    sleep(Duration::from_millis(1100));
    report(other.path(), "--out evidence --to elsewhere/deep", 0, "pass");
    for name in ["report.json", "report.md", "final_summary.md", "report.html"] {
        let again = fs::read_to_string(other.path().join("elsewhere/deep").join(name)).unwrap();
        assert_eq!(read(one.path(), name), again, "{name}");
    }
    let data: Value = serde_json::from_str(&read(one.path(), "report.json")).unwrap();
    assert_eq!((&data["schema"], &data["model"]["winner"]["number"]), (&"evo.report".into(), &61.into()));
    insta::assert_snapshot!("report_log", read(one.path(), "report.md"));
    insta::assert_snapshot!("report_summary", read(one.path(), "final_summary.md"));
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
    let folder = stage();
    report(folder.path(), STUDY, 0, "pass");
    let page = read(folder.path(), "report.html");
    insta::assert_snapshot!("report_outline", outline(&page));
    // Its own two: data and script.
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    for hostile in ["<img src=x", "<b>markup", "--><b>", "\u{1b}["] {
        assert!(!page.contains(hostile), "{hostile}");
    }
    assert!(page.contains("&gt;&lt;script&gt;alert(1)"));
    for name in ["report.md", "final_summary.md"] {
        assert!(!read(folder.path(), name).contains("<script"), "{name}");
        assert!(!read(folder.path(), name).contains('\u{1b}'), "{name}");
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
    let folder = stage();
    let root = folder.path();
    let whole = fs::read_to_string(kept()).unwrap();
    let header = whole.lines().next().unwrap();
    let write = |text: String| {
        fs::write(root.join("evidence").join(STUDY).join("journal.jsonl"), text).unwrap();
        let object = report(root, STUDY, 0, "pass");
        (object, read(root, "report.html"), read(root, "final_summary.md"))
    };
    let (object, page, summary) = write(format!("{header}\n"));
    assert!(object["result"]["winner"].is_null());
    assert!(page.contains("Nothing was evaluated yet") && summary.contains("Nothing was evaluated yet"));
    let refused = |line: &&str| {
        ["wrong_answer", "crash_", "compile_error"]
            .iter()
            .any(|kind| line.contains(&format!(r#""verdict":{{"kind":"{kind}"#)))
    };
    let lines: Vec<&str> = whole.lines().filter(refused).collect();
    assert!(!lines.is_empty());
    let (object, page, _) = write(format!("{header}\n{}\n", lines.join("\n")));
    assert_eq!(object["result"]["passed"], 0);
    assert!(page.contains(&format!("None of {} evaluations passed", lines.len())), "{}", lines.len());
    // A flipped digit, a torn end.
    let damaged =
        whole.replacen("exhaustive", "exhaustivf", 1).replacen(r#""number":61"#, r#""number":62"#, 1);
    let (object, page, summary) = write(format!("{damaged}{{\"crc\":\"12"));
    assert!(object["result"]["notes"].to_string().contains("damaged"), "{object}");
    assert!(page.contains("is damaged and left out") && summary.contains("is torn"));
}

#[test]
fn bad_input_is_refused_and_nothing_is_written() {
    let folder = stage();
    let root = folder.path();
    let error = |words: &str| {
        let object = report(root, words, 2, "error");
        format!(
            "{} | {}",
            object["error"]["message"].as_str().unwrap(),
            object["error"]["hint"].as_str().unwrap_or("")
        )
    };
    assert!(error("blur-smal").contains("did you mean `blur-small`?"));
    assert!(error("nothing/like/it").contains("there is no study"));
    assert!(error("--out none").contains("there is no folder `none`"));
    fs::create_dir_all(root.join("bare")).unwrap();
    assert!(error("--out bare").contains("there is no study in `bare`"));
    // Somebody's own file of that name stays, and the others are not written.
    fs::create_dir_all(root.join("mine")).unwrap();
    fs::write(root.join("mine/report.md"), "# My report\n").unwrap();
    assert!(error("blur-small --to mine").contains("evo did not write it"));
    assert_eq!(fs::read_dir(root.join("mine")).unwrap().count(), 1);
    std::os::unix::fs::symlink(root.join("mine/report.md"), root.join("evidence/blur-small/report.html"))
        .unwrap();
    assert!(error("blur-small").contains("report.html"));
    assert_eq!(fs::read_to_string(root.join("mine/report.md")).unwrap(), "# My report\n");
    fs::write(root.join("evidence/blur-small/journal.jsonl"), "nothing\n").unwrap();
    assert!(error("blur-small").contains("journal"));
}

/// Chromium without a window: its output with these options, on a page.
fn chromium(options: &[&str], page: &str) -> Option<String> {
    if !skip::has_programs(&["chromium"], "the look of a report") {
        return None;
    }
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(options)
        .args(["--dump-dom", page])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_page_checks_itself_in_a_browser() {
    let folder = stage();
    report(folder.path(), STUDY, 0, "pass");
    let place = folder.path().join("evidence").join(STUDY).join("report.html");
    let url = format!("file://{}", place.display());
    let Some((page, asked)) = opened(folder.path(), &url) else { return };
    let root =
        page.split("<html").nth(1).and_then(|own| own.split('>').next()).unwrap_or_default().to_string();
    assert!(root.contains("data-ok=\"1\"") && !root.contains("data-errors"), "{root}");
    // The script has drawn the table of all rows.
    assert!(page.contains("All evaluations</caption>") && page.contains("33 rows"));
    assert!(asked.is_empty(), "the page asked for {asked:?}");
    // The same look at a page that does ask for something finds it.
    let other = folder.path().join("other.html");
    fs::write(&other, "<!DOCTYPE html><html><body><img src=\"http://localhost:9/x.png\"></body></html>")
        .unwrap();
    let (_, asked) = opened(folder.path(), &format!("file://{}", other.display())).unwrap();
    assert!(asked.iter().any(|own| own.contains("x.png")), "{asked:?}");
    // The policy itself: with its script changed by one letter, the page runs nothing.
    let text = fs::read_to_string(&place).unwrap().replace("\"use strict\";", "\"use strict\" ;");
    fs::write(&other, text).unwrap();
    let (page, _) = opened(folder.path(), &format!("file://{}", other.display())).unwrap();
    assert!(!page.split("<head").next().unwrap().contains("data-ok"));
}

/// A page as the browser has it after its script, and what the page asked the network for; what the browser asks for on its
/// own account is left out.
fn opened(folder: &Path, url: &str) -> Option<(String, Vec<String>)> {
    let log = folder.join("net.json");
    let page = chromium(&[&format!("--log-net-log={}", log.display())], url)?;
    let log = fs::read_to_string(log).unwrap();
    let by_page =
        |line: &&str| line.contains("\"initiator\":") && !line.contains("\"initiator\":\"not an origin\"");
    let named =
        log.lines().filter(by_page).filter_map(|line| line.split("\"url\":\"").nth(1)?.split('"').next());
    Some((page, named.filter(|own| *own != url).map(String::from).collect()))
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
    fn start(folder: &Path) -> Watch {
        let mut child = support::evo(folder, "watch blur-small")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
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
    let folder = stage();
    let study = folder.path().join("evidence").join(STUDY);
    let whole = fs::read_to_string(kept()).unwrap();
    let half: String = whole.lines().take(30).map(|line| format!("{line}\n")).collect();
    fs::write(study.join("journal.jsonl"), &half).unwrap();
    let mut watch = Watch::start(folder.path());
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
    fs::OpenOptions::new()
        .append(true)
        .open(study.join("journal.jsonl"))
        .unwrap()
        .write_all(&whole.as_bytes()[half.len()..])
        .unwrap();
    let began = Instant::now();
    let mut next = watch.ask(&page, &known);
    while next.starts_with("HTTP/1.1 304 ") && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(100));
        next = watch.ask(&page, &known);
    }
    assert!(next.contains("faster than the default configuration"), "{next}");
    assert_eq!(fs::read_dir(&study).unwrap().count(), 1, "nothing is written");
    kill_process(Pid::from_child(&watch.child), Signal::INT).unwrap();
    assert_eq!(watch.child.wait().unwrap().code(), Some(5));
}
