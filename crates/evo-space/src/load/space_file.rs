//! A file's space: its parts, and who is to blame if it is empty.

use super::constraints::read_constraints;
use super::parameters::read_parameters;
use crate::constraint::Constraint;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::{self, Node};
use crate::explain::{STEPS, conflict_watched, removal};
use crate::index::Limits;
use crate::parameter::Parameter;
use crate::space::SearchSpace;
use crate::span::Span;
use crate::watch::SpaceWatch;

impl SearchSpace {
    /// Reads the `parameters` and `constraints` of a TOML or JSON text; every other key is ignored.
    ///
    /// # Errors
    /// All errors of the text at once, each with its place; `Diagnostics::render` prints them with carets.
    pub fn parse(text: &str) -> Result<SearchSpace, Diagnostics> {
        SearchSpace::parse_watched(text, &SpaceWatch::default())
    }

    /// The same under a watch.
    ///
    /// # Errors
    /// A space whose construction `watch` ended is an error too, which names the constraint that was being
    /// worked on.
    pub fn parse_watched(text: &str, watch: &SpaceWatch) -> Result<SearchSpace, Diagnostics> {
        let mut diagnostics = Diagnostics::default();
        let root = document::parse(text, &mut diagnostics);
        let space = root.and_then(|root| read_space(&root, watch, &mut diagnostics));
        space.ok_or(diagnostics)
    }
}

/// Reads `parameters` and `constraints` of a file's root table, and nothing else of it. `None` means
/// that `diagnostics` holds at least one new error. A space that is proven to have no
/// valid point is an error that names the constraints to blame.
pub fn read_space(root: &Node, watch: &SpaceWatch, diagnostics: &mut Diagnostics) -> Option<SearchSpace> {
    let before = diagnostics.list().len();
    let parameters = read_parameters(root, diagnostics);
    // After a bad parameter an unknown name in a constraint would be a second error for one mistake.
    let names_known = diagnostics.list().len() == before;
    let constraints = read_constraints(root, &parameters, names_known, watch, diagnostics);
    if diagnostics.list().len() > before {
        return None;
    }
    let place = root.get("parameters").map_or(0..0, |node| node.span.clone());
    let space = SearchSpace::watched(parameters, constraints, Limits::default(), watch);
    if watch.is_over() {
        refuse_unfinished(space.constraints(), watch, place, diagnostics);
        return None;
    }
    if space.count() == 0 {
        explain_empty(space.parameters(), space.constraints(), watch, place, diagnostics);
        return None;
    }
    Some(space)
}

/// The error of a construction that the watch ended.
fn refuse_unfinished(
    constraints: &[Constraint],
    watch: &SpaceWatch,
    place: Span,
    diagnostics: &mut Diagnostics,
) {
    let constraint = watch.constraint().and_then(|at| constraints.get(at));
    let span = constraint.and_then(|constraint| constraint.span.clone());
    let message = match span {
        Some(_) => "counting the valid points takes too long, and this constraint was being worked on",
        None => "counting the valid points takes too long",
    };
    let hint = "simplify it, or split it into constraints that read fewer parameters each";
    diagnostics.error_with_hint(span.unwrap_or(place), message, hint);
}

fn explain_empty(
    parameters: &[Parameter],
    constraints: &[Constraint],
    watch: &SpaceWatch,
    place: Span,
    diagnostics: &mut Diagnostics,
) {
    let guilty = conflict_watched(parameters, constraints, watch);
    let alone = |constraint: &Constraint| {
        let single = std::slice::from_ref(constraint);
        !conflict_watched(parameters, single, watch).is_empty()
    };
    match guilty.as_slice() {
        [] => diagnostics.error(place, "the space has no valid point"),
        [first, ..] if alone(&constraints[*first]) => {
            for at in &guilty {
                let failure = removal(parameters, &constraints[*at], STEPS, watch).failure;
                let message = "no point satisfies this constraint, so the space has no valid point";
                blame(&constraints[*at], message, failure, &place, diagnostics);
            }
        }
        [first, rest @ ..] => {
            let message = format!(
                "the space has no valid point: these {} constraints exclude each other",
                guilty.len()
            );
            blame(&constraints[*first], &message, None, &place, diagnostics);
            rest.iter()
                .for_each(|at| blame(&constraints[*at], "… and this constraint", None, &place, diagnostics));
        }
    }
}

fn blame(
    constraint: &Constraint,
    message: &str,
    failure: Option<String>,
    place: &Span,
    diagnostics: &mut Diagnostics,
) {
    let span = constraint.span.clone().unwrap_or_else(|| place.clone());
    let failure = failure.map(|failure| format!("it has no value at some points: {failure}"));
    let because = constraint.because.as_ref().map(|because| format!("it is there because: {because}"));
    diagnostics.push(Diagnostic {
        message: message.to_string(),
        span: Some(span),
        hint: failure.or(because),
    });
}
