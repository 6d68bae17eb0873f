//! What a sweep begins with beside the strategy's own points: the ranking of `evo micro`, or a list of another program.

use std::collections::BTreeSet;

use evo_search::strategy::Strategy;
use evo_search::{Origin, SeedRoom, Seeded};

use super::plan::SweepPlan;
use crate::journal::micro_file::{self, MICRO, MicroSeeds, MicroSubject};
use crate::study::Study;

pub struct SeededStrategy<'a> {
    pub strategy: Box<dyn Strategy + 'a>,
    pub notice: Option<String>,
}

/// With the ranking of the evidence folder, where there is one for this kernel, space and architecture and generation
/// 0 has room for it.
pub fn seeded<'a>(
    plan: &'a SweepPlan,
    study: &Study,
    strategy: Box<dyn Strategy + 'a>,
) -> SeededStrategy<'a> {
    let (space, header) = (plan.subject.space(), study.header());
    // An operator's name stays with its evaluation, also of an earlier run.
    let evaluations = study.history.evaluations.iter().filter(|one| one.is_counted());
    let before = evaluations.clone().filter(|one| one.origin == Origin::Micro.as_str()).count();
    let room = SeedRoom::of(plan.population.get() as usize, evaluations.count(), before);
    if !plan.takes_micro || room.seeds == 0 {
        return SeededStrategy { strategy, notice: None };
    }
    let subject = MicroSubject {
        kernel: plan.subject.kernel(),
        space_hash: &header.space_hash,
        arch: &header.device.arch,
        space,
    };
    let path = study.out().place(MICRO).display().to_string();
    let (points, source) = match micro_file::read(study.out(), &subject) {
        MicroSeeds::Absent => return SeededStrategy { strategy, notice: None },
        MicroSeeds::Ignored(reason) => {
            let notice = Some(format!("`{path}` is ignored: {reason}"));
            return SeededStrategy { strategy, notice };
        }
        MicroSeeds::Ranked { points, source } => (points, source),
    };
    let known: BTreeSet<_> =
        study.history.evaluations.iter().filter_map(|one| space.genome(&one.configuration)).collect();
    let default = space.default_genome();
    let fresh: Vec<_> =
        points.into_iter().filter(|point| *point != default && !known.contains(point)).collect();
    let count = fresh.len().min(room.seeds);
    if count == 0 {
        let notice = format!("`{path}` ({source}) has no configuration that this study has not evaluated");
        return SeededStrategy { strategy, notice: Some(notice) };
    }
    let notice = format!(
        "generation 0 takes up to {count} configurations from `{path}` ({source}); `--no-micro` leaves them out"
    );
    SeededStrategy { strategy: Box::new(Seeded::new(strategy, fresh, room)), notice: Some(notice) }
}
