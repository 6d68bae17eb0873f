//! A study as a report: `report.md` (what was tried, step by step), `final_summary.md` (what came of it) and
//! `report.html` (the same as one page that needs nothing else).
//!
//! All three are functions of what is on the disk: the study's journal, and the records beside it. No clock, no
//! locale and no order of a folder has a say, so the same records give the same bytes.

mod change;
mod columns;
mod entry;
mod findings;
pub mod html;
mod insight_again;
mod known;
mod loaded;
mod log;
mod markdown;
mod material;
mod summary;

pub use change::{SourcePair, SourceText};
pub use html::{PageKind, page};
pub use loaded::{LoadedStudy, StudyNote};
pub use log::report_markdown;
pub use material::{PeerTime, ReportMaterial};
pub use summary::summary_markdown;

/// The iteration log's file name.
pub const REPORT: &str = "report.md";
/// The summary's file name.
pub const SUMMARY: &str = "final_summary.md";
/// The page's file name.
pub const PAGE: &str = "report.html";
