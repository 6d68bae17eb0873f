//! What a check comes to. The tool's answer and the worker's are weighed apart: a pass needs both, a finding needs one,
//! and everything else is not an answer.

use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::time::Duration;

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictClass, VerdictKind};
use evo_protocol::worker::BufferSpan;
use serde_json::json;

use super::arguments::FOUND;
use super::finding::{RaceOver, SanitizerFinding, race_over};
use super::log::SanitizerLog;
use super::records::RecordList;
use crate::tool::{ToolFailure, ToolState, quoted_end};
use evo_protocol::sanitizer::SanitizerCheck;
use evo_supervise::child::DeathHow;
use evo_supervise::lane::LaneError;

const LATE: &str = "no time was left for the host device, which knows flags";

#[derive(Clone, Debug)]
pub struct SanitizerOutcome {
    pub check: SanitizerCheck,
    /// `Pass`: the tool found nothing, and the worker made every launch. `Fail`: the tool found something, or the worker
    /// says that the kernel failed.
    pub state: GateState,
    pub failure: Option<ToolFailure>,
    /// The first ones, warnings too.
    pub findings: Vec<SanitizerFinding>,
    /// Errors and warnings that the tool recorded, written out or not.
    pub errors: u64,
    pub warnings: u64,
    /// Whether every error is a race in shared memory, and one at least is over a flag (accesses that are volatile,
    /// atomic or ordered), which racecheck does not know.
    pub has_flags: bool,
    pub launches: u64,
    pub notes: Vec<String>,
    pub elapsed: Duration,
}

impl SanitizerOutcome {
    pub fn not_run(check: SanitizerCheck, failure: ToolFailure) -> SanitizerOutcome {
        SanitizerOutcome {
            check,
            state: GateState::NotRun,
            failure: Some(failure),
            findings: Vec::new(),
            errors: 0,
            warnings: 0,
            has_flags: false,
            launches: 0,
            notes: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// The witness was asked and could not be waited for: races over flags say nothing then.
    pub(super) fn without_witness(self) -> SanitizerOutcome {
        match self.state == GateState::Fail && self.has_flags {
            true => SanitizerOutcome::not_run(self.check, ToolFailure::new(ToolState::TimedOut, LATE)),
            false => self,
        }
    }

    /// The witness, who knows what flags and fences order, found no race: races over flags are warnings then.
    pub(super) fn seen_with_flags(mut self) -> SanitizerOutcome {
        if self.state != GateState::Fail || !self.has_flags {
            return self;
        }
        for finding in &mut self.findings {
            finding.level = SanitizerFinding::WARNING.to_string();
        }
        self.notes.push(format!(
            "threads wait for flags, which racecheck does not know: {} races of its, of which the host device, which \
             knows flags and fences, found none",
            self.errors
        ));
        self.warnings += std::mem::take(&mut self.errors);
        self.state = GateState::Pass;
        self
    }
}

#[derive(Debug)]
pub struct SanitizerEvidence<'a> {
    pub check: SanitizerCheck,
    pub entries: &'a [String],
    /// How the tool ended by itself; absent if it was killed at its deadline.
    pub status: Option<ExitStatus>,
    pub log: Result<SanitizerLog, String>,
    pub records: Result<RecordList, String>,
    pub launched: &'a Result<Vec<u64>, LaneError>,
    pub expected: &'a [u64],
    pub buffers: &'a [BufferSpan],
    /// Lines, as `k.cu:6`, whose accesses to shared memory are all volatile, atomic or ordered.
    pub strong_lines: &'a BTreeSet<String>,
    pub printed: &'a str,
}

impl SanitizerEvidence<'_> {
    pub fn outcome(&self) -> SanitizerOutcome {
        let none = RecordList::default();
        let list = self.records.as_ref().unwrap_or(&none);
        // Calls of the driver that fail after a fault are not faults of the kernel.
        let own = list.records.iter().filter(|record| !record.is_foreign() || record.is_warning());
        let finding = |record| SanitizerFinding::of(self.check, record, self.entries, self.buffers);
        let mut findings: Vec<SanitizerFinding> = own.clone().map(finding).collect();
        // Records alone might be left from another run, or cut off: the summary counts errors too.
        let found = list.errors() > 0 && self.summary().is_some_and(|(errors, _)| errors > 0);
        let errors = own.filter(|record| !record.is_warning());
        let races: Vec<RaceOver> = errors.filter_map(|record| race_over(record, self.strong_lines)).collect();
        // Records that are counted and not written out may be of another kind.
        let all_races = self.check == SanitizerCheck::Racecheck && races.len() as u64 == list.errors();
        let blamed = kernel_error(self.launched);
        if let Some(error) = blamed {
            findings.push(SanitizerFinding::of_worker(error.kind.as_str(), &error.message));
        }
        let failed = found || blamed.is_some();
        let failure = if failed { None } else { self.obstacle() };
        let state = match &failure {
            _ if failed => GateState::Fail,
            Some(_) => GateState::NotRun,
            None => GateState::Pass,
        };
        let foreign = format!("{} records about calls of the driver are left out", list.foreign);
        SanitizerOutcome {
            check: self.check,
            state,
            failure,
            findings,
            errors: list.errors() + u64::from(blamed.is_some()),
            warnings: list.warnings,
            has_flags: all_races && blamed.is_none() && races.contains(&RaceOver::Flag),
            launches: self.launches(),
            notes: if list.foreign > 0 { vec![foreign] } else { Vec::new() },
            elapsed: Duration::ZERO,
        }
    }

    fn summary(&self) -> Option<(u64, u64)> {
        let log = self.log.as_ref().ok()?;
        match self.check {
            // Errors that are not hazards are counted apart.
            SanitizerCheck::Racecheck => {
                log.hazards.map(|(errors, warnings)| (errors + log.errors.unwrap_or(0), warnings))
            }
            _ => log.errors.map(|errors| (errors, 0)),
        }
    }

    /// Why finding nothing says nothing: the tool did not do its work, or contradicts itself, or had not every
    /// launch to look at.
    fn obstacle(&self) -> Option<ToolFailure> {
        let failed = |state, text: String| {
            ToolFailure::new(state, format!("`compute-sanitizer --tool {}` {text}", self.check.as_str()))
        };
        let broken = |text: String| Some(failed(ToolState::Broken, text));
        let tail = quoted_end(self.printed);
        let why = match self.launched {
            Ok(_) => tail.clone(),
            Err(error) => format!(": {error}{tail}"),
        };
        let Some(status) = self.status else {
            let failure = failed(ToolState::TimedOut, format!("was ended at its deadline{why}"));
            return Some(failure.with_hint("raise `--limit tool`, or choose one check with `--tool`"));
        };
        if let Some(state) = state_of(self.printed, self.log.as_ref().ok()) {
            return Some(failed(state, format!("cannot work here{tail}")));
        }
        let log = match &self.log {
            Ok(log) => log,
            Err(missing) => return broken(format!("left no log: {missing}{tail}")),
        };
        if let Some(text) = &log.not_attached {
            return broken(format!("saw nothing of the worker: `{text}`{why}"));
        }
        if let Some(text) = &log.trouble {
            let is_unfit =
                ["not supported", "nsupported", "insufficient"].iter().any(|word| text.contains(word));
            let state = if is_unfit { ToolState::Incompatible } else { ToolState::Broken };
            return Some(failed(state, format!("may have missed something: `{text}`")));
        }
        let Some((errors, warnings)) = self.summary() else {
            return broken(format!("wrote no summary{why}"));
        };
        let list = match &self.records {
            Ok(list) => list,
            Err(error) => return broken(format!("left nothing to read: {error}")),
        };
        // A worker that failed has a code of its own, which the tool passes on.
        if ![Some(0), Some(FOUND)].contains(&status.code()) && self.launched.is_ok() {
            return broken(format!("ended with {status}{tail}"));
        }
        if list.foreign > 0 {
            let text =
                "recorded errors of its own or of calls of the driver, which say nothing about the kernel";
            return broken(text.to_string());
        }
        let (recorded, warned) = (list.errors(), list.warnings);
        let agrees = match (recorded, warned) {
            (0, 0) => errors == 0 && warnings == 0 && status.code() != Some(FOUND),
            (0, _) => self.check == SanitizerCheck::Racecheck && errors == 0 && warnings > 0,
            _ => false,
        };
        if !agrees {
            return broken(format!(
                "contradicts itself: {recorded} errors and {warned} warnings recorded, {errors} and {warnings} in its \
                 summary, exit code {}",
                status.code().unwrap_or(-1),
            ));
        }
        match self.launched {
            Err(_) => broken(format!("found nothing, but not every launch was made{why}")),
            Ok(counts) if counts != self.expected => {
                let expected = self.expected.iter().sum::<u64>();
                broken(format!("looked at {} launches of {expected}", self.launches()))
            }
            Ok(_) if self.launches() == 0 => {
                broken("had nothing to look at: no shape launches a kernel".to_string())
            }
            Ok(_) => None,
        }
    }

    fn launches(&self) -> u64 {
        self.launched.as_ref().map_or(0, |counts| counts.iter().sum())
    }
}

/// States that the tool's own words mean, where it did not come so far as to write a summary.
fn state_of(printed: &str, log: Option<&SanitizerLog>) -> Option<ToolState> {
    const WORDS: [(ToolState, &[&str]); 3] = [
        (ToolState::Busy, &["Address already in use", "No available port", "already being debugged"]),
        (ToolState::Refused, &["Operation not permitted", "ermission denied"]),
        (
            ToolState::Incompatible,
            &["unrecognised option", "is not supported", "Unsupported", "driver version is insufficient"],
        ),
    ];
    let is_done = log.is_some_and(|log| log.errors.is_some() || log.hazards.is_some());
    let says = |words: &[&str]| !is_done && words.iter().any(|word| printed.contains(word));
    WORDS.iter().find(|(_, words)| says(words)).map(|(state, _)| *state)
}

/// A launch that the device refuses says nothing against the kernel: the tool changes the code, which then needs more
/// than the kernel itself does.
pub(super) fn kernel_error(launched: &Result<Vec<u64>, LaneError>) -> Option<&DeviceError> {
    let error = match launched {
        Err(LaneError::Refused { error }) => error,
        Err(LaneError::Died { death }) => match &death.how {
            DeathHow::Fault { error } => error,
            _ => return None,
        },
        _ => return None,
    };
    let elsewhere = [VerdictKind::WorkerDied, VerdictKind::OutputFlood, VerdictKind::CrashOther];
    let blames = matches!(error.kind.class(), VerdictClass::Crash | VerdictClass::Wrong);
    (blames && !elsewhere.contains(&error.kind)).then_some(&**error)
}

pub(super) const SHOWN: usize = 5;

/// Where the worker alone blames the kernel, the verdict is the worker's.
pub fn sanitizer_verdict(outcomes: &[SanitizerOutcome]) -> Option<Verdict> {
    let failed = outcomes.iter().find(|outcome| outcome.state == GateState::Fail)?;
    let errors: Vec<&SanitizerFinding> = failed.findings.iter().filter(|own| own.is_error()).collect();
    let first = errors.first()?;
    if first.tool == SanitizerFinding::OF_EVO {
        return Some(worker_verdict(first));
    }
    let check = failed.check.as_str();
    let more = failed.errors.saturating_sub(1);
    let more = if more > 0 { format!(", and {more} more findings") } else { String::new() };
    // An access outside of a buffer has one name whoever sees it, with the memory that it was meant for.
    let (kind, cause) = match first.access.as_deref().filter(|_| first.what.contains("out of bounds")) {
        None => (VerdictKind::Sanitizer, Some(check)),
        Some(access) => {
            let is_of = |space: &&str| first.what.contains(&format!("__{space}__"));
            let kind = if access == "read" { VerdictKind::OobRead } else { VerdictKind::OobWrite };
            (kind, ["shared", "local"].into_iter().find(is_of))
        }
    };
    let verdict = Verdict::new(kind, format!("{check}: {}{more}", first.what));
    let cause = cause.map(String::from);
    Some(Verdict { cause, ..verdict }.with("findings", json!(&errors[..errors.len().min(SHOWN)])))
}

pub fn worker_verdict(finding: &SanitizerFinding) -> Verdict {
    let named = VerdictKind::ALL.iter().find(|kind| Some(kind.as_str()) == finding.kind.as_deref());
    // The kind was written from this list.
    Verdict::new(named.copied().unwrap_or(VerdictKind::CrashOther), finding.what.clone())
}

pub fn sanitizer_report(outcomes: &[SanitizerOutcome]) -> GateReport {
    let not_run = outcomes.iter().find_map(|outcome| outcome.failure.as_ref());
    let launches: u64 = outcomes.iter().map(|outcome| outcome.launches).sum();
    let of = |state, message: String| GateReport {
        state,
        cases: u32::try_from(launches).unwrap_or(u32::MAX),
        ..GateReport::not_run(Gate::Sanitize, message)
    };
    match (sanitizer_verdict(outcomes), not_run) {
        (Some(verdict), _) => of(GateState::Fail, verdict.message),
        (None, Some(failure)) => GateReport::not_run(Gate::Sanitize, failure.message.clone()),
        (None, None) if outcomes.is_empty() => GateReport::not_run(Gate::Sanitize, "no check was made"),
        (None, None) => {
            let names: Vec<&str> = outcomes.iter().map(|outcome| outcome.check.as_str()).collect();
            of(GateState::Pass, format!("{} found nothing", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::super::{read_log, read_records};
    use super::*;

    struct Ended<'a>(SanitizerCheck, Option<i32>, &'a str, &'a str, Result<Vec<u64>, LaneError>);

    const CLEAN: &str = "========= ERROR SUMMARY: 0 errors\n";
    const ONE: &str = "========= ERROR SUMMARY: 1 error\n";
    const NO_RACE: &str = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n";
    const RACE: &str = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n";
    const WARNED: &str = "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n";
    const EMPTY: &str = "<ComputeSanitizerOutput></ComputeSanitizerOutput>";
    const ERROR: &str = "<ComputeSanitizerOutput><record><kind>Precise</kind><level>Error</level></record>\
                         </ComputeSanitizerOutput>";
    const WARNING: &str = "<ComputeSanitizerOutput><record><kind>Race</kind><level>Warning</level></record>\
                           </ComputeSanitizerOutput>";
    const CALL: &str = "<ComputeSanitizerOutput><record><kind>Api</kind></record></ComputeSanitizerOutput>";

    fn outcome(Ended(check, code, log, xml, launched): Ended<'_>) -> SanitizerOutcome {
        SanitizerEvidence {
            check,
            entries: &[],
            status: code.map(|code| ExitStatus::from_raw(code << 8)),
            log: Ok(read_log(log)),
            records: read_records(xml.as_bytes()),
            launched: &launched,
            expected: &[2, 1],
            buffers: &[],
            strong_lines: &BTreeSet::from(["k.cu:6".to_string(), "k.cu:8".to_string()]),
            printed: "",
        }
        .outcome()
    }

    use GateState::{Fail, NotRun, Pass};
    use SanitizerCheck::{Memcheck, Racecheck};

    #[track_caller]
    fn check(ended: Ended<'_>, state: GateState, failure: Option<ToolState>) -> SanitizerOutcome {
        let outcome = outcome(ended);
        assert_eq!(
            (outcome.state, outcome.failure.as_ref().map(|failure| failure.state)),
            (state, failure),
            "{outcome:?}"
        );
        outcome
    }

    fn done() -> Result<Vec<u64>, LaneError> {
        Ok(vec![2, 1])
    }

    fn refused(kind: VerdictKind) -> Result<Vec<u64>, LaneError> {
        Err(LaneError::Refused { error: Box::new(DeviceError::plain(kind, "the device said so")) })
    }

    /// What a whole tool says of whole files, and of none, is in `tests/it/sanitize.rs`.
    #[test]
    fn a_pass_needs_every_launch_and_files_that_agree() {
        let broken = Some(ToolState::Broken);
        // A dead or lazy worker behind a clean summary.
        let lost = Err(LaneError::Unexpected { found: "words".into() });
        for launched in [Ok(vec![2]), Ok(vec![2, 0]), Ok(vec![3, 1]), Ok(vec![]), lost] {
            check(Ended(Memcheck, Some(0), CLEAN, EMPTY, launched), NotRun, broken);
        }
        for code in [1, 2, 139, 255] {
            check(Ended(Memcheck, Some(code), CLEAN, EMPTY, done()), NotRun, broken);
        }
        check(Ended(Memcheck, None, CLEAN, EMPTY, done()), NotRun, Some(ToolState::TimedOut));
        let alone = "========= Error: No attachable process found. compute-sanitizer timed-out.\n";
        let internal = format!("========= Internal Sanitizer Error: Errors might go undetected\n{CLEAN}");
        let unfit = format!("========= Error: Device not supported\n{CLEAN}");
        for (code, log, xml, state) in [
            (0, ONE, EMPTY, ToolState::Broken),
            (86, CLEAN, ERROR, ToolState::Broken),
            (86, ONE, CALL, ToolState::Broken),
            (0, CLEAN, CALL, ToolState::Broken),
            (0, CLEAN, WARNING, ToolState::Broken),
            (86, ONE, "", ToolState::Broken),
            (255, alone, EMPTY, ToolState::Broken),
            (0, "ERROR SUMMARY: 0 errors\n", EMPTY, ToolState::Broken),
            (0, &internal, EMPTY, ToolState::Broken),
            (0, &unfit, EMPTY, ToolState::Incompatible),
        ] {
            check(Ended(Memcheck, Some(code), log, xml, done()), NotRun, Some(state));
        }
        // A summary of another check.
        check(Ended(Racecheck, Some(0), CLEAN, EMPTY, done()), NotRun, broken);
        check(Ended(Racecheck, Some(0), NO_RACE, WARNING, done()), NotRun, broken);
        check(Ended(Racecheck, Some(0), WARNED, EMPTY, done()), NotRun, broken);
        check(Ended(Racecheck, Some(0), NO_RACE, EMPTY, done()), Pass, None);
        // Warnings of races are told and decide nothing.
        for code in [0, 86] {
            let outcome = check(Ended(Racecheck, Some(code), WARNED, WARNING, done()), Pass, None);
            assert_eq!((outcome.warnings, outcome.findings.len(), outcome.errors), (1, 1, 0));
        }
    }

    #[test]
    fn findings_fail_and_the_worker_alone_can_blame_the_kernel() {
        check(Ended(Racecheck, Some(86), RACE, ERROR, done()), Fail, None);
        // Two of three say that there is one.
        check(Ended(Memcheck, Some(0), ONE, ERROR, done()), Fail, None);
        // The worker ends with an error of its own, whose code the tool passes on.
        let refused_at = refused(VerdictKind::CrashIllegalAddress);
        let outcome = check(Ended(Memcheck, Some(1), ONE, ERROR, refused_at), Fail, None);
        assert_eq!((outcome.findings.len(), outcome.errors), (2, 2));
        assert_eq!(outcome.findings[1].tool, "evo");
        check(Ended(Memcheck, Some(1), ONE, ERROR, refused(VerdictKind::CrashOther)), Fail, None);
        for kind in [VerdictKind::CrashTrap, VerdictKind::OobWrite, VerdictKind::DivergentBarrier] {
            let outcome = check(Ended(Memcheck, Some(0), CLEAN, EMPTY, refused(kind)), Fail, None);
            assert_eq!(outcome.findings[0].kind.as_deref(), Some(kind.as_str()));
            check(Ended(Memcheck, Some(255), "", "", refused(kind)), Fail, None);
        }
        use VerdictKind::{CrashOther, Hang, HarnessError, LaunchFail, OutOfMemory};
        // The tool's own doing, perhaps: its instrumented code needs more registers and memory.
        for kind in [LaunchFail, OutOfMemory, HarnessError, CrashOther, Hang] {
            let ended = Ended(Memcheck, Some(0), CLEAN, EMPTY, refused(kind));
            check(ended, NotRun, Some(ToolState::Broken));
        }
    }

    #[test]
    fn races_over_flags_are_warnings_once_a_witness_knew_the_flags() {
        let side = |name: &str, line: u32| {
            format!("<{name}><where><path>/x/k.cu</path><line>{line}</line></where></{name}>")
        };
        let race = |lines: &[u32]| {
            let names = ["source", "destination", "destination"];
            let what: String = names.iter().zip(lines).map(|(name, line)| side(name, *line)).collect();
            format!("<record><kind>Analysis</kind><level>Error</level><what>{what}</what></record>")
        };
        let seen = |check, records: &[String]| {
            let xml = format!("<ComputeSanitizerOutput>{}</ComputeSanitizerOutput>", records.concat());
            let before =
                outcome(Ended(check, Some(99), if check == Racecheck { RACE } else { ONE }, &xml, done()));
            assert_eq!(before.state, Fail, "{before:?}");
            before.seen_with_flags()
        };
        // The loop that waits was unrolled once, so the write races with two reads.
        let flag = race(&[6, 8, 8]);
        let after = seen(Racecheck, std::slice::from_ref(&flag));
        assert_eq!((after.state, after.errors, after.warnings), (Pass, 0, 1));
        assert!(!after.findings[0].is_error() && after.notes[0].contains("1 races"));
        let (data, mixed) = (race(&[5, 9]), race(&[6, 8, 9]));
        assert_eq!(seen(Racecheck, &[data.clone(), flag.clone()]).state, Pass, "data behind a flag");
        assert_eq!(seen(Racecheck, &[data]).state, Fail, "no flag");
        assert_eq!(seen(Racecheck, &[mixed]).state, Fail, "one access to the flag is an ordinary one");
        assert_eq!(seen(Racecheck, &[race(&[6])]).state, Fail, "half of a race");
        assert_eq!(seen(Memcheck, std::slice::from_ref(&flag)).state, Fail);
        let other = "<record><kind>Race</kind><level>Error</level></record>".to_string();
        assert_eq!(seen(Racecheck, &[flag, other]).state, Fail, "something without a place");
    }

    fn judged(state: GateState, findings: Vec<SanitizerFinding>) -> SanitizerOutcome {
        let absent = ToolFailure::new(ToolState::Missing, "it is not there");
        let not_run = SanitizerOutcome::not_run(Racecheck, absent);
        let failure = not_run.failure.clone().filter(|_| state == NotRun);
        let errors = findings.len() as u64;
        SanitizerOutcome { state, failure, findings, errors, launches: 3, ..not_run }
    }

    fn finding(tool: &str, kind: &str) -> SanitizerFinding {
        SanitizerFinding { tool: tool.to_string(), ..SanitizerFinding::of_worker(kind, "a race") }
    }

    #[test]
    fn a_finding_is_a_verdict_with_its_check_as_cause() {
        let twice = judged(Fail, vec![finding("racecheck", "Race"), finding("racecheck", "Race")]);
        let outcomes = [judged(NotRun, vec![]), twice];
        let verdict = sanitizer_verdict(&outcomes).unwrap();
        assert_eq!(verdict.label(), "sanitizer:racecheck");
        assert_eq!(verdict.message, "racecheck: a race, and 1 more findings");
        let report = sanitizer_report(&outcomes);
        assert_eq!((report.gate, report.state, report.cases), (Gate::Sanitize, GateState::Fail, 6));
        // What the worker alone saw is its own verdict.
        let own = judged(Fail, vec![finding("evo", "crash_trap")]);
        assert_eq!(sanitizer_verdict(&[own]).unwrap().label(), "crash_trap");
        // An access outside of a buffer has one name whoever sees it.
        for (what, access, label) in [
            ("__global__ read is out of bounds", "read", "oob_read"),
            ("__global__ write is out of bounds", "write", "oob_write"),
            ("__shared__ atomic is out of bounds", "atomic", "oob_write:shared"),
            ("__global__ read is misaligned", "read", "sanitizer:racecheck"),
        ] {
            let (what, access) = (format!("Invalid {what}: 4 bytes of size 4 bytes"), Some(access.into()));
            let found = SanitizerFinding { what, access, ..finding("memcheck", "Precise") };
            assert_eq!(sanitizer_verdict(&[judged(Fail, vec![found])]).unwrap().label(), label);
        }
    }

    #[test]
    fn no_answer_is_never_a_pass() {
        let state = |outcomes: &[SanitizerOutcome]| sanitizer_report(outcomes).state;
        assert_eq!(state(&[]), GateState::NotRun);
        assert_eq!(state(&[judged(Pass, vec![]), judged(NotRun, vec![])]), GateState::NotRun);
        assert_eq!(state(&[judged(Pass, vec![]), judged(Pass, vec![])]), GateState::Pass);
    }
}
