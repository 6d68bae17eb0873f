//! The book: that its command lines work and its links lead somewhere.
//!
//! Pages under `docs/` and those that lie beside what they describe are one book (`docs/SUMMARY.md`). A fence says
//! in its first line what the tests do with it:
//!
//! ````text
//! ```cuda file=my.cu            the page's folder gets this file
//! ```diff file=my.cu            an edit of it: lines that go, lines that come, lines around them
//! ```console run                the lines behind `$` run, one after the other, and end with exit code 0
//! ```console run exit=1         the last one ends with this exit code
//! ```console run same           and prints what the page shows, but for numbers
//! ````

mod links;
mod markdown;
mod runs;
mod words;
