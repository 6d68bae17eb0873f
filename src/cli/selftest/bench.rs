//! A kernel, its compilers and a lane: what the self-tests need to judge one configuration.

use std::sync::Arc;

use anyhow::Context;
use evo_protocol::verdict::Verdict;
use evo_space::genome::Configuration;
use evo_space::value::Value;

use crate::cli::session::{self, Place};
use crate::compile::compile_one;
use crate::engine::recipe::{KernelRecipe, PreparedKernel};
use crate::engine::single;
use crate::kernel::spec::SpaceFile;
use crate::supervise::job::{Job, Judgement, Standing};
use crate::supervise::lane::Lane;

/// One kernel on one device.
pub struct Bench<'a> {
    file: &'a SpaceFile,
    recipe: KernelRecipe<'a>,
    place: &'a Place,
    /// The device's lane.
    pub lane: Lane,
}

impl<'a> Bench<'a> {
    /// Starts a lane for a space file that has a kernel.
    pub fn start(file: &'a SpaceFile, place: &'a Place, seed: u64) -> anyhow::Result<Bench<'a>> {
        let kernel = session::kernel_of(file)?;
        let lane = session::lane(place, None)?;
        let problems = session::problems(kernel, place.choice.kind, &[])?;
        let recipe = session::recipe(kernel, &problems, place, &lane, seed)?;
        Ok(Bench { file, recipe, place, lane })
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
        let genome =
            self.file.space.genome(configuration).context("a value is not one of the parameter's")?;
        let compile = |prepared: &PreparedKernel| {
            compile_one(&self.place.farm, prepared.source.clone()).map_err(session::setup_error)
        };
        let job = single::job(&self.recipe, genome, configuration.clone(), deep, compile)?;
        Ok(job.map(|(_, job)| job).map_err(|refused| Box::new(refused.verdict)))
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
    ) -> anyhow::Result<(Verdict, Option<Judgement>)> {
        match self.job(configuration, deep)? {
            Err(verdict) => Ok((*verdict, None)),
            Ok(job) => {
                let result = self.lane.evaluate(&job, standing);
                Ok((result.verdict.clone(), Some(result)))
            }
        }
    }
}
