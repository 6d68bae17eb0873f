//! The tools: what each takes and gives back, and the command that a call of it is. What tools take is declared once, in
//! `ToolArguments`; the schemas of the list and the reader of calls follow from it.

use std::path::PathBuf;

use evo_protocol::request;
use schemars::Schema;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::request::read::{argument_mistake, space_beneath};

/// What a tool that takes it has to be given.
const REQUIRED: [&str; 2] = ["space", "verdict"];
const OPTIONS: [&str; 8] = ["arch", "against", "hypothesis", "budget", "strategy", "seed", "problem", "set"];

#[derive(Debug)]
pub struct Tool {
    pub name: &'static str,
    title: &'static str,
    /// For the program that chooses a tool: what it does, what it costs, what to do with the answer.
    about: &'static str,
    command: &'static str,
    /// Options of the command that the server's settings decide.
    settings: &'static [&'static str],
    /// Fields of `ToolArguments`.
    takes: &'static [&'static str],
}

/// What holds for all calls of a server: the person who starts it decides.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    pub program: PathBuf,
    /// Options and their values: `device`, `out`, `visibility` and `time-limit`.
    pub options: Vec<(&'static str, String)>,
    pub schema_of: fn(&str) -> Option<Schema>,
}

/// A command line, and the files that it reads.
#[derive(Debug)]
pub struct ToolCommand {
    pub words: Vec<String>,
    /// Removed when the command has ended.
    _folder: Option<TempDir>,
}

/// All tools, in the order in which a program needs them.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "preflight",
        title: "What this machine has",
        about: "Which device, compilers and tools there are, and what is missing with a way to get it. Call it once, first.",
        command: "preflight",
        settings: &["device"],
        takes: &[],
    },
    Tool {
        name: "describe",
        title: "Describe a search space",
        about: "Parameters, constraints, the number of valid configurations and the default of a space.",
        command: "space",
        settings: &[],
        takes: &["space"],
    },
    Tool {
        name: "render",
        title: "Show a variant's source",
        about: "The exact source that the compiler gets for a configuration. A source of your own keeps its entries and arguments.",
        command: "render",
        settings: &[],
        takes: &["space", "configuration", "candidate"],
    },
    Tool {
        name: "compile",
        title: "Compile a candidate",
        about: "Registers, spills, shared memory and the compiler's messages of one candidate. Needs no GPU: name `arch`.",
        command: "build",
        settings: &["device"],
        takes: &["space", "configuration", "candidate", "source", "arch"],
    },
    Tool {
        name: "evaluate",
        title: "Judge a candidate",
        about: "Compiles one candidate, checks its answers through every gate in a process that can be killed, and times it. \
                A failure is an answer: `verdict`, `cause` and `feedback` say what to mend. Begin with level `tiny` or `quick`; \
                `confirm` compares side by side with the best so far and can take its place.",
        command: "evaluate",
        settings: &["device", "out", "visibility", "time-limit"],
        takes: &["space", "configuration", "source", "template", "level", "profile"],
    },
    Tool {
        name: "compare",
        title: "Compare two candidates",
        about: "Times a candidate beside another one in turns, in fresh processes, and says faster or slower only above the \
                noise floor. Both pass every gate first. Keeps a record with the hypothesis.",
        command: "evaluate",
        settings: &["device", "out", "time-limit"],
        takes: &["space", "configuration", "candidate", "source", "against", "hypothesis"],
    },
    Tool {
        name: "tune",
        title: "Search a space",
        about: "Searches the space for its fastest correct variant within a budget, confirms the best in fresh processes and \
                keeps the leaderboard. Takes as long as the budget says.",
        command: "sweep",
        settings: &["device", "out"],
        takes: &["space", "budget", "strategy", "seed"],
    },
    Tool {
        name: "profile",
        title: "Find a candidate's bottleneck",
        about: "Hardware counters of one candidate and what they say: its bottleneck and the three findings with most to \
                gain. Needs a GPU and the right to read its counters; without them `not_run` with what is known anyway.",
        command: "profile",
        settings: &["device", "out"],
        takes: &["space", "configuration", "candidate", "source", "problem", "set"],
    },
    Tool {
        name: "leaderboard",
        title: "Show the leaderboard",
        about: "The best confirmed variants of every kernel, with times, intervals, conditions and a line that repeats each.",
        command: "leaderboard",
        settings: &["out"],
        takes: &[],
    },
    Tool {
        name: "summary",
        title: "Sum up where a kernel stands",
        about: "The best so far, the last decisions, what is open and what was tried and failed. Read it before you try a new idea.",
        command: "summary",
        settings: &["out"],
        takes: &["kernel"],
    },
    Tool {
        name: "explain",
        title: "Explain a verdict",
        about: "What a verdict means, its usual causes and what to do next.",
        command: "explain",
        settings: &[],
        takes: &["verdict"],
    },
];

pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name)
}

impl Tool {
    pub fn listed(&self, settings: &ToolSettings) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": self.input(),
            "outputSchema": self.output(settings),
            "annotations": {
                // What runs on the device and knows the folder of the records leaves one there.
                "readOnlyHint": !["device", "out"].iter().all(|name| self.settings.contains(name)),
                "destructiveHint": false,
                "openWorldHint": false,
            },
        })
    }

    fn input(&self) -> Value {
        let all = request::tool_arguments().to_value();
        let mut properties: Map<String, Value> =
            self.takes.iter().map(|name| (name.to_string(), all["properties"][name].clone())).collect();
        for property in properties.values_mut() {
            // Who has nothing to say leaves an argument out; a null is taken all the same.
            if let Some(kind) = property["type"].get(0).cloned() {
                property["type"] = kind;
            }
            if let Some(words) = property.get_mut("enum").and_then(Value::as_array_mut) {
                words.retain(|word| !word.is_null());
            }
        }
        let required: Vec<&&str> = self.takes.iter().filter(|name| REQUIRED.contains(name)).collect();
        json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        })
    }

    /// The commands whose object comes back; none where it is the answer to a request.
    fn answering(&self) -> &[&'static str] {
        match self.name {
            "evaluate" => &[],
            "compile" => &["compile", "build"],
            _ => std::slice::from_ref(&self.command),
        }
    }

    fn output(&self, settings: &ToolSettings) -> Value {
        let schema = match self.answering() {
            [] => request::answer().to_value(),
            // The objects of several commands have the same fields, and each its name.
            commands => {
                let mut schema =
                    (settings.schema_of)(commands[0]).map_or_else(|| json!({}), Schema::to_value);
                let ids: Vec<String> = commands.iter().map(|name| format!("evo.{name}")).collect();
                schema["properties"]["schema"] = json!({ "type": "string", "enum": ids });
                schema
            }
        };
        let mut schema = brief(&schema, &schema["$defs"], OUTPUT_DEPTH);
        // Clients of earlier revisions demand it at the root.
        schema["type"] = "object".into();
        schema
    }

    /// Whether an object is what the schema describes: a request that has no answer ends with the object of a command.
    pub fn describes(&self, object: &Value) -> bool {
        !self.answering().is_empty() || object.get("exit_code").is_none()
    }

    /// The command that a call is, or what is wrong with its arguments.
    pub fn command(&self, arguments: Option<&Value>, settings: &ToolSettings) -> Result<ToolCommand, String> {
        let nothing = json!({});
        let given = arguments.filter(|arguments| !arguments.is_null()).unwrap_or(&nothing);
        if !given.is_object() {
            return Err("`arguments` has to be an object".to_string());
        }
        if let Some(mistake) = argument_mistake(given, &self.input()) {
            return Err(mistake);
        }
        if let Some(Err((what, hint))) = given["space"].as_str().map(space_beneath) {
            return Err(format!("`space` {what}: {hint}"));
        }
        let has_arch = given["arch"].is_string();
        let command = if has_arch { "compile" } else { self.command };
        let decided = settings.options.iter().filter(|(name, _)| self.settings.contains(name) && !has_arch);
        let chosen = OPTIONS.iter().filter_map(|name| Some((*name, word(&given[name])?)));
        let mut options: Vec<(&str, String)> = decided.cloned().chain(chosen).collect();
        if self.name == "tune" && given["budget"].is_null() {
            options.push(("budget", "60s".to_string()));
        }
        let mut folder = None;
        let candidate = match self.name {
            "evaluate" => {
                options.push(("request", write(&mut folder, "request.json", &asked(given)?.to_string())?));
                Vec::new()
            }
            _ => {
                if let Some(text) = given["source"].as_str() {
                    options.push(("source", write(&mut folder, "candidate.cu", text)?));
                }
                let first = ["space", "kernel", "verdict"].iter().find_map(|name| word(&given[name]));
                first.into_iter().chain(candidate(given)?).collect()
            }
        };
        let mut words = vec![command.to_string(), "--json".to_string()];
        // In one word, so that no value is taken for an option; and what follows `--` is never taken for one.
        words.extend(options.iter().map(|(name, value)| format!("--{name}={value}")));
        words.extend(Some("--".to_string()).filter(|_| !candidate.is_empty()).into_iter().chain(candidate));
        match words.iter().any(|word| word.contains('\0')) {
            true => Err("an argument contains a NUL character".to_string()),
            false => Ok(ToolCommand { words, _folder: folder }),
        }
    }
}

fn asked(given: &Value) -> Result<Value, String> {
    let kind = match (given["source"].is_string(), given["template"] == true) {
        (false, true) => return Err("`template` needs a `source`".to_string()),
        (false, false) => "configuration",
        (true, false) => "cuda",
        (true, true) => "template",
    };
    let sources = given["source"].as_str().map(|text| json!([{ "path": "candidate.cu", "content": text }]));
    Ok(json!({
        "task": { "space": given["space"] },
        "candidate": { "kind": kind, "sources": sources, "configuration": given["configuration"] },
        "level": given["level"].as_str().unwrap_or("quick"),
        "feedback": { "profile": given["profile"] == true },
    }))
}

fn candidate(given: &Value) -> Result<Vec<String>, String> {
    match (given["candidate"].as_str(), given["configuration"].as_object()) {
        (Some(_), Some(_)) => Err("name one of `candidate` and `configuration`".to_string()),
        (Some(text), None) => Ok(text.split_whitespace().map(str::to_string).collect()),
        (None, values) => {
            let values = values.into_iter().flatten();
            Ok(values.filter_map(|(name, value)| Some(format!("{name}={}", word(value)?))).collect())
        }
    }
}

/// A value as a word of a command line; nothing for null.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// Writes a text that the command is to read, into a folder that nobody else may open.
fn write(folder: &mut Option<TempDir>, name: &str, text: &str) -> Result<String, String> {
    let told = |error: std::io::Error| format!("cannot write a temporary file: {error}");
    let folder = folder.insert(TempDir::new().map_err(told)?);
    let path = folder.path().join(name);
    std::fs::write(&path, text).map_err(told)?;
    Ok(path.display().to_string())
}

/// Fields of an object and of its `result` are listed; what lies deeper is in `evo explain --schema`.
const OUTPUT_DEPTH: u32 = 2;

/// A schema without descriptions, so deep: schemas travel with every list of tools.
fn brief(schema: &Value, definitions: &Value, depth: u32) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return brief(&definitions[name], definitions, depth);
    }
    let mut kept = Map::new();
    for keyword in ["type", "const", "enum"] {
        kept.extend(schema.get(keyword).map(|value| (keyword.to_string(), value.clone())));
    }
    if depth > 0 {
        let properties = schema["properties"].as_object();
        let fields = properties.map(|fields| {
            let field =
                |(name, inner): (&String, &Value)| (name.clone(), brief(inner, definitions, depth - 1));
            fields.iter().map(field).collect::<Map<_, _>>()
        });
        kept.extend(fields.map(|fields| ("properties".to_string(), fields.into())));
        for keyword in ["anyOf", "oneOf"] {
            let all = schema[keyword].as_array().filter(|_| !schema["properties"].is_object());
            let all = all.map(|all| all.iter().map(|one| brief(one, definitions, depth)).collect::<Vec<_>>());
            kept.extend(all.map(|all| (keyword.to_string(), all.into())));
        }
    }
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str, arguments: Value) -> Result<String, String> {
        let options =
            [("device", "host"), ("out", "evidence"), ("visibility", "agent"), ("time-limit", "300s")];
        let options = options.map(|(name, value)| (name, value.to_string())).to_vec();
        let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
        let settings = ToolSettings { program: "evo".into(), options, schema_of: |_| None };
        Ok(tool.command(Some(&arguments), &settings)?.words.join(" "))
    }

    #[test]
    fn a_call_is_a_command_line_whose_words_are_no_options() {
        let check = |name: &str, arguments: Value, expected: &str| {
            assert_eq!(words(name, arguments).as_deref(), Ok(expected), "{name}");
        };
        check("preflight", Value::Null, "preflight --json --device=host");
        check("describe", json!({ "space": "gemm" }), "space --json -- gemm");
        check("explain", json!({ "verdict": "--help" }), "explain --json -- --help");
        check("compile", json!({ "space": "gemm", "arch": "--all" }), "compile --json --arch=--all -- gemm");
        check(
            "compile",
            json!({ "space": "gemm", "configuration": { "BLOCK_M": 64, "swizzle": "xor" } }),
            "build --json --device=host -- gemm BLOCK_M=64 swizzle=xor",
        );
        check(
            "tune",
            json!({ "space": "softmax", "budget": "200", "seed": 3 }),
            "sweep --json --device=host --out=evidence --budget=200 --seed=3 -- softmax",
        );
        check(
            "render",
            json!({ "space": "gemm", "candidate": "@champion", "configuration": null }),
            "render --json -- gemm @champion",
        );
        let compared = words("compare", json!({ "space": "gemm", "source": "x", "against": "@1" })).unwrap();
        let begin = "evaluate --json --device=host --out=evidence --time-limit=300s --against=@1 --source=";
        assert!(compared.starts_with(begin) && compared.ends_with("/candidate.cu -- gemm"), "{compared}");
    }

    #[test]
    fn a_call_of_evaluate_is_a_request() {
        let request = asked(&json!({ "space": "gemm", "source": "x", "template": true, "level": "tiny" }));
        let request = crate::request::read::request(&request.unwrap().to_string()).unwrap();
        let candidate = request.candidate.unwrap();
        assert_eq!((candidate.source(), request.task.unwrap().space.as_deref()), (Some("x"), Some("gemm")));
        let command = words("evaluate", json!({ "space": "gemm" })).unwrap();
        let begin =
            "evaluate --json --device=host --out=evidence --visibility=agent --time-limit=300s --request=";
        assert!(command.starts_with(begin) && command.ends_with("/request.json"), "{command}");
    }

    #[test]
    fn what_cannot_become_a_command_is_refused() {
        let check = |name: &str, arguments: Value, part: &str| {
            let refused = words(name, arguments).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        };
        check("describe", json!([]), "has to be an object");
        check("describe", json!({ "space": "../elsewhere.toml" }), "below this folder");
        check("evaluate", json!({ "space": "gemm", "template": true }), "needs a `source`");
        let both = json!({ "space": "gemm", "candidate": "@champion", "configuration": {} });
        check("render", both, "name one of");
        check(
            "render",
            json!({ "space": "gemm", "configuration": { "A": [1] } }),
            "`configuration.A` is a list",
        );
        check("explain", json!({ "verdict": "a\0b" }), "NUL");
        check("evaluate", json!({ "space": "gemm", "level": "fulll" }), "did you mean `full`?");
    }

    #[test]
    fn every_tool_lists_schemas_and_says_what_it_does() {
        let settings = ToolSettings { program: "evo".into(), options: Vec::new(), schema_of: |_| None };
        let all: Vec<Value> = TOOLS.iter().map(|tool| tool.listed(&settings)).collect();
        for tool in &all {
            let properties = tool["inputSchema"]["properties"].as_object().unwrap();
            let is_described =
                |property: &Value| property["description"].is_string() && property["type"].is_string();
            assert!(properties.values().all(is_described), "{tool}");
            assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
            assert!(tool["description"].as_str().unwrap().len() > 40, "{tool}");
        }
    }
}
