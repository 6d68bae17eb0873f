//! The checks of compute-sanitizer, each a run of its own.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SanitizerCheck {
    /// Accesses outside of allocations, and misaligned ones.
    Memcheck,
    /// Threads of a block that access the same shared memory without an order.
    Racecheck,
    /// Reads of memory that nothing was written to.
    Initcheck,
    /// Barriers that not every thread reaches, and other misuse of synchronization.
    Synccheck,
}

impl SanitizerCheck {
    pub const ALL: [SanitizerCheck; 4] = [
        SanitizerCheck::Memcheck,
        SanitizerCheck::Racecheck,
        SanitizerCheck::Initcheck,
        SanitizerCheck::Synccheck,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            SanitizerCheck::Memcheck => "memcheck",
            SanitizerCheck::Racecheck => "racecheck",
            SanitizerCheck::Initcheck => "initcheck",
            SanitizerCheck::Synccheck => "synccheck",
        }
    }
}
