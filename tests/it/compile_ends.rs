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
    let farm = CompileFarm::start(bench.options.clone()).unwrap();
    farm.submit(source("a", SCALE, "scale"), drop);
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
        .env("CXX", bench.options.toolbox.cxx.as_ref().unwrap())
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
    let farm = CompileFarm::start(bench.options.clone()).unwrap();
    let submit = |ticket: u64, label: &str| {
        let sender = sender.clone();
        farm.submit(source(label, SCALE, "scale"), move |_| sender.send(ticket).unwrap());
    };
    let count = || fs::read_to_string(&compiled).map_or(0, |text| text.lines().count());
    for ticket in 0..6 {
        submit(ticket, &format!("N={ticket}"));
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
        submit(ticket, &format!("QUICK={ticket}"));
    }
    let mut answered: Vec<u64> = receiver.iter().take(2).collect();
    answered.sort_unstable();
    assert_eq!(answered, [6, 7], "and none of the cancelled ones");
    farm.cancel();
    submit(8, "QUICK=8");
    assert_eq!(receiver.recv().unwrap(), 8);
    assert_eq!(count(), 2 + 3);
    drop(farm);
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}

/// Two tries of a compiler that misbehaves: the verdict after the second.
fn fails(body: &str) -> evo_protocol::verdict::Verdict {
    let bench = Bench::fake(body);
    let verdict = bench.verdict(source("a", SCALE, "scale"));
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
    verdict
}

#[test]
fn a_killed_compiler_is_nobodys_verdict_and_has_not_run_out_of_memory() {
    let killed = |body: &str, message: &str| {
        let verdict = fails(body);
        assert_eq!((verdict.label().as_str(), verdict.message.as_str()), ("harness_error:killed", message));
        let bytes = |name: &str| verdict.evidence.get(name).unwrap().as_u64().unwrap();
        assert!(bytes("memory_peak_bytes") < bytes("memory_limit_bytes") / 2, "{verdict:?}");
    };
    killed("kill -9 $$", "the C++ compiler was killed by SIGKILL");
    killed("kill -TERM $$", "the C++ compiler was killed by SIGTERM");
    killed(
        "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1",
        "the C++ compiler was killed by SIGKILL",
    );
    killed("kill -9 $PPID; sleep 60", "the compile worker was killed by SIGKILL");
}

#[test]
fn one_kill_is_made_up_for_by_a_fresh_worker() {
    let bench = Bench::fake("");
    let once = bench.folder.path().join("once");
    let script =
        format!("[ -e {0} ] || {{ touch {0}; kill -9 $PPID; sleep 60; }}\nexec g++ \"$@\"", once.display());
    let bench = rewritten(bench, &script);
    let options = &bench.options;
    let outcome = evo::compile::compile_one(options, source("a", SCALE, "scale")).unwrap();
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
fn a_compiler_without_its_folder_or_its_parts_is_the_machines_trouble() {
    let removed =
        fails("for last; do true; done; rm -rf $(dirname $last); echo \"$last: No such file\" >&2; exit 1");
    assert_eq!(removed.label(), "harness_error:machine", "{removed:?}");
    assert_eq!(removed.message, "the compiler's scratch folder was removed while it was in use");
    let parts =
        fails("echo \"g++: fatal error: cannot execute 'cc1plus': No such file or directory\" >&2; exit 1");
    assert_eq!(parts.label(), "harness_error:machine", "{parts:?}");
    // A source that makes the same words is refused for itself.
    let says =
        fails("for last; do true; done; echo \"$last:1:2: error: No space left on device\" >&2; exit 1");
    assert_eq!(says.kind, VerdictKind::CompileError, "{says:?}");
}
