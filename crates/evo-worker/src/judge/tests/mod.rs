//! One honest kernel and many that lie, each with the verdict it must get.

use std::rc::Rc;

use evo_protocol::binary::HEADER_END;
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::{ArgumentRef, Fill, LaunchPlan, ProblemPlan, Role, ScalarPlan};
use evo_protocol::verdict::{Gate, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{BinaryRef, Candidate, CandidateBuild, CheckPlan, Depth, ReferencePlan};
use evo_space::genome::ContentHash;

use super::bench::found;
use super::case::{self, Case};
use super::expected::{self, ExpectedSet};
use super::fake::{Call, FakeDevice, Kernel};
use super::inputs::{self, Draw, Family};
use super::reference::testing::{buffer, check_plan, kernel_plan, plan};
use super::state::{Answers, Judge};
use super::timed::Turns;

mod device;
mod repeat;
mod softmax_attention;

fn kernel(body: impl Fn(&mut Call<'_>) + 'static) -> Kernel {
    Rc::new(move |call| {
        body(call);
        Ok(())
    })
}

fn candidate(check: CheckPlan) -> Candidate {
    let hash = ContentHash::of(HEADER_END.as_bytes());
    Candidate {
        label: "A=1".into(),
        builds: vec![CandidateBuild::for_all(
            hash.clone(),
            BinaryRef { hash: hash.clone(), path: None },
            vec!["k".into()],
        )],
        reference: (check.reference == ReferencePlan::Kernel)
            .then(|| (BinaryRef { hash, path: None }, vec!["naive".into()])),
        reference_single: None,
        prepare: None,
        check,
    }
}

fn launch(entry: &str, arguments: Vec<ArgumentRef>) -> LaunchPlan {
    LaunchPlan {
        entry: entry.into(),
        grid: [8, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 1024,
        arguments,
        ..LaunchPlan::default()
    }
}

fn with_launch(mut own: ProblemPlan, scalars: &[i64]) -> ProblemPlan {
    own.scalars = scalars
        .iter()
        .map(|value| ScalarPlan {
            name: "n".into(),
            dtype: DType::I32,
            value: *value as f64,
            integer: Some(*value),
        })
        .collect();
    let buffers = (0..own.buffers.len()).map(ArgumentRef::Buffer);
    let arguments: Vec<ArgumentRef> = buffers.chain((0..scalars.len()).map(ArgumentRef::Scalar)).collect();
    own.reference_launches = vec![launch("naive", arguments.clone())];
    own.launches = vec![launch("k", arguments)];
    own
}

/// Arguments of `k`: a, b, c, work, M, N, K.
fn gemm(m: i64, n: i64, k: i64) -> ProblemPlan {
    let of =
        |name, rows: i64, columns: i64, role| buffer(name, DType::F32, &[rows as u64, columns as u64], role);
    let buffers = vec![
        of("a", m, k, Role::Input),
        of("b", k, n, Role::Input),
        of("c", m, n, Role::Output),
        of("work", 1, n, Role::Scratch),
    ];
    let own = plan(&format!("gemm_{m}_{n}_{k}"), &[("M", m), ("N", n), ("K", k)], buffers);
    with_launch(own, &[m, n, k])
}

fn extents(call: &Call<'_>) -> (i64, i64, i64) {
    (call.scalar(4), call.scalar(5), call.scalar(6))
}

/// One element of the product, summed backwards: another order than the reference's.
fn element(a: &[f32], b: &[f32], (n, k): (i64, i64), row: i64, column: i64) -> f32 {
    (0..k).rev().map(|p| a[(row * k + p) as usize] * b[(p * n + column) as usize]).sum()
}

fn product(call: &mut Call<'_>, rows: i64) {
    let (_, n, k) = extents(call);
    let (a, b) = (call.load(0), call.load(1));
    for row in 0..rows {
        for column in 0..n {
            call.store(2, row * n + column, element(&a, &b, (n, k), row, column));
        }
    }
}

/// A kernel that computes each element so: from what stands there, both operands, n and k, and its row and column.
fn computing(value: impl Fn(f32, (&[f32], &[f32]), (i64, i64), (i64, i64)) -> f32 + 'static) -> Kernel {
    kernel(move |call| {
        let (m, n, k) = extents(call);
        let (a, b) = (call.load(0), call.load(1));
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let before = call.peek(2, row * n + column);
            call.store(2, row * n + column, value(before, (&a, &b), (n, k), (row, column)));
        }
    })
}

fn honest(call: &mut Call<'_>) {
    let (m, ..) = extents(call);
    product(call, m);
}

fn lying(lie: impl Fn(&mut Call<'_>) + 'static) -> Kernel {
    kernel(move |call| {
        honest(call);
        lie(call);
    })
}

fn shapes() -> Vec<ProblemPlan> {
    vec![gemm(5, 7, 16), gemm(16, 16, 16), gemm(33, 8, 300)]
}

/// Sizes of 0: an output without elements is not compared, and a sum over nothing is 0.
#[test]
fn sizes_of_0_are_legal() {
    for own in [gemm(0, 7, 16), gemm(5, 0, 16), gemm(5, 7, 0)] {
        for launches in [own.launches.clone(), Vec::new()] {
            if launches.is_empty() && own.buffers[2].elements() > 0 {
                continue;
            }
            for reference in [check_plan("gemm"), kernel_plan()] {
                let plan = ProblemPlan { launches: launches.clone(), ..own.clone() };
                let verdict = verdict_at(kernel(honest), reference, &[plan, gemm(5, 7, 16)], Depth::Full);
                assert!(verdict.is_none(), "{}: {verdict:?}", own.name);
            }
        }
    }
    // A call that launches nothing leaves an output with elements as it is.
    let idle = ProblemPlan { launches: Vec::new(), ..gemm(5, 7, 16) };
    let verdict = verdict_at(kernel(honest), check_plan("gemm"), &[gemm(7, 5, 16), idle], Depth::Full);
    assert_eq!(verdict.map(|verdict| verdict.label()), Some("wrong_answer:unwritten".to_string()));
}

fn judge_of(kernel: Kernel, check: CheckPlan) -> Judge {
    judge_on(FakeDevice::new(vec![("k", kernel), ("naive", self::kernel(honest))]), check)
}

fn judge_on(device: FakeDevice, check: CheckPlan) -> Judge {
    // No answer of these small cases is worth a file.
    let mut judge = Judge::new(Box::new(device), std::env::temp_dir().join("evo-no-answers"));
    load(&mut judge, check);
    judge
}

fn load(judge: &mut Judge, check: CheckPlan) {
    judge.load(0, &candidate(check), &mut |_| Ok(b"binary".to_vec())).unwrap();
}

/// Every gate in order with all it has; the first verdict.
fn verdict_at(kernel: Kernel, check: CheckPlan, plans: &[ProblemPlan], depth: Depth) -> Option<Box<Verdict>> {
    let mut judge = judge_of(kernel, check);
    checked(&mut judge, plans, depth).or_else(|| timed(&mut judge, &plans[0]))
}

fn checked(judge: &mut Judge, plans: &[ProblemPlan], depth: Depth) -> Option<Box<Verdict>> {
    for gate in [Gate::Launch, Gate::TinyShapes, Gate::FullShapes, Gate::Repeatability] {
        let answer = judge.gate(0, gate, depth, plans);
        assert_eq!(answer.verdict.is_some(), answer.report.state == GateState::Fail);
        assert!(answer.report.cases > 0);
        if answer.verdict.is_some() {
            return answer.verdict;
        }
        assert_eq!(answer.report.state, GateState::Pass);
    }
    None
}

fn timed(judge: &mut Judge, plan: &ProblemPlan) -> Option<Box<Verdict>> {
    let timed = judge.prepare_timed(0, plan, Turns::Several, Answers::Needed).unwrap();
    for _ in 0..10 {
        judge.sample(&timed, TimingMode::Hot, 30, 1).unwrap();
        if let Some(verdict) = found(judge.check_sampled(&timed, TimingMode::Hot, 1)).unwrap() {
            return Some(verdict);
        }
    }
    found(judge.compare_fresh(&timed, 7)).unwrap()
}

/// A kernel, and what all gates say of it: verdict and family, a verdict that any family may show, or (with a colon at its
/// end) a kind of verdict.
struct Row {
    says: &'static str,
    kernel: Kernel,
    check: CheckPlan,
    plans: Vec<ProblemPlan>,
    depth: Depth,
}

fn row(says: &'static str, kernel: Kernel) -> Row {
    Row { says, kernel, check: check_plan("gemm"), plans: shapes(), depth: Depth::Full }
}

/// An honest product whose first element is changed so.
fn changing(change: impl Fn(&mut Call<'_>, f32) -> f32 + 'static) -> Kernel {
    lying(move |call| {
        let right = call.peek(2, 0);
        let value = change(call, right);
        call.store(2, 0, value);
    })
}

/// So many rows of the product, and nothing of the others.
fn writing(rows: fn(i64) -> i64) -> Kernel {
    kernel(move |call| {
        let (m, ..) = extents(call);
        product(call, rows(m));
    })
}

fn filling(value: fn(i64) -> f32) -> Kernel {
    kernel(move |call| {
        let (m, n, _) = extents(call);
        (0..m * n).for_each(|index| call.store(2, index, value(index)));
    })
}

#[test]
fn every_kernel_gets_its_verdict() {
    let rows = rows().into_iter().chain(repeat::rows()).chain(softmax_attention::rows());
    for (number, Row { says, kernel, check, plans, depth }) in rows.enumerate() {
        let found = verdict_at(kernel, check, &plans, depth);
        let found = found.map_or("pass ".to_string(), |verdict| {
            let family =
                verdict.evidence.get("family").and_then(|family| family.as_str()).unwrap_or_default();
            format!("{} {family}", verdict.label())
        });
        let is_right = match says {
            "any refusal" => !found.starts_with("pass"),
            kind if kind.ends_with(':') => found.starts_with(kind),
            verdict => found == verdict || found.starts_with(&format!("{verdict} ")),
        };
        assert!(is_right, "row {number}: {found}, not {says}");
    }
}

fn rows() -> Vec<Row> {
    let swapped = computing(|_, (a, b), (n, k), (row, column)| element(a, b, (n, k), row, (column + 1) % n));
    // c starts at zero and is added to; work is poisoned as ever.
    let adds =
        || computing(|before, (a, b), (n, k), (row, column)| before + element(a, b, (n, k), row, column));
    let mut zeroed = gemm(5, 7, 16);
    zeroed.buffers[2].fill = Fill::Constant { value: 0.0 };
    vec![
        row("pass", kernel(honest)),
        // Persistent state that does not matter, and workspace that is written before it is read.
        row("pass", lying(|call| *call.global += 1)),
        row(
            "pass",
            changing(|call, value| {
                call.store(3, 0, 1.0);
                call.peek(3, 0) * value
            }),
        ),
        // Although the last answer is still there.
        row("wrong_answer:unwritten", kernel(|_| {})),
        row("wrong_answer:unwritten", writing(|m| m - 1)),
        row("wrong_answer:tail", writing(|m| m / 16 * 16)),
        row("wrong_answer:constant", filling(|_| 0.0)),
        row("wrong_answer:constant", filling(|index| (index % 5) as f32)),
        row("wrong_answer:nan_inf", lying(|call| call.store(2, 3, f32::NAN))),
        row("wrong_answer:value", swapped),
        row("oob_read", reading_outside()),
        Row {
            plans: vec![gemm(5, 7, 16)],
            ..row("oob_read", changing(|call, value| value + call.peek(2, 5 * 7) * 1e-30))
        },
        row(
            "stateful:module_state",
            changing(|call, value| {
                *call.global += 1;
                value * (1.0 + *call.global as f32 * 1e-7)
            }),
        ),
        // Right at the first launch after loading, and never again.
        row(
            "stateful:module_state",
            changing(|call, value| {
                *call.global += 1;
                if *call.global > 1 { 0.25 } else { value }
            }),
        ),
        row(
            "nondeterministic:race",
            changing(|call, value| f32::from_bits(value.to_bits() ^ (call.noise as u32 & 1))),
        ),
        row(
            "nondeterministic:uninit_read",
            changing(|call, value| value + if call.peek(3, 0) > 1.0 { 1e-6 } else { 0.0 }),
        ),
        row(
            "nondeterministic:uninit_read",
            kernel(|call| {
                let old = call.peek(2, 0);
                honest(call);
                let value = call.peek(2, 0) + if old > 1.0 { 1e-6 } else { 0.0 };
                call.store(2, 0, value);
            }),
        ),
        // Why there is the deep look.
        Row { depth: Depth::Quick, ..row("pass", reading_outside()) },
        Row { plans: vec![zeroed], ..row("pass", adds()) },
        Row { plans: vec![gemm(5, 7, 16)], ..row("nondeterministic:", adds()) },
        // A naive kernel as the reference.
        Row { check: kernel_plan(), ..row("pass", kernel(honest)) },
        Row { check: kernel_plan(), ..row("wrong_answer:constant", filling(|_| 0.0)) },
    ]
}

#[test]
fn wrong_numbers_are_imprecise_where_few_of_many_terms_are() {
    let dropped = computing(|_, (a, b), (n, k), (row, column)| {
        let lost = (0..k / 100).map(|p| a[(row * k + p) as usize] * b[(p * n + column) as usize]);
        element(a, b, (n, k), row, column) - lost.sum::<f32>()
    });
    let half = computing(|_, (a, b), (n, k), (row, column)| {
        let term = |p: i64| a[(row * k + p) as usize] * b[(p * n + column) as usize];
        let add = |sum: half::f16, p: i64| half::f16::from_f32(sum.to_f32() + term(p));
        (0..k).fold(half::f16::ZERO, add).to_f32()
    });
    for kernel in [dropped, half] {
        let verdict = verdict_at(kernel, check_plan("gemm"), &[gemm(4, 4, 300)], Depth::Full).unwrap();
        assert_eq!(verdict.label(), "wrong_answer:precision");
        assert_eq!(verdict.evidence.get("case").unwrap(), "gemm_4_4_300 seed 0 normal");
        assert!(verdict.evidence.get("relative_norm").unwrap().as_f64().unwrap() > 1e-4);
    }
}

#[test]
fn writes_outside_and_to_inputs_name_buffer_and_offset() {
    let behind = lying(|call| {
        let (m, n, _) = extents(call);
        call.store(2, m * n, 1.0);
    });
    let rows = [
        (behind, "oob_write", "c", Some(5 * 7 * 4)),
        (lying(|call| call.store(3, -2, 1.0)), "oob_write", "work", Some(-8)),
        (lying(|call| call.store(1, 2, 0.5)), "input_mutated", "b", None),
    ];
    for (kernel, label, buffer, offset) in rows {
        let verdict = verdict_at(kernel, check_plan("gemm"), &shapes(), Depth::Quick).unwrap();
        assert_eq!(verdict.label(), label);
        assert_eq!(verdict.evidence.get("buffer").unwrap(), buffer);
        assert_eq!(verdict.evidence.get("offset").and_then(|offset| offset.as_i64()), offset);
    }
}

/// What usually lies outside is not as large as what a closer look puts there.
fn reading_outside() -> Kernel {
    changing(|call, value| value + if call.peek(1, -1) > 1e30 { 1e-6 } else { 0.0 })
}

#[test]
fn finalists_meet_more_shapes_and_more_seeds() {
    let tiny = |(m, n, k)| ProblemPlan { name: format!("tiny:M={m},N={n},K={k}"), ..gemm(m, n, k) };
    let usual = [(17, 15, 16), (1, 33, 5)].map(tiny);
    let drawn = [(7, 40, 3), (53, 19, 4), (2, 2, 2)].map(tiny);
    // The 21st set of values of the smallest shape that has enough of them.
    let draw = Draw { seed: check_plan("gemm").seed, index: 21, family: Family::Normal, magnitude: 1.0 };
    let bytes = inputs::generate(&drawn[0], &drawn[0].buffers[0], draw).unwrap();
    let bad = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let unlucky = || {
        lying(move |call| {
            if call.load(0)[0] == bad {
                call.store(2, 0, 99.0);
            }
        })
    };
    let narrow = || {
        lying(|call| {
            let (m, n, _) = extents(call);
            if m % 16 == 5 && n % 16 == 3 {
                call.store(2, m * n - 1, 99.0);
            }
        })
    };
    for (kernel, wrong) in [(unlucky(), true), (narrow(), true), (kernel(honest), false)] {
        let mut judge = judge_of(kernel, check_plan("gemm"));
        let full = judge.gate(0, Gate::TinyShapes, Depth::Full, &usual);
        assert_eq!(full.report.state, GateState::Pass, "{}", full.report.message);
        let deep = judge.gate(0, Gate::TinyShapes, Depth::Deep, &drawn);
        assert_eq!(deep.verdict.map(|verdict| verdict.kind), wrong.then_some(VerdictKind::WrongAnswer));
        let evidence = |name| deep.report.evidence.get(name).and_then(|count| count.as_u64()).unwrap();
        assert!(evidence("further_shapes") == 3 && (evidence("further_seeds") > 0 || wrong));
        // Nobody asks for them again.
        assert!(
            judge.expected.get(&expected::key(&check_plan("gemm"), &Case::first(&drawn[0]), None)).is_none()
        );
    }
}

#[test]
fn a_range_that_a_single_row_could_not_show_is_met_again() {
    let (plans, check) = (shapes(), check_plan("gemm"));
    let all: Vec<&ProblemPlan> = plans.iter().collect();
    let asked = |explored| {
        let cases = case::cases(&check, &all, Depth::Full, explored).unwrap();
        let special = cases.iter().filter(|own| own.family == Family::Special);
        special.map(|own| own.plan.name.clone()).collect::<Vec<_>>()
    };
    let largest = Case::first(&plans[2]).elements();
    assert_eq!(asked(0), [plans[2].name.as_str()]);
    assert_eq!(asked(12), [plans[2].name.as_str()]);
    assert_eq!(asked(largest), [""; 0], "what is as large shows no more");
    assert_eq!(asked(1 << 10), [""; 0]);
    assert_eq!(asked(case::RANGE_KNOWN), [""; 0]);
}

#[test]
fn seeds_are_tried_without_small_shapes_too() {
    let mut judge = judge_of(kernel(honest), check_plan("gemm"));
    let full = judge.gate(0, Gate::FullShapes, Depth::Deep, &shapes());
    assert!(full.report.evidence.get("further_seeds").is_some(), "{:?}", full.report);
    let plans = shapes();
    let largest = plans.iter().collect::<Vec<_>>();
    let names = |depth| {
        let cases = case::cases(&check_plan("gemm"), &largest, depth, case::RANGE_KNOWN).unwrap();
        cases.iter().map(Case::name).filter(|name| name.ends_with("zero")).collect::<Vec<_>>()
    };
    assert_eq!(names(Depth::Full), [""; 0]);
    assert_eq!(names(Depth::Deep), [format!("{} seed 0 zero", plans[2].name)]);
}

#[test]
fn a_cheap_path_for_large_sizes_is_wrong_at_full_shapes() {
    let cheap = lying(|call| {
        let (m, n, _) = extents(call);
        for index in (0..m * n).filter(|_| m > 20) {
            let value = call.peek(2, index) * 0.5;
            call.store(2, index, value);
        }
    });
    let mut judge = judge_of(cheap, check_plan("gemm"));
    let tiny = judge.gate(0, Gate::TinyShapes, Depth::Quick, &[gemm(5, 7, 16)]);
    assert!(tiny.verdict.is_none());
    let full = judge.gate(0, Gate::FullShapes, Depth::Quick, &[gemm(32, 16, 32)]);
    assert_eq!(full.verdict.unwrap().label(), "wrong_answer:timed_shape");
}

#[test]
fn faults_of_a_naive_kernel_are_the_tasks() {
    // The reference leaves its output unwritten: NaN, hence an invalid task, not a wildcard.
    let device = FakeDevice::new(vec![("k", kernel(honest)), ("naive", kernel(|_| {}))]);
    let answer = judge_on(device, kernel_plan()).gate(0, Gate::TinyShapes, Depth::Quick, &shapes());
    assert_eq!(answer.verdict.unwrap().label(), "harness_error:task");
}

#[test]
fn damage_by_an_earlier_variant_is_not_blamed_on_the_next() {
    for victim in ["a", "a (pristine)", "c (expected)"] {
        let shared = std::cell::Cell::new(true);
        let sometimes = kernel(move |call| {
            honest(call);
            // Only the variant that was loaded first (its global counts from 0 in each module).
            if shared.get() && *call.global == 7 {
                call.scribble(victim);
                shared.set(false);
            }
            *call.global += 1;
        });
        let mut judge = judge_of(sometimes, check_plan("gemm"));
        let plans = [gemm(5, 7, 16)];
        let timed = judge.prepare_timed(0, &plans[0], Turns::One, Answers::Needed).unwrap();
        for _ in 0..8 {
            judge.device().launch(timed.first().module, &timed.first().launches).unwrap();
        }
        drop(timed);
        load(&mut judge, check_plan("gemm"));
        for round in 0..2 {
            let answer = judge.gate(0, Gate::TinyShapes, Depth::Quick, &plans);
            assert_eq!(answer.report.state, GateState::Pass, "{victim} {round}: {}", answer.report.message);
        }
    }
}

#[test]
fn kept_answers_to_other_inputs_are_computed_anew() {
    let check = check_plan("gemm");
    let mut judge = judge_of(kernel(honest), check.clone());
    let case = Case::first(&shapes()[0]);
    let (right, _) = expected::compute(&check, &case, &mut |_: &[Vec<u8>]| unreachable!()).unwrap();
    let mut stale = ExpectedSet { inputs: ContentHash::of(b"of another program"), ..right };
    stale.outputs[0].values[3] += 1.0;
    judge.expected.put(&expected::key(&check, &case, None), stale, Some(std::time::Duration::ZERO));
    let answer = judge.gate(0, Gate::FullShapes, Depth::Full, &shapes());
    assert_eq!(answer.report.state, GateState::Pass);
}
