//! What a tool is: its name, what it takes, the command that it becomes, and the schema of what comes back.

use std::path::PathBuf;

use evo_protocol::request_schemas;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::arguments::{GivenArguments, ToolField};
use crate::cli::answers;

#[derive(Debug)]
pub struct McpTool {
    pub name: &'static str,
    pub title: &'static str,
    /// For the program that chooses a tool: what it does, what it costs, what to do with the answer.
    pub about: &'static str,
    pub fields: &'static [ToolField],
    pub output: ToolOutput,
    /// Whether a call leaves a record in the output folder.
    pub leaves_records: bool,
    pub command: fn(&GivenArguments, &ToolSettings) -> Result<ToolCommand, String>,
}

/// What holds for all calls of a server: the person who starts it decides.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    /// evo itself.
    pub program: PathBuf,
    /// `--device` of every command.
    pub device: String,
    /// `--out` of every command.
    pub out: String,
    /// Who reads the answers of `evaluate`: `agent` or `owner`.
    pub visibility: &'static str,
    /// Longest wait for an answer of `evaluate` and `compare`, seconds.
    pub time_limit_s: u64,
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolOutput {
    /// The object of one of these commands.
    Objects(&'static [&'static str]),
    /// The answer to a request, as `evo evaluate --request` gives it.
    Answer,
}

/// A command line, and the files that it reads.
#[derive(Debug, Default)]
pub struct ToolCommand {
    pub words: Vec<String>,
    /// Removed when the command has ended.
    folder: Option<TempDir>,
}

impl ToolCommand {
    /// `evo COMMAND --json`, on which options and words follow.
    pub fn new(command: &str) -> ToolCommand {
        ToolCommand { words: vec![command.to_string(), "--json".to_string()], folder: None }
    }

    /// Adds `--NAME=VALUE` where there is a value: in one word, so that no value is taken for an option.
    #[must_use]
    pub fn option(mut self, name: &str, value: Option<&str>) -> ToolCommand {
        self.words.extend(value.map(|value| format!("--{name}={value}")));
        self
    }

    /// Ends the options: words that follow are never taken for one.
    #[must_use]
    pub fn words<'a>(mut self, words: impl IntoIterator<Item = &'a str>) -> ToolCommand {
        self.words.push("--".to_string());
        self.words.extend(words.into_iter().map(str::to_string));
        self
    }

    /// Writes a text that the command is to read, into a folder that nobody else may open.
    pub fn write(&mut self, name: &str, text: &str) -> Result<PathBuf, String> {
        let told = |error: std::io::Error| format!("cannot write a temporary file: {error}");
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => TempDir::new().map_err(told)?,
        };
        let path = folder.path().join(name);
        self.folder = Some(folder);
        std::fs::write(&path, text).map_err(told)?;
        Ok(path)
    }
}

impl McpTool {
    /// As `tools/list` has it.
    pub fn listed(&self) -> Value {
        let properties: Map<String, Value> =
            self.fields.iter().map(|field| (field.name.to_string(), field.schema())).collect();
        let required: Vec<&str> =
            self.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
            "outputSchema": self.output.schema(),
            "annotations": {
                "readOnlyHint": !self.leaves_records,
                "destructiveHint": false,
                "openWorldHint": false,
            },
        })
    }
}

impl ToolOutput {
    fn schema(self) -> Value {
        let mut schema = match self {
            ToolOutput::Answer => request_schemas::answer().to_value(),
            ToolOutput::Objects(names) => objects(names),
        };
        without_descriptions(&mut schema);
        // Clients of earlier revisions demand it at the root.
        schema["type"] = "object".into();
        schema
    }

    /// Whether an object is what the schema describes: a request that has no answer ends with the object of a command.
    pub fn describes(self, object: &Value) -> bool {
        self != ToolOutput::Answer || object.get("exit_code").is_none()
    }
}

/// The schema of a command's object; of several whose objects have the same fields, with all their names.
fn objects(names: &[&str]) -> Value {
    let own = names.first().and_then(|name| answers::command(name));
    let mut schema = own.map_or_else(|| json!({}), |schema| schema.to_value());
    let ids: Vec<String> = names.iter().map(|name| format!("evo.{name}")).collect();
    schema["properties"]["schema"] = json!({ "type": "string", "enum": ids });
    schema
}

/// Schemas travel with every list of tools; what fields mean is in evo's pages.
fn without_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(own) => {
            // A property may itself be called `description`; its schema is an object.
            if own.get("description").is_some_and(Value::is_string) {
                own.remove("description");
            }
            own.values_mut().for_each(without_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}
