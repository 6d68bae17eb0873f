//! `evo evaluate` for programs: one JSON request, one JSON answer. The form is versioned and strict in what it takes,
//! because whoever writes requests may be a program that nobody watches.
//!
//! `ask` has the types of a request and `read` reads them, `beneath` says which spaces a request may name, `lines` cuts a stream into bounded lines, `answer` makes the
//! answer, `visible` decides what a candidate's author may learn, `own_lines` maps a compiler's errors to the
//! candidate's own lines, and `emit` writes answers in the forms of other programs. Nothing here compiles, judges or
//! times.

pub mod answer;
pub mod ask;
pub mod beneath;
pub mod emit;
pub mod lines;
pub mod own_lines;
pub mod performance;
pub mod read;
pub mod visible;
