//! A study on disk: its folder, its lock, its journal, and the files that are views of the journal; and the results
//! of the studies beside it; evaluations by the names that a command line gives them; and
//! profiles of candidates.

mod earlier;
mod folder;
mod named;
mod open_study;
mod profile_file;
pub(crate) mod studies;

pub use earlier::{EarlierLimits, EarlierResult, EarlierResults};
pub use folder::{StudyError, StudyRequest, StudyWish, resumed};
pub use named::{NameError, NamedEvaluation, PREFIX_MIN, StudySearch};
pub use open_study::Study;
pub use profile_file::{
    KeptProfile, ProfileFile, ProfileFileError, keep as keep_profile, newest as newest_profile,
};
pub use studies::{StudyFolder, instead_of, studies};
