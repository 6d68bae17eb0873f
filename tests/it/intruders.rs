//! Kernels of the host device that are right and reach for what is not theirs: each is refused or does no harm, and
//! the honest variant after it keeps its verdict.

use evo::supervise::job::{Job, Standing};
use evo_space::value::Value;

use crate::lane::{job_of, lane};

fn job(attack: &str) -> Job {
    let space = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/intruder/intruder.toml");
    job_of(space, &[("ATTACK", Value::text(attack))], false)
}

/// Each attack with the label of its verdict, and a part of what is said.
fn check(attacks: &[(&str, &str, &str)]) {
    let mut lane = lane();
    let honest = job("none");
    let first = lane.evaluate(&honest, &Standing::default());
    assert!(first.verdict.is_pass(), "{first:#?}");
    for (attack, label, says) in attacks {
        let result = lane.evaluate(&job(attack), &Standing::default());
        assert_eq!(result.verdict.label(), *label, "{attack}: {result:#?}");
        assert!(result.verdict.message.contains(says), "{attack}: {result:#?}");
        let after = lane.evaluate(&honest, &Standing::default());
        assert!(after.verdict.is_pass(), "after {attack}: {after:#?}");
    }
}

#[test]
fn calls_of_the_system_are_refused_by_name() {
    const REFUSED: &str = "crash_other:system_call";
    check(&[
        ("open", REFUSED, "opens a file"),
        ("connect", REFUSED, "makes a socket"),
        ("exec", REFUSED, "starts a program"),
        ("ptrace", REFUSED, "reaches for another process"),
        ("handler", REFUSED, "changes how signals are handled"),
        ("timer", REFUSED, "system call"),
        ("executable", REFUSED, "makes memory executable"),
    ]);
}

#[test]
fn ends_and_words_of_an_executor_are_its_variants_own() {
    check(&[
        ("kill", "worker_died:sigkill", "SIGKILL"),
        ("term", "worker_died:sigterm", "SIGTERM"),
        ("abort", "crash_assert:abort", "aborts"),
        ("write_all", "worker_died:protocol", "not the protocol"),
        ("speak", "worker_died:protocol", "not the protocol"),
        // Trouble of the machine's would be nobody's verdict, and leave the variant without one for ever.
        ("excuse", "worker_died:protocol", "not the protocol"),
        ("masked", "worker_died:sigsys", "a system call that the sandbox forbids"),
        ("input", "input_mutated", "writes to input `x`"),
    ]);
}

#[test]
fn what_is_not_there_cannot_be_used() {
    check(&[
        ("fork", "pass", ""),
        ("thread", "pass", ""),
        ("environment", "pass", ""),
        ("answers", "pass", ""),
        ("rounding", "pass", ""),
    ]);
}

#[test]
fn forged_times_are_found_out() {
    let mut lane = lane();
    // Beside other tests threads may wait longer than they run, which covers for a slow clock now and then.
    let mut told = || lane.evaluate(&job("clock"), &Standing::default()).verdict;
    let verdict = (0..3).map(|_| told()).find(|verdict| !verdict.is_pass());
    let verdict = verdict.expect("three lies in a row were believed");
    assert_eq!(verdict.label(), "timing_escape:forged_time", "{verdict:#?}");
    assert!(verdict.message.contains("shorter than"), "{verdict:#?}");
    let after = lane.evaluate(&job("none"), &Standing::default());
    assert!(after.verdict.is_pass(), "{after:#?}");
}
