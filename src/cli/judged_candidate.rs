//! A judged candidate beside its rival: what is known of it, and how much of that a command may say.

use evo_protocol::device::DeviceInfo;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use serde_json::json;

use crate::engine::ports::PairAnswer;
use crate::engine::single::Single;
use crate::journal::leaderboard::roofline_ns;
use crate::journal::record::ProblemWork;
use crate::report::envelope::KnownSoFar;
use crate::report::evaluate::{self, Evaluated, EvaluatedProblem};
use crate::supervise::job::Job;
use crate::timing::acceptance::RivalFindings;

/// A candidate beside its rival.
pub struct JudgedCandidate {
    pub single: Single,
    /// Absent for one that was refused before it reached the device.
    pub job: Option<Job>,
    pub device: Option<DeviceInfo>,
    /// The timing mode that ranks.
    pub mode: TimingMode,
    /// For each timed problem.
    pub canonical: Vec<bool>,
    /// For each timed problem; empty where nothing was compared.
    pub pairs: Vec<PairAnswer>,
    pub findings: RivalFindings,
    /// Gates that did not run and were allowed not to.
    pub allowed: Vec<String>,
    /// Weighted geometric mean speed-up over the canonical problems.
    pub score: Option<f64>,
}

impl JudgedCandidate {
    /// Why numbers of the comparison are missing.
    pub fn why_not_compared(&self) -> String {
        let own = &self.findings;
        let pair = self.pairs.iter().find_map(|pair| pair.as_ref().err());
        match (own.is_same_code, &own.not_compared, pair) {
            (true, ..) => "it has the rival's machine code and launches, so nothing was compared".to_string(),
            (_, Some(why), _) => why.clone(),
            (_, _, Some(error)) => error.clone(),
            _ => "it could not be measured".to_string(),
        }
    }
}

/// A candidate that was judged and not compared.
pub fn without_comparison(single: Single, mode: TimingMode) -> JudgedCandidate {
    let correct = single.evaluation.verdict.is_pass();
    let findings = RivalFindings {
        correct,
        missing: Vec::new(),
        is_same_code: false,
        not_compared: Some("the candidate did not pass its gates".into()),
        noise_floor: None,
        problems: Vec::new(),
    };
    JudgedCandidate {
        single,
        job: None,
        device: None,
        mode,
        canonical: Vec::new(),
        pairs: Vec::new(),
        findings,
        allowed: Vec::new(),
        score: None,
    }
}

/// What an evaluation that is cut off has to say, before and after its verdict.
pub fn so_far(evaluation: Option<&Evaluation>) -> KnownSoFar {
    let correct = evaluation.is_some_and(|own| own.verdict.is_pass());
    let (result, reasons) = evaluate::result(&Evaluated {
        evaluation,
        correct,
        ruling: None,
        score: None,
        not_compared: "the command ended before it was compared",
        problems: Vec::new(),
        bottleneck: Err("the command ended before a profiler was asked".into()),
        next_step: "allow more time with `--time-limit`, or make the candidate faster".to_string(),
    });
    KnownSoFar { own: json!({}), result, reasons }
}

/// The timed problems with their times and comparisons.
pub fn problems<'j>(judged: &'j JudgedCandidate) -> Vec<EvaluatedProblem<'j>> {
    let plans = judged.job.as_ref().map(|job| &job.timed[..]).unwrap_or_default();
    let one = |(at, plan): (usize, &'j ProblemPlan)| {
        let mut times = judged.single.evaluation.measurements.iter();
        let time = times.find(|own| own.problem == plan.name && own.mode == judged.mode);
        let least = judged
            .device
            .as_ref()
            .and_then(|device: &DeviceInfo| roofline_ns(device, &ProblemWork::of(plan)));
        EvaluatedProblem {
            plan,
            canonical: judged.canonical.get(at).copied().unwrap_or(true),
            time,
            pair: judged.pairs.get(at).and_then(|pair| pair.as_ref().ok()),
            roofline_ratio: least.zip(time).map(|(least, time)| least / time.p50_ns),
        }
    };
    plans.iter().enumerate().map(one).collect()
}
