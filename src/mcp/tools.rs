//! The tools, and the command that each of them is.

use serde_json::{Value, json};

use super::arguments::{FieldKind, GivenArguments, ToolField};
use super::tool::{McpTool, ToolCommand, ToolOutput, ToolSettings};
use crate::request::beneath::space_beneath;

const SPACE: ToolField = ToolField::required(
    "space",
    FieldKind::Text,
    "an embedded space such as gemm, or a space file below the folder in which the server runs",
);

const CONFIGURATION: ToolField = ToolField::optional(
    "configuration",
    FieldKind::Configuration,
    "values of parameters; what is left out takes its default",
);

const CANDIDATE: ToolField = ToolField::optional(
    "candidate",
    FieldKind::Text,
    "a candidate in evo's notation, in place of `configuration`: @champion, @baseline, @17, or BLOCK=64 VEC=4",
);

const SOURCE: ToolField = ToolField::optional(
    "source",
    FieldKind::Text,
    "the text of a CUDA source in place of the space's own; same entries and arguments",
);

/// All tools, in the order in which a program needs them.
pub const TOOLS: &[McpTool] = &[
    McpTool {
        name: "preflight",
        title: "What this machine has",
        about: "Which device, compilers and tools there are, and what is missing with a way to get it. Call it once, first.",
        fields: &[],
        output: ToolOutput::Objects(&["preflight"]),
        leaves_records: false,
        command: preflight,
    },
    McpTool {
        name: "describe",
        title: "Describe a search space",
        about: "Parameters, constraints, the number of valid configurations and the default of a space.",
        fields: &[SPACE],
        output: ToolOutput::Objects(&["space"]),
        leaves_records: false,
        command: describe,
    },
    McpTool {
        name: "render",
        title: "Show a variant's source",
        about: "The exact source that the compiler gets for a configuration. A source of your own keeps its entries and arguments.",
        fields: &[SPACE, CONFIGURATION, CANDIDATE],
        output: ToolOutput::Objects(&["render"]),
        leaves_records: false,
        command: render,
    },
    McpTool {
        name: "compile",
        title: "Compile a candidate",
        about: "Registers, spills, shared memory and the compiler's messages of one candidate. Needs no GPU: name `arch`.",
        fields: &[
            SPACE,
            CONFIGURATION,
            CANDIDATE,
            SOURCE,
            ToolField::optional(
                "arch",
                FieldKind::Text,
                "sm_80, sm_89, sm_90a, … or host; this machine's device where it is left out",
            ),
        ],
        output: ToolOutput::Objects(&["compile", "build"]),
        leaves_records: false,
        command: compile,
    },
    McpTool {
        name: "evaluate",
        title: "Judge a candidate",
        about: "Compiles one candidate, checks its answers through every gate in a process that can be killed, and times it. \
                A failure is an answer: `verdict`, `cause` and `feedback` say what to mend. Begin with level `tiny` or `quick`; \
                `confirm` compares side by side with the best so far and can take its place.",
        fields: &[
            SPACE,
            CONFIGURATION,
            SOURCE,
            ToolField::optional(
                "template",
                FieldKind::Flag,
                "`source` is a template that the configuration renders, not plain CUDA",
            ),
            ToolField::optional(
                "level",
                FieldKind::OneOf(&["compile", "tiny", "quick", "full", "confirm"]),
                "how far it goes; default quick",
            ),
            ToolField::optional("profile", FieldKind::Flag, "name the bottleneck of a candidate that passes"),
        ],
        output: ToolOutput::Answer,
        leaves_records: true,
        command: evaluate,
    },
    McpTool {
        name: "compare",
        title: "Compare two candidates",
        about: "Times a candidate beside another one in turns, in fresh processes, and says faster or slower only above the \
                noise floor. Both pass every gate first. Keeps a record with the hypothesis.",
        fields: &[
            SPACE,
            CONFIGURATION,
            CANDIDATE,
            SOURCE,
            ToolField::optional(
                "against",
                FieldKind::Text,
                "@champion, @baseline, @17 or BLOCK=64; default: the best so far",
            ),
            ToolField::optional("hypothesis", FieldKind::Text, "what the change was meant to do; kept"),
        ],
        output: ToolOutput::Objects(&["evaluate"]),
        leaves_records: true,
        command: compare,
    },
    McpTool {
        name: "tune",
        title: "Search a space",
        about: "Searches the space for its fastest correct variant within a budget, confirms the best in fresh processes and \
                keeps the leaderboard. Takes as long as the budget says.",
        fields: &[
            SPACE,
            ToolField::optional(
                "budget",
                FieldKind::Text,
                "wall time (90s, 10m) or a number of evaluations (200); default 60s",
            ),
            ToolField::optional(
                "strategy",
                FieldKind::Text,
                "evolve, exhaustive, random, …; default: evo chooses",
            ),
            ToolField::optional("seed", FieldKind::Whole, "of the search and the inputs; default random"),
        ],
        output: ToolOutput::Objects(&["sweep"]),
        leaves_records: true,
        command: tune,
    },
    McpTool {
        name: "profile",
        title: "Find a candidate's bottleneck",
        about: "Hardware counters of one candidate and what they say: its bottleneck and the three findings with most to \
                gain. Needs a GPU and the right to read its counters; without them `not_run` with what is known anyway.",
        fields: &[
            SPACE,
            CONFIGURATION,
            CANDIDATE,
            SOURCE,
            ToolField::optional("problem", FieldKind::Text, "one of the space's problems"),
            ToolField::optional("set", FieldKind::OneOf(&["light", "wide"]), "which counters; default light"),
        ],
        output: ToolOutput::Objects(&["profile"]),
        leaves_records: true,
        command: profile,
    },
    McpTool {
        name: "leaderboard",
        title: "Show the leaderboard",
        about: "The best confirmed variants of every kernel, with times, intervals, conditions and a line that repeats each.",
        fields: &[],
        output: ToolOutput::Objects(&["leaderboard"]),
        leaves_records: false,
        command: leaderboard,
    },
    McpTool {
        name: "summary",
        title: "Sum up where a kernel stands",
        about: "The best so far, the last decisions, what is open and what was tried and failed. Read it before you try a new idea.",
        fields: &[ToolField::optional(
            "kernel",
            FieldKind::Text,
            "a kernel's name; default: the one tried last",
        )],
        output: ToolOutput::Objects(&["summary"]),
        leaves_records: false,
        command: summary,
    },
    McpTool {
        name: "explain",
        title: "Explain a verdict",
        about: "What a verdict means, its usual causes and what to do next.",
        fields: &[ToolField::required("verdict", FieldKind::Text, "wrong_answer, static_reject:smem, …")],
        output: ToolOutput::Objects(&["explain"]),
        leaves_records: false,
        command: explain,
    },
];

/// The tools' names.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name)
}

fn preflight(_: &GivenArguments, settings: &ToolSettings) -> Result<ToolCommand, String> {
    Ok(ToolCommand::new("preflight").option("device", Some(&settings.device)))
}

fn describe(given: &GivenArguments, _: &ToolSettings) -> Result<ToolCommand, String> {
    Ok(ToolCommand::new("space").words([space(given)?]))
}

fn render(given: &GivenArguments, _: &ToolSettings) -> Result<ToolCommand, String> {
    candidate(ToolCommand::new("render"), given)
}

fn compile(given: &GivenArguments, settings: &ToolSettings) -> Result<ToolCommand, String> {
    let command = match given.text("arch") {
        Some(arch) => ToolCommand::new("compile").option("arch", Some(arch)),
        None => ToolCommand::new("build").option("device", Some(&settings.device)),
    };
    candidate(command, given)
}

fn evaluate(given: &GivenArguments, settings: &ToolSettings) -> Result<ToolCommand, String> {
    let (source, is_template) = (given.text("source"), given.flag("template"));
    let kind = match (source.is_some(), is_template) {
        (false, true) => return Err("`template` needs a `source`".to_string()),
        (false, false) => "configuration",
        (true, false) => "cuda",
        (true, true) => "template",
    };
    let mut own = json!({ "kind": kind });
    if let Some(text) = source {
        own["sources"] = json!([{ "path": "candidate.cu", "content": text }]);
    }
    if let Some(configuration) = given.object("configuration") {
        own["configuration"] = configuration.clone();
    }
    let request = json!({
        "task": { "space": space(given)? },
        "candidate": own,
        "level": given.text("level").unwrap_or("quick"),
        "feedback": { "profile": given.flag("profile") },
    });
    let mut command = on_device(ToolCommand::new("evaluate"), settings)
        .option("visibility", Some(settings.visibility))
        .option("time-limit", Some(&format!("{}s", settings.time_limit_s)));
    let file = command.write("request.json", &request.to_string())?;
    Ok(command.option("request", file.to_str()))
}

fn compare(given: &GivenArguments, settings: &ToolSettings) -> Result<ToolCommand, String> {
    let command = on_device(ToolCommand::new("evaluate"), settings)
        .option("against", given.text("against"))
        .option("hypothesis", given.text("hypothesis"))
        .option("time-limit", Some(&format!("{}s", settings.time_limit_s)));
    candidate(command, given)
}

fn tune(given: &GivenArguments, settings: &ToolSettings) -> Result<ToolCommand, String> {
    let command = on_device(ToolCommand::new("sweep"), settings)
        .option("budget", Some(given.text("budget").unwrap_or("60s")))
        .option("strategy", given.text("strategy"))
        .option("seed", given.whole("seed").as_deref());
    Ok(command.words([space(given)?]))
}

fn profile(given: &GivenArguments, settings: &ToolSettings) -> Result<ToolCommand, String> {
    let command = on_device(ToolCommand::new("profile"), settings)
        .option("problem", given.text("problem"))
        .option("set", given.text("set"));
    candidate(command, given)
}

fn leaderboard(_: &GivenArguments, settings: &ToolSettings) -> Result<ToolCommand, String> {
    Ok(ToolCommand::new("leaderboard").option("out", Some(&settings.out)))
}

fn summary(given: &GivenArguments, settings: &ToolSettings) -> Result<ToolCommand, String> {
    Ok(ToolCommand::new("summary").option("out", Some(&settings.out)).words(given.text("kernel")))
}

fn explain(given: &GivenArguments, _: &ToolSettings) -> Result<ToolCommand, String> {
    Ok(ToolCommand::new("explain").words(given.text("verdict")))
}

fn on_device(command: ToolCommand, settings: &ToolSettings) -> ToolCommand {
    command.option("device", Some(&settings.device)).option("out", Some(&settings.out))
}

/// The space, if it is one that a program may name: a space file can name commands.
fn space(given: &GivenArguments) -> Result<&str, String> {
    let name = given.text("space").unwrap_or_default();
    space_beneath(name).map_err(|refusal| refusal.said("`space`"))?;
    Ok(name)
}

/// Adds the space and the candidate as words, and its source as a file.
fn candidate(mut command: ToolCommand, given: &GivenArguments) -> Result<ToolCommand, String> {
    let space = space(given)?;
    if let Some(text) = given.text("source") {
        let file = command.write("candidate.cu", text)?;
        command = command.option("source", file.to_str());
    }
    let configured = given.object("configuration").and_then(Value::as_object);
    let words = match (given.text("candidate"), configured) {
        (Some(_), Some(_)) => return Err("name one of `candidate` and `configuration`".to_string()),
        (Some(text), None) => text.split_whitespace().map(str::to_string).collect(),
        (None, Some(values)) => {
            values.iter().map(|(name, value)| value_word(name, value)).collect::<Result<_, _>>()?
        }
        (None, None) => Vec::new(),
    };
    Ok(command.words([space].into_iter().chain(words.iter().map(String::as_str))))
}

fn value_word(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(format!("{name}={text}")),
        Value::Number(_) | Value::Bool(_) => Ok(format!("{name}={value}")),
        _ => Err(format!("`configuration.{name}` has to be a text, a number, true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ToolSettings {
        ToolSettings {
            program: "evo".into(),
            device: "host".to_string(),
            out: "evidence".to_string(),
            visibility: "agent",
            time_limit_s: 300,
        }
    }

    fn words(name: &str, arguments: Value) -> Result<String, String> {
        let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
        let given = GivenArguments::read(Some(&arguments), tool.fields)?;
        Ok((tool.command)(&given, &settings())?.words.join(" "))
    }

    #[test]
    fn a_call_is_a_command_line_whose_words_are_no_options() {
        let check = |name: &str, arguments: Value, expected: &str| {
            assert_eq!(words(name, arguments).as_deref(), Ok(expected), "{name}");
        };
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
            json!({ "space": "gemm", "candidate": "@champion" }),
            "render --json -- gemm @champion",
        );
    }

    #[test]
    fn what_cannot_become_a_command_is_refused() {
        let refused = |name: &str, arguments: Value| words(name, arguments).unwrap_err();
        assert!(refused("describe", json!({ "space": "../elsewhere.toml" })).contains("below this folder"));
        assert!(
            refused("evaluate", json!({ "space": "gemm", "template": true })).contains("needs a `source`")
        );
        let both = json!({ "space": "gemm", "candidate": "@champion", "configuration": {} });
        assert!(refused("render", both).contains("name one of"));
        let nested = json!({ "space": "gemm", "configuration": { "A": [1] } });
        assert!(refused("render", nested).contains("configuration.A"));
    }

    #[test]
    fn every_tool_lists_schemas_and_says_what_it_does() {
        for tool in TOOLS {
            let listed = tool.listed();
            assert_eq!(listed["outputSchema"]["type"], "object", "{}", tool.name);
            assert!(
                tool.about.len() > 40 && listed["inputSchema"]["properties"].is_object(),
                "{}",
                tool.name
            );
        }
        let all: Vec<Value> = TOOLS.iter().map(McpTool::listed).collect();
        // A list that a program keeps in its context has to be short.
        assert!(Value::from(all).to_string().len() < 120_000);
    }
}
