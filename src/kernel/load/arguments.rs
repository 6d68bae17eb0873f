//! `[[arguments]]`: buffers and scalars, in the order in which entry points take them.

use evo_protocol::dtype::DType;
use evo_protocol::plan::{Fill, Role};
use evo_space::document::{Data, Node};
use evo_space::expr::Expr;

use super::fields::{Fields, Reader};
use super::names::KnownNames;
use crate::kernel::spec::{ArgumentSpec, BufferSpec, ScalarSpec};

const KEYS: &[&str] = &["name", "dtype", "shape", "role", "fill", "value"];

const DTYPES: &[(&str, DType)] = &[
    ("f16", DType::F16),
    ("bf16", DType::Bf16),
    ("f32", DType::F32),
    ("f64", DType::F64),
    ("i8", DType::I8),
    ("i16", DType::I16),
    ("i32", DType::I32),
    ("i64", DType::I64),
    ("u8", DType::U8),
    ("u16", DType::U16),
    ("u32", DType::U32),
    ("u64", DType::U64),
];

const ROLES: &[(&str, Role)] =
    &[("input", Role::Input), ("output", Role::Output), ("inout", Role::Inout), ("scratch", Role::Scratch)];

/// Reads the list; `None` after a complaint about any of them.
pub(super) fn read(reader: &mut Reader, node: &Node, names: &KnownNames) -> Option<Vec<ArgumentSpec>> {
    let items = reader.list(node, "`arguments`", "tables")?;
    let mut arguments: Vec<Option<ArgumentSpec>> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for item in items {
        let argument = argument(reader, item, names);
        if let Some(name) = item.get("name").filter(|_| argument.is_some())
            && let Some(text) = argument.as_ref().map(|argument| argument.name().to_string())
        {
            if seen.contains(&text) {
                reader.error(&name.span, format!("two arguments are called `{text}`"));
            }
            seen.push(text);
        }
        arguments.push(argument);
    }
    let arguments: Vec<ArgumentSpec> = arguments.into_iter().collect::<Option<_>>()?;
    let answers = |argument: &ArgumentSpec| match argument {
        ArgumentSpec::Buffer(buffer) => matches!(buffer.role, Role::Output | Role::Inout),
        ArgumentSpec::Scalar(_) => false,
    };
    if !arguments.iter().any(answers) {
        let hint = Some("an argument with role = \"output\" or \"inout\" holds what is checked".to_string());
        reader.hinted(&node.span, "the kernel has no output argument", hint);
        return None;
    }
    Some(arguments)
}

fn argument(reader: &mut Reader, node: &Node, names: &KnownNames) -> Option<ArgumentSpec> {
    let what = match node.get("name").map(|name| &name.data) {
        Some(Data::Text(name)) => format!("argument `{name}`"),
        _ => "an argument".to_string(),
    };
    let fields = reader.fields(node, &what, KEYS)?;
    let name = reader.required(&fields, "name", "add name = \"…\"");
    let name = name.and_then(|node| reader.string(node, &fields.name("name")));
    let dtype = reader.required(&fields, "dtype", "add dtype = \"f16\", \"f32\", \"i32\", …");
    let dtype = dtype.and_then(|node| reader.choice(node, &fields.name("dtype"), DTYPES));
    if fields.get("value").is_some() {
        scalar(reader, &fields, name, dtype, names)
    } else {
        buffer(reader, &fields, name, dtype, names)
    }
}

fn scalar(
    reader: &mut Reader,
    fields: &Fields,
    name: Option<String>,
    dtype: Option<DType>,
    names: &KnownNames,
) -> Option<ArgumentSpec> {
    for key in ["shape", "role", "fill"] {
        if let Some(node) = fields.get(key) {
            let message = format!("{} has no meaning for a scalar", fields.name(key));
            reader.hinted(&node.span, message, Some("an argument with `value` is a scalar".to_string()));
        }
    }
    let value = reader.expression(fields.get("value")?, &fields.name("value"), names);
    Some(ArgumentSpec::Scalar(ScalarSpec { name: name?, dtype: dtype?, value: value? }))
}

fn buffer(
    reader: &mut Reader,
    fields: &Fields,
    name: Option<String>,
    dtype: Option<DType>,
    names: &KnownNames,
) -> Option<ArgumentSpec> {
    let hint = "a buffer has shape = [\"M\", \"K\"]; a scalar has value = \"M\"";
    let shape = reader.required(fields, "shape", hint);
    let shape = shape.and_then(|node| shape_of(reader, node, fields, names));
    let role = reader.required(fields, "role", "one of: input, output, inout, scratch");
    let role = role.and_then(|node| reader.choice(node, &fields.name("role"), ROLES));
    let fill = match fields.get("fill") {
        Some(node) => fill(reader, node, &fields.name("fill")),
        None => Some(default_fill(dtype?)),
    };
    let (name, dtype, shape) = (name?, dtype?, shape?);
    Some(ArgumentSpec::Buffer(BufferSpec { name, dtype, shape, role: role?, fill: fill? }))
}

fn shape_of(reader: &mut Reader, node: &Node, fields: &Fields, names: &KnownNames) -> Option<Vec<Expr>> {
    let what = fields.name("shape");
    let items = reader.list(node, &what, "expressions")?;
    let shape: Vec<_> = items.iter().map(|item| reader.expression(item, &what, names)).collect();
    if shape.is_empty() {
        reader.error(&node.span, format!("{what} is an empty list"));
        return None;
    }
    shape.into_iter().collect()
}

fn default_fill(dtype: DType) -> Fill {
    if dtype.is_float() {
        Fill::Normal { scale: 1.0 }
    } else {
        Fill::Uniform { low: 0.0, high: 100.0, inclusive: false }
    }
}

fn fill(reader: &mut Reader, node: &Node, what: &str) -> Option<Fill> {
    let fields = reader.fields(node, what, &["normal", "uniform", "constant", "npy"])?;
    let entries = node.entries()?;
    let [entry] = entries else {
        let hint = "one of: normal = 1.0, uniform = [0, 10], constant = 0, npy = \"a.npy\"".to_string();
        let message = format!("{what} has {} keys, expected one", entries.len());
        reader.hinted(&node.span, message, Some(hint));
        return None;
    };
    let what = fields.name(&entry.key);
    match entry.key.as_str() {
        "normal" => Some(Fill::Normal { scale: reader.positive(&entry.value, &what, false)? }),
        "constant" => Some(Fill::Constant { value: reader.number(&entry.value, &what)? }),
        "uniform" => uniform(reader, &entry.value, &what),
        "npy" => Some(Fill::Npy { path: reader.existing_file(&entry.value, &what)? }),
        _ => None,
    }
}

fn uniform(reader: &mut Reader, node: &Node, what: &str) -> Option<Fill> {
    let items = reader.list(node, what, "two numbers")?;
    let [low, high] = items else {
        reader.error(&node.span, format!("{what} has {} entries, expected two: [low, high]", items.len()));
        return None;
    };
    let (low, high) = (reader.number(low, what)?, reader.number(high, what)?);
    if low >= high {
        reader.error(&node.span, format!("{what} is an empty range: {low} is not below {high}"));
        return None;
    }
    Some(Fill::Uniform { low, high, inclusive: false })
}
