//! A reader per format: each makes a draft of a file's text. `detect` chooses the reader.
//!
//! `observed` collects parameters for formats that list only configurations; `json_values` reads what several
//! formats write alike.

mod detect;
mod json_values;
mod kernel_tuner_cache;
mod observed;
mod study_journal;
mod t4;
mod tuning_data;

pub use detect::read;
