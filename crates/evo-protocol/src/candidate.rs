//! What a worker is handed to judge: compiled code, and how its answers are judged.

use std::path::PathBuf;

use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use crate::binary::Binary;
use crate::check::CheckSet;
use crate::device::DeviceError;
use crate::plan::{Dictionary, ProblemPlan};
use crate::specialization::Specialization;
use crate::verdict::VerdictKind;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// `BLOCK_M=32 NUM_WARPS=8 …`, for messages.
    pub label: String,
    /// The compiled variant: one build for every problem, or one for each set of constants. Never empty.
    pub builds: Vec<CandidateBuild>,
    /// The user's naive kernel and its entry points, if that is the reference.
    pub reference: Option<(BinaryRef, Vec<String>)>,
    /// The same kernel in single precision, where `reference` computes in fp64.
    pub reference_single: Option<BinaryRef>,
    /// The task's kernels that derive inputs from inputs, and their entry points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<(BinaryRef, Vec<String>)>,
    pub check: CheckPlan,
}

impl Candidate {
    pub fn build_for(&self, plan: &ProblemPlan) -> Result<usize, DeviceError> {
        let found = self.builds.iter().position(|build| build.constants.serves(&plan.sizes));
        found.ok_or_else(|| {
            let kinds: Vec<String> =
                self.builds.iter().map(|build| format!("`{}`", build.constants)).collect();
            let message =
                format!("no binary was compiled for `{}`, only for {}", plan.name, kinds.join(", "));
            DeviceError::plain(VerdictKind::HarnessError, message)
        })
    }

    /// Entry points that launches of any problem use, each once.
    pub fn entries(&self) -> Vec<String> {
        let mut entries: Vec<String> = Vec::new();
        for entry in self.builds.iter().flat_map(|build| &build.entries) {
            if !entries.contains(entry) {
                entries.push(entry.clone());
            }
        }
        entries
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CandidateBuild {
    #[serde(default, skip_serializing_if = "Specialization::is_empty")]
    pub constants: Specialization,
    /// Must be echoed by the module.
    pub variant_hash: ContentHash,
    pub binary: BinaryRef,
    pub entries: Vec<String>,
    /// A second build in which the device sees every access, for variants that could enter the leaderboard.
    pub instrumented: Option<InstrumentedBuild>,
}

impl CandidateBuild {
    pub fn for_all(variant_hash: ContentHash, binary: BinaryRef, entries: Vec<String>) -> CandidateBuild {
        CandidateBuild { variant_hash, binary, entries, ..CandidateBuild::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstrumentedBuild {
    Binary(BinaryRef),
    /// It did not compile, which is not the variant's fault: the variant itself did.
    Failed {
        why: String,
    },
}

/// A binary by hash, with the path under which a local worker finds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BinaryRef {
    pub hash: ContentHash,
    pub path: Option<PathBuf>,
}

impl BinaryRef {
    pub fn of(binary: &Binary) -> BinaryRef {
        BinaryRef { hash: binary.hash.clone(), path: Some(binary.path.clone()) }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckPlan {
    pub reference: ReferencePlan,
    /// The file's own absolute tolerance; it replaces the one derived from the answer's size.
    pub atol: Option<f64>,
    pub rtol: Option<f64>,
    /// How many times a trusted computation's error is allowed; 0 allows any.
    pub trusted_factor: f64,
    /// The study's secret seed; case seeds are derived from it.
    pub seed: u64,
    pub seeds: u32,
    /// Input families by name; all where empty.
    pub families: Vec<String>,
    #[serde(default)]
    pub dictionary: Dictionary,
    pub deterministic: bool,
    pub repeats: u32,
    pub allow_state: bool,
    pub special_values: SpecialValues,
    /// Whether the kernel is compiled to assume that there are no NaN and no infinities.
    pub fast_math: bool,
    pub flushes_subnormals: bool,
    /// Whether the reference kernel computes in fp64 and takes fp64 buffers for floating-point arguments.
    pub reference_f64: bool,
    /// How long each series of further questions to a finalist may take (more shapes, more seeds, more calls),
    /// milliseconds.
    pub series_ms: u32,
    /// Which checks judge: all, except in the self-test of the gates.
    #[serde(default, skip_serializing_if = "CheckSet::are_all")]
    pub checks: CheckSet,
    /// The rule of the benchmark from which the kernel comes; it is reported and decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskTolerance>,
}

/// When a benchmark that states a task takes an output for correct: this share of its elements is within
/// `atol + rtol * |expected|`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskTolerance {
    pub atol: f64,
    pub rtol: f64,
    /// Of the elements, from 0 to 1.
    pub matched: f64,
}

/// [`CheckPlan::series_ms`] of a variant that is judged alone.
pub const SERIES_MS: u32 = 300;

/// How outputs for inputs with NaN, infinities, subnormal and huge numbers are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpecialValues {
    /// The reference decides, and declared compiler options may relax it.
    #[default]
    Reference,
    /// Like the default configuration. Its answers are not taken yet, so such inputs are not tried either.
    AsDefault,
    /// Such inputs are not tried.
    Ignore,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferencePlan {
    Builtin {
        name: String,
    },
    /// `ProblemPlan::reference_launches` in the reference binary.
    #[default]
    Kernel,
    Command(CommandReference),
    /// Files, for problems with fixed inputs.
    Npy {
        outputs: Vec<(String, PathBuf)>,
    },
}

impl ReferencePlan {
    /// Whether it is the user's own and answers for any inputs, so that its error can be seen from outside.
    pub fn is_own(&self) -> bool {
        matches!(self, ReferencePlan::Kernel | ReferencePlan::Command(_))
    }
}

/// A command that computes expected outputs: trusted code of the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandReference {
    pub command: Vec<String>,
    /// Where it runs: the space file's folder.
    pub folder: PathBuf,
    pub single: bool,
    pub serve: bool,
    pub timeout_ms: u64,
    pub files: Vec<PathBuf>,
}
