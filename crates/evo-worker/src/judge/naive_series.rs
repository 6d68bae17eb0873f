//! Several runs of the user's naive kernel at one small shape, in one request.
//!
//! At small shapes, where most cases are, a run takes microseconds and the way to the process in which it runs takes
//! longer. So the inputs of all runs travel in one buffer, in which the answers come back.

use evo_device::device::{BufferId, CopiedPart, Device, ModuleId, PlacedCopy, SeriesCall};
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{BufferPlan, ProblemPlan};

use super::element::{self, Poison};
use super::naive_answers::NaiveAnswers;
use super::naive_buffers::{buffers_of, fill_sizes, left_out, may_be_left_out, values_of};
use super::pool::Pool;
use super::run;

const LUGGAGE: &str = "runs (reference)";

/// The least size, bytes: sizes are powers of two, so that all shapes share a few.
const LUGGAGE_MIN: u64 = 1 << 12;

const ALIGNMENT: u64 = 16;

/// Whether runs at a problem can go together: contents of variables are written between launches.
pub fn takes(plan: &ProblemPlan) -> bool {
    plan.reference_variables.is_empty() && !plan.reference_launches.is_empty()
}

pub fn run(
    device: &mut dyn Device,
    pool: &mut Pool,
    module: ModuleId,
    plan: &ProblemPlan,
    starts: &[Vec<Vec<u8>>],
) -> Result<Vec<NaiveAnswers>, DeviceError> {
    let buffers = buffers_of(device, pool, plan)?;
    let launches = run::bind(&plan.reference_launches, &buffers, plan)?;
    fill_sizes(device, pool, module, plan)?;
    let packed = Luggage::pack(plan, starts);
    let size = (packed.bytes.len() as u64).next_power_of_two().max(LUGGAGE_MIN);
    let own = pool.working(device, LUGGAGE, size)?;
    pool.note(own, None);
    device.protect(own, false)?;
    device.write(own, &packed.bytes)?;
    let calls: Vec<SeriesCall> = (0..starts.len()).map(|run| packed.call(run, own, &buffers, plan)).collect();
    device.launch_series(module, &launches, &calls)?;
    device.synchronize()?;
    let found = device.read(own)?;
    (0..starts.len()).map(|run| packed.answers(run, plan, &found)).collect()
}

struct Luggage {
    bytes: Vec<u8>,
    /// By position of a buffer: where it lies in a run's part, and its bytes.
    places: Vec<(u64, u64)>,
    stride: u64,
}

impl Luggage {
    fn pack(plan: &ProblemPlan, starts: &[Vec<Vec<u8>>]) -> Luggage {
        let mut stride = 0;
        let mut place = |buffer: &BufferPlan| {
            let (start, bytes) = (stride, run::allocated_bytes(buffer));
            stride = (start + bytes).next_multiple_of(ALIGNMENT);
            (start, bytes)
        };
        let places: Vec<(u64, u64)> = plan.buffers.iter().map(&mut place).collect();
        let mut bytes = vec![0; stride as usize * starts.len()];
        for (run, contents) in starts.iter().enumerate() {
            for ((start, _), own) in places.iter().zip(contents) {
                let start = run * stride as usize + *start as usize;
                bytes[start..start + own.len()].copy_from_slice(own);
            }
        }
        Luggage { bytes, places, stride }
    }

    fn call(&self, run: usize, own: BufferId, buffers: &[BufferId], plan: &ProblemPlan) -> SeriesCall {
        let mut call = SeriesCall::default();
        for ((buffer, (start, bytes)), declared) in buffers.iter().zip(&self.places).zip(&plan.buffers) {
            let (there, bytes) = (run as u64 * self.stride + start, *bytes);
            let part = CopiedPart { source: there, target: 0, bytes };
            call.before.push(PlacedCopy { from: own, to: *buffer, part });
            if declared.role.is_answer() {
                let part = CopiedPart { source: 0, target: there, bytes };
                call.after.push(PlacedCopy { from: *buffer, to: own, part });
            }
        }
        call
    }

    fn answers(&self, run: usize, plan: &ProblemPlan, found: &[u8]) -> Result<NaiveAnswers, DeviceError> {
        let mut answers = Vec::new();
        for (position, (buffer, (start, bytes))) in plan.buffers.iter().zip(&self.places).enumerate() {
            if buffer.role.is_answer() {
                let start = run * self.stride as usize + *start as usize;
                let own = &found[start..start + *bytes as usize];
                if may_be_left_out(buffer) {
                    let pattern = element::poison(buffer.dtype, Poison::A);
                    left_out(buffer, element::pattern_elements(own, buffer, pattern))?;
                }
                answers.push((position, values_of(buffer, own)));
            }
        }
        Ok(answers)
    }
}
