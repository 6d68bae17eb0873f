//! What a check comes to. The tool's answer and the worker's are weighed apart: a pass needs both, a finding needs one,
//! and everything else is not an answer.

use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::time::Duration;

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::{GateState, SanitizerCheck, Verdict, VerdictClass, VerdictKind};
use evo_protocol::worker::BufferSpan;
use serde_json::json;

use super::arguments::FOUND;
use super::finding::{RaceOver, SanitizerFinding, race_over};
use super::log::SanitizerLog;
use super::records::RecordList;
use crate::tool::{ToolFailure, ToolState, quoted_end};
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

    /// Where the worker alone blames the kernel, the verdict is the worker's.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let errors: Vec<&SanitizerFinding> = self.findings.iter().filter(|own| own.is_error()).collect();
        let first = errors.first().copied().or(self.findings.first());
        let first = first.filter(|_| self.state == GateState::Fail)?;
        if first.tool == SanitizerFinding::OF_EVO {
            return Some(first.verdict());
        }
        let check = self.check.as_str();
        let more = self.errors.saturating_sub(1);
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::super::{read_log, read_records};
    use super::*;

    #[derive(Debug)]
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

    fn outcome(Ended(check, code, log, xml, launched): &Ended<'_>) -> SanitizerOutcome {
        SanitizerEvidence {
            check: *check,
            entries: &[],
            status: code.map(|code| ExitStatus::from_raw(code << 8)),
            log: Ok(read_log(log)),
            records: read_records(xml.as_bytes()),
            launched,
            expected: &[2, 1],
            buffers: &[],
            strong_lines: &BTreeSet::from(["k.cu:6".to_string(), "k.cu:8".to_string()]),
            printed: "",
        }
        .outcome()
    }

    use GateState::{Fail, Pass};
    use SanitizerCheck::{Memcheck, Racecheck};

    fn done() -> Result<Vec<u64>, LaneError> {
        Ok(vec![2, 1])
    }

    /// What a whole tool says of whole files, and of none, is in `tests/it/sanitize.rs`.
    #[test]
    fn a_pass_needs_every_launch_and_files_that_agree_and_the_worker_alone_can_blame_the_kernel() {
        use VerdictKind::{
            CrashIllegalAddress, CrashOther, CrashTrap, DivergentBarrier, Hang, HarnessError, LaunchFail,
            OobWrite, OutOfMemory,
        };
        let refused = |kind| {
            Err(LaneError::Refused { error: Box::new(DeviceError::plain(kind, "the device said so")) })
        };
        let alone = "========= Error: No attachable process found. compute-sanitizer timed-out.\n";
        let internal = format!("========= Internal Sanitizer Error: Errors might go undetected\n{CLEAN}");
        let unfit = format!("========= Error: Device not supported\n{CLEAN}");
        let rows = [
            (Memcheck, Some(1), CLEAN, EMPTY),
            (Memcheck, Some(2), CLEAN, EMPTY),
            (Memcheck, Some(139), CLEAN, EMPTY),
            (Memcheck, Some(255), CLEAN, EMPTY),
            (Memcheck, None, CLEAN, EMPTY),
            (Memcheck, Some(0), ONE, EMPTY),
            (Memcheck, Some(86), CLEAN, ERROR),
            (Memcheck, Some(86), ONE, CALL),
            (Memcheck, Some(0), CLEAN, CALL),
            (Memcheck, Some(0), CLEAN, WARNING),
            (Memcheck, Some(86), ONE, ""),
            (Memcheck, Some(255), alone, EMPTY),
            (Memcheck, Some(0), "ERROR SUMMARY: 0 errors\n", EMPTY),
            (Memcheck, Some(0), &internal, EMPTY),
            (Memcheck, Some(0), &unfit, EMPTY),
            // A summary of another check.
            (Racecheck, Some(0), CLEAN, EMPTY),
            (Racecheck, Some(0), NO_RACE, WARNING),
            (Racecheck, Some(0), WARNED, EMPTY),
            (Racecheck, Some(0), NO_RACE, EMPTY),
            // Warnings of races are told and decide nothing.
            (Racecheck, Some(0), WARNED, WARNING),
            (Racecheck, Some(86), WARNED, WARNING),
            (Racecheck, Some(86), RACE, ERROR),
            // Two of three say that there is one.
            (Memcheck, Some(0), ONE, ERROR),
        ];
        let rows = rows.map(|(check, code, log, xml)| Ended(check, code, log, xml, done()));
        // A dead or lazy worker behind a clean summary.
        let lost = Err(LaneError::Unexpected { found: "words".into() });
        let lazy = [Ok(vec![2]), Ok(vec![2, 0]), Ok(vec![3, 1]), Ok(vec![]), lost];
        let lazy = lazy.map(|launched| Ended(Memcheck, Some(0), CLEAN, EMPTY, launched));
        // The worker ends with an error of its own, whose code the tool passes on.
        let worker = [(1, ONE, ERROR, CrashIllegalAddress), (1, ONE, ERROR, CrashOther)];
        let worker =
            worker.map(|(code, log, xml, kind)| Ended(Memcheck, Some(code), log, xml, refused(kind)));
        // The last five may be the tool's own doing: its instrumented code needs more registers and memory.
        let kinds =
            [CrashTrap, OobWrite, DivergentBarrier, LaunchFail, OutOfMemory, HarnessError, CrashOther, Hang];
        let silent = kinds.map(|kind| Ended(Memcheck, Some(0), CLEAN, EMPTY, refused(kind)));
        let without = [CrashTrap, OobWrite, DivergentBarrier];
        let without = without.map(|kind| Ended(Memcheck, Some(255), "", "", refused(kind)));
        let told = rows.iter().chain(&lazy).chain(&worker).chain(&silent).chain(&without).map(|ended| {
            let SanitizerOutcome { state, failure, findings, errors, warnings, .. } = outcome(ended);
            let found: Vec<_> = findings.iter().map(|own| (&*own.tool, own.kind.as_deref())).collect();
            let failure = failure.map(|own| format!("{}: {own}", own.state.as_str()));
            format!("{ended:?}\n  {state:?}, {errors} errors, {warnings} warnings {found:?} {failure:?}")
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
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
                outcome(&Ended(check, Some(99), if check == Racecheck { RACE } else { ONE }, &xml, done()));
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

    #[test]
    fn a_finding_is_a_verdict_with_its_check_as_cause() {
        let finding = |tool: &str, kind: &str| SanitizerFinding {
            tool: tool.to_string(),
            ..SanitizerFinding::of_worker(kind, "a race")
        };
        let verdict = |findings: Vec<SanitizerFinding>| {
            let absent = ToolFailure::new(ToolState::Missing, "it is not there");
            let (errors, not_run) = (findings.len() as u64, SanitizerOutcome::not_run(Racecheck, absent));
            SanitizerOutcome { state: Fail, findings, errors, ..not_run }.verdict().unwrap()
        };
        let twice = verdict(vec![finding("racecheck", "Race"), finding("racecheck", "Race")]);
        assert_eq!(twice.label(), "sanitizer:racecheck");
        assert_eq!(twice.message, "racecheck: a race, and 1 more findings");
        // What the worker alone saw is its own verdict.
        assert_eq!(verdict(vec![finding("evo", "crash_trap")]).label(), "crash_trap");
        // An access outside of a buffer has one name whoever sees it.
        for (what, access, label) in [
            ("__global__ read is out of bounds", "read", "oob_read"),
            ("__global__ write is out of bounds", "write", "oob_write"),
            ("__shared__ atomic is out of bounds", "atomic", "oob_write:shared"),
            ("__global__ read is misaligned", "read", "sanitizer:racecheck"),
        ] {
            let (what, access) = (format!("Invalid {what}: 4 bytes of size 4 bytes"), Some(access.into()));
            let found = SanitizerFinding { what, access, ..finding("memcheck", "Precise") };
            assert_eq!(verdict(vec![found]).label(), label);
        }
    }
}
