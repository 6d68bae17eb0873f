//! Checks on every access of an instrumented variant: bounds, alignment, races, memory that nobody wrote.

mod checker;
mod finding;
mod image;
mod lines;
mod order;
mod regions;
mod shadow;
mod table;

pub use checker::AccessChecker;
pub use image::ModuleImage;
pub use regions::{Region, RegionKind, Regions};
pub use table::{CheckerHandle, WatchTable};
