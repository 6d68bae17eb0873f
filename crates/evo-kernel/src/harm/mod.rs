//! Kernels made worse on purpose, one resource at a time, to see what binds them.
//!
//! A [`Pathology`] takes something away from any kernel: registers, resident blocks, a level of the compiler. It comes in
//! doses, so that a steep answer can be told from a flat one. What is harmed is a copy of the kernel that nobody keeps: it
//! is compared with the unharmed one and thrown away. A space file may declare further ones (`[[diagnose]]`). A [`HarmPlan`] is
//! either kind, made for one kernel on one device.

mod apply;
mod dose;
mod pathology;
mod plan;

pub use apply::apply;
pub use dose::{Dose, HarmChange, HarmFacts};
pub use pathology::Pathology;
pub use plan::{HarmPlan, named, names, plans};
