//! `evo sanitize`: one candidate under compute-sanitizer. The checks are made by `inspect::sanitize`; this brings
//! candidate, device and tool together and says how it ended.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::TypedValueParser;
use evo_device::host::room;
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::{EnvelopeStatus, LimitName};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::known::Known;
use evo_protocol::verdict::{GateState, Verdict};
use evo_space::genome::Configuration;
use serde_json::json;

use super::judge::{self, Aim, AskedCandidate, Judged, SANITIZE, compile};
use super::one_args::{SandboxMode, TestOneArgs, choice};
use super::{Answer, Call, CliError, DeviceSetup, ExitCode, Result, session};
use crate::engine::ports::{JobOrder, Recipe};
use crate::inspect::sanitize::{
    LookOrder, SanitizerCheck, SanitizerLook, SanitizerOutcome, look, not_on_host,
};
use crate::inspect::twin::{HostLook, TwinAnswer};
use crate::kernel::spec::SpaceFile;
use crate::report::envelope::ResultAlone;
use crate::report::sanitize::{self, SanitizeResult, Sanitized};
use crate::supervise::job::{Job, Standing};
use crate::tool::{FoundTool, ToolFailure, ToolKind, ToolPlaces, ToolState, locate};

pub fn run(arguments: &SanitizeArgs, call: &Call) -> Result<Answer> {
    let asked = judge::ask(&arguments.one, call, Aim::Sanitize)?;
    if let Some(judged) = asked.refused()? {
        return refused(judged.evaluation(), call);
    }
    let kind = asked.setup.choice.kind;
    let tool = tool_on(kind, arguments.program.as_deref());
    let tool = tool.as_ref();
    let checks = match arguments.tool {
        Some(checks) => checks.to_vec(),
        None => asked.kernel()?.check.sanitizers.clone(),
    };
    let twin = HostTwin::wanted(&asked.candidate.file, asked.setup.sandbox, asked.seed);
    let mut setting = asked.setting.clone();
    let look = match (tool, kind) {
        // Nothing to wait for: without a tool there is no answer on a GPU.
        (Err(failure), DeviceKind::Cuda) => {
            look_beside(twin.as_ref(), &asked, || SanitizerLook::without(&checks, failure))
        }
        _ => {
            let opened = asked.open(call)?;
            let job = match opened.job(false)? {
                Ok((_, job)) => job,
                Err(evaluation) => return refused(&evaluation, call),
            };
            setting.device.clone_from(&opened.lane.info().name);
            // Its process holds the device, which the tool's is to have for itself.
            drop(opened);
            look_at(&asked, &job, twin.as_ref(), tool, &checks, false)?
        }
    };
    let sanitized = Sanitized { setting: &setting, tool, look: &look };
    let timed_out = |outcome: &SanitizerOutcome| {
        outcome.failure.as_ref().is_some_and(|failure| failure.state == ToolState::TimedOut)
    };
    if look.outcomes.iter().any(timed_out) {
        call.hit(LimitName::Tool);
    }
    call.show(&sanitize::text(&sanitized))?;
    Ok(answer(&sanitized, &arguments.one.allow_not_run))
}

/// Looks for faults in a candidate that passed; a finding is its verdict. Where nobody demands it, the small shapes are
/// enough. An answer that was demanded and is missing counts among the gates that did not run.
pub fn sanitize(asked: &AskedCandidate, judged: &mut Judged, is_demanded: bool) -> Result<()> {
    let may_pass = judged.findings.correct && !judged.single.lost;
    let Some(job) = judged.job.as_ref().filter(|_| may_pass) else { return Ok(()) };
    let kind = asked.setup.choice.kind;
    let twin = HostTwin::beside(kind, &asked.candidate.file, asked.setup.sandbox, asked.seed);
    let (tool, checks) = (tool_on(kind, None), &asked.kernel()?.check.sanitizers);
    let look = look_at(asked, job, twin.as_ref(), tool.as_ref(), checks, !is_demanded)?;
    let (report, verdict) = (look.report(), look.verdict());
    judged.single.evaluation.sanitized(&report, verdict.as_ref());
    if let Some(verdict) = verdict {
        judged.findings.correct = false;
        judged.findings.not_compared = Some(format!("the sanitizer found a fault: {}", verdict.label()));
        judged.score = None;
    } else if is_demanded && report.state == GateState::NotRun {
        let is_allowed = asked.is_allowed(SANITIZE);
        let names = if is_allowed { &mut judged.allowed } else { &mut judged.findings.missing };
        names.push(SANITIZE.to_string());
    }
    Ok(())
}

/// The tool on a kind of device, or why there is none. `program` is where the user says that it is.
pub fn tool_on(kind: DeviceKind, program: Option<&Path>) -> Result<FoundTool, ToolFailure> {
    match kind {
        DeviceKind::Cuda => locate(ToolKind::ComputeSanitizer, program, &ToolPlaces::of_environment()),
        DeviceKind::Host | DeviceKind::Replay => Err(not_on_host()),
    }
}

fn look_at<T: HostLook>(
    asked: &AskedCandidate,
    job: &Job,
    twin: Option<&T>,
    tool: Result<&FoundTool, &ToolFailure>,
    checks: &[SanitizerCheck],
    small_only: bool,
) -> Result<SanitizerLook> {
    let order = LookOrder {
        kind: asked.setup.choice.kind,
        tool,
        checks,
        options: &asked.lane_options()?,
        job,
        small_only,
        limit: asked.options.run.limits.tool,
        within: None,
    };
    Ok(look_beside(twin, asked, || look(&order)))
}

/// Looks at a candidate by tool while its twin is looked at; each waits for processes of its own.
fn look_beside<T: HostLook>(
    twin: Option<&T>,
    asked: &AskedCandidate,
    by_tool: impl FnOnce() -> SanitizerLook,
) -> SanitizerLook {
    let limit = asked.options.run.limits.tool;
    thread::scope(|scope| {
        let seen = twin.map(|twin| scope.spawn(move || twin.look(&asked.candidate.configuration, limit)));
        let look = by_tool();
        let twin = seen.map(|seen| seen.join().unwrap_or_else(|panic| resume_unwind(panic)));
        look.beside(twin)
    })
}

fn refused(evaluation: &Evaluation, call: &Call) -> Result<Answer> {
    let verdict = &evaluation.verdict;
    if verdict.is_trouble() {
        return Err(CliError::harness(format!("the variant could not be compiled: {}", verdict.message)));
    }
    let label = verdict.label();
    call.show(&format!("verdict: {label}: {}\nmore: `evo explain {label}`\n", verdict.message))?;
    let result = SanitizeResult {
        state: GateState::NotRun,
        verdict: Known::Is(verdict.label()),
        message: Some(verdict.message.clone()),
        findings: json!([]),
        look: None,
    };
    Ok(Answer::of(ExitCode::Failed, &ResultAlone { result }))
}

/// How it ended. Without an answer the command has failed, unless that was allowed.
fn answer(sanitized: &Sanitized<'_>, allowed: &[String]) -> Answer {
    let exit = match sanitized.look.state() {
        GateState::Pass => ExitCode::Done,
        GateState::Fail | GateState::NotRun => ExitCode::Failed,
    };
    let answer = Answer::of(exit, &ResultAlone { result: sanitize::result(sanitized) });
    if sanitized.look.state() != GateState::NotRun {
        return answer;
    }
    let error = match sanitized.failure() {
        Some(failure) => CliError::from(failure.clone()),
        None => CliError::harness("no check was made"),
    };
    let answer = answer.despite(error);
    match allowed.iter().any(|name| name == SANITIZE) {
        true => Answer {
            exit: ExitCode::Done,
            status: EnvelopeStatus::NotRun,
            allowed_not_run: vec![SANITIZE.to_string()],
            ..answer
        },
        false => answer,
    }
}

#[derive(Debug, Args)]
pub struct SanitizeArgs {
    /// Which check to make, or all, one after the other [default: those of the space file, or all]
    #[arg(long, value_parser = checks())]
    pub tool: Option<&'static [SanitizerCheck]>,
    /// The program compute-sanitizer, or its folder [default: looked for]
    #[arg(long = "compute-sanitizer", value_name = "PATH")]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub one: TestOneArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SanitizeWhen {
    /// The baseline and the finalists
    Finalists,
    /// Also the best of every so many generations
    Every(NonZeroU32),
    /// Nothing
    Off,
}

/// `finalists`, `every=5` or `off`.
pub fn sanitize_when(text: &str) -> Result<SanitizeWhen, String> {
    let every = text.strip_prefix("every=").and_then(|count| count.parse::<NonZeroU32>().ok());
    match (text, every) {
        ("finalists", _) => Ok(SanitizeWhen::Finalists),
        ("off", _) => Ok(SanitizeWhen::Off),
        (_, Some(every)) => Ok(SanitizeWhen::Every(every)),
        _ => Err("it is not `finalists`, `every=N` with N of at least 1, or `off`".to_string()),
    }
}

fn checks() -> impl TypedValueParser<Value = &'static [SanitizerCheck]> {
    let single = SanitizerCheck::ALL.iter().map(|check| (check.as_str(), std::slice::from_ref(check)));
    choice(single.chain([("all", SanitizerCheck::ALL)]))
}

const HOST: &str = "host";

/// The host device beside a GPU. `F` holds a space file with a kernel.
#[derive(Debug)]
pub struct HostTwin<F> {
    file: F,
    setup: DeviceSetup,
    seed: u64,
}

impl<F: Deref<Target = SpaceFile> + Send + Sync> HostTwin<F> {
    /// For a device of this kind; none where it has none, or the space file does not want it.
    pub fn beside(kind: DeviceKind, file: F, sandbox: SandboxMode, seed: u64) -> Option<HostTwin<F>> {
        (kind == DeviceKind::Cuda).then(|| HostTwin::wanted(file, sandbox, seed)).flatten()
    }

    /// For any device; none where the space file does not want it.
    pub fn wanted(file: F, sandbox: SandboxMode, seed: u64) -> Option<HostTwin<F>> {
        let is_wanted = file.kernel.as_ref().is_some_and(|kernel| kernel.check.has_host_twin);
        // Without a C++ compiler its look says so.
        let setup = session::setup(HOST).ok().filter(|_| is_wanted)?.fenced(sandbox);
        Some(HostTwin { file, setup, seed })
    }

    fn judged(&self, configuration: &Configuration, limit: Duration) -> Result<TwinAnswer> {
        let mut setup = self.setup.clone();
        setup.limits.until = Some(Instant::now() + limit);
        // Who asked for a GPU did not ask for native code, unless `--sandbox off` says so.
        if setup.sandbox != SandboxMode::Off {
            let report = room::fences(&session::rooms(setup.sandbox)?)?;
            if !report.keeps_in() {
                return Ok(TwinAnswer::Silent(format!(
                    "its fences do not hold here ({report}), and `--sandbox off` would do without them"
                )));
            }
        }
        let kernel = session::kernel_of(&self.file)?;
        let mut lane = session::lane(&setup, Some(kernel))?;
        // Its own problems may be far too large for a processor; shapes are derived without them too.
        let recipe = session::recipe(kernel, &[], &setup, lane.info(), self.seed)?;
        let refused = |verdict: &Verdict| {
            let (label, first) = (verdict.label(), verdict.message.lines().next().unwrap_or_default());
            Ok(TwinAnswer::Silent(format!("it cannot be run there: {label}: {first}")))
        };
        let prepared = match recipe.prepare(configuration) {
            Ok(prepared) => prepared,
            Err(failure) => return refused(&failure.verdict),
        };
        let Some(instrumented) = recipe.instrumented(&prepared) else {
            return Ok(TwinAnswer::Silent("there is no instrumented build".to_string()));
        };
        let (plain, watched) = thread::scope(|scope| {
            let watched = scope.spawn(|| compile(&setup, &instrumented));
            let plain = compile(&setup, &prepared);
            (plain, watched.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let binaries = match plain? {
            Ok(binaries) => binaries,
            Err(verdict) => return refused(&verdict),
        };
        let variant_hash = configuration.hash();
        let order = JobOrder { number: 0, label: configuration.to_string(), variant_hash, deep: None };
        let mut job = match recipe.job(&prepared, &binaries, order) {
            Ok(job) => job.watched(),
            Err(failure) => return refused(&failure.verdict),
        };
        if job.tiny.is_empty() {
            return Ok(TwinAnswer::Silent(format!("no small shape: {}", job.tiny_notes.absent)));
        }
        recipe.add_instrumented(&mut job, &watched?);
        Ok(TwinAnswer::of(&lane.evaluate(&job, &Standing::default())))
    }
}

impl<F: Deref<Target = SpaceFile> + fmt::Debug + Send + Sync> HostLook for HostTwin<F> {
    fn look(&self, configuration: &Configuration, limit: Duration) -> TwinAnswer {
        // Whatever keeps the host from an answer says nothing about the candidate.
        self.judged(configuration, limit).unwrap_or_else(|error| TwinAnswer::Silent(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evo_protocol::envelope::ErrorCode;

    use super::*;
    use crate::inspect::sanitize::{SanitizerCheck, SanitizerFinding};
    use crate::report::judged::Setting;

    fn outcome(state: GateState, failure: Option<ToolState>) -> SanitizerOutcome {
        let failure = failure.map(|state| ToolFailure::new(state, "why").with_hint("do this"));
        let none = ToolFailure::new(ToolState::Broken, "");
        let found =
            SanitizerFinding { tool: "memcheck".into(), ..SanitizerFinding::of_worker("Precise", "a write") };
        SanitizerOutcome {
            state,
            failure,
            findings: if state == GateState::Fail { vec![found] } else { Vec::new() },
            elapsed: Duration::from_secs(1),
            ..SanitizerOutcome::not_run(SanitizerCheck::Memcheck, none)
        }
    }

    fn answered(outcomes: &[SanitizerOutcome], own: &[SanitizerFinding], allowed: &[&str]) -> Answer {
        let [space, kernel, device, repro] = [(); 4].map(|()| String::new());
        let failure = not_on_host();
        let look =
            SanitizerLook { outcomes: outcomes.to_vec(), own: own.to_vec(), ..SanitizerLook::default() };
        let setting = Setting { space, kernel, device, seed: 1, repro };
        let sanitized = Sanitized { setting: &setting, tool: Err(&failure), look: &look };
        assert!(sanitize::text(&sanitized).contains("sanitize: "));
        answer(&sanitized, &allowed.iter().map(|name| name.to_string()).collect::<Vec<_>>())
    }

    fn end(answer: &Answer) -> (ExitCode, EnvelopeStatus, Option<ErrorCode>) {
        (answer.exit, answer.status, answer.error.as_ref().map(CliError::code))
    }

    use GateState::{Fail, NotRun, Pass};

    #[test]
    fn every_state_of_a_tool_without_an_answer_is_not_run() {
        let not_run = |exit, code| (exit, EnvelopeStatus::NotRun, Some(code));
        for (state, code) in [
            (ToolState::Missing, ErrorCode::ToolMissing),
            (ToolState::Refused, ErrorCode::ToolRefused),
            (ToolState::Incompatible, ErrorCode::ToolIncompatible),
            (ToolState::Busy, ErrorCode::ToolBusy),
            (ToolState::TimedOut, ErrorCode::TimedOut),
            (ToolState::Broken, ErrorCode::ToolBroken),
        ] {
            let outcomes = [outcome(Pass, None), outcome(NotRun, Some(state)), outcome(Pass, None)];
            assert_eq!(end(&answered(&outcomes, &[], &[])), not_run(ExitCode::Failed, code));
            let allowed = answered(&outcomes, &[], &["sanitize"]);
            assert_eq!(end(&allowed), not_run(ExitCode::Done, code));
            assert_eq!(allowed.allowed_not_run, ["sanitize"]);
        }
        // Without any check there is no pass either; all checks together pass.
        let none = end(&answered(&[], &[], &[]));
        assert_eq!(none, not_run(ExitCode::Failed, ErrorCode::ToolIncompatible));
        let all = end(&answered(&[outcome(Pass, None), outcome(Pass, None)], &[], &[]));
        assert_eq!(all, (ExitCode::Done, EnvelopeStatus::Pass, None));
    }

    #[test]
    fn a_finding_fails_whatever_else_did_not_run() {
        let fails = |outcomes: &[SanitizerOutcome], own: &[SanitizerFinding]| {
            let answer = answered(outcomes, own, &["sanitize"]);
            assert_eq!(end(&answer), (ExitCode::Failed, EnvelopeStatus::Fail, None));
            answer.result.unwrap()
        };
        let found = fails(&[outcome(NotRun, Some(ToolState::Broken)), outcome(Fail, None)], &[]);
        assert_eq!((&found["state"], &found["verdict"]), (&json!("fail"), &json!("sanitizer:memcheck")));
        assert_eq!((&found["cause"], &found["class"]), (&json!("memcheck"), &json!("wrong")));
        let own = [SanitizerFinding::of_worker("crash_trap", "trap")];
        let found = fails(&[outcome(NotRun, Some(ToolState::Incompatible))], &own);
        assert_eq!((&found["verdict"], &found["findings"][0]["tool"]), (&json!("crash_trap"), &json!("evo")));
    }

    #[test]
    fn generations_are_counted_from_one() {
        let every = |count| SanitizeWhen::Every(NonZeroU32::new(count).unwrap());
        assert_eq!(sanitize_when("every=5"), Ok(every(5)));
        assert_eq!(sanitize_when("off"), Ok(SanitizeWhen::Off));
        assert!(sanitize_when("").unwrap_err().contains("every=N"));
    }
}
