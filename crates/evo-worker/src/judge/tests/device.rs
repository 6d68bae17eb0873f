//! What the device itself refuses: crashes, launches that cannot fit, memory that is not there.

use std::cell::{Cell, RefCell};

use evo_protocol::device::DeviceError;
use evo_protocol::worker::Phase;

use super::*;

#[test]
fn a_crash_keeps_its_case_and_stickiness() {
    let crash: Kernel = Rc::new(|_| {
        let error = DeviceError::plain(VerdictKind::CrashIllegalAddress, "illegal address");
        Err(DeviceError { code: Some(700), ..error }.sticky())
    });
    let mut judge = judge_of(crash, check_plan("gemm"));
    let phases = reported(&mut judge);
    let answer = judge.gate(0, Gate::TinyShapes, Depth::Quick, &shapes());
    assert!(answer.sticky && judge.sticky);
    let verdict = answer.verdict.unwrap();
    assert_eq!(verdict.kind, VerdictKind::CrashIllegalAddress);
    assert_eq!(verdict.evidence.get("code").unwrap(), 700);
    assert_eq!(verdict.evidence.get("case").unwrap(), "gemm_5_7_16 seed 0 normal");
    let expected =
        [Phase::Preparing, Phase::Launched].map(|own| (own, "gemm_5_7_16 seed 0 normal".to_string()));
    assert_eq!(*phases.borrow(), expected);
}

type Phases = Rc<RefCell<Vec<(Phase, String)>>>;

fn reported(judge: &mut Judge) -> Phases {
    let phases = Phases::default();
    let noted = phases.clone();
    judge.reporter = Box::new(move |phase, detail| noted.borrow_mut().push((phase, detail.to_string())));
    phases
}

#[test]
fn plain_runs_say_where_buffers_lie_before_anything_is_launched() {
    let crash: Kernel =
        Rc::new(|_| Err(DeviceError::plain(VerdictKind::CrashIllegalAddress, "illegal address").sticky()));
    let mut judge = judge_of(crash, check_plan("gemm"));
    let mut run = |calls: u32| judge.run_plain(0, &gemm(5, 7, 16), calls, true);
    let placed = run(0).expect("nothing is launched");
    assert_eq!(placed.0, 0);
    let plan = gemm(5, 7, 16);
    let expected: Vec<(&str, u64)> =
        plan.buffers.iter().map(|buffer| (buffer.name.as_str(), buffer.bytes())).collect();
    let named: Vec<(&str, u64)> = placed.1.iter().map(|own| (own.name.as_str(), own.bytes)).collect();
    assert_eq!(named, expected);
    let again = run(0).expect("nothing is launched");
    assert_eq!(again.1, placed.1, "the launch that follows has the same buffers");
    assert!(run(1).is_err());
}

#[test]
fn launches_that_cannot_fit_are_refused_with_numbers() {
    let check = |change: &dyn Fn(&mut FakeDevice, &mut ProblemPlan)| {
        let mut device = FakeDevice::new(vec![("k", kernel(honest))]);
        let mut own = gemm(5, 7, 16);
        change(&mut device, &mut own);
        let mut judge = judge_on(device, check_plan("gemm"));
        let answer = judge.gate(0, Gate::Launch, Depth::Quick, &[own]);
        answer.verdict.map_or("pass".into(), |verdict| verdict.label())
    };
    assert_eq!(check(&|_, _| {}), "pass");
    assert_eq!(check(&|device, _| device.echo = Some("another".into())), "stale_binary");
    assert_eq!(check(&|_, plan| plan.launches[0].block = [2048, 1, 1]), "launch_fail:threads");
    assert_eq!(check(&|_, plan| plan.launches[0].grid = [0, 1, 1]), "launch_fail:grid");
    assert_eq!(check(&|_, plan| plan.launches[0].grid = [1, 70_000, 1]), "launch_fail:grid");
    assert_eq!(check(&|_, plan| plan.launches[0].shared_bytes = 228 * 1024), "launch_fail:smem");
    let many_registers = |device: &mut FakeDevice, plan: &mut ProblemPlan| {
        device.attributes.registers = Some(128);
        plan.launches[0].block = [1024, 1, 1];
    };
    assert_eq!(check(&many_registers), "launch_fail:regs");
    let unfit = |device: &mut FakeDevice, _: &mut ProblemPlan| {
        device.attributes.blocks_per_multiprocessor = Some(0);
    };
    assert_eq!(check(&unfit), "launch_fail:occupancy");
    let barrier = |_: &mut FakeDevice, plan: &mut ProblemPlan| {
        plan.launches[0].cooperative = true;
        plan.launches[0].grid = [17, 1, 1];
    };
    assert_eq!(check(&barrier), "launch_fail:cooperative");
    assert_eq!(check(&|_, plan| plan.launches[0].cluster = Some([16, 1, 1])), "launch_fail:cluster");
}

#[test]
fn no_memory_is_a_verdict_and_gates_without_work_did_not_run() {
    let mut judge = judge_of(kernel(honest), check_plan("gemm"));
    let mut vast = gemm(5, 7, 16);
    vast.buffers[3].shape = vec![1 << 60];
    let answer = judge.gate(0, Gate::TinyShapes, Depth::Quick, &[vast]);
    assert_eq!(answer.verdict.unwrap().kind, VerdictKind::OutOfMemory);
    assert!(!answer.sticky);
    for gate in [Gate::TinyShapes, Gate::Repeatability, Gate::Confirmation] {
        let answer = judge.gate(0, gate, Depth::Quick, &[]);
        assert_eq!(answer.report.state, GateState::NotRun);
    }
    let answer = judge.gate(9, Gate::Launch, Depth::Quick, &[]);
    assert_eq!(answer.verdict.unwrap().kind, VerdictKind::HarnessError);
}

fn made_ready(judge: &mut Judge, work: impl FnOnce(&mut Judge)) -> Vec<String> {
    let phases = reported(judge);
    work(judge);
    let prepared = phases.take().into_iter().filter(|(phase, _)| *phase == Phase::Preparing);
    prepared.map(|(_, name)| name).collect()
}

#[test]
fn what_was_answered_ahead_is_not_computed_again() {
    let mut judge = judge_of(kernel(honest), check_plan("gemm"));
    let plans = [gemm(5, 7, 16), gemm(16, 16, 16)];
    // Without launches, as they are not known yet.
    let bare = plans.clone().map(|plan| ProblemPlan { launches: Vec::new(), ..plan });
    let ahead = made_ready(&mut judge, |judge| {
        judge.rehearse(&check_plan("gemm"), &bare).unwrap();
    });
    assert_eq!(ahead[..2], ["gemm_5_7_16 seed 0 normal", "gemm_16_16_16 seed 0 normal"], "what all meet");
    assert!(ahead.len() > 10, "{ahead:?}");
    let mut gate = |plans: &[ProblemPlan]| {
        made_ready(&mut judge, |judge| {
            let answer = judge.gate(0, Gate::FullShapes, Depth::Full, plans);
            assert!(answer.verdict.is_none(), "{:?}", answer.verdict);
        })
    };
    let again: Vec<String> = gate(&plans).into_iter().filter(|name| ahead.contains(name)).collect();
    assert!(again.is_empty(), "{again:?}");
    assert!(!gate(&[gemm(33, 8, 300)]).is_empty(), "another problem");
}

/// Small shapes run twice with the same in shared memory, whatever that is.
#[test]
fn a_wrong_answer_that_follows_shared_memory_was_not_initialized() {
    let uses: [fn(f32) -> f32; 5] = [
        |residue| residue,
        |residue| 0.5 * residue.clamp(0.0, 1.0),
        |residue| if residue < 1.0 { 0.0 } else { 0.5 },
        |residue| (residue.to_bits() & 1) as f32,
        |residue| f32::from(residue.to_bits() != 0),
    ];
    for (number, use_of) in uses.into_iter().enumerate() {
        let reads = lying(move |call| {
            let (first, residue) = (call.load(2)[0], call.residue);
            call.store(2, 0, first + use_of(residue));
        });
        let mut device = FakeDevice::new(vec![("k", reads)]);
        device.usual_residue = f32::from_bits(0x3e80_0001);
        let mut judge = judge_on(device, check_plan("gemm"));
        let answer = judge.gate(0, Gate::TinyShapes, Depth::Quick, &[gemm(5, 7, 16)]);
        assert_eq!(answer.verdict.unwrap().label(), "wrong_answer:uninitialized", "{number}");
    }
}

/// Whatever loads the module again, questions that follow it find it.
#[test]
fn a_wrong_answer_that_changes_by_chance_is_never_our_own_trouble() {
    for odd in 3..12 {
        let calls = Cell::new(0);
        let wrong = lying(move |call| {
            calls.set(calls.get() + 1);
            let extra = if [odd, odd + 3].contains(&calls.get()) { 0.75 } else { 0.5 };
            call.store(2, 0, call.load(2)[0] + extra);
        });
        let mut judge = judge_on(FakeDevice::new(vec![("k", wrong)]), check_plan("gemm"));
        let answer = judge.gate(0, Gate::TinyShapes, Depth::Quick, &[gemm(5, 7, 16)]);
        assert_ne!(answer.verdict.unwrap().kind, VerdictKind::HarnessError, "{odd}");
    }
}
