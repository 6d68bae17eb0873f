//! `[[launches]]`: which entry points run, in which geometry, with which arguments.
//!
//! Launches that are made several times: `repeat`, `index` and `swap`.

use evo_protocol::entry_name::{self, EntryName};
use evo_space::document::{Data, Node};
use evo_space::expr::{Expr, is_name};

use super::arguments::DTYPES;
use super::fields::{Fields, KnownNames, Reader};
use crate::spec::{ArgumentSpec, BufferSpec, L2PersistSpec, LaunchSpec, LoopSpec, PassedSpec, ScalarSpec};

/// How the names of evo's own kernels begin, by which profilers and sanitizers leave them out.
const OWN_PREFIX: &str = "evo_";

const KEYS: &[&str] = &[
    "entry",
    "when",
    "grid",
    "block",
    "shared_bytes",
    "cluster",
    "cooperative",
    "programmatic",
    "l2_persist",
    "arguments",
];

pub(super) type Launches = (Vec<LaunchSpec>, Vec<LoopSpec>);

/// Reads the list; `argument_names` are those that a launch may pass.
pub(super) fn read(
    reader: &mut Reader,
    node: &Node,
    names: &KnownNames,
    argument_names: &[String],
) -> Option<Launches> {
    let items = reader.list(node, "`launches`", "tables")?;
    if items.is_empty() {
        reader.error(&node.span, "`launches` is empty: the kernel would do no work");
        return None;
    }
    let (mut launches, mut loops) = (Vec::new(), Vec::new());
    let mut sound = true;
    for item in items {
        sound &= one(reader, item, names, argument_names, (&mut launches, &mut loops)).is_some();
    }
    sound.then_some((launches, loops))
}

/// One table of the list: a launch, a launch that is repeated, or a loop with a body.
fn one(
    reader: &mut Reader,
    node: &Node,
    names: &KnownNames,
    argument_names: &[String],
    (launches, loops): (&mut Vec<LaunchSpec>, &mut Vec<LoopSpec>),
) -> Option<()> {
    let what = described(node);
    if let Some(body) = node.get("body") {
        let fields = reader.fields(node, "a loop of launches", &[LOOP_KEYS, &["body"]].concat())?;
        let own = read_loop(reader, &fields, names, argument_names);
        let inner = names.with_index(index_of(node));
        let items = reader.list(body, "`body` of a loop of launches", "launches")?;
        if items.is_empty() {
            reader.error(&body.span, "`body` of a loop of launches is empty");
            return None;
        }
        let read: Vec<_> = items
            .iter()
            .map(|item| {
                let what = described(item);
                let fields = reader.fields(item, &what, KEYS)?;
                launch(reader, &fields, &inner, argument_names)
            })
            .collect();
        let read: Vec<LaunchSpec> = read.into_iter().collect::<Option<_>>()?;
        launches.extend(read.into_iter().map(|own| LaunchSpec { in_loop: Some(loops.len()), ..own }));
        loops.push(own?);
        return Some(());
    }
    let fields = reader.fields(node, &what, &[KEYS, LOOP_KEYS].concat())?;
    let (own, found) = repeated(reader, &fields, names, argument_names)?;
    launches.push(LaunchSpec { in_loop: found.is_some().then_some(loops.len()), ..own });
    loops.extend(found);
    Some(())
}

/// A launch and its own loop, if it says `repeat`.
fn repeated(
    reader: &mut Reader,
    fields: &Fields,
    names: &KnownNames,
    argument_names: &[String],
) -> Option<(LaunchSpec, Option<LoopSpec>)> {
    let found = match fields.get("repeat") {
        Some(_) => read_loop(reader, fields, names, argument_names).map(Some),
        None => refuse_without_repeat(reader, fields).then_some(None),
    };
    let own = launch(reader, fields, &names.with_index(index_of(fields.node)), argument_names);
    Some((own?, found?))
}

/// Keys of a table with a source of its own: a single launch, or `launches`.
pub(super) fn keys_beside(others: &[&'static str]) -> Vec<&'static str> {
    [others, &["launches"], KEYS, LOOP_KEYS].concat()
}

/// The launches of such a table.
pub(super) fn read_beside(
    reader: &mut Reader,
    fields: &Fields,
    names: &KnownNames,
    argument_names: &[String],
) -> Option<Launches> {
    let Some(list) = fields.get("launches") else {
        let (own, found) = repeated(reader, fields, names, argument_names)?;
        let own = LaunchSpec { in_loop: found.is_some().then_some(0), ..own };
        return Some((vec![own], found.into_iter().collect()));
    };
    for key in KEYS.iter().chain(LOOP_KEYS) {
        if let Some(node) = fields.get(key) {
            let hint = "each of `launches` has keys of its own".to_string();
            reader.hinted(&node.span, format!("{} stands beside `launches`", fields.name(key)), Some(hint));
        }
    }
    read(reader, list, names, argument_names)
}

fn described(node: &Node) -> String {
    match node.get("entry").map(|entry| &entry.data) {
        Some(Data::Text(entry)) => format!("launch `{entry}`"),
        _ => "a launch".to_string(),
    }
}

fn launch(
    reader: &mut Reader,
    fields: &Fields,
    names: &KnownNames,
    argument_names: &[String],
) -> Option<LaunchSpec> {
    let entry = reader.required(fields, "entry", "add entry = \"…\", the name of a __global__ function");
    let entry = entry.and_then(|node| entry_name(reader, node, fields));
    let grid = reader.need(
        fields,
        "grid",
        "add grid = [\"ceil_div(N, BLOCK)\"], in blocks",
        |reader, node, what| reader.extents(node, what, names),
    );
    let block =
        reader.need(fields, "block", "add block = [\"THREADS\"], in threads", |reader, node, what| {
            reader.extents(node, what, names)
        });
    // Every field is read before the first `?` below, so that one pass finds all of the errors.
    let when = optional(reader, fields, "when", names);
    let shared_bytes = optional(reader, fields, "shared_bytes", names);
    let cooperative = optional(reader, fields, "cooperative", names);
    let programmatic = optional(reader, fields, "programmatic", names);
    let l2_persist = reader.optional(fields, "l2_persist", |reader, node, what| {
        window(reader, node, what, names, argument_names)
    });
    let cluster = reader.optional(fields, "cluster", |reader, node, what| reader.extents(node, what, names));
    let arguments = match fields.get("arguments") {
        Some(node) => passed(reader, node, fields, names, argument_names).map(Some),
        None => Some(None),
    };
    Some(LaunchSpec {
        entry: entry?,
        when: when?,
        grid: grid?,
        block: block?,
        shared_bytes: shared_bytes?,
        cluster: cluster?,
        cooperative: cooperative?,
        programmatic: programmatic?,
        l2_persist: l2_persist?,
        arguments: arguments?,
        in_loop: None,
    })
}

/// `{ argument = "k", ratio = 0.6 }`. That the argument is a buffer is checked once all arguments are read.
fn window(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    names: &KnownNames,
    argument_names: &[String],
) -> Option<L2PersistSpec> {
    let fields = reader.fields(node, what, &["argument", "ratio"])?;
    let argument = reader.need(
        &fields,
        "argument",
        "add argument = \"…\", a buffer of [[arguments]]",
        |reader, node, what| reader.argument_name(node, what, argument_names),
    );
    let ratio = reader.need(
        &fields,
        "ratio",
        "add ratio = 1.0, the share of its accesses that are kept",
        |reader, node, what| reader.expression(node, what, names),
    );
    Some(L2PersistSpec { argument: argument?, ratio: ratio? })
}

/// Complains of arguments that cannot be used as a launch uses them.
pub(super) fn check_use(
    reader: &mut Reader,
    node: &Node,
    (launches, loops): (&[LaunchSpec], &[LoopSpec]),
    arguments: &[ArgumentSpec],
) {
    let Data::List(items) = &node.data else { return };
    let own = items.iter().flat_map(|item| match item.get("body").map(|body| &body.data) {
        Some(Data::List(body)) => body.iter().collect(),
        _ => vec![item],
    });
    let find = |name: &str| arguments.iter().find(|own| own.name() == name);
    for (item, launch) in own.zip(launches) {
        check_window(reader, item, launch, arguments);
        for (position, passed) in launch.arguments.iter().flatten().enumerate() {
            let PassedSpec::Named(name) = passed else { continue };
            let Some(ArgumentSpec::Buffer(BufferSpec { symbol: Some(symbol), .. })) = find(name) else {
                continue;
            };
            let place = match item.get("arguments").map(|own| &own.data) {
                Some(Data::List(list)) => list.get(position).map(|own| own.span.clone()),
                _ => None,
            };
            let hint = "leave it out here: evo copies it into the variable before each call".to_string();
            let message =
                format!("launch `{}` passes `{name}`, which lies in the variable `{symbol}`", launch.entry);
            reader.hinted(&place.unwrap_or_else(|| item.span.clone()), message, Some(hint));
        }
    }
    let repeated = items.iter().filter(|item| item.get("repeat").is_some());
    for (item, own) in repeated.zip(loops) {
        check_swaps(reader, item.get("swap").unwrap_or(item), own, arguments);
    }
}

fn check_window(reader: &mut Reader, item: &Node, launch: &LaunchSpec, arguments: &[ArgumentSpec]) {
    let Some(window) = &launch.l2_persist else { return };
    let found = arguments.iter().find(|own| own.name() == window.argument);
    let what = match found {
        Some(ArgumentSpec::Scalar(_)) => "a scalar",
        Some(ArgumentSpec::TensorMap(_)) => "a tensor map",
        Some(ArgumentSpec::Buffer(BufferSpec { symbol: Some(_), .. })) => "a variable of the module",
        Some(ArgumentSpec::Buffer(_)) | None => return,
    };
    let span = item.get("l2_persist").and_then(|own| own.get("argument")).map(|own| own.span.clone());
    let message = format!(
        "`l2_persist` of launch `{}` names `{}`, which is {what}, expected a buffer",
        launch.entry, window.argument
    );
    let hint = "name the buffer whose accesses the L2 cache should keep".to_string();
    reader.hinted(&span.unwrap_or_else(|| item.span.clone()), message, Some(hint));
}

/// An expression that may be absent; the outer `None` is a complaint.
fn optional(reader: &mut Reader, fields: &Fields, key: &str, names: &KnownNames) -> Option<Option<Expr>> {
    reader.optional(fields, key, |reader, node, what| reader.expression(node, what, names))
}

fn entry_name(reader: &mut Reader, node: &Node, fields: &Fields) -> Option<String> {
    let what = fields.name("entry");
    let entry = reader.string(node, &what)?;
    if EntryName::parse(&entry).is_none() {
        let hint = "the name of a __global__ function: scale, ns::scale<float, 4>, scale(float*, int)";
        return reader.refuse(
            &node.span,
            format!("{what} is `{entry}`, which is not a function's name"),
            hint,
        );
    }
    if entry_name::base(&entry).starts_with(OWN_PREFIX) {
        let hint = "give it another name: tools that watch a kernel leave out those of evo's own";
        return reader.refuse(
            &node.span,
            format!("{what} is `{entry}`, and `{OWN_PREFIX}` begins evo's own kernels"),
            hint,
        );
    }
    Some(entry)
}

fn passed(
    reader: &mut Reader,
    node: &Node,
    fields: &Fields,
    names: &KnownNames,
    known: &[String],
) -> Option<Vec<PassedSpec>> {
    let what = fields.name("arguments");
    let items = reader.list(node, &what, "argument names")?;
    let mut arguments = Vec::new();
    for (position, item) in items.iter().enumerate() {
        arguments.extend(match item.data {
            Data::Table(_) => literal(reader, item, &format!("entry {} of {what}", position + 1), names),
            Data::Int(_) | Data::Float(_) | Data::Bool(_) => {
                let hint = "give its type: { value = 1, dtype = \"i32\" }";
                reader.refuse(&item.span, format!("{what} has a number without a type"), hint)
            }
            _ => reader.argument_name(item, &what, known).map(PassedSpec::Named),
        });
    }
    (arguments.len() == items.len()).then_some(arguments)
}

/// `{ value = "t + 1", dtype = "i32" }`: a number of this launch alone.
fn literal(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<PassedSpec> {
    let fields = reader.fields(node, what, &["value", "dtype"])?;
    let value = reader.need(&fields, "value", "add value = 1, or an expression", |reader, node, what| {
        reader.expression(node, what, names)
    });
    let dtype = reader.need(&fields, "dtype", "add dtype = \"i32\", \"f32\", …", |reader, node, what| {
        reader.choice(node, what, DTYPES)
    });
    Some(PassedSpec::Literal(ScalarSpec { name: what.to_string(), dtype: dtype?, value: value? }))
}

const LOOP_KEYS: &[&str] = &["repeat", "index", "swap"];

/// Reads the keys of a loop, of which `repeat` must be there.
fn read_loop(
    reader: &mut Reader,
    fields: &Fields,
    names: &KnownNames,
    argument_names: &[String],
) -> Option<LoopSpec> {
    let times = reader.need(fields, "repeat", "add repeat = \"STEPS\", how often", |reader, node, what| {
        reader.expression(node, what, names)
    });
    let index = reader.optional(fields, "index", |reader, node, what| index(reader, node, what, names));
    let swap = reader
        .value(fields, "swap", Vec::new(), |reader, node, what| swaps(reader, node, what, argument_names));
    Some(LoopSpec { times: times?, index: index?, swap: swap? })
}

/// The name of the number, if it is a text: read before anything else, so that a mistake elsewhere in the loop does not
/// make its uses unknown.
fn index_of(node: &Node) -> Option<String> {
    match node.get("index").map(|own| &own.data) {
        Some(Data::Text(name)) => Some(name.clone()),
        _ => None,
    }
}

/// Complains of keys that mean nothing without `repeat`.
fn refuse_without_repeat(reader: &mut Reader, fields: &Fields) -> bool {
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
    let hint = "choose another name; expressions of the launch read under it which time it is, from 0";
    reader.refuse(&node.span, format!("{what} is `{name}`, {complaint}"), hint)
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
        let hint = "two buffers change places: swap = [\"u\", \"v\"]";
        return reader.refuse(
            &node.span,
            format!("{what} names {} arguments, expected two", items.len()),
            hint,
        );
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
fn check_swaps(reader: &mut Reader, node: &Node, own: &LoopSpec, arguments: &[ArgumentSpec]) {
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
