//! The question that a command line asks of `evo space`: one at a time, with the options that belong to it.

use crate::cli::error::CliError;
use crate::cli::space_args::{RowFormat, SpaceArgs};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SpaceQuestion<'a> {
    Summary,
    Sample(usize),
    Check(&'a [String]),
    Neighbors(&'a [String]),
    List,
}

impl<'a> SpaceQuestion<'a> {
    /// Options that do not go together are refused.
    pub fn of(arguments: &'a SpaceArgs) -> Result<SpaceQuestion<'a>, CliError> {
        let asked = [
            arguments.sample.map(|count| ("--sample", SpaceQuestion::Sample(count))),
            arguments.check.as_ref().map(|values| ("--check", SpaceQuestion::Check(values))),
            arguments.neighbors.as_ref().map(|values| ("--neighbors", SpaceQuestion::Neighbors(values))),
            arguments.list.then_some(("--list", SpaceQuestion::List)),
        ];
        let mut asked = asked.into_iter().flatten();
        let request = match (asked.next(), asked.next()) {
            (None, _) => SpaceQuestion::Summary,
            (Some((_, only)), None) => only,
            (Some((first, _)), Some((second, _))) => {
                let hint = "ask one thing at a time, in two commands";
                return Err(together(first, second, hint));
            }
        };
        arguments.belongs(request)?;
        Ok(request)
    }
}

impl SpaceArgs {
    fn belongs(&self, request: SpaceQuestion) -> Result<(), CliError> {
        let sample = matches!(request, SpaceQuestion::Sample(_));
        let neighbors = matches!(request, SpaceQuestion::Neighbors(_));
        let list = request == SpaceQuestion::List;
        let needs = [
            ("--stratified", self.stratified, sample, "--sample"),
            ("--fix", !self.fix.is_empty(), sample || list, "--sample or --list"),
            ("--kind", self.kind.is_some(), neighbors, "--neighbors"),
            ("--format", self.format.is_some(), list, "--list"),
            ("--limit", self.limit.is_some(), list || neighbors, "--list or --neighbors"),
            ("--offset", self.offset.is_some(), list, "--list"),
        ];
        for (option, given, fits, wanted) in needs {
            if given && !fits {
                let wanted = wanted.replace(" or ", "` or `");
                return Err(CliError::usage(format!("`{option}` has no effect here"))
                    .with_hint(format!("it belongs to `{wanted}`")));
            }
        }
        if self.stratified && !self.fix.is_empty() {
            let hint = "a sample with fixed values is always uniform: leave out `--stratified`";
            return Err(together("--stratified", "--fix", hint));
        }
        if self.json && list && self.format.is_some_and(|format| format != RowFormat::Jsonl) {
            return Err(together("--json", "--format", "`--list --json` prints a JSON object a line"));
        }
        Ok(())
    }
}

fn together(first: &str, second: &str, hint: &str) -> CliError {
    CliError::usage(format!("`{first}` and `{second}` do not go together")).with_hint(hint)
}
