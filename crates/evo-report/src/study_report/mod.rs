//! A study as a report: `report.md` (what was tried, step by step), `final_summary.md` (what came of it) and
//! `report.html` (the same as one page that needs nothing else).
//!
//! They and `report.json` are views of one model, which is a function of what is on the disk: the study's journal, and the
//! records beside it. No clock, no locale and no order of a folder has a say, so the same records give the same bytes.

mod loaded;
mod model;
mod views;

pub use loaded::{LoadedStudy, ReportMaterial, SourceText};
pub use model::StudyModel;
pub use views::StudyView;
