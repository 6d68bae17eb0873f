//! Valid points as packed rows, for programs that need a whole range in memory or on disk.
//!
//! An index range is cut into blocks, which threads fill side by side: the index gives a block's first
//! point, an odometer the rest. Each parameter takes the bits that its effective values need, so that
//! ten parameters usually fit 4 bytes; parameters with one value left take none.

mod layout;
mod rows;
mod walk;

pub use rows::{RowBlocks, Rows};

#[cfg(test)]
mod tests;
