//! `evo sanitize`: the tool's answer and the worker's, told apart in every state that either can be in. The tool is
//! played by a script (`tests/data/tools/`), the worker is the real one of the host device.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use evo::cli::selftest::SanitizedFault;
use evo::engine::Sanitizer;
use evo::engine::live_sanitizer::{DeviceSanitizer, TwinLooks};
use evo::inspect::sanitize::{
    SanitizerCheck, SanitizerEvidence, SanitizerFinding, SanitizerOutcome, read_log, read_records, run_check,
    run_without, sanitizer_command, shapes,
};
use evo::inspect::twin::{HostLook, TwinAnswer};
use evo::supervise::job::Job;
use evo::supervise::solo::SoloOrder;
use evo::tool::{FoundTool, ToolFailure, ToolKind, ToolPlaces, ToolState, locate, probe};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{GateState, Verdict, VerdictKind};
use evo_protocol::worker::BufferSpan;
use evo_space::genome::Configuration;
use evo_space::value::Value;
use tempfile::TempDir;

use crate::lane::{fault, options, own_worker};
use crate::skip::skipped;
use crate::support::processes::wait_for_ends;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tools")
}

/// A tool with what it leaves behind.
pub struct Replay {
    folder: TempDir,
    pub tool: FoundTool,
}

impl Replay {
    /// The files of `name` (`log`, `xml`), and how the tool ends.
    pub fn new(log: Option<&str>, xml: Option<&str>, code: i32, mode: &str) -> Replay {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
        let recorded = |name: &str| fs::read(data().join("sanitizer").join(name)).unwrap();
        if let Some(log) = log {
            write("log", &recorded(log));
        }
        if let Some(xml) = xml {
            write("xml", &recorded(xml));
        }
        // As the real one does where nothing is found, it ends as the worker does.
        if code != 0 {
            write("code", code.to_string().as_bytes());
        }
        write("mode", mode.as_bytes());
        let tool = tool_in(folder.path());
        Replay { folder, tool }
    }

    fn check(&self, check: SanitizerCheck, job: &Job, limit: Duration) -> SanitizerOutcome {
        let (options, plans) = (options(own_worker()), shapes(job));
        run_check(&self.tool, check, 0, &SoloOrder::once(&options, job, &plans, limit))
    }

    /// What was passed to the tool, a line a run.
    pub fn arguments(&self) -> String {
        fs::read_to_string(self.folder.path().join("arguments")).unwrap()
    }

    #[track_caller]
    pub fn leaves_no_process(&self) {
        let pids = fs::read_to_string(self.folder.path().join("pids")).unwrap();
        wait_for_ends(&pids);
    }
}

fn tool_in(folder: &Path) -> FoundTool {
    let path = folder.join("compute-sanitizer");
    let script = data().join("compute-sanitizer.sh");
    let text = format!("#!/bin/sh\nREPLAY='{}' exec '{}' \"$@\"\n", folder.display(), script.display());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    probe(ToolKind::ComputeSanitizer, path).unwrap()
}

pub fn good() -> Job {
    fault("none")
}

pub const PATIENT: Duration = Duration::from_secs(120);

use GateState::{Fail, NotRun, Pass};
use SanitizerCheck::{Initcheck, Memcheck, Racecheck, Synccheck};

#[track_caller]
pub fn is(outcome: &SanitizerOutcome, state: GateState, failure: Option<ToolState>) {
    let seen = (outcome.state, outcome.failure.as_ref().map(|failure| failure.state));
    assert_eq!(seen, (state, failure), "{outcome:#?}");
}

#[test]
fn a_candidate_that_nothing_is_found_in_passes_each_check() {
    let job = good();
    for (check, log) in [
        (Memcheck, "clean.log"),
        (Racecheck, "clean_race.log"),
        (Initcheck, "clean.log"),
        (Synccheck, "clean.log"),
    ] {
        let replay = Replay::new(Some(log), Some("clean.xml"), 0, "normal");
        let outcome = replay.check(check, &job, PATIENT);
        is(&outcome, Pass, None);
        let expected: usize = shapes(&job).iter().map(|plan| plan.launches.len()).sum();
        assert_eq!((outcome.launches, outcome.findings.len()), (expected as u64, 0));
        assert!(expected > 1 && outcome.notes.is_empty(), "{outcome:?}");
        let line = replay.arguments();
        assert!(line.starts_with(&format!("--tool {} --log-file ", check.as_str())), "{line}");
        assert!(line.contains(" --kernel-name-exclude kns=evo_ "), "{line}");
        assert!(line.contains(" worker"), "{line}");
    }
}

#[test]
fn the_smallest_checked_problem_is_among_the_shapes() {
    let job = good();
    let names: Vec<String> = shapes(&job).into_iter().map(|plan| plan.name).collect();
    assert_eq!(names.len(), job.tiny.len() + 1);
    assert!(job.all_checked().iter().any(|plan| Some(&plan.name) == names.last()), "{names:?}");
}

#[test]
fn findings_of_each_check_are_read() {
    let job = good();
    for (check, name, line) in [
        (Memcheck, "memcheck", Some(12)),
        (Racecheck, "racecheck", Some(41)),
        (Initcheck, "initcheck", None),
        (Synccheck, "synccheck", Some(79)),
    ] {
        let (log, xml) = (format!("{name}.log"), format!("{name}.xml"));
        let replay = Replay::new(Some(&log), Some(&xml), 86, "normal");
        let outcome = replay.check(check, &job, PATIENT);
        is(&outcome, Fail, None);
        assert_eq!((outcome.findings.len(), outcome.errors, outcome.warnings), (1, 1, 0), "{outcome:?}");
        let finding = &outcome.findings[0];
        assert_eq!((finding.tool.as_str(), finding.line), (name, line), "{finding:?}");
        assert!(finding.is_error() && finding.argument.is_none(), "{finding:?}");
    }
}

/// What compute-sanitizer 2025.3.1 left behind on an H200, read as if the worker had made its launches.
fn recorded(check: SanitizerCheck, name: &str, log: &str, code: i32) -> SanitizerOutcome {
    let file = |name: &str| fs::read(data().join("sanitizer/recorded").join(name)).unwrap();
    let span = |name: &str, address| BufferSpan { name: name.into(), address, bytes: 400 };
    SanitizerEvidence {
        check,
        entries: &["k".to_string(), "r".to_string()],
        status: Some(ExitStatus::from_raw(code << 8)),
        log: Ok(read_log(&String::from_utf8(file(log)).unwrap())),
        records: read_records(&file(&format!("{name}.xml"))),
        launched: &Ok(vec![1]),
        expected: &[1],
        buffers: &[span("far", 0x7f00_0000_0000), span("p", 0x7f61_a880_0000)],
        strong_lines: &std::collections::BTreeSet::new(),
        printed: "",
    }
    .outcome()
}

#[test]
fn recorded_clean_runs_pass() {
    for (check, log) in [
        (Memcheck, "clean.log"),
        (Initcheck, "clean.log"),
        (Synccheck, "clean.log"),
        (Racecheck, "clean_race.log"),
    ] {
        is(&recorded(check, "clean", log, 0), Pass, None);
    }
    // The clean files of one check say nothing about another.
    is(&recorded(Racecheck, "clean", "clean.log", 0), NotRun, Some(ToolState::Broken));
}

#[test]
fn recorded_findings_are_read_whole() {
    let finding = |check: SanitizerCheck, kind: &str, what: &str| SanitizerFinding {
        tool: check.as_str().into(),
        kind: Some(kind.into()),
        level: "error".into(),
        what: what.into(),
        file: Some("/src/t.cu".into()),
        ..SanitizerFinding::default()
    };
    let memcheck = recorded(Memcheck, "memcheck", "memcheck.log", 86);
    is(&memcheck, Fail, None);
    let write = SanitizerFinding {
        access: Some("write".into()),
        size_bytes: Some(4),
        entry: Some("k".into()),
        line: Some(2),
        thread: Some([100, 0, 0]),
        block: Some([0, 0, 0]),
        address: Some("0x7f61a8800190".into()),
        argument: Some("p".into()),
        ..finding(Memcheck, "Precise", "Invalid __global__ write of size 4 bytes is out of bounds")
    };
    let next = SanitizerFinding {
        thread: Some([101, 0, 0]),
        address: Some("0x7f61a8800194".into()),
        ..write.clone()
    };
    assert_eq!(memcheck.findings, [write, next]);
    assert_eq!((memcheck.errors, memcheck.notes.len()), (2, 1), "{memcheck:?}");

    let racecheck = recorded(Racecheck, "racecheck", "racecheck.log", 86);
    is(&racecheck, Fail, None);
    let what = "Race condition: write at /src/t.cu:3 and read at /src/t.cu:3, 256 hazards";
    let race =
        SanitizerFinding { entry: Some("r".into()), line: Some(3), ..finding(Racecheck, "Analysis", what) };
    assert_eq!(racecheck.findings, [race]);

    let initcheck = recorded(Initcheck, "initcheck", "initcheck.log", 86);
    is(&initcheck, Fail, None);
    let read = SanitizerFinding {
        access: Some("read".into()),
        size_bytes: Some(4),
        entry: Some("r".into()),
        line: Some(3),
        thread: Some([1, 0, 0]),
        block: Some([0, 0, 0]),
        address: Some("0x7f7e86800004".into()),
        ..finding(Initcheck, "Initcheck", "Uninitialized __global__ memory read of size 4 bytes")
    };
    assert_eq!((initcheck.findings.len(), &initcheck.findings[1]), (2, &read));
}

#[test]
fn recorded_files_that_end_in_the_middle_are_no_answer() {
    for name in ["memcheck", "racecheck", "initcheck"] {
        let whole = fs::read(data().join("sanitizer/recorded").join(format!("{name}.xml"))).unwrap();
        let end = whole.trim_ascii_end().len();
        for length in (0..end).step_by(7) {
            assert!(read_records(&whole[..length]).is_err(), "{name} {length}");
        }
    }
}

#[test]
fn warnings_of_races_decide_nothing() {
    let replay = Replay::new(Some("racecheck_warning.log"), Some("racecheck_warning.xml"), 0, "normal");
    let outcome = replay.check(Racecheck, &good(), PATIENT);
    is(&outcome, Pass, None);
    assert_eq!((outcome.warnings, outcome.findings[0].level.as_str()), (1, "warning"));
}

#[test]
fn a_clean_summary_says_nothing_about_a_dead_worker() {
    // It gets no request to launch anything, and ends with 0.
    let replay = Replay::new(Some("clean.log"), Some("clean.xml"), 0, "cut");
    let outcome = replay.check(Memcheck, &good(), PATIENT);
    is(&outcome, NotRun, Some(ToolState::Broken));
    assert!(outcome.failure.unwrap().message.contains("not every launch was made"));
    // The worker says what the kernel did, and the tool saw nothing.
    let replay = Replay::new(Some("clean.log"), Some("clean.xml"), 0, "normal");
    let outcome = replay.check(Memcheck, &fault("trap"), PATIENT);
    is(&outcome, Fail, None);
    assert_eq!((outcome.findings[0].tool.as_str(), outcome.findings.len()), ("evo", 1), "{outcome:?}");
}

#[test]
fn no_path_turns_a_tool_without_an_answer_into_a_pass() {
    let job = good();
    let broken = Some(ToolState::Broken);
    let mut files = vec![
        ("nothing at all", None, None, 0, "normal"),
        ("no summary", Some("clean.xml"), Some("clean.xml"), 0, "normal"),
        ("no records", Some("clean.log"), None, 0, "normal"),
        ("records that are not XML", Some("clean.log"), Some("clean.log"), 0, "normal"),
        ("another exit code", Some("clean.log"), Some("clean.xml"), 3, "normal"),
        ("86 and no record", Some("clean.log"), Some("clean.xml"), 86, "normal"),
        ("a record and a clean summary", Some("clean.log"), Some("memcheck.xml"), 0, "normal"),
        ("a summary and no record", Some("memcheck.log"), Some("clean.xml"), 86, "normal"),
        ("never in the program", Some("no_gpu.log"), None, 255, "normal"),
        ("never in the program, and ends well", Some("no_gpu.log"), Some("clean.xml"), 0, "normal"),
        ("ends before the worker", Some("no_gpu.log"), None, 255, "before"),
        ("ends before the worker, cleanly", Some("clean.log"), Some("clean.xml"), 0, "before"),
    ];
    files.push(("the log of another check", Some("clean_race.log"), Some("clean.xml"), 0, "normal"));
    for (what, log, xml, code, mode) in files {
        let outcome = Replay::new(log, xml, code, mode).check(Memcheck, &job, PATIENT);
        assert_eq!(outcome.state, NotRun, "{what}: {outcome:#?}");
        assert_eq!(outcome.failure.as_ref().map(|failure| failure.state), broken, "{what}: {outcome:#?}");
    }
}

#[test]
fn files_that_end_in_the_middle_are_no_answer() {
    let job = good();
    let whole = fs::read(data().join("sanitizer/memcheck.xml")).unwrap();
    for length in [0, 20, 70, 500, whole.len() - 3] {
        let replay = Replay::new(Some("memcheck.log"), None, 86, "normal");
        fs::write(replay.folder.path().join("xml"), &whole[..length]).unwrap();
        is(&replay.check(Memcheck, &job, PATIENT), NotRun, Some(ToolState::Broken));
    }
}

#[test]
fn thousands_of_records_are_counted() {
    let xml = fs::read_to_string(data().join("sanitizer/memcheck.xml")).unwrap();
    let start = xml.find("  <record>").unwrap();
    let end = xml.find("</ComputeSanitizerOutput>").unwrap();
    let many = format!("{}{}{}", &xml[..start], xml[start..end].repeat(3000), &xml[end..]);
    let replay = Replay::new(Some("memcheck.log"), None, 86, "normal");
    fs::write(replay.folder.path().join("xml"), many).unwrap();
    let outcome = replay.check(Memcheck, &good(), PATIENT);
    is(&outcome, Fail, None);
    assert_eq!(outcome.errors, 3000);
    assert!((100..=200).contains(&outcome.findings.len()), "{}", outcome.findings.len());
}

#[test]
fn a_tool_that_hangs_is_killed_with_all_that_it_started() {
    let job = good();
    for mode in ["stuck", "hang"] {
        let replay = Replay::new(Some("clean.log"), Some("clean.xml"), 0, mode);
        let limit = Duration::from_secs(if mode == "stuck" { 1 } else { 15 });
        let outcome = replay.check(Memcheck, &job, limit);
        is(&outcome, NotRun, Some(ToolState::TimedOut));
        let failure = outcome.failure.as_ref().unwrap();
        assert!(failure.hint.as_ref().unwrap().contains("--limit tool"));
        // The tool that hangs behind the worker's answers has let it answer.
        assert_eq!(failure.message.contains("deadline: "), mode == "stuck", "{}", failure.message);
        replay.leaves_no_process();
    }
}

#[test]
fn a_version_without_what_an_answer_needs_does_not_run() {
    let replay = Replay::new(Some("clean.log"), Some("clean.xml"), 0, "normal");
    let all = fs::read_to_string(data().join("sanitizer/options")).unwrap();
    let write = |without: &str| {
        let kept: String =
            all.lines().filter(|line| !line.contains(without)).map(|line| format!("{line}\n")).collect();
        fs::write(replay.folder.path().join("options"), kept).unwrap();
        Replay { tool: tool_in(replay.folder.path()), folder: tempfile::tempdir().unwrap() }
    };
    let outcome = write("--xml").check(Memcheck, &good(), PATIENT);
    is(&outcome, NotRun, Some(ToolState::Incompatible));
    assert!(outcome.failure.unwrap().message.contains("has no `--xml`"));
    let outcome = write("--padding").check(Memcheck, &good(), PATIENT);
    is(&outcome, Pass, None);
    assert_eq!(outcome.notes, ["this version has no `--padding`"]);
}

#[test]
fn a_tool_that_is_taken_away_is_no_pass() {
    let replay = Replay::new(Some("clean.log"), Some("clean.xml"), 0, "normal");
    is(&replay.check(Memcheck, &good(), PATIENT), Pass, None);
    fs::remove_file(&replay.tool.path).unwrap();
    is(&replay.check(Memcheck, &good(), PATIENT), NotRun, Some(ToolState::Broken));
    let nowhere = ToolPlaces { path: vec![replay.folder.path().to_path_buf()], ..ToolPlaces::default() };
    let missing = locate(ToolKind::ComputeSanitizer, None, &nowhere).unwrap_err();
    assert_eq!(missing.state, ToolState::Missing);
}

#[test]
fn the_host_device_stands_in_with_checks_of_its_own() {
    let looked = |fault_name: &str| {
        let (options, job) = (options(own_worker()), fault(fault_name));
        let plans = shapes(&job);
        let found = run_without(&SoloOrder::once(&options, &job, &plans, PATIENT)).unwrap();
        found.map(|finding| finding.kind.unwrap())
    };
    assert_eq!(looked("none"), None);
    assert!(looked("trap").is_some());
    assert_eq!(looked("barrier").as_deref(), Some("divergent_barrier"));
}

#[test]
fn the_table_of_faults_says_which_check_found_what() {
    let table = |log: &str, xml: &str, code: i32, mode: &str| {
        let replay = Replay::new(Some(log), Some(xml), code, mode);
        let (options, job) = (options(own_worker()), good());
        let named = |fault: &SanitizedFault| ["oob_write", "none"].contains(&fault.name);
        let played = |fault: SanitizedFault| {
            // The fault's own source would fail on this device as well; what the tool says is played.
            let fault = SanitizedFault { checks: vec![Memcheck], ..fault };
            let row = fault.looked((DeviceKind::Cuda, &replay.tool), &options, &job);
            (fault.name, row.passed)
        };
        SanitizedFault::all().filter(named).map(played).collect::<Vec<_>>()
    };
    let (found, missed) = (Some(true), Some(false));
    assert_eq!(
        table("recorded/memcheck.log", "recorded/memcheck.xml", 86, "normal"),
        [("oob_write", found), ("none", missed)]
    );
    assert_eq!(table("clean.log", "clean.xml", 0, "normal"), [("oob_write", missed), ("none", found)]);
    // Nothing that a dead worker or a tool without an answer leaves behind counts.
    assert_eq!(table("clean.log", "clean.xml", 0, "cut"), [("oob_write", missed), ("none", missed)]);
    assert_eq!(table("clean.log", "memcheck.xml", 0, "normal"), [("oob_write", missed), ("none", missed)]);
}

fn point() -> Configuration {
    Configuration::new(vec![("BLOCK".into(), Value::from(128))])
}

/// Says what a test says, of the configuration that it expects.
#[derive(Debug)]
struct PlayedTwin(TwinAnswer);

impl HostLook for PlayedTwin {
    fn look(&self, configuration: &Configuration, _limit: Duration) -> TwinAnswer {
        assert_eq!(*configuration, point());
        self.0.clone()
    }
}

#[test]
fn the_host_device_is_asked_beside_the_tool_and_in_its_place() {
    let seen = |replay: Option<&Replay>, said: TwinAnswer| {
        let absent = ToolFailure::new(ToolState::Missing, "it is not there");
        let mut sanitizer = DeviceSanitizer {
            kind: DeviceKind::Cuda,
            tool: replay.map_or(Err(absent), |own| Ok(own.tool.clone())),
            options: options(own_worker()),
            limit: PATIENT,
            is_demanded: true,
            checks: vec![SanitizerCheck::Memcheck],
            stuck: Vec::new(),
            twin: Some(TwinLooks::new(Box::new(PlayedTwin(said)), PATIENT)),
        };
        assert!(sanitizer.is_there());
        let answer = sanitizer.sanitize(&good(), &point(), None);
        assert!(answer.looked);
        (answer.report.state, answer.verdict.map(|own| own.label()), answer.report)
    };
    let clean = Replay::new(Some("clean_all.log"), Some("clean.xml"), 0, "normal");
    let broken =
        Verdict::new(VerdictKind::OobRead, "seen on the host device: behind `s`").with_cause("shared");
    let fault = TwinAnswer::Fault(Box::new(broken));
    for tool in [Some(&clean), None] {
        let (state, verdict, report) = seen(tool, fault.clone());
        assert_eq!((state, verdict.as_deref()), (GateState::Fail, Some("oob_read:shared")), "{report:?}");
        assert_eq!(report.evidence.get("host_twin").unwrap(), "oob_read:shared");
    }
    // It vouches for nothing.
    let (state, verdict, report) = seen(Some(&clean), TwinAnswer::Clean { cases: 4 });
    assert_eq!((state, verdict), (GateState::Pass, None), "{report:?}");
    let (state, verdict, report) = seen(None, TwinAnswer::Clean { cases: 4 });
    assert_eq!((state, verdict), (GateState::NotRun, None), "{report:?}");
    assert!(report.message.starts_with("it is not there; no fault in 4"), "{}", report.message);
}

/// What a sweep asks on a GPU, here around a worker of the host device.
#[test]
fn a_sweeps_sanitizer_answers_for_a_job() {
    let asked = |log: Option<&str>, xml: Option<&str>, code: i32, mode: &str, limit: u64| {
        let replay = Replay::new(log, xml, code, mode);
        let mut sanitizer = DeviceSanitizer {
            kind: DeviceKind::Cuda,
            tool: Ok(replay.tool.clone()),
            options: options(own_worker()),
            limit: Duration::from_secs(limit),
            is_demanded: true,
            checks: vec![SanitizerCheck::Memcheck, SanitizerCheck::Synccheck],
            stuck: Vec::new(),
            twin: None,
        };
        assert!(sanitizer.is_there());
        let answer = sanitizer.sanitize(&good(), &point(), None);
        replay.leaves_no_process();
        assert!(answer.looked);
        (sanitizer, answer)
    };
    let asked_once = |log, xml, code, mode, limit| asked(log, xml, code, mode, limit).1;
    // The same files for each check, with the summary of both.
    let found = asked_once(Some("recorded/memcheck.log"), Some("recorded/memcheck.xml"), 86, "normal", 120);
    assert_eq!((found.report.state, found.verdict.unwrap().label()), (GateState::Fail, "oob_write".into()));
    assert_eq!(found.report.evidence.get("version").unwrap(), "2025.3.1.0");
    let clean = asked_once(Some("clean_all.log"), Some("clean.xml"), 0, "normal", 120);
    assert_eq!((clean.report.state, clean.verdict), (GateState::Pass, None), "{:?}", clean.report);
    for (mode, limit) in [("cut", 120), ("hang", 5)] {
        let (mut sanitizer, none) = asked(Some("clean_all.log"), Some("clean.xml"), 0, mode, limit);
        assert_eq!((none.report.state, none.verdict), (GateState::NotRun, None), "{mode}: {:?}", none.report);
        // A check that did not end is not waited for again; one that gave no answer may give one next time.
        let endless =
            if mode == "hang" { vec![SanitizerCheck::Memcheck, SanitizerCheck::Synccheck] } else { vec![] };
        assert_eq!(sanitizer.stuck, endless, "{mode}");
        if mode == "hang" {
            let began = Instant::now();
            let again = sanitizer.sanitize(&good(), &point(), None);
            assert_eq!((again.report.state, again.verdict), (GateState::NotRun, None));
            assert!(again.report.message.contains("on an earlier variant"), "{:?}", again.report);
            assert!(began.elapsed() < Duration::from_secs(limit), "it was started again");
        }
    }
}

#[test]
fn a_sweep_without_the_tool_hears_why_at_once() {
    let nowhere = tempfile::tempdir().unwrap();
    let places = ToolPlaces { path: vec![nowhere.path().to_path_buf()], ..ToolPlaces::default() };
    let tool = locate(ToolKind::ComputeSanitizer, None, &places);
    let options = options(own_worker());
    let mut sanitizer = DeviceSanitizer {
        kind: DeviceKind::Cuda,
        tool,
        checks: SanitizerCheck::ALL.to_vec(),
        options,
        limit: PATIENT,
        is_demanded: true,
        stuck: Vec::new(),
        twin: None,
    };
    let answer = sanitizer.sanitize(&good(), &point(), None);
    assert!(!sanitizer.is_there() && !answer.looked && answer.verdict.is_none());
    assert_eq!(answer.report.state, GateState::NotRun);
    assert!(answer.report.message.contains("is not found"), "{}", answer.report.message);
}

/// The real program, where `EVO_COMPUTE_SANITIZER` or the machine has it.
fn real_tool() -> Option<FoundTool> {
    let found = locate(ToolKind::ComputeSanitizer, None, &ToolPlaces::of_environment());
    if let Err(failure) = &found {
        skipped(&format!("it needs compute-sanitizer (pip install nvidia-cuda-sanitizer-api): {failure}"));
    }
    found.ok()
}

#[test]
fn the_real_tool_knows_every_option() {
    let Some(tool) = real_tool() else { return };
    let folder = Path::new("/nonexistent");
    for check in SanitizerCheck::ALL {
        let (made, notes) = sanitizer_command(&tool, (*check, 1), &["scale".to_string()], folder, PATIENT);
        assert!(made.lacking.is_empty(), "{made:?}");
        if tool.version.to_string().starts_with("2026") {
            assert!(made.left_out.is_empty() && notes.is_empty(), "{made:?} {notes:?}");
        }
    }
}

#[test]
fn the_real_tool_around_a_worker_without_cuda_gives_no_answer() {
    let Some(tool) = real_tool() else { return };
    // The host device's worker calls nothing of CUDA, so the tool never gets into it, on any machine.
    let (options, job) = (options(own_worker()), good());
    let plans = shapes(&job);
    for check in [Memcheck, Racecheck] {
        let outcome = run_check(&tool, check, 0, &SoloOrder::once(&options, &job, &plans, PATIENT));
        is(&outcome, NotRun, Some(ToolState::Broken));
        let message = outcome.failure.unwrap().message;
        assert!(message.contains("saw nothing of the worker"), "{message}");
    }
}
