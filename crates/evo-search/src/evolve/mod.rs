//! The default strategy: an evolutionary search whose candidates are screened by models.
//!
//! If a space is small enough to list, every valid point is a candidate at every proposal. If not, the
//! candidates are neighbors of the best points, children of a population by six operators, and uniform
//! samples; a bandit prefers operators whose children beat their parents. In both cases the models choose
//! by expected improvement. Some proposals are chosen by one model alone and a few are random, because runs
//! that get stuck cost more, averaged over many runs, than these proposals do.

mod candidates;
mod encoder;
mod ensemble;
mod hopes;
mod ingredients;
mod likely;
mod observations;
mod prior_model;
mod process_member;
mod search;

pub(crate) use self::ingredients::Ingredients;
pub(crate) use self::search::Evolve;
