//! Command lines on the pages are ones that evo understands: commands and options exist, and are spelled right.

use std::ffi::OsString;

use clap::error::ErrorKind;
use evo::cli::command_line::{command, modern};

use super::markdown::{Page, pages, pieces, split};

/// The words of the calls of evo in a shell line, up to where the shell takes over.
fn calls(line: &str) -> Vec<Vec<String>> {
    let mut calls = vec![vec![String::new()]];
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let call = calls.last_mut().unwrap();
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => call.last_mut().unwrap().push(letter),
            (None, '\'' | '"') => quote = Some(letter),
            (None, '|' | ';' | '&' | '(' | ')') => calls.push(vec![String::new()]),
            // What follows is a file or a remark.
            (None, '>' | '<') => calls.push(vec!["-".to_string()]),
            (None, '#') if call.last().unwrap().is_empty() => break,
            (None, ' ') => call.push(String::new()),
            (None, '\\') => call.last_mut().unwrap().extend(letters.next()),
            (None, _) => call.last_mut().unwrap().push(letter),
        }
    }
    let words = |call: Vec<String>| call.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
    let is_setting = |word: &&String| word.contains('=') && !word.starts_with('-');
    let mut found: Vec<Vec<String>> = calls.into_iter().map(words).collect();
    for call in &mut found {
        let settings = call.iter().take_while(is_setting).count();
        call.drain(..settings);
        if call.starts_with(&["cargo".to_string(), "run".to_string()]) {
            let own = call.iter().position(|word| word == "--").map_or(call.len(), |at| at + 1);
            let is_another = call[..own].iter().any(|word| word == "-p" || word == "--package");
            call.splice(..own, [if is_another { "another" } else { "evo" }.to_string()]);
        }
    }
    found.retain(|call| call.len() > 1 && (call[0] == "evo" || call[0].ends_with("/evo")));
    found
}

/// A command line of a page.
struct Line {
    number: usize,
    text: String,
    /// From a fence: a line that can be typed. Prose often names no more than a command and an option.
    is_whole: bool,
}

/// The shell lines of a page's fences, continued ones joined, and the calls in its prose.
fn lines(page: &Page) -> Vec<Line> {
    let (fences, _) = split(&page.text);
    let mut found = Vec::new();
    for fence in &fences {
        let first = fence.words.first().copied().unwrap_or("");
        let prompt = if first == "console" { "$ " } else { "" };
        if !["sh", "bash", "console"].contains(&first) {
            continue;
        }
        let mut open: Option<(usize, String)> = None;
        for (number, line) in (fence.number + 1..).zip(&fence.lines) {
            let joined = match open.take() {
                Some((start, text)) => (start, format!("{text} {line}")),
                None if line.starts_with(prompt) => (number, line[prompt.len()..].to_string()),
                None => continue,
            };
            match joined.1.strip_suffix('\\') {
                Some(text) => open = Some((joined.0, text.to_string())),
                None => found.push(Line { number: joined.0, text: joined.1, is_whole: true }),
            }
        }
    }
    // Of what was renamed since, the list of changes tells by its old name.
    let prose = pieces(&page.text).into_iter().filter(|_| page.path != "CHANGELOG.md");
    for (number, _, code) in prose.filter(|(_, is_code, code)| *is_code && code.starts_with("evo ")) {
        // In a table, `|` is written `\|`.
        found.push(Line { number, text: code.replace("\\|", "|"), is_whole: false });
    }
    found
}

/// Why evo would not take these words. `…` stands for more of them, brackets mean that one may be left out, and
/// `COMMAND` is any command.
fn complaint(call: &[String], is_whole: bool) -> Option<String> {
    let plain = call.iter().map(|word| word.trim_matches(['[', ']', '…']).replace("COMMAND", "sweep"));
    let words = modern(plain.skip(1).filter(|word| !word.is_empty()).map(OsString::from));
    let error = command().try_get_matches_from([OsString::from("evo")].into_iter().chain(words)).err()?;
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    // Prose names a command or an option without all that it needs.
    let is_about_names = matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument);
    (!is_help && (is_whole || is_about_names))
        .then(|| error.to_string().lines().next().unwrap_or("").to_string())
}

#[test]
fn command_lines_are_split_as_a_shell_does() {
    let check = |line: &str, expected: &[&[&str]]| assert_eq!(calls(line), expected, "{line}");
    check("evo space a.toml  # counts", &[&["evo", "space", "a.toml"]]);
    check("A=1 evo man | man -l - && ls", &[&["evo", "man"]]);
    check("evo x 'B=1 C=2' > out", &[&["evo", "x", "B=1 C=2"]]);
    check("cargo run --release -- sweep --gen 3", &[&["evo", "sweep", "--gen", "3"]]);
    check("echo '{\"id\": 1}' |", &[]);
    assert!(complaint(&["evo", "swep"].map(String::from), false).unwrap().contains("swep"));
    assert!(complaint(&["evo", "space", "--sampel"].map(String::from), false).is_some());
    assert_eq!(complaint(&["evo", "restore"].map(String::from), false), None);
    assert!(complaint(&["evo", "restore"].map(String::from), true).is_some());
}

#[test]
fn every_command_line_is_understood() {
    let mut odd = Vec::new();
    let mut count = 0;
    for page in pages() {
        for line in lines(&page) {
            for call in calls(&line.text) {
                count += 1;
                let complaint = complaint(&call, line.is_whole);
                let place = format!("{}:{}: {}", page.path, line.number, line.text);
                odd.extend(complaint.map(|text| format!("{place}: {text}")));
            }
        }
    }
    assert!(count > 150, "the pages have {count} command lines");
    assert!(odd.is_empty(), "command lines that evo does not take: {odd:#?}");
}
