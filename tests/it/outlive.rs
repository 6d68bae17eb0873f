//! Results outlive edits of the space file, as whole programs: what is measured anew is counted in the journals.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::sweep::{Bench, KERNEL, NAIVE, SPACE, text};

/// Two points: the default, and one that waits in vain and therefore never beats it. The kernel multiplies by what
/// `inc/op.h` says, the reference by what `inc/right.h` says.
fn bench() -> Bench {
    let bench = Bench::new();
    let folder = bench.path();
    fs::create_dir(folder.join("inc")).unwrap();
    fs::write(folder.join("inc/op.h"), "#define OP(x) (2.0f * (x))\n").unwrap();
    fs::write(folder.join("inc/right.h"), "#define RIGHT(x) (2.0f * (x))\n").unwrap();
    let naive = NAIVE.replace("2.0f * x[i]", "RIGHT(x[i])");
    fs::write(folder.join("naive.cu"), format!("#include <right.h>\n{naive}")).unwrap();
    let waits = "for (volatile int w = 0; w < 50 * WASTE; w++) {}";
    let kernel = KERNEL.replace("y[j] = FACTOR * x[j];", &format!("{{ {waits} y[j] = OP(x[j]); }}"));
    assert!(kernel.contains(waits));
    fs::write(folder.join("scale.cu"), format!("#include \"op.h\"\n{kernel}")).unwrap();
    let space = SPACE
        .replace("source = \"scale.cu\"", "source = \"scale.cu\"\noptions = [\"-Iinc\"]")
        .replace("BLOCK = { values = [32, 64]", "BLOCK = { values = [32]")
        .replace("VEC = { values = [1, 2, 4]", "VEC = { values = [1]")
        .replace(
            "FACTOR = { values = [2, 3], default = 2, help = \"3 is a wrong answer\" }",
            "WASTE = { values = [0, 1], default = 0 }",
        );
    assert!(space.contains("WASTE") && space.contains("-Iinc"));
    fs::write(folder.join("scale.toml"), space).unwrap();
    bench
}

fn edit(bench: &Bench, file: &str, from: &str, to: &str) {
    let path = bench.path().join(file);
    let before = fs::read_to_string(&path).unwrap();
    assert!(before.contains(from), "no `{from}` in {before}");
    fs::write(path, before.replace(from, to)).unwrap();
}

/// Verdicts in the journal of a study that the study measured itself.
fn measured(bench: &Bench, study: &str) -> usize {
    let path = bench.path().join("evidence").join(study).join("journal.jsonl");
    let text = fs::read_to_string(path).unwrap_or_default();
    let verdicts = text.lines().filter(|line| line.contains(r#""record":{"kind":"evaluation""#));
    verdicts.filter(|line| !line.contains(r#""taken_over_from""#)).count()
}

/// Sweeps into a study: how many variants it measured, and what was said.
fn sweep(bench: &Bench, study: &str, words: &str) -> (usize, String) {
    let before = measured(bench, study);
    let fixed = "sweep scale.toml --device host --finalists 0";
    let output = bench.run(&format!("{fixed} --study {study} {words}"));
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    (measured(bench, study) - before, said)
}

#[track_caller]
fn check(outcome: (usize, String), expected: usize, parts: &[&str]) {
    let (count, said) = outcome;
    assert_eq!(count, expected, "{said}");
    for part in parts {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
}

#[test]
fn a_fresh_sweep_measures_what_an_edit_touches() {
    let bench = bench();
    check(sweep(&bench, "first", ""), 2, &["2 evaluations (2 in this run) in "]);
    // A value more.
    edit(&bench, "scale.toml", "values = [0, 1]", "values = [0, 1, 2]");
    let told =
        ["took over 2 of 2 results measured before (study `first`, ", "; `--remeasure` measures them again"];
    let counted = "1 evaluation (1 in this run) and 2 results taken over in ";
    check(sweep(&bench, "more", ""), 1, &[told[0], told[1], counted]);
    // Two values less.
    edit(&bench, "scale.toml", "values = [0, 1, 2]", "values = [0]");
    check(sweep(&bench, "less", ""), 0, &["took over 1 of 1 result", "0 evaluations (0 in this run) and 1"]);
    // Who asks for new measurements gets them, and so does who ignores earlier studies.
    check(sweep(&bench, "again", "--remeasure"), 1, &["1 evaluation (1 in this run) in "]);
    check(sweep(&bench, "alone", "--no-prior"), 1, &["1 evaluation (1 in this run) in "]);
    // Comments are compiled again, and the machine code is known.
    edit(&bench, "inc/op.h", "#define", "// twice\n#define");
    check(sweep(&bench, "comment", ""), 0, &["0 evaluations (0 in this run) and 1 result taken over"]);
    // Another definition is other code.
    edit(&bench, "inc/op.h", "(2.0f * (x))", "(fmaf(x, 1.5f, 0.5f * (x)))");
    check(sweep(&bench, "header", ""), 1, &["none of 1 result measured before is taken over: the source"]);
}

#[test]
fn other_problems_and_other_checks_are_measured_anew() {
    let bench = bench();
    check(sweep(&bench, "first", ""), 2, &[]);
    edit(&bench, "scale.toml", "N = 4096", "N = 8192");
    check(sweep(&bench, "size", ""), 2, &["none of 2 results measured before is taken over"]);
    edit(&bench, "scale.toml", "N = 8192", "N = 4096");
    edit(&bench, "scale.toml", "[check]\n", "[check]\nrtol = 0.01\n");
    let told =
        "none of 4 earlier results of this kernel can be taken over: `check rtol` is `0.01` and was not set";
    check(sweep(&bench, "loose", ""), 2, &[told]);
    // The edit undone: what `first` measured holds again.
    edit(&bench, "scale.toml", "rtol = 0.01\n", "");
    check(sweep(&bench, "back", ""), 0, &["took over 2 of 2 results measured before (study `first`"]);
}

#[test]
fn resume_goes_on_across_edits_and_names_them() {
    let bench = bench();
    let resume = |expected, parts: &[&str]| check(sweep(&bench, "s", "--resume=or-begin"), expected, parts);
    resume(2, &["nothing to resume"]);
    edit(&bench, "scale.toml", "values = [0, 1]", "values = [0, 1, 2]");
    let told =
        ["the study was edited: parameter `WASTE`: new 2", "2 of 2 results of before the edit hold after it"];
    resume(1, &[told[0], told[1], "3 evaluations (1 in this run)"]);
    edit(&bench, "scale.toml", "BLOCK * VEC <= 128", "BLOCK * VEC * WASTE <= 32");
    let told = [
        "constraint `BLOCK * VEC <= 128` is gone; constraint `BLOCK * VEC * WASTE <= 32` is new",
        "2 of 3 results of before the edit hold after it",
    ];
    resume(0, &told);
    edit(&bench, "scale.toml", "values = [0, 1, 2]", "values = [0, 2]");
    resume(0, &["parameter `WASTE`: removed 1", "1 of 3 results of before the edit hold after it"]);
    edit(&bench, "scale.toml", "N = 4096", "N = 8192");
    edit(&bench, "scale.toml", "[check]\n", "[check]\nrtol = 0.01\n");
    resume(1, &["problem `small`: N is 8192 and was 4096", "`check rtol` is `0.01` and was not set"]);
    edit(&bench, "inc/op.h", "(2.0f * (x))", "(fmaf(x, 1.5f, 0.5f * (x)))");
    resume(1, &["the study was edited: `inc/op.h` has changed"]);
    edit(&bench, "inc/right.h", "#define", "// the same code\n#define");
    resume(0, &["the study was edited: `inc/right.h` has changed"]);
    edit(&bench, "inc/right.h", "(2.0f * (x))", "(fmaf(x, 1.5f, 0.5f * (x)))");
    resume(1, &["the study was edited: `inc/right.h` has changed"]);
    // The study ends with one point of the newest space, and `study.json` says so.
    let study = fs::read(bench.path().join("evidence/s/study.json")).unwrap();
    let study: Value = serde_json::from_slice(&study).unwrap();
    assert_eq!((&study["evaluations"], &study["header"]["format"]), (&1.into(), &2.into()));
    resume(0, &["1 evaluation (0 in this run)"]);
}

#[test]
fn another_kernel_is_refused_with_a_way_out() {
    let bench = bench();
    bench.run("sweep scale.toml --device host --study s --budget 1 --finalists 0");
    edit(&bench, "scale.toml", "name = \"scale\"", "name = \"double\"");
    let Output { status, stderr, .. } = bench.run("sweep scale.toml --device host --study s --resume");
    let said = text(&stderr);
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(
        said.contains("belongs to another kernel: it was written for `scale`, this run is `double`"),
        "{said}"
    );
    assert!(
        said.contains("nothing can be carried over: begin a new study with `--study` or `--out`"),
        "{said}"
    );
}
