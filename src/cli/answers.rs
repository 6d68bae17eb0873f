//! By name, the JSON Schema of everything that evo writes for programs: files and lines of streams, and the object of each
//! command with `--json`. Each is derived from the type that is written.

use evo_protocol::bench::BenchReport;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::export::ExportManifest;
use evo_protocol::invert::InvertRow;
use evo_protocol::leaderboard::Leaderboard;
use evo_protocol::micro::MicroRanking;
use evo_protocol::request;
use evo_protocol::schema::{self, of};
use evo_space::document::suggestion;
use schemars::{JsonSchema, Schema, json_schema};

use super::bench::BenchAnswer;
use super::cache::CacheAnswer;
use super::compile::{CompiledAnswer, CompiledMany};
use super::crosscheck::CrosscheckAnswer;
use super::explain::Explained;
use super::export::{Exported, NotExported};
use super::history::Restored;
use super::init::Drawn;
use super::invert::InvertAnswer;
use super::micro::MicroAnswer;
use super::preflight::PreflightAnswer;
use super::render::Rendered;
use super::report::Reported;
use super::selftest::SelftestAnswer;
use super::space::{RowsAnswer, SpaceJson};
use super::sweep::SweepAnswer;
use super::{Answer, CliError, ExitCode, Result, output};
use crate::event::Event;
use crate::peer::CrosscheckRequest;
use crate::report::crosscheck::{CrosscheckLine, CrosscheckRow};
use crate::report::envelope::ResultAlone;
use crate::report::gate::GateAnswer;
use crate::report::history::{HistoryResult, SummaryResult};
use crate::report::json::StudyFile;
use crate::report::judged::{BenchmarkAnswer, EvaluateAnswer, VerdictAnswer};
use crate::report::profile::ProfileAnswer;
use crate::report::sanitize::SanitizeResult;

/// The command of an object where the command line names none that prints JSON: always an error.
pub const UNKNOWN: &str = "unknown";

type MakeSchema = fn() -> Schema;

/// Files and lines of streams.
const FILES: &[(&str, MakeSchema)] = &[
    ("leaderboard-file", || of::<Leaderboard>("evo.leaderboard.v1", "evo leaderboard")),
    ("evaluation", || of::<Evaluation>("evo.evaluation.v1", "evo evaluation")),
    ("envelope", schema::envelope),
    ("invert-file", || of::<Vec<InvertRow>>("evo.invert.v1", "what harming a kernel costs it")),
    ("crosscheck-file", || {
        of::<Vec<CrosscheckRow>>("evo.crosscheck-file.v1", "what other clocks and checks say of a candidate")
    }),
    ("crosscheck-request", || of::<CrosscheckRequest>("evo.crosscheck-request.v1", "evo to a harness")),
    ("crosscheck-line", || of::<CrosscheckLine>("evo.crosscheck-line.v1", "a harness to evo, a line")),
    ("micro-best", || of::<MicroRanking>("evo.micro-best.v1", "evo micro ranking")),
    ("export-manifest", || of::<ExportManifest>("evo.export-manifest.v1", "evo export manifest")),
    ("evaluate-request", request::request),
    ("evaluate-answer", request::answer),
    ("bench-file", || of::<BenchReport>("evo.bench.file.v1", "bench.json of `evo bench`")),
    // The last line of the stream is the command's object, which has a schema of its own.
    ("sweep-event", || of::<Event>("evo.sweep-event.v1", "evo sweep --json, a line")),
    ("study", || of::<StudyFile>("evo.study.v1", "evo study")),
];

/// What an answer has beside the envelope, command by command.
const ANSWERS: &[(&str, MakeSchema)] = &[
    ("test-one", fields::<VerdictAnswer>),
    ("test", fields::<VerdictAnswer>),
    ("benchmark", fields::<BenchmarkAnswer>),
    ("evaluate", fields::<EvaluateAnswer>),
    ("profile", fields::<OneOf<ProfileAnswer, VerdictAnswer>>),
    ("invert", fields::<OneOf<InvertAnswer, VerdictAnswer>>),
    ("crosscheck", fields::<OneOf<CrosscheckAnswer, VerdictAnswer>>),
    ("bench", fields::<BenchAnswer>),
    ("micro", fields::<MicroAnswer>),
    ("sanitize", fields::<ResultAlone<SanitizeResult>>),
    ("gate", fields::<ResultAlone<GateAnswer>>),
    ("build", fields::<CompiledAnswer>),
    ("cache", fields::<CacheAnswer>),
    ("compile", fields::<OneOf<CompiledAnswer, CompiledMany>>),
    ("explain", fields::<Explained>),
    ("export", fields::<OneOf<ResultAlone<Exported>, NotExported>>),
    ("import", fields::<ResultAlone<Drawn>>),
    ("init", fields::<ResultAlone<Drawn>>),
    ("leaderboard", fields::<Leaderboard>),
    ("preflight", fields::<PreflightAnswer>),
    ("render", fields::<Rendered>),
    ("history", fields::<ResultAlone<HistoryResult>>),
    ("report", fields::<ResultAlone<Reported>>),
    ("selftest", fields::<SelftestAnswer>),
    ("summary", fields::<ResultAlone<SummaryResult>>),
    ("restore", fields::<ResultAlone<Restored>>),
    ("space", fields::<OneOf<SpaceJson, RowsAnswer>>),
    ("sweep", fields::<SweepAnswer>),
    (UNKNOWN, || json_schema!({})),
];

fn fields<T: JsonSchema>() -> Schema {
    of::<T>("", "")
}

/// A command that has one of two answers.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is of use")]
enum OneOf<A, B> {
    One(A),
    Other(B),
}

pub fn commands() -> impl Iterator<Item = &'static str> {
    ANSWERS.iter().map(|(name, _)| *name)
}

pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).chain(commands()).collect()
}

pub fn command(name: &str) -> Option<Schema> {
    let typed = ANSWERS.iter().find(|(command, _)| *command == name);
    typed.map(|(name, fields)| schema::command(name, &fields()))
}

pub fn named(name: &str) -> Option<Schema> {
    let file = FILES.iter().find(|(file, _)| *file == name);
    file.map(|(_, schema)| schema()).or_else(|| command(name))
}

pub fn print(name: &str) -> Result<Answer> {
    let Some(schema) = named(name) else {
        let names = names();
        let hint = suggestion(name, names.iter().copied(), || format!("there are {}", names.join(", ")));
        return Err(CliError::usage(format!("there is no schema `{name}`")).with_hint(hint));
    };
    output::stdout(&format!("{:#}\n", schema.as_value()))?;
    Ok(ExitCode::Done.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_schema_with_an_id() {
        let mut names = names();
        assert!(names.iter().all(|name| named(name).is_some_and(|schema| schema.get("$id").is_some())));
        assert!(names.contains(&"leaderboard-file") && names.contains(&"sweep"));
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        assert!(named("nothing").is_none());
    }
}
