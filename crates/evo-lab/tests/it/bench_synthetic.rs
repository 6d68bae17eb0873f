//! `evo-lab bench-search --synthetic` as a whole program: its tables, what depends on the seed alone, what it refuses.

use serde_json::Value;

use crate::program::bench_search;

#[test]
fn tables_compare_strategies_on_each_space_and_over_all() {
    let arguments = ["--synthetic", "switches,hidden_limits,switches", "--strategy", "exhaustive"];
    let rest = ["--runs", "3", "--evaluations", "30", "--no-overhead"];
    let (code, stdout, stderr) = bench_search(&[arguments, rest[..4].try_into().unwrap()].concat());
    assert_eq!((code, stdout.contains(" ms, ")), (0, true), "{stderr}");
    let (code, stdout, stderr) = bench_search(&[&arguments[..], &rest[..]].concat());
    assert_eq!(code, 0, "{stderr}");
    insta::assert_snapshot!(stdout, @"
    switches: 30 booleans and levels, some of which only work together; 30 parameters, 4.7e11 points
    strategy                  after 3                 after 10                 after 30        ahead  own time median, p95
    genetic    2.389 (2.389 to 2.891)   2.295 (2.295 to 2.361)   1.779 (1.779 to 2.185)         67 %           not counted
    random     2.906 (2.906 to 3.008)   2.410 (2.410 to 2.910)   2.071 (2.071 to 2.126)         33 %           not counted

    hidden_limits: no constraint tells what fails, and the optimum is next to it; 12 parameters, 8.3e10 points
    strategy                  after 3                 after 10                 after 30        ahead  own time median, p95
    genetic   4.476 (4.476 to 30.965)   2.613 (2.613 to 4.476)   2.345 (2.345 to 2.613)        100 %           not counted
    random  30.965 (30.965 to 30.965)   2.973 (2.973 to 5.902)   2.926 (2.926 to 3.056)         33 %           not counted

    all spaces: geometric mean of the medians
    strategy                  after 3                 after 10                 after 30        ahead  own time median, p95  worst space
    genetic                     3.270                    2.449                    2.042         83 %           not counted  2.345 hidden_limits
    random                      9.486                    2.677                    2.462         33 %           not counted  2.926 hidden_limits

    the best found over the optimum, which is known: the middle run, and the range of the middle half of all runs
    (-: nothing that worked yet); ahead: runs that end below the median of `random`; own time: the strategy's, per proposal
    ");
}

#[test]
fn answers_for_programs_depend_on_the_seed_alone() {
    let answer = |seed: &str, jobs: &str| -> Value {
        let arguments =
            ["--synthetic", "deceptive", "mostly_irrelevant", "--strategy", "exhaustive,random", "--json"];
        let rest = ["--runs", "5", "--evaluations", "60", "--no-overhead", "--seed", seed, "--jobs", jobs];
        let (code, stdout, stderr) = bench_search(&[&arguments[..], &rest[..]].concat());
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    };
    let first = answer("1", "2");
    assert_eq!(first, answer("1", "1"));
    assert_ne!(first["strategies"], answer("2", "2")["strategies"]);
    assert_eq!(first["evaluations"], serde_json::json!([6, 20, 60]));
    assert!(first["spaces"]["mostly_irrelevant"]["valid"].as_str().unwrap().len() > 20);
    for strategy in ["exhaustive", "random"] {
        let strategy = &first["strategies"][strategy];
        assert_eq!((&strategy["runs"], &strategy["own_time"]), (&10.into(), &Value::Null));
        for space in ["deceptive", "mostly_irrelevant"] {
            let stages = strategy["spaces"][space]["best_over_optimum"].as_array().unwrap();
            let medians: Vec<f64> = stages.iter().map(|stage| stage["median"].as_f64().unwrap()).collect();
            assert!(medians.is_sorted_by(|one, next| one >= next) && medians[2] >= 1.0, "{medians:?}");
            let [low, high] = ["low", "high"].map(|key| stages[2][key].as_f64().unwrap());
            assert!(low <= medians[2] && medians[2] <= high);
        }
    }
}

#[test]
fn recordings_or_synthetic_spaces_are_asked_for_not_both() {
    let refused = |arguments: &[&str]| {
        let (code, stdout, stderr) = bench_search(&[arguments, &["--strategy", "random"]].concat());
        assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
        stderr
    };
    let both = refused(&["--synthetic", "--data", "recordings"]);
    assert!(both.contains("cannot be used with"), "{both}");
    let neither = refused(&[]);
    assert!(neither.contains("--data") && neither.contains("--synthetic"), "{neither}");
    let trace = refused(&["--synthetic", "--trace", "trace.jsonl"]);
    assert!(trace.contains("--trace") && trace.contains("cannot be used with"), "{trace}");
    insta::assert_snapshot!(refused(&["--synthetic", "long_list"]), @"
    error: unknown synthetic space `long_list`
    hint: did you mean `long_lists`? there are `matrix_tiles`, `hidden_limits`, `switches`, `long_lists`, `deceptive`, `pairwise`, `mostly_irrelevant`, `entangled`
    ");
}
