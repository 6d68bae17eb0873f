//! The nearest valid point in the place of a default that constraints exclude.
//!
//! Many a tuning script has no default at all: its parameters list their values from the smallest, and the first values
//! together are often not a configuration that can run. Such a file is sound, so the nearest valid point is tried first,
//! and everybody is told.

use evo_space::genome::Configuration;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;

/// The default configuration that a file states, and what took its place.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplacedDefault {
    /// What the file states; it is not valid.
    pub stated: Configuration,
    /// The nearest valid point, which is the default from now on.
    pub taken: Configuration,
    /// The constraints that exclude the stated one, as written.
    pub violated: Vec<String>,
}

impl ReplacedDefault {
    /// A space whose default is valid, and what was replaced for that. Nothing changes where the default is valid
    /// already, or where no valid point is found.
    pub fn mend(space: SearchSpace) -> (SearchSpace, Option<ReplacedDefault>) {
        let stated = space.default_genome();
        if space.contains(&stated) {
            return (space, None);
        }
        // The seed breaks ties alone, so that a file has the same default in every run.
        let Some(nearest) = space.repair(&stated, &mut seeded(0)) else { return (space, None) };
        let violated = space.violations(&stated).iter().map(|one| one.expr.text().to_string()).collect();
        let replaced = ReplacedDefault {
            stated: space.configuration(&stated),
            taken: space.configuration(&nearest),
            violated,
        };
        (space.with_default(&nearest), Some(replaced))
    }

    /// The replacement in one sentence, with the parameters that changed.
    pub fn note(&self) -> String {
        let changed = self.stated.iter().zip(self.taken.iter()).filter(|(old, new)| old.1 != new.1);
        let changed: Vec<String> =
            changed.map(|((name, old), (_, new))| format!("{name}={new} instead of {old}")).collect();
        let violated: Vec<String> = self.violated.iter().map(|text| format!("`{text}`")).collect();
        format!(
            "the default configuration violates {}, so the nearest valid point takes its place: {}",
            violated.join(" and "),
            changed.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(text: &str) -> SearchSpace {
        SearchSpace::parse(text).unwrap()
    }

    #[test]
    fn a_valid_default_stays() {
        let (own, replaced) =
            ReplacedDefault::mend(space("constraints = ['A < 3']\n[parameters]\nA = [1, 2, 4]\n"));
        assert_eq!(replaced, None);
        assert_eq!(own.configuration(&own.default_genome()).to_string(), "A=1");
    }

    #[test]
    fn the_nearest_valid_point_is_the_default() {
        let text =
            "constraints = ['A * B >= 8', 'A > 1']\n[parameters]\nA = [1, 2, 4, 8]\nB = [2, 4]\nC = [5, 6]\n";
        let (own, replaced) = ReplacedDefault::mend(space(text));
        let replaced = replaced.unwrap();
        assert_eq!(own.configuration(&own.default_genome()), replaced.taken);
        assert!(own.contains(&own.default_genome()));
        assert_eq!(own.count(), space(text).count());
        assert_eq!(
            replaced.note(),
            "the default configuration violates `A * B >= 8` and `A > 1`, so the nearest valid point takes its \
             place: A=4 instead of 1"
        );
    }
}
