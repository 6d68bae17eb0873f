//! Search spaces with constraints: exact counts, an index without a list, samples and neighbors.
//!
//! Building a [`SearchSpace`] turns its constraints into decision diagrams, so that afterwards every operation is exact
//! and quick even for spaces whose valid points nobody could list: counting them, the point of an index and the index
//! of a point, uniform and evenly spread samples, neighbors, repair, subspaces.
//!
//! ```
//! use evo_space::{Neighborhood, SearchSpace, sample::seeded};
//!
//! let text = r#"
//! constraints = ["BLOCK % WARP == 0", { require = "BLOCK * TILE <= 256", because = "registers" }]
//!
//! [parameters]
//! BLOCK = [32, 64, 96, 128]
//! WARP = [32, 64]
//! TILE = { values = [1, 2, 4, 8], default = 2 }
//! "#;
//! let space = SearchSpace::parse(text).map_err(|errors| errors.render("space.toml", text))?;
//! assert_eq!(space.count(), 16);
//!
//! // Index to point and back, without a list.
//! let genome = space.genome_at(15).expect("the last of 16 points");
//! assert_eq!(space.configuration(&genome).to_string(), "BLOCK=128 WARP=64 TILE=2");
//! assert_eq!(space.index_of(&genome), Some(15));
//!
//! // Uniform samples and neighbors are valid.
//! let sample = space.sample_distinct(5, &mut seeded(42));
//! assert!(sample.len() == 5 && sample.iter().all(|genome| space.contains(genome)));
//! let neighbors = space.neighbors(&genome, Neighborhood::Hamming);
//! assert!(neighbors.iter().all(|genome| space.contains(genome)));
//! # Ok::<(), String>(())
//! ```
//!
//! A text with mistakes gives [`Diagnostics`]: all mistakes at once, each with its place and a hint. Constraints are
//! written in a small language with Python's meaning; see [`Expr`]. Where constraints entangle the parameters too much
//! to count, the space says so ([`SearchSpace::is_exact`]) and checks some of them point by point.
//!
//! Inside, [`document`] reads files, [`expr`] parses the language and [`load`] makes a space of both; [`program`] is
//! the compiled form of expressions, `count` builds the diagrams and `index` answers from them.

mod count;
pub mod diagnostic;
pub mod document;
pub mod explain;
pub mod expr;
pub mod genome;
mod index;
pub mod load;
mod neighbors;
mod parameter;
pub mod program;
pub mod sample;
pub mod space;
#[cfg(test)]
mod testing;
pub mod text;
pub mod value;
mod watch;

pub use count::RelaxLimits;
pub use diagnostic::{Diagnostic, Diagnostics};
pub use expr::{Expr, ExprError};
pub use genome::{Configuration, Genome};
pub use index::{Limits, Size};
pub use neighbors::Neighborhood;
pub use sample::QuasiRandom;
pub use space::{Constraint, Parameter, SearchSpace, Violation};
pub use value::Value;
pub use watch::SpaceWatch;
