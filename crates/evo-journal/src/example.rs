//! A header and an evaluation for tests of the crates that read them. A feature would hide them, and would have
//! everything above this crate built twice, with it and without.

use evo_protocol::device::{DeviceInfo, DeviceKind, DeviceLimits};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::Environment;
use evo_protocol::measurement::RankingMode;
use evo_protocol::verdict::{Gate, GateReport, VERDICT_VERSION, Verdict};
use evo_space::genome::{Configuration, ContentHash};

use crate::record::{FORMAT, StudyHeader};

pub fn header() -> StudyHeader {
    StudyHeader {
        format: FORMAT,
        verdict_version: VERDICT_VERSION,
        evo: "0".into(),
        study: String::new(),
        kernel: "fake".into(),
        space: "fake.toml".into(),
        space_hash: ContentHash::of(b"space"),
        inputs: Vec::new(),
        conditions: None,
        definition: None,
        valid: "1".into(),
        problems: vec!["p".into()],
        checked: Vec::new(),
        seed: 1,
        strategy: "exhaustive".into(),
        budget: None,
        generations: None,
        population: 4,
        ranking: RankingMode::Hot,
        allow_trade: false,
        per_problem: false,
        demands_sanitizer: false,
        warnings: Vec::new(),
        device: DeviceInfo {
            kind: DeviceKind::Host,
            name: "fake".into(),
            arch: "host".into(),
            uuid: "0".into(),
            driver: "0".into(),
            multiprocessors: 1,
            limits: DeviceLimits::of_arch("sm_90a").unwrap(),
            l2_bytes: 0,
            memory_bytes: 0,
            bandwidth: None,
            flops_f32: None,
            flops_f16: None,
        },
        environment: Environment::default(),
        started_at: "2026-01-01T00:00:00Z".into(),
        at_ms: None,
    }
}

pub fn evaluation(number: u64, configuration: Configuration, origin: &str, verdict: Verdict) -> Evaluation {
    let gates = Gate::ALL.iter().map(|gate| GateReport::not_run(*gate, "not reached")).collect();
    Evaluation { gates, ..Evaluation::new(number, configuration, origin, verdict) }
}
