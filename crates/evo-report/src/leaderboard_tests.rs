//! The leaderboard: schema, merging, ranking, and the table made of it.

mod closing;
mod portfolio;

use evo_protocol::binary::EntryResources;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{Leaderboard, LeaderboardSection, PairedDecision, PairedProblem, Throughput};
use evo_protocol::measurement::{Measurement, TimingMode};
use evo_protocol::verdict::{Gate, GateReport, GateState, VERDICT_VERSION, Verdict};
use evo_space::genome::{Configuration, ContentHash};
use serde_json::json;

use evo_journal::example as fake;
use evo_journal::leaderboard::{Succession, merge, section, sections};
use evo_journal::leaderboard_file;
use evo_journal::own_folder::OwnFolder;
use evo_journal::record::{Confirmation, JournalRecord, ProblemWork, RepeatedComparison};
use evo_journal::replay::History;

fn measurement(mode: TimingMode, time: f64) -> Measurement {
    let measurement = json!({"problem": "square", "mode": mode, "samples": 20, "batch": 4, "p10_ns": time * 0.98,
        "p50_ns": time, "p90_ns": time * 1.05, "min_ns": time * 0.97, "mad_ns": time * 0.01,
        "ci_low_ns": time * 0.99, "ci_high_ns": time * 1.01, "outliers": 1, "dropped": 0, "stop": "interval"});
    serde_json::from_value(measurement).unwrap()
}

fn evaluation(number: u64, time: f64) -> Evaluation {
    let pair = |name: &str, value: i64| (name.into(), value.into());
    let configuration = Configuration::new(vec![pair("BLOCK_M", 16 << number), pair("VEC", 4)]);
    let report = |gate: &Gate| GateReport { state: GateState::Pass, ..GateReport::not_run(*gate, "") };
    let origin = if number == 0 { "default" } else { "random" };
    Evaluation {
        gates: Gate::ALL[..8].iter().map(report).collect(),
        measurements: vec![measurement(TimingMode::Hot, time), measurement(TimingMode::Cold, time * 1.5)],
        objective_ns: Some(time),
        resources: vec![EntryResources {
            entry: "gemm".into(),
            registers: Some(64),
            spill_store_bytes: Some(0),
            spill_load_bytes: Some(0),
            ..EntryResources::default()
        }],
        ..fake::evaluation(number, configuration, origin, Verdict::pass())
    }
}

fn confirmation(number: u64, time: f64, baseline: f64) -> Confirmation {
    let ratio = time / baseline;
    let pair = json!({"problem": "square", "ratio": ratio, "ratio_low": ratio * 0.99, "ratio_high": ratio * 1.01,
        "processes": 3, "pairs": 36, "decision": if ratio < 0.98 { "faster" } else { "same" },
        "baseline_ns": baseline, "finalist_ns": time});
    let work = json!({"problem": "square", "sizes": {"N": 256}, "weight": 1.0, "flops": 3.3e7, "bytes": 7.8e5,
        "half": false, "launches": [{"entry": "gemm", "blocks": 64, "threads": 128, "shared_bytes": 4096}]});
    let pairs = if number == 0 { Vec::new() } else { vec![pair] };
    let confirmation = json!({"number": number, "baseline": 0, "evaluation": evaluation(number, time),
        "pairs": pairs, "work": [work], "attributes": [], "toolchain": "nvrtc 13.0", "noise_floor": 0.01,
        "screened_ns": time * 0.97, "at": "2026-01-01T00:00:00Z"});
    serde_json::from_value(confirmation).unwrap()
}

/// Three confirmed configurations; the second is fastest, the third ties with it.
fn history() -> History {
    let mut header = fake::header();
    header.study = "gemm-host".into();
    header.verdict_version = VERDICT_VERSION + 1;
    header.kernel = "gemm".into();
    header.space = "gemm".into();
    header.problems = vec!["square".into()];
    header.device.flops_f32 = Some(1e12);
    header.device.bandwidth = Some(5e10);
    let mut history = History::default();
    history.header = Some(header);
    set_times(&mut history, &[200_000.0, 100_000.0, 100_500.0]);
    history
}

/// As many variants as times, all of them confirmed; the first is the baseline.
fn set_times(history: &mut History, times: &[f64]) {
    let numbered = || (0u64..).zip(times.iter().copied());
    history.evaluations = numbered().map(|(number, time)| evaluation(number, time)).collect();
    history.confirmations = numbered().map(|(number, time)| confirmation(number, time, times[0])).collect();
}

fn text(section: &LeaderboardSection, width: usize) -> String {
    let mut board = Leaderboard::empty(String::new());
    board.sections.push(section.clone());
    crate::text::board(&board, width)
}

fn example() -> LeaderboardSection {
    section(&history()).expect("confirmed finalists make a section")
}

#[test]
fn the_fastest_is_champion_and_ties_are_called_ties() {
    let section = example();
    assert_eq!((section.champion.number, section.champion.rank), (1, 1));
    assert!((section.champion.speedup.unwrap() - 2.0).abs() < 1e-9);
    let ties: Vec<bool> = section.runners_up.iter().map(|entry| entry.tie_with_champion).collect();
    assert_eq!(ties, [true, false]);
    let result = &section.champion.results[0];
    // 3.3e7 operations in 100 µs; at a peak of 1e12 they need 33 µs.
    assert!((result.tflops.unwrap() - 0.33).abs() < 1e-9);
    assert!((result.roofline_share.unwrap() - 0.33).abs() < 1e-9);
    assert_eq!(section.champion.gates["confirmation"], GateState::Pass);
    assert_eq!(section.study.verdict_version, VERDICT_VERSION + 1);
}

/// A study whose finalists took these times; the first is the default.
fn study(name: &str, times: &[f64]) -> LeaderboardSection {
    section(&past(name, times)).expect("confirmed finalists make a section")
}

fn past(name: &str, times: &[f64]) -> History {
    let mut past = history();
    past.header.as_mut().unwrap().study = name.into();
    set_times(&mut past, times);
    past
}

#[test]
fn a_row_shows_one_measurement_and_its_ratio_beside_it() {
    let mut history = history();
    // The machine was twice as slow when the pairs were timed; the ratio is the same.
    for pair in history.confirmations.iter_mut().flat_map(|one| &mut one.pairs) {
        pair.baseline_ns *= 2.0;
        pair.finalist_ns *= 2.0;
    }
    let section = section(&history).unwrap();
    for entry in section.entries() {
        let result = &entry.results[0];
        assert_eq!(entry.objective_ns, result.modes["hot"].p50_ns);
        assert_eq!(result.gigabytes_per_second, Some(7.8e5 / entry.objective_ns));
    }
    assert!((section.champion.speedup.unwrap() - 2.0).abs() < 1e-9);
}

#[test]
fn a_tie_takes_the_baselines_interval_into_account() {
    // 1 % faster than a baseline whose own time is known to 3 %.
    let mut past = past("s", &[200_000.0, 194_000.0]);
    let pair = &mut past.confirmations[1].pairs[0];
    (pair.ratio_low, pair.ratio_high) = (0.969, 0.971);
    let tie = |past: &History| section(past).unwrap().runners_up[0].tie_with_champion;
    past.confirmations[0].evaluation.measurements[0].ci_low_ns = 199_000.0;
    past.confirmations[0].evaluation.measurements[0].ci_high_ns = 201_000.0;
    assert!(!tie(&past));
    past.confirmations[0].evaluation.measurements[0].ci_low_ns = 194_000.0;
    assert!(tie(&past));
}

/// A history of two problems in which finalist 1 is far faster on one and this much slower on the other.
fn trading(ratio: f64, low: f64) -> History {
    let mut history = past("s", &[200_000.0, 100_000.0, 150_000.0]);
    for one in &mut history.confirmations {
        let small = ProblemWork { problem: "small".into(), ..one.work[0].clone() };
        one.work.push(small);
        if let Some(pair) = one.pairs.first().cloned() {
            let (ratio, low) = if one.number == 1 { (ratio, low) } else { (0.9, 0.89) };
            let pair = PairedProblem { problem: "small".into(), ratio, ratio_low: low, ..pair };
            one.pairs.push(PairedProblem { ratio_high: ratio * 1.01, ..pair });
        }
    }
    history
}

#[test]
fn who_trades_a_problem_is_not_first_by_the_mean() {
    // In the second, the interval does not exclude 2 %.
    for (low, allow_trade, champion) in [(1.03, false, 2), (1.01, false, 1), (1.03, true, 1)] {
        let mut history = trading(1.041, low);
        history.header.as_mut().unwrap().allow_trade = allow_trade;
        let section = section(&history).unwrap();
        assert_eq!(section.champion.number, champion, "{low} {allow_trade}");
        let text = text(&section, 100);
        assert!(low == 1.01 || text.contains("slower on `small` by 4.1 %"), "{text}");
    }
}

#[test]
fn a_champion_falls_only_to_a_faster_one() {
    let mut board = Leaderboard::empty("2026-01-01T00:00:00Z".into());
    assert_eq!(merge(&mut board, study("long", &[200.0, 110.0, 100.0])), Succession::Taken);
    let long = board.sections[0].clone();
    let kept = Succession::Kept(Box::new(long.clone()));
    // Shorter studies: only the default, a slower variant, a tie, the champion again on a slow day.
    for times in [&[200.0][..], &[200.0, 150.0], &[200.0, 99.5], &[300.0, 310.0, 160.0]] {
        assert_eq!(merge(&mut board, study("short", times)), kept, "{times:?}");
        assert_eq!(board.sections, std::slice::from_ref(&long), "{times:?}");
    }
    assert_eq!(merge(&mut board, study("better", &[210.0, 84.0, 105.0])), Succession::Taken);
    let held = &board.sections[0];
    assert_eq!((held.study.name.as_str(), held.champion.number, held.history.len()), ("better", 1, 2));
    assert_eq!(held.history[0].study, "long");
    // Both were measured by `better`.
    assert!((held.history[1].ratio_to_previous.unwrap() - 0.8).abs() < 1e-9);
    // More of the study that holds the section is its new state, without a change of the champion.
    merge(&mut board, study("better", &[210.0, 84.0, 105.0, 90.0]));
    assert_eq!((board.sections[0].runners_up.len(), board.sections[0].history.len()), (3, 2));
    let text = crate::text::board(&board, 100);
    let line = "champions: 2.00× by `long` (2026-01-01), then 2.50× by `better` (2026-01-01, 1.25× the";
    assert!(text.contains(line), "{text}");
}

#[test]
fn another_space_of_the_same_name_is_another_section() {
    let mut board = Leaderboard::empty("2026-01-01T00:00:00Z".into());
    merge(&mut board, study("a", &[200.0, 100.0]));
    let mut other = past("b", &[200.0, 150.0]);
    other.header.as_mut().unwrap().space_hash = ContentHash::of(b"another");
    assert_eq!(merge(&mut board, section(&other).unwrap()), Succession::Taken);
    assert_eq!(board.sections.len(), 2);
    let text = crate::text::board(&board, 100);
    for section in &board.sections {
        assert!(text.contains(&format!("· space {}", section.space_hash.short())), "{text}");
    }
}

#[test]
fn a_history_is_bounded() {
    let mut board = Leaderboard::empty("2026-01-01T00:00:00Z".into());
    for step in 0..60 {
        let time = 5e5 / 1.1f64.powi(step);
        // Two variants take turns: a variant does not follow itself.
        let times = if step % 2 == 0 { vec![1e6, time] } else { vec![1e6, 1.2e6, time] };
        assert_eq!(merge(&mut board, study(&format!("s{step}"), &times)), Succession::Taken, "{step}");
    }
    let history = &board.sections[0].history;
    assert_eq!((history.len(), history[0].study.as_str(), history[49].study.as_str()), (50, "s10", "s59"));
}

#[test]
fn rebuilding_gives_what_the_runs_wrote_step_by_step() {
    let end = |at: &str| -> JournalRecord {
        let end = json!({"at": at, "reason": "space_exhausted", "evaluations": 1, "evaluations_this_run": 1,
            "passed_over": 0, "throughput": Throughput::default()});
        JournalRecord::End(Box::new(serde_json::from_value(end).unwrap()))
    };
    let header = || JournalRecord::Study(Box::new(history().header.unwrap()));
    let all = past("s", &[200.0, 150.0, 100.0]);
    let mut records = vec![header()];
    records.extend(all.evaluations.iter().map(|one| JournalRecord::Evaluation(Box::new(one.clone()))));
    let confirmed = |number: usize| JournalRecord::Confirmation(Box::new(all.confirmations[number].clone()));
    records.extend([confirmed(0), confirmed(1), end("2026-01-01T00:00:00Z")]);
    // A run that confirms nothing, one that dies, and one that finds more.
    records.extend([header(), end("2026-01-02T00:00:00Z"), header(), confirmed(2), header(), confirmed(2)]);
    records.push(end("2026-01-03T00:00:00Z"));
    let written = sections(&records);
    let told: Vec<(&str, u64)> =
        written.iter().map(|(at, section)| (at.as_str(), section.champion.number)).collect();
    assert_eq!(told, [("2026-01-01T00:00:00Z", 1), ("2026-01-03T00:00:00Z", 2)]);
    let mut board = Leaderboard::empty("2026-01-01T00:00:00Z".into());
    for (_, section) in written {
        merge(&mut board, section);
    }
    let history: Vec<u64> = board.sections[0].history.iter().map(|one| one.number).collect();
    assert_eq!(history, [1, 2]);
}

#[test]
fn what_failed_at_full_depth_does_not_enter() {
    let mut history = history();
    history.confirmations[1].evaluation.gates.pop();
    // Nor does what was never compared.
    let mut uncompared = confirmation(1, 1.0, 200_000.0);
    uncompared.pairs.clear();
    history.confirmations.push(uncompared);
    assert_eq!(section(&history).unwrap().champion.number, 2);
    history.confirmations.clear();
    assert!(section(&history).is_none());
}

/// What was decided of every variant that was compared.
fn set_decisions(history: &mut History, decision: PairedDecision) {
    history.confirmations.iter_mut().flat_map(|one| &mut one.pairs).for_each(|pair| pair.decision = decision);
}

/// The champion's comparison on a second card, which saw so much of the win.
fn set_repeated(history: &mut History, decision: PairedDecision) {
    let champion = &mut history.confirmations[1];
    let mut pairs = champion.pairs.clone();
    pairs.iter_mut().for_each(|pair| pair.decision = decision);
    champion.repeated = Some(RepeatedComparison { lane: 1, device_uuid: "GPU-2".into(), pairs });
}

/// What is different in a history.
type Change<'a> = &'a dyn Fn(&mut History);

/// Every remark appears in its own board, and in none of the others.
#[test]
fn remarks_stand_in_the_row_or_below_the_table() {
    let noisy = |history: &mut History| {
        history.confirmations[1].evaluation.measurements[0].p90_ns = 200_001.0;
    };
    let warned = |history: &mut History| {
        history.header.as_mut().unwrap().warnings = vec!["`M`, `N` are equal in every problem".into()];
    };
    // A kernel without small shapes ranks; a gate that merely did not run keeps a variant off the board.
    let without_tails = |history: &mut History| {
        let tiny = Gate::ALL.iter().position(|gate| *gate == Gate::TinyShapes).unwrap();
        for confirmation in &mut history.confirmations {
            let report = &mut confirmation.evaluation.gates[tiny];
            *report = GateReport::not_run(Gate::TinyShapes, "no shape can be derived; tails not checked");
            if confirmation.number != 2 {
                report.evidence.insert(GateReport::TAILS, GateReport::NOT_CHECKED);
            }
        }
        let section = section(history).unwrap();
        assert_eq!((section.champion.number, section.runners_up.len()), (1, 1));
        assert_eq!(section.champion.gates["tiny_shapes"], GateState::NotRun);
    };
    let ambiguous = |history: &mut History| {
        let pair = &mut history.confirmations[2].pairs[0];
        (pair.ratio, pair.ratio_low, pair.ratio_high) = (0.97, 0.95, 0.99);
        pair.decision = PairedDecision::Ambiguous;
    };
    let called_like_a_column = |history: &mut History| {
        for Confirmation { number, evaluation, .. } in &mut history.confirmations {
            evaluation.configuration = Configuration::new(vec![("time".into(), (*number as i64).into())]);
        }
    };
    let rows: [(&str, Change<'_>); 8] = [
        ("none", &|_| ()),
        ("a tenth of the samples is slow", &noisy),
        ("a warning of the study", &warned),
        ("a second card does not see the win", &|history| set_repeated(history, PairedDecision::Same)),
        ("a second card sees the win", &|history| set_repeated(history, PairedDecision::Faster)),
        ("no small shapes", &without_tails),
        ("ambiguous", &ambiguous),
        ("a parameter called like a column", &called_like_a_column),
    ];
    let boards = rows.map(|(name, change)| {
        let mut history = history();
        change(&mut history);
        format!("=== {name}\n{}", text(&section(&history).unwrap(), 100))
    });
    insta::assert_snapshot!(boards.concat());
}

/// The example as a kernel with many parameters has it; two of them differ between the entries.
fn wide() -> History {
    let mut history = history();
    let fixed = [("NUM_WARPS", 4), ("BLOCK_N", 128), ("BLOCK_K", 32), ("STAGES", 3), ("SPLIT_K", 1)];
    let confirmed = history.confirmations.iter_mut().map(|confirmation| &mut confirmation.evaluation);
    for evaluation in history.evaluations.iter_mut().chain(confirmed) {
        let pairs = evaluation.configuration.iter().map(|(name, value)| (name.into(), value.clone()));
        let fixed = fixed.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let more = [("swizzle".into(), "xor".into()), ("UNROLL".into(), (1 << evaluation.number).into())];
        evaluation.configuration = Configuration::new(pairs.chain(fixed).chain(more).collect());
    }
    history
}

#[test]
fn the_table_fits_the_terminal() {
    let at = |width| text(&section(&wide()).unwrap(), width);
    insta::assert_snapshot!(at(60));
    for width in [60, 80, 100, 160] {
        let text = at(width);
        let mut lines = text.lines().filter(|line| !line.starts_with("again: "));
        assert!(lines.all(|line| line.chars().count() <= width), "{width}\n{text}");
    }
}

#[test]
fn what_the_pairs_contradict_or_leave_open_is_not_confirmed() {
    use PairedDecision::{Ambiguous, Faster, Same, Slower};
    for (decision, expected) in [
        (Faster, GateState::Pass),
        (Same, GateState::Pass),
        (Slower, GateState::Fail),
        (Ambiguous, GateState::Fail),
    ] {
        let mut history = history();
        set_decisions(&mut history, decision);
        let champion = section(&history).unwrap().champion;
        assert_eq!(champion.gates["confirmation"], expected, "{decision:?}");
    }
}

#[test]
fn sections_of_others_stay_and_an_unreadable_file_is_put_aside() {
    let root = tempfile::tempdir().unwrap();
    let folder = OwnFolder::open(root.path()).unwrap();
    let write = |section| leaderboard_file::merge(&folder, vec![section], "2026-01-01T00:00:00Z").unwrap();
    let mut other = example();
    other.kernel = "softmax".into();
    write(other);
    write(example());
    write(example());
    let kernels = |folder: &OwnFolder| {
        let board = leaderboard_file::load(folder).unwrap().unwrap().unwrap();
        board.sections.iter().map(|section| section.kernel.clone()).collect::<Vec<_>>()
    };
    assert_eq!(kernels(&folder), ["gemm", "softmax"]);
    std::fs::write(folder.place("leaderboard.json"), "{ broken").unwrap();
    let aside = write(example()).put_aside.expect("put aside");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "{ broken");
    assert_eq!(kernels(&folder), ["gemm"]);
}

#[test]
fn a_pace_has_the_unit_in_which_it_is_something() {
    let paces = [12.34, 0.06, 0.0005, 0.0].map(|pace| crate::text::rate(pace, " evaluations"));
    assert_eq!(paces, ["12.3 evaluations/s", "3.6 evaluations/min", "1.8 evaluations/h", "0 evaluations/s"]);
}
