//! A judged candidate, for programs and for people: every gate with its evidence, the measurements, the verdict; its
//! figures beside the default configuration's (`evo benchmark`); and what to do with it (`evo evaluate`). What is not known
//! is null, with its reason.

use evo_protocol::binary::EntryResources;
use evo_protocol::device::{DeviceInfo, DeviceKind, EntryAttributes};
use evo_protocol::evaluation::{Evaluation, Facts, Recovery};
use evo_protocol::known::{Known, because, told};
use evo_protocol::leaderboard::{PairedDecision, PairedProblem};
use evo_protocol::measurement::Measurement;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Evidence, Gate, GateReport, VerdictClass, VerdictKind};
use evo_space::genome::{Configuration, ContentHash};
use evo_space::text::counted;
use evo_timing::acceptance::{RivalDecision, Ruling};
use minijinja::context;
use minijinja::value::Serde;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::templates;

/// Where the evaluation took place.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Setting {
    pub space: String,
    pub kernel: String,
    pub device: String,
    /// Of the inputs.
    pub seed: u64,
    /// A command that does the same again.
    pub repro: String,
}

pub fn text(setting: &Setting, evaluation: &Evaluation, attributes: &[EntryAttributes]) -> String {
    let gates = evaluation.gates.iter().map(|report| evidence(&report.evidence));
    let values = context! {
        setting => Serde(setting),
        evaluation => Serde(evaluation),
        attributes => Serde(attributes),
        variant => evaluation.configuration.to_string(),
        label => evaluation.verdict.label(),
        gate_evidence => Serde(gates.collect::<Vec<_>>()),
        evidence => Serde(evidence(&evaluation.verdict.evidence)),
        parity => Serde(told(&parity(evaluation)).0),
    };
    templates::lines("verdict.txt.j2", values)
}

/// Names and texts, in their order; the parity has lines of its own.
fn evidence(evidence: &Evidence) -> Vec<(String, String)> {
    let pieces = evidence.iter().filter(|(name, _)| *name != GateReport::PARITY);
    let piece = pieces.map(|(name, value)| match value {
        Value::String(text) => (name.clone(), indented(text)),
        value => (name.clone(), format!(" {value}")),
    });
    piece.collect()
}

/// Lines of a long text that are shown; `--json` has all of them.
const SHOWN_LINES: usize = 40;

fn indented(text: &str) -> String {
    if !text.contains('\n') {
        return format!(" {text}");
    }
    let lines = text.lines().take(SHOWN_LINES).map(|line| format!("\n        {}", line.trim_end()));
    let more = text.lines().count().saturating_sub(SHOWN_LINES);
    let rest = (more > 0).then(|| format!("\n        … {}, in `--json`", counted(more, "more line")));
    lines.chain(rest).collect()
}

/// The fields of a command's object whose answer is a candidate's verdict.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VerdictFields<'a> {
    verdict: VerdictKind,
    cause: &'a Option<String>,
    message: &'a str,
    evidence: &'a Evidence,
    class: VerdictClass,
    #[serde(flatten)]
    setting: &'a Setting,
    configuration: &'a Configuration,
    configuration_hash: &'a ContentHash,
    gates: &'a [GateReport],
    measurements: &'a [Measurement],
    objective_ns: Option<f64>,
    resources: &'a [EntryResources],
    /// What its code says of all launches together, the worst of each; absent where nothing was compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<Facts>,
    /// Of each launch, read back from the device.
    attributes: &'a [EntryAttributes],
    launches: Vec<LaunchRow>,
    source_hash: &'a Option<ContentHash>,
    binary_hash: &'a Option<ContentHash>,
    code_hash: &'a Option<ContentHash>,
    compile_ms: f64,
    device_ms: f64,
    recovery: Option<Recovery>,
    parity: Known<Value>,
}

/// How a problem is launched, with extents in x, y, z.
#[derive(Debug, Serialize, JsonSchema)]
struct LaunchRow {
    problem: String,
    entry: String,
    grid: [i64; 3],
    block: [i64; 3],
    cluster: Option<[i64; 3]>,
    shared_bytes: i64,
}

impl<'a> VerdictFields<'a> {
    /// `checked` are the problems whose launches are listed.
    pub fn of(
        setting: &'a Setting,
        evaluation: &'a Evaluation,
        attributes: &'a [EntryAttributes],
        checked: &[ProblemPlan],
    ) -> VerdictFields<'a> {
        let verdict = &evaluation.verdict;
        let launches = checked.iter().flat_map(|plan| {
            plan.launches.iter().map(|launch| LaunchRow {
                problem: plan.name.clone(),
                entry: launch.entry.clone(),
                grid: launch.grid,
                block: launch.block,
                cluster: launch.cluster,
                shared_bytes: launch.shared_bytes,
            })
        });
        VerdictFields {
            verdict: verdict.kind,
            cause: &verdict.cause,
            message: &verdict.message,
            evidence: &verdict.evidence,
            class: verdict.kind.class(),
            setting,
            configuration: &evaluation.configuration,
            configuration_hash: &evaluation.configuration_hash,
            gates: &evaluation.gates,
            measurements: &evaluation.measurements,
            objective_ns: evaluation.objective_ns,
            resources: &evaluation.resources,
            facts: evaluation.facts,
            attributes,
            launches: launches.collect(),
            source_hash: &evaluation.source_hash,
            binary_hash: &evaluation.binary_hash,
            code_hash: &evaluation.code_hash,
            compile_ms: evaluation.compile_ms,
            device_ms: evaluation.device_ms,
            recovery: evaluation.recovery,
            parity: parity(evaluation),
        }
    }
}

/// The plain parity that people know, beside evo's own rule, an object a problem: it decides nothing. The judge compares the
/// last outputs of each problem with their answers and leaves the numbers in the evidence of `full_shapes`.
pub fn parity(evaluation: &Evaluation) -> Known<Value> {
    let report = evaluation.gate(Gate::FullShapes);
    let seen = report.and_then(|report| report.evidence.get(GateReport::PARITY)).and_then(Value::as_object);
    let problems = seen.filter(|seen| !seen.is_empty()).map(|seen| {
        let problem = |(problem, numbers): (&String, &Value)| {
            let mut object = json!({ "problem": problem });
            for name in GateReport::PARITY_NUMBERS {
                // A worker of somebody else's may send anything.
                let value = numbers.get(name).filter(|value| value.is_number() || value.is_boolean());
                let reason =
                    numbers.get(format!("{name}{}", GateReport::PARITY_REASON)).and_then(Value::as_str);
                object[name] = json!(Known::of(value, reason.unwrap_or("the worker does not say")));
            }
            let task = numbers.get(GateReport::PARITY_TASK);
            if let Some((ratio, within)) = task
                .and_then(|task| task["matched_ratio"].as_f64().zip(task["within"].as_bool()))
                .filter(|(ratio, _)| (0.0..=1.0).contains(ratio))
            {
                object[GateReport::PARITY_TASK] = json!({ "matched_ratio": ratio, "within": within });
            }
            object
        };
        Value::Array(seen.iter().map(problem).collect())
    });
    Known::of(problems, "no problem was compared with its answer")
}

/// What the `result` of such a command has.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VerdictBrief<'a> {
    /// With its cause behind a colon.
    pub verdict: String,
    pub class: VerdictClass,
    pub message: &'a str,
    /// What was demanded and did not run.
    pub not_run: Vec<String>,
}

/// The answer of `evo test-one` and `evo test`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VerdictAnswer<'a> {
    #[serde(flatten)]
    pub fields: VerdictFields<'a>,
    pub result: VerdictBrief<'a>,
}

/// For each timed problem the comparison with another candidate, or why there is none.
pub type Pairs = [Result<PairedProblem, String>];

#[derive(Debug)]
pub struct Measured<'a> {
    pub evaluation: &'a Evaluation,
    /// None for a candidate that never reached the device.
    pub problems: Vec<EvaluatedProblem<'a>>,
    /// Absent where no device was opened.
    pub device: Option<&'a DeviceInfo>,
    /// The kernel keeps its blocks running on purpose, so few of them mean nothing.
    pub is_persistent: bool,
    /// The comparison with the default configuration, or why there is none.
    pub compared: Result<&'a Pairs, String>,
}

/// The figures that scripts read flat.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Figures {
    pub latency_ms: Known<f64>,
    /// The weighted geometric mean over all timed problems.
    pub speedup_vs_baseline: Known<f64>,
    pub speedup_vs_torch: Known<f64>,
    /// Blocks of the problem that has the fewest, which leaves most of the device idle.
    pub ctas: Known<u64>,
    pub sm_count: Known<u64>,
    pub few_ctas: Known<bool>,
}

/// The answer of `evo benchmark`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BenchmarkAnswer<'a> {
    #[serde(flatten)]
    pub fields: VerdictFields<'a>,
    #[serde(flatten)]
    pub figures: Figures,
    pub problems: Vec<BenchmarkProblem>,
    pub baseline: Known<BenchmarkBaseline>,
    pub result: BenchmarkBrief<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BenchmarkBrief<'a> {
    #[serde(flatten)]
    pub brief: VerdictBrief<'a>,
    #[serde(flatten)]
    pub figures: Figures,
}

/// A timed problem beside the default configuration.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BenchmarkProblem {
    problem: String,
    latency_ms: Known<f64>,
    speedup_vs_baseline: Known<f64>,
    /// Ends of the 95 % interval of the speed-up.
    speedup_low_ratio: Known<f64>,
    speedup_high_ratio: Known<f64>,
    decision: Known<PairedDecision>,
    ctas: u64,
    few_ctas: Known<bool>,
}

/// What the candidate was compared with, and how.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BenchmarkBaseline {
    pub configuration: Configuration,
    pub method: &'static str,
    pub noise_floor_ratio: Known<f64>,
}

/// A warning begins below this many blocks for each multiprocessor.
const FEW_BLOCKS: u64 = 4;

const NO_TORCH: &str = "`evo bench --peer torch` compares with torch, in one run with it";
pub const NOT_PASSED: &str = "the candidate did not pass, and a failure has no number";
const NOT_LAUNCHED: &str = "the candidate never came to a launch";

impl Measured<'_> {
    pub fn figures(&self) -> Figures {
        let passed = self.evaluation.verdict.is_pass();
        let latency_ms = self.evaluation.objective_ns.filter(|_| passed).map(|time| time / 1e6);
        let pairs = self.compared.as_ref().ok();
        let missing = self.compared.as_ref().err();
        let error = pairs.and_then(|pairs| pairs.iter().find_map(|pair| pair.as_ref().err()));
        let fewest = self.problems.iter().map(|problem| problem.plan).min_by_key(|plan| blocks(plan));
        let ratios = pairs.filter(|pairs| pairs.len() == self.problems.len()).map(|pairs| {
            let weights = self.problems.iter().map(|problem| problem.plan.weight);
            weights.zip(pairs.iter().map(|pair| pair.as_ref().ok().map(|pair| 1.0 / pair.ratio)))
        });
        Figures {
            latency_ms: Known::number(latency_ms, NOT_PASSED),
            speedup_vs_baseline: Known::number(
                ratios.and_then(geometric_mean),
                error.or(missing).map_or(NOT_PASSED, String::as_str),
            ),
            speedup_vs_torch: Known::Unknown(NO_TORCH.into()),
            ctas: Known::of(fewest.map(blocks), NOT_LAUNCHED),
            sm_count: Known::of(self.device.and_then(sm_count), no_multiprocessors(self.device)),
            few_ctas: self.few_ctas(fewest),
        }
    }

    fn few_ctas(&self, plan: Option<&ProblemPlan>) -> Known<bool> {
        let few = plan.zip(self.device).and_then(|(plan, device)| are_few(device, self.is_persistent, plan));
        Known::of(few, if plan.is_none() { NOT_LAUNCHED } else { no_multiprocessors(self.device) })
    }

    pub fn problems(&self) -> Vec<BenchmarkProblem> {
        let problem = |(number, problem): (usize, &EvaluatedProblem<'_>)| {
            let EvaluatedProblem { plan, time, .. } = *problem;
            let pair = match &self.compared {
                Ok(pairs) => {
                    pairs.get(number).map_or(Err(NOT_PASSED), |pair| pair.as_ref().map_err(String::as_str))
                }
                Err(why) => Err(why.as_str()),
            };
            let (pair, why) = (pair.ok(), pair.err().unwrap_or(NOT_PASSED));
            // The comparison has the candidate's time over the default's; a speed-up is its inverse.
            let speedup = |of: fn(&PairedProblem) -> f64| Known::number(pair.map(|pair| 1.0 / of(pair)), why);
            BenchmarkProblem {
                problem: plan.name.clone(),
                latency_ms: Known::number(time.map(|time| time.p50_ns / 1e6), NOT_PASSED),
                speedup_vs_baseline: speedup(|pair| pair.ratio),
                speedup_low_ratio: speedup(|pair| pair.ratio_high),
                speedup_high_ratio: speedup(|pair| pair.ratio_low),
                decision: Known::of(pair.map(|pair| pair.decision), why),
                ctas: blocks(plan),
                few_ctas: self.few_ctas(Some(plan)),
            }
        };
        self.problems.iter().enumerate().map(problem).collect()
    }
}

/// The geometric mean of weighted values; `None` unless all of them are known.
pub fn geometric_mean(parts: impl Iterator<Item = (f64, Option<f64>)>) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (weight, value) in parts {
        sum += weight * value?.ln();
        weights += weight;
    }
    // Of no value at all it is not a number.
    Some((sum / weights).exp()).filter(|mean| mean.is_finite() && *mean > 0.0)
}

/// Blocks of the launch that has the most.
pub fn blocks(plan: &ProblemPlan) -> u64 {
    let grids = plan.launches.iter().map(|launch| launch.grid.map(|extent| extent.max(0).unsigned_abs()));
    grids.map(|grid| grid.into_iter().fold(1, u64::saturating_mul)).max().unwrap_or(0)
}

/// Multiprocessors of a GPU. A processor's cores are not that: a block there is a loop.
fn sm_count(device: &DeviceInfo) -> Option<u64> {
    (device.kind == DeviceKind::Cuda).then_some(device.multiprocessors.into())
}

fn no_multiprocessors(device: Option<&DeviceInfo>) -> &'static str {
    match device {
        Some(_) => "the host device has no multiprocessors",
        None => "no device was opened",
    }
}

/// Whether a problem has too few blocks for a device; unknown where the device has no multiprocessors.
pub fn are_few(device: &DeviceInfo, is_persistent: bool, plan: &ProblemPlan) -> Option<bool> {
    Some(!is_persistent && blocks(plan) < FEW_BLOCKS * sm_count(device)?)
}

impl Figures {
    pub fn text(&self) -> String {
        templates::lines("figures.txt.j2", Serde(told(self).0).into())
    }
}

#[derive(Debug)]
pub struct Evaluated<'a> {
    pub evaluation: &'a Evaluation,
    pub correct: bool,
    /// Absent before it is decided.
    pub ruling: Option<&'a Ruling>,
    /// Weighted geometric mean speed-up over the canonical problems.
    pub score: Option<f64>,
    /// Why there is no comparison.
    pub not_compared: &'a str,
    pub problems: Vec<EvaluatedProblem<'a>>,
    /// The bottleneck that a profiler names, or why none is known.
    pub bottleneck: Known<String>,
    pub next_step: String,
}

#[derive(Debug)]
pub struct EvaluatedProblem<'a> {
    pub plan: &'a ProblemPlan,
    pub canonical: bool,
    /// In the mode that ranks.
    pub time: Option<&'a Measurement>,
    pub pair: Option<&'a PairedProblem>,
    /// The least time that the device's peaks allow over the measured one.
    pub roofline_ratio: Option<f64>,
}

const NOT_YET: &str = "the command ended before it was known";
const NOT_REPORTED: &str = "the compiler does not report it; the host's reports no registers";
const NO_PEAK: &str = "the work of a call or the peaks of the device are not known";
/// Bytes of a log that are shown.
const LOG_MAX: usize = 8 << 10;

/// The `result` of `evo evaluate`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EvaluateResult {
    verdict: VerdictKind,
    class: VerdictClass,
    cause: Known<String>,
    message: String,
    correct: bool,
    /// Weighted geometric mean speed-up over the canonical problems.
    score: Known<f64>,
    accepted: Known<bool>,
    #[schemars(with = "Option<String>")]
    decision: Known<RivalDecision>,
    why: Known<String>,
    problems: Vec<EvaluateProblem>,
    gates: Vec<GateReport>,
    #[schemars(with = "Vec<EntryResources>")]
    resources: Value,
    bottleneck: Known<String>,
    log_tail: Known<String>,
    next_step: String,
}

/// A timed problem beside the rival.
#[derive(Debug, Serialize, JsonSchema)]
struct EvaluateProblem {
    problem: String,
    sizes: Value,
    canonical: bool,
    p50_ns: Known<f64>,
    p90_ns: Known<f64>,
    against_p50_ns: Known<f64>,
    speedup: Known<f64>,
    speedup_low: Known<f64>,
    speedup_high: Known<f64>,
    decision: Known<PairedDecision>,
    tflops: Known<f64>,
    /// The least time that the device's peaks allow over the measured one.
    roofline_ratio: Known<f64>,
    ctas: u64,
}

impl Evaluated<'_> {
    pub fn result(&self) -> EvaluateResult {
        let Evaluation { verdict, gates, resources, .. } = self.evaluation;
        let score = self.score.filter(|_| self.correct);
        EvaluateResult {
            verdict: verdict.kind,
            class: verdict.kind.class(),
            cause: Known::of(verdict.cause.clone(), "the verdict has no cause beyond its name"),
            message: verdict.message.clone(),
            correct: self.correct,
            score: Known::number(score, if self.correct { self.not_compared } else { NOT_PASSED }),
            accepted: Known::of(self.ruling.map(|ruling| ruling.decision == RivalDecision::Keep), NOT_YET),
            decision: Known::of(self.ruling.map(|ruling| ruling.decision), NOT_YET),
            why: Known::of(self.ruling.map(|ruling| ruling.why.clone()), NOT_YET),
            problems: self.problems.iter().map(|problem| self.problem(problem)).collect(),
            gates: gates.clone(),
            resources: because(json!(resources), &|_| NOT_REPORTED.to_string()),
            bottleneck: self.bottleneck.clone(),
            log_tail: Known::of(log_tail(self.evaluation), "nothing was logged"),
            next_step: self.next_step.clone(),
        }
    }

    fn problem(&self, problem: &EvaluatedProblem<'_>) -> EvaluateProblem {
        let absent = if self.correct { self.not_compared } else { NOT_PASSED };
        let time = problem.time.filter(|_| self.correct);
        let p50_ns = time.map(|time| time.p50_ns);
        let pair = problem.pair.filter(|_| self.correct);
        let unknown = if time.is_some() { NO_PEAK } else { NOT_PASSED };
        let compared = |of: fn(&PairedProblem) -> f64| Known::number(pair.map(of), absent);
        EvaluateProblem {
            problem: problem.plan.name.clone(),
            sizes: json!(problem.plan.sizes),
            canonical: problem.canonical,
            p50_ns: Known::number(p50_ns, NOT_PASSED),
            p90_ns: Known::number(time.map(|time| time.p90_ns), NOT_PASSED),
            against_p50_ns: compared(|pair| pair.baseline_ns),
            // The comparison has the candidate's time over the rival's; a speed-up is its inverse.
            speedup: compared(|pair| 1.0 / pair.ratio),
            speedup_low: compared(|pair| 1.0 / pair.ratio_high),
            speedup_high: compared(|pair| 1.0 / pair.ratio_low),
            decision: Known::of(pair.map(|pair| pair.decision), absent),
            tflops: Known::number(
                problem.plan.flops.zip(p50_ns).map(|(flops, time)| flops / time / 1e3),
                unknown,
            ),
            roofline_ratio: Known::number(problem.roofline_ratio.filter(|_| time.is_some()), unknown),
            ctas: blocks(problem.plan),
        }
    }
}

/// The end of what a compiler or a worker said.
fn log_tail(evaluation: &Evaluation) -> Option<String> {
    let evidence = &evaluation.verdict.evidence;
    let log = ["log", "log_tail"].iter().find_map(|name| evidence.get(name)?.as_str())?;
    let from = (log.len().saturating_sub(LOG_MAX)..).find(|at| log.is_char_boundary(*at))?;
    Some(log[from..].to_string()).filter(|log| !log.is_empty())
}

impl EvaluateResult {
    /// The decision for people, a line each.
    pub fn text(&self, rival: &str) -> String {
        let result = minijinja::Value::from(Serde(told(self).0));
        templates::lines("evaluate.txt.j2", context! { rival, ..result })
    }
}

/// The answer of `evo evaluate`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EvaluateAnswer<'a> {
    pub space: &'a str,
    pub kernel: &'a str,
    pub seed: u64,
    pub configuration: &'a Configuration,
    pub rival: RivalSaid<'a>,
    /// Of the line that was written.
    pub number: u64,
    /// The best accepted so far, as its file has it.
    pub incumbent: Known<Value>,
    /// The speed-up that its author claims.
    pub claimed: Known<f64>,
    pub notes: &'a [String],
    pub parity: Known<Value>,
    #[serde(flatten)]
    pub figures: Figures,
    pub result: EvaluateResult,
}

/// What a candidate was compared with, and why with that.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RivalSaid<'a> {
    pub name: &'a str,
    pub why: &'a str,
    /// The number of the evaluation that made it the incumbent.
    pub incumbent: Known<u64>,
    pub configuration: &'a Configuration,
    pub noise_floor_ratio: Known<f64>,
}

#[cfg(test)]
mod tests {
    use evo_journal::example as fake;
    use evo_protocol::verdict::Verdict;
    use evo_supervise::job::example;

    use super::*;

    fn plan(grid: [i64; 3]) -> ProblemPlan {
        let launch = json!({ "entry": "k", "grid": grid, "block": [32, 1, 1], "shared_bytes": 0, "arguments": [],
            "cluster": null, "cooperative": false, "programmatic": false });
        ProblemPlan { launches: vec![serde_json::from_value(launch).unwrap()], ..example::plan("p", 1.0) }
    }

    fn untimed(plan: &ProblemPlan) -> EvaluatedProblem<'_> {
        EvaluatedProblem { plan, canonical: true, time: None, pair: None, roofline_ratio: None }
    }

    #[test]
    fn what_is_not_known_is_null_and_few_blocks_are_a_warning_unless_the_kernel_is_persistent() {
        use DeviceKind::{Cuda, Host};
        use VerdictKind::{Pass, WrongAnswer};
        let pair = json!({ "problem": "p", "ratio": 0.5, "ratio_low": 0.5, "ratio_high": 0.5, "processes": 2,
            "pairs": 8, "decision": "same", "baseline_ns": 1.0, "finalist_ns": 1.0 });
        let pairs = [Ok(serde_json::from_value(pair).unwrap())];
        for (kind, on, grid, is_persistent, expected) in [
            (Pass, Cuda, [132, 4, 1], false, json!([2.0, 2.0, null, 528, 132, false])),
            (Pass, Cuda, [132, 1, 1], false, json!([2.0, 2.0, null, 132, 132, true])),
            (Pass, Cuda, [132, 1, 1], true, json!([2.0, 2.0, null, 132, 132, false])),
            (Pass, Host, [2, 3, 1], false, json!([2.0, 2.0, null, 6, null, null])),
            (WrongAnswer, Cuda, [2, 3, 1], false, json!([null, null, null, 6, 132, true])),
        ] {
            let mut evaluation =
                fake::evaluation(0, Configuration::new(Vec::new()), "user", Verdict::new(kind, ""));
            evaluation.objective_ns = Some(2e6);
            let device = DeviceInfo { kind: on, multiprocessors: 132, ..fake::header().device };
            let plan = plan(grid);
            let measured = Measured {
                evaluation: &evaluation,
                problems: vec![untimed(&plan)],
                device: Some(&device),
                is_persistent,
                compared: if kind == Pass { Ok(&pairs[..]) } else { Err(NOT_PASSED.to_string()) },
            };
            let figures = measured.figures();
            let (values, why) = told(&figures);
            let values: Value = values.as_object().unwrap().values().cloned().collect();
            assert_eq!(values, expected);
            assert_eq!(why.get("latency_ms").is_some_and(|why| why == NOT_PASSED), kind == WrongAnswer);
            assert_eq!(figures.text().contains("132 blocks are few for 132"), grid[1] == 1 && !is_persistent);
        }
    }

    #[test]
    fn a_failure_has_no_number_and_a_log_is_cut() {
        let verdict = Verdict::new(VerdictKind::WrongAnswer, "off").with("log", "é".repeat(LOG_MAX));
        let evaluation = fake::evaluation(0, Configuration::new(Vec::new()), "user", verdict);
        let plan = example::plan("p", 1.0);
        let evaluated = Evaluated {
            evaluation: &evaluation,
            correct: false,
            ruling: None,
            score: Some(2.0),
            not_compared: "no",
            problems: vec![untimed(&plan)],
            bottleneck: Known::Unknown("no".into()),
            next_step: "go".into(),
        };
        let (result, reasons) = told(&evaluated.result());
        assert_eq!((&result["score"], &result["correct"]), (&Value::Null, &false.into()));
        assert!(result["log_tail"].as_str().unwrap().len() <= LOG_MAX);
        assert_eq!(reasons["problems.0.p50_ns"], NOT_PASSED);
    }
}
