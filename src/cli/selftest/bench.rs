//! A kernel, its compilers and a lane: what the self-tests need to judge one configuration.

use evo_device::device::Device;
use evo_device::open::open;
use evo_protocol::binary::{HEADER_END, KernelSource};
use evo_protocol::envelope::ErrorCode;
use evo_protocol::verdict::Verdict;
use evo_space::genome::{Configuration, ContentHash};
use evo_space::value::Value;

use crate::cli::{CliError, DeviceSetup, device_lane, session};
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
    ) -> Result<SelftestBench<'a>, CliError> {
        let kernel = session::kernel_of(file)?;
        let lane = device_lane::lane(&DeviceSetup { limits, ..setup.clone() }, Some(kernel))?;
        let problems = session::problems(kernel, setup.choice.kind, &[])?;
        let recipe = session::recipe(kernel, &problems, setup, lane.info(), seed)?;
        Ok(SelftestBench { file, recipe, setup, lane })
    }

    pub fn file(&self) -> &'a SpaceFile {
        self.file
    }

    /// The default configuration with some values changed.
    pub fn configuration(&self, changes: &[(&str, Value)]) -> Configuration {
        let space = &self.file.space;
        space.configuration(&space.default_genome()).with(changes)
    }

    /// The default configuration of a space of faults with this one.
    pub fn with_fault(&self, fault: &str) -> Configuration {
        self.configuration(&[("FAULT", Value::from(fault))])
    }

    /// Compiles a configuration into a job, by these compilers. The inner error is the variant's own verdict.
    pub fn job_by(
        &self,
        farm: &FarmOptions,
        configuration: &Configuration,
        deep: bool,
    ) -> Result<Result<Job, Box<Verdict>>, CliError> {
        let genome = self
            .file
            .space
            .genome(configuration)
            .ok_or_else(|| CliError::harness("a value is not one of the parameter's"))?;
        let compile = |prepared: &PreparedKernel| -> Result<_, CliError> {
            let all = prepared.sources.iter().map(|source| compile_one(farm, source.clone()));
            // The first failure stands for all.
            Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().collect())
        };
        let job = single::job(&self.recipe, genome, configuration.clone(), deep, compile)?;
        Ok(job.map(|(_, job)| job).map_err(|refused| Box::new(refused.verdict)))
    }

    pub fn job(
        &self,
        configuration: &Configuration,
        deep: bool,
    ) -> Result<Result<Job, Box<Verdict>>, CliError> {
        self.job_by(&self.setup.farm, configuration, deep)
    }
}

/// Opens the device in this process, for checks that call it themselves.
pub fn open_device(setup: &DeviceSetup) -> Result<Box<dyn Device>, CliError> {
    let cubin = device_lane::support_cubin(setup)?;
    open(&setup.choice.spec, cubin.as_deref(), device_lane::rooms(setup.sandbox)?)
        .map_err(|error| CliError::environment(error.to_string()).with_code(ErrorCode::NoDevice))
}

/// Compiles kernels that checks launch: their image, which has the hash of their text as that of its variant.
pub fn probe_image(
    setup: &DeviceSetup,
    text: &str,
    entries: Vec<String>,
) -> Result<(Vec<u8>, ContentHash), CliError> {
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
