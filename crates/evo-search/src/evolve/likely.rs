//! Points of a pool that are likely to be proposed next.

use super::ensemble::{Ensemble, Judges};

/// For each of the choosers to come, in their order, the best point that is neither taken nor listed already.
pub(super) fn likely(ensemble: &Ensemble, taken: &[bool], choosers: &[Judges]) -> Vec<usize> {
    let mut worth = Vec::new();
    let mut best_of = |judges: Judges| -> Vec<usize> {
        if !choosers.contains(&judges) {
            return Vec::new();
        }
        ensemble.worth_of_pool(judges, &mut worth);
        let open = |at: &usize| !taken[*at] && worth[*at] >= 0.0;
        let mut open: Vec<usize> = (0..taken.len()).filter(open).collect();
        // As in a proposal, the lower index wins among equals.
        let best_first = |a: &usize, b: &usize| worth[*b].total_cmp(&worth[*a]).then(a.cmp(b));
        // As many as there are choosers, because two of them may want the same.
        let wanted = choosers.len().min(open.len());
        if wanted < open.len() {
            open.select_nth_unstable_by(wanted, best_first);
            open.truncate(wanted);
        }
        open.sort_by(best_first);
        open
    };
    let mut queues = [Judges::All, Judges::Trees, Judges::Process].map(|own| (own, best_of(own).into_iter()));
    let mut likely: Vec<usize> = Vec::new();
    for chooser in choosers {
        let queue = queues.iter_mut().find(|(own, _)| own == chooser);
        likely.extend(queue.and_then(|(_, places)| places.find(|place| !likely.contains(place))));
    }
    likely
}
