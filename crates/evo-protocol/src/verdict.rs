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

// One line per kind gives the variant, its name in files and its class, so that none of the three can be
// forgotten.
macro_rules! verdict_kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $class:ident;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum VerdictKind { $($(#[$doc])* #[serde(rename = $text)] $name,)* }

        impl VerdictKind {
            /// Every kind, in the order in which an evaluation can meet them.
            pub const ALL: &'static [VerdictKind] = &[$(VerdictKind::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(VerdictKind::$name => $text,)* }
            }

            pub fn class(self) -> VerdictClass {
                match self { $(VerdictKind::$name => VerdictClass::$class,)* }
            }
        }
    };
}

verdict_kinds! {
    /// It passed every gate it was put through, and it has measurements.
    Pass = "pass", Ok;
    /// A constraint of the space forbids it.
    RejectedConstraint = "rejected_constraint", Reject;
    /// Known limits forbid the launch: threads, shared memory, grid, zero work (cause says which).
    StaticReject = "static_reject", Reject;
    /// The template did not render.
    RenderError = "render_error", Compile;
    /// The compiler refused the source.
    CompileError = "compile_error", Compile;
    /// The compiler did not finish before its deadline.
    CompileTimeout = "compile_timeout", Compile;
    /// The compiler ran into its memory limit.
    CompileOom = "compile_oom", Compile;
    /// The compiler died.
    CompilerCrash = "compiler_crash", Compile;
    /// The space's rule on spills forbids it.
    SpillExcess = "spill_excess", Compile;
    /// Compiled, and not run: the search expects too little of it. Says nothing about the variant.
    PassedOver = "passed_over", PassedOver;
    /// The device refused the binary.
    LoadError = "load_error", Launch;
    /// The loaded module does not carry the configuration's own hash.
    StaleBinary = "stale_binary", Launch;
    /// The launch was refused (cause: smem, threads, regs, cooperative, cluster, …).
    LaunchFail = "launch_fail", Launch;
    /// Device memory did not suffice; not sticky.
    OutOfMemory = "out_of_memory", Launch;
    /// No end at a shape where an honest kernel needs microseconds.
    Hang = "hang", Hang;
    /// Finished, or killed, too far behind the best; evidence holds the lower bound.
    TooSlow = "too_slow", Slow;
    /// Illegal address on the device.
    CrashIllegalAddress = "crash_illegal_address", Crash;
    /// Misaligned access.
    CrashMisaligned = "crash_misaligned", Crash;
    /// Illegal instruction.
    CrashIllegalInstruction = "crash_illegal_instruction", Crash;
    /// Trap.
    CrashTrap = "crash_trap", Crash;
    /// A device-side assertion.
    CrashAssert = "crash_assert", Crash;
    /// A thread's stack overflowed.
    CrashStack = "crash_stack", Crash;
    /// Another error of the sticky family.
    CrashOther = "crash_other", Crash;
    /// Threads of a block waited at different barriers, or some left while others waited.
    DivergentBarrier = "divergent_barrier", Crash;
    /// The worker process died without an answer.
    WorkerDied = "worker_died", Crash;
    /// The worker hung in host code.
    WorkerHang = "worker_hang", Hang;
    /// The device itself is gone.
    DeviceLost = "device_lost", Harness;
    /// A wrong answer (cause: unwritten, nan_inf, precision, tail, range, constant, timed_shape, …).
    WrongAnswer = "wrong_answer", Wrong;
    /// Wrote outside its buffers.
    OobWrite = "oob_write", Wrong;
    /// Read outside its buffers.
    OobRead = "oob_read", Wrong;
    /// Changed an input.
    InputMutated = "input_mutated", Wrong;
    /// Different answers to the same question.
    Nondeterministic = "nondeterministic", Wrong;
    /// Depends on an earlier launch.
    Stateful = "stateful", Wrong;
    /// Work escaped the timed region, or timed iterations gave other outputs.
    TimingEscape = "timing_escape", Timing;
    /// Faster than the device can be.
    ImpossibleSpeed = "impossible_speed", Timing;
    /// compute-sanitizer found something (cause: the check).
    Sanitizer = "sanitizer", Wrong;
    /// No stable number could be had.
    Noisy = "noisy", Noisy;
    /// Printed more than the cap.
    OutputFlood = "output_flood", Crash;
    /// The run was interrupted while it was in flight.
    Interrupted = "interrupted", Harness;
    /// Trouble of evo or of the machine; says nothing about the variant, so a journal keeps it as `not_final`.
    HarnessError = "harness_error", Harness;
}

impl fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The group of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictClass {
    /// Correct and measured.
    Ok,
    /// Refused before any work.
    Reject,
    /// Rendering or compiling failed.
    Compile,
    /// Not run, by choice: neither a failure nor measured.
    PassedOver,
    /// Could not be launched.
    Launch,
    /// Did not end.
    Hang,
    /// Correct as far as checked, but abandoned as a loser.
    Slow,
    /// Crashed.
    Crash,
    /// Wrong.
    Wrong,
    /// Its time cannot be believed.
    Timing,
    /// Its time is not stable.
    Noisy,
    /// Our own trouble.
    Harness,
}

/// A verdict with its cause and what was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
        Verdict { kind, cause: None, message: message.into(), evidence: Evidence::default() }
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

    /// Whether it has to be seen again before it counts.
    pub fn is_in_doubt(&self) -> bool {
        self.evidence.get(Verdict::IN_DOUBT).is_some()
    }

    pub fn is_pass(&self) -> bool {
        self.kind == VerdictKind::Pass
    }

    /// `wrong_answer:unwritten`, or the kind alone.
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

/// What one gate answered.
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

/// A gate's answer with its evidence.
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
    /// Numbers behind it.
    #[serde(default, skip_serializing_if = "Evidence::is_empty")]
    pub evidence: Evidence,
    /// Wall time it took, milliseconds.
    #[serde(default)]
    pub elapsed_ms: f64,
}

impl GateReport {
    /// The evidence by which `tiny_shapes` says that there was no shape to run, with [`Self::NOT_CHECKED`].
    pub const TAILS: &'static str = "tails";
    /// See [`Self::TAILS`].
    pub const NOT_CHECKED: &'static str = "not_checked";
    /// The evidence that names derived shapes which the reference does not take.
    pub const NOT_TAKEN: &'static str = "shapes_not_taken";

    /// The evidence that says what is compared of outputs that are not compared in full, by problem and output.
    pub const IN_PART: &'static str = "compared_in_part";

    /// The evidence with the plain parity of each problem, by its name.
    pub const PARITY: &'static str = "parity";
    /// The numbers of a problem's parity.
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
            && self.evidence.get(Self::TAILS).is_some_and(|value| value == Self::NOT_CHECKED)
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
