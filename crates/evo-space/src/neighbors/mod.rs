//! Neighbors of a point, and the nearest valid point to an invalid one.
//!
//! What counts as a neighbor follows Kernel Tuner's four words, so that its users read ours right. Where
//! one parameter moves, the valid values of each are read off the diagram around the point's path.
//! Where all may move at once, the neighborhood is a box: a subspace, which is counted and drawn from
//! without listing it.

mod neighborhood;

pub use neighborhood::Neighborhood;

#[cfg(test)]
mod tests;
