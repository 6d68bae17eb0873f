//! `evo export --verify`: the exported files run on our inputs, their answers are judged as any candidate's, and they are
//! timed beside the candidate itself in one run.
//!
//! `cu` has two halves: `launch.hpp` has to launch what evo's own plan says, at the sizes of every problem, and `kernel.cu` is
//! a candidate of its own. Forms in Python are implementations of a peer, whose times evo's own clock bounds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, io};

use evo_export::VERIFY_PEER;
use evo_export::files::ExportFormat;
use evo_export::record;
use evo_protocol::device::DeviceKind;
use evo_protocol::known::Known;
use evo_protocol::plan::ProblemPlan;
use evo_system::scratch::ScratchPlace;
use schemars::JsonSchema;
use serde::Serialize;

use super::bench;
use super::candidate::{self, CandidateArgs};
use super::error::CliError;
use super::export_plan::{ExportArgs, ExportedVariant, VariantWish};
use super::judge::AskedCandidate;
use super::{device_lane, evaluate, session};
use crate::bench::{BenchRow, BenchShape, RowStatus, of_problems};
use crate::engine::candidate::ResolvedCandidate;
use crate::kernel::resolve::resolve;
use crate::kernel::spec::{PeerSpec, ProblemSpec};
use crate::kernel::specialize::{self, constants_of};
use crate::peer::{PeerSeat, SCRIPT};
use crate::tool::{ToolKind, ToolPlaces, find};

/// How implementations are called in the run.
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
    variants: &[ExportedVariant<'_>],
    formats: &[ExportFormat],
) -> Result<Vec<VerifiedRow>, CliError> {
    let _turn = evaluate::take_turn(&arguments.one.candidate.out, &asked.setup.choice)?;
    let scratch = ScratchPlace::new(asked.setup.farm.cache.join("exports"));
    let failed = |error: io::Error| CliError::harness(format!("cannot make a folder in the cache: {error}"));
    scratch.probe().map_err(failed)?;
    scratch.sweep();
    let mut rows = Vec::new();
    for variant in variants {
        let folder = scratch.folder().map_err(failed)?;
        let verifier = Verifier { arguments, asked, variant, folder: folder.path() };
        rows.extend(verifier.run(formats)?);
    }
    Ok(rows)
}

struct Verifier<'a> {
    arguments: &'a ExportArgs,
    asked: &'a AskedCandidate,
    variant: &'a ExportedVariant<'a>,
    folder: &'a Path,
}

impl Verifier<'_> {
    fn run(&self, formats: &[ExportFormat]) -> Result<Vec<VerifiedRow>, CliError> {
        let missing = &self.variant.missing;
        let mut rows: Vec<VerifiedRow> = missing
            .iter()
            .map(|(format, why)| self.row(*format, "not_run", &format!("it was not written: {why}")))
            .collect();
        let mut written = formats.to_vec();
        written.retain(|format| !missing.iter().any(|(other, _)| other == format));
        let peers: Vec<ExportFormat> = written.iter().copied().filter(|format| format.has_peer()).collect();
        let cpp = written.contains(&ExportFormat::Cu).then(|| self.launches_in_cpp());
        if peers.iter().any(|format| format.is_planned_in_python())
            && let Err(("fail", why)) = self.launches_in_python()
        {
            // All forms in Python hand these launches to a driver.
            let why = format!("launch_plan.py: {why}");
            rows.extend(self.alike(&peers, "fail", &why));
            return Ok(rows);
        }
        let choice = &self.asked.setup.choice;
        let is_cuda = choice.kind == DeviceKind::Cuda;
        if !is_cuda {
            let why = "it runs on a GPU only, and this is the host device";
            rows.extend(self.alike(&peers, "not_run", why));
        }
        let is_bare = |format: &ExportFormat| format.needs_cubin() && !format.has_peer();
        let bare: Vec<ExportFormat> = written.iter().copied().filter(is_bare).collect();
        let why = "a cubin does nothing by itself; the forms that load it say whether it runs";
        rows.extend(self.alike(&bare, "not_run", why));
        let with_source = matches!(cpp, Some(Ok(())));
        if let Some(Err((status, why))) = cpp {
            let is_wrong = status == "fail";
            let why = if is_wrong { format!("launch.hpp: {why}") } else { why };
            rows.push(self.row(ExportFormat::Cu, status, &why));
            if is_wrong {
                return Ok(rows);
            }
        }
        let is_of_target =
            |problem: &ProblemSpec| problem.device.as_deref().is_none_or(|kind| kind == choice.kind.as_str());
        if !self.variant.wish.problems.iter().any(|problem| is_of_target(problem)) {
            let why = "the export is for another kind of device than this one";
            rows.push(self.row(ExportFormat::Cu, "not_run", why));
            return Ok(rows);
        }
        if with_source || is_cuda && !peers.is_empty() {
            rows.extend(self.timed(with_source, if is_cuda { &peers } else { &[] })?);
        }
        Ok(rows)
    }

    fn row(&self, format: ExportFormat, status: &'static str, why: &str) -> VerifiedRow {
        VerifiedRow::new(format, &self.variant.wish.folder, None, status, None, Some(why.to_string()))
    }

    fn alike(
        &self,
        formats: &[ExportFormat],
        status: &'static str,
        why: &str,
    ) -> impl Iterator<Item = VerifiedRow> {
        formats.iter().map(move |format| self.row(*format, status, why))
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
                match Command::new(program).args(words).args(options).current_dir(self.folder).output() {
                    Ok(made) if !made.status.success() => return Ok(made),
                    Ok(_) => {
                        return Command::new(self.folder.join("record")).current_dir(self.folder).output();
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => last = error,
                }
            }
            Err(last)
        });
        ran.unwrap_or_else(|error| Err(("not_run", format!("launch.hpp was not compiled: {error}"))))
    }

    fn launches_in_python(&self) -> LaunchLook {
        let python = find(ToolKind::Python, None, &ToolPlaces::of_environment())
            .map_err(|failure| ("not_run", failure.message))?;
        let ran = self
            .launches(|| Command::new(&python).args(["-B", "record.py"]).current_dir(self.folder).output());
        ran.unwrap_or_else(|error| Err(("not_run", format!("launch_plan.py was not run: {error}"))))
    }

    /// Writes the programs and runs one, or only its compiler where that complains.
    fn launches(&self, run: impl FnOnce() -> io::Result<Output>) -> io::Result<LaunchLook> {
        let VariantWish { kernel, configuration, constants, .. } = &self.variant.wish;
        // The plans of every problem that the variant serves, on whatever device.
        let served = kernel.problems.iter();
        let served = served.filter(|problem| constants_of(&kernel.specialize, problem) == *constants);
        let plans: Vec<ProblemPlan> =
            served.filter_map(|problem| resolve(kernel, configuration, problem).ok()).collect();
        let sizes: Vec<BTreeMap<String, i64>> = plans.iter().map(|plan| plan.sizes.clone()).collect();
        let programs = record::programs(&self.variant.model, &sizes).map_err(io::Error::other)?;
        for file in self.variant.files.iter().chain(&programs) {
            let path = self.folder.join(&file.path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, &file.contents)?;
        }
        let ran = run();
        // Two of them are called as CUDA's own headers, which the builds that follow in this folder must not find.
        for file in &programs {
            fs::remove_file(self.folder.join(&file.path))?;
        }
        let ran = ran?;
        if !ran.status.success() {
            let text = String::from_utf8_lossy(&ran.stderr);
            let first = text.lines().find(|line| line.contains("rror")).or(text.lines().next());
            let why = format!("its launch code does not run: {}", first.unwrap_or_default());
            return Ok(Err(("fail", why)));
        }
        let printed = String::from_utf8_lossy(&ran.stdout);
        Ok(record::compare(&self.variant.model, &printed, &plans)
            .map_err(|why| ("fail", format!("it does not launch what evo launches {why}"))))
    }

    /// Judges and times them beside the candidate itself.
    fn timed(&self, with_source: bool, peers: &[ExportFormat]) -> Result<Vec<VerifiedRow>, CliError> {
        let AskedCandidate { setup, seed, candidate, .. } = self.asked;
        let wish = &self.variant.wish;
        let kernel = session::kernel_of(&candidate.file)?;
        let served =
            |shape: &BenchShape| wish.problems.iter().any(|problem| problem.name == shape.problem.name);
        let shapes: Vec<BenchShape> =
            of_problems(kernel, setup.choice.kind).into_iter().filter(served).collect();
        if shapes.is_empty() {
            let why = "no timed problem of this device has these constants";
            return Ok(vec![self.row(ExportFormat::Cu, "not_run", why)]);
        }
        let original = self.resolved(self.arguments.one.candidate.source.clone())?;
        let mut exported = with_source.then(|| self.resolved(Some(self.folder.join(SOURCE)))).transpose()?;
        // The exported source has one set of constants, and is asked about no other.
        if let Some(kernel) = exported.as_mut().and_then(|exported| exported.file.kernel.as_mut()) {
            specialize::narrow(kernel, &wish.constants);
        }
        let mut lane = device_lane::lane(setup, Some(kernel))?;
        let (mut seats, mut rows) = (Vec::new(), Vec::new());
        if !peers.is_empty() {
            match self.seat(peers)? {
                Ok(seat) => seats.push(seat),
                Err(why) => rows.extend(self.alike(peers, "not_run", &why)),
            }
        }
        let named = [(OURS, Some(&original)), (SOURCE, exported.as_ref())];
        let named: Vec<_> =
            named.into_iter().filter_map(|(name, candidate)| Some((name, candidate?))).collect();
        let found = bench::rows(&named, seats, &shapes, setup, &mut lane, *seed, true)?;
        let mode = kernel.objective.ranking.timing();
        rows.extend(self.rows(&found, mode.as_str(), with_source, peers));
        Ok(rows)
    }

    /// The variant with this source in the place of the space's.
    fn resolved(&self, source: Option<PathBuf>) -> Result<ResolvedCandidate, CliError> {
        let mut words = vec![session::space_word(&self.asked.candidate.file)];
        words.extend(self.variant.wish.configuration.iter().map(|(name, value)| format!("{name}={value}")));
        let candidate =
            CandidateArgs { config: None, source, study: None, ..self.arguments.one.candidate.clone() };
        let run = &self.arguments.one.run;
        candidate::resolve(&words, &candidate, &run.device, run.limits.access())
    }

    /// The peer that calls forms in Python, or why there is none.
    fn seat(&self, formats: &[ExportFormat]) -> Result<Result<PeerSeat, String>, CliError> {
        let python = match find(ToolKind::Python, None, &ToolPlaces::of_environment()) {
            Ok(python) => python,
            Err(failure) => return Ok(Err(failure.message)),
        };
        let place = self.folder.display().to_string();
        for (name, text) in [("evo_peer.py", SCRIPT), ("verify_peer.py", VERIFY_PEER)] {
            fs::write(self.folder.join(name), text)
                .map_err(|error| CliError::harness(format!("cannot write into `{place}`: {error}")))?;
        }
        let program = format!("{place}/verify_peer.py");
        let words = [python.display().to_string(), "-B".into(), program, place];
        let formats = formats.iter().map(|format| format.as_str().to_string());
        let (name, command) = (PEER.to_string(), words.into_iter().chain(formats).collect());
        let peer = PeerSpec { name, command, folder: self.folder.to_path_buf(), ..PeerSpec::default() };
        Ok(PeerSeat::start(peer, TIMEOUT, &self.asked.setup.choice.spec)
            .map_err(|error| format!("Python does not start: {error}")))
    }

    fn rows(
        &self,
        found: &[BenchRow],
        mode: &str,
        with_source: bool,
        peers: &[ExportFormat],
    ) -> Vec<VerifiedRow> {
        let time = |row: &BenchRow| row.modes.get(mode).map(|times| times.p50_ns);
        let ours = |problem: &str| {
            let mut rows = found.iter().filter(|row| row.implementation == OURS);
            rows.find(|row| row.problem == problem).and_then(time)
        };
        let source = with_source.then_some((ExportFormat::Cu, SOURCE.to_string()));
        let forms = peers.iter().map(|format| (*format, format!("{PEER}/{}", format.as_str())));
        let mut rows = Vec::new();
        for (format, name) in source.into_iter().chain(forms) {
            let before = rows.len();
            for row in found.iter().filter(|row| row.implementation == name) {
                let status = match row.status {
                    RowStatus::Pass => "pass",
                    RowStatus::Fail => "fail",
                    RowStatus::Skipped | RowStatus::NotRun => "not_run",
                };
                let times_ns = time(row).zip(ours(&row.problem));
                let (folder, problem) = (&self.variant.wish.folder, Some(row.problem.clone()));
                rows.push(VerifiedRow::new(format, folder, problem, status, times_ns, row.reason.clone()));
            }
            if rows.len() == before {
                let whole = found.iter().find(|row| row.implementation == PEER);
                let why = whole.and_then(|row| row.reason.as_deref());
                rows.push(self.row(format, "not_run", why.unwrap_or("it gave no answer")));
            }
        }
        rows
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

    pub fn line(&self) -> String {
        let problem = self.problem.value().map_or("every problem", String::as_str);
        let place = [self.variant.as_str(), problem];
        let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
        let times = match (&self.time_ns, &self.evo_ns) {
            (Known::Is(exported), Known::Is(evo)) => {
                format!("  {:.2} µs, evo itself {:.2} µs ({:.3})", exported / 1e3, evo / 1e3, exported / evo)
            }
            _ => String::new(),
        };
        let reason = self.reason.value().map_or(String::new(), |why| format!("  {why}"));
        format!("  {:<10} {:<24} {:<8}{times}{reason}\n", self.format.as_str(), place.join(" "), self.status)
    }
}
