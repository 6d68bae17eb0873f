//! The checks of compute-sanitizer, each a run of its own.

use schemars::JsonSchema;

use crate::words::words;

words! {
    #[derive(Hash, JsonSchema)]
    SanitizerCheck {
        /// Accesses outside of allocations, and misaligned ones.
        Memcheck = "memcheck",
        /// Threads of a block that access the same shared memory without an order.
        Racecheck = "racecheck",
        /// Reads of memory that nothing was written to.
        Initcheck = "initcheck",
        /// Barriers that not every thread reaches, and other misuse of synchronization.
        Synccheck = "synccheck",
    }
}
