//! Which fixture shows what a check is worth.
//!
//! A fixture is written so that only its check finds it. Where a check finds what another one would find as well, the
//! row says what is lost without it: the name of the cause, or an early refusal. A check that stands behind another is
//! shown with that one left out in both runs, and the row says why both are there.

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceKind;

use super::tasks::{
    self, DERIVED, FLAT, FixtureTask, HURRIED, IDLE, IN_PLACE, INTEGERS, LINE, LOOSE, MASKED, MOVED, NORM,
    PADDED, SINGLE, SPILLING, STRICT, UNDEFINED, WIDE,
};

/// What becomes of a fixture without its check, from strongest to weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckWorth {
    /// It passes.
    Needed,
    /// It is refused, and the cause has another name.
    NamesCause,
    /// A later gate refuses it with the same words.
    RefusesEarly,
    /// The same gate refuses it with the same words.
    Nothing,
}

impl CheckWorth {
    pub fn as_str(self) -> &'static str {
        match self {
            CheckWorth::Needed => "needed",
            CheckWorth::NamesCause => "names the cause",
            CheckWorth::RefusesEarly => "refuses early",
            CheckWorth::Nothing => "NOT NEEDED",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum RowPlan {
    /// The least that the check must be worth.
    Shows(CheckWorth),
    /// The same where another check is left out in both runs, and why both are there.
    Behind(GateCheck, &'static str),
    /// Nothing on this device, and why.
    Absent(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// As a contender of a sweep, with its instrumented build.
    Contender,
    /// As a finalist: this check looks longer at those.
    Finalist,
    /// In a new worker, whose memory nobody has filled.
    NewWorker,
    ShortDeadlines,
    LittleOutput,
    OtherBinary,
    FastRival,
}

#[derive(Clone, Copy, Debug)]
pub struct GateRow {
    pub check: GateCheck,
    pub task: FixtureTask,
    pub fixture: &'static str,
    /// The verdict with the check, by kind or by kind and cause.
    pub verdicts: &'static [&'static str],
    pub handling: Handling,
    pub host: RowPlan,
    pub cuda: RowPlan,
}

use CheckWorth::{NamesCause, Needed, RefusesEarly};
use GateCheck as C;
use Handling::{Contender, Finalist, NewWorker};
use RowPlan::{Absent, Behind, Shows};

const fn row(
    check: GateCheck,
    task: FixtureTask,
    fixture: &'static str,
    verdicts: &'static [&'static str],
) -> GateRow {
    GateRow { check, task, fixture, verdicts, handling: Contender, host: Shows(Needed), cuda: Shows(Needed) }
}

impl GateRow {
    /// Both devices find it elsewhere as well.
    const fn worth(self, least: CheckWorth) -> GateRow {
        GateRow { host: Shows(least), cuda: Shows(least), ..self }
    }

    const fn handled(self, handling: Handling) -> GateRow {
        GateRow { handling, ..self }
    }

    const fn host(self, plan: RowPlan) -> GateRow {
        GateRow { host: plan, ..self }
    }

    const fn cuda(self, plan: RowPlan) -> GateRow {
        GateRow { cuda: plan, ..self }
    }

    /// On both devices another check finds it too.
    const fn behind(self, other: GateCheck, why: &'static str) -> GateRow {
        GateRow { host: Behind(other, why), cuda: Behind(other, why), ..self }
    }

    /// What it shows on a kind of device.
    pub fn plan(&self, kind: DeviceKind) -> RowPlan {
        if kind == DeviceKind::Cuda { self.cuda } else { self.host }
    }

    pub fn runs_on(&self, kind: DeviceKind) -> bool {
        !matches!(self.plan(kind), Absent(_))
    }

    /// Whether it shall pass without its check, and so has to meet everything that judges a finalist.
    pub fn slips_through(&self) -> bool {
        !matches!(self.host, Shows(NamesCause | RefusesEarly | CheckWorth::Nothing) | Absent(_))
    }

    const fn host_only(self, why: &'static str) -> GateRow {
        self.cuda(Absent(why))
    }
}

const NO_PAGES: &str =
    "buffers have guard zones and no guard pages; only finalists find inputs that cannot be written";
const NO_MARKS: &str = "what shared memory and stacks hold when a kernel begins cannot be set for sure";
const NO_INSTRUMENTS: &str = "there are no instrumented runs";
const NO_PLACES: &str = "both ends of a buffer have a guard zone, so buffers do not move";
const NO_ORDER: &str = "the order of threads can be disturbed and not chosen";
const NO_PEAK: &str = "the processor's bandwidth and arithmetic are not known";
const NO_REPORT: &str = "the host's compiler reports nothing of what a kernel uses";
const ALSO_IN_PAGES: &str = "pages catch a write to an input in the act; the hash looks after each run, also where pages \
     cannot be protected";
const ALSO_IN_INSTRUMENTS: &str =
    "pages catch a write to an input in the act; instrumented runs also name its line in the source";

const NO_CLOCK: &str = "the clock is the device's own";
const ALSO_IN_SPREAD: &str = "the order of magnitude that a seed draws may be this one";
const ALSO_AT_SEEDS: &str = "further draws of inputs are tried at a drawn shape";
const ALSO_AT_SHAPES: &str = "each drawn shape has inputs of its own";
const ALSO_IN_WORKSPACE: &str =
    "a count of calls in the workspace shows in a few of them; a moment in hundreds does not";

/// Every row, in the order of the checks.
pub const ROWS: &[GateRow] = &[
    row(C::LimitThreads, LINE, "many_threads", &["static_reject:threads"])
        .worth(NamesCause)
        .cuda(Shows(RefusesEarly)),
    row(C::LimitGrid, LINE, "wide_grid", &["static_reject:grid"]).worth(NamesCause),
    row(C::LimitShared, LINE, "much_shared", &["static_reject:smem"]).worth(RefusesEarly),
    row(C::LimitCluster, LINE, "wide_cluster", &["static_reject:cluster"]).worth(NamesCause),
    row(C::LimitMemory, WIDE, "vast", &["static_reject:memory"]).worth(NamesCause),
    row(C::LimitWork, IDLE, "any", &["static_reject:zero_work"]).cuda(Shows(NamesCause)),
    row(C::IncludePaths, LINE, "include_path", &["static_reject:include"]),
    row(C::Spills, SPILLING, "spilling", &["spill_excess"]).host(Absent(NO_REPORT)),
    row(C::CompiledLimits, LINE, "launch_bounds", &["static_reject:threads"])
        .worth(NamesCause)
        .host(Absent(NO_REPORT)),
    row(C::VariantHash, LINE, "none", &["stale_binary"]).handled(Handling::OtherBinary),
    row(C::LaunchResources, LINE, "cooperative", &["launch_fail:cooperative"])
        .worth(RefusesEarly)
        .cuda(Absent("a cooperative launch of so few blocks fits this device")),
    row(C::ListedShapes, LINE, "lost_tail", &["wrong_answer"]),
    row(C::DerivedShapes, DERIVED, "lost_tail", &["wrong_answer"]),
    row(C::Deadline, LINE, "endless", &["hang"]).handled(Handling::ShortDeadlines),
    row(C::OutputFlood, LINE, "talkative", &["output_flood"]).handled(Handling::LittleOutput),
    row(C::OutputPoison, PADDED, "padding", &["wrong_answer:unwritten"]).handled(NewWorker),
    row(C::SecondPoison, INTEGERS, "poison_value", &["wrong_answer"]),
    row(C::ThirdPoison, SINGLE, "minimum", &["nondeterministic:uninit_read", "wrong_answer"]),
    // A GPU's memory is not zero in a new process, so what is left there shows in another way.
    row(C::WorkspacePoison, LINE, "workspace_zero", &["nondeterministic:uninit_read"])
        .handled(NewWorker)
        .cuda(Shows(NamesCause)),
    row(C::SharedResidue, WIDE, "unset_shared", &["wrong_answer:uninitialized"]).host_only(NO_MARKS),
    row(C::StackResidue, LINE, "unset_local", &["wrong_answer:uninitialized"])
        .handled(NewWorker)
        .host_only(NO_MARKS),
    row(C::ThreadOrder, WIDE, "hidden_race", &["nondeterministic:race"]).host_only(NO_ORDER),
    row(C::Placement, WIDE, "before_start", &["oob_read"]).host_only(NO_PLACES),
    row(C::RunAgreement, WIDE, "address_bit", &["oob_read:placement"]).worth(NamesCause).host_only(NO_PLACES),
    row(C::RunAgreement, LINE, "first_value", &["nondeterministic:uninit_read"])
        .host(Absent("instrumented runs find it too; `address_bit` is the fixture here"))
        // A call that finds what the last one has left gives another output: seen later, and named otherwise.
        .cuda(Shows(NamesCause)),
    row(C::GuardPages, WIDE, "beyond_end", &["oob_read"]).host_only(NO_PAGES),
    // What slips through leaves damage behind, which the next variant would be blamed for.
    row(C::GuardZones, WIDE, "write_behind", &["oob_write"]).handled(NewWorker),
    row(C::GuardContents, WIDE, "read_behind", &["oob_read"]),
    row(C::ReadOnlyInputs, WIDE, "borrowed_large", &["input_mutated"]).host_only(NO_PAGES),
    row(C::InputHash, PADDED, "spoiled_input", &["input_mutated"])
        .handled(NewWorker)
        .host(Behind(C::ReadOnlyInputs, ALSO_IN_PAGES)),
    row(C::SharedZones, WIDE, "before_shared", &["oob_write:shared"]).host_only("shared memory has no zones"),
    row(C::BarrierDivergence, LINE, "split_barrier", &["divergent_barrier"])
        .worth(NamesCause)
        .handled(Handling::ShortDeadlines)
        .host_only("today's GPUs count arrivals, whichever line they come from"),
    row(C::UsableReference, UNDEFINED, "any", &["harness_error:task"]),
    row(C::FiniteAnswers, LINE, "nan_element", &["wrong_answer:nan_inf"]).worth(NamesCause),
    row(C::SpecialAnswers, MASKED, "low_mask", &["wrong_answer:special_values"]).worth(NamesCause),
    row(C::ElementError, WIDE, "one_element", &["wrong_answer"]),
    row(C::ErrorNorm, LINE, "fourteen_bits", &["wrong_answer:precision"]),
    row(C::TrustedError, NORM, "one_of_row", &["wrong_answer:precision"]),
    row(C::SinglePrecision, STRICT, "two_millionths", &["wrong_answer:bias"]),
    row(C::InputDependence, FLAT, "middle", &["wrong_answer:constant"]),
    row(C::RowError, tasks::ROWS, "one_row", &["wrong_answer:precision"]),
    row(C::Bias, LINE, "leaning", &["wrong_answer:bias"]),
    row(C::MoreSeeds, WIDE, "first_inputs", &["wrong_answer", "nondeterministic", "stateful"]),
    row(C::InputsLarge, LINE, "bad_large", &["wrong_answer"]).behind(C::InputsSpread, ALSO_IN_SPREAD),
    row(C::InputsSmall, LINE, "bad_small", &["wrong_answer"]).behind(C::InputsSpread, ALSO_IN_SPREAD),
    row(C::InputsConstant, LINE, "bad_constant", &["wrong_answer"]),
    row(C::InputsRamp, LINE, "bad_ramp", &["wrong_answer"]),
    row(C::InputsSpikes, LINE, "bad_spikes", &["wrong_answer"]).behind(C::InputsSpread, ALSO_IN_SPREAD),
    row(C::InputsZero, LINE, "bad_zero", &["wrong_answer"]),
    row(C::InputsOffset, LINE, "bad_offset", &["wrong_answer"]),
    row(C::InputsHuge, LINE, "bad_huge", &["wrong_answer:special_values"]),
    row(C::InputsSubnormal, LINE, "bad_subnormal", &["wrong_answer:special_values"]),
    row(C::InputsSpecial, LINE, "bad_special", &["wrong_answer:special_values"]),
    // A contender meets one draw, and in half of them all integers share their upper half.
    row(C::InputsWide, INTEGERS, "bad_wide", &["wrong_answer"])
        .handled(Finalist)
        .behind(C::InputsSpread, ALSO_IN_SPREAD),
    row(C::InputsExtremes, INTEGERS, "bad_extremes", &["wrong_answer"]),
    row(C::InputsLow, LINE, "bad_low", &["wrong_answer"]).behind(C::InputsSpread, ALSO_IN_SPREAD),
    row(C::InputsLowest, LINE, "bad_lowest", &["wrong_answer"]).handled(Finalist),
    row(C::InputsRound, LINE, "bad_round", &["wrong_answer"]),
    row(C::InputsSpread, DERIVED, "bad_spread", &["wrong_answer"]).handled(Finalist),
    row(C::InputsMixed, NORM, "bad_mixed", &["wrong_answer"]).handled(Finalist),
    // On a GPU a NaN that loses bits becomes something else, which special inputs show as well.
    row(C::MovedData, MOVED, "twenty_bits", &["wrong_answer"]).cuda(Shows(NamesCause)),
    row(C::FurtherShapes, DERIVED, "middle_residue", &["wrong_answer"])
        .handled(Finalist)
        .behind(C::FurtherSeeds, ALSO_AT_SEEDS),
    row(C::FurtherSeeds, DERIVED, "many_inputs", &["wrong_answer", "nondeterministic", "stateful"])
        .handled(Finalist)
        .behind(C::FurtherShapes, ALSO_AT_SHAPES),
    row(C::ClockStart, WIDE, "round_moment", &["nondeterministic:clock"]).host_only(NO_CLOCK),
    row(C::InstrumentedRaces, LINE, "twin_store", &["nondeterministic:race"]).host_only(NO_INSTRUMENTS),
    row(C::InstrumentedBounds, LINE, "slack_read", &["oob_read"]).host_only(NO_INSTRUMENTS),
    row(C::InstrumentedAlignment, LINE, "odd_double", &["crash_misaligned"]).host_only(NO_INSTRUMENTS),
    row(C::InstrumentedInputs, LINE, "borrowed_small", &["input_mutated"])
        .host(Behind(C::ReadOnlyInputs, ALSO_IN_INSTRUMENTS))
        .host_only(NO_INSTRUMENTS),
    row(C::InstrumentedUnwritten, LINE, "workspace_flag", &["wrong_answer:uninitialized"])
        .host_only(NO_INSTRUMENTS),
    row(C::InstrumentedOrder, LINE, "overlap", &["nondeterministic:order"]).host_only(NO_INSTRUMENTS),
    row(C::NameDisagreement, LINE, "workspace_zero", &["nondeterministic:uninit_read"]).worth(NamesCause),
    row(C::NameState, LINE, "counter", &["stateful:module_state"]).worth(NamesCause),
    row(C::NameConstant, LINE, "constant", &["wrong_answer:constant"]).worth(NamesCause),
    row(C::NameSharedCause, LINE, "bad_large", &["wrong_answer:range"]).worth(NamesCause),
    row(C::NameLargeSizes, LINE, "large_wrong", &["wrong_answer:timed_shape"]).worth(NamesCause),
    row(C::ModuleState, LINE, "counting", &["stateful:module_state"]),
    row(C::WorkspaceState, LINE, "counted_calls", &["stateful:workspace"]).handled(Finalist),
    row(C::Repeats, IN_PLACE, "eighth_call", &["nondeterministic", "stateful"]).handled(Finalist),
    row(C::RareRepeats, LINE, "hundredth_call", &["nondeterministic:rare"])
        .handled(Finalist)
        .behind(C::WorkspaceState, ALSO_IN_WORKSPACE),
    row(C::OtherData, WIDE, "returning", &["stateful:module_state"]),
    row(C::AlikeData, WIDE, "known_by_ends", &["stateful:cached_result"]).handled(Finalist),
    row(C::NearAnswers, WIDE, "near_output", &["nondeterministic:uninit_read"]).handled(Finalist),
    row(C::RepeatSpread, LOOSE, "wavering", &["nondeterministic:spread"]),
    row(C::Screening, LINE, "none", &["too_slow"]).handled(Handling::FastRival),
    row(C::Rotation, LINE, "poison_reader", &["timing_escape"]),
    row(C::TimedOutputs, LINE, "tired", &["timing_escape"]),
    row(C::FreshCalls, LINE, "memo", &["timing_escape:cached_result"]),
    row(C::Roofline, HURRIED, "none", &["impossible_speed:memory"]).host(Absent(NO_PEAK)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_row_in_the_order_of_the_checks() {
        let mut checks: Vec<GateCheck> = ROWS.iter().map(|row| row.check).collect();
        assert!(checks.is_sorted());
        checks.dedup();
        assert_eq!(checks, GateCheck::ALL);
    }

    #[test]
    fn every_check_is_shown_on_a_device() {
        let shown = |plan: RowPlan| !matches!(plan, Absent(_));
        for check in GateCheck::ALL {
            let rows = || ROWS.iter().filter(|row| row.check == *check);
            assert!(rows().any(|row| shown(row.host) || shown(row.cuda)), "{check:?}");
        }
    }
}
