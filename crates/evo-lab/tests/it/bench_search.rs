//! `evo-lab bench-search` on recordings: scores that do not change unnoticed, traces, and what it refuses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A recording in the data folder that the workspace's tests share.
const RECORDING: &str = "stencil__invented.json";

fn shared_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data")
}

/// A file of the laboratory's own test data.
fn own_data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name).display().to_string()
}

/// Runs `evo-lab bench-search` with these words in the shared data folder: exit code, stdout, stderr.
fn bench_search(words: &str) -> (i32, String, String) {
    let mut command = assert_cmd::Command::cargo_bin("evo-lab").unwrap();
    let command = command.current_dir(shared_data()).arg("bench-search");
    let output = command.args(words.split(' ')).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn bench_json(words: &str) -> Value {
    let (code, stdout, stderr) = bench_search(&format!("{words} --json"));
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// The regression test of search quality: a change to a strategy shows here what it does to the scores. The models of the
/// default strategy use the machine's mathematics library, so the last digits, and with them a choice or two, may differ
/// from machine to machine.
#[test]
fn scores_on_the_invented_recording_are_the_known_ones() {
    for (name, runs, known, within) in [("evolve", "8", 0.891, 0.03), ("random", "30", -0.065, 0.005)] {
        let words = format!("--data {RECORDING} --strategy {name} --runs {runs} --no-overhead");
        let answer = bench_json(&words);
        let score = answer["strategies"][name]["score"].as_f64().unwrap();
        assert!((score - known).abs() < within, "`{name}` scores {score:.3}, not {known} as before");
        let spaces = answer["strategies"][name]["spaces"].as_object().unwrap();
        let is_found = spaces.values().all(|space| space["within_1_percent"]["runs_stuck"] == 0);
        assert!(is_found || name == "random", "{answer}");
    }
    let words = format!("--data {RECORDING} --strategy evolve,random --runs 2 --no-overhead");
    assert_eq!(bench_json(&words), bench_json(&words), "it depends on something besides the seed");
}

#[test]
fn tables_show_each_space_and_compare_strategies() {
    let words = format!("--data {RECORDING} --strategy random,exhaustive,random --runs 3");
    let (code, stdout, _) = bench_search(&format!("{words} --no-overhead --batch 4"));
    assert_eq!(code, 0);
    insta::assert_snapshot!(stdout, @"
    random                     score  evals 5 %  stuck  evals 1 %  stuck  own time median, p95
    stencil__invented          0.344        114    0 %        114    0 %           not counted
    all                0.344 ± 0.475

    exhaustive                 score  evals 5 %  stuck  evals 1 %  stuck  own time median, p95
    stencil__invented          0.344        114    0 %        114    0 %           not counted
    all                0.344 ± 0.475

    strategy    score  spread  stuck 5 %  stuck 1 %  own time median, p95              worst space
    random      0.344   0.475        0 %        0 %           not counted  0.344 stencil__invented
    exhaustive  0.344   0.475        0 %        0 %           not counted  0.344 stencil__invented

    score: 0 is random search, 1 the optimum from the first moment; evals: median of the evaluations until the best is
    within 5 % and 1 % of the optimum, and runs that do not get there in time; own time: the strategy's, per proposal
    ");
    let (_, stdout, _) = bench_search(&words);
    let row = stdout.lines().find(|line| line.starts_with("stencil__invented")).unwrap();
    assert!(row.ends_with(" ms") && row.matches(" ms").count() == 2, "{row}");
}

#[test]
fn traces_hold_every_run_with_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let words =
        format!("--data {RECORDING} --strategy random,exhaustive --runs 2 --trace {}", path.display());
    assert_eq!(bench_search(&words).0, 0);
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names = lines.iter().map(|line| (line["tool"].as_str().unwrap(), line["run"].as_u64().unwrap()));
    assert!(names.eq([("random", 0), ("random", 1), ("exhaustive", 0), ("exhaustive", 1)]));
    for line in &lines {
        assert_eq!(line["dataset"], "stencil__invented");
        let [evals, times] = ["evals", "overhead_ms"].map(|key| line[key].as_array().unwrap());
        assert!(evals.len() > 100 && evals.iter().all(|row| row.as_u64().unwrap() < 672));
        assert_eq!(evals.len(), times.len());
    }
    assert_ne!(lines[0]["evals"], lines[1]["evals"]);
}

/// What is said on stderr of words that are refused.
#[track_caller]
fn refused(words: &str) -> String {
    let (code, stdout, stderr) = bench_search(words);
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
    stderr
}

#[test]
fn what_is_wrong_is_said_with_a_hint() {
    let unknown = refused(&format!("--data {RECORDING} --strategy random,evolv"));
    let words = "error: unknown strategy `evolv`\nhint: did you mean `evolve`?";
    assert!(unknown.starts_with(words), "{unknown}");
    insta::assert_snapshot!(refused("--data nowhere --strategy random"), @"
    error: cannot read `nowhere`: No such file or directory (os error 2)
    hint: `--data` takes recordings and folders of them
    ");
    insta::assert_snapshot!(refused("--data rounds --strategy random"), @"
    error: no recordings in the folder `rounds`
    hint: recordings are files whose names end in `.json.gz` or `.json`
    ");
    insta::assert_snapshot!(refused(&format!("--data {RECORDING} {RECORDING} --strategy random")), @"error: `stencil__invented.json` holds `stencil__invented` a second time");
    insta::assert_snapshot!(refused(&format!("--data {RECORDING} --strategy random --trace nowhere/trace")), @"error: cannot write the trace `nowhere/trace`: No such file or directory (os error 2)");
    let few = refused(&format!("--data {RECORDING}"));
    assert!(few.contains("--strategy"), "{few}");
}

#[test]
fn recordings_with_gaps_are_not_scored() {
    let folder = tempfile::tempdir().unwrap();
    let whole = shared_data().join(RECORDING);
    let text = std::fs::read_to_string(whole).unwrap();
    let looser = text.replace("\"BLOCK_X * BLOCK_Y >= 32\"", "\"BLOCK_X * BLOCK_Y >= 16\"");
    let path = folder.path().join("stencil__gaps.json");
    std::fs::write(&path, looser.replace("\"exhaustive\": true", "\"exhaustive\": false")).unwrap();
    let refused = |data: &Path| {
        let stderr = refused(&format!("--data {} --strategy random", data.display()));
        stderr.replace(folder.path().to_str().unwrap(), "FOLDER")
    };
    insta::assert_snapshot!(refused(&path), @"error: cannot score `FOLDER/stencil__gaps.json`: it holds 672 of its space's 728 configurations, so its optimum is unknown");
    // In a folder it is left out; here nothing else is left.
    insta::assert_snapshot!(refused(folder.path()), @"
    note: left out: cannot score `FOLDER/stencil__gaps.json`: it holds 672 of its space's 728 configurations, so its optimum is unknown
    error: no recording can be scored
    hint: `--data` takes recordings of whole spaces
    ");
}

#[test]
fn scores_are_those_of_the_reference_scorer() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let shared = PathBuf::from(std::env::var("EVO_SHARED").unwrap_or_else(|_| beside.to_string()));
    let scorer = shared.join("search_score/score.py");
    if !scorer.exists() || Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: no `python3`, or no `{}`", scorer.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_string();
    // Spaces with a small budget: the reference scorer is slow.
    let spaces = ["convolution-old__RTX3090", "convolution__A4000", "dedispersion__A4000"];
    let data = spaces.map(|name| path(&shared.join("tuning_data").join(format!("{name}.json.gz"))));
    let trace = path(&folder.path().join("trace.jsonl.gz"));
    let ours =
        bench_json(&format!("--strategy random,evolve --runs 5 --trace {trace} --data {}", data.join(" ")));
    let scores = folder.path().join("scores.json");
    // Two hundred bootstrap samples for each of five runs are as many as ours, and leave little noise.
    let scored = Command::new("python3")
        .arg(scorer)
        .args(data.iter().flat_map(|file| ["--data", file.as_str()]))
        .args(["--trace", &trace, "--rounds", "200", "--json"])
        .arg(&scores)
        .output()
        .unwrap();
    assert!(scored.status.success(), "{}", String::from_utf8_lossy(&scored.stderr));
    compare(&ours, &serde_json::from_str(&std::fs::read_to_string(scores).unwrap()).unwrap());
}

/// Our answer and the reference scorer's, which must be the same within 0.01.
fn compare(ours: &Value, theirs: &BTreeMap<String, Value>) {
    assert_eq!(theirs.len(), 2);
    for (tool, theirs) in theirs {
        let ours = &ours["strategies"][tool];
        let near = |ours: &Value, theirs: &Value, what: &str| {
            let [ours, theirs] = [ours, theirs].map(|value| value.as_f64().unwrap());
            assert!((ours - theirs).abs() < 0.01, "{tool} {what}: {ours}, reference {theirs}");
        };
        near(&ours["score"], &theirs["score"], "score");
        near(&ours["spread"], &theirs["spread_over_time"], "spread");
        for (name, theirs) in theirs["spaces"].as_object().unwrap() {
            let ours = &ours["spaces"][name];
            near(&ours["score"], &theirs["score"], name);
            for (percent, tolerance) in
                [("within_5_percent", "evals_0.05"), ("within_1_percent", "evals_0.01")]
            {
                let (ours, theirs) = (&ours[percent]["evaluations_median"], &theirs[tolerance]);
                assert_eq!(ours.as_f64(), theirs.as_f64(), "{tool} {name} {percent}");
            }
            for (count, name) in [("illegal", "illegal"), ("failures", "invalid"), ("distinct", "unique")] {
                near(&ours["per_run"][count], &theirs[name], count);
            }
        }
    }
}

fn judging() -> String {
    format!("--data {RECORDING} --judge {}", own_data("traces.jsonl"))
}

/// What the reference scorer says of these traces on the invented recording with `--rounds 200`. Kept as a file,
/// so that our scores are compared with it where the scorer is not at hand.
#[test]
fn scores_of_traces_are_those_that_the_reference_scorer_gave() {
    let kept = std::fs::read_to_string(own_data("reference_scores.json")).unwrap();
    let theirs: BTreeMap<String, Value> = serde_json::from_str(&kept).unwrap();
    compare(&bench_json(&judging()), &theirs);
}

#[test]
fn traces_of_other_tools_are_judged_in_the_same_table() {
    let answer = bench_json(&format!("{} --strategy random --runs 2", judging()));
    let names: Vec<&String> = answer["strategies"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["random", "walker", "guesser"]);
    let on_space = |name: &str| answer["strategies"][name]["spaces"]["stencil__invented"].clone();
    // The walker asks again for what it knows, the guesser for what is not allowed; our own never do.
    for (name, repeats, illegal) in
        [("walker", true, false), ("guesser", true, true), ("random", false, false)]
    {
        let per_run = on_space(name)["per_run"].clone();
        let some = |count: &str| per_run[count].as_f64().unwrap() > 0.0;
        assert_eq!((some("repeats"), some("illegal"), some("failures")), (repeats, illegal, true), "{name}");
    }
    assert_eq!(on_space("walker")["own_time"]["median_ms"], 0.25);
    let timeless = bench_json(&format!("{} --no-overhead", judging()));
    assert_eq!(timeless["strategies"]["walker"]["own_time"], Value::Null);
    let (code, stdout, _) = bench_search(&judging());
    assert!(code == 0 && stdout.contains("\nwalker ") && stdout.contains("\nguesser "), "{stdout}");
}

#[test]
fn traces_that_cannot_be_judged_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let judging = |text: &str, more: &str| {
        std::fs::write(&path, text).unwrap();
        format!("--data {RECORDING} --judge {}{more}", path.display())
    };
    let refused = |text: &str, more: &str| {
        refused(&judging(text, more)).replace(folder.path().to_str().unwrap(), "FOLDER")
    };
    let line = |rest: &str| format!("{{\"tool\":\"random\",\"dataset\":\"stencil__invented\",{rest}}}\n");
    let kind = refused(&line("\"evals\":[1,null]"), "");
    let words = "error: cannot judge the trace `FOLDER/trace.jsonl`: line 1: invalid type: null";
    assert!(kind.starts_with(words), "{kind}");
    insta::assert_snapshot!(refused(&line("\"evals\":[1]"), " --strategy random"), @"
    error: the trace `FOLDER/trace.jsonl` holds runs of `random`, which runs here as well
    hint: leave it out of `--strategy`, or give the trace's `tool` another name
    ");
    insta::assert_snapshot!(refused(&line("\"run\":3,\"evals\":[1]").repeat(2), ""), @"
    error: the trace `FOLDER/trace.jsonl`, line 2, holds run 3 of `random` on `stencil__invented` a second time
    hint: name each trace once, and number the runs of a tool on a space from 0 or not at all
    ");
    insta::assert_snapshot!(refused("{\"dataset\":\"elsewhere\",\"evals\":[1]}", ""), @"
    note: left out: 1 runs on `elsewhere`, which is not among the recordings
    error: the traces hold no run on any of the recordings
    hint: a line's `dataset` is `kernel__gpu`
    ");
    let (code, _, stderr) =
        bench_search(&judging(&line("\"evals\":[1,2,3]"), " --strategy exhaustive --runs 1"));
    assert_eq!((code, stderr.as_str()), (0, ""));
}

#[test]
fn the_help_shows_what_has_to_be_given() {
    let (code, help, _) = bench_search("--help");
    assert_eq!(code, 0);
    for form in [
        "bench-search --strategy <NAME>... --data <DIR|FILE>... [OPTIONS]\n",
        "bench-search --judge <FILE>... --data <DIR|FILE>... [OPTIONS]\n",
    ] {
        assert!(help.contains(form), "no `{form}` in {help}");
    }
}
