//! How the kernel is launched: what a block covers along each axis, from what stands beside `blockIdx`; and how far the
//! variables of a body run, from the comparisons and loops in which they stand.

use std::collections::{BTreeMap, BTreeSet};

use super::definitions::{Definitions, is_block};
use super::{SketchArgument, SketchGuess, SketchLaunch, SketchTunable, guessed};
use crate::words::{is_name, until};

pub(super) struct LaunchClues<'a, 's> {
    arguments: &'a [SketchArgument],
    body: &'a [&'s str],
    brackets: &'a [usize],
    tokens: &'a [&'s str],
    definitions: &'a Definitions<'s>,
    /// Names of the parameters so far.
    names: Vec<String>,
    /// How many axes the kernel asks about.
    axes: usize,
}

enum Tile {
    /// One: each block is an index of its own.
    Unit,
    Of(String),
    /// The threads of the block, times this.
    Threads(Option<String>),
    Unknown,
}

impl<'a, 's> LaunchClues<'a, 's> {
    pub(super) fn of(
        arguments: &'a [SketchArgument],
        (body, brackets): (&'a [&'s str], &'a [usize]),
        tokens: &'a [&'s str],
        definitions: &'a Definitions<'s>,
        tunables: &[SketchTunable],
    ) -> LaunchClues<'a, 's> {
        let uses = |axis: &str| {
            let names = ["blockIdx", "threadIdx"];
            body.windows(3).any(|words| names.contains(&words[0]) && words[1] == "." && words[2] == axis)
        };
        let axes = (0..AXES.len()).rev().find(|axis| uses(AXES[*axis])).map_or(1, |axis| axis + 1);
        let names = tunables.iter().map(|tunable| tunable.name.clone()).collect();
        LaunchClues { arguments, body, brackets, tokens, definitions, names, axes }
    }

    fn is_parameter(&self, name: &str) -> bool {
        self.names.iter().any(|parameter| parameter == name)
    }

    fn expression(&self, tokens: &[&str]) -> Option<String> {
        self.definitions.expression(tokens, &|name| self.is_parameter(name))
    }

    fn uses(&self, name: &str, axis: usize) -> bool {
        self.body.windows(3).any(|words| words == [name, ".", AXES[axis]])
    }

    /// How far the blocks of an axis run together where no condition says it.
    fn fallback(&self, axis: usize, is_unit: bool) -> String {
        let sizes: Vec<&str> = self.arguments.iter().filter_map(SketchArgument::size).collect();
        match sizes.len() {
            0 => "N".to_string(),
            1 => sizes[0].to_string(),
            _ if self.axes == 1 && is_unit => sizes[0].to_string(),
            _ if self.axes == 1 => sizes.join(" * "),
            // The fastest axis runs over the innermost extent.
            count => sizes[(count - 1).saturating_sub(axis)].to_string(),
        }
    }

    fn tile(&self, axis: usize) -> Tile {
        let body = self.body;
        let own = ["blockIdx", ".", AXES[axis]];
        let Some(at) = body.windows(3).position(|words| words == own) else { return Tile::Unknown };
        let mut factors: Vec<&[&str]> = Vec::new();
        let mut behind = at + 3;
        while body.get(behind) == Some(&"*") {
            let end = self.factor_end(behind + 1);
            factors.push(&body[behind + 1..end]);
            behind = end;
        }
        if at > 0 && body[at - 1] == "*" {
            factors.push(&body[self.factor_start(at - 1)..at - 1]);
        }
        // `(blockIdx.x * blockDim.x + threadIdx.x) * 4`
        let open = opened(body, at).filter(|open| !open.checked_sub(1).is_some_and(|at| is_name(body[at])));
        let end = open.map(|open| self.brackets[open]);
        if let Some(end) = end.filter(|end| body.get(*end) == Some(&"*")) {
            factors.push(&body[end + 1..self.factor_end(end + 1)]);
        }
        if factors.is_empty() {
            return Tile::Unit;
        }
        let threads = ["blockDim", ".", AXES[axis]];
        let is_threads = factors.iter().any(|own| own[..] == threads);
        let others = factors.iter().filter(|own| own[..] != threads);
        let others: Option<Vec<String>> = others.map(|own| self.expression(own)).collect();
        match others {
            None => Tile::Unknown,
            Some(others) if is_threads => Tile::Threads((!others.is_empty()).then(|| others.join(" * "))),
            Some(others) => Tile::Of(others.join(" * ")),
        }
    }

    fn factor_end(&self, from: usize) -> usize {
        match self.body[from..] {
            ["(", ..] => self.brackets[from],
            ["blockDim" | "gridDim", ".", _, ..] => from + 3,
            [] => from,
            _ => from + 1,
        }
    }

    fn factor_start(&self, end: usize) -> usize {
        match self.body[..end] {
            [.., "blockDim" | "gridDim", ".", _] => end - 3,
            [.., ")"] => self.brackets[end - 1],
            _ => end.saturating_sub(1),
        }
    }
}

fn opened(tokens: &[&str], at: usize) -> Option<usize> {
    let mut depth = 0;
    for place in (0..at).rev() {
        match tokens[place] {
            ")" => depth += 1,
            "(" if depth == 0 => return Some(place),
            "(" => depth -= 1,
            ";" | "{" | "}" => return None,
            _ => {}
        }
    }
    None
}

/// Guesses block, grid and shared memory; may add parameters for the block.
pub(super) fn guess(
    clues: &LaunchClues<'_, '_>,
    extents: &mut IndexExtents<'_>,
    tunables: &mut Vec<SketchTunable>,
    guesses: &mut Vec<SketchGuess>,
) -> SketchLaunch {
    let tiles: Vec<Tile> = (0..clues.axes).map(|axis| clues.tile(axis)).collect();
    let block = launch_bounds(clues).unwrap_or_else(|| blocks(clues, &tiles, tunables, guesses));
    let mut grid = Vec::new();
    for (axis, tile) in tiles.iter().enumerate() {
        let bound = extents.of_axis(axis).map(str::to_string);
        let grid_along = format!("the grid along {}", AXES[axis]);
        if bound.is_none() && !matches!(tile, Tile::Unknown) {
            guessed(guesses, &grid_along, "no condition says how far its index runs");
        }
        let extent = bound.unwrap_or_else(|| clues.fallback(axis, matches!(tile, Tile::Unit)));
        extents.bound_alone(axis, &extent);
        grid.push(match tile {
            Tile::Unit => extent,
            Tile::Of(own) => format!("ceil_div({extent}, {own})"),
            Tile::Threads(None) => format!("ceil_div({extent}, {})", block[axis]),
            Tile::Threads(Some(own)) => format!("ceil_div({extent}, {} * {own})", block[axis]),
            Tile::Unknown if !clues.uses("blockIdx", axis) => "1".to_string(),
            Tile::Unknown => {
                guessed(guesses, &grid_along, "what a block covers is not plain");
                format!("ceil_div({extent}, {})", block[axis])
            }
        });
    }
    let dynamic = clues.tokens.windows(2).any(|words| words == ["extern", "__shared__"]);
    let shared_bytes = dynamic.then(|| {
        let why = "the kernel has dynamic shared memory and does not say how much";
        guessed(guesses, "16 bytes of shared memory for each thread", why);
        format!("16 * {}", block.join(" * "))
    });
    SketchLaunch { block, grid, shared_bytes }
}

fn blocks(
    clues: &LaunchClues<'_, '_>,
    tiles: &[Tile],
    tunables: &mut Vec<SketchTunable>,
    guesses: &mut Vec<SketchGuess>,
) -> Vec<String> {
    let mut block = Vec::new();
    for (axis, tile) in tiles.iter().enumerate() {
        let asks = matches!(tile, Tile::Threads(_)) || clues.uses("blockDim", axis);
        if !clues.uses("threadIdx", axis) && !asks {
            block.push("1".to_string());
            continue;
        }
        let along = AXES[axis];
        if let Some(name) = named_block(clues, axis) {
            let what = format!("`{name}` is the threads of a block along {along}");
            guessed(guesses, what, "its name says so");
            block.push(name);
            continue;
        }
        let (name, values, default) = match axis {
            _ if clues.axes == 1 => ("BLOCK".to_string(), vec![32, 64, 128, 256, 512, 1024], 256),
            0 => ("BLOCK_X".to_string(), vec![8, 16, 32, 64, 128], 32),
            _ => (format!("BLOCK_{}", along.to_uppercase()), vec![1, 2, 4, 8, 16], 8),
        };
        if !asks {
            let why = "the source has no name for them: it may hold for one count only";
            guessed(guesses, format!("`{name}` threads of a block along {along}"), why);
        }
        block.push(name.clone());
        let why = "threads of a block".to_string();
        tunables.push(SketchTunable { name, values, default, is_undefined: false, why });
    }
    block
}

fn named_block(clues: &LaunchClues<'_, '_>, axis: usize) -> Option<String> {
    let (names, axes) = (&clues.names, clues.axes);
    let axis_of = |name: &str| {
        let lower = name.to_lowercase();
        AXES.iter().position(|own| lower.ends_with(&format!("_{own}")) || lower == format!("b{own}"))
    };
    let blocks = || names.iter().filter(|name| is_block(name));
    let along = blocks().find(|name| axis_of(name) == Some(axis));
    let only = || blocks().find(|name| axis_of(name).is_none());
    let square = || {
        let tile = |name: &&String| name.to_lowercase().starts_with("tile") && axis_of(name).is_none();
        (axes > 1).then(|| names.iter().find(tile)).flatten()
    };
    let warps = || {
        let counts = |name: &&String| name.to_lowercase().contains("warps");
        (axes == 1).then(|| names.iter().find(counts)).flatten().map(|name| format!("32 * {name}"))
    };
    along.or_else(only).or_else(square).cloned().or_else(warps)
}

fn launch_bounds(clues: &LaunchClues<'_, '_>) -> Option<Vec<String>> {
    let at = clues.tokens.windows(2).position(|words| words == ["__launch_bounds__", "("])?;
    let first = until(&clues.tokens[at + 2..], &[","]);
    // A plain number is a limit, and no parameter would change it.
    if !first.iter().any(|token| clues.is_parameter(token)) {
        return None;
    }
    match (clues.axes, first) {
        (1, tokens) => Some(vec![clues.expression(tokens)?]),
        (2, [x, "*", y]) => [x, y].map(|token| clues.expression(&[token])).into_iter().collect(),
        (3, [x, "*", y, "*", z]) => [x, y, z].map(|token| clues.expression(&[token])).into_iter().collect(),
        _ => None,
    }
}

pub(super) const AXES: [&str; 3] = ["x", "y", "z"];

pub(super) struct IndexExtents<'s> {
    bounds: BTreeMap<&'s str, String>,
    /// For each axis, the variables that its block index makes, nearest first.
    of_axis: [Vec<&'s str>; 3],
    /// Those of them that are the block index alone.
    alone: Vec<(&'s str, usize)>,
}

impl<'s> IndexExtents<'s> {
    pub(super) fn of(arguments: &[SketchArgument], body: &[&'s str]) -> IndexExtents<'s> {
        let argument = |token: &str| arguments.iter().find(|own| own.name == token);
        let size = |token: &str| argument(token).and_then(SketchArgument::size).map(str::to_string);
        let mut bounds = BTreeMap::new();
        for at in 1..body.len().saturating_sub(1) {
            // `i < n`, `i <= n` in a condition that leaves, `i >= n`.
            let behind = at + 1 + usize::from(body[at + 1] == "=");
            let shift = body[at + 1] == body[at] || body[at - 1] == body[at];
            if !matches!(body[at], "<" | ">") || shift || !is_name(body[at - 1]) {
                continue;
            }
            if let Some(bound) = product(&body[behind.min(body.len())..], &size) {
                bounds.entry(body[at - 1]).or_insert(bound);
            }
        }
        let mut extents = IndexExtents { bounds, of_axis: Default::default(), alone: Vec::new() };
        for axis in 0..AXES.len() {
            extents.follow(axis, body);
        }
        extents
    }

    fn follow(&mut self, axis: usize, body: &[&'s str]) {
        let values = assignments(body);
        let own = ["blockIdx", ".", AXES[axis]];
        let (mut found, mut known) = (Vec::new(), BTreeSet::new());
        for (name, value) in &values {
            if value.windows(3).any(|words| words == own) && known.insert(*name) {
                found.push(*name);
                if value[..] == own {
                    self.alone.push((*name, axis));
                }
            }
        }
        for _ in 0..3 {
            for (name, value) in &values {
                if !known.contains(name) && value.iter().any(|word| known.contains(word)) {
                    known.insert(*name);
                    found.push(*name);
                }
            }
        }
        self.of_axis[axis] = found;
    }

    pub(super) fn of_axis(&self, axis: usize) -> Option<&str> {
        self.of_axis[axis].iter().find_map(|name| self.bounds.get(name)).map(String::as_str)
    }

    /// Gives the block index of an axis, where it is a variable of its own and nothing bounds it, this bound.
    pub(super) fn bound_alone(&mut self, axis: usize, bound: &str) {
        for (name, _) in self.alone.iter().filter(|(_, own)| *own == axis) {
            self.bounds.entry(name).or_insert_with(|| bound.to_string());
        }
    }

    /// The shape that the indices of an array say, outermost first: `x[row * n + column]`, `x[i]`, `x[0]`.
    pub(super) fn shape(&self, name: &str, body: &[&str], brackets: &[usize]) -> Option<Vec<String>> {
        let places = (0..body.len().saturating_sub(1)).filter(|at| body[*at] == name && body[at + 1] == "[");
        let index = |at: usize| self.index(&body[at + 2..brackets[at + 1].saturating_sub(1).max(at + 2)]);
        // A place that says nothing may be anywhere in the array.
        let shapes = places.map(index).collect::<Option<Vec<Vec<String>>>>()?;
        let longest = shapes.iter().max_by_key(|shape| shape.len())?;
        shapes.iter().all(|own| own == longest || *own == ["1"]).then(|| longest.clone())
    }

    fn index(&self, tokens: &[&str]) -> Option<Vec<String>> {
        let bound = |name: &str| self.bounds.get(name).cloned();
        match *tokens {
            ["0"] => Some(vec!["1".to_string()]),
            [name] => Some(vec![bound(name)?]),
            [a, "*", stride, "+", b] | ["(", a, "*", stride, ")", "+", b] | [b, "+", a, "*", stride] => {
                // Rows of the length that the inner index runs over.
                let inner = bound(b)?;
                if inner.eq_ignore_ascii_case(stride) { Some(vec![bound(a)?, inner]) } else { None }
            }
            _ => None,
        }
    }
}

/// Tokens of a value that are looked at, and values.
const VALUE_TOKENS: usize = 64;
const VALUES_MAX: usize = 4096;

/// Names with the values that they get first: `int i = …;`.
fn assignments<'b, 's>(body: &'b [&'s str]) -> Vec<(&'s str, &'b [&'s str])> {
    let mut found = Vec::new();
    for at in 1..body.len().saturating_sub(1) {
        let plain = body[at] == "=" && body[at + 1] != "=" && is_name(body[at - 1]);
        let declares = at >= 2 && (is_name(body[at - 2]) || body[at - 2] == ",");
        if plain && declares && found.len() < VALUES_MAX {
            let rest = &body[at + 1..body.len().min(at + 1 + VALUE_TOKENS)];
            // It ends a value even where a bracket is not closed.
            let statement = rest.split(|token| *token == ";").next().unwrap_or_default();
            found.push((body[at - 1], until(statement, &[","])));
        }
    }
    found
}

fn product(tokens: &[&str], size: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut factors = Vec::new();
    let mut at = 0;
    while let Some(factor) = tokens.get(at).and_then(|token| size(token)) {
        factors.push(factor);
        at += 1;
        if tokens.get(at) != Some(&"*") {
            break;
        }
        at += 1;
    }
    // `i < n / 4`, `i < n - 1`: another bound, which a multiple of it hides.
    (!factors.is_empty() && !matches!(tokens.get(at), Some(&("/" | "%")))).then(|| factors.join(" * "))
}
