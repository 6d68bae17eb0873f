//! `[[arguments]]` with `kind = "tensor_map"`: which buffer a map names, and the layout it describes.

use evo_protocol::tensor_map::{OutsideFill, RANK_MAX, Swizzle};
use evo_space::diagnostic::nearest;
use evo_space::document::{Data, Node};
use evo_space::expr::Expr;

use super::fields::{Fields, Reader};
use super::names::KnownNames;
use crate::spec::{ArgumentSpec, SwizzleSpec, TensorMapSpec};

/// The word of `kind` for a map.
const KIND: &str = "tensor_map";

const KEYS: &[&str] = &["name", "kind", "of", "dims", "strides", "box", "swizzle", "fill"];

const FILLS: &[(&str, OutsideFill)] = &[("zero", OutsideFill::Zero), ("nan", OutsideFill::Nan)];

/// Whether an entry of the list is a map, or means to be one.
pub(super) fn is_one(node: &Node) -> bool {
    matches!(node.get("kind").map(|kind| &kind.data), Some(Data::Text(kind)) if kind == KIND)
}

/// Complains of a `kind` that is not one.
pub(super) fn check_kind(reader: &mut Reader, fields: &Fields) {
    if let Some(node) = fields.get("kind") {
        let message = format!("{} is not `{KIND}`", fields.name("kind"));
        let hint = "an argument without `kind` is a buffer, or a scalar if it has `value`".to_string();
        reader.hinted(&node.span, message, Some(hint));
    }
}

/// Reads a map. Its buffer is looked for by `check_buffer`, since it may stand behind the map.
pub(super) fn read(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    names: &KnownNames,
) -> Option<TensorMapSpec> {
    let fields = reader.fields(node, what, KEYS)?;
    let name = reader.required(&fields, "name", "add name = \"…\"");
    let name = name.and_then(|node| reader.label(node, &fields.name("name")));
    let of = reader.required(&fields, "of", "add of = \"…\", the name of a buffer argument");
    let of = of.and_then(|node| reader.string(node, &fields.name("of")));
    let hint = "add dims = [\"D\", \"S\"], in elements, the innermost first";
    let dims = reader.required(&fields, "dims", hint);
    let dims = dims.and_then(|node| list(reader, node, &fields.name("dims"), names));
    let dims = dims.filter(|dims| is_rank(reader, &fields, dims));
    let rank = dims.as_ref().map(Vec::len);
    let strides = match fields.get("strides") {
        Some(node) => list(reader, node, &fields.name("strides"), names).map(Some),
        None => Some(None),
    };
    let strides = strides.filter(|own| {
        let wanted = rank.map(|rank| rank - 1);
        own.as_ref().is_none_or(|own| has_length(reader, &fields, "strides", own.len(), wanted))
    });
    let hint = "add box = [\"64\", \"BLOCK\"], in elements, one entry for each of `dims`";
    let extents = reader.required(&fields, "box", hint);
    let extents = extents.and_then(|node| list(reader, node, &fields.name("box"), names));
    let extents = extents.filter(|own| has_length(reader, &fields, "box", own.len(), rank));
    let swizzle = match fields.get("swizzle") {
        Some(node) => swizzle(reader, node, &fields.name("swizzle"), names),
        None => Some(SwizzleSpec::Fixed(Swizzle::None)),
    };
    let fill = match fields.get("fill") {
        Some(node) => reader.choice(node, &fields.name("fill"), FILLS),
        None => Some(OutsideFill::Zero),
    };
    let (name, of, dims, strides) = (name?, of?, dims?, strides?);
    Some(TensorMapSpec { name, of, dims, strides, extents: extents?, swizzle: swizzle?, fill: fill? })
}

fn list(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<Vec<Expr>> {
    let items = reader.list(node, what, "expressions")?;
    let list: Vec<_> = items.iter().map(|item| reader.expression(item, what, names)).collect();
    list.into_iter().collect()
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
            reader.hinted(&node.span, message, Some(format!("did you mean `{near}`?")));
            None
        }
        (None, Err(_)) => {
            let hint = format!("one of: {}; or an expression that gives one of them", words.join(", "));
            reader.hinted(&node.span, format!("{what} is `{text}`, which is unknown"), Some(hint));
            None
        }
        (_, Ok(_)) => reader.expression(node, what, names).map(SwizzleSpec::Chosen),
    }
}

/// Whether the map's buffer is an argument, and can be filled as the map says. `node` is the map's table.
pub(super) fn check_buffer(
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
        let hint = match nearest(&map.of, buffers.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("buffers: {}", buffers.join(", ")),
        };
        let message = format!("`of` of {what}: no buffer argument is called `{}`", map.of);
        reader.hinted(&node.get("of").unwrap_or(node).span, message, Some(hint));
        return None;
    };
    if map.fill == OutsideFill::Nan && !found.dtype.is_float() {
        let message = format!("`fill` of {what} is `nan`, and `{}` has none", found.dtype.as_str());
        let hint = "fill = \"zero\"".to_string();
        reader.hinted(&node.get("fill").unwrap_or(node).span, message, Some(hint));
        return None;
    }
    Some(())
}
