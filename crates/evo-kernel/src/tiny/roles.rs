//! What each size of a problem is to the kernel, and so whether a derived shape may change it.
//!
//! A shape that an honest kernel was never meant for says nothing about it. So a size changes only if the
//! kernel is told its value, by a scalar argument or as a factor of the grid; a size that problems never
//! vary, or that equals a parameter, may be written into the source.
//!
//! A tile is what divides a size in a grid, a shape or an argument: `ceil_div(N, BLOCK * PER_THREAD)`, `N // TILE` and
//! `(N + TILE - 1) // TILE` say how many elements of `N` one block takes. One element more or less than a tile is where
//! a kernel's tail code runs.

use std::collections::{BTreeMap, BTreeSet};

use evo_space::expr::tree::{Function, Kind, Tree};
use evo_space::expr::{Expr, Scope};
use evo_space::genome::Configuration;
use evo_space::value::{Operator, Value};

use crate::resolve::Resolver;
use crate::spec::{BufferSpec, FillSpec, KernelSpec, LaunchSpec, ProblemSpec, whole};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SizeRole {
    Kept,
    /// It switches something on or off, and nothing is that large.
    Flag,
    Free {
        /// Elements that a block takes, if an expression says so.
        tile: Option<i64>,
        /// The kernel needs a multiple of this.
        step: i64,
        most: i64,
    },
    /// It follows another size: that size times `factor`, plus `offset`.
    Tied {
        leader: String,
        factor: i64,
        offset: i64,
    },
}

/// What a batch of one becomes: more than two, so that a stride that is off by one does not fit by chance.
const BATCH: i64 = 3;

pub(super) fn roles(
    kernel: &KernelSpec,
    configuration: &Configuration,
    first: &ProblemSpec,
) -> BTreeMap<String, SizeRole> {
    let evidence = SizeEvidence::of(kernel, configuration, first);
    let mut roles: BTreeMap<String, SizeRole> =
        first.sizes.keys().map(|name| (name.clone(), evidence.role(name))).collect();
    let names: Vec<String> = roles.keys().cloned().collect();
    for (position, name) in names.iter().enumerate() {
        if !matches!(roles[name], SizeRole::Free { .. }) {
            continue;
        }
        let free = |other: &&String| matches!(roles[*other], SizeRole::Free { .. });
        let tie = names[..position].iter().filter(free).find_map(|other| evidence.tie(name, other));
        if let Some((tied, role)) = tie {
            roles.insert(tied, role);
        }
    }
    roles
}

/// How much of a size grids take off before they divide it, where they read no other: `ceil_div(NX - 8, TX)` launches
/// nothing up to 8, so that shapes have to be larger by that.
pub(super) fn halos(kernel: &KernelSpec, configuration: &Configuration) -> BTreeMap<String, i64> {
    let mut halos = BTreeMap::new();
    for grid in kernel.launches.iter().flat_map(|launch| &launch.grid) {
        let sizes = grid.distinct_names().iter().filter(|name| configuration.get(name).is_none());
        let [name] = sizes.collect::<Vec<_>>()[..] else { continue };
        let at_zero = |other: &str| match other == &**name {
            true => Some(Value::Int(0)),
            false => configuration.get(other).cloned(),
        };
        let search = TileSearch { expr: grid, parameters: &at_zero };
        let halo =
            search.taken_off(grid.tree()).unwrap_or_else(|| search.number(grid.tree()).map_or(0, |at| -at));
        let largest = halos.entry(name.to_string()).or_insert(0);
        *largest = halo.max(*largest);
    }
    halos
}

/// Of sizes that have the same value in every problem; only those that leave no partial tile.
pub(super) fn fixed_tiles(
    kernel: &KernelSpec,
    configuration: &Configuration,
    first: &ProblemSpec,
) -> Vec<(String, i64)> {
    let evidence = SizeEvidence::of(kernel, configuration, first);
    let fixed = |name: &String| {
        let values = values(kernel, name);
        let tile = evidence.tiles.get(name).copied()?;
        let whole_tiles = values.iter().all(|value| value % tile == 0);
        let told = evidence.told.contains(name) && evidence.step(name).is_some_and(|step| step % tile != 0);
        (told && whole_tiles && evidence.never_varies(&values)).then(|| (name.clone(), tile))
    };
    first.sizes.keys().filter_map(fixed).collect()
}

struct SizeEvidence<'a> {
    kernel: &'a KernelSpec,
    configuration: &'a Configuration,
    first: &'a ProblemSpec,
    told: BTreeSet<String>,
    /// Sizes that decide how large something is.
    extents: BTreeSet<String>,
    tiles: BTreeMap<String, i64>,
}

fn values(kernel: &KernelSpec, name: &str) -> Vec<i64> {
    kernel.problems.iter().filter_map(|problem| whole(problem.sizes.get(name)?).ok()).collect()
}

/// Which of two launches' tiles shapes are derived from: the larger one, of which more elements are left over, unless no
/// problem is larger than it. A launch that only clears a table of one number for each block has a tile of thousands,
/// and no shape would leave anything over of the tile that matters.
fn more_telling(one: i64, other: i64, most: i64) -> i64 {
    match (one < most, other < most) {
        (true, false) => one,
        (false, true) => other,
        (true, true) => one.max(other),
        (false, false) => one.min(other),
    }
}

impl<'a> SizeEvidence<'a> {
    fn of(
        kernel: &'a KernelSpec,
        configuration: &'a Configuration,
        first: &'a ProblemSpec,
    ) -> SizeEvidence<'a> {
        let grids: Vec<&Expr> = kernel.launches.iter().flat_map(|launch| &launch.grid).collect();
        let shapes: Vec<&Expr> = kernel.buffers().flat_map(|buffer| &buffer.shape).collect();
        let scalars: Vec<&Expr> = kernel.scalars().map(|scalar| &scalar.value).collect();
        let shared = kernel.launches.iter().filter_map(|launch| launch.shared_bytes.as_ref());
        let dims: Vec<&Expr> = kernel.tensor_maps().flat_map(|map| &map.dims).collect();
        let scope = parameters_only(configuration);
        let mut tiles = BTreeMap::new();
        for grid in &grids {
            let mut own = BTreeMap::new();
            add_tiles(grid, &scope, &mut own);
            for (name, tile) in own {
                let other = *tiles.entry(name.clone()).or_insert(tile);
                let most = values(kernel, &name).into_iter().max().unwrap_or(0);
                tiles.insert(name.clone(), more_telling(tile, other, most));
            }
        }
        // A grid says what a block takes; the others only speak of sizes that no grid divides.
        let mut further = BTreeMap::new();
        let others = shapes.iter().chain(&scalars).copied().chain(shared);
        others.for_each(|expr| add_tiles(expr, &scope, &mut further));
        // A box takes so many elements of a dimension at once. The innermost one is left to the rules of the maps.
        for (dim, extent) in kernel.tensor_maps().flat_map(|map| map.dims.iter().zip(&map.extents).skip(1)) {
            add_box(dim, extent, &scope, &mut further);
        }
        for (name, tile) in further {
            tiles.entry(name).or_insert(tile);
        }
        let names = |exprs: &[&Expr]| -> BTreeSet<String> {
            exprs.iter().flat_map(|expr| expr.distinct_names()).map(ToString::to_string).collect()
        };
        SizeEvidence {
            kernel,
            configuration,
            first,
            told: scalars.iter().chain(&grids).chain(&dims).flat_map(|expr| undivided(expr)).collect(),
            extents: names(&grids).union(&names(&shapes)).cloned().collect(),
            tiles,
        }
    }

    fn role(&self, name: &str) -> SizeRole {
        if self.kernel.specialize.iter().any(|own| own == name) {
            return SizeRole::Kept;
        }
        let values = values(self.kernel, name);
        let most = values.iter().copied().max().unwrap_or(0);
        if !self.extents.contains(name) {
            // A count that is 1 everywhere may divide something: a switch is off in some problem.
            let switch = values.iter().all(|value| (0..=1).contains(value)) && values.contains(&0);
            return if switch && self.told.contains(name) { SizeRole::Flag } else { SizeRole::Kept };
        }
        if let Some(step) = self.batch_step(name, &values) {
            return SizeRole::Free { tile: None, step, most: BATCH.max(most) };
        }
        let tile = self.tiles.get(name).copied();
        if !self.told.contains(name) || self.never_varies(&values) || self.comes_from_a_file(name) {
            return SizeRole::Kept;
        }
        if tile.is_none() && self.equals_a_parameter(name) {
            return SizeRole::Kept;
        }
        match self.step(name) {
            Some(step) => SizeRole::Free { tile, step, most },
            None => SizeRole::Kept,
        }
    }

    /// The step of a batch: a size that is the same in every problem, of which the kernel is told, and that only
    /// multiplies. A kernel that ignores a batch of one would pass. One of another number may be written into the
    /// kernel, unless it is both an argument and an extent of the grid: a kernel that swaps it with its equal would
    /// pass.
    fn batch_step(&self, name: &str, values: &[i64]) -> Option<i64> {
        let expressions = || {
            let launches = self.kernel.launches.iter();
            let launches =
                launches.flat_map(|own| own.grid.iter().chain(&own.block).chain(&own.shared_bytes));
            let scalars = self.kernel.scalars().map(|scalar| &scalar.value);
            launches.chain(scalars).chain(self.kernel.buffers().flat_map(|buffer| &buffer.shape))
        };
        let alone = !values.is_empty() && values.iter().all(|value| *value == 1);
        let counted = || self.never_varies(values) && self.is_argument(name) && self.is_grid_extent(name);
        let batch = (alone || counted()) && self.told.contains(name) && !self.comes_from_a_file(name);
        let multiplies = || expressions().all(|expr| only_multiplies(expr, name));
        // Blocks and shared memory do not grow with a batch.
        let launches = || {
            let fixed =
                |own: &LaunchSpec| own.block.iter().chain(&own.shared_bytes).all(|expr| !reads(expr, name));
            self.kernel.launches.iter().all(fixed)
        };
        let held =
            || self.kernel.buffers().flat_map(|buffer| &buffer.shape).any(|extent| reads(extent, name));
        self.step(name).filter(|step| batch && *step <= BATCH && held() && multiplies() && launches())
    }

    fn is_argument(&self, name: &str) -> bool {
        self.kernel.scalars().any(|scalar| scalar.value.text().trim() == name)
    }

    fn is_grid_extent(&self, name: &str) -> bool {
        self.kernel.launches.iter().flat_map(|launch| &launch.grid).any(|extent| extent.text().trim() == name)
    }

    /// Whether the file's problems differ, and not in this size.
    fn never_varies(&self, values: &[i64]) -> bool {
        let differ = self.kernel.problems.windows(2).any(|pair| pair[0].sizes != pair[1].sizes);
        differ && values.windows(2).all(|pair| pair[0] == pair[1])
    }

    fn equals_a_parameter(&self, name: &str) -> bool {
        let own = self.first.sizes.get(name);
        self.configuration.iter().any(|(_, value)| Some(value) == own)
    }

    fn comes_from_a_file(&self, name: &str) -> bool {
        let filed =
            |buffer: &&BufferSpec| matches!(&buffer.fill, FillSpec::Fixed(own) if own.file().is_some());
        self.kernel.buffers().filter(filed).flat_map(|buffer| &buffer.shape).any(|extent| reads(extent, name))
    }

    fn step(&self, name: &str) -> Option<i64> {
        let Some(expr) = self.kernel.check.multiple_of.get(name) else { return Some(1) };
        let resolver = Resolver::of(self.configuration, self.first);
        resolver.integer(expr, "multiple_of").ok().filter(|step| *step > 0)
    }

    /// The larger of two sizes of like names, if it is a multiple of the other in every problem, or larger by the
    /// same number: a kernel may rely on that (`HQ` heads share `HKV`, `W_IN` is `W_OUT` and a margin).
    fn tie(&self, name: &str, other: &str) -> Option<(String, SizeRole)> {
        if !alike(name, other) {
            return None;
        }
        let value = |problem: &ProblemSpec, name: &str| whole(problem.sizes.get(name)?).ok();
        let (own, others) = (value(self.first, name)?, value(self.first, other)?);
        let (tied, leader) = if own >= others { (name, other) } else { (other, name) };
        let pair = |problem: &ProblemSpec| Some((value(problem, tied)?, value(problem, leader)?));
        let pairs: Vec<(i64, i64)> = self.kernel.problems.iter().map(pair).collect::<Option<_>>()?;
        let (largest, smallest) = pairs.first().copied()?;
        let role = |factor, offset| SizeRole::Tied { leader: leader.to_string(), factor, offset };
        if pairs.iter().all(|(tied, leader)| *leader > 0 && tied % leader == 0) {
            return Some((tied.to_string(), role(largest / smallest, 0)));
        }
        let offset = largest - smallest;
        let constant = pairs.iter().all(|(tied, leader)| tied - leader == offset);
        constant.then(|| (tied.to_string(), role(1, offset)))
    }
}

fn reads(expr: &Expr, name: &str) -> bool {
    expr.distinct_names().iter().any(|own| &**own == name)
}

/// `HQ` and `HKV`, `N_IN` and `N_OUT`, `IN_W` and `OUT_W`: names that differ in a short mark.
fn alike(one: &str, other: &str) -> bool {
    let equal = |(a, b): &(u8, u8)| a == b;
    let prefix = one.bytes().zip(other.bytes()).take_while(equal).count();
    let suffix = one.bytes().rev().zip(other.bytes().rev()).take_while(equal).count();
    let short = |common: usize| one.len() - common <= 3 && other.len() - common <= 3;
    // One letter at the end is chance: `ROWS` and `COLS`.
    (prefix > 0 && short(prefix)) || (suffix > 1 && short(suffix))
}

/// The largest that an expression has in a configuration, in elements. Sizes that only multiply have none.
fn add_tiles(expr: &Expr, parameters: &dyn Scope, found: &mut BTreeMap<String, i64>) {
    walk(&TileSearch { expr, parameters }, expr.tree(), found);
}

fn add_box(dim: &Expr, extent: &Expr, parameters: &dyn Scope, found: &mut BTreeMap<String, i64>) {
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
fn undivided(expr: &Expr) -> Vec<String> {
    let mut names = Vec::new();
    collect_undivided(expr, expr.tree(), &mut names);
    names
}

/// Whether an expression reads a name only as a sum or a product does: twice as much of it is a value too.
fn only_multiplies(expr: &Expr, name: &str) -> bool {
    let count = |names: &[String]| names.iter().filter(|own| *own == name).count();
    let mut all = Vec::new();
    collect_names(expr, expr.tree(), &mut all);
    count(&all) == count(&undivided(expr))
}

struct TileSearch<'a> {
    expr: &'a Expr,
    parameters: &'a dyn Scope,
}

fn walk(search: &TileSearch, tree: &Tree, found: &mut BTreeMap<String, i64>) {
    divisions(tree, &mut |dividends, divisor| {
        let Some(outer) = search.number(divisor).filter(|tile| *tile > 1) else { return };
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
    fn value(&self, tree: &Tree) -> Option<Value> {
        let text = self.expr.text().get(tree.span.clone())?;
        Expr::parse(text).ok()?.evaluate(self.parameters).ok()
    }

    fn number(&self, tree: &Tree) -> Option<i64> {
        whole(&self.value(tree)?).ok()
    }

    /// The most that is taken off before a division, where the one size is 0; `None` without a division. What is added
    /// to round up does not count: `(N - 8 + TILE - 1) // TILE`.
    fn taken_off(&self, tree: &Tree) -> Option<i64> {
        let mut most = None;
        divisions(tree, &mut |dividends, divisor| {
            let [dividend] = dividends else { return };
            let text = self.expr.text().get(dividend.span.clone()).unwrap_or_default();
            // `ceil_div` rounds up by itself: what is added to its dividend is padding.
            let rounds = matches!(tree.kind, Kind::Chain(..)) && text.contains('+');
            let rounding = if rounds { self.number(divisor).unwrap_or(1) - 1 } else { 0 };
            most = most.max(self.number(dividend).map(|at_zero| rounding - at_zero));
        });
        tree.for_children(&mut |child| most = most.max(self.taken_off(child)));
        most
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

pub(super) fn parameters_only(configuration: &Configuration) -> impl Scope + '_ {
    move |name: &str| -> Option<Value> { configuration.get(name).cloned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_beyond_all_problems_tells_nothing() {
        assert_eq!([more_telling(64, 256, 4000), more_telling(256, 64, 4000)], [256, 256]);
        assert_eq!([more_telling(64, 8192, 4000), more_telling(8192, 64, 4000)], [64, 64]);
        assert_eq!(more_telling(8192, 4096, 4000), 4096);
    }

    #[test]
    fn names_of_one_kind() {
        for (one, other) in [
            ("HQ", "HKV"),
            ("SQ", "SKV"),
            ("N_IN", "N_OUT"),
            ("N", "N2"),
            ("IN_W", "OUT_W"),
            ("INPUT_H", "OUTPUT_H"),
        ] {
            assert!(alike(one, other), "{one} {other}");
        }
        for (one, other) in
            [("M", "N"), ("ROWS", "RADIUS"), ("COLS", "CHANNELS"), ("W", "H"), ("ROWS", "COLS")]
        {
            assert!(!alike(one, other), "{one} {other}");
        }
    }

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
