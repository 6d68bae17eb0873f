//! Portfolios of boards with a few entries, and what is said of them.

use evo_journal::portfolio::portfolio;
use evo_protocol::leaderboard::{LeaderboardSection, RankedEntry};
use evo_space::genome::Configuration;
use serde_json::{Value, json};

const SIZES: [(&str, i64); 3] = [("small", 64), ("middle", 1024), ("large", 65_536)];

fn entry(rank: u32, number: u64, ratios: [f64; 3]) -> RankedEntry {
    let pair = |((problem, _), ratio): (&(&str, i64), f64)| {
        json!({"problem": problem, "ratio": ratio, "ratio_low": ratio, "ratio_high": ratio, "processes": 3,
            "pairs": 36, "decision": "faster", "baseline_ns": 100.0, "finalist_ns": 100.0 * ratio})
    };
    let result = |(problem, size): &(&str, i64)| {
        json!({"problem": problem, "sizes": {"N": size}, "weight": 1.0, "modes": {}, "tflops": null,
            "gigabytes_per_second": null, "roofline_share": null, "blocks": null, "threads_per_block": null,
            "shared_bytes": null})
    };
    let pairs: Vec<Value> =
        if number == 0 { Vec::new() } else { SIZES.iter().zip(ratios).map(pair).collect() };
    RankedEntry {
        rank,
        number,
        configuration: Configuration::new(vec![("BLOCK".into(), (32 << number).into())]),
        results: serde_json::from_value(SIZES.iter().map(result).collect()).unwrap(),
        pairs: serde_json::from_value(pairs.into()).unwrap(),
        ..super::example().champion
    }
}

/// The third is fastest on the smallest problem alone, the second on the others.
fn entries() -> Vec<RankedEntry> {
    vec![
        entry(1, 2, [0.9, 0.5, 0.4]),
        entry(2, 3, [0.6, 0.7, 0.9]),
        entry(3, 1, [0.89, 0.51, 0.415]),
        entry(4, 0, [1.0, 1.0, 1.0]),
    ]
}

#[test]
fn each_problem_has_its_champion_and_the_sets_are_smallest() {
    let mut own = portfolio(&entries(), 0, 0.02).unwrap();
    // Its last digits are those of the machine's mathematics library.
    let mean = std::mem::take(&mut own.sets[0].speedup_over_champion);
    assert!((mean - 1.5f64.powf(1.0 / 3.0)).abs() < 1e-12);
    assert_eq!(std::mem::take(&mut own.sets[1].speedup_over_champion), mean);
    insta::assert_snapshot!(serde_json::to_string_pretty(&own).unwrap());
}

#[test]
fn a_lead_within_the_noise_is_the_champions_and_one_may_do_for_all() {
    // On the smallest problem, #3 leads by 1 % there.
    let close = vec![entry(1, 2, [0.6, 0.5, 0.4]), entry(2, 3, [0.594, 0.7, 0.9]), entry(3, 0, [1.0; 3])];
    let own = portfolio(&close, 0, 0.02).unwrap();
    assert!(own.best.iter().all(|one| one.number == 2));
    assert_eq!(own.sets[0].members.len(), 1);
    assert_eq!(own.sets[0].rule.as_ref().unwrap()[0].when, None);
    assert_eq!(portfolio(&close, 0, 0.0).unwrap().best[0].number, 3);
    // The baseline may be the champion, and one that was compared on some problems only has no part.
    let mut partly = vec![entry(1, 0, [1.0; 3]), entry(2, 3, [0.5, 1.2, 1.3])];
    assert_eq!(portfolio(&partly, 0, 0.02).unwrap().best[0].number, 3);
    partly[1].pairs.pop();
    assert!(portfolio(&partly, 0, 0.02).unwrap().best.iter().all(|one| one.number == 0));
    partly.iter_mut().for_each(|entry| entry.results.truncate(1));
    assert!(portfolio(&partly, 0, 0.02).is_none());
}

fn section(entries: &[RankedEntry]) -> LeaderboardSection {
    LeaderboardSection {
        champion: entries[0].clone(),
        runners_up: entries[1..].to_vec(),
        portfolio: portfolio(entries, 0, 0.02),
        ..super::example()
    }
}

#[test]
fn a_person_reads_which_one_to_use_where() {
    let told = |entries: &[RankedEntry]| {
        let text = super::text(&section(entries), 200);
        let lines = text.lines().skip_while(|line| !line.starts_with("fastest"));
        lines.take_while(|line| !line.starts_with("again")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(told(&entries()), @"
    fastest by problem: #2 (256) on `small`, 1.50× as fast as #1; #1 on the other 2
    within 2 % of the fastest everywhere: 2 configurations, 1.14× as fast as #1 in the mean: #2 (256) where N <= 64; else #1 (128)
    within 5 % of the fastest everywhere: 2 configurations, 1.14× as fast as #1 in the mean: #2 (256) where N <= 64; else #1 (128)
    ");
    let alone = [entry(1, 2, [0.6, 0.5, 0.4]), entry(2, 0, [1.0; 3])];
    insta::assert_snapshot!(told(&alone), @"
    fastest by problem: #1 on each, or as fast
    within 2 % of the fastest everywhere: #1 (128) alone
    within 5 % of the fastest everywhere: #1 (128) alone
    ");
}
