//! JSON Schemas of the objects that commands print with `--json`: the envelope, and beside it what a command says of its
//! own. Tests hold them to what the commands print.

use schemars::Schema;
use serde_json::{Value, json};

use crate::result_schemas::{self, of_types};

/// The fields of a command's object beside the envelope.
struct CommandFields {
    command: &'static str,
    version: u32,
    /// Name and types, `string|null` for example.
    fields: &'static [(&'static str, &'static str)],
    /// Unless `error` says why there is nothing: one of these sets of fields is there.
    answers: &'static [&'static [&'static str]],
}

const VERDICT: &[(&str, &str)] = &[
    ("verdict", "string"),
    ("cause", "string|null"),
    ("message", "string"),
    ("evidence", "object"),
    ("class", "string"),
    ("space", "string"),
    ("kernel", "string"),
    ("seed", "integer"),
    ("configuration", "object"),
    ("configuration_hash", "string"),
    ("gates", "array"),
    ("measurements", "array"),
    ("objective_ns", "number|null"),
    ("resources", "array"),
    ("attributes", "array"),
    ("launches", "array"),
    ("source_hash", "string|null"),
    ("binary_hash", "string|null"),
    ("code_hash", "string|null"),
    ("compile_ms", "number"),
    ("device_ms", "number"),
    ("recovery", "object|null"),
    ("parity", "array|null"),
    ("latency_ms", "number|null"),
    ("speedup_vs_baseline", "number|null"),
    ("speedup_vs_torch", "number|null"),
    ("ctas", "integer|null"),
    ("sm_count", "integer|null"),
    ("few_ctas", "boolean|null"),
    ("problems", "array"),
    ("baseline", "object|null"),
    ("profile_file", "string|null"),
    ("report_file", "string|null"),
    ("rows", "array"),
    ("problem", "string"),
    ("noise_floor", "number|null"),
    ("file", "string"),
];

const JUDGED: &[&str] =
    &["verdict", "class", "configuration", "gates", "measurements", "objective_ns", "parity"];

const BENCHED: &[(&str, &str)] = &[
    ("name", "string"),
    ("folder", "string"),
    ("space", "string"),
    ("kernel", "string"),
    ("seed", "integer"),
    ("quick", "boolean"),
    ("modes", "array"),
    ("ranking_mode", "string"),
    ("rounds", "integer"),
    ("implementations", "array"),
    ("rows", "array"),
    ("summary", "array"),
    ("why", "array"),
];

const ROWS: &[&str] =
    &["name", "folder", "kernel", "modes", "ranking_mode", "implementations", "rows", "summary", "why"];

const COMMANDS: &[CommandFields] = &[
    CommandFields { command: "bench", version: 1, fields: BENCHED, answers: &[ROWS] },
    CommandFields {
        command: "micro",
        version: 1,
        fields: &[
            ("file", "string|null"),
            ("space", "string"),
            ("kernel", "string"),
            ("seed", "integer"),
            ("space_hash", "string"),
            ("measured_on", "object"),
            ("problem", "string"),
            ("work", "number"),
            ("is_filled", "boolean"),
            ("tried", "integer"),
            ("passed", "integer"),
            ("reason", "string"),
            ("ranked", "array"),
        ],
        answers: &[&["file", "kernel", "space_hash", "problem", "tried", "passed", "ranked"]],
    },
    CommandFields { command: "invert", version: 1, fields: VERDICT, answers: &[JUDGED] },
    CommandFields { command: "crosscheck", version: 1, fields: VERDICT, answers: &[JUDGED] },
    CommandFields { command: "history", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields { command: "summary", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields { command: "report", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields {
        command: "selftest",
        version: 1,
        fields: &[
            ("device", "object|string|null"),
            ("seed", "integer"),
            ("passed", "boolean"),
            ("checks", "array"),
            ("rows", "array"),
        ],
        answers: &[&["passed", "checks"], &["passed", "rows"]],
    },
    // A command line that names no command, or one that prints no JSON, and asks for JSON: always an error.
    CommandFields { command: UNKNOWN, version: 1, fields: &[], answers: &[] },
];

/// The command of an object where the command line names none that prints JSON.
pub const UNKNOWN: &str = "unknown";

/// The commands that have a schema.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.command)
}

/// The schema of a command's object.
pub fn command(name: &str) -> Option<Schema> {
    COMMANDS.iter().find(|command| command.command == name).map(CommandFields::schema)
}

impl CommandFields {
    fn schema(&self) -> Schema {
        let name = format!("evo.{}", self.command);
        let mut schema = crate::schema::envelope();
        schema.insert("$id".into(), format!("{name}.v{}", self.version).into());
        schema.insert("title".into(), format!("evo {} --json", self.command).into());
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("schema".into(), json!({ "type": "string", "const": name }));
            properties.insert("version".into(), json!({ "type": "integer", "const": self.version }));
            properties.extend(self.fields.iter().map(|(name, types)| (name.to_string(), of_types(types))));
        }
        let told = json!({ "properties": { "error": { "type": "object" } } });
        let result = result_schemas::of(self.command);
        let whole = result
            .as_ref()
            .map(|(_, required)| json!({ "result": { "type": ["object", "null"], "required": required } }));
        let answers = self.answers.iter().map(|names| match &whole {
            Some(whole) => json!({ "required": names, "properties": whole }),
            None => json!({ "required": names }),
        });
        let place =
            schema.get_mut("properties").and_then(|own| own.get_mut("result")).and_then(Value::as_object_mut);
        if let (Some(place), Some((properties, _))) = (place, &result) {
            place.insert("properties".into(), properties.clone());
        }
        schema.insert("anyOf".into(), [told].into_iter().chain(answers).collect::<Vec<_>>().into());
        schema
    }
}
