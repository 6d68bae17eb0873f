//! `[[arguments]]`: buffers, scalars and tensor maps, in the order in which entry points take them.

use evo_protocol::dtype::DType;
use evo_protocol::plan::{Fill, Role};
use evo_space::document::{Data, Node};
use evo_space::expr::Expr;
use evo_space::value::Value;

use super::fields::{Fields, Reader};
use super::names::KnownNames;
use super::tensor_maps;
use super::views::{self, Viewed};
use crate::range::{self, End};
use crate::spec::{ArgumentSpec, BufferSpec, FillSpec, ScalarSpec};

const KEYS: &[&str] =
    &["name", "dtype", "shape", "role", "fill", "value", "kind", "symbol", "restore", "check"];

pub(super) const DTYPES: &[(&str, DType)] = &[
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
    let known: Vec<&ArgumentSpec> = arguments.iter().flatten().collect();
    // Where an argument could not be read, it may be the buffer that a map names.
    if known.len() == items.len() {
        let mut sound = true;
        for (item, argument) in items.iter().zip(&known) {
            if let ArgumentSpec::TensorMap(map) = argument {
                sound &= tensor_maps::check_buffer(reader, item, map, &known).is_some();
            }
        }
        if !sound {
            return None;
        }
    }
    let arguments: Vec<ArgumentSpec> = arguments.into_iter().collect::<Option<_>>()?;
    let answers = |argument: &ArgumentSpec| match argument {
        ArgumentSpec::Buffer(buffer) => buffer.role.is_answer(),
        ArgumentSpec::Scalar(_) | ArgumentSpec::TensorMap(_) => false,
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
    if tensor_maps::is_one(node) {
        return tensor_maps::read(reader, node, &what, names).map(ArgumentSpec::TensorMap);
    }
    let fields = reader.fields(node, &what, KEYS)?;
    tensor_maps::check_kind(reader, &fields);
    let name = reader.required(&fields, "name", "add name = \"…\"");
    let name = name.and_then(|node| reader.label(node, &fields.name("name")));
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
    for key in ["shape", "role", "fill", "symbol", "restore", "check"] {
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
    let role = match fields.get("restore") {
        Some(node) => restored(reader, node, &fields.name("restore"), role?),
        None => role,
    };
    let fill = match fields.get("fill") {
        Some(node) => fill(reader, node, &fields.name("fill"), dtype?, names),
        None => Some(FillSpec::Fixed(Fill::Unrestricted)),
    };
    let symbol = match fields.get("symbol") {
        Some(node) => symbol(reader, node, &fields.name("symbol")).map(Some),
        None => Some(None),
    };
    let (name, dtype, shape, role) = (name?, dtype?, shape?, role?);
    let view = match fields.get("check") {
        Some(node) => {
            let own = Viewed { dtype, role, rank: shape.len() };
            Some(views::read(reader, node, &fields.name("check"), &own, names)?)
        }
        None => None,
    };
    Some(ArgumentSpec::Buffer(BufferSpec { name, dtype, shape, role, fill: fill?, symbol: symbol?, view }))
}

/// The role of an `inout` buffer that a call may destroy, with `restore = true`.
fn restored(reader: &mut Reader, node: &Node, what: &str, role: Role) -> Option<Role> {
    let wanted = reader.boolean(node, what)?;
    if role != Role::Inout {
        let hint =
            "it is for an input that the kernel may overwrite: role = \"inout\", restore = true".to_string();
        reader.hinted(&node.span, format!("{what} has a meaning for role = \"inout\" only"), Some(hint));
        return None;
    }
    Some(if wanted { Role::Restored } else { role })
}

/// The name of a variable as C++ writes it outside of every namespace: `d_filter`, `ns::d_filter`.
fn symbol(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = reader.string(node, what)?;
    let is_word = |word: &str| {
        word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && word.starts_with(|c: char| !c.is_ascii_digit())
    };
    if text.split("::").all(is_word) {
        return Some(text);
    }
    let hint =
        "the name of a __constant__ or __device__ variable: \"d_filter\", \"ns::d_filter\"".to_string();
    reader.hinted(&node.span, format!("{what} is `{text}`, which is not the name of a variable"), Some(hint));
    None
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

/// The buffer's fill; an end of a range may read sizes, but no parameter: inputs must not depend on the
/// configuration.
fn fill(reader: &mut Reader, node: &Node, what: &str, dtype: DType, names: &KnownNames) -> Option<FillSpec> {
    let fields = reader.fields(
        node,
        what,
        &["normal", "uniform", "constant", "npy", "raw", "prepared", "inclusive"],
    )?;
    let kinds: Vec<_> = node.entries()?.iter().filter(|entry| entry.key != "inclusive").collect();
    let [entry] = kinds[..] else {
        let hint = "one of: normal = 1.0, uniform = [0, 10], constant = 0, npy = \"a.npy\", raw = \"a.bin\""
            .to_string();
        let message = format!("{what} has {} keys, expected one", kinds.len());
        reader.hinted(&node.span, message, Some(hint));
        return None;
    };
    if let Some(node) = fields.get("inclusive").filter(|_| entry.key != "uniform") {
        let message = format!("{} has no meaning for `{}`", fields.name("inclusive"), entry.key);
        let hint = "it says whether the upper end of `uniform` may occur".to_string();
        reader.hinted(&node.span, message, Some(hint));
        return None;
    }
    let what = fields.name(&entry.key);
    let fixed = match entry.key.as_str() {
        "normal" => Fill::Normal { scale: reader.positive(&entry.value, &what, false)? },
        "constant" => constant(reader, &entry.value, &what, dtype)?,
        "uniform" => {
            let inclusive = match fields.get("inclusive") {
                Some(node) => reader.boolean(node, &fields.name("inclusive"))?,
                None => false,
            };
            return uniform(reader, &entry.value, &what, dtype, inclusive, &names.sizes_only());
        }
        "prepared" => match reader.boolean(&entry.value, &what)? {
            true => Fill::Prepared,
            false => Fill::Unrestricted,
        },
        "npy" => Fill::Npy { path: reader.existing_file(&entry.value, &what)? },
        "raw" => Fill::Raw { path: reader.existing_file(&entry.value, &what)? },
        _ => return None,
    };
    Some(FillSpec::Fixed(fixed))
}

fn constant(reader: &mut Reader, node: &Node, what: &str, dtype: DType) -> Option<Fill> {
    let value = reader.number(node, what)?;
    if let Err(misfit) = range::element(&Value::Float(value), dtype) {
        reader.hinted(&node.span, format!("{what} {}", misfit.message), misfit.hint);
        return None;
    }
    Some(Fill::Constant { value })
}

fn uniform(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    dtype: DType,
    inclusive: bool,
    sizes: &KnownNames,
) -> Option<FillSpec> {
    let items = reader.list(node, what, "two numbers or expressions over sizes")?;
    let [low_node, high_node] = items else {
        reader.error(&node.span, format!("{what} has {} entries, expected two: [low, high]", items.len()));
        return None;
    };
    let low = reader.expression(low_node, what, sizes)?;
    let high = reader.expression(high_node, what, sizes)?;
    if !low.distinct_names().is_empty() || !high.distinct_names().is_empty() {
        // The ends are known for each problem, where `resolve` checks them.
        return Some(FillSpec::Uniform { low, high, inclusive });
    }
    let mut value = |expr: &Expr, node: &Node| match expr.evaluate(&|_: &str| None) {
        Ok(value) => Some(value),
        Err(error) => {
            reader.hinted(&node.span, format!("{what}: {}", error.message), error.hint);
            None
        }
    };
    let ends = (value(&low, low_node)?, value(&high, high_node)?);
    match range::uniform(&ends.0, &ends.1, inclusive, dtype) {
        Ok(fill) => Some(FillSpec::Fixed(fill)),
        Err(misfit) => {
            let place = match misfit.end {
                Some(End::Low) => low_node,
                Some(End::High) => high_node,
                None => node,
            };
            reader.hinted(&place.span, format!("{what} {}", misfit.message), misfit.hint);
            None
        }
    }
}
