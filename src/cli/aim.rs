//! What `test-one`, `test`, `benchmark`, `evaluate`, `gate`, `profile` and `sanitize` ask of a candidate, and what may be left out of that.

use evo_protocol::verdict::{Gate, Verdict, VerdictClass};
use evo_space::diagnostic::nearest;

use super::error::CliError;

/// The comparison of `evo benchmark`, as `--allow-not-run` names it.
pub const BASELINE: &str = "baseline";
/// The counters of `evo profile`, as `--allow-not-run` names them.
pub const PROFILE: &str = "profile";
/// The work of `evo sanitize`, as `--allow-not-run` names it.
pub const SANITIZE: &str = "sanitize";

/// The work of `evo crosscheck`, as `--allow-not-run` names it.
pub const CROSSCHECK: &str = "crosscheck";
/// Its harnesses, as `--allow-not-run` names them.
pub const HARNESSES: [&str; 5] = ["nvbench", "torch", "kernelbench", "cutlass", "command"];

/// The work of `evo invert`, as `--allow-not-run` names it.
pub const INVERT: &str = "invert";

/// The goals of `evo gate --goals`, as `--allow-not-run` names them.
pub const GOALS: [&str; 3] = ["faster_than", "metrics", "p90"];

/// What is asked of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Every gate, and its time.
    Whole,
    /// Every gate on its answers; nothing is timed.
    Gates,
    /// Every gate, its time, and the default configuration's beside it.
    Times,
    /// Every gate, its time, and a rival's beside it.
    Evaluate,
    /// Every gate, its time, and a baseline's beside it.
    Gate,
    /// Every gate, its time, and a profiler's counters.
    Profile,
    /// Every gate, its time, and that of harmed copies beside it.
    Invert,
    /// Every gate, its time, and that of others' clocks beside it.
    Crosscheck,
    /// No gate: a tool watches its launches.
    Sanitize,
}

impl Aim {
    /// Whether something is asked of a candidate beyond its verdict. Others may find right what is wrong.
    pub fn goes_beyond(self, verdict: &Verdict) -> bool {
        match self {
            Aim::Times | Aim::Profile | Aim::Invert => verdict.is_pass(),
            Aim::Crosscheck => verdict.is_pass() || verdict.kind.class() == VerdictClass::Wrong,
            _ => false,
        }
    }

    /// The gates that it demands. `confirmation` compares two variants, which only a sweep does.
    pub fn demanded(self) -> impl Iterator<Item = Gate> {
        let last = match self {
            Aim::Gates => Some(Gate::Repeatability),
            Aim::Sanitize => None,
            _ => Some(Gate::Honesty),
        };
        Gate::ALL.iter().copied().filter(move |gate| last.is_some_and(|last| *gate <= last))
    }
}

/// Refuses names of `--allow-not-run` that nothing of the command has.
pub fn check_names(names: &[String], aim: Aim) -> Result<(), CliError> {
    let mut known: Vec<&str> = aim.demanded().map(Gate::as_str).collect();
    match aim {
        Aim::Times => known.push(BASELINE),
        Aim::Gate => known.extend(GOALS.into_iter().chain([SANITIZE])),
        Aim::Profile => known.push(PROFILE),
        Aim::Sanitize => known.push(SANITIZE),
        Aim::Evaluate | Aim::Whole | Aim::Gates => known.push(SANITIZE),
        Aim::Invert => known.push(INVERT),
        Aim::Crosscheck => known.extend(HARNESSES.into_iter().chain([CROSSCHECK])),
    }
    let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    let hint = match nearest(unknown, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    Err(CliError::usage(format!("`--allow-not-run {unknown}`: nothing that runs here has this name"))
        .with_hint(hint))
}
