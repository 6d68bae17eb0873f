//! What must hold for any bytes, one function a format. The fuzz targets run these under libFuzzer; `tests/it/fuzzed.rs`
//! runs them on mutated seeds in every `cargo test`.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use evo::cli::request::answer::AnswerHead;
use evo::inspect::profile::{MetricUnit, RawPage, named_failure};
use evo::inspect::sanitize::{SanitizerCheck, SanitizerEvidence, SanitizerFinding, read_log, read_records};
use evo::journal::baseline::GateBaseline;
use evo::journal::reader;
use evo::journal::record::JournalRecord;
use evo::journal::replay::History;
use evo::journal::{leaderboard_file, line};
use evo::kernel::load::candidate;
use evo::kernel::spec::SpaceFile;
use evo::kernel::{catalog, signature};
use evo::replay::Recording;
use evo::report::text;
use evo::task::{TaskForm, definition, folder, module, workloads};
use evo_protocol::verdict::GateState;
use evo_protocol::worker::{BufferSpan, Frame, Request, Response};
use evo_space::diagnostic::Diagnostics;
use evo_space::document;
use evo_space::{Expr, SearchSpace, SpaceWatch};

/// Questions of a watch until a space is given up: some milliseconds of work.
const PATIENCE: u32 = 2000;

/// A space file, TOML or JSON: a space, or errors with places inside the text; never more work than the watch allows.
pub fn space_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let asked = AtomicU32::new(0);
    let watch = SpaceWatch::new(move || asked.fetch_add(1, Ordering::Relaxed) > PATIENCE);
    match SearchSpace::parse_watched(text, &watch) {
        Ok(space) => {
            let first = space.iter().next();
            assert!(first.is_none_or(|genome| space.contains(&genome)));
        }
        Err(errors) => {
            let inside = |span: &document::Span| text.get(span.clone()).is_some();
            assert!(errors.list().iter().all(|error| error.span.as_ref().is_none_or(inside)), "{errors:?}");
            let shown = errors.render("space.toml", text);
            assert!(!shown.is_empty() && shown.len() < 200_000, "{} bytes", shown.len());
            assert!(
                !shown.chars().any(|letter| letter.is_control() && letter != '\n' && letter != '\t'),
                "{shown}"
            );
        }
    }
    // The tree alone, of texts that are no spaces.
    let _ = document::parse(text, &mut Diagnostics::default());
}

/// An expression: a tree with a value or a reason, or an error with its place.
pub fn expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Expr::parse(text) {
        Ok(expr) => {
            let _ = expr.evaluate(&|name: &str| Some(evo_space::Value::Int(name.len() as i64)));
        }
        Err(error) => assert!(text.get(error.span.clone()).is_some(), "{error:?}"),
    }
}

/// The files of a candidate: a configuration is a point of the space, a geometry is of its entries, and what is refused
/// is shown on a screen; a source is read whatever it holds.
pub fn candidate(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // Opened once: it takes a hundred times as long as a case.
    static SPACE: OnceLock<SpaceFile> = OnceLock::new();
    let file = SPACE.get_or_init(|| catalog::open("gemm").expect("it ships with evo"));
    let kernel = file.kernel.as_ref().expect("it has a kernel");
    let on_a_screen = |shown: String| {
        assert!(!shown.is_empty() && shown.len() < 200_000, "{} bytes", shown.len());
        let odd = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
        assert!(!shown.chars().any(odd), "{shown}");
    };
    match candidate::configuration("c.json", text, file.space.parameters()) {
        Ok(configuration) => assert!(file.space.genome(&configuration).is_some(), "{configuration}"),
        Err(error) => on_a_screen(error.to_string()),
    }
    match candidate::launch_geometry("l.json", text, file, kernel) {
        Ok(found) => {
            let known = |entry: &str| kernel.launches.iter().any(|launch| launch.entry == entry);
            assert!(found.iter().all(|own| known(&own.entry)));
        }
        Err(error) => on_a_screen(error.to_string()),
    }
    for entry in signature::names(text).iter().map(String::as_str).chain(["gemm"]) {
        let declared: Vec<_> = kernel.arguments.iter().collect();
        let table = signature::mismatch(text, entry, &declared, signature::Taker::default());
        assert!(table.is_none_or(|table| table.lines().count() < 20));
    }
}

/// A line of the worker protocol: what is accepted has possible times.
pub fn worker_line(bytes: &[u8]) {
    if let Ok(frame) = serde_json::from_slice::<Frame<Response>>(bytes) {
        if let (None, Response::Measured(answer)) = (frame.body.fault(), &frame.body)
            && let (Some(measurement), None) = (&answer.measurement, &answer.verdict)
        {
            assert!(measurement.p50_ns.is_finite() && measurement.p50_ns > 0.0);
            assert!(measurement.p10_ns <= measurement.p50_ns && measurement.p50_ns <= measurement.p90_ns);
        }
        let again = serde_json::to_vec(&frame).expect("what was read can be written");
        assert!(serde_json::from_slice::<Frame<Response>>(&again).is_ok());
    }
    let _ = serde_json::from_slice::<Frame<Request>>(bytes);
}

/// A journal: whole lines are used, others are named, and nothing is counted twice.
pub fn journal(bytes: &[u8]) {
    let journal = reader::parse(bytes);
    assert!(journal.length <= bytes.len() as u64);
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(journal.records.len() + journal.rejected.len() <= lines);
    let again: String = journal
        .records
        .iter()
        .map(|record| line::encode(record).expect("what was read can be written"))
        .collect();
    assert_eq!(reader::parse(again.as_bytes()).records.len(), journal.records.len());
    let _ = History::replay(journal);
    // A checksum keeps mutated records out, so they are sealed anew.
    if let Ok(record) = serde_json::from_slice::<JournalRecord>(bytes) {
        let sealed = line::encode(&record).expect("what was read can be written");
        let _ = History::replay(reader::parse(sealed.as_bytes()));
    }
}

/// A leaderboard: it is read and can be shown, or it is refused with a reason.
pub fn leaderboard(bytes: &[u8]) {
    match leaderboard_file::parse(bytes) {
        Ok(board) => assert!(text::board(&board, 100).len() < 100 * (bytes.len() + 1000)),
        Err(reason) => assert!(!reason.is_empty()),
    }
}

/// The baseline of a gate: its times are possible and it means the same when written again, or it is refused with a
/// reason on a screen.
pub fn baseline(bytes: &[u8]) {
    match GateBaseline::parse(bytes, "baseline.json") {
        Ok(own) => {
            for times in own.problems.values() {
                assert!(times.ci_low_ns > 0.0 && times.p90_ns.is_finite(), "{times:?}");
                assert!((times.ci_low_ns..=times.ci_high_ns).contains(&times.p50_ns), "{times:?}");
            }
            let again = own.text().expect("what was read can be written");
            let again = GateBaseline::parse(again.as_bytes(), "again").expect("what was written can be read");
            assert_eq!(again, own);
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(!shown.is_empty() && shown.len() < 200_000, "{} bytes", shown.len());
        }
    }
}

/// What compute-sanitizer writes: XML with records, or a reason why there are none; a log is read whatever it holds.
pub fn sanitizer(bytes: &[u8]) {
    let records = read_records(bytes);
    let log = read_log(&String::from_utf8_lossy(bytes));
    if let Ok(list) = &records {
        assert!(list.warnings + list.foreign <= list.total && list.records.len() as u64 <= list.total);
        let spans = [BufferSpan { name: "x".to_string(), address: 0x1000, bytes: 64 }];
        let entries = ["k".to_string()];
        for record in &list.records {
            let found = SanitizerFinding::of(SanitizerCheck::Memcheck, record, &entries, &spans);
            assert!(found.what.len() <= 1 << 13, "{} bytes", found.what.len());
        }
    }
    // Whatever a worker says: a pass has no error in either file.
    let (launched, expected) = (Ok(vec![1]), [1]);
    for check in SanitizerCheck::ALL.iter().copied() {
        let evidence = SanitizerEvidence {
            check,
            entries: &[],
            status: Some(ExitStatus::from_raw(0)),
            log: Ok(log.clone()),
            records: records.clone(),
            launched: &launched,
            expected: &expected,
            buffers: &[],
            strong_lines: &std::collections::BTreeSet::new(),
            printed: "",
        };
        let outcome = evidence.outcome();
        let is_clean = records.as_ref().is_ok_and(|list| list.errors() == 0 && list.foreign == 0);
        assert!(outcome.state != GateState::Pass || is_clean, "{outcome:?}");
    }
}

/// A recording in any format: rows in its space, or a fault that says what is wrong.
pub fn recording(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Recording::of_text(text, "kernel__device", None) {
        Ok(recording) => {
            let inside = |genome: &evo_space::Genome| {
                recording.space.contains(genome) || recording.row(genome).is_some()
            };
            assert!(recording.space.iter().take(20).all(|genome| inside(&genome)));
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}

/// A line of requests: one that is understood, or a mistake that is told without the text being trusted.
pub fn request(bytes: &[u8]) {
    match evo::request::read::whole(bytes.to_vec(), bytes.len()) {
        Ok(text) => match evo::request::read::request(&text) {
            Ok(request) => {
                let id = &request.id;
                assert!(id.is_null() || id.is_string() || id.is_i64() || id.is_u64(), "{id}");
                assert!(request.feedback_bytes() <= 1 << 16, "{:?}", request.feedback);
            }
            Err(error) => {
                assert!(!error.message.is_empty());
                let head = AnswerHead { id: error.id.clone(), line: Some(1), tag: None };
                let answer = evo::cli::request::answer::refused(&error, head);
                assert!(answer["status"] == "rejected" && answer["scores"].is_null(), "{answer}");
            }
        },
        Err(bad) => assert!(!bad.message.is_empty(), "{bad:?}"),
    }
}

/// A benchmark's definition with its workloads behind a line of `%`, or the description of a module: files with a space
/// file that can be read, or a reason with its place.
pub fn task(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (head, lines) = text.split_once("\n%\n").unwrap_or((text, ""));
    let read = |form| definition(head, form, None).and_then(|own| workloads(own, lines, &[]));
    for found in [read(TaskForm::FlashInfer), read(TaskForm::Sol), module(head, "")] {
        let own = match found {
            Ok(own) => own,
            Err(error) => {
                let told = error.to_string();
                assert!(!error.place.is_empty() && !told.contains('\n') && told.len() < 4000, "{error:?}");
                continue;
            }
        };
        let files = folder(&own);
        let mut errors = Diagnostics::default();
        let tree = document::parse(&files.space, &mut errors);
        assert!(tree.is_some() && errors.list().is_empty(), "{errors:?}\n{}", files.space);
        if let Err(errors) = SearchSpace::parse(&files.space) {
            panic!("{errors:?}\n{}", files.space);
        }
        // A comment of the skeleton ends with its line.
        let kernel = &files.beside[0].1;
        assert!(!kernel.lines().any(|line| line.ends_with('\\')), "{kernel}");
    }
}

/// The page of a profiler: launches whose numbers are numbers, or a reason; and messages that mean something or nothing.
pub fn profiler_page(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    assert!(named_failure(&text).is_none_or(|failure| failure.message.len() < 4000));
    let page = match RawPage::read(&text) {
        Ok(page) => page,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(page.launches() > 0);
    let names: Vec<&str> = text.split(['"', ',', '\n']).filter(|name| name.contains("__")).take(30).collect();
    for launch in 0..page.launches().min(50) {
        assert!(page.kernel(launch).is_some());
        for name in names.iter().copied().chain(["absent__x.sum"]) {
            for unit in [MetricUnit::Percent, MetricUnit::Bytes, MetricUnit::Count, MetricUnit::Any] {
                match page.value(launch, name, unit) {
                    Ok(value) => assert!(value.is_finite() && (value >= 0.0 || unit == MetricUnit::Any)),
                    Err(why) => assert!(!why.is_empty()),
                }
            }
        }
    }
}
