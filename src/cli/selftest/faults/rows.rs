//! The faults of the space `faults`, in the order of its template, and faults outside the source.

use super::row::FaultOutcome::{self, ByTwin, Is, Open, Passes};
use super::row::{FaultRow, FaultSetup};

const HOST_REGISTERS: FaultOutcome = Open("the host's compiler reports no registers");

/// Ways in which an output that depends on earlier calls can show.
const REMEMBERS: &[&str] = &["stateful", "timing_escape", "nondeterministic", "wrong_answer"];
const REMEMBERS_SAYS: &[&str] = &[
    "earlier launches",
    "call before",
    "old output",
    "wrong when timed",
    "work is skipped",
    "never written",
    "gives another output",
    "gives different outputs",
    "before writing",
    "outside the tolerance",
    "changes with every call",
];

const fn both(
    name: &'static str,
    catalogue: &'static [&'static str],
    does: &'static str,
    verdicts: &'static [&'static str],
    says: &'static [&'static str],
) -> FaultRow {
    FaultRow::new(name, catalogue, does, verdicts, says)
}

const fn honest(name: &'static str, catalogue: &'static [&'static str], does: &'static str) -> FaultRow {
    FaultRow::honest(name, catalogue, does)
}

/// Every fault that is a value of the parameter `FAULT`.
pub const FAULTS: &[FaultRow] = &[
    // Wrong answers.
    both(
        "empty",
        &["W1", "L4", "L8"],
        "returns at once",
        &["wrong_answer:unwritten", "wrong_answer:tail"],
        &["never written"],
    ),
    both("unwritten", &["W1"], "leaves out the last eighth", &["wrong_answer:unwritten"], &["never written"]),
    both(
        "tail",
        &["W2"],
        "rounds its grid down",
        &["wrong_answer:unwritten", "wrong_answer:tail"],
        &["never written"],
    ),
    both("drop", &["W6"], "writes 0 to one element in 100", &["wrong_answer"], &["`y`"]),
    both("half", &["W6"], "rounds to the 11 bits of a half", &["wrong_answer:precision"], &["error"]),
    both("sixteen_bits", &["W6"], "rounds its input to 16 bits", &["wrong_answer:precision"], &["error"]),
    both("lean", &["W6"], "is 0.0002 % too large everywhere", &["wrong_answer:bias"], &["lean"]),
    both(
        "bias",
        &["W6"],
        "is 0.002 % too large everywhere",
        &["wrong_answer:bias", "wrong_answer:precision"],
        &["error"],
    ),
    both(
        "offset",
        &["W6"],
        "adds 0.00003 everywhere",
        &["wrong_answer:bias", "wrong_answer:precision"],
        &["error"],
    ),
    both("nan", &["W5"], "divides 0 by 0 for one element", &["wrong_answer:nan_inf"], &["NaN"]),
    both(
        "range",
        &["W4", "T6"],
        "works below 20 only, as the usual inputs are",
        &["wrong_answer:range"],
        &["famil"],
    ),
    both("constant", &["W7"], "writes 1 whatever the input", &["wrong_answer"], &["`y`"]),
    both("special", &["W19"], "takes NaN for 0", &["wrong_answer:special_values"], &["NaN"]),
    both(
        "subnormal",
        &["W19"],
        "flushes subnormal inputs",
        &["wrong_answer:special_values"],
        &["special_values"],
    ),
    both("size_path", &["T5"], "rounds to a half at large sizes only", &["wrong_answer"], &["error"]),
    both(
        "narrow_index",
        &["W10"],
        "its index overflows at large sizes: 16 bits, because 2^31 elements would take 8 GB and minutes to fill",
        &["oob_read", "wrong_answer", "crash_illegal_address"],
        &["before the start", "outside the buffers", "outside the tolerance", "illegal memory", "NaN"],
    ),
    both(
        "counter",
        &["W20"],
        "adds the number of calls to its output",
        &["nondeterministic", "stateful"],
        &["output"],
    ),
    both("nth_call", &["T3"], "is wrong after 400 calls", REMEMBERS, REMEMBERS_SAYS),
    both("rare", &["W14", "T3"], "is wrong once in 100 calls", REMEMBERS, REMEMBERS_SAYS),
    both(
        "race",
        &["W14"],
        "has no barrier between a write and its neighbor's read",
        &["nondeterministic:race"],
        &["barrier", "different outputs"],
    )
    .on_cuda(ByTwin),
    both(
        "missing_fence",
        &["W17"],
        "reads what another block has written, without a fence",
        &["nondeterministic", "stateful"],
        // A flag that is seen before the data looks like memory that nobody wrote.
        &["output", "before writing"],
    )
    .on_cuda(ByTwin),
    both(
        "unset_shared",
        &["W13"],
        "reads shared memory that nobody wrote",
        // A GPU keeps it from launch to launch.
        &["wrong_answer:uninitialized", "nondeterministic", "stateful:module_state"],
        &["before writing"],
    )
    .on_cuda(ByTwin),
    both(
        "unset_bit",
        &["W13"],
        "uses one bit of shared memory that nobody wrote",
        &["wrong_answer:uninitialized", "nondeterministic", "stateful:module_state"],
        &["before writing"],
    )
    .on_cuda(ByTwin),
    both(
        "unset_local",
        &["W13"],
        "reads a local array's last element, which nobody wrote",
        &["wrong_answer", "nondeterministic"],
        &["before writing", "outside the tolerance"],
    ),
    both(
        "unset_scratch",
        &["W13"],
        "adds up in a workspace that nobody set to zero",
        &["nondeterministic", "wrong_answer"],
        &["before writing", "outside the tolerance", "outputs"],
    ),
    both(
        "kept_scratch",
        &["W20", "T2"],
        "leaves an answer in the workspace for the next call",
        REMEMBERS,
        REMEMBERS_SAYS,
    ),
    both(
        "kept_ticket",
        &["W20", "T2"],
        "counts its blocks in a workspace and does not set the count back",
        &["stateful:scratch_not_reset"],
        &["set it back"],
    ),
    both("oob_write", &["W11"], "writes one element behind its output", &["oob_write"], &["behind"]),
    both(
        "near_write",
        &["W11"],
        "writes back what lies behind its output",
        // The read comes first.
        &["oob_read"],
        &["behind"],
    )
    .on_cuda(ByTwin),
    both(
        "oob_read",
        &["W12"],
        "adds a trace of the element behind its input",
        &["oob_read"],
        &["outside the buffers", "behind the end"],
    ),
    both("near_read", &["W12"], "reads behind its input and drops the value", &["oob_read"], &["behind"])
        .on_cuda(ByTwin),
    both(
        "shared_overrun",
        &["W11"],
        "writes one element behind its shared memory",
        &["oob_write:shared"],
        &["shared", "illegal memory"],
    )
    // An H200 faults where the overrun leaves the block's shared memory, and serves it where it does not.
    .on_cuda(Is(&["crash_illegal_address", "oob_write"])),
    both(
        "local_overrun",
        &["W12"],
        "reads behind a local array and drops the value",
        &["oob_read:local"],
        &["local variable"],
    )
    .on_cuda(ByTwin),
    both("input_mutated", &["W16"], "sets an element of its input to 0", &["input_mutated"], &["`x`"]),
    both(
        "input_borrowed",
        &["W16"],
        "uses its input as workspace and puts it back",
        &["input_mutated"],
        &["`x`"],
    ),
    // Right answers, false times.
    both("memo", &["T2"], "does not work for inputs whose fingerprint it knows", REMEMBERS, REMEMBERS_SAYS),
    both(
        "pointer_memo",
        &["T2", "T13"],
        "does not work if its pointers are those of the last call",
        REMEMBERS,
        REMEMBERS_SAYS,
    ),
    both(
        "known_output",
        &["T2"],
        "does not work where the output is right already",
        REMEMBERS,
        REMEMBERS_SAYS,
    ),
    both(
        "sniffed_output",
        &["T6"],
        "works only where the output holds poison, so where it is checked",
        REMEMBERS,
        &[
            "wrong when timed",
            "outside the tolerance",
            "gives different outputs",
            "old output",
            "reads",
            "work is skipped",
            "call before",
        ],
    ),
    both("ahead", &["T4"], "writes the outputs of the next calls in one call", REMEMBERS, REMEMBERS_SAYS),
    both("warm_cheat", &["T3"], "does nothing after 20 calls", REMEMBERS, REMEMBERS_SAYS),
    // Hangs and crashes.
    both("slow", &["H5"], "is right and takes a hundred times as long", &["too_slow"], &["best so far"])
        .with(FaultSetup::Incumbent),
    both("spin", &["H1"], "waits for a flag that nobody sets", &["hang"], &["no end"]),
    both("grid_wait", &["H3"], "waits for a block that never answers", &["hang"], &["no end"]),
    both("odd_hang", &["H6"], "hangs at odd sizes only", &["hang"], &["no end"]),
    both("late_hang", &["H6"], "hangs after 60 calls", &["hang"], &["no end"]),
    both(
        "transfer_hang",
        &["H4"],
        "waits for one byte more than its bulk copy brings",
        &["hang"],
        &["no end", "mbarrier"],
    )
    .on_host(Is(&["divergent_barrier"])),
    both(
        "barrier",
        &["H2"],
        "the halves of a block wait at different barriers",
        &["divergent_barrier"],
        &["__syncthreads"],
    )
    .on_cuda(ByTwin),
    both(
        "barrier_spin",
        &["H2"],
        "half of a block waits at a barrier for the half that waits behind it",
        &["hang", "divergent_barrier"],
        &["no end", "__syncthreads"],
    ),
    both(
        "illegal_address",
        &["X1"],
        "writes 4 TB behind its output",
        &["crash_illegal_address", "oob_write"],
        &["address", "illegal memory access"],
    ),
    both("misaligned", &["X2"], "reads 16 bytes at an offset of 4", &["crash_misaligned"], &["aligned"]),
    both(
        "trap",
        &["X3"],
        "executes a trap",
        &["crash_trap", "crash_illegal_instruction"],
        &["trap", "launch failure", "instruction"],
    ),
    both("assert", &["X3"], "asserts what is false", &["crash_assert"], &["assert"]),
    both(
        "recursion",
        &["L10"],
        "calls itself a million times",
        &["crash_stack", "crash_illegal_address", "crash_other"],
        &["stack", "illegal memory access", "device work failed"],
    )
    .on_host(Is(&["crash_stack"])),
    both("exit", &["X5"], "ends the worker's process with code 0", &["worker_died"], &["exited"])
        .on_cuda(Open("device code cannot end a process")),
    both(
        "forged_answer",
        &["T9"],
        "writes an answer of its own to every descriptor",
        &["worker_died:protocol"],
        &["protocol"],
    )
    .on_cuda(Open("device code cannot write to a pipe")),
    both(
        "heap_leak",
        &["X9"],
        "keeps what it takes from the device's heap",
        &["stateful:memory_leak"],
        &["device heap"],
    ),
    // Printing takes so long that the deadline may come first.
    both(
        "print_flood",
        &["X8"],
        "prints from every thread",
        &["output_flood", "hang"],
        &["printed", "no end"],
    ),
    // Compilers.
    both("syntax", &["C1"], "does not compile", &["compile_error"], &["does not compile"]),
    both("include", &["C10"], "includes a file of the machine", &["static_reject:include"], &["/etc/"]),
    both(
        "compile_hang",
        &["C2"],
        "keeps the compiler busy for minutes",
        &["compile_timeout"],
        &["did not finish"],
    )
    .on_cuda(Is(&["compile_timeout", "compile_oom"]))
    .with(FaultSetup::ShortCompile),
    both("compile_memory", &["C3"], "makes the compiler take gigabytes", &["compile_oom"], &["memory"])
        .with(FaultSetup::SmallCompile),
    honest("compile_flood", &["C7"], "makes the compiler print 10,000 messages")
        .with(FaultSetup::CompilerOnly),
    both("spills", &["C6"], "spills most of its values", &["spill_excess"], &["spill"])
        .on_host(HOST_REGISTERS),
    // Launches.
    both(
        "registers",
        &["L2"],
        "launches 1024 threads that need 96 registers and more",
        &["static_reject:registers", "static_reject:threads", "launch_fail:regs", "launch_fail:threads"],
        &["registers", "threads"],
    )
    .on_host(HOST_REGISTERS),
    both("threads", &["L2"], "launches 2048 threads a block", &["static_reject:threads"], &["threads"]),
    both(
        "bounds",
        &["L2", "L4"],
        "launches twice its launch bounds",
        &["launch_fail:threads", "static_reject:threads"],
        &["threads"],
    ),
    both("smem", &["L1"], "asks for 256 KiB of dynamic shared memory", &["static_reject:smem"], &["shared"]),
    both(
        "static_smem",
        &["L1"],
        "declares 240 KiB of static shared memory",
        &["compile_error", "static_reject:smem", "launch_fail:smem"],
        &["shared"],
    )
    .on_host(Is(&["static_reject:smem", "launch_fail:smem"])),
    both("zero_grid", &["L3"], "launches no block", &["static_reject"], &["grid"]),
    both("wide_grid", &["L3"], "launches 65,536 blocks in y", &["static_reject:grid"], &["grid"]),
    both("grid_overflow", &["L3"], "its grid overflows 32 bits", &["static_reject:grid"], &["grid"]),
    both("zero_work", &["L8"], "launches nothing at all", &["static_reject:zero_work"], &["no launch"]),
    both("huge_scratch", &["L9"], "asks for a workspace of 40 TB", &["static_reject:memory"], &["`work`"]),
    both(
        "cluster",
        &["L6"],
        "asks for clusters of 16",
        &["static_reject:cluster", "launch_fail:cluster"],
        &["cluster"],
    ),
    // A grid of 782 small blocks fits a GPU at once.
    both(
        "cooperative",
        &["L5"],
        "a cooperative launch: honest where all its blocks fit",
        &["static_reject:cooperative", "launch_fail:cooperative"],
        &["resident"],
    )
    .on_cuda(Passes),
    both(
        "cooperative_wide",
        &["L5"],
        "a cooperative launch of 65,535 blocks",
        &["static_reject:cooperative", "launch_fail:cooperative"],
        &["resident"],
    ),
    // Honest and odd.
    honest("persistent", &["L7"], "few blocks take turns"),
    honest("atomics", &["W15"], "writes by atomic exchanges"),
    honest("lock", &["W15"], "blocks take turns by a lock in global memory"),
    honest("early_exit", &["H2"], "half of a block returns before a barrier, which sm_70 and later allow"),
    honest("block_wait", &["H1"], "waits for a flag that another thread of the block sets"),
];

/// The good variant, and what goes wrong around it.
pub const OUTSIDE: &[FaultRow] = &[
    both("stale_binary", &["C8"], "another variant's binary", &["stale_binary"], &["hash"])
        .with(FaultSetup::StaleBinary),
    both(
        "foreign_binary",
        &["C11"],
        "a binary for another target",
        &["load_error"],
        &["image", "ELF", "the module: "],
    )
    .with(FaultSetup::ForeignBinary),
    both(
        "inflated_work",
        &["T7"],
        "claims to move a thousand times its bytes",
        &["impossible_speed"],
        &["memory"],
    )
    .on_host(Open("the host's bandwidth is not known, so no time is too short"))
    .with(FaultSetup::InflatedWork),
];
