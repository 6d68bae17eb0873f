//! Which fixture shows what a check is worth.
//!
//! A fixture is written so that only its check finds it. Where a check finds what another one would find as well, the
//! row says what is lost without it: the name of the cause, or an early refusal. A check that stands behind another is
//! shown with that one left out in both runs, and the row says why both are there.

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceKind;

use super::tasks::FixtureTask;

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
    /// The state in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            CheckWorth::Needed => "needed",
            CheckWorth::NamesCause => "names the cause",
            CheckWorth::RefusesEarly => "refuses early",
            CheckWorth::Nothing => "NOT NEEDED",
        }
    }
}

/// What a row shows on a device.
#[derive(Clone, Copy, Debug)]
pub enum RowPlan {
    /// The least that the check must be worth.
    Shows(CheckWorth),
    /// The same where another check is left out in both runs, and why both are there.
    Behind(GateCheck, &'static str),
    /// Nothing on this device, and why.
    Absent(&'static str),
}

/// How a fixture is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// As a contender of a sweep, with its instrumented build.
    Contender,
    /// As a finalist: this check looks longer at those.
    Finalist,
    /// In a new worker, whose memory nobody has filled.
    NewWorker,
    ShortDeadlines,
    /// With little room for output.
    LittleOutput,
    /// With the binary of another variant.
    OtherBinary,
    /// Beside a rival that is far faster.
    FastRival,
}

/// A check with its fixture.
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
use FixtureTask::{
    Derived, Flat, Hurried, Idle, InPlace, Integers, Line, Loose, Masked, Moved, Norm, Padded, Rows, Single,
};
use FixtureTask::{Spilling, Strict, Undefined, Wide};
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

    /// Only the host has this check.
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
    row(C::LimitThreads, Line, "many_threads", &["static_reject:threads"])
        .worth(NamesCause)
        .cuda(Shows(RefusesEarly)),
    row(C::LimitGrid, Line, "wide_grid", &["static_reject:grid"]).worth(NamesCause),
    row(C::LimitShared, Line, "much_shared", &["static_reject:smem"]).worth(RefusesEarly),
    row(C::LimitCluster, Line, "wide_cluster", &["static_reject:cluster"]).worth(NamesCause),
    row(C::LimitMemory, Wide, "vast", &["static_reject:memory"]).worth(NamesCause),
    row(C::LimitWork, Idle, "any", &["static_reject:zero_work"]).cuda(Shows(NamesCause)),
    row(C::IncludePaths, Line, "include_path", &["static_reject:include"]),
    row(C::Spills, Spilling, "spilling", &["spill_excess"]).host(Absent(NO_REPORT)),
    row(C::CompiledLimits, Line, "launch_bounds", &["static_reject:threads"])
        .worth(NamesCause)
        .host(Absent(NO_REPORT)),
    row(C::VariantHash, Line, "none", &["stale_binary"]).handled(Handling::OtherBinary),
    row(C::LaunchResources, Line, "cooperative", &["launch_fail:cooperative"])
        .worth(RefusesEarly)
        .cuda(Absent("a cooperative launch of so few blocks fits this device")),
    row(C::ListedShapes, Line, "lost_tail", &["wrong_answer"]),
    row(C::DerivedShapes, Derived, "lost_tail", &["wrong_answer"]),
    row(C::Deadline, Line, "endless", &["hang"]).handled(Handling::ShortDeadlines),
    row(C::OutputFlood, Line, "talkative", &["output_flood"]).handled(Handling::LittleOutput),
    row(C::OutputPoison, Padded, "padding", &["wrong_answer:unwritten"]).handled(NewWorker),
    row(C::SecondPoison, Integers, "poison_value", &["wrong_answer"]),
    row(C::ThirdPoison, Single, "minimum", &["nondeterministic:uninit_read", "wrong_answer"]),
    // A GPU's memory is not zero in a new process, so what is left there shows in another way.
    row(C::WorkspacePoison, Line, "workspace_zero", &["nondeterministic:uninit_read"])
        .handled(NewWorker)
        .cuda(Shows(NamesCause)),
    row(C::SharedResidue, Wide, "unset_shared", &["wrong_answer:uninitialized"]).host_only(NO_MARKS),
    row(C::StackResidue, Line, "unset_local", &["wrong_answer:uninitialized"])
        .handled(NewWorker)
        .host_only(NO_MARKS),
    row(C::ThreadOrder, Wide, "hidden_race", &["nondeterministic:race"]).host_only(NO_ORDER),
    row(C::Placement, Wide, "before_start", &["oob_read"]).host_only(NO_PLACES),
    row(C::RunAgreement, Wide, "address_bit", &["oob_read:placement"]).worth(NamesCause).host_only(NO_PLACES),
    row(C::RunAgreement, Line, "first_value", &["nondeterministic:uninit_read"])
        .host(Absent("instrumented runs find it too; `address_bit` is the fixture here"))
        // A call that finds what the last one has left gives another output: seen later, and named otherwise.
        .cuda(Shows(NamesCause)),
    row(C::GuardPages, Wide, "beyond_end", &["oob_read"]).host_only(NO_PAGES),
    // What slips through leaves damage behind, which the next variant would be blamed for.
    row(C::GuardZones, Wide, "write_behind", &["oob_write"]).handled(NewWorker),
    row(C::GuardContents, Wide, "read_behind", &["oob_read"]),
    row(C::ReadOnlyInputs, Wide, "borrowed_large", &["input_mutated"]).host_only(NO_PAGES),
    row(C::InputHash, Padded, "spoiled_input", &["input_mutated"])
        .handled(NewWorker)
        .host(Behind(C::ReadOnlyInputs, ALSO_IN_PAGES)),
    row(C::SharedZones, Wide, "before_shared", &["oob_write:shared"]).host_only("shared memory has no zones"),
    row(C::BarrierDivergence, Line, "split_barrier", &["divergent_barrier"])
        .worth(NamesCause)
        .handled(Handling::ShortDeadlines)
        .host_only("today's GPUs count arrivals, whichever line they come from"),
    row(C::UsableReference, Undefined, "any", &["harness_error:task"]),
    row(C::FiniteAnswers, Line, "nan_element", &["wrong_answer:nan_inf"]).worth(NamesCause),
    row(C::SpecialAnswers, Masked, "low_mask", &["wrong_answer:special_values"]).worth(NamesCause),
    row(C::ElementError, Wide, "one_element", &["wrong_answer"]),
    row(C::ErrorNorm, Line, "fourteen_bits", &["wrong_answer:precision"]),
    row(C::TrustedError, Norm, "one_of_row", &["wrong_answer:precision"]),
    row(C::SinglePrecision, Strict, "two_millionths", &["wrong_answer:bias"]),
    row(C::InputDependence, Flat, "middle", &["wrong_answer:constant"]),
    row(C::RowError, Rows, "one_row", &["wrong_answer:precision"]),
    row(C::Bias, Line, "leaning", &["wrong_answer:bias"]),
    row(C::MoreSeeds, Wide, "first_inputs", &["wrong_answer", "nondeterministic", "stateful"]),
    row(C::InputsLarge, Line, "bad_large", &["wrong_answer"]).behind(C::InputsSpread, ALSO_IN_SPREAD),
    row(C::InputsSmall, Line, "bad_small", &["wrong_answer"]).behind(C::InputsSpread, ALSO_IN_SPREAD),
    row(C::InputsConstant, Line, "bad_constant", &["wrong_answer"]),
    row(C::InputsRamp, Line, "bad_ramp", &["wrong_answer"]),
    row(C::InputsSpikes, Line, "bad_spikes", &["wrong_answer"]).behind(C::InputsSpread, ALSO_IN_SPREAD),
    row(C::InputsZero, Line, "bad_zero", &["wrong_answer"]),
    row(C::InputsOffset, Line, "bad_offset", &["wrong_answer"]),
    row(C::InputsHuge, Line, "bad_huge", &["wrong_answer:special_values"]),
    row(C::InputsSubnormal, Line, "bad_subnormal", &["wrong_answer:special_values"]),
    row(C::InputsSpecial, Line, "bad_special", &["wrong_answer:special_values"]),
    // A contender meets one draw, and in half of them all integers share their upper half.
    row(C::InputsWide, Integers, "bad_wide", &["wrong_answer"])
        .handled(Finalist)
        .behind(C::InputsSpread, ALSO_IN_SPREAD),
    row(C::InputsExtremes, Integers, "bad_extremes", &["wrong_answer"]),
    row(C::InputsLow, Line, "bad_low", &["wrong_answer"]).behind(C::InputsSpread, ALSO_IN_SPREAD),
    row(C::InputsLowest, Line, "bad_lowest", &["wrong_answer"]).handled(Finalist),
    row(C::InputsRound, Line, "bad_round", &["wrong_answer"]),
    row(C::InputsSpread, Derived, "bad_spread", &["wrong_answer"]).handled(Finalist),
    row(C::InputsMixed, Norm, "bad_mixed", &["wrong_answer"]).handled(Finalist),
    // On a GPU a NaN that loses bits becomes something else, which special inputs show as well.
    row(C::MovedData, Moved, "twenty_bits", &["wrong_answer"]).cuda(Shows(NamesCause)),
    row(C::FurtherShapes, Derived, "middle_residue", &["wrong_answer"])
        .handled(Finalist)
        .behind(C::FurtherSeeds, ALSO_AT_SEEDS),
    row(C::FurtherSeeds, Derived, "many_inputs", &["wrong_answer", "nondeterministic", "stateful"])
        .handled(Finalist)
        .behind(C::FurtherShapes, ALSO_AT_SHAPES),
    row(C::ClockStart, Wide, "round_moment", &["nondeterministic:clock"]).host_only(NO_CLOCK),
    row(C::InstrumentedRaces, Line, "twin_store", &["nondeterministic:race"]).host_only(NO_INSTRUMENTS),
    row(C::InstrumentedBounds, Line, "slack_read", &["oob_read"]).host_only(NO_INSTRUMENTS),
    row(C::InstrumentedAlignment, Line, "odd_double", &["crash_misaligned"]).host_only(NO_INSTRUMENTS),
    row(C::InstrumentedInputs, Line, "borrowed_small", &["input_mutated"])
        .host(Behind(C::ReadOnlyInputs, ALSO_IN_INSTRUMENTS))
        .host_only(NO_INSTRUMENTS),
    row(C::InstrumentedUnwritten, Line, "workspace_flag", &["wrong_answer:uninitialized"])
        .host_only(NO_INSTRUMENTS),
    row(C::InstrumentedOrder, Line, "overlap", &["nondeterministic:order"]).host_only(NO_INSTRUMENTS),
    row(C::NameDisagreement, Line, "workspace_zero", &["nondeterministic:uninit_read"]).worth(NamesCause),
    row(C::NameState, Line, "counter", &["stateful:module_state"]).worth(NamesCause),
    row(C::NameConstant, Line, "constant", &["wrong_answer:constant"]).worth(NamesCause),
    row(C::NameSharedCause, Line, "bad_large", &["wrong_answer:range"]).worth(NamesCause),
    row(C::NameLargeSizes, Line, "large_wrong", &["wrong_answer:timed_shape"]).worth(NamesCause),
    row(C::ModuleState, Line, "counting", &["stateful:module_state"]),
    row(C::WorkspaceState, Line, "counted_calls", &["stateful:workspace"]).handled(Finalist),
    row(C::Repeats, InPlace, "eighth_call", &["nondeterministic", "stateful"]).handled(Finalist),
    row(C::RareRepeats, Line, "hundredth_call", &["nondeterministic:rare"])
        .handled(Finalist)
        .behind(C::WorkspaceState, ALSO_IN_WORKSPACE),
    row(C::OtherData, Wide, "returning", &["stateful:module_state"]),
    row(C::AlikeData, Wide, "known_by_ends", &["stateful:cached_result"]).handled(Finalist),
    row(C::NearAnswers, Wide, "near_output", &["nondeterministic:uninit_read"]).handled(Finalist),
    row(C::RepeatSpread, Loose, "wavering", &["nondeterministic:spread"]),
    row(C::Screening, Line, "none", &["too_slow"]).handled(Handling::FastRival),
    row(C::Rotation, Line, "poison_reader", &["timing_escape"]),
    row(C::TimedOutputs, Line, "tired", &["timing_escape"]),
    row(C::FreshCalls, Line, "memo", &["timing_escape:cached_result"]),
    row(C::Roofline, Hurried, "none", &["impossible_speed:memory"]).host(Absent(NO_PEAK)),
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
