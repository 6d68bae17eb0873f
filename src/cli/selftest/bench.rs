//! What self-tests are made of: a kernel, its compilers and a lane to judge one configuration, and named checks with their
//! answers.

use evo_device::device::Device;
use evo_device::open::open;
use evo_protocol::binary::{HEADER_END, KernelSource};
use evo_protocol::envelope::ErrorCode;
use evo_protocol::verdict::Verdict;
use evo_space::genome::{Configuration, ContentHash};
use evo_space::value::Value;
use serde::Serialize;
use serde_json::Map;

use crate::cli::{CliError, DeviceSetup, Result, output, session};
use crate::compile::{FarmOptions, compile_one};
use crate::engine::prepared::PreparedKernel;
use crate::engine::recipe::KernelRecipe;
use crate::engine::single;
use crate::kernel::spec::SpaceFile;
use crate::supervise::job::Job;
use crate::supervise::lane::{Lane, LaneLimits};

pub struct SelftestBench<'a> {
    file: &'a SpaceFile,
    recipe: KernelRecipe<'a>,
    setup: &'a DeviceSetup,
    pub lane: Lane,
}

impl<'a> SelftestBench<'a> {
    pub fn start(
        file: &'a SpaceFile,
        setup: &'a DeviceSetup,
        seed: u64,
        limits: LaneLimits,
    ) -> Result<SelftestBench<'a>> {
        let kernel = session::kernel_of(file)?;
        let lane = session::lane(&DeviceSetup { limits, ..setup.clone() }, Some(kernel))?;
        let problems = session::problems(kernel, setup.choice.kind, &[])?;
        let recipe = session::recipe(kernel, &problems, setup, lane.info(), seed)?;
        Ok(SelftestBench { file, recipe, setup, lane })
    }

    pub fn file(&self) -> &'a SpaceFile {
        self.file
    }

    pub fn configuration(&self, changes: &[(&str, Value)]) -> Configuration {
        let space = &self.file.space;
        space.configuration(&space.default_genome()).with(changes)
    }

    pub fn with_fault(&self, fault: &str) -> Configuration {
        self.configuration(&[("FAULT", Value::from(fault))])
    }

    /// Compiles a configuration into a job, by these compilers. The inner error is the variant's own verdict.
    pub fn job_by(
        &self,
        farm: &FarmOptions,
        configuration: &Configuration,
        deep: bool,
    ) -> Result<Result<Job, Box<Verdict>>> {
        let genome = self
            .file
            .space
            .genome(configuration)
            .ok_or_else(|| CliError::harness("a value is not one of the parameter's"))?;
        let compile = |prepared: &PreparedKernel| -> Result<_> {
            let all = prepared.sources.iter().map(|source| compile_one(farm, source.clone()));
            // The first failure stands for all.
            Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().collect())
        };
        let job = single::job(&self.recipe, genome, configuration.clone(), deep, compile)?;
        Ok(job.map(|(_, job)| job).map_err(|refused| Box::new(refused.verdict)))
    }

    pub fn job(&self, configuration: &Configuration, deep: bool) -> Result<Result<Job, Box<Verdict>>> {
        self.job_by(&self.setup.farm, configuration, deep)
    }
}

/// Opens the device in this process, for checks that call it themselves.
pub fn open_device(setup: &DeviceSetup) -> Result<Box<dyn Device>> {
    let cubin = session::support_cubin(setup)?;
    open(&setup.choice.spec, cubin.as_deref(), session::rooms(setup.sandbox)?)
        .map_err(|error| CliError::environment(error.to_string()).with_code(ErrorCode::NoDevice))
}

/// Compiles kernels that checks launch: their image, which has the hash of their text as that of its variant.
pub fn probe_image(setup: &DeviceSetup, text: &str, entries: Vec<String>) -> Result<(Vec<u8>, ContentHash)> {
    let hash = ContentHash::of(text.as_bytes());
    let symbol = format!("extern \"C\" __device__ const char evo_variant_hash[] = \"{hash}\";\n");
    let text = format!("{symbol}{HEADER_END}{text}");
    let source =
        KernelSource { variant_hash: hash.clone(), ..KernelSource::plain("probes.cu", text, entries) };
    let binary = compile_one(&setup.farm, source)?.map_err(|verdict| {
        CliError::harness(format!("the probe kernels do not compile: {}", verdict.message))
    })?;
    Ok((std::fs::read(&binary.path)?, hash))
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct SelftestCheck {
    pub name: String,
    /// `None`: it did not run, and `message` says why. Never counts as passed.
    pub passed: Option<bool>,
    pub message: String,
    /// What else programs are told of it.
    #[serde(flatten)]
    pub details: Map<String, serde_json::Value>,
}

impl SelftestCheck {
    pub fn new(name: &str, passed: Option<bool>, message: impl Into<String>) -> SelftestCheck {
        SelftestCheck { name: name.into(), passed, message: message.into(), ..SelftestCheck::default() }
    }

    /// The same with what `details` serializes to, an object.
    pub fn with(mut self, details: &impl Serialize) -> SelftestCheck {
        if let Ok(serde_json::Value::Object(details)) = serde_json::to_value(details) {
            self.details.extend(details);
        }
        self
    }

    fn line(&self) -> String {
        let state = match self.passed {
            Some(true) => "pass   ",
            Some(false) => "FAIL   ",
            None => "not_run",
        };
        format!("{state} {:<24} {}\n", self.name, self.message)
    }
}

#[derive(Clone, Debug, Default)]
pub struct SelftestReport {
    pub checks: Vec<SelftestCheck>,
    /// Whether each is printed when it is known.
    pub is_live: bool,
}

impl SelftestReport {
    pub fn push(&mut self, check: SelftestCheck) {
        if self.is_live {
            // Where nobody reads, the exit code still says it.
            let _ = output::stdout(&check.line());
        }
        self.checks.push(check);
    }

    /// An error is a failed check.
    pub fn add(&mut self, name: &str, answer: Result<String, impl ToString>) {
        let passed = Some(answer.is_ok());
        self.push(SelftestCheck::new(name, passed, answer.unwrap_or_else(|error| error.to_string())));
    }

    pub fn skip(&mut self, name: &str, why: &str) {
        self.push(SelftestCheck::new(name, None, why));
    }

    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed != Some(false))
    }

    pub fn table(&self) -> String {
        self.checks.iter().map(SelftestCheck::line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_run_is_told_and_decides_nothing() {
        let mut report = SelftestReport::default();
        report.add("copy", Ok::<_, String>("3 sizes".into()));
        report.skip("race", "open: no checker");
        assert!(report.passed());
        let check = SelftestCheck::new("tail", Some(false), "left");
        report.push(check.with(&serde_json::json!({ "fault": 1 })));
        assert!(!report.passed());
        assert_eq!(serde_json::to_value(&report.checks[2]).unwrap()["fault"], 1);
        let table = "pass    copy                     3 sizes\nnot_run race                     open: no checker\n\
                     FAIL    tail                     left\n";
        assert_eq!(report.table(), table);
    }
}
