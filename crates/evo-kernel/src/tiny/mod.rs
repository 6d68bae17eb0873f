//! Small shapes at which every variant is checked: where off-by-one errors live.
//!
//! A file may list them (`listed`), and where it does not, evo derives them from the sizes that the kernel
//! is told and the tiles that divide them (`derived`). A kernel that supports only the sizes of its problems
//! says so.

mod assemble;
mod candidates;
mod derived;
mod drawn;
mod filling;
mod listed;
mod roles;
mod shapes;
mod tiles;

pub use derived::{drawn_shapes, fixed_tiles, near_shapes, untouched_tiles};
pub use filling::{FilledDevice, FillingProblem, blocks, filling_problem};
pub use listed::resolve as resolve_listed;
pub use shapes::{DERIVED_HINT, TinyShapes, shapes};
