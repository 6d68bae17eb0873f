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

pub(super) fn rows() -> Vec<Row> {
    let softmax = |says, start, with_max, families: &[&str]| {
        let families = families.iter().map(ToString::to_string).collect();
        let check = CheckPlan { families, ..check_plan("softmax") };
        Row { check, plans: vec![softmax(4, 64)], ..row(says, softmax_from(start, with_max)) }
    };
    let attention = |says, shift, swap| {
        let plans = [(16, 0), (17, 0), (16, 1), (17, 1)].map(|(length, causal)| attention(length, causal));
        let kernel = attention_kernel(shift, swap);
        Row { check: check_plan("attention"), plans: plans.to_vec(), ..row(says, kernel) }
    };
    let least = f32::NEG_INFINITY;
    vec![
        softmax("pass", least, true, &[]),
        // Without its maximum it fails for large inputs only.
        Row { depth: Depth::Quick, ..softmax("pass", least, false, &[]) },
        softmax("wrong_answer:range spikes", least, false, &[]),
        // A maximum that starts too high fails for rows below it.
        softmax("wrong_answer:range low", 0.0, true, &["normal", "low"]),
        softmax("wrong_answer:special_values lowest", -1e30, true, &["normal", "low", "lowest"]),
        softmax("pass", f32::MIN, true, &["low", "lowest"]),
        attention("pass", 0, false),
        attention("wrong_answer:causal", 1, false),
        attention("wrong_answer:value", 0, true),
    ]
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
