//! One run of a problem on the device, step by step: restore, poison, launch, wait, inspect.

use std::rc::Rc;

use evo_device::device::{
    BlockError, BoundArgument, BoundLaunch, BoundWindow, BufferId, Comparison, Device, GuardDamage, ModuleId,
    Placement, RunConditions, Tolerance,
};
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{
    ArgumentRef, BufferPlan, Fill, L2Persist, LaunchPlan, ProblemPlan, Role, ScalarPlan,
};
use evo_protocol::verdict::VerdictKind;
use evo_protocol::worker::Phase;

use super::case::Case;
use super::compare::{self, Breach};
use super::element::compared_as;
use super::element::{self, Poison};
use super::pool::{CaseSet, ExpectedBuffer, Pool};

/// Told what is about to happen, so that a death or a missed deadline has a name.
pub type Reporter = Box<dyn FnMut(Phase, &str)>;

/// What surrounds one run, all of which an honest kernel ignores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSetting {
    pub outputs: Poison,
    pub scratch: Poison,
    pub conditions: RunConditions,
}

impl RunSetting {
    pub const fn plain(poison: Poison) -> RunSetting {
        let conditions = RunConditions { order: None, residue: None, placement: Placement::End, clock: None };
        RunSetting { outputs: poison, scratch: poison, conditions }
    }

    pub fn at_clock(mut self, reading: u64) -> RunSetting {
        self.conditions.clock = Some(reading);
        self
    }

    /// Everything of a setting changed at once; with a seed another order of threads too.
    pub fn disturbed(poison: Poison, order: Option<u64>, placement: Placement) -> RunSetting {
        let residue = Some(element::poison(DType::F32, poison));
        let conditions = RunConditions { order, residue, placement, clock: None };
        RunSetting { conditions, ..RunSetting::plain(poison) }
    }

    /// The same where shared memory and stacks hold what any kernel may have left there, such as 1.2.
    pub fn on_ordinary_residue(mut self) -> RunSetting {
        self.conditions.residue = Some(element::poison(DType::F32, Poison::D));
        self
    }
}

#[derive(Debug)]
pub struct PreparedCase {
    pub slot: u8,
    pub module: ModuleId,
    pub checks: CheckSet,
    pub launches: Vec<BoundLaunch>,
    pub preparation: Option<Preparation>,
    pub case: Case,
    pub buffers: Vec<BufferId>,
    pub set: Rc<CaseSet>,
}

#[derive(Clone, Debug)]
pub struct Preparation {
    pub module: ModuleId,
    pub launches: Vec<BoundLaunch>,
}

#[derive(Clone, Debug)]
pub struct ComparedOutput {
    pub position: usize,
    pub comparison: Comparison,
    /// The row that is farthest off, where rows are looked at.
    pub block: Option<BlockError>,
}

#[derive(Clone, Debug)]
pub struct Mismatch {
    pub output: ComparedOutput,
    pub breach: Breach,
}

impl PreparedCase {
    fn plan(&self) -> &ProblemPlan {
        &self.case.plan
    }

    /// What the plan says of each buffer beside it.
    pub fn named_buffers(&self) -> impl Iterator<Item = (&BufferPlan, BufferId)> + Clone {
        self.case.plan.buffers.iter().zip(self.buffers.iter().copied())
    }

    pub fn accumulates(&self) -> bool {
        accumulates(self.plan())
    }

    pub fn restore(&self, pool: &mut Pool) -> Result<(), DeviceError> {
        for input in &self.set.inputs {
            let own = self.buffers[input.position];
            let kept = self.plan().buffers[input.position].role == Role::Input;
            // Only a read-only input can still hold its contents; an `inout` buffer changes with every call.
            if kept && pool.holds(own, &self.set.key) {
                continue;
            }
            pool.device.copy(input.buffer, own)?;
            pool.note(own, kept.then_some(&self.set.key));
        }
        Ok(())
    }

    /// Fresh inputs, and poison in outputs and workspace.
    pub fn fill(&self, pool: &mut Pool, poison: Poison) -> Result<(), DeviceError> {
        self.restore(pool)?;
        self.poison(pool.device.as_mut(), Role::Output, poison)?;
        self.poison(pool.device.as_mut(), Role::Scratch, poison)
    }

    /// Buffers of a role as they are before a run: poisoned, but for those that start as a constant.
    pub fn poison(&self, device: &mut dyn Device, role: Role, poison: Poison) -> Result<(), DeviceError> {
        let is_poisoned = self.checks.include(match role {
            Role::Scratch => GateCheck::WorkspacePoison,
            _ => GateCheck::OutputPoison,
        });
        for (plan, buffer) in self.named_buffers().filter(|(plan, _)| plan.role == role) {
            if starts_as(plan).is_some() || is_poisoned {
                start(device, plan, buffer, poison.under(self.checks))?;
            }
        }
        Ok(())
    }

    /// Fills workspace but for that which starts as a constant.
    pub fn fill_scratch(
        &self,
        device: &mut dyn Device,
        pattern: impl Fn(DType) -> u32,
    ) -> Result<(), DeviceError> {
        let open = |(plan, _): &(&BufferPlan, _)| plan.role == Role::Scratch && starts_as(plan).is_none();
        self.named_buffers().filter(open).try_for_each(|(plan, own)| device.fill(own, pattern(plan.dtype)))
    }

    /// Gives variables of the module what the arguments that lie in them hold.
    pub fn fill_variables(&self, device: &mut dyn Device) -> Result<(), DeviceError> {
        self.variables().try_for_each(|(_, name, buffer)| device.write_variable(self.module, name, buffer))
    }

    pub fn read_variables(&self, device: &mut dyn Device) -> Result<(), DeviceError> {
        for (plan, name, buffer) in self.variables() {
            if !device.read_variable(self.module, name, buffer)? && self.checks.include(GateCheck::GuardZones)
            {
                let message = format!(
                    "writes behind the {} bytes of `{}` in the variable `{name}`",
                    plan.bytes(),
                    plan.name
                );
                return Err(DeviceError::plain(VerdictKind::OobWrite, message).with_cause("symbol"));
            }
        }
        Ok(())
    }

    fn variables(&self) -> impl Iterator<Item = (&BufferPlan, &str, BufferId)> {
        self.named_buffers().filter_map(|(plan, buffer)| Some((plan, plan.symbol.as_deref()?, buffer)))
    }

    pub fn output_hash(&self, device: &mut dyn Device) -> Result<u64, DeviceError> {
        let mut hasher = blake3::Hasher::new();
        for (position, plan) in self.plan().buffers.iter().enumerate() {
            match plan.role.is_answer() && plan.elements() > 0 {
                false => {}
                // What the file does not compare may differ from run to run.
                true if plan.view.is_some() => {
                    hasher.update(&element::f64_bytes(&self.compared(device, position)?));
                }
                true => {
                    hasher.update(&device.hash(self.buffers[position])?.to_le_bytes());
                }
            }
        }
        let hash = hasher.finalize();
        Ok(u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|index| hash.as_bytes()[index])))
    }

    pub fn poisoned(
        &self,
        device: &mut dyn Device,
        poison: Poison,
    ) -> Result<Vec<(usize, u64)>, DeviceError> {
        let mut counts = Vec::new();
        for (position, (plan, buffer)) in self.named_buffers().enumerate() {
            if plan.role == Role::Output && starts_as(plan).is_none() && plan.elements() > 0 {
                let pattern = element::poison(plan.dtype, poison.under(self.checks));
                counts.push((position, count_pattern(device, buffer, plan, pattern)?));
            }
        }
        Ok(counts)
    }

    /// An empty buffer is passed as one element, which nobody reads or writes.
    pub fn written_although_empty(
        &self,
        device: &mut dyn Device,
        setting: RunSetting,
    ) -> Result<Option<usize>, DeviceError> {
        for (position, (plan, buffer)) in self.named_buffers().enumerate() {
            let poison = match plan.role {
                Role::Output => setting.outputs,
                Role::Scratch => setting.scratch,
                Role::Input | Role::Inout | Role::Restored => continue,
            };
            if plan.elements() > 0 || starts_as(plan).is_some() {
                continue;
            }
            if device.count_pattern(buffer, plan.dtype, element::poison(plan.dtype, poison))? == 0 {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// What an output holds of that which is compared, as fp64 or as words ([`compared_as`]).
    pub fn compared(&self, device: &mut dyn Device, position: usize) -> Result<Vec<f64>, DeviceError> {
        let plan = &self.plan().buffers[position];
        let values = element::widen(&device.read(self.buffers[position])?, compared_as(plan.dtype));
        Ok(plan.compared(values))
    }

    pub fn compare_with(
        &self,
        device: &mut dyn Device,
        position: usize,
        expected: BufferId,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError> {
        let plan = &self.plan().buffers[position];
        if plan.view.is_none() {
            return device.compare(self.buffers[position], compared_as(plan.dtype), expected, tolerance);
        }
        let actual = self.compared(device, position)?;
        let expected = element::widen(&device.read(expected)?, DType::F64);
        Ok(compare::on_host(&actual, &expected, tolerance))
    }

    pub fn compare(&self, device: &mut dyn Device) -> Result<Vec<ComparedOutput>, DeviceError> {
        let one = |target: &ExpectedBuffer| {
            let plan = &self.plan().buffers[target.position];
            if plan.view.is_some() {
                return self.compare_certain(device, target);
            }
            let dtype = compared_as(plan.dtype);
            let (own, expected) = (self.buffers[target.position], target.expected);
            let comparison = device.compare(own, dtype, expected, target.bounds.tolerance)?;
            let rows = target.bounds.block;
            let rows =
                rows.map(|rows| device.compare_blocks(own, dtype, expected, rows.elements, rows.floor));
            let compared = ComparedOutput { position: target.position, comparison, block: rows.transpose()? };
            // Uncertain elements are few, and most kernels need no allowance for them.
            match target.uncertain.is_empty() || self.breach(&compared).is_none() {
                true => Ok(compared),
                false => self.compare_certain(device, target),
            }
        };
        self.set.targets.iter().map(one).collect()
    }

    fn breach(&self, ComparedOutput { position, comparison, block }: &ComparedOutput) -> Option<Breach> {
        compare::breach(comparison, block.as_ref(), &self.target(*position)?.bounds, self.checks)
    }

    fn compare_certain(
        &self,
        device: &mut dyn Device,
        target: &ExpectedBuffer,
    ) -> Result<ComparedOutput, DeviceError> {
        let mut actual = self.compared(device, target.position)?;
        let expected = element::widen(&device.read(target.expected)?, DType::F64);
        for (index, allowed) in &target.uncertain {
            let index = *index as usize;
            if let (Some(own), Some(right)) = (actual.get_mut(index), expected.get(index))
                && (*own - right).abs() <= *allowed
            {
                *own = *right;
            }
        }
        let comparison = compare::on_host(&actual, &expected, target.bounds.tolerance);
        let block = target.bounds.block;
        let block = block.map(|own| compare::blocks_on_host(&actual, &expected, own.elements, own.floor));
        Ok(ComparedOutput { position: target.position, comparison, block })
    }

    pub fn mismatch(&self, compared: &[ComparedOutput]) -> Option<Mismatch> {
        let broken = compared.iter().filter_map(|output| Some((self.breach(output)?, output)));
        let (breach, output) = broken.min_by_key(|(breach, _)| *breach)?;
        Some(Mismatch { output: output.clone(), breach })
    }

    pub fn targets(&self) -> impl Iterator<Item = (&BufferPlan, &ExpectedBuffer)> {
        self.set.targets.iter().map(|target| (&self.plan().buffers[target.position], target))
    }

    pub fn target(&self, position: usize) -> Option<&ExpectedBuffer> {
        self.set.targets.iter().find(|target| target.position == position)
    }

    /// The first changed input; its working copy is refreshed before the next run.
    pub fn mutated(&self, pool: &mut Pool) -> Result<Option<usize>, DeviceError> {
        if !self.checks.include(GateCheck::InputHash) {
            return Ok(None);
        }
        for input in &self.set.inputs {
            let own = self.buffers[input.position];
            let read_only = self.plan().buffers[input.position].role == Role::Input;
            if read_only && pool.device.hash(own)? != input.hash {
                pool.note(own, None);
                return Ok(Some(input.position));
            }
        }
        Ok(None)
    }

    /// Whether our own copies of inputs and answers are untouched.
    pub fn set_intact(&self, device: &mut dyn Device) -> Result<bool, DeviceError> {
        let inputs = self.set.inputs.iter().map(|input| (input.buffer, input.hash));
        for (buffer, hash) in inputs.chain(self.set.targets.iter().map(|own| (own.expected, own.hash))) {
            if device.hash(buffer)? != hash {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub fn count_pattern(
    device: &mut dyn Device,
    buffer: BufferId,
    plan: &BufferPlan,
    pattern: u32,
) -> Result<u64, DeviceError> {
    match plan.view {
        None => device.count_pattern(buffer, plan.dtype, pattern),
        Some(_) => Ok(element::pattern_elements(&device.read(buffer)?, plan, pattern)),
    }
}

pub fn guards(device: &mut dyn Device) -> Result<Vec<GuardDamage>, DeviceError> {
    let damage = device.check_guards()?;
    // Rewritten at once: the next variant must not be blamed for this one's damage.
    if !damage.is_empty() {
        device.arm_guards(GUARD_PATTERN)?;
    }
    Ok(damage)
}

/// The content of guard zones unless a gate asks for another: an odd, finite float.
pub const GUARD_PATTERN: u32 = 0x4B1D_4B1D;

pub fn starts_as(buffer: &BufferPlan) -> Option<f64> {
    match buffer.fill {
        Fill::Constant { value } => Some(value),
        _ => None,
    }
}

/// Fills a buffer with what it starts as, or else with a poison.
pub fn start(
    device: &mut dyn Device,
    plan: &BufferPlan,
    buffer: BufferId,
    poison: Poison,
) -> Result<(), DeviceError> {
    match starts_as(plan) {
        None => device.fill(buffer, element::poison(plan.dtype, poison)),
        Some(0.0) => device.fill(buffer, 0),
        Some(value) => {
            let values = vec![value; plan.elements().max(1) as usize];
            device.write(buffer, &element::narrow(&values, plan.dtype))
        }
    }
}

/// Whether a call leaves something behind that the next call reads: such outputs cannot be checked
/// after a batch of calls without a fresh run.
pub fn accumulates(plan: &ProblemPlan) -> bool {
    plan.buffers.iter().any(|buffer| match buffer.role {
        Role::Inout | Role::Restored => true,
        Role::Output => starts_as(buffer).is_some(),
        Role::Input | Role::Scratch => false,
    })
}

/// Bytes to allocate: an empty buffer is passed as one element.
pub fn allocated_bytes(buffer: &BufferPlan) -> u64 {
    buffer.bytes().max(buffer.dtype.bytes())
}

/// Maps are bound to buffers, not to addresses: the device encodes them when it launches, wherever their buffers lie
/// then.
pub fn bind(
    launches: &[LaunchPlan],
    buffers: &[BufferId],
    plan: &ProblemPlan,
) -> Result<Vec<BoundLaunch>, DeviceError> {
    let bind_one = |launch: &LaunchPlan| {
        let missing = |what: String| {
            let message = format!("`{}`: {what} is not in the plan", launch.entry);
            DeviceError::plain(VerdictKind::HarnessError, message)
        };
        let buffer = |position: usize| buffers.get(position).copied();
        let argument = |argument: &ArgumentRef| {
            let scalar = |scalar: &ScalarPlan| BoundArgument::Scalar(scalar_bytes(scalar));
            let bound = match argument {
                ArgumentRef::Buffer(position) => buffer(*position).map(BoundArgument::Buffer),
                ArgumentRef::Scalar(position) => plan.scalars.get(*position).map(scalar),
                ArgumentRef::Literal(position) => plan.literals.get(*position).map(scalar),
                ArgumentRef::TensorMap(position) => plan.tensor_maps.get(*position).and_then(|tensor| {
                    Some(BoundArgument::TensorMap { buffer: buffer(tensor.of)?, map: tensor.map.clone() })
                }),
            };
            bound.ok_or_else(|| missing(format!("argument {argument:?}")))
        };
        let mut bound = geometry(launch)?;
        bound.arguments = launch.arguments.iter().map(argument).collect::<Result<_, _>>()?;
        if let Some(L2Persist { buffer: position, ratio }) = launch.l2_persist {
            let kept = buffer(position).ok_or_else(|| missing("the buffer of its `l2_persist`".into()))?;
            bound.l2_persist = Some(BoundWindow { buffer: kept, ratio: ratio as f32 });
        }
        Ok(bound)
    };
    launches.iter().map(bind_one).collect()
}

pub fn geometry(launch: &LaunchPlan) -> Result<BoundLaunch, DeviceError> {
    let narrow = |what: &str, value: i64| {
        u32::try_from(value).map_err(|_| {
            let message = format!("`{}`: {what} is `{value}`", launch.entry);
            DeviceError::plain(VerdictKind::LaunchFail, message).with_cause(what)
        })
    };
    let three = |what: &str, values: [i64; 3]| -> Result<[u32; 3], DeviceError> {
        Ok([narrow(what, values[0])?, narrow(what, values[1])?, narrow(what, values[2])?])
    };
    Ok(BoundLaunch {
        entry: launch.entry.clone(),
        grid: three("grid", launch.grid)?,
        block: three("threads", launch.block)?,
        shared_bytes: narrow("smem", launch.shared_bytes)?,
        cluster: launch.cluster.map(|cluster| three("cluster", cluster)).transpose()?,
        cooperative: launch.cooperative,
        programmatic: launch.programmatic,
        ..BoundLaunch::default()
    })
}

fn scalar_bytes(scalar: &ScalarPlan) -> Vec<u8> {
    match (scalar.dtype, scalar.integer) {
        // 64-bit integers do not fit fp64.
        (DType::I64 | DType::U64, Some(value)) => value.to_le_bytes().to_vec(),
        (dtype, Some(value)) if !dtype.is_float() => value.to_le_bytes()[..dtype.bytes() as usize].to_vec(),
        (dtype, _) => element::narrow(&[scalar.value], dtype),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_keep_every_bit() {
        let check = |dtype, value: f64, integer, expected: &[u8]| {
            let scalar = ScalarPlan { name: "n".into(), dtype, value, integer };
            assert_eq!(scalar_bytes(&scalar), expected, "{dtype:?}");
        };
        let large = (1i64 << 60) + 1;
        check(DType::I64, large as f64, Some(large), &large.to_le_bytes());
        check(DType::I32, -3.0, Some(-3), &(-3i32).to_le_bytes());
        check(DType::U8, 200.0, Some(200), &[200]);
        check(DType::F32, 0.25, None, &0.25f32.to_le_bytes());
        check(DType::F16, 2.0, Some(2), &half::f16::from_f32(2.0).to_le_bytes());
    }

    #[test]
    fn a_negative_extent_is_a_failed_launch() {
        let launch =
            LaunchPlan { entry: "k".into(), grid: [-1, 1, 1], block: [32, 1, 1], ..LaunchPlan::default() };
        let error = geometry(&launch).unwrap_err();
        assert_eq!((error.kind, error.cause.as_deref()), (VerdictKind::LaunchFail, Some("grid")));
    }
}
