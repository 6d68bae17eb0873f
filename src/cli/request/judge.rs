//! One request from its task to its answer: the candidate is found, judged as deep as its level says, and compared. From
//! one request to the next stay a device with its worker, compilers, and the times of baselines. A program that proposes
//! candidates may know of its task what the author of a kernel needs and what a search over the space's parameters has
//! learned, and nothing of how candidates are checked.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evo_protocol::binary::KernelSource;
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::{EnvelopeError, ErrorCode};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::request::{
    CandidateKind, EvaluationLevel, EvaluationRequest, RequestedBaseline, RequestedCandidate, Visibility,
};
use evo_protocol::verdict::VerdictKind;
use evo_search::insight::{Insight, expected_points};
use evo_space::expr::Expr;
use evo_space::genome::ContentHash;
use evo_space::space::SearchSpace;
use serde_json::{Value, json};

use super::answer::{AnswerHead, JudgedRequest, MeasuredBaseline, judged, without_verdict};
use crate::cli::error::{CliErrorKind, ErrorSubject};
use crate::cli::evaluate::{self, EvaluateArgs, EvaluateParts, Recorded, take_log};
use crate::cli::judge::{Aim, AskedCandidate, Judged, OpenedCandidate};
use crate::cli::rival::{self, ChosenRival};
use crate::cli::sanitize::sanitize;
use crate::cli::{
    CliError, DeviceSetup, ExitCode, Result, TestOneArgs, candidate, output, seed, session, words,
};
use crate::compile::WarmCompiler;
use crate::engine::candidate::{
    CandidateRequest, ConfigurationChoice, ResolvedCandidate, TextChoice, resolve,
};
use crate::journal::iterations::{self, IterationLog};
use crate::journal::ladder::output_folder;
use crate::journal::reader::{self, JOURNAL};
use crate::journal::replay::History;
use crate::kernel::render::render;
use crate::kernel::spec::{ArgumentSpec, LaunchSpec, SourceKind, SpaceFile};
use crate::report::judged::Setting;
use crate::request::read::{self, space_beneath};
use crate::request::visible::without_paths;
use crate::supervise::lane::Lane;

const NO_PROFILE: &str = "no profile was asked for";

pub struct Answered {
    pub answer: Value,
    pub kernel: String,
    /// What a process ends with that gives this one answer only.
    pub exit: ExitCode,
}

pub struct RequestSession<'a> {
    pub arguments: &'a EvaluateArgs,
    /// Of the inputs: one for the whole session, so that answers of the reference are computed once.
    seed: u64,
    setup: DeviceSetup,
    warm: Option<WarmTask>,
}

/// A device that has judged a kernel and can judge it again at once.
struct WarmTask {
    /// Of the space's name and its text.
    key: ContentHash,
    lane: Lane,
    baselines: MeasuredBaselines,
}

/// Baselines that were measured by themselves, by name and level; an error is why there is no time.
type MeasuredBaselines = BTreeMap<(String, EvaluationLevel), Result<MeasuredBaseline, String>>;

struct ReadyRequest {
    asked: AskedCandidate,
    level: EvaluationLevel,
    key: ContentHash,
}

/// A judged candidate with the baseline that was measured by itself, or why there is none, and with what was decided.
type JudgedAtLevel = (Judged, Result<MeasuredBaseline, String>, Value);

impl<'a> RequestSession<'a> {
    /// A session whose device is chosen and not open yet.
    pub fn begin(arguments: &'a EvaluateArgs) -> Result<RequestSession<'a>> {
        let one = &arguments.one;
        Aim::Evaluate.check_names(&one.allow_not_run)?;
        let mut setup = session::setup_for(&one.run)?;
        setup.warm = Some(Arc::new(WarmCompiler::start(&setup.farm)?));
        let seed = one.run.seed.map_or_else(seed::random, Ok)?;
        Ok(RequestSession { arguments, seed, setup, warm: None })
    }

    /// How long a request may take, and how far it goes.
    pub fn bounds(&self, request: &EvaluationRequest) -> (Duration, EvaluationLevel) {
        let most = self.arguments.time_limit;
        let limit = request.limits.and_then(|limits| limits.total_s).map(Duration::from_secs_f64);
        let level = match self.arguments.requests.quick {
            true => request.level.unwrap_or(EvaluationLevel::Quick).min(EvaluationLevel::Quick),
            false => request.level.unwrap_or(EvaluationLevel::Confirm),
        };
        (limit.map_or(most, |limit| limit.min(most)), level)
    }

    /// Who reads the answer: the command line decides that it is an agent, or leaves it to the request.
    fn visibility(&self, request: &EvaluationRequest) -> Visibility {
        match self.arguments.requests.visibility {
            Some(Visibility::Agent) => Visibility::Agent,
            flag => request.visibility.or(flag).unwrap_or(Visibility::Agent),
        }
    }

    /// Answers a request: whatever comes of it is an answer.
    pub fn answer(&mut self, request: &EvaluationRequest, head: &AnswerHead) -> Answered {
        let began = Instant::now();
        let (limit, level) = self.bounds(request);
        if request.asks_task() {
            let (one, kind) = (&self.arguments.one, self.setup.choice.kind);
            let answer =
                self.space(request).and_then(|(_, file)| task_answer(&file, one, kind, self.seed, head));
            return match answer {
                Ok(answer) => {
                    let kernel = answer["kernel"].as_str().unwrap_or_default().to_string();
                    Answered { answer, kernel, exit: ExitCode::Done }
                }
                Err(error) => failed(head, error, self.visibility(request), limit),
            };
        }
        let ready = match self.ready(request, level, began + limit) {
            Ok(ready) => ready,
            Err(error) => return failed(head, error, self.visibility(request), limit),
        };
        let kernel = ready.asked.setting.kernel.clone();
        match self.judge(request, head, &ready, began) {
            Ok(answer) => Answered { answer, kernel, exit: ExitCode::Done },
            Err(error) => Answered { kernel, ..failed(head, error, self.visibility(request), limit) },
        }
    }

    /// Compiles a request whose turn comes next, so that the cache has it then.
    pub fn compile_ahead(&self, text: &str) {
        let Ok(request) = read::request(text) else { return };
        let (limit, level) = self.bounds(&request);
        let Some(ready) = self.ready(&request, level, Instant::now() + limit).ok() else { return };
        if matches!(ready.asked.refused(), Ok(None))
            && let (Some(compiler), Some(source)) = (&self.setup.warm, ready.source())
        {
            compiler.compile_ahead(&source);
        }
    }

    fn space(&self, request: &EvaluationRequest) -> Result<(String, SpaceFile)> {
        let one = &self.arguments.one;
        let wanted = request.task.as_ref().and_then(|task| task.space.as_deref());
        let wanted = wanted.filter(|name| !name.trim().is_empty());
        let refused = |text: String, hint: &str| {
            Err(CliError::usage(text).with_hint(hint).about(ErrorSubject::Request))
        };
        let name = match (words::named_space(&one.words).named, wanted) {
            (Some(named), Some(wanted)) if named != wanted => {
                let text = "`task.space` is not the space that this evo was started for";
                return refused(text.to_string(), "leave `task` out");
            }
            (Some(named), _) => named,
            (None, Some(wanted)) => match space_beneath(wanted) {
                Ok(()) => wanted,
                Err((what, hint)) => return refused(format!("`task.space` {what}"), hint),
            },
            (None, None) => {
                let hint = "add \"task\": {\"space\": \"NAME\"}, or start evo with a space";
                return refused("the request names no task".to_string(), hint);
            }
        };
        Ok((name.to_string(), words::space(name, one.run.limits.access())?))
    }

    fn ready(
        &self,
        request: &EvaluationRequest,
        level: EvaluationLevel,
        until: Instant,
    ) -> Result<ReadyRequest> {
        let (space, file) = self.space(request)?;
        let key = ContentHash::of_parts([space.as_bytes(), file.text.as_bytes()]);
        let kernel = session::kernel_of(&file)?.name.clone();
        let mut options = self.arguments.one.clone();
        options.words = vec![space.clone()];
        let setup = self.setup(request, until);
        let wanted = request.candidate.as_ref();
        let candidate = wanted.map_or_else(Default::default, RequestedCandidate::clone);
        let mut resolved =
            resolved(&candidate, file, &options).map_err(|error| error.about(ErrorSubject::Candidate))?;
        options.add_grid(&mut resolved.file);
        session::problems(session::kernel_of(&resolved.file)?, setup.choice.kind, &options.problems)?;
        // A command line that judges the same request again.
        let repro = format!(
            "evo evaluate {} --request REQUEST.json --device {} --seed {}",
            evo_space::text::quote(&space),
            setup.choice.spec,
            self.seed
        );
        let setting = Setting { space, kernel, device: setup.device_name(), seed: self.seed, repro };
        let asked = AskedCandidate { options, candidate: resolved, setup, seed: self.seed, setting };
        Ok(ReadyRequest { asked, level, key })
    }

    fn setup(&self, request: &EvaluationRequest, until: Instant) -> DeviceSetup {
        let limits = request.limits.unwrap_or_default();
        let least = |limit: Option<Duration>, seconds: Option<f64>| {
            limit.into_iter().chain(seconds.map(Duration::from_secs_f64)).min()
        };
        let mut setup = self.setup.clone();
        let deadline = setup.farm.deadline;
        setup.farm.deadline = least(Some(deadline), limits.compile_s).unwrap_or(deadline);
        setup.limits.step_max = least(setup.limits.step_max, limits.run_s);
        setup.limits.until = Some(until);
        setup
    }

    /// A lane for a kernel, warm where the last request had the same one; and whether it is new.
    fn lane(&mut self, ready: &ReadyRequest) -> Result<(WarmTask, bool)> {
        let (key, setup) = (&ready.key, &ready.asked.setup);
        if let Some(mut warm) = self.warm.take().filter(|warm| warm.key == *key) {
            warm.lane.limit(setup.limits.until, setup.limits.step_max);
            return Ok((warm, false));
        }
        let lane = session::lane(setup, Some(ready.asked.kernel()?))?;
        Ok((WarmTask { key: key.clone(), lane, baselines: MeasuredBaselines::new() }, true))
    }

    fn judge(
        &mut self,
        request: &EvaluationRequest,
        head: &AnswerHead,
        ready: &ReadyRequest,
        began: Instant,
    ) -> Result<Value> {
        let asked = &ready.asked;
        let refused = asked.refused()?;
        let is_refused = refused.is_some();
        // Candidates at once would disturb each other's times, in this process or in another one.
        let log = match ready.level.is_timed() && !is_refused {
            true => {
                let out = &asked.options.candidate.out;
                Some(take_log(out, &asked.setting.kernel, &asked.setup.choice)?)
            }
            false => None,
        };
        let rival = rival_of(request, ready, log.as_ref())?;
        let (candidate, baseline, acceptance) = match refused {
            Some(judged) => (judged, Err(String::new()), Value::Null),
            None => {
                let (warm, is_new) = self.lane(ready)?;
                let WarmTask { key, lane, mut baselines } = warm;
                let mut opened = asked.open_on(lane, is_new)?;
                let mut arguments = Cow::Borrowed(self.arguments);
                if request.hypothesis.is_some() {
                    arguments.to_mut().hypothesis.clone_from(&request.hypothesis);
                }
                let beside = rival.as_ref().zip(log.as_ref());
                let judged = ready.judge(&arguments, &mut opened, beside, &mut baselines);
                let OpenedCandidate { lane, .. } = opened;
                if !matches!(&judged, Err(error) if error.kind == CliErrorKind::Device) {
                    self.warm = Some(WarmTask { key, lane, baselines });
                }
                judged?
            }
        };
        let profile = match request.wants_profile() && !is_refused {
            true => {
                // The profiler is to have the device to itself.
                self.warm = None;
                evaluate::profile(asked, &candidate)?
            }
            false => Err(NO_PROFILE.to_string()),
        };
        let judged_request = JudgedRequest {
            request,
            asked,
            level: ready.level,
            visibility: self.visibility(request),
            judged: &candidate,
            problems: candidate.problems(),
            rival: rival.as_ref(),
            baseline,
            acceptance,
            profile,
            wall_ms: began.elapsed().as_secs_f64() * 1e3,
        };
        Ok(judged(head, &judged_request))
    }
}

impl ReadyRequest {
    fn source(&self) -> Option<KernelSource> {
        render(self.asked.kernel().ok()?, &self.asked.candidate.configuration).ok()
    }

    /// Judges the candidate as deep as its level says: `confirm` times it beside its rival, decides, and writes that down;
    /// other levels that time compare with a rival that was measured by itself. The log is held while anything is timed.
    fn judge(
        &self,
        arguments: &EvaluateArgs,
        opened: &mut OpenedCandidate<'_>,
        beside: Option<(&ChosenRival, &IterationLog)>,
        baselines: &mut MeasuredBaselines,
    ) -> Result<JudgedAtLevel> {
        let ReadyRequest { asked, level, .. } = self;
        let aim = Aim::of(*level);
        let confirmed = beside.filter(|_| *level == EvaluationLevel::Confirm);
        let mut judged = opened.judged(aim)?;
        opened.compare(&mut judged, aim, confirmed.map(|(rival, _)| rival))?;
        if *level == EvaluationLevel::Confirm && asked.kernel()?.check.demands_sanitizer {
            sanitize(asked, &mut judged, true)?;
        }
        if let Some((rival, log)) = confirmed {
            let parts = EvaluateParts { arguments, asked, rival, judged: &judged };
            let Recorded { ruling, number, incumbent, .. } =
                parts.record(log, iterations::incumbent(log.folder()))?;
            let acceptance = json!({
                "decision": ruling.decision,
                "why": ruling.why,
                "number": number,
                "accepted": incumbent.is_some_and(|best| best.number == number),
            });
            return Ok((judged, Err(String::new()), acceptance));
        }
        let baseline = match beside.filter(|_| judged.is_right()) {
            Some((rival, _)) => self.baseline(opened, rival, baselines)?,
            None => Err("this level compares with nothing".to_string()),
        };
        Ok((judged, baseline, Value::Null))
    }

    fn baseline(
        &self,
        opened: &mut OpenedCandidate<'_>,
        rival: &ChosenRival,
        baselines: &mut MeasuredBaselines,
    ) -> Result<Result<MeasuredBaseline, String>> {
        let name = (format!("{} {}", rival.name, rival.resolved.configuration), self.level);
        if let Some(known) = baselines.get(&name) {
            return Ok(known.clone());
        }
        let (evaluation, job) = match opened.rival(rival, Aim::of(self.level).depth())? {
            Ok(judged) => judged,
            Err(why) => return Ok(Err(why)),
        };
        let passed = evaluation.verdict.is_pass();
        let measured = evaluation.objective_ns.filter(|_| passed).map(|objective_ns| MeasuredBaseline {
            name: rival.name.clone(),
            objective_ns,
            code: evaluation.code_hash.clone(),
            plans: job.timed,
        });
        let why = || format!("the baseline does not pass its gates: {}", evaluation.verdict.label());
        let found = measured.ok_or_else(why);
        // What a limit cut off may be known the next time.
        if evaluation.verdict.kind != VerdictKind::Interrupted {
            baselines.insert(name, found.clone());
        }
        Ok(found)
    }
}

/// What a request with an error gets. An agent learns what is wrong with its candidate, and of everything else only that
/// it failed.
fn failed(head: &AnswerHead, error: CliError, visibility: Visibility, limit: Duration) -> Answered {
    let is_candidates = error.about == ErrorSubject::Candidate;
    let answered = |answer, exit| Answered { answer, kernel: String::new(), exit };
    if error.kind == CliErrorKind::Limit {
        return answered(out_of_time(head, limit), ExitCode::Done);
    }
    let (status, verdict) = match error.kind {
        CliErrorKind::Usage => ("rejected", None),
        CliErrorKind::Device => ("harness_error", Some(VerdictKind::DeviceLost)),
        _ => ("harness_error", Some(VerdictKind::HarnessError)),
    };
    let mut told = error.envelope();
    if is_candidates && told.code == ErrorCode::BadFile {
        // No file of the caller's is meant.
        told.code = ErrorCode::Usage;
    }
    if visibility == Visibility::Agent {
        output::say(&format!("error: {error}"));
        told.place = None;
        if is_candidates {
            told.message = without_paths(&told.message);
            told.hint = told.hint.as_deref().map(without_paths);
        } else if status != "rejected" || error.about == ErrorSubject::Machine {
            told.message = match status {
                "rejected" => "the task cannot be opened".into(),
                _ => "evo or the machine failed, which says nothing about the candidate".into(),
            };
            told.hint = Some("whoever runs this evo finds the reason on its stderr".into());
        }
    }
    answered(without_verdict(head, status, verdict, &told), error.exit_code())
}

/// The answer where the time was over before there was a verdict.
pub fn out_of_time(head: &AnswerHead, limit: Duration) -> Value {
    let error = EnvelopeError {
        code: ErrorCode::TimedOut,
        message: format!("the limit of {} s for the whole request is used up", limit.as_secs_f64()),
        hint: Some("allow more with `limits.total_s` and `--time-limit`".into()),
        place: None,
    };
    without_verdict(head, "harness_error", Some(VerdictKind::Interrupted), &error)
}

fn resolved(wanted: &RequestedCandidate, file: SpaceFile, one: &TestOneArgs) -> Result<ResolvedCandidate> {
    if let (Some(entry), Some(kernel)) = (&wanted.entry, &file.kernel)
        && !kernel.launches.iter().any(|launch| launch.entry == *entry)
    {
        let entries: Vec<String> =
            kernel.launches.iter().map(|launch| format!("`{}`", launch.entry)).collect();
        let text = format!("the task launches no entry `{entry}`");
        return Err(CliError::usage(text).with_hint(format!("it launches {}", entries.join(", "))));
    }
    let is_template = wanted.kind == CandidateKind::Template;
    let name = if is_template { "candidate.cu.j2" } else { "candidate.cu" };
    let configuration = match &wanted.configuration {
        None => ConfigurationChoice::Default,
        Some(text) => {
            ConfigurationChoice::Text(TextChoice::Given { name: "candidate.configuration", text: text.get() })
        }
    };
    let launches = wanted.launch_text();
    let request = CandidateRequest {
        configuration,
        source: wanted.source().map(|text| TextChoice::Given { name, text }),
        launch: launches.as_deref().map(|text| TextChoice::Given { name: "candidate.launches", text }),
        out: &one.candidate.out,
        study: None,
        device: candidate::kind_of(&one.run.device),
        render_apart: one.run.limits.access().render_apart,
    };
    resolve(file, &request).map_err(candidate::error)
}

/// What the candidate is compared with; nothing at levels without a time.
fn rival_of(
    request: &EvaluationRequest,
    ready: &ReadyRequest,
    log: Option<&IterationLog>,
) -> Result<Option<ChosenRival>> {
    let Some(log) = log else { return Ok(None) };
    let usual = match ready.level {
        EvaluationLevel::Confirm => RequestedBaseline::Incumbent,
        _ => RequestedBaseline::Default,
    };
    let options = &ready.asked.options;
    Ok(Some(match request.baseline.as_ref().unwrap_or(&usual) {
        RequestedBaseline::Default => rival::named(options, "@baseline")?,
        RequestedBaseline::Incumbent => {
            rival::best(options, log.folder(), iterations::incumbent(log.folder()))?
        }
        RequestedBaseline::Hash(hash) => rival::named(options, &format!("@{hash}")).map_err(|_| {
            CliError::usage(format!("no study here has an evaluation `{hash}`")).about(ErrorSubject::Request)
        })?,
    }))
}

const EXPECTED: usize = 10;

fn task_answer(
    file: &SpaceFile,
    one: &TestOneArgs,
    kind: DeviceKind,
    seed: u64,
    head: &AnswerHead,
) -> Result<Value> {
    let kernel = session::kernel_of(file)?;
    let problems = session::problems(kernel, kind, &one.problems)?;
    let timed = problems.iter().filter(|problem| problem.timed);
    let parameters = file.space.parameters().iter().map(|parameter| {
        json!({
            "name": parameter.name.to_string(), "values": parameter.values, "default": parameter.default_value(),
        })
    });
    let study = output_folder(&one.candidate.out)?
        .and_then(|out| out.folder(&format!("{}-{}", kernel.name, kind.as_str())).ok())
        .filter(|folder| folder.has_file(JOURNAL))
        .map(|folder| reader::read_in(&folder))
        .transpose()?;
    let mut answer = json!({
        "schema": "evo.evaluate.task",
        "version": 1,
        "id": null,
        "status": "done",
        "kernel": kernel.name,
        "source_kind": match kernel.source.kind {
            SourceKind::Template => "template",
            SourceKind::Plain | SourceKind::Given => "cuda",
        },
        "source": kernel.source.text,
        "arguments": kernel.arguments.iter().map(argument).collect::<Vec<_>>(),
        "launches": kernel.launches.iter().map(launch).collect::<Vec<_>>(),
        "parameters": parameters.collect::<Vec<_>>(),
        "problems": timed.map(|problem| json!({ "name": problem.name, "sizes": problem.sizes })).collect::<Vec<_>>(),
        "known": study.map(|journal| known(&file.space, &History::replay(journal).evaluations, seed)),
    });
    head.put_on(&mut answer);
    Ok(answer)
}

fn known(space: &SearchSpace, evaluations: &[Evaluation], seed: u64) -> Value {
    let insight = Insight::of(space, evaluations, seed);
    let best = insight.best.as_ref().map(|best| best.number);
    let best = evaluations.iter().find(|evaluation| Some(evaluation.number) == best);
    let mut known = json!(insight);
    known["best_configuration"] = json!(best.map(|best| &best.configuration));
    known["expected"] = json!(expected_points(space, evaluations, seed, EXPECTED));
    known
}

fn argument(argument: &ArgumentSpec) -> Value {
    let name = argument.name();
    match argument {
        ArgumentSpec::Buffer(buffer) => json!({
            "name": name, "kind": "buffer", "dtype": buffer.dtype.as_str(), "role": buffer.role,
            "shape": texts(&buffer.shape),
        }),
        ArgumentSpec::Scalar(scalar) => {
            json!({ "name": name, "kind": "scalar", "dtype": scalar.dtype.as_str() })
        }
        ArgumentSpec::TensorMap(_) => json!({ "name": name, "kind": "tensor_map" }),
    }
}

fn launch(launch: &LaunchSpec) -> Value {
    json!({
        "entry": launch.entry, "grid": texts(&launch.grid), "block": texts(&launch.block),
        "shared": launch.shared_bytes.as_ref().map(Expr::text),
    })
}

fn texts(expressions: &[Expr]) -> Vec<&str> {
    expressions.iter().map(Expr::text).collect()
}
