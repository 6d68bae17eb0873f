//! A space with the arguments that ask about it.

use evo_space::genome::{Configuration, Genome};
use evo_space::space::SearchSpace;

use crate::cli::call::Call;
use crate::cli::error::CliError;
use crate::cli::space_args::SpaceArgs;
use crate::cli::words;
use crate::kernel::spec::ReplacedDefault;

pub struct SpaceInquiry<'a> {
    pub arguments: &'a SpaceArgs,
    pub call: &'a Call,
    pub name: &'a str,
    pub space: &'a SearchSpace,
    /// From the name to the index being ready.
    pub seconds: f64,
    pub reference: Option<String>,
    /// What the default was, where the file states one that is not valid.
    pub replaced: Option<&'a ReplacedDefault>,
    pub warnings: Vec<String>,
}

impl SpaceInquiry<'_> {
    /// Parameters that are not given take their default.
    pub fn point(&self, values: &[String]) -> Result<(Configuration, Genome), CliError> {
        words::point(self.space, self.name, values).map_err(|message| words::bad_point(message, self.name))
    }

    /// The values of `--fix`: parameters and value positions.
    pub fn fixed(&self) -> Result<Vec<(usize, u16)>, CliError> {
        words::assignments(self.space.parameters(), &self.arguments.fix)
            .map_err(|message| words::bad_point(message, self.name))
    }
}
