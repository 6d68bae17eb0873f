//! `evo selftest faults`: broken variants between good ones. Each must get its own verdict, and the
//! good one after it must pass as if nothing had happened.

use std::time::Instant;

use evo_protocol::device::DeviceKind;
use evo_protocol::measurement::TimingMode;
use evo_space::genome::Configuration;
use evo_space::value::Value;

use super::bench::SelftestBench;
use super::checks::SelftestReport;
use crate::cli::error::CliError;
use crate::supervise::job::{Judgement, Standing};

/// A fault (`early_exit` only looks like one), and the verdicts that are right for it on CUDA and on the host; an empty list means that
/// the fault cannot be shown there, and the text after it says why.
struct FaultCase(&'static str, &'static [&'static str], &'static [&'static str], &'static str);

const FAULTS: &[FaultCase] = &[
    FaultCase("empty", &["wrong_answer:unwritten"], &["wrong_answer:unwritten"], ""),
    FaultCase("unwritten", &["wrong_answer:unwritten"], &["wrong_answer:unwritten"], ""),
    FaultCase("drop", &["wrong_answer"], &["wrong_answer"], ""),
    FaultCase("nan", &["wrong_answer:nan_inf"], &["wrong_answer:nan_inf"], ""),
    FaultCase("constant", &["wrong_answer"], &["wrong_answer"], ""),
    FaultCase("counter", &["nondeterministic", "stateful"], &["nondeterministic", "stateful"], ""),
    FaultCase("oob_write", &["oob_write"], &["oob_write"], ""),
    FaultCase("oob_read", &["oob_read"], &["oob_read"], ""),
    FaultCase("input_mutated", &["input_mutated"], &["input_mutated"], ""),
    FaultCase(
        "warm_cheat",
        &["timing_escape", "wrong_answer", "nondeterministic", "stateful"],
        &["timing_escape", "wrong_answer", "nondeterministic", "stateful"],
        "",
    ),
    FaultCase("slow", &["too_slow"], &["too_slow"], ""),
    FaultCase("spin", &["hang"], &["hang"], ""),
    FaultCase(
        "barrier",
        &[],
        &["divergent_barrier"],
        "today's GPUs count arrivals, whichever line they come from",
    ),
    FaultCase("early_exit", &["pass"], &["pass"], ""),
    FaultCase("illegal_address", &["crash_illegal_address"], &["crash_illegal_address", "oob_write"], ""),
    FaultCase("misaligned", &["crash_misaligned"], &[], "this processor allows misaligned loads"),
    FaultCase("trap", &["crash_trap", "crash_illegal_instruction"], &["crash_trap"], ""),
    FaultCase("syntax", &["compile_error"], &["compile_error"], ""),
    FaultCase("threads", &["static_reject:threads"], &["static_reject:threads"], ""),
    FaultCase("smem", &["static_reject:smem"], &["static_reject:smem"], ""),
    FaultCase(
        "static_smem",
        &["compile_error", "static_reject:smem", "launch_fail:smem"],
        &[],
        "the host's linker takes it",
    ),
    FaultCase("zero_grid", &["static_reject"], &["static_reject"], ""),
];

/// Plays good, fault, good, fault, … on a bench of the `faults` space.
///
/// # Errors
/// The compilers cannot be used, or the first good variant does not pass.
pub fn run(bench: &mut SelftestBench<'_>) -> Result<SelftestReport, CliError> {
    let kind = bench.lane.info().kind;
    let good = bench.configuration(&[]);
    let (first, standing) = good_neighbor(bench, &good)?;
    let mut report = SelftestReport::default();
    report.add("none", Ok(format!("pass, {:.2} µs", first / 1e3)));
    for FaultCase(name, cuda, host, why) in FAULTS {
        let expected = if kind == DeviceKind::Cuda { cuda } else { host };
        if expected.is_empty() {
            report.skip(name, why);
            continue;
        }
        let began = Instant::now();
        let faulty = bench.configuration(&[("FAULT", Value::from(*name))]);
        // A deep evaluation skips the screening, and only the screening gives `too_slow` with a time.
        let (verdict, result) = bench.judge(&faulty, &standing, *name != "slow")?;
        let took_ms = began.elapsed().as_secs_f64() * 1e3;
        let recovery = result.as_ref().and_then(|result| result.recovery);
        let label = verdict.label();
        let right = expected.iter().any(|want| label == *want || verdict.kind.as_str() == *want);
        let neighbor = good_neighbor(bench, &good);
        let after = match &neighbor {
            Ok((time, _)) => format!("neighbor {:.2}×", time / first),
            Err(error) => format!("NEIGHBOR FAILED: {error}"),
        };
        let recovered = recovery
            .map_or(String::new(), |own| format!(", {} {:.0} ms", own.level.as_str(), own.elapsed_ms));
        let line = format!("{label} in {took_ms:.0} ms{recovered}, {after}; {}", verdict.message);
        report.add(name, if right && neighbor.is_ok() { Ok(line) } else { Err(line) });
    }
    Ok(report)
}

/// Evaluates the good variant in full; its hot p50 and the standing it sets.
fn good_neighbor(bench: &mut SelftestBench<'_>, good: &Configuration) -> Result<(f64, Standing), CliError> {
    let (verdict, result) = bench.judge(good, &Standing::default(), true)?;
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
