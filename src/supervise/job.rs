//! What the engine hands to a lane: one compiled variant, and how good the best so far is.

use std::collections::BTreeMap;

use evo_protocol::binary::Binary;
use evo_protocol::measurement::RankingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::worker::{BinaryRef, Candidate, CheckPlan};
use evo_space::genome::ContentHash;

/// One variant to be judged and timed.
#[derive(Clone, Debug)]
pub struct Job {
    /// The evaluation's number in its study.
    pub number: u64,
    /// `BLOCK_M=32 NUM_WARPS=8 …`, for messages.
    pub label: String,
    pub variant_hash: ContentHash,
    pub binary: Binary,
    /// Entry points that launches use.
    pub entries: Vec<String>,
    /// The naive kernel's binary and entries, if that is the reference.
    pub reference: Option<(Binary, Vec<String>)>,
    pub check: CheckPlan,
    /// Small shapes cut from the configuration's own tiles.
    pub tiny: Vec<ProblemPlan>,
    /// Problems whose answers are checked; timed ones may be repeated here or not.
    pub checked: Vec<ProblemPlan>,
    /// Problems that are timed.
    pub timed: Vec<ProblemPlan>,
    /// Which mode ranks.
    pub ranking: RankingMode,
    /// Every gate and all timing modes, whatever the time: `evo test-one` and finalists.
    pub deep: bool,
}

impl Job {
    /// The form in which a worker gets it.
    pub fn candidate(&self) -> Candidate {
        let reference =
            |binary: &Binary| BinaryRef { hash: binary.hash.clone(), path: Some(binary.path.clone()) };
        Candidate {
            label: self.label.clone(),
            variant_hash: self.variant_hash.clone(),
            binary: reference(&self.binary),
            entries: self.entries.clone(),
            reference: self.reference.as_ref().map(|(binary, entries)| (reference(binary), entries.clone())),
            check: self.check.clone(),
        }
    }

    /// Every problem whose answers are checked, timed ones first, each once.
    pub fn all_checked(&self) -> Vec<ProblemPlan> {
        let mut plans = self.timed.clone();
        for plan in &self.checked {
            if !plans.iter().any(|own| own.name == plan.name) {
                plans.push(plan.clone());
            }
        }
        plans
    }
}

/// How good the best so far is: what the cascade measures newcomers against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The incumbent's p50 by problem in the ranking mode, nanoseconds; empty without an incumbent.
    pub problems: BTreeMap<String, f64>,
    /// The incumbent's objective, nanoseconds.
    pub objective_ns: Option<f64>,
}

impl Standing {
    /// The standing set by an incumbent's times.
    pub fn new(problems: BTreeMap<String, f64>, objective_ns: f64) -> Standing {
        Standing { problems, objective_ns: Some(objective_ns) }
    }
}

/// Jobs for tests of the modules that pass them on.
#[cfg(test)]
pub(crate) mod example {
    use evo_protocol::worker::ReferencePlan;

    use super::*;

    /// A plan without buffers and launches.
    pub fn plan(name: &str, flops: f64) -> ProblemPlan {
        ProblemPlan {
            name: name.into(),
            sizes: BTreeMap::new(),
            weight: 1.0,
            buffers: Vec::new(),
            scalars: Vec::new(),
            launches: Vec::new(),
            reference_launches: Vec::new(),
            flops: Some(flops),
            bytes: None,
        }
    }

    /// A job with one tiny shape and the given timed problems.
    pub fn job(timed: &[(&str, f64)]) -> Job {
        let hash = ContentHash::of(b"example");
        let binary = Binary {
            hash: hash.clone(),
            code_hash: hash.clone(),
            path: "example.so".into(),
            resources: Vec::new(),
            toolchain: "none".into(),
            compile_ms: 0.0,
            cached: false,
            log: String::new(),
        };
        let check = CheckPlan {
            reference: ReferencePlan::Builtin { name: "gemm".into() },
            atol: None,
            rtol: None,
            trusted_factor: 2.0,
            seed: 1,
            seeds: 3,
            families: Vec::new(),
            deterministic: true,
            repeats: 10,
        };
        Job {
            number: 1,
            label: "A=1".into(),
            variant_hash: hash,
            binary,
            entries: vec!["kernel".into()],
            reference: None,
            check,
            tiny: vec![plan("tiny:1", 1.0)],
            checked: Vec::new(),
            timed: timed.iter().map(|(name, flops)| plan(name, *flops)).collect(),
            ranking: RankingMode::Hot,
            deep: false,
        }
    }
}
