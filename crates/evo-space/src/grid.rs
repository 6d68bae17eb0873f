//! `[grid]`: a grid of shapes over axes, as benchmark files write it. Pure: it knows sizes and values, no kernels.
//!
//! ```toml
//! [grid]
//! axes = { B = [1, 4], S = [128, 512], CAUSAL = [0, 1] }
//! where = ["B * S <= 1024"]
//! set = { SQ = "S", SKV = "S" }
//! canonical = ["B == 4 and S == 512"]
//! ```
//!
//! `set` adds sizes that follow from the axes, in order, and `where` leaves out the points at which it does not hold. A
//! point is canonical where any entry of `canonical` holds: an expression, or a table of values.

use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostics, Span, nearest};
use crate::document::{Data, Node};
use crate::expr::{Expr, ExprError, is_name};
use crate::load::{expr_error, inner_span, read_expr, read_value, refuse_unknown_keys};
use crate::value::Value;

pub const POINTS_MAX: usize = 10_000;
/// Points of the product that are looked at: `where` may leave most of them out.
const PRODUCT_MAX: usize = 1_000_000;

const KEYS: &[&str] = &["axes", "where", "set", "canonical"];

#[derive(Clone, Debug)]
pub struct Grid {
    span: Span,
    axes: Vec<GridAxis>,
    derived: Vec<(String, GridExpr)>,
    conditions: Vec<GridExpr>,
    canonical: Vec<CanonicalRule>,
}

#[derive(Clone, Debug)]
pub struct GridAxis {
    pub name: String,
    pub span: Span,
    pub values: Vec<Value>,
}

#[derive(Clone, Debug)]
struct GridExpr {
    node: Node,
    expr: Expr,
}

#[derive(Clone, Debug)]
enum CanonicalRule {
    Expr(GridExpr),
    Values(Vec<(String, Value)>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct GridPoint {
    /// `B4_S512_CAUSAL1`: the axes only.
    pub name: String,
    pub axes: Vec<(String, Value)>,
    pub values: BTreeMap<String, Value>,
    /// Whether a quick run takes it; all points are where the grid marks none.
    pub canonical: bool,
}

/// Reads the table; complaints go to `diagnostics`, and there is one wherever the answer is `None`.
pub fn read_grid(node: &Node, diagnostics: &mut Diagnostics) -> Option<Grid> {
    let Some(entries) = node.entries() else {
        diagnostics.error(node.span.clone(), format!("`grid` is {}, expected a table", node.kind()));
        return None;
    };
    refuse_unknown_keys(entries, KEYS, "`grid`", diagnostics);
    let axes = read_axes(node, diagnostics)?;
    let mut names: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
    let mut derived = Vec::new();
    for entry in table(node.get("set"), "`set` of `grid`", diagnostics)? {
        if names.contains(&entry.key) {
            let message = format!("`{}` has a value already", entry.key);
            diagnostics.error(entry.key_span.clone(), message);
            return None;
        }
        check_name(&entry.key, &entry.key_span, diagnostics)?;
        let expr = expression(&entry.value, &names, diagnostics)?;
        names.push(entry.key.clone());
        derived.push((entry.key.clone(), expr));
    }
    let conditions = list(node.get("where"), "`where` of `grid`", diagnostics)?.iter();
    let conditions: Option<Vec<GridExpr>> =
        conditions.map(|item| expression(item, &names, diagnostics)).collect();
    let conditions = conditions?;
    let mut canonical = Vec::new();
    for item in list(node.get("canonical"), "`canonical` of `grid`", diagnostics)? {
        canonical.push(rule(item, &names, diagnostics)?);
    }
    Some(Grid { span: node.span.clone(), axes, derived, conditions, canonical })
}

impl Grid {
    pub fn span(&self) -> &Span {
        &self.span
    }

    pub fn axes(&self) -> &[GridAxis] {
        &self.axes
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| &*axis.name).chain(self.derived.iter().map(|(name, _)| &**name))
    }

    pub fn reads(&self, name: &str) -> bool {
        let derived = self.derived.iter().map(|(_, own)| own);
        derived
            .chain(&self.conditions)
            .any(|own| own.expr.distinct_names().iter().any(|read| &**read == name))
    }

    /// All points; the last axis turns fastest. `None` after a complaint: no point is left, there are more than
    /// [`POINTS_MAX`], or an expression has no value.
    pub fn points(&self, diagnostics: &mut Diagnostics) -> Option<Vec<GridPoint>> {
        let product = self.axes.iter().try_fold(1usize, |all, axis| all.checked_mul(axis.values.len()));
        let Some(product) = product.filter(|product| *product <= PRODUCT_MAX) else {
            return self.too_many(&format!("more than {PRODUCT_MAX} points before `where`"), diagnostics);
        };
        let mut points = Vec::new();
        for number in 0..product {
            if let Some(point) = self.point(number, diagnostics)? {
                points.push(point);
            }
        }
        if points.len() > POINTS_MAX {
            return self.too_many(&format!("{} points", points.len()), diagnostics);
        }
        if points.is_empty() {
            let hint = "`where` holds at no point of the axes";
            diagnostics.error_with_hint(self.span.clone(), "the grid has no shape", hint);
            return None;
        }
        if !points.iter().any(|point| point.canonical) {
            if !self.canonical.is_empty() {
                let message = "`canonical` holds at no point of the grid";
                diagnostics.error(self.span.clone(), message);
                return None;
            }
            points.iter_mut().for_each(|point| point.canonical = true);
        }
        Some(points)
    }

    fn too_many(&self, what: &str, diagnostics: &mut Diagnostics) -> Option<Vec<GridPoint>> {
        let hint = format!("a grid has at most {POINTS_MAX} points: leave out values, or add to `where`");
        diagnostics.error_with_hint(self.span.clone(), format!("the grid has {what}"), hint);
        None
    }

    /// A point of the product; the inner `None` where `where` leaves it out.
    fn point(&self, number: usize, diagnostics: &mut Diagnostics) -> Option<Option<GridPoint>> {
        let mut rest = number;
        let mut axes = Vec::new();
        for axis in self.axes.iter().rev() {
            axes.push((axis.name.clone(), axis.values[rest % axis.values.len()].clone()));
            rest /= axis.values.len();
        }
        axes.reverse();
        let mut values: BTreeMap<String, Value> = axes.iter().cloned().collect();
        let name = point_name(&axes);
        for (derived, expr) in &self.derived {
            let value = expr.value(&values, &name, diagnostics)?;
            values.insert(derived.clone(), value);
        }
        for condition in &self.conditions {
            if !condition.value(&values, &name, diagnostics)?.is_true() {
                return Some(None);
            }
        }
        let mut canonical = false;
        for rule in &self.canonical {
            canonical |= match rule {
                CanonicalRule::Expr(expr) => expr.value(&values, &name, diagnostics)?.is_true(),
                CanonicalRule::Values(own) => own.iter().all(|(name, value)| values.get(name) == Some(value)),
            };
        }
        Some(Some(GridPoint { name, axes, values, canonical }))
    }
}

impl GridExpr {
    fn value(
        &self,
        values: &BTreeMap<String, Value>,
        point: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Value> {
        let scope = |name: &str| values.get(name).cloned();
        let error = match self.expr.evaluate(&scope) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let error = ExprError { message: format!("{} at `{point}`", error.message), ..error };
        expr_error(&self.node, &error, diagnostics);
        None
    }
}

fn point_name(axes: &[(String, Value)]) -> String {
    let one = |(name, value): &(String, Value)| {
        let text = match value {
            Value::Bool(value) => u8::from(*value).to_string(),
            other => other.to_string(),
        };
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
        format!("{name}{}", text.chars().filter(|c| *c != '"' && *c != '\'').map(plain).collect::<String>())
    };
    axes.iter().map(one).collect::<Vec<_>>().join("_")
}

fn read_axes(node: &Node, diagnostics: &mut Diagnostics) -> Option<Vec<GridAxis>> {
    let hint = "add axes = { N = [1024, 4096] }";
    let Some(found) = node.get("axes") else {
        diagnostics.error_with_hint(node.span.clone(), "`grid` has no `axes`", hint);
        return None;
    };
    let entries = table(Some(found), "`axes` of `grid`", diagnostics)?;
    if entries.is_empty() {
        diagnostics.error_with_hint(found.span.clone(), "the grid has no axis, and so no shape", hint);
        return None;
    }
    let mut axes = Vec::new();
    for entry in entries {
        check_name(&entry.key, &entry.key_span, diagnostics)?;
        let items = match &entry.value.data {
            Data::List(items) => &items[..],
            _ => {
                let message = format!("axis `{}` is {}, expected a list", entry.key, entry.value.kind());
                diagnostics.error(entry.value.span.clone(), message);
                return None;
            }
        };
        let mut values = Vec::new();
        for item in items {
            let value = read_value(item, diagnostics)?;
            if values.contains(&value) {
                let message = format!("axis `{}` has `{value}` twice", entry.key);
                diagnostics.error(item.span.clone(), message);
                return None;
            }
            values.push(value);
        }
        if values.is_empty() {
            let message = format!("axis `{}` has no value, so the grid has no shape", entry.key);
            let hint = format!("write for example `{} = [1, 4]`", entry.key);
            diagnostics.error_with_hint(entry.value.span.clone(), message, hint);
            return None;
        }
        axes.push(GridAxis { name: entry.key.clone(), span: entry.key_span.clone(), values });
    }
    Some(axes)
}

fn check_name(name: &str, span: &Span, diagnostics: &mut Diagnostics) -> Option<()> {
    if is_name(name) {
        return Some(());
    }
    diagnostics.error(span.clone(), format!("`{name}` cannot be a size's name"));
    None
}

fn expression(node: &Node, names: &[String], diagnostics: &mut Diagnostics) -> Option<GridExpr> {
    let expr = match &node.data {
        Data::Int(value) => Expr::parse(&value.to_string()).ok()?,
        Data::Bool(value) => Expr::parse(&Value::Bool(*value).to_string()).ok()?,
        _ => read_expr(node, diagnostics)?,
    };
    for (name, part) in expr.names() {
        if !names.contains(&name) {
            let hint = match nearest(&name, names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known names are {}", names.join(", ")),
            };
            diagnostics.error_with_hint(inner_span(node, &part), format!("unknown name `{name}`"), hint);
            return None;
        }
    }
    Some(GridExpr { node: node.clone(), expr })
}

fn rule(node: &Node, names: &[String], diagnostics: &mut Diagnostics) -> Option<CanonicalRule> {
    let Some(entries) = node.entries() else {
        return expression(node, names, diagnostics).map(CanonicalRule::Expr);
    };
    let mut values = Vec::new();
    for entry in entries {
        if !names.contains(&entry.key) {
            let hint = format!("known names are {}", names.join(", "));
            let message = format!("unknown name `{}`", entry.key);
            diagnostics.error_with_hint(entry.key_span.clone(), message, hint);
            return None;
        }
        values.push((entry.key.clone(), read_value(&entry.value, diagnostics)?));
    }
    Some(CanonicalRule::Values(values))
}

fn table<'n>(
    node: Option<&'n Node>,
    what: &str,
    diagnostics: &mut Diagnostics,
) -> Option<&'n [crate::document::TableEntry]> {
    let Some(node) = node else { return Some(&[]) };
    if node.entries().is_none() {
        diagnostics.error(node.span.clone(), format!("{what} is {}, expected a table", node.kind()));
    }
    node.entries()
}

fn list<'n>(node: Option<&'n Node>, what: &str, diagnostics: &mut Diagnostics) -> Option<&'n [Node]> {
    match node.map(|node| (&node.data, node)) {
        None => Some(&[]),
        Some((Data::List(items), _)) => Some(items),
        Some((_, node)) => {
            diagnostics.error(node.span.clone(), format!("{what} is {}, expected a list", node.kind()));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;

    fn points(text: &str) -> Result<Vec<GridPoint>, String> {
        let mut diagnostics = Diagnostics::default();
        let root = document::parse(text, &mut diagnostics).unwrap();
        let grid = read_grid(root.get("grid").unwrap(), &mut diagnostics);
        let points = grid.and_then(|grid| grid.points(&mut diagnostics));
        assert!(points.is_some() || !diagnostics.is_empty(), "{text}");
        let points = points.filter(|_| diagnostics.is_empty());
        points.ok_or_else(|| diagnostics.render("bench.toml", text))
    }

    #[track_caller]
    fn refused(text: &str, expected: &[&str]) {
        let error = points(text).unwrap_err();
        for part in expected {
            assert!(error.contains(part), "no `{part}` in: {error}");
        }
    }

    #[test]
    fn the_grid_is_the_product_with_what_follows_from_it() {
        let text = "[grid]\naxes = { B = [1, 4], S = [128, 512], CAUSAL = [false, true] }\n\
                    where = [\"B * SQ < 2048\"]\nset = { SQ = \"S\", SKV = \"2 * SQ\", HKV = 8 }\n\
                    canonical = [{ B = 1, S = 512 }, \"B == 4 and CAUSAL\"]\n";
        let points = points(text).unwrap();
        let names: Vec<&str> = points.iter().map(|point| &*point.name).collect();
        let expected = [
            "B1_S128_CAUSAL0",
            "B1_S128_CAUSAL1",
            "B1_S512_CAUSAL0",
            "B1_S512_CAUSAL1",
            "B4_S128_CAUSAL0",
            "B4_S128_CAUSAL1",
        ];
        assert_eq!(names, expected);
        let canonical: Vec<&str> =
            points.iter().filter(|point| point.canonical).map(|point| &*point.name).collect();
        assert_eq!(canonical, ["B1_S512_CAUSAL0", "B1_S512_CAUSAL1", "B4_S128_CAUSAL1"]);
        assert_eq!(points[2].values["SKV"], Value::Int(1024));
        assert_eq!(points[2].values["HKV"], Value::Int(8));
        assert_eq!(points[2].axes.len(), 3);
    }

    #[test]
    fn without_marks_all_points_are_canonical_and_texts_may_be_values() {
        let points = points("[grid]\naxes = { DTYPE = ['f16', 'bf16'], N = [1] }").unwrap();
        assert!(points.iter().all(|point| point.canonical));
        assert_eq!(points[1].name, "DTYPEbf16_N1");
        assert_eq!(points[1].values["DTYPE"], Value::text("bf16"));
    }

    #[test]
    fn mistakes_are_pointed_at() {
        refused("[grid]\nwhere = []", &["`grid` has no `axes`", "hint: add axes"]);
        refused("[grid]\naxes = {}", &["no axis"]);
        refused("[grid]\naxes = { N = [] }", &["no value, so the grid has no shape"]);
        refused("[grid]\naxes = { N = [1, 1] }", &["`1` twice", "bench.toml:2:"]);
        refused("[grid]\naxes = { N = 1 }", &["expected a list"]);
        refused("[grid]\naxes = { N = [1] }\nwhere = ['M > 1']", &["unknown name `M`", "bench.toml:3:"]);
        refused("[grid]\naxes = { N = [1] }\nwhere = ['N > 1']", &["the grid has no shape", "`where`"]);
        refused("[grid]\naxes = { N = [0] }\nset = { K = '4 / N' }", &["at `N0`", "bench.toml:3:"]);
        refused("[grid]\naxes = { N = [1] }\nset = { N = '2' }", &["has a value already"]);
        refused("[grid]\naxes = { N = [1] }\nset = { K = 'K + 1' }", &["unknown name `K`"]);
        refused("[grid]\naxes = { N = [1] }\ncanonical = ['N == 2']", &["holds at no point"]);
        refused("[grid]\naxes = { N = [1] }\nwere = []", &["unknown key `were`", "did you mean `where`?"]);
        refused("[grid]\naxes = { N = [1] }\nwhere = ['N >']", &["bench.toml:3:"]);
    }

    #[test]
    fn a_grid_of_more_than_ten_thousand_points_is_refused() {
        let values = |count: u32| (0..count).map(|value| value.to_string()).collect::<Vec<_>>().join(",");
        let text = |a: u32, b: u32, more: &str| {
            format!("[grid]\naxes = {{ A = [{}], B = [{}] }}\n{more}", values(a), values(b))
        };
        assert_eq!(points(&text(100, 100, "")).unwrap().len(), 10_000);
        refused(&text(101, 100, ""), &["the grid has 10100 points", "at most 10000"]);
        assert_eq!(points(&text(200, 200, "where = ['A == B']")).unwrap().len(), 200);
        refused(&text(1001, 1000, "where = ['A == B']"), &["more than 1000000 points before `where`"]);
    }
}
