//! Outputs that nearly hold the answer before a call.
//!
//! A kernel may leave an element as it is where that is close to what it would write. No poison is close to an answer,
//! and an output that holds the answer of an earlier call on the same input holds the right one. So finalists are also
//! called on outputs that hold their own answer with one of its low bits changed, in every element another one.

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Role};
use evo_protocol::verdict::{Verdict, VerdictKind};

use super::bench::Bench;
use super::run::starts_as;

const BYTES_MAX: u64 = 64 << 20;

/// Calls once more on outputs that nearly hold the answer, which the last call has left there. `first` is its hash where
/// calls agree to the bit.
pub(super) fn check(bench: &mut Bench<'_>, first: Option<u64>) -> Result<Option<Verdict>, DeviceError> {
    let plan = &bench.prepared.case.plan;
    let is_written = |own: &BufferPlan| own.role == Role::Output && starts_as(own).is_none();
    let bytes: u64 = plan.buffers.iter().filter(|own| is_written(own)).map(BufferPlan::bytes).sum();
    if bytes > BYTES_MAX || bench.prepared.accumulates() || bench.prepared.launches.is_empty() {
        return Ok(None);
    }
    for (own, buffer) in plan.buffers.iter().zip(&bench.prepared.buffers).filter(|(own, _)| is_written(own)) {
        let mut held = bench.judge.device.read(*buffer)?;
        nearly(&mut held, own.dtype);
        bench.judge.device.write(*buffer, &held)?;
    }
    bench.call()?;
    let (is_right, symptom) = match first {
        Some(first) => (bench.output_hash()? == first, None),
        None => {
            let symptom = bench.wrong_answer()?.map(|wrong| wrong.message);
            (symptom.is_none(), symptom)
        }
    };
    if is_right {
        return Ok(None);
    }
    let what = "reads an output before writing it: where it nearly holds the answer, it is left as it is";
    let verdict = Verdict::new(VerdictKind::Nondeterministic, what).with_cause("uninit_read");
    let verdict = symptom.into_iter().fold(verdict, |own, symptom| own.with("symptom", symptom));
    Ok(Some(bench.about(verdict)))
}

/// Changes one of the low bits of each element, so that it is off by a part of itself between an eighth and the last bit.
fn nearly(bytes: &mut [u8], dtype: DType) {
    let bits = match dtype {
        DType::F16 => 8,
        DType::Bf16 => 5,
        DType::F32 => 21,
        DType::F64 => 50,
        _ => 4 * dtype.bytes(),
    };
    for (index, element) in bytes.chunks_exact_mut(dtype.bytes() as usize).enumerate() {
        // Not in step with any tile.
        let bit = ((index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % bits;
        element[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::element;

    #[test]
    fn every_element_changes_and_stays_close() {
        for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
            let own: Vec<f64> = (1..200).map(f64::from).collect();
            let mut bytes = element::narrow(&own, dtype);
            nearly(&mut bytes, dtype);
            let other = element::widen(&bytes, dtype);
            let distances = own.iter().zip(&other).map(|(own, other)| (own - other).abs() / own);
            assert!(distances.clone().all(|off| off > 0.0 && off <= 0.25), "{dtype:?}");
            assert!(distances.fold(1.0, f64::min) <= 2f64.powi(-5), "{dtype:?}");
        }
        let mut bytes = vec![7u8; 64];
        nearly(&mut bytes, DType::I32);
        assert!(bytes.chunks(4).all(|own| own != [7; 4] && own[2..] == [7; 2]));
    }
}
