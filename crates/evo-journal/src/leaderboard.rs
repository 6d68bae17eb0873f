//! Computes a study's section of the leaderboard from its journal. Only freshly confirmed numbers enter it.

use std::collections::BTreeMap;

use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{
    Baseline, ChampionChange, Leaderboard, LeaderboardSection, ModeResult, PairedDecision, PairedProblem,
    ProblemResult, RankedEntry, RepeatedSpeed, SanitizerNote, StudySummary, TradedProblem,
};
use evo_protocol::measurement::Measurement;
use evo_protocol::verdict::{Gate, GateReport, GateState};
use evo_space::genome::Configuration;
use evo_space::text::quote;

use super::portfolio::portfolio;
use super::reader::Journal;
use super::record::{Confirmation, JournalRecord, ProblemWork, RepeatedComparison, StudyHeader};
use super::replay::History;

const RUNNERS_UP: usize = 10;

/// In order, with the time of each run's end. A run that died or confirmed nothing wrote none.
pub fn sections(records: &[JournalRecord]) -> Vec<(String, LeaderboardSection)> {
    let mut sections = Vec::new();
    let mut confirmed = false;
    for (position, record) in records.iter().enumerate() {
        match record {
            JournalRecord::Study(_) => confirmed = false,
            JournalRecord::Confirmation(one) => confirmed |= one.evaluation.passed_through(Gate::Honesty),
            JournalRecord::End(end) if confirmed => {
                let journal = Journal { records: records[..=position].to_vec(), ..Journal::default() };
                sections.extend(section(&History::replay(journal)).map(|section| (end.at.clone(), section)));
            }
            _ => {}
        }
    }
    sections
}

/// `None` if the study has confirmed nothing that passed, and of a replay: nothing in it was measured.
///
/// What ranks is the paired ratio to the baseline: both are timed in turns in the same processes, so that a busy
/// minute of the machine hits both alike.
pub fn section(history: &History) -> Option<LeaderboardSection> {
    let header = history.header.as_ref().filter(|header| header.device.kind != DeviceKind::Replay)?;
    let newest = history.confirmations.last()?;
    let baseline = history.evaluations.iter().find(|one| one.number == newest.baseline)?;
    // Ratios to different baselines cannot be compared, so only confirmations against the newest baseline
    // count.
    let mut good = confirmed(history, newest.baseline);
    // Fail-closed: a confirmation of a run that did not demand it counts no more than one without an answer.
    let passed = |one: &&Confirmation| {
        let report = one.evaluation.gate(Gate::Sanitize);
        report.is_some_and(|report| report.state == GateState::Pass)
    };
    good.retain(|one| !header.demands_sanitizer || passed(one));
    let own = good.iter().find(|one| one.number == newest.baseline);
    let own = own.map_or(&[][..], |one| &one.evaluation.measurements);
    let baseline_speed = Speed::of_baseline(own.iter().filter(|one| one.mode == header.ranking.timing()));
    let mut entries: Vec<RankedEntry> = good.iter().filter_map(|one| entry(header, one)).collect();
    rank(&mut entries, baseline_speed, newest.noise_floor.unwrap_or(0.0), header.allow_trade);
    let own_portfolio = portfolio(&entries, newest.baseline, newest.noise_floor.unwrap_or(0.0));
    entries.truncate(RUNNERS_UP + 1);
    if entries.is_empty() {
        return None;
    }
    let champion = entries.remove(0);
    Some(LeaderboardSection {
        kernel: header.kernel.clone(),
        space_hash: header.space_hash.clone(),
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
        history: Vec::new(),
        portfolio: own_portfolio,
        warnings: header.warnings.clone(),
        study: StudySummary {
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
        },
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

pub fn verdict_mix(evaluations: &[Evaluation]) -> BTreeMap<String, u64> {
    let mut mix = BTreeMap::new();
    for evaluation in evaluations {
        *mix.entry(evaluation.verdict.kind.to_string()).or_default() += 1;
    }
    mix
}

fn entry(header: &StudyHeader, confirmation: &Confirmation) -> Option<RankedEntry> {
    let evaluation = &confirmation.evaluation;
    let objective_ns = evaluation.objective_ns?;
    let mut ranking = evaluation.measurements.iter().filter(|one| one.mode == header.ranking.timing());
    let speed = speedup(&confirmation.pairs, &confirmation.work);
    let mut gates: BTreeMap<String, GateState> = Gate::ALL
        .iter()
        .map(|gate| {
            let state = evaluation.gate(*gate).map_or(GateState::NotRun, |report| report.state);
            (gate.as_str().to_string(), state)
        })
        .collect();
    let decision = decide(&confirmation.pairs);
    // A claim that the paired comparison contradicts, or leaves open, is not confirmed. Replaces `not_run`: an evaluation
    // knows nothing of the comparison that came after it.
    let confirmed = match decision {
        None => GateState::NotRun,
        Some(PairedDecision::Faster | PairedDecision::Same) => GateState::Pass,
        Some(PairedDecision::Slower | PairedDecision::Ambiguous) => GateState::Fail,
    };
    gates.insert(Gate::Confirmation.as_str().to_string(), confirmed);
    Some(RankedEntry {
        rank: 0,
        number: confirmation.number,
        configuration: evaluation.configuration.clone(),
        configuration_hash: evaluation.configuration_hash.clone(),
        // From the ratio: the entry's own time was measured at another moment than the baseline's.
        objective_ns,
        screened_ns: confirmation.screened_ns,
        speedup: speed.map(|(value, _, _)| value),
        speedup_low: speed.map(|(_, low, _)| low),
        speedup_high: speed.map(|(_, _, high)| high),
        decision,
        tie_with_champion: false,
        noisy: is_noisy(&mut ranking),
        traded: traded(&confirmation.pairs),
        results: confirmation.work.iter().map(|work| result(header, evaluation, work)).collect(),
        pairs: confirmation.pairs.clone(),
        resources: evaluation.resources.clone(),
        attributes: confirmation.attributes.clone(),
        toolchain: confirmation.toolchain.clone(),
        source_hash: evaluation.source_hash.clone(),
        binary_hash: evaluation.binary_hash.clone(),
        code_hash: evaluation.code_hash.clone(),
        gates,
        sanitizer: evaluation.gate(Gate::Sanitize).and_then(note),
        repeated: confirmation.repeated.as_ref().map(|own| repeated(own, decision, &confirmation.work)),
        repro: repro(header, &evaluation.configuration),
    })
}

fn repeated(own: &RepeatedComparison, first: Option<PairedDecision>, work: &[ProblemWork]) -> RepeatedSpeed {
    let (speed, decision) = (speedup(&own.pairs, work), decide(&own.pairs));
    let faster = Some(PairedDecision::Faster);
    RepeatedSpeed {
        device_uuid: own.device_uuid.clone(),
        speedup: speed.map(|(value, _, _)| value),
        speedup_low: speed.map(|(_, low, _)| low),
        speedup_high: speed.map(|(_, _, high)| high),
        decision,
        this_card_only: first == faster && decision != faster,
    }
}

fn note(report: &GateReport) -> Option<SanitizerNote> {
    let text = |name: &str| report.evidence.get(name).and_then(|own| own.as_str()).map(String::from);
    let tool = text("tool")?;
    let checks = report.evidence.get("checks").and_then(|own| own.as_array()).into_iter().flatten();
    let named = checks.filter(|own| own["state"] == "pass").filter_map(|own| own["tool"].as_str());
    Some(SanitizerNote {
        state: report.state,
        version: text("version"),
        passed: named.map(String::from).collect(),
        message: report.message.clone(),
        tool,
    })
}

pub fn repro(header: &StudyHeader, configuration: &Configuration) -> String {
    again("test-one", header, configuration)
}

pub fn again(command: &str, header: &StudyHeader, configuration: &Configuration) -> String {
    let word = |(name, value)| quote(&format!("{name}={value}")).into_owned();
    let words: Vec<String> = configuration.iter().map(word).collect();
    format!(
        "evo {command} {} {} --device {} --seed {}",
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
    let weight = |pair: &PairedProblem| {
        work.iter().find(|work| work.problem == pair.problem).map_or(1.0, |work| work.weight)
    };
    let total: f64 = pairs.iter().map(weight).sum();
    let mean = |of: fn(&PairedProblem) -> f64| {
        (pairs.iter().map(|pair| -of(pair).ln() * weight(pair)).sum::<f64>() / total).exp()
    };
    // Ratios are finalist over baseline. Inverting them into speedups also swaps the ends of the interval.
    Some((mean(|pair| pair.ratio), mean(|pair| pair.ratio_high), mean(|pair| pair.ratio_low)))
}

/// One word for all problems: agreement keeps it, contradiction is ambiguous, ties give way.
fn decide(pairs: &[PairedProblem]) -> Option<PairedDecision> {
    use PairedDecision::{Ambiguous, Faster, Same, Slower};
    let said = |decision| pairs.iter().any(|pair| pair.decision == decision);
    let decision = match (said(Faster), said(Slower), said(Ambiguous)) {
        (true, false, false) => Faster,
        (false, true, false) => Slower,
        (false, false, false) => Same,
        _ => Ambiguous,
    };
    (!pairs.is_empty()).then_some(decision)
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

/// The least that the device's peaks allow for one call.
pub fn roofline_ns(device: &DeviceInfo, work: &ProblemWork) -> Option<f64> {
    let peak = if work.half { device.flops_f16.or(device.flops_f32) } else { device.flops_f32 };
    let compute = work.flops.zip(peak).map(|(flops, peak)| flops / peak * 1e9);
    let memory = work.bytes.zip(device.bandwidth).map(|(bytes, rate)| bytes / rate * 1e9);
    match (compute, memory) {
        // Arithmetic and memory traffic overlap at best, so the slower of them is the bound.
        (Some(compute), Some(memory)) => Some(compute.max(memory)),
        (one, other) => one.or(other),
    }
}

/// A variant that is slower than the baseline by more than this share on one problem has traded it.
const TRADE: f64 = 0.02;

/// A p90 beyond this many medians marks an entry as noisy.
pub const NOISY: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Speed {
    /// The baseline is as fast as itself; how well its time is known says `own`, the interval of its own measurement.
    pub fn of(entry: &RankedEntry, own: Speed) -> Speed {
        match (entry.speedup, entry.speedup_low, entry.speedup_high) {
            (Some(value), Some(low), Some(high)) => Speed { value, low, high },
            _ => own,
        }
    }

    pub fn of_baseline<'a>(measurements: impl Iterator<Item = &'a Measurement>) -> Speed {
        let mut own = Speed { value: 1.0, low: 1.0, high: 1.0 };
        for one in measurements.filter(|one| one.p50_ns > 0.0 && one.ci_low_ns > 0.0) {
            own.low = own.low.min(one.p50_ns / one.ci_high_ns);
            own.high = own.high.max(one.p50_ns / one.ci_low_ns);
        }
        own
    }
}

/// Unless trades are allowed, the first that trades no problem becomes champion; all others stay in the order of
/// their speeds.
pub fn rank(entries: &mut Vec<RankedEntry>, baseline: Speed, floor: f64, allow_trade: bool) {
    let value = |entry: &RankedEntry| Speed::of(entry, baseline).value;
    // Ties go to the lower number, so that the same journal always gives the same board.
    entries.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.number.cmp(&b.number)));
    if !allow_trade && let Some(position) = entries.iter().position(|entry| entry.traded.is_empty()) {
        let champion = entries.remove(position);
        entries.insert(0, champion);
    }
    let Some(first) = entries.first().map(|entry| Speed::of(entry, baseline)) else { return };
    for (position, entry) in entries.iter_mut().enumerate() {
        entry.rank = position as u32 + 1;
        let own = Speed::of(entry, baseline);
        // An entry that is faster by its mean ranks behind the champion for what it traded, not by a tie.
        let may_tie = own.value <= first.value && first.low / own.high - 1.0 <= floor;
        entry.tie_with_champion = position > 0 && may_tie;
    }
}

pub fn traded(pairs: &[PairedProblem]) -> Vec<TradedProblem> {
    let slower = pairs.iter().filter(|pair| pair.ratio_low > 1.0 + TRADE);
    slower.map(|pair| TradedProblem { problem: pair.problem.clone(), ratio: pair.ratio }).collect()
}

pub fn is_noisy<'a>(mut measurements: impl Iterator<Item = &'a Measurement>) -> bool {
    measurements.any(|one| one.p90_ns > NOISY * one.p50_ns)
}

const HISTORY: usize = 50;

#[derive(Clone, Debug, PartialEq)]
pub enum Succession {
    /// It is on the board: the first of its key, or with a new champion, or with more of the same study.
    Taken,
    /// The champion of an earlier study stays: its section.
    Kept(Box<LeaderboardSection>),
}

/// A section keeps the best that was ever confirmed: a study takes it over with a champion that is faster beyond the
/// noise, and otherwise leaves it as it is.
pub fn merge(board: &mut Leaderboard, mut section: LeaderboardSection) -> Succession {
    let key = section.key();
    let Some(held) = board.sections.iter_mut().find(|own| own.key() == key) else {
        section.history = vec![change(&section, None)];
        board.sections.push(section);
        board.sections.sort_by_key(LeaderboardSection::key);
        return Succession::Taken;
    };
    let same_variant = is_same(&section.champion, &held.champion);
    let same_study = section.study.name == held.study.name;
    if same_variant && same_study {
        // More evaluations and runners-up of the study that holds the section.
        section.history = std::mem::take(&mut held.history);
        *held = section;
        return Succession::Taken;
    }
    // The champion again says nothing new about who is best; its own first confirmation stays.
    if same_variant || !beats(&section, held) {
        return Succession::Kept(Box::new(held.clone()));
    }
    let ratio = rival(&section, held).map(|rival| speed(rival) / speed(&section.champion));
    let mut history = std::mem::take(&mut held.history);
    history.push(change(&section, ratio));
    history.drain(..history.len().saturating_sub(HISTORY));
    section.history = history;
    *held = section;
    Succession::Taken
}

/// Whether the challenger's champion is faster beyond the noise of both studies.
fn beats(challenger: &LeaderboardSection, held: &LeaderboardSection) -> bool {
    let noise = challenger.noise_floor.unwrap_or(0.0).max(held.noise_floor.unwrap_or(0.0));
    let lead = match rival(challenger, held) {
        // Both were compared with the same baseline in one study: the best evidence there is.
        Some(rival) => speed(&challenger.champion) / speed(rival),
        // Ratios to the same configuration compare across studies; a machine's mood hits both sides of each.
        None if challenger.baseline.configuration == held.baseline.configuration => {
            speed(&challenger.champion) / speed(&held.champion)
        }
        None => held.champion.objective_ns / challenger.champion.objective_ns,
    };
    lead > 1.0 + noise
}

/// The held champion as the challenger's study measured it again, if it did.
fn rival<'a>(challenger: &'a LeaderboardSection, held: &LeaderboardSection) -> Option<&'a RankedEntry> {
    challenger.entries().find(|entry| is_same(entry, &held.champion))
}

fn is_same(one: &RankedEntry, other: &RankedEntry) -> bool {
    one.configuration_hash == other.configuration_hash && one.source_hash == other.source_hash
}

fn speed(entry: &RankedEntry) -> f64 {
    entry.speedup.unwrap_or(1.0)
}

pub fn change(section: &LeaderboardSection, ratio_to_previous: Option<f64>) -> ChampionChange {
    let champion = &section.champion;
    ChampionChange {
        study: section.study.name.clone(),
        at: section.confirmed_at.clone(),
        number: champion.number,
        configuration: champion.configuration.clone(),
        objective_ns: champion.objective_ns,
        speedup: champion.speedup,
        ratio_to_previous,
    }
}
