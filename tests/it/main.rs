//! Whole-program tests: one binary, a module a subject.

/// The program that is tested, which is its own workers.
const PROGRAM: &str = env!("CARGO_BIN_EXE_evo");

/// The arguments of a kernel from a vector to another one, in a space file.
macro_rules! vectors {
    () => {
        r#"[[arguments]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "input"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "output"
[[arguments]]
name = "n"
dtype = "i32"
value = "N"
"#
    };
}

/// A kernel `scale` in `scale.cu` and its launch, with blocks of a size, in a space file.
macro_rules! scale_kernel {
    ($block:literal) => {
        concat!(
            "[kernel]\nname = \"scale\"\nsource = \"scale.cu\"\n",
            "[[launches]]\nentry = \"scale\"\ngrid = \"ceil_div(N, ",
            $block,
            ")\"\nblock = \"",
            $block,
            "\"\n"
        )
    };
}

/// A problem of such a kernel.
macro_rules! scale_problem {
    ($name:literal, $n:literal) => {
        concat!("[[problems]]\nname = \"", $name, "\"\nsizes = { N = ", $n, " }\n")
    };
}

/// How such a kernel is checked, briefly: against one thread that does the same.
macro_rules! scale_check {
    () => {
        r#"[check]
seeds = 1
repeats = 2
tiny = [{ N = 1 }, { N = 33 }]
reference = { source = "naive.cu", entry = "naive", grid = 1, block = 1 }
"#
    };
}

mod accuracy;
mod agent_loop;
mod attention;
mod bad_input;
mod bench;
mod benches;
mod book;
mod candidates;
mod chosen_options;
mod clusters;
mod compile;
mod compile_command;
mod compile_ends;
mod compiled_facts;
mod contract;
mod crosscheck;
mod data_files;
mod derived_shapes;
mod device_references;
mod evaluate;
mod evaluate_request;
mod exhausted;
mod export;
mod faults;
mod fuzzed;
mod gate;
mod gates;
mod golden;
mod history;
mod honest;
mod host_fences;
mod host_loops;
mod import_tasks;
mod include_dirs;
mod included_files;
mod included_host_code;
mod init;
mod insight;
mod instructions;
mod instrumented;
mod intruders;
mod invert;
mod irregular;
mod json_schema;
mod kernel;
mod kernel_errors;
mod l2_persist;
mod lane;
mod lanes;
mod limits;
mod malformed;
mod mcp;
mod micro;
mod module_data;
mod mutator;
mod newcomer;
mod opened_files;
mod outlive;
mod per_problem;
mod persistent;
mod plain_cuda;
mod planted;
mod ports;
mod prelude;
mod prepare;
mod prior;
mod products;
mod profile;
mod profiler_recorded;
mod ptx;
mod python;
mod rare_questions;
mod reference_command;
mod reference_parameters;
mod replay;
mod report;
mod restored;
mod sanitize;
mod sanitize_at_once;
mod shipped;
mod size_macros;
mod skip;
mod soak;
mod space;
mod space_command;
mod space_device;
mod space_lists;
mod space_properties;
mod specialize;
mod structure;
mod support;
mod survivors;
mod sweep;
mod taken_away;
mod tensor_maps;
mod tidy;
mod toolchain;
mod tools;
mod turns;
mod views;
mod worker;
