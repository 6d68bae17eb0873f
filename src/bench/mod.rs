//! `evo bench`: implementations of one kernel over a grid of shapes, in one run.
//!
//! `file` reads what is wanted, `shapes` makes problems of it. `run` judges the whole grid first and then times it,
//! shape by shape: our candidates in workers (`own`) and other people's code in processes of its own (`seats`) take
//! turns block by block (`turns`). `figures` makes rows of what was seen, `scaling` looks along the axes, `summary` over
//! all problems, `outcome` says what a run amounts to, `folder` and `pages` keep it.

mod cells;
mod figures;
mod file;
mod folder;
mod outcome;
mod own;
mod pages;
mod row;
mod run;
mod scaling;
mod seats;
mod shapes;
mod summary;
mod turns;

pub use cells::{Implementation, ImplementationKind};
pub use file::{BenchCandidate, BenchFile, read_bench_file};
pub use folder::BenchFolder;
pub use outcome::{BenchOutcome, outcome};
pub use own::{Compile, OwnCandidate};
pub use row::{BenchRow, RowStatus};
pub use run::{BenchError, BenchOrder, Keep, run};
pub use seats::PeerSeat;
pub use shapes::{BenchShape, of_grid, of_problems};
pub use summary::{MeanRatio, summary};
pub use turns::peer_problem;
