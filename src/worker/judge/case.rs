//! A case: one problem with one seed and one input family.

use std::collections::BTreeSet;

use evo_protocol::device::DeviceError;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::worker::{CheckPlan, Depth};

use super::inputs::{self, Family};
use crate::worker::judge::npy::task_error;

/// One question to a kernel.
#[derive(Clone, Debug)]
pub struct Case {
    pub plan: ProblemPlan,
    pub seed_index: u32,
    pub family: Family,
}

impl Case {
    /// The case that every variant meets first.
    pub fn first(plan: &ProblemPlan) -> Case {
        Case { plan: plan.clone(), seed_index: 0, family: Family::Normal }
    }

    /// `b1_h8_s512 seed 0 large`, for messages.
    pub fn name(&self) -> String {
        format!("{} seed {} {}", self.plan.name, self.seed_index, self.family.as_str())
    }

    /// Elements of all buffers: how big the case is.
    pub fn elements(&self) -> u64 {
        self.plan.buffers.iter().map(|buffer| buffer.elements()).sum()
    }
}

/// The cases of one problem. `Quick` runs one. `Full` runs every seed with the file's own inputs and
/// every other family once. Families vary the arithmetic and seeds vary the values; their product would
/// find the same faults many times.
pub fn cases(check: &CheckPlan, plan: &ProblemPlan, depth: Depth) -> Result<Vec<Case>, DeviceError> {
    let mut out = vec![Case::first(plan)];
    if depth == Depth::Quick {
        return Ok(out);
    }
    let families = families(check)?;
    let case = |seed_index, family| Case { plan: plan.clone(), seed_index, family };
    // Without random inputs every seed would repeat the same case.
    if plan.buffers.iter().any(inputs::varies) {
        out.extend((1..check.seeds).map(|index| case(index, Family::Normal)));
    }
    if plan.buffers.iter().any(inputs::varies_by_family) {
        out.extend(families.into_iter().filter(|f| *f != Family::Normal).map(|family| case(0, family)));
    }
    Ok(out)
}

fn families(check: &CheckPlan) -> Result<BTreeSet<Family>, DeviceError> {
    if check.families.is_empty() {
        return Ok(Family::ALL.into_iter().collect());
    }
    let parse = |name: &String| {
        Family::parse(name).ok_or_else(|| {
            let known: Vec<&str> = Family::ALL.iter().map(|family| family.as_str()).collect();
            task_error(format!("no input family `{name}`\nhint: there are `{}`", known.join("`, `")))
        })
    };
    check.families.iter().map(parse).collect()
}
