//! Points as numbers that models can learn from, without knowing what any parameter means.

mod candidates;
mod column;
mod encoding;
mod options;

#[cfg(test)]
mod tests;

pub use self::encoding::Features;
pub use self::options::FeatureOptions;
