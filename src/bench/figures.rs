//! What is known of each implementation on each shape while a benchmark runs, and how rows are made of it: medians, rates, ratios to the best right peer. Pure.

use evo_protocol::bench::{BenchRow, Implementation, ImplementationKind, RowStatus, RowTimes};
use evo_protocol::device::DeviceInfo;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use serde_json::Value;

use super::shapes::BenchShape;
use crate::journal::leaderboard::roofline_ns;
use crate::journal::record::ProblemWork;
use crate::report::benchmark::{are_few, blocks};
use crate::timing::stats::{bootstrap_interval, median, quantile, sorted};
use crate::timing::{noise, paired};

/// Samples of one mode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockSeries {
    /// Nanoseconds a call, in order.
    pub samples_ns: Vec<f64>,
    pub medians_ns: Vec<f64>,
    /// Medians of the second of two blocks in a row, for the noise floor; only of one implementation.
    pub echoes_ns: Vec<f64>,
}

/// One implementation on one shape.
#[derive(Clone, Debug)]
pub struct BenchCell {
    /// Position among the implementations.
    pub implementation: usize,
    /// Position among the shapes.
    pub shape: usize,
    pub status: RowStatus,
    /// Why it is not `pass`.
    pub reason: String,
    pub correct: Option<bool>,
    /// The numbers of `report::parity`.
    pub parity: Option<Value>,
    /// The problem as a candidate resolves it.
    pub plan: Option<ProblemPlan>,
    pub series: Vec<(TimingMode, BlockSeries)>,
}

impl BenchCell {
    /// A cell that nobody has looked at.
    pub fn new(implementation: usize, shape: usize) -> BenchCell {
        BenchCell {
            implementation,
            shape,
            status: RowStatus::NotRun,
            reason: NOT_REACHED.to_string(),
            correct: None,
            parity: None,
            plan: None,
            series: Vec::new(),
        }
    }

    /// Says why there is no more to come.
    pub fn end(&mut self, status: RowStatus, reason: impl Into<String>) {
        self.status = status;
        self.reason = reason.into();
        self.series.clear();
    }

    /// Whether it has answered rightly and nothing has gone wrong since.
    pub fn may_be_timed(&self) -> bool {
        self.correct == Some(true) && self.status == RowStatus::NotRun && self.reason == NOT_TIMED
    }

    /// Whether nothing that comes can change it.
    pub fn reason_is_final(&self) -> bool {
        self.reason != NOT_REACHED && self.reason != NOT_TIMED
    }

    /// Notes a right answer, which is still to be timed.
    pub fn is_right(&mut self) {
        self.correct = Some(true);
        self.status = RowStatus::NotRun;
        self.reason = NOT_TIMED.to_string();
    }

    /// The series of a mode, made where it is not there.
    pub fn series_of(&mut self, mode: TimingMode) -> &mut BlockSeries {
        let known = self.series.iter().position(|(own, _)| *own == mode);
        let at = known.unwrap_or_else(|| {
            self.series.push((mode, BlockSeries::default()));
            self.series.len() - 1
        });
        &mut self.series[at].1
    }

    /// What is known of a mode.
    pub fn seen(&self, mode: TimingMode) -> Option<&BlockSeries> {
        self.series.iter().find(|(own, _)| *own == mode).map(|(_, series)| series)
    }
}

/// Before anybody has looked.
pub const NOT_REACHED: &str = "the run ended before this";
/// Between the gates and the clock.
pub const NOT_TIMED: &str = "it was not timed";

/// What rows are made under.
#[derive(Clone, Debug)]
pub struct FigureContext<'a> {
    pub device: &'a DeviceInfo,
    pub implementations: &'a [Implementation],
    /// The mode that rates and ratios are of.
    pub ranking: TimingMode,
    pub is_persistent: bool,
    /// The built-in reference, where the task has one: it knows the operations of its kernel.
    pub operator: Option<&'a str>,
    /// Whether any peer takes part.
    pub has_peers: bool,
    pub seed: u64,
}

/// The rows of one shape, in the order of its cells.
pub fn rows(cells: &[BenchCell], shape: &BenchShape, context: &FigureContext<'_>) -> Vec<BenchRow> {
    let is_peer =
        |cell: &BenchCell| context.implementations[cell.implementation].kind == ImplementationKind::Peer;
    let time = |cell: &BenchCell| {
        let series = cell.seen(context.ranking).filter(|_| cell.status == RowStatus::Pass)?;
        Some(median(&series.samples_ns))
    };
    let peers = cells.iter().filter(|cell| is_peer(cell));
    let timed = peers.filter_map(|cell| Some((cell, time(cell)?)));
    let best = timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(cell, _)| cell);
    let floor = noise_floor(cells, context);
    // Peers compute the same, so a candidate's plan says how much work it is.
    let plan = cells.iter().find_map(|cell| cell.plan.as_ref());
    let one = |cell: &BenchCell| {
        let mut row = RowMaker { row: empty(cell, shape, context), cell, context };
        row.answers();
        row.times(plan);
        row.ratio(best, floor);
        row.launches();
        row.row
    };
    cells.iter().map(one).collect()
}

/// How far one implementation is from itself, block beside block; unknown where nobody was timed twice.
fn noise_floor(cells: &[BenchCell], context: &FigureContext<'_>) -> Option<f64> {
    let series = cells.iter().filter_map(|cell| cell.seen(context.ranking));
    let echoed =
        series.filter(|series| !series.echoes_ns.is_empty()).max_by_key(|own| own.echoes_ns.len())?;
    let ratios = log_ratios(&echoed.echoes_ns, &echoed.medians_ns);
    Some(noise::floor(vec![ratios], context.seed).floor).filter(|floor| floor.is_finite())
}

/// ln(time / other time), block by block.
fn log_ratios(times: &[f64], others: &[f64]) -> Vec<f64> {
    times
        .iter()
        .zip(others)
        .map(|(own, other)| (own / other).ln())
        .filter(|ratio| ratio.is_finite())
        .collect()
}

fn empty(cell: &BenchCell, shape: &BenchShape, context: &FigureContext<'_>) -> BenchRow {
    let implementation = &context.implementations[cell.implementation];
    let sizes = shape.problem.sizes.iter();
    BenchRow {
        sizes: sizes.filter_map(|(name, value)| Some((name.clone(), value.as_int()?))).collect(),
        canonical: shape.canonical,
        version: implementation.version.clone(),
        reason: (cell.status != RowStatus::Pass).then(|| cell.reason.clone()),
        correct: cell.correct,
        ..BenchRow::unmeasured(&implementation.name, &shape.problem.name, cell.status)
    }
}

struct RowMaker<'a> {
    row: BenchRow,
    cell: &'a BenchCell,
    context: &'a FigureContext<'a>,
}

impl RowMaker<'_> {
    fn because(&mut self, names: &[&str], why: &str) {
        for name in names {
            self.row.reasons.insert(name.to_string(), why.to_string());
        }
    }

    fn kind(&self) -> ImplementationKind {
        self.context.implementations[self.cell.implementation].kind
    }

    fn answers(&mut self) {
        if self.row.version.is_none() {
            self.because(&["version"], "it does not say");
        }
        if self.row.reason.is_none() {
            self.because(&["reason"], "nothing is missing");
        }
        let why = self.cell.reason.clone();
        if self.row.correct.is_none() {
            self.because(&["correct"], &why);
        }
        let output =
            self.cell.plan.as_ref().and_then(|plan| plan.buffers.iter().find(|own| own.role.is_answer()));
        self.row.dtype = output.map(|own| own.dtype.as_str().to_string());
        if self.row.dtype.is_none() {
            self.because(&["dtype"], "the problem was not resolved");
        }
        let number = |name: &str| self.cell.parity.as_ref().map(|own| &own[name]);
        self.row.max_abs_error = number("max_abs_error").and_then(Value::as_f64);
        self.row.allclose_fine = number("allclose_1e-3").and_then(Value::as_bool);
        self.row.allclose_coarse = number("allclose_1e-2").and_then(Value::as_bool);
        let missing = [
            ("max_abs_error", self.row.max_abs_error.is_none()),
            ("allclose_1e-3", self.row.allclose_fine.is_none()),
            ("allclose_1e-2", self.row.allclose_coarse.is_none()),
        ];
        for (name, is_missing) in missing {
            if is_missing {
                let said = number(&format!("{name}_reason")).and_then(Value::as_str).map(String::from);
                self.because(&[name], &said.unwrap_or_else(|| "no answer was compared".to_string()));
            }
        }
    }

    fn times(&mut self, plan: Option<&ProblemPlan>) {
        let is_timed = self.cell.status == RowStatus::Pass;
        for (mode, series) in self.cell.series.iter().filter(|_| is_timed) {
            let ascending = sorted(&series.samples_ns);
            let resamples = (400_000 / ascending.len().max(1)).clamp(200, 2_000);
            let interval = bootstrap_interval(&series.samples_ns, resamples, 10, self.context.seed);
            let times = RowTimes {
                p50_ns: quantile(&ascending, 0.5),
                p90_ns: quantile(&ascending, 0.9),
                ci_low_ns: interval.low,
                ci_high_ns: interval.high,
                samples: ascending.len() as u64,
            };
            self.row.modes.insert(mode.as_str().to_string(), times);
        }
        let rates = ["tflops", "gigabytes_per_second", "roofline_ratio"];
        let time = self.row.modes.get(self.context.ranking.as_str()).map(|own| own.p50_ns);
        let Some(time) = time else {
            let why = self.cell.reason.clone();
            self.because(&["modes"], &why);
            return self.because(&rates, "it has no time");
        };
        let Some(plan) = plan else { return self.because(&rates, "the problem was not resolved") };
        let work = ProblemWork { flops: flops(plan, self.context.operator), ..ProblemWork::of(plan) };
        // Operations in a nanosecond are thousandths of a teraflop in a second; bytes are gigabytes.
        self.row.tflops = work.flops.map(|flops| flops / time / 1e3);
        self.row.gigabytes_per_second = work.bytes.map(|bytes| bytes / time);
        self.row.roofline_ratio = roofline_ns(self.context.device, &work).map(|floor| floor / time);
        if self.row.tflops.is_none() {
            self.because(&["tflops"], "`objective.flops` is not declared");
        }
        if self.row.gigabytes_per_second.is_none() {
            self.because(&["gigabytes_per_second"], "`objective.bytes` is not declared");
        }
        if self.row.roofline_ratio.is_none() {
            self.because(&["roofline_ratio"], "the device's peaks or the problem's work are not known");
        }
    }

    fn ratio(&mut self, best: Option<&BenchCell>, floor: Option<f64>) {
        let names = ["ratio_to_best_peer", "ratio_low", "ratio_high", "decision"];
        if self.cell.status != RowStatus::Pass {
            return self.because(&names, "it has no time");
        }
        let Some(best) = best else {
            let why = if self.context.has_peers { "no peer is right" } else { "no peer was asked for" };
            return self.because(&names, why);
        };
        if std::ptr::eq(best, self.cell) {
            return self.because(&names, "it is the best peer");
        }
        let mode = self.context.ranking;
        let pair = self.cell.seen(mode).zip(best.seen(mode));
        let ratios =
            pair.map(|(own, other)| log_ratios(&own.medians_ns, &other.medians_ns)).unwrap_or_default();
        if ratios.is_empty() {
            return self.because(&names, "they have no turn in common");
        }
        let compared = paired::compare(&[ratios], floor.unwrap_or(0.0), self.context.seed);
        self.row.ratio_to_best_peer = Some(compared.log_ratio.exp());
        self.row.ratio_low = Some(compared.low.exp());
        self.row.ratio_high = Some(compared.high.exp());
        self.row.decision = floor.map(|_| compared.decision);
        if floor.is_none() {
            self.because(&["decision"], "the noise floor of this shape is not known");
        }
    }

    fn launches(&mut self) {
        if self.kind() == ImplementationKind::Peer {
            return self.because(&["ctas", "few_ctas"], "a peer does not say how it launches");
        }
        let Some(plan) = &self.cell.plan else {
            return self.because(&["ctas", "few_ctas"], "it never came to a launch");
        };
        self.row.ctas = Some(blocks(plan));
        self.row.few_ctas = are_few(self.context.device, self.context.is_persistent, plan);
        if self.row.few_ctas.is_none() {
            self.because(&["few_ctas"], "the host device has no multiprocessors");
        }
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
        BlockSeries { samples_ns: times.to_vec(), medians_ns: times.to_vec(), echoes_ns: echoes.to_vec() }
    }

    fn cell(number: usize, status: RowStatus, series: BlockSeries) -> BenchCell {
        let plan = Some(example::plan("p", 1e6));
        let series = vec![(TimingMode::Hot, series)];
        BenchCell { status, correct: Some(true), plan, series, ..BenchCell::new(number, 0) }
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
            cell(0, RowStatus::Pass, series(&near, &near)),
            cell(1, RowStatus::Fail, series(&times(0.1), &[])),
            cell(2, RowStatus::Pass, series(&times(3.0), &[])),
            cell(3, RowStatus::Pass, series(&times(2.0), &[])),
        ];
        let device = crate::journal::example::header().device;
        let context = FigureContext {
            device: &device,
            implementations: &implementations,
            ranking: TimingMode::Hot,
            is_persistent: false,
            operator: None,
            has_peers: true,
            seed: 1,
        };
        let rows = rows(&cells, &BenchShape::example("p"), &context);
        assert!((rows[0].ratio_to_best_peer.unwrap() - 0.5).abs() < 1e-9, "{:?}", rows[0]);
        assert_eq!(rows[0].decision, Some(evo_protocol::leaderboard::PairedDecision::Faster));
        assert!(rows[1].ratio_to_best_peer.is_none() && rows[1].modes.is_empty(), "{:?}", rows[1]);
        assert!((rows[2].ratio_to_best_peer.unwrap() - 1.5).abs() < 1e-9);
        assert_eq!(rows[3].reasons["ratio_to_best_peer"], "it is the best peer");
        for row in &rows {
            let object = serde_json::to_value(row).unwrap();
            for (name, value) in object.as_object().unwrap() {
                let reason = row.reasons.contains_key(name);
                assert!(!value.is_null() || reason || name == "scales_badly", "{name}: {row:?}");
            }
        }
    }
}
