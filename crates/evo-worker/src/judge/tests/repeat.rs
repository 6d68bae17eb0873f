//! Kernels that do not give the same answer twice: state, races, memory of earlier calls.

use std::cell::{Cell, RefCell};

use evo_protocol::check::{CheckSet, GateCheck};

use super::*;

#[test]
fn a_kernel_that_rarely_differs_is_not_deterministic() {
    let rare = changing(|call, value| f32::from_bits(value.to_bits() ^ u32::from(call.noise % 13 == 5)));
    let many = CheckPlan { repeats: 50, ..check_plan("gemm") };
    let verdict = verdict_at(rare, many, &[gemm(5, 7, 16)], Depth::Full).unwrap();
    assert_eq!(verdict.kind, VerdictKind::Nondeterministic);
}

#[test]
fn float_atomics_pass_where_the_file_allows_them() {
    let atomic = || changing(|call, value| value * (1.0 + (call.noise % 3) as f32 * 1e-7));
    assert_eq!(label(atomic()), "nondeterministic:race");
    let allowed = || CheckPlan { deterministic: false, ..check_plan("gemm") };
    assert!(verdict_at(atomic(), allowed(), &shapes(), Depth::Full).is_none());
    let wild = changing(|call, value| value * (1.0 + (call.noise % 7 / 6) as f32 * 1e-2));
    let many = CheckPlan { repeats: 20, ..allowed() };
    assert!(verdict_at(wild, many, &shapes(), Depth::Full).is_some());
}

#[test]
fn remembered_answers_are_found_out() {
    // Keeps its first answer for an address, as a cache by pointer would.
    let memory = std::cell::RefCell::new(std::collections::BTreeMap::<u32, Vec<f32>>::new());
    let cached = kernel(move |call| {
        honest(call);
        let key = call.address(2);
        let fresh = call.load(2);
        let old = memory.borrow_mut().entry(key).or_insert(fresh).clone();
        old.iter().enumerate().for_each(|(index, value)| call.store(2, index as i64, *value));
    });
    let check = CheckPlan { seeds: 1, families: vec!["normal".into()], ..check_plan("gemm") };
    let verdict = verdict_at(cached, check, &[gemm(5, 7, 16)], Depth::Full).unwrap();
    assert_eq!(verdict.label(), "stateful:cached_result");
}

#[test]
fn a_kernel_that_tires_of_honesty_is_caught_under_timing() {
    let tired = Rc::new(Cell::new(false));
    let lies: [fn(&mut Call<'_>); 2] = [
        |_| {},
        |call| {
            honest(call);
            call.store(2, 1, 7.0);
        },
    ];
    for lie in lies {
        tired.set(false);
        let asleep = tired.clone();
        let lazy = kernel(move |call| if asleep.get() { lie(call) } else { honest(call) });
        let mut judge = judge_of(lazy, check_plan("gemm"));
        assert!(checked(&mut judge, &shapes(), Depth::Full).is_none());
        tired.set(true);
        // Every output holds the answer to another input by now: nothing right is left to be found.
        let verdict = timed(&mut judge, &shapes()[0]).unwrap();
        assert_eq!(verdict.label(), "timing_escape:phase_dependent");
    }
}

/// A count of blocks that is left as it is: the next call has nothing to do, and what it should have written stands there
/// from the call before wherever nothing is filled.
#[test]
fn a_workspace_that_is_not_set_back_is_named() {
    let counting = |sets_back: bool| {
        kernel(move |call| {
            if call.load(3)[0] == 0.0 {
                honest(call);
                call.store(3, 0, if sets_back { 0.0 } else { 1.0 });
            }
        })
    };
    let mut own = gemm(16, 16, 16);
    own.buffers[3].fill = Fill::Constant { value: 0.0 };
    let label = |kernel: Kernel| {
        let mut judge = judge_of(kernel, check_plan("gemm"));
        assert!(checked(&mut judge, std::slice::from_ref(&own), Depth::Quick).is_none());
        timed(&mut judge, &own).map(|verdict| verdict.label())
    };
    assert_eq!(label(counting(false)).as_deref(), Some("stateful:scratch_not_reset"));
    assert_eq!(label(counting(true)), None);
}

/// An honest kernel, and how often it has found its answer where it was about to write it.
fn watching() -> (Kernel, Rc<Cell<u32>>) {
    let found = Rc::new(Cell::new(0));
    let counted = found.clone();
    let watching = kernel(move |call| {
        let before = call.load(2);
        honest(call);
        counted.set(counted.get() + u32::from(before == call.load(2)));
    });
    (watching, found)
}

#[test]
fn no_output_holds_the_answer_that_a_timed_call_is_about_to_write() {
    for (samples, batch) in [(1, 1), (2, 1), (7, 1), (1, 2), (3, 4), (2, 7)] {
        let (watching, found) = watching();
        let mut judge = judge_of(watching, check_plan("gemm"));
        let timed = judge.prepare_timed(0, &shapes()[1], Turns::Several, Answers::Needed).unwrap();
        for _ in 0..9 {
            judge.sample(&timed, TimingMode::Hot, samples, batch).unwrap();
            judge.check_sampled(&timed, TimingMode::Hot, batch).unwrap();
        }
        assert_eq!(found.get(), 0, "{samples} samples of {batch}");
    }
}

#[test]
fn fixed_inputs_leave_no_right_answer_for_a_lazy_kernel() {
    let tired = Rc::new(Cell::new(false));
    let asleep = tired.clone();
    let lazy = kernel(move |call| {
        if !asleep.get() {
            honest(call);
        }
    });
    let mut fixed = gemm(5, 7, 16);
    fixed.buffers[0].fill = Fill::Constant { value: 0.5 };
    fixed.buffers[1].fill = Fill::Constant { value: 0.25 };
    let mut judge = judge_of(lazy, check_plan("gemm"));
    assert!(checked(&mut judge, std::slice::from_ref(&fixed), Depth::Quick).is_none());
    // Right answers stand in the outputs when the kernel stops working.
    let timed = judge.prepare_timed(0, &fixed, Turns::Several, Answers::Needed).unwrap();
    judge.sample(&timed, TimingMode::Hot, 9, 1).unwrap();
    tired.set(true);
    judge.sample(&timed, TimingMode::Hot, 9, 1).unwrap();
    let verdict = found(judge.check_sampled(&timed, TimingMode::Hot, 1)).unwrap().unwrap();
    assert_eq!(verdict.label(), "timing_escape:phase_dependent");
}

/// Works honestly, and takes a tenth of the time where `knows` says that there is nothing to do.
fn skipping(knows: impl Fn(&mut Call<'_>) -> bool + 'static) -> Kernel {
    kernel(move |call| {
        let known = knows(call);
        *call.took_ns = if known { 1_000.0 } else { 10_000.0 };
        honest(call);
    })
}

#[test]
fn work_that_is_skipped_on_known_contents_shows_in_the_time_of_new_ones() {
    let seen = RefCell::new(std::collections::BTreeSet::new());
    let by_content = skipping(move |call| {
        let words: Vec<u8> = call.load(0).iter().flat_map(|value| value.to_le_bytes()).collect();
        !seen.borrow_mut().insert(*blake3::hash(&words).as_bytes())
    });
    assert_eq!(label(by_content), "timing_escape:cached_result");
    let answer_is_there = skipping(|call| {
        let before = call.load(2);
        honest(call);
        before == call.load(2)
    });
    assert_eq!(label(answer_is_there), "timing_escape:cached_result");
    assert_eq!(label(skipping(|_| false)), "pass");
}

#[test]
fn a_kernel_that_looks_whether_the_ends_of_its_output_are_right_is_found() {
    let lazy = kernel(|call| {
        let before = call.load(2);
        honest(call);
        let after = call.load(2);
        if before.first() == after.first() && before.last() == after.last() {
            before.iter().enumerate().for_each(|(at, value)| call.store(2, at as i64, *value));
        }
    });
    let found = verdict_at(lazy, check_plan("gemm"), &[gemm(5, 7, 16)], Depth::Deep).unwrap();
    assert_eq!(found.label(), "nondeterministic:uninit_read", "{}", found.message);
}

#[test]
fn a_rare_fault_shows_among_thousands_of_calls() {
    let rare = changing(|call, value| if call.noise % 1000 == 999 { 0.25 } else { value });
    let plan = [gemm(5, 7, 16)];
    // Which also calls it hundreds of times.
    let checks = CheckSet::without(GateCheck::FurtherSeeds, None);
    let check = CheckPlan { checks, ..check_plan("gemm") };
    let found = verdict_at(rare, check, &plan, Depth::Deep).unwrap();
    assert_eq!(found.kind, VerdictKind::Nondeterministic, "{}", found.message);
}

/// What the rotation is for: without it, the right answer stands where the next timed call is about to write.
#[test]
fn without_the_rotation_right_answers_stand_in_outputs() {
    let (watching, found) = watching();
    let checks = CheckSet::without(GateCheck::Rotation, None);
    let mut judge = judge_of(watching, CheckPlan { checks, ..check_plan("gemm") });
    let timed = judge.prepare_timed(0, &shapes()[1], Turns::Several, Answers::Needed).unwrap();
    judge.sample(&timed, TimingMode::Hot, 9, 1).unwrap();
    assert!(found.get() >= 8, "{}", found.get());
}

/// A kernel that works only where it sees poison is found by the rotation, and by nothing else.
#[test]
fn a_kernel_that_recognizes_poison_needs_the_rotation() {
    let watched = || {
        kernel(|call| {
            if call.load(2).iter().any(|value| value.is_nan() || value.abs() > 1e30) {
                honest(call);
            }
        })
    };
    assert_eq!(label(watched()), "timing_escape:phase_dependent");
    let checks = CheckSet::without(GateCheck::Rotation, None);
    let plan = CheckPlan { checks, ..check_plan("gemm") };
    assert!(verdict_at(watched(), plan, &shapes(), Depth::Full).is_none());
}

#[test]
fn wrong_answers_that_may_differ_are_called_wrong() {
    let may_differ = || CheckPlan { deterministic: false, ..check_plan("gemm") };
    let found = |kernel| verdict_at(kernel, may_differ(), &shapes(), Depth::Full).unwrap().label();
    let wrong = found(lying(|call| call.store(2, 1, 7.0)));
    assert!(wrong.starts_with("wrong_answer"), "{wrong}");
    let noisy = found(lying(|call| call.store(2, 1, 7.0 + (call.noise % 7) as f32)));
    assert!(noisy.starts_with("wrong_answer"), "{noisy}");
}

fn judge_that_looks(kernel: Kernel, check: CheckPlan) -> Judge {
    let mut device = FakeDevice::new(vec![("k", kernel), ("naive", self::kernel(honest))]);
    device.names_variables = true;
    judge_on(device, check)
}

#[test]
fn a_count_of_calls_is_refused_although_every_answer_is_right() {
    let counting = || {
        kernel(|call| {
            honest(call);
            *call.global += 1;
        })
    };
    let mut judge = judge_that_looks(counting(), check_plan("gemm"));
    let verdict = checked(&mut judge, &shapes(), Depth::Full).unwrap();
    assert_eq!(verdict.label(), "stateful:module_state");
    assert!(verdict.message.contains("`global`") && verdict.message.contains("allow_state"));
    let allowed = CheckPlan { allow_state: true, ..check_plan("gemm") };
    assert!(checked(&mut judge_that_looks(counting(), allowed), &shapes(), Depth::Full).is_none());
    // A screening has no time for it.
    let mut judge = judge_that_looks(counting(), check_plan("gemm"));
    assert!(checked(&mut judge, &shapes(), Depth::Quick).is_none());
}

#[test]
fn what_depends_on_the_input_only_may_be_kept_and_saves_nothing_while_timed() {
    let skipped = Rc::new(Cell::new(0));
    let counted = skipped.clone();
    let remembering = kernel(move |call| {
        let words: Vec<u8> = call.load(0).iter().flat_map(|value| value.to_le_bytes()).collect();
        let key = u64::from(u32::from_le_bytes(blake3::hash(&words).as_bytes()[..4].try_into().unwrap())) | 1;
        // A quarter less work: too little to show beside the clock's noise.
        counted.set(counted.get() + u32::from(*call.global == key));
        *call.took_ns = if *call.global == key { 7_500.0 } else { 10_000.0 };
        honest(call);
        *call.global = key;
    });
    let mut judge = judge_that_looks(remembering, check_plan("gemm"));
    assert!(checked(&mut judge, &shapes(), Depth::Full).is_none());
    let timed = judge.prepare_timed(0, &shapes()[1], Turns::Several, Answers::Needed).unwrap();
    skipped.set(0);
    for batch in [1, 5] {
        let times = judge.sample(&timed, TimingMode::Hot, 9, batch).unwrap();
        assert_eq!(times, vec![10_000.0; 9]);
        judge.check_sampled(&timed, TimingMode::Hot, batch).unwrap();
    }
    assert_eq!(skipped.get(), 0);
    assert_eq!(timed.batch(TimingMode::Hot, 5), 1);
}
