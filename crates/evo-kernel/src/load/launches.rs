//! `[[launches]]`: which entry points run, in which geometry, with which arguments.
//!
//! Launches that are made several times: `repeat`, `index` and `swap`.

use evo_protocol::entry_name::{self, EntryName};
use evo_space::document::{Data, Node};
use evo_space::expr::is_name;

use super::fields::{Field, argument, dtype, expression, extents, read_all};
use crate::spec::{L2PersistSpec, LaunchSpec, LoopSpec, PassedSpec, ScalarSpec};

/// How the names of evo's own kernels begin, by which profilers and sanitizers leave them out.
const OWN_PREFIX: &str = "evo_";

const KEYS: &str = "entry when grid block shared_bytes cluster cooperative programmatic l2_persist arguments";

pub(super) type Launches = (Vec<LaunchSpec>, Vec<LoopSpec>);

pub(super) fn read(field: &Field) -> Option<Launches> {
    let items = field.list("tables")?;
    if items.is_empty() {
        return field.wrong("`launches` is empty: the kernel would do no work");
    }
    let (mut launches, mut loops) = (Vec::new(), Vec::new());
    let mut sound = true;
    for item in &items {
        sound &= one(item, &mut launches, &mut loops).is_some();
    }
    sound.then_some((launches, loops))
}

/// One table of the list: a launch, a launch that is repeated, or a loop with a body.
fn one(item: &Field, launches: &mut Vec<LaunchSpec>, loops: &mut Vec<LoopSpec>) -> Option<()> {
    let Some(body) = item.node.get("body") else {
        let field = item.titled("launch", "entry", "a launch");
        field.keys(&keys_beside(&[]))?;
        let (launch, found) = repeated(&field)?;
        launches.push(LaunchSpec { in_loop: found.is_some().then_some(loops.len()), ..launch });
        loops.extend(found);
        return Some(());
    };
    let field = item.at(item.node, "a loop of launches");
    field.keys(&[LOOP_KEYS, &["body"]].concat())?;
    let found = read_loop(&field);
    let names = field.context.names.with_index(index_of(item.node));
    let scope = field.context.naming(names);
    let body = field.at(body, "`body` of a loop of launches");
    let read = body.with(&scope).each("launches", |item| {
        let field = item.titled("launch", "entry", "a launch");
        field.keys(&KEYS.split(' ').collect::<Vec<_>>())?;
        launch(&field)
    })?;
    if read.is_empty() {
        return body.wrong(format!("{body} is empty"));
    }
    launches.extend(read.into_iter().map(|launch| LaunchSpec { in_loop: Some(loops.len()), ..launch }));
    loops.push(found?);
    Some(())
}

/// A launch and its own loop, if it says `repeat`.
fn repeated(field: &Field) -> Option<(LaunchSpec, Option<LoopSpec>)> {
    let found = if field.get("repeat").is_some() {
        read_loop(field).map(Some)
    } else {
        let alone: Vec<_> = ["index", "swap"].into_iter().filter_map(|key| field.get(key)).collect();
        for own in &alone {
            let hint = "add repeat = \"STEPS\", how often the launch is made";
            own.hinted(format!("{own} has no meaning without `repeat`"), hint);
        }
        alone.is_empty().then_some(None)
    };
    let scope = field.context.naming(field.context.names.with_index(index_of(field.node)));
    let launch = launch(&field.with(&scope));
    Some((launch?, found?))
}

/// Keys of a table with a source of its own: a single launch, or `launches`.
pub(super) fn keys_beside(others: &[&'static str]) -> Vec<&'static str> {
    others.iter().copied().chain(KEYS.split(' ')).chain(LOOP_KEYS.iter().copied()).collect()
}

pub(super) fn read_beside(field: &Field) -> Option<Launches> {
    let Some(list) = field.get("launches") else {
        let (launch, found) = repeated(field)?;
        let launch = LaunchSpec { in_loop: found.is_some().then_some(0), ..launch };
        return Some((vec![launch], found.into_iter().collect()));
    };
    for own in keys_beside(&[]).into_iter().filter_map(|key| field.get(key)) {
        own.hinted(format!("{own} stands beside `launches`"), "each of `launches` has keys of its own");
    }
    read(&list.at(list.node, "`launches`"))
}

fn launch(field: &Field) -> Option<LaunchSpec> {
    read_all!(LaunchSpec {
        entry: field.need("entry", "add entry = \"…\", the name of a __global__ function", entry_name),
        grid: field.need("grid", "add grid = [\"ceil_div(N, BLOCK)\"], in blocks", extents),
        block: field.need("block", "add block = [\"THREADS\"], in threads", extents),
        when: field.optional("when", expression),
        shared_bytes: field.optional("shared_bytes", expression),
        cooperative: field.optional("cooperative", expression),
        programmatic: field.optional("programmatic", expression),
        l2_persist: field.optional("l2_persist", window),
        cluster: field.optional("cluster", extents),
        arguments: field.optional("arguments", |own| passed(own, field)),
        in_loop: Some(None),
    })
}

fn window(field: &Field) -> Option<L2PersistSpec> {
    field.keys(&["argument", "ratio"])?;
    let hint = "add ratio = 1.0, the share of its accesses that are kept";
    read_all!(L2PersistSpec {
        argument: field.need("argument", "add argument = \"…\", a buffer of [[arguments]]", |own| {
            let found = argument(own)?;
            let Some(what) = found.other else { return Some(found.name.clone()) };
            let message = format!("{field} names `{}`, which is {what}, expected a buffer", found.name);
            own.refuse(message, "name the buffer whose accesses the L2 cache should keep")
        }),
        ratio: field.need("ratio", hint, expression),
    })
}

fn entry_name(field: &Field) -> Option<String> {
    let entry = field.string()?;
    if EntryName::parse(&entry).is_none() {
        let hint = "the name of a __global__ function: scale, ns::scale<float, 4>, scale(float*, int)";
        return field.refuse(format!("{field} is `{entry}`, which is not a function's name"), hint);
    }
    if entry_name::base(&entry).starts_with(OWN_PREFIX) {
        let hint = "give it another name: tools that watch a kernel leave out those of evo's own";
        let message = format!("{field} is `{entry}`, and `{OWN_PREFIX}` begins evo's own kernels");
        return field.refuse(message, hint);
    }
    Some(entry)
}

fn passed(field: &Field, launch: &Field) -> Option<Vec<PassedSpec>> {
    let items = field.list("argument names")?;
    let read = items.iter().enumerate().map(|(position, item)| match item.node.data {
        Data::Table(_) => literal(&item.at(item.node, format!("entry {} of {field}", position + 1))),
        Data::Int(_) | Data::Float(_) | Data::Bool(_) => {
            let hint = "give its type: { value = 1, dtype = \"i32\" }";
            item.refuse(format!("{item} has a number without a type"), hint)
        }
        _ => {
            let found = argument(item)?;
            if let Some(symbol) = &found.symbol {
                let hint = "leave it out here: evo copies it into the variable before each call";
                let name = &found.name;
                item.hinted(format!("{launch} passes `{name}`, which lies in the variable `{symbol}`"), hint);
            }
            Some(PassedSpec::Named(found.name.clone()))
        }
    });
    read.collect::<Vec<_>>().into_iter().collect()
}

/// `{ value = "t + 1", dtype = "i32" }`: a number of this launch alone.
fn literal(field: &Field) -> Option<PassedSpec> {
    field.keys(&["value", "dtype"])?;
    let scalar = read_all!(ScalarSpec {
        name: Some(field.to_string()),
        value: field.need("value", "add value = 1, or an expression", expression),
        dtype: field.need("dtype", "add dtype = \"i32\", \"f32\", …", dtype),
    });
    scalar.map(PassedSpec::Literal)
}

const LOOP_KEYS: &[&str] = &["repeat", "index", "swap"];

fn read_loop(field: &Field) -> Option<LoopSpec> {
    read_all!(LoopSpec {
        times: field.need("repeat", "add repeat = \"STEPS\", how often", expression),
        index: field.optional("index", index),
        swap: field.or("swap", Vec::new(), swaps),
    })
}

/// The name of the number, if it is a text: read before anything else, so that a mistake elsewhere in the loop does not
/// make its uses unknown.
fn index_of(node: &Node) -> Option<String> {
    node.text("index").map(str::to_string)
}

fn index(field: &Field) -> Option<String> {
    let name = field.string()?;
    let names = &field.context.names;
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
    field.refuse(format!("{field} is `{name}`, {complaint}"), hint)
}

/// `["u", "v"]`, or a list of such pairs.
fn swaps(field: &Field) -> Option<Vec<[String; 2]>> {
    let items = field.list("pairs of arguments")?;
    if !items.is_empty() && items.iter().all(|item| !matches!(item.node.data, Data::List(_))) {
        return Some(vec![pair(field)?]);
    }
    field.each("pairs of arguments", pair)
}

fn pair(field: &Field) -> Option<[String; 2]> {
    let items = field.list("two arguments")?;
    let [first, second] = &items[..] else {
        let hint = "two buffers change places: swap = [\"u\", \"v\"]";
        return field.refuse(format!("{field} names {} arguments, expected two", items.len()), hint);
    };
    let (one, other) = (argument(first), argument(second));
    let (one, other) = (one?, other?);
    let swap = field.at(field.node, "`swap`");
    let hint = "two buffers of one type change places";
    if one.name == other.name {
        return second.wrong(format!("{field} names `{}` twice", one.name));
    }
    if let Some(own) = [one, other].into_iter().find(|own| own.other.is_some()) {
        return swap.refuse(format!("{swap} names `{}`, which is not passed as a pointer", own.name), hint);
    }
    if one.dtype != other.dtype {
        let [first, second] = [one, other].map(|own| format!("`{}` of {}", own.name, own.dtype));
        return swap.refuse(format!("{swap} names {first} and {second}"), hint);
    }
    Some([one.name.clone(), other.name.clone()])
}
