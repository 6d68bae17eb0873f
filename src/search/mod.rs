//! Search: ask/tell strategies; they know no device and no file.

pub mod strategy;
