//! The checks inside the gates, by name, and the set of those that judge a variant.
//!
//! Every check judges every variant. Only `evo-selftest gates` leaves one out, to show that a broken kernel then
//! slips through: a check that nothing needs is worse than none, because people rely on it.

use serde::{Deserialize, Serialize};

use crate::verdict::Gate;
use crate::words::words;

words! {
    /// Each with its gate and what it does.
    #[derive(Hash, PartialOrd, Ord)]
    GateCheck: Gate gate, text {
        LimitThreads = "limit_threads" StaticLimits "Threads of a block, against the device's limits.",
        LimitGrid = "limit_grid" StaticLimits "Extents of the grid.",
        LimitShared = "limit_shared" StaticLimits "Dynamic shared memory of a launch.",
        LimitCluster = "limit_cluster" StaticLimits "Blocks of a cluster.",
        LimitMemory = "limit_memory" StaticLimits "Bytes of all buffers of a problem.",
        LimitWork = "limit_work" StaticLimits "A timed problem launches something.",
        IncludePaths = "include_paths" Compile "No file outside the include folders is opened.",
        Spills = "spills" Compile "Spilled bytes, where the space has a limit.",
        CompiledLimits = "compiled_limits" Compile "Registers, shared memory and threads, with what the compiler reports.",
        VariantHash = "variant_hash" Launch "The loaded module carries this variant's hash.",
        LaunchResources = "launch_resources" Launch "What the driver reports of each launch, against the device.",
        ListedShapes = "listed_shapes" TinyShapes "The small shapes that a space file lists.",
        DerivedShapes = "derived_shapes" TinyShapes "The small shapes that evo derives from tiles.",
        Deadline = "deadline" TinyShapes "A launch ends within its deadline.",
        OutputFlood = "output_flood" TinyShapes "What a kernel prints is limited.",
        OutputPoison = "output_poison" FullShapes "Outputs hold a pattern before each run.",
        SecondPoison = "second_poison" FullShapes "The second run finds another pattern: a large number.",
        ThirdPoison = "third_poison" FullShapes "The third run finds a large negative number.",
        WorkspacePoison = "workspace_poison" FullShapes "Workspace holds a pattern before each run.",
        SharedResidue = "shared_residue" FullShapes "Shared memory holds another pattern in each run.",
        StackResidue = "stack_residue" FullShapes "Stacks of threads hold a pattern.",
        ThreadOrder = "thread_order" FullShapes "Threads, warps and blocks take turns in other orders.",
        Placement = "placement" FullShapes "Buffers move to the other end of their pages.",
        RunAgreement = "run_agreement" FullShapes "Runs of one case give the same bits.",
        GuardPages = "guard_pages" FullShapes "What surrounds a buffer is not mapped.",
        GuardZones = "guard_zones" FullShapes "Zones beside a buffer keep their pattern.",
        GuardContents = "guard_contents" FullShapes "The output does not follow what lies beside a buffer.",
        ReadOnlyInputs = "read_only_inputs" FullShapes "Inputs are mapped read-only.",
        InputHash = "input_hash" FullShapes "Inputs are the same after a run.",
        SharedZones = "shared_zones" FullShapes "Zones beside shared variables keep their pattern.",
        BarrierDivergence = "barrier_divergence" FullShapes "A block whose threads wait at different barriers ends at once.",
        UsableReference = "usable_reference" FullShapes "The reference gives numbers for plain inputs.",
        FiniteAnswers = "finite_answers" FullShapes "No NaN and no infinity where the answer is finite.",
        SpecialAnswers = "special_answers" FullShapes "The same NaN and infinities as the answer.",
        ElementError = "element_error" FullShapes "The error of each element.",
        ErrorNorm = "error_norm" FullShapes "The norm of the error.",
        TrustedError = "trusted_error" FullShapes "The largest error beside that of a trusted computation.",
        SinglePrecision = "single_precision" FullShapes "Errors beside those of the reference in single precision.",
        InputDependence = "input_dependence" FullShapes "The output follows its inputs.",
        RowError = "row_error" FullShapes "The norm of the error of each row.",
        Bias = "bias" FullShapes "Errors do not lean to one side.",
        MoreSeeds = "more_seeds" FullShapes "Several draws of plain inputs.",
        InputsLarge = "inputs_large" FullShapes "Magnified inputs.",
        InputsSmall = "inputs_small" FullShapes "Small inputs.",
        InputsConstant = "inputs_constant" FullShapes "Inputs that are all equal.",
        InputsRamp = "inputs_ramp" FullShapes "Sorted inputs.",
        InputsSpikes = "inputs_spikes" FullShapes "A few very large inputs among plain ones.",
        InputsZero = "inputs_zero" FullShapes "Inputs that are all zero.",
        InputsOffset = "inputs_offset" FullShapes "Inputs with a large offset.",
        InputsHuge = "inputs_huge" FullShapes "Inputs near the end of the type's range.",
        InputsSubnormal = "inputs_subnormal" FullShapes "Subnormal inputs.",
        InputsSpecial = "inputs_special" FullShapes "NaN and infinite inputs.",
        InputsWide = "inputs_wide" FullShapes "Integers over their whole range.",
        InputsExtremes = "inputs_extremes" FullShapes "Integers at the ends of their range.",
        InputsLow = "inputs_low" FullShapes "Rows far below zero.",
        InputsLowest = "inputs_lowest" FullShapes "Rows of huge negative numbers.",
        InputsRound = "inputs_round" FullShapes "Round numbers: whole ones, eighths, and many that are equal.",
        InputsSpread = "inputs_spread" FullShapes "Every order of magnitude.",
        InputsMixed = "inputs_mixed" FullShapes "Every input of another kind, and one of them zero.",
        InputsNamed = "inputs_named" FullShapes "Finalists: numbers that the sources name, and their neighbors.",
        InputsBorders = "inputs_borders" FullShapes "Finalists: zeros but at the ends of halves, vectors and tiles.",
        MovedData = "moved_data" FullShapes "Answers that are elements of the inputs are compared exactly.",
        FurtherShapes = "further_shapes" FullShapes "Finalists: shapes drawn by lot.",
        FamiliesAtSize = "families_at_size" FullShapes "Finalists: every kind of input at a timed problem.",
        FurtherSeeds = "further_seeds" FullShapes "Finalists: up to a thousand draws of plain inputs.",
        ClockStart = "clock_start" FullShapes "Clocks begin at round numbers.",
        InstrumentedRaces = "instrumented_races" FullShapes "Instrumented runs: accesses that nothing puts in order.",
        InstrumentedBounds = "instrumented_bounds" FullShapes "Instrumented runs: accesses outside of every buffer.",
        InstrumentedAlignment = "instrumented_alignment" FullShapes "Instrumented runs: misaligned accesses.",
        InstrumentedInputs = "instrumented_inputs" FullShapes "Instrumented runs: writes to inputs.",
        InstrumentedUnwritten = "instrumented_unwritten" FullShapes "Instrumented runs: reads of what nobody wrote, if they matter.",
        InstrumentedOrder = "instrumented_order" FullShapes "Instrumented runs: threads give way at single accesses.",
        NameDisagreement = "name_disagreement" FullShapes "Names what two runs that differ depend on.",
        NameState = "name_state" FullShapes "Loads a module again, to tell state from chance.",
        NameConstant = "name_constant" FullShapes "Names an output that is constant.",
        NameSharedCause = "name_shared_cause" FullShapes "Names what failing cases have in common.",
        NameLargeSizes = "name_large_sizes" FullShapes "Names answers that are wrong at large sizes only.",
        ModuleState = "module_state" Repeatability "No variable of the module changes with every call.",
        WorkspaceState = "workspace_state" Repeatability "Finalists: no word of the workspace changes with every call.",
        Repeats = "repeats" Repeatability "Repeated runs give the same bits.",
        RareRepeats = "rare_repeats" Repeatability "Up to two thousand calls give the same bits.",
        OtherData = "other_data" Repeatability "A call after a call on other data gives the same bits.",
        AlikeData = "alike_data" Repeatability "Finalists: a call after one on nearly the same data gives its own answer.",
        NearAnswers = "near_answers" Repeatability "Finalists: outputs that nearly hold the answer are written all the same.",
        RepeatSpread = "repeat_spread" Repeatability "Outputs that may differ stay close to each other.",
        Screening = "screening" Timing "A variant far behind the best is not measured further.",
        Rotation = "rotation" Honesty "Timed calls take turns on several inputs and outputs.",
        TimedOutputs = "timed_outputs" Honesty "Outputs of timed calls are checked.",
        FreshCalls = "fresh_calls" Honesty "Calls on new contents take no longer than others.",
        Roofline = "roofline" Honesty "A time below what the device allows is not believed.",
    }
}

/// Which checks judge a variant: all of them, or all but those that `evo-selftest gates` leaves out.
///
/// A set with something left out cannot come from a person or a space file: no command line option, environment
/// variable or key of a file is read into it. Only the self-test calls [`CheckSet::without`] (a test of this repository
/// looks for other callers), in its own process, and the set reaches a worker in the plan of one candidate. The
/// self-test keeps no journal. And were such a result written down after all, it could not rank: every gate's report
/// then carries [`CheckSet::EVIDENCE`], which `Evaluation::may_rank` refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckSet {
    without: [Option<GateCheck>; 2],
}

impl CheckSet {
    /// The evidence in the reports of a variant that was not judged by all checks.
    pub const EVIDENCE: &'static str = "left_out";

    /// All but one, and all but one more: a check that stands behind another shows only where both are out.
    pub fn without(check: GateCheck, another: Option<GateCheck>) -> CheckSet {
        CheckSet { without: [Some(check), another] }
    }

    pub fn include(&self, check: GateCheck) -> bool {
        !self.without.contains(&Some(check))
    }

    pub fn are_all(&self) -> bool {
        self.left_out().next().is_none()
    }

    pub fn left_out(&self) -> impl Iterator<Item = GateCheck> {
        self.without.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_checks_judge_unless_one_is_left_out() {
        let all = CheckSet::default();
        assert!(all.are_all() && GateCheck::ALL.iter().all(|check| all.include(*check)));
        let some = CheckSet::without(GateCheck::Bias, None);
        assert!(!some.are_all() && !some.include(GateCheck::Bias) && some.include(GateCheck::Repeats));
        assert_eq!(serde_json::to_string(&some).unwrap(), "[\"bias\",null]");
        assert_eq!(serde_json::from_str::<CheckSet>("[\"bias\",null]").unwrap(), some);
    }

    #[test]
    fn checks_stand_in_the_order_of_their_gates() {
        assert!(GateCheck::ALL.is_sorted_by_key(|check| check.gate()));
    }
}
