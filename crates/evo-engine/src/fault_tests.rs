//! Everything fails at once, from a seed: the disk under the journal and its views, the compilers and the device behind
//! their ports, and evo itself, which stops at the first error of its journal. However often a study is resumed, it
//! comes to the verdicts of an undisturbed run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use evo_journal::budget::StopReason;
use evo_journal::disk::faults;
use evo_journal::error::JournalError;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_space::sample::seeded;
use evo_supervise::job::Judgement;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::fake::{CompileTrouble, Script, TestStudy, lane_result, mixed, mixed_kind};
use crate::trouble::EngineError;

const SPACE: &str = "[parameters]\nA = [0, 1, 2, 3, 6, 7]\nB = [0, 1, 2]\nLATE = [0, 1]\n";

const RUNS: u64 = 6;

/// Studies of a test; `EVO_CASES` makes more, `EVO_SEED` begins with another.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let first = number("EVO_SEED", 1);
    first..first + number("EVO_CASES", 25)
}

fn failing_device(seed: u64, rate: f64) -> Script {
    let random = Mutex::new(seeded(seed));
    Arc::new(move |job| {
        let mut random = random.lock().unwrap();
        if !random.random_bool(rate) {
            return lane_result(job, mixed_kind(job));
        }
        let (verdict, lost) = (trouble(&mut random), random.random_bool(0.1));
        Judgement { verdict, lost, ..lane_result(job, VerdictKind::HarnessError) }
    })
}

fn trouble(random: &mut ChaCha8Rng) -> Verdict {
    let verdict = Verdict::new(VerdictKind::HarnessError, "somebody ends processes");
    verdict.with_cause(if random.random_bool(0.5) { Cause::Killed } else { Cause::Machine })
}

fn failing_compilers(seed: u64, rate: f64) -> CompileTrouble {
    let random = Mutex::new(seeded(seed));
    Arc::new(move |_, tries| {
        let mut random = random.lock().unwrap();
        let fails = random.random_bool(rate);
        let crashes = random.random_bool(0.3) && tries == 1;
        let verdict = trouble(&mut random);
        let crash = || Verdict::new(VerdictKind::CompilerCrash, "the compiler died (SIGSEGV)").in_doubt();
        fails.then(|| if crashes { crash() } else { verdict })
    })
}

fn play(seed: u64, expected: &BTreeMap<String, String>) -> usize {
    let mut bench = TestStudy::new(SPACE);
    let mut happened = 0;
    let mut before: BTreeMap<String, String> = BTreeMap::new();
    for run in 0..RUNS {
        let own = seed * 1000 + run;
        bench.trouble = Some(failing_compilers(own, 0.15));
        faults::begin(own, 0.03);
        let ran = bench.try_run(failing_device(own, 0.1));
        happened += faults::end().len();
        match ran {
            Ok(ran) => assert_ne!(ran.summary.end.reason, StopReason::Interrupted),
            // Only the journal stops a run: never a view, a compiler or the device.
            Err(error) => assert!(is_of_the_journal(&error), "seed {seed}: {error}"),
        }
        let now = if bench.journal().exists() { bench.verdicts() } else { BTreeMap::new() };
        for (name, verdict) in &before {
            assert_eq!(
                now.get(name),
                Some(verdict),
                "seed {seed}, run {run}: the verdict of `{name}` is lost"
            );
        }
        before = now;
    }
    bench.trouble = None;
    let ran = bench.run(mixed());
    assert_eq!(ran.summary.end.not_final, 0, "seed {seed}");
    assert_eq!(&bench.verdicts(), expected, "seed {seed}");
    happened
}

fn is_of_the_journal(error: &EngineError) -> bool {
    let (EngineError::Journal(JournalError::Io { path, .. })
    | EngineError::Journal(JournalError::DiskFull { path })) = error
    else {
        return false;
    };
    path.ends_with("journal.jsonl") || path.ends_with("journal.rejected")
}

#[test]
fn whatever_fails_a_resumed_study_comes_to_the_same_verdicts() {
    let bench = TestStudy::new(SPACE);
    bench.run(mixed());
    let expected = bench.verdicts();
    let happened: usize = seeds().map(|seed| play(seed, &expected)).sum();
    assert!(happened > 0, "nothing failed");
}
