//! JSON Schemas of what evo writes for other programs, derived from the types. The committed files under
//! `docs/` must equal them; the test below says how to update them.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, json_schema};

use crate::crosscheck::{CrosscheckLine, CrosscheckRequest, CrosscheckRow};
use crate::envelope::CommandEnvelope;
use crate::evaluation::Evaluation;
use crate::export::ExportManifest;
use crate::invert::InvertRow;
use crate::leaderboard::Leaderboard;
use crate::micro::MicroRanking;

/// The schema of `leaderboard.json`.
pub fn leaderboard() -> Schema {
    of::<Leaderboard>("evo.leaderboard.v1", "evo leaderboard")
}

/// The schema of an evaluation, as journals, `gen-NNN.json` and `--json` events hold it.
pub fn evaluation() -> Schema {
    of::<Evaluation>("evo.evaluation.v1", "evo evaluation")
}

/// The schema of `invert-<hash>.json`: an array of rows.
pub fn invert() -> Schema {
    of::<Vec<InvertRow>>("evo.invert.v1", "what harming a kernel costs it")
}

/// The schema of `crosscheck.json`: an array of rows.
pub fn crosscheck() -> Schema {
    of::<Vec<CrosscheckRow>>("evo.crosscheck-file.v1", "what other clocks and checks say of a candidate")
}

/// The schema of what a harness is asked.
pub fn crosscheck_request() -> Schema {
    of::<CrosscheckRequest>("evo.crosscheck-request.v1", "evo to a harness")
}

/// The schema of what a harness answers, a line.
pub fn crosscheck_line() -> Schema {
    of::<CrosscheckLine>("evo.crosscheck-line.v1", "a harness to evo, a line")
}

/// The schema of `micro_best.json`.
pub fn micro() -> Schema {
    of::<MicroRanking>("evo.micro-best.v1", "evo micro ranking")
}

/// The schema of an export's `manifest.json`.
pub fn export_manifest() -> Schema {
    of::<ExportManifest>("evo.export-manifest.v1", "evo export manifest")
}

/// The schema of the fields that the object of every command has.
pub fn envelope() -> Schema {
    of::<CommandEnvelope>("evo.envelope.v1", "evo envelope")
}

/// The schema of a type as it is written (not: as it may be read).
fn of<T: JsonSchema>(id: &str, title: &str) -> Schema {
    let derived = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let mut schema = json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": id,
        "title": title,
    });
    for (key, value) in derived.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "$schema" | "title") {
            schema.insert(key.clone(), value.clone());
        }
    }
    RecursiveTransform(unwrapped).transform(&mut schema);
    schema
}

/// Doc comments are wrapped for the source; a description is one line a paragraph.
fn unwrapped(schema: &mut Schema) {
    if let Some(text) = schema.get("description").and_then(|text| text.as_str()) {
        let paragraphs: Vec<String> = text.split("\n\n").map(|one| one.replace('\n', " ")).collect();
        schema.insert("description".to_string(), paragraphs.join("\n\n").into());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::{bench_schema, command_schemas, request_schemas, stream_schemas};

    /// Compares a derived schema with the committed one; writes it where EVO_UPDATE_SCHEMAS=1.
    #[track_caller]
    fn check(schema: &Schema, path: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        let derived = format!("{:#}\n", schema.as_value());
        if std::env::var_os("EVO_UPDATE_SCHEMAS").is_some_and(|value| value == "1") {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &derived).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == derived,
            "`{}` is not what the types say; if the types changed on purpose, update it with\n\
             EVO_UPDATE_SCHEMAS=1 cargo test -p evo-protocol schema",
            path.display()
        );
    }

    #[test]
    fn the_committed_schemas_are_those_of_the_types() {
        check(&leaderboard(), "docs/leaderboard.schema.json");
        check(&evaluation(), "docs/schemas/evaluation.schema.json");
        check(&envelope(), "docs/schemas/envelope.schema.json");
        check(&invert(), "docs/schemas/invert-file.schema.json");
        check(&crosscheck(), "docs/schemas/crosscheck-file.schema.json");
        check(&crosscheck_request(), "docs/schemas/crosscheck-request.schema.json");
        check(&crosscheck_line(), "docs/schemas/crosscheck-line.schema.json");
        check(&micro(), "docs/schemas/micro-best.schema.json");
        check(&export_manifest(), "docs/schemas/export-manifest.schema.json");
        check(&request_schemas::request(), "docs/schemas/evaluate-request.schema.json");
        check(&request_schemas::answer(), "docs/schemas/evaluate-answer.schema.json");
        check(&bench_schema::bench_file(), "docs/schemas/bench-file.schema.json");
        check(&stream_schemas::sweep_event(), "docs/schemas/sweep-event.schema.json");
        check(&stream_schemas::study(), "docs/schemas/study.schema.json");
        for (command, schema) in command_schemas::commands() {
            check(&schema, &format!("docs/schemas/{command}.schema.json"));
        }
    }
}
