//! What a plan needs for its run: something that answers the engine, and what the study's header says of it.

use evo_protocol::device::DeviceInfo;
use evo_protocol::measurement::RankingMode;
use evo_space::genome::ContentHash;

use crate::engine::{Compilers, LanePart, Recipe};
use crate::journal::conditions::Conditions;
use crate::journal::definition::StudyDefinition;
use crate::journal::record::StudyInput;

/// Compilers and a device, or a recording in their place, ready for the engine.
pub struct Stage<'a, R: Recipe> {
    pub recipe: R,
    pub compilers: Box<dyn Compilers<R::Prepared> + 'a>,
    pub lanes: Vec<LanePart<R::Job>>,
    /// evo's own kernels, where there are several devices to compare.
    pub anchors: Option<R::Job>,
    pub identity: StudyIdentity,
    pub notices: Vec<String>,
}

pub struct StudyIdentity {
    pub kernel: String,
    pub space: String,
    /// What must not change between the runs of a study.
    pub space_hash: ContentHash,
    /// The texts and tools behind that hash; none for a recording.
    pub inputs: Vec<StudyInput>,
    /// What all variants share; none for a recording, whose answers are never taken over.
    pub conditions: Option<Conditions>,
    pub definition: Option<StudyDefinition>,
    pub problems: Vec<String>,
    pub checked: Vec<String>,
    pub ranking: RankingMode,
    pub allow_trade: bool,
    pub warnings: Vec<String>,
    pub device: DeviceInfo,
}
