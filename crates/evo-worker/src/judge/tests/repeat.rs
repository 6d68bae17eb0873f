//! Kernels that do not give the same answer twice: state, races, memory of earlier calls.

use std::cell::{Cell, RefCell};

use evo_protocol::check::{CheckSet, GateCheck};

use super::*;

pub(super) fn rows() -> Vec<Row> {
    let flipping = |of: u64, at: u64| {
        changing(move |call, value| f32::from_bits(value.to_bits() ^ u32::from(call.noise % of == at)))
    };
    let atomic = || changing(|call, value| value * (1.0 + (call.noise % 3) as f32 * 1e-7));
    let wild = changing(|call, value| value * (1.0 + (call.noise % 7 / 6) as f32 * 1e-2));
    // Keeps its first answer for an address, as a cache by pointer would.
    let memory = RefCell::new(std::collections::BTreeMap::<_, Vec<f32>>::new());
    let cached = kernel(move |call| {
        honest(call);
        let (key, fresh) = (call.id(2), call.load(2));
        let old = memory.borrow_mut().entry(key).or_insert(fresh).clone();
        old.iter().enumerate().for_each(|(index, value)| call.store(2, index as i64, *value));
    });
    let looks_at_ends = kernel(|call| {
        let before = call.load(2);
        honest(call);
        let after = call.load(2);
        if before.first() == after.first() && before.last() == after.last() {
            before.iter().enumerate().for_each(|(at, value)| call.store(2, at as i64, *value));
        }
    });
    let rare = changing(|call, value| if call.noise % 1000 == 999 { 0.25 } else { value });
    // A kernel that works only where it sees poison is found by the rotation, and by nothing else.
    let watched = || {
        kernel(|call| {
            if call.load(2).iter().any(|value| value.is_nan() || value.abs() > 1e30) {
                honest(call);
            }
        })
    };
    let seen = RefCell::new(std::collections::BTreeSet::new());
    let by_content = skipping(move |call| {
        let words: Vec<u8> = call.load(0).iter().flat_map(|value| value.to_le_bytes()).collect();
        !seen.borrow_mut().insert(*blake3::hash(&words).as_bytes())
    });
    let answer_is_there = skipping(|call| {
        let before = call.load(2);
        honest(call);
        before == call.load(2)
    });
    let (one, check) = (|| vec![gemm(5, 7, 16)], || check_plan("gemm"));
    let may_differ = || CheckPlan { deterministic: false, ..check() };
    let without = |own| CheckPlan { checks: CheckSet::without(own, None), ..check() };
    let many = CheckPlan { repeats: 50, ..check() };
    let once = CheckPlan { seeds: 1, families: vec!["normal".into()], ..check() };
    vec![
        Row { check: many, plans: one(), ..row("nondeterministic:", flipping(13, 5)) },
        row("nondeterministic:race", atomic()),
        // Float atomics, where the file allows them.
        Row { check: may_differ(), ..row("pass", atomic()) },
        Row { check: CheckPlan { repeats: 20, ..may_differ() }, ..row("any refusal", wild) },
        // Wrong answers that may differ are called wrong.
        Row { check: may_differ(), ..row("wrong_answer:", lying(|call| call.store(2, 1, 7.0))) },
        Row {
            check: may_differ(),
            ..row("wrong_answer:", lying(|call| call.store(2, 1, 7.0 + (call.noise % 7) as f32)))
        },
        Row { check: once, plans: one(), ..row("stateful:cached_result", cached) },
        Row { plans: one(), depth: Depth::Deep, ..row("nondeterministic:uninit_read", looks_at_ends) },
        // Further seeds also call it hundreds of times.
        Row {
            check: without(GateCheck::FurtherSeeds),
            plans: one(),
            depth: Depth::Deep,
            ..row("nondeterministic:", rare)
        },
        row("timing_escape:phase_dependent", watched()),
        Row { check: without(GateCheck::Rotation), ..row("pass", watched()) },
        // Work that is skipped on known contents shows in the time of new ones.
        row("timing_escape:cached_result", by_content),
        row("timing_escape:cached_result", answer_is_there),
        row("pass", skipping(|_| false)),
    ]
}

/// An honest kernel until it is told otherwise.
fn tiring(lie: fn(&mut Call<'_>)) -> (Kernel, Rc<Cell<bool>>) {
    let tired = Rc::new(Cell::new(false));
    let asleep = tired.clone();
    (kernel(move |call| if asleep.get() { lie(call) } else { honest(call) }), tired)
}

#[test]
fn a_kernel_that_tires_of_honesty_is_caught_under_timing() {
    let lies: [fn(&mut Call<'_>); 2] = [
        |_| {},
        |call| {
            honest(call);
            call.store(2, 1, 7.0);
        },
    ];
    for lie in lies {
        let (lazy, tired) = tiring(lie);
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
    let (lazy, tired) = tiring(|_| {});
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
