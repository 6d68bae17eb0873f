//! Sizes of problems that are constants of the compiled code.

use std::collections::BTreeMap;
use std::fmt;

use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

/// Sizes and flags that are compile-time constants of a source and of the binary that it becomes, with their values.
/// Empty where one binary serves every problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Specialization(BTreeMap<String, i64>);

impl Specialization {
    /// The values that a problem has for these names. A name that the problem lacks is left out; the loader of space
    /// files refuses such names.
    pub fn of(names: &[String], sizes: &BTreeMap<String, i64>) -> Specialization {
        let pair = |name: &String| Some((name.clone(), *sizes.get(name)?));
        Specialization(names.iter().filter_map(pair).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    pub fn serves(&self, sizes: &BTreeMap<String, i64>) -> bool {
        self.0.iter().all(|(name, value)| sizes.get(name) == Some(value))
    }

    /// The hash that the binary carries as a symbol: of the configuration and of the constants, so that two binaries of
    /// one configuration are told apart. Without constants it is the configuration's own.
    pub fn variant_hash(&self, configuration: &ContentHash) -> ContentHash {
        match self.is_empty() {
            true => configuration.clone(),
            false => ContentHash::of_parts([configuration.as_str().as_bytes(), self.to_string().as_bytes()]),
        }
    }
}

impl fmt::Display for Specialization {
    /// `CAUSAL=1 D=64`, by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, value)) in self.iter().enumerate() {
            let space = if position == 0 { "" } else { " " };
            write!(f, "{space}{name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
        pairs.iter().map(|(name, value)| ((*name).to_string(), *value)).collect()
    }

    #[test]
    fn constants_choose_problems() {
        let own =
            Specialization::of(&["D".into(), "CAUSAL".into()], &sizes(&[("CAUSAL", 1), ("D", 64), ("S", 7)]));
        assert_eq!(own.to_string(), "CAUSAL=1 D=64");
        assert!(own.serves(&sizes(&[("CAUSAL", 1), ("D", 64), ("S", 9)])));
        assert!(!own.serves(&sizes(&[("CAUSAL", 0), ("D", 64)])) && !own.serves(&sizes(&[("D", 64)])));
        assert!(Specialization::default().serves(&sizes(&[])));
    }

    #[test]
    fn binaries_of_one_configuration_carry_different_hashes() {
        let hash = ContentHash::of(b"configuration");
        let one = |value| Specialization::of(&["D".into()], &sizes(&[("D", value)])).variant_hash(&hash);
        assert_ne!(one(64), one(128));
        assert_eq!(Specialization::default().variant_hash(&hash), hash);
    }
}
