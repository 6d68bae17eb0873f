//! Harnesses of `evo crosscheck`: how each is started, and what it said.
//!
//! Each is a program of its own with a deadline, capped output and a kill of all that it started. Whatever it does wrong is the
//! reason of a row.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs, io};

use evo_export::format::ExportFormat;
use evo_export::{CROSSCHECK, VERIFY_PEER};
use evo_protocol::crosscheck::{CrosscheckArray, CrosscheckLine, CrosscheckProblem, CrosscheckRequest};
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::{ErrorCode, ErrorPlace};
use evo_protocol::export::ExportJudgement;
use evo_protocol::plan::ProblemPlan;
use evo_space::genome::{Configuration, ContentHash};
use evo_space::text::{printable, shortened};
use evo_system::scratch::{ScratchFolder, ScratchPlace};

use super::crosscheck_args::{CrosscheckArgs, Harness};
use super::error::CliError;
use super::exit_code::ExitCode;
use super::export_plan::{self, VariantWish};
use super::judge::Bench;
use super::session;
use crate::bench::peer_problem;
use crate::kernel::spec::{KernelSpec, ProblemSpec, ReferenceSpec, SpaceFile};
use crate::kernel::specialize::{constants_of, distinct};
use crate::peer::SCRIPT as PEER;
use crate::process::{self, Ended, RunLimits, signal_name};
use crate::supervise::lane::LaneError;
use crate::tool::{ToolKind, ToolPlaces, find};

/// Letters that are shown of what a harness said.
const SHOWN: usize = 300;

/// The script that runs the harnesses in Python.
pub const SCRIPT: &str = "crosscheck.py";

/// What a harness said of some problems.
#[derive(Debug, Default)]
pub struct HarnessAnswer {
    pub lines: Vec<CrosscheckLine>,
    /// Why other problems have no line.
    pub why_not: String,
}

impl HarnessAnswer {
    pub fn of(&self, problem: &str) -> Option<&CrosscheckLine> {
        self.lines.iter().find(|own| own.problem == problem)
    }

    /// No line, for this reason.
    pub fn without(why: impl Into<String>) -> HarnessAnswer {
        HarnessAnswer { lines: Vec::new(), why_not: why.into() }
    }
}

/// The words of the user's own harness, whose program is there.
pub fn command_words(arguments: &CrosscheckArgs) -> Result<Vec<String>, CliError> {
    let is_asked = arguments.asked().contains(&Harness::Command);
    let Some(command) = &arguments.command else {
        return match is_asked {
            true => Err(CliError::usage("the harness `command` has no program")
                .with_hint("name it: `--command 'python3 mine.py'`")),
            false => Ok(Vec::new()),
        };
    };
    if !is_asked {
        return Err(CliError::usage("`--command` names a program that `--harness` leaves out")
            .with_hint("add `command` to `--harness`"));
    }
    let place = || ErrorPlace { file: format!("--command {command}"), line: None, column: None };
    let refused = |why: String| {
        let hint = "a program without a `/` is looked for in PATH, one with a `/` in the current folder";
        CliError::usage(format!("the harness `command` does not start: {why}"))
            .with_code(ErrorCode::BadFile)
            .at(place())
            .with_hint(hint)
    };
    let words = shlex::split(command)
        .ok_or_else(|| refused("a quote or a backslash in it has no second half".into()))?;
    let program = words.first().filter(|own| !own.is_empty()).ok_or_else(|| refused("it is empty".into()))?;
    match is_there(program) {
        true => Ok(words),
        false => Err(refused(format!("there is no program `{program}`"))),
    }
}

fn is_there(program: &str) -> bool {
    let is_program = |path: PathBuf| {
        fs::metadata(path).is_ok_and(|own| own.is_file() && own.permissions().mode() & 0o111 != 0)
    };
    match program.contains('/') {
        true => is_program(PathBuf::from(program)),
        false => env::var_os("PATH")
            .is_some_and(|all| env::split_paths(&all).any(|folder| is_program(folder.join(program)))),
    }
}

/// A harness that is to be asked.
#[derive(Debug)]
pub struct HarnessProgram<'a> {
    pub harness: Harness,
    /// Of the user's own.
    pub words: &'a [String],
    /// The folder with the script, in which the others run.
    pub folder: &'a Path,
    pub limit: Duration,
}

impl HarnessProgram<'_> {
    /// Asks it about a request.
    pub fn ask(&self, request: &Path) -> HarnessAnswer {
        let mut command = match self.command() {
            Ok(command) => command,
            Err(why) => return HarnessAnswer::without(why),
        };
        command.arg(request);
        match process::run(command, &RunLimits::new(self.limit)) {
            Ok(ended) => self.read(&ended),
            Err(error) => HarnessAnswer::without(format!("it does not start: {error}")),
        }
    }

    fn command(&self) -> Result<Command, String> {
        if let (Harness::Command, Some((program, arguments))) = (self.harness, self.words.split_first()) {
            let mut command = Command::new(program);
            command.args(arguments);
            return Ok(command);
        }
        let python = find(ToolKind::Python, None, &ToolPlaces::of_environment());
        let mut command = Command::new(python.map_err(|failure| failure.message)?);
        command.arg("-B").arg(self.folder.join(SCRIPT)).arg(self.harness.as_str()).current_dir(self.folder);
        Ok(command)
    }

    /// Lines that begin with a brace are the protocol's; others are the program's own talk.
    fn read(&self, ended: &Ended) -> HarnessAnswer {
        let mut answer = HarnessAnswer::default();
        let mut garbage = None;
        let stdout = ended.stdout.text();
        for text in stdout.lines().map(str::trim).filter(|own| !own.is_empty()) {
            match serde_json::from_str::<CrosscheckLine>(text) {
                Ok(line) if answer.of(&line.problem).is_none() => answer.lines.push(cleaned(line)),
                _ => garbage = garbage.or(Some(text)),
            }
        }
        answer.why_not = match (ending(ended, self.limit), garbage) {
            (Some(how), _) => {
                let stderr = ended.stderr.text();
                let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
                last.map_or(how.clone(), |line| format!("{how} (last words: {})", shown(line)))
            }
            (None, Some(text)) => format!("it printed something that is not a row: `{}`", shown(text)),
            (None, None) => "it said nothing of this problem".to_string(),
        };
        answer
    }
}

/// How a program ended that did not end well.
fn ending(ended: &Ended, limit: Duration) -> Option<String> {
    if ended.timed_out {
        return Some(format!("it did not end within {} s, see `--limit-tool`", limit.as_secs_f64()));
    }
    let status = ended.status?;
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("its process ended with exit code {code}")),
        (None, Some(signal)) => Some(format!("its process was killed by {}", signal_name(signal))),
        (None, None) => Some("its process ended".to_string()),
    }
}

fn cleaned(line: CrosscheckLine) -> CrosscheckLine {
    let clean = |text: Option<String>| text.map(|own| shown(&own)).filter(|own| !own.is_empty());
    CrosscheckLine { version: clean(line.version), reason: clean(line.reason), ..line }
}

fn shown(text: &str) -> String {
    printable(&shortened(text.trim(), SHOWN)).into_owned()
}

/// Why a harness cannot be of use on a device, whatever is installed.
pub fn why_not_on(harness: Harness, kind: DeviceKind, is_gemm: bool) -> Option<&'static str> {
    match (harness, kind) {
        (Harness::Command, _) => None,
        (_, DeviceKind::Host) => Some("it runs on a GPU only, and this is the host device"),
        (Harness::Cutlass, _) if !is_gemm => Some("the kernel is not a GEMM, and CUTLASS times nothing else"),
        _ => None,
    }
}

/// The forms that harnesses launch.
const FORMATS: [ExportFormat; 4] =
    [ExportFormat::Cu, ExportFormat::Cubin, ExportFormat::TorchOp, ExportFormat::CudaCore];

/// What a harness may be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedRole {
    Candidate,
    Baseline,
}

impl AskedRole {
    pub fn as_str(self) -> &'static str {
        match self {
            AskedRole::Candidate => "candidate",
            AskedRole::Baseline => "baseline",
        }
    }
}

/// A variant with the space that it is of.
#[derive(Clone, Copy, Debug)]
pub struct ExportedOne<'a> {
    pub role: AskedRole,
    pub file: &'a SpaceFile,
    pub configuration: &'a Configuration,
    pub source_hash: Option<&'a ContentHash>,
}

/// The folder that harnesses are handed.
#[derive(Debug)]
pub struct CrosscheckTask {
    folder: ScratchFolder,
    /// With the folder of each problem still missing.
    problems: Vec<CrosscheckProblem>,
    request: CrosscheckRequest,
}

impl CrosscheckTask {
    /// Writes scripts, inputs and expected answers. The inner error says why a harness cannot be asked.
    pub fn new(bench: &mut Bench<'_>, limit_s: f64) -> Result<Result<CrosscheckTask, String>, CliError> {
        let kernel = session::kernel_of(bench.file)?;
        let place = ScratchPlace::new(bench.setup.farm.cache.join("crosschecks"));
        let made = place.probe().and_then(|()| {
            place.sweep();
            place.folder()
        });
        let folder = made.map_err(|error| unwritable(&error))?;
        for (name, text) in [("evo_peer.py", PEER), ("verify_peer.py", VERIFY_PEER), (SCRIPT, CROSSCHECK)] {
            fs::write(folder.path().join(name), text).map_err(|error| unwritable(&error))?;
        }
        let operator = match &kernel.check.reference {
            ReferenceSpec::Builtin { name } => Some(name.clone()),
            _ => None,
        };
        let handed = bench.lane.block_worker(bench.job).and_then(|mut worker| {
            let mut problems = Vec::new();
            for (at, plan) in bench.job.timed.iter().enumerate() {
                let own = folder.path().join("cases").join(at.to_string());
                fs::create_dir_all(&own)
                    .map_err(|error| LaneError::Unexpected { found: error.to_string() })?;
                worker.hand_out_answers(plan, &own)?;
                problems.push(problem(plan, kernel, operator.clone(), &own));
            }
            Ok(problems)
        });
        let problems = match handed {
            Ok(problems) => problems,
            Err(LaneError::Lost { why }) => return Err(CliError::device(why)),
            Err(error) => return Ok(Err(format!("its inputs could not be written: {error}"))),
        };
        let request = CrosscheckRequest {
            schema: "evo.crosscheck.request".to_string(),
            version: 1,
            harness: String::new(),
            role: String::new(),
            device: bench.setup.choice.spec.clone(),
            kernel: kernel.name.clone(),
            operator,
            mode: kernel.objective.ranking.timing(),
            limit_s,
            problems: Vec::new(),
        };
        Ok(Ok(CrosscheckTask { folder, problems, request }))
    }

    /// Where harnesses run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Exports a variant into the folder: the problems with the folders that serve them. The inner error says why it cannot
    /// be exported.
    pub fn export(
        &self,
        bench: &Bench<'_>,
        one: ExportedOne<'_>,
    ) -> Result<Result<Vec<CrosscheckProblem>, String>, CliError> {
        let kernel = session::kernel_of(one.file)?;
        let spec = |name: &str| kernel.problems.iter().find(|own| own.name == name);
        let asked: Vec<&ProblemSpec> = self.problems.iter().filter_map(|own| spec(&own.problem)).collect();
        let arch = (bench.setup.choice.kind == DeviceKind::Cuda).then_some(bench.setup.choice.arch.as_str());
        let mut served = Vec::new();
        let sets = distinct(asked.iter().map(|own| constants_of(&kernel.specialize, own)));
        for (at, constants) in sets.into_iter().enumerate() {
            let own = asked.iter().filter(|own| constants_of(&kernel.specialize, own) == constants);
            let wish = VariantWish {
                file: one.file,
                kernel,
                configuration: one.configuration.clone(),
                constants: constants.clone(),
                problems: own.copied().collect(),
                source_hash: one.source_hash.cloned(),
                judged: ExportJudgement::Now,
                judged_on: bench.setup.choice.name.clone().or(Some(bench.setup.choice.spec.clone())),
                numbers: None,
                folder: String::new(),
            };
            let variant = match export_plan::make(&wish, &FORMATS, arch) {
                Ok(variant) => variant,
                Err(error) if error.exit_code() == ExitCode::Usage => {
                    let text = error.to_string();
                    return Ok(Err(text.lines().next().unwrap_or_default().to_string()));
                }
                Err(error) => return Err(error),
            };
            let folder = self.folder().join(one.role.as_str()).join(at.to_string());
            for file in &variant.files {
                write(&folder.join(&file.path), &file.contents).map_err(|error| unwritable(&error))?;
            }
            let names: Vec<&str> = wish.problems.iter().map(|own| own.name.as_str()).collect();
            let own = self.problems.iter().filter(|own| names.contains(&own.problem.as_str()));
            served.extend(own.map(|own| CrosscheckProblem { folder: folder.clone(), ..own.clone() }));
        }
        Ok(Ok(served))
    }

    /// Writes the request of a harness about one of both; its path.
    pub fn request(
        &self,
        harness: Harness,
        role: AskedRole,
        problems: &[CrosscheckProblem],
    ) -> Result<PathBuf, CliError> {
        let request = CrosscheckRequest {
            harness: harness.as_str().to_string(),
            role: role.as_str().to_string(),
            problems: problems.to_vec(),
            ..self.request.clone()
        };
        let path = self.folder().join(format!("{}-{}.json", harness.as_str(), role.as_str()));
        let text = serde_json::to_string_pretty(&request)
            .map_err(|error| CliError::harness(format!("the request cannot be written: {error}")))?;
        fs::write(&path, text).map_err(|error| unwritable(&error))?;
        Ok(path)
    }

    /// Whether the task is a product of matrices.
    pub fn is_gemm(&self) -> bool {
        self.request.operator.as_deref() == Some("gemm")
    }
}

fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, contents)
}

fn unwritable(error: &io::Error) -> CliError {
    CliError::harness(format!("cannot write what a harness is handed: {error}"))
        .with_hint("the cache (`EVO_CACHE_DIR`) needs room on the disk")
}

/// A problem as a harness sees it, with files in a folder.
fn problem(
    plan: &ProblemPlan,
    kernel: &KernelSpec,
    operator: Option<String>,
    folder: &Path,
) -> CrosscheckProblem {
    let handed = peer_problem(plan, &kernel.name, operator, folder);
    let inputs = handed.inputs.into_iter().map(|(name, own)| {
        let dtype = own.dtype.to_string();
        (name, CrosscheckArray { path: own.path, dtype, npy: own.npy.to_string(), shape: own.shape })
    });
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
        inputs: inputs.collect(),
        expected: expected.filter(|(_, own)| own.path.is_file()).collect(),
    }
}
