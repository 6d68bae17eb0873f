//! What is known of each implementation on each shape while a benchmark runs, and how rows are made of it:
//! medians, rates, and ratios to the best right peer. Pure.

use std::collections::BTreeMap;

use evo_protocol::bench::{BenchRow, Implementation, ImplementationKind, RowStatus, RowTimes};
use evo_protocol::device::DeviceInfo;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use serde_json::{Value, json};

use crate::journal::leaderboard::roofline_ns;
use crate::journal::record::ProblemWork;
use crate::kernel::spec::{KernelSpec, ProblemSpec, ReferenceSpec};
use crate::peer::ClaimedTime;
use crate::report::judged::{are_few, blocks};
use crate::timing::paired;
use crate::timing::stats::{bootstrap_interval, median, quantile, sorted};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockSeries {
    /// Nanoseconds a call, in order.
    pub samples_ns: Vec<f64>,
    pub medians_ns: Vec<f64>,
    /// Medians of the second of two blocks in a row, for the noise floor; only of one implementation.
    pub echoes_ns: Vec<f64>,
    /// What our own clock says of a peer's samples.
    pub claimed: ClaimedTime,
}

#[derive(Clone, Debug)]
pub struct BenchCell {
    pub status: RowStatus,
    /// Why it is not `pass`.
    pub reason: String,
    pub correct: Option<bool>,
    /// The numbers of `report::judged::parity`.
    pub parity: Option<Value>,
    /// The problem as a candidate resolves it.
    pub plan: Option<ProblemPlan>,
    pub series: BTreeMap<TimingMode, BlockSeries>,
}

impl Default for BenchCell {
    fn default() -> BenchCell {
        BenchCell::ended(RowStatus::NotRun, NOT_REACHED)
    }
}

impl BenchCell {
    pub fn ended(status: RowStatus, reason: &str) -> BenchCell {
        let reason = reason.to_string();
        BenchCell { status, reason, correct: None, parity: None, plan: None, series: BTreeMap::new() }
    }

    /// Says why there is no more to come.
    pub fn end(&mut self, status: RowStatus, reason: impl Into<String>) {
        self.status = status;
        self.reason = reason.into();
        self.series.clear();
    }

    /// The same where gates judged its answer.
    pub fn refuse(&mut self, status: RowStatus, reason: impl Into<String>) {
        self.correct = (status == RowStatus::Fail).then_some(false);
        self.end(status, reason);
    }

    /// Whether it has answered rightly and nothing has gone wrong since.
    pub fn may_be_timed(&self) -> bool {
        self.correct == Some(true) && self.status == RowStatus::NotRun && self.reason == NOT_TIMED
    }

    /// Whether nothing that comes can change it.
    pub fn reason_is_final(&self) -> bool {
        self.reason != NOT_REACHED && self.reason != NOT_TIMED
    }

    pub fn is_right(&mut self) {
        self.correct = Some(true);
        self.status = RowStatus::NotRun;
        self.reason = NOT_TIMED.to_string();
    }
}

pub const NOT_REACHED: &str = "the run ended before this";
pub const NOT_TIMED: &str = "it was not timed";

#[derive(Clone, Debug)]
pub struct FigureContext<'a> {
    pub device: &'a DeviceInfo,
    /// The mode that rates and ratios are of.
    pub ranking: TimingMode,
    pub kernel: &'a KernelSpec,
    pub has_peers: bool,
    pub seed: u64,
}

pub fn rows(
    cells: &[(&Implementation, &BenchCell)],
    shape: &ProblemSpec,
    context: &FigureContext<'_>,
) -> Vec<BenchRow> {
    let time = |cell: &BenchCell| {
        let series = cell.series.get(&context.ranking).filter(|_| cell.status == RowStatus::Pass)?;
        Some(median(&series.samples_ns))
    };
    let peers = cells.iter().filter(|(own, _)| own.kind == ImplementationKind::Peer);
    let timed = peers.filter_map(|(_, cell)| Some((*cell, time(cell)?)));
    let best = timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(cell, _)| cell);
    let floor = noise_floor(cells, context);
    // Peers compute the same, so a candidate's plan says how much work it is.
    let plan = cells.iter().find_map(|(_, cell)| cell.plan.as_ref());
    cells.iter().map(|cell| row(*cell, shape, context, (best, floor, plan))).collect()
}

/// How far one implementation is from itself, block beside block; unknown where nobody was timed twice.
fn noise_floor(cells: &[(&Implementation, &BenchCell)], context: &FigureContext<'_>) -> Option<f64> {
    let series = cells.iter().filter_map(|(_, cell)| cell.series.get(&context.ranking));
    let echoed =
        series.filter(|series| !series.echoes_ns.is_empty()).max_by_key(|own| own.echoes_ns.len())?;
    let ratios = log_ratios(&echoed.echoes_ns, &echoed.medians_ns);
    Some(paired::noise_floor(&[ratios], context.seed).floor).filter(|floor| floor.is_finite())
}

fn log_ratios(times: &[f64], others: &[f64]) -> Vec<f64> {
    times
        .iter()
        .zip(others)
        .map(|(own, other)| (own / other).ln())
        .filter(|ratio| ratio.is_finite())
        .collect()
}

fn row(
    (implementation, cell): (&Implementation, &BenchCell),
    shape: &ProblemSpec,
    context: &FigureContext<'_>,
    (best, floor, plan): (Option<&BenchCell>, Option<f64>, Option<&ProblemPlan>),
) -> BenchRow {
    let is_timed = cell.status == RowStatus::Pass;
    let output = cell.plan.as_ref().and_then(|plan| plan.buffers.iter().find(|own| own.role.is_answer()));
    let parity = |name: &str| cell.parity.as_ref().map(|own| &own[name]);
    let sizes = shape.sizes.iter();
    let series = cell.series.iter().filter(|_| is_timed);
    let modes: BTreeMap<String, RowTimes> =
        series.map(|(mode, series)| (mode.as_str().to_string(), times(series, context.seed))).collect();
    let time = modes.get(context.ranking.as_str()).map(|own| own.p50_ns);
    let work = plan
        .map(|plan| ProblemWork { flops: flops(plan, operator(context.kernel)), ..ProblemWork::of(plan) });
    let work = work.as_ref();
    let rate = |amount: Option<f64>| Some(amount? / time?);
    let medians = |cell: &BenchCell| Some(cell.series.get(&context.ranking)?.medians_ns.clone());
    let pair = best.and_then(|best| medians(cell).zip(medians(best)));
    let ratios = pair.map(|(own, best)| log_ratios(&own, &best)).unwrap_or_default();
    let no_ratio = match best {
        _ if !is_timed => Some("it has no time"),
        None if context.has_peers => Some("no peer is right"),
        None => Some("no peer was asked for"),
        Some(best) if std::ptr::eq(best, cell) => Some("it is the best peer"),
        Some(_) if ratios.is_empty() => Some("they have no turn in common"),
        Some(_) => None,
    };
    let compared = no_ratio.is_none().then(|| paired::compare(&[ratios], floor.unwrap_or(0.0), context.seed));
    let is_own = implementation.kind == ImplementationKind::Own;
    let launched = cell.plan.as_ref().filter(|_| is_own);
    let mut row = BenchRow {
        sizes: sizes.filter_map(|(name, value)| Some((name.clone(), value.as_int()?))).collect(),
        canonical: shape.canonical,
        dtype: output.map(|own| own.dtype.as_str().to_string()),
        version: implementation.version.clone(),
        reason: (!is_timed).then(|| cell.reason.clone()),
        correct: cell.correct,
        max_abs_error: parity("max_abs_error").and_then(Value::as_f64),
        allclose_fine: parity("allclose_1e-3").and_then(Value::as_bool),
        allclose_coarse: parity("allclose_1e-2").and_then(Value::as_bool),
        // Operations in a nanosecond are thousandths of a teraflop in a second; bytes are gigabytes.
        tflops: rate(work.and_then(|own| own.flops)).map(|own| own / 1e3),
        gigabytes_per_second: rate(work.and_then(|own| own.bytes)),
        roofline_ratio: rate(work.and_then(|own| roofline_ns(context.device, own))),
        ratio_to_best_peer: compared.as_ref().map(|own| own.log_ratio.exp()),
        ratio_low: compared.as_ref().map(|own| own.low.exp()),
        ratio_high: compared.as_ref().map(|own| own.high.exp()),
        decision: compared.as_ref().filter(|_| floor.is_some()).map(|own| own.decision),
        ctas: launched.map(blocks),
        few_ctas: launched.and_then(|plan| are_few(context.device, context.kernel.is_persistent, plan)),
        modes,
        ..BenchRow::unmeasured(&implementation.name, &shape.name, cell.status)
    };
    let no_rate = |why: &'static str| match (time, plan) {
        (None, _) => "it has no time",
        (_, None) => "the problem was not resolved",
        _ => why,
    };
    let why = |name: &str| match name {
        "version" => "it does not say",
        "reason" => "nothing is missing",
        "correct" | "modes" => &cell.reason,
        "dtype" => "the problem was not resolved",
        "max_abs_error" | "allclose_1e-3" | "allclose_1e-2" => {
            let reason = parity(&format!("{name}_reason")).and_then(Value::as_str);
            reason.unwrap_or("no answer was compared")
        }
        "tflops" => no_rate("`objective.flops` is not declared"),
        "gigabytes_per_second" => no_rate("`objective.bytes` is not declared"),
        "roofline_ratio" => no_rate("the device's peaks or the problem's work are not known"),
        "ctas" | "few_ctas" => match (is_own, &cell.plan) {
            (false, _) => "a peer does not say how it launches",
            (_, None) => "it never came to a launch",
            _ => "the host device has no multiprocessors",
        },
        _ => no_ratio.unwrap_or("the noise floor of this shape is not known"),
    };
    let fields = json!(row);
    let is_unknown = |name: &str, value: &Value| value.is_null() || name == "modes" && !is_timed;
    let unknown = fields.as_object().into_iter().flatten().filter(|(name, value)| is_unknown(name, value));
    row.reasons = unknown.map(|(name, _)| (name.clone(), why(name).to_string())).collect();
    row
}

fn times(series: &BlockSeries, seed: u64) -> RowTimes {
    let ascending = sorted(&series.samples_ns);
    let resamples = (400_000 / ascending.len().max(1)).clamp(200, 2_000);
    let interval = bootstrap_interval(&series.samples_ns, resamples, 10, seed);
    RowTimes {
        p50_ns: quantile(&ascending, 0.5),
        p90_ns: quantile(&ascending, 0.9),
        ci_low_ns: interval.low,
        ci_high_ns: interval.high,
        samples: ascending.len() as u64,
    }
}

/// The built-in reference of a kernel, which says what it computes and so knows its operations.
pub fn operator(kernel: &KernelSpec) -> Option<&str> {
    match &kernel.check.reference {
        ReferenceSpec::Builtin { name } => Some(name),
        _ => None,
    }
}

/// Operations of one call: what the space declares, else what the built-in reference of a kernel computes. A causal mask
/// halves those of attention, by convention.
pub fn flops(plan: &ProblemPlan, operator: Option<&str>) -> Option<f64> {
    if plan.flops.is_some() {
        return plan.flops;
    }
    let shape = |name: &str| {
        let own = plan.buffers.iter().find(|own| own.name == name)?;
        Some(own.shape.iter().map(|extent| *extent as f64).collect::<Vec<f64>>())
    };
    match operator? {
        "attention" => {
            let (q, k) = (shape("q")?, shape("k")?);
            let whole = 4.0 * q.iter().product::<f64>() * k.get(2)?;
            let is_causal = plan.sizes.get("CAUSAL").is_some_and(|own| *own != 0);
            Some(if is_causal { whole / 2.0 } else { whole })
        }
        "gemm" => Some(2.0 * shape("a")?.iter().product::<f64>() * shape("b")?.get(1)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;
    use evo_protocol::plan::{BufferPlan, Fill, Role};

    use super::*;
    use crate::supervise::job::example;

    #[test]
    fn a_causal_mask_halves_the_operations_unless_the_space_says_otherwise() {
        let buffer = |name: &str, shape: &[u64]| BufferPlan {
            name: name.into(),
            dtype: DType::F16,
            shape: shape.to_vec(),
            role: Role::Input,
            fill: Fill::Unrestricted,
            symbol: None,
            view: None,
        };
        let mut plan = example::plan("p", 7.0);
        plan.buffers = vec![buffer("q", &[1, 2, 16, 8]), buffer("k", &[1, 2, 32, 8])];
        plan.sizes.insert("CAUSAL".into(), 1);
        assert_eq!(flops(&plan, Some("attention")), Some(7.0), "what the space declares decides");
        plan.flops = None;
        let whole = 4.0 * 2.0 * 16.0 * 32.0 * 8.0;
        assert_eq!(flops(&plan, Some("attention")), Some(whole / 2.0));
        plan.sizes.insert("CAUSAL".into(), 0);
        assert_eq!(flops(&plan, Some("attention")), Some(whole));
        plan.buffers = vec![buffer("a", &[4, 8]), buffer("b", &[8, 16])];
        assert_eq!(flops(&plan, Some("gemm")), Some(2.0 * 4.0 * 8.0 * 16.0));
        assert_eq!(flops(&plan, Some("softmax")), None);
        assert_eq!(flops(&plan, None), None);
    }

    fn series(times: &[f64], echoes: &[f64]) -> BlockSeries {
        let (samples_ns, medians_ns) = (times.to_vec(), times.to_vec());
        BlockSeries { samples_ns, medians_ns, echoes_ns: echoes.to_vec(), ..BlockSeries::default() }
    }

    fn cell(status: RowStatus, series: BlockSeries) -> BenchCell {
        let plan = Some(example::plan("p", 1e6));
        let series = BTreeMap::from([(TimingMode::Hot, series)]);
        BenchCell { correct: Some(true), plan, series, ..BenchCell::ended(status, "") }
    }

    #[test]
    fn the_bar_is_the_best_peer_that_is_right() {
        let implementation = |name: &str, kind| Implementation { name: name.into(), kind, version: None };
        let implementations = [
            implementation("own", ImplementationKind::Own),
            implementation("wrong", ImplementationKind::Peer),
            implementation("slow", ImplementationKind::Peer),
            implementation("best", ImplementationKind::Peer),
        ];
        let near: Vec<f64> = (0..12).map(|turn| 100.0 + f64::from(turn % 3) * 0.1).collect();
        let times = |factor: f64| near.iter().map(|time| time * factor).collect::<Vec<f64>>();
        let cells = [
            cell(RowStatus::Pass, series(&near, &near)),
            cell(RowStatus::Fail, series(&times(0.1), &[])),
            cell(RowStatus::Pass, series(&times(3.0), &[])),
            cell(RowStatus::Pass, series(&times(2.0), &[])),
        ];
        let device = crate::journal::example::header().device;
        let kernel = &crate::kernel::catalog::open("softmax").unwrap().kernel.unwrap();
        let (ranking, device) = (TimingMode::Hot, &device);
        let context = FigureContext { device, ranking, kernel, has_peers: true, seed: 1 };
        let cells: Vec<_> = implementations.iter().zip(&cells).collect();
        let rows = rows(&cells, &kernel.problems[0], &context);
        assert!((rows[0].ratio_to_best_peer.unwrap() - 0.5).abs() < 1e-9, "{:?}", rows[0]);
        assert_eq!(rows[0].decision, Some(evo_protocol::leaderboard::PairedDecision::Faster));
        assert!(rows[1].ratio_to_best_peer.is_none() && rows[1].modes.is_empty(), "{:?}", rows[1]);
        assert!((rows[2].ratio_to_best_peer.unwrap() - 1.5).abs() < 1e-9);
        assert_eq!(rows[3].reasons["ratio_to_best_peer"], "it is the best peer");
        for row in &rows {
            let object = serde_json::to_value(row).unwrap();
            for (name, value) in object.as_object().unwrap() {
                let reason = row.reasons.contains_key(name);
                assert!(!value.is_null() || reason, "{name}: {row:?}");
            }
        }
    }
}
