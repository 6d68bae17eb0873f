//! Sweeps on several lanes: host devices behind commands, connections that fail, processes that are killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use evo::journal::reader;
use evo::journal::record::{JournalRecord, RunEnd};
use evo::journal::replay::History;

use crate::support::BRIEF;
use crate::support::processes::{mentioning, wait};
use crate::support::stage::Ran;
use crate::sweep::Bench;

/// Everything that the small kernel's space has.
const POINTS: usize = 10;

fn worker() -> String {
    format!("{} worker", env!("CARGO_BIN_EXE_evo"))
}

/// A sweep of the small kernel without a confirmation, which would take most of the time.
fn sweep(bench: &Bench, more: &[&str]) -> Command {
    let mut command =
        bench.evo(&format!("sweep scale.toml --device host --seed 1 --jobs 2 --out out --no-prior {BRIEF}"));
    command.args(more);
    command
}

fn done(bench: &Bench, more: &[&str]) {
    Ran::of("sweep", &sweep(bench, more).output().unwrap()).ends(0);
}

fn journal(bench: &Bench) -> PathBuf {
    bench.at("out/scale-host/journal.jsonl")
}

fn history(bench: &Bench) -> History {
    History::replay(reader::read(&journal(bench)).unwrap())
}

fn end(bench: &Bench) -> RunEnd {
    let records = reader::read(&journal(bench)).unwrap().records;
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

/// Every point has its verdict, and half of them are wrong.
fn judged(bench: &Bench) -> BTreeMap<String, bool> {
    let wrong = wrong(&history(bench));
    assert_eq!((wrong.len(), wrong.values().filter(|own| **own).count()), (POINTS, POINTS / 2), "{wrong:?}");
    wrong
}

/// No process has the bench's folder in its command line any more.
fn nothing_is_left(bench: &Bench) {
    let folder = bench.path().to_str().unwrap();
    wait("nothing is left", || mentioning(folder) == 0);
}

#[test]
fn three_lanes_by_command_share_a_sweep() {
    let bench = Bench::new();
    let command = format!("cmd:{}", worker());
    done(&bench, &["--workers", &command, "--lanes", "3", "--finalists", "1"]);
    let (seen, wrong) = (history(&bench), judged(&bench));
    assert!(wrong.iter().all(|(name, is_wrong)| name.contains("FACTOR=3") == *is_wrong), "{wrong:?}");
    let judged = seen.evaluations.iter().filter(|one| one.duplicate_of.is_none());
    for one in judged {
        let lane = one.lane.unwrap();
        assert!(one.device_uuid.as_deref().unwrap().ends_with(&format!("#{lane}")), "{one:?}");
    }
    let end = end(&bench);
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
    bench.write("lanes.toml", &list);
    "lanes.toml".to_string()
}

fn check_proxies(faults: &[(&str, u32, u32)]) {
    let bench = Bench::new();
    let list = proxies(&bench, faults);
    done(&bench, &["--workers", &list, "--finalists", "0"]);
    judged(&bench);
    assert_eq!(end(&bench).not_final, 0);
    nothing_is_left(&bench);
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
    done(&bench, &["--workers", &list, "--finalists", "0"]);
    judged(&bench);
    let lane = &end(&bench).lanes[1];
    // It would be lost if the sweep had waited for its launcher.
    let why = Some("it was still without a new worker at the end");
    assert_eq!((lane.out.as_deref(), lane.restarts), (why, 0), "{lane:?}");
    nothing_is_left(&bench);
}

#[test]
fn a_killed_sweep_goes_on_with_another_number_of_lanes() {
    let bench = Bench::new();
    let command = format!("cmd:{}", worker());
    let mut first =
        sweep(&bench, &["--workers", &command, "--lanes", "2", "--finalists", "0"]).spawn().unwrap();
    let kept = || fs::read_to_string(journal(&bench)).unwrap_or_default();
    wait("three verdicts", || kept().matches("\"verdict\"").count() >= 3);
    first.kill().unwrap();
    first.wait().unwrap();
    done(&bench, &["--workers", "host:3", "--finalists", "0", "--resume"]);
    assert_eq!(wrong(&history(&bench)).len(), POINTS);
    assert_eq!(end(&bench).lanes.len(), 3);
}

#[test]
fn what_is_no_list_of_workers_is_said_and_nothing_is_written() {
    let bench = Bench::new();
    let check = |workers: &[&str], expected: &str| {
        Ran::of("sweep", &sweep(&bench, workers).output().unwrap()).ends(2).says(&[expected]);
        assert!(!bench.at("out").exists());
    };
    bench.write("fails.sh", "echo no such partition >&2\nexit 1\n");
    check(&["--workers", "cmd:sh fails.sh"], "no such partition");
    // What needs a device of this machine does not quietly take another one.
    let command = format!("cmd:{}", worker());
    let told = "`--profile` cannot be used with `--workers cmd:";
    check(&["--workers", &command, "--profile", "finalists"], told);
}

#[test]
fn the_bridge_to_ray_passes_lines_on_and_ends_with_its_worker() {
    let bench = Bench::new();
    let script = bench.at("worker.sh");
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
