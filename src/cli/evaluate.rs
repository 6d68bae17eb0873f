//! `evo evaluate`: one candidate through every gate, its time, its time beside a rival's in fresh processes, and what
//! to do with it. Each evaluation leaves a line in `iterations.jsonl`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use evo_device::probe::DeviceChoice;
use evo_protocol::envelope::{EnvelopeStatus, LimitName};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::known::{Known, told};
use evo_protocol::request::Visibility;
use evo_protocol::verdict::VerdictKind;
use evo_space::text::quote;
use serde_json::{Value, json};

use super::candidate::{is_looked_up, named};
use super::judge::{self, Aim, AskedCandidate, Judged, note_limit};
use super::limits::total;
use super::one_args::{TestOneArgs, choice};
use super::profile::{CounterOrder, look};
use super::rival::{self, ChosenRival};
use super::sanitize::sanitize;
use super::{Answer, Call, CliError, ExitCode, Result, output, words};
use crate::engine::candidate::{CandidateKind, ResolvedCandidate};
use crate::journal::error::JournalError;
use crate::journal::iterations::{
    self, ITERATION, ITERATIONS, Incumbent, Iteration, IterationCandidate, IterationLog, IterationProblem,
};
use crate::journal::line::numbered;
use crate::journal::lock::DeviceTurn;
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::now;
use crate::kernel::load::candidate as load;
use crate::kernel::render::render;
use crate::regular;
use crate::report::envelope::ResultAlone;
use crate::report::judged::{self, EvaluateAnswer, Evaluated, Figures, RivalSaid};
use crate::report::profile::ProfileResult;
use crate::request::emit::EmitForm;
use crate::timing::acceptance::{AcceptanceRule, RivalDecision, Ruling, decide};
use crate::tool::{GIT_PATIENCE, ToolPlaces, git_state};

pub fn run(arguments: &EvaluateArgs, call: &Call) -> Result<Answer> {
    let mut one = arguments.one.clone();
    one.run.limits.0.time_limit = Some(arguments.time_limit);
    // `--study` may be meant for the rival alone.
    if arguments.against.as_deref().is_some_and(is_looked_up)
        && !one.words.iter().any(|word| is_looked_up(word))
    {
        one.candidate.study = None;
    }
    let asked = judge::ask(&one, call, Aim::Evaluate)?;
    let named =
        arguments.against.as_deref().map(|against| rival::named(&arguments.one, against)).transpose()?;
    let kernel = asked.kernel()?;
    let is_demanded = arguments.sanitize || kernel.check.demands_sanitizer;
    // From here on others wait: two candidates at once would disturb each other's times.
    let log = take_log(&one.candidate.out, &kernel.name, &asked.setup.choice)?;
    let incumbent = iterations::incumbent(log.folder());
    let rival = match named {
        Some(named) => named,
        None => rival::best(&one, log.folder(), incumbent.clone())?,
    };
    let (mut judged, _) = asked.on_device(call, Aim::Evaluate, |opened, judged| {
        if judged.job.is_some() {
            call.know_so_far(so_far(judged.evaluation()));
        }
        opened.compare(judged, Aim::Evaluate, Some(&rival))
    })?;
    if is_demanded {
        sanitize(&asked, &mut judged, true)?;
    }
    let bottleneck = match arguments.profile {
        false => Known::Unknown("`--profile` asks for it".into()),
        true => match profile(&asked, &judged)? {
            Ok(told) => Known::of(told["bottleneck"].as_str().map(String::from), "the profile names none"),
            Err(why) => Known::Unknown(why),
        },
    };
    let parts = EvaluateParts { arguments, asked: &asked, rival: &rival, judged: &judged };
    let recorded = parts.record(&log, incumbent)?;
    answer(&parts, &recorded, bottleneck, call)
}

fn answer(
    parts: &EvaluateParts<'_>,
    recorded: &Recorded,
    bottleneck: Known<String>,
    call: &Call,
) -> Result<Answer> {
    let EvaluateParts { arguments, asked, judged, rival } = parts;
    let (evaluation, findings, ruling) = (judged.evaluation(), &judged.findings, &recorded.ruling);
    note_limit(call, &evaluation.verdict, &arguments.one);
    let why = judged.why_not_compared();
    let result = Evaluated {
        evaluation,
        correct: judged.is_right(),
        ruling: Some(ruling),
        score: judged.score,
        not_compared: &why,
        problems: judged.problems(),
        bottleneck,
        next_step: recorded.next_step.clone(),
    }
    .result();
    let text = result.text(&rival.name);
    let own = EvaluateAnswer {
        space: &asked.setting.space,
        kernel: &asked.setting.kernel,
        seed: asked.seed,
        configuration: &evaluation.configuration,
        rival: RivalSaid {
            name: &rival.name,
            why: &rival.why,
            incumbent: Known::of(rival.incumbent, "the rival is not the incumbent"),
            configuration: &rival.resolved.configuration,
            noise_floor_ratio: Known::of(findings.noise_floor, why.as_str()),
        },
        number: recorded.number,
        incumbent: Known::of(recorded.incumbent.as_ref().map(|own| json!(own)), "nothing was accepted yet"),
        claimed: Known::of(arguments.claimed, "`--claimed` says nothing"),
        notes: &recorded.notes,
        parity: judged::parity(evaluation),
        figures: figures(parts)?,
        result,
    };
    let (exit, status) = end(arguments, judged, ruling);
    let mut answer = Answer { status, allowed_not_run: judged.allowed.clone(), ..Answer::of(exit, &own) };
    if evaluation.verdict.kind == VerdictKind::Interrupted {
        call.hit(LimitName::Total);
        answer = asked.options.run.limits.used_up().into_iter().fold(answer, Answer::despite);
    }
    for note in &recorded.notes {
        output::say(&format!("note: {note}"));
    }
    let gates = judged::text(&asked.setting, evaluation, &judged.single.attributes);
    let claim = arguments.claimed.map(|claim| format!("claimed  {claim:.3}x, which decides nothing\n"));
    call.show(&format!(
        "{gates}{text}{}kept as evaluation {} of {}\n",
        claim.unwrap_or_default(),
        recorded.number,
        recorded.file
    ))?;
    if !ruling.why.is_empty()
        && exit == ExitCode::Failed
        && arguments.require != Requirement::Correct
        && let Some(word) = arguments.require.to_possible_value()
    {
        output::say(&format!("`--require {}` does not hold: {}", word.get_name(), ruling.why));
    }
    Ok(answer)
}

/// Exit code and status: what `--require` demands holds, does not hold, or is not known.
fn end(arguments: &EvaluateArgs, judged: &Judged, ruling: &Ruling) -> (ExitCode, EnvelopeStatus) {
    let findings = &judged.findings;
    let Answer { exit, status, .. } = judge::ended(&judged.single, &findings.missing, Vec::new());
    if exit != ExitCode::Done {
        return (exit, status);
    }
    let failed = |status| (ExitCode::Failed, status);
    let is_compared =
        findings.is_same_code || findings.problems.iter().any(|problem| problem.ratio.is_some());
    let unknown = if is_compared { EnvelopeStatus::Noisy } else { EnvelopeStatus::NotRun };
    let floor = findings.noise_floor.unwrap_or(0.0);
    let is_drowned = ruling.decision == RivalDecision::Reject && floor > arguments.accept;
    let holds = match arguments.require {
        Requirement::Correct => Some(true),
        Requirement::NotSlower => ruling.not_slower,
        // A gain that was asked for cannot be seen under a noise floor above it.
        Requirement::Accepted if is_drowned => None,
        Requirement::Accepted => is_compared.then_some(ruling.decision == RivalDecision::Keep),
    };
    match holds {
        Some(true) => (ExitCode::Done, EnvelopeStatus::Pass),
        Some(false) => failed(EnvelopeStatus::Fail),
        None => failed(unknown),
    }
}

/// The flat figures that `benchmark` has too. They compare with the default configuration alone.
fn figures(parts: &EvaluateParts<'_>) -> Result<Figures> {
    let EvaluateParts { judged, rival: ChosenRival { resolved, .. }, asked, .. } = parts;
    let is_default =
        resolved.genome == resolved.file.space.default_genome() && resolved.provenance.parent.is_none();
    let passed = judged.evaluation().verdict.is_pass();
    let compared = match (passed, is_default, judged.pairs.is_empty()) {
        (false, ..) => Err(judged::NOT_PASSED.to_string()),
        (_, false, _) => Err("the rival is not the default configuration".to_string()),
        (.., true) => Err(judged.why_not_compared()),
        _ => Ok(&judged.pairs[..]),
    };
    Ok(judged.measured(asked.kernel()?, compared).figures())
}

/// A profile of a candidate that passed, on its first timed problem; an inner error is why there is none.
pub fn profile(asked: &AskedCandidate, judged: &Judged) -> Result<Result<Value, String>> {
    if !judged.findings.correct {
        return Ok(Err("the candidate did not pass".into()));
    }
    let Some(plan) = judged.plans().first() else { return Ok(Err("no problem is timed".into())) };
    let looked = look(&CounterOrder::of(asked, judged, plan)?)?;
    Ok(Ok(told(&ProfileResult::of(&looked.profile)).0))
}

/// What an evaluation that is cut off after its verdict has to say.
fn so_far(evaluation: &Evaluation) -> Answer {
    let result = Evaluated {
        evaluation,
        correct: evaluation.verdict.is_pass(),
        ruling: None,
        score: None,
        not_compared: "the command ended before it was compared",
        problems: Vec::new(),
        bottleneck: Known::Unknown("the command ended before a profiler was asked".into()),
        next_step: "allow more time with `--time-limit`, or make the candidate faster".to_string(),
    }
    .result();
    Answer::of(ExitCode::Done, &ResultAlone { result })
}

pub struct EvaluateParts<'a> {
    pub arguments: &'a EvaluateArgs,
    pub asked: &'a AskedCandidate,
    pub rival: &'a ChosenRival,
    pub judged: &'a Judged,
}

#[derive(Debug)]
pub struct Recorded {
    pub ruling: Ruling,
    pub number: u64,
    file: String,
    notes: Vec<String>,
    pub incumbent: Option<Incumbent>,
    next_step: String,
}

impl EvaluateParts<'_> {
    /// Decides about the candidate, appends the line, and makes an accepted candidate the incumbent.
    pub fn record(&self, log: &IterationLog, before: Result<Option<Incumbent>, String>) -> Result<Recorded> {
        let EvaluateArgs { accept, on, revert_above, .. } = *self.arguments;
        let rule = AcceptanceRule { accept, on: usize::from(on), revert_above };
        let ruling = decide(&rule, &self.judged.findings);
        let is_unreadable = before.is_err();
        let before = before.ok().flatten();
        let mut notes = self.rival.notes.clone();
        notes.extend(numbered::<Iteration>(log.folder())?.notes);
        let is_kept = ruling.decision == RivalDecision::Keep;
        let beats = before.as_ref().is_none_or(|best| self.rival.incumbent == Some(best.number));
        if let Some(best) = before.as_ref().filter(|_| is_kept && !beats) {
            notes.push(format!(
                "it was not compared with the incumbent, evaluation {}, which stays; leave `--against` out for that",
                best.number
            ));
        }
        let may_replace = !is_unreadable || !is_kept || make_room(log, &mut notes)?;
        let iteration = log.append(self.iteration(&ruling, notes.clone()))?;
        let incumbent = match is_kept && beats && may_replace {
            true => Some(log.set_incumbent(&iteration)?),
            false => before,
        };
        let next_step = self.next_step(&ruling);
        let file = log.folder().place(ITERATIONS).display().to_string();
        Ok(Recorded { ruling, number: iteration.number, file, notes, incumbent, next_step })
    }

    fn iteration(&self, ruling: &Ruling, notes: Vec<String>) -> Iteration {
        let EvaluateParts { arguments, asked, rival, judged } = self;
        let verdict = &judged.evaluation().verdict;
        let git = git_state(Path::new("."), &ToolPlaces::of_environment(), GIT_PATIENCE);
        let correct = judged.is_right();
        let problems = judged.problems().into_iter().map(|problem| {
            let time = problem.time.filter(|_| correct);
            let pair = problem.pair.filter(|_| correct);
            IterationProblem {
                problem: problem.plan.name.clone(),
                canonical: problem.canonical,
                p50_ns: time.map(|time| time.p50_ns),
                p90_ns: time.map(|time| time.p90_ns),
                against_p50_ns: pair.map(|pair| pair.baseline_ns),
                speedup: pair.map(|pair| 1.0 / pair.ratio),
            }
        });
        Iteration {
            format: 0,
            number: 0,
            at: now(),
            kernel: asked.setting.kernel.clone(),
            space: asked.setting.space.clone(),
            device: judged.device_name(asked),
            candidate: IterationCandidate {
                launch: asked.candidate.launch.clone(),
                ..recorded_candidate(asked, judged)
            },
            against: rival.name.clone(),
            parent: arguments.parent.clone(),
            hypothesis: arguments.hypothesis.clone(),
            verdict: verdict.label(),
            message: verdict.message.clone(),
            correct,
            score: judged.score.filter(|_| correct),
            claimed: arguments.claimed,
            problems: problems.collect(),
            decision: ruling.decision,
            why: ruling.why.clone(),
            notes,
            git_commit: git.commit,
            git_dirty: git.is_dirty,
        }
    }

    fn next_step(&self, ruling: &Ruling) -> String {
        let EvaluateParts { asked, rival, judged, .. } = self;
        let space = quote(&asked.setting.space);
        // The history does not list what `--against` named.
        let back = match rival.incumbent {
            Some(number) => {
                // Options that lead to the same records.
                let out = &asked.options.candidate.out;
                let usual = out == Path::new("evidence");
                let out = (!usual).then(|| format!(" --out {}", quote(&out.display().to_string())));
                let (out, device) = (out.unwrap_or_default(), asked.setup.choice.kind.as_str());
                format!("`evo restore {space} {ITERATION}{number} --to FOLDER{out} --device {device}` writes")
            }
            None => {
                let pairs = rival.resolved.configuration.iter();
                let words = pairs.map(|(name, value)| quote(&format!("{name}={value}")).into_owned());
                format!("`evo render {space} {}` prints", words.collect::<Vec<_>>().join(" "))
            }
        };
        let verdict = &judged.evaluation().verdict;
        match ruling.decision {
            RivalDecision::Keep => "go on from this candidate, one change at a time".to_string(),
            RivalDecision::Revert => format!("go back to the {}: {back} its source", rival.name),
            RivalDecision::Reject if !verdict.is_pass() => {
                format!("`evo explain {}` says what usually causes this", verdict.label())
            }
            RivalDecision::Reject if judged.findings.is_same_code => {
                "change something that reaches the machine code or the launches".to_string()
            }
            RivalDecision::Reject => format!("try another change; {back} what is best so far"),
        }
    }
}

/// The candidate as lines of the folder have it, with its text where that is not the space's.
pub fn recorded_candidate(asked: &AskedCandidate, judged: &Judged) -> IterationCandidate {
    let ResolvedCandidate { file, configuration, provenance, .. } = &asked.candidate;
    let is_source = provenance.kind == CandidateKind::Source;
    // A template that does not render has no text to keep.
    let source = file.kernel.as_ref().filter(|_| is_source);
    let source = source.and_then(|kernel| render(kernel, configuration).ok()).map(|source| source.text);
    IterationCandidate {
        configuration: configuration.clone(),
        configuration_hash: configuration.hash(),
        source_hash: provenance.source_hash.clone(),
        code_hash: judged.evaluation().code_hash.clone(),
        source,
        launch: None,
    }
}

/// Keeps an incumbent that cannot be understood under another name; whether there is room for a new one.
fn make_room(log: &IterationLog, notes: &mut Vec<String>) -> Result<bool> {
    let number =
        numbered::<Iteration>(log.folder())?.lines.iter().map(|line| line.number).max().unwrap_or(0) + 1;
    let made = log.set_aside(number);
    notes.push(match &made {
        Ok(aside) => format!("the incumbent's file could not be understood and is kept as `{aside}`"),
        Err(why) => format!("{why}; move it away so that this candidate can take its place"),
    });
    Ok(made.is_ok())
}

/// The folder of a kernel on a kind of device, once nobody else holds it or times anything on the device.
pub fn take_log(out: &Path, kernel: &str, device: &DeviceChoice) -> Result<IterationLog> {
    let name = format!("{kernel}-{}", device.kind.as_str());
    let path = out.join(&name);
    let folder = OwnFolder::create(out).and_then(|out| out.create_folder(&name));
    let folder = folder.map_err(|error| JournalError::io("make", &path, error))?;
    // The device first, in every command: two that each hold what the other waits for would wait for ever.
    let turn = take_turn(out, device)?;
    Ok(IterationLog::take(folder, Some(turn))?)
}

pub fn take_turn(out: &Path, device: &DeviceChoice) -> Result<DeviceTurn> {
    let folder = OwnFolder::create(out).map_err(|error| JournalError::io("make", out, error))?;
    let on_wait =
        || output::say(&format!("note: waiting for another command that times on `{}`", device.spec));
    Ok(DeviceTurn::take(&folder, &device.spec, on_wait)?)
}

#[derive(Clone, Debug, Args)]
pub struct EvaluateArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Compare with this candidate of the same space [default: the incumbent, else @champion, else @baseline]
    #[arg(long, value_name = "CANDIDATE", value_parser = named)]
    pub against: Option<String>,
    /// Least gain on a problem that counts
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = share, allow_negative_numbers = true)]
    pub accept: f64,
    /// Canonical problems that must gain; all of them where there are fewer
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub on: u16,
    /// A slowdown above this asks to go back
    #[arg(long = "revert-above", value_name = "SHARE", default_value = "2%", value_parser = share, allow_negative_numbers = true)]
    pub revert_above: f64,
    /// What the change was meant to do; kept with the evaluation
    #[arg(long, value_name = "TEXT")]
    pub hypothesis: Option<String>,
    /// What the candidate was made from: the number of an evaluation of this command; kept with it
    #[arg(long, value_name = "NAME")]
    pub parent: Option<String>,
    /// The speed-up that its author claims; shown, and decides nothing
    #[arg(long, value_name = "FACTOR", value_parser = factor, allow_negative_numbers = true)]
    pub claimed: Option<f64>,
    /// Also judge on the `[[problems]]` of this file
    #[arg(long, value_name = "FILE")]
    pub grid: Option<PathBuf>,
    /// Have a profiler name the bottleneck of a candidate that passed; decides nothing
    #[arg(long)]
    pub profile: bool,
    /// Demand compute-sanitizer: a finding is a verdict, and without an answer nothing is accepted
    #[arg(long)]
    pub sanitize: bool,
    /// What exit code 0 means: `correct`, `not-slower` than its rival, or `accepted` in its place
    #[arg(long, value_enum, default_value_t = Requirement::Correct, hide_possible_values = true)]
    pub require: Requirement,
    /// Answer after this time, with what is known by then
    #[arg(long = "time-limit", value_name = "TIME", default_value = "300s", value_parser = total, allow_negative_numbers = true)]
    pub time_limit: Duration,
    #[command(flatten)]
    pub requests: RequestArgs,
}

impl EvaluateArgs {
    pub fn with_grid(mut self) -> Result<EvaluateArgs> {
        let Some(path) = &self.grid else { return Ok(self) };
        let options = &self.one;
        if self.requests.are_taken() && options.words.is_empty() {
            return Err(CliError::usage("`--grid` needs a space on the command line")
                .with_hint("its sizes are those of one space: `evo evaluate my.toml --serve --grid FILE`"));
        }
        let space = words::named_space(&options.words).open(options.run.limits.access())?;
        let shown = path.display().to_string();
        let text = regular::open(path).and_then(load::read_grid_text).map_err(|error| {
            CliError::bad_file(format!("cannot read the grid `{shown}`: {error}"), path)
                .with_hint("it is a TOML or JSON text with `[[problems]]`, as space files have them")
        })?;
        self.one.grid = load::grid_problems(&shown, &text, &space, &["problems"])?;
        Ok(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Requirement {
    /// It passes every gate
    Correct,
    /// It is also shown not to be slower than its rival
    NotSlower,
    /// It also takes its rival's place
    Accepted,
}

/// `3%` or `0.03`: from 0 to 10.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let value = number.parse::<f64>().ok().map(|number| number / unit);
    let value = value.filter(|value| (0.0..=10.0).contains(value));
    value.ok_or_else(|| "it is not a share from 0% to 1000%, such as `3%` or `0.03`".to_string())
}

fn factor(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('x').parse::<f64>().ok();
    let value = value.filter(|value| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| "it is not a speed-up such as `1.45`".to_string())
}

/// Who reads answers, as a flag says it.
pub fn visibility() -> impl TypedValueParser<Value = Visibility> {
    choice([("agent", Visibility::Agent), ("owner", Visibility::Owner)])
}

/// Requests instead of a candidate in words and flags.
#[derive(Clone, Debug, Default, Args)]
pub struct RequestArgs {
    /// Answer the JSON request in this file, or on stdin with `-`; exit code 0 means that an answer was given
    #[arg(long, value_name = "FILE|-", help_heading = "Requests", conflicts_with_all = ["serve", "stdin"])]
    pub request: Option<PathBuf>,
    /// Answer a JSON request a line from stdin, and compile the next one ahead
    #[arg(long, help_heading = "Requests", conflicts_with = "stdin")]
    pub serve: bool,
    /// Answer a JSON request a line from stdin, one after the other
    #[arg(long, help_heading = "Requests")]
    pub stdin: bool,
    /// Go no further than all gates and a screening: nothing is compared side by side, and nothing is accepted
    #[arg(long, help_heading = "Requests")]
    pub quick: bool,
    /// Who reads the answers [default: as a request says, else agent]; `agent` cannot be undone by a request
    #[arg(
        long,
        value_parser = visibility(),
        value_name = "agent|owner",
        help_heading = "Requests",
        hide_possible_values = true
    )]
    pub visibility: Option<Visibility>,
    /// Write answers as another program does: FlashInfer-Bench's `trace`, `kernelbench`, `openevolve` or `shinka`
    #[arg(long, value_enum, value_name = "FORM", hide_possible_values = true, help_heading = "Requests")]
    pub emit: Option<EmitForm>,
}

impl RequestArgs {
    pub fn are_taken(&self) -> bool {
        self.request.is_some() || self.serve || self.stdin
    }
}
