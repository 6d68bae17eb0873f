//! Inputs that a kernel uses as workspace and puts back before it ends.
//!
//! Devices that can protect a buffer in place do so in every run; on the others finalists are called once for each
//! input, with a copy of it in its place that cannot be written.

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{BufferPlan, Role};
use evo_protocol::verdict::VerdictKind;

use super::bench::Bench;
use super::element::Poison;

const BYTES_MAX: u64 = 1 << 30;

/// How many calls were made, one for each input that can be shown as one that cannot be written. A fault of such a
/// call is `input_mutated`: the calls before it, on the same contents, had none.
pub(super) fn check(bench: &mut Bench<'_>) -> Result<usize, DeviceError> {
    if !bench.includes(GateCheck::ReadOnlyInputs) || bench.prepared.launches.is_empty() {
        return Ok(0);
    }
    let is_shown = |own: &BufferPlan| {
        own.role == Role::Input && own.symbol.is_none() && (1..=BYTES_MAX).contains(&own.bytes())
    };
    let plan = &bench.prepared.case.plan;
    let mut shown = 0;
    for (own, buffer) in plan.buffers.iter().zip(&bench.prepared.buffers).filter(|(own, _)| is_shown(own)) {
        bench.fill(Poison::A)?;
        if !bench.judge.device.show_read_only(&[*buffer])? {
            break;
        }
        let called = bench.call();
        // Whatever came of it: the next variant's launches use the same buffers.
        let hidden = bench.judge.device.show_read_only(&[]);
        called.map_err(|error| borrowed(error, &own.name))?;
        hidden?;
        shown += 1;
    }
    Ok(shown)
}

fn borrowed(error: DeviceError, name: &str) -> DeviceError {
    if error.kind != VerdictKind::CrashIllegalAddress {
        return error;
    }
    let message = format!(
        "input `{name}` is written to and put back: where it can be read only, the kernel faults ({})",
        error.message
    );
    DeviceError { kind: VerdictKind::InputMutated, message, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fault_of_the_address_is_a_write() {
        let fault = |kind| DeviceError { sticky: true, ..DeviceError::plain(kind, "why") };
        let own = borrowed(fault(VerdictKind::CrashIllegalAddress), "x");
        assert_eq!((own.kind, own.sticky), (VerdictKind::InputMutated, true));
        assert!(own.message.contains("`x`") && own.message.contains("why"), "{}", own.message);
        let other = fault(VerdictKind::Hang);
        assert_eq!(borrowed(other.clone(), "x"), other);
    }
}
