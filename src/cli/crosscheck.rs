//! `evo crosscheck`: other people's clocks and checks beside evo's own, on the exported form of a candidate.
//!
//! evo judges and times the candidate first, as `evo benchmark` does, and then asks one harness after the other about the
//! same inputs. A harness is a program of its own with a deadline, capped output and a kill of all that it started;
//! whatever it does wrong is the reason of a row. A row compares; it never becomes a result of the candidate.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs, io};

use clap::Args;
use evo_export::files::ExportFormat;
use evo_export::{CROSSCHECK as SCRIPT_TEXT, VERIFY_PEER};
use evo_protocol::crosscheck::{
    CrosscheckArray, CrosscheckLine, CrosscheckProblem, CrosscheckRequest, CrosscheckRow, OwnFinding,
};
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::{EnvelopeStatus, ErrorCode, ErrorPlace};
use evo_protocol::export::ExportJudgement;
use evo_protocol::known::because;
use evo_protocol::plan::ProblemPlan;
use evo_space::genome::{Configuration, ContentHash};
use evo_system::scratch::{ScratchFolder, ScratchPlace};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::Answer;
use super::bench as bench_command;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::export_plan::{self, VariantWish};
use super::judge::{self, Aim, Bench, CROSSCHECK, HARNESSES, VerdictEnd};
use super::one_args::TestOneArgs;
use super::{candidate, evaluate, output, peers, session, test_one};
use crate::bench::{self, BenchShape, peer_problem};
use crate::engine::candidate::ResolvedCandidate;
use crate::journal::own_folder::OwnFolder;
use crate::kernel::spec::{KernelSpec, PeerSpec, ProblemSpec, SpaceFile};
use crate::kernel::specialize::{constants_of, distinct};
use crate::peer::{self, last_words, shown};
use crate::process::{self, Ended, RunLimits};
use crate::report::crosscheck::{self as report, CrosscheckSetting};
use crate::report::judged::{Compared, VerdictBrief, VerdictFields};
use crate::supervise::lane::LaneError;
use crate::tool::{ToolKind, ToolPlaces, find};

#[derive(Debug, Args)]
pub struct CrosscheckArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Who measures too, each of whom has to do so then: nvbench, torch, kernelbench, cutlass, command [default: whoever can]
    #[arg(
        long = "harness",
        value_parser = HARNESSES,
        value_name = "A,B",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub harnesses: Vec<String>,
    /// A program of yours for the harness `command`; the path of a request becomes its last argument
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// A peer that evo times beside the candidate: `torch`, `python`, or the name of one in `[[peers]]` (repeatable)
    #[arg(long = "peer", value_name = "NAME")]
    pub peers: Vec<String>,
}

const KERNELBENCH: &str = "kernelbench";
const COMMAND: &str = "command";
/// It times another kernel that does the same work: a point of reference, which checks nothing.
const CUTLASS: &str = "cutlass";

/// Why a harness cannot be of use, whatever is installed.
fn why_not(harness: &str, kind: DeviceKind, is_gemm: bool) -> Option<&'static str> {
    match (harness, kind) {
        (COMMAND, _) => None,
        (_, DeviceKind::Host) => Some("it runs on a GPU only, and this is the host device"),
        (CUTLASS, _) if !is_gemm => Some("the kernel is not a GEMM, and CUTLASS times nothing else"),
        _ => None,
    }
}

impl CrosscheckArgs {
    /// The named harnesses, or all that may be asked.
    fn wanted(&self) -> Vec<&'static str> {
        let is_wanted = |harness: &&str| match self.harnesses.is_empty() {
            true => *harness != COMMAND || self.command.is_some(),
            false => self.harnesses.iter().any(|named| named == harness),
        };
        HARNESSES.into_iter().filter(is_wanted).collect()
    }

    /// The words of the user's own harness, whose program is there.
    fn command_words(&self) -> Result<Vec<String>, CliError> {
        let command = match (&self.command, self.wanted().contains(&COMMAND)) {
            (Some(command), true) => command,
            (None, false) => return Ok(Vec::new()),
            (None, true) => {
                return Err(CliError::usage("the harness `command` has no program")
                    .with_hint("name it: `--command 'python3 mine.py'`"));
            }
            (Some(_), false) => {
                return Err(CliError::usage("`--command` names a program that `--harness` leaves out")
                    .with_hint("add `command` to `--harness`"));
            }
        };
        let refused = |why: String| {
            let hint = "a program without a `/` is looked for in PATH, one with a `/` in the current folder";
            CliError::usage(format!("the harness `command` does not start: {why}"))
                .with_code(ErrorCode::BadFile)
                .at(ErrorPlace { file: format!("--command {command}"), line: None, column: None })
                .with_hint(hint)
        };
        let words = shlex::split(command)
            .ok_or_else(|| refused("a quote or a backslash in it has no second half".into()))?;
        let program =
            words.first().filter(|own| !own.is_empty()).ok_or_else(|| refused("it is empty".into()))?;
        let is_program = |path: PathBuf| {
            fs::metadata(path).is_ok_and(|own| own.is_file() && own.permissions().mode() & 0o111 != 0)
        };
        let is_there = match program.contains('/') {
            true => is_program(PathBuf::from(program)),
            false => env::var_os("PATH")
                .is_some_and(|all| env::split_paths(&all).any(|folder| is_program(folder.join(program)))),
        };
        match is_there {
            true => Ok(words),
            false => Err(refused(format!("there is no program `{program}`"))),
        }
    }
}

pub fn run(arguments: &CrosscheckArgs, call: &Call) -> Result<Answer, CliError> {
    let words = arguments.command_words()?;
    let TestOneArgs { words: named, candidate, run, .. } = &arguments.one;
    let candidate = candidate::resolve(named, candidate, &run.device, run.limits.access())?;
    let peers = peers::all_named(&arguments.peers, &session::kernel_of(&candidate.file)?.peers)?;
    let asked = judge::ask(&arguments.one, call, Aim::Crosscheck)?;
    let tried = judge::run(asked, call, Aim::Crosscheck, |bench| {
        ask_all((arguments, &candidate), call, bench, &words, &peers)
    })?;
    let Some((rows, file)) = &tried.found else { return tried.answer(call, None) };
    let (headline, text) = (report::headline(rows), report::text(rows));
    let VerdictEnd { answer, fields, brief } = tried.ended(call, absent(arguments, rows), &text)?;
    let result =
        CrosscheckBrief { brief, headline: &headline, rows: rows.iter().map(with_reasons).collect() };
    let mut answer = answer.with(&CrosscheckAnswer { fields, rows, file, result });
    if rows.iter().any(CrosscheckRow::disagrees) && answer.error.is_none() {
        (answer.exit, answer.status) = (ExitCode::Failed, EnvelopeStatus::Fail);
    }
    output::say(&headline);
    if !call.is_json() {
        output::say(&format!("kept in {file}"));
    }
    Ok(answer)
}

/// The answer about a candidate that harnesses were asked about; about another one it is that of `test-one`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CrosscheckAnswer<'a> {
    #[serde(flatten)]
    fields: VerdictFields<'a>,
    rows: &'a [CrosscheckRow],
    file: &'a str,
    result: CrosscheckBrief<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CrosscheckBrief<'a> {
    #[serde(flatten)]
    brief: VerdictBrief<'a>,
    headline: &'a str,
    #[schemars(with = "Vec<CrosscheckRow>")]
    rows: Vec<Value>,
}

/// Harnesses that were named and did not do all that was asked; without names, one has to have done so.
fn absent(arguments: &CrosscheckArgs, rows: &[CrosscheckRow]) -> Vec<&'static str> {
    let is_done = |row: &CrosscheckRow| row.is_complete(row.harness == CUTLASS);
    let lacks = |harness: &&str| rows.iter().any(|row| row.harness == **harness && !is_done(row));
    let named = arguments.wanted().into_iter().filter(|_| !arguments.harnesses.is_empty());
    let named: Vec<&str> = named.filter(lacks).collect();
    let checked = rows.iter().any(|row| row.is_complete(false));
    if named.is_empty() && !checked { vec![CROSSCHECK] } else { named }
}

/// A row with the reasons why fields of it are null.
fn with_reasons(row: &CrosscheckRow) -> Value {
    because(json!(row), &|name| {
        let why = match (name, &row.reason) {
            ("reason", _) => "nothing is to be said beside the numbers",
            ("faster_than_peer", _) => "the harness timed no peer",
            ("version", _) => "the harness did not say it",
            (_, Some(reason)) => reason,
            ("sign_kept" | "faster_than_baseline", None) => {
                "one of both has no comparison with the default configuration"
            }
            (_, None) => "the harness did not say it",
        };
        why.to_string()
    })
}

/// The rows, for programs; the same for people; and what KernelBench's evaluator said, as the script in Python writes it.
const ROWS: &str = "crosscheck.json";
const PAGE: &str = "crosscheck.md";
const REPORT: &str = "kernelbench_report.json";
/// A longer report is not KernelBench's.
const REPORT_MAX: u64 = 4 << 20;

/// Asks every harness. Files are written after each, so that an interrupted run leaves what is finished. Gives the rows
/// and the place of the first file.
fn ask_all(
    (arguments, candidate): (&CrosscheckArgs, &ResolvedCandidate),
    call: &Call,
    bench: &mut Bench<'_>,
    words: &[String],
    peers: &[PeerSpec],
) -> Result<(Vec<CrosscheckRow>, String), CliError> {
    let one = &arguments.one;
    let kernel = session::kernel_of(bench.file)?.name.clone();
    let of = (kernel.as_str(), bench.lane.info().kind.as_str());
    let folder = judge::study_folder(&one.candidate, of, &call.facts());
    let folder = folder.map_err(|(path, error)| unwritable(&path, &error))?;
    for name in [ROWS, PAGE, REPORT] {
        if let Some(what) = folder.irregular(name) {
            let place = folder.place(name);
            let text = format!("`{}` is {what}", place.display());
            return Err(CliError::bad_file(text, &place).with_hint("move it away"));
        }
    }
    let write = |name: &str, text: &str| {
        let written = folder.replace(name, text.as_bytes(), true);
        written.map_err(|error| unwritable(&folder.place(name), &error))
    };
    // The device's time belongs to one command at a time.
    let _turn = evaluate::take_turn(&one.candidate.out, &bench.setup.choice)?;
    let evaluation = &bench.single.evaluation;
    let space = &bench.file.space;
    let default = space.configuration(&space.default_genome());
    let is_default = one.candidate.source.is_none() && evaluation.configuration == default;
    let passed = evaluation.verdict.is_pass();
    let compared = (passed && !is_default).then(|| test_one::against_default(bench)).transpose()?;
    let noise_floor = compared.as_ref().and_then(|own| own.noise_floor);
    let setting = CrosscheckSetting {
        kernel: &kernel,
        device: &bench.lane.info().name.clone(),
        configuration: &evaluation.configuration.to_string(),
        verdict: &evaluation.verdict.label(),
        noise_floor,
        repro: &call.facts().repro,
    };
    let baseline = (!is_default).then_some(&default);
    let (limit, kind) = (one.run.limits.tool, bench.setup.choice.kind);
    let handed = match Handed::out(candidate, bench, baseline, limit) {
        // What cannot be exported is the reason of every row.
        Err(error) if error.exit_code() == ExitCode::Usage => {
            Err(error.to_string().lines().next().unwrap_or_default().to_string())
        }
        handed => Ok(handed?),
    };
    let peers = if passed && handed.is_ok() { peers } else { &[] };
    let against_peers = against_peers(bench, peers, candidate)?;
    let (mut rows, mut file) = (Vec::new(), String::new());
    for harness in arguments.wanted() {
        output::say(&format!("asking {harness}"));
        let is_reference = harness == CUTLASS;
        let (answer, about_baseline) = match &handed {
            Err(why) => (HarnessAnswer::without(why.as_str()), HarnessAnswer::default()),
            Ok(handed) => handed.ask(harness, words, kind, limit)?,
        };
        let row = |(at, plan): (usize, &ProblemPlan)| {
            let pair = |own: &'_ Compared| own.problems.get(at).and_then(|own| own.as_ref().ok()).cloned();
            let pair = compared.as_ref().and_then(pair);
            let own = OwnFinding {
                correct: Some(passed),
                measurements: &evaluation.measurements,
                noise_floor,
                against_baseline: pair.as_ref(),
                against_peer: against_peers.get(&plan.name).copied(),
            };
            match answer.of(&plan.name) {
                None => CrosscheckRow::not_run(harness, &plan.name, own.correct, &answer.why_not),
                Some(line) => {
                    let before = about_baseline.of(&plan.name);
                    CrosscheckRow::judged(harness, line, before, &own, is_reference)
                }
            }
        };
        let found: Vec<CrosscheckRow> = bench.job.timed.iter().enumerate().map(row).collect();
        if harness == KERNELBENCH {
            // Without a report of this run it says why: an older one would look like this run's.
            let why = found.iter().find_map(|row| row.reason.clone());
            let absent =
                json!({ "schema": "evo.kernelbench-report", "version": 1, "problems": [], "reason": why });
            let report = handed.as_ref().ok().and_then(Handed::kernelbench_report).unwrap_or(absent);
            write(REPORT, &format!("{report:#}\n"))?;
        }
        rows.extend(found);
        write(ROWS, &format!("{:#}\n", json!(rows)))?;
        write(PAGE, &report::markdown(&rows, &setting))?;
        file = folder.place(ROWS).display().to_string();
    }
    Ok((rows, file))
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::harness(format!("cannot write `{}`: {error}", path.display()))
}

fn unhandable(error: io::Error) -> CliError {
    CliError::harness(format!("cannot write what a harness is handed: {error}"))
        .with_hint("the cache (`EVO_CACHE_DIR`) needs room on the disk")
}

/// The script that runs the harnesses in Python.
const SCRIPT: &str = "crosscheck.py";
/// The forms that harnesses launch.
const FORMATS: [ExportFormat; 4] =
    [ExportFormat::Cu, ExportFormat::Cubin, ExportFormat::TorchOp, ExportFormat::CudaCore];

/// What harnesses are asked about: scripts, inputs, expected answers and exported kernels in a folder.
struct Handed {
    folder: ScratchFolder,
    /// With no problems.
    request: CrosscheckRequest,
    candidate: Vec<CrosscheckProblem>,
    /// The default configuration, unless the candidate is that.
    baseline: Option<Vec<CrosscheckProblem>>,
}

impl Handed {
    /// A usage error says why this candidate cannot be handed out.
    fn out(
        own: &ResolvedCandidate,
        bench: &mut Bench<'_>,
        baseline: Option<&Configuration>,
        limit: Duration,
    ) -> Result<Handed, CliError> {
        let kernel = session::kernel_of(bench.file)?;
        let place = ScratchPlace::new(bench.setup.farm.cache.join("crosschecks"));
        place.probe().map_err(unhandable)?;
        place.sweep();
        let folder = place.folder().map_err(unhandable)?;
        for (name, text) in
            [("evo_peer.py", peer::SCRIPT), ("verify_peer.py", VERIFY_PEER), (SCRIPT, SCRIPT_TEXT)]
        {
            fs::write(folder.path().join(name), text).map_err(unhandable)?;
        }
        let problems = bench.lane.block_worker(bench.job).and_then(|mut worker| {
            let hand = |(at, plan): (usize, &ProblemPlan)| {
                let own = folder.path().join("cases").join(at.to_string());
                fs::create_dir_all(&own)
                    .map_err(|error| LaneError::Unexpected { found: error.to_string() })?;
                worker.hand_out_answers(plan, &own)?;
                Ok(problem(plan, kernel, &own))
            };
            bench.job.timed.iter().enumerate().map(hand).collect::<Result<Vec<_>, _>>()
        });
        let problems = problems.map_err(|error| match error {
            LaneError::Lost { why } => CliError::device(why),
            error => CliError::usage(format!("its inputs could not be written: {error}")),
        })?;
        let export =
            |role: &str, file: &SpaceFile, configuration: &Configuration, hash: Option<&ContentHash>| {
                export(bench, &folder.path().join(role), &problems, (file, configuration, hash))
            };
        let candidate =
            export("candidate", &own.file, &own.configuration, own.provenance.source_hash.as_ref())?;
        let baseline = match baseline.map(|configuration| export("baseline", bench.file, configuration, None))
        {
            Some(Err(error)) if error.exit_code() != ExitCode::Usage => return Err(error),
            exported => exported.and_then(Result::ok),
        };
        let request = CrosscheckRequest {
            schema: "evo.crosscheck.request".to_string(),
            version: 1,
            harness: String::new(),
            role: String::new(),
            device: bench.setup.choice.spec.clone(),
            kernel: kernel.name.clone(),
            operator: bench::operator(kernel).map(String::from),
            mode: kernel.objective.ranking.timing(),
            limit_s: limit.as_secs_f64(),
            problems: Vec::new(),
        };
        Ok(Handed { folder, request, candidate, baseline })
    }

    /// What a harness says of the candidate, and where it timed that, of the baseline.
    fn ask(
        &self,
        harness: &str,
        words: &[String],
        kind: DeviceKind,
        limit: Duration,
    ) -> Result<(HarnessAnswer, HarnessAnswer), CliError> {
        let is_gemm = self.request.operator.as_deref() == Some("gemm");
        if let Some(why) = why_not(harness, kind, is_gemm) {
            return Ok((HarnessAnswer::without(why), HarnessAnswer::default()));
        }
        let about = |role: &str, problems: &[CrosscheckProblem]| -> Result<HarnessAnswer, CliError> {
            let request = CrosscheckRequest {
                harness: harness.to_string(),
                role: role.to_string(),
                problems: problems.to_vec(),
                ..self.request.clone()
            };
            let path = self.folder.path().join(format!("{harness}-{role}.json"));
            let text = format!("{:#}", json!(request));
            fs::write(&path, text).map_err(|error| unwritable(&path, &error))?;
            let answered = self.command(harness, words).and_then(|mut command| {
                command.arg(path);
                let ended = process::run(command, &RunLimits::new(limit));
                ended.map_err(|error| format!("it does not start: {error}"))
            });
            Ok(answered.map_or_else(HarnessAnswer::without, |ended| HarnessAnswer::read(&ended, limit)))
        };
        let answer = about("candidate", &self.candidate)?;
        let has_time = answer.lines.iter().any(|line| line.time_ns.is_some());
        let baseline = match &self.baseline {
            Some(problems) if has_time && harness != CUTLASS => about("baseline", problems)?,
            _ => HarnessAnswer::default(),
        };
        Ok((answer, baseline))
    }

    fn command(&self, harness: &str, words: &[String]) -> Result<Command, String> {
        if let (COMMAND, Some((program, arguments))) = (harness, words.split_first()) {
            let mut command = Command::new(program);
            command.args(arguments);
            return Ok(command);
        }
        let python = find(ToolKind::Python, None, &ToolPlaces::of_environment());
        let mut command = Command::new(python.map_err(|failure| failure.message)?);
        let folder = self.folder.path();
        command.arg("-B").arg(folder.join(SCRIPT)).arg(harness).current_dir(folder);
        Ok(command)
    }

    fn kernelbench_report(&self) -> Option<Value> {
        let bytes = OwnFolder::open(self.folder.path()).ok()?.read_at_most(REPORT, REPORT_MAX).ok()??;
        serde_json::from_slice(&bytes).ok()
    }
}

/// What a harness said of some problems.
#[derive(Debug, Default)]
struct HarnessAnswer {
    lines: Vec<CrosscheckLine>,
    /// Why other problems have no line.
    why_not: String,
}

impl HarnessAnswer {
    fn of(&self, problem: &str) -> Option<&CrosscheckLine> {
        self.lines.iter().find(|line| line.problem == problem)
    }

    fn without(why: impl Into<String>) -> HarnessAnswer {
        HarnessAnswer { lines: Vec::new(), why_not: why.into() }
    }

    /// Lines that begin with a brace are the protocol's; others are the program's own talk.
    fn read(ended: &Ended, limit: Duration) -> HarnessAnswer {
        let mut answer = HarnessAnswer::default();
        let mut garbage = None;
        let clean = |text: Option<String>| text.map(|own| shown(&own)).filter(|own| !own.is_empty());
        let stdout = ended.stdout.text();
        for text in stdout.lines().map(str::trim).filter(|own| !own.is_empty()) {
            match serde_json::from_str::<CrosscheckLine>(text) {
                Ok(line) if answer.of(&line.problem).is_none() => answer.lines.push(CrosscheckLine {
                    version: clean(line.version),
                    reason: clean(line.reason),
                    ..line
                }),
                _ => garbage = garbage.or(Some(text)),
            }
        }
        let ending = match ended.timed_out {
            true => Some(format!("it did not end within {} s, see `--limit tool=TIME`", limit.as_secs_f64())),
            false => ended.status.filter(|status| !status.success()).map(peer::ending),
        };
        answer.why_not = match (ending, garbage) {
            (Some(how), _) => last_words(how, &ended.stderr.text()),
            (None, Some(text)) => format!("it printed something that is not a row: `{}`", shown(text)),
            (None, None) => "it said nothing of this problem".to_string(),
        };
        answer
    }
}

/// Exports a variant into a folder: the problems with the folders that serve them.
fn export(
    bench: &Bench<'_>,
    folder: &Path,
    problems: &[CrosscheckProblem],
    (file, configuration, source_hash): (&SpaceFile, &Configuration, Option<&ContentHash>),
) -> Result<Vec<CrosscheckProblem>, CliError> {
    let kernel = session::kernel_of(file)?;
    let choice = &bench.setup.choice;
    let spec = |name: &str| kernel.problems.iter().find(|own| own.name == name);
    let wanted: Vec<&ProblemSpec> = problems.iter().filter_map(|own| spec(&own.problem)).collect();
    let arch = (choice.kind == DeviceKind::Cuda).then_some(choice.arch.as_str());
    let mut served = Vec::new();
    let sets = distinct(wanted.iter().map(|own| constants_of(&kernel.specialize, own)));
    for (at, constants) in sets.into_iter().enumerate() {
        let own = wanted.iter().filter(|own| constants_of(&kernel.specialize, own) == constants);
        let wish = VariantWish {
            file,
            kernel,
            configuration: configuration.clone(),
            constants: constants.clone(),
            problems: own.copied().collect(),
            source_hash: source_hash.cloned(),
            judged: ExportJudgement::Now,
            judged_on: choice.name.clone().or(Some(choice.spec.clone())),
            numbers: None,
            folder: String::new(),
        };
        let variant = export_plan::make(wish, &FORMATS, arch)?;
        let folder = folder.join(at.to_string());
        for file in &variant.files {
            let path = folder.join(&file.path);
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            made.and_then(|()| fs::write(path, &file.contents)).map_err(unhandable)?;
        }
        let is_served = |own: &&CrosscheckProblem| {
            variant.wish.problems.iter().any(|problem| problem.name == own.problem)
        };
        let own = problems.iter().filter(is_served);
        served.extend(own.map(|own| CrosscheckProblem { folder: folder.clone(), ..own.clone() }));
    }
    Ok(served)
}

/// A problem as a harness sees it, with files in a folder; that of the exported kernel is still missing.
fn problem(plan: &ProblemPlan, kernel: &KernelSpec, folder: &Path) -> CrosscheckProblem {
    let handed = peer_problem(plan, kernel, folder);
    let expected = plan.buffers.iter().filter(|own| own.role.is_answer()).map(|own| {
        let array = CrosscheckArray {
            path: folder.join("expected").join(format!("{}.npy", own.name)),
            dtype: own.dtype.as_str().to_string(),
            npy: own.dtype.answered().npy().to_string(),
            shape: own.shape.clone(),
        };
        (own.name.clone(), array)
    });
    CrosscheckProblem {
        problem: handed.problem,
        sizes: handed.sizes,
        scalars: handed.scalars,
        folder: PathBuf::new(),
        inputs: handed.inputs,
        expected: expected.filter(|(_, own)| own.path.is_file()).collect(),
    }
}

/// Candidate's time / the best right peer's time by problem, so that a harness which timed a peer too can be asked whether
/// both see the same one ahead. The run is that of `evo bench`.
fn against_peers(
    bench: &mut Bench<'_>,
    peers: &[PeerSpec],
    own: &ResolvedCandidate,
) -> Result<BTreeMap<String, f64>, CliError> {
    if peers.is_empty() {
        return Ok(BTreeMap::new());
    }
    let Bench { setup, lane, seed, job, .. } = bench;
    let kernel = session::kernel_of(&own.file)?;
    let is_timed = |shape: &BenchShape| job.timed.iter().any(|plan| plan.name == shape.problem.name);
    let mut shapes = bench::of_problems(kernel, setup.choice.kind);
    shapes.retain(is_timed);
    let seats = peers::start(peers, &setup.choice.spec, false)?;
    let rows = bench_command::rows(&[("evo", own)], seats, &shapes, setup, lane, *seed, false)?;
    Ok(rows.into_iter().filter_map(|row| Some((row.problem, row.ratio_to_best_peer?))).collect())
}
