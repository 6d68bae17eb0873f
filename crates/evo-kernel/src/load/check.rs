//! `[check]`: where the right answer comes from, and how closely it is compared.
//!
//! `reference = { command = […] }`: a program of the task's that computes expected outputs.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use evo_protocol::verdict::SanitizerCheck;
use evo_protocol::worker::{CommandReference, SpecialValues, TaskTolerance};
use evo_space::document::{Data, suggestion};
use evo_space::expr::Expr;
use evo_space::space::SearchSpace;
use evo_space::text::quoted;
use evo_space::value::Value;

use super::fields::{Field, expression, known_name, names_once, read_all};
use super::launches;
use super::source::{OUTSIDE_HINT, existing_file, plain_source};
use crate::access::{self, ARRAY_MAX};
use crate::spec::{ArgumentSpec, CheckSpec, KernelText, ReferenceSpec, TinySpec};
use crate::words::uses_identifier;

const KEYS: &str = "reference atol rtol trusted_factor task seeds tiny multiple_of allow_state special_values \
    deterministic repeats families spill_bytes_max sanitize sanitizers host_twin";

const FAMILIES: &str = "normal large small constant ramp spikes zero offset huge subnormal special wide extremes low lowest \
    round spread";

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
pub(super) fn read(field: &Field, arguments: Option<&[ArgumentSpec]>) -> Option<CheckSpec> {
    field.keys(&KEYS.split(' ').collect::<Vec<_>>())?;
    let flag = |key: &str, absent: bool| field.or(key, absent, Field::boolean);
    let tolerance = |key: &str| field.optional(key, |own| own.positive(true));
    let scope = field.context.naming(field.context.names.first_problem());
    let first = field.with(&scope);
    let known: Vec<_> = FAMILIES.split(' ').map(|name| (name, name)).collect();
    let family = |item: &Field| item.choice(&known).map(str::to_string);
    read_all!(CheckSpec {
        reference: field.need("reference", REFERENCE_HINT, |own| reference(own, arguments)),
        reference_parameters: match field.get("reference").and_then(|own| own.node.get("parameters")) {
            Some(node) => {
                let scope = field.context.naming(field.context.names.parameters_only());
                let own = field.at(node, "`parameters` of `reference`");
                names_once(&own.with(&scope), "names of parameters", known_name)
            }
            None => Some(Vec::new()),
        },
        atol: tolerance("atol"),
        rtol: tolerance("rtol"),
        trusted_factor: field.or("trusted_factor", 3.0, |own| own.positive(true)),
        task: field.optional("task", task),
        seeds: field.or("seeds", 3, |own| count(own, 1)),
        tiny: first.or("tiny", TinySpec::Derived, tiny),
        multiple_of: first.or("multiple_of", BTreeMap::new(), size_table),
        allow_state: flag("allow_state", false),
        special_values: field
            .or("special_values", SpecialValues::default(), |own| own.choice(SPECIAL_VALUES)),
        deterministic: flag("deterministic", true),
        repeats: field.or("repeats", 10, |own| count(own, 2)),
        families: field.or("families", Vec::new(), |own| own.each("input families", family)),
        spill_bytes_max: field.optional("spill_bytes_max", |own| own.integer(0).map(|bytes| bytes as u64)),
        demands_sanitizer: field.or("sanitize", false, |own| own.choice(SANITIZE)),
        sanitizers: field.or("sanitizers", SanitizerCheck::ALL.to_vec(), sanitizers),
        has_host_twin: flag("host_twin", true),
    })
}

fn task(field: &Field) -> Option<TaskTolerance> {
    field.keys(&["atol", "rtol", "matched"])?;
    let number = |key: &str| field.need(key, &format!("add {key} = 1e-2"), |own| own.positive(true));
    let task = read_all!(TaskTolerance {
        atol: number("atol"),
        rtol: number("rtol"),
        matched: field.or("matched", 1.0, |own| own.positive(true)),
    })?;
    if task.matched <= 1.0 {
        return Some(task);
    }
    field.wrong(format!("`matched` of {field} is {}, expected a share from 0 to 1", task.matched))
}

fn count(field: &Field, least: i64) -> Option<u32> {
    match field.integer(least)? {
        value @ ..=10_000 => Some(value as u32),
        value => field.wrong(format!("{field} is {value}, expected at most 10000")),
    }
}

/// In the order in which they are made, each once.
fn sanitizers(field: &Field) -> Option<Vec<SanitizerCheck>> {
    let known: Vec<_> = SanitizerCheck::ALL.iter().map(|check| (check.as_str(), *check)).collect();
    let named = field.each("checks of compute-sanitizer", |item| item.choice(&known))?;
    if named.is_empty() {
        let hint = "`evo sweep --sanitize off` makes none of them; leave `sanitizers` out for all";
        return field.refuse(format!("{field} is an empty list"), hint);
    }
    Some(SanitizerCheck::ALL.iter().copied().filter(|check| named.contains(check)).collect())
}

fn tiny(field: &Field) -> Option<TinySpec> {
    if let Data::Text(_) = field.node.data {
        return field.choice(&[("none", ())]).map(|()| TinySpec::None);
    }
    let shapes = field.each("tables such as { M = \"BLOCK_M + 1\" }, or \"none\"", |item| {
        size_table(&item.at(item.node, format!("an entry of {field}")))
    })?;
    if shapes.is_empty() {
        let hint = "leave `tiny` out, and evo derives shapes; \"none\" is for a kernel that supports only the \
                    sizes of its problems";
        return field.refuse(format!("{field} is an empty list"), hint);
    }
    Some(TinySpec::Listed(shapes))
}

fn size_table(field: &Field) -> Option<BTreeMap<String, Expr>> {
    let sizes = field.context.names.sizes();
    let entries = field.entries("a table")?.iter().map(|entry| {
        let is_known = sizes.contains(entry.key.as_str());
        if !is_known {
            let hint = suggestion(&entry.key, sizes.iter().copied(), || {
                format!("its sizes: {}", sizes.iter().copied().collect::<Vec<_>>().join(", "))
            });
            let message = format!("the first problem has no size `{}`", entry.key);
            field.complain(&entry.key_span, message, Some(hint));
        }
        let expr = expression(&field.at(&entry.value, format!("size `{}` in {field}", entry.key)));
        expr.filter(|_| is_known).map(|expr| (entry.key.clone(), expr))
    });
    entries.collect::<Vec<_>>().into_iter().collect()
}

fn reference(field: &Field, arguments: Option<&[ArgumentSpec]>) -> Option<ReferenceSpec> {
    match &field.node.data {
        Data::Text(_) => builtin(field, arguments),
        Data::Table(_) if field.node.get("npy").is_some() => expected_files(field, arguments),
        Data::Table(_) if field.node.get("command").is_some() => command(field).map(ReferenceSpec::Command),
        Data::Table(_) => kernel(field, arguments),
        _ => field.refuse(format!("{field} is {}", field.node.kind()), REFERENCE_HINT),
    }
}

/// A built-in function finds its arguments by name, so the names are checked here, where the
/// complaint can point at the file.
fn builtin(field: &Field, arguments: Option<&[ArgumentSpec]>) -> Option<ReferenceSpec> {
    let (inputs, output) = field.choice(BUILTINS)?;
    let name = field.string()?;
    let is_there = |wanted: &str| {
        arguments.is_none_or(|arguments| arguments.iter().any(|argument| argument.name() == wanted))
    };
    let missing: Vec<&&str> = inputs.iter().chain([&output]).filter(|wanted| !is_there(wanted)).collect();
    if !missing.is_empty() {
        let message = format!("reference `{name}` needs arguments that are not there: {}", quoted(missing));
        field.hinted(message, format!("it computes `{output}` from {}", quoted(inputs)));
    }
    Some(ReferenceSpec::Builtin { name })
}

fn expected_files(field: &Field, arguments: Option<&[ArgumentSpec]>) -> Option<ReferenceSpec> {
    field.keys(&["npy"])?;
    let table = field.get("npy")?;
    let entries = table.entries("a table such as { c = \"c.npy\" }")?;
    let is_output = |name: &str| {
        arguments.is_none_or(|arguments| {
            let mut buffers = arguments.iter().filter_map(ArgumentSpec::buffer);
            buffers.any(|buffer| buffer.name == name && buffer.role.is_answer())
        })
    };
    let mut outputs = BTreeMap::new();
    for entry in entries {
        if !is_output(&entry.key) {
            let message = format!("no output argument is called `{}`", entry.key);
            field.complain(&entry.key_span, message, None);
        }
        let own = field.at(&entry.value, format!("expected output `{}`", entry.key));
        outputs.extend(existing_file(&own).map(|path| (entry.key.clone(), path)));
    }
    if entries.is_empty() {
        table.error(format!("{table} is empty"));
    }
    (outputs.len() == entries.len()).then_some(ReferenceSpec::Npy { outputs })
}

fn kernel(field: &Field, arguments: Option<&[ArgumentSpec]>) -> Option<ReferenceSpec> {
    field.keys(&launches::keys_beside(&["source", "real", "sizes", "parameters", "launches"]))?;
    let passed = arguments.unwrap_or_default().iter().filter(|argument| argument.is_for_reference());
    let scope = field.context.naming(field.context.names.sizes_only());
    let scope = scope.passing(passed);
    let field = field.with(&scope);
    let source = field.need("source", REFERENCE_HINT, plain_source);
    let launches = launches::read_beside(&field);
    let sizes = field.or("sizes", Vec::new(), |own| names_once(own, "names of sizes", known_name));
    let source = source?;
    let real = is_real(&field, &source);
    let (launches, loops) = launches?;
    Some(ReferenceSpec::Kernel { source, launches, loops, sizes: sizes?, real: real? })
}

/// A reference kernel has parameters in variables of type `int`.
pub(super) fn parameters_fit(root: &Field, space: &SearchSpace, check: &CheckSpec) {
    let ReferenceSpec::Kernel { .. } = check.reference else { return };
    let fits = |value: &Value| value.as_int().is_some_and(|own| i32::try_from(own).is_ok());
    for name in &check.reference_parameters {
        let own = space.parameters().iter().find(|own| own.name.as_ref() == name.as_str());
        let Some(other) = own.and_then(|own| own.values.iter().find(|value| !fits(value))) else { continue };
        let message =
            format!("`parameters` of `reference`: `{name}` may be `{other}`, which is not an `int` of C");
        let hint = "a reference kernel has them as whole numbers; a reference by command is told any value";
        root.below(&["check", "reference", "parameters"]).hinted(message, hint);
    }
}

/// Whether the reference kernel computes in double precision: it says so by writing its floating-point type
/// as `REAL`, unless the file decides.
fn is_real(field: &Field, text: &KernelText) -> Option<bool> {
    let uses = uses_identifier(&text.text, REAL);
    field.or("real", uses, |own| {
        let real = own.boolean()?;
        if real && !uses {
            let message = format!("{own} is true, and `{}` never uses `{REAL}`", text.path.display());
            let hint = format!("write its floating-point types as `{REAL}`: evo defines it as `double`");
            return own.refuse(message, hint);
        }
        Some(real)
    })
}

const COMMAND_KEYS: &[&str] = &["command", "files", "dtype", "serve", "timeout_s", "parameters"];

/// Seconds for one case where the file does not say it, and at most: the worker that waits for it has 300.
const TIMEOUT_S: f64 = 60.0;
const TIMEOUT_MAX_S: f64 = 240.0;

/// Words of a command, and files beside it.
const WORDS_MAX: usize = 100;

fn command(field: &Field) -> Option<CommandReference> {
    field.keys(COMMAND_KEYS)?;
    let Some(folder) = field.context.folder else {
        let hint = "write the space to a file, beside the files of its command";
        return field.refuse("an embedded space cannot have a reference by command", hint);
    };
    let words = field.get("command").and_then(|own| words(&own));
    let own = field.at(field.node.get("command")?, "`command` of `reference`");
    let named = words.as_ref().and_then(|words| named_files(&own, folder, words));
    let more = field.or("files", Vec::new(), |own| {
        let count = own.list("file names")?.len();
        if count > WORDS_MAX {
            return own.wrong(format!("{own} has {count} entries, expected at most {WORDS_MAX}"));
        }
        own.each("file names", existing_file)
    });
    let types = [("float64", false), ("f64", false), ("float32", true), ("f32", true)];
    let single = field.or("dtype", false, |own| own.choice(&types));
    let serve = field.or("serve", false, Field::boolean);
    let timeout = field.or("timeout_s", TIMEOUT_S, timeout);
    let mut files = named?;
    files.extend(more?);
    files.sort();
    files.dedup();
    // A worker does not run in the folder from which the space file was named.
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    Some(CommandReference {
        command: words?,
        folder: absolute(folder.to_path_buf()),
        single: single?,
        serve: serve?,
        timeout_ms: (timeout? * 1e3) as u64,
        files: files.into_iter().map(absolute).collect(),
    })
}

fn timeout(field: &Field) -> Option<f64> {
    match field.positive(false)? {
        seconds if (0.1..=TIMEOUT_MAX_S).contains(&seconds) => Some(seconds),
        seconds => field.wrong(format!("{field} is {seconds}, expected 0.1 to {TIMEOUT_MAX_S} seconds")),
    }
}

fn words(field: &Field) -> Option<Vec<String>> {
    let items = field.list("words, such as [\"python3\", \"ref.py\"]")?;
    if items.is_empty() || items.len() > WORDS_MAX {
        return field.wrong(format!("{field} has {} words, expected 1 to {WORDS_MAX}", items.len()));
    }
    let words = field.each("words", Field::string)?;
    if words.iter().any(|word| word.contains('\0')) {
        return field.wrong(format!("{field} has a zero character"));
    }
    Some(words)
}

/// The words that name files below the space's folder: an edit of one makes other answers. Other words are arguments,
/// unless they lead out of the folder.
fn named_files(field: &Field, folder: &Path, words: &[String]) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    for (position, word) in words.iter().enumerate() {
        let is_program = position == 0;
        // A program without a slash is looked for in `PATH`, and an absolute one is the machine's.
        if is_program && (!word.contains('/') || word.starts_with('/')) {
            continue;
        }
        let path = folder.join(word);
        let opened = access::open_beside(folder, word, ARRAY_MAX, field.context.allow_outside);
        let Err(cause) = opened else {
            found.push(path);
            continue;
        };
        let irregular = evo_system::regular::irregular(&path).filter(|what| *what != "a folder");
        // Looks like a file, and is none: said now, and not by a Python that cannot open it.
        let is_path = word.ends_with(".py") || word.ends_with(".sh");
        let (message, hint) = if access::is_outside(&cause) && path.is_file() {
            (format!("{field} names `{}`: {cause}", path.display()), OUTSIDE_HINT.to_string())
        } else if is_program {
            let hint = "a program with a `/` is taken from the space file's folder";
            (format!("{field}: cannot use `{}`: {cause}", path.display()), hint.to_string())
        } else if let Some(what) = irregular {
            (format!("{field} names `{word}`, which is {what}"), "name a regular file".to_string())
        } else if is_path && cause.kind() == ErrorKind::NotFound {
            let hint = format!("looked for `{}`", path.display());
            (format!("{field}: there is no file `{word}`"), hint)
        } else {
            continue;
        };
        return field.refuse(message, hint);
    }
    Some(found)
}
