//! `evo export --verify`: the exported files run on our inputs, their answers are judged as any candidate's, and they are
//! timed beside the candidate itself in one run.
//!
//! `cu` has two halves: `launch.hpp` has to launch what evo's own plan says, at the sizes of every problem, and `kernel.cu` is
//! a candidate of its own. Forms in Python are implementations of a peer, whose times evo's own clock bounds.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use evo_export::VERIFY_PEER;
use evo_export::files::{ExportFile, ExportFormat};
use evo_export::record;
use evo_protocol::device::DeviceKind;
use evo_protocol::known::Known;
use evo_protocol::plan::ProblemPlan;
use schemars::JsonSchema;
use serde::Serialize;

use super::export_plan::{ExportArgs, ExportVariant, hand_out};
use super::judge::AskedCandidate;
use super::{CliError, Result, bench, evaluate, peers, session};
use crate::bench::{BenchRow, RowStatus, of_kernel};
use crate::engine::candidate::ResolvedCandidate;
use crate::kernel::resolve::resolve;
use crate::kernel::spec::PeerSpec;
use crate::kernel::specialize::{self, constants_of};
use crate::peer::{self, PeerSeat};
use crate::process::{self, Ended, RunLimits};

const OURS: &str = "evo";
const SOURCE: &str = "kernel.cu";
const PEER: &str = "export";

/// Longest time for one answer of the peer: the extension of PyTorch takes minutes to compile.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(480);

/// What came of a comparison of launches: nothing wrong, or `fail` with what is wrong, or `not_run` with why nobody could
/// look.
type LaunchLook = Result<(), (&'static str, String)>;

pub fn verify(
    arguments: &ExportArgs,
    asked: &AskedCandidate,
    variants: &[ExportVariant<'_>],
    formats: &[ExportFormat],
) -> Result<Vec<VerifiedRow>> {
    let _turn = evaluate::take_turn(&arguments.one.candidate.out, &asked.setup.choice)?;
    let failed = |error: io::Error| CliError::harness(format!("cannot make a folder in the cache: {error}"));
    let place = peer::place(&asked.setup.farm.cache, "exports").map_err(failed)?;
    let mut rows = Vec::new();
    for variant in variants {
        let folder = place.folder().map_err(failed)?;
        let scripts = [("evo_peer.py", peer::SCRIPT), ("verify_peer.py", VERIFY_PEER)];
        hand_out(folder.path(), &scripts.map(|(name, text)| ExportFile::of(name, text, "")))
            .map_err(failed)?;
        let mut verifier = Verifier { arguments, asked, variant, folder: folder.path(), rows: Vec::new() };
        verifier.run(formats)?;
        rows.extend(verifier.rows);
    }
    Ok(rows)
}

struct Verifier<'a> {
    arguments: &'a ExportArgs,
    asked: &'a AskedCandidate,
    variant: &'a ExportVariant<'a>,
    folder: &'a Path,
    rows: Vec<VerifiedRow>,
}

impl Verifier<'_> {
    fn run(&mut self, formats: &[ExportFormat]) -> Result<()> {
        let variant = self.variant;
        let missing = &variant.missing;
        for (format, why) in missing {
            self.note(&[*format], "not_run", &format!("it was not written: {why}"));
        }
        let is_written = |format: &&ExportFormat| !missing.iter().any(|(other, _)| other == *format);
        let written: Vec<ExportFormat> = formats.iter().filter(is_written).copied().collect();
        let (peers, others): (Vec<ExportFormat>, Vec<ExportFormat>) =
            written.into_iter().partition(|format| format.has_peer());
        let bare: Vec<ExportFormat> = others.iter().copied().filter(|format| format.needs_cubin()).collect();
        let cpp = others.contains(&ExportFormat::Cu).then(|| self.launches_in_cpp());
        if peers.iter().any(|format| format.is_planned_in_python())
            && let Err(("fail", why)) = self.launches_in_python()
        {
            // All forms in Python hand these launches to a driver.
            self.note(&peers, "fail", &format!("launch_plan.py: {why}"));
            return Ok(());
        }
        let kind = self.asked.setup.choice.kind;
        let is_cuda = kind == DeviceKind::Cuda;
        if !is_cuda {
            self.note(&peers, "not_run", "it runs on a GPU only, and this is the host device");
        }
        let why = "a cubin does nothing by itself; the forms that load it say whether it runs";
        self.note(&bare, "not_run", why);
        let with_source = matches!(cpp, Some(Ok(())));
        match cpp {
            Some(Err(("fail", why))) => {
                self.note(&[ExportFormat::Cu], "fail", &format!("launch.hpp: {why}"));
                return Ok(());
            }
            Some(Err((status, why))) => self.note(&[ExportFormat::Cu], status, &why),
            _ => {}
        }
        let mut devices = self.variant.problems.iter().map(|problem| problem.device.as_deref());
        if !devices.any(|device| device.is_none_or(|device| device == kind.as_str())) {
            let why = "the export is for another kind of device than this one";
            self.note(&[ExportFormat::Cu], "not_run", why);
        } else if with_source || is_cuda && !peers.is_empty() {
            self.time(with_source, if is_cuda { &peers } else { &[] })?;
        }
        Ok(())
    }

    /// What became of forms on every problem.
    fn note(&mut self, formats: &[ExportFormat], status: &'static str, why: &str) {
        let row = |format: &ExportFormat| {
            VerifiedRow::new(*format, &self.variant.folder, None, status, None, Some(why.to_string()))
        };
        self.rows.extend(formats.iter().map(row));
    }

    fn launches_in_cpp(&self) -> LaunchLook {
        let compilers = std::env::var("CXX").ok().filter(|words| !words.trim().is_empty());
        let compilers =
            compilers.map_or(["c++", "g++", "clang++"].map(String::from).to_vec(), |words| vec![words]);
        let ran = self.launches(|| {
            let mut last =
                io::Error::new(io::ErrorKind::NotFound, "there is no C++ compiler: install g++ or set CXX");
            for words in &compilers {
                let mut words = words.split_whitespace();
                let Some(program) = words.next() else { continue };
                let options = ["-std=c++17", "-I.", "-o", "record", "record.cpp"];
                match self.ended(program.as_ref(), words.chain(options)) {
                    Ok(made) if !made.succeeded() => return Ok(made),
                    Ok(_) => return self.ended(&self.folder.join("record"), []),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => last = error,
                }
            }
            Err(last)
        });
        ran.unwrap_or_else(|error| Err(("not_run", format!("launch.hpp was not compiled: {error}"))))
    }

    fn launches_in_python(&self) -> LaunchLook {
        let python = peers::python().map_err(|failure| ("not_run", failure.message))?;
        let ran = self.launches(|| self.ended(&python, ["-B", "record.py"]));
        ran.unwrap_or_else(|error| Err(("not_run", format!("launch_plan.py was not run: {error}"))))
    }

    fn ended<'w>(&self, program: &Path, words: impl IntoIterator<Item = &'w str>) -> io::Result<Ended> {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.folder);
        let limits = RunLimits::new(self.arguments.one.run.limits.tool);
        // A line for each launch.
        let ended = process::run(command, &RunLimits { output_bytes: 64 << 20, ..limits })?;
        match ended.timed_out {
            true => Err(io::Error::other(format!(
                "it did not end within {:?}, see `--limit tool=TIME`",
                limits.deadline
            ))),
            false => Ok(ended),
        }
    }

    /// Writes the programs and runs one, or only its compiler where that complains.
    fn launches(&self, run: impl FnOnce() -> io::Result<Ended>) -> io::Result<LaunchLook> {
        let ExportVariant { kernel, configuration, constants, model, files, .. } = self.variant;
        // The plans of every problem that the variant serves, on whatever device.
        let served = kernel.problems.iter();
        let served = served.filter(|problem| constants_of(&kernel.specialize, problem) == *constants);
        let plans: Vec<ProblemPlan> =
            served.filter_map(|problem| resolve(kernel, configuration, problem).ok()).collect();
        let sizes: Vec<_> = plans.iter().map(|plan| plan.sizes.clone()).collect();
        let programs = record::programs(model, &sizes).map_err(io::Error::other)?;
        hand_out(self.folder, files.iter().chain(&programs))?;
        let ran = run();
        // Two of them are called as CUDA's own headers, which the builds that follow in this folder must not find.
        for file in &programs {
            std::fs::remove_file(self.folder.join(&file.path))?;
        }
        let ran = ran?;
        if !ran.succeeded() {
            let text = ran.stderr.text();
            let first = text.lines().find(|line| line.contains("rror")).or(text.lines().next());
            let why = format!("its launch code does not run: {}", first.unwrap_or_default());
            return Ok(Err(("fail", why)));
        }
        Ok(record::compare(model, &ran.stdout.text(), &plans)
            .map_err(|why| ("fail", format!("it does not launch what evo launches {why}"))))
    }

    fn time(&mut self, with_source: bool, peers: &[ExportFormat]) -> Result<()> {
        let asked = self.asked;
        let AskedCandidate { setup, seed, candidate, .. } = asked;
        let kernel = session::kernel_of(&candidate.file)?;
        let mut shapes = of_kernel(kernel, setup.choice.kind);
        let served = &self.variant.problems;
        shapes.retain(|shape| served.iter().any(|problem| problem.name == shape.name));
        if shapes.is_empty() {
            let why = "no timed problem of this device has these constants";
            self.note(&[ExportFormat::Cu], "not_run", why);
            return Ok(());
        }
        let original = self.resolved(self.arguments.one.candidate.source.clone())?;
        let mut exported = with_source.then(|| self.resolved(Some(self.folder.join(SOURCE)))).transpose()?;
        // The exported source has one set of constants, and is asked about no other.
        if let Some(kernel) = exported.as_mut().and_then(|exported| exported.file.kernel.as_mut()) {
            specialize::narrow(kernel, &self.variant.constants);
        }
        let mut lane = session::lane(setup, Some(kernel))?;
        let mut seats = Vec::new();
        if !peers.is_empty() {
            match self.seat(peers) {
                Ok(seat) => seats.push(seat),
                Err(why) => self.note(peers, "not_run", &why),
            }
        }
        let named = [(OURS, Some(&original)), (SOURCE, exported.as_ref())];
        let named: Vec<_> =
            named.into_iter().filter_map(|(name, candidate)| Some((name, candidate?))).collect();
        let found = bench::rows(&named, seats, &shapes, setup, &mut lane, *seed, true)?;
        let mode = kernel.objective.ranking.timing().as_str();
        let time = |row: &BenchRow| row.modes.get(mode).map(|times| times.p50_ns);
        let ours = |problem: &str| {
            let mut rows = found.iter().filter(|row| row.implementation == OURS);
            rows.find(|row| row.problem == problem).and_then(time)
        };
        let source = with_source.then_some((ExportFormat::Cu, SOURCE.to_string()));
        let forms = peers.iter().map(|format| (*format, format!("{PEER}/{}", format.as_str())));
        for (format, name) in source.into_iter().chain(forms) {
            let before = self.rows.len();
            for row in found.iter().filter(|row| row.implementation == name) {
                let status = match row.status {
                    RowStatus::Skipped => RowStatus::NotRun,
                    status => status,
                };
                let (folder, problem) = (&self.variant.folder, Some(row.problem.clone()));
                let (times_ns, reason) = (time(row).zip(ours(&row.problem)), row.reason.clone());
                self.rows.push(VerifiedRow::new(format, folder, problem, status.as_str(), times_ns, reason));
            }
            if self.rows.len() == before {
                let peer = found.iter().find(|row| row.implementation == PEER);
                let why = peer.and_then(|row| row.reason.as_deref());
                self.note(&[format], "not_run", why.unwrap_or("it gave no answer"));
            }
        }
        Ok(())
    }

    fn resolved(&self, source: Option<PathBuf>) -> Result<ResolvedCandidate> {
        let space = session::space_word(&self.asked.candidate.file);
        let words = self.variant.configuration.iter().map(|(name, value)| format!("{name}={value}"));
        let one = &self.arguments.one;
        one.other(&space, words, [None, source, one.candidate.launch.clone()])
    }

    /// The peer that calls forms in Python, or why there is none.
    fn seat(&self, formats: &[ExportFormat]) -> Result<PeerSeat, String> {
        let python = peers::python().map_err(|failure| failure.message)?;
        let place = self.folder.display().to_string();
        let words = [python.display().to_string(), "-B".into(), format!("{place}/verify_peer.py"), place];
        let formats = formats.iter().map(|format| format.as_str().to_string());
        let (name, command) = (PEER.to_string(), words.into_iter().chain(formats).collect());
        let peer = PeerSpec { name, command, folder: self.folder.to_path_buf(), ..PeerSpec::default() };
        PeerSeat::start(peer, TIMEOUT, &self.asked.setup.choice.spec)
            .map_err(|error| format!("Python does not start: {error}"))
    }
}

/// What became of one form on one problem. Times are in the mode that ranks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct VerifiedRow {
    #[schemars(with = "String")]
    pub format: ExportFormat,
    /// Folder of the variant in the export.
    pub variant: String,
    pub problem: Known<String>,
    /// `pass`, `fail` or `not_run`.
    pub status: &'static str,
    time_ns: Known<f64>,
    evo_ns: Known<f64>,
    ratio: Known<f64>,
    /// Why it is not `pass`.
    pub reason: Known<String>,
}

impl VerifiedRow {
    /// Without a problem the form as a whole is meant. `times_ns` are its own and ours.
    fn new(
        format: ExportFormat,
        variant: &str,
        problem: Option<String>,
        status: &'static str,
        times_ns: Option<(f64, f64)>,
        reason: Option<String>,
    ) -> VerifiedRow {
        let why = reason.clone().unwrap_or_else(|| "it was compared and not timed".to_string());
        let number = |of: fn((f64, f64)) -> f64| Known::of(times_ns.map(of), why.as_str());
        VerifiedRow {
            format,
            variant: variant.to_string(),
            problem: Known::of(problem, "all problems are meant"),
            status,
            time_ns: number(|(exported, _)| exported),
            evo_ns: number(|(_, evo)| evo),
            ratio: number(|(exported, evo)| exported / evo),
            reason: Known::of(reason, "it passed"),
        }
    }
}
