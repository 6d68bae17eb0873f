//! `[prepare]`: launches of the task's own that derive inputs from inputs, outside of the timed span.

use evo_space::document::{Data, Node, Span};

use super::fields::Reader;
use super::launches;
use super::names::KnownNames;
use super::source::{self, Files};
use crate::spec::{ArgumentSpec, BufferSpec, PassedSpec, PrepareSpec, SourceKind};

const FILL_HINT: &str = "give the input that the launches write fill = { prepared = true }";

/// Reads the table, if there is one, and checks that inputs are prepared where the file says so.
pub(super) fn read(
    reader: &mut Reader,
    root: &Node,
    names: &KnownNames,
    arguments: &[ArgumentSpec],
    files: &Files,
) -> Option<Option<PrepareSpec>> {
    let buffers = || {
        arguments.iter().filter_map(|own| if let ArgumentSpec::Buffer(own) = own { Some(own) } else { None })
    };
    let prepared: Vec<&BufferSpec> = buffers().filter(|own| own.is_prepared()).collect();
    let place = |name: &str| place_of(root, name);
    for own in &prepared {
        if !own.role.is_read() {
            let hint = "what is prepared is an input of the timed launches".to_string();
            reader.hinted(
                &place(&own.name),
                format!("`{}` is prepared, and not an input", own.name),
                Some(hint),
            );
        }
    }
    let Some(node) = root.get("prepare") else {
        if let Some(own) = prepared.first() {
            let hint = "add [prepare] with source, entry, grid, block and arguments".to_string();
            reader.hinted(
                &place(&own.name),
                format!("`{}` is prepared, and there is no [prepare]", own.name),
                Some(hint),
            );
            return None;
        }
        return Some(None);
    };
    if prepared.is_empty() {
        reader.hinted(&node.span, "[prepare] prepares no argument", Some(FILL_HINT.to_string()));
    }
    let fields = reader.fields(node, "`prepare`", &launches::keys_beside(&["source"]))?;
    // Outputs and workspace hold nothing yet, and a tensor map describes what may not be there.
    let is_there = |own: &&ArgumentSpec| match own {
        ArgumentSpec::Buffer(own) => own.role.is_read(),
        ArgumentSpec::Scalar(_) => true,
        ArgumentSpec::TensorMap(_) => false,
    };
    let known: Vec<String> = arguments.iter().filter(is_there).map(|own| own.name().to_string()).collect();
    let text = reader.required(&fields, "source", "add source = \"prepare.cu\", a file of its own");
    let text =
        text.and_then(|node| source::read_text(reader, node, &fields, "source", SourceKind::Plain, files));
    let read = launches::read_beside(reader, &fields, names, &known);
    let (source, (launches, loops)) = (text?, read?);
    let passes = |name: &str| {
        let is_own = |own: &PassedSpec| matches!(own, PassedSpec::Named(own) if own == name);
        launches.iter().any(|own| own.arguments.as_ref().is_none_or(|all| all.iter().any(is_own)))
    };
    if let Some(own) = prepared.iter().find(|own| !passes(&own.name)) {
        let hint = "name it among the `arguments` of the launch that writes it".to_string();
        reader.hinted(&node.span, format!("no launch of [prepare] is given `{}`", own.name), Some(hint));
        return None;
    }
    Some(Some(PrepareSpec { source, launches, loops }))
}

/// The fill of an argument.
fn place_of(root: &Node, name: &str) -> Span {
    let Some(Data::List(items)) = root.get("arguments").map(|node| &node.data) else {
        return Span::default();
    };
    let own = items
        .iter()
        .find(|item| matches!(item.get("name").map(|node| &node.data), Some(Data::Text(own)) if own == name));
    own.map(|own| own.get("fill").unwrap_or(own).span.clone()).unwrap_or_default()
}
