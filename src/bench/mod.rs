//! `evo bench`: implementations of one kernel over shapes, in one run.
//!
//! `file` reads what is wanted. `run` judges all of them first and then times them,
//! shape by shape: our candidates in workers (`own`) and other people's code in processes of its own (`peer`) take turns
//! block by block. `figures` makes rows of what was seen, `outcome` says what a run amounts to, `pages` keeps it.

mod figures;
mod file;
mod outcome;
mod own;
mod pages;
mod run;

pub use evo_protocol::bench::{BenchRow, Implementation, ImplementationKind, MeanRatio, RowStatus};

pub use figures::operator;
pub use file::{BenchCandidate, BenchFile, KEYS, read_bench_file};
pub use outcome::{BenchOutcome, outcome, sentence, summary};
pub use own::{BenchError, Compile, OwnCandidate};
pub use pages::{BenchFolder, printed};
pub use run::{BenchOrder, of_kernel, of_problems, run};
