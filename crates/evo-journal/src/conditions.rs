//! What all variants of a run share, and what decides their verdicts beside the variants themselves: the device, the
//! compiler, the gates, how answers are checked. Kept as text, so that a change can be named.

use std::collections::BTreeMap;

use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

const NAMED: usize = 6;

const SHOWN: usize = 60;

/// The conditions of a run: names such as `device driver` or `check rtol`, and their values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(BTreeMap<String, String>);

impl Conditions {
    pub fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Equal for equal conditions: part of every measurement key.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of_parts(self.0.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]))
    }

    /// What is different now, in words: `` `check rtol` is `0.01` and was `0.001` ``.
    pub fn changes(&self, now: &Conditions) -> Vec<String> {
        let different = different(&self.0, &now.0, |text| format!("`{}`", shown(text)));
        let mut changes: Vec<String> = different.map(|(name, change)| format!("`{name}` {change}")).collect();
        if changes.len() > NAMED {
            let more = changes.len() - NAMED;
            changes.truncate(NAMED);
            changes.push(format!("and {more} more conditions"));
        }
        changes
    }
}

fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_string(),
    }
}

/// What two maps have different, by name: `is 2 and was not set`.
pub(crate) fn different<'a>(
    before: &'a BTreeMap<String, String>,
    now: &'a BTreeMap<String, String>,
    shown: impl Fn(&str) -> String,
) -> impl Iterator<Item = (String, String)> {
    let names = before.keys().chain(now.keys().filter(move |name| !before.contains_key(*name)));
    let names = names.filter(move |name| before.get(*name) != now.get(*name));
    names.map(move |name| {
        let word = |value: Option<&String>| value.map_or("not set".to_string(), |text| shown(text));
        (name.clone(), format!("is {} and was {}", word(now.get(name)), word(before.get(name))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(pairs: &[(&str, &str)]) -> Conditions {
        Conditions(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    #[test]
    fn changes_are_named_and_change_the_hash() {
        let before = conditions(&[("check rtol", "0.001"), ("device name", "H200"), ("old", "1")]);
        let after = conditions(&[("check rtol", "0.01"), ("device name", "H200"), ("new", "2")]);
        assert_ne!(before.hash(), after.hash());
        assert_eq!(before.hash(), before.clone().hash());
        insta::assert_snapshot!(before.changes(&after).join("\n"), @r"
        `check rtol` is `0.01` and was `0.001`
        `old` is not set and was `1`
        `new` is `2` and was not set
        ");
        assert!(before.changes(&before).is_empty());
    }

    #[test]
    fn many_changes_are_counted_and_long_values_cut() {
        let make = |value: String| Conditions((0..9).map(|n| (format!("c{n}"), value.clone())).collect());
        let changes = make("é".repeat(100)).changes(&make(String::new()));
        assert_eq!(changes.len(), NAMED + 1);
        assert!(changes[0].ends_with("é…`"), "{}", changes[0]);
        assert_eq!(changes[NAMED], "and 3 more conditions");
    }
}
