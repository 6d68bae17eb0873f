//! A header and an evaluation for tests of the crates that read them. A feature would hide them, and would have
//! everything above this crate built twice, with it and without.

use evo_protocol::device::{DeviceInfo, DeviceLimits};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, GateReport, VERDICT_VERSION, Verdict};
use evo_space::genome::{Configuration, ContentHash};

use crate::record::{FORMAT, StudyHeader};

pub fn header() -> StudyHeader {
    StudyHeader {
        format: FORMAT,
        verdict_version: VERDICT_VERSION,
        evo: "0".into(),
        kernel: "fake".into(),
        space: "fake.toml".into(),
        space_hash: ContentHash::of(b"space"),
        valid: "1".into(),
        problems: vec!["p".into()],
        seed: 1,
        strategy: "exhaustive".into(),
        population: 4,
        device: DeviceInfo {
            name: "fake".into(),
            arch: "host".into(),
            uuid: "0".into(),
            driver: "0".into(),
            multiprocessors: 1,
            limits: DeviceLimits::of_arch("sm_90a").unwrap(),
            ..DeviceInfo::default()
        },
        started_at: "2026-01-01T00:00:00Z".into(),
        ..StudyHeader::default()
    }
}

pub fn evaluation(number: u64, configuration: Configuration, origin: &str, verdict: Verdict) -> Evaluation {
    let gates = Gate::ALL.iter().map(|gate| GateReport::not_run(*gate, "not reached")).collect();
    Evaluation { gates, ..Evaluation::new(number, configuration, origin, verdict) }
}
