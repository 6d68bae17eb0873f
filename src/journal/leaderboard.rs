//! Computes the ranking that other programs read from journals: a section per kernel, problem set and device.
//! Only freshly confirmed numbers enter it. The file's types are `evo_protocol::leaderboard`.

use std::collections::BTreeMap;

use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{
    Baseline, Leaderboard, LeaderboardSection, ModeResult, PairedDecision, PairedProblem, ProblemResult,
    RankedEntry, StudySummary,
};
use evo_protocol::verdict::{Gate, GateState};
use evo_space::genome::Configuration;
use evo_space::shell::quote;

use super::record::{Confirmation, ProblemWork, StudyHeader};
use super::replay::History;
use crate::timing::stats::median;

/// Most runners-up in a section.
const RUNNERS_UP: usize = 10;

/// Puts a section into a board, in the place of the one for the same kernel, problems and device.
pub fn merge(board: &mut Leaderboard, section: LeaderboardSection) {
    let key = |section: &LeaderboardSection| {
        (section.kernel.clone(), section.problems.clone(), section.device.name.clone())
    };
    match board.sections.iter_mut().find(|own| key(own) == key(&section)) {
        Some(own) => *own = section,
        None => board.sections.push(section),
    }
    // Sorted, so that the file does not depend on which sweep ended first.
    board.sections.sort_by_key(key);
}

/// The section of a study; `None` if it has confirmed nothing that passed, and of a replay: nothing in it
/// was measured.
///
/// What ranks is the paired ratio to the baseline: both are timed in turns in the same processes, so
/// that a busy minute of the machine hits both alike.
pub fn section(history: &History) -> Option<LeaderboardSection> {
    let header = history.header.as_ref().filter(|header| header.device.kind != DeviceKind::Replay)?;
    let newest = history.confirmations.last()?;
    let baseline = history.evaluations.iter().find(|one| one.number == newest.baseline)?;
    // Ratios to different baselines cannot be compared, so only confirmations against the newest baseline
    // count.
    let good = confirmed(history, newest.baseline);
    let base_ns = baseline_ns(&good, newest.baseline)?;
    let mut entries: Vec<RankedEntry> = good.iter().map(|one| entry(header, one, base_ns)).collect();
    entries.sort_by(|a, b| a.objective_ns.total_cmp(&b.objective_ns));
    entries.truncate(RUNNERS_UP + 1);
    let best_ns = entries.first()?.objective_ns;
    let floor = newest.noise_floor.unwrap_or(0.0);
    for (position, entry) in entries.iter_mut().enumerate() {
        entry.rank = position as u32 + 1;
        // A difference below the noise floor would also appear between two runs of the same binary.
        entry.tie_with_champion = position > 0 && entry.objective_ns / best_ns - 1.0 <= floor;
    }
    let champion = entries.remove(0);
    Some(LeaderboardSection {
        kernel: header.kernel.clone(),
        problems: header.problems.clone(),
        device: header.device.clone(),
        ranking: header.ranking,
        champion,
        runners_up: entries,
        noise_floor: newest.noise_floor,
        baseline: Baseline {
            number: baseline.number,
            configuration: baseline.configuration.clone(),
            is_default: baseline.is_default(),
        },
        study: summary(header, history),
        environment: header.environment.clone(),
        confirmed_at: newest.at.clone(),
    })
}

/// The newest confirmation of each number that passed and was compared with this baseline, and the
/// baseline's own.
fn confirmed(history: &History, baseline: u64) -> Vec<&Confirmation> {
    let against = history.confirmations.iter().filter(|one| one.baseline == baseline);
    // `collect` keeps the last of equal numbers, which is the newest in a journal.
    let newest: BTreeMap<u64, &Confirmation> = against.map(|one| (one.number, one)).collect();
    let counts = |one: &&Confirmation| {
        // Without a pair there is no ratio to rank by.
        let compared = one.number == baseline || !one.pairs.is_empty();
        compared && one.evaluation.may_rank() && one.evaluation.objective_ns.is_some()
    };
    newest.into_values().filter(counts).collect()
}

/// The baseline's objective in the paired runs; its own measurement where there were none.
fn baseline_ns(good: &[&Confirmation], baseline: u64) -> Option<f64> {
    let mut times = BTreeMap::<&str, Vec<f64>>::new();
    for pair in good.iter().flat_map(|one| &one.pairs) {
        times.entry(&pair.problem).or_default().push(pair.baseline_ns);
    }
    let own = good.iter().find(|one| one.number == baseline).and_then(|one| one.evaluation.objective_ns);
    let Some(work) = good.iter().find(|one| !one.pairs.is_empty()).map(|one| &one.work) else { return own };
    let (mut sum, mut weights) = (0.0, 0.0);
    for (problem, times) in &times {
        let weight = weight_of(work, problem);
        // Logarithms: the objective is a weighted geometric mean over problems. The median is taken over all
        // finalists, each of which was timed beside the baseline anew.
        sum += weight * median(times).ln();
        weights += weight;
    }
    Some((sum / weights).exp()).filter(|value| value.is_finite())
}

fn weight_of(work: &[ProblemWork], problem: &str) -> f64 {
    work.iter().find(|work| work.problem == problem).map_or(1.0, |work| work.weight)
}

fn summary(header: &StudyHeader, history: &History) -> StudySummary {
    StudySummary {
        name: header.study.clone(),
        space: header.space.clone(),
        space_hash: header.space_hash.clone(),
        valid: header.valid.clone(),
        seed: header.seed,
        strategy: header.strategy.clone(),
        evaluations: history.evaluations.iter().filter(|one| one.is_counted()).count() as u64,
        verdicts: verdict_mix(&history.evaluations),
        verdict_version: header.verdict_version,
        throughput: history.ends.last().map(|end| end.throughput).unwrap_or_default(),
        evo: header.evo.clone(),
    }
}

/// How often each verdict was given.
pub fn verdict_mix(evaluations: &[Evaluation]) -> BTreeMap<String, u64> {
    let mut mix = BTreeMap::new();
    for evaluation in evaluations {
        *mix.entry(evaluation.verdict.kind.to_string()).or_default() += 1;
    }
    mix
}

fn entry(header: &StudyHeader, confirmation: &Confirmation, base_ns: f64) -> RankedEntry {
    let evaluation = &confirmation.evaluation;
    let speed = speedup(&confirmation.pairs, &confirmation.work);
    let mut gates: BTreeMap<String, GateState> = Gate::ALL
        .iter()
        .map(|gate| {
            let state = evaluation.gate(*gate).map_or(GateState::NotRun, |report| report.state);
            (gate.as_str().to_string(), state)
        })
        .collect();
    let decision = decide(&confirmation.pairs);
    // Replaces `not_run`: an evaluation knows nothing of the comparison that came after it.
    gates.insert(Gate::Confirmation.as_str().to_string(), confirmation_state(decision));
    RankedEntry {
        rank: 0,
        number: confirmation.number,
        configuration: evaluation.configuration.clone(),
        configuration_hash: evaluation.configuration_hash.clone(),
        // From the ratio: the entry's own time was measured at another moment than the baseline's.
        objective_ns: speed.map_or(base_ns, |(speed, _, _)| base_ns / speed),
        measured_ns: evaluation.objective_ns,
        screened_ns: confirmation.screened_ns,
        speedup: speed.map(|(value, _, _)| value),
        speedup_low: speed.map(|(_, low, _)| low),
        speedup_high: speed.map(|(_, _, high)| high),
        decision,
        tie_with_champion: false,
        results: confirmation.work.iter().map(|work| result(header, evaluation, work)).collect(),
        pairs: confirmation.pairs.clone(),
        resources: evaluation.resources.clone(),
        attributes: confirmation.attributes.clone(),
        toolchain: confirmation.toolchain.clone(),
        source_hash: evaluation.source_hash.clone(),
        binary_hash: evaluation.binary_hash.clone(),
        code_hash: evaluation.code_hash.clone(),
        gates,
        repro: repro(header, &evaluation.configuration),
    }
}

/// The command that evaluates a configuration again.
pub fn repro(header: &StudyHeader, configuration: &Configuration) -> String {
    let word = |(name, value)| quote(&format!("{name}={value}")).into_owned();
    let words: Vec<String> = configuration.iter().map(word).collect();
    format!(
        "evo test-one {} {} --device {} --seed {}",
        quote(&header.space),
        words.join(" "),
        header.device.kind.as_str(),
        header.seed
    )
}

/// Weighted geometric mean over problems of baseline/finalist, with the mean of the intervals' ends.
pub fn speedup(pairs: &[PairedProblem], work: &[ProblemWork]) -> Option<(f64, f64, f64)> {
    if pairs.is_empty() {
        return None;
    }
    let weight = |pair: &PairedProblem| weight_of(work, &pair.problem);
    let total: f64 = pairs.iter().map(weight).sum();
    let mean = |of: fn(&PairedProblem) -> f64| {
        (pairs.iter().map(|pair| -of(pair).ln() * weight(pair)).sum::<f64>() / total).exp()
    };
    // Ratios are finalist over baseline. Inverting them into speedups also swaps the ends of the interval.
    Some((mean(|pair| pair.ratio), mean(|pair| pair.ratio_high), mean(|pair| pair.ratio_low)))
}

/// The confirmation gate: a claim that the paired comparison contradicts, or leaves open, is not confirmed.
fn confirmation_state(decision: Option<PairedDecision>) -> GateState {
    match decision {
        None => GateState::NotRun,
        Some(PairedDecision::Faster | PairedDecision::Same) => GateState::Pass,
        Some(PairedDecision::Slower | PairedDecision::Ambiguous) => GateState::Fail,
    }
}

/// One word for all problems: agreement keeps it, contradiction is ambiguous, ties give way.
fn decide(pairs: &[PairedProblem]) -> Option<PairedDecision> {
    let said = |decision| pairs.iter().any(|pair| pair.decision == decision);
    match (
        pairs.is_empty(),
        said(PairedDecision::Faster),
        said(PairedDecision::Slower),
        said(PairedDecision::Ambiguous),
    ) {
        (true, ..) => None,
        (_, true, true, _) => Some(PairedDecision::Ambiguous),
        (_, true, false, false) => Some(PairedDecision::Faster),
        (_, false, true, false) => Some(PairedDecision::Slower),
        (_, _, _, true) => Some(PairedDecision::Ambiguous),
        _ => Some(PairedDecision::Same),
    }
}

fn result(header: &StudyHeader, evaluation: &Evaluation, work: &ProblemWork) -> ProblemResult {
    let measurements = evaluation.measurements.iter().filter(|one| one.problem == work.problem);
    let modes: BTreeMap<String, ModeResult> = measurements
        .map(|one| {
            let mode = ModeResult {
                p50_ns: one.p50_ns,
                p90_ns: one.p90_ns,
                ci_low_ns: one.ci_low_ns,
                ci_high_ns: one.ci_high_ns,
                samples: one.samples,
                batch: one.batch,
                outliers: one.outliers,
                dropped: one.dropped,
                telemetry: one.telemetry.clone(),
            };
            (one.mode.as_str().to_string(), mode)
        })
        .collect();
    let time_ns = modes.get(header.ranking.as_str()).map(|mode| mode.p50_ns).filter(|time| *time > 0.0);
    let first = work.launches.first();
    ProblemResult {
        problem: work.problem.clone(),
        sizes: work.sizes.clone(),
        weight: work.weight,
        tflops: work.flops.zip(time_ns).map(|(flops, time)| flops / time / 1e3),
        gigabytes_per_second: work.bytes.zip(time_ns).map(|(bytes, time)| bytes / time),
        roofline_share: roofline_ns(&header.device, work).zip(time_ns).map(|(least, time)| least / time),
        modes,
        blocks: first.map(|launch| launch.blocks),
        threads_per_block: first.map(|launch| launch.threads),
        shared_bytes: first.map(|launch| launch.shared_bytes),
    }
}

/// The least time that the device's peaks allow for one call, nanoseconds, if anything is known.
fn roofline_ns(device: &DeviceInfo, work: &ProblemWork) -> Option<f64> {
    let peak = if work.half { device.flops_f16.or(device.flops_f32) } else { device.flops_f32 };
    let compute = work.flops.zip(peak).map(|(flops, peak)| flops / peak * 1e9);
    let memory = work.bytes.zip(device.bandwidth).map(|(bytes, rate)| bytes / rate * 1e9);
    match (compute, memory) {
        // Arithmetic and memory traffic overlap at best, so the slower of them is the bound.
        (Some(compute), Some(memory)) => Some(compute.max(memory)),
        (one, other) => one.or(other),
    }
}
