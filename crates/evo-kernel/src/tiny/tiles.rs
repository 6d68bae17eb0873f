//! Tiles: what divides a size in a grid, a shape or an argument.
//!
//! `ceil_div(N, BLOCK * PER_THREAD)`, `N // TILE` and `(N + TILE - 1) // TILE` say how many elements of `N`
//! one block takes. The divisor's value in a configuration is the tile, and one element more or less than a
//! tile is where a kernel's tail code runs.

use std::collections::BTreeMap;

use evo_space::expr::tree::{Function, Kind, Tree};
use evo_space::expr::{Expr, Scope};
use evo_space::genome::Configuration;
use evo_space::value::{Operator, Value};

use crate::resolve::whole;

/// The largest tile of each size, in elements, that an expression has in a configuration. Sizes that only
/// multiply have none.
pub(super) fn add_tiles(expr: &Expr, parameters: &dyn Scope, found: &mut BTreeMap<String, i64>) {
    walk(&TileSearch { expr, parameters }, expr.tree(), found);
}

/// Adds the elements that a box takes of a tensor's dimension as the tile of the size that the dimension is.
pub(super) fn add_box(dim: &Expr, extent: &Expr, parameters: &dyn Scope, found: &mut BTreeMap<String, i64>) {
    let Some(tile) = extent.evaluate(parameters).ok().and_then(|value| whole(&value).ok()) else { return };
    // Of a product, nothing tells which factor the box cuts.
    if let [name] = &undivided(dim)[..]
        && dim.text().trim() == name
        && parameters.get(name).is_none()
        && tile > 1
    {
        let best = found.entry(name.clone()).or_insert(tile);
        *best = tile.max(*best);
    }
}

/// Names that an expression reads outside every dividend: a grid of `B * ceil_div(N, 64)` tells a kernel `B`.
pub(super) fn undivided(expr: &Expr) -> Vec<String> {
    let mut names = Vec::new();
    collect_undivided(expr, expr.tree(), &mut names);
    names
}

/// Whether an expression reads a name only as a sum or a product does: twice as much of it is a value too.
pub(super) fn only_multiplies(expr: &Expr, name: &str) -> bool {
    let count = |names: &[String]| names.iter().filter(|own| *own == name).count();
    let mut all = Vec::new();
    collect_names(expr, expr.tree(), &mut all);
    count(&all) == count(&undivided(expr))
}

struct TileSearch<'a> {
    expr: &'a Expr,
    /// The values of parameters; sizes are not among them.
    parameters: &'a dyn Scope,
}

fn walk(search: &TileSearch, tree: &Tree, found: &mut BTreeMap<String, i64>) {
    divisions(tree, &mut |dividends, divisor| {
        let value = search.value(divisor).and_then(|value| whole(&value).ok());
        let Some(outer) = value.filter(|tile| *tile > 1) else { return };
        for (name, inner) in dividends.iter().flat_map(|tree| search.divided_names(tree)) {
            let tile = outer.saturating_mul(inner);
            let best = found.entry(name).or_insert(tile);
            *best = tile.max(*best);
        }
    });
    if let Kind::If { condition, then, otherwise } = &tree.kind
        && let Some(holds) = search.value(condition)
    {
        let chosen = if holds.is_true() { then } else { otherwise };
        return walk(search, chosen, found);
    }
    tree.for_children(&mut |child| walk(search, child, found));
}

/// Calls with the parts of each dividend of this node, and its divisor.
fn divisions<'t>(tree: &'t Tree, each: &mut dyn FnMut(&[&'t Tree], &'t Tree)) {
    match &tree.kind {
        Kind::Call(Function::CeilDiv, operands) => {
            if let [dividend, divisor] = &operands[..] {
                each(&[dividend], divisor);
            }
        }
        Kind::Chain(first, rest) => {
            let mut before = vec![&**first];
            for (operator, operand) in rest {
                if is_division(*operator) {
                    each(&before, operand);
                }
                before.push(operand);
            }
        }
        _ => {}
    }
}

fn is_division(operator: Operator) -> bool {
    matches!(operator, Operator::FloorDivide | Operator::Divide)
}

impl TileSearch<'_> {
    /// The value of a part of the expression; `None` where it reads a size.
    fn value(&self, tree: &Tree) -> Option<Value> {
        let text = self.expr.text().get(tree.span.clone())?;
        Expr::parse(text).ok()?.evaluate(self.parameters).ok()
    }

    /// The names that are read below a dividend and are not parameters, each with the tile that divides it
    /// there already: in `ceil_div(ceil_div(N, 4), 32)` a block takes 128 elements of `N`.
    fn divided_names(&self, tree: &Tree) -> Vec<(String, i64)> {
        let mut inner = BTreeMap::new();
        walk(self, tree, &mut inner);
        let mut names = Vec::new();
        collect_names(self.expr, tree, &mut names);
        names.retain(|name| self.parameters.get(name).is_none());
        names.into_iter().map(|name| (name.clone(), inner.get(&name).copied().unwrap_or(1))).collect()
    }
}

fn collect_names(expr: &Expr, tree: &Tree, names: &mut Vec<String>) {
    if let Kind::Name(slot) = tree.kind {
        names.push(expr.distinct_names()[slot].to_string());
    }
    tree.for_children(&mut |child| collect_names(expr, child, names));
}

fn collect_undivided(expr: &Expr, tree: &Tree, names: &mut Vec<String>) {
    match &tree.kind {
        Kind::Name(slot) => names.push(expr.distinct_names()[*slot].to_string()),
        Kind::Call(Function::CeilDiv, _) => {}
        Kind::Chain(_, rest) if rest.iter().any(|(operator, _)| is_division(*operator)) => {
            // What follows the last divisor multiplies the quotient.
            let factors = rest.iter().rev().take_while(|(operator, _)| !is_division(*operator));
            factors.for_each(|(_, factor)| collect_undivided(expr, factor, names));
        }
        _ => tree.for_children(&mut |child| collect_undivided(expr, child, names)),
    }
}

/// The scope of parameters alone, without what the sizes say.
pub(super) fn parameters_only(configuration: &Configuration) -> impl Scope + '_ {
    move |name: &str| -> Option<Value> { configuration.get(name).cloned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_multiplies_and_a_group_divides() {
        let only = |text: &str| only_multiplies(&Expr::parse(text).unwrap(), "B");
        assert!(["B", "B * N", "ceil_div(N, 64) * B", "N", "B + 1"].into_iter().all(only));
        assert!(!["N // B", "ceil_div(N, B)", "ceil_div(B * N, 64)", "B * (N // B)"].into_iter().any(only));
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let parameters = |name: &str| match name {
            "BLOCK" => Some(Value::Int(64)),
            "PER_THREAD" => Some(Value::Int(4)),
            "ON" => Some(Value::Int(1)),
            _ => None,
        };
        let expr = Expr::parse(text).unwrap();
        let mut found = BTreeMap::new();
        add_tiles(&expr, &parameters, &mut found);
        let shown: Vec<String> = found.iter().map(|(name, tile)| format!("{name}={tile}")).collect();
        assert_eq!(shown.join(" "), expected, "{text}");
    }

    #[test]
    fn divisors_are_tiles() {
        check("ceil_div(N, BLOCK * PER_THREAD)", "N=256");
        check("N // BLOCK", "N=64");
        check("N / (BLOCK * 2)", "N=128");
        check("(N + BLOCK - 1) // BLOCK", "N=64");
        check("min(528, ceil_div(N, BLOCK))", "N=64");
        check("ceil_div(N, BLOCK) if ON else ceil_div(N, 2 * BLOCK)", "N=64");
        check("ceil_div(N, BLOCK) if N > 9 else ceil_div(N, 2 * BLOCK)", "N=128");
        check("N // ((BLOCK + 2) * 2)", "N=132");
        check("B * H * ceil_div(N, BLOCK)", "N=64");
        check("M * N // BLOCK", "M=64 N=64");
        check("ceil_div(ceil_div(N, PER_THREAD), BLOCK)", "N=256");
        check("N", "");
        check("ceil_div(N, M)", "");
        check("ceil_div(N, 1)", "");
        check("N % BLOCK", "");
    }

    #[test]
    fn a_factor_beside_a_quotient_is_told() {
        let names = |text: &str| undivided(&Expr::parse(text).unwrap());
        assert_eq!(names("B * H"), ["B", "H"]);
        assert_eq!(names("ceil_div(N, 64)"), [""; 0]);
        assert_eq!(names("N // 64 * B"), ["B"]);
        assert_eq!(names("min(B, ceil_div(N, 64))"), ["B"]);
    }
}
