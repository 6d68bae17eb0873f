//! `[[arguments]]`: buffers, scalars and tensor maps, in the order in which entry points take them.
//!
//! A buffer may say what of it is compared (`check`). A map (`kind = "tensor_map"`) says which buffer it names, and the
//! layout that it describes.

use evo_protocol::dtype::DType;
use evo_protocol::plan::{ComparedForm, Fill, Role};
use evo_protocol::tensor_map::{OutsideFill, RANK_MAX, Swizzle};
use evo_space::document::{Data, Node, suggestion};
use evo_space::expr::Expr;
use evo_space::value::Value;

use super::fields::{Field, dtype, expression, expressions, label, named_tables, read_all};
use super::source::existing_file;
use crate::range::{self, End, Misfit};
use crate::spec::{
    ArgumentSpec, BufferSpec, FillSpec, RangeSpec, ScalarSpec, SwizzleSpec, TensorMapSpec, ViewSpec,
};
use crate::words::is_c_name;

const KEYS: &[&str] =
    &["name", "dtype", "shape", "role", "fill", "value", "kind", "symbol", "restore", "check"];

const ROLES: &[(&str, Role)] =
    &[("input", Role::Input), ("output", Role::Output), ("inout", Role::Inout), ("scratch", Role::Scratch)];

pub(super) fn read(field: &Field) -> Option<Vec<ArgumentSpec>> {
    let items = field.list("tables")?;
    // Where an argument could not be read, it may be the buffer that a map names.
    let arguments = named_tables(&items, "arguments", argument, ArgumentSpec::name)?;
    let is_broken = |(item, argument): &(&Field, &ArgumentSpec)| match argument {
        ArgumentSpec::TensorMap(map) => check_buffer_of_map(item, map, &arguments).is_none(),
        _ => false,
    };
    // Counted, so that the mistakes of all of them show.
    let sound = items.iter().zip(&arguments).filter(is_broken).count() == 0;
    if sound && !arguments.iter().filter_map(ArgumentSpec::buffer).any(|buffer| buffer.role.is_answer()) {
        let hint = "an argument with role = \"output\" or \"inout\" holds what is checked";
        return field.refuse("the kernel has no output argument", hint);
    }
    sound.then_some(arguments)
}

fn argument(item: &Field) -> Option<ArgumentSpec> {
    let field = item.titled("argument", "name", "an argument");
    if field.node.text("kind") == Some(MAP_KIND) {
        return read_map(&field).map(ArgumentSpec::TensorMap);
    }
    field.keys(KEYS)?;
    if let Some(kind) = field.get("kind") {
        let hint = "an argument without `kind` is a buffer, or a scalar if it has `value`";
        kind.hinted(format!("{kind} is not `{MAP_KIND}`"), hint);
    }
    let name = field.need("name", "add name = \"…\"", label);
    let dtype = field.need("dtype", "add dtype = \"f16\", \"f32\", \"i32\", …", dtype);
    match field.get("value") {
        Some(value) => scalar(&field, &value, name, dtype),
        None => buffer(&field, name, dtype),
    }
}

fn scalar(field: &Field, value: &Field, name: Option<String>, dtype: Option<DType>) -> Option<ArgumentSpec> {
    for key in ["shape", "role", "fill", "symbol", "restore", "check"] {
        if let Some(other) = field.get(key) {
            let message = format!("{other} has no meaning for a scalar");
            other.hinted(message, "an argument with `value` is a scalar");
        }
    }
    let value = expression(value);
    Some(ArgumentSpec::Scalar(ScalarSpec { name: name?, dtype: dtype?, value: value? }))
}

fn buffer(field: &Field, name: Option<String>, dtype: Option<DType>) -> Option<ArgumentSpec> {
    let hint = "a buffer has shape = [\"M\", \"K\"]; a scalar has value = \"M\"";
    let shape = field.need("shape", hint, |shape| match expressions(shape)? {
        empty if empty.is_empty() => shape.wrong(format!("{shape} is an empty list")),
        extents => Some(extents),
    });
    let role = field.need("role", "one of: input, output, inout, scratch", |role| role.choice(ROLES));
    let role = field.get("restore").map_or(role, |restore| restored(&restore, role?));
    let fill = field.or("fill", FillSpec::Fixed(Fill::Unrestricted), |own| fill(own, dtype?));
    let symbol = field.optional("symbol", symbol);
    let (name, dtype, shape, role) = (name?, dtype?, shape?, role?);
    let view = field.optional("check", |own| view(own, dtype, role, shape.len()))?;
    Some(ArgumentSpec::Buffer(BufferSpec { name, dtype, shape, role, fill: fill?, symbol: symbol?, view }))
}

/// The role of an `inout` buffer that a call may destroy, with `restore = true`.
fn restored(field: &Field, role: Role) -> Option<Role> {
    let wanted = field.boolean()?;
    if role != Role::Inout {
        let hint = "it is for an input that the kernel may overwrite: role = \"inout\", restore = true";
        return field.refuse(format!("{field} has a meaning for role = \"inout\" only"), hint);
    }
    Some(if wanted { Role::Restored } else { role })
}

/// The name of a variable as C++ writes it outside of every namespace: `d_filter`, `ns::d_filter`.
fn symbol(field: &Field) -> Option<String> {
    let text = field.string()?;
    if text.split("::").all(is_c_name) {
        return Some(text);
    }
    let hint = "the name of a __constant__ or __device__ variable: \"d_filter\", \"ns::d_filter\"";
    field.refuse(format!("{field} is `{text}`, which is not the name of a variable"), hint)
}

/// The buffer's fill; an end of a range may read sizes, but no parameter: inputs must not depend on the
/// configuration.
fn fill(field: &Field, dtype: DType) -> Option<FillSpec> {
    field.keys(&["normal", "uniform", "constant", "npy", "raw", "prepared", "inclusive"])?;
    let kinds: Vec<_> = field.node.entries()?.iter().filter(|entry| entry.key != "inclusive").collect();
    let [entry] = kinds[..] else {
        let hint = "one of: normal = 1.0, uniform = [0, 10], constant = 0, npy = \"a.npy\", raw = \"a.bin\"";
        return field.refuse(format!("{field} has {} keys, expected one", kinds.len()), hint);
    };
    if let Some(inclusive) = field.get("inclusive").filter(|_| entry.key != "uniform") {
        let hint = "it says whether the upper end of `uniform` may occur";
        return inclusive.refuse(format!("{inclusive} has no meaning for `{}`", entry.key), hint);
    }
    let value = field.get(&entry.key)?;
    Some(FillSpec::Fixed(match entry.key.as_str() {
        "normal" => Fill::Normal { scale: value.positive(false)? },
        "constant" => constant(&value, dtype)?,
        "uniform" => {
            let inclusive = field.or("inclusive", false, Field::boolean)?;
            return uniform(&value, dtype, inclusive);
        }
        "prepared" if value.boolean()? => Fill::Prepared,
        "prepared" => Fill::Unrestricted,
        "npy" => Fill::Npy { path: existing_file(&value)? },
        "raw" => Fill::Raw { path: existing_file(&value)? },
        _ => return None,
    }))
}

fn constant(field: &Field, dtype: DType) -> Option<Fill> {
    let value = field.number()?;
    let misfits = |misfit: Misfit| {
        field.complain(&field.node.span, format!("{field} {}", misfit.message), misfit.hint);
    };
    range::element(&Value::Float(value), dtype).map(|()| Fill::Constant { value }).map_err(misfits).ok()
}

fn uniform(field: &Field, dtype: DType, inclusive: bool) -> Option<FillSpec> {
    let sizes = field.context.naming(field.context.names.sizes_only());
    let items = field.with(&sizes).list("two numbers or expressions over sizes")?;
    let [low_end, high_end] = &items[..] else {
        return field.wrong(format!("{field} has {} entries, expected two: [low, high]", items.len()));
    };
    let (low, high) = (expression(low_end)?, expression(high_end)?);
    if !low.distinct_names().is_empty() || !high.distinct_names().is_empty() {
        // The ends are known for each problem, where `resolve` checks them.
        return Some(FillSpec::Uniform { low, high, inclusive });
    }
    let complain = |own: &Field, message: &str, hint| {
        field.complain(&own.node.span, format!("{field}{message}"), hint);
    };
    let value = |expr: &Expr, end: &Field| {
        let found = expr.evaluate(&|_: &str| None);
        found.map_err(|error| complain(end, &format!(": {}", error.message), error.hint)).ok()
    };
    let ends = (value(&low, low_end)?, value(&high, high_end)?);
    let misfits = |misfit: Misfit| {
        let place = match misfit.end {
            Some(End::Low) => low_end,
            Some(End::High) => high_end,
            None => field,
        };
        complain(place, &format!(" {}", misfit.message), misfit.hint);
    };
    range::uniform(&ends.0, &ends.1, inclusive, dtype).map(FillSpec::Fixed).map_err(misfits).ok()
}

const MAP_KIND: &str = "tensor_map";

const MAP_KEYS: &[&str] = &["name", "kind", "of", "dims", "strides", "box", "swizzle", "fill"];

const MAP_FILLS: &[(&str, OutsideFill)] = &[("zero", OutsideFill::Zero), ("nan", OutsideFill::Nan)];

/// Reads a map. Its buffer is looked for by `check_buffer_of_map`, since it may stand behind the map.
fn read_map(field: &Field) -> Option<TensorMapSpec> {
    field.keys(MAP_KEYS)?;
    // A list that goes with `dims`, of which any length is right where those could not be read.
    let beside_dims = |own: &Field, wanted: Option<usize>, hint: &str| {
        let found = expressions(own)?;
        match wanted.filter(|wanted| *wanted != found.len()) {
            Some(wanted) => own.refuse(format!("{own} has {} entries, expected {wanted}", found.len()), hint),
            None => Some(found),
        }
    };
    let of_first = "one for each of `dims` but the first, whose elements are neighbors";
    let box_hint = "add box = [\"64\", \"BLOCK\"], in elements, one entry for each of `dims`";
    read_all!(TensorMapSpec {
        name: field.need("name", "add name = \"…\"", label),
        of: field.need("of", "add of = \"…\", the name of a buffer argument", Field::string),
        dims: field.need("dims", "add dims = [\"D\", \"S\"], in elements, the innermost first", dims),
        strides: field.optional("strides", |own| {
            beside_dims(own, dims.as_ref().map(|dims| dims.len() - 1), of_first)
        }),
        extents: field.need("box", box_hint, |own| {
            beside_dims(own, dims.as_ref().map(Vec::len), "one for each of `dims`")
        }),
        swizzle: field.or("swizzle", SwizzleSpec::Fixed(Swizzle::None), swizzle),
        fill: field.or("fill", OutsideFill::Zero, |own| own.choice(MAP_FILLS)),
    })
}

fn dims(field: &Field) -> Option<Vec<Expr>> {
    let dims = expressions(field)?;
    match (1..=RANK_MAX).contains(&dims.len()) {
        true => Some(dims),
        false => field.wrong(format!("{field} has {} entries, expected 1 to {RANK_MAX}", dims.len())),
    }
}

/// One of four words, or an expression that gives one, or the span in bytes.
fn swizzle(field: &Field) -> Option<SwizzleSpec> {
    let Data::Text(text) = &field.node.data else {
        return expression(field).map(SwizzleSpec::Chosen);
    };
    if let Some(fixed) = Swizzle::named(text) {
        return Some(SwizzleSpec::Fixed(fixed));
    }
    if Expr::parse(text).is_ok() {
        return expression(field).map(SwizzleSpec::Chosen);
    }
    let words: Vec<&str> = Swizzle::ALL.iter().map(|known| known.as_str()).collect();
    let hint = suggestion(text, words.iter().copied(), || {
        format!("one of: {}; or an expression that gives one of them", words.join(", "))
    });
    field.refuse(format!("{field} is `{text}`, which is unknown"), hint)
}

/// Whether the map's buffer is an argument, and can be filled as the map says. `item` is the map's table.
fn check_buffer_of_map(item: &Field, map: &TensorMapSpec, arguments: &[ArgumentSpec]) -> Option<()> {
    let field = item.titled("argument", "name", "an argument");
    let buffers = arguments.iter().filter_map(ArgumentSpec::buffer).filter(|buffer| buffer.symbol.is_none());
    let Some(found) = buffers.clone().find(|buffer| buffer.name == map.of) else {
        let names: Vec<&str> = buffers.map(|buffer| buffer.name.as_str()).collect();
        let hint = suggestion(&map.of, names.iter().copied(), || format!("buffers: {}", names.join(", ")));
        let of = field.get("of")?;
        return of.refuse(format!("{of}: no buffer argument is called `{}`", map.of), hint);
    };
    if map.fill == OutsideFill::Nan && !found.dtype.is_float() {
        let fill = field.get("fill")?;
        let message = format!("{fill} is `nan`, and `{}` has none", found.dtype.as_str());
        return fill.refuse(message, "fill = \"zero\"");
    }
    Some(())
}

const VIEW_FORMS: &[(&str, ComparedForm)] =
    &[("elements", ComparedForm::Elements), ("sorted", ComparedForm::Sorted), ("sum", ComparedForm::Sum)];

fn view(field: &Field, dtype: DType, role: Role, rank: usize) -> Option<ViewSpec> {
    if !role.is_answer() {
        let hint = "it says what of an output is compared with the reference";
        let message = format!("{field} has a meaning for role = \"output\" and \"inout\" only");
        return field.refuse(message, hint);
    }
    field.keys(&["region", "compare", "axis"])?;
    let region = field.optional("region", |own| region(own, rank))?;
    let form = field.or("compare", ComparedForm::Elements, |own| own.choice(VIEW_FORMS))?;
    let axis = field.optional("axis", |own| axis(own, form, rank))?;
    if region.is_none() && form == ComparedForm::Elements {
        let hint = "one of: region = [\"0:N\"], compare = \"sorted\", compare = \"sum\"";
        return field.refuse(format!("{field} says nothing: every element is compared"), hint);
    }
    if form != ComparedForm::Elements && matches!(dtype, DType::I64 | DType::U64) {
        let hint = "64-bit integers are compared bit by bit; a `region` of them may be named";
        return field.refuse(format!("`compare` of {field} needs elements of at most 32 bits"), hint);
    }
    Some(ViewSpec { region, form, axis })
}

fn axis(field: &Field, form: ComparedForm, rank: usize) -> Option<usize> {
    let axis = field.integer(0)? as usize;
    if form == ComparedForm::Elements {
        let hint = "the axis along which elements are sorted or added up";
        let message = format!("{field} has a meaning with compare = \"sorted\" and \"sum\" only");
        return field.refuse(message, hint);
    }
    if axis >= rank {
        let hint = format!("0 is the outermost axis, {} the innermost", rank - 1);
        return field.refuse(format!("{field} is {axis}, and `shape` has {rank} extents"), hint);
    }
    Some(axis)
}

fn region(field: &Field, rank: usize) -> Option<Vec<RangeSpec>> {
    let found = field.list("ranges")?.len();
    if found != rank {
        let hint = "one range for each extent, outermost first; \":\" is all of it";
        return field.refuse(format!("{field} has {found} ranges, and `shape` has {rank} extents"), hint);
    }
    field.each("ranges", view_range)
}

/// `first:stop:step`, each part an expression or absent.
fn view_range(field: &Field) -> Option<RangeSpec> {
    let text = field.string()?;
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    if !(2..=3).contains(&parts.len()) {
        let hint = "as in Python: \"0:N\", \"1:N-1\", \"::2\", \":\" for all of it";
        return field.refuse(format!("{field} has `{text}`, which is not a range"), hint);
    }
    let part = |at: usize| -> Option<Option<Expr>> {
        let Some(text) = parts.get(at).filter(|text| !text.is_empty()) else { return Some(None) };
        let node = Node { data: Data::Text((*text).to_string()), ..field.node.clone() };
        expression(&field.at(&node, field.to_string())).map(Some)
    };
    read_all!(RangeSpec { first: part(0), stop: part(1), step: part(2) })
}
