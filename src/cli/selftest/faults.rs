//! `evo selftest faults`: broken variants between good ones, in random order. Each must get its own verdict,
//! and the good one after it must pass as if nothing had happened. Some variants are honest and odd: they must
//! pass.

use std::time::Instant;

use evo_protocol::device::DeviceKind;
use evo_protocol::measurement::TimingMode;
use evo_space::genome::Configuration;
use evo_space::value::Value;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::bench::SelftestBench;
use super::checks::SelftestReport;
use crate::cli::error::CliError;
use crate::supervise::job::{Judgement, Standing};
use crate::timing::stats::below;

/// What must become of a fault on a device.
#[derive(Clone, Copy, Debug)]
pub enum FaultOutcome {
    /// One of these verdicts, by kind or by kind and cause.
    Is(&'static [&'static str]),
    /// It is honest.
    Passes,
    /// Nothing on this device shows it, and why.
    Open(&'static str),
}

/// A fault of the `faults` space.
#[derive(Clone, Copy, Debug)]
pub struct FaultRow {
    /// The value of the parameter `FAULT`.
    pub name: &'static str,
    pub cuda: FaultOutcome,
    pub host: FaultOutcome,
    /// A word that the message must have, so that a person learns the cause.
    pub says: &'static str,
}

use FaultOutcome::{Is, Open, Passes};

const fn row(name: &'static str, cuda: FaultOutcome, host: FaultOutcome, says: &'static str) -> FaultRow {
    FaultRow { name, cuda, host, says }
}

/// The same on both devices.
const fn both(name: &'static str, verdicts: &'static [&'static str], says: &'static str) -> FaultRow {
    row(name, Is(verdicts), Is(verdicts), says)
}

const NEEDS_MEMCHECK: FaultOutcome = Open("an access right behind a buffer needs a memory checker");
const NEEDS_RACECHECK: FaultOutcome = Open("this order of threads hides it; a race checker is needed");

/// Every row, in the order of the template.
pub const FAULTS: &[FaultRow] = &[
    both("empty", &["wrong_answer:unwritten", "wrong_answer:tail"], "never written"),
    both("unwritten", &["wrong_answer:unwritten"], "never written"),
    both("tail", &["wrong_answer:unwritten", "wrong_answer:tail"], "never written"),
    both("drop", &["wrong_answer"], "`y`"),
    both("half", &["wrong_answer:precision"], "error"),
    both("bias", &["wrong_answer:bias", "wrong_answer:precision"], "error"),
    both("offset", &["wrong_answer:bias", "wrong_answer:precision"], "error"),
    both("nan", &["wrong_answer:nan_inf"], "NaN"),
    both("range", &["wrong_answer:range"], "famil"),
    both("constant", &["wrong_answer"], "`y`"),
    both("special", &["wrong_answer:special_values"], "NaN"),
    both("subnormal", &["wrong_answer:special_values"], "special_values"),
    both("size_path", &["wrong_answer"], "error"),
    both("counter", &["nondeterministic", "stateful"], "output"),
    both("nth_call", &["nondeterministic", "stateful", "timing_escape"], ""),
    both("rare", &["nondeterministic", "stateful", "timing_escape"], ""),
    row("race", NEEDS_RACECHECK, Is(&["nondeterministic:race"]), "barrier"),
    row("missing_fence", NEEDS_RACECHECK, Is(&["nondeterministic", "stateful"]), "output"),
    row(
        "unset_shared",
        Open("what shared memory holds when a kernel begins cannot be set for sure"),
        Is(&["wrong_answer:uninitialized", "nondeterministic"]),
        "before writing",
    ),
    row(
        "unset_local",
        Is(&["wrong_answer", "nondeterministic"]),
        Is(&["wrong_answer", "nondeterministic"]),
        "",
    ),
    both("oob_write", &["oob_write"], "behind"),
    row("near_write", NEEDS_MEMCHECK, Is(&["oob_write", "oob_read"]), "behind"),
    both("oob_read", &["oob_read"], ""),
    row("near_read", NEEDS_MEMCHECK, Is(&["oob_read"]), "behind"),
    row("shared_overrun", NEEDS_MEMCHECK, Is(&["oob_write:shared"]), "shared"),
    both("input_mutated", &["input_mutated"], "`x`"),
    row(
        "input_borrowed",
        Open("inputs are not mapped read-only, and they are whole again when the launch ends"),
        Is(&["input_mutated"]),
        "`x`",
    ),
    both("memo", &["timing_escape:cached_result", "stateful"], ""),
    both("known_output", &["timing_escape", "nondeterministic"], ""),
    both("warm_cheat", &["timing_escape", "wrong_answer", "nondeterministic", "stateful"], ""),
    both("slow", &["too_slow"], "best so far"),
    both("spin", &["hang"], "no end"),
    both("grid_wait", &["hang"], "no end"),
    both("odd_hang", &["hang"], "no end"),
    row(
        "barrier",
        Open("today's GPUs count arrivals, whichever line they come from"),
        Is(&["divergent_barrier"]),
        "__syncthreads",
    ),
    row("early_exit", Passes, Passes, ""),
    row("block_wait", Passes, Passes, ""),
    row("illegal_address", Is(&["crash_illegal_address"]), Is(&["crash_illegal_address", "oob_write"]), ""),
    row("misaligned", Is(&["crash_misaligned"]), Is(&["crash_misaligned"]), "aligned"),
    row("trap", Is(&["crash_trap", "crash_illegal_instruction"]), Is(&["crash_trap"]), ""),
    both("assert", &["crash_assert"], ""),
    row("recursion", Is(&["crash_stack", "crash_illegal_address", "crash_other"]), Is(&["crash_stack"]), ""),
    // Printing takes so long that the deadline may come first.
    row("print_flood", Is(&["output_flood", "hang"]), Is(&["output_flood", "hang"]), ""),
    both("syntax", &["compile_error"], "does not compile"),
    both("threads", &["static_reject:threads"], "threads"),
    both("bounds", &["launch_fail:threads", "static_reject:threads"], "threads"),
    both("smem", &["static_reject:smem"], "shared"),
    row(
        "static_smem",
        Is(&["compile_error", "static_reject:smem", "launch_fail:smem"]),
        Is(&["static_reject:smem", "launch_fail:smem"]),
        "shared",
    ),
    both("zero_grid", &["static_reject"], "grid"),
    both("wide_grid", &["static_reject:grid"], "grid"),
    both("cluster", &["static_reject:cluster", "launch_fail:cluster"], "cluster"),
    // A grid of 782 small blocks fits a GPU at once.
    row("cooperative", Passes, Is(&["static_reject:cooperative", "launch_fail:cooperative"]), "resident"),
    row("persistent", Passes, Passes, ""),
    row("atomics", Passes, Passes, ""),
];

/// The rows in the order of a seed.
fn shuffled(seed: u64) -> Vec<&'static FaultRow> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut rows: Vec<&FaultRow> = FAULTS.iter().collect();
    for last in (1..rows.len()).rev() {
        rows.swap(last, below(&mut random, last + 1));
    }
    rows
}

/// Plays good, fault, good, fault, … on a bench of the `faults` space; only the rows whose name contains
/// `only`, if that is given.
///
/// # Errors
/// The compilers cannot be used, or the first good variant does not pass.
pub fn run(bench: &mut SelftestBench<'_>, only: Option<&str>, seed: u64) -> Result<SelftestReport, CliError> {
    let kind = bench.lane.info().kind;
    let good = bench.configuration(&[]);
    let (first, standing) = good_neighbor(bench, &good)?;
    let mut report = SelftestReport::default();
    report.add("none", Ok(format!("pass, {:.2} µs", first / 1e3)));
    for row in shuffled(seed).into_iter().filter(|row| only.is_none_or(|only| row.name.contains(only))) {
        let outcome = if kind == DeviceKind::Cuda { row.cuda } else { row.host };
        if let Open(why) = outcome {
            report.skip(row.name, why);
            continue;
        }
        let began = Instant::now();
        let faulty = bench.configuration(&[("FAULT", Value::from(row.name))]);
        // The path of a sweep first; what passes there is judged as a finalist.
        let unknown = Standing::default();
        let known = if row.name == "slow" { &standing } else { &unknown };
        let (mut verdict, mut result) = bench.judge(&faulty, known, false)?;
        if verdict.is_pass() {
            (verdict, result) = bench.judge(&faulty, known, true)?;
        }
        let took_ms = began.elapsed().as_secs_f64() * 1e3;
        let recovery = result.as_ref().and_then(|result| result.recovery);
        let label = verdict.label();
        let named =
            |wanted: &[&str]| wanted.iter().any(|want| label == *want || verdict.kind.as_str() == *want);
        let right = match outcome {
            Is(wanted) => named(wanted) && verdict.message.contains(row.says),
            _ => verdict.is_pass(),
        };
        let neighbor = good_neighbor(bench, &good);
        let after = match &neighbor {
            Ok((time, _)) => format!("neighbor {:.2}×", time / first),
            Err(error) => format!("NEIGHBOR FAILED: {error}"),
        };
        let recovered = recovery
            .map_or(String::new(), |own| format!(", {} {:.0} ms", own.level.as_str(), own.elapsed_ms));
        let line = format!("{label} in {took_ms:.0} ms{recovered}, {after}; {}", verdict.message);
        report.add(row.name, if right && neighbor.is_ok() { Ok(line) } else { Err(line) });
    }
    Ok(report)
}

/// Evaluates the good variant in full; its hot p50 and the standing it sets.
fn good_neighbor(bench: &mut SelftestBench<'_>, good: &Configuration) -> Result<(f64, Standing), CliError> {
    let (verdict, result) = bench.judge(good, &Standing::default(), false)?;
    let passed = result.filter(|_| verdict.is_pass());
    let result =
        passed.ok_or_else(|| CliError::harness(format!("{}: {}", verdict.label(), verdict.message)))?;
    let standing = standing_of(&result);
    let objective = result.objective_ns.unwrap_or(0.0);
    Ok((objective, standing))
}

fn standing_of(result: &Judgement) -> Standing {
    let hot = result.measurements.iter().filter(|own| own.mode == TimingMode::Hot);
    let problems = hot.map(|own| (own.problem.clone(), own.p50_ns)).collect();
    Standing { problems, objective_ns: result.objective_ns }
}
