//! `[[arguments]]`: buffers, scalars and tensor maps, in the order in which entry points take them.
//!
//! A buffer may say what of it is compared (`check`). A map (`kind = "tensor_map"`) says which buffer it names, and the
//! layout that it describes.

use evo_protocol::dtype::DType;
use evo_protocol::plan::{Fill, Role};
use evo_protocol::tensor_map::{OutsideFill, RANK_MAX, Swizzle};
use evo_protocol::view::ComparedForm;
use evo_space::diagnostic::nearest;
use evo_space::document::{Data, Node};
use evo_space::expr::Expr;
use evo_space::value::Value;

use super::fields::{Fields, KnownNames, Reader, suggestion};
use crate::range::{self, End};
use crate::spec::{
    ArgumentSpec, BufferSpec, FillSpec, RangeSpec, ScalarSpec, SwizzleSpec, TensorMapSpec, ViewSpec,
};

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
                sound &= check_buffer_of_map(reader, item, map, &known).is_some();
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
    if is_map(node) {
        return read_map(reader, node, &what, names).map(ArgumentSpec::TensorMap);
    }
    let fields = reader.fields(node, &what, KEYS)?;
    check_kind(reader, &fields);
    let name = reader.need(&fields, "name", "add name = \"…\"", Reader::label);
    let dtype =
        reader.need(&fields, "dtype", "add dtype = \"f16\", \"f32\", \"i32\", …", |reader, node, what| {
            reader.choice(node, what, DTYPES)
        });
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
    let role = reader.need(fields, "role", "one of: input, output, inout, scratch", |reader, node, what| {
        reader.choice(node, what, ROLES)
    });
    let role = match fields.get("restore") {
        Some(node) => restored(reader, node, &fields.name("restore"), role?),
        None => role,
    };
    let fill = match fields.get("fill") {
        Some(node) => fill(reader, node, &fields.name("fill"), dtype?, names),
        None => Some(FillSpec::Fixed(Fill::Unrestricted)),
    };
    let symbol = reader.optional(fields, "symbol", symbol);
    let (name, dtype, shape, role) = (name?, dtype?, shape?, role?);
    let view = match fields.get("check") {
        Some(node) => {
            let own = Viewed { dtype, role, rank: shape.len() };
            Some(view(reader, node, &fields.name("check"), &own, names)?)
        }
        None => None,
    };
    Some(ArgumentSpec::Buffer(BufferSpec { name, dtype, shape, role, fill: fill?, symbol: symbol?, view }))
}

/// The role of an `inout` buffer that a call may destroy, with `restore = true`.
fn restored(reader: &mut Reader, node: &Node, what: &str, role: Role) -> Option<Role> {
    let wanted = reader.boolean(node, what)?;
    if role != Role::Inout {
        let hint = "it is for an input that the kernel may overwrite: role = \"inout\", restore = true";
        return reader.refuse(&node.span, format!("{what} has a meaning for role = \"inout\" only"), hint);
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
    let hint = "the name of a __constant__ or __device__ variable: \"d_filter\", \"ns::d_filter\"";
    reader.refuse(&node.span, format!("{what} is `{text}`, which is not the name of a variable"), hint)
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
        return reader.refuse(&node.span, message, hint);
    };
    if let Some(node) = fields.get("inclusive").filter(|_| entry.key != "uniform") {
        let message = format!("{} has no meaning for `{}`", fields.name("inclusive"), entry.key);
        let hint = "it says whether the upper end of `uniform` may occur";
        return reader.refuse(&node.span, message, hint);
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

const MAP_KIND: &str = "tensor_map";

const MAP_KEYS: &[&str] = &["name", "kind", "of", "dims", "strides", "box", "swizzle", "fill"];

const MAP_FILLS: &[(&str, OutsideFill)] = &[("zero", OutsideFill::Zero), ("nan", OutsideFill::Nan)];

fn is_map(node: &Node) -> bool {
    matches!(node.get("kind").map(|kind| &kind.data), Some(Data::Text(kind)) if kind == MAP_KIND)
}

fn check_kind(reader: &mut Reader, fields: &Fields) {
    if let Some(node) = fields.get("kind") {
        let message = format!("{} is not `{MAP_KIND}`", fields.name("kind"));
        let hint = "an argument without `kind` is a buffer, or a scalar if it has `value`".to_string();
        reader.hinted(&node.span, message, Some(hint));
    }
}

/// Reads a map. Its buffer is looked for by `check_buffer`, since it may stand behind the map.
fn read_map(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<TensorMapSpec> {
    let fields = reader.fields(node, what, MAP_KEYS)?;
    let name = reader.need(&fields, "name", "add name = \"…\"", Reader::label);
    let of = reader.need(&fields, "of", "add of = \"…\", the name of a buffer argument", Reader::string);
    let hint = "add dims = [\"D\", \"S\"], in elements, the innermost first";
    let dims =
        reader.need(&fields, "dims", hint, |reader, node, what| expressions(reader, node, what, names));
    let dims = dims.filter(|dims| is_rank(reader, &fields, dims));
    let rank = dims.as_ref().map(Vec::len);
    let strides =
        reader.optional(&fields, "strides", |reader, node, what| expressions(reader, node, what, names));
    let strides = strides.filter(|own| {
        let wanted = rank.map(|rank| rank - 1);
        own.as_ref().is_none_or(|own| has_length(reader, &fields, "strides", own.len(), wanted))
    });
    let hint = "add box = [\"64\", \"BLOCK\"], in elements, one entry for each of `dims`";
    let extents =
        reader.need(&fields, "box", hint, |reader, node, what| expressions(reader, node, what, names));
    let extents = extents.filter(|own| has_length(reader, &fields, "box", own.len(), rank));
    let swizzle =
        reader.value(&fields, "swizzle", SwizzleSpec::Fixed(Swizzle::None), |reader, node, what| {
            swizzle(reader, node, what, names)
        });
    let fill = reader
        .value(&fields, "fill", OutsideFill::Zero, |reader, node, what| reader.choice(node, what, MAP_FILLS));
    let (name, of, dims, strides) = (name?, of?, dims?, strides?);
    Some(TensorMapSpec { name, of, dims, strides, extents: extents?, swizzle: swizzle?, fill: fill? })
}

fn expressions(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<Vec<Expr>> {
    reader.each(node, what, "expressions", |reader, item| reader.expression(item, what, names))
}

fn is_rank(reader: &mut Reader, fields: &Fields, dims: &[Expr]) -> bool {
    let sound = (1..=RANK_MAX).contains(&dims.len());
    if let Some(node) = fields.get("dims").filter(|_| !sound) {
        let name = fields.name("dims");
        reader.error(&node.span, format!("{name} has {} entries, expected 1 to {RANK_MAX}", dims.len()));
    }
    sound
}

/// Whether a list has the length that goes with `dims`; true where `dims` could not be read.
fn has_length(reader: &mut Reader, fields: &Fields, key: &str, found: usize, wanted: Option<usize>) -> bool {
    let Some(wanted) = wanted.filter(|wanted| *wanted != found) else { return true };
    if let Some(node) = fields.get(key) {
        let message = format!("{} has {found} entries, expected {wanted}", fields.name(key));
        let hint = match key {
            "strides" => "one for each of `dims` but the first, whose elements are neighbors",
            _ => "one for each of `dims`",
        };
        reader.hinted(&node.span, message, Some(hint.to_string()));
    }
    false
}

/// One of four words, or an expression that gives one, or the span in bytes.
fn swizzle(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<SwizzleSpec> {
    let Data::Text(text) = &node.data else {
        return reader.expression(node, what, names).map(SwizzleSpec::Chosen);
    };
    if let Some(fixed) = Swizzle::ALL.into_iter().find(|own| own.as_str() == text) {
        return Some(SwizzleSpec::Fixed(fixed));
    }
    let words = Swizzle::ALL.map(Swizzle::as_str);
    // A slip of one of the words is hardly meant as an expression.
    let near = nearest(text, words).filter(|_| text.ends_with(['B', 'b']) || !names.is_parameter(text));
    match (near, Expr::parse(text)) {
        (Some(near), Err(_)) => {
            let message = format!("{what} is `{text}`, which is unknown");
            reader.refuse(&node.span, message, format!("did you mean `{near}`?"))
        }
        (None, Err(_)) => {
            let hint = format!("one of: {}; or an expression that gives one of them", words.join(", "));
            reader.refuse(&node.span, format!("{what} is `{text}`, which is unknown"), hint)
        }
        (_, Ok(_)) => reader.expression(node, what, names).map(SwizzleSpec::Chosen),
    }
}

/// Whether the map's buffer is an argument, and can be filled as the map says. `node` is the map's table.
fn check_buffer_of_map(
    reader: &mut Reader,
    node: &Node,
    map: &TensorMapSpec,
    arguments: &[&ArgumentSpec],
) -> Option<()> {
    let buffer =
        |argument: &&&ArgumentSpec| matches!(argument, ArgumentSpec::Buffer(_)) && argument.is_passed();
    let buffers: Vec<&str> = arguments.iter().filter(buffer).map(|own| own.name()).collect();
    let found = arguments.iter().find_map(|argument| match argument {
        ArgumentSpec::Buffer(own) if own.name == map.of && own.symbol.is_none() => Some(own),
        _ => None,
    });
    let what = format!("argument `{}`", map.name);
    let Some(found) = found else {
        let hint =
            suggestion(&map.of, buffers.iter().copied(), || format!("buffers: {}", buffers.join(", ")));
        let message = format!("`of` of {what}: no buffer argument is called `{}`", map.of);
        return reader.refuse(&node.get("of").unwrap_or(node).span, message, hint);
    };
    if map.fill == OutsideFill::Nan && !found.dtype.is_float() {
        let message = format!("`fill` of {what} is `nan`, and `{}` has none", found.dtype.as_str());
        let hint = "fill = \"zero\"";
        return reader.refuse(&node.get("fill").unwrap_or(node).span, message, hint);
    }
    Some(())
}

const VIEW_FORMS: &[(&str, ComparedForm)] =
    &[("elements", ComparedForm::Elements), ("sorted", ComparedForm::Sorted), ("sum", ComparedForm::Sum)];

/// What a buffer is, as far as its view depends on it.
pub(super) struct Viewed {
    pub(super) dtype: DType,
    pub(super) role: Role,
    pub(super) rank: usize,
}

pub(super) fn view(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    buffer: &Viewed,
    names: &KnownNames,
) -> Option<ViewSpec> {
    if !buffer.role.is_answer() {
        let hint = "it says what of an output is compared with the reference";
        let message = format!("{what} has a meaning for role = \"output\" and \"inout\" only");
        return reader.refuse(&node.span, message, hint);
    }
    let fields = reader.fields(node, what, &["region", "compare", "axis"])?;
    let region = match fields.get("region") {
        Some(node) => Some(region(reader, node, &fields.name("region"), buffer.rank, names)?),
        None => None,
    };
    let form = match fields.get("compare") {
        Some(node) => reader.choice(node, &fields.name("compare"), VIEW_FORMS)?,
        None => ComparedForm::Elements,
    };
    let axis = match fields.get("axis") {
        Some(node) => Some(axis(reader, node, &fields, form, buffer.rank)?),
        None => None,
    };
    if region.is_none() && form == ComparedForm::Elements {
        let hint = "one of: region = [\"0:N\"], compare = \"sorted\", compare = \"sum\"";
        return reader.refuse(&node.span, format!("{what} says nothing: every element is compared"), hint);
    }
    if form != ComparedForm::Elements && matches!(buffer.dtype, DType::I64 | DType::U64) {
        let message = format!("{} needs elements of at most 32 bits", fields.name("compare"));
        let hint = "64-bit integers are compared bit by bit; a `region` of them may be named";
        return reader.refuse(&node.span, message, hint);
    }
    Some(ViewSpec { region, form, axis })
}

fn axis(reader: &mut Reader, node: &Node, fields: &Fields, form: ComparedForm, rank: usize) -> Option<usize> {
    let what = fields.name("axis");
    let axis = reader.integer(node, &what, 0)? as usize;
    if form == ComparedForm::Elements {
        let hint = "the axis along which elements are sorted or added up";
        let message = format!("{what} has a meaning with compare = \"sorted\" and \"sum\" only");
        return reader.refuse(&node.span, message, hint);
    }
    if axis >= rank {
        let hint = format!("0 is the outermost axis, {} the innermost", rank - 1);
        return reader.refuse(&node.span, format!("{what} is {axis}, and `shape` has {rank} extents"), hint);
    }
    Some(axis)
}

fn region(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    rank: usize,
    names: &KnownNames,
) -> Option<Vec<RangeSpec>> {
    let items = reader.list(node, what, "ranges")?;
    if items.len() != rank {
        let hint = "one range for each extent, outermost first; \":\" is all of it";
        let message = format!("{what} has {} ranges, and `shape` has {rank} extents", items.len());
        return reader.refuse(&node.span, message, hint);
    }
    let ranges: Vec<_> = items.iter().map(|item| view_range(reader, item, what, names)).collect();
    ranges.into_iter().collect()
}

/// `first:stop:step`, each part an expression or absent.
fn view_range(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<RangeSpec> {
    let text = reader.string(node, what)?;
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    if !(2..=3).contains(&parts.len()) {
        let hint = "as in Python: \"0:N\", \"1:N-1\", \"::2\", \":\" for all of it";
        return reader.refuse(&node.span, format!("{what} has `{text}`, which is not a range"), hint);
    }
    let mut part = |at: usize| -> Option<Option<Expr>> {
        match parts.get(at) {
            None | Some(&"") => Some(None),
            Some(text) => {
                let node = Node { data: Data::Text(text.to_string()), ..node.clone() };
                reader.expression(&node, what, names).map(Some)
            }
        }
    };
    let (first, stop, step) = (part(0), part(1), part(2));
    Some(RangeSpec { first: first?, stop: stop?, step: step? })
}
