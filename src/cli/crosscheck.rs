//! `evo crosscheck`: other people's clocks and checks beside evo's own, on the exported form of a candidate.
//!
//! evo judges and times the candidate first, as `evo benchmark` does, and then asks one harness after the other about the
//! same inputs. A harness is a program of its own with a deadline, capped output and a kill of all that it started;
//! whatever it does wrong is the reason of a row. A row compares; it never becomes a result of the candidate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use evo_export::files::{ExportFile, ExportFormat};
use evo_export::{CROSSCHECK as SCRIPT_TEXT, VERIFY_PEER};
use evo_protocol::device::DeviceKind;
use evo_protocol::dtype::DType;
use evo_protocol::envelope::{EnvelopeStatus, ErrorCode, ErrorPlace};
use evo_protocol::export::ExportJudgement;
use evo_protocol::known::because;
use evo_protocol::plan::ProblemPlan;
use evo_space::genome::{Configuration, ContentHash};
use evo_system::scratch::ScratchFolder;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::bench::{self as bench_command, CrosscheckArgs};
use super::export_plan::{ExportOrigin, hand_out};
use super::judge::{self, Aim, AskedCandidate, Bench, CROSSCHECK, HARNESSES, VerdictEnd};
use super::{Answer, Call, CliError, ExitCode, Result, evaluate, output, peers, session, test_one};
use crate::bench;
use crate::engine::single::AgainstBaseline;
use crate::journal::own_folder::OwnFolder;
use crate::kernel::spec::{KernelSpec, PeerSpec, ProblemSpec, SpaceFile};
use crate::peer::{self, CrosscheckProblem, CrosscheckRequest, ForeignProblem, last_words, shown};
use crate::process::{self, Ended, RunLimits};
use crate::report::crosscheck::{self as report, CrosscheckLine, CrosscheckRow, OwnFinding};
use crate::report::judged::{VerdictBrief, VerdictFields};
use crate::supervise::lane::LaneError;
use crate::tool::{ToolPlaces, is_program};

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
    fn wanted(&self) -> Vec<&'static str> {
        let is_wanted = |harness: &&str| match self.clocks.is_empty() {
            true => *harness != COMMAND || self.command.is_some(),
            false => self.clocks.iter().any(|named| named == harness),
        };
        HARNESSES.into_iter().filter(is_wanted).collect()
    }

    fn command_words(&self) -> Result<Vec<String>> {
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
        let words =
            shlex::split(command).ok_or("a quote or a backslash in it has no second half".to_string());
        let found = words.and_then(|words| {
            let program = words.first().filter(|own| !own.is_empty()).ok_or("it is empty")?;
            let is_there = match program.contains('/') {
                true => is_program(program.as_ref()),
                false => ToolPlaces::of_environment().path.iter().any(|own| is_program(&own.join(program))),
            };
            if is_there { Ok(words) } else { Err(format!("there is no program `{program}`")) }
        });
        found.map_err(|why| {
            let hint = "a program without a `/` is looked for in PATH, one with a `/` in the current folder";
            CliError::usage(format!("the harness `command` does not start: {why}"))
                .with_code(ErrorCode::BadFile)
                .at(ErrorPlace { file: format!("--command {command}"), line: None, column: None })
                .with_hint(hint)
        })
    }
}

pub fn run(arguments: &CrosscheckArgs, call: &Call) -> Result<Answer> {
    let words = arguments.command_words()?;
    let named = |kernel: &KernelSpec| peers::all_named(&arguments.peers, &kernel.peers);
    let (asked, peers) = judge::ask_checked(&arguments.one, call, Aim::Crosscheck, named)?;
    let tried =
        judge::run(asked, call, Aim::Crosscheck, |bench| ask_all(arguments, call, bench, &words, &peers))?;
    let Some((rows, file)) = &tried.found else { return tried.answer(call) };
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
    let is_done = |row: &CrosscheckRow| match row.harness == CUTLASS {
        true => row.time_ns.is_some(),
        false => row.is_complete(),
    };
    let lacks = |harness: &&str| rows.iter().any(|row| row.harness == **harness && !is_done(row));
    let named = arguments.wanted().into_iter().filter(|_| !arguments.clocks.is_empty());
    let named: Vec<&str> = named.filter(lacks).collect();
    if named.is_empty() && !rows.iter().any(CrosscheckRow::is_complete) { vec![CROSSCHECK] } else { named }
}

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
    arguments: &CrosscheckArgs,
    call: &Call,
    bench: &mut Bench<'_>,
    words: &[String],
    peers: &[PeerSpec],
) -> Result<(Vec<CrosscheckRow>, String)> {
    let one = &arguments.one;
    let kernel = session::kernel_of(bench.file)?.name.clone();
    let of = (kernel.as_str(), bench.lane.info().kind.as_str());
    let folder = judge::study_folder(&one.candidate, of, &call.facts());
    let folder = folder.map_err(|(path, error)| CliError::lost_file(&path, &error))?;
    for name in [ROWS, PAGE, REPORT] {
        CliError::refuse_irregular(&folder, name, "move it away")?;
    }
    let write = |name: &str, text: &str| {
        let written = folder.replace(name, text.as_bytes(), true);
        written.map_err(|error| CliError::lost_file(&folder.place(name), &error))
    };
    // The device's time belongs to one command at a time.
    let _turn = evaluate::take_turn(&one.candidate.out, &bench.asked.setup.choice)?;
    let evaluation = &bench.single.evaluation;
    let space = &bench.file.space;
    let default = space.configuration(&space.default_genome());
    let is_default = one.candidate.source.is_none() && evaluation.configuration == default;
    let passed = evaluation.verdict.is_pass();
    let compared = (passed && !is_default).then(|| test_one::against_default(bench)).transpose()?;
    let compared = compared.and_then(Result::ok);
    let noise_floor = compared.as_ref().and_then(|own| own.noise_floor);
    let setting = json!({
        "kernel": kernel,
        "device": bench.lane.info().name,
        "configuration": evaluation.configuration.to_string(),
        "verdict": evaluation.verdict.label(),
        "noise_floor": noise_floor,
        "repro": call.facts().repro,
    });
    let baseline = (!is_default).then_some(&default);
    let handed = match Handed::out(bench, baseline) {
        // What cannot be exported is the reason of every row.
        Err(error) if error.exit_code() == ExitCode::Usage => Err(error.first_line()),
        handed => Ok(handed?),
    };
    let peers = if passed && handed.is_ok() { peers } else { &[] };
    let against_peers = against_peers(bench, peers)?;
    let (mut rows, mut file) = (Vec::new(), String::new());
    for harness in arguments.wanted() {
        output::say(&format!("asking {harness}"));
        let is_reference = harness == CUTLASS;
        let (answer, about_baseline) = match &handed {
            Err(why) => (HarnessAnswer::without(why.as_str()), HarnessAnswer::default()),
            Ok(handed) => handed.ask(harness, words)?,
        };
        let row = |(at, plan): (usize, &ProblemPlan)| {
            let pair =
                |own: &'_ AgainstBaseline| own.problems.get(at).and_then(|own| own.as_ref().ok()).cloned();
            let pair = compared.as_ref().and_then(pair);
            let own = OwnFinding {
                correct: passed,
                measurements: &evaluation.measurements,
                noise_floor,
                against_baseline: pair.as_ref(),
                against_peer: against_peers.get(&plan.name).copied(),
            };
            match answer.of(&plan.name) {
                None => CrosscheckRow::not_run(harness, &plan.name, passed, &answer.why_not),
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

fn unhandable(error: io::Error) -> CliError {
    CliError::harness(format!("cannot write what a harness is handed: {error}"))
        .with_hint("the cache (`EVO_CACHE_DIR`) needs room on the disk")
}

const SCRIPT: &str = "crosscheck.py";
const FORMATS: [ExportFormat; 4] =
    [ExportFormat::Cu, ExportFormat::Cubin, ExportFormat::TorchOp, ExportFormat::CudaCore];

/// What harnesses are asked about: scripts, inputs, expected answers and exported kernels in a folder.
struct Handed {
    kind: DeviceKind,
    /// Of a harness.
    limit: Duration,
    folder: ScratchFolder,
    /// With no problems.
    request: CrosscheckRequest,
    candidate: Vec<CrosscheckProblem>,
    /// The default configuration, unless the candidate is that.
    baseline: Vec<CrosscheckProblem>,
}

impl Handed {
    /// A usage error says why this candidate cannot be handed out.
    fn out(bench: &mut Bench<'_>, baseline: Option<&Configuration>) -> Result<Handed> {
        let AskedCandidate { candidate: own, setup, options, .. } = bench.asked;
        let kernel = session::kernel_of(bench.file)?;
        let folder = peer::place(&setup.farm.cache, "crosschecks").and_then(|place| place.folder());
        let folder = folder.map_err(unhandable)?;
        let scripts = [("evo_peer.py", peer::SCRIPT), ("verify_peer.py", VERIFY_PEER), (SCRIPT, SCRIPT_TEXT)];
        hand_out(folder.path(), &scripts.map(|(name, text)| ExportFile::of(name, text, "")))
            .map_err(unhandable)?;
        let problems = bench.lane.block_worker(bench.job).and_then(|mut worker| {
            let hand = |(at, plan): (usize, &ProblemPlan)| {
                let own = folder.path().join("cases").join(at.to_string());
                fs::create_dir_all(&own)
                    .map_err(|error| LaneError::Unexpected { found: error.to_string() })?;
                worker.hand_out(plan, 0, &own, true)?;
                let place = own.join("expected");
                let mut expected = peer::arrays(plan, |own| own.role.is_answer(), &place, DType::answered);
                expected.retain(|_, own| own.path.is_file());
                let problem = ForeignProblem::of(plan, &own);
                Ok(CrosscheckProblem { problem, folder: PathBuf::new(), expected })
            };
            bench.job.timed.iter().enumerate().map(hand).collect::<Result<Vec<_>, _>>()
        });
        let problems = problems.map_err(|error| match error {
            LaneError::Lost { why } => CliError::device(why),
            error => CliError::usage(format!("its inputs could not be written: {error}")),
        })?;
        let place = |role: &str| folder.path().join(role);
        let (hash, file) = (own.provenance.source_hash.as_ref(), &own.file);
        let candidate = export(bench, &place("candidate"), &problems, (file, &own.configuration, hash))?;
        let exported = baseline.map(|configuration| {
            export(bench, &place("baseline"), &problems, (bench.file, configuration, None))
        });
        let baseline = match exported {
            Some(Err(error)) if error.exit_code() != ExitCode::Usage => return Err(error),
            exported => exported.and_then(Result::ok).unwrap_or_default(),
        };
        let request = CrosscheckRequest {
            schema: "evo.crosscheck.request",
            version: 1,
            harness: String::new(),
            role: String::new(),
            device: setup.choice.spec.clone(),
            kernel: kernel.name.clone(),
            operator: bench::operator(kernel).map(String::from),
            mode: kernel.objective.ranking.timing(),
            limit_s: options.run.limits.tool.as_secs_f64(),
            problems: Vec::new(),
        };
        let (kind, limit) = (setup.choice.kind, options.run.limits.tool);
        Ok(Handed { kind, limit, folder, request, candidate, baseline })
    }

    /// What a harness says of the candidate, and where it timed that, of the baseline.
    fn ask(&self, harness: &str, words: &[String]) -> Result<(HarnessAnswer, HarnessAnswer)> {
        let is_gemm = self.request.operator.as_deref() == Some("gemm");
        if let Some(why) = why_not(harness, self.kind, is_gemm) {
            return Ok((HarnessAnswer::without(why), HarnessAnswer::default()));
        }
        let answer = self.about(harness, words, "candidate", &self.candidate)?;
        let has_time = answer.lines.iter().any(|line| line.time_ns.is_some());
        let baseline = match has_time && harness != CUTLASS && !self.baseline.is_empty() {
            true => self.about(harness, words, "baseline", &self.baseline)?,
            false => HarnessAnswer::default(),
        };
        Ok((answer, baseline))
    }

    fn about(
        &self,
        harness: &str,
        words: &[String],
        role: &str,
        problems: &[CrosscheckProblem],
    ) -> Result<HarnessAnswer> {
        let request = CrosscheckRequest {
            harness: harness.to_string(),
            role: role.to_string(),
            problems: problems.to_vec(),
            ..self.request.clone()
        };
        let folder = self.folder.path();
        let path = folder.join(format!("{harness}-{role}.json"));
        fs::write(&path, format!("{:#}", json!(request)))
            .map_err(|error| CliError::lost_file(&path, &error))?;
        let mut command = match (harness, words.split_first()) {
            (COMMAND, Some((program, arguments))) => {
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            _ => match peers::python() {
                Ok(python) => {
                    let mut command = Command::new(python);
                    command.arg("-B").arg(folder.join(SCRIPT)).arg(harness).current_dir(folder);
                    command
                }
                Err(failure) => return Ok(HarnessAnswer::without(failure.message)),
            },
        };
        command.arg(path);
        Ok(match process::run(command, &RunLimits::new(self.limit)) {
            Ok(ended) => HarnessAnswer::read(&ended, self.request.limit_s),
            Err(error) => HarnessAnswer::without(format!("it does not start: {error}")),
        })
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
    fn read(ended: &Ended, limit_s: f64) -> HarnessAnswer {
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
            true => Some(format!("it did not end within {limit_s} s, see `--limit tool=TIME`")),
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

/// Exports a configuration into a folder: the problems with the folders that serve them.
fn export(
    bench: &Bench<'_>,
    folder: &Path,
    problems: &[CrosscheckProblem],
    (file, configuration, source_hash): (&SpaceFile, &Configuration, Option<&ContentHash>),
) -> Result<Vec<CrosscheckProblem>> {
    let choice = &bench.asked.setup.choice;
    let origin = ExportOrigin {
        file,
        formats: &FORMATS,
        arch: (choice.kind == DeviceKind::Cuda).then_some(choice.arch.as_str()),
        source_hash: source_hash.cloned(),
        judged: ExportJudgement::Now,
        judged_on: Some(bench.asked.setup.device_name()),
    };
    let kernel = session::kernel_of(file)?;
    let spec = |name: &str| kernel.problems.iter().find(|own| own.name == name);
    let wanted: Vec<&ProblemSpec> = problems.iter().filter_map(|own| spec(&own.problem.problem)).collect();
    let mut served = Vec::new();
    for (at, variant) in origin.variants(configuration, &wanted, None)?.into_iter().enumerate() {
        let folder = folder.join(at.to_string());
        hand_out(&folder, &variant.files).map_err(unhandable)?;
        let is_served =
            |own: &&CrosscheckProblem| variant.problems.iter().any(|spec| spec.name == own.problem.problem);
        let own = problems.iter().filter(is_served);
        served.extend(own.map(|own| CrosscheckProblem { folder: folder.clone(), ..own.clone() }));
    }
    Ok(served)
}

/// Candidate's time / the best right peer's time by problem, so that a harness which timed a peer too can be asked whether
/// both see the same one ahead. The run is that of `evo bench`.
fn against_peers(bench: &mut Bench<'_>, peers: &[PeerSpec]) -> Result<BTreeMap<String, f64>> {
    if peers.is_empty() {
        return Ok(BTreeMap::new());
    }
    let Bench { asked: AskedCandidate { candidate: own, setup, seed, .. }, lane, job, .. } = bench;
    let mut shapes = bench::of_kernel(session::kernel_of(&own.file)?, setup.choice.kind);
    shapes.retain(|shape| job.timed.iter().any(|plan| plan.name == shape.name));
    let seats = peers::start(peers, &setup.choice.spec, false)?;
    let rows = bench_command::rows(&[("evo", own)], seats, &shapes, setup, lane, *seed, false)?;
    Ok(rows.into_iter().filter_map(|row| Some((row.problem, row.ratio_to_best_peer?))).collect())
}
