//! Other people's code beside a candidate: a case's inputs as files, and answers from files, compared exactly as a
//! candidate's outputs are.
//!
//! The candidate in the slot only says which task it is; none of its code runs here.

use std::path::Path;

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use evo_protocol::verdict::{Gate, GateReport, Verdict, VerdictKind};
use evo_protocol::worker::GateAnswer;
use serde_json::{Map, Value};

use super::bench::Bench;
use super::case::Case;
use super::element::Poison;
use super::npy::{self, task_error};
use super::run::{PreparedCase, RunSetting};
use super::state::Judge;
use super::timed::TimedProblem;
use super::{element, parity, wrong};

impl Judge {
    pub fn hand_out(
        &mut self,
        slot: u8,
        plan: &ProblemPlan,
        seed_index: u32,
        (folder, expected): (&Path, bool),
    ) -> Result<(), DeviceError> {
        let prepared = self.answered(slot, plan, seed_index)?;
        let failed = |error: std::io::Error| task_error(format!("inputs cannot be written: {error}"));
        // A task without files of a kind has an empty folder.
        std::fs::create_dir_all(folder.join("inputs")).map_err(failed)?;
        if expected {
            std::fs::create_dir_all(folder.join("expected")).map_err(failed)?;
        }
        for input in &prepared.set.inputs {
            let (buffer, bytes) = (&plan.buffers[input.position], self.pool.device.read(input.buffer)?);
            write_file(&folder.join("inputs"), buffer, buffer.dtype, &bytes).map_err(failed)?;
        }
        let failed = |error: std::io::Error| task_error(format!("answers cannot be written: {error}"));
        // Of an output that is compared through a view there is no answer for each element.
        for (buffer, target) in prepared.targets().filter(|(buffer, _)| expected && buffer.view.is_none()) {
            let (answer, dtype) = (self.pool.device.read(target.expected)?, buffer.dtype.answered());
            let bytes = element::narrow(&element::widen(&answer, DType::F64), dtype);
            write_file(&folder.join("expected"), buffer, dtype, &bytes).map_err(failed)?;
        }
        Ok(())
    }

    pub fn judge_foreign(
        &mut self,
        slot: u8,
        plan: &ProblemPlan,
        seed_index: u32,
        folder: &Path,
    ) -> GateAnswer {
        let judged = self
            .answered(slot, plan, seed_index)
            .and_then(|prepared| self.compare_files(&prepared, &folder.join("outputs")));
        judged.unwrap_or_else(|error| {
            self.sticky |= error.sticky;
            GateAnswer::failed(Gate::FullShapes, &error)
        })
    }

    pub fn plain_parity(&mut self, timed: &TimedProblem) -> Result<Value, DeviceError> {
        let prepared = timed.first();
        Bench { judge: self, prepared }.run(RunSetting::plain(Poison::A))?;
        let task = self.slot(prepared.slot)?.candidate.check.task;
        parity::of(self.device(), prepared, task)
    }

    fn answered(
        &mut self,
        slot: u8,
        plan: &ProblemPlan,
        seed_index: u32,
    ) -> Result<PreparedCase, DeviceError> {
        let case = Case { seed_index, ..Case::first(plan) };
        let check = self.slot(slot)?.candidate.check.clone();
        self.foresee(&check, std::slice::from_ref(&case))?;
        self.prepare_case(slot, &case)
    }

    fn compare_files(&mut self, prepared: &PreparedCase, folder: &Path) -> Result<GateAnswer, DeviceError> {
        let plan = &prepared.case.plan;
        let mut answer = GateAnswer::begin(Gate::FullShapes);
        answer.report.cases = 1;
        for (buffer, own) in prepared.named_buffers() {
            if !buffer.role.is_answer() || buffer.elements() == 0 {
                continue;
            }
            match read_output(&folder.join(format!("{}.npy", buffer.name)), buffer) {
                Ok(bytes) => {
                    self.pool.device.write(own, &bytes)?;
                    // What lies there now is nobody's input.
                    self.pool.note(own, None);
                }
                Err(why) => {
                    let message = format!("its output `{}` cannot be used: {why}", buffer.name);
                    answer.refuse(Verdict::new(VerdictKind::WrongAnswer, message));
                    return Ok(answer);
                }
            }
        }
        let compared = prepared.compare(self.pool.device.as_mut())?;
        let task = self.slot(prepared.slot)?.candidate.check.task;
        let mut seen = Map::new();
        seen.insert(plan.name.clone(), parity::of(self.pool.device.as_mut(), prepared, task)?);
        answer.report.evidence.insert(GateReport::PARITY, Value::Object(seen));
        if let Some(mismatch) = prepared.mismatch(&compared) {
            answer.refuse(wrong::mismatch(prepared, &mismatch));
        }
        Ok(answer)
    }
}

fn write_file(folder: &Path, buffer: &BufferPlan, dtype: DType, bytes: &[u8]) -> std::io::Result<()> {
    // An empty buffer is kept as one element, which is nothing here.
    let length = usize::try_from(buffer.elements() * dtype.bytes()).unwrap_or(usize::MAX).min(bytes.len());
    npy::write(&folder.join(format!("{}.npy", buffer.name)), dtype, &buffer.shape, &bytes[..length])
}

/// The bytes of an output; NumPy has no bf16, which is answered in f32.
fn read_output(path: &Path, buffer: &BufferPlan) -> Result<Vec<u8>, String> {
    if buffer.dtype != DType::Bf16 {
        return npy::read_exactly(path, buffer.dtype, &buffer.shape);
    }
    let bytes = npy::read_exactly(path, DType::F32, &buffer.shape)?;
    Ok(element::narrow(&element::widen(&bytes, DType::F32), DType::Bf16))
}
