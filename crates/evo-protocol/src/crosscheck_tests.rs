//! What is made of a harness's line: which times agree, which signs are kept, what is a disagreement.

use super::*;
use crate::device::Telemetry;
use crate::measurement::StopRule;

fn measured(p50_ns: f64) -> Vec<Measurement> {
    let measurement = Measurement {
        problem: "p".to_string(),
        mode: TimingMode::Hot,
        samples: 100,
        batch: 1,
        p10_ns: p50_ns,
        p50_ns,
        p90_ns: p50_ns,
        min_ns: p50_ns,
        mad_ns: 0.0,
        ci_low_ns: p50_ns,
        ci_high_ns: p50_ns,
        outliers: 0,
        dropped: 0,
        stop: StopRule::Interval,
        telemetry: Telemetry::default(),
        raw_ns: Vec::new(),
    };
    vec![measurement]
}

fn line(time_ns: f64) -> CrosscheckLine {
    CrosscheckLine {
        problem: "p".to_string(),
        mode: Some(TimingMode::Hot),
        time_ns: Some(time_ns),
        spread_ratio: Some(0.01),
        correct: Some(true),
        ..CrosscheckLine::default()
    }
}

fn own<'a>(measurements: &'a [Measurement], pair: Option<&'a PairedProblem>) -> OwnFinding<'a> {
    let correct = Some(true);
    OwnFinding { correct, measurements, noise_floor: Some(0.01), against_baseline: pair, against_peer: None }
}

fn pair(ratio: f64, decision: PairedDecision) -> PairedProblem {
    PairedProblem {
        problem: "p".to_string(),
        ratio,
        ratio_low: ratio - 0.01,
        ratio_high: ratio + 0.01,
        processes: 2,
        pairs: 12,
        decision,
        baseline_ns: 100.0,
        finalist_ns: 100.0 * ratio,
        baseline_drift: None,
    }
}

fn agrees(line: &CrosscheckLine) -> Option<bool> {
    CrosscheckRow::judged("torch", line, None, &own(&measured(1000.0), None)).agrees
}

#[test]
fn clocks_agree_within_five_percent_or_the_larger_noise() {
    assert_eq!(agrees(&line(1049.0)), Some(true));
    assert_eq!(agrees(&line(951.0)), Some(true));
    assert_eq!(agrees(&line(1051.0)), Some(false));
    assert_eq!(agrees(&line(949.0)), Some(false));
    assert_eq!(agrees(&CrosscheckLine { spread_ratio: Some(0.2), ..line(1190.0) }), Some(true));
    // What the clock itself adds makes a call longer and never shorter.
    let slow_clock = |time| CrosscheckLine { overhead_ns: Some(500.0), ..line(time) };
    assert_eq!((agrees(&slow_clock(1540.0)), agrees(&slow_clock(940.0))), (Some(true), Some(false)));
    let blind = CrosscheckLine { overhead_ns: Some(1001.0), ..line(1540.0) };
    let row = CrosscheckRow::judged("torch", &blind, None, &own(&measured(1000.0), None));
    assert_eq!((row.agrees, row.is_complete(false)), (None, false));
    let cold = CrosscheckLine { mode: Some(TimingMode::Cold), ..line(1000.0) };
    let row = CrosscheckRow::judged("torch", &cold, None, &own(&measured(1000.0), None));
    assert_eq!((row.agrees, row.evo_ns), (None, None));
    assert_eq!(row.reason.as_deref(), Some("evo has no time of it in the mode `cold`"));
}

#[test]
fn what_no_clock_says_is_not_a_time() {
    let reason = |line: CrosscheckLine| {
        let line = CrosscheckLine { correct: None, ..line };
        let row = CrosscheckRow::judged("torch", &line, None, &own(&measured(1000.0), None));
        assert_eq!((row.time_ns, row.agrees, row.is_complete(false)), (None, None, false));
        row.reason.unwrap()
    };
    assert_eq!(reason(line(-3.0)), "not run: it reported a time of -3 ns");
    assert_eq!(reason(line(f64::NAN)), "not run: it reported a time of NaN ns");
    assert_eq!(reason(CrosscheckLine { mode: None, ..line(1.0) }), "not run: it gave a time without a mode");
    let wide = CrosscheckLine { spread_ratio: Some(0.5), ..line(1.0) };
    assert_eq!(reason(wide), "not run: its samples spread by 50 %");
    let none = CrosscheckLine { time_ns: None, reason: Some("no torch".into()), ..line(1.0) };
    assert_eq!(reason(none), "not run: no torch");
}

#[test]
fn a_disagreement_on_answers_either_way_is_one() {
    let measurements = measured(1000.0);
    let says = |theirs, ours| {
        let line = CrosscheckLine { correct: theirs, ..line(1000.0) };
        let own = OwnFinding { correct: ours, ..own(&measurements, None) };
        CrosscheckRow::judged("torch", &line, None, &own)
    };
    let wrong = says(Some(false), Some(true));
    assert!(wrong.differs_in_answers() && wrong.disagrees());
    assert_eq!(wrong.reason.as_deref(), Some("it says that the answers are wrong, evo right"));
    assert!(says(Some(true), Some(false)).differs_in_answers());
    assert!(!says(Some(false), Some(false)).disagrees());
    assert!(says(Some(true), Some(true)).is_complete(false));
    assert!(!says(None, Some(true)).is_complete(false), "it did not check");
}

#[test]
fn only_opposite_signs_beyond_both_noises_are_lost() {
    let kept = |base: f64, ratio, decision| {
        let pair = pair(ratio, decision);
        let row = CrosscheckRow::judged(
            "torch",
            &line(1000.0),
            Some(&line(base)),
            &own(&measured(1000.0), Some(&pair)),
        );
        (row.faster_than_baseline, row.sign_kept)
    };
    assert_eq!(kept(1200.0, 0.8, PairedDecision::Faster), (Some(true), Some(true)));
    assert_eq!(kept(900.0, 0.8, PairedDecision::Faster), (Some(false), Some(false)));
    assert_eq!(kept(1200.0, 1.2, PairedDecision::Slower), (Some(true), Some(false)));
    // Within the noise of either there is no sign to keep.
    assert_eq!(kept(995.0, 0.8, PairedDecision::Faster), (Some(false), Some(true)));
    assert_eq!(kept(900.0, 0.999, PairedDecision::Same), (Some(false), Some(true)));
    let peer = CrosscheckLine { peer_ns: Some(500.0), ..line(1000.0) };
    let measurements = measured(1000.0);
    let own = OwnFinding { against_peer: Some(0.5), ..own(&measurements, None) };
    let row = CrosscheckRow::judged("torch", &peer, None, &own);
    assert_eq!((row.faster_than_peer, row.sign_kept), (Some(false), Some(false)));
}

#[test]
fn another_kernel_is_a_point_of_reference() {
    let row = CrosscheckRow::reference("cutlass", &line(1300.0), &own(&measured(1000.0), None));
    assert_eq!((row.agrees, row.correct, row.faster_than_peer), (None, None, Some(true)));
    assert!(!row.disagrees() && row.is_complete(true) && !row.is_complete(false));
}

#[test]
fn noise_of_our_own_does_not_make_every_clock_agree() {
    let noisy = Measurement { mad_ns: 900.0, ..measured(1000.0)[0].clone() };
    let says = |time| {
        CrosscheckRow::judged("torch", &line(time), None, &own(std::slice::from_ref(&noisy), None)).agrees
    };
    assert_eq!((says(1240.0), says(1260.0), says(1.0)), (Some(true), Some(false), Some(false)));
}
