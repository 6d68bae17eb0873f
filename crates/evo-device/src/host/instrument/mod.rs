//! Checks on every access of an instrumented variant: bounds, alignment, races, memory that nobody wrote.

mod checker;
mod finding;
mod image;
mod lines;
mod order;
mod shadow;
mod table;

pub use checker::AccessChecker;
pub use image::ModuleImage;
pub use shadow::{Region, RegionKind, Regions};
pub use table::{CheckerHandle, WatchTable};
