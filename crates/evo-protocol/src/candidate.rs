//! What a worker is handed to judge: compiled code, and how its answers are judged.

use std::path::PathBuf;

use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use crate::binary::Binary;
use crate::device::DeviceError;
use crate::plan::ProblemPlan;
use crate::specialization::Specialization;
use crate::verdict::VerdictKind;
use crate::worker::CheckPlan;

/// What a worker is handed: binaries and how to judge them; never host code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// `BLOCK_M=32 NUM_WARPS=8 …`, for messages.
    pub label: String,
    /// The compiled variant: one build for every problem, or one for each set of constants. Never empty.
    pub builds: Vec<CandidateBuild>,
    /// The user's naive kernel and its entry points, if that is the reference.
    pub reference: Option<(BinaryRef, Vec<String>)>,
    /// The same kernel in single precision, where `reference` computes in fp64.
    #[serde(default)]
    pub reference_single: Option<BinaryRef>,
    /// How its answers are judged.
    pub check: CheckPlan,
}

impl Candidate {
    /// Position of the build that computes a problem.
    ///
    /// # Errors
    /// None of them was compiled for the problem's sizes.
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

/// One binary of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateBuild {
    /// The problems that it serves.
    #[serde(default, skip_serializing_if = "Specialization::is_empty")]
    pub constants: Specialization,
    /// Must be echoed by the module.
    pub variant_hash: ContentHash,
    /// The compiled code.
    pub binary: BinaryRef,
    /// Entry points that launches use.
    pub entries: Vec<String>,
    /// A second build in which the device sees every access, for variants that could enter the leaderboard.
    #[serde(default)]
    pub instrumented: Option<InstrumentedBuild>,
}

impl CandidateBuild {
    /// A build that serves every problem and has no second one.
    pub fn for_all(variant_hash: ContentHash, binary: BinaryRef, entries: Vec<String>) -> CandidateBuild {
        CandidateBuild {
            constants: Specialization::default(),
            variant_hash,
            binary,
            entries,
            instrumented: None,
        }
    }
}

/// The build of a candidate in which the host device sees every access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstrumentedBuild {
    /// It compiled.
    Binary(BinaryRef),
    /// It did not compile, which is not the variant's fault: the variant itself did.
    Failed {
        /// What the compiler said.
        why: String,
    },
}

/// A binary by hash, with the path under which a local worker finds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BinaryRef {
    /// Hash of its bytes.
    pub hash: ContentHash,
    /// Where the parent keeps it.
    pub path: Option<PathBuf>,
}

impl BinaryRef {
    /// A binary that lies where the compiler put it.
    pub fn of(binary: &Binary) -> BinaryRef {
        BinaryRef { hash: binary.hash.clone(), path: Some(binary.path.clone()) }
    }
}
