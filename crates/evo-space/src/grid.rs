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

use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::document::{Data, Field, Node, TableEntry, suggestion};
use crate::expr::{Expr, is_name};
use crate::load::{inner_span, read_expr, read_parameter, read_value};
use crate::parameter::Parameter;
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

/// Reads the table; there is a complaint wherever the answer is `None`.
pub fn read_grid<C>(field: &Field<'_, C>) -> Option<Grid> {
    let field = &field.at(field.node, "`grid`").with(&());
    field.keys(KEYS)?;
    let axes = read_axes(field)?;
    let mut names: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
    let mut derived = Vec::new();
    for entry in field.or("set", &[][..], |set| set.entries("a table"))? {
        if names.contains(&entry.key) {
            field.complain(&entry.key_span, format!("`{}` has a value already", entry.key), None);
            return None;
        }
        check_name(field, entry)?;
        let expr = expression(&field.at(&entry.value, ""), &names)?;
        // Behind its own expression, so that a size cannot follow from itself.
        names.push(entry.key.clone());
        derived.push((entry.key.clone(), expr));
    }
    let list = |key: &str| {
        field.or(key, Vec::new(), |list| match list.node.items() {
            Some(items) => Some(items.iter().map(|item| field.at(item, "")).collect()),
            None => list.wrong_kind("a list"),
        })
    };
    let conditions = list("where")?.iter().map(|item| expression(item, &names)).collect::<Option<_>>()?;
    let canonical = list("canonical")?.iter().map(|item| rule(item, &names)).collect::<Option<_>>()?;
    Some(Grid { span: field.node.span.clone(), axes, derived, conditions, canonical })
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
        let (message, span) =
            (format!("{} at `{point}`", error.message), inner_span(&self.node, &error.span));
        diagnostics.push(Diagnostic { message, span: Some(span), hint: error.hint });
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

fn read_axes(grid: &Field) -> Option<Vec<GridAxis>> {
    let hint = "add axes = { N = [1024, 4096] }";
    let field = grid.required("axes", hint)?;
    let entries = field.entries("a table")?;
    if entries.is_empty() {
        return field.refuse("the grid has no axis, and so no shape", hint);
    }
    entries.iter().map(|entry| read_axis(&field, entry)).collect()
}

/// As a parameter is read, whose values are a list or a series.
fn read_axis(axes: &Field, entry: &TableEntry) -> Option<GridAxis> {
    let Parameter { name, values, .. } = read_parameter(axes, entry)?;
    Some(GridAxis { name: name.to_string(), span: entry.key_span.clone(), values })
}

fn check_name(field: &Field, entry: &TableEntry) -> Option<()> {
    if !is_name(&entry.key) {
        field.complain(&entry.key_span, format!("`{}` cannot be a size's name", entry.key), None);
        return None;
    }
    Some(())
}

/// An expression over known names; a number stands for itself.
fn expression(field: &Field, names: &[String]) -> Option<GridExpr> {
    let expr = match &field.node.data {
        Data::Int(value) => Expr::parse(&value.to_string()).ok()?,
        Data::Bool(value) => Expr::parse(&Value::Bool(*value).to_string()).ok()?,
        _ => read_expr(field)?,
    };
    if let Some((name, part)) = expr.names().iter().find(|(name, _)| !names.contains(name)) {
        let hint = suggestion(name, names.iter().map(String::as_str), || known_names(names));
        field.complain(&inner_span(field.node, part), format!("unknown name `{name}`"), Some(hint));
        return None;
    }
    Some(GridExpr { node: field.node.clone(), expr })
}

fn known_names(names: &[String]) -> String {
    format!("known names are {}", names.join(", "))
}

fn rule(field: &Field, names: &[String]) -> Option<CanonicalRule> {
    let Some(entries) = field.node.entries() else {
        return expression(field, names).map(CanonicalRule::Expr);
    };
    let mut values = Vec::new();
    for entry in entries {
        if !names.contains(&entry.key) {
            let message = format!("unknown name `{}`", entry.key);
            field.complain(&entry.key_span, message, Some(known_names(names)));
            return None;
        }
        values.push((entry.key.clone(), read_value(&field.at(&entry.value, ""))?));
    }
    Some(CanonicalRule::Values(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;

    fn points(text: &str) -> Result<Vec<GridPoint>, String> {
        let mut diagnostics = Diagnostics::default();
        let root = document::parse(text, &mut diagnostics).unwrap();
        let node = root.get("grid").unwrap();
        let grid = document::reading(node, "`grid`", &mut diagnostics, read_grid);
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
        refused("[grid]\naxes = { N = [] }", &["`N` has no values"]);
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
