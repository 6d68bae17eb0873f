//! A study header for tests of whatever reads journals.

use evo_protocol::device::{DeviceInfo, DeviceKind, DeviceLimits};
use evo_protocol::verdict::VERDICT_VERSION;
use evo_space::genome::ContentHash;

use crate::journal::record::{Environment, FORMAT, StudyHeader};

/// A header for tests.
pub(crate) fn header() -> StudyHeader {
    StudyHeader {
        format: FORMAT,
        verdict_version: VERDICT_VERSION,
        evo: "0".into(),
        study: String::new(),
        kernel: "fake".into(),
        space: "fake.toml".into(),
        space_hash: ContentHash::of(b"space"),
        valid: "1".into(),
        problems: vec!["p".into()],
        checked: Vec::new(),
        seed: 1,
        strategy: "exhaustive".into(),
        population: 4,
        ranking: "hot".into(),
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
    }
}
