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
    /// At least one device.
    pub lanes: Vec<LanePart<R::Job>>,
    /// evo's own kernels, where there are several devices to compare.
    pub anchors: Option<R::Job>,
    pub identity: StudyIdentity,
    /// What a person should know before the first evaluation.
    pub notices: Vec<String>,
}

/// The part of a study's header that depends on what answers.
pub struct StudyIdentity {
    pub kernel: String,
    /// The space as the command line names it.
    pub space: String,
    /// What must not change between the runs of a study.
    pub space_hash: ContentHash,
    /// The texts and tools behind that hash; none for a recording.
    pub inputs: Vec<StudyInput>,
    /// What all variants share; none for a recording, whose answers are never taken over.
    pub conditions: Option<Conditions>,
    /// What a person edits; none for a recording.
    pub definition: Option<StudyDefinition>,
    /// Names of the timed problems, and of those that are only checked.
    pub problems: Vec<String>,
    pub checked: Vec<String>,
    /// The timing mode that ranks.
    pub ranking: RankingMode,
    /// Whether the space allows trades between problems.
    pub allow_trade: bool,
    /// What the space file leaves unchecked.
    pub warnings: Vec<String>,
    pub device: DeviceInfo,
}
