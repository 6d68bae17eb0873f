//! The judge's state inside the worker process.
//!
//! A candidate that fails is a verdict with its case attached; after a sticky error the judge says so in every
//! answer, because nothing that happens in this process can be trusted any more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use evo_device::device::{Device, ModuleId, RunConditions};
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{ProblemPlan, Role};
use evo_protocol::verdict::VerdictKind;
use evo_protocol::worker::{BinaryRef, Candidate, CheckPlan, Phase};
use evo_space::genome::ContentHash;

use super::case::Case;
use super::command::CommandDesk;
use super::drawn;
use super::expected;
use super::expected_cache::ExpectedCache;
use super::naive::{NaiveModules, reference_trouble};
use super::on_device::DeviceReferences;
use super::pool::{CaseInputs, CaseSet, Pool};
use super::prepared;
use super::run::{self, PreparedCase, Reporter, RunSetting};
use super::wrong::{self, CaseResult};

/// A paired run compares times only, and computing answers anew in each of its fresh processes would take longer than
/// the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    Needed,
    NotNeeded,
}

#[derive(Debug, Default)]
pub(super) struct InstrumentedSlot {
    pub module: Option<ModuleId>,
    pub refused: Option<String>,
}

#[derive(Debug)]
pub(super) struct LoadedBuild {
    binary: Vec<u8>,
    pub module: ModuleId,
    pub instrumented: InstrumentedSlot,
}

pub(super) struct LoadedSlot {
    pub candidate: Candidate,
    /// In the order of `candidate.builds`.
    pub builds: Vec<LoadedBuild>,
    pub references: NaiveModules,
    /// A failure at a full shape is judged together with the tiny ones that passed.
    pub history: Vec<CaseResult>,
    pub tiny: Vec<ProblemPlan>,
}

impl LoadedSlot {
    pub(super) fn build_for(&self, plan: &ProblemPlan) -> Result<&LoadedBuild, DeviceError> {
        // `load` has loaded one for each of the candidate's.
        Ok(&self.builds[self.candidate.build_for(plan)?])
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceBinaries<'a> {
    pub own: Option<&'a [u8]>,
    pub single: Option<&'a [u8]>,
    pub prepare: Option<&'a [u8]>,
}

pub struct Judge {
    pub(super) device: Box<dyn Device>,
    pub(super) pool: Pool,
    pub(super) slots: BTreeMap<u8, LoadedSlot>,
    pub(super) expected: ExpectedCache,
    /// Naive reference kernels stay loaded: all variants of a study share one.
    references: BTreeMap<(ContentHash, Vec<String>), ModuleId>,
    pub(super) device_references: Option<DeviceReferences>,
    pub(super) commands: CommandDesk,
    pub(super) unanswered: BTreeMap<ContentHash, DeviceError>,
    pub reporter: Reporter,
    sticky: bool,
}

/// The pool may take one part in this many of the device memory that is free at the start.
const POOL_SHARE: u64 = 2;

impl Judge {
    pub fn new(mut device: Box<dyn Device>, expected_cache: Option<PathBuf>) -> Judge {
        let free = device.memory_free().unwrap_or(device.info().memory_bytes / 2);
        Judge {
            pool: Pool::new(free / POOL_SHARE),
            device,
            slots: BTreeMap::new(),
            commands: CommandDesk::new(expected_cache.as_deref()),
            unanswered: BTreeMap::new(),
            expected: ExpectedCache::new(expected_cache),
            references: BTreeMap::new(),
            device_references: None,
            reporter: Box::new(|_, _| {}),
            sticky: false,
        }
    }

    pub fn take_references(&mut self, name: &str, image: &[u8]) -> Result<(), DeviceError> {
        self.device_references = Some(DeviceReferences::load(self.device.as_mut(), image, Some(name))?);
        Ok(())
    }

    pub fn device(&mut self) -> &mut dyn Device {
        self.device.as_mut()
    }

    /// Takes milliseconds. `binaries` are those of the candidate's builds, in order.
    pub fn load(
        &mut self,
        slot: u8,
        candidate: &Candidate,
        binaries: &[Vec<u8>],
        references: ReferenceBinaries<'_>,
    ) -> Result<f64, DeviceError> {
        // Removed before it is unloaded: if unloading fails, the slot must not name a module that is half
        // gone.
        if let Some(old) = self.slots.remove(&slot) {
            for build in old.builds {
                self.device.unload(build.module)?;
                if let Some(module) = build.instrumented.module {
                    self.device.unload(module)?;
                }
            }
        }
        self.device.set_checks(candidate.check.checks);
        let start = Instant::now();
        let mut builds = Vec::new();
        for (build, binary) in candidate.builds.iter().zip(binaries) {
            let module = self.device.load(binary, &build.entries).inspect_err(|error| {
                self.sticky |= error.sticky;
            })?;
            let instrumented = InstrumentedSlot::default();
            builds.push(LoadedBuild { binary: binary.clone(), module, instrumented });
        }
        let elapsed = start.elapsed().as_secs_f64() * 1e3;
        let Candidate { reference, reference_single: single, prepare, .. } = candidate;
        let entries = reference.as_ref().map(|(_, entries)| entries);
        let mut load = |binary: Option<&BinaryRef>, entries: Option<&Vec<String>>, bytes: Option<&[u8]>| {
            let (Some(binary), Some(entries), Some(bytes)) = (binary, entries, bytes) else {
                return Ok(None);
            };
            self.load_reference(&binary.hash, entries, bytes).map(Some)
        };
        let own = load(reference.as_ref().map(|(binary, _)| binary), entries, references.own)?;
        let single = load(single.as_ref(), entries, references.single)?;
        let (binary, entries) = prepare.as_ref().map(|(binary, entries)| (binary, entries)).unzip();
        let prepare = load(binary, entries, references.prepare).map_err(prepared::trouble)?;
        let references = NaiveModules { own, single, prepare };
        let loaded = LoadedSlot {
            candidate: candidate.clone(),
            builds,
            references,
            history: Vec::new(),
            tiny: Vec::new(),
        };
        self.slots.insert(slot, loaded);
        Ok(elapsed)
    }

    fn load_reference(
        &mut self,
        hash: &ContentHash,
        entries: &[String],
        bytes: &[u8],
    ) -> Result<ModuleId, DeviceError> {
        // The same file may serve another kernel by another entry point.
        let key = (hash.clone(), entries.to_vec());
        if let Some(module) = self.references.get(&key) {
            return Ok(*module);
        }
        let module = self.device.load(bytes, entries).map_err(reference_trouble)?;
        self.references.insert(key, module);
        Ok(module)
    }

    /// An error as one about the first case of a problem.
    pub fn at_problem<T>(
        &mut self,
        plan: &ProblemPlan,
        done: Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        done.map_err(|error| {
            self.note_error(&error);
            let verdict = wrong::about(error.verdict(), &Case::first(plan));
            let evidence = verdict.evidence.iter().map(|(name, value)| (name.clone(), value.clone()));
            let (message, sticky) = (verdict.message.clone(), self.sticky);
            DeviceError { message, sticky, evidence: evidence.collect(), ..error }
        })
    }

    pub(super) fn is_sticky(&self) -> bool {
        self.sticky
    }

    pub(super) fn retire(&mut self) {
        self.sticky = true;
    }

    pub(super) fn note_error(&mut self, error: &DeviceError) {
        self.sticky |= error.sticky;
    }

    pub(super) fn slot(&self, slot: u8) -> Result<&LoadedSlot, DeviceError> {
        self.slots.get(&slot).ok_or_else(|| nothing_loaded(slot))
    }

    pub(super) fn reload(&mut self, slot: u8, plan: &ProblemPlan) -> Result<(), DeviceError> {
        let loaded = self.slots.get(&slot).ok_or_else(|| nothing_loaded(slot))?;
        let position = loaded.candidate.build_for(plan)?;
        let build = &loaded.builds[position];
        self.device.reload(build.module, &build.binary, &loaded.candidate.builds[position].entries)
    }

    pub(super) fn report(&mut self, phase: Phase, detail: &str) {
        (self.reporter)(phase, detail);
    }

    pub(super) fn run(&mut self, prepared: &PreparedCase, setting: RunSetting) -> Result<(), DeviceError> {
        let device = self.device.as_mut();
        prepared.restore(device, &mut self.pool)?;
        prepared.poison_outputs(device, setting.outputs)?;
        prepared.poison_scratch(device, setting.scratch)?;
        device.set_conditions(setting.conditions)?;
        let called = self.call(prepared);
        self.device.set_conditions(RunConditions::default())?;
        called
    }

    pub(super) fn call(&mut self, prepared: &PreparedCase) -> Result<(), DeviceError> {
        let name = prepared.case.name();
        // Reported before the launch: if it never returns, the parent knows which case hangs.
        self.report(Phase::Launched, &name);
        let device = self.device.as_mut();
        // At a size of 0 a call may have nothing to launch.
        if !prepared.launches.is_empty() {
            prepared.fill_variables(device)?;
            device.launch(prepared.module, &prepared.launches)?;
            prepared.read_variables(device)?;
        }
        device.synchronize()?;
        // Only now, since launches return before the kernel has run.
        self.report(Phase::Checking, &name);
        Ok(())
    }

    pub(super) fn prepare_case(&mut self, slot: u8, case: &Case) -> Result<PreparedCase, DeviceError> {
        self.prepare_lane(slot, case, (0, 0), Answers::Needed)
    }

    /// Calls that take turns have lanes for inputs and for the rest.
    pub(super) fn prepare_lane(
        &mut self,
        slot: u8,
        case: &Case,
        lanes: (u32, u32),
        answers: Answers,
    ) -> Result<PreparedCase, DeviceError> {
        let own = self.slot(slot)?;
        let (module, check) = (own.build_for(&case.plan)?.module, own.candidate.check.clone());
        let naive = own.references;
        let key = expected_key(&own.candidate, case);
        let set = match (self.pool.set(&key), answers) {
            (Some(set), _) => set,
            (None, Answers::Needed) => {
                self.report(Phase::Preparing, &case.name());
                self.answer(&key, &check, case, naive)?
            }
            (None, Answers::NotNeeded) => {
                self.report(Phase::Preparing, &case.name());
                self.inputs_only(&key, &check, case, naive)?
            }
        };
        let mut buffers = Vec::new();
        for plan in &case.plan.buffers {
            let bytes = run::allocated_bytes(plan);
            let lane = if plan.role == Role::Input { lanes.0 } else { lanes.1 };
            let name =
                if lane == 0 { plan.name.clone() } else { format!("{} (set {})", plan.name, lane + 1) };
            let buffer = self.pool.working(self.device.as_mut(), &name, bytes)?;
            // Where the device can, a write to an input is caught in the act, even if it is undone later.
            // What lies in a variable of the module is copied there and back instead.
            self.device.protect(buffer, plan.role == Role::Input && plan.symbol.is_none())?;
            buffers.push(buffer);
        }
        let launches = run::bind(&case.plan.launches, &buffers, &case.plan)?;
        let preparation = prepared::bind(naive.prepare, &case.plan, &buffers)?;
        let (checks, case) = (check.checks, case.clone());
        Ok(PreparedCase { slot, module, checks, launches, preparation, case, buffers, set })
    }

    pub(super) fn forget_case(&mut self, slot: u8, case: &Case) -> Result<(), DeviceError> {
        let key = expected_key(&self.slot(slot)?.candidate, case);
        self.pool.drop_set(self.device.as_mut(), &key);
        self.expected.forget(&key);
        Ok(())
    }

    fn inputs_only(
        &mut self,
        key: &ContentHash,
        check: &CheckPlan,
        case: &Case,
        modules: NaiveModules,
    ) -> Result<std::rc::Rc<CaseSet>, DeviceError> {
        // Under a name of its own: who needs answers must not find a set without them.
        let key = ContentHash::of_parts([key.as_str().as_bytes(), b"inputs"]);
        if let Some(set) = self.pool.set(&key) {
            return Ok(set);
        }
        let magnitude = case.family.magnitudes().first().copied().unwrap_or(1.0);
        let draw = case.draw(check, magnitude);
        let plan = &case.plan;
        let references = self.device_references.as_ref();
        let mut write = |device: &mut dyn Device, position: usize, buffer| {
            drawn::write_input(references, device, plan, &plan.buffers[position], draw, buffer)
        };
        let inputs = CaseInputs { plan, write: &mut write };
        self.pool.fill(self.device.as_mut(), (&key, magnitude), inputs, |_, device, set| {
            modules.derive(device, plan, set)
        })
    }
}

fn nothing_loaded(slot: u8) -> DeviceError {
    DeviceError::plain(VerdictKind::HarnessError, format!("nothing is loaded in slot {slot}"))
}

/// The name of a case's answers.
fn expected_key(candidate: &Candidate, case: &Case) -> ContentHash {
    let hash = candidate.reference.as_ref().map(|(own, _)| match &candidate.reference_single {
        Some(single) => {
            ContentHash::of_parts([own.hash.as_str().as_bytes(), single.hash.as_str().as_bytes()])
        }
        None => own.hash.clone(),
    });
    expected::key(&candidate.check, case, hash.as_ref())
}
