//! However a compilation ends, nothing that it started lives on.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use evo::compile::CompileFarm;
use evo_protocol::verdict::VerdictKind;

use crate::compile::{Bench, SCALE, source};
use crate::support::processes::{mentioning, wait};

/// Waits until no process mentions `marker`; a killed one takes a moment to go.
#[track_caller]
fn assert_gone(marker: &str) {
    wait("all are gone", || mentioning(marker) == 0);
}

/// A bench whose fake compiler does this, and the text in the command lines of what it starts: `MARK` of the script.
fn marked(script: &str) -> (Bench, String) {
    let bench = Bench::fake("");
    let marker = bench.folder.path().join("marker").display().to_string();
    (rewritten(bench, &script.replace("MARK", &marker)), marker)
}

#[test]
fn the_deadline_ends_the_compiler_with_everything_it_started() {
    // The shell names itself by `$0 marker`; its children sleep far beyond the test.
    let script = "for i in 1 2; do bash -c 'sleep 600; true' MARK & done\nbash -c 'sleep 600; true' MARK";
    let (mut bench, marker) = marked(script);
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
    let (bench, marker) = marked("bash -c 'sleep 600; true' MARK");
    let farm = CompileFarm::start(bench.options.clone()).unwrap();
    farm.submit(source("a", SCALE, "scale"), drop);
    wait("the compiler starts", || mentioning(&marker) > 0);
    drop(farm);
    assert_gone(&marker);
}

#[test]
fn a_killed_evo_leaves_no_compiler_behind() {
    let (bench, marker) = marked("bash -c 'sleep 600; true' MARK");
    let mut evo = Command::new(env!("CARGO_BIN_EXE_evo"))
        .args(["compile", "gemm", "--arch", "host"])
        .env("CXX", bench.options.toolbox.cxx.as_ref().unwrap())
        .env("EVO_CACHE_DIR", &bench.options.cache)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait("the compiler starts", || mentioning(&marker) > 0);
    evo.kill().unwrap();
    evo.wait().unwrap();
    assert_gone(&marker);
}

#[test]
fn a_cancelled_farm_compiles_nothing_old_and_everything_new() {
    let mut bench = Bench::fake("");
    bench.options.jobs = 2;
    let marker = bench.folder.path().join("marker").display().to_string();
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
    wait("the compilers start", || count() >= 2 && mentioning(&marker) >= 2);
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
