//! What each size of a problem is to the kernel, and so whether a derived shape may change it.
//!
//! A shape that an honest kernel was never meant for says nothing about it. So a size changes only if the
//! kernel is told its value, by a scalar argument or as a factor of the grid; a size that problems never
//! vary, or that equals a parameter, may be written into the source.

use std::collections::{BTreeMap, BTreeSet};

use evo_space::expr::Expr;
use evo_space::genome::Configuration;

use super::tiles;
use crate::resolve::{Names, Resolver, whole};
use crate::spec::{ArgumentSpec, BufferSpec, FillSpec, KernelSpec, LaunchSpec, ProblemSpec, TensorMapSpec};

/// What derived shapes do with a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SizeRole {
    /// It keeps its value.
    Kept,
    /// It switches something on or off, and nothing is that large.
    Flag,
    /// It changes.
    Free {
        /// Elements that a block takes, if an expression says so.
        tile: Option<i64>,
        /// The kernel needs a multiple of this.
        step: i64,
        /// Its largest value in any problem.
        most: i64,
    },
    /// It follows another size: that size times `factor`, plus `offset`.
    Tied { leader: String, factor: i64, offset: i64 },
}

/// What a batch of one becomes: more than two, so that a stride that is off by one does not fit by chance.
const BATCH: i64 = 3;

/// The role of every size of the first problem.
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

/// Sizes that keep their value although a tile divides them and the kernel is told them, because every
/// problem has the same value, with the tile; only those that leave no partial tile.
pub(super) fn fixed_tiles(
    kernel: &KernelSpec,
    configuration: &Configuration,
    first: &ProblemSpec,
) -> Vec<(String, i64)> {
    let evidence = SizeEvidence::of(kernel, configuration, first);
    let fixed = |name: &String| {
        let values = evidence.values(name);
        let tile = evidence.tiles.get(name).copied()?;
        let whole_tiles = values.iter().all(|value| value % tile == 0);
        let told = evidence.told.contains(name) && evidence.step(name).is_some_and(|step| step % tile != 0);
        (told && whole_tiles && evidence.never_varies(&values)).then(|| (name.clone(), tile))
    };
    first.sizes.keys().filter_map(fixed).collect()
}

/// What a space file says about sizes.
struct SizeEvidence<'a> {
    kernel: &'a KernelSpec,
    configuration: &'a Configuration,
    first: &'a ProblemSpec,
    /// Sizes whose value reaches the kernel.
    told: BTreeSet<String>,
    /// Sizes that decide how large something is.
    extents: BTreeSet<String>,
    tiles: BTreeMap<String, i64>,
}

/// A size's value in each problem that has it.
fn values(kernel: &KernelSpec, name: &str) -> Vec<i64> {
    kernel.problems.iter().filter_map(|problem| whole(problem.sizes.get(name)?).ok()).collect()
}

/// Its largest value.
fn largest(kernel: &KernelSpec, name: &str) -> i64 {
    values(kernel, name).into_iter().max().unwrap_or(0)
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
        let shapes: Vec<&Expr> = buffers(kernel).flat_map(|buffer| &buffer.shape).collect();
        let scalars = kernel.arguments.iter().filter_map(|argument| match argument {
            ArgumentSpec::Scalar(scalar) => Some(&scalar.value),
            ArgumentSpec::Buffer(_) | ArgumentSpec::TensorMap(_) => None,
        });
        let scalars: Vec<&Expr> = scalars.collect();
        let shared = kernel.launches.iter().filter_map(|launch| launch.shared_bytes.as_ref());
        let dims: Vec<&Expr> = maps(kernel).flat_map(|map| &map.dims).collect();
        let scope = tiles::parameters_only(configuration);
        let mut tiles = BTreeMap::new();
        for grid in &grids {
            let mut own = BTreeMap::new();
            tiles::add_tiles(grid, &scope, &mut own);
            for (name, tile) in own {
                let other = *tiles.entry(name.clone()).or_insert(tile);
                tiles.insert(name.clone(), more_telling(tile, other, largest(kernel, &name)));
            }
        }
        // A grid says what a block takes; the others only speak of sizes that no grid divides.
        let mut further = BTreeMap::new();
        let others = shapes.iter().chain(&scalars).copied().chain(shared);
        others.for_each(|expr| tiles::add_tiles(expr, &scope, &mut further));
        // A box takes so many elements of a dimension at once. The innermost one is left to the rules of the maps.
        for (dim, extent) in maps(kernel).flat_map(|map| map.dims.iter().zip(&map.extents).skip(1)) {
            tiles::add_box(dim, extent, &scope, &mut further);
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
            told: scalars.iter().chain(&grids).chain(&dims).flat_map(|expr| tiles::undivided(expr)).collect(),
            extents: names(&grids).union(&names(&shapes)).cloned().collect(),
            tiles,
        }
    }

    fn role(&self, name: &str) -> SizeRole {
        // Shapes are derived for each set of constants.
        if self.kernel.specialize.iter().any(|own| own == name) {
            return SizeRole::Kept;
        }
        let values = self.values(name);
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
            let scalars = self.kernel.arguments.iter().filter_map(|argument| match argument {
                ArgumentSpec::Scalar(scalar) => Some(&scalar.value),
                ArgumentSpec::Buffer(_) | ArgumentSpec::TensorMap(_) => None,
            });
            launches.chain(scalars).chain(buffers(self.kernel).flat_map(|buffer| &buffer.shape))
        };
        let alone = !values.is_empty() && values.iter().all(|value| *value == 1);
        let counted = || self.never_varies(values) && self.is_argument(name) && self.is_grid_extent(name);
        let batch = (alone || counted()) && self.told.contains(name) && !self.comes_from_a_file(name);
        let multiplies = || expressions().all(|expr| tiles::only_multiplies(expr, name));
        // Blocks and shared memory do not grow with a batch.
        let launches = || {
            let fixed =
                |own: &LaunchSpec| own.block.iter().chain(&own.shared_bytes).all(|expr| !reads(expr, name));
            self.kernel.launches.iter().all(fixed)
        };
        let held = || buffers(self.kernel).flat_map(|buffer| &buffer.shape).any(|extent| reads(extent, name));
        self.step(name).filter(|step| batch && *step <= BATCH && held() && multiplies() && launches())
    }

    /// Whether a scalar argument is this size.
    fn is_argument(&self, name: &str) -> bool {
        self.kernel.arguments.iter().any(|argument| match argument {
            ArgumentSpec::Scalar(scalar) => scalar.value.text().trim() == name,
            ArgumentSpec::Buffer(_) | ArgumentSpec::TensorMap(_) => false,
        })
    }

    /// Whether an extent of a grid is this size.
    fn is_grid_extent(&self, name: &str) -> bool {
        self.kernel.launches.iter().flat_map(|launch| &launch.grid).any(|extent| extent.text().trim() == name)
    }

    /// The size's value in each problem that has it.
    fn values(&self, name: &str) -> Vec<i64> {
        values(self.kernel, name)
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

    /// Whether a buffer with this extent is read from a file, which is made for one shape.
    fn comes_from_a_file(&self, name: &str) -> bool {
        let filed =
            |buffer: &&BufferSpec| matches!(&buffer.fill, FillSpec::Fixed(own) if own.file().is_some());
        buffers(self.kernel).filter(filed).flat_map(|buffer| &buffer.shape).any(|extent| reads(extent, name))
    }

    /// What `multiple_of` says; `None` where that has no value here.
    fn step(&self, name: &str) -> Option<i64> {
        let Some(expr) = self.kernel.check.multiple_of.get(name) else { return Some(1) };
        let names = Names::new(self.configuration, &self.first.sizes);
        let resolver = Resolver { names, problem: &self.first.name };
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

/// The buffers among a kernel's arguments.
pub(super) fn buffers(kernel: &KernelSpec) -> impl Iterator<Item = &BufferSpec> {
    kernel.arguments.iter().filter_map(|argument| match argument {
        ArgumentSpec::Buffer(buffer) => Some(buffer),
        ArgumentSpec::Scalar(_) | ArgumentSpec::TensorMap(_) => None,
    })
}

fn maps(kernel: &KernelSpec) -> impl Iterator<Item = &TensorMapSpec> {
    kernel.arguments.iter().filter_map(|argument| match argument {
        ArgumentSpec::TensorMap(map) => Some(map),
        ArgumentSpec::Buffer(_) | ArgumentSpec::Scalar(_) => None,
    })
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

#[cfg(test)]
mod tests {
    use super::{alike, more_telling};

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
}
