//! `evo export --verify`: the exported files run on our inputs, their answers are judged as any candidate's, and they are
//! timed beside the candidate itself in one run.
//!
//! `cu` has two halves: `launch.hpp` has to launch what evo's own plan says, at the sizes of every problem, and `kernel.cu` is
//! a candidate of its own. Forms in Python are implementations of a peer, whose times evo's own clock bounds.

use std::fs;

use evo_export::VERIFY_PEER;
use evo_export::format::ExportFormat;
use evo_protocol::device::DeviceKind;
use evo_protocol::known::Known;
use evo_system::scratch::{ScratchFolder, ScratchPlace};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::bench;
use super::candidate::{self, CandidateArgs};
use super::error::CliError;
use super::export_args::ExportArgs;
use super::export_plan::ExportPlan;
use super::export_plan::{self, LaunchLook};
use super::export_plan::{ExportedVariant, VariantWish};
use super::judge::AskedCandidate;
use super::{device_lane, evaluate, session};
use crate::bench::{BenchRow, BenchShape, RowStatus, of_problems};
use crate::engine::candidate::ResolvedCandidate;
use crate::kernel::spec::PeerSpec;
use crate::kernel::specialize;
use crate::peer::{PeerSeat, SCRIPT};
use crate::tool::{ToolKind, ToolPlaces, find};

/// How implementations are called in the run.
const OURS: &str = "evo";
const SOURCE: &str = "kernel.cu";
const PEER: &str = "export";

/// Longest time for one answer of the peer: the extension of PyTorch takes minutes to compile.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(480);

/// Verifies every variant.
///
/// # Errors
/// The device is lost or does not start; files cannot be written.
pub fn verify(
    arguments: &ExportArgs,
    asked: &AskedCandidate,
    plan: &ExportPlan<'_>,
    variants: &[ExportedVariant],
    formats: &[ExportFormat],
) -> Result<Vec<VerifiedRow>, CliError> {
    let _turn = evaluate::take_turn(&arguments.one.candidate.out, &asked.setup.choice)?;
    let scratch = ScratchPlace::new(asked.setup.farm.cache.join("exports"));
    let failed =
        |error: std::io::Error| CliError::harness(format!("cannot make a folder in the cache: {error}"));
    scratch.probe().map_err(failed)?;
    scratch.sweep();
    let mut rows = Vec::new();
    for (wish, variant) in plan.variants.iter().zip(variants) {
        let verifier = Verifier { arguments, asked, wish, variant, formats };
        let folder = scratch.folder().map_err(failed)?;
        rows.extend(verifier.run(&folder)?);
    }
    Ok(rows)
}

struct Verifier<'a> {
    arguments: &'a ExportArgs,
    asked: &'a AskedCandidate,
    wish: &'a VariantWish<'a>,
    variant: &'a ExportedVariant,
    formats: &'a [ExportFormat],
}

impl Verifier<'_> {
    fn run(&self, folder: &ScratchFolder) -> Result<Vec<VerifiedRow>, CliError> {
        let mut rows = Vec::new();
        let has = |format: ExportFormat| {
            self.formats.contains(&format) && !self.variant.missing.iter().any(|(own, _)| *own == format)
        };
        let in_python: Vec<ExportFormat> = self
            .formats
            .iter()
            .copied()
            .filter(|own| {
                has(*own) && !matches!(own, ExportFormat::Cu | ExportFormat::Cubin | ExportFormat::Dispatch)
            })
            .collect();
        for (format, why) in &self.variant.missing {
            rows.push(self.row(*format, "not_run", Some(format!("it was not written: {why}"))));
        }
        let cpp = has(ExportFormat::Cu).then(|| export_plan::in_cpp(self.wish, self.variant, folder));
        let is_planned =
            in_python.iter().any(|own| *own != ExportFormat::Torch && *own != ExportFormat::TvmFfi);
        if is_planned
            && let LaunchLook::Different(why) = export_plan::in_python(self.wish, self.variant, folder)
        {
            // All forms in Python hand these launches to a driver.
            rows.extend(
                in_python.iter().map(|own| self.row(*own, "fail", Some(format!("launch_plan.py: {why}")))),
            );
            return Ok(rows);
        }
        let is_cuda = self.asked.setup.choice.kind == DeviceKind::Cuda;
        let is_same_target = self.wish.problems.iter().any(|own| {
            own.device.as_deref().is_none_or(|kind| kind == self.asked.setup.choice.kind.as_str())
        });
        if !is_cuda {
            let why = "it runs on a GPU only, and this is the host device";
            rows.extend(in_python.iter().map(|own| self.row(*own, "not_run", Some(why.to_string()))));
        }
        if has(ExportFormat::Cubin) {
            let why = "a cubin does nothing by itself; the forms that load it say whether it runs";
            rows.push(self.row(ExportFormat::Cubin, "not_run", Some(why.to_string())));
        }
        let with_source = matches!(cpp, Some(LaunchLook::Same));
        match cpp {
            Some(LaunchLook::Different(why)) => {
                rows.push(self.row(ExportFormat::Cu, "fail", Some(format!("launch.hpp: {why}"))));
                return Ok(rows);
            }
            Some(LaunchLook::NotRun(why)) => rows.push(self.row(ExportFormat::Cu, "not_run", Some(why))),
            Some(LaunchLook::Same) | None => {}
        }
        if !is_same_target {
            let why = "the export is for another kind of device than this one";
            rows.push(self.row(ExportFormat::Cu, "not_run", Some(why.to_string())));
            return Ok(rows);
        }
        if with_source || is_cuda && !in_python.is_empty() {
            let in_python = if is_cuda { &in_python[..] } else { &[] };
            rows.extend(self.timed(folder, with_source, in_python)?);
        }
        Ok(rows)
    }

    fn row(&self, format: ExportFormat, status: &'static str, reason: Option<String>) -> VerifiedRow {
        VerifiedRow::new(format, &self.variant.folder, None, status, None, reason)
    }

    /// Judges and times them beside the candidate itself.
    fn timed(
        &self,
        folder: &ScratchFolder,
        with_source: bool,
        in_python: &[ExportFormat],
    ) -> Result<Vec<VerifiedRow>, CliError> {
        let AskedCandidate { setup, seed, candidate, .. } = self.asked;
        let kernel = session::kernel_of(&candidate.file)?;
        let served = |own: &BenchShape| self.wish.problems.iter().any(|one| one.name == own.problem.name);
        let shapes: Vec<BenchShape> =
            of_problems(kernel, setup.choice.kind).into_iter().filter(served).collect();
        if shapes.is_empty() {
            let why = "no timed problem of this device has these constants".to_string();
            return Ok(vec![self.row(ExportFormat::Cu, "not_run", Some(why))]);
        }
        let original = self.original()?;
        let exported = if with_source { Some(self.exported(folder)?) } else { None };
        let run_arguments = &self.arguments.one.run;
        let mut lane = device_lane::lane(setup, run_arguments.worker_command.as_deref(), Some(kernel))?;
        let (peers, mut rows) = self.peers(folder, in_python)?;
        let named = [(OURS, Some(&original)), (SOURCE, exported.as_ref())];
        let named: Vec<_> = named.into_iter().filter_map(|(name, own)| Some((name, own?))).collect();
        let found = bench::rows(&named, peers, &shapes, setup, &mut lane, *seed, true)?;
        let mode = kernel.objective.ranking.timing();
        rows.extend(self.rows(&found, mode.as_str(), with_source, in_python));
        Ok(rows)
    }

    /// The variant with the space's own source.
    fn original(&self) -> Result<ResolvedCandidate, CliError> {
        let source = self.arguments.one.candidate.source.clone();
        self.resolved(source, self.arguments.one.candidate.launch.clone())
    }

    /// The exported source in its place. It has one set of constants, and is asked about no other.
    fn exported(&self, folder: &ScratchFolder) -> Result<ResolvedCandidate, CliError> {
        let source = Some(folder.path().join(SOURCE));
        let mut resolved = self.resolved(source, self.arguments.one.candidate.launch.clone())?;
        if let Some(kernel) = &mut resolved.file.kernel {
            specialize::narrow(kernel, &self.wish.constants);
        }
        Ok(resolved)
    }

    fn resolved(
        &self,
        source: Option<std::path::PathBuf>,
        launch: Option<std::path::PathBuf>,
    ) -> Result<ResolvedCandidate, CliError> {
        let mut words = vec![session::space_word(&self.asked.candidate.file)];
        words.extend(self.wish.configuration.iter().map(|(name, value)| format!("{name}={value}")));
        let candidate =
            CandidateArgs { config: None, source, launch, ..self.arguments.one.candidate.clone() };
        let run = &self.arguments.one.run;
        let candidate = CandidateArgs { study: None, ..candidate };
        candidate::resolve(&words, &candidate, &run.device, run.access.access())
    }

    /// The peer that calls the forms in Python, and rows of those that it cannot be asked for.
    fn peers(
        &self,
        folder: &ScratchFolder,
        in_python: &[ExportFormat],
    ) -> Result<(Vec<PeerSeat>, Vec<VerifiedRow>), CliError> {
        if in_python.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let not_run = |why: &str| -> Vec<VerifiedRow> {
            in_python.iter().map(|own| self.row(*own, "not_run", Some(why.to_string()))).collect()
        };
        let python = match find(ToolKind::Python, None, &ToolPlaces::of_environment()) {
            Ok(python) => python,
            Err(failure) => return Ok((Vec::new(), not_run(&failure.message))),
        };
        let place = folder.path();
        let write = |name: &str, text: &str| fs::write(place.join(name), text);
        write("evo_peer.py", SCRIPT).and_then(|()| write("verify_peer.py", VERIFY_PEER)).map_err(
            |error| CliError::harness(format!("cannot write into `{}`: {error}", place.display())),
        )?;
        let path = place.display().to_string();
        let words =
            [python.display().to_string(), "-B".into(), format!("{path}/verify_peer.py"), path.clone()];
        let formats = in_python.iter().map(|own| own.as_str().to_string());
        let (name, command) = (PEER.to_string(), words.into_iter().chain(formats).collect());
        let peer = PeerSpec { name, command, folder: place.to_path_buf(), ..PeerSpec::default() };
        match PeerSeat::start(peer, TIMEOUT, &self.asked.setup.choice.spec) {
            Ok(seat) => Ok((vec![seat], Vec::new())),
            Err(error) => Ok((Vec::new(), not_run(&format!("Python does not start: {error}")))),
        }
    }

    fn rows(
        &self,
        found: &[BenchRow],
        mode: &str,
        with_source: bool,
        in_python: &[ExportFormat],
    ) -> Vec<VerifiedRow> {
        let mut rows = Vec::new();
        let time = |row: &BenchRow| row.modes.get(mode).map(|own| own.p50_ns);
        let ours = |problem: &str| {
            found.iter().find(|row| row.implementation == OURS && row.problem == problem).and_then(time)
        };
        let source = with_source.then_some((ExportFormat::Cu, SOURCE.to_string()));
        let forms = in_python.iter().map(|own| (*own, format!("{PEER}/{}", own.as_str())));
        for (format, name) in source.into_iter().chain(forms) {
            let own = found.iter().filter(|row| row.implementation == name);
            let mut seen = false;
            for row in own {
                seen = true;
                let status = match row.status {
                    RowStatus::Pass => "pass",
                    RowStatus::Fail => "fail",
                    RowStatus::Skipped | RowStatus::NotRun => "not_run",
                };
                let times_ns = time(row).zip(ours(&row.problem));
                let (folder, problem) = (&self.variant.folder, Some(row.problem.clone()));
                rows.push(VerifiedRow::new(format, folder, problem, status, times_ns, row.reason.clone()));
            }
            if !seen {
                let whole =
                    found.iter().find(|row| row.implementation == PEER).and_then(|row| row.reason.clone());
                let why = whole.unwrap_or_else(|| "it gave no answer".to_string());
                rows.push(self.row(format, "not_run", Some(why)));
            }
        }
        rows
    }
}

/// What became of one form on one problem. Times are in the mode that ranks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct VerifiedRow {
    #[serde(serialize_with = "by_name")]
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

fn by_name<S: Serializer>(format: &ExportFormat, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(format.as_str())
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
            time_ns: number(|(own, _)| own),
            evo_ns: number(|(_, evo)| evo),
            ratio: number(|(own, evo)| own / evo),
            reason: Known::of(reason, "it passed"),
        }
    }

    /// The row as a line of text.
    pub fn line(&self) -> String {
        let problem = self.problem.value().map_or("every problem", String::as_str);
        let place = [self.variant.as_str(), problem];
        let place: Vec<&str> = place.into_iter().filter(|own| !own.is_empty()).collect();
        let times = match (&self.time_ns, &self.evo_ns) {
            (Known::Is(own), Known::Is(evo)) => {
                format!("  {:.2} µs, evo itself {:.2} µs ({:.3})", own / 1e3, evo / 1e3, own / evo)
            }
            _ => String::new(),
        };
        let reason = self.reason.value().map_or(String::new(), |why| format!("  {why}"));
        format!("  {:<10} {:<24} {:<8}{times}{reason}\n", self.format.as_str(), place.join(" "), self.status)
    }
}
