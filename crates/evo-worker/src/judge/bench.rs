//! A prepared case on the device, with all that a question about it takes.

use evo_device::device::Device;
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::verdict::Verdict;

use super::case::Case;
use super::element::Poison;
use super::run::{ComparedOutput, Mismatch, PhaseSink, PreparedCase, RunSetting};
use super::state::Judge;
use super::wrong;

pub(super) struct Bench<'a> {
    pub judge: &'a mut Judge,
    pub prepared: &'a PreparedCase,
    pub phase: &'a mut PhaseSink<'a>,
}

impl<'a> Bench<'a> {
    pub fn new(judge: &'a mut Judge, prepared: &'a PreparedCase, phase: &'a mut PhaseSink<'_>) -> Bench<'a> {
        Bench { judge, prepared, phase }
    }

    /// The same with another case on it.
    pub fn with<'b>(&'b mut self, prepared: &'b PreparedCase) -> Bench<'b> {
        Bench::new(self.judge, prepared, self.phase)
    }

    pub fn prepare(&mut self, case: &Case) -> Result<PreparedCase, DeviceError> {
        self.judge.prepare_case(self.prepared.slot, case, self.phase)
    }

    pub fn device(&mut self) -> &mut dyn Device {
        self.judge.device.as_mut()
    }

    pub fn includes(&self, check: GateCheck) -> bool {
        self.prepared.checks.include(check)
    }

    pub fn run(&mut self, setting: RunSetting) -> Result<(), DeviceError> {
        self.prepared.run(self.judge.device.as_mut(), &mut self.judge.pool, setting, self.phase)
    }

    /// Fresh inputs, and poison in outputs and workspace.
    pub fn fill(&mut self, poison: Poison) -> Result<(), DeviceError> {
        let device = self.judge.device.as_mut();
        self.prepared.restore(device, &mut self.judge.pool)?;
        self.prepared.poison_outputs(device, poison)?;
        self.prepared.poison_scratch(device, poison)
    }

    pub fn call(&mut self) -> Result<(), DeviceError> {
        self.prepared.call(self.judge.device.as_mut(), self.phase)
    }

    pub fn output_hash(&mut self) -> Result<u64, DeviceError> {
        self.prepared.output_hash(self.judge.device.as_mut())
    }

    pub fn hash_of_run(&mut self, setting: RunSetting) -> Result<u64, DeviceError> {
        self.run(setting)?;
        self.output_hash()
    }

    pub fn compare(&mut self) -> Result<Vec<ComparedOutput>, DeviceError> {
        self.prepared.compare(self.judge.device.as_mut())
    }

    pub fn mismatch(&mut self) -> Result<Option<Mismatch>, DeviceError> {
        Ok(self.prepared.mismatch(&self.compare()?))
    }

    /// What is wrong with the outputs as they are.
    pub fn wrong_answer(&mut self) -> Result<Option<Verdict>, DeviceError> {
        Ok(self.mismatch()?.map(|mismatch| wrong::mismatch(self.prepared, &mismatch)))
    }

    pub fn about(&self, verdict: Verdict) -> Verdict {
        wrong::about(verdict, &self.prepared.case)
    }
}
