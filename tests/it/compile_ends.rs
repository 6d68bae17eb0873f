//! However a compilation ends, nothing that it started lives on.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use evo::compile::CompileFarm;
use evo_protocol::verdict::VerdictKind;

use crate::compile::{Bench, SCALE, source};

/// Processes whose command line mentions `marker`, zombies left out.
fn survivors(marker: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(marker))
        .collect()
}

/// Waits until no process mentions `marker`; a killed one takes a moment to go.
fn assert_gone(marker: &str) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !survivors(marker).is_empty() {
        assert!(Instant::now() < give_up, "still there: {:?}", survivors(marker));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a process mentions `marker`.
fn assert_appears(marker: &str) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while survivors(marker).is_empty() {
        assert!(Instant::now() < give_up, "the compiler does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn mark(path: &Path) -> String {
    path.join("marker").display().to_string()
}

#[test]
fn the_deadline_ends_the_compiler_with_everything_it_started() {
    let bench = Bench::fake("");
    let marker = mark(bench.folder.path());
    // The shell names itself by `$0 marker`; its children sleep far beyond the test.
    let script = format!(
        "for i in 1 2; do bash -c 'sleep 600; true' {marker} & done\nbash -c 'sleep 600; true' {marker}"
    );
    let mut bench = rewritten(bench, &script);
    bench.options.deadline = Duration::from_millis(300);
    let verdict = bench.verdict(source("a", SCALE, "scale"));
    assert_eq!(verdict.kind, VerdictKind::CompileTimeout, "{verdict:?}");
    assert_eq!(verdict.evidence.get("deadline_ms"), Some(&300.into()));
    assert_gone(&marker);
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}

/// The same bench with another body in its fake compiler.
fn rewritten(bench: Bench, body: &str) -> Bench {
    let script = bench.folder.path().join("cxx");
    let text = fs::read_to_string(&script).unwrap();
    fs::write(&script, format!("{text}\n{body}\n")).unwrap();
    bench
}

#[test]
fn dropping_the_farm_ends_a_running_compilation() {
    let bench = Bench::fake("");
    let marker = mark(bench.folder.path());
    let bench = rewritten(bench, &format!("bash -c 'sleep 600; true' {marker}"));
    let farm = CompileFarm::start_with(bench.options.clone(), &bench.toolbox, Box::new(|_, _| {})).unwrap();
    farm.submit(0, source("a", SCALE, "scale"));
    assert_appears(&marker);
    drop(farm);
    assert_gone(&marker);
}

#[test]
fn a_killed_evo_leaves_no_compiler_behind() {
    let bench = Bench::fake("");
    let marker = mark(bench.folder.path());
    let bench = rewritten(bench, &format!("bash -c 'sleep 600; true' {marker}"));
    let mut evo = Command::new(env!("CARGO_BIN_EXE_evo"))
        .args(["compile", "gemm", "--arch", "host"])
        .env("CXX", bench.toolbox.cxx.as_ref().unwrap())
        .env("EVO_CACHE_DIR", &bench.options.cache)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert_appears(&marker);
    evo.kill().unwrap();
    evo.wait().unwrap();
    assert_gone(&marker);
}

#[test]
fn a_cancelled_farm_compiles_nothing_old_and_everything_new() {
    let mut bench = Bench::fake("");
    bench.options.jobs = 2;
    let marker = mark(bench.folder.path());
    let compiled = bench.folder.path().join("compiled");
    // Counts each source that reaches the compiler; then compiles for ever, but for the one that says `QUICK`.
    let script = format!(
        "echo x >> {}\nfor last; do true; done\ngrep -q QUICK $last && exit 1\nbash -c 'sleep 600; true' {marker}",
        compiled.display()
    );
    let bench = rewritten(bench, &script);
    let (sender, receiver) = mpsc::channel();
    let done = Box::new(move |ticket, _| sender.send(ticket).unwrap());
    let farm = CompileFarm::start_with(bench.options.clone(), &bench.toolbox, done).unwrap();
    let count = || fs::read_to_string(&compiled).map_or(0, |text| text.lines().count());
    for ticket in 0..6 {
        farm.submit(ticket, source(&format!("N={ticket}"), SCALE, "scale"));
    }
    let give_up = Instant::now() + Duration::from_secs(60);
    while count() < 2 || survivors(&marker).len() < 2 {
        assert!(Instant::now() < give_up, "the compilers do not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(farm.pending(), 6);
    farm.cancel();
    assert_eq!(farm.pending(), 0);
    assert_gone(&marker);
    // Idle workers are not killed.
    farm.cancel();
    for ticket in 6..8 {
        farm.submit(ticket, source(&format!("QUICK={ticket}"), SCALE, "scale"));
    }
    let mut answered: Vec<u64> = receiver.iter().take(2).collect();
    answered.sort_unstable();
    assert_eq!(answered, [6, 7], "and none of the cancelled ones");
    farm.cancel();
    farm.submit(8, source("QUICK=8", SCALE, "scale"));
    assert_eq!(receiver.recv().unwrap(), 8);
    assert_eq!(count(), 2 + 3);
    drop(farm);
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}
