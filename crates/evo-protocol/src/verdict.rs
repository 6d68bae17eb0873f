//! What became of one variant: a closed verdict, its class, its evidence and the state of each gate.
//!
//! The list is closed and versioned because journals, leaderboards and other programs branch on it.
//! A gate that did not run never counts as passed: it is shown as `not_run` and keeps a variant off the
//! leaderboard.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// Version of the verdict list; a new kind or a changed meaning raises it.
/// 2 added `passed_over`; 3 dropped `memory_leak`, which nothing ever gave; 4 added `sanitizer`.
pub const VERDICT_VERSION: u32 = 4;

words! {
    // In the order in which an evaluation can meet them; each with what it means, whatever was seen.
    #[derive(Hash, PartialOrd, Ord, JsonSchema)]
    VerdictKind: VerdictClass class, sentence {
        Pass = "pass" Ok "it passed every gate that it was put through, and it has measurements",
        RejectedConstraint = "rejected_constraint" Reject "a constraint of the space forbids the configuration",
        StaticReject = "static_reject" Reject "limits of the device or the rules for sources forbid it",
        RenderError = "render_error" Compile "the template does not render",
        CompileError = "compile_error" Compile "the compiler refuses the source",
        CompileTimeout = "compile_timeout" Compile "the compiler did not finish in time",
        CompileOom = "compile_oom" Compile "the compiler ran out of memory",
        CompilerCrash = "compiler_crash" Compile "the compiler died",
        SpillExcess = "spill_excess" Compile "it spills more bytes than the space allows",
        PassedOver = "passed_over" PassedOver "it was not run",
        LoadError = "load_error" Launch "the device does not load the binary",
        StaleBinary = "stale_binary" Launch "the binary is not that of this candidate",
        LaunchFail = "launch_fail" Launch "a launch was refused",
        OutOfMemory = "out_of_memory" Launch "the device's memory does not suffice",
        Hang = "hang" Hang "it did not end in time",
        TooSlow = "too_slow" Slow "it is too slow to be measured",
        CrashIllegalAddress = "crash_illegal_address" Crash "it touched an illegal address",
        CrashMisaligned = "crash_misaligned" Crash "it made a misaligned access",
        CrashIllegalInstruction = "crash_illegal_instruction" Crash "it ran an illegal instruction",
        CrashTrap = "crash_trap" Crash "it trapped",
        CrashAssert = "crash_assert" Crash "an assertion of its own failed",
        CrashStack = "crash_stack" Crash "a thread's stack overflowed",
        CrashOther = "crash_other" Crash "it ended with an error of the device",
        DivergentBarrier = "divergent_barrier" Crash "threads of a block waited at different barriers, or left while others waited",
        WorkerDied = "worker_died" Crash "the process in which it ran died",
        WorkerHang = "worker_hang" Hang "it did not end in time",
        DeviceLost = "device_lost" Harness "the device is lost",
        WrongAnswer = "wrong_answer" Wrong "its answers are wrong",
        OobWrite = "oob_write" Wrong "it wrote outside of its buffers",
        OobRead = "oob_read" Wrong "it read outside of its buffers",
        InputMutated = "input_mutated" Wrong "it changed an input",
        Nondeterministic = "nondeterministic" Wrong "it gives different answers to the same question",
        Stateful = "stateful" Wrong "its answers depend on earlier calls",
        TimingEscape = "timing_escape" Timing "its timed calls did not do the work that they were timed for",
        ImpossibleSpeed = "impossible_speed" Timing "it is faster than the device can be",
        Sanitizer = "sanitizer" Wrong "compute-sanitizer found a fault",
        Noisy = "noisy" Noisy "no stable time could be had",
        OutputFlood = "output_flood" Crash "it printed more than it may",
        Interrupted = "interrupted" Harness "it was interrupted before there was a verdict",
        HarnessError = "harness_error" Harness "evo or the machine failed, which says nothing about the candidate",
    }
}

/// Of what nobody has judged.
impl Default for VerdictKind {
    fn default() -> VerdictKind {
        VerdictKind::HarnessError
    }
}

impl fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictClass {
    Ok,
    Reject,
    Compile,
    /// Not run, by choice: neither a failure nor measured.
    PassedOver,
    Launch,
    Hang,
    /// Correct as far as checked, but abandoned as a loser.
    Slow,
    Crash,
    Wrong,
    /// Its time cannot be believed.
    Timing,
    Noisy,
    /// Our own trouble.
    Harness,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    pub kind: VerdictKind,
    /// A closed word that narrows it, such as `smem` or `unwritten`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// One line for a person: what was seen, where, against what limit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The same as numbers and names.
    #[serde(default, skip_serializing_if = "Evidence::is_empty")]
    pub evidence: Evidence,
}

impl Verdict {
    /// The name in `evidence` of a time that a race has measured.
    pub const RACED: &str = "raced";
    /// Names the evidence of a `too_slow` that was said because the variant is behind the best of each problem.
    pub const EVERYWHERE: &str = "everywhere";

    pub fn new(kind: VerdictKind, message: impl Into<String>) -> Verdict {
        Verdict { kind, message: message.into(), ..Verdict::default() }
    }

    pub fn pass() -> Verdict {
        Verdict::new(VerdictKind::Pass, "")
    }

    pub fn has_cause(&self, cause: Cause) -> bool {
        self.cause.as_deref() == Some(cause.as_str())
    }

    pub fn with_cause(mut self, cause: impl Into<String>) -> Verdict {
        self.cause = Some(cause.into());
        self
    }

    pub fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Verdict {
        self.evidence.insert(name, value);
        self
    }

    /// The evidence by which a verdict says that the machine may be at fault as well as the variant, such as
    /// after a crash of the compiler. It counts only after it has been seen again in a fresh process.
    pub const IN_DOUBT: &'static str = "in_doubt";

    /// The evidence with what a person can do about trouble that is not the variant's.
    pub const HINT: &'static str = "hint";

    /// Whether this is trouble of evo or of the machine, which says nothing about the variant and is never its
    /// verdict. What a recording calls an error is the recording's own verdict.
    pub fn is_trouble(&self) -> bool {
        self.kind == VerdictKind::HarnessError && !self.has_cause(Cause::Recorded)
    }

    /// The same verdict, to be believed only when it is seen again.
    pub fn in_doubt(self) -> Verdict {
        self.with(Verdict::IN_DOUBT, true)
    }

    pub fn is_in_doubt(&self) -> bool {
        self.evidence.get(Verdict::IN_DOUBT).is_some()
    }

    pub fn is_pass(&self) -> bool {
        self.kind == VerdictKind::Pass
    }

    pub fn label(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{}:{cause}", self.kind),
            None => self.kind.to_string(),
        }
    }
}

words! {
    /// The causes by which evo itself decides something. Others (signals, exit codes, names of sizes) are
    /// for people.
    #[derive(Hash, JsonSchema)]
    Cause {
        /// `wrong_answer`: errors that lean to one side, though each is small.
        Bias = "bias",
        /// `harness_error`: the cache of compiled variants cannot be written.
        Cache = "cache",
        /// `wrong_answer`: the same output for all elements or all inputs.
        Constant = "constant",
        /// `harness_error`: a process of evo's was killed by a signal that evo did not send.
        Killed = "killed",
        /// `harness_error`: a tool, a file or a folder that evo needs is missing or does not work.
        Machine = "machine",
        /// `wrong_answer`: NaN or infinity where the answer is finite.
        NanInf = "nan_inf",
        /// `wrong_answer`: small errors only.
        Precision = "precision",
        /// Any verdict of a replay: the recording says that the configuration failed, and not how.
        Recorded = "recorded",
        /// `wrong_answer`: wrong only where inputs are NaN, infinite, subnormal or huge.
        SpecialValues = "special_values",
        /// `harness_error`: the space file's reference or inputs cannot be used.
        Task = "task",
        /// `wrong_answer`: right at small shapes, grossly wrong at timed ones.
        TimedShape = "timed_shape",
        /// `wrong_answer`: memory is read before it is written.
        Uninitialized = "uninitialized",
        /// `wrong_answer`: elements that were never written.
        Unwritten = "unwritten",
        /// `wrong_answer`: errors as large as the answer.
        Value = "value",
    }
}

impl From<Cause> for String {
    fn from(cause: Cause) -> String {
        cause.as_str().to_string()
    }
}

/// Named evidence in a stable order. Names end in their unit (`deadline_ms`, `shared_bytes`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Evidence(serde_json::Map<String, serde_json::Value>);

impl Evidence {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn insert(&mut self, name: &str, value: impl Into<serde_json::Value>) {
        self.0.insert(name.to_string(), value.into());
    }

    pub fn get(&self, name: &str) -> Option<&serde_json::Value> {
        self.0.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &serde_json::Value)> {
        self.0.iter()
    }
}

words! {
    /// The gates of the pipeline, from cheap to expensive (`docs/design/gates.md`).
    #[derive(Hash, PartialOrd, Ord, JsonSchema)]
    Gate {
        /// Limits known before compiling: threads, shared memory, grid, zero work.
        StaticLimits = "static_limits",
        /// Renders and compiles within its limits.
        Compile = "compile",
        /// Loads, carries its own hash, fits the device.
        Launch = "launch",
        /// Right on small shapes cut from the configuration's own tiles, under a short deadline.
        TinyShapes = "tiny_shapes",
        /// Right on the full shapes, seeds and input families.
        FullShapes = "full_shapes",
        /// Same input, same output.
        Repeatability = "repeatability",
        /// Measured, not abandoned.
        Timing = "timing",
        /// Not faster than the device can be; outputs of timed iterations right.
        Honesty = "honesty",
        /// compute-sanitizer finds nothing. The one gate whose absence keeps nothing off the leaderboard.
        Sanitize = "sanitize",
        /// Paired comparison in fresh processes.
        Confirmation = "confirmation",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// It ran and was satisfied.
    Pass,
    /// It ran and refused the variant.
    Fail,
    /// It did not run; never counts as pass.
    NotRun,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    pub gate: Gate,
    pub state: GateState,
    /// How many cases (shape × seed × input family, …) it looked at.
    #[serde(default)]
    pub cases: u32,
    /// One line: what was checked, or why it did not run.
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Evidence::is_empty")]
    pub evidence: Evidence,
    #[serde(default)]
    pub elapsed_ms: f64,
}

impl GateReport {
    /// The evidence by which `tiny_shapes` says that there was no shape to run: because the task has none, with
    /// [`Self::NOT_CHECKED`], or because evo found none.
    pub const TAILS: &'static str = "tails";
    pub const NOT_CHECKED: &'static str = "not_checked";
    pub const NOT_DERIVED: &'static str = "not_derived";
    /// The evidence that names derived shapes which the reference does not take.
    pub const NOT_TAKEN: &'static str = "shapes_not_taken";

    /// The evidence that says what is compared of outputs that are not compared in full, by problem and output.
    pub const IN_PART: &'static str = "compared_in_part";

    /// The evidence with the plain parity of each problem, by its name.
    pub const PARITY: &'static str = "parity";
    pub const PARITY_NUMBERS: [&'static str; 4] =
        ["max_abs_error", "max_rel_error", "allclose_1e-3", "allclose_1e-2"];
    /// The verdict of the task's own rule beside them, where the file states one: `matched_ratio` and `within`.
    pub const PARITY_TASK: &'static str = "task";
    /// What follows the name of a number in the name of the reason why it is null.
    pub const PARITY_REASON: &'static str = "_reason";

    /// Whether this is `tiny_shapes` without a shape to run: nothing was skipped, and tails were not checked.
    pub fn lacks_shapes(&self) -> bool {
        self.gate == Gate::TinyShapes
            && self.state == GateState::NotRun
            && self.evidence.get(Self::TAILS).is_some()
    }

    /// Whether it lacks shapes although nothing in the file says that the kernel supports none.
    pub fn derived_no_shapes(&self) -> bool {
        self.lacks_shapes() && self.evidence.get(Self::TAILS) == Some(&Self::NOT_DERIVED.into())
    }

    pub fn not_run(gate: Gate, why: impl Into<String>) -> GateReport {
        GateReport {
            gate,
            state: GateState::NotRun,
            cases: 0,
            message: why.into(),
            evidence: Evidence::default(),
            elapsed_ms: 0.0,
        }
    }
}

words! {
    // The checks of compute-sanitizer, each a run of its own.
    #[derive(Hash, JsonSchema)]
    SanitizerCheck {
        /// Accesses outside of allocations, and misaligned ones.
        Memcheck = "memcheck",
        /// Threads of a block that access the same shared memory without an order.
        Racecheck = "racecheck",
        /// Reads of memory that nothing was written to.
        Initcheck = "initcheck",
        /// Barriers that not every thread reaches, and other misuse of synchronization.
        Synccheck = "synccheck",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_from_verdicts() {
        assert!(Verdict::new(VerdictKind::HarnessError, "").is_trouble());
        assert!(!Verdict::new(VerdictKind::HarnessError, "").with_cause(Cause::Recorded).is_trouble());
        let crash = Verdict::new(VerdictKind::CompilerCrash, "");
        assert!(!crash.is_trouble() && !crash.is_in_doubt() && crash.in_doubt().is_in_doubt());
    }
}
