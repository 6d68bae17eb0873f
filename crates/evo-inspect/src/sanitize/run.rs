//! A check from its command line to its outcome.

use evo_compile::strong::strong_in_all;
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::arguments::{LOG, RECORDS, sanitizer_command};
use super::finding::SanitizerFinding;
use super::log::read_log;
use super::outcome::{SanitizerEvidence, SanitizerOutcome, kernel_error};
use super::records::{BYTES_MAX, RecordList, read_records};
use crate::tool::{FoundTool, ToolFailure, ToolState, run_under};
use evo_protocol::verdict::SanitizerCheck;
use evo_supervise::job::Job;
use evo_supervise::lane::LaneError;
use evo_supervise::solo::{SoloOrder, run_solo};

const LOG_BYTES_MAX: u64 = 64 << 20;

pub fn small_shapes(job: &Job) -> Vec<ProblemPlan> {
    [&job.tiny[..], &job.several[..]].concat()
}

pub fn shapes(job: &Job) -> Vec<ProblemPlan> {
    let elements = |plan: &ProblemPlan| plan.buffers.iter().map(BufferPlan::elements).sum::<u64>();
    let smallest = job.all_checked().into_iter().min_by_key(elements);
    job.tiny.iter().cloned().chain(smallest).collect()
}

pub fn run_check(
    tool: &FoundTool,
    check: SanitizerCheck,
    place: usize,
    order: &SoloOrder<'_>,
) -> SanitizerOutcome {
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            let text = format!("there is no folder for the files of `compute-sanitizer`: {error}");
            return SanitizerOutcome::not_run(check, ToolFailure::new(ToolState::Broken, text));
        }
    };
    let (entries, folder) = (order.job.candidate.entries(), folder.path());
    let (arguments, notes) = sanitizer_command(tool, (check, place), &entries, folder, order.limit);
    let run = match run_under(tool, &arguments, &SoloOrder { unguarded: true, ..*order }) {
        Ok(run) => run,
        Err(failure) => return SanitizerOutcome::not_run(check, failure),
    };
    let expected: Vec<u64> = order.plans.iter().map(|plan| plan.launches.len() as u64).collect();
    let paths = order.job.candidate.builds.iter().map(|build| build.binary.path.as_deref());
    // A file that cannot be read has no notes.
    let binaries = paths.map(|path| path.and_then(|path| fs::read(path).ok()).unwrap_or_default());
    let strong_lines = strong_in_all(&binaries.collect::<Vec<_>>());
    let evidence = SanitizerEvidence {
        check,
        entries: &entries,
        status: run.status,
        log: bytes_of(&folder.join(LOG), LOG_BYTES_MAX)
            .map(|bytes| read_log(&String::from_utf8_lossy(&bytes)))
            .map_err(|error| error.to_string()),
        records: records_of(&folder.join(RECORDS)),
        launched: &run.launched,
        expected: &expected,
        buffers: &run.buffers,
        strong_lines: &strong_lines,
        printed: &run.log,
    };
    let left_out = arguments.left_out.iter().map(|option| format!("this version has no `{option}`"));
    let outcome = evidence.outcome();
    let notes = left_out.chain(notes).chain(outcome.notes.iter().cloned());
    SanitizerOutcome { notes: notes.collect(), elapsed: run.elapsed, ..outcome }
}

/// On a device whose own checks stand in; what its worker says against the kernel.
pub fn run_without(order: &SoloOrder<'_>) -> Result<Option<SanitizerFinding>, LaneError> {
    let run = run_solo(order)?;
    match kernel_error(&run.launched) {
        Some(error) => Ok(Some(SanitizerFinding::of_worker(error.kind.as_str(), &error.message))),
        None => run.launched.map(|_| None),
    }
}

fn records_of(path: &Path) -> Result<RecordList, String> {
    // One more than is allowed, so that it shows.
    match bytes_of(path, BYTES_MAX + 1) {
        Ok(bytes) => read_records(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("there is no file with records".to_string())
        }
        Err(error) => Err(format!("the file with records cannot be read: {error}")),
    }
}

fn bytes_of(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
