//! Whether a problem's buffers fit the device's memory: arithmetic, so that a scratch of terabytes costs
//! nothing, and never drives a machine into its swap.

use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use evo_protocol::verdict::{Verdict, VerdictKind};

/// Bytes that the buffers of one problem may take together: the device's memory, or three quarters of the
/// machine's where that is the device.
pub fn cap(info: &DeviceInfo) -> u64 {
    match info.kind {
        DeviceKind::Host => info.memory_bytes / 4 * 3,
        DeviceKind::Cuda | DeviceKind::Replay => info.memory_bytes,
    }
}

/// Refuses a plan whose buffers exceed the cap together (`static_reject` with the cause `memory`).
pub fn check(plan: &ProblemPlan, cap: u64) -> Result<(), Box<Verdict>> {
    let bytes = |buffer: &BufferPlan| buffer.bytes();
    let total = plan.buffers.iter().map(bytes).fold(0, u64::saturating_add);
    let Some(largest) = plan.buffers.iter().max_by_key(|buffer| buffer.bytes()) else { return Ok(()) };
    if total <= cap {
        return Ok(());
    }
    let message = format!(
        "the buffers of problem `{}` need {}, of which `{}` takes {}; the limit here is {}",
        plan.name,
        shown(total),
        largest.name,
        shown(largest.bytes()),
        shown(cap)
    );
    let verdict = Verdict::new(VerdictKind::StaticReject, message).with_cause("memory");
    let verdict = verdict.with("problem", plan.name.clone()).with("argument", largest.name.clone());
    Err(Box::new(verdict.with("bytes", total).with("bytes_limit", cap)))
}

/// Bytes with a decimal unit and three digits: `1.65 TB`.
fn shown(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for larger in ["kB", "MB", "GB", "TB", "PB", "EB"] {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    match value {
        _ if unit == "bytes" => format!("{bytes} bytes"),
        value if value < 10.0 => format!("{value:.2} {unit}"),
        value if value < 100.0 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evo_protocol::dtype::DType;
    use evo_protocol::plan::{Fill, Role};

    use super::*;

    fn plan(elements: &[u64]) -> ProblemPlan {
        let buffer = |(position, elements): (usize, &u64)| BufferPlan {
            name: format!("b{position}"),
            dtype: DType::F32,
            shape: vec![*elements],
            role: Role::Scratch,
            fill: Fill::Unrestricted,
            symbol: None,
            view: None,
        };
        ProblemPlan {
            name: "p".into(),
            sizes: BTreeMap::new(),
            weight: 1.0,
            buffers: elements.iter().enumerate().map(buffer).collect(),
            scalars: Vec::new(),
            tensor_maps: Vec::new(),
            launches: Vec::new(),
            reference_launches: Vec::new(),
            reference_variables: Vec::new(),
            prepare_launches: Vec::new(),
            reference_sizes: Vec::new(),
            reference_parameters: Default::default(),
            literals: Vec::new(),
            flops: None,
            bytes: None,
        }
    }

    #[test]
    fn the_sum_of_all_buffers_counts() {
        assert!(check(&plan(&[100, 100]), 800).is_ok());
        assert!(check(&plan(&[]), 0).is_ok());
        let verdict = check(&plan(&[100, 101]), 800).unwrap_err();
        assert_eq!(verdict.label(), "static_reject:memory");
        let huge = check(&plan(&[10, 411_000_000_000]), 141_000_000_000).unwrap_err();
        assert_eq!(
            huge.message,
            "the buffers of problem `p` need 1.64 TB, of which `b1` takes 1.64 TB; the limit here is 141 GB"
        );
        // Sums beyond 64 bits are too large as well.
        assert!(check(&plan(&[1 << 61, 1 << 61, 1 << 61]), u64::MAX - 1).is_err());
    }

    #[test]
    fn sizes_for_people() {
        let check = |bytes, expected: &str| assert_eq!(shown(bytes), expected);
        check(0, "0 bytes");
        check(999, "999 bytes");
        check(1_500, "1.50 kB");
        check(24_000_000, "24.0 MB");
        check(150_000_000_000, "150 GB");
    }
}
