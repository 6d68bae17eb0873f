//! What each family draws.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::judge::reference::testing;

fn buffer(name: &str, dtype: DType, count: u64, fill: Fill) -> BufferPlan {
    BufferPlan { fill, ..testing::buffer(name, dtype, &[count], Role::Input) }
}

fn plan(buffers: Vec<BufferPlan>) -> ProblemPlan {
    testing::plan("p", &[], buffers)
}

fn values(name: &str, dtype: DType, count: u64, fill: Fill, family: Family, seed: u64) -> Vec<f64> {
    let buffer = buffer(name, dtype, count, fill);
    let draw = Draw { seed, index: 0, family, magnitude: family.magnitudes()[0] };
    drawn(&plan(vec![buffer.clone()]), &buffer, draw)
}

fn drawn(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> Vec<f64> {
    element::widen(&generate(plan, buffer, draw).unwrap(), buffer.dtype)
}

const BELL: Fill = Fill::Normal { scale: 1.0 };

#[test]
fn the_bell_has_mean_0_and_variance_1() {
    let values = values("x", DType::F64, 200_000, BELL, Family::Normal, 1);
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.01, "{mean} {variance}");
}

#[test]
fn the_same_seed_gives_the_same_tensor_and_names_give_others() {
    let draw = |name: &str, seed| values(name, DType::F16, 70_000, BELL, Family::Normal, seed);
    assert_eq!(draw("k", 7), draw("k", 7));
    assert_ne!(draw("k", 7), draw("v", 7));
    assert_ne!(draw("k", 7), draw("k", 8));
    // Chunks are streams of their own: no chunk repeats another.
    let long = draw("k", 7);
    assert_ne!(long[..CHUNK], long[CHUNK..2 * CHUNK]);
}

#[test]
fn families_do_what_their_names_say() {
    let rms = |v: &[f64]| (v.iter().map(|v| v * v).sum::<f64>() / v.len() as f64).sqrt();
    let draw = |family| values("x", DType::F32, 4096, BELL, family, 3);
    assert!((rms(&draw(Family::Large)) / 30.0 - 1.0).abs() < 0.1);
    assert!((rms(&draw(Family::Small)) / 1e-3 - 1.0).abs() < 0.1);
    let constant = draw(Family::Constant);
    assert!(constant[0].abs() >= 0.5 && constant.iter().all(|v| *v == constant[0]));
    // Steps of a ramp against its direction: none, or those round the few elements that stand elsewhere.
    let against = |seed| {
        let ramp = values("x", DType::F32, 4096, BELL, Family::Ramp, seed);
        let up = ramp.windows(2).filter(|pair| pair[1] > pair[0]).count();
        up.min(ramp.len() - 1 - up)
    };
    let counts: Vec<usize> = (1..20).map(against).collect();
    assert!(counts.iter().all(|count| *count == 0 || (50..150).contains(count)), "{counts:?}");
    assert!(counts.contains(&0) && counts.iter().any(|count| *count > 0), "{counts:?}");
    let spikes = draw(Family::Spikes).iter().filter(|v| v.abs() > 20.0).count();
    assert!((1..40).contains(&spikes), "{spikes}");
    let single = values("x", DType::F32, 1, BELL, Family::Spikes, 3);
    assert!(single[0].abs() > 1.0);
}

#[test]
fn no_family_leaves_a_declared_range() {
    for family in Family::ALL.iter().copied() {
        let fill = Fill::Uniform { low: 0.0, high: 10.0, inclusive: false };
        let drawn = values("i", DType::I32, 5000, fill.clone(), family, 5);
        assert!(drawn.iter().all(|v| (0.0..10.0).contains(v) && v.fract() == 0.0), "{family:?}");
        if !matches!(family, Family::Constant | Family::Zero | Family::Mixed) {
            assert!(drawn.contains(&0.0) && drawn.contains(&9.0), "{family:?}");
        }
        let floats = values("f", DType::F32, 5000, fill.clone(), family, 5);
        assert!(floats.iter().all(|v| (0.0..10.0).contains(v)), "{family:?}");
        let closed = Fill::Uniform { low: 0.0, high: 9.0, inclusive: true };
        assert_eq!(values("i", DType::I32, 5000, closed, family, 5), drawn);
        let fixed = values("c", DType::F16, 10, Fill::Constant { value: 2.5 }, family, 5);
        assert_eq!(fixed, vec![2.5; 10]);
    }
}

#[test]
fn families_go_to_the_edge_of_the_type_where_nothing_is_declared() {
    let floats = |dtype, family| values("x", dtype, 4096, Fill::Unrestricted, family, 3);
    assert!(floats(DType::F32, Family::Special).iter().any(|v| !v.is_finite()));
    assert!(floats(DType::F32, Family::Special).iter().filter(|v| !v.is_finite()).count() < 40);
    assert!(floats(DType::F32, Family::Huge).iter().any(|v| v.abs() >= 1e30));
    assert!(floats(DType::F16, Family::Huge).iter().any(|v| v.abs() > 16_000.0 && v.is_finite()));
    let tiny = floats(DType::F32, Family::Subnormal);
    assert!(tiny.iter().all(|v| v.abs() <= f64::from(f32::MIN_POSITIVE)) && tiny.iter().any(|v| *v != 0.0));
    assert!(floats(DType::F32, Family::Offset).iter().all(|v| *v > 900.0));
    assert!(floats(DType::F16, Family::Zero)[..4095].iter().all(|v| *v == 0.0));
    assert!(floats(DType::F32, Family::Lowest).iter().all(|v| *v < -1e30 && *v > -1.6e30));
    assert!(floats(DType::F16, Family::Lowest).iter().all(|v| *v < -1e4 && v.is_finite()));
    let bytes = |family| values("b", DType::U8, 4096, Fill::Unrestricted, family, 3);
    assert!(bytes(Family::Wide).iter().any(|v| *v >= 128.0));
    assert!(bytes(Family::Extremes).contains(&255.0) && !bytes(Family::Extremes).contains(&-1.0));
    let negative = values("x", DType::F32, 4096, BELL, Family::Zero, 3);
    let negative = negative.iter().filter(|own| **own == 0.0 && own.is_sign_negative()).count();
    assert!((1000..1800).contains(&negative), "{negative}");
    let longs = values("l", DType::I64, 4096, Fill::Unrestricted, Family::Extremes, 3);
    assert!(longs.contains(&-2f64.powi(63)) && longs.contains(&-1.0));
}

#[test]
fn integers_are_random_alike_and_at_the_ends_in_every_draw() {
    let mut shared = BTreeSet::new();
    for (seed, shape) in (1..20).flat_map(|seed| [(seed, vec![513]), (seed, vec![9, 57])]) {
        let buffer = BufferPlan { shape, ..buffer("l", DType::I64, 0, Fill::Unrestricted) };
        let bits = |family| -> Vec<u64> {
            let draw = Draw { seed, index: 0, family, magnitude: 1.0 };
            let bytes = generate(&plan(vec![buffer.clone()]), &buffer, draw).unwrap();
            bytes.chunks(8).map(|own| u64::from_le_bytes(own.try_into().unwrap())).collect()
        };
        let wide = bits(Family::Wide);
        let kinds = |of: &dyn Fn(u64) -> u64| {
            let mut kinds: Vec<usize> = wide
                .chunks(171)
                .map(|part| part.iter().map(|own| of(*own)).collect::<BTreeSet<_>>().len())
                .collect();
            kinds.sort_unstable();
            kinds
        };
        // One third shares the upper half, with the highest bit of the lower one, or else the lower half; one shares all
        // but ten bits.
        let [near, half, random] = kinds(&|own| own >> 31).try_into().unwrap();
        let lower = kinds(&|own| own & 0xffff_ffff)[0] == 1;
        assert!(
            near == 1 && half == if lower { 171 } else { 2 } && random == 171,
            "{seed}: {near} {half} {random}"
        );
        shared.insert(lower);
        let [near, half, random] = kinds(&|own| own >> 10).try_into().unwrap();
        assert!(near == 1 && half > 160 && random == 171, "{seed}: {near} {half} {random}");
        let ends = bits(Family::Extremes);
        let alike: BTreeSet<u64> = ends
            .chunks(171)
            .filter(|part| part.iter().all(|own| *own == part[0]))
            .map(|part| part[0])
            .collect();
        assert_eq!(alike, [i64::MAX as u64, i64::MIN as u64].into(), "{seed}");
    }
    assert_eq!(shared.len(), 2, "each half is shared in some draws");
}

#[test]
fn integers_of_one_draw_in_four_are_all_at_one_end() {
    let mut ends = BTreeSet::new();
    for seed in 1..12 {
        let buffer = BufferPlan { shape: vec![64, 9], ..buffer("b", DType::I8, 0, Fill::Unrestricted) };
        let draw = Draw { seed, index: AT_ONE_END, family: Family::Extremes, magnitude: 1.0 };
        let bytes = generate(&plan(vec![buffer.clone()]), &buffer, draw).unwrap();
        assert!(bytes.iter().all(|own| *own == bytes[0]));
        ends.insert(bytes[0] as i8);
    }
    assert_eq!(ends, [i8::MIN, i8::MAX].into());
}

fn operands(family: Family, seed: u64, index: u32) -> [Vec<i64>; 2] {
    let own = |name| BufferPlan { shape: vec![96, 64], ..buffer(name, DType::I32, 0, Fill::Unrestricted) };
    let all = plan(vec![own("a"), own("b")]);
    let draw = Draw { seed, index, family, magnitude: 1.0 };
    [0, 1].map(|at| {
        let values = drawn(&all, &all.buffers[at], draw);
        values.into_iter().map(|own| own as i64).collect()
    })
}

#[test]
fn integers_of_some_length_have_all_their_bits() {
    let exact_in_float = |own: &i64| (*own as f32) as i64 == *own;
    let (mut longest, mut unsigned) = (BTreeSet::new(), 0);
    for seed in 1..40 {
        for [a, b] in [0, 1].map(|index| operands(Family::Spread, seed, index)) {
            let bits =
                |own: &[i64]| own.iter().map(|own| 64 - own.unsigned_abs().leading_zeros()).max().unwrap();
            let all_lengths =
                bits(&a) == 31 && a.iter().filter(|own| own.abs() < 1 << 15).count() > a.len() / 3;
            if all_lengths {
                assert!(a.iter().filter(|own| !exact_in_float(own)).count() > 100, "{seed}");
                let short = |own: &&i64| own.abs() < 1 << 15;
                let products = a.iter().zip(&b).filter(|(a, b)| short(a) && short(b)).map(|(a, b)| a * b);
                assert!(products.filter(|own| !exact_in_float(own)).count() > 10, "{seed}");
            } else {
                assert!(bits(&a).abs_diff(bits(&b)) <= 1, "{seed}: {} {}", bits(&a), bits(&b));
                longest.insert(bits(&a));
                unsigned += usize::from(a.iter().all(|own| *own >= 0));
            }
        }
    }
    assert!(longest.len() > 12 && (8..32).contains(&unsigned), "{longest:?} {unsigned}");
}

#[test]
fn the_largest_integers_of_a_case_meet() {
    for seed in 1..9 {
        let all = operands(Family::Extremes, seed, AT_UPPER_END).concat();
        assert!(all.iter().all(|own| *own == i64::from(i32::MAX)), "{seed}");
    }
    // In some draws all operands share the upper half, which is not everybody's zero or end.
    let shares = |seed| {
        let uppers = operands(Family::Wide, seed, 0).map(|own| {
            let halves = own.chunks(32 * 64).filter(|part| part.iter().all(|own| own >> 16 == part[0] >> 16));
            halves.map(|part| part[0] >> 16).collect::<BTreeSet<_>>()
        });
        uppers[0].intersection(&uppers[1]).any(|own| ![0, -1, 0x7fff, -0x8000].contains(own))
    };
    assert!((1..60).filter(|seed| shares(*seed)).count() >= 3);
}

#[test]
fn one_of_several_inputs_is_zero_and_the_others_take_turns_of_their_own() {
    let names = ["a", "b", "c"];
    let buffers = names.map(|name| buffer(name, DType::F32, 512, BELL)).to_vec();
    let all = plan(buffers.clone());
    let mut zeros = BTreeMap::new();
    let mut others = BTreeSet::new();
    for index in 0..30 {
        let draw = Draw { seed: 3, index, family: Family::Mixed, magnitude: 30.0 };
        let kinds = buffers.iter().map(|own| {
            let values = drawn(&all, own, draw);
            let largest = values.iter().fold(0.0f64, |most, own| most.max(own.abs()));
            let nonzero = values.iter().filter(|own| **own != 0.0).count();
            (nonzero <= 1, largest.log10().round() as i64)
        });
        let kinds: Vec<(bool, i64)> = kinds.collect();
        let zero: Vec<usize> = (0..3).filter(|at| kinds[*at].0).collect();
        assert_eq!(zero.len(), 1, "{index}: {kinds:?}");
        *zeros.entry(zero[0]).or_insert(0) += 1;
        others.extend(kinds.iter().filter(|own| !own.0).map(|own| own.1));
    }
    assert_eq!(zeros, BTreeMap::from([(0, 10), (1, 10), (2, 10)]));
    assert!(others.len() >= 4, "{others:?}");
    // A single input has the other kinds only.
    let alone = plan(vec![buffers[0].clone()]);
    for index in 0..10 {
        let draw = Draw { seed: 3, index, family: Family::Mixed, magnitude: 30.0 };
        let values = drawn(&alone, &buffers[0], draw);
        assert!(values.iter().filter(|own| **own != 0.0).count() > 100);
    }
}

#[test]
fn rows_lie_far_below_zero_at_levels_of_their_own() {
    let buffer = BufferPlan { shape: vec![64, 33], ..buffer("x", DType::F32, 0, BELL) };
    let drawn = |family: Family| {
        let draw = Draw { seed: 3, index: 0, family, magnitude: family.magnitudes()[0] };
        drawn(&plan(vec![buffer.clone()]), &buffer, draw)
    };
    let low = drawn(Family::Low);
    assert!(low[..33].iter().all(|v| (-1005.0..-745.0).contains(v)), "{:?}", &low[..33]);
    for (family, below) in [(Family::Low, -700.0), (Family::Lowest, -1e30)] {
        let values = drawn(family);
        let down: Vec<bool> = values.chunks(33).map(|row| row.iter().all(|v| *v < below)).collect();
        let usual = values.chunks(33).filter(|row| row.iter().all(|v| v.abs() < 6.0)).count();
        let low = down.iter().filter(|down| **down).count();
        assert!(down[0] && low + usual == 64 && (10..40).contains(&usual), "{family:?} {low} {usual}");
        // Elements of a row still differ.
        assert!(values[..33].windows(2).any(|pair| pair[0] != pair[1]));
    }
}

#[test]
fn special_values_stand_at_the_borders_and_fill_a_row() {
    let (rows, columns) = (40, 25);
    let shape = vec![rows as u64, columns as u64];
    let own = BufferPlan { shape, ..buffer("x", DType::F32, 1, BELL) };
    let mut first_columns = 0;
    let mut negative_zeros = 0;
    for seed in 0..8 {
        let draw = Draw { seed, index: 0, family: Family::Special, magnitude: 1.0 };
        let values = drawn(&plan(vec![own.clone()]), &own, draw);
        let masked = values.chunks(columns).filter(|row| row.iter().all(|own| *own == f64::NEG_INFINITY));
        assert_eq!(masked.count(), 1, "seed {seed}");
        first_columns += values.chunks(columns).filter(|row| row[0].is_nan()).count();
        negative_zeros += values.iter().filter(|own| **own == 0.0 && own.is_sign_negative()).count();
    }
    assert!(first_columns > 0 && negative_zeros > 0, "{first_columns} {negative_zeros}");
}

/// The contents of `x` in the two kinds of a family, in either order; `others` stand beside it.
fn kinds(family: Family, others: &[BufferPlan]) -> [Vec<f64>; 2] {
    let own = BufferPlan { shape: vec![8, 64], ..buffer("x", DType::F32, 0, BELL) };
    let all = plan([std::slice::from_ref(&own), others].concat());
    [0, 1].map(|index| {
        let draw = Draw { seed: 3, index, family, magnitude: 1.0 };
        drawn(&all, &own, draw)
    })
}

#[test]
fn neighboring_seeds_have_the_two_kinds_of_a_family() {
    let changed = |kinds: &[Vec<f64>; 2], holds: &dyn Fn(&[f64]) -> bool| {
        let found = [holds(&kinds[0]), holds(&kinds[1])];
        assert_ne!(found[0], found[1], "{kinds:?}");
    };
    changed(&kinds(Family::Zero, &[]), &|own| own.iter().all(|value| *value == 0.0));
    changed(&kinds(Family::Ramp, &[]), &|own| own.is_sorted() || own.is_sorted_by(|a, b| a >= b));
    // Nearly equal values only where the answer is a choice.
    let place = BufferPlan { role: Role::Output, ..buffer("at", DType::I32, 8, BELL) };
    let equal = |own: &[f64]| own.iter().all(|value| *value == own[0]);
    changed(&kinds(Family::Constant, &[place]), &equal);
    assert!(kinds(Family::Constant, &[]).iter().all(|own| equal(own)));
    let near = f64::from(f32::MIN_POSITIVE);
    let [first, second] = kinds(Family::Subnormal, &[]);
    assert!(first.iter().all(|value| value.abs() <= near));
    assert!(second.iter().any(|value| value.abs() > near) && second.iter().any(|value| value.abs() < near));
    // Of two inputs one is subnormal, and the other plain.
    let other = buffer("w", DType::F32, 512, BELL);
    let all = plan(vec![buffer("x", DType::F32, 512, BELL), other]);
    for index in [1, 3, 5, 7] {
        let draw = Draw { seed: 3, index, family: Family::Subnormal, magnitude: 1.0 };
        let tiny = all.buffers.iter().filter(|own| {
            let values = drawn(&all, own, draw);
            values.iter().all(|value| value.abs() <= 4.0 * near)
        });
        assert_eq!(tiny.count(), 1);
    }
}

#[test]
fn a_closed_range_of_floats_has_both_ends() {
    let closed = Fill::Uniform { low: 0.0, high: 1.0, inclusive: true };
    let open = Fill::Uniform { low: 0.0, high: 1.0, inclusive: false };
    let most = |fill| values("x", DType::F32, 512, fill, Family::Extremes, 3).into_iter().fold(0.0, f64::max);
    assert_eq!(most(closed), 1.0);
    assert!(most(open) < 1.0);
}

#[test]
fn numbers_of_the_texts_are_drawn_where_they_fit() {
    let dictionary = Dictionary { integers: vec![12289, 0xdead_beef], floats: vec![17.3125, 9000.0] };
    let named = |dtype, fill| {
        let buffer = buffer("x", dtype, 20_000, fill);
        let plan = ProblemPlan { dictionary: dictionary.clone(), ..plan(vec![buffer.clone()]) };
        drawn(&plan, &buffer, Draw { seed: 5, index: 0, family: Family::Named, magnitude: 1.0 })
    };
    let words = named(DType::U32, Fill::Unrestricted);
    for wanted in [12289.0, 12288.0, 12290.0, 5.0 * 12289.0, 3_735_928_559.0] {
        assert!(words.contains(&wanted), "{wanted}");
    }
    let signed = named(DType::I32, Fill::Unrestricted);
    assert!(signed.contains(&-12289.0) && !signed.contains(&3_735_928_559.0));
    let range = Fill::Uniform { low: 12000.0, high: 12290.0, inclusive: false };
    let inside = named(DType::I32, range);
    assert!(inside.contains(&12289.0) && inside.iter().all(|value| (12000.0..12290.0).contains(value)));
    let floats = named(DType::F32, BELL);
    assert!(floats.contains(&17.3125) && floats.contains(&-17.3125) && !floats.contains(&9000.0));
    assert!(named(DType::U8, Fill::Unrestricted).iter().all(|value| *value <= 255.0));
}

#[test]
fn zeros_end_at_borders_of_rows_or_between_rows() {
    let mut buffer = buffer("x", DType::F32, 0, BELL);
    buffer.shape = vec![100, 1000];
    let plan = plan(vec![buffer.clone()]);
    let draw = |index| {
        let draw = Draw { seed: 5, index, family: Family::Borders, magnitude: 1.0 };
        (draw.is_second(), drawn(&plan, &buffer, draw))
    };
    let both: BTreeMap<bool, Vec<f64>> = [draw(0), draw(1)].into();
    let (columns, rows) = (&both[&false], &both[&true]);
    for place in [0, 255, 256, 257, 500, 511, 512, 750, 999] {
        assert!((0..100).all(|row| columns[1000 * row + place] > 0.5), "{place}");
    }
    assert!((0..100).all(|row| columns[1000 * row + 300] == 0.0));
    assert!(
        rows[64_000..65_000].iter().all(|value| *value > 0.5)
            && rows[70_000..71_000].iter().all(|v| *v == 0.0)
    );
}

#[test]
fn special_values_of_two_inputs_meet_in_every_pair() {
    let both = ["a", "b"].map(|name| buffer(name, DType::F32, 5000, BELL));
    let plan = plan(both.to_vec());
    let draw = Draw { seed: 5, index: 0, family: Family::Special, magnitude: 1.0 };
    let [left, right] = both.map(|buffer| drawn(&plan, &buffer, draw));
    let kinds = [f64::INFINITY, f64::NEG_INFINITY, 0.0];
    for (first, second) in kinds.into_iter().flat_map(|first| kinds.map(|second| (first, second))) {
        assert!(left.iter().zip(&right).any(|pair| pair == (&first, &second)), "{first} beside {second}");
    }
}
