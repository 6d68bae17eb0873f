//! The unharmed kernel on a device, and harmed copies of it beside it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evo_protocol::device::EntryAttributes;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::invert::{DiagnosticFlag, InvertDose, InvertRow};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Configuration;
use evo_space::value::Value;

use super::call::Call;
use super::counters::attributes_of;
use super::error::CliError;
use super::invert_args::InvertArgs;
use super::judge::{self, Bench};
use super::one_args::TestOneArgs;
use super::session::{self, DeviceSetup};
use super::{candidate, candidate_folder};
use crate::engine::candidate::ResolvedCandidate;
use crate::engine::ports::{Evaluate, Rivals};
use crate::engine::single::{self, Single};
use crate::journal::diagnostic::{DiagnosticVariant, UnharmedVariant};
use crate::journal::reader::JOURNAL;
use crate::journal::record::now;
use crate::kernel::harm::{Dose, HarmFacts, apply};
use crate::kernel::spec::KernelSpec;
use crate::study::DiagnosticJournal;
use crate::supervise::job::{Job, Standing};

/// What harmed variants are measured on.
pub struct HarmBench<'b, 'a> {
    one: &'b TestOneArgs,
    bench: &'b mut Bench<'a>,
    attributes: Vec<EntryAttributes>,
    noise_floor: Option<f64>,
}

/// A harmed copy that was judged.
pub struct HarmedCopy {
    pub dose: InvertDose,
    /// Where it was timed.
    pub job: Option<Job>,
}

impl<'b, 'a> HarmBench<'b, 'a> {
    /// Measures how far the unharmed kernel differs from itself.
    pub fn new(one: &'b TestOneArgs, bench: &'b mut Bench<'a>) -> Result<HarmBench<'b, 'a>, CliError> {
        let plan = bench.job.timed.first().ok_or_else(|| {
            CliError::usage("no problem of this kernel is timed, so nothing can be compared")
                .with_hint("name one with `--problem`, or give one `timed = true`")
        })?;
        let attributes = attributes_of(&bench.single.attributes, bench.job, plan).to_vec();
        bench.lane.expect_pairs();
        let noise_floor = Evaluate::noise_floor(bench.lane, bench.job, 1).ok();
        Ok(HarmBench { one, bench, attributes, noise_floor })
    }

    /// The space's own kernel.
    pub fn kernel(&self) -> Result<&KernelSpec, CliError> {
        session::kernel_of(self.bench.file)
    }

    pub fn facts(&self) -> HarmFacts<'_> {
        HarmFacts { device: self.bench.lane.info(), attributes: &self.attributes }
    }

    /// What is known of the unharmed variant.
    pub fn evaluation(&self) -> &Evaluation {
        &self.bench.single.evaluation
    }

    /// What is harmed, for a journal.
    pub fn unharmed(&self) -> UnharmedVariant {
        let evaluation = &self.bench.single.evaluation;
        UnharmedVariant {
            configuration: evaluation.configuration.clone(),
            configuration_hash: evaluation.configuration_hash.clone(),
            source_hash: evaluation.source_hash.clone(),
            code_hash: evaluation.code_hash.clone(),
            problem: self.problem().to_string(),
            noise_floor: self.noise_floor,
            begun: now(),
        }
    }

    pub fn setup(&self) -> &DeviceSetup {
        self.bench.setup
    }

    /// The unharmed kernel's job and the problem that is timed.
    ///
    /// # Errors
    /// Never for a bench that was made by [`HarmBench::new`].
    pub fn unharmed_job(&self) -> Result<(&Job, &ProblemPlan), CliError> {
        let job = self.bench.job;
        let plan = job.timed.first().ok_or_else(|| CliError::harness("the job has no timed problem"))?;
        Ok((job, plan))
    }

    pub fn problem(&self) -> &str {
        self.bench.job.timed.first().map_or("", |plan| &plan.name)
    }

    pub fn noise_floor(&self) -> Option<f64> {
        self.noise_floor
    }

    /// The candidate with a dose put into its kernel and its configuration; the inner error says why that cannot be done.
    fn harmed(&self, dose: &Dose) -> Result<Result<ResolvedCandidate, String>, CliError> {
        let one = self.one;
        let access = one.run.access.access();
        let mut harmed = candidate::resolve(&one.words, &one.candidate, &one.run.device, access)?;
        one.add_grid(&mut harmed.file);
        let Some(kernel) = harmed.file.kernel.as_mut() else {
            return Ok(Err("the space has no kernel".to_string()));
        };
        if let Err(why) = apply(kernel, &dose.change) {
            return Ok(Err(why));
        }
        let set: BTreeMap<&str, &Value> =
            dose.set.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let pair = |(name, value): (&str, &Value)| {
            (Arc::from(name), set.get(name).map_or(value, |other| *other).clone())
        };
        let configuration = Configuration::new(harmed.configuration.iter().map(pair).collect());
        let Some(genome) = harmed.file.space.genome(&configuration) else {
            return Ok(Err(format!("`{configuration}` is not a point of this space")));
        };
        Ok(Ok(ResolvedCandidate { configuration, genome, ..harmed }))
    }

    /// Judges a harmed copy and compares it with the unharmed kernel; the inner error says why that cannot be done. One that
    /// `lightens` may be wrong.
    pub fn measure(&mut self, dose: &Dose, lightens: bool) -> Result<Result<HarmedCopy, String>, CliError> {
        let ResolvedCandidate { file, genome, configuration, .. } = match self.harmed(dose)? {
            Ok(harmed) => harmed,
            Err(why) => return Ok(Err(why)),
        };
        let mut found = InvertDose {
            diagnostic: DiagnosticFlag,
            dose: dose.amount,
            unit: String::new(),
            what: dose.shown.clone(),
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            verdict: String::new(),
            changed: None,
            code_hash: None,
        };
        if let Some(refused) = single::constraint_verdict(&file.space, &configuration) {
            found.verdict = refused.verdict.label();
            return Ok(Ok(HarmedCopy { dose: found, job: None }));
        }
        let kernel = session::kernel_of(&file)?;
        let Bench { setup, lane, seed, .. } = &mut *self.bench;
        let problems = session::problems(kernel, setup.choice.kind, &self.one.problems)?;
        let recipe = session::recipe(kernel, &problems, setup, lane, *seed)?;
        let compiled = single::job(&recipe, genome, configuration, false, |prepared| {
            judge::compile(self.bench.setup, prepared)
        })?;
        let (begun, job) = match compiled {
            Ok(ready) => ready,
            Err(refused) => {
                found.verdict = refused.verdict.label();
                return Ok(Ok(HarmedCopy { dose: found, job: None }));
            }
        };
        // The gates alone: the comparison times it.
        let judged = begun.judged(self.bench.lane.evaluate(&job.gates_only(), &Standing::default()));
        if judged.lost {
            return Err(CliError::device("the device was lost while a harmed variant was judged"));
        }
        found.verdict = judged.evaluation.verdict.label();
        found.changed = Some(self.differs(&judged, &job));
        found.code_hash.clone_from(&judged.evaluation.code_hash);
        let verdict = &judged.evaluation.verdict;
        let is_wrong = verdict.kind.class() == VerdictClass::Wrong;
        if found.has_changed() && (verdict.is_pass() || lightens && is_wrong) {
            self.compare(&job, &mut found);
        }
        let job = found.ratio.is_some().then_some(job);
        Ok(Ok(HarmedCopy { dose: found, job }))
    }

    /// Whether machine code or launches are others than the unharmed kernel's.
    fn differs(&self, judged: &Single, job: &Job) -> bool {
        let code = judged.evaluation.code_hash != self.bench.single.evaluation.code_hash;
        let plan = job.timed.first();
        let own = plan.map_or(&[][..], |plan| attributes_of(&judged.attributes, job, plan));
        let resident = |all: &[EntryAttributes]| -> Vec<Option<u32>> {
            all.iter().map(|own| own.blocks_per_multiprocessor).collect()
        };
        code || resident(own) != resident(&self.attributes)
    }

    fn compare(&mut self, job: &Job, found: &mut InvertDose) {
        let rivals = Rivals {
            baseline: self.bench.job.clone(),
            finalist: job.clone(),
            problems: vec![0],
            noise_floor: self.noise_floor.unwrap_or(0.0),
            within: Some(Duration::ZERO),
        };
        match Evaluate::pair(self.bench.lane, &rivals).into_iter().next() {
            Some(Ok(pair)) => {
                found.ratio = Some(pair.ratio);
                found.ratio_low = Some(pair.ratio_low);
                found.ratio_high = Some(pair.ratio_high);
            }
            Some(Err(why)) => found.verdict = format!("not compared: {why}"),
            None => found.verdict = "not compared".to_string(),
        }
    }
}

/// An open journal, or why there is none.
pub struct HarmJournal {
    beside: UnharmedVariant,
    open: Result<DiagnosticJournal, String>,
    place: String,
}

impl HarmJournal {
    /// The journal of the study that names the candidate, or of the one that a sweep of its kernel would begin with.
    /// Where no study has begun, or another process writes to it, harmed copies are in no journal.
    pub fn open(
        arguments: &InvertArgs,
        call: &Call,
        bench: &HarmBench<'_, '_>,
    ) -> Result<HarmJournal, CliError> {
        let (kernel, device) = (&bench.kernel()?.name, bench.facts().device);
        let of = (kernel.as_str(), device.kind.as_str());
        let folder = candidate_folder::open(&arguments.one.candidate, of, &call.facts());
        let folder = folder.map_err(|(path, error)| format!("cannot open `{}`: {error}", path.display()));
        let place = folder.as_ref().map_or(String::new(), |own| own.place(JOURNAL).display().to_string());
        let open = folder.and_then(|folder| {
            DiagnosticJournal::open(&folder, kernel, device).map_err(|error| error.to_string())
        });
        Ok(HarmJournal { beside: bench.unharmed(), open, place })
    }

    /// Appends a harmed copy. A journal that cannot be written ends nothing: rows and files have it too.
    pub fn keep(&mut self, row: &InvertRow, lightens: bool, dose: &InvertDose) {
        let Ok(journal) = &mut self.open else { return };
        let one = DiagnosticVariant {
            beside: self.beside.clone(),
            pathology: row.pathology.clone(),
            resource: row.resource.clone(),
            lightens,
            dose: dose.clone(),
            at: now(),
        };
        if let Err(error) = journal.record(one) {
            self.open = Err(error.to_string());
        }
    }

    /// Where all of them are, or why they are not.
    pub fn kept(&self) -> Result<String, String> {
        self.open.as_ref().map(|_| self.place.clone()).map_err(String::clone)
    }
}
