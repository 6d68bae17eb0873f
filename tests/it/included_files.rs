//! Files that kernels and references include belong to what is judged: an edit is judged again, and
//! results from before and after it are never mixed.

use std::collections::BTreeMap;
use std::fs;

use evo::journal::reader;
use evo::journal::replay::History;
use evo_protocol::evaluation::Evaluation;

use crate::support::BRIEF;
use crate::sweep::{Bench, KERNEL, NAIVE, SPACE, text};

/// The kernel multiplies by what `inc/op.h` says; the reference by what `inc/right.h` says.
fn bench() -> Bench {
    let bench = Bench::new();
    let folder = bench.path();
    fs::create_dir(folder.join("inc")).unwrap();
    let kernel = format!("#include \"op.h\"\n{}", KERNEL.replace("FACTOR * x[j]", "OP(x[j])"));
    let naive = format!("#include <right.h>\n{}", NAIVE.replace("2.0f * x[i]", "RIGHT(x[i])"));
    let space = SPACE
        .replace("source = \"scale.cu\"", "source = \"scale.cu\"\noptions = [\"-Iinc\"]")
        .replace("FACTOR = { values = [2, 3], default = 2, help = \"3 is a wrong answer\" }\n", "");
    for (name, text) in [
        ("scale.cu", kernel.as_str()),
        ("naive.cu", &naive),
        ("scale.toml", &space),
        ("inc/op.h", "#include \"deep.h\"\n#define OP(x) (DEEP * (x))\n"),
        ("inc/deep.h", "#define DEEP 2.0f\n"),
        ("inc/right.h", "#define RIGHT(x) (2.0f * (x))\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    bench
}

/// The default configuration under all gates, briefly.
const TEST_ONE: [&str; 9] =
    ["test-one", "scale.toml", "--device", "host", "--seed", "1", "--limit", "sampling=100ms", "--json"];

fn test_one(bench: &Bench) -> (String, String) {
    let output = bench.run(&TEST_ONE);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}{}", text(&output.stdout), text(&output.stderr)));
    let of = |key: &str| value[key].as_str().unwrap_or_default().to_string();
    (of("verdict"), of("source_hash"))
}

fn evaluations(bench: &Bench, study: &str) -> BTreeMap<String, Evaluation> {
    let path = bench.path().join("evidence").join(study).join("journal.jsonl");
    let history = History::replay(reader::read(&path).unwrap());
    history.evaluations.into_iter().map(|one| (one.configuration.to_string(), one)).collect()
}

#[test]
fn an_edited_header_is_judged_again_in_the_same_cache() {
    let bench = bench();
    let (verdict, source) = test_one(&bench);
    assert_eq!(verdict, "pass");
    // The edit is in a header that a header includes.
    fs::write(bench.path().join("inc/deep.h"), "#define DEEP 3.0f\n").unwrap();
    let (verdict, edited) = test_one(&bench);
    assert_eq!(verdict, "wrong_answer");
    assert_ne!(source, edited);
    fs::write(bench.path().join("inc/deep.h"), "#define DEEP 2.0f\n").unwrap();
    assert_eq!(test_one(&bench), ("pass".to_string(), source));
}

#[test]
fn an_edited_header_of_the_reference_is_judged_again() {
    let bench = bench();
    assert_eq!(test_one(&bench).0, "pass");
    fs::write(bench.path().join("inc/right.h"), "#define RIGHT(x) (4.0f * (x))\n").unwrap();
    assert_eq!(test_one(&bench).0, "wrong_answer");
}

#[test]
fn a_macro_in_the_compilers_command_is_judged_again() {
    let bench = bench();
    fs::write(bench.path().join("inc/deep.h"), "#define DEEP X\n").unwrap();
    for (cxx, verdict) in
        [("c++ -DX=2.0f", "pass"), ("c++ -DX=3.0f", "wrong_answer"), ("c++ -DX=2.0f", "pass")]
    {
        let output = bench.command(&TEST_ONE).env("CXX", cxx).output().unwrap();
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["verdict"], verdict, "{cxx}");
    }
}

#[test]
fn studies_before_and_after_an_edit_share_nothing() {
    let bench = bench();
    let run = |words: &[&str]| bench.run(words);
    let words = format!("sweep scale.toml --device host --seed 1 --finalists 1 --no-prior {BRIEF}");
    let sweep: Vec<&str> = words.split(' ').collect();
    let first = run(&[&sweep[..], &["--study", "first"]].concat());
    assert!(first.status.success(), "{}", text(&first.stderr));
    for (header, wanted) in [("op.h", "`inc/op.h` has changed"), ("right.h", "`inc/right.h` has changed")] {
        let path = bench.path().join("inc").join(header);
        let before = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("// edited\n{before}")).unwrap();
        let resumed = run(&[&sweep[..], &["--study", "first", "--resume"]].concat());
        let message = text(&resumed.stderr);
        assert!(resumed.status.success() && message.contains(wanted), "{message}");
        fs::write(&path, before).unwrap();
    }
    fs::write(bench.path().join("inc/new.h"), "").unwrap();
    fs::write(bench.path().join("inc/deep.h"), "#define DEEP 2.0f\n#include \"new.h\"\n").unwrap();
    let second = run(&[&sweep[..], &["--study", "second"]].concat());
    assert!(second.status.success(), "{}", text(&second.stderr));
    let (first, second) = (evaluations(&bench, "first"), evaluations(&bench, "second"));
    assert_eq!(first.len(), second.len());
    for (name, one) in &first {
        assert_ne!(one.source_hash, second[name].source_hash, "{name}");
    }
    let board: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.path().join("evidence/leaderboard.json")).unwrap()).unwrap();
    // The first study as it began and after each of two edits, and the second.
    assert_eq!(board["sections"].as_array().unwrap().len(), 4, "another space is another section");
}
