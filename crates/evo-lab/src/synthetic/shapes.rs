//! Synthetic spaces that each pose one difficulty of search in pure form.

use super::point::{Definition, Losses, Point, list, octaves, scatter, unless};

/// `name_0 = values`, … up to `count`.
fn repeated(name: &str, count: usize, values: &str) -> String {
    (0..count).map(|number| format!("{name}_{number} = {values}\n")).collect()
}

/// Thirty switches, as of a compiler: most do nothing, some only together.
pub(super) const SWITCHES: Definition = Definition {
    name: "switches",
    about: "30 booleans and levels, some of which only work together",
    text: switches,
    planted: || {
        let flags =
            (0..20).map(|number| if [1, 3, 4, 6, 8, 9, 13].contains(&number) { "true" } else { "false" });
        let levels = (0..10).map(|number| ["off", "high", "low", "max"][number % 4]);
        flags.chain(levels).collect::<Vec<_>>().join(" ")
    },
    losses: switches_losses,
};

fn switches() -> String {
    format!(
        "constraints = [
            'not (flag_0 and flag_1)',
            'flag_3 or not flag_4',
            'not flag_13 or level_1 != \"off\"',
            'not (flag_17 and level_6 == \"max\")',
        ]
        [parameters]\n{}{}",
        repeated("flag", 20, "[false, true]"),
        repeated("level", 10, "['off', 'low', 'high', 'max']"),
    )
}

fn switches_losses(point: &Point) -> Losses {
    let flag = |number: usize| point.position(number) == 1.0;
    let level = |number: usize, wanted: f64| (point.position(20 + number) - wanted).abs();
    Ok(vec![
        unless(flag(1), 0.15),
        unless(!flag(2), 0.1),
        unless(flag(4), 0.2),
        // Nothing is gained before both are on.
        unless(flag(6) && flag(13), 0.3),
        // Equal ones are best on, different ones are the worst.
        unless(flag(8) == flag(9), 0.25) + unless(flag(8), 0.05),
        // Of two ways to the same end, one at a time.
        unless(flag(3) != flag(5), 0.12) + unless(!flag(5), 0.03),
        0.06 * level(0, 0.0),
        0.04 * level(1, 2.0) + unless(level(1, 2.0) < 0.5 || !flag(1), 0.1),
        0.1 * level(2, 1.0),
        // A level without an order: only one of the four helps, if the flag is on too.
        unless(level(3, 3.0) < 0.5 && flag(4), 0.2),
        0.05 * level(4, 0.0) * if flag(7) { 1.5 } else { 1.0 },
    ])
}

/// Eight parameters with hundreds of values: narrow curved valleys.
pub(super) const LONG_LISTS: Definition = Definition {
    name: "long_lists",
    about: "8 parameters of 230 values in narrow, curved valleys",
    text: || {
        let constraints = "'a + b <= 400', 'c * d <= 40000', 'e <= 4 * f', 'g + h <= 420'";
        let values = list(1, 230, 1);
        let lines: String = ('a'..='h').map(|name| format!("{name} = {values}\n")).collect();
        format!("constraints = [{constraints}]\n[parameters]\n{lines}")
    },
    planted: || "37 91 64 150 18 200 111 25".to_string(),
    losses: long_lists_losses,
};

fn long_lists_losses(point: &Point) -> Losses {
    let [a, b, c, d] = point.numbers(["a", "b", "c", "d"]);
    let [e, f, g, h] = point.numbers(["e", "f", "g", "h"]);
    Ok(vec![
        0.4 * octaves(a * b, 37.0 * 91.0),
        0.1 * octaves(a / b, 37.0 / 91.0),
        0.02 * (c + d - 214.0).abs(),
        0.005 * (c - d + 86.0).abs(),
        // The valley bends: the best `h` follows the square of `g`.
        0.01 * (h - 25.0 - (g - 111.0) * (g - 111.0) / 100.0).abs(),
        0.004 * (g - 111.0).abs(),
        0.15 * octaves(e, 18.0),
        0.002 * (f - 200.0).abs() + unless(f >= 8.0 * e, 0.2),
    ])
}

/// Most of the space slopes toward points that are not the best.
pub(super) const DECEPTIVE: Definition = Definition {
    name: "deceptive",
    about: "five times three parameters, each with a broad basin that is the wrong one",
    text: || {
        let constraints =
            "'p_0 + p_1 <= 32', 'p_3 * p_4 <= 270', 'p_6 + p_7 + p_8 <= 48', 'p_12 + p_13 != 17'";
        format!("constraints = [{constraints}]\n[parameters]\n{}", repeated("p", 15, &list(0, 17, 1)))
    },
    planted: || DECEPTIVE_PLANTED.map(|value| value.to_string()).join(" "),
    losses: |point| {
        let trap = |block: usize| {
            let slots = 3 * block..3 * block + 3;
            let (near, far): (f64, f64) = slots.fold((0.0, 0.0), |(near, far), slot| {
                let planted = f64::from(DECEPTIVE_PLANTED[slot]);
                // The broad basin is around the middle of the other half.
                let lure = (planted + 9.0) % 18.0;
                let position = point.position(slot);
                (near + (position - planted).abs(), far + (position - lure).abs())
            });
            (0.08 * near).min(0.15 + 0.012 * far)
        };
        Ok((0..5).map(trap).collect())
    },
};

const DECEPTIVE_PLANTED: [u32; 15] = [3, 12, 5, 16, 2, 14, 4, 7, 1, 15, 13, 6, 2, 11, 9];

/// Every pair of linked parameters has its own table of losses without any pattern.
pub(super) const PAIRWISE: Definition = Definition {
    name: "pairwise",
    about: "rugged: 40 pairs of 20 parameters, each with a table without pattern",
    text: || {
        let constraints = "'(p_0 + p_1) % 3 != 1', 'p_2 <= p_3 + 4', 'p_5 * p_6 <= 36', 'p_10 + p_11 != 7'";
        format!("constraints = [{constraints}]\n[parameters]\n{}", repeated("p", 20, &list(0, 7, 1)))
    },
    planted: || PAIRWISE_PLANTED.map(|value| value.to_string()).join(" "),
    losses: |point| {
        let pair = |one: usize, other: usize| {
            let [left, right] = [one, other].map(|slot| point.position(slot));
            let best = [one, other].map(|slot| f64::from(PAIRWISE_PLANTED[slot]));
            let key = (one * 20 + other) as u64 * 64 + left as u64 * 8 + right as u64;
            unless([left, right] == best, 0.01 + 0.06 * scatter(key))
        };
        let pairs = (0..20).flat_map(|slot| [(slot, (slot + 1) % 20), (slot, (slot + 7) % 20)]);
        Ok(pairs.map(|(one, other)| pair(one, other)).collect())
    },
};

const PAIRWISE_PLANTED: [u32; 20] = [4, 1, 6, 3, 0, 5, 2, 7, 1, 3, 6, 0, 4, 2, 5, 7, 3, 1, 6, 2];

/// A constraint that links all parameters through a remainder: the valid points cannot be counted.
pub(super) const ENTANGLED: Definition = Definition {
    name: "entangled",
    about: "a constraint links everything, so that valid points cannot be counted",
    text: || {
        let sum = (0..10).map(|at| format!("p_{at} * p_{} * {}", (at + 3) % 10, at + 2)).collect::<Vec<_>>();
        let values = list(1, 60, 1);
        format!(
            "constraints = ['({}) % 10007 < 6000', 'p_0 * p_1 <= 1800']\n[parameters]\n{}",
            sum.join(" + "),
            repeated("p", 10, &values)
        )
    },
    planted: || ENTANGLED_PLANTED.map(|value| value.to_string()).join(" "),
    losses: |point| {
        let off = |slot: usize| (point.position(slot) + 1.0 - f64::from(ENTANGLED_PLANTED[slot])).abs();
        let alone = (0..6).map(|slot| 0.012 * off(slot));
        // What counts of the others is the larger distance of each two.
        let pairs = [(6, 7), (8, 9)].map(|(one, other)| 0.03 * off(one).max(off(other)));
        Ok(alone.chain(pairs).collect())
    },
};

const ENTANGLED_PLANTED: [u32; 10] = [24, 31, 7, 52, 40, 13, 45, 20, 58, 33];
