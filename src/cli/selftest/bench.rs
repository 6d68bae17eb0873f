//! A kernel, its compilers and a lane: what the self-tests need to judge one configuration.

use std::sync::Arc;

use anyhow::Context;

use crate::compile::compiler::Binary;
use crate::compile::farm::{FarmOptions, compile_one};
use crate::compile::support;
use crate::device::cuda::SUPPORT_SOURCE;
use crate::device::device::DeviceKind;
use crate::device::probe::DeviceChoice;
use crate::engine::ports::{Build, Prepared, Recipe};
use crate::engine::recipe::{KernelRecipe, problems_on};
use crate::genome::Configuration;
use crate::kernel::render::render_reference;
use crate::kernel::spec::{KernelSpec, SpaceFile};
use crate::space::value::Value;
use crate::verdict::Verdict;
use crate::worker::job::{Job, Standing};
use crate::worker::lane::{Lane, LaneOptions, LaneResult};

/// One kernel on one device.
pub struct Bench<'a> {
    file: &'a SpaceFile,
    recipe: KernelRecipe<'a>,
    farm: FarmOptions,
    /// The device's lane.
    pub lane: Lane,
}

/// How to start a lane on a device, its helper kernels compiled first.
///
/// # Errors
/// There is no compiler for the device, or the cache cannot be written.
pub fn lane_options(choice: &DeviceChoice, farm: &FarmOptions) -> anyhow::Result<LaneOptions> {
    let support_cubin = match choice.kind {
        DeviceKind::Cuda => Some(support::cubin(&choice.arch, SUPPORT_SOURCE, &farm.cache)?),
        DeviceKind::Host => None,
    };
    Ok(LaneOptions { command: None, device: choice.spec.clone(), cache: farm.cache.clone(), support_cubin })
}

/// Compiles a kernel's naive reference, if that is how it is checked.
fn reference_of(kernel: &KernelSpec, farm: &FarmOptions) -> anyhow::Result<Option<(Binary, Vec<String>)>> {
    let Some(source) = render_reference(kernel) else { return Ok(None) };
    let entries = source.entries.clone();
    let binary = compile_one(farm, source)?
        .map_err(|verdict| anyhow::anyhow!("the reference kernel does not compile: {}", verdict.message))?;
    Ok(Some((binary, entries)))
}

impl<'a> Bench<'a> {
    /// Starts a lane for a space file that has a kernel.
    pub fn start(file: &'a SpaceFile, choice: &DeviceChoice, seed: u64) -> anyhow::Result<Bench<'a>> {
        let kernel = file.kernel.as_ref().context("the space has no kernel")?;
        let farm = FarmOptions::new(choice.kind, &choice.arch);
        let lane = Lane::start(lane_options(choice, &farm)?)?;
        let reference = reference_of(kernel, &farm)?;
        let problems = problems_on(kernel, choice.kind);
        let recipe = KernelRecipe::new(kernel, lane.info().limits.clone(), &problems, reference, seed);
        Ok(Bench { file, recipe, farm, lane })
    }

    /// The default configuration with some values changed.
    pub fn configuration(&self, changes: &[(&str, Value)]) -> Configuration {
        let pairs = self.file.space.parameters().iter().map(|parameter| {
            let change = changes.iter().find(|(name, _)| *name == &*parameter.name);
            (
                Arc::clone(&parameter.name),
                change.map_or(parameter.default_value(), |(_, value)| value).clone(),
            )
        });
        Configuration::new(pairs.collect())
    }

    /// Compiles a configuration into a job. The inner error is the variant's own verdict.
    ///
    /// # Errors
    /// The compilers cannot be used.
    pub fn job(
        &self,
        configuration: &Configuration,
        deep: bool,
    ) -> anyhow::Result<Result<Job, Box<Verdict>>> {
        let prepared: Prepared = match self.recipe.prepare(configuration) {
            Ok(prepared) => prepared,
            Err(refused) => return Ok(Err(refused.verdict)),
        };
        let binary = match compile_one(&self.farm, prepared.source.clone())? {
            Ok(binary) => binary,
            Err(verdict) => return Ok(Err(verdict)),
        };
        let build = Build {
            number: 0,
            label: configuration.to_string(),
            binary: &binary,
            variant_hash: prepared.source.variant_hash.clone(),
            deep,
        };
        Ok(self.recipe.job(&prepared, build).map_err(|refused| refused.verdict))
    }

    /// Takes a configuration through everything; what never reached the device has no lane result.
    ///
    /// # Errors
    /// The compilers cannot be used.
    pub fn judge(
        &mut self,
        configuration: &Configuration,
        standing: &Standing,
        deep: bool,
    ) -> anyhow::Result<(Verdict, Option<LaneResult>)> {
        match self.job(configuration, deep)? {
            Err(verdict) => Ok((*verdict, None)),
            Ok(job) => {
                let result = self.lane.evaluate(&job, standing);
                Ok((result.verdict.clone(), Some(result)))
            }
        }
    }
}
