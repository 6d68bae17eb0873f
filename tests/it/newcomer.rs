//! What people who use evo for the first time run into: files of the wrong kind, mistyped names, programs that only look
//! like compilers. Each gets one clear message, and what they were probably after.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::json_schema::{fault, unlisted};
use crate::support::{self, BRIEF, answer};

const KERNEL: &str = include_str!("../data/kernels/scale_new/scale.cu");
const NAIVE: &str = include_str!("../data/kernels/scale_new/naive.cu");

const SPACE: &str = include_str!("../data/kernels/scale_new/space.toml");

struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        desk.write("scale.cu", KERNEL);
        desk.write("naive.cu", NAIVE);
        desk.write("scale.toml", SPACE);
        desk
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn command(&self, words: &str) -> Command {
        let is_timed = words.starts_with("sweep") || words.starts_with("test-one");
        let brief = if is_timed && !words.contains("--limit") { BRIEF } else { "" };
        support::evo(self.path(), &format!("{words} {brief}"))
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// What it prints for one configuration on the host device.
    fn tested(&self, words: &str) -> String {
        out(&self.run(&format!("test-one {words} --device host")))
    }

    fn object(&self, words: &str) -> Value {
        serde_json::from_str(&out(&self.run(&format!("{words} --json")))).unwrap()
    }

    /// A sweep on the host device that confirms nothing.
    fn swept(&self, words: &str) -> Output {
        self.run(&format!("sweep scale.toml --device host --finalists 0 {words}"))
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn check(output: &Output, code: i32, said: &str) {
    let message = err(output);
    assert_eq!(output.status.code(), Some(code), "{message}{}", out(output));
    assert!(message.contains(said), "no `{said}` in: {message}");
    assert!(message.lines().count() <= 6, "{message}");
}

#[test]
fn a_program_that_is_not_a_compiler_does_not_pass_preflight() {
    let desk = Desk::new();
    let output = desk.command("preflight --device host").env("CXX", "/bin/cat").output().unwrap();
    let text = out(&output);
    assert_ne!(output.status.code(), Some(0), "{text}");
    let expected = "MISSING c++ compiler  `/bin/cat` (";
    assert!(text.contains(expected) && text.contains("does not compile: "), "{text}");
    assert!(text.ends_with("not ready for `--device host`\n"), "{text}");
}

#[test]
fn preflight_for_a_gpu_prints_its_table_without_one() {
    let desk = Desk::new();
    let output = desk.run("preflight --device cuda");
    // A machine with a GPU has the table as well.
    let text = out(&output);
    assert!(
        text.contains(" gpu  ") && text.contains(" nvrtc  ") && text.contains("for `--device cuda`\n"),
        "{text}"
    );
}

#[test]
fn a_mistyped_entry_names_those_that_are_there() {
    let desk = Desk::new();
    desk.write("typo.toml", &SPACE.replace("entry = \"scale\"", "entry = \"scael\""));
    let output = desk.run("test-one typo.toml --device host");
    let text = out(&output);
    let expected = "verdict: compile_error:entry: no single kernel `scael` in `scale.cu`; it has scale\n";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("not declared"), "{text}");
}

#[test]
fn a_mistake_in_the_source_is_shown_once() {
    let desk = Desk::new();
    desk.write("scale.cu", &KERNEL.replace("y[i]", "z[i]"));
    let text = desk.tested("scale.toml");
    // In the gate's row, in the verdict, and in the compiler's own words, of which only these have the line.
    assert_eq!(text.matches("z[i] = 2.0f").count(), 1, "{text}");
    assert!(!text.contains("unit.cpp"), "{text}");
}

#[test]
fn the_host_refuses_options_that_a_gpus_compiler_would_refuse() {
    let desk = Desk::new();
    desk.write("options.toml", &SPACE.replace("[kernel]\n", "[kernel]\noptions = [\"--use_fast_mth\"]\n"));
    let text = desk.tested("options.toml");
    let expected = "verdict: compile_error:option: `--use_fast_mth` is not an option of NVRTC, the compiler for \
                    CUDA: did you mean `--use_fast_math`?\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn an_invalid_point_comes_with_the_nearest_valid_one() {
    let desk = Desk::new();
    let text = desk.tested("scale.toml 64");
    assert!(text.contains("verdict: rejected_constraint: violates `BLOCK != 64`: 64 is unlucky\n"), "{text}");
    let near = text.lines().find_map(|line| line.trim().strip_prefix("nearest_valid: ")).unwrap();
    assert!(["BLOCK=32", "BLOCK=128"].contains(&near), "{text}");
}

#[test]
fn an_invalid_default_gives_way_to_the_nearest_valid_point() {
    let desk = Desk::new();
    desk.write("scale.toml", &SPACE.replace("BLOCK = [32, 64, 128]", "BLOCK = [64, 32, 16]"));
    let note = "note: in `scale.toml` the default configuration violates `BLOCK != 64`, so the nearest valid \
                point takes its place: BLOCK=32 instead of 64\n";
    let tried = desk.run("test-one scale.toml --device host");
    assert_eq!((tried.status.code(), err(&tried).matches(note).count()), (Some(0), 1), "{}", err(&tried));
    assert!(out(&tried).contains("BLOCK=32"), "{}", out(&tried));
    let tried = desk.run("test-one scale.toml --device host --json");
    let object: Value = serde_json::from_str(&out(&tried)).unwrap();
    assert_eq!(object["candidate"]["configuration"]["BLOCK"], 32);
    assert!(object["candidate"]["default_replaced"].as_str().unwrap().ends_with("BLOCK=32 instead of 64"));

    let shown = desk.run("space scale.toml");
    assert_eq!(err(&shown).matches(note).count(), 1, "{}", err(&shown));
    assert!(out(&shown).contains("default    valid, in the place of BLOCK=64\n"), "{}", out(&shown));
    let object: Value = desk.object("space scale.toml");
    assert_eq!((&object["default"]["BLOCK"], &object["default_stated"]["BLOCK"]), (&32.into(), &64.into()));

    let swept = desk.swept("--gen 1 --study s");
    assert_eq!(err(&swept).matches("instead of 64").count(), 1, "{}", err(&swept));
    let study = std::fs::read_to_string(desk.path().join("evidence/s/journal.jsonl")).unwrap();
    let header: Value = serde_json::from_str(study.lines().next().unwrap()).unwrap();
    assert!(header.to_string().contains("BLOCK=32 instead of 64"), "{header}");
}

#[test]
fn a_kernel_that_adds_to_its_output_is_led_to_inout() {
    let desk = Desk::new();
    desk.write("scale.cu", &KERNEL.replace("y[i] =", "y[i] +="));
    let text = desk.tested("scale.toml");
    assert!(text.contains("give the argument role = \"inout\" and fill = { constant = 0 }"), "{text}");
}

#[test]
fn counts_of_one_are_singular_and_what_is_unknown_is_null() {
    let desk = Desk::new();
    let text = desk.tested("scale.toml");
    assert!(text.contains("verdict: pass"), "{text}");
    let is_plural = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).any(|pair| pair[0] == "1" && ["cases", "launches", "problems"].contains(&pair[1]))
    };
    assert!(!text.lines().any(is_plural), "{text}");
    let object: Value = desk.object("test-one scale.toml --device host");
    assert_eq!(object["attributes"][0]["registers"], Value::Null);
    assert!(object["facts"]["binary_bytes"].as_f64().unwrap() > 0.0, "{object}");
    assert_eq!(object["resources"][0]["registers"], Value::Null);
    let launch = &object["launches"][0];
    assert_eq!((&launch["problem"], &launch["entry"]), (&"p".into(), &"scale".into()));
    assert_eq!(
        (&launch["grid"], &launch["block"]),
        (&[32, 1, 1].as_slice().into(), &[32, 1, 1].as_slice().into())
    );
}

#[test]
fn a_rendered_source_compiles_by_itself() {
    let desk = Desk::new();
    let text = out(&desk.run("render scale.toml 128"));
    assert!(text.contains("#define BLOCK 128\n#endif\n#line 1 \"scale.cu\"\n"), "{text}");
    // A candidate's own text may not speak of other files.
    desk.write("alone.cu", &text.replace("#line 1 \"scale.cu\"\n", ""));
    let output = desk.run("test scale.toml --source alone.cu BLOCK=128 --device host");
    assert!(out(&output).contains("verdict: pass"), "{}{}", out(&output), err(&output));
}

#[test]
fn a_resume_says_what_is_new_and_never_begins_by_mistake() {
    let desk = Desk::new();
    check(
        &desk.swept("--study mine --resume"),
        2,
        "error: there is no study `mine` to resume in `evidence`\n",
    );
    assert!(!desk.path().join("evidence/mine").exists());
    let begun = desk.swept("--study mine --resume=or-begin --seed 1");
    assert_eq!(begun.status.code(), Some(0), "{}", err(&begun));
    check(&desk.swept("--study mime --resume"), 2, "hint: did you mean `mine`?");
    let resumed = err(&desk.swept("--study mine --resume --seed 2 --strategy random"));
    assert!(
        resumed.contains("note: the study was searched with seed 1 before; from now on with 2\n"),
        "{resumed}"
    );
    assert!(
        resumed.contains("note: the study was searched by `exhaustive` before; from now on by `random`\n")
    );
    let same = err(&desk.swept("--study mine --resume"));
    assert!(!same.contains("from now on"), "{same}");
}

#[test]
fn a_sweep_that_has_seen_everything_does_not_pile_up() {
    let desk = Desk::new();
    let names = || {
        let entries = std::fs::read_dir(desk.path().join("evidence")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name.starts_with("scale"));
        names.sort();
        names
    };
    desk.swept("");
    let again = err(&desk.swept(""));
    let note = "note: study `scale-host` has evaluated every configuration, so it goes on; `--study NAME` begins another";
    assert!(again.contains(note), "{again}");
    assert_eq!(names(), ["scale-host"]);
    // A new seed is a new search, and so is one of an edited kernel.
    desk.swept("--seed 5");
    assert_eq!(names(), ["scale-host", "scale-host-2"]);
    desk.write("scale.cu", &KERNEL.replace("2.0f * x[i]", "x[i] * 2.0f"));
    desk.swept("");
    assert_eq!(names(), ["scale-host", "scale-host-2", "scale-host-3"]);
}

#[test]
fn the_manual_documents_every_command() {
    let desk = Desk::new();
    let page = out(&desk.run("man"));
    assert!(page.contains(".TH evo-sweep 1") && page.contains("\\-\\-finalists"), "{page}");
}

#[test]
fn events_and_study_keep_to_their_schemas() {
    let desk = Desk::new();
    let output = desk.run("sweep scale.toml --device host --json");
    let text = out(&output);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (result, events) = lines.split_last().unwrap();
    assert_eq!(result["schema"], "evo.sweep");
    let (event, study) = (answer::schema("sweep-event"), answer::schema("study"));
    let mut seen = std::collections::BTreeSet::new();
    for line in events {
        assert_eq!(fault(&event, line), None, "{line}");
        let name = line["event"].as_str().unwrap();
        let own = event["oneOf"].as_array().unwrap();
        let own = own.iter().find(|own| own["properties"]["event"]["const"] == name).unwrap();
        assert_eq!(unlisted(&event, own, line, name), None);
        seen.insert(name);
    }
    for name in ["started", "evaluating", "finished", "confirming", "stopped"] {
        assert!(seen.contains(name), "no `{name}` in {seen:?}");
    }
    let path = desk.path().join("evidence/scale-host/study.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(fault(&study, &file), None);
    assert_eq!(unlisted(&study, &study, &file, "study"), None);
}

#[test]
fn the_end_of_a_sweep_says_what_won_or_that_nothing_was_confirmed() {
    let desk = Desk::new();
    let sweep =
        |finalists: &str| out(&desk.run(&format!("sweep scale.toml --device host --finalists {finalists}")));
    let unconfirmed = sweep("0");
    let title = unconfirmed.lines().next().unwrap();
    assert!(title.starts_with("scale on ") && title.ends_with(" · p"), "{unconfirmed}");
    assert!(
        unconfirmed.contains("\nnot confirmed: ") && unconfirmed.contains(" (screened)\n"),
        "{unconfirmed}"
    );
    let last = unconfirmed.lines().last().unwrap();
    let again =
        "confirm  evo sweep scale.toml --device host --limit sampling=100ms --study scale-host --resume";
    assert_eq!(last, again, "{unconfirmed}");
    let board = std::fs::read(desk.path().join("evidence/leaderboard.json")).unwrap();
    let board: Value = serde_json::from_slice(&board).unwrap();
    assert_eq!(board["sections"].as_array().unwrap().len(), 0, "only confirmed results enter it");
    let confirmed = out(&desk.run(last.split_once("evo ").unwrap().1));
    let is_answer = |line: &str| {
        line.starts_with("winner   BLOCK=") || line.starts_with("no variant is certainly faster")
    };
    assert!(confirmed.lines().any(is_answer) && confirmed.contains("\ntime     "), "{confirmed}");
    assert!(confirmed.contains("\nnote     times of this processor, not of a GPU"), "{confirmed}");
    assert!(confirmed.lines().count() <= 24, "{confirmed}");
    // The command is there and takes what is shown.
    let (_, words) = confirmed.lines().last().unwrap().split_once("evo ").unwrap();
    let output = desk.run(words);
    assert_eq!(output.status.code(), Some(0), "{words}: {}", err(&output));
    for made in ["app/manifest.json", "evidence/scale-host/report.html"] {
        assert!(desk.path().join(made).is_file(), "no `{made}`");
    }
}

#[test]
fn logs_have_plain_lines_and_colors_only_on_request() {
    let desk = Desk::new();
    let sweep = |set: &[(&str, &str)]| {
        let mut command = desk.command("sweep scale.toml --device host --finalists 0 --seed 1");
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(set.iter().copied());
        let output = command.output().unwrap();
        (out(&output), err(&output))
    };
    let (page, talk) = sweep(&[]);
    assert!(!page.contains('\u{1b}') && !talk.contains('\u{1b}') && !talk.contains('\r'), "{page}{talk}");
    assert!(sweep(&[("CLICOLOR_FORCE", "1")]).0.starts_with("\u{1b}[1mscale on "));
    assert!(!sweep(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).0.contains('\u{1b}'));
}

#[test]
fn odd_words_get_a_hint_of_their_own_command() {
    let desk = Desk::new();
    let check = |words: &str, parts: &[&str]| {
        let output = desk.run(words);
        let message = err(&output);
        assert_eq!(output.status.code(), Some(2), "{words}: {message}");
        for part in parts {
            assert!(message.contains(part), "{words}: no `{part}` in {message}");
        }
        assert!(!message.contains("os error"), "{message}");
    };
    check("test-one BLOCK=32 scale.toml", &["hint: a space comes first: `scale.toml`, then values"]);
    let cause = out(&desk.run("explain wrong_answer:tial"));
    assert!(cause.contains("`tial` is not a cause of it: did you mean `tail`?"), "{cause}");
}

#[test]
fn without_a_word_the_folders_only_space_file_is_meant() {
    let desk = Desk::new();
    desk.write("Cargo.toml", "[package]\n");
    let check = |words: &str, code: i32, parts: &[&str]| {
        let output = desk.run(words);
        let text = err(&output) + &out(&output);
        assert_eq!(output.status.code(), Some(code), "{words}: {text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{words}: no `{part}` in {text}"));
    };
    let note = "note: `./scale.toml` is meant, the only space file of this folder\n";
    check("render 128", 0, &[note, "#define BLOCK 128"]);
    check("space", 0, &[note, "cartesian  3"]);
    check("sweep --gen 1 --finalists 0 --device host", 0, &[note, "scale on "]);
    let unknown =
        ["error: no space `nothere` here\n", "hint: shipped: attention_simt, ", "mean `./scale.toml`?"];
    check("render nothere 64", 2, &unknown);
    check("sweep nothere", 2, &unknown);
    desk.write("scale2.toml", SPACE);
    for words in ["render 128", "sweep", "space"] {
        check(words, 2, &["several space files", "hint: name one of them: ./scale.toml, ./scale2.toml\n"]);
    }
}

#[test]
fn the_history_of_a_space_file_is_that_of_its_kernel() {
    let desk = Desk::new();
    let output = desk.run("sweep scale.toml --device host --finalists 9999999");
    let said = err(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // More finalists than variants are counted as they are.
    assert!(said.contains("1 of 1") && !said.contains("999999"), "{said}");
    for command in ["history", "summary"] {
        let output = desk.run(&format!("{command} scale.toml"));
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert!(out(&output).contains("scale on "), "{}", out(&output));
    }
}

/// A kernel that is told none of its sizes has no other shape at which a wrong tail would show.
#[test]
fn small_shapes_that_evo_does_not_find_are_no_pass() {
    let desk = Desk::new();
    let listed = "tiny = [{ N = 1 }, { N = 33 }]";
    let space = SPACE.replace("value = \"N\"", "value = \"1000\"");
    let judged = |tiny: &str, words: &str| {
        desk.write("scale.toml", &space.replace(listed, tiny));
        desk.run(&format!("test scale.toml 32 --device host {words}"))
    };
    let found = judged("", "");
    check(
        &found,
        1,
        "not run, which does not count as a pass: tiny_shapes\nhint: list small shapes as `tiny`",
    );
    assert!(out(&found).contains("no shape can be derived: no size changes of which the kernel is told"));
    for (tiny, words) in [("tiny = \"none\"", ""), ("", "--allow-not-run tiny_shapes")] {
        assert_eq!(judged(tiny, words).status.code(), Some(0), "{tiny}{words}");
    }
}
