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

const TIMED: &[&str] = &[
    "verdict",
    "class",
    "configuration",
    "gates",
    "measurements",
    "parity",
    "latency_ms",
    "speedup_vs_baseline",
    "speedup_vs_torch",
    "ctas",
    "sm_count",
    "few_ctas",
    "problems",
    "baseline",
];

const EVALUATED: &[(&str, &str)] = &[
    ("space", "string"),
    ("kernel", "string"),
    ("seed", "integer"),
    ("configuration", "object"),
    ("rival", "object|null"),
    ("number", "integer|null"),
    ("incumbent", "object|null"),
    ("claimed", "number|null"),
    ("notes", "array"),
    ("parity", "array|null"),
    ("latency_ms", "number|null"),
    ("speedup_vs_baseline", "number|null"),
    ("speedup_vs_torch", "number|null"),
    ("ctas", "integer|null"),
    ("sm_count", "integer|null"),
    ("few_ctas", "boolean|null"),
];

const RIVALED: &[&str] = &["result", "rival", "number", "incumbent", "claimed", "notes", "latency_ms"];

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

const COMPILED: &[(&str, &str)] = &[
    ("kernel", "string"),
    ("arch", "string"),
    ("configuration", "object"),
    ("configuration_hash", "string"),
    ("fits", "boolean"),
    ("verdict", "object|null"),
    ("entries", "array"),
    ("binary_hash", "string|null"),
    ("code_hash", "string|null"),
    ("path", "string|null"),
    ("toolchain", "string|null"),
    ("compile_ms", "number|null"),
    ("cached", "boolean|integer|null"),
    ("log", "string|null"),
    ("variants", "integer"),
    ("fitting", "integer"),
    ("spilling", "integer"),
    ("compiled", "integer"),
    ("outcomes", "object"),
];

const COMPILED_ONE: &[&str] =
    &["kernel", "arch", "configuration", "fits", "verdict", "entries", "binary_hash"];
const COMPILED_MANY: &[&str] = &["kernel", "arch", "variants", "fitting", "outcomes"];

const COMMANDS: &[CommandFields] = &[
    CommandFields { command: "test-one", version: 1, fields: VERDICT, answers: &[JUDGED] },
    CommandFields { command: "test", version: 1, fields: VERDICT, answers: &[JUDGED] },
    CommandFields { command: "benchmark", version: 1, fields: VERDICT, answers: &[TIMED] },
    CommandFields { command: "evaluate", version: 1, fields: EVALUATED, answers: &[RIVALED] },
    CommandFields { command: "bench", version: 1, fields: BENCHED, answers: &[ROWS] },
    CommandFields { command: "profile", version: 1, fields: VERDICT, answers: &[JUDGED] },
    CommandFields {
        command: "compile",
        version: 1,
        fields: COMPILED,
        answers: &[COMPILED_ONE, COMPILED_MANY],
    },
    CommandFields { command: "build", version: 1, fields: COMPILED, answers: &[COMPILED_ONE] },
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
    CommandFields { command: "sanitize", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields { command: "history", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields { command: "summary", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields { command: "import", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields { command: "init", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields { command: "restore", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields { command: "report", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields { command: "export", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields { command: "gate", version: 1, fields: &[], answers: &[&["result"]] },
    CommandFields {
        command: "space",
        version: 1,
        fields: &[
            ("space", "string"),
            ("cartesian", "integer"),
            ("valid", "integer|null"),
            ("seconds", "number"),
            ("parameters", "array"),
            ("constraints", "array"),
            ("default", "object"),
            ("default_is_valid", "boolean"),
            ("default_stated", "object"),
            ("groups", "integer"),
            ("nodes", "integer"),
            ("warnings", "array"),
            ("seed", "integer"),
            ("sample", "array"),
            ("check", "object"),
            ("neighbors", "object"),
            ("rows", "integer"),
        ],
        answers: &[&["space", "cartesian", "valid", "parameters", "constraints"], &["space", "rows"]],
    },
    CommandFields {
        command: "sweep",
        version: 1,
        fields: &[
            ("event", "string"),
            ("reason", "string"),
            ("evaluations", "integer"),
            ("evaluations_this_run", "integer"),
            ("passed_over", "integer"),
            ("taken_over", "integer"),
            ("not_final", "integer"),
            ("trouble", "object|null"),
            ("throughput", "object"),
            ("wall_seconds", "number"),
            ("finalists_left", "integer"),
            ("sanitized", "object|null"),
            ("lanes", "array"),
            ("per_problem", "array"),
            ("study", "string"),
            ("leaderboard", "string|null"),
            ("verdicts", "object"),
            ("passed", "integer"),
            ("failures", "array"),
            ("default_failure", "object|null"),
            ("section", "object|null"),
            ("insight", "object|null"),
            ("device_limits", "object"),
            ("replay", "object"),
            ("profile", "object"),
        ],
        answers: &[&["event", "reason", "evaluations", "study", "verdicts", "passed", "failures"]],
    },
    CommandFields {
        command: "preflight",
        version: 1,
        fields: &[("device", "string|null"), ("ready", "boolean"), ("findings", "array"), ("tools", "array")],
        answers: &[&["device", "ready", "findings", "tools"]],
    },
    CommandFields {
        command: "leaderboard",
        version: 2,
        fields: &[("updated_at", "string"), ("sections", "array")],
        answers: &[&["updated_at", "sections"]],
    },
    CommandFields {
        command: "explain",
        version: 1,
        fields: &[
            ("verdict", "string"),
            ("class", "string"),
            ("cause", "string|null"),
            ("cause_text", "string|null"),
            ("causes", "array"),
            ("seen", "string"),
            ("usual_causes", "string"),
            ("next", "string"),
            ("example", "string"),
        ],
        answers: &[&["verdict", "class", "causes", "seen", "usual_causes", "next", "example"]],
    },
    CommandFields {
        command: "cache",
        version: 1,
        fields: &[
            ("folder", "string"),
            ("entries", "integer"),
            ("bytes", "integer"),
            ("bytes_max", "integer"),
            ("removed_entries", "integer"),
            ("removed_bytes", "integer"),
        ],
        answers: &[&["folder", "entries", "bytes", "bytes_max"]],
    },
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
    CommandFields {
        command: "render",
        version: 1,
        fields: &[
            ("kernel", "string"),
            ("configuration", "object"),
            ("hash", "string"),
            ("code_hash", "string"),
            ("file_name", "string"),
            ("options", "array"),
            ("entries", "array"),
            ("text", "string"),
        ],
        answers: &[&["kernel", "configuration", "hash", "text"]],
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

/// The version of a command's object: that of the envelope, unless the command had a higher one before.
pub fn version(command: &str) -> u32 {
    let own = COMMANDS.iter().find(|one| one.command == command);
    own.map_or(crate::envelope::ENVELOPE_VERSION, |own| own.version)
}

/// The schema of each command's object, by the command's name.
pub fn commands() -> Vec<(&'static str, Schema)> {
    COMMANDS.iter().map(|command| (command.command, command.schema())).collect()
}

impl CommandFields {
    fn schema(&self) -> Schema {
        let name = format!("evo.{}", self.command);
        let mut schema = crate::schema_forms::envelope();
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
