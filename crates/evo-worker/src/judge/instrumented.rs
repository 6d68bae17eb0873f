//! Instrumented runs: every access of a variant that could enter the leaderboard, checked by the host device.
//!
//! The small shapes, and those checked problems that are small enough, run once more in the instrumented build,
//! each under two orders of threads; of the least problem that is too large a part does. A fault refuses the variant in the gate `full_shapes`. A read of memory that
//! nobody wrote is a fault only if the output depends on what lies there: tuned kernels often compute on the
//! unused part of a tile and never store the result.

use std::time::{Duration, Instant};

use evo_device::device::{
    AccessNote, BlockTurns, NoteKind, RunConditions, Watch, WatchReport, WatchedBuffer, WatchedContents,
};
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::plan::Role;
use evo_protocol::verdict::{Gate, GateState, VerdictKind};
use evo_protocol::worker::{CandidateBuild, Depth, InstrumentedBuild, Phase};

use super::bench::{Asked, Bench, Failure, GateRun};
use super::case::Case;
use super::compare::Breach;
use super::element::Poison;
use super::run::{self, PreparedCase};
use super::state::LoadedBuild;
use super::{shapes, wrong};

/// Larger problems are not run to their end: the record of their accesses takes about 170 bytes for each four of a buffer, 1.4 GiB here.
const ELEMENTS_MAX: u64 = 1 << 23;
const BYTES_MAX: u64 = 1 << 25;
/// One run may take this many accesses and this long.
const WHOLE: (u64, Duration) = (40_000_000, Duration::from_secs(4));
/// So many accesses and so long of the least of those that are too large: a kernel may take another path there.
const IN_PART: (u64, Duration) = (3_000_000, Duration::from_secs(1));
const BYTES_IN_PART: u64 = 1 << 30;
/// Runs of a case on what the sources name begin no later than this after its first one, of finalists and of others.
const TIME_NAMED: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(1)];
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

#[derive(Default)]
struct WatchedCases {
    runs: u32,
    accesses: u64,
    skipped: u32,
    notes: Vec<AccessNote>,
}

/// Adds the instrumented runs to the answer of the gate `full_shapes`, for candidates that have such a build.
pub(super) fn extend(run: &mut GateRun<'_>) {
    let Some(slot) = run.judge.slots.get_mut(&run.slot) else { return };
    if slot.candidate.builds.iter().all(|build| build.instrumented.is_none()) {
        return;
    }
    match run.gate {
        // Shapes that were looked at in passing are too many.
        Gate::TinyShapes if run.depth != Depth::Deep => {
            let fits = |plan: &&_| shapes::fits_files(&run.check.reference, plan);
            slot.tiny = run.plans.iter().filter(fits).cloned().collect();
        }
        Gate::FullShapes if run.depth != Depth::Quick && run.found.report.state == GateState::Pass => {
            // One that is missing would leave its problems out, and nobody would see it.
            let ready = match slot.candidate.builds.iter().zip(&slot.builds).find_map(absent) {
                Some(why) => Err(why),
                None => run_all(run),
            };
            let evidence = &mut run.found.report.evidence;
            let words = match ready {
                Ok(WatchedCases { runs, accesses, skipped, notes }) => {
                    evidence.insert("instrumented_cases", runs);
                    evidence.insert("instrumented_accesses", accesses);
                    let mut words = format!("{runs} instrumented cases");
                    if skipped > 0 {
                        evidence.insert("instrumented_cases_skipped", skipped);
                        words = format!("{words} ({skipped} too large or too slow)");
                    }
                    if !notes.is_empty() {
                        let notes =
                            notes.iter().map(|own| format!("{} ({} times)", own.error.message, own.count));
                        evidence.insert("instrumented_notes", notes.collect::<Vec<String>>());
                    }
                    words
                }
                Err(why) => {
                    evidence.insert("instrumented_cases", 0);
                    format!("instrumented cases not run: {why}")
                }
            };
            let report = &mut run.found.report;
            if report.state == GateState::Pass {
                report.message = format!("{}; {words}", report.message);
            }
        }
        _ => {}
    }
}

fn absent((build, loaded): (&CandidateBuild, &LoadedBuild)) -> Option<String> {
    match (&build.instrumented, &loaded.instrumented) {
        (Some(InstrumentedBuild::Failed { why }), _) | (_, Some(Err(why))) => Some(why.clone()),
        (_, Some(Ok(_))) => None,
        (_, None) => Some("the build was not loaded".to_string()),
    }
}

/// Smallest first. The error is why nothing could be run.
fn run_all(run: &mut GateRun<'_>) -> Result<WatchedCases, String> {
    let tiny = run.judge.slots.get(&run.slot).map(|slot| slot.tiny.clone()).unwrap_or_default();
    let mut cases: Vec<Case> = tiny.iter().chain(run.plans).map(Case::first).collect();
    cases.sort_by_key(Case::elements);
    let mut watched = WatchedCases::default();
    let began = Instant::now();
    let mut in_part = false;
    for (number, case) in cases.into_iter().enumerate() {
        let bytes: u64 = case.plan.buffers.iter().map(|buffer| buffer.bytes()).sum();
        let is_large = case.elements() > ELEMENTS_MAX || bytes > BYTES_MAX;
        let data = case.plan.buffers.iter().filter(|buffer| buffer.role != Role::Scratch);
        let has_path = data.map(|buffer| buffer.elements()).sum::<u64>() > ELEMENTS_MAX;
        let first_large = has_path && bytes <= BYTES_IN_PART && !std::mem::replace(&mut in_part, true);
        if !first_large && (is_large || (number >= CASES_MIN && began.elapsed() > TIME_OF_ALL)) {
            watched.skipped += 1;
            continue;
        }
        let limits = if is_large { IN_PART } else { WHOLE };
        match run_case(run, &case, limits, &mut watched) {
            Ok(true) => {}
            Ok(false) => return Err("the device cannot watch accesses".to_string()),
            Err(Failure::Machine(error)) if error.cause.as_deref() == Some("budget") => watched.skipped += 1,
            Err(failure) => {
                run.refuse(failure, &case);
                return Ok(watched);
            }
        }
    }
    Ok(watched)
}

/// False if the device cannot watch accesses.
fn run_case(
    run: &mut GateRun<'_>,
    case: &Case,
    limits: (u64, Duration),
    watched: &mut WatchedCases,
) -> Result<bool, Failure> {
    let (deterministic, checks) = (run.check.deterministic, run.check.checks);
    let named = run.check.dictionary.words();
    let time_named = TIME_NAMED[usize::from(run.depth != Depth::Deep)];
    // Moments that the source cannot know.
    let secret = run.check.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let build = run.judge.slot(run.slot)?.build_for(&case.plan)?;
    let Some(Ok(module)) = build.instrumented else { return Ok(false) };
    let prepared = PreparedCase { module, ..run.judge.prepare_case(run.slot, case)? };
    let bench = &mut Bench { judge: run.judge, prepared: &prepared };
    let mut first_hash = None;
    let mut unwritten: Option<AccessNote> = None;
    let mut settings = RUNS.to_vec();
    let (began, few) = (Instant::now(), RUNS.len() + MORE_RUNS.len());
    for number in 0.. {
        // Numbers that the sources name have a series of their own.
        let is_late = number >= few && began.elapsed() > time_named;
        let Some(mut setting) = settings.get(number).copied().filter(|_| !is_late) else { break };
        setting.order ^= secret;
        let Some(report) = run_once(bench, setting, limits)? else { return Ok(false) };
        watched.runs += 1;
        watched.accesses += report.accesses;
        for note in report.notes {
            let matters =
                note.what == NoteKind::Unwritten && checks.include(GateCheck::InstrumentedUnwritten);
            if matters && unwritten.is_none() {
                unwritten = Some(note.clone());
                settings.extend(MORE_RUNS);
                settings
                    .extend(named.iter().map(|residue| WatchSetting { residue: *residue, ..MORE_RUNS[0] }));
            }
            match watched.notes.iter_mut().find(|known| known.what == note.what) {
                Some(known) => known.count += note.count,
                None => watched.notes.push(note),
            }
        }
        let hash = bench.output_hash()?;
        // This build fuses other multiplications and additions than the timed one, so that a long chain may round far
        // from the reference. An order of threads that matters shows in single elements, or in the hashes.
        let mismatch = bench.mismatch()?.filter(|mismatch| mismatch.breach <= Breach::Elements);
        let differs = deterministic && *first_hash.get_or_insert(hash) != hash;
        if mismatch.is_none() && !differs {
            continue;
        }
        let symptom = mismatch.map(|mismatch| wrong::mismatch(&prepared, &mismatch).message);
        return follows(bench, unwritten, setting.order, symptom).map(|()| true);
    }
    Ok(true)
}

/// Right in every run before, and not now that threads take turns at other moments.
fn follows(bench: &Bench<'_>, unwritten: Option<AccessNote>, order: u64, symptom: Option<String>) -> Asked {
    if let Some(note) = unwritten {
        let mut verdict = note.error.verdict();
        verdict.message = format!("{}, and the output depends on it", verdict.message);
        return Err(bench.about(verdict).into());
    }
    if !bench.includes(GateCheck::InstrumentedOrder) {
        return Ok(());
    }
    let what = "the output depends on the moments at which threads take turns";
    let message = symptom.map_or(what.to_string(), |symptom| format!("{what}: {symptom}"));
    let refused = bench.refused(VerdictKind::Nondeterministic, "order", message);
    Err(refused.with("order_seed", order.to_string()))
}

fn run_once(
    bench: &mut Bench<'_>,
    setting: WatchSetting,
    (accesses_max, time_max): (u64, Duration),
) -> Result<Option<WatchReport>, DeviceError> {
    let WatchSetting { order, turns, residue, outputs } = setting;
    // Workspace that begins with a constant too: a run that was given up leaves a counter half-way.
    bench.fill(outputs)?;
    let prepared = bench.prepared;
    if bench.includes(GateCheck::WorkspacePoison) {
        prepared.fill_scratch(bench.device(), |_| residue)?;
    }
    let passed = prepared.named_buffers().filter(|(plan, _)| plan.symbol.is_none());
    let buffers = passed.map(|(plan, buffer)| {
        let contents = match plan.role {
            Role::Input => WatchedContents::Input,
            Role::Inout | Role::Restored => WatchedContents::Given,
            _ if run::starts_as(plan).is_some() => WatchedContents::Given,
            Role::Output => WatchedContents::Output,
            Role::Scratch => WatchedContents::Scratch,
        };
        WatchedBuffer { buffer, contents }
    });
    let watch = Watch { buffers: buffers.collect(), order, turns, residue, accesses_max, time_max };
    let conditions = RunConditions { order: Some(order), residue: Some(residue), ..RunConditions::default() };
    bench.device().set_conditions(conditions)?;
    let name = format!("{} instrumented", prepared.case.name());
    bench.judge.report(Phase::Launched, &name);
    prepared.fill_variables(bench.device())?;
    let report = bench.device().launch_watched(prepared.module, &prepared.launches, &watch);
    bench.device().set_conditions(RunConditions::default())?;
    let report = report?;
    prepared.read_variables(bench.device())?;
    bench.judge.report(Phase::Checking, &name);
    Ok(report)
}
