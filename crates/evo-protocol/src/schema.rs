//! JSON Schemas of what evo writes for other programs, derived from the types; `evo explain --schema NAME` prints one.

use schemars::Schema;

use crate::crosscheck::{CrosscheckLine, CrosscheckRequest, CrosscheckRow};
use crate::evaluation::Evaluation;
use crate::export::ExportManifest;
use crate::invert::InvertRow;
use crate::leaderboard::Leaderboard;
use crate::micro::MicroRanking;
use crate::schema_forms::{envelope, of};
use crate::{bench_schema, command_schemas, request, stream_schemas};

type MakeSchema = fn() -> Schema;

/// What has a schema beside the objects of commands, with what gives it.
const FILES: &[(&str, MakeSchema)] = &[
    ("leaderboard-file", || of::<Leaderboard>("evo.leaderboard.v1", "evo leaderboard")),
    ("evaluation", || of::<Evaluation>("evo.evaluation.v1", "evo evaluation")),
    ("envelope", envelope),
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
    ("bench-file", bench_schema::bench_file),
    ("sweep-event", stream_schemas::sweep_event),
    ("study", stream_schemas::study),
];

/// Everything that has a schema: files, lines of streams, and the object of each command.
pub fn names() -> Vec<&'static str> {
    let files = FILES.iter().map(|(name, _)| *name);
    files.chain(command_schemas::commands().into_iter().map(|(name, _)| name)).collect()
}

/// The schema of that name.
pub fn named(name: &str) -> Option<Schema> {
    let file = FILES.iter().find(|(file, _)| *file == name).map(|(_, schema)| schema());
    file.or_else(|| {
        command_schemas::commands().into_iter().find(|(own, _)| *own == name).map(|(_, schema)| schema)
    })
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
