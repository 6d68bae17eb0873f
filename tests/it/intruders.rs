//! Kernels of the host device that are right and reach for what is not theirs: each is refused or does no harm, and
//! the honest variant after it keeps its verdict.

use std::fs;

use evo::supervise::job::{Job, Standing};
use evo::supervise::lane::Lane;
use evo_space::value::Value;

use crate::lane::{job_of, lane};
use crate::support::processes::descendants;

fn job(attack: &str) -> Job {
    let space = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/intruder/intruder.toml");
    job_of(space, &[("ATTACK", Value::text(attack))], false)
}

/// Each attack with the label of its verdict, and a part of what is said.
fn check(attacks: &[(&str, &str, &str)]) {
    let mut lane = lane();
    assert_honest(&mut lane, "nothing");
    for (attack, label, says) in attacks {
        let result = lane.evaluate(&job(attack), &Standing::default());
        assert_eq!(result.verdict.label(), *label, "{attack}: {result:#?}");
        assert!(result.verdict.message.contains(says), "{attack}: {result:#?}");
        assert_honest(&mut lane, attack);
    }
}

/// The honest variant passes. What is in doubt is seen again, as in a sweep: a busy machine may be its cause.
fn assert_honest(lane: &mut Lane, after: &str) {
    let mut looks = (0..3).map(|_| lane.evaluate(&job("none"), &Standing::default()));
    let settled = looks.find(|result| !result.verdict.is_in_doubt());
    let passed = settled.as_ref().is_some_and(|result| result.verdict.is_pass());
    assert!(passed, "after {after}: {settled:#?}");
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

/// Each call by its number, as a kernel makes it that does without the C library. The honest variant runs after all.
#[test]
fn system_calls_that_no_kernel_needs_are_refused() {
    const CALLS: &str = "
        process_vm_readv process_vm_writev pidfd_open pidfd_getfd memfd_create shmget io_uring_setup
        userfaultfd perf_event_open bpf keyctl unshare setns mount chroot kcmp setpriority sched_setaffinity
        sched_setscheduler prlimit64 personality socketpair eventfd2 timer_create rt_sigqueueinfo unlink
        openat2 execveat dup2 ioctl modify_ldt
    ";
    let mut lane = lane();
    for call in CALLS.split_whitespace() {
        let result = lane.evaluate(&job(&format!("call_{call}")), &Standing::default());
        assert_eq!(result.verdict.label(), "crash_other:system_call", "{call}: {result:#?}");
    }
    assert_honest(&mut lane, "all of them");
}

#[test]
fn nobody_else_can_be_ended_or_left_behind() {
    const REFUSED: &str = "crash_other:system_call";
    check(&[
        ("everybody", REFUSED, ""),
        ("group", REFUSED, ""),
        ("first", REFUSED, ""),
        ("session", REFUSED, ""),
        ("vfork", REFUSED, ""),
        ("memory", REFUSED, "opens a file"),
        // No process is made, so the kernel goes on and is right.
        ("daemon", "pass", ""),
        ("home", "pass", ""),
    ]);
}

#[test]
fn an_executor_that_falls_silent_is_its_variants_own_trouble() {
    check(&[
        ("exit", "worker_died:exit_0", ""),
        ("stop", "hang", ""),
        ("deaf", "worker_died:exit_70", ""),
        ("endless", "worker_died:protocol", "not the protocol"),
    ]);
}

/// Where memory is used up, the kernel ends the variant and none of evo's own processes, or the user's.
#[test]
fn variants_are_the_first_to_end_where_memory_is_used_up() {
    let mut lane = lane();
    assert_honest(&mut lane, "all");
    let score = |pid: u32| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap_or_default();
    let own = score(std::process::id());
    let all = [&[std::process::id()][..], &descendants(std::process::id())].concat();
    let first: Vec<u32> = all.iter().copied().filter(|pid| score(*pid).trim() == "1000").collect();
    let workers = all.iter().filter(|pid| score(**pid) == own).count();
    assert!(first.len() >= 2, "a fork server and its first process: {first:?} of {all:?}");
    assert!(workers >= 2, "this process and its worker: {all:?}");
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
    let verdict = (0..10).map(|_| told()).find(|verdict| !verdict.is_pass());
    let verdict = verdict.expect("ten lies in a row were believed");
    assert_eq!(verdict.label(), "timing_escape:forged_time", "{verdict:#?}");
    assert!(verdict.message.contains("shorter than"), "{verdict:#?}");
    assert_honest(&mut lane, "clock");
}
