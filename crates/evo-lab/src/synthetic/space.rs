//! The set of synthetic spaces: opened by name, and asked for the time of a point.

use super::point::{Definition, Point};
use super::{kernels, shapes};
use evo_protocol::verdict::VerdictClass;
use evo_search::strategy::Outcome;
use evo_space::diagnostic::nearest;
use evo_space::genome::Genome;
use evo_space::space::{Parameter, SearchSpace};
use thiserror::Error;

/// The time of the planted point in every space.
pub const OPTIMUM_NS: f64 = 1e6;

/// The set, in order of documentation.
const SET: &[Definition] = &[
    kernels::MATRIX_TILES,
    kernels::HIDDEN_LIMITS,
    shapes::SWITCHES,
    shapes::LONG_LISTS,
    shapes::DECEPTIVE,
    shapes::PAIRWISE,
    kernels::MOSTLY_IRRELEVANT,
    shapes::ENTANGLED,
];

/// A synthetic space with its formulas.
pub struct Synthetic {
    pub(super) definition: &'static Definition,
    /// Its parameters and constraints.
    pub space: SearchSpace,
    planted: Genome,
}

/// No synthetic space has this name.
#[derive(Debug, Error)]
#[error("unknown synthetic space `{name}`")]
pub struct UnknownSynthetic {
    name: String,
    hint: String,
}

impl UnknownSynthetic {
    /// What a person can do about it: the names there are.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// The names of the set.
pub fn names() -> impl Iterator<Item = &'static str> {
    SET.iter().map(|definition| definition.name)
}

impl Synthetic {
    /// The space of that name.
    pub fn open(name: &str) -> Result<Synthetic, UnknownSynthetic> {
        let definition = SET.iter().find(|definition| definition.name == name).ok_or_else(|| {
            let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`? there are {list}"),
                None => format!("there are {list}"),
            };
            UnknownSynthetic { name: name.to_string(), hint }
        })?;
        let space = SearchSpace::parse(&(definition.text)()).expect("the set holds spaces");
        let planted = genome_of(&space, &(definition.planted)());
        assert!(space.contains(&planted), "the planted point of `{name}` is not valid");
        Ok(Synthetic { definition, space, planted })
    }

    pub fn name(&self) -> &'static str {
        self.definition.name
    }

    /// What is hard about it, in half a sentence.
    pub fn about(&self) -> &'static str {
        self.definition.about
    }

    /// A point that no other is faster than.
    pub fn optimum(&self) -> &Genome {
        &self.planted
    }

    /// The time of a point over that of the optimum, at least 1; or how the point fails.
    pub fn ratio(&self, genome: &Genome) -> Result<f64, VerdictClass> {
        let losses = (self.definition.losses)(&Point::new(self.space.parameters(), genome))?;
        assert!(
            losses.iter().all(|loss| *loss >= 0.0),
            "`{}` gives less than nothing: {losses:?}",
            self.name()
        );
        // A product, so that a loss costs the same share of the time whatever the others are.
        Ok(losses.iter().map(|loss| 1.0 + loss).product())
    }

    /// What a strategy is told of a point.
    pub fn evaluate(&self, genome: &Genome) -> Outcome {
        let (class, objective_ns) = match self.ratio(genome) {
            Ok(ratio) => (VerdictClass::Ok, Some(OPTIMUM_NS * ratio)),
            Err(class) => (class, None),
        };
        Outcome::new(genome.clone(), class, objective_ns)
    }
}

/// The point whose values these are.
fn genome_of(space: &SearchSpace, values: &str) -> Genome {
    let words: Vec<&str> = values.split_whitespace().collect();
    assert_eq!(words.len(), space.parameters().len(), "one value for each parameter");
    let position = |(parameter, word): (&Parameter, &&str)| {
        let at = parameter.values.iter().position(|value| value.to_string() == **word);
        at.unwrap_or_else(|| panic!("`{}` has no value `{word}`", parameter.name)) as u16
    };
    Genome::from(space.parameters().iter().zip(&words).map(position).collect::<Vec<u16>>())
}
