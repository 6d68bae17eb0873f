//! `evo evaluate` on the host device, with a kernel whose variants differ by far or not at all, so that what is decided
//! does not depend on how quiet the machine is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use evo::journal::iterations::{self, Iteration};
use evo::journal::line::{NumberedLines, numbered};
use evo::journal::own_folder::OwnFolder;
use serde_json::Value;

use crate::support::scale::{SOURCE, stage};
use crate::support::{self, DECISIVE, answer};

fn evo(folder: &Path, words: &str) -> Command {
    support::evo(folder, &format!("evaluate scale.toml {words} {DECISIVE} --device host --json"))
}

/// The one object on stdout, in whose result what is null has a reason, and nothing else has.
#[track_caller]
fn object(words: &str, stdout: &[u8]) -> Value {
    let object = answer::object("evaluate", words, stdout);
    if object["error"].is_null() {
        for (name, value) in object["result"].as_object().unwrap() {
            let reason = &object["reasons"][format!("result.{name}")];
            assert_eq!(value.is_null(), reason.is_string(), "`{words}`: {name}");
        }
    }
    object
}

#[track_caller]
fn check(folder: &Path, words: &str, code: i32, status: &str) -> Value {
    let output = evo(folder, words).output().unwrap();
    answer::judged("evaluate", words, &output, code, status);
    object(words, &output.stdout)
}

fn records(folder: &Path) -> PathBuf {
    folder.join("evidence/scale-host")
}

pub(crate) fn history(folder: &Path) -> NumberedLines<Iteration> {
    numbered(&OwnFolder::open(&records(folder)).unwrap()).unwrap()
}

fn incumbent(folder: &Path) -> Option<u64> {
    let own = iterations::incumbent(&OwnFolder::open(&records(folder)).unwrap()).unwrap();
    own.map(|own| own.number)
}

#[test]
fn a_ladder_of_keep_reject_and_revert() {
    let folder = stage();
    let root = folder.path();
    // The first of all has no rival but the default, which it is itself.
    let same = check(root, "--require not-slower", 0, "pass");
    assert_eq!((&same["result"]["decision"], &same["result"]["correct"]), (&"reject".into(), &true.into()));
    assert_eq!(same["result"]["why"], "same machine code and launches");
    assert!(same["rival"]["why"].as_str().unwrap().contains("no champion"), "{same}");
    // As a source of its own, so that the incumbent has to be built again from what was kept.
    fs::write(root.join("mine.cu"), format!("// mine\n{SOURCE}")).unwrap();
    let words =
        "WORK=1 --source mine.cu --hypothesis fewer_steps --claimed 9.5 --parent 7 --require accepted";
    let kept = check(root, words, 0, "pass");
    let result = &kept["result"];
    assert_eq!((&result["decision"], &result["accepted"]), (&"keep".into(), &true.into()), "{kept}");
    assert!(result["score"].as_f64().unwrap() > 2.0, "{kept}");
    assert_eq!((&kept["claimed"], &kept["incumbent"]["number"]), (&9.5.into(), &2.into()));
    let problem = &result["problems"][0];
    assert!(problem["canonical"] == true && problem["speedup_low"].as_f64() > Some(2.0), "{kept}");
    fs::remove_file(root.join("mine.cu")).unwrap();
    let slow = check(root, "WORK=500 --require not-slower", 1, "fail");
    assert_eq!(slow["result"]["decision"], "revert", "{slow}");
    assert!(slow["rival"]["name"].as_str().unwrap().contains("evaluation 2"), "{slow}");
    let next = slow["result"]["next_step"].as_str().unwrap();
    assert!(
        next.contains("`evo restore scale.toml @iteration-2 --to FOLDER --device host` writes its source"),
        "{slow}"
    );
    assert_eq!((&slow["incumbent"]["number"], incumbent(root)), (&2.into(), Some(2)), "{slow}");
    let wrong = check(root, "WORK=1 FAULT=1", 1, "fail");
    assert_eq!((&wrong["result"]["score"], &wrong["result"]["correct"]), (&Value::Null, &false.into()));
    assert_eq!(wrong["result"]["verdict"], "wrong_answer");
    // Faster than what is named, and not compared with the incumbent, which stays.
    let other = check(root, "WORK=80 --against WORK=500", 0, "pass");
    assert!(other["result"]["decision"] == "keep" && other["incumbent"]["number"] == 2, "{other}");
    let history = history(root);
    let decisions: Vec<&str> = history.lines.iter().map(|one| one.decision.as_str()).collect();
    assert_eq!(decisions, ["reject", "keep", "revert", "reject", "keep"]);
    let kept = &history.lines[1];
    assert!(kept.candidate.source.as_ref().unwrap().contains("// mine"));
    assert_eq!((kept.hypothesis.as_deref(), kept.claimed), (Some("fewer_steps"), Some(9.5)));
    assert_eq!((kept.git_commit.as_ref(), kept.problems.len()), (None, 1));
}

#[test]
fn parallel_calls_take_turns_and_a_torn_line_is_left_out() {
    let folder = stage();
    let root = folder.path();
    fs::create_dir_all(records(root)).unwrap();
    fs::write(records(root).join("iterations.jsonl"), "{\"crc\":\"00").unwrap();
    let start = || evo(root, "").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let calls = [start(), start()];
    let mut notes = 0;
    let mut numbers: Vec<u64> = calls
        .into_iter()
        .map(|call| {
            let output = call.wait_with_output().unwrap();
            let answer = object("", &output.stdout);
            assert_eq!(answer["exit_code"], 0, "{answer}");
            notes += answer["notes"].as_array().unwrap().len();
            answer["number"].as_u64().unwrap()
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!((numbers, notes), (vec![1, 2], 1), "the first one tells of the torn line");
    assert_eq!(history(root).notes, Vec::<String>::new());
}

#[test]
fn an_end_from_outside_leaves_an_answer_and_finished_lines() {
    let folder = stage();
    let root = folder.path();
    // Its own rival is as fast as it is, and gives no reason to take its place.
    let own = evo(root, "--require accepted").output().unwrap();
    let told = String::from_utf8_lossy(&own.stderr);
    assert_eq!((own.status.code(), &object("", &own.stdout)["status"]), (Some(1), &"fail".into()), "{told}");
    let why = "`--require accepted` does not hold: same machine code and launches";
    assert!(told.contains(why), "{told}");
    let late = check(root, "FAULT=2 --time-limit 3s", 1, "not_run");
    assert_eq!((&late["error"]["code"], &late["limits"]["hit"]), (&"timed_out".into(), &"total".into()));
    assert!(late["error"]["hint"].as_str().unwrap().contains("--time-limit"), "{late}");
    assert_eq!(late["result"]["score"], Value::Null);
    // The shorter of two limits is the one that is named.
    let total = check(root, "FAULT=2 --limit total=3s", 1, "not_run");
    let error = &total["error"];
    assert!(error["message"].as_str().unwrap().contains("limit of 3 s"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("--limit total=TIME"), "{error}");
    let child = evo(root, "FAULT=2").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text = answer::interrupted_at_work(child, &records(root).join("iterations.lock"));
    assert_eq!(object("Ctrl-C", text.as_bytes())["status"], "interrupted");
    // The call that its limit cut off has left what it knew, the one that a signal ended has not.
    let history = history(root);
    let verdicts: Vec<&str> = history.lines.iter().map(|one| one.verdict.as_str()).collect();
    assert_eq!((verdicts, history.lines[1].correct), (vec!["pass", "interrupted", "interrupted"], false));
}

#[test]
fn a_sanitizer_that_is_demanded_and_absent_keeps_a_candidate_from_being_accepted() {
    let folder = stage();
    let root = folder.path();
    let absent = check(root, "WORK=1 --sanitize --profile", 1, "not_run");
    let result = &absent["result"];
    assert_eq!((&result["accepted"], &result["correct"]), (&false.into(), &false.into()), "{absent}");
    let gate = result["gates"].as_array().unwrap().iter().find(|own| own["gate"] == "sanitize").unwrap();
    assert_eq!(gate["state"], "not_run");
    assert!(gate["message"].as_str().unwrap().contains("guard pages"), "{gate}");
    assert!(result["bottleneck"].is_string(), "known without counters: {absent}");
    assert_eq!(incumbent(root), None);
    let allowed = check(root, "WORK=1 --sanitize --allow-not-run sanitize", 0, "pass");
    assert_eq!(allowed["allowed_not_run"], serde_json::json!(["sanitize"]));
    let plain = check(root, "WORK=1", 0, "pass");
    assert_eq!(plain["result"]["bottleneck"], Value::Null);
    // The host's compiler reports no registers.
    assert_eq!(plain["result"]["resources"][0]["registers"], Value::Null, "{plain}");
    assert!(plain["reasons"]["result.resources.0.registers"].is_string(), "{plain}");
    // A space can demand it too.
    let text = fs::read_to_string(root.join("scale.toml")).unwrap();
    fs::write(root.join("scale.toml"), text.replace("[check]", "[check]\nsanitize = \"required\"")).unwrap();
    let demanded = check(root, "WORK=1 --against WORK=500", 1, "not_run");
    assert_eq!(demanded["result"]["accepted"], false, "{demanded}");
}

/// Without a GPU no check has an answer, but each that would be made is named.
#[test]
fn a_space_names_the_checks_of_the_sanitizer() {
    let folder = stage();
    let root = folder.path();
    let text = fs::read_to_string(root.join("scale.toml")).unwrap();
    let said = |key: &str, words: &str, code: i32| {
        fs::write(root.join("scale.toml"), text.replace("[check]", &format!("[check]\n{key}"))).unwrap();
        let words = format!("sanitize scale.toml WORK=1 --device host {words} --json");
        let output = support::evo(root, &words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let made = |key: &str, words: &str| {
        let object = said(key, words, 1);
        let checks = object["result"]["checks"].as_array().unwrap().iter();
        checks.map(|check| check["tool"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    let named = "sanitizers = [\"synccheck\", \"memcheck\", \"synccheck\"]";
    assert_eq!(made("", ""), ["memcheck", "racecheck", "initcheck", "synccheck"]);
    assert_eq!(made(named, ""), ["memcheck", "synccheck"]);
    assert_eq!(made(named, "--tool racecheck"), ["racecheck"]);
    for (wrong, told) in [("[]", "is an empty list"), ("[\"racechek\"]", "did you mean `racecheck`?")] {
        let object = said(&format!("sanitizers = {wrong}"), "", 2);
        assert!(object["error"].to_string().contains(told), "{object}");
    }
}

#[test]
fn a_grid_adds_problems() {
    let folder = stage();
    let root = folder.path();
    let write = |text: &str| fs::write(root.join("grid.toml"), text).unwrap();
    write("[[problems]]\nname = \"q\"\nsizes = { N = 777 }\n");
    let both = check(root, "WORK=1 --grid grid.toml", 0, "pass");
    let names: Vec<&str> = both["result"]["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| own["problem"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["p", "q"]);
    assert!(
        both["result"]["problems"][1]["speedup"].is_f64()
            && both["repro"].as_str().unwrap().contains("--grid")
    );
    let only = check(root, "WORK=1 --grid grid.toml --problem q", 0, "pass");
    assert_eq!(only["result"]["problems"].as_array().unwrap().len(), 1);
    let before = history(root).lines.len();
    for text in [
        "",
        "problems = []",
        "[[problems]]\nname = \"q\"\nsizes = { M = 1 }",
        "[[problems]]\nname = \"p\"\nsizes = { N = 3 }",
    ] {
        write(text);
        let bad = check(root, "WORK=1 --grid grid.toml", 2, "error");
        assert_eq!(bad["error"]["code"], "bad_file", "{text}: {bad}");
    }
    let many: String =
        (0..10_001).map(|at| format!("[[problems]]\nname = \"q{at}\"\nsizes = {{ N = 3 }}\n")).collect();
    write(&many);
    assert!(
        check(root, "--grid grid.toml", 2, "error")["error"]["message"]
            .as_str()
            .unwrap()
            .contains("more than 10000")
    );
    assert_eq!(check(root, "--grid missing.toml", 2, "error")["error"]["code"], "bad_file");
    assert_eq!(check(root, "--grid .", 2, "error")["error"]["code"], "bad_file");
    assert_eq!(history(root).lines.len(), before);
}

#[test]
fn an_incumbent_that_cannot_be_read_is_set_aside() {
    let folder = stage();
    let root = folder.path();
    fs::create_dir_all(records(root)).unwrap();
    let file = records(root).join("incumbent.json");
    fs::write(&file, "{\"number\": 12").unwrap();
    let kept = check(root, "WORK=1", 0, "pass");
    assert_eq!(
        (&kept["result"]["decision"], &kept["incumbent"]["number"]),
        (&"keep".into(), &1.into()),
        "{kept}"
    );
    let told = kept["notes"].to_string();
    assert!(told.contains("incumbent-unreadable-1.json"), "{told}");
    let aside = fs::read_to_string(records(root).join("incumbent-unreadable-1.json")).unwrap();
    assert_eq!(aside, "{\"number\": 12");
    // What a newer evo wrote stays.
    fs::write(&file, "{\"format\": 99}").unwrap();
    let other = check(root, "WORK=1 --against WORK=500", 0, "pass");
    assert!(other["notes"].to_string().contains("newer evo"), "{other}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\"format\": 99}");
}

#[test]
fn a_space_is_named_by_an_option_or_by_the_first_word() {
    let folder = stage();
    let root = folder.path();
    let words = format!("evaluate --space scale.toml WORK=1 --device host --json {DECISIVE}");
    let output = support::evo(root, &words).output().unwrap();
    let same = answer::judged("evaluate", &words, &output, 0, "pass");
    assert_eq!(same["candidate"]["space"], "scale.toml");
}
