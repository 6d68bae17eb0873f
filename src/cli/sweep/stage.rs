//! What a plan is run on.

use crate::engine::{Compilers, LanePart, Recipe};
use crate::journal::record::StudyHeader;

/// Compilers and a device, or a recording in their place, ready for the engine.
pub struct Stage<'a, R: Recipe> {
    pub recipe: R,
    pub compilers: Box<dyn Compilers<R::Prepared> + 'a>,
    pub lanes: Vec<LanePart<R::Job>>,
    /// evo's own kernels, where there are several devices to compare.
    pub anchors: Option<R::Job>,
    pub header: StudyHeader,
    pub notices: Vec<String>,
}
