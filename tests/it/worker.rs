//! Lanes against scripted workers: every way to die gets its verdict, the next job a proven worker,
//! and nothing stays behind.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use evo::supervise::deadline::Deadlines;
use evo::supervise::job::{Job, Judgement, Standing, example};
use evo::supervise::lane::{Lane, LaneError, LaneLimits, LaneOptions};
use evo_protocol::evaluation::RecoveryLevel;
use evo_protocol::verdict::{Gate, GateState};
use evo_protocol::worker::{BinaryRef, CandidateBuild, Phase};
use evo_space::genome::ContentHash;

use crate::support::processes::{is_running, wait, wait_for_ends};

/// A lane of scripted workers and the folder in which they leave traces.
struct Stage {
    folder: tempfile::TempDir,
    words: Vec<String>,
}

impl Stage {
    fn new(words: &[&str]) -> Stage {
        let words = words.iter().map(|word| word.to_string()).collect();
        Stage { folder: tempfile::tempdir().unwrap(), words }
    }

    fn options(&self) -> LaneOptions {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fake_worker.py");
        let folder = self.folder.path().to_string_lossy().into_owned();
        let mut command = vec!["python3".to_string(), script.into(), folder];
        command.extend(self.words.clone());
        let cache = self.folder.path().to_path_buf();
        LaneOptions {
            command: Some(command),
            device: "host".into(),
            cache,
            support_cubin: None,
            reference_kernels: None,
            leased: false,
        }
    }

    fn lane(&self, spare: bool) -> Result<Lane, LaneError> {
        let patient = Duration::from_secs(60);
        let mut deadlines = Deadlines::within(patient)
            .with(Phase::Preparing, Duration::from_secs(2))
            .with(Phase::Launched, Duration::from_millis(500));
        // Looked at between phases: a request with one answer may take longer.
        deadlines.total = Duration::from_secs(3);
        let limits = LaneLimits { deadlines: Some(deadlines), spare, ..LaneLimits::default() };
        Lane::start_with(self.options(), limits)
    }

    /// No worker is left behind.
    fn is_empty(&self) {
        let left: Vec<u32> = self.started().into_iter().filter(|pid| is_running(*pid)).collect();
        assert!(left.is_empty(), "workers {left:?} are left behind");
    }

    fn started(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.folder.path().join("started")).unwrap_or_default();
        text.split_whitespace().map(|word| word.parse().unwrap()).collect()
    }
}

fn job(label: &str) -> Job {
    let mut job = example::job(&[("big", 1e6)]);
    let hash = ContentHash::of(label.as_bytes());
    let binary = BinaryRef { hash: hash.clone(), path: Some("/nonexistent".into()) };
    job.candidate.label = label.into();
    job.candidate.builds = vec![CandidateBuild::for_all(hash, binary, vec!["kernel".into()])];
    job.candidate.check.seeds = 1;
    job.candidate.check.repeats = 2;
    job
}

/// A good job, the bad one, a good one: gives the bad one's result.
fn between_good_ones(label: &str) -> (Judgement, Stage) {
    let stage = Stage::new(&[]);
    let mut lane = stage.lane(false).unwrap();
    let standing = Standing::default();
    assert!(lane.evaluate(&job("A=1"), &standing).verdict.is_pass());
    let bad = lane.evaluate(&job(label), &standing);
    let after = lane.evaluate(&job("A=2"), &standing);
    assert!(after.verdict.is_pass(), "{label}: {after:?}");
    assert_eq!(after.objective_ns.map(|ns| ns.round()), Some(1000.0));
    drop(lane);
    stage.is_empty();
    (bad, stage)
}

fn check(label: &str, expected: &str, recovery: &str, workers: usize) {
    let (bad, stage) = between_good_ones(label);
    assert_eq!(bad.verdict.label(), expected, "{label}: {bad:?}");
    let level = bad.recovery.map_or("none", |own| own.level.as_str());
    assert_eq!(level, recovery, "{label}: {bad:?}");
    assert_eq!(stage.started().len(), workers, "{label}");
    assert!(!bad.lost);
}

#[test]
fn hangs_and_what_a_busy_machine_may_cause() {
    // A launch that does not end is final at once; a silent worker gets a second strike.
    check("FAULT=hang", "hang", "R2", 2);
    check("FAULT=silent", "worker_hang", "R1", 3);
    check("FAULT=silent ONCE", "pass", "R1", 2);
    check("FAULT=doubt", "timing_escape:forged_time", "R2", 3);
    check("FAULT=doubt ONCE", "pass", "R2", 2);
}

#[test]
fn a_hang_names_its_place() {
    let (bad, _) = between_good_ones("FAULT=hang");
    let evidence = |name| bad.verdict.evidence.get(name).cloned().unwrap_or_default();
    assert_eq!(evidence("phase"), "launched");
    assert_eq!(evidence("at"), "`tiny:S=33`");
    assert_eq!(evidence("deadline_ms"), 500);
    assert_eq!(bad.recovery.unwrap().level, RecoveryLevel::R2);
    let states: Vec<_> = bad.gates.iter().map(|report| (report.gate, report.state)).collect();
    assert_eq!(
        states[..3],
        [
            (Gate::Launch, GateState::Pass),
            (Gate::TinyShapes, GateState::Fail),
            (Gate::FullShapes, GateState::NotRun),
        ]
    );
}

#[test]
fn deaths_broken_protocol_floods_and_deafness() {
    check("FAULT=exit", "worker_died:exit_0", "R1", 3);
    check("FAULT=exit ONCE", "pass", "R1", 2);
    check("FAULT=signal", "worker_died:sigsegv", "R2", 3);
    check("FAULT=fault", "oob_write", "R2", 2);
    check("FAULT=sticky", "crash_illegal_address", "R2", 2);
    check("FAULT=garbage", "worker_died:protocol", "R2", 3);
    check("FAULT=twice", "worker_died:protocol", "R2", 3);
    check("FAULT=wrong_id", "worker_died:protocol", "R2", 3);
    check("FAULT=wrong_id ONCE", "pass", "R2", 2);
    check("FAULT=flood", "output_flood", "R2", 2);
    check("DEAF", "pass", "none", 1);
}

#[test]
fn answers_without_an_end_or_that_cannot_be_true_are_no_answers() {
    for (label, expected) in [
        ("FAULT=drip", "it reported phases for 3 s and gave no answer"),
        ("FAULT=long", "a line longer than a message may be"),
        ("FAULT=negative", "its answer cannot be true: min_ns is -1000"),
        ("FAULT=unordered", "its answer cannot be true: p10_ns is 3000, above p50_ns of 1000"),
        ("FAULT=zero", "its answer cannot be true: min_ns is 0"),
    ] {
        let verdict = between_good_ones(label).0.verdict;
        assert_eq!(verdict.label(), "worker_died:protocol", "{label}");
        assert!(verdict.message.contains(expected), "{label}: {}", verdict.message);
    }
}

#[test]
fn grandchildren_die_with_the_group() {
    let (bad, stage) = between_good_ones("FAULT=grandchild");
    assert_eq!(bad.verdict.label(), "harness_error:killed");
    wait_for_ends(&std::fs::read_to_string(stage.folder.path().join("grandchild")).unwrap());
}

#[test]
fn slow_at_full_size_is_a_lower_bound_or_a_hang() {
    let stage = Stage::new(&[]);
    let mut lane = stage.lane(true).unwrap();
    let check = |lane: &mut Lane, incumbent_ns: f64, expected: &str| {
        let standing = Standing::new([("big".to_string(), incumbent_ns)].into(), incumbent_ns);
        let result = lane.evaluate(&job("FAULT=slow_full"), &standing);
        assert_eq!(result.verdict.label(), expected, "{result:?}");
        result.objective_ns
    };
    let bound = check(&mut lane, 1e8, "too_slow").unwrap();
    assert!(bound >= 0.5e9, "{bound}");
    assert_eq!(check(&mut lane, 1e3, "hang"), None);
    let standing = Standing::new([("big".to_string(), 1000.0)].into(), 1000.0);
    let slow = lane.evaluate(&job("SLOW"), &standing);
    assert_eq!(slow.verdict.label(), "too_slow");
    assert_eq!(slow.objective_ns.map(|ns| ns.round()), Some(5000.0));
    assert!(slow.recovery.is_none());
}

#[test]
fn two_dead_canaries_lose_the_device() {
    let stage = Stage::new(&["canary_dies_from=1"]);
    let mut lane = stage.lane(false).unwrap();
    let bad = lane.evaluate(&job("FAULT=hang"), &Standing::default());
    assert_eq!(bad.verdict.label(), "hang");
    assert!(bad.lost);
    assert_eq!(bad.recovery.unwrap().level, RecoveryLevel::R3);
    let next = lane.evaluate(&job("A=1"), &Standing::default());
    assert_eq!(next.verdict.label(), "device_lost");
    assert!(next.lost);
    assert!(matches!(lane.pair(&job("A=1"), &job("A=2"), &[0], 2), Err(LaneError::Lost { .. })));
}

#[test]
fn a_spare_takes_over() {
    let stage = Stage::new(&[]);
    let mut lane = stage.lane(true).unwrap();
    let bad = lane.evaluate(&job("FAULT=hang"), &Standing::default());
    assert_eq!(bad.verdict.label(), "hang");
    assert!(lane.evaluate(&job("A=1"), &Standing::default()).verdict.is_pass());
    drop(lane);
    stage.is_empty();
}

#[test]
fn a_missing_binary_is_sent_along() {
    let stage = Stage::new(&[]);
    let mut lane = stage.lane(false).unwrap();
    let mut needy = job("NEED");
    let path = stage.folder.path().join("binary");
    std::fs::write(&path, b"foobar").unwrap();
    needy.candidate.builds[0].binary.path = Some(path);
    assert!(lane.evaluate(&needy, &Standing::default()).verdict.is_pass());
    assert_eq!(std::fs::read_to_string(stage.folder.path().join("provided")).unwrap(), "Zm9vYmFy");
}

#[test]
fn pairs_run_in_fresh_processes_with_alternating_slots() {
    let stage = Stage::new(&[]);
    let mut lane = stage.lane(false).unwrap();
    let first = lane.pair(&job("A=1"), &job("A=2"), &[0], 6).unwrap().remove(0);
    let second = lane.pair(&job("A=1"), &job("A=2"), &[0], 6).unwrap().remove(0);
    // The script always says that slot 1 is slower; the lane knows who sat there.
    assert_eq!((first.log_ratios[0], second.log_ratios[0]), (0.1, -0.1));
    assert_eq!((first.a_ns[0], second.a_ns[0]), (10.0, 11.0));
    assert_eq!(stage.started().len(), 3);
    let noise = lane.noise_floor(&job("A=1"), 1).unwrap();
    assert!(noise.floor >= 0.1);
}

#[test]
fn a_command_that_does_not_start_is_an_error() {
    let mut options = Stage::new(&[]).options();
    options.command = Some(vec!["/nonexistent/worker".into()]);
    assert!(matches!(Lane::start_with(options.clone(), LaneLimits::default()), Err(LaneError::Spawn { .. })));
    options.command = Some(vec!["false".into()]);
    let error = Lane::start_with(options, LaneLimits::default()).unwrap_err();
    assert!(error.to_string().contains("exited with 1"), "{error}");
}

#[test]
fn both_kinds_of_workers_are_the_named_program() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let evo = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_evo"))
            .args(arguments)
            .env("EVO_WORKER_PROGRAM", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/worker_program.sh"))
            .env("EVO_TEST_PROGRAM", env!("CARGO_BIN_EXE_evo"))
            .env("EVO_TEST_STARTED", &started)
            .env("EVO_CACHE_DIR", folder.path().join("cache"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let words = std::fs::read_to_string(&started).unwrap_or_default();
        // What ends strays beside it does not work, and comes at any time.
        words.split_inclusive('\n').filter(|line| !line.starts_with("worker --keep")).collect::<String>()
    };
    // The first compiles a kernel, to see whether the compiler does; the spare may be started or not by the time that
    // the command ends.
    let of_lane = evo(&["preflight", "--device", "host"]);
    let lane = of_lane.strip_prefix("worker --compile host\n");
    assert!(matches!(lane, Some("worker\n" | "worker\nworker\n")), "{of_lane}");
    std::fs::remove_file(&started).unwrap();
    assert_eq!(evo(&["compile", "gemm", "--arch", "host", "--jobs", "1"]), "worker --compile host\n");
}

/// The name of the test below, and of the variable by which it plays the parent.
const ORPHANS: &str = "worker::workers_die_with_their_parent";
const PARENT: &str = "EVO_TEST_PARENT_FOLDER";

#[test]
fn workers_die_with_their_parent() {
    if let Ok(folder) = std::env::var(PARENT) {
        return play_the_parent(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", ORPHANS])
        .env(PARENT, folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ready = folder.path().join("ready");
    wait("the parent gets its worker going", || ready.exists());
    let text = std::fs::read_to_string(&ready).unwrap();
    let workers: Vec<u32> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(workers.len() >= 2 && workers.iter().all(|pid| is_running(*pid)), "{workers:?}");
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_for_ends(&text);
}

/// Holds a lane whose worker hangs in a launch, with a spare, until somebody kills this process.
fn play_the_parent(folder: &Path) {
    let stage = Stage { folder: tempfile::tempdir().unwrap(), words: Vec::new() };
    let options = stage.options();
    let lane = std::thread::spawn(move || {
        // The thread that starts the lane ends here, which must not end the worker.
        Lane::start_with(options, LaneLimits::default()).unwrap()
    });
    let mut lane = lane.join().unwrap();
    while stage.started().len() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pids: Vec<String> = stage.started().iter().map(u32::to_string).collect();
    std::thread::spawn(move || lane.evaluate(&job("FAULT=hang"), &Standing::default()));
    std::thread::sleep(Duration::from_millis(200));
    let half = folder.join("ready.half");
    std::fs::write(&half, pids.join(" ")).unwrap();
    std::fs::rename(half, folder.join("ready")).unwrap();
    std::thread::sleep(Duration::from_secs(300));
}
