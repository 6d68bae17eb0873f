//! Kernels that keep something in a variable of their module.

use std::cell::Cell;

use super::*;

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
