//! Every check inside the gates left out in turn, and the fixture that then slips through.
//!
//! `rows` lists the checks with their fixtures, and puts together the space files of the fixtures.

mod rows;

use std::sync::Arc;
use std::time::{Duration, Instant};

use evo::cli::error::CliError;
use evo::cli::selftest::{SelftestCheck, SelftestReport};
use evo::cli::session::{self, DeviceSetup};
use evo::compile::WarmCompiler;
use evo::compile::{FarmOptions, compile_one};
use evo::engine::prepared::PreparedKernel;
use evo::engine::single;
use evo::kernel::render::{render, render_reference, render_single_reference};
use evo::kernel::spec::SpaceFile;
use evo::supervise::deadline::Deadlines;
use evo::supervise::job::{Job, JobReach, Standing};
use evo::supervise::lane::{Lane, LaneLimits};
use evo_protocol::binary::{CompileOutcome, KernelSource};
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict};
use evo_space::document::suggestion;
use evo_space::genome::{Configuration, ContentHash};
use evo_space::value::Value;
use serde_json::json;

use self::rows::{CheckWorth, GateRow, Handling, ROWS, RowPlan};
use crate::order::Order;

/// A launch of a fixture that should not end.
const LAUNCHED: Duration = Duration::from_millis(400);
/// What a fixture that prints too much may print.
const OUTPUT_BYTES: u64 = 32 << 10;
/// A rival that is faster than any kernel, nanoseconds.
const RIVAL_NS: f64 = 10.0;

/// Plays the rows one after the other: a fixture with all checks, then with its check left out.
pub(crate) fn run(order: &Order, report: &mut SelftestReport) -> Result<serde_json::Value, CliError> {
    let rows: Vec<&GateRow> = ROWS.iter().filter(|row| order.wants(row.check.as_str())).collect();
    if rows.is_empty() {
        let only = order.only.as_deref().unwrap_or_default();
        let checks = ROWS.iter().map(|row| row.check.as_str());
        let hint = suggestion(only, checks, || "without `--only` all of them run".into());
        return Err(order.names_nothing("check", hint));
    }
    let bench = GateBench::start(order, &rows)?;
    let info = serde_json::to_value(bench.lane.info())?;
    bench.play(&rows, report)?;
    Ok(info)
}

#[derive(Clone, Debug)]
struct GateFinding {
    verdict: Verdict,
    gate: Option<Gate>,
}

impl GateFinding {
    fn of(verdict: Verdict, gates: &[GateReport]) -> GateFinding {
        let failed = gates.iter().find(|report| report.state == GateState::Fail);
        GateFinding { gate: failed.map(|report| report.gate), verdict }
    }

    /// What is lost without the check.
    fn worth(&self, without: &GateFinding) -> CheckWorth {
        if without.verdict.is_pass() {
            CheckWorth::Needed
        } else if self.verdict.label() != without.verdict.label() {
            CheckWorth::NamesCause
        } else if self.gate < without.gate {
            CheckWorth::RefusesEarly
        } else {
            CheckWorth::Nothing
        }
    }
}

fn configuration(row: &GateRow, file: &SpaceFile) -> Configuration {
    let default = file.space.configuration(&file.space.default_genome());
    default.with(&[("FIXTURE", Value::from(row.fixture))])
}

/// Everything that may be compiled for rows on a kind of device, each once.
fn sources_of<'r>(
    rows: impl IntoIterator<Item = &'r GateRow>,
    kind: DeviceKind,
) -> Result<Vec<KernelSource>, CliError> {
    let mut sources = Vec::new();
    for row in rows.into_iter().filter(|row| row.runs_on(kind)) {
        let file = row.task.open(row.fixture)?;
        let kernel = session::kernel_of(&file)?;
        let Ok(source) = render(kernel, &configuration(row, &file)) else { continue };
        let instrumented = KernelSource { instrumented: true, ..source.clone() };
        let second = (kind == DeviceKind::Host && row.slips_through()).then_some(instrumented);
        let references = render_reference(kernel).into_iter().chain(render_single_reference(kernel));
        for source in references.chain([source]).chain(second) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    Ok(sources)
}

pub fn sources(kind: DeviceKind) -> Result<Vec<KernelSource>, CliError> {
    sources_of(ROWS.iter(), kind)
}

struct GateBench {
    setup: DeviceSetup,
    lane: Lane,
    seed: u64,
}

impl GateBench {
    fn start(order: &Order, rows: &[&GateRow]) -> Result<GateBench, CliError> {
        let warm = WarmCompiler::start(&order.setup.farm)?;
        let sources = sources_of(rows.iter().copied(), order.setup.choice.kind)?;
        sources.iter().for_each(|source| warm.compile_ahead(source));
        let setup = DeviceSetup { warm: Some(Arc::new(warm)), ..order.setup.clone() };
        Ok(GateBench { lane: session::lane(&setup, None)?, setup, seed: order.seed })
    }

    fn play(mut self, rows: &[&GateRow], report: &mut SelftestReport) -> Result<(), CliError> {
        for row in rows {
            let name = row.check.as_str();
            match row.plan(self.setup.choice.kind) {
                RowPlan::Absent(why) => {
                    report.skip(name, &format!("{}: not on this device: {why}", row.fixture))
                }
                RowPlan::Shows(least) => report.push(self.check(row, least, None)?),
                RowPlan::Behind(other, why) => {
                    report.push(self.check(row, CheckWorth::Needed, Some((other, why)))?)
                }
            }
        }
        Ok(())
    }

    /// Whether a row's check is worth at least that much, where another one is left out in both runs.
    fn check(
        &mut self,
        row: &GateRow,
        least: CheckWorth,
        behind: Option<(GateCheck, &str)>,
    ) -> Result<SelftestCheck, CliError> {
        let began = Instant::now();
        let other = behind.map(|(other, _)| other);
        let all = other.map_or_else(CheckSet::default, |other| CheckSet::without(other, None));
        let with = self.judge(row, all)?;
        let without = self.judge(row, CheckSet::without(row.check, other))?;
        let labels = [&with, &without].map(|finding| finding.verdict.label());
        let refused =
            row.verdicts.iter().any(|want| labels[0] == *want || with.verdict.kind.as_str() == *want);
        let worth = with.worth(&without);
        let state = match behind {
            _ if !refused => "NOT REFUSED".to_string(),
            Some((other, _)) if worth != CheckWorth::Nothing => {
                format!("{} behind {}", worth.as_str(), other.as_str())
            }
            _ => worth.as_str().to_string(),
        };
        let passed = refused && worth <= least;
        let more = match behind {
            _ if !refused => format!("expected {}: {}", row.verdicts.join(" or "), with.verdict.message),
            Some((_, why)) if passed => why.to_string(),
            Some((_, why)) => format!("{why}; without both checks: {}", without.verdict.message),
            None => without.verdict.message.clone(),
        };
        let is_clear = passed && without.verdict.is_pass();
        let more = if more.is_empty() || is_clear { more } else { format!("\n        {more}") };
        let message =
            format!("{:<16} {:<30} without it {:<30} {state}{more}", row.fixture, labels[0], labels[1]);
        let check = SelftestCheck::new(row.check.as_str(), Some(passed), message);
        Ok(check.with(&json!({
            "gate": row.check.gate().as_str(), "fixture": row.fixture, "with_check": labels[0],
            "without_check": labels[1], "state": state, "elapsed_ms": began.elapsed().as_secs_f64() * 1e3,
        })))
    }

    fn judge(&mut self, row: &GateRow, checks: CheckSet) -> Result<GateFinding, CliError> {
        let mut job = match self.job(row, checks)? {
            Ok(job) => job,
            Err(refused) => return Ok(GateFinding::of(refused.verdict, &refused.gates)),
        };
        // The instrumented build stays: a contender becomes a finalist before it can rank.
        job.reach = if row.handling == Handling::Finalist { JobReach::Deep } else { JobReach::Whole };
        let (mut standing, mut limits) = (Standing::default(), None);
        let alone = LaneLimits { spare: false, ..LaneLimits::default() };
        match row.handling {
            Handling::Contender | Handling::Finalist => {}
            Handling::OtherBinary => {
                job.candidate.builds[0].variant_hash = ContentHash::of(b"another variant")
            }
            Handling::FastRival => {
                let times = job.timed.iter().map(|plan| (plan.name.clone(), RIVAL_NS));
                standing = Standing::new(times.collect(), RIVAL_NS);
            }
            Handling::NewWorker => limits = Some(alone),
            Handling::ShortDeadlines => {
                let deadlines = Deadlines::tiny(self.setup.choice.kind).with_launched(LAUNCHED);
                limits = Some(LaneLimits { deadlines: Some(deadlines), ..alone });
            }
            Handling::LittleOutput => limits = Some(LaneLimits { output_bytes_max: OUTPUT_BYTES, ..alone }),
        }
        let judgement = match limits {
            Some(limits) => {
                session::lane(&DeviceSetup { limits, ..self.setup.clone() }, None)?.evaluate(&job, &standing)
            }
            None => self.lane.evaluate(&job, &standing),
        };
        Ok(GateFinding::of(judgement.verdict, &judgement.gates))
    }

    fn job(&self, row: &GateRow, checks: CheckSet) -> Result<Result<Job, Box<Evaluation>>, CliError> {
        let file = row.task.open(row.fixture)?;
        let kernel = session::kernel_of(&file)?;
        let problems = session::problems(kernel, self.setup.choice.kind, &[])?;
        let mut recipe = session::recipe(kernel, &problems, &self.setup, self.lane.info(), self.seed)?;
        recipe.check.checks = checks;
        let unguarded = FarmOptions { checks, ..self.setup.farm.clone() };
        let compile = |source: &KernelSource| -> Result<CompileOutcome, CliError> {
            let outcome = self.setup.compile(source.clone())?;
            // A source that a guard refused says nothing about a judgement without that guard.
            match outcome.is_ok() || checks.are_all() {
                true => Ok(outcome),
                false => Ok(compile_one(&unguarded, source.clone())?),
            }
        };
        let configuration = configuration(row, &file);
        let genome = file.space.genome(&configuration);
        let genome = genome.ok_or_else(|| CliError::harness("a fixture is not a value of its task"))?;
        // An instrumented build comes with a deep job.
        let deep = row.slips_through();
        let answer = single::job(&recipe, genome, configuration, deep, |prepared: &PreparedKernel| {
            let all = prepared.sources.iter().map(&compile);
            Ok::<_, CliError>(all.collect::<Result<Vec<_>, _>>()?.into_iter().collect())
        })?;
        Ok(answer.map(|(_, job)| job))
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::VerdictKind;

    use super::*;

    #[test]
    fn a_check_is_worth_what_is_lost_without_it() {
        let named = |cause: &str, gate| GateFinding {
            verdict: Verdict::new(VerdictKind::WrongAnswer, "").with_cause(cause),
            gate: Some(gate),
        };
        let pass = GateFinding { verdict: Verdict::pass(), gate: None };
        let with = named("bias", Gate::TinyShapes);
        assert_eq!(with.worth(&pass), CheckWorth::Needed);
        assert_eq!(with.worth(&named("value", Gate::TinyShapes)), CheckWorth::NamesCause);
        assert_eq!(with.worth(&named("bias", Gate::FullShapes)), CheckWorth::RefusesEarly);
        assert_eq!(with.worth(&named("bias", Gate::TinyShapes)), CheckWorth::Nothing);
    }
}
