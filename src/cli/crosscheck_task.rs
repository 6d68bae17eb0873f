//! What harnesses are handed: exported files, inputs, expected answers, and a request that names them all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use evo_export::format::ExportFormat;
use evo_export::{CROSSCHECK, VERIFY_PEER};
use evo_protocol::crosscheck::{CrosscheckArray, CrosscheckProblem, CrosscheckRequest};
use evo_protocol::device::DeviceKind;
use evo_protocol::export::ExportJudgement;
use evo_protocol::plan::ProblemPlan;
use evo_space::genome::{Configuration, ContentHash};
use evo_system::scratch::{ScratchFolder, ScratchPlace};

use super::crosscheck_args::Harness;
use super::crosscheck_harness::SCRIPT;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::export_unit::{self, VariantWish};
use super::session;
use super::trial::Bench;
use crate::bench::peer_problem;
use crate::kernel::spec::{KernelSpec, ProblemSpec, ReferenceSpec, SpaceFile};
use crate::kernel::specialize::{constants_of, distinct};
use crate::peer::SCRIPT as PEER;
use crate::supervise::lane::LaneError;

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
            let variant = match export_unit::make(&wish, &FORMATS, arch) {
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
