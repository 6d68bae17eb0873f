//! Checks on every access of an instrumented variant: bounds, alignment, races, memory that nobody wrote.
//!
//! The compiler inserts the calls (`evo_instrument.h`), `table` receives them, `checker` judges them with the
//! help of `shadow` (what happened to each element), `order` (which accesses a barrier, a warp operation or
//! an atomic operation puts in order), `clusters` (which accesses of several blocks), `unfenced` (which volatile reads miss a fence) and `regions` (what lies where). `finding` words what was found; `image`,
//! `lines` and `symbols` read names and lines from the module itself.

mod access;
mod checker;
mod cluster_order;
mod clusters;
mod conflict;
mod finding;
mod image;
mod lines;
mod order;
mod regions;
mod shadow;
mod symbols;
mod table;
mod unfenced;

pub use checker::{AccessChecker, CheckerOptions, LaunchShape};
pub use image::ModuleImage;
pub use regions::{Region, RegionKind};
pub use table::{CheckerHandle, WatchTable};
