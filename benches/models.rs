//! How long surrogate models take: `cargo bench --bench models -- [OBSERVATIONS,..] [POINTS,..]`.
//!
//! A proposal with a model is: learn one observation, correct the predictions of all points, turn them into
//! expected improvements, take the best. Printed are medians (and 95th percentiles) of these over many
//! proposals, with as many observations known before, for trees over all points and for a process over as
//! many of the points as a search would give it; and what growing or tuning from nothing takes. Times are
//! of this machine and whatever else runs on it.

use std::env;
use std::sync::Arc;
use std::time::Instant;

use evo_protocol::verdict::VerdictClass;
use evo_search::model::acquisition::expected_improvements;
use evo_search::model::features::Features;
use evo_search::model::forest::{Forest, ForestOptions};
use evo_search::model::process::GaussianProcess;
use evo_search::model::process_screen::ProcessScreen;
use evo_search::model::validity::ValidityModel;
use evo_search::registry;
use evo_search::strategy::Outcome;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;

/// A space like those of kernels: tiles, blocks, vector widths, switches; 117,120 valid points.
const SPACE: &str = r#"
constraints = ["BX * BY >= 32", "BX * BY <= 1024", "BX * TX % VEC == 0", "(BX * TX + 4) * (BY * TY + 4) * 4 <= 49152"]
[parameters]
BX = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128]
BY = [1, 2, 4, 8, 16, 32]
TX = [1, 2, 3, 4, 6, 8]
TY = [1, 2, 3, 4, 6, 8]
VEC = [1, 2, 4]
UNROLL = [1, 4]
STAGES = [1, 2]
SHARED = [false, true]
PADDED = [0, 1]
LAYOUT = ["row", "column"]
"#;

/// Proposals that a median is taken over.
const PROPOSALS: usize = 60;

/// Points times observations that a process screens.
const PROCESS_WORK: usize = 4_000_000;

fn main() {
    let lists: Vec<Vec<usize>> = env::args().filter_map(|argument| numbers(&argument)).collect();
    let pick = |at: usize, usual: &[usize]| lists.get(at).cloned().unwrap_or_else(|| usual.to_vec());
    let space = space();
    let started = Instant::now();
    let features = Features::new(&space);
    let prepared = milliseconds(started);
    println!(
        "{} valid points, {} features for trees, {} for a process; prepared in {prepared:.1} ms",
        space.count(),
        features.scales().len(),
        features.process_columns()
    );
    println!("milliseconds, median (95th percentile) of {PROPOSALS} proposals\n");
    println!(
        "  known  points | encode  trees whole  trees+1 and all points  validity+1 | tune+learn  screened  process+1"
    );
    for known in pick(0, &[50, 200, 1000]) {
        for points in pick(1, &[1_000, 20_000, 100_000]) {
            measure(&space, &features, known, points);
        }
    }
    measure_strategy(&space, registry::FULL);
}

/// A whole strategy: one proposal and one outcome at a time, on all points of the space.
fn measure_strategy(space: &SearchSpace, name: &str) {
    let mut strategy = registry::create(name, space, 1).expect("a known name");
    let mut times = Vec::new();
    println!("\n{name}, milliseconds a proposal with its outcome, on all {} points", space.count());
    for known in 0..1100 {
        let started = Instant::now();
        let proposal = strategy.ask(1).pop().expect("points are left");
        let asked = milliseconds(started);
        let objective_ns = Some(1e6 * target(&proposal.genome));
        let started = Instant::now();
        strategy.tell(&Outcome::new(proposal.genome, VerdictClass::Ok, objective_ns));
        times.push(asked + milliseconds(started));
        if [100, 300, 1000].contains(&known) {
            println!("{known:7} known  {}", spread(times.split_off(times.len() - PROPOSALS)));
        }
    }
}

/// One line of the table.
fn measure(space: &SearchSpace, features: &Features, known: usize, count: usize) {
    let mut rng = seeded(1);
    let points = space.sample_distinct(count, &mut rng);
    let seen = space.sample_distinct(known + PROPOSALS, &mut rng);
    let targets: Vec<f64> = seen.iter().map(target).collect();
    let started = Instant::now();
    let codes = Arc::new(features.codes(&points));
    let encode = milliseconds(started);

    let mut forest = Forest::new(ForestOptions::extra_trees(), Arc::clone(features.scales()));
    forest.watch(Arc::clone(&codes));
    let started = Instant::now();
    forest.learn(features.codes(&seen[..known]), &targets[..known], &mut rng);
    let whole = milliseconds(started);
    let mut improvements = Vec::new();
    let trees = (known..seen.len()).map(|at| {
        let started = Instant::now();
        forest.add(&features.code_row(&seen[at]), targets[at], &mut rng);
        expected_improvements(forest.watched(), 0.5, &mut improvements);
        let best = improvements.iter().copied().fold(0.0, f64::max);
        assert!(best.is_finite());
        milliseconds(started)
    });
    let trees = spread(trees.collect());

    let mut validity = ValidityModel::new(Arc::clone(features.scales()));
    validity.watch(codes);
    let failed: Vec<bool> = targets.iter().map(|target| *target > 3.0).collect();
    validity.learn(features.codes(&seen[..known]), &failed[..known], &mut rng);
    let fails = (known..seen.len()).map(|at| {
        let started = Instant::now();
        validity.add(&features.code_row(&seen[at]), failed[at], &mut rng);
        milliseconds(started)
    });
    let fails = spread(fails.collect());

    let screened = count.min(PROCESS_WORK / known);
    let (tune, process) = measure_process(features, &points[..screened], &seen, &targets, known);
    println!(
        "{known:7} {count:7} | {encode:6.1} {whole:12.1} {trees:>23} {fails:>11} | {tune:10.1} {screened:9} {process:>10}"
    );
}

fn measure_process(
    features: &Features,
    points: &[Genome],
    seen: &[Genome],
    targets: &[f64],
    known: usize,
) -> (f64, String) {
    let rows = features.process_matrix(seen);
    let mut screen = ProcessScreen::new(&features.process_matrix(points));
    let mut process = GaussianProcess::new(features.process_columns());
    let started = Instant::now();
    let first = rows.select(&(0..known).collect::<Vec<_>>());
    process.tune(&first, &targets[..known], &mut seeded(2));
    process.learn(&first, &targets[..known]);
    screen.update(&process);
    let tune = milliseconds(started);
    let mut improvements = Vec::new();
    let steps = (known..seen.len()).map(|at| {
        let started = Instant::now();
        process.append(rows.row(at), targets[at]);
        screen.update(&process);
        expected_improvements(screen.predictions(), 0.5, &mut improvements);
        milliseconds(started)
    });
    let steps = spread(steps.collect());
    (tune, steps)
}

/// A time with an optimum inside, products that matter and some roughness.
fn target(genome: &Genome) -> f64 {
    let at = |slot: usize| f64::from(genome.positions()[slot]);
    let threads = (at(0) + at(1) - 7.0).abs();
    let tile = (at(2) + at(3) - 5.0).powi(2) * 0.1;
    let roughness: f64 = seeded(genome.positions().iter().fold(7, |h, p| h * 31 + u64::from(*p))).random();
    1.0 + 0.2 * threads + tile + 0.3 * at(4) * at(7) + 0.05 * at(5) + 0.1 * roughness
}

fn space() -> SearchSpace {
    SearchSpace::parse(SPACE).expect("a space")
}

fn numbers(text: &str) -> Option<Vec<usize>> {
    text.split(',').map(|number| number.parse().ok()).collect()
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn spread(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    format!("{:.2} ({:.1})", times[times.len() / 2], times[times.len() * 95 / 100])
}
