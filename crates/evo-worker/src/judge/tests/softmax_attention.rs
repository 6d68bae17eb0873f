//! Softmax and attention: faults that only some families or flags show.

use super::*;

/// Arguments of `k`: x, y, ROWS, COLS.
fn softmax(rows: i64, columns: i64) -> ProblemPlan {
    let of = |name, role| buffer(name, DType::F32, &[rows as u64, columns as u64], role);
    let own = plan("softmax", &[("ROWS", rows)], vec![of("x", Role::Input), of("y", Role::Output)]);
    with_launch(own, &[rows, columns])
}

fn softmax_row(row: &[f32], max: f32) -> Vec<f32> {
    let powers: Vec<f32> = row.iter().map(|x| (x - max).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

fn softmax_kernel(with_max: bool) -> Kernel {
    softmax_from(f32::NEG_INFINITY, with_max)
}

/// A softmax whose maximum starts here.
fn softmax_from(start: f32, with_max: bool) -> Kernel {
    kernel(move |call| {
        let columns = call.scalar(3) as usize;
        let x = call.load(0);
        for (row, values) in x.chunks(columns).enumerate() {
            let max = values.iter().copied().fold(start, f32::max);
            let out = softmax_row(values, if with_max { max } else { 0.0 });
            out.iter().enumerate().for_each(|(at, y)| call.store(1, (row * columns + at) as i64, *y));
        }
    })
}

#[test]
fn a_softmax_without_its_maximum_fails_for_large_inputs_only() {
    let plans = [softmax(4, 64)];
    let judge = |with_max, depth| verdict_at(softmax_kernel(with_max), check_plan("softmax"), &plans, depth);
    assert!(judge(true, Depth::Full).is_none());
    assert!(judge(false, Depth::Quick).is_none());
    let verdict = judge(false, Depth::Full).unwrap();
    assert_eq!(verdict.label(), "wrong_answer:range");
    assert_eq!(verdict.evidence.get("family").unwrap(), Family::Spikes.as_str());
}

#[test]
fn a_maximum_that_starts_too_high_fails_for_rows_below_it() {
    let plans = [softmax(5, 64)];
    let judge = |start, families: &[&str]| {
        let families = families.iter().map(ToString::to_string).collect();
        let check = CheckPlan { families, ..check_plan("softmax") };
        verdict_at(softmax_from(start, true), check, &plans, Depth::Full)
    };
    let family = |verdict: Option<Box<Verdict>>| verdict.unwrap().evidence.get("family").unwrap().clone();
    assert_eq!(family(judge(0.0, &["normal", "low"])), "low");
    assert_eq!(family(judge(-1e30, &["normal", "low", "lowest"])), "lowest");
    assert!(judge(f32::MIN, &["low", "lowest"]).is_none());
}

/// Arguments of `k`: q, k, v, o, SQ, SKV, CAUSAL.
fn attention(length: i64, causal: i64) -> ProblemPlan {
    let of = |name, role| buffer(name, DType::F32, &[1, 2, length as u64, 8], role);
    let buffers =
        vec![of("q", Role::Input), of("k", Role::Input), of("v", Role::Input), of("o", Role::Output)];
    let name = format!("attention_{length}_{causal}");
    with_launch(plan(&name, &[("S", length), ("CAUSAL", causal)], buffers), &[length, causal])
}

fn attention_kernel(shift: usize, swap: bool) -> Kernel {
    kernel(move |call| {
        let (length, causal) = (call.scalar(4) as usize, call.scalar(5) == 1);
        let q = call.load(0);
        let (k, v) = if swap { (call.load(2), call.load(1)) } else { (call.load(1), call.load(2)) };
        for (row, query) in q.chunks(8).enumerate() {
            let (head, position) = (row / length, row % length);
            let seen = if causal { (position + 1 + shift).min(length) } else { length };
            let at = |j: usize, d: usize| (head * length + j) * 8 + d;
            let logit = |j: usize| (0..8).map(|d| query[d] * k[at(j, d)]).sum::<f32>() / 8f32.sqrt();
            let logits: Vec<f32> = (0..seen).map(logit).collect();
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights = softmax_row(&logits, max);
            for d in 0..8 {
                let sum: f32 = weights.iter().enumerate().map(|(j, w)| w * v[at(j, d)]).sum();
                call.store(3, (row * 8 + d) as i64, sum);
            }
        }
    })
}

#[test]
fn a_shifted_diagonal_is_wrong_for_causal_only_and_swapped_inputs_everywhere() {
    let plans: Vec<ProblemPlan> =
        [(16, 0), (17, 0), (16, 1), (17, 1)].map(|(length, causal)| attention(length, causal)).to_vec();
    let judge = |shift, swap| {
        let found = verdict_at(attention_kernel(shift, swap), check_plan("attention"), &plans, Depth::Full);
        found.map(|verdict| verdict.label())
    };
    assert_eq!(judge(0, false), None);
    assert_eq!(judge(1, false).unwrap(), "wrong_answer:causal");
    assert_eq!(judge(0, true).unwrap(), "wrong_answer:value");
}
