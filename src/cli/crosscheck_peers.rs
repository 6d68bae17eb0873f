//! Peers of `evo crosscheck`: evo's own time of each beside the candidate's, so that a harness which timed a peer too can be
//! asked whether both see the same one ahead. The run is that of `evo bench`.

use std::collections::BTreeMap;

use evo_space::diagnostic::nearest;

use super::bench::{self, ROUNDS};
use super::crosscheck_args::CrosscheckArgs;
use super::error::CliError;
use super::judge::{self, Bench};
use super::{candidate, peers, session};
use crate::bench::{BenchOrder, BenchRow, BenchShape, RowStatus, of_problems, run};
use crate::engine::candidate::ResolvedCandidate;
use crate::kernel::spec::PeerSpec;
use crate::peer::SHIPPED;

/// How the candidate is called in the run.
const OURS: &str = "evo";

/// The peers that `--peer` names.
pub fn named(arguments: &CrosscheckArgs) -> Result<Vec<PeerSpec>, CliError> {
    if arguments.peers.is_empty() {
        return Ok(Vec::new());
    }
    let one = &arguments.one;
    let file = candidate::resolve(&one.words, &one.candidate, &one.run.device, one.run.access.access())?.file;
    let known = &session::kernel_of(&file)?.peers;
    let one = |name: &String| {
        let refused = || {
            let names: Vec<&str> =
                SHIPPED.iter().copied().chain(known.iter().map(|own| own.name.as_str())).collect();
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}; others go into `[[peers]]`", names.join(", ")),
            };
            CliError::usage(format!("there is no peer `{name}`")).with_hint(hint)
        };
        peers::named(name, known).ok_or_else(refused)
    };
    arguments.peers.iter().map(one).collect()
}

/// Candidate's time / the fastest peer's time by problem, in the mode that ranks. Peers that are wrong or do not run count for
/// nothing.
pub fn ratios(
    bench: &mut Bench<'_>,
    peers: &[PeerSpec],
    own: &ResolvedCandidate,
) -> Result<BTreeMap<String, f64>, CliError> {
    if peers.is_empty() {
        return Ok(BTreeMap::new());
    }
    let Bench { setup, lane, seed, job, .. } = bench;
    let kernel = session::kernel_of(&own.file)?;
    let is_timed = |shape: &BenchShape| job.timed.iter().any(|plan| plan.name == shape.problem.name);
    let shapes: Vec<BenchShape> =
        of_problems(kernel, setup.choice.kind).into_iter().filter(is_timed).collect();
    let seats = peers::start(peers, &setup.choice.spec, false)?;
    let problems: Vec<_> = shapes.iter().map(|shape| &shape.problem).collect();
    let candidate = bench::own_candidate(OURS, own, &problems, setup, lane, *seed)?;
    let mode = kernel.objective.ranking.timing();
    let order = BenchOrder {
        lane,
        kernel,
        own: vec![candidate],
        peers: seats,
        shapes: &shapes,
        modes: &[mode],
        ranking: mode,
        rounds: ROUNDS,
        deep: false,
        until: None,
        seed: *seed,
        cache: setup.farm.cache.clone(),
    };
    let done = run(order, &mut |prepared| judge::compile(setup, prepared), &mut |_, _| Ok(()));
    let (rows, _) = done.map_err(bench::ended)?;
    let time = |row: &BenchRow| row.modes.get(mode.as_str()).map(|own| own.p50_ns);
    let of = |problem: &str, is_own: bool| {
        let own = rows.iter().filter(|row| {
            row.problem == problem && row.status == RowStatus::Pass && (row.implementation == OURS) == is_own
        });
        own.filter_map(time).reduce(f64::min)
    };
    let ratio = |shape: &BenchShape| {
        let name = &shape.problem.name;
        Some((name.clone(), of(name, true)? / of(name, false)?))
    };
    Ok(shapes.iter().filter_map(ratio).collect())
}
