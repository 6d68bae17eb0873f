//! Compiled facts held against what a real GPU did: the kept sweeps of an H200 in `evidence/`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use evo::compile::occupancy::{BlockNeeds, Multiprocessor, facts_of};
use evo::engine::Recipe;
use evo::engine::recipe::{KernelRecipe, problems_on};
use evo::journal::reader;
use evo::journal::replay::History;
use evo::kernel::catalog;
use evo::kernel::spec::SpaceFile;
use evo_protocol::device::{DeviceKind, DeviceLimits};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::plan::ProblemPlan;
use evo_search::model::facts::FactsModel;
use evo_search::model::features::Features;
use evo_space::sample::seeded;

const ARCH: &str = "sm_90a";

fn study(kernel: &str) -> (SpaceFile, History) {
    let name = format!("evidence/h200/studies/{kernel}-cuda/journal.jsonl.gz");
    let file = File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    (catalog::open(kernel).unwrap(), History::replay(reader::parse(&bytes)))
}

/// The timed problems of evaluations, as the engine would launch them.
fn plans<'a>(file: &'a SpaceFile) -> impl Fn(&Evaluation) -> Option<Vec<ProblemPlan>> + 'a {
    let kernel = file.kernel.as_ref().unwrap();
    let problems = problems_on(kernel, DeviceKind::Cuda);
    let recipe = KernelRecipe::new(kernel, DeviceLimits::of_arch(ARCH).unwrap(), &problems, None, 1);
    move |one| recipe.prepare(&one.configuration).ok().map(|prepared| prepared.timed)
}

#[test]
fn the_computed_occupancy_is_the_drivers() {
    let own = Multiprocessor::of_arch(ARCH).unwrap();
    let mut checked = 0;
    for kernel in ["attention_simt", "gemm", "reduction", "rmsnorm", "softmax", "transpose"] {
        let (file, history) = study(kernel);
        let plans = plans(&file);
        for one in &history.confirmations {
            let plan = plans(&one.evaluation).unwrap();
            for (launch, attributes) in plan[0].launches.iter().zip(&one.attributes) {
                let needs = BlockNeeds {
                    threads: launch.block.iter().product::<i64>() as u64,
                    registers_per_thread: u64::from(attributes.registers.unwrap()),
                    shared_bytes: attributes.shared_static_bytes + launch.shared_bytes as u64,
                };
                let expected = attributes.blocks_per_multiprocessor.map(u64::from);
                assert_eq!(Some(own.limit(needs).1), expected, "{kernel} {needs:?}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 24, "{checked} launches");
}

/// What came of judging the first variants of a sweep, which drew them at random.
#[derive(Debug, Default)]
struct Tally {
    passed_over: usize,
    /// Of these, within 1.5 times the sweep's best, and among its fastest twentieth.
    close: usize,
    best: usize,
    /// At least 1.5 times the best: what could have been passed over.
    slow: usize,
}

fn judge(kernel: &str, count: usize) -> Tally {
    let (file, history) = study(kernel);
    let plans = plans(&file);
    let mut model = FactsModel::new(Features::new(&file.space));
    let (mut rng, mut best, mut tally) = (seeded(1), f64::INFINITY, Tally::default());
    let mut times: Vec<f64> = history
        .evaluations
        .iter()
        .filter(|one| one.verdict.is_pass())
        .filter_map(|one| one.objective_ns)
        .collect();
    times.sort_by(f64::total_cmp);
    let (fastest, twentieth) = (times[0], times[times.len() / 20]);
    for one in history.evaluations.iter().take(count) {
        let Some(objective) = one.objective_ns.filter(|_| one.duplicate_of.is_none()) else { continue };
        let (Some(genome), Some(plan)) = (file.space.genome(&one.configuration), plans(one)) else {
            continue;
        };
        let facts = facts_of(&one.resources, &plan, ARCH);
        tally.slow += usize::from(objective > 1.5 * fastest);
        if !model.judge(&genome, &facts, best, &mut rng) {
            tally.passed_over += 1;
            tally.close += usize::from(objective <= 1.5 * fastest);
            tally.best += usize::from(objective <= twentieth);
            continue;
        }
        best = best.min(objective);
        model.learn(&genome, &facts, objective, best);
    }
    tally
}

#[test]
fn on_real_sweeps_slow_variants_are_passed_over_and_good_ones_are_not() {
    let tally = judge("gemm", 400);
    assert!(tally.passed_over > tally.slow / 4, "{tally:?}");
    assert!(tally.close <= tally.passed_over / 20 && tally.best == 0, "{tally:?}");
}
