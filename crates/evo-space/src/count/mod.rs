//! From constraints to diagrams: all valid points of each group of linked parameters, without listing
//! them.
//!
//! `problem` lowers the constraints, tries out the small ones in full (`table`) and removes values that
//! no valid point can have. `order` chooses in which order a group's parameters are decided, `plan`
//! works out what each step then has to do (`residual` computes early what is known early), and `merge`
//! searches, sharing partial points that have the same completions. Where that takes too much, `relax`
//! leaves constraints out.

mod keys;
pub mod merge;
pub mod order;
mod plan;
pub mod problem;
pub mod relax;
mod residual;
mod table;
mod value_set;
