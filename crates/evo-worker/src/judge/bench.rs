//! What gates work on: a gate's run on a candidate, and a prepared case on the device with all that a question about it
//! takes.

use evo_device::device::{Device, RunConditions};
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role};
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_protocol::worker::{CheckPlan, Depth, GateAnswer, Phase};

use super::case::Case;
use super::element::Poison;
use super::run::{self, ComparedOutput, Mismatch, PreparedCase, RunSetting};
use super::state::Judge;
use super::wrong;

/// Why a question is the last one: what the kernel did, or what the device says.
#[derive(Debug)]
pub enum Failure {
    Kernel(Box<Verdict>),
    Machine(DeviceError),
}

/// What comes of a question.
pub type Asked = Result<(), Failure>;

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Failure {
        Failure::Machine(error)
    }
}

impl From<Verdict> for Failure {
    fn from(verdict: Verdict) -> Failure {
        Failure::Kernel(Box::new(verdict))
    }
}

impl Failure {
    pub fn with(self, name: &str, value: impl Into<serde_json::Value>) -> Failure {
        match self {
            Failure::Kernel(verdict) => verdict.with(name, value).into(),
            machine => machine,
        }
    }
}

/// The verdict of a question, for who goes on all the same.
pub fn found<T>(asked: Result<T, Failure>) -> Result<Option<Box<Verdict>>, DeviceError> {
    match asked {
        Ok(_) => Ok(None),
        Err(Failure::Kernel(verdict)) => Ok(Some(verdict)),
        Err(Failure::Machine(error)) => Err(error),
    }
}

impl Judge {
    /// Asks at a case.
    pub(super) fn at<T>(
        &mut self,
        slot: u8,
        case: &Case,
        ask: impl FnOnce(&mut Bench<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let prepared = self.prepare_case(slot, case)?;
        ask(&mut Bench { judge: self, prepared: &prepared })
    }

    /// A failure at a case as the candidate's verdict.
    pub(super) fn blame(&mut self, failure: Failure, case: &Case) -> Verdict {
        match failure {
            Failure::Kernel(verdict) => *verdict,
            Failure::Machine(error) => {
                self.sticky |= error.sticky;
                wrong::about(error.verdict(), case)
            }
        }
    }
}

/// One gate on one candidate.
pub(super) struct GateRun<'a> {
    pub judge: &'a mut Judge,
    pub slot: u8,
    pub gate: Gate,
    pub depth: Depth,
    pub plans: &'a [ProblemPlan],
    /// The candidate's.
    pub check: CheckPlan,
    pub found: GateAnswer,
}

impl GateRun<'_> {
    pub fn refuse(&mut self, failure: Failure, case: &Case) {
        let verdict = self.judge.blame(failure, case);
        self.found.refuse(verdict);
    }
}

pub(super) struct Bench<'a> {
    pub judge: &'a mut Judge,
    pub prepared: &'a PreparedCase,
}

impl Bench<'_> {
    pub fn device(&mut self) -> &mut dyn Device {
        self.judge.device()
    }

    pub fn includes(&self, check: GateCheck) -> bool {
        self.prepared.checks.include(check)
    }

    pub fn check(&self) -> Result<&CheckPlan, DeviceError> {
        Ok(&self.judge.slot(self.prepared.slot)?.candidate.check)
    }

    pub fn run(&mut self, setting: RunSetting) -> Result<(), DeviceError> {
        self.prepared.restore(&mut self.judge.pool)?;
        self.prepared.poison(self.device(), Role::Output, setting.outputs)?;
        self.prepared.poison(self.device(), Role::Scratch, setting.scratch)?;
        self.device().set_conditions(setting.conditions)?;
        let called = self.call();
        self.device().set_conditions(RunConditions::default())?;
        called
    }

    pub fn call(&mut self) -> Result<(), DeviceError> {
        let prepared = self.prepared;
        let name = prepared.case.name();
        // Reported before the launch: if it never returns, the parent knows which case hangs.
        self.judge.report(Phase::Launched, &name);
        // At a size of 0 a call may have nothing to launch.
        if !prepared.launches.is_empty() {
            prepared.fill_variables(self.device())?;
            self.device().launch(prepared.module, &prepared.launches)?;
            prepared.read_variables(self.device())?;
        }
        self.device().synchronize()?;
        // Only now, since launches return before the kernel has run.
        self.judge.report(Phase::Checking, &name);
        Ok(())
    }

    /// Fresh inputs, and poison in outputs and workspace.
    pub fn fill(&mut self, poison: Poison) -> Result<(), DeviceError> {
        self.prepared.fill(&mut self.judge.pool, poison)
    }

    pub fn output_hash(&mut self) -> Result<u64, DeviceError> {
        self.prepared.output_hash(self.device())
    }

    pub fn hash_of_run(&mut self, setting: RunSetting) -> Result<u64, DeviceError> {
        self.run(setting)?;
        self.output_hash()
    }

    pub fn compare(&mut self) -> Result<Vec<ComparedOutput>, DeviceError> {
        self.prepared.compare(self.device())
    }

    pub fn mismatch(&mut self) -> Result<Option<Mismatch>, DeviceError> {
        Ok(self.prepared.mismatch(&self.compare()?))
    }

    /// What is wrong with the outputs as they are.
    pub fn wrong_answer(&mut self) -> Result<Option<Verdict>, DeviceError> {
        Ok(self.mismatch()?.map(|mismatch| wrong::mismatch(self.prepared, &mismatch)))
    }

    pub fn guards_hold(&mut self) -> Asked {
        let damage = run::guards(self.device())?;
        wrong::out_of_bounds(&damage, &self.prepared.case).map_or(Ok(()), |verdict| Err(verdict.into()))
    }

    pub fn about(&self, verdict: Verdict) -> Verdict {
        wrong::about(verdict, &self.prepared.case)
    }

    pub fn refused(&self, kind: VerdictKind, cause: &str, what: impl Into<String>) -> Failure {
        self.about(Verdict::new(kind, what).with_cause(cause)).into()
    }

    /// Names of the buffers that `chosen` takes, for messages; none if it takes none.
    pub fn names(&self, chosen: impl Fn(&BufferPlan) -> bool) -> Option<String> {
        let buffers = self.prepared.case.plan.buffers.iter().filter(|buffer| chosen(buffer));
        let names: Vec<&str> = buffers.map(|buffer| buffer.name.as_str()).collect();
        (!names.is_empty()).then(|| names.join("`, `"))
    }
}
