//! Kernels whose verdict is known, through `evo test-one` on the host device: a row of `rows.toml` beside a kernel says
//! what is changed in its files, how it is called, and what the answer says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Deserialize;
use serde_json::Value;

use crate::skip::{has_programs, is_full};
use crate::support::kernels::{Kernel, data};
use crate::support::{BRIEF, timed_on_host};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    /// A folder of the repository whose kernel it is, where it is not the folder's own.
    from: Option<String>,
    /// Of all rows.
    #[serde(default = "seven")]
    seed: u64,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// What the row is there for, where its words do not say it.
    #[serde(default)]
    rule: String,
    /// A space that ships with evo, in place of the kernel of the folder.
    shipped: Option<String>,
    /// At the problems that it times on this device, and those that the words name.
    #[serde(default)]
    timed: bool,
    #[serde(default)]
    edit: Vec<Vec<String>>,
    #[serde(default)]
    words: String,
    /// In place of the seed of all rows.
    seed: Option<u64>,
    /// A program that the row needs.
    needs: Option<String>,
    /// A script of the folder that takes the compiler's place.
    cxx: Option<String>,
    /// Ways in which the label may begin, or with `!` the one that it may not be.
    verdict: String,
    /// Texts of the answer; of alternatives between ` || ` it has one.
    #[serde(default)]
    has: Vec<String>,
    /// Values of the answer by their paths; `> N` is a larger number, `= PATH` another value.
    #[serde(default)]
    at: BTreeMap<String, Value>,
    /// What is drawn by lot is met in one of so many runs.
    #[serde(default = "one")]
    tries: usize,
}

fn seven() -> u64 {
    7
}

fn one() -> usize {
    1
}

impl Row {
    /// What is not as the row says.
    fn fault(&self, kernel: &Kernel, words: &str) -> Option<String> {
        let answer = kernel.judged(words, self.cxx.as_deref());
        let label = answer["result"]["verdict"].as_str().unwrap_or("none");
        let is_expected = match self.verdict.strip_prefix('!') {
            Some(not) => {
                let none = ["none", "harness", "compile_error", "static_reject"];
                label != not && !none.iter().any(|other| label.starts_with(other))
            }
            None => self.verdict.split(' ').any(|own| label.starts_with(own)),
        };
        let text = answer.to_string();
        let lacks = |own: &&String| !own.split(" || ").any(|other| text.contains(other));
        let differs = |(path, wanted): &(&String, &Value)| {
            let found = value_at(&answer, path);
            match wanted.as_str() {
                Some(own) if own.starts_with("> ") => found.as_f64() <= Some(own[2..].parse().unwrap()),
                Some(own) if own.starts_with("= ") => {
                    found.is_null() || found != value_at(&answer, &own[2..])
                }
                _ => found != **wanted,
            }
        };
        let lacking = self.has.iter().find(lacks).cloned();
        let missed = lacking.or_else(|| self.at.iter().find(differs).map(|own| format!("{own:?}")));
        // Where a gate did not run, nothing passed.
        let is_whole = label != "pass" || answer["status"] == "pass";
        let is_right = is_expected && is_whole && missed.is_none();
        (!is_right).then(|| format!("{label}, not {}; no {missed:?}: {answer:#}", self.verdict))
    }
}

/// Below `gates` a name is a gate's.
fn value_at(answer: &Value, path: &str) -> Value {
    let step = |value: Value, name: &str| match (&value, name.parse::<usize>()) {
        (Value::Array(items), Ok(at)) => items.get(at).cloned().unwrap_or_default(),
        (Value::Array(items), Err(_)) => {
            items.iter().find(|own| own["gate"] == name).cloned().unwrap_or_default()
        }
        _ => value[name].clone(),
    };
    path.split('.').fold(answer.clone(), step)
}

const PLAYED: [&str; 35] = [
    "padded",
    "compact",
    "partial",
    "rope",
    "inverse",
    "product",
    "norm",
    "sum",
    "halves",
    "tails",
    "strided",
    "batched",
    "transform",
    "weigh",
    "heat",
    "convolve",
    "gemv",
    "row_max",
    "blur",
    "either_order",
    "specialize",
    "row_sum_map",
    "headers",
    "host_code",
    "twice",
    "twin",
    "box_blur",
    "blur_of_files",
    "ring",
    "shipped",
    "shipped_decode",
    "shipped_mma",
    "shipped_hopper",
    "shipped_persistent",
    "shipped_clusters",
];

/// Plays the rows of these folders, all of them, whatever one shows.
fn play(folders: &[&str]) {
    assert!(folders.iter().all(|folder| PLAYED.contains(folder)));
    let mut faults = Vec::new();
    for folder in folders {
        let list = data(&format!("kernels/{folder}/rows.toml"));
        let rows: Rows = toml::from_str(&fs::read_to_string(list).unwrap()).unwrap();
        assert!(!rows.rows.is_empty(), "{folder}");
        for row in &rows.rows {
            if row.needs.as_ref().is_some_and(|program| !has_programs(&[program], "a row of this test")) {
                continue;
            }
            let kernel = match &row.shipped {
                Some(space) => Kernel::shipped(space),
                None => Kernel::of(rows.from.as_deref(), folder),
            };
            row.edit.iter().for_each(|edit| {
                kernel.change(edit);
            });
            let mut words = format!("{} --seed {}", row.words, row.seed.unwrap_or(rows.seed));
            if row.timed {
                let problems = timed_on_host(row.shipped.as_deref().expect("a shipped space"));
                words = format!("{words} {}", problems.join(" "));
            }
            let runs = (0..row.tries).map(|_| row.fault(&kernel, &words));
            let missed: Vec<String> = runs.map_while(|fault| fault).collect();
            if missed.len() == row.tries {
                faults.push(format!("{folder}: {} {} {:?}: {}", row.rule, row.words, row.edit, missed[0]));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

fn play_in_full(folder: &str) {
    if is_full("kernels") {
        play(&[folder]);
    }
}

#[test]
fn outputs_that_are_compared_in_part_in_any_order_or_by_their_sum() {
    play(&["padded", "compact", "partial"]);
}

#[test]
fn what_single_precision_costs_and_lies_within_the_usual_bounds() {
    play(&["rope", "inverse", "product", "norm", "sum", "halves"]);
}

#[test]
fn tails_strides_batches_special_numbers_and_equal_sizes() {
    play(&["tails", "strided", "batched", "transform", "weigh"]);
}

#[test]
fn loops_of_launches_variables_of_modules_preparations_and_restored_inputs() {
    play(&["heat", "convolve", "gemv", "row_max"]);
}

#[test]
fn sizes_and_parameters_that_sources_and_references_are_told() {
    play(&["blur", "either_order", "specialize", "row_sum_map", "headers", "host_code"]);
}

#[test]
fn kernels_that_are_wrong_where_evo_seldom_looks() {
    play(&["twice"]);
}

#[test]
fn instrumented_runs_find_faults_that_change_no_output() {
    play(&["twin"]);
}

/// What people bring along, and inputs from files.
#[test]
fn a_kernel_of_somebody_elses() {
    play(&["box_blur", "blur_of_files"]);
}

#[test]
fn roles_that_hand_over_by_barriers() {
    play(&["ring"]);
}

/// One that is right and two mistakes; the next tests have the others.
#[test]
fn shipped_kernels() {
    play(&["shipped"]);
}

#[test]
fn shipped_kernels_for_decoding_and_their_mistakes() {
    play_in_full("shipped_decode");
}

#[test]
fn shipped_kernels_for_tensor_cores_and_their_mistakes() {
    play_in_full("shipped_mma");
}

#[test]
fn shipped_kernels_for_hopper_and_their_mistakes() {
    play_in_full("shipped_hopper");
}

/// What has to go on from one run of rows to the next is taken out.
#[test]
fn shipped_kernels_whose_blocks_have_several_runs() {
    play_in_full("shipped_persistent");
}

/// A wait, an arrival or a barrier is taken out.
#[test]
fn shipped_kernels_with_clusters_of_several_blocks() {
    play_in_full("shipped_clusters");
}

#[test]
fn every_list_of_rows_is_played() {
    let lists = fs::read_dir(data("kernels")).unwrap().map(|entry| entry.unwrap().path());
    let lists = lists.filter(|path| path.join("rows.toml").is_file());
    let names: BTreeSet<String> =
        lists.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(names, PLAYED.map(String::from).into());
}

#[test]
fn the_board_says_what_is_not_checked() {
    let kernel = Kernel::copy("compact");
    let words = "sweep own/space.toml --strategy exhaustive --device host --seed 3 --finalists 1";
    assert!(kernel.evo(&format!("{words} {BRIEF}")).output().unwrap().status.success());
    let board = kernel.evo("leaderboard --json").output().unwrap();
    let words = "`y` is compared in ascending order: which place holds which element is not checked";
    assert!(String::from_utf8_lossy(&board.stdout).contains(words), "{board:?}");
    let board = kernel.evo("leaderboard").output().unwrap();
    let board = String::from_utf8(board.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(board.contains(words), "{board}");
}

/// What `test-one` says of a failure leads to its explanation.
#[test]
fn a_failure_names_the_command_that_explains_it() {
    let kernel = Kernel::copy("tails");
    let evo = |words: &str| String::from_utf8(kernel.evo(words).output().unwrap().stdout).unwrap();
    let shown = evo("test-one own/space.toml FAULT=1 --device host --seed 7");
    let label = shown.split("more: `evo explain ").nth(1).unwrap_or_else(|| panic!("{shown}"));
    let label = label.split('`').next().unwrap();
    assert!(label.starts_with("wrong_answer:"), "{label}");
    let explained = evo(&format!("explain {label}"));
    assert!(explained.starts_with(&format!("{label}\n\nCause: ")), "{explained}");
    let object: Value = serde_json::from_str(&evo(&format!("explain {label} --json"))).unwrap();
    assert_eq!((&object["verdict"], &object["class"]), (&"wrong_answer".into(), &"wrong".into()));
    assert!(object["next"].as_str().unwrap().contains("multiple_of"));
}
