//! Which names an expression of a space file may read: parameters, and sizes that every problem has.

use std::collections::BTreeSet;

use evo_space::diagnostic::nearest;
use evo_space::document::{Data, Node};

/// The names that one expression may read.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownNames {
    parameters: Vec<String>,
    /// Name and sizes of each problem that the expression is evaluated for.
    problems: Vec<(String, BTreeSet<String>)>,
    /// The number of a loop's turn.
    index: Option<String>,
}

/// What is wrong with a name.
#[derive(Debug, PartialEq)]
pub(super) struct Complaint {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl KnownNames {
    /// The names in a file, read before anything else, so that a mistake in a parameter does not
    /// make its uses look unknown.
    pub(super) fn of_file(root: &Node) -> KnownNames {
        let keys = |node: Option<&Node>| -> Vec<String> {
            node.and_then(Node::entries).into_iter().flatten().map(|entry| entry.key.clone()).collect()
        };
        let mut problems = Vec::new();
        if let Some(Data::List(list)) = root.get("problems").map(|node| &node.data) {
            for (position, problem) in list.iter().enumerate() {
                let name = match problem.get("name").map(|node| &node.data) {
                    Some(Data::Text(name)) => format!("`{name}`"),
                    _ => format!("number {}", position + 1),
                };
                problems.push((name, keys(problem.get("sizes")).into_iter().collect()));
            }
        }
        KnownNames { parameters: keys(root.get("parameters")), problems, index: None }
    }

    /// Without the parameters: for a reference, which no configuration may change.
    pub(super) fn sizes_only(&self) -> KnownNames {
        KnownNames { parameters: Vec::new(), ..self.clone() }
    }

    /// Without the sizes: for what is compiled once for all problems.
    pub(super) fn parameters_only(&self) -> KnownNames {
        KnownNames { problems: Vec::new(), ..self.clone() }
    }

    /// With the sizes of the first problem only: for tiny shapes.
    pub(super) fn first_problem(&self) -> KnownNames {
        KnownNames { problems: self.problems.iter().take(1).cloned().collect(), ..self.clone() }
    }

    /// With the number of a loop's turn.
    pub(super) fn with_index(&self, name: Option<String>) -> KnownNames {
        KnownNames { index: name.filter(|own| self.complaint(own).is_some()), ..self.clone() }
    }

    pub(super) fn parameters(&self) -> Vec<&str> {
        self.parameters.iter().map(String::as_str).collect()
    }

    pub(super) fn is_parameter(&self, name: &str) -> bool {
        self.parameters.iter().any(|own| own == name)
    }

    /// Sizes that any problem has.
    pub(super) fn sizes(&self) -> BTreeSet<&str> {
        self.problems.iter().flat_map(|(_, sizes)| sizes).map(String::as_str).collect()
    }

    /// What is wrong with reading `name`, if anything.
    pub(super) fn complaint(&self, name: &str) -> Option<Complaint> {
        if self.is_parameter(name) || self.index.as_deref() == Some(name) {
            return None;
        }
        let (with, without): (Vec<_>, Vec<_>) =
            self.problems.iter().partition(|(_, sizes)| sizes.contains(name));
        match (with.first(), without.first()) {
            (Some(_), None) => None,
            (Some((other, _)), Some((lacking, _))) => Some(Complaint {
                message: format!("problem {lacking} has no size `{name}`"),
                hint: Some(format!("problem {other} has it; an expression is evaluated for every problem")),
            }),
            (None, _) => Some(Complaint {
                message: format!("unknown name `{name}`"),
                hint: Some(self.suggestion(name)),
            }),
        }
    }

    fn suggestion(&self, name: &str) -> String {
        let sizes = self.sizes();
        let known: Vec<&str> =
            self.parameters().into_iter().chain(sizes).chain(self.index.as_deref()).collect();
        // Any two names of one letter are one slip apart, so for those only the case may differ.
        let likely = |near: &&str| name.len() > 1 || near.eq_ignore_ascii_case(name);
        match nearest(name, known.iter().copied()).filter(likely) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "no names are known here".to_string(),
            None => format!("known names: {}", known.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use evo_space::diagnostic::Diagnostics;
    use evo_space::document;

    use super::*;

    const FILE: &str = "parameters = { BLOCK = [1], VEC = [2] }\n\
        problems = [{ name = \"a\", sizes = { N = 1, K = 2 } }, { sizes = { N = 3 } }]\n";

    fn names() -> KnownNames {
        KnownNames::of_file(&document::parse(FILE, &mut Diagnostics::default()).unwrap())
    }

    #[track_caller]
    fn check(names: &KnownNames, name: &str, expected: &str) {
        let shown = match names.complaint(name) {
            Some(complaint) => format!("{} | {}", complaint.message, complaint.hint.unwrap_or_default()),
            None => "fine".to_string(),
        };
        assert_eq!(shown, expected, "{name}");
    }

    #[test]
    fn parameters_and_common_sizes_are_known() {
        let all = names();
        check(&all, "BLOCK", "fine");
        check(&all, "N", "fine");
        check(
            &all,
            "K",
            "problem number 2 has no size `K` | problem `a` has it; an expression is evaluated for every problem",
        );
        check(&all, "BLOK", "unknown name `BLOK` | did you mean `BLOCK`?");
        check(&all, "n", "unknown name `n` | did you mean `N`?");
        check(&all, "M", "unknown name `M` | known names: BLOCK, VEC, K, N");
    }

    #[test]
    fn references_and_tiny_shapes_know_less_and_more() {
        check(&names().sizes_only(), "BLOCK", "unknown name `BLOCK` | known names: K, N");
        check(&names().first_problem(), "K", "fine");
        check(&KnownNames::default(), "K", "unknown name `K` | no names are known here");
    }
}
