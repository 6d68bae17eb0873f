//! What is done to one kernel on one device, by evo's own pathologies and by those that its space file declares.

use super::dose::{Dose, HarmChange, HarmFacts, doses};
use super::pathology::Pathology;
use crate::spec::{DiagnoseDose, DiagnoseSpec, KernelSpec, MetricEvidence};

/// A pathology with its doses.
#[derive(Clone, Debug, PartialEq)]
pub struct HarmPlan {
    pub name: String,
    pub resource: String,
    /// One unit of its doses.
    pub unit: String,
    /// The opposite.
    pub try_next: String,
    /// It takes work away instead, so that answers are wrong.
    pub lightens: bool,
    /// By what a change of this kind shows.
    pub shows_as: &'static str,
    /// Metrics of a profiler of which one moves where it happened; none where nobody can say.
    pub moves: Vec<MetricEvidence>,
    /// The smallest first, or why there are none here.
    pub doses: Result<Vec<Dose>, String>,
}

/// The names of all that can be done to a kernel.
pub fn names(kernel: &KernelSpec) -> Vec<&str> {
    let own = Pathology::ALL.into_iter().map(|own| -> &str { own.name() });
    own.chain(kernel.diagnose.iter().map(|declared| declared.name.as_str())).collect()
}

/// Whether a kernel can be harmed by that name.
pub fn named(kernel: &KernelSpec, name: &str) -> bool {
    names(kernel).contains(&name)
}

/// Plans by their names, all where no name is given.
pub fn plans(kernel: &KernelSpec, facts: &HarmFacts<'_>, only: &[String]) -> Vec<HarmPlan> {
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|own| own == name);
    let own = Pathology::ALL.into_iter().filter(|own| is_wanted(own.name())).map(|own| generic(own, facts));
    let declared = kernel.diagnose.iter().filter(|own| is_wanted(&own.name)).map(of_file);
    own.chain(declared).collect()
}

fn generic(own: Pathology, facts: &HarmFacts<'_>) -> HarmPlan {
    HarmPlan {
        name: own.name().to_string(),
        resource: own.resource().to_string(),
        unit: own.unit(facts.device.kind).to_string(),
        try_next: own.try_next().to_string(),
        lightens: false,
        shows_as: match own {
            Pathology::ResidentBlocks => "the driver counts fewer resident blocks",
            _ => "machine code differs",
        },
        moves: own.moves().into_iter().collect(),
        doses: doses(own, facts),
    }
}

fn of_file(own: &DiagnoseSpec) -> HarmPlan {
    let DiagnoseSpec { name, resource, unit, try_next, lightens, moves, doses } = own.clone();
    let doses = doses.into_iter().enumerate().map(|(at, dose)| declared(at, dose)).collect();
    HarmPlan {
        name,
        resource,
        unit,
        try_next,
        lightens,
        shows_as: "machine code or launches differ",
        moves,
        doses: Ok(doses),
    }
}

fn declared(at: usize, own: DiagnoseDose) -> Dose {
    let set = own.set.iter().map(|(name, value)| format!("{name}={value}"));
    let define = own.define.iter().map(|(name, value)| format!("{name}={value}"));
    let shown = set.chain(define).collect::<Vec<_>>().join(" ");
    let options = own.define.iter().map(|(name, value)| format!("-D{name}={value}")).collect();
    Dose { amount: at as f64 + 1.0, shown, change: HarmChange::Options(options), set: own.set }
}
