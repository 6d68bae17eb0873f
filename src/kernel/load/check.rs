//! `[check]`: where the right answer comes from, and how closely it is compared.

use std::collections::BTreeMap;

use evo_protocol::plan::Role;
use evo_space::diagnostic::nearest;
use evo_space::document::{Data, Node};
use evo_space::expr::Expr;

use super::fields::{Fields, Reader};
use super::launches::entry_name;
use super::names::KnownNames;
use super::source::{self, Files};
use crate::kernel::spec::{ArgumentSpec, CheckSpec, ReferenceSpec, SourceKind};

const KEYS: &[&str] = &[
    "reference",
    "atol",
    "rtol",
    "trusted_factor",
    "seeds",
    "tiny",
    "deterministic",
    "repeats",
    "families",
    "spill_bytes_max",
];

const FAMILIES: &[(&str, &str)] = &[
    ("normal", "normal"),
    ("large", "large"),
    ("small", "small"),
    ("constant", "constant"),
    ("ramp", "ramp"),
    ("spikes", "spikes"),
];

/// Built-in references: name, buffers they read, buffer that they check.
const BUILTINS: &[(&str, (&[&str], &str))] = &[
    ("gemm", (&["a", "b"], "c")),
    ("softmax", (&["x"], "y")),
    ("rmsnorm", (&["x", "w"], "y")),
    ("reduction", (&["x"], "out")),
    ("transpose", (&["x"], "y")),
    ("attention", (&["q", "k", "v"], "o")),
];

const REFERENCE_HINT: &str = "reference = \"gemm\", or { source = \"naive.cu\", entry = \"naive\", grid = […], block = […] }, or { npy = { c = \"c.npy\" } }";

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
    let tolerance = |reader: &mut Reader, key: &str| match fields.get(key) {
        Some(node) => reader.positive(node, &fields.name(key), true).map(Some),
        None => Some(None),
    };
    let (atol, rtol) = (tolerance(reader, "atol"), tolerance(reader, "rtol"));
    let trusted_factor = match fields.get("trusted_factor") {
        Some(node) => reader.positive(node, &fields.name("trusted_factor"), false),
        None => Some(3.0),
    };
    let deterministic = match fields.get("deterministic") {
        Some(node) => reader.boolean(node, &fields.name("deterministic")),
        None => Some(true),
    };
    let spill_bytes_max = match fields.get("spill_bytes_max") {
        Some(node) => {
            reader.integer(node, &fields.name("spill_bytes_max"), 0).map(|bytes| Some(bytes as u64))
        }
        None => Some(None),
    };
    let seeds = count(reader, &fields, "seeds", 1, 3);
    let repeats = count(reader, &fields, "repeats", 2, 10);
    let tiny = match fields.get("tiny") {
        Some(node) => read_tiny(reader, node, &names.first_problem()),
        None => Some(Vec::new()),
    };
    let families = match fields.get("families") {
        Some(node) => read_families(reader, node, &fields.name("families")),
        None => Some(Vec::new()),
    };
    Some(CheckSpec {
        reference: reference?,
        atol: atol?,
        rtol: rtol?,
        trusted_factor: trusted_factor?,
        seeds: seeds?,
        tiny: tiny?,
        deterministic: deterministic?,
        repeats: repeats?,
        families: families?,
        spill_bytes_max: spill_bytes_max?,
    })
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

fn read_tiny(reader: &mut Reader, node: &Node, names: &KnownNames) -> Option<Vec<BTreeMap<String, Expr>>> {
    let what = "`tiny` of `check`";
    let items = reader.list(node, what, "tables such as { M = \"BLOCK_M + 1\" }")?;
    let shapes: Vec<_> = items.iter().map(|item| tiny_shape(reader, item, what, names)).collect();
    shapes.into_iter().collect()
}

fn tiny_shape(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    names: &KnownNames,
) -> Option<BTreeMap<String, Expr>> {
    let Data::Table(entries) = &node.data else {
        let message = format!("an entry of {what} is {}, expected a table", node.kind());
        reader.error(&node.span, message);
        return None;
    };
    let sizes = names.sizes();
    let mut shape = Some(BTreeMap::new());
    for entry in entries {
        if !sizes.contains(entry.key.as_str()) {
            let hint = match nearest(&entry.key, sizes.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("its sizes: {}", sizes.iter().copied().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("the first problem has no size `{}`", entry.key);
            reader.hinted(&entry.key_span, message, Some(hint));
            shape = None;
        }
        let name = format!("tiny size `{}`", entry.key);
        match (reader.expression(&entry.value, &name, names), &mut shape) {
            (Some(expr), Some(shape)) => drop(shape.insert(entry.key.clone(), expr)),
            _ => shape = None,
        }
    }
    shape
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
        Data::Table(_) => kernel(reader, node, names, files),
        _ => {
            let message = format!("`reference` of `check` is {}", node.kind());
            reader.hinted(&node.span, message, Some(REFERENCE_HINT.to_string()));
            None
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
                ArgumentSpec::Buffer(buffer) => {
                    buffer.name == name && matches!(buffer.role, Role::Output | Role::Inout)
                }
                ArgumentSpec::Scalar(_) => false,
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

fn kernel(reader: &mut Reader, node: &Node, names: &KnownNames, files: &Files) -> Option<ReferenceSpec> {
    let what = "`reference` of `check`";
    let fields = reader.fields(node, what, &["source", "entry", "grid", "block"])?;
    let names = names.sizes_only();
    let text = reader.required(&fields, "source", REFERENCE_HINT);
    let text =
        text.and_then(|node| source::read_text(reader, node, &fields, "source", SourceKind::Plain, files));
    let entry = reader.required(&fields, "entry", "add entry = \"…\", the name of a __global__ function");
    let entry = entry.and_then(|node| entry_name(reader, node, &fields));
    let grid = reader.required(&fields, "grid", "add grid = [\"ceil_div(N, 256)\"], over sizes");
    let grid = grid.and_then(|node| reader.extents(node, &fields.name("grid"), &names));
    let block = reader.required(&fields, "block", "add block = 256");
    let block = block.and_then(|node| reader.extents(node, &fields.name("block"), &names));
    Some(ReferenceSpec::Kernel { source: text?, entry: entry?, grid: grid?, block: block? })
}
