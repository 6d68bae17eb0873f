//! Places in a text.

use std::ops::Range;

/// A byte range of a file or of an expression's text.
pub type Span = Range<usize>;
