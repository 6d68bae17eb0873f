//! Launches that are made several times: `repeat`, `index` and `swap`.

use evo_space::document::{Data, Node};
use evo_space::expr::is_name;

use super::fields::{Fields, Reader};
use super::names::KnownNames;
use crate::spec::{ArgumentSpec, BufferSpec, LoopSpec};

pub(super) const KEYS: &[&str] = &["repeat", "index", "swap"];

/// Reads the keys of a loop, of which `repeat` must be there.
pub(super) fn read(
    reader: &mut Reader,
    fields: &Fields,
    names: &KnownNames,
    argument_names: &[String],
) -> Option<LoopSpec> {
    let times = reader.required(fields, "repeat", "add repeat = \"STEPS\", how often");
    let times = times.and_then(|node| reader.expression(node, &fields.name("repeat"), names));
    let index = match fields.get("index") {
        Some(node) => index(reader, node, &fields.name("index"), names).map(Some),
        None => Some(None),
    };
    let swap = match fields.get("swap") {
        Some(node) => swaps(reader, node, &fields.name("swap"), argument_names),
        None => Some(Vec::new()),
    };
    Some(LoopSpec { times: times?, index: index?, swap: swap? })
}

/// The name of the number, if it is a text: read before anything else, so that a mistake elsewhere in the loop does not
/// make its uses unknown.
pub(super) fn index_of(node: &Node) -> Option<String> {
    match node.get("index").map(|own| &own.data) {
        Some(Data::Text(name)) => Some(name.clone()),
        _ => None,
    }
}

/// Complains of keys that mean nothing without `repeat`.
pub(super) fn refuse_without_repeat(reader: &mut Reader, fields: &Fields) -> bool {
    let mut sound = true;
    for key in ["index", "swap"] {
        if let Some(node) = fields.get(key) {
            let hint = "add repeat = \"STEPS\", how often the launch is made".to_string();
            let message = format!("{} has no meaning without `repeat`", fields.name(key));
            reader.hinted(&node.span, message, Some(hint));
            sound = false;
        }
    }
    sound
}

fn index(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<String> {
    let name = reader.string(node, what)?;
    let complaint = if !is_name(&name) {
        "which cannot be a name"
    } else if names.is_parameter(&name) {
        "which is a parameter"
    } else if names.sizes().contains(name.as_str()) {
        "which is a size"
    } else {
        return Some(name);
    };
    let hint =
        "choose another name; expressions of the launch read under it which time it is, from 0".to_string();
    reader.hinted(&node.span, format!("{what} is `{name}`, {complaint}"), Some(hint));
    None
}

/// `["u", "v"]`, or a list of such pairs.
fn swaps(reader: &mut Reader, node: &Node, what: &str, known: &[String]) -> Option<Vec<[String; 2]>> {
    let items = reader.list(node, what, "pairs of arguments")?;
    if items.is_empty() {
        return Some(Vec::new());
    }
    let nested = items.iter().any(|item| matches!(item.data, Data::List(_)));
    let pairs: Vec<&Node> = if nested { items.iter().collect() } else { vec![node] };
    let read: Vec<_> = pairs.into_iter().map(|own| pair(reader, own, what, known)).collect();
    read.into_iter().collect()
}

fn pair(reader: &mut Reader, node: &Node, what: &str, known: &[String]) -> Option<[String; 2]> {
    let items = reader.list(node, what, "two arguments")?;
    let [one, other] = items else {
        let hint = "two buffers change places: swap = [\"u\", \"v\"]".to_string();
        reader.hinted(
            &node.span,
            format!("{what} names {} arguments, expected two", items.len()),
            Some(hint),
        );
        return None;
    };
    let (first, second) = (reader.argument_name(one, what, known), reader.argument_name(other, what, known));
    let (first, second) = (first?, second?);
    if first == second {
        reader.error(&other.span, format!("{what} names `{first}` twice"));
        return None;
    }
    Some([first, second])
}

/// Complains of swapped arguments that are not two buffers of one type. `node` is the list of pairs.
pub(super) fn check_swaps(reader: &mut Reader, node: &Node, own: &LoopSpec, arguments: &[ArgumentSpec]) {
    let buffer = |name: &str| arguments.iter().find(|own| own.name() == name);
    for pair in &own.swap {
        let [one, other] = [&pair[0], &pair[1]].map(|name| match buffer(name) {
            Some(ArgumentSpec::Buffer(BufferSpec { symbol: None, dtype, .. })) => Ok(*dtype),
            _ => Err(name),
        });
        let message = match (one, other) {
            (Err(name), _) | (_, Err(name)) => {
                format!("`swap` names `{name}`, which is not passed as a pointer")
            }
            (Ok(one), Ok(other)) if one != other => {
                let (first, second) = (one.as_str(), other.as_str());
                format!("`swap` names `{}` of {first} and `{}` of {second}", pair[0], pair[1])
            }
            _ => continue,
        };
        let hint = "two buffers of one type change places".to_string();
        reader.hinted(&node.span, message, Some(hint));
    }
}
