//! Loops of the host's as data: repeated launches with numbers of their own and buffers that change places.

use std::fs;

use evo::kernel::load::load_file;
use evo::kernel::resolve::resolve;
use evo_protocol::plan::{ArgumentRef, ProblemPlan};
use evo_protocol::verdict::Verdict;
use serde_json::Value;

use crate::support::{BRIEF, evo};

const KERNEL: &str = r#"extern "C" __global__ void smooth(const float* u, float* v, float weight, int t, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    float left = i > 0 ? u[i - 1] : 0.0f, right = i + 1 < n ? u[i + 1] : 0.0f;
    v[i] = u[i] + weight * (left - 2.0f * u[i] + right);
}
extern "C" __global__ void decay(float* v, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) v[i] = 0.875f * v[i];
}
"#;

const NAIVE: &str = r#"extern "C" __global__ void naive_smooth(const float* u, float* v, float weight, int n) {
    for (int i = 0; i < n; ++i) {
        double left = i > 0 ? u[i - 1] : 0.0, right = i + 1 < n ? u[i + 1] : 0.0;
        v[i] = u[i] + (double)weight * (left - 2.0 * u[i] + right);
    }
}
extern "C" __global__ void naive_decay(float* v, int n) {
    for (int i = 0; i < n; ++i) v[i] = 0.875 * v[i];
}
"#;

const SPACE: &str = r#"[kernel]
name = "heat"
source = "heat.cu"
[parameters]
BLOCK = [64, 128]
[[arguments]]
name = "u"
dtype = "f32"
shape = ["N"]
role = "inout"
[[arguments]]
name = "v"
dtype = "f32"
shape = ["N"]
role = "inout"
[[arguments]]
name = "n"
dtype = "i32"
value = "N"
[[launches]]
repeat = "STEPS"
index = "t"
swap = ["u", "v"]
body = [
    { entry = "smooth", grid = "ceil_div(N, BLOCK)", block = "BLOCK", arguments = [
        "u", "v", { value = "0.125 + 0.25 / (t + 1)", dtype = "f32" }, { value = "t", dtype = "i32" }, "n" ] },
    { entry = "decay", grid = "ceil_div(N, BLOCK)", block = "BLOCK", when = "t % 2 == 1", arguments = ["v", "n"] },
]
[[problems]]
name = "long"
sizes = { N = 2000, STEPS = 16 }
[[problems]]
name = "odd"
sizes = { N = 77, STEPS = 3 }
timed = false
[check]
seeds = 1
repeats = 2
tiny = [{ N = 1, STEPS = 1 }, { N = 67, STEPS = 2 }, { N = 5, STEPS = 0 }]
[check.reference]
source = "naive.cu"
launches = [
    { repeat = "STEPS", index = "k", swap = [["u", "v"]], body = [
        { entry = "naive_smooth", grid = 1, block = 1, arguments = [
            "u", "v", { value = "0.125 + 0.25 / (k + 1)", dtype = "f32" }, "n" ] },
        { entry = "naive_decay", grid = 1, block = 1, when = "k % 2 == 1", arguments = ["v", "n"] },
    ] },
]
"#;

fn folder(space: &str, kernel: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("heat.toml", space), ("heat.cu", kernel), ("naive.cu", NAIVE)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn verdict(space: &str, kernel: &str) -> (String, String) {
    let folder = folder(space, kernel);
    let words = format!("test-one ./heat.toml --device host --seed 3 {BRIEF} --json");
    let output = evo(folder.path(), &words).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let text = |key: &str| answer["result"][key].as_str().unwrap_or_default().to_string();
    (text("verdict"), text("message"))
}

fn plan(space: &str, problem: usize) -> Result<ProblemPlan, Box<Verdict>> {
    let folder = folder(space, KERNEL);
    let file = load_file(&folder.path().join("heat.toml")).unwrap_or_else(|error| panic!("{error}"));
    let kernel = file.kernel.as_ref().unwrap();
    resolve(kernel, &file.space.configuration(&file.space.default_genome()), &kernel.problems[problem])
}

fn message(from: &str, to: &str) -> String {
    let folder = folder(&changed(SPACE, from, to), KERNEL);
    let path = folder.path().join("heat.toml");
    let shown = load_file(&path).map_or_else(|error| error.to_string(), |_| "no error".to_string());
    shown.replace(&format!("{}/", folder.path().display()), "")
}

fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "there is no {from:?}");
    text.replacen(from, to, 1)
}

#[test]
fn a_plan_has_each_launch_with_its_own_numbers_and_buffers() {
    let own = plan(SPACE, 1).unwrap();
    let seen: Vec<(&str, &[ArgumentRef])> =
        own.launches.iter().map(|launch| (launch.entry.as_str(), &launch.arguments[..])).collect();
    let (u, v, n) = (ArgumentRef::Buffer(0), ArgumentRef::Buffer(1), ArgumentRef::Scalar(0));
    let number = ArgumentRef::Literal;
    let expected: [(&str, &[ArgumentRef]); 4] = [
        ("smooth", &[u, v, number(0), number(1), n]),
        ("smooth", &[v, u, number(2), number(3), n]),
        ("decay", &[u, n]),
        ("smooth", &[u, v, number(4), number(5), n]),
    ];
    assert_eq!(seen, expected);
    let values: Vec<f64> = own.literals.iter().map(|own| own.value).collect();
    assert_eq!(values[..6], [0.375, 0.0, 0.25, 1.0, 0.125 + 0.25 / 3.0, 2.0]);
    // The reference's numbers are the same values of other launches.
    assert_eq!(own.reference_launches.len(), 4);
    assert_eq!(own.reference_launches[2].arguments, [u, n]);
    assert_eq!(plan(SPACE, 0).unwrap().launches.len(), 24);
}

#[test]
fn buffers_stay_where_a_loop_has_left_them() {
    let after = "[[launches]]\nentry = \"decay\"\ngrid = 1\nblock = \"BLOCK\"\narguments = [\"v\", \"n\"]\n[[problems]]\nname = \"long\"";
    let own = plan(&changed(SPACE, "[[problems]]\nname = \"long\"", after), 1).unwrap();
    assert_eq!(own.launches.last().unwrap().arguments[0], ArgumentRef::Buffer(0));
}

#[test]
fn an_honest_loop_passes_every_gate() {
    let (label, message) = verdict(SPACE, KERNEL);
    assert_eq!(label, "pass", "{message}");
}

/// What is sent of each launch, to the executor and back from the worker, is neither too long nor the kernel's time.
#[test]
fn thousands_of_launches_are_judged_and_timed() {
    let many = changed(SPACE, "sizes = { N = 2000, STEPS = 16 }", "sizes = { N = 64, STEPS = 1500 }");
    let (label, message) = verdict(&many, KERNEL);
    assert_eq!(label, "pass", "{message}");
}

#[test]
fn a_kernel_that_leaves_a_step_out_is_caught() {
    // The last of the sixteen steps of the timed problem, which small shapes do not have.
    let skips = changed(
        KERNEL,
        "    if (i >= n) return;\n",
        "    if (i >= n) return;\n    if (t == 15) { v[i] = u[i]; return; }\n",
    );
    let (label, message) = verdict(SPACE, &skips);
    assert!(label.starts_with("wrong_answer"), "{label}: {message}");
    let never_swapped = changed(SPACE, "swap = [\"u\", \"v\"]\n", "");
    let (label, message) = verdict(&never_swapped, KERNEL);
    assert!(label.starts_with("wrong_answer"), "{label}: {message}");
}

#[test]
fn more_launches_than_a_plan_holds_are_refused() {
    insta::assert_snapshot!(message("repeat = \"STEPS\"\nindex", "repeat = \"STEPS * 200\"\nindex"), @r#"
    error: repeat of launch `smooth` = `STEPS * 200` is 3200: 6400 launches, and a call has at most 4096, in problem `long`
      --> heat.toml:21:10
       |
    21 | repeat = "STEPS * 200"
       |          ^^^^^^^^^^^^^
       |
       = hint: this is the default configuration: BLOCK=64
    "#);
    let negative = message("repeat = \"STEPS\"\nindex", "repeat = \"STEPS - 4\"\nindex");
    assert!(negative.contains("`STEPS - 4` is -1, expected 0 or more, in problem `odd`"), "{negative}");
}

#[test]
fn mistakes_in_a_file_have_a_place_and_a_way_out() {
    insta::assert_snapshot!(message("repeat = \"STEPS\"\nindex = \"t\"", "index = \"t\""), @r#"
    error: a loop of launches has no `repeat`
      --> heat.toml:20:1
       |
    20 | [[launches]]
       | ^^^^^^^^^^^^
       |
       = hint: add repeat = "STEPS", how often
    "#);
    insta::assert_snapshot!(message("index = \"t\"", "index = \"N\""), @r#"
    error: `index` of a loop of launches is `N`, which is a size
      --> heat.toml:22:9
       |
    22 | index = "N"
       |         ^^^
       |
       = hint: choose another name; expressions of the launch read under it which time it is, from 0

    error: `value` of entry 3 of `arguments` of launch `smooth`: unknown name `t`
      --> heat.toml:26:46
       |
    26 |         "u", "v", { value = "0.125 + 0.25 / (t + 1)", dtype = "f32" }, { value = "t", dtype = "i32" }, "n" ] },
       |                                              ^
       |
       = hint: known names: BLOCK, N, STEPS

    error: `value` of entry 4 of `arguments` of launch `smooth`: unknown name `t`
      --> heat.toml:26:83
       |
    26 |         "u", "v", { value = "0.125 + 0.25 / (t + 1)", dtype = "f32" }, { value = "t", dtype = "i32" }, "n" ] },
       |                                                                                   ^
       |
       = hint: known names: BLOCK, N, STEPS

    error: `when` of launch `decay`: unknown name `t`
      --> heat.toml:27:78
       |
    27 |     { entry = "decay", grid = "ceil_div(N, BLOCK)", block = "BLOCK", when = "t % 2 == 1", arguments = ["v", "n"] },
       |                                                                              ^
       |
       = hint: known names: BLOCK, N, STEPS
    "#);
    insta::assert_snapshot!(message("swap = [\"u\", \"v\"]\nbody", "swap = [\"u\", \"n\"]\nbody"), @r#"
    error: `swap` names `n`, which is not passed as a pointer
      --> heat.toml:23:8
       |
    23 | swap = ["u", "n"]
       |        ^^^^^^^^^^
       |
       = hint: two buffers of one type change places
    "#);
}

#[test]
fn mistakes_in_what_a_launch_is_given_have_a_place() {
    insta::assert_snapshot!(message("\"u\", \"v\", { value = \"0.125", "\"u\", 4, { value = \"0.125"), @r#"
    error: `arguments` of launch `smooth` has a number without a type
      --> heat.toml:26:14
       |
    26 |         "u", 4, { value = "0.125 + 0.25 / (t + 1)", dtype = "f32" }, { value = "t", dtype = "i32" }, "n" ] },
       |              ^
       |
       = hint: give its type: { value = 1, dtype = "i32" }
    "#);
    insta::assert_snapshot!(message("when = \"t % 2 == 1\"", "when = \"s % 2 == 1\""), @r#"
    error: `when` of launch `decay`: unknown name `s`
      --> heat.toml:27:78
       |
    27 |     { entry = "decay", grid = "ceil_div(N, BLOCK)", block = "BLOCK", when = "s % 2 == 1", arguments = ["v", "n"] },
       |                                                                              ^
       |
       = hint: known names: BLOCK, N, STEPS, t
    "#);
}
