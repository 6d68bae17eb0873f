//! The judge's state inside the worker process.
//!
//! A candidate that fails is a verdict with its case attached; after a sticky error the judge says so in every
//! answer, because nothing that happens in this process can be trusted any more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use evo_device::device::{Device, ModuleId};
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{ProblemPlan, Role};
use evo_protocol::verdict::VerdictKind;
use evo_protocol::worker::{BinaryRef, Candidate, InstrumentedBuild, Phase};
use evo_space::genome::ContentHash;

use super::case::Case;
use super::command::CommandDesk;
use super::expected::{self, Question};
use super::expected_cache::ExpectedCache;
use super::naive::{NaiveModules, reference_trouble};
use super::on_device::DeviceReferences;
use super::pool::{CaseSet, Pool};
use super::prepared;
use super::run::{self, PreparedCase, Reporter};
use super::wrong::{self, CaseResult};

/// A paired run compares times only, and computing answers anew in each of its fresh processes would take longer than
/// the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    Needed,
    NotNeeded,
}

#[derive(Debug)]
pub(super) struct LoadedBuild {
    binary: Vec<u8>,
    pub module: ModuleId,
    /// Or why the device refuses it.
    pub instrumented: Option<Result<ModuleId, String>>,
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

pub struct Judge {
    pub(super) pool: Pool,
    pub(super) slots: BTreeMap<u8, LoadedSlot>,
    pub(super) expected: ExpectedCache,
    /// Naive reference kernels stay loaded: all variants of a study share one.
    references: BTreeMap<(ContentHash, Vec<String>), ModuleId>,
    pub(super) device_references: Option<DeviceReferences>,
    pub(super) commands: CommandDesk,
    pub(super) unanswered: BTreeMap<ContentHash, DeviceError>,
    pub reporter: Reporter,
    /// Whether nothing that happens in this process can be trusted any more.
    pub(super) sticky: bool,
}

/// Gives what a binary holds.
pub type Fetch<'a> = dyn FnMut(&BinaryRef) -> Result<Vec<u8>, DeviceError> + 'a;

/// The pool may take one part in this many of the device memory that is free at the start.
const POOL_SHARE: u64 = 2;

impl Judge {
    pub fn new(mut device: Box<dyn Device>, expected_cache: PathBuf) -> Judge {
        let free = device.memory_free().unwrap_or(device.info().memory_bytes / 2);
        Judge {
            pool: Pool::new(device, free / POOL_SHARE),
            slots: BTreeMap::new(),
            commands: CommandDesk::new(&expected_cache),
            unanswered: BTreeMap::new(),
            expected: ExpectedCache::new(expected_cache),
            references: BTreeMap::new(),
            device_references: None,
            reporter: Box::new(|_, _| {}),
            sticky: false,
        }
    }

    pub fn take_references(&mut self, name: &str, image: &[u8]) -> Result<(), DeviceError> {
        self.device_references = Some(DeviceReferences::load(self.device(), image, Some(name))?);
        Ok(())
    }

    pub fn device(&mut self) -> &mut dyn Device {
        self.pool.device.as_mut()
    }

    /// Takes milliseconds, which it returns. `fetch` gives what a binary holds.
    pub fn load(
        &mut self,
        slot: u8,
        candidate: &Candidate,
        fetch: &mut Fetch<'_>,
    ) -> Result<f64, DeviceError> {
        let Candidate { builds: wanted, reference, reference_single, prepare, .. } = candidate;
        let instrumented = wanted.iter().filter_map(|build| match &build.instrumented {
            Some(InstrumentedBuild::Binary(binary)) => Some(binary),
            _ => None,
        });
        let references = reference.iter().chain(prepare).map(|(binary, _)| binary).chain(reference_single);
        // Before the old slot is removed: what cannot be fetched leaves the judge as it was.
        let mut fetched = BTreeMap::new();
        for binary in wanted.iter().map(|build| &build.binary).chain(instrumented).chain(references) {
            fetched.insert(&binary.hash, fetch(binary)?);
        }
        // Removed before it is unloaded: if unloading fails, the slot must not name a module that is half
        // gone.
        if let Some(old) = self.slots.remove(&slot) {
            for build in old.builds {
                self.device().unload(build.module)?;
                if let Some(Ok(module)) = build.instrumented {
                    self.device().unload(module)?;
                }
            }
        }
        self.device().set_checks(candidate.check.checks);
        let start = Instant::now();
        let mut builds = Vec::new();
        for build in wanted {
            let binary = fetched[&build.binary.hash].clone();
            let module = self.pool.device.load(&binary, &build.entries).inspect_err(|error| {
                self.sticky |= error.sticky;
            })?;
            builds.push(LoadedBuild { binary, module, instrumented: None });
        }
        let elapsed = start.elapsed().as_secs_f64() * 1e3;
        let mut references = NaiveModules::default();
        if let Some((binary, entries)) = reference {
            references.own = Some(self.load_reference((binary, entries), &fetched, reference_trouble)?);
            if let Some(binary) = reference_single {
                references.single =
                    Some(self.load_reference((binary, entries), &fetched, reference_trouble)?);
            }
        }
        if let Some((binary, entries)) = prepare {
            references.prepare = Some(self.load_reference((binary, entries), &fetched, prepared::trouble)?);
        }
        for (build, loaded) in wanted.iter().zip(&mut builds) {
            let Some(InstrumentedBuild::Binary(binary)) = &build.instrumented else { continue };
            let module = self.pool.device.load(&fetched[&binary.hash], &build.entries);
            loaded.instrumented = Some(module.map_err(|error| error.to_string()));
        }
        let (history, tiny) = (Vec::new(), Vec::new());
        self.slots
            .insert(slot, LoadedSlot { candidate: candidate.clone(), builds, references, history, tiny });
        Ok(elapsed)
    }

    fn load_reference(
        &mut self,
        (binary, entries): (&BinaryRef, &[String]),
        fetched: &BTreeMap<&ContentHash, Vec<u8>>,
        trouble: fn(DeviceError) -> DeviceError,
    ) -> Result<ModuleId, DeviceError> {
        // The same file may serve another kernel by another entry point.
        let key = (binary.hash.clone(), entries.to_vec());
        if let Some(module) = self.references.get(&key) {
            return Ok(*module);
        }
        let module = self.pool.device.load(&fetched[&binary.hash], entries).map_err(trouble)?;
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
            self.sticky |= error.sticky;
            let verdict = wrong::about(error.verdict(), &Case::first(plan));
            let evidence = verdict.evidence.iter().map(|(name, value)| (name.clone(), value.clone()));
            let (message, sticky) = (verdict.message.clone(), self.sticky);
            DeviceError { message, sticky, evidence: evidence.collect(), ..error }
        })
    }

    pub(super) fn slot(&self, slot: u8) -> Result<&LoadedSlot, DeviceError> {
        self.slots.get(&slot).ok_or_else(|| nothing_loaded(slot))
    }

    pub(super) fn reload(&mut self, slot: u8, plan: &ProblemPlan) -> Result<(), DeviceError> {
        let loaded = self.slots.get(&slot).ok_or_else(|| nothing_loaded(slot))?;
        let position = loaded.candidate.build_for(plan)?;
        let build = &loaded.builds[position];
        let entries = &loaded.candidate.builds[position].entries;
        self.pool.device.reload(build.module, &build.binary, entries)
    }

    pub(super) fn report(&mut self, phase: Phase, detail: &str) {
        (self.reporter)(phase, detail);
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
        let (key, modules) = (expected_key(&own.candidate, case), own.references);
        let asked = Question { key, check: &check, case, modules };
        let set = match self.pool.set(&asked.key) {
            Some(set) => set,
            None => {
                self.report(Phase::Preparing, &case.name());
                match answers {
                    Answers::Needed => self.answer(&asked)?,
                    Answers::NotNeeded => self.inputs_only(asked)?,
                }
            }
        };
        let mut buffers = Vec::new();
        for plan in &case.plan.buffers {
            let bytes = run::allocated_bytes(plan);
            let lane = if plan.role == Role::Input { lanes.0 } else { lanes.1 };
            let name =
                if lane == 0 { plan.name.clone() } else { format!("{} (set {})", plan.name, lane + 1) };
            let buffer = self.pool.working(&name, bytes)?;
            // Where the device can, a write to an input is caught in the act, even if it is undone later.
            // What lies in a variable of the module is copied there and back instead.
            self.pool.device.protect(buffer, plan.role == Role::Input && plan.symbol.is_none())?;
            buffers.push(buffer);
        }
        let launches = run::bind(&case.plan.launches, &buffers, &case.plan)?;
        let preparation = prepared::bind(modules.prepare, &case.plan, &buffers)?;
        let (checks, case) = (check.checks, case.clone());
        Ok(PreparedCase { slot, module, checks, launches, preparation, case, buffers, set })
    }

    pub(super) fn forget_case(&mut self, slot: u8, case: &Case) -> Result<(), DeviceError> {
        let key = expected_key(&self.slot(slot)?.candidate, case);
        self.pool.drop_set(&key);
        self.expected.forget(&key);
        Ok(())
    }

    fn inputs_only(&mut self, asked: Question<'_>) -> Result<Rc<CaseSet>, DeviceError> {
        // Under a name of its own: who needs answers must not find a set without them.
        let key = ContentHash::of_parts([asked.key.as_str().as_bytes(), b"inputs"]);
        if let Some(set) = self.pool.set(&key) {
            return Ok(set);
        }
        let magnitude = asked.case.family.magnitudes().first().copied().unwrap_or(1.0);
        self.fill(&Question { key, ..asked }, (magnitude, None), |_, _| Ok(()))
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
