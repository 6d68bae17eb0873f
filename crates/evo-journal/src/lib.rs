//! The journal is the only source of truth: every verdict is appended and synced before it is used. Resume,
//! leaderboard and reports are computed from it, so a crash loses one line at most.

pub mod baseline;
pub mod budget;
pub mod definition;
pub mod disk;
pub mod error;
#[doc(hidden)]
pub mod example;
pub mod iterations;
pub mod ladder;
pub mod leaderboard;
pub mod leaderboard_file;
pub mod line;
pub mod lock;
pub mod micro_file;
pub mod own_folder;
pub mod portfolio;
pub mod reader;
pub mod record;
pub mod replay;
