//! The languages that formulas and literals are written in.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C++17, with `exact.hpp`.
    Cpp,
    /// Python 3.9, with `exact.py`.
    Python,
}
