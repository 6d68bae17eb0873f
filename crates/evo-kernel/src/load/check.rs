//! `[check]`: where the right answer comes from, and how closely it is compared.
//!
//! `reference = { command = […] }`: a program of the task's that computes expected outputs.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use evo_protocol::sanitizer::SanitizerCheck;
use evo_protocol::worker::{CommandReference, SpecialValues, TaskTolerance};
use evo_space::document::{Data, Node};
use evo_space::expr::Expr;
use evo_space::space::SearchSpace;
use evo_space::value::Value;

use super::fields::{Fields, KnownNames, Reader, suggestion};
use super::launches;
use super::source::{self, Files};
use crate::access::{self, ARRAY_MAX};
use crate::spec::{ArgumentSpec, CheckSpec, KernelText, ReferenceSpec, SourceKind, TinySpec};
use crate::words::uses_identifier;

const KEYS: &[&str] = &[
    "reference",
    "atol",
    "rtol",
    "trusted_factor",
    "task",
    "seeds",
    "tiny",
    "multiple_of",
    "allow_state",
    "special_values",
    "deterministic",
    "repeats",
    "families",
    "spill_bytes_max",
    "sanitize",
    "sanitizers",
    "host_twin",
];

const FAMILIES: &[(&str, &str)] = &[
    ("normal", "normal"),
    ("large", "large"),
    ("small", "small"),
    ("constant", "constant"),
    ("ramp", "ramp"),
    ("spikes", "spikes"),
    ("zero", "zero"),
    ("offset", "offset"),
    ("huge", "huge"),
    ("subnormal", "subnormal"),
    ("special", "special"),
    ("wide", "wide"),
    ("extremes", "extremes"),
    ("low", "low"),
    ("lowest", "lowest"),
    ("round", "round"),
    ("spread", "spread"),
];

const SANITIZE: &[(&str, bool)] = &[("required", true), ("optional", false)];

const SPECIAL_VALUES: &[(&str, SpecialValues)] = &[
    ("reference", SpecialValues::Reference),
    ("as_default", SpecialValues::AsDefault),
    ("ignore", SpecialValues::Ignore),
];

/// The identifier by which a reference kernel asks to be compiled in double precision.
const REAL: &str = "REAL";

/// Built-in references: name, buffers they read, buffer that they check.
const BUILTINS: &[(&str, (&[&str], &str))] = &[
    ("gemm", (&["a", "b"], "c")),
    ("softmax", (&["x"], "y")),
    ("rmsnorm", (&["x", "w"], "y")),
    ("reduction", (&["x"], "out")),
    ("transpose", (&["x"], "y")),
    ("attention", (&["q", "k", "v"], "o")),
];

const REFERENCE_HINT: &str = "reference = \"gemm\", or { source = \"naive.cu\", entry = \"naive\", grid = […], block = […] }, or { npy = { c = \"c.npy\" } }, or { command = [\"python3\", \"ref.py\"] }";

/// Reads the table; `arguments` are absent where they could not be read.
pub(super) fn read(
    reader: &mut Reader,
    node: &Node,
    names: &KnownNames,
    arguments: Option<&[ArgumentSpec]>,
    files: &Files,
) -> Option<CheckSpec> {
    let fields = reader.fields(node, "`check`", KEYS)?;
    let reference = reader.required(&fields, "reference", REFERENCE_HINT);
    let reference = reference.and_then(|node| read_reference(reader, node, names, arguments, files));
    let tolerance = |reader: &mut Reader, key: &str, absent: Option<f64>| {
        reader.value(&fields, key, absent, |reader, node, what| reader.positive(node, what, true).map(Some))
    };
    let (atol, rtol) = (tolerance(reader, "atol", None), tolerance(reader, "rtol", None));
    let trusted_factor = tolerance(reader, "trusted_factor", Some(3.0)).flatten();
    let task = read_task(reader, &fields);
    let flag =
        |reader: &mut Reader, key: &str, absent: bool| reader.value(&fields, key, absent, Reader::boolean);
    let deterministic = flag(reader, "deterministic", true);
    let spill_bytes_max = reader.optional(&fields, "spill_bytes_max", |reader, node, what| {
        reader.integer(node, what, 0).map(|bytes| bytes as u64)
    });
    let seeds = count(reader, &fields, "seeds", 1, 3);
    let repeats = count(reader, &fields, "repeats", 2, 10);
    let tiny = match fields.get("tiny") {
        Some(node) => read_tiny(reader, node, &names.first_problem()),
        None => Some(TinySpec::Derived),
    };
    let multiple_of = match fields.get("multiple_of") {
        Some(node) => size_table(reader, node, "`multiple_of` of `check`", &names.first_problem()),
        None => Some(BTreeMap::new()),
    };
    let allow_state = flag(reader, "allow_state", false);
    let special_values =
        reader.value(&fields, "special_values", SpecialValues::default(), |reader, node, what| {
            reader.choice(node, what, SPECIAL_VALUES)
        });
    let demands_sanitizer =
        reader.value(&fields, "sanitize", false, |reader, node, what| reader.choice(node, what, SANITIZE));
    let sanitizers = read_sanitizers(reader, &fields);
    let has_host_twin = flag(reader, "host_twin", true);
    let families = reader.value(&fields, "families", Vec::new(), read_families);
    let reference_parameters = seen_parameters(reader, &fields, names);
    Some(CheckSpec {
        reference: reference?,
        reference_parameters: reference_parameters?,
        atol: atol?,
        rtol: rtol?,
        trusted_factor: trusted_factor?,
        task: task?,
        seeds: seeds?,
        tiny: tiny?,
        multiple_of: multiple_of?,
        allow_state: allow_state?,
        special_values: special_values?,
        deterministic: deterministic?,
        repeats: repeats?,
        families: families?,
        spill_bytes_max: spill_bytes_max?,
        demands_sanitizer: demands_sanitizer?,
        sanitizers: sanitizers?,
        has_host_twin: has_host_twin?,
    })
}

/// The rule of the benchmark from which the kernel comes.
fn read_task(reader: &mut Reader, check: &Fields) -> Option<Option<TaskTolerance>> {
    let Some(node) = check.get("task") else { return Some(None) };
    let fields = reader.fields(node, "`task` of `check`", &["atol", "rtol", "matched"])?;
    let mut number = |key: &str, absent: Option<f64>| match (fields.get(key), absent) {
        (Some(node), _) => reader.positive(node, &fields.name(key), true),
        (None, Some(absent)) => Some(absent),
        (None, None) => {
            let hint = format!("add {key} = 1e-2");
            reader.required(&fields, key, &hint).map(|_| 0.0)
        }
    };
    let (atol, rtol, matched) = (number("atol", None), number("rtol", None), number("matched", Some(1.0)));
    let own = TaskTolerance { atol: atol?, rtol: rtol?, matched: matched? };
    if own.matched > 1.0 {
        let message = format!("{} is {}, expected a share from 0 to 1", fields.name("matched"), own.matched);
        reader.error(&node.span, message);
        return None;
    }
    Some(Some(own))
}

fn seen_parameters(reader: &mut Reader, fields: &Fields, names: &KnownNames) -> Option<Vec<String>> {
    match fields.get("reference").and_then(|node| node.get("parameters")) {
        Some(node) => {
            named(reader, node, "`parameters` of `reference`", "parameters", &names.parameters_only())
        }
        None => Some(Vec::new()),
    }
}

fn count(reader: &mut Reader, fields: &Fields, key: &str, least: i64, absent: u32) -> Option<u32> {
    let Some(node) = fields.get(key) else { return Some(absent) };
    let what = fields.name(key);
    let value = reader.integer(node, &what, least)?;
    if value > 10_000 {
        reader.error(&node.span, format!("{what} is {value}, expected at most 10000"));
        return None;
    }
    Some(value as u32)
}

fn read_families(reader: &mut Reader, node: &Node, what: &str) -> Option<Vec<String>> {
    let items = reader.list(node, what, "input families")?;
    let families: Vec<_> = items.iter().map(|item| reader.choice(item, what, FAMILIES)).collect();
    families.into_iter().map(|family| family.map(str::to_string)).collect()
}

/// In the order in which they are made, each once.
fn read_sanitizers(reader: &mut Reader, fields: &Fields) -> Option<Vec<SanitizerCheck>> {
    let Some(node) = fields.get("sanitizers") else { return Some(SanitizerCheck::ALL.to_vec()) };
    let what = fields.name("sanitizers");
    let items = reader.list(node, &what, "checks of compute-sanitizer")?;
    let known = SanitizerCheck::ALL.map(|check| (check.as_str(), check));
    let named: Vec<_> = items.iter().map(|item| reader.choice(item, &what, &known)).collect();
    let named: Vec<SanitizerCheck> = named.into_iter().collect::<Option<_>>()?;
    if named.is_empty() {
        let hint = "`evo sweep --sanitize off` makes none of them; leave `sanitizers` out for all";
        return reader.refuse(&node.span, format!("{what} is an empty list"), hint);
    }
    Some(SanitizerCheck::ALL.into_iter().filter(|check| named.contains(check)).collect())
}

fn read_tiny(reader: &mut Reader, node: &Node, names: &KnownNames) -> Option<TinySpec> {
    let what = "`tiny` of `check`";
    if let Data::Text(_) = node.data {
        return reader.choice(node, what, &[("none", ())]).map(|()| TinySpec::None);
    }
    let items = reader.list(node, what, "tables such as { M = \"BLOCK_M + 1\" }, or \"none\"")?;
    if items.is_empty() {
        let hint = "leave `tiny` out, and evo derives shapes; \"none\" is for a kernel that supports only the \
                    sizes of its problems";
        return reader.refuse(&node.span, format!("{what} is an empty list"), hint);
    }
    let what = format!("an entry of {what}");
    let shapes: Vec<_> = items.iter().map(|item| size_table(reader, item, &what, names)).collect();
    shapes.into_iter().collect::<Option<_>>().map(TinySpec::Listed)
}

fn size_table(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    names: &KnownNames,
) -> Option<BTreeMap<String, Expr>> {
    let Data::Table(entries) = &node.data else {
        reader.error(&node.span, format!("{what} is {}, expected a table", node.kind()));
        return None;
    };
    let sizes = names.sizes();
    let mut table = Some(BTreeMap::new());
    for entry in entries {
        if !sizes.contains(entry.key.as_str()) {
            let hint = suggestion(&entry.key, sizes.iter().copied(), || {
                format!("its sizes: {}", sizes.iter().copied().collect::<Vec<_>>().join(", "))
            });
            let message = format!("the first problem has no size `{}`", entry.key);
            reader.hinted(&entry.key_span, message, Some(hint));
            table = None;
        }
        let name = format!("size `{}` in {what}", entry.key);
        match (reader.expression(&entry.value, &name, names), &mut table) {
            (Some(expr), Some(table)) => drop(table.insert(entry.key.clone(), expr)),
            _ => table = None,
        }
    }
    table
}

fn read_reference(
    reader: &mut Reader,
    node: &Node,
    names: &KnownNames,
    arguments: Option<&[ArgumentSpec]>,
    files: &Files,
) -> Option<ReferenceSpec> {
    match &node.data {
        Data::Text(_) => builtin(reader, node, arguments),
        Data::Table(_) if node.get("npy").is_some() => expected_files(reader, node, arguments),
        Data::Table(_) if node.get("command").is_some() => {
            read_command(reader, node).map(ReferenceSpec::Command)
        }
        Data::Table(_) => kernel(reader, node, names, arguments, files),
        _ => {
            let message = format!("`reference` of `check` is {}", node.kind());
            reader.refuse(&node.span, message, REFERENCE_HINT)
        }
    }
}

/// A built-in function finds its arguments by name, so the names are checked here, where the
/// complaint can point at the file.
fn builtin(reader: &mut Reader, node: &Node, arguments: Option<&[ArgumentSpec]>) -> Option<ReferenceSpec> {
    let what = "`reference` of `check`";
    let (inputs, output) = reader.choice(node, what, BUILTINS)?;
    let name = reader.string(node, what)?;
    if let Some(arguments) = arguments {
        let missing: Vec<String> = inputs
            .iter()
            .chain([&output])
            .filter(|wanted| !arguments.iter().any(|own| own.name() == **wanted))
            .map(|wanted| format!("`{wanted}`"))
            .collect();
        if !missing.is_empty() {
            let message =
                format!("reference `{name}` needs arguments that are not there: {}", missing.join(", "));
            let hint = format!("it computes `{output}` from `{}`", inputs.join("`, `"));
            reader.hinted(&node.span, message, Some(hint));
        }
    }
    Some(ReferenceSpec::Builtin { name })
}

fn expected_files(
    reader: &mut Reader,
    node: &Node,
    arguments: Option<&[ArgumentSpec]>,
) -> Option<ReferenceSpec> {
    let fields = reader.fields(node, "`reference` of `check`", &["npy"])?;
    let table = fields.get("npy")?;
    let Data::Table(entries) = &table.data else {
        let message = format!(
            "{} is {}, expected a table such as {{ c = \"c.npy\" }}",
            fields.name("npy"),
            table.kind()
        );
        reader.error(&table.span, message);
        return None;
    };
    let is_output = |name: &str| {
        arguments.is_none_or(|arguments| {
            arguments.iter().any(|argument| match argument {
                ArgumentSpec::Buffer(buffer) => buffer.name == name && buffer.role.is_answer(),
                ArgumentSpec::Scalar(_) | ArgumentSpec::TensorMap(_) => false,
            })
        })
    };
    let mut outputs = BTreeMap::new();
    for entry in entries {
        if !is_output(&entry.key) {
            reader.error(&entry.key_span, format!("no output argument is called `{}`", entry.key));
        }
        if let Some(path) = reader.existing_file(&entry.value, &format!("expected output `{}`", entry.key)) {
            outputs.insert(entry.key.clone(), path);
        }
    }
    if entries.is_empty() {
        reader.error(&table.span, format!("{} is empty", fields.name("npy")));
    }
    (outputs.len() == entries.len()).then_some(ReferenceSpec::Npy { outputs })
}

fn kernel(
    reader: &mut Reader,
    node: &Node,
    names: &KnownNames,
    arguments: Option<&[ArgumentSpec]>,
    files: &Files,
) -> Option<ReferenceSpec> {
    let what = "`reference` of `check`";
    let fields =
        reader.fields(node, what, &launches::keys_beside(&["source", "real", "sizes", "parameters"]))?;
    let names = names.sizes_only();
    // A reference takes no tensor maps, whose buffers it has, and nothing that is prepared from what it has.
    let passed = |own: &&ArgumentSpec| match own {
        ArgumentSpec::TensorMap(_) => false,
        ArgumentSpec::Buffer(own) => !own.is_prepared(),
        ArgumentSpec::Scalar(_) => true,
    };
    let passed = arguments.unwrap_or_default().iter().filter(passed);
    let known: Vec<String> = passed.map(|own| own.name().to_string()).collect();
    let text = reader.required(&fields, "source", REFERENCE_HINT);
    let text =
        text.and_then(|node| source::read_text(reader, node, &fields, "source", SourceKind::Plain, files));
    let launches = launches::read_beside(reader, &fields, &names, &known);
    let sizes = reader
        .value(&fields, "sizes", Vec::new(), |reader, node, what| named(reader, node, what, "sizes", &names));
    let text = text?;
    let real = is_real(reader, &fields, &text);
    let (launches, loops) = launches?;
    Some(ReferenceSpec::Kernel { source: text, launches, loops, sizes: sizes?, real: real? })
}

/// Names of sizes that every problem has, or of parameters; each once.
fn named(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    kind: &str,
    names: &KnownNames,
) -> Option<Vec<String>> {
    let items = reader.list(node, what, &format!("names of {kind}"))?;
    let mut found: Vec<String> = Vec::new();
    for item in items {
        let name = reader.string(item, what)?;
        if let Some(complaint) = names.complaint(&name) {
            reader.hinted(&item.span, format!("{what}: {}", complaint.message), complaint.hint);
        } else if found.contains(&name) {
            reader.error(&item.span, format!("{what} names `{name}` twice"));
        } else {
            found.push(name);
        }
    }
    (found.len() == items.len()).then_some(found)
}

/// A reference kernel has parameters in variables of type `int`. `root` is the whole file.
pub(super) fn parameters_fit(reader: &mut Reader, root: &Node, space: &SearchSpace, check: &CheckSpec) {
    let ReferenceSpec::Kernel { .. } = check.reference else { return };
    let fits = |value: &Value| match value {
        Value::Bool(_) => true,
        Value::Int(own) => i32::try_from(*own).is_ok(),
        Value::Float(_) | Value::Text(_) => false,
    };
    for name in &check.reference_parameters {
        let own = space.parameters().iter().find(|own| own.name.as_ref() == name.as_str());
        let Some(other) = own.and_then(|own| own.values.iter().find(|value| !fits(value))) else { continue };
        let node = root.get("check").and_then(|node| node.get("reference")?.get("parameters"));
        let message =
            format!("`parameters` of `reference`: `{name}` may be `{other}`, which is not an `int` of C");
        let hint = "a reference kernel has them as whole numbers; a reference by command is told any value";
        reader.hinted(&node.unwrap_or(root).span, message, Some(hint.to_string()));
    }
}

/// Whether the reference kernel computes in double precision: it says so by writing its floating-point type
/// as `REAL`, unless the file decides.
fn is_real(reader: &mut Reader, fields: &Fields, text: &KernelText) -> Option<bool> {
    let uses = uses_identifier(&text.text, REAL);
    let Some(node) = fields.get("real") else { return Some(uses) };
    let real = reader.boolean(node, &fields.name("real"))?;
    if real && !uses {
        let message =
            format!("{} is true, and `{}` never uses `{REAL}`", fields.name("real"), text.path.display());
        let hint = format!("write its floating-point types as `{REAL}`: evo defines it as `double`");
        return reader.refuse(&node.span, message, hint);
    }
    Some(real)
}

const COMMAND_KEYS: &[&str] = &["command", "files", "dtype", "serve", "timeout_s", "parameters"];

/// Seconds for one case where the file does not say it, and at most: the worker that waits for it has 300.
const TIMEOUT_S: f64 = 60.0;
const TIMEOUT_MAX_S: f64 = 240.0;

/// Words of a command, and files beside it.
const WORDS_MAX: usize = 100;

fn read_command(reader: &mut Reader, node: &Node) -> Option<CommandReference> {
    let fields = reader.fields(node, "`reference` of `check`", COMMAND_KEYS)?;
    let Some(folder) = reader.folder.map(Path::to_path_buf) else {
        let hint = "write the space to a file, beside the files of its command";
        return reader.refuse(&node.span, "an embedded space cannot have a reference by command", hint);
    };
    let words = fields.get("command").and_then(|node| words(reader, node, &fields, "command"));
    let named = words.as_ref().and_then(|words| named_files(reader, fields.get("command")?, words));
    let more = match fields.get("files") {
        Some(node) => files(reader, node, &fields),
        None => Some(Vec::new()),
    };
    let single = match fields.get("dtype") {
        Some(node) => {
            let known = [("float64", false), ("f64", false), ("float32", true), ("f32", true)];
            reader.choice(node, &fields.name("dtype"), &known)
        }
        None => Some(false),
    };
    let serve = reader.value(&fields, "serve", false, Reader::boolean);
    let timeout = reader.value(&fields, "timeout_s", TIMEOUT_S, timeout);
    let mut files = named?;
    files.extend(more?);
    files.sort();
    files.dedup();
    // A worker does not run in the folder from which the space file was named.
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    Some(CommandReference {
        command: words?,
        folder: absolute(folder),
        single: single?,
        serve: serve?,
        timeout_ms: (timeout? * 1e3) as u64,
        files: files.into_iter().map(absolute).collect(),
    })
}

fn timeout(reader: &mut Reader, node: &Node, what: &str) -> Option<f64> {
    let seconds = reader.positive(node, what, false)?;
    if !(0.1..=TIMEOUT_MAX_S).contains(&seconds) {
        let message = format!("{what} is {seconds}, expected 0.1 to {TIMEOUT_MAX_S} seconds");
        reader.error(&node.span, message);
        return None;
    }
    Some(seconds)
}

fn words(reader: &mut Reader, node: &Node, fields: &Fields, key: &str) -> Option<Vec<String>> {
    let what = fields.name(key);
    let items = reader.list(node, &what, "words, such as [\"python3\", \"ref.py\"]")?;
    if items.is_empty() || items.len() > WORDS_MAX {
        let message = format!("{what} has {} words, expected 1 to {WORDS_MAX}", items.len());
        reader.error(&node.span, message);
        return None;
    }
    let words: Vec<_> = items.iter().map(|item| reader.string(item, &what)).collect();
    let words: Vec<String> = words.into_iter().collect::<Option<_>>()?;
    if words.iter().any(|word| word.contains('\0')) {
        reader.error(&node.span, format!("{what} has a zero character"));
        return None;
    }
    Some(words)
}

/// The words that name files below the space's folder: an edit of one makes other answers. Other words are arguments,
/// unless they lead out of the folder.
fn named_files(reader: &mut Reader, node: &Node, words: &[String]) -> Option<Vec<PathBuf>> {
    let folder = reader.folder?;
    let mut found = Vec::new();
    for (position, word) in words.iter().enumerate() {
        let is_program = position == 0;
        // A program without a slash is looked for in `PATH`, and an absolute one is the machine's.
        if is_program && (!word.contains('/') || word.starts_with('/')) {
            continue;
        }
        match access::open_beside(folder, word, ARRAY_MAX, reader.allow_outside) {
            Ok(_) => found.push(reader.path_beside(word)),
            Err(cause) if access::is_outside(&cause) && folder.join(word).is_file() => {
                let path = folder.join(word);
                let hint =
                    "copy the file beside the space file, or pass `--allow-outside` if you trust the space";
                let message = format!("`command` of `reference` names `{}`: {cause}", path.display());
                return reader.refuse(&node.span, message, hint);
            }
            Err(cause) if is_program => {
                let path = folder.join(word);
                let message = format!("`command` of `reference`: cannot use `{}`: {cause}", path.display());
                let hint = "a program with a `/` is taken from the space file's folder";
                return reader.refuse(&node.span, message, hint);
            }
            Err(_)
                if evo_system::regular::irregular(&folder.join(word))
                    .is_some_and(|what| what != "a folder") =>
            {
                let what = evo_system::regular::irregular(&folder.join(word)).unwrap_or_default();
                let message = format!("`command` of `reference` names `{word}`, which is {what}");
                return reader.refuse(&node.span, message, "name a regular file");
            }
            Err(cause) => {
                // Looks like a file, and is none: said now, and not by a Python that cannot open it.
                let is_path = word.ends_with(".py") || word.ends_with(".sh");
                if is_path && cause.kind() == ErrorKind::NotFound {
                    let message = format!("`command` of `reference`: there is no file `{word}`");
                    let hint = format!("looked for `{}`", reader.path_beside(word).display());
                    return reader.refuse(&node.span, message, hint);
                }
            }
        }
    }
    Some(found)
}

fn files(reader: &mut Reader, node: &Node, fields: &Fields) -> Option<Vec<PathBuf>> {
    let what = fields.name("files");
    let items = reader.list(node, &what, "file names")?;
    if items.len() > WORDS_MAX {
        reader.error(&node.span, format!("{what} has {} entries, expected at most {WORDS_MAX}", items.len()));
        return None;
    }
    let found: Vec<_> = items.iter().map(|item| reader.existing_file(item, &what)).collect();
    found.into_iter().collect()
}
