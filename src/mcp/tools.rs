//! The tools: what each takes and gives back, and the command that a call of it is. What tools take is declared once, in
//! `ToolArguments`, and `tools.toml` says which tool takes what; the schemas of the list and the reader of calls follow.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use evo_protocol::request;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::request::read::{check_arguments, space_beneath};

/// What a tool that takes it has to be given.
const REQUIRED: [&str; 2] = ["space", "verdict"];
const OPTIONS: [&str; 8] = ["arch", "against", "hypothesis", "budget", "strategy", "seed", "problem", "set"];

#[derive(Debug, Deserialize)]
pub struct Tool {
    pub name: String,
    title: String,
    about: String,
    command: String,
    #[serde(default)]
    settings: Vec<String>,
    #[serde(default)]
    takes: Vec<String>,
}

/// What holds for all calls of a server: the person who starts it decides.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    pub program: PathBuf,
    /// Options and their values: `device`, `out`, `visibility` and `time-limit`.
    pub options: Vec<(&'static str, String)>,
}

/// A command line, and the files that it reads.
#[derive(Debug)]
pub struct ToolCommand {
    pub words: Vec<String>,
    /// Removed when the command has ended.
    _folder: Option<TempDir>,
}

pub static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let mut tools: BTreeMap<String, Vec<Tool>> =
        toml::from_str(include_str!("tools.toml")).expect("a table of tools");
    tools.remove("tool").unwrap_or_default()
});

pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name.as_str())
}

impl Tool {
    pub fn listed(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": self.input(),
            "annotations": {
                // What runs on the device and knows the folder of the records leaves one there.
                "readOnlyHint": !["device", "out"].iter().all(|name| self.is_set(name)),
                "destructiveHint": false,
                "openWorldHint": false,
            },
        })
    }

    fn is_set(&self, option: &str) -> bool {
        self.settings.iter().any(|known| known == option)
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
        let required: Vec<&String> =
            self.takes.iter().filter(|name| REQUIRED.contains(&name.as_str())).collect();
        json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        })
    }

    /// The command that a call is, or what is wrong with its arguments.
    pub fn command(&self, arguments: Option<&Value>, settings: &ToolSettings) -> Result<ToolCommand, String> {
        let nothing = json!({});
        let given = arguments.filter(|arguments| !arguments.is_null()).unwrap_or(&nothing);
        if !given.is_object() {
            return Err("`arguments` has to be an object".to_string());
        }
        check_arguments(given, &self.takes, &REQUIRED)?;
        if let Some(Err((what, hint))) = given["space"].as_str().map(space_beneath) {
            return Err(format!("`space` {what}: {hint}"));
        }
        let has_arch = given["arch"].is_string();
        let command = if has_arch { "compile" } else { self.command.as_str() };
        let decided = settings.options.iter().filter(|(name, _)| self.is_set(name) && !has_arch);
        let chosen = OPTIONS.iter().filter_map(|name| Some((*name, word(&given[name])?)));
        let mut options: Vec<(&str, String)> = decided.cloned().chain(chosen).collect();
        if self.name == "tune" && given["budget"].is_null() {
            options.push(("budget", "60s".to_string()));
        }
        let mut folder = None;
        let candidate = match self.name.as_str() {
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
            let value = |(name, value): (&String, &Value)| match value.is_array() || value.is_object() {
                true => Err(format!("`configuration.{name}` is neither a text nor a number")),
                false => Ok(word(value).map(|value| format!("{name}={value}"))),
            };
            let pairs = values.into_iter().flatten().map(value).collect::<Result<Vec<_>, _>>()?;
            Ok(pairs.into_iter().flatten().collect())
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str, arguments: Value) -> Result<String, String> {
        let options =
            [("device", "host"), ("out", "evidence"), ("visibility", "agent"), ("time-limit", "300s")];
        let options = options.map(|(name, value)| (name, value.to_string())).to_vec();
        let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
        let settings = ToolSettings { program: "evo".into(), options };
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
            "`configuration.A` is neither a text",
        );
        check("explain", json!({ "verdict": "a\0b" }), "NUL");
        check("evaluate", json!({ "space": "gemm", "level": "fulll" }), "did you mean `full`?");
    }

    #[test]
    fn every_tool_lists_what_it_takes_and_says_what_it_does() {
        for tool in TOOLS.iter().map(Tool::listed) {
            let properties = tool["inputSchema"]["properties"].as_object().unwrap();
            let is_described =
                |property: &Value| property["description"].is_string() && property["type"].is_string();
            assert!(properties.values().all(is_described), "{tool}");
            assert!(tool["description"].as_str().unwrap().len() > 40, "{tool}");
        }
    }
}
