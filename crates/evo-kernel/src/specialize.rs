//! Sizes that the file names are constants of the code, so a configuration becomes one source and one binary for each
//! set of values that its problems have. Everything else of a configuration stays one: its plans, its verdict, its
//! line in the journal.

use evo_protocol::binary::Specialization;
use evo_protocol::verdict::{Verdict, VerdictKind};

pub use super::spec::distinct;
use super::spec::{KernelSpec, ProblemSpec, TinySpec};

/// Most sets of values: each is a compilation of every variant, and each is judged by every gate.
pub const CONSTANTS_MAX: usize = 16;

pub fn constants_of(names: &[String], problem: &ProblemSpec) -> Specialization {
    Specialization::of(names, &problem.whole_sizes())
}

/// The sets that all of a kernel's problems have, on any device; one empty set where nothing is specialized.
pub fn of_kernel(kernel: &KernelSpec) -> Vec<Specialization> {
    distinct(kernel.problems.iter().map(|problem| constants_of(&kernel.specialize, problem)))
}

/// Leaves a kernel the problems and the listed small shapes with these constants, which a source that is made for them
/// alone can answer. A listed shape whose constant is computed is left out.
pub fn narrow(kernel: &mut KernelSpec, constants: &Specialization) {
    if constants.is_empty() {
        return;
    }
    let names = kernel.specialize.clone();
    kernel.problems.retain(|problem| constants_of(&names, problem) == *constants);
    let TinySpec::Listed(shapes) = &mut kernel.check.tiny else { return };
    shapes.retain(|sizes| {
        let fits = |(name, value): (&str, i64)| {
            sizes.get(name).is_none_or(|own| own.text().trim().parse() == Ok(value))
        };
        constants.iter().all(fits)
    });
    if shapes.is_empty() {
        kernel.check.tiny = TinySpec::Derived;
    }
}

/// Refuses more sets than there may be, which listed small shapes can ask for.
pub fn check_count(sets: &[Specialization]) -> Result<(), Box<Verdict>> {
    if sets.len() <= CONSTANTS_MAX {
        return Ok(());
    }
    let message = format!(
        "problems and small shapes have {} sets of values for `specialize`, at most {CONSTANTS_MAX} are possible",
        sets.len()
    );
    Err(Box::new(Verdict::new(VerdictKind::StaticReject, message).with_cause("specialize")))
}

/// Small shapes are derived from it: the first that has the constants, or the first of all with its sizes replaced.
pub fn base_problem(kernel: &KernelSpec, constants: &Specialization) -> Option<ProblemSpec> {
    let has = |problem: &&ProblemSpec| constants_of(&kernel.specialize, problem) == *constants;
    if let Some(own) = kernel.problems.iter().find(has) {
        return Some(own.clone());
    }
    let mut base = kernel.problems.first()?.clone();
    for (name, value) in constants.iter() {
        base.sizes.insert(name.to_string(), value.into());
    }
    Some(base)
}
