//! What a space file says that a person edits between two runs, as a study's header keeps it: parameters, constraints,
//! problems and compiler options; and the conditions under which variants are judged. Two of them tell what was changed.

use std::collections::BTreeMap;

use evo_space::genome::ContentHash;
use evo_space::text::shortened;
use serde::{Deserialize, Serialize};

const NAMED: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyDefinition {
    pub parameters: Vec<DefinedParameter>,
    pub constraints: Vec<String>,
    pub problems: Vec<DefinedProblem>,
    pub options: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefinedParameter {
    pub name: String,
    /// Empty for a parameter with more values than are worth keeping.
    pub values: Vec<String>,
    pub count: usize,
    pub default: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefinedProblem {
    pub name: String,
    pub sizes: BTreeMap<String, String>,
    pub weight: f64,
    pub timed: bool,
}

impl StudyDefinition {
    pub fn changes(&self, now: &StudyDefinition) -> Vec<String> {
        let parameters = (&self.parameters[..], &now.parameters[..]);
        [
            compared("parameter", parameters, |own| &own.name, DefinedParameter::changes),
            compared("constraint", (&self.constraints, &now.constraints), |text| text, |_, _| Vec::new()),
            compared("problem", (&self.problems, &now.problems), |own| &own.name, DefinedProblem::changes),
            compared("option", (&self.options, &now.options), |text| text, |_, _| Vec::new()),
        ]
        .concat()
    }
}

/// What is gone or different, and then what is new.
fn compared<T>(
    what: &str,
    (before, now): (&[T], &[T]),
    name: fn(&T) -> &str,
    changes: fn(&T, &T) -> Vec<String>,
) -> Vec<String> {
    let known = |list: &[T], own: &T| list.iter().position(|other| name(other) == name(own));
    let gone = before.iter().flat_map(|own| match known(now, own) {
        None => vec![format!("{what} `{}` is gone", name(own))],
        Some(at) => changes(own, &now[at]),
    });
    let new = now.iter().filter(|own| known(before, own).is_none());
    gone.chain(new.map(|own| format!("{what} `{}` is new", name(own)))).collect()
}

impl DefinedParameter {
    fn changes(&self, now: &DefinedParameter) -> Vec<String> {
        let (name, mut changes) = (&self.name, Vec::new());
        let only = |a: &DefinedParameter, b: &DefinedParameter| -> Vec<String> {
            a.values.iter().filter(|value| !b.values.contains(value)).cloned().collect()
        };
        let unlisted = |own: &DefinedParameter| own.values.len() < own.count;
        if unlisted(self) || unlisted(now) {
            if self.count != now.count {
                changes.push(format!("parameter `{name}` has {} values and had {}", now.count, self.count));
            }
        } else {
            for (what, values) in [("new", only(now, self)), ("removed", only(self, now))] {
                if !values.is_empty() {
                    let more = values.len().saturating_sub(NAMED);
                    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                    let shown = values.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
                    changes.push(format!("parameter `{name}`: {what} {shown}{more}"));
                }
            }
        }
        if self.default != now.default {
            changes.push(format!("the default of `{name}` is {} and was {}", now.default, self.default));
        }
        changes
    }
}

impl DefinedProblem {
    fn changes(&self, now: &DefinedProblem) -> Vec<String> {
        let (name, mut changes) = (&self.name, Vec::new());
        let different = different(&self.sizes, &now.sizes, str::to_string);
        let parts: Vec<String> = different.map(|(key, change)| format!("{key} {change}")).collect();
        if !parts.is_empty() {
            changes.push(format!("problem `{name}`: {}", parts.join(", ")));
        }
        if self.weight != now.weight {
            changes.push(format!("problem `{name}`: weight is {} and was {}", now.weight, self.weight));
        }
        if self.timed != now.timed {
            let word = if now.timed { "is timed now" } else { "is only checked now" };
            changes.push(format!("problem `{name}` {word}"));
        }
        changes
    }
}

const CONDITIONS_NAMED: usize = 6;
const CONDITION_SHOWN: usize = 60;

/// What all variants of a run share, and what decides their verdicts beside the variants themselves: the device, the
/// compiler, the gates, how answers are checked. Kept as text, so that a change can be named: names such as
/// `device driver` or `check rtol`, and their values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(BTreeMap<String, String>);

impl Conditions {
    pub fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Equal for equal conditions: part of every measurement key.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of_parts(self.0.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]))
    }

    /// What is different now, in words: `` `check rtol` is `0.01` and was `0.001` ``.
    pub fn changes(&self, now: &Conditions) -> Vec<String> {
        let different = different(&self.0, &now.0, |text| format!("`{}`", shortened(text, CONDITION_SHOWN)));
        let mut changes: Vec<String> = different.map(|(name, change)| format!("`{name}` {change}")).collect();
        if changes.len() > CONDITIONS_NAMED {
            let more = changes.len() - CONDITIONS_NAMED;
            changes.truncate(CONDITIONS_NAMED);
            changes.push(format!("and {more} more conditions"));
        }
        changes
    }
}

/// What two maps have different, by name: `is 2 and was not set`.
fn different<'a>(
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

    fn parameter(name: &str, values: &[&str]) -> DefinedParameter {
        let values: Vec<String> = values.iter().map(|value| value.to_string()).collect();
        DefinedParameter { name: name.into(), count: values.len(), default: values[0].clone(), values }
    }

    fn problem(name: &str, size: i64) -> DefinedProblem {
        let sizes = BTreeMap::from([("N".to_string(), size.to_string())]);
        DefinedProblem { name: name.into(), sizes, weight: 1.0, timed: true }
    }

    fn before() -> StudyDefinition {
        StudyDefinition {
            parameters: vec![parameter("BLOCK", &["32", "64"]), parameter("OLD", &["1"])],
            constraints: vec!["BLOCK < 100".into()],
            problems: vec![problem("small", 64), problem("gone", 1)],
            options: vec!["-O2".into()],
        }
    }

    #[test]
    fn what_a_person_edited_is_named() {
        let now = StudyDefinition {
            parameters: vec![parameter("BLOCK", &["64", "128"]), parameter("NEW", &["1"])],
            constraints: vec!["BLOCK < 200".into()],
            problems: vec![DefinedProblem { weight: 2.0, timed: false, ..problem("small", 128) }],
            options: Vec::new(),
        };
        insta::assert_snapshot!(before().changes(&now).join("\n"), @r"
        parameter `BLOCK`: new 128
        parameter `BLOCK`: removed 32
        the default of `BLOCK` is 64 and was 32
        parameter `OLD` is gone
        parameter `NEW` is new
        constraint `BLOCK < 100` is gone
        constraint `BLOCK < 200` is new
        problem `small`: N is 128 and was 64
        problem `small`: weight is 2 and was 1
        problem `small` is only checked now
        problem `gone` is gone
        option `-O2` is gone
        ");
        assert!(before().changes(&before()).is_empty());
    }

    #[test]
    fn long_lists_are_cut_and_unlisted_values_counted() {
        let many: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let one = |parameter| StudyDefinition { parameters: vec![parameter], ..StudyDefinition::default() };
        let changes = one(parameter("A", &["0"])).changes(&one(parameter("A", &many)));
        assert_eq!(changes, ["parameter `A`: new 1, 2, 3, 4, 5, 6, 7, 8 and 11 more"]);
        let unlisted = DefinedParameter { values: Vec::new(), count: 5000, ..parameter("A", &["0"]) };
        let changes = one(parameter("A", &["0"])).changes(&one(unlisted));
        assert_eq!(changes, ["parameter `A` has 5000 values and had 1"]);
    }

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
        assert_eq!(changes.len(), CONDITIONS_NAMED + 1);
        assert!(changes[0].contains("é … é"), "{}", changes[0]);
        assert_eq!(changes[CONDITIONS_NAMED], "and 3 more conditions");
    }
}
