//! A device in memory whose kernels are Rust closures: gates are tested without GPU or compiler.

use std::collections::BTreeMap;
use std::rc::Rc;

use evo_device::device::{
    BlockError, BoundArgument, BoundLaunch, BufferId, Comparison, CopiedPart, Device, Executor, GuardDamage,
    Memory, ModuleAnswer, ModuleId, ModuleRequest, PlainErrors, RunConditions, SampleOrder, Tolerance,
    VariableState,
};
use evo_device::numbers;
use evo_protocol::check::CheckSet;
use evo_protocol::device::{DeviceError, DeviceInfo, DeviceKind, DeviceLimits, EntryAttributes, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::verdict::VerdictKind;

use super::element;

pub const GUARD: usize = 64;

pub type Kernel = Rc<dyn Fn(&mut Call<'_>) -> Result<(), DeviceError>>;

struct Buffer {
    name: String,
    /// Guard, contents, guard.
    bytes: Vec<u8>,
    pattern: u32,
}

pub struct Call<'a> {
    buffers: &'a mut BTreeMap<u32, Buffer>,
    launch: &'a BoundLaunch,
    /// A global variable of the module; 0 after loading.
    pub global: &'a mut u64,
    /// How long the call takes when it is timed, nanoseconds.
    pub took_ns: &'a mut f64,
    /// A number that no reload resets: the stuff of races.
    pub noise: u64,
    /// What shared memory holds before anybody writes it.
    pub residue: f32,
}

impl Call<'_> {
    fn id(&self, argument: usize) -> u32 {
        match &self.launch.arguments[argument] {
            BoundArgument::Buffer(id) | BoundArgument::TensorMap { buffer: id, .. } => id.0,
            BoundArgument::Scalar(_) => panic!("argument {argument} is a scalar"),
        }
    }

    pub fn scalar(&self, argument: usize) -> i64 {
        match &self.launch.arguments[argument] {
            BoundArgument::Scalar(bytes) => {
                i64::from(i32::from_le_bytes(bytes.as_slice().try_into().unwrap()))
            }
            BoundArgument::Buffer(_) | BoundArgument::TensorMap { .. } => {
                panic!("argument {argument} is not a scalar")
            }
        }
    }

    pub fn address(&self, argument: usize) -> u32 {
        self.id(argument)
    }

    pub fn load(&self, argument: usize) -> Vec<f32> {
        let bytes = &self.buffers[&self.id(argument)].bytes;
        let own = &bytes[GUARD..bytes.len() - GUARD];
        element::widen(own, DType::F32).into_iter().map(|value| value as f32).collect()
    }

    /// One f32 at any index, the guards included.
    pub fn peek(&self, argument: usize, index: i64) -> f32 {
        let start = (GUARD as i64 + index * 4) as usize;
        let raw = &self.buffers[&self.id(argument)].bytes[start..start + 4];
        f32::from_le_bytes(raw.try_into().unwrap())
    }

    /// Writes one f32 at any index, the guards included.
    pub fn store(&mut self, argument: usize, index: i64, value: f32) {
        let start = (GUARD as i64 + index * 4) as usize;
        let id = self.id(argument);
        self.buffers.get_mut(&id).unwrap().bytes[start..start + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Writes into whatever buffer has this name, far outside the kernel's own.
    pub fn scribble(&mut self, name: &str) {
        for buffer in self.buffers.values_mut().filter(|buffer| buffer.name == name) {
            buffer.bytes[GUARD] ^= 0x55;
        }
    }
}

pub struct FakeDevice {
    info: DeviceInfo,
    kernels: BTreeMap<String, Kernel>,
    modules: BTreeMap<u32, u64>,
    buffers: BTreeMap<u32, Buffer>,
    next: u32,
    launches: u64,
    took_ns: f64,
    pub echo: Option<String>,
    pub names_variables: bool,
    pub attributes: EntryAttributes,
    pub memory: u64,
    pub usual_residue: f32,
    conditions: RunConditions,
}

pub fn info() -> DeviceInfo {
    DeviceInfo {
        kind: DeviceKind::Host,
        name: "fake".into(),
        arch: "fake".into(),
        uuid: "fake".into(),
        driver: "0".into(),
        multiprocessors: 4,
        limits: DeviceLimits::of_arch("sm_90").unwrap(),
        l2_bytes: 1 << 20,
        memory_bytes: 1 << 30,
        bandwidth: None,
        flops_f32: None,
        flops_f16: None,
    }
}

impl FakeDevice {
    pub fn new(kernels: Vec<(&str, Kernel)>) -> FakeDevice {
        FakeDevice {
            info: info(),
            kernels: kernels.into_iter().map(|(name, kernel)| (name.to_string(), kernel)).collect(),
            modules: BTreeMap::new(),
            buffers: BTreeMap::new(),
            next: 0,
            launches: 0,
            took_ns: 1000.0,
            echo: None,
            names_variables: false,
            attributes: EntryAttributes {
                registers: Some(32),
                threads_max: 1024,
                blocks_per_multiprocessor: Some(4),
                ..EntryAttributes::default()
            },
            memory: 1 << 30,
            usual_residue: 0.0,
            conditions: RunConditions::default(),
        }
    }

    fn run(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        for launch in launches {
            self.launches += 1;
            let hash = blake3::hash(&self.launches.to_le_bytes());
            let noise = u64::from(u32::from_le_bytes(hash.as_bytes()[..4].try_into().unwrap()));
            let kernel = self.kernels[&launch.entry].clone();
            let global = self.modules.get_mut(&module.0).expect("a loaded module");
            let (buffers, took_ns) = (&mut self.buffers, &mut self.took_ns);
            let residue = self.conditions.residue.map_or(self.usual_residue, f32::from_bits);
            kernel(&mut Call { buffers, launch, global, took_ns, noise, residue })?;
        }
        Ok(())
    }

    fn contents(&mut self, id: BufferId) -> &mut [u8] {
        let bytes = &mut self.buffers.get_mut(&id.0).unwrap().bytes;
        let end = bytes.len() - GUARD;
        &mut bytes[GUARD..end]
    }
}

fn paint(bytes: &mut [u8], pattern: u32) {
    let word = pattern.to_le_bytes();
    bytes.iter_mut().enumerate().for_each(|(index, byte)| *byte = word[index % 4]);
}

impl Device for FakeDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn set_conditions(&mut self, conditions: RunConditions) -> Result<(), DeviceError> {
        self.conditions = conditions;
        Ok(())
    }

    fn telemetry(&mut self) -> Telemetry {
        Telemetry::default()
    }

    fn memory_free(&mut self) -> Option<u64> {
        Some(self.memory)
    }

    fn set_checks(&mut self, _: CheckSet) {}
}

impl Memory for FakeDevice {
    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        if bytes > self.memory {
            return Err(DeviceError::plain(VerdictKind::OutOfMemory, format!("no room for `{name}`")));
        }
        self.next += 1;
        let mut own = vec![0u8; bytes as usize + 2 * GUARD];
        let pattern = 0x1122_3344;
        paint(&mut own, pattern);
        self.buffers.insert(self.next, Buffer { name: name.into(), bytes: own, pattern });
        Ok(BufferId(self.next))
    }

    fn address(&mut self, buffer: BufferId) -> Option<u64> {
        self.buffers.contains_key(&buffer.0).then(|| u64::from(buffer.0) << 20)
    }

    fn free(&mut self, buffer: BufferId) -> Result<(), DeviceError> {
        self.buffers
            .remove(&buffer.0)
            .map(|_| ())
            .ok_or_else(|| DeviceError::plain(VerdictKind::HarnessError, "freed twice"))
    }

    fn write_at(&mut self, buffer: BufferId, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.contents(buffer)[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, buffer: BufferId) -> Result<Vec<u8>, DeviceError> {
        Ok(self.contents(buffer).to_vec())
    }

    fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), DeviceError> {
        let bytes = self.contents(from).to_vec();
        self.contents(to).copy_from_slice(&bytes);
        Ok(())
    }

    fn copy_part(&mut self, from: BufferId, to: BufferId, part: CopiedPart) -> Result<(), DeviceError> {
        let [source, target, bytes] = [part.source, part.target, part.bytes].map(|own| own as usize);
        let copied = self.contents(from)[source..source + bytes].to_vec();
        self.contents(to)[target..target + bytes].copy_from_slice(&copied);
        Ok(())
    }

    fn fill(&mut self, buffer: BufferId, pattern: u32) -> Result<(), DeviceError> {
        paint(self.contents(buffer), pattern);
        Ok(())
    }

    fn hash(&mut self, buffer: BufferId) -> Result<u64, DeviceError> {
        let hash = blake3::hash(self.contents(buffer));
        Ok(u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap()))
    }

    fn count_pattern(&mut self, buffer: BufferId, dtype: DType, pattern: u32) -> Result<u64, DeviceError> {
        let size = dtype.bytes() as usize;
        let mut word = vec![0u8; size.max(4)];
        paint(&mut word, pattern);
        Ok(self.contents(buffer).chunks_exact(size).filter(|own| **own == word[..size]).count() as u64)
    }

    fn compare(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError> {
        let expected = self.contents(expected).to_vec();
        Ok(numbers::compare(self.contents(actual), dtype, &expected, tolerance))
    }

    fn compare_blocks(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        block: u64,
        floor: f64,
    ) -> Result<BlockError, DeviceError> {
        let expected = self.contents(expected).to_vec();
        Ok(numbers::compare_blocks(self.contents(actual), dtype, &expected, block, floor))
    }

    fn check_guards(&mut self) -> Result<Vec<GuardDamage>, DeviceError> {
        let mut damage = Vec::new();
        for buffer in self.buffers.values() {
            let end = buffer.bytes.len() - GUARD;
            let mut clean = buffer.bytes.clone();
            paint(&mut clean, buffer.pattern);
            for (start, stop) in [(0, GUARD), (end, buffer.bytes.len())] {
                let bad: Vec<usize> = (start..stop).filter(|at| buffer.bytes[*at] != clean[*at]).collect();
                if let Some(first) = bad.first() {
                    let offset = *first as i64 - GUARD as i64;
                    let bytes_changed = bad.len() as u64;
                    damage.push(GuardDamage { buffer: buffer.name.clone(), offset, bytes_changed });
                }
            }
        }
        Ok(damage)
    }

    fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError> {
        for buffer in self.buffers.values_mut() {
            let end = buffer.bytes.len() - GUARD;
            let own = buffer.bytes[GUARD..end].to_vec();
            paint(&mut buffer.bytes, pattern);
            buffer.bytes[GUARD..end].copy_from_slice(&own);
            buffer.pattern = pattern;
        }
        Ok(())
    }

    fn set_guarded(&mut self, _: bool) {}

    fn plain_errors(
        &mut self,
        _: BufferId,
        _: DType,
        _: BufferId,
        _: [Tolerance; 3],
    ) -> Result<Option<PlainErrors>, DeviceError> {
        Ok(None)
    }

    fn protect(&mut self, _: BufferId, _: bool) -> Result<(), DeviceError> {
        Ok(())
    }

    fn show_read_only(&mut self, _: &[BufferId]) -> Result<bool, DeviceError> {
        Ok(false)
    }
}

impl Executor for FakeDevice {
    fn load(&mut self, _binary: &[u8], _entries: &[String]) -> Result<ModuleId, DeviceError> {
        self.next += 1;
        self.modules.insert(self.next, 0);
        Ok(ModuleId(self.next))
    }

    fn reload(&mut self, module: ModuleId, _: &[u8], _: &[String]) -> Result<(), DeviceError> {
        self.unload(module)?;
        self.restore_variables(module)
    }

    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        self.modules
            .remove(&module.0)
            .map(|_| ())
            .ok_or_else(|| DeviceError::plain(VerdictKind::HarnessError, "unloaded twice"))
    }

    fn echo(&mut self, _module: ModuleId) -> Result<Option<String>, DeviceError> {
        Ok(self.echo.clone())
    }

    /// A call takes a microsecond, or what the kernel asks for.
    fn sample(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        let batch = order.batch.max(1) as usize;
        let one = |sample: u32| {
            let first = if batch > 1 { 0 } else { sample as usize };
            for call in first..first + batch {
                self.took_ns = 1000.0;
                self.launch(module, &order.rotation[call % order.rotation.len()])?;
            }
            Ok(self.took_ns)
        };
        (0..order.samples).map(one).collect()
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn park(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn execute(&mut self, module: ModuleId, request: ModuleRequest) -> Result<ModuleAnswer, DeviceError> {
        Ok(match request {
            ModuleRequest::Attributes { .. } => ModuleAnswer::Attributes(self.attributes.clone()),
            ModuleRequest::Launch { launches, calls } => {
                for call in calls {
                    call.run(self, |device| device.run(module, &launches))?;
                }
                ModuleAnswer::Done
            }
            ModuleRequest::Watch { .. } => ModuleAnswer::Watched(None),
            ModuleRequest::HeapKept => ModuleAnswer::HeapKept { bytes: 0 },
            ModuleRequest::Variables => {
                let state = VariableState { name: "global".into(), hash: self.modules[&module.0] };
                ModuleAnswer::Variables(if self.names_variables { vec![state] } else { Vec::new() })
            }
            ModuleRequest::RestoreVariables => {
                self.modules.insert(module.0, 0);
                ModuleAnswer::Done
            }
            ModuleRequest::WriteVariable { name, .. } | ModuleRequest::ReadVariable { name, .. } => {
                return Err(DeviceError::plain(VerdictKind::LaunchFail, format!("no variable `{name}`")));
            }
        })
    }
}
