//! How the kernel is launched: what a block covers along each axis, from what stands beside `blockIdx`.

use super::arguments::closed;
use super::definitions::{Definitions, is_name};
use super::extents::{AXES, IndexExtents};
use super::model::{SketchArgument, SketchGuess, SketchLaunch, SketchTunable, guessed};
use super::tunables::is_block;

/// What the launch is guessed from.
pub(super) struct LaunchClues<'a, 's> {
    pub(super) arguments: &'a [SketchArgument],
    pub(super) body: &'a [&'s str],
    /// The whole source.
    pub(super) tokens: &'a [&'s str],
}

/// What a block covers along an axis.
enum Tile {
    /// One: each block is an index of its own.
    Unit,
    /// As many as this expression.
    Of(String),
    /// The threads of the block, times this.
    Threads(Option<String>),
    /// It cannot be read.
    Unknown,
}

impl LaunchClues<'_, '_> {
    /// How many axes the kernel uses.
    fn axes(&self) -> usize {
        let used = |axis: &str| {
            let names = ["blockIdx", "threadIdx"];
            self.body.windows(3).any(|words| names.contains(&words[0]) && words[1] == "." && words[2] == axis)
        };
        (0..AXES.len()).rev().find(|axis| used(AXES[*axis])).map_or(1, |axis| axis + 1)
    }

    fn uses(&self, name: &str, axis: usize) -> bool {
        self.body.windows(3).any(|words| words == [name, ".", AXES[axis]])
    }

    fn sizes(&self) -> Vec<&str> {
        self.arguments.iter().filter_map(SketchArgument::size).collect()
    }

    /// What stands beside the block index of an axis.
    fn tile(&self, axis: usize, known: &dyn Fn(&str) -> bool, definitions: &Definitions<'_>) -> Tile {
        let body = self.body;
        let own = ["blockIdx", ".", AXES[axis]];
        let Some(at) = body.windows(3).position(|words| words == own) else { return Tile::Unknown };
        let mut factors: Vec<&[&str]> = Vec::new();
        let mut behind = at + 3;
        while body.get(behind) == Some(&"*") {
            let length = primary(&body[behind + 1..]);
            factors.push(&body[behind + 1..behind + 1 + length]);
            behind += 1 + length;
        }
        if at > 0 && body[at - 1] == "*" {
            factors.push(primary_before(&body[..at - 1]));
        }
        // `(blockIdx.x * blockDim.x + threadIdx.x) * 4`
        let open = opened(body, at).filter(|open| !open.checked_sub(1).is_some_and(|at| is_name(body[at])));
        let end = open.map(|open| closed(body, open, "(", ")"));
        if let Some(end) = end.filter(|end| body.get(*end) == Some(&"*")) {
            let length = primary(&body[end + 1..]);
            factors.push(&body[end + 1..end + 1 + length]);
        }
        if factors.is_empty() {
            return Tile::Unit;
        }
        let threads = ["blockDim", ".", AXES[axis]];
        let is_threads = factors.iter().any(|own| own[..] == threads);
        let others = factors.iter().filter(|own| own[..] != threads);
        let others: Option<Vec<String>> = others.map(|own| definitions.expression(own, known)).collect();
        match others {
            None => Tile::Unknown,
            Some(others) if is_threads => Tile::Threads((!others.is_empty()).then(|| others.join(" * "))),
            Some(others) => Tile::Of(others.join(" * ")),
        }
    }
}

/// Tokens of the factor that some tokens begin with.
fn primary(tokens: &[&str]) -> usize {
    match tokens {
        ["(", ..] => closed(tokens, 0, "(", ")"),
        ["blockDim" | "gridDim", ".", _, ..] => 3,
        [] => 0,
        _ => 1,
    }
}

/// The factor that some tokens end with.
fn primary_before<'t, 's>(tokens: &'t [&'s str]) -> &'t [&'s str] {
    let end = tokens.len();
    let length = match tokens {
        [.., "blockDim" | "gridDim", ".", _] => 3,
        [.., ")"] => {
            let mut depth = 0;
            let inside = tokens.iter().rev().take_while(|token| {
                depth += i32::from(**token == ")") - i32::from(**token == "(");
                depth > 0
            });
            (inside.count() + 1).min(end)
        }
        _ => 1.min(end),
    };
    &tokens[end - length..]
}

/// The parenthesis that a place stands in.
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
    clues: LaunchClues<'_, '_>,
    extents: &mut IndexExtents<'_>,
    definitions: &Definitions<'_>,
    tunables: &mut Vec<SketchTunable>,
    guesses: &mut Vec<SketchGuess>,
) -> SketchLaunch {
    let axes = clues.axes();
    let names: Vec<String> = tunables.iter().map(|own| own.name.clone()).collect();
    let known = |name: &str| names.iter().any(|own| own == name);
    let tiles: Vec<Tile> = (0..axes).map(|axis| clues.tile(axis, &known, definitions)).collect();
    let block = blocks(&clues, axes, &tiles, definitions, tunables, guesses);
    let mut grid = Vec::new();
    for (axis, tile) in tiles.iter().enumerate() {
        let bound = extents.of_axis(axis).map(str::to_string);
        if bound.is_none() && !matches!(tile, Tile::Unknown) {
            guessed(
                guesses,
                format!("the grid along {}", AXES[axis]),
                "no condition says how far its index runs",
            );
        }
        let extent = bound.unwrap_or_else(|| fallback(&clues, axis, axes, matches!(tile, Tile::Unit)));
        extents.bound_alone(axis, &extent);
        grid.push(match tile {
            Tile::Unit => extent,
            Tile::Of(own) => format!("ceil_div({extent}, {own})"),
            Tile::Threads(None) => format!("ceil_div({extent}, {})", block[axis]),
            Tile::Threads(Some(own)) => format!("ceil_div({extent}, {} * {own})", block[axis]),
            Tile::Unknown if !clues.uses("blockIdx", axis) => "1".to_string(),
            Tile::Unknown => {
                guessed(
                    guesses,
                    format!("the grid along {}", AXES[axis]),
                    "what a block covers is not plain",
                );
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

/// How far an axis runs where nothing says so.
fn fallback(clues: &LaunchClues<'_, '_>, axis: usize, axes: usize, is_unit: bool) -> String {
    let sizes = clues.sizes();
    match sizes.len() {
        0 => "N".to_string(),
        1 => sizes[0].to_string(),
        _ if axes == 1 && is_unit => sizes[0].to_string(),
        _ if axes == 1 => sizes.join(" * "),
        // The fastest axis runs over the innermost extent.
        count => sizes[(count - 1).saturating_sub(axis)].to_string(),
    }
}

/// The threads of a block along each axis.
fn blocks(
    clues: &LaunchClues<'_, '_>,
    axes: usize,
    tiles: &[Tile],
    definitions: &Definitions<'_>,
    tunables: &mut Vec<SketchTunable>,
    guesses: &mut Vec<SketchGuess>,
) -> Vec<String> {
    let names: Vec<String> = tunables.iter().map(|own| own.name.clone()).collect();
    let known = |name: &str| names.iter().any(|own| own == name);
    if let Some(bounds) = launch_bounds(clues, axes, &known, definitions) {
        return bounds;
    }
    let mut block = Vec::new();
    for (axis, tile) in tiles.iter().enumerate() {
        let asks = matches!(tile, Tile::Threads(_)) || clues.uses("blockDim", axis);
        let named = named_block(&names, axis, axes);
        if !clues.uses("threadIdx", axis) && !asks {
            block.push("1".to_string());
            continue;
        }
        let own = match named {
            Some(name) => {
                guessed(
                    guesses,
                    format!("`{name}` is the threads of a block along {}", AXES[axis]),
                    "its name says so",
                );
                name
            }
            None => {
                let name = if axes == 1 {
                    "BLOCK".to_string()
                } else {
                    format!("BLOCK_{}", AXES[axis].to_uppercase())
                };
                let (values, default) = match axis {
                    0 if axes == 1 => (vec![32, 64, 128, 256, 512, 1024], 256),
                    0 => (vec![8, 16, 32, 64, 128], 32),
                    _ => (vec![1, 2, 4, 8, 16], 8),
                };
                if !asks {
                    let why = "the source has no name for them: it may hold for one count only";
                    guessed(guesses, format!("`{name}` threads of a block along {}", AXES[axis]), why);
                }
                let why = "threads of a block".to_string();
                tunables.push(SketchTunable {
                    name: name.clone(),
                    values,
                    default,
                    is_undefined: false,
                    why,
                });
                name
            }
        };
        block.push(own);
    }
    block
}

/// A parameter whose name says that it is the threads along an axis.
fn named_block(names: &[String], axis: usize, axes: usize) -> Option<String> {
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

/// What `__launch_bounds__` says, for one axis, or for two as a product of two names.
fn launch_bounds(
    clues: &LaunchClues<'_, '_>,
    axes: usize,
    known: &dyn Fn(&str) -> bool,
    definitions: &Definitions<'_>,
) -> Option<Vec<String>> {
    let at = clues.tokens.iter().position(|token| *token == "__launch_bounds__")?;
    let end = closed(clues.tokens, at + 1, "(", ")");
    let inside = clues.tokens.get(at + 2..end.saturating_sub(1))?;
    let mut depth = 0;
    let first = inside.iter().take_while(|token| {
        depth += i32::from(**token == "(") - i32::from(**token == ")");
        depth > 0 || **token != ","
    });
    let first = &inside[..first.count()];
    // A plain number is a limit, and no parameter would change it.
    let names = first.iter().any(|token| known(token));
    let expression = |tokens: &[&str]| definitions.expression(tokens, known);
    match (axes, first) {
        (1, own) if names => Some(vec![expression(own)?]),
        (2, [x, "*", y]) if names => Some(vec![expression(&[x])?, expression(&[y])?]),
        (3, [x, "*", y, "*", z]) if names => {
            Some(vec![expression(&[x])?, expression(&[y])?, expression(&[z])?])
        }
        _ => None,
    }
}
