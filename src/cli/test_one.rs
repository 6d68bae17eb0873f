//! The commands whose answer is a candidate's verdict: `evo test-one`, every gate with what each saw; `evo test`, the same
//! without timing; `evo benchmark`, with its time beside the default configuration's; and `evo build`, which compiles it. A
//! candidate that passed on a GPU is then looked at by compute-sanitizer: accesses out of bounds and races may leave every
//! answer right.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use evo_protocol::device::DeviceKind;
use evo_protocol::known::Known;
use evo_protocol::request::EvaluationLevel;

use super::candidate::named;
use super::compile::{self, CompileTarget, CompileTask};
use super::judge::{self, Aim, BASELINE, Bench, JobDepth, OtherPoint, VerdictEnd};
use super::one_args::{TestOneArgs, choice};
use super::sanitize::sanitize;
use super::{Answer, Call, CliError, Result, candidate, session};
use crate::engine::single::{self, AgainstBaseline, Single};
use crate::report::judged::{BenchmarkAnswer, BenchmarkBaseline, BenchmarkBrief, NOT_PASSED};
use crate::supervise::job::JobReach;

pub fn run(arguments: &LevelArgs, call: &Call) -> Result<Answer> {
    let aim = match arguments.level {
        EvaluationLevel::Tiny => Aim::Tiny,
        EvaluationLevel::Quick => Aim::Quick,
        _ => Aim::Whole,
    };
    judged(&arguments.judge, call, aim)
}

pub fn test(arguments: &JudgeArgs, call: &Call) -> Result<Answer> {
    judged(arguments, call, Aim::Gates)
}

fn judged(arguments: &JudgeArgs, call: &Call, aim: Aim) -> Result<Answer> {
    let asked = judge::ask(&arguments.one, call, aim)?;
    let duty = arguments.sanitize.duty(asked.setup.choice.kind, asked.kernel()?.check.demands_sanitizer)?;
    let mut tried = judge::run(asked, call, aim, |_| Ok(()))?;
    if let Some(is_demanded) = duty {
        sanitize(&tried.asked, &mut tried.judged, is_demanded)?;
    }
    tried.answer(call)
}

pub fn benchmark(arguments: &TestOneArgs, call: &Call) -> Result<Answer> {
    let tried = judge::run(judge::ask(arguments, call, Aim::Times)?, call, Aim::Times, against_default)?;
    let (kernel, space) = (tried.asked.kernel()?, &tried.asked.candidate.file.space);
    let compared = match &tried.found {
        Some(Ok(compared)) => Ok(&compared.problems[..]),
        Some(Err(why)) => Err(why.clone()),
        None => Err(NOT_PASSED.to_string()),
    };
    let baseline = tried.found.as_ref().map(|compared| BenchmarkBaseline {
        configuration: space.configuration(&space.default_genome()),
        method: "paired, A B B A in fresh processes",
        noise_floor_ratio: match compared {
            Ok(compared) => Known::number(compared.noise_floor, "it could not be measured"),
            Err(why) => Known::Unknown(why.clone()),
        },
    });
    let measured = tried.judged.measured(kernel, compared);
    let figures = measured.figures();
    let is_compared = figures.speedup_vs_baseline.value().is_some();
    let absent = (tried.judged.findings.correct && !is_compared).then_some(BASELINE);
    let VerdictEnd { answer, fields, brief } = tried.ended(call, absent, &figures.text())?;
    Ok(answer.with(&BenchmarkAnswer {
        fields,
        problems: measured.problems(),
        baseline: Known::of(baseline, NOT_PASSED),
        result: BenchmarkBrief { brief, figures: figures.clone() },
        figures,
    }))
}

/// The times of a judged candidate beside those of the space's default configuration, or why there are none.
pub fn against_default(bench: &mut Bench<'_>) -> Result<Result<AgainstBaseline, String>> {
    const DEFAULT: &str = "the default configuration";
    let space = &bench.file.space;
    let (genome, configuration) = (space.default_genome(), space.configuration(&space.default_genome()));
    let point = OtherPoint { what: DEFAULT, file: bench.file, genome, configuration };
    let depth = JobDepth { reach: JobReach::Whole, is_timed: true };
    Ok(match point.judged(bench.recipe, &bench.asked.setup, bench.lane, depth)? {
        Ok((Single { evaluation, .. }, baseline)) => match evaluation.may_rank() {
            true => Ok(single::compare(bench.lane, &baseline, bench.job, bench.job.timed.len())),
            false => Err(format!("{DEFAULT} does not pass its gates: {}", evaluation.verdict.label())),
        },
        Err(refused) => Err(refused.why),
    })
}

/// Runs `evo build`: the same object as `evo compile`.
pub fn build(arguments: &TestOneArgs, call: &Call) -> Result<Answer> {
    let TestOneArgs { words, candidate, run, .. } = arguments;
    run.limits.begin(call)?;
    let resolved = candidate::resolve(words, candidate, &run.device, run.limits.access())?;
    session::candidate(call, &resolved);
    let setup = session::setup(&run.device)?;
    call.know(|facts| facts.device = Some(setup.device_name()));
    let order = CompileTask {
        file: &resolved.file,
        target: CompileTarget::parse(&setup.choice.arch)?,
        genome: Some(resolved.genome.clone()),
        genomes: Box::new(std::iter::empty()),
        jobs: Some(1),
        deadline: run.limits.compile,
    };
    compile::carry_out(order, call)
}

/// `evo test-one`
#[derive(Clone, Debug, Args)]
pub struct LevelArgs {
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// How deep: compile it, small shapes alone, all gates in brief, all gates in full, or also beside the best so far
    #[arg(long, value_parser = level(), default_value = "full", value_name = "compile|tiny|quick|full|confirm", hide_possible_values = true, conflicts_with_all = ["against", "baseline", "profile", "invert"])]
    pub level: EvaluationLevel,
    /// Compare with this candidate of the same space, and say whether this one takes its place (`evo evaluate`)
    #[arg(long, value_name = "CANDIDATE", value_parser = named)]
    pub against: Option<String>,
    /// Compare with this committed baseline, and fail where it is slower or wrong (`evo gate`)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "profile", "invert"])]
    pub baseline: Option<PathBuf>,
    /// Read a profiler's counters and name the bottleneck (`evo profile`)
    #[arg(long, conflicts_with = "invert")]
    pub profile: bool,
    /// Harm it on purpose, one resource at a time, and rank what binds it (`evo invert`)
    #[arg(long, conflicts_with = "against")]
    pub invert: bool,
}

fn level() -> impl TypedValueParser<Value = EvaluationLevel> {
    choice(EvaluationLevel::ALL.iter().map(|level| (level.as_str(), *level)))
}

/// `evo test-one` and `evo test`
#[derive(Clone, Debug, Args)]
pub struct JudgeArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Whether compute-sanitizer looks at a candidate that passed on a GPU: `auto` where it is found, `on` demands its answer
    #[arg(long, value_enum, default_value_t, value_name = "auto|on|off", hide_possible_values = true)]
    pub sanitize: SanitizeCandidate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SanitizeCandidate {
    /// Where it is found.
    #[default]
    Auto,
    /// Without its answer nothing passes.
    On,
    /// Never.
    Off,
}

impl SanitizeCandidate {
    /// Whether the sanitizer's answer is demanded, on a kind of device and for a space that may demand it; nothing where the
    /// sanitizer does not look. Refused where the user does not want what the space file demands.
    pub fn duty(self, kind: DeviceKind, is_required: bool) -> Result<Option<bool>> {
        match self {
            SanitizeCandidate::Off if is_required => Err(CliError::usage(
                "`--sanitize off`: the space file demands the sanitizer (`[check] sanitize = \"required\"`)",
            )
            .with_hint("leave the option out, or say `--allow-not-run sanitize`")),
            SanitizeCandidate::Off => Ok(None),
            SanitizeCandidate::On => Ok(Some(true)),
            SanitizeCandidate::Auto => Ok((is_required || kind == DeviceKind::Cuda).then_some(is_required)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_runs_where_it_can_and_is_demanded_where_somebody_says_so() {
        let check = |choice: SanitizeCandidate, kind, is_required, expected: Option<Option<bool>>| {
            let duty = choice.duty(kind, is_required).ok();
            assert_eq!(duty, expected, "{choice:?} {kind:?} {is_required}");
        };
        let (host, cuda) = (DeviceKind::Host, DeviceKind::Cuda);
        check(SanitizeCandidate::Auto, cuda, false, Some(Some(false)));
        check(SanitizeCandidate::Auto, host, false, Some(None));
        check(SanitizeCandidate::Auto, host, true, Some(Some(true)));
        check(SanitizeCandidate::On, host, false, Some(Some(true)));
        check(SanitizeCandidate::Off, cuda, false, Some(None));
        check(SanitizeCandidate::Off, cuda, true, None);
    }
}
