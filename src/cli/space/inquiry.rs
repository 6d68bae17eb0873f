//! A space with the arguments that ask about it.

use std::io::{self, BufWriter, Write};

use evo_space::genome::{Configuration, Genome};
use evo_space::space::SearchSpace;
use num_bigint::BigUint;
use serde_json::value::RawValue;

use crate::cli::call::Call;
use crate::cli::error::CliError;
use crate::cli::space_args::{RowFormat, SpaceArgs};
use crate::cli::{output, words};
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

pub fn grouped(number: &BigUint) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|chunk| std::str::from_utf8(chunk).ok()).collect();
    groups.join(",")
}

/// As a JSON number with all its digits.
pub fn raw(number: &BigUint) -> serde_json::Result<Box<RawValue>> {
    RawValue::from_string(number.to_string())
}

const MANY_LINES: u128 = 1_000_000;

const BUFFER: usize = 1 << 16;

/// A reader that has left (`| head`) is not an error and ends the writing. Each write must be whole lines, or whole
/// items of an open object, because with `--json` the call may end between any two.
pub fn stream(call: &Call, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    if call.is_json() {
        return output::written(write(&mut CallWriter(call)));
    }
    let mut stdout = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    output::written(write(&mut stdout).and_then(|()| stdout.flush()))
}

struct CallWriter<'a>(&'a Call);

impl Write for CallWriter<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.write(text).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn announce(count: &BigUint, what: &str, at_most: bool) {
    if *count > BigUint::from(MANY_LINES) {
        let at_most = if at_most { "at most " } else { "" };
        eprintln!("note: {at_most}{} {what} come; `--limit N` prints the first N", grouped(count));
    }
}

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
