//! Sweeps on several lanes: host devices behind commands, connections that fail, processes that are killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use evo::journal::reader;
use evo::journal::record::{JournalRecord, RunEnd};
use evo::journal::replay::History;

use crate::support::BRIEF;
use crate::sweep::Bench;

/// Everything that the small kernel's space has.
const POINTS: usize = 10;

fn worker() -> String {
    format!("{} worker", env!("CARGO_BIN_EXE_evo"))
}

/// A sweep of the small kernel without a confirmation, which would take most of the time.
fn sweep(bench: &Bench, out: &str, more: &[&str]) -> Command {
    let fixed = format!("sweep scale.toml --device host --seed 1 --jobs 2 --out {out} --no-prior {BRIEF}");
    let mut command = bench.command(&fixed);
    command.args(more);
    command
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn journal(bench: &Bench, out: &str) -> std::path::PathBuf {
    bench.path().join(out).join("scale-host").join("journal.jsonl")
}

fn history(bench: &Bench, out: &str) -> History {
    History::replay(reader::read(&journal(bench, out)).unwrap())
}

fn end(bench: &Bench, out: &str) -> RunEnd {
    let records = reader::read(&journal(bench, out)).unwrap().records;
    let ends = records.into_iter().filter_map(|record| match record {
        JournalRecord::End(end) => Some(*end),
        _ => None,
    });
    ends.last().unwrap()
}

/// Configuration to whether it is wrong: which of the others are `too_slow` is for the clock to say.
fn wrong(history: &History) -> BTreeMap<String, bool> {
    let pairs = history.evaluations.iter().map(|one| {
        let label = one.verdict.label();
        assert!(["pass", "too_slow", "wrong_answer"].iter().any(|own| label.starts_with(own)), "{one:#?}");
        (one.configuration.to_string(), label.starts_with("wrong_answer"))
    });
    let map: BTreeMap<_, _> = pairs.collect();
    assert_eq!(map.len(), history.evaluations.len(), "a configuration was evaluated twice");
    map
}

/// Whether no process has this folder in its command line any more.
fn nothing_left(folder: &Path) -> bool {
    let name = folder.to_string_lossy().into_owned();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let left = lines.filter(|line| String::from_utf8_lossy(line).contains(&name)).count();
        if left == 0 || Instant::now() > until {
            return left == 0;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn three_lanes_by_command_share_a_sweep() {
    let bench = Bench::new();
    let command = format!("cmd:{}", worker());
    done(
        &sweep(&bench, "three", &["--workers", &command, "--lanes", "3", "--finalists", "1"])
            .output()
            .unwrap(),
    );
    let seen = history(&bench, "three");
    let wrong = wrong(&seen);
    assert_eq!((wrong.len(), wrong.values().filter(|own| **own).count()), (POINTS, POINTS / 2));
    assert!(wrong.iter().all(|(name, is_wrong)| name.contains("FACTOR=3") == *is_wrong), "{wrong:?}");
    let judged = seen.evaluations.iter().filter(|one| one.duplicate_of.is_none());
    for one in judged {
        let lane = one.lane.unwrap();
        assert!(one.device_uuid.as_deref().unwrap().ends_with(&format!("#{lane}")), "{one:?}");
    }
    let end = end(&bench, "three");
    assert_eq!(end.lanes.len(), 3);
    assert!(end.lanes.iter().all(|lane| lane.out.is_none()), "{:?}", end.lanes);
    // The finalist was compared on a second lane too.
    let repeated: Vec<bool> = seen.confirmations.iter().map(|one| one.repeated.is_some()).collect();
    assert!(repeated.iter().any(|own| *own) || seen.confirmations.len() == 1, "{repeated:?}");
}

/// A list of a plain lane and of proxies: mode, line, how often.
fn proxies(bench: &Bench, faults: &[(&str, u32, u32)]) -> String {
    let (folder, worker) = (bench.path().display(), worker());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fault_proxy.py");
    let mut list = "[[lanes]]\ndevice = \"host\"\n".to_string();
    for (mode, after, times) in faults {
        list += &format!(
            "[[lanes]]\nname = \"{mode}\"\ncommand = \"python3 {script} {mode} {after} {times} {folder} {worker}\"\n"
        );
    }
    fs::write(bench.path().join("lanes.toml"), list).unwrap();
    "lanes.toml".to_string()
}

fn check_proxies(faults: &[(&str, u32, u32)]) {
    let bench = Bench::new();
    let list = proxies(&bench, faults);
    done(&sweep(&bench, "out", &["--workers", &list, "--finalists", "0"]).output().unwrap());
    let seen = history(&bench, "out");
    let wrong = wrong(&seen);
    assert_eq!((wrong.len(), wrong.values().filter(|own| **own).count()), (POINTS, POINTS / 2), "{wrong:?}");
    assert_eq!(end(&bench, "out").not_final, 0);
    assert!(nothing_left(bench.path()));
}

#[test]
fn connections_that_are_slow_or_say_things_twice_change_nothing() {
    check_proxies(&[("delay", 1, 0), ("duplicate", 1, 0), ("reorder", 1, 0)]);
}

#[test]
fn connections_that_break_cost_no_variant_its_verdict() {
    check_proxies(&[("garble", 30, 1), ("cut", 40, 2), ("silence", 25, 1)]);
}

#[test]
fn a_lane_whose_launcher_lets_it_wait_does_not_hold_the_sweep_up() {
    let bench = Bench::new();
    let list = proxies(&bench, &[("absent", 40, 1)]);
    done(&sweep(&bench, "out", &["--workers", &list, "--finalists", "0"]).output().unwrap());
    let wrong = wrong(&history(&bench, "out"));
    assert_eq!((wrong.len(), wrong.values().filter(|own| **own).count()), (POINTS, POINTS / 2), "{wrong:?}");
    let lane = &end(&bench, "out").lanes[1];
    // It would be lost if the sweep had waited for its launcher.
    let why = Some("it was still without a new worker at the end");
    assert_eq!((lane.out.as_deref(), lane.restarts), (why, 0), "{lane:?}");
    assert!(nothing_left(bench.path()));
}

#[test]
fn a_killed_sweep_goes_on_with_another_number_of_lanes() {
    let bench = Bench::new();
    let command = format!("cmd:{}", worker());
    let mut first =
        sweep(&bench, "out", &["--workers", &command, "--lanes", "2", "--finalists", "0"]).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while Instant::now() < until
        && !fs::read_to_string(journal(&bench, "out"))
            .is_ok_and(|text| text.matches("\"verdict\"").count() >= 3)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let more = ["--workers", "host:3", "--finalists", "0", "--resume"];
    done(&sweep(&bench, "out", &more).output().unwrap());
    assert_eq!(wrong(&history(&bench, "out")).len(), POINTS);
    assert_eq!(end(&bench, "out").lanes.len(), 3);
}

#[test]
fn what_is_no_list_of_workers_is_said_and_nothing_is_written() {
    let bench = Bench::new();
    let check = |workers: &[&str], expected: &str| {
        let output = sweep(&bench, "out", workers).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(!bench.path().join("out").exists());
    };
    fs::write(bench.path().join("fails.sh"), "echo no such partition >&2\nexit 1\n").unwrap();
    check(&["--workers", "cmd:sh fails.sh"], "no such partition");
    // What needs a device of this machine does not quietly take another one.
    let command = format!("cmd:{}", worker());
    let remote = ["--workers", command.as_str()];
    check(
        &[&remote[..], &["--profile", "finalists"]].concat(),
        "`--profile` cannot be used with `--workers cmd:",
    );
}

#[test]
fn the_bridge_to_ray_passes_lines_on_and_ends_with_its_worker() {
    let bench = Bench::new();
    let script = bench.path().join("worker.sh");
    // Called as `evo worker`.
    fs::write(&script, "#!/bin/sh\necho \"$1\"\nwhile read line; do echo \"got $line\"; done\necho bye\n")
        .unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let root = env!("CARGO_MANIFEST_DIR");
    let mut bridge = Command::new("python3")
        .args(["-B", &format!("{root}/python/evo_ray.py"), "--accelerator", "H200", "--evo"])
        .arg(&script)
        .env("PYTHONPATH", format!("{root}/tests/data/fake_ray"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    bridge.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let output = bridge.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "worker\ngot one\ngot two\nbye\n");
    assert!(output.status.success());
}
