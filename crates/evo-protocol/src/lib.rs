//! The types that evo's programs exchange: verdicts, launch plans, worker requests and responses, evaluations,
//! the leaderboard.
//!
//! Types with their serde form and nothing else: no process, no device, no file is touched here. A
//! program in another language that speaks to evo needs only what these types serialize to.

pub mod bench;
pub mod binary;
pub mod check;
pub mod device;
pub mod dtype;
pub mod entry_name;
pub mod envelope;
pub mod evaluation;
pub mod export;
pub mod invert;
pub mod known;
pub mod leaderboard;
mod listed_once;
pub mod measurement;
pub mod micro;
pub mod plan;
pub mod request;
mod sane;
pub mod schema;
pub mod tensor_map;
pub mod verdict;
mod words;
pub mod worker;
