//! A device whose kernels are Rust closures, with the host device's memory: gates are tested without GPU or compiler.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use evo_device::device::{
    BoundArgument, BoundLaunch, BufferId, Executor, ModuleAnswer, ModuleId, ModuleRequest, RunConditions,
    SampleOrder, VariableState,
};
use evo_device::host::store::{BufferStore, Stored};
use evo_protocol::device::{DeviceError, DeviceInfo, DeviceKind, DeviceLimits, EntryAttributes};
use evo_protocol::dtype::DType;
use evo_protocol::verdict::VerdictKind;

use super::element;

pub type Kernel = Rc<dyn Fn(&mut Call<'_>) -> Result<(), DeviceError>>;

pub struct Call<'a> {
    store: &'a mut BufferStore,
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
    pub fn id(&self, argument: usize) -> BufferId {
        match &self.launch.arguments[argument] {
            BoundArgument::Buffer(id) | BoundArgument::TensorMap { buffer: id, .. } => *id,
            BoundArgument::Scalar(_) => panic!("argument {argument} is a scalar"),
        }
    }

    pub fn scalar(&self, argument: usize) -> i64 {
        match &self.launch.arguments[argument] {
            BoundArgument::Scalar(bytes) => i32::from_le_bytes(bytes.as_slice().try_into().unwrap()).into(),
            _ => panic!("argument {argument} is not a scalar"),
        }
    }

    pub fn load(&self, argument: usize) -> Vec<f32> {
        let values = element::widen(self.store.get(self.id(argument)).unwrap().bytes(), DType::F32);
        values.into_iter().map(|value| value as f32).collect()
    }

    /// One f32 at any index in the buffer's pages.
    pub fn peek(&mut self, argument: usize, index: i64) -> f32 {
        f32::from_le_bytes(self.word(argument, index, |word| *word))
    }

    /// Writes one f32 at any index in the buffer's pages.
    pub fn store(&mut self, argument: usize, index: i64, value: f32) {
        self.word(argument, index, |word| *word = value.to_le_bytes());
    }

    fn word<R>(&mut self, argument: usize, index: i64, use_of: impl FnOnce(&mut [u8; 4]) -> R) -> R {
        let id = self.id(argument);
        let used = self.store.get_mut(id).unwrap().change_around(|bytes, start| {
            let at = (start as i64 + 4 * index) as usize;
            use_of(bytes[at..].first_chunk_mut().unwrap())
        });
        used.unwrap()
    }

    /// Writes into whatever buffer has this name, far outside the kernel's own.
    pub fn scribble(&mut self, name: &str) {
        for id in (0..1000).map(BufferId) {
            if let Some(buffer) = self.store.get_mut(id).ok().filter(|buffer| buffer.name() == name) {
                buffer.change(|bytes| bytes[0] ^= 0x55).unwrap();
            }
        }
    }
}

pub struct FakeDevice {
    info: DeviceInfo,
    kernels: BTreeMap<String, Kernel>,
    modules: HashMap<ModuleId, u64>,
    store: BufferStore,
    next: u32,
    launches: u64,
    took_ns: f64,
    pub echo: Option<String>,
    pub names_variables: bool,
    pub attributes: EntryAttributes,
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
            modules: HashMap::new(),
            store: BufferStore::default(),
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
            usual_residue: 0.0,
            conditions: RunConditions::default(),
        }
    }

    fn run(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        for launch in launches {
            self.launches += 1;
            let hash = blake3::hash(&self.launches.to_le_bytes());
            let noise = u64::from(u32::from_le_bytes(*hash.as_bytes().first_chunk().unwrap()));
            let kernel = self.kernels[&launch.entry].clone();
            let global = self.modules.get_mut(&module).expect("a loaded module");
            let (store, took_ns) = (&mut self.store, &mut self.took_ns);
            let residue = self.conditions.residue.map_or(self.usual_residue, f32::from_bits);
            kernel(&mut Call { store, launch, global, took_ns, noise, residue })?;
        }
        Ok(())
    }
}

impl Stored for FakeDevice {
    fn store(&mut self) -> &mut BufferStore {
        &mut self.store
    }

    /// Buffers stay where they are: the slack of their pages is on the side where kernels look for it.
    fn apply(&mut self, conditions: RunConditions) -> Result<(), DeviceError> {
        self.conditions = conditions;
        Ok(())
    }
}

impl Executor for FakeDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&mut self, _binary: &[u8], _entries: &[String]) -> Result<ModuleId, DeviceError> {
        self.next += 1;
        self.modules.insert(ModuleId(self.next), 0);
        Ok(ModuleId(self.next))
    }

    fn reload(&mut self, module: ModuleId, _: &[u8], _: &[String]) -> Result<(), DeviceError> {
        self.unload(module)?;
        self.restore_variables(module)
    }

    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        let unloaded = self.modules.remove(&module).map(drop);
        unloaded.ok_or_else(|| DeviceError::plain(VerdictKind::HarnessError, "unloaded twice"))
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
                let state = VariableState { name: "global".into(), hash: self.modules[&module] };
                ModuleAnswer::Variables(if self.names_variables { vec![state] } else { Vec::new() })
            }
            ModuleRequest::RestoreVariables => {
                self.modules.insert(module, 0);
                ModuleAnswer::Done
            }
            ModuleRequest::WriteVariable { name, .. } | ModuleRequest::ReadVariable { name, .. } => {
                return Err(DeviceError::plain(VerdictKind::LaunchFail, format!("no variable `{name}`")));
            }
        })
    }
}
