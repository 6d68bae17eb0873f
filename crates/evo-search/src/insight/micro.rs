//! How the cheap ranking that a search began with compares with what was then measured.

use evo_protocol::evaluation::Evaluation;

use crate::micro::{MicroAgreement, counted_time};
use crate::origin::Origin;

/// The agreement; `None` where nothing was proposed from a ranking.
///
/// The place in the ranking needs no file: its configurations are proposed in its order, so their numbers have it.
pub(super) fn micro(evaluations: &[Evaluation]) -> Option<MicroAgreement> {
    let own: Vec<&Evaluation> =
        evaluations.iter().filter(|one| one.origin == Origin::Micro.as_str()).collect();
    let time = |one: &&Evaluation| {
        let place = own.iter().filter(|other| other.number < one.number).count();
        Some((place, counted_time(one.verdict.kind.class(), one.objective_ns)?))
    };
    let outcomes: Vec<(usize, f64)> = own.iter().filter_map(time).collect();
    (!own.is_empty()).then(|| MicroAgreement::of(&outcomes))
}
