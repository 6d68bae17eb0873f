//! `evo micro`: a cheap ranking of a space on one problem, from which the next sweep begins.
//!
//! It is a sweep whose variants are only screened. Its study lives in a folder of its own for as long as the command
//! runs: what stays is the ranking, which is a hint and no evidence.

use std::path::PathBuf;

use clap::{Args, Parser};
use evo_protocol::micro::{MICRO_SCHEMA, MicroDevice, MicroRanking, MicroRow};
use evo_space::genome::{Configuration, ContentHash};
use evo_system::scratch::ScratchPlace;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::SweepArgs;
use super::limits::{LimitArgs, RANKING};
use super::one_args::{SandboxMode, jobs};
use super::sweep::{SweepPlan, SweepSubject, execute};
use super::{Answer, Call, CliError, ExitCode, Result, evaluate, output, session};
use crate::budget::{CommandClock, StopReason};
use crate::compile::cache;
use crate::engine::SanitizePlan;
use crate::journal::micro_file::{self, MICRO};
use crate::journal::own_folder::OwnFolder;
use crate::kernel::resolve::resolve;
use crate::kernel::tiny::blocks;
use crate::replay::device::PREFIX;
use crate::report::micro;
use crate::report::width::stdout_width;

#[derive(Debug, Args)]
pub struct MicroArgs {
    /// Space file (TOML or JSON), or the name of an embedded space [default: the folder's only space file, or attention_simt]
    pub space: Option<String>,
    /// Configurations that the ranking keeps
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub top: u16,
    /// Evaluations (`500`), or wall time of the whole command (`90s`, `10m`)
    #[arg(long, value_name = "LIMIT", default_value = "60s", allow_negative_numbers = true)]
    pub budget: String,
    /// Seed of the search and of the inputs [default: random]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// `auto`, `host`, `cuda` or `cuda:INDEX`
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Make the problem from one of these (repeatable) [default: all timed problems]
    #[arg(long = "problem", value_name = "NAME")]
    pub problems: Vec<String>,
    /// Folder for micro_best.json
    #[arg(long = "out", value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Compile processes (default: cores)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = jobs())]
    pub jobs: Option<usize>,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
    #[command(flatten)]
    pub limits: LimitArgs<RANKING>,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Parser)]
struct Screening {
    #[command(flatten)]
    sweep: SweepArgs,
}

impl MicroArgs {
    fn sweep(&self, out: PathBuf) -> SweepArgs {
        let fixed = ["micro", "--finalists=0", "--no-prior", "--no-micro", "--remeasure"];
        SweepArgs {
            space: self.space.clone(),
            budget: Some(self.budget.clone()),
            seed: self.seed,
            device: self.device.clone(),
            problems: self.problems.clone(),
            out,
            jobs: self.jobs,
            sandbox: self.sandbox,
            limits: LimitArgs(self.limits.0.clone()),
            ..Screening::parse_from(fixed).sweep
        }
    }
}

pub fn run(arguments: &MicroArgs, call: &Call) -> Result<Answer> {
    let clock = CommandClock::start();
    arguments.limits.begin_orderly(call)?;
    if arguments.device.starts_with(PREFIX) {
        return Err(CliError::usage("a ranking is measured, and a recording measures nothing")
            .with_hint("name a device: `host`, `cuda` or `cuda:INDEX`"));
    }
    // The next ranking sweeps the folder, should this process be killed.
    let place = ScratchPlace::new(cache::default_dir().join("micro"));
    let made = place.probe().and_then(|()| {
        place.sweep();
        place.folder()
    });
    let scratch =
        made.map_err(|error| CliError::harness(format!("cannot make a folder in the cache: {error}")))?;
    let screening = arguments.sweep(scratch.path().to_path_buf());
    let mut plan = SweepPlan::of(&screening, clock)?;
    // A hint is not looked at, whatever the space demands of results.
    plan.options.sanitize = SanitizePlan::default();
    let device = match &mut plan.subject {
        SweepSubject::Live(live) => {
            live.is_hint = true;
            live.setup.choice.clone()
        }
        SweepSubject::Replayed(_) => return Err(CliError::harness("a ranking was made of a recording")),
    };
    call.chose(Some(&device.spec), plan.seed);
    // From here on others wait: two at once would disturb each other's times.
    let _turn = evaluate::take_turn(&arguments.out, &device)?;
    let done = execute(&plan, call)?;

    let unfilled = || CliError::harness("the ranking has no problem");
    let SweepSubject::Live(live) = &plan.subject else { return Err(unfilled()) };
    let filling = live.filling.get().ok_or_else(unfilled)?;
    let kernel = session::kernel_of(&live.file)?;
    let (header, evaluations) = (done.study.header(), &done.study.history.evaluations);
    let ctas = |own: &Configuration| resolve(kernel, own, &filling.problem).map_or(0, |plan| blocks(&plan));
    let ranking = MicroRanking {
        schema: MICRO_SCHEMA.to_string(),
        kernel: kernel.name.clone(),
        device: MicroDevice::of(&header.device),
        space_hash: header.space_hash.clone(),
        problem: filling.problem.name.clone(),
        tried: micro::tried(evaluations),
        ranked: micro::ranked(evaluations, usize::from(arguments.top), filling.work, ctas),
    };
    let passed = evaluations.iter().filter(|one| one.verdict.is_pass()).count();
    let is_written = !ranking.ranked.is_empty();
    if is_written {
        let out = OwnFolder::create(&arguments.out).map_err(|error| {
            CliError::harness(format!("cannot open `{}`: {error}", arguments.out.display()))
        })?;
        micro_file::write(&out, &ranking).map_err(|error| CliError::while_running(&error))?;
    }
    let file = is_written.then(|| arguments.out.join(MICRO).display().to_string());
    let reason = done.summary.end.reason;
    let exit = match reason {
        StopReason::Interrupted => ExitCode::Interrupted,
        StopReason::DeviceLost => ExitCode::DeviceLost,
        StopReason::Harness => ExitCode::Harness,
        _ if is_written => ExitCode::Done,
        _ => ExitCode::Failed,
    };
    if !call.is_json() {
        output::stdout(&micro::table(&ranking, stdout_width()))?;
        let kept = match &file {
            Some(path) => format!("kept in {path}: the next sweep of this space begins with it"),
            None => "nothing passed, so no ranking was written".to_string(),
        };
        let idle = if filling.is_filled { "" } else { "; it does not fill the device" };
        let (tried, problem) = (ranking.tried, &ranking.problem);
        output::stdout(&format!("{tried} tried on `{problem}`{idle}, {passed} passed\n{kept}\n"))?;
    }
    let brief = MicroBrief { file: file.as_deref(), tried: ranking.tried, passed, ranked: &ranking.ranked };
    let own = MicroAnswer {
        space: &session::space_word(&live.file),
        seed: plan.seed,
        reason,
        work: filling.work,
        is_filled: filling.is_filled,
        measured_on: &ranking.device,
        kernel: &ranking.kernel,
        space_hash: &ranking.space_hash,
        problem: &ranking.problem,
        brief,
        result: brief,
    };
    Ok(Answer::of(exit, &own))
}

/// The answer of `evo micro`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MicroAnswer<'a> {
    #[serde(flatten)]
    brief: MicroBrief<'a>,
    space: &'a str,
    kernel: &'a str,
    seed: u64,
    space_hash: &'a ContentHash,
    measured_on: &'a MicroDevice,
    problem: &'a str,
    work: f64,
    is_filled: bool,
    #[schemars(with = "String")]
    reason: StopReason,
    result: MicroBrief<'a>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
struct MicroBrief<'a> {
    file: Option<&'a str>,
    tried: u64,
    passed: usize,
    ranked: &'a [MicroRow],
}
