//! Defects that no variant on a device can have, or that a device cannot be made to show: why, and the test that
//! has them instead.

/// A row that is not played.
#[derive(Clone, Copy, Debug)]
pub struct AbsentRow {
    /// Its number in the catalogue.
    pub catalogue: &'static str,
    /// Why it is not played.
    pub why: &'static str,
    /// File and function of the test that covers it; `None` where there is nothing to test.
    pub test: Option<(&'static str, &'static str)>,
}

const fn absent(
    catalogue: &'static str,
    why: &'static str,
    file: &'static str,
    test: &'static str,
) -> AbsentRow {
    AbsentRow { catalogue, why, test: Some((file, test)) }
}

const DATA_ONLY: &str =
    "needs host code of the variant's, and a variant is a binary and a launch plan: data only";

/// Every row that is not played.
pub const ABSENT: &[AbsentRow] = &[
    absent(
        "C4",
        "no source crashes a compiler for sure",
        "tests/it/compile.rs",
        "a_compiler_that_aborts_is_a_crash",
    ),
    absent(
        "C5",
        "size alone is not a fault: it is a fact that the search learns, and what it costs shows in the time",
        "tests/it/compiled_facts.rs",
        "on_real_sweeps_slow_variants_are_passed_over_and_good_ones_are_not",
    ),
    absent(
        "C9",
        "a sweep takes the first twin's result for the second one",
        "crates/evo-engine/src/tests.rs",
        "twins_are_compiled_and_evaluated_once",
    ),
    absent(
        "H7",
        "no kernel makes a process unkillable",
        "tests/it/worker.rs",
        "two_dead_canaries_lose_the_device",
    ),
    absent(
        "H8",
        "no kernel reaches the worker's host side; a scripted worker does",
        "tests/it/worker.rs",
        "hangs",
    ),
    absent(
        "X4",
        "hardware cannot be broken on purpose",
        "tests/it/worker.rs",
        "two_dead_canaries_lose_the_device",
    ),
    absent(
        "X6",
        "the good variant after each row is the check",
        "tests/it/lane.rs",
        "broken_variants_between_good_ones",
    ),
    absent(
        "X7",
        "the self-test cannot kill itself and go on",
        "tests/it/sweep.rs",
        "kill_9_and_resume_give_the_same_verdicts",
    ),
    AbsentRow { catalogue: "T1", why: DATA_ONLY, test: None },
    AbsentRow { catalogue: "T8", why: DATA_ONLY, test: None },
    absent(
        "T10",
        "needs a rival at the same time; pairs take turns, and a drifting baseline is compared again",
        "crates/evo-engine/src/tests.rs",
        "a_comparison_whose_baseline_drifts_is_repeated",
    ),
    AbsentRow { catalogue: "T11", why: DATA_ONLY, test: None },
    absent(
        "T12",
        "needs host code; whatever a worker starts dies with its process group",
        "tests/it/worker.rs",
        "grandchildren_die_with_the_group",
    ),
    AbsentRow { catalogue: "T14", why: DATA_ONLY, test: None },
    absent(
        "T15",
        "is about several problems of one variant",
        "crates/evo-supervise/src/cascade_tests.rs",
        "an_objective_needs_every_problem",
    ),
    absent(
        "T16",
        "is about many variants: only fresh, paired measurements of finalists rank",
        "crates/evo-engine/src/tests.rs",
        "finalists_are_confirmed_and_those_that_fail_make_room",
    ),
    absent(
        "T17",
        "is about gates that did not run",
        "crates/evo-engine/src/tests.rs",
        "gates_not_reached_are_not_run",
    ),
];
