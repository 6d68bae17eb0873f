//! Attention whose blocks have several runs of rows, at the gates of the host device: whole, and with what has to go on from
//! one run to the next taken out.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

use crate::support::{self, BRIEF, timed_on_host};

const TEMPLATE: &str = "attention_hopper.cu.j2";

/// The space and its template in a folder of their own, as for a device with two multiprocessors: the blocks that stay there
/// go round at every shape.
fn on_two(folder: &tempfile::TempDir, space: &str, edit: impl Fn(String) -> String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = format!("{space}.toml");
    let text = fs::read_to_string(root.join("search_spaces").join(&file)).unwrap();
    assert_eq!(text.matches("132 * MIN_BLOCKS").count(), 2, "{space}");
    fs::write(folder.path().join(file), text.replace("132 * MIN_BLOCKS", "2 * MIN_BLOCKS")).unwrap();
    let text = fs::read_to_string(root.join("templates").join(TEMPLATE)).unwrap();
    fs::write(folder.path().join(TEMPLATE), edit(text)).unwrap();
    fs::copy(root.join("templates/attention_naive.cu"), folder.path().join("attention_naive.cu")).unwrap();
}

/// Judges a configuration on the host device; gives the verdict up to its first colon, and the whole answer.
fn judged(folder: &tempfile::TempDir, space: &str, words: &str) -> (String, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder.path()).env("EVO_CACHE_DIR", support::cache());
    command.args(["test-one", &format!("./{space}.toml")]).args(words.split(' '));
    command.args(["--device", "host", "--json"]).args(BRIEF.split(' '));
    let output = command.output().unwrap();
    let whole: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let verdict = whole["verdict"].as_str().unwrap_or_else(|| panic!("{whole:#}"));
    (verdict.split(':').next().unwrap_or(verdict).to_string(), whole)
}

#[test]
fn blocks_that_stay_pass_every_gate_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    for (space, words) in [
        (
            "attention_hopper",
            "SCHEDULE=dynamic Q_STAGES=2 ROW_GROUPS=2 BLOCK_N=48 STAGES=3 OVERLAP=tiles TURNS=1 PRODUCER=warp",
        ),
        (
            "attention_hopper_layouts",
            "SCHEDULE=dynamic ROW_GROUPS=1 BLOCK_N=32 STAGES=1 OVERLAP=tiles Q_IN_REGS=1 PRODUCER=warpgroup",
        ),
        (
            "attention_hopper_d128",
            "SCHEDULE=static CLUSTER=2 ROW_GROUPS=1 BLOCK_N=32 STAGES=2 EPILOGUE=direct PRODUCER=warp",
        ),
    ] {
        on_two(&folder, space, |text| text);
        let problems = timed_on_host(space).join(" ");
        let (verdict, whole) = judged(&folder, space, &format!("{words} MIN_BLOCKS=1 {problems}"));
        assert_eq!(verdict, "pass", "{words}: {whole:#}");
    }
}

#[test]
fn mistakes_from_one_run_to_the_next_are_found_without_a_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = ["wrong_answer", "nondeterministic", "crash_illegal_instruction", "divergent_barrier"];
    for (schedule, line, other, verdicts) in [
        // Queries come while others are multiplied or output lies in their place.
        (
            "static",
            "evo::mbarrier_wait(&barriers.empty_q[stage], round / Q_STAGES % 2 ^ 1);",
            "",
            wrong.as_slice(),
        ),
        // A stage of queries is given back before the output has left it.
        (
            "static Q_STAGES=2",
            "            if (set == 0) {\n                const size_t row",
            "            release_query(&barriers.empty_q[q_stage]);\n            if (set == 0) {\n                const size_t row",
            &wrong,
        ),
        // Each run begins with the first stage and its first phase.
        (
            "static",
            "            unsigned char* const q_rows = q_ring",
            "            at = {0, 0};\n            unsigned char* const q_rows = q_ring",
            &wrong,
        ),
        // The last stage of a run is read twice.
        (
            "static",
            "<% if SCHEDULE != \"off\" %>\n                advance(at, 1);\n",
            "<% if SCHEDULE != \"off\" %>\n",
            &wrong,
        ),
        // The counter goes on in the next call: nobody gets a run from it again.
        (
            "dynamic",
            "atomicInc(counter, runs - 1)",
            "atomicAdd(counter, 1)",
            &["wrong_answer", "nondeterministic", "stateful"],
        ),
        // It begins anew one question too late.
        (
            "dynamic",
            "atomicInc(counter, runs - 1)",
            "atomicInc(counter, runs)",
            &["wrong_answer", "nondeterministic", "stateful"],
        ),
        // Nobody says that there are no more runs.
        (
            "dynamic",
            "            evo::mbarrier_arrive(&barriers.full_q[round % Q_STAGES]);\n",
            "",
            &["divergent_barrier"],
        ),
        // Nobody writes which run the queries belong to.
        ("dynamic", "                    barriers.run[stage] = run;\n", "", &wrong),
    ] {
        on_two(&folder, "attention_hopper", |text| {
            assert!(text.contains(line), "{line}");
            text.replacen(line, other, 1)
        });
        let words = "ROW_GROUPS=1 BLOCK_N=32 STAGES=2 OVERLAP=tiles PRODUCER=warp MIN_BLOCKS=1";
        let (found, whole) = judged(&folder, "attention_hopper", &format!("SCHEDULE={schedule} {words}"));
        assert!(
            verdicts.contains(&found.as_str()),
            "{line} -> {other}: {found}, not {verdicts:?}\n{whole:#}"
        );
    }
}
