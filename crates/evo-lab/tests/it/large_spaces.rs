//! Searches of spaces that are too large to list, and whose optimum is known all the same.
//!
//! Recordings judge searches on spaces that somebody could measure completely. Here formulas stand in for the device: the
//! time of a point is the product of 1 + loss over several losses. No loss is ever negative, and at one planted valid
//! point every loss is 0, so that no point can be faster.

use std::collections::HashSet;
use std::sync::LazyLock;

use evo_protocol::verdict::VerdictClass;
use evo_search::registry;
use evo_search::strategy::Outcome;
use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::{Parameter, SearchSpace};
use evo_space::value::Value;

/// What a point loses against the optimum, one number of at least 0 for each cause; or how it fails.
type Losses = Result<Vec<f64>, VerdictClass>;

struct LargeSpace {
    name: &'static str,
    space: SearchSpace,
    planted: Genome,
    losses: fn(&Point) -> Losses,
}

static SPACES: LazyLock<[LargeSpace; 3]> = LazyLock::new(|| {
    [
        open("matrix_tiles", MATRIX_TILES, "32 8 12 6 16 4 3 xor 3 z 4 true", matrix_tiles_losses),
        open("hidden_limits", HIDDEN_LIMITS, "192 12 32 44 14 2 4 mixed true blocked 3 2", hidden_losses),
        open("pairwise", &pairwise(), &PAIRWISE.map(|value| value.to_string()).join(" "), pairwise_losses),
    ]
});

fn open(name: &'static str, text: &str, planted: &str, losses: fn(&Point) -> Losses) -> LargeSpace {
    let space = SearchSpace::parse(text).unwrap();
    let position = |(parameter, word): (&Parameter, &str)| {
        parameter.values.iter().position(|value| value.to_string() == word).unwrap() as u16
    };
    let planted: Vec<u16> = space.parameters().iter().zip(planted.split(' ')).map(position).collect();
    LargeSpace { name, planted: Genome::from(planted), space, losses }
}

impl LargeSpace {
    /// The time of a point over that of the optimum, at least 1.
    fn ratio(&self, genome: &Genome) -> Result<f64, VerdictClass> {
        let losses = (self.losses)(&Point { parameters: self.space.parameters(), genome })?;
        assert!(
            losses.iter().all(|loss| *loss >= 0.0),
            "`{}` gives less than nothing: {losses:?}",
            self.name
        );
        // A product, so that a loss costs the same share of the time whatever the others are.
        Ok(losses.iter().map(|loss| 1.0 + loss).product())
    }

    fn evaluate(&self, genome: &Genome) -> Outcome {
        match self.ratio(genome) {
            Ok(ratio) => Outcome::new(genome.clone(), VerdictClass::Ok, Some(1e6 * ratio)),
            Err(class) => Outcome::new(genome.clone(), class, None),
        }
    }
}

struct Point<'a> {
    parameters: &'a [Parameter],
    genome: &'a Genome,
}

impl Point<'_> {
    fn value(&self, name: &str) -> &Value {
        let slot = self.parameters.iter().position(|parameter| *parameter.name == *name).unwrap();
        &self.parameters[slot].values[usize::from(self.genome.positions()[slot])]
    }

    fn numbers<const N: usize>(&self, names: [&str; N]) -> [f64; N] {
        names.map(|name| self.value(name).as_float().unwrap())
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.value(name).to_string() == value
    }
}

/// How often `actual` must be doubled or halved to become `wanted`.
fn octaves(actual: f64, wanted: f64) -> f64 {
    (actual / wanted).log2().abs()
}

/// A fixed price for a condition that is not met.
fn unless(fulfilled: bool, price: f64) -> f64 {
    if fulfilled { 0.0 } else { price }
}

const MATRIX_TILES: &str = include_str!("../data/matrix_tiles.toml");

fn matrix_tiles_losses(point: &Point) -> Losses {
    let [block_x, block_y, work_m, work_n] = point.numbers(["block_x", "block_y", "work_m", "work_n"]);
    let [depth, stages, vector] = point.numbers(["depth", "stages", "vector"]);
    let [split, unroll] = point.numbers(["split", "unroll"]);
    let threads = block_x * block_y;
    let registers = work_m * work_n + work_m + work_n + 24.0;
    // Only whole blocks are resident, which is what makes the stairs.
    let blocks = (65_536.0 / (registers * threads)).floor();
    let occupancy = (blocks * threads / 32.0 / 64.0).min(1.0);
    // Rows that fill all 32 banks put a column into one bank.
    let unpadded = if block_x * vector % 32.0 == 0.0 { 0.35 } else { 0.1 };
    let conflict =
        if point.is("swizzle", "none") { unpadded } else { unless(point.is("swizzle", "xor"), 0.04) };
    Ok(vec![
        0.25 * octaves(block_y * work_m, 96.0),
        0.25 * octaves(block_x * work_n, 192.0),
        0.1 * octaves(work_m / work_n, 2.0),
        4.0 * (0.25 - occupancy).max(0.0),
        // Beyond this, registers spill.
        unless(registers <= 168.0, 0.5) + (registers - 168.0).max(0.0) / 64.0,
        0.12 * octaves(vector, 4.0),
        0.2 * octaves(stages * depth, 48.0),
        0.03 * (stages - 3.0).abs(),
        conflict,
        0.1 * octaves(split, 3.0),
        unless(point.is("order", "z"), if point.is("order", "row") { 0.08 } else { 0.15 }),
        0.04 * octaves(unroll, 4.0),
        // Loading ahead pays if there is a stage to load into.
        unless(point.is("preload", "true") == (stages >= 3.0), 0.06),
    ])
}

const HIDDEN_LIMITS: &str = include_str!("../data/hidden_limits.toml");

fn hidden_losses(point: &Point) -> Losses {
    let [threads, items, tile, cache] = point.numbers(["threads", "items", "tile", "cache_kib"]);
    let [unroll, prefetch, pipeline] = point.numbers(["unroll", "prefetch", "pipeline"]);
    let [vector, split] = point.numbers(["vector", "split"]);
    let wide = if point.is("precision", "double") { 2.0 } else { 1.0 };
    // In the order of a real variant's life: the compiler fails before the launch can.
    if 24.0 + wide * items * unroll + 8.0 * prefetch > 232.0 {
        return Err(VerdictClass::Compile);
    }
    if 1024.0 * cache + 4.0 * wide * pipeline * threads * tile > 101_376.0 {
        return Err(VerdictClass::Launch);
    }
    let vectors = if point.is("layout", "morton") { 0.0 } else { 0.1 * octaves(vector, 1.0) };
    Ok(vec![
        // More work per thread is better, and more cache, up to what there is.
        0.3 * octaves(items * unroll, 168.0),
        0.15 * octaves(threads * tile, 6144.0),
        0.1 * octaves(threads, 192.0),
        0.006 * (cache - 44.0).abs(),
        0.05 * (prefetch - 4.0).abs(),
        0.08 * (pipeline - 2.0).abs(),
        0.08 * octaves(vector, 2.0),
        0.02 * (unroll - 14.0).abs(),
        0.12 * octaves(split, 3.0),
        unless(point.is("precision", "mixed"), 0.1 * wide),
        unless(point.is("fast", "true"), 0.07),
        unless(point.is("layout", "blocked"), 0.05 + vectors),
    ])
}

/// Rugged: every pair of linked parameters has its own table of losses without any pattern.
fn pairwise() -> String {
    let constraints = "'(p_0 + p_1) % 3 != 1', 'p_2 <= p_3 + 4', 'p_5 * p_6 <= 36', 'p_10 + p_11 != 7'";
    let parameters: String =
        (0..20).map(|number| format!("p_{number} = {:?}\n", [0, 1, 2, 3, 4, 5, 6, 7])).collect();
    format!("constraints = [{constraints}]\n[parameters]\n{parameters}")
}

const PAIRWISE: [u16; 20] = [4, 1, 6, 3, 0, 5, 2, 7, 1, 3, 6, 0, 4, 2, 5, 7, 3, 1, 6, 2];

fn pairwise_losses(point: &Point) -> Losses {
    let loss = |(one, other): (usize, usize)| {
        let [left, right] = [one, other].map(|slot| point.genome.positions()[slot]);
        let key = (one * 20 + other) as u64 * 64 + u64::from(left) * 8 + u64::from(right);
        unless([left, right] == [PAIRWISE[one], PAIRWISE[other]], 0.01 + 0.06 * scatter(key))
    };
    let pairs = (0..20).flat_map(|slot| [(slot, (slot + 1) % 20), (slot, (slot + 7) % 20)]);
    Ok(pairs.map(loss).collect())
}

/// A number from 0 to 1 without a pattern, always the same for the same key (the finalizer of SplitMix64).
fn scatter(key: u64) -> f64 {
    let mut bits = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn nothing_beats_the_planted_point_nor_comes_near_by_chance() {
    for large in &*SPACES {
        let LargeSpace { name, space, planted, .. } = large;
        assert!(space.is_exact() && space.count() > 1_000_000_000 && space.contains(planted), "{name}");
        assert_eq!(large.ratio(planted), Ok(1.0), "{name}");
        let near = space.neighbors(planted, Neighborhood::Hamming);
        assert!(near.iter().filter_map(|point| large.ratio(point).ok()).all(|ratio| ratio > 1.0), "{name}");
        let mut rng = seeded(5);
        let ratios: Vec<_> = (0..4000).map(|_| large.ratio(&space.sample(&mut rng).unwrap())).collect();
        let (best, worst) = ratios
            .iter()
            .flatten()
            .fold((f64::INFINITY, 1.0f64), |(best, worst), ratio| (best.min(*ratio), worst.max(*ratio)));
        assert!(best > 1.1 && worst > 2.0 * best && worst < 1e6, "{name}: from {best} to {worst}");
        let failed = ratios.iter().filter(|ratio| ratio.is_err()).count();
        assert!(if *name == "hidden_limits" { failed > 1200 } else { failed == 0 }, "{name}: {failed} fail");
    }
}

/// The best over the optimum after so many evaluations, of which four are in flight at once.
fn best_after(large: &LargeSpace, strategy: &str, evaluations: usize) -> f64 {
    let mut search = registry::create(strategy, &large.space, 1).unwrap();
    let (mut seen, mut best) = (HashSet::new(), f64::INFINITY);
    while seen.len() < evaluations {
        let batch = search.ask(4);
        assert_eq!(batch.len(), 4, "{strategy} on {} ends early", large.name);
        for proposal in batch {
            assert!(large.space.contains(&proposal.genome), "{strategy} leaves {}", large.name);
            let outcome = large.evaluate(&proposal.genome);
            best = outcome.objective_ns.map_or(best, |time| best.min(time / 1e6));
            search.tell(&outcome);
            assert!(seen.insert(proposal.genome), "{strategy} repeats itself on {}", large.name);
        }
    }
    best
}

/// The regression test of search quality beyond enumeration.
#[test]
fn the_default_strategy_beats_random_search() {
    let sum =
        |strategy: &str| -> f64 { SPACES.iter().map(|large| best_after(large, strategy, 120).ln()).sum() };
    let [evolve, random, exhaustive] = [registry::FULL, "random", "exhaustive"].map(sum);
    assert!(evolve < random - 1.0, "{evolve} is not below random's {random}");
    assert!(evolve < exhaustive, "{evolve} is not below {exhaustive}");
}
