//! The index of valid points: exact counts, and index ⇄ point in canonical order.
//!
//! Each group of linked parameters has a reduced diagram whose nodes know how many completions they
//! have. The canonical order is lexicographic in the declared order of all parameters, which groups
//! may interleave: a step at one parameter therefore skips that group's completions times those of
//! every other group from where it stands.
//!
//! A group that takes too much work is counted with some conjuncts left out (`relax`). Those become
//! checks: the points of the diagrams are then a superset of the valid points, and indices run over
//! the superset, with holes.

mod around;
mod checks;
mod counted;
mod descend;
pub mod diagram;
mod lookup;
mod nearest;
mod parts;
mod points;
mod restrict;
mod route;
mod sample;
mod size;

pub use around::{Around, Side};
pub use counted::{Index, Limits};
pub use points::Points;
pub use restrict::Allowed;
pub use size::Size;
