//! Baselines that were measured once and not side by side with a candidate.

use std::collections::BTreeMap;

use evo_protocol::plan::ProblemPlan;
use evo_space::genome::ContentHash;

use crate::cli::judge::Judged;
use crate::request::ask::EvaluationLevel;
use crate::request::performance::BaselineTime;

/// Baselines that were measured by themselves, by name and level; an error is why there is no time.
pub type MeasuredBaselines = BTreeMap<(String, EvaluationLevel), Result<MeasuredBaseline, String>>;

/// A baseline's time, and what tells its code from others.
#[derive(Clone, Debug)]
pub struct MeasuredBaseline {
    pub time: BaselineTime,
    pub code: Option<ContentHash>,
    pub plans: Vec<ProblemPlan>,
}

impl MeasuredBaseline {
    /// Whether a candidate has its machine code and its launches.
    pub fn is_same_code(&self, judged: &Judged) -> bool {
        let own = judged.single.evaluation.code_hash.as_ref();
        let plans = judged.job.as_ref().map(|job| &job.timed[..]).unwrap_or_default();
        let launches =
            |plans: &[ProblemPlan]| plans.iter().map(|plan| plan.launches.clone()).collect::<Vec<_>>();
        own.is_some() && own == self.code.as_ref() && launches(plans) == launches(&self.plans)
    }
}
