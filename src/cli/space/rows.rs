//! `evo space --list`: every valid configuration, a line each; and `--neighbors`.

use std::io::{self, BufWriter, Write};

use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use evo_space::value::Value;
use num_bigint::BigUint;
use schemars::JsonSchema;
use serde::Serialize;

use super::json::{NeighborsJson, SpaceAnswer, raw};
use super::{NEIGHBOR_KINDS, RowFormat, SpaceInquiry, answer, grouped};
use crate::cli::{Answer, Call, ExitCode, Result, output};
use crate::report::csv::cell;

/// The last object of a stream of rows.
#[derive(Serialize, JsonSchema)]
pub struct RowsAnswer<'a> {
    space: &'a str,
    rows: u64,
}

/// With `--json` rows are objects, and the call's own object comes last.
pub fn print(inquiry: &SpaceInquiry) -> Result<Answer> {
    let usual = if inquiry.arguments.json { RowFormat::Jsonl } else { RowFormat::Csv };
    let table = RowTable::new(inquiry.space, inquiry.arguments.format.unwrap_or(usual))?;
    let fixed = inquiry.fixed()?;
    let space = if fixed.is_empty() { inquiry.space } else { &inquiry.space.fixed(&fixed) };
    let offset = inquiry.arguments.offset.unwrap_or(0);
    let limit = inquiry.arguments.rows.unwrap_or(u128::MAX);
    announce(&rows_in(offset, limit, space.valid()), "rows", !space.is_exact());
    // Indices with holes do not count rows: there the points before the offset are gone through.
    let genomes = match space.is_exact() {
        true => space.iter_from(offset),
        false => Box::new(space.iter().skip(usize::try_from(offset).unwrap_or(usize::MAX))),
    };
    let mut rows = 0;
    let genomes = genomes.take(usize::try_from(limit).unwrap_or(usize::MAX)).inspect(|_| rows += 1);
    stream(inquiry.call, |out| table.write(genomes, out))?;
    Ok(Answer::of(ExitCode::Done, &RowsAnswer { space: inquiry.name, rows }))
}

fn rows_in(offset: u128, limit: u128, valid: &BigUint) -> BigUint {
    let offset = BigUint::from(offset).min(valid.clone());
    (valid - offset).min(BigUint::from(limit))
}

/// Each value's text is made once: for each parameter and value position, with what stands before it in a row.
struct RowTable {
    header: Vec<u8>,
    close: &'static str,
    texts: Vec<Vec<Vec<u8>>>,
}

impl RowTable {
    fn new(space: &SearchSpace, format: RowFormat) -> Result<RowTable> {
        let (open, separator, close) = match format {
            RowFormat::Csv => ("", ",", "\n"),
            RowFormat::Jsonl => ("{", ",", "}\n"),
            RowFormat::Text => ("", " ", "\n"),
        };
        let mut header = Vec::new();
        let mut texts: Vec<Vec<Vec<u8>>> = Vec::new();
        for parameter in space.parameters() {
            let before = if texts.is_empty() { open } else { separator };
            let text = |value: &Value| -> Result<Vec<u8>> {
                let text = match format {
                    RowFormat::Csv => csv_field(&value.to_string())?,
                    RowFormat::Jsonl => {
                        let name = serde_json::to_string(&*parameter.name)?;
                        format!("{name}:{}", serde_json::to_string(value)?).into_bytes()
                    }
                    RowFormat::Text => format!("{}={value}", parameter.name).into_bytes(),
                };
                Ok([before.as_bytes(), &text].concat())
            };
            if format == RowFormat::Csv {
                header.extend([before.as_bytes(), &csv_field(&parameter.name)?].concat());
            }
            texts.push(parameter.values.iter().map(text).collect::<Result<_, _>>()?);
        }
        if format == RowFormat::Csv {
            header.push(b'\n');
        }
        Ok(RowTable { header, close, texts })
    }

    fn write(&self, genomes: impl Iterator<Item = Genome>, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.header)?;
        let mut line = Vec::new();
        for genome in genomes {
            line.clear();
            let cells = self.texts.iter().zip(genome.positions());
            cells.for_each(|(texts, at)| line.extend_from_slice(&texts[usize::from(*at)]));
            line.extend_from_slice(self.close.as_bytes());
            out.write_all(&line)?;
        }
        Ok(())
    }
}

fn csv_field(text: &str) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    writer.write_record([&*cell(text)]).map_err(io::Error::from)?;
    let mut field = writer.into_inner().map_err(|error| error.into_error())?;
    // The record's end.
    field.pop();
    Ok(field)
}

/// Neighbors that an object holds at most: it is written when all of them are found.
const MAX_IN_OBJECT: usize = 100_000;

/// The point need not be valid.
pub fn print_neighbors(inquiry: &SpaceInquiry, values: &[String]) -> Result<Answer> {
    let (of, genome) = inquiry.point(values)?;
    let space = inquiry.space;
    let kind = inquiry.arguments.kind.as_deref().unwrap_or(NEIGHBOR_KINDS[0].0);
    let found = NEIGHBOR_KINDS.iter().find(|(name, ..)| *name == kind);
    let neighborhood = found.map_or(Neighborhood::Hamming, |(.., neighborhood)| *neighborhood);
    if !space.contains(&genome) {
        eprintln!("note: the configuration itself is not valid; `evo space --check` says why");
    }
    let limit = inquiry.arguments.rows.unwrap_or(u128::MAX);
    // Where points have to be checked one by one, counting would mean to find them all first.
    let count = space.is_exact().then(|| space.neighbor_count(&genome, neighborhood));
    let neighbors = space.iter_neighbors(&genome, neighborhood);
    let neighbors = neighbors.take(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut configurations = neighbors.map(|genome| space.configuration(&genome));
    if !inquiry.arguments.json {
        if let Some(count) = count {
            announce(&count.min(limit.into()), "neighbors", false);
        }
        stream(inquiry.call, |out| configurations.try_for_each(|neighbor| writeln!(out, "{neighbor}")))?;
        return Ok(ExitCode::Done.into());
    }
    let points = configurations.by_ref().take(MAX_IN_OBJECT).collect();
    if configurations.next().is_some() {
        eprintln!("note: `--json` holds the first {}; without it all come", grouped(&MAX_IN_OBJECT.into()));
    }
    let kind = kind.to_string();
    let count = count.map(|count| raw(&count)).transpose()?;
    let neighbors = Some(NeighborsJson { of, kind, count, points });
    answer(inquiry, ExitCode::Done, SpaceAnswer { neighbors, ..SpaceAnswer::default() })
}

const MANY_LINES: u128 = 1_000_000;

fn announce(count: &BigUint, what: &str, at_most: bool) {
    if *count > BigUint::from(MANY_LINES) {
        let at_most = if at_most { "at most " } else { "" };
        eprintln!("note: {at_most}{} {what} come; `--rows N` prints the first N", grouped(count));
    }
}

const BUFFER: usize = 1 << 16;

/// A reader that has left (`| head`) is not an error and ends the writing. Each write must be whole lines, because with
/// `--json` the call may end between any two.
fn stream(call: &Call, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_fields_are_quoted_where_they_have_to_be() {
        let check = |text: &str, expected: &str| assert_eq!(csv_field(text).unwrap(), expected.as_bytes());
        check("two\nlines", "\"two\nlines\"");
        check("=1+1", "'=1+1");
        check("-1", "-1");
    }

    #[test]
    fn ranges_are_cut_at_the_end() {
        let check = |offset: u128, limit: u128, expected: u32| {
            let rows = rows_in(offset, limit, &BigUint::from(10u8));
            assert_eq!(rows, BigUint::from(expected), "{offset} {limit}");
        };
        check(0, u128::MAX, 10);
        check(3, 2, 2);
        check(8, 5, 2);
        check(12, 3, 0);
    }
}
