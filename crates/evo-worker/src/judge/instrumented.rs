//! Instrumented runs: every access of a variant that could enter the leaderboard, checked by the host device.
//!
//! The small shapes, and those checked problems that are small enough, run once more in the instrumented build,
//! each under two orders of threads. A fault refuses the variant in the gate `full_shapes`. A read of memory that
//! nobody wrote is a fault only if the output depends on what lies there: tuned kernels often compute on the
//! unused part of a tile and never store the result.

use std::time::{Duration, Instant};

use evo_device::device::{
    AccessNote, BlockTurns, NoteKind, RunConditions, Watch, WatchReport, WatchedBuffer, WatchedContents,
};
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{ProblemPlan, Role};
use evo_protocol::verdict::{Gate, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{CandidateBuild, Depth, GateAnswer, InstrumentedBuild, Phase};

use super::bench::Bench;
use super::case::Case;
use super::compare::Breach;
use super::element::Poison;
use super::run::{self, PhaseSink, PreparedCase};
use super::state::{Judge, LoadedBuild};
use super::{shapes, wrong};

/// Larger problems are not run: the record of their accesses takes about 170 bytes for each four of a buffer, 1.4 GiB here.
const ELEMENTS_MAX: u64 = 1 << 23;
const BYTES_MAX: u64 = 1 << 25;
/// One run may take this many accesses and this long.
const WHOLE: (u64, Duration) = (40_000_000, Duration::from_secs(4));
/// The least of those that are too large is watched for as long: a kernel may take another path there.
const IN_PART: (u64, Duration) = (3_000_000, Duration::from_secs(1));
const BYTES_IN_PART: u64 = 1 << 30;
/// No case begins later than this after the first one, but for the smallest, which a busy machine delays.
const TIME_OF_ALL: Duration = Duration::from_secs(12);
const CASES_MIN: usize = 8;
#[derive(Clone, Copy)]
struct WatchSetting {
    /// Seed of the moments at which threads give way.
    order: u64,
    turns: BlockTurns,
    /// What shared memory and workspace hold before: a large number of either sign in every floating type, NaN, or
    /// zero. No minimum, maximum or comparison answers all four alike.
    residue: u32,
    outputs: Poison,
}

const RUNS: [WatchSetting; 2] = [
    WatchSetting::new(0x9e37_79b9_7f4a_7c15, 0xffff_ffff, Poison::A),
    // Blocks that run one after the other find everything that earlier ones have to say.
    WatchSetting {
        turns: BlockTurns::SideBySide,
        ..WatchSetting::new(0xd1b5_4a32_d192_ed03, 0xfbff_fbff, Poison::B)
    },
];
const MORE_RUNS: [WatchSetting; 3] = [
    WatchSetting::new(0x8cb9_2ba7_2f3d_8dd7, 0, Poison::A),
    WatchSetting::new(0xe703_7ed1_a0b4_28db, 0x7bff_7bff, Poison::B),
    // What a truth value or a counter leaves.
    WatchSetting::new(0xb492_b66f_be98_f273, 1, Poison::A),
];

impl WatchSetting {
    const fn new(order: u64, residue: u32, outputs: Poison) -> WatchSetting {
        WatchSetting { order, turns: BlockTurns::OneByOne, residue, outputs }
    }
}

impl Judge {
    /// A refusal is kept as the reason why the build is not run.
    pub fn load_instrumented(&mut self, slot: u8, position: usize, binary: &[u8]) {
        let Some(own) = self.slots.get_mut(&slot) else { return };
        let Some(build) = own.builds.get_mut(position) else { return };
        match self.device.load(binary, &own.candidate.builds[position].entries) {
            Ok(module) => build.instrumented.module = Some(module),
            Err(error) => build.instrumented.refused = Some(error.to_string()),
        }
    }
}

#[derive(Default)]
struct WatchedCases {
    runs: u32,
    accesses: u64,
    skipped: u32,
    notes: Vec<AccessNote>,
}

/// Adds the instrumented runs to the answer of the gate `full_shapes`, for candidates that have such a build.
pub(super) fn extend(
    judge: &mut Judge,
    slot: u8,
    depth: Depth,
    plans: &[ProblemPlan],
    phase: &mut PhaseSink<'_>,
    answer: &mut GateAnswer,
) {
    let Some(own) = judge.slots.get_mut(&slot) else { return };
    if own.candidate.builds.iter().all(|build| build.instrumented.is_none()) {
        return;
    }
    match answer.report.gate {
        // Shapes that were looked at in passing are too many.
        Gate::TinyShapes if depth != Depth::Deep => {
            let reference = &own.candidate.check.reference;
            own.tiny = plans.iter().filter(|plan| shapes::fits_files(reference, plan)).cloned().collect();
        }
        Gate::FullShapes if depth != Depth::Quick && answer.report.state == GateState::Pass => {
            // One that is missing would leave its problems out, and nobody would see it.
            let ready = match own.candidate.builds.iter().zip(&own.builds).find_map(absent) {
                Some(why) => Err(why),
                None => run_all(judge, slot, plans, phase, answer),
            };
            let said = match ready {
                Ok(cases) => conclude(&cases, answer),
                Err(why) => {
                    answer.report.evidence.insert("instrumented_cases", 0);
                    format!("instrumented cases not run: {why}")
                }
            };
            if answer.report.state == GateState::Pass {
                answer.report.message = format!("{}; {said}", answer.report.message);
            }
        }
        _ => {}
    }
}

fn absent((build, loaded): (&CandidateBuild, &LoadedBuild)) -> Option<String> {
    match (&build.instrumented, loaded.instrumented.module) {
        (Some(InstrumentedBuild::Failed { why }), _) => Some(why.clone()),
        (_, Some(_)) => None,
        (_, None) => {
            let refused = loaded.instrumented.refused.clone();
            Some(refused.unwrap_or_else(|| "the build was not loaded".to_string()))
        }
    }
}

fn conclude(cases: &WatchedCases, answer: &mut GateAnswer) -> String {
    let evidence = &mut answer.report.evidence;
    evidence.insert("instrumented_cases", cases.runs);
    evidence.insert("instrumented_accesses", cases.accesses);
    let mut said = format!("{} instrumented cases", cases.runs);
    if cases.skipped > 0 {
        evidence.insert("instrumented_cases_skipped", cases.skipped);
        said = format!("{said} ({} too large or too slow)", cases.skipped);
    }
    if !cases.notes.is_empty() {
        let texts = cases.notes.iter().map(|note| format!("{} ({} times)", note.error.message, note.count));
        evidence.insert("instrumented_notes", texts.collect::<Vec<_>>());
    }
    said
}

/// Smallest first. The error is why nothing could be run.
fn run_all(
    judge: &mut Judge,
    slot: u8,
    plans: &[ProblemPlan],
    phase: &mut PhaseSink<'_>,
    answer: &mut GateAnswer,
) -> Result<WatchedCases, String> {
    let tiny = judge.slot(slot).map(|own| own.tiny.clone()).unwrap_or_default();
    let mut cases: Vec<Case> = tiny.iter().chain(plans).map(Case::first).collect();
    cases.sort_by_key(Case::elements);
    let mut found = WatchedCases::default();
    let began = Instant::now();
    let mut in_part = false;
    for (number, case) in cases.into_iter().enumerate() {
        let bytes: u64 = case.plan.buffers.iter().map(|buffer| buffer.bytes()).sum();
        let is_large = case.elements() > ELEMENTS_MAX || bytes > BYTES_MAX;
        let data = case.plan.buffers.iter().filter(|buffer| buffer.role != Role::Scratch);
        let has_path = data.map(|buffer| buffer.elements()).sum::<u64>() > ELEMENTS_MAX;
        let first_large = has_path && bytes <= BYTES_IN_PART && !std::mem::replace(&mut in_part, true);
        if !first_large && (is_large || (number >= CASES_MIN && began.elapsed() > TIME_OF_ALL)) {
            found.skipped += 1;
            continue;
        }
        let limits = if is_large { IN_PART } else { WHOLE };
        match run_case(judge, slot, &case, limits, phase, &mut found) {
            Ok(None) => {}
            Ok(Some(verdict)) => {
                answer.refuse(verdict);
                return Ok(found);
            }
            Err(Unable::TooLong) => found.skipped += 1,
            Err(Unable::NotWatched) => return Err("the device cannot watch accesses".to_string()),
            Err(Unable::Device(error)) => {
                judge.note_error(&error);
                answer.refuse(wrong::from_error(&error, &case));
                return Ok(found);
            }
        }
    }
    Ok(found)
}

enum Unable {
    TooLong,
    NotWatched,
    Device(DeviceError),
}

impl From<DeviceError> for Unable {
    fn from(error: DeviceError) -> Unable {
        match error.cause.as_deref() {
            Some("budget") => Unable::TooLong,
            _ => Unable::Device(error),
        }
    }
}

fn run_case(
    judge: &mut Judge,
    slot: u8,
    case: &Case,
    limits: (u64, Duration),
    phase: &mut PhaseSink<'_>,
    found: &mut WatchedCases,
) -> Result<Option<Verdict>, Unable> {
    let loaded = judge.slot(slot)?;
    let check = &loaded.candidate.check;
    let (deterministic, checks) = (check.deterministic, check.checks);
    let dictionary = check.dictionary.clone();
    // Moments that the source cannot know.
    let secret = check.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let Some(module) = loaded.build_for(&case.plan)?.instrumented.module else {
        return Err(Unable::NotWatched);
    };
    let prepared = PreparedCase { module, ..judge.prepare_case(slot, case, phase)? };
    let bench = &mut Bench::new(judge, &prepared, phase);
    let mut first_hash = None;
    let mut unwritten: Option<AccessNote> = None;
    let mut runs = RUNS.to_vec();
    while let Some(mut setting) = (!runs.is_empty()).then(|| runs.remove(0)) {
        setting.order ^= secret;
        let report = run_once(bench, setting, limits)?;
        found.runs += 1;
        found.accesses += report.accesses;
        for note in report.notes {
            let matters =
                note.what == NoteKind::Unwritten && checks.include(GateCheck::InstrumentedUnwritten);
            if matters && unwritten.is_none() {
                unwritten = Some(note.clone());
                runs.extend(MORE_RUNS);
                let named = dictionary.integers.iter().map(|number| *number as u32);
                let named = named.chain(dictionary.floats.iter().map(|number| (*number as f32).to_bits()));
                runs.extend(named.map(|residue| WatchSetting { residue, ..MORE_RUNS[0] }));
            }
            keep(&mut found.notes, note);
        }
        let hash = bench.output_hash()?;
        // This build fuses other multiplications and additions than the timed one, so that a long chain may round far
        // from the reference. An order of threads that matters shows in single elements, or in the hashes.
        let mismatch = bench.mismatch()?.filter(|own| own.breach <= Breach::Elements);
        let differs = deterministic && *first_hash.get_or_insert(hash) != hash;
        if mismatch.is_none() && !differs {
            continue;
        }
        if let Some(note) = unwritten.filter(|_| checks.include(GateCheck::InstrumentedUnwritten)) {
            let mut verdict = note.error.verdict();
            verdict.message = format!("{}, and the output depends on it", verdict.message);
            return Ok(Some(wrong::about(verdict, case)));
        }
        if !checks.include(GateCheck::InstrumentedOrder) {
            return Ok(None);
        }
        let symptom = mismatch.map(|own| wrong::mismatch(&prepared, &own).message);
        return Ok(Some(by_order(case, setting.order, symptom)));
    }
    Ok(None)
}

/// Right in every run before, and not now that threads take turns at other moments.
fn by_order(case: &Case, order: u64, symptom: Option<String>) -> Verdict {
    let what = "the output depends on the moments at which threads take turns";
    let message = symptom.map_or(what.to_string(), |symptom| format!("{what}: {symptom}"));
    let verdict = Verdict::new(VerdictKind::Nondeterministic, message).with_cause("order");
    wrong::about(verdict.with("order_seed", order.to_string()), case)
}

fn keep(notes: &mut Vec<AccessNote>, note: AccessNote) {
    match notes.iter_mut().find(|own| own.what == note.what) {
        Some(own) => own.count += note.count,
        None => notes.push(note),
    }
}

fn run_once(
    bench: &mut Bench<'_>,
    setting: WatchSetting,
    (accesses_max, time_max): (u64, Duration),
) -> Result<WatchReport, Unable> {
    let WatchSetting { order, turns, residue, outputs } = setting;
    // Workspace that begins with a constant too: a run that was given up leaves a counter half-way.
    bench.fill(outputs)?;
    let (prepared, device) = (bench.prepared, bench.judge.device.as_mut());
    for (plan, buffer) in prepared.case.plan.buffers.iter().zip(&prepared.buffers) {
        let poisoned = prepared.checks.include(GateCheck::WorkspacePoison);
        if poisoned && plan.role == Role::Scratch && run::starts_as(plan).is_none() {
            device.fill(*buffer, residue)?;
        }
    }
    let passed = prepared.case.plan.buffers.iter().zip(&prepared.buffers);
    let buffers = passed.filter(|(plan, _)| plan.symbol.is_none()).map(|(plan, buffer)| {
        let contents = match plan.role {
            Role::Input => WatchedContents::Input,
            Role::Inout | Role::Restored => WatchedContents::Given,
            _ if run::starts_as(plan).is_some() => WatchedContents::Given,
            Role::Output => WatchedContents::Output,
            Role::Scratch => WatchedContents::Scratch,
        };
        WatchedBuffer { buffer: *buffer, contents }
    });
    device.set_conditions(RunConditions {
        order: Some(order),
        residue: Some(residue),
        ..RunConditions::default()
    })?;
    let watch = Watch { buffers: buffers.collect(), order, turns, residue, accesses_max, time_max };
    let name = format!("{} instrumented", prepared.case.name());
    (bench.phase)(Phase::Launched, &name);
    prepared.fill_variables(device)?;
    let report = device.launch_watched(prepared.module, &prepared.launches, &watch);
    device.set_conditions(RunConditions::default())?;
    let report = report?;
    prepared.read_variables(device)?;
    (bench.phase)(Phase::Checking, &name);
    report.ok_or(Unable::NotWatched)
}
