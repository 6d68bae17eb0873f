//! `[parameters]` and `[[constraints]]` of a space file to a `SearchSpace`; every error at once.

mod constraints;
mod fields;
mod parameters;
mod space_file;

pub use space_file::read_space;

#[cfg(test)]
mod tests;
