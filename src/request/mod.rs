//! What comes from other programs and goes back to them: lines of bounded length, requests that are held to the schema of
//! their type. Strict in what it takes, because whoever writes requests may be a program that nobody watches.
//!
//! `read` cuts a stream into bounded lines, reads requests and says which spaces they may name, `visible` decides what a
//! candidate's author may learn, and `emit` writes answers in the forms of other programs. Nothing here compiles, judges
//! or times.

pub mod emit;
pub mod read;
pub mod visible;
