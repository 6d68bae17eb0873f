//! `check` of an argument: what of an output is compared with its answer.

use evo_protocol::dtype::DType;
use evo_protocol::plan::Role;
use evo_protocol::view::ComparedForm;
use evo_space::document::{Data, Node};
use evo_space::expr::Expr;

use super::fields::{Fields, Reader};
use super::names::KnownNames;
use crate::spec::{RangeSpec, ViewSpec};

const FORMS: &[(&str, ComparedForm)] =
    &[("elements", ComparedForm::Elements), ("sorted", ComparedForm::Sorted), ("sum", ComparedForm::Sum)];

/// What a buffer is, as far as its view depends on it.
pub(super) struct Viewed {
    pub(super) dtype: DType,
    pub(super) role: Role,
    /// How many extents it has.
    pub(super) rank: usize,
}

/// Reads the table; `None` after a complaint.
pub(super) fn read(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    buffer: &Viewed,
    names: &KnownNames,
) -> Option<ViewSpec> {
    if !buffer.role.is_answer() {
        let hint = "it says what of an output is compared with the reference".to_string();
        let message = format!("{what} has a meaning for role = \"output\" and \"inout\" only");
        reader.hinted(&node.span, message, Some(hint));
        return None;
    }
    let fields = reader.fields(node, what, &["region", "compare", "axis"])?;
    let region = match fields.get("region") {
        Some(node) => Some(region(reader, node, &fields.name("region"), buffer.rank, names)?),
        None => None,
    };
    let form = match fields.get("compare") {
        Some(node) => reader.choice(node, &fields.name("compare"), FORMS)?,
        None => ComparedForm::Elements,
    };
    let axis = match fields.get("axis") {
        Some(node) => Some(axis(reader, node, &fields, form, buffer.rank)?),
        None => None,
    };
    if region.is_none() && form == ComparedForm::Elements {
        let hint = "one of: region = [\"0:N\"], compare = \"sorted\", compare = \"sum\"".to_string();
        reader.hinted(&node.span, format!("{what} says nothing: every element is compared"), Some(hint));
        return None;
    }
    if form != ComparedForm::Elements && matches!(buffer.dtype, DType::I64 | DType::U64) {
        let message = format!("{} needs elements of at most 32 bits", fields.name("compare"));
        let hint = "64-bit integers are compared bit by bit; a `region` of them may be named".to_string();
        reader.hinted(&node.span, message, Some(hint));
        return None;
    }
    Some(ViewSpec { region, form, axis })
}

fn axis(reader: &mut Reader, node: &Node, fields: &Fields, form: ComparedForm, rank: usize) -> Option<usize> {
    let what = fields.name("axis");
    let axis = reader.integer(node, &what, 0)? as usize;
    if form == ComparedForm::Elements {
        let hint = "the axis along which elements are sorted or added up".to_string();
        let message = format!("{what} has a meaning with compare = \"sorted\" and \"sum\" only");
        reader.hinted(&node.span, message, Some(hint));
        return None;
    }
    if axis >= rank {
        let hint = format!("0 is the outermost axis, {} the innermost", rank - 1);
        reader.hinted(&node.span, format!("{what} is {axis}, and `shape` has {rank} extents"), Some(hint));
        return None;
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
        let hint = "one range for each extent, outermost first; \":\" is all of it".to_string();
        let message = format!("{what} has {} ranges, and `shape` has {rank} extents", items.len());
        reader.hinted(&node.span, message, Some(hint));
        return None;
    }
    let ranges: Vec<_> = items.iter().map(|item| range(reader, item, what, names)).collect();
    ranges.into_iter().collect()
}

/// `first:stop:step`, each part an expression or absent.
fn range(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<RangeSpec> {
    let text = reader.string(node, what)?;
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    if !(2..=3).contains(&parts.len()) {
        let hint = "as in Python: \"0:N\", \"1:N-1\", \"::2\", \":\" for all of it".to_string();
        reader.hinted(&node.span, format!("{what} has `{text}`, which is not a range"), Some(hint));
        return None;
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
