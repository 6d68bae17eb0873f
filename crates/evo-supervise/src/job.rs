//! What the engine hands to a lane: one compiled variant, and how good the best so far is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evo_protocol::device::EntryAttributes;
use evo_protocol::evaluation::Recovery;
use evo_protocol::measurement::{Measurement, RankingMode};
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use evo_protocol::verdict::{Cause, Gate, GateReport, Verdict, VerdictClass, VerdictKind};
use evo_protocol::worker::Candidate;

#[derive(Clone, Debug, Default)]
pub struct Job {
    pub number: u64,
    pub candidate: Candidate,
    /// Small shapes cut from the configuration's own tiles.
    pub tiny: Vec<ProblemPlan>,
    /// Small shapes of several tiles; contenders meet them beside `tiny`.
    pub several: Vec<ProblemPlan>,
    /// Small shapes drawn by lot, in the order in which a deep job looks at them, as far as time allows.
    pub drawn: Vec<ProblemPlan>,
    pub tiny_notes: TinyNotes,
    /// Problems whose answers are checked. Timed problems are checked whether or not they are listed here.
    pub checked: Vec<ProblemPlan>,
    pub timed: Vec<ProblemPlan>,
    pub ranking: RankingMode,
    /// Whether the device has been kept busy, so that it is warm.
    pub busy: bool,
    /// Sampling one problem in one mode takes no longer than this, because whoever asks has no more time.
    pub sampling_max: Option<Duration>,
    pub reach: JobReach,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobReach {
    /// Small shapes are the last gate.
    Tiny,
    /// Small shapes, and what the instrumented build sees there: the look at a twin on another device.
    Watched,
    /// Small shapes, quickly, and then a screening of the timed problems, whose answers are not checked: a hint for a
    /// search, and nothing that may rank.
    Hint,
    Screening,
    #[default]
    Whole,
    /// Every gate and all timing modes, however slow the variant is: `evo test-one`, finalists.
    Deep,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TinyNotes {
    /// Why there are none; empty where there are.
    pub absent: String,
    /// Whether that is because evo found none: nothing in the file says that the kernel has none.
    pub not_derived: bool,
    /// What a person can do about a failure at one of them, if the shapes are not the file's.
    pub hint: Option<&'static str>,
    /// Shapes that were left out, because the reference does not take them.
    pub not_taken: Vec<String>,
}

impl TinyNotes {
    pub fn about(&self, gate: Gate, verdict: Verdict) -> Verdict {
        let may_depend = depends_on_shape(&verdict);
        match self.hint.filter(|_| gate == Gate::TinyShapes && may_depend) {
            Some(hint) => verdict.with("hint", hint),
            None => verdict,
        }
    }

    pub fn told(&self, mut report: GateReport) -> GateReport {
        let told = report.evidence.get(GateReport::NOT_TAKEN).and_then(|names| names.as_array());
        let told = told.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_string));
        let names: BTreeSet<String> = self.not_taken.iter().cloned().chain(told).collect();
        if names.is_empty() || report.gate != Gate::TinyShapes {
            return report;
        }
        let shown: Vec<&str> =
            names.iter().map(|name| name.trim_start_matches("tiny:")).take(SHOWN).collect();
        let more = names.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        report.message =
            format!("{}; the reference does not take {}{more}", report.message, shown.join("; "));
        report.evidence.insert(GateReport::NOT_TAKEN, names.into_iter().collect::<Vec<_>>());
        report
    }
}

/// Whether a failure may be that the kernel does not support the shape. A hang at the smallest shape, or an answer that
/// is off by little everywhere, is something else.
fn depends_on_shape(verdict: &Verdict) -> bool {
    let kind = verdict.kind;
    let elsewhere =
        [Cause::Precision, Cause::Bias, Cause::SpecialValues, Cause::Constant, Cause::Uninitialized];
    match kind {
        VerdictKind::WrongAnswer => !elsewhere.into_iter().any(|cause| verdict.has_cause(cause)),
        VerdictKind::OobRead | VerdictKind::OobWrite => true,
        _ => kind.class() == VerdictClass::Crash && kind != VerdictKind::WorkerDied,
    }
}

const SHOWN: usize = 4;

impl Job {
    /// Every problem whose answers are checked, timed ones first, each once.
    pub fn all_checked(&self) -> Vec<ProblemPlan> {
        let mut plans = self.timed.clone();
        for plan in &self.checked {
            if !plans.iter().any(|known| known.name == plan.name) {
                plans.push(plan.clone());
            }
        }
        plans
    }

    /// The problems are only checked.
    pub fn gates_only(&self) -> Job {
        Job { checked: self.all_checked(), timed: Vec::new(), ..self.clone() }
    }

    /// The smallest shape stands in for the problems, which may be made for a device a hundred times as fast.
    pub fn watched(self) -> Job {
        let elements = |plan: &&ProblemPlan| plan.buffers.iter().map(BufferPlan::elements).sum::<u64>();
        let small = [&self.tiny[..], &self.several[..]].concat();
        let checked = small.iter().min_by_key(elements).cloned().into_iter().collect();
        let (timed, several) = Default::default();
        Job { tiny: small, several, checked, timed, reach: JobReach::Watched, ..self }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The incumbent's p50 by problem in the ranking mode, nanoseconds; empty without an incumbent. Where problems are
    /// searched apart, each problem has an incumbent of its own.
    pub problems: BTreeMap<String, f64>,
    pub objective_ns: Option<f64>,
    pub contest: Contest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contest {
    #[default]
    Mean,
    EachProblem,
}

impl Standing {
    pub fn new(problems: BTreeMap<String, f64>, objective_ns: f64) -> Standing {
        Standing { problems, objective_ns: Some(objective_ns), contest: Contest::Mean }
    }

    pub fn scaled(&self, factor: f64) -> Standing {
        let problems = self.problems.iter().map(|(name, time)| (name.clone(), time * factor)).collect();
        Standing { problems, objective_ns: self.objective_ns.map(|time| time * factor), ..*self }
    }
}

#[derive(Debug, Default)]
pub struct Judgement {
    pub verdict: Verdict,
    /// One report for each gate from `launch` to `honesty`.
    pub gates: Vec<GateReport>,
    pub measurements: Vec<Measurement>,
    /// Nanoseconds; for `too_slow` an estimate or lower bound.
    pub objective_ns: Option<f64>,
    pub attributes: Vec<EntryAttributes>,
    pub recovery: Option<Recovery>,
    /// Time in the lane without recovery, milliseconds.
    pub device_ms: f64,
    pub lost: bool,
    /// The verdict does not count before another device has seen the job; `None` where it does.
    pub second_look: Option<SecondLook>,
    /// The worker died with the job, and the next one is still to be started.
    pub owes_worker: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondLook {
    /// The worker broke, and perhaps not by the job's doing.
    Broken,
    /// A busy or failing machine may have caused the verdict.
    Doubtful,
}

impl Judgement {
    /// What another device of the same class would have measured.
    pub fn scaled(mut self, factor: f64) -> Judgement {
        self.objective_ns = self.objective_ns.map(|time| time * factor);
        self.measurements.iter_mut().for_each(|measurement| measurement.scale(factor));
        for name in ["incumbent_ns", "lower_bound_ns"] {
            if let Some(time) = self.verdict.evidence.get(name).and_then(|value| value.as_f64()) {
                self.verdict.evidence.insert(name, time * factor);
            }
        }
        self
    }

    pub fn begin() -> Judgement {
        Judgement { verdict: Verdict::pass(), ..Judgement::default() }
    }
}

/// Jobs for tests of the crates that pass them on. A feature would hide it, and would have everything above this
/// crate built twice, with it and without.
#[doc(hidden)]
pub mod example {
    use evo_protocol::device::Telemetry;
    use evo_protocol::measurement::{StopRule, TimingMode};
    use evo_protocol::worker::{BinaryRef, CandidateBuild, CheckPlan, ReferencePlan};
    use evo_space::genome::ContentHash;

    use super::*;

    pub fn plan(name: &str, flops: f64) -> ProblemPlan {
        ProblemPlan { name: name.into(), weight: 1.0, flops: Some(flops), ..ProblemPlan::default() }
    }

    pub fn measurement(problem: &str, mode: TimingMode, time: f64, stop: StopRule) -> Measurement {
        Measurement {
            problem: problem.into(),
            mode,
            samples: 3,
            batch: 1,
            p10_ns: time,
            p50_ns: time,
            p90_ns: time,
            min_ns: time,
            mad_ns: 0.0,
            ci_low_ns: time,
            ci_high_ns: time,
            outliers: 0,
            dropped: 0,
            stop,
            telemetry: Telemetry::default(),
            raw_ns: Vec::new(),
        }
    }

    pub fn job(timed: &[(&str, f64)]) -> Job {
        let hash = ContentHash::of(b"example");
        let binary = BinaryRef { hash: hash.clone(), path: Some("example.so".into()) };
        let check = CheckPlan {
            reference: ReferencePlan::Builtin { name: "gemm".into() },
            trusted_factor: 2.0,
            seed: 1,
            seeds: 3,
            deterministic: true,
            repeats: 10,
            series_ms: evo_protocol::worker::SERIES_MS,
            ..CheckPlan::default()
        };
        let builds = vec![CandidateBuild::for_all(hash, binary, vec!["kernel".into()])];
        Job {
            number: 1,
            candidate: Candidate { label: "A=1".into(), builds, check, ..Candidate::default() },
            tiny: vec![plan("tiny:1", 1.0)],
            timed: timed.iter().map(|(name, flops)| plan(name, *flops)).collect(),
            ..Job::default()
        }
    }
}
