//! Views of a study for people and programs; they only read.

mod chart;
pub mod closing;
pub mod columns;
pub mod crosscheck;
pub mod csv;
pub mod envelope;
pub mod event;
pub mod failures;
pub mod gate;
pub mod history;
pub mod insight;
pub mod invert;
pub mod json;
pub mod judged;
mod known;
mod markdown;
pub mod micro;
pub mod profile;
pub mod sanitize;
pub mod standing;
pub mod study;
pub mod study_report;
pub mod styled;
pub mod table;
pub mod templates;
pub mod text;
mod units;
pub mod width;

#[cfg(test)]
mod leaderboard_tests;
