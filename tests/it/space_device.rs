//! `evo space --device`: what a device's limits exclude is not counted, and says so.

use serde_json::{Value, json};

use crate::support::answer::holds;
use crate::support::stage::Stage;

fn answer(words: &str, code: i32, status: &str, expected: Value) {
    let words = format!("space ./tile.toml {words}");
    holds(&Stage::of("tile").answers(&words, code, status), &expected);
}

/// The points that satisfy what the limits say.
fn counted(threads: i64, bytes: i64) -> i64 {
    let powers = || (0..7).map(|exponent| 1i64 << exponent);
    let fits = |x: i64, y: i64, kib: i64| {
        x * y <= threads && 1024 * kib + 1024 <= bytes && (x == 1 || x * 32 <= threads)
    };
    let kib = [1, 64, 128, 256];
    powers()
        .flat_map(|x| powers().map(move |y| (x, y)))
        .map(|(x, y)| kib.iter().filter(|own| fits(x, y, **own)).count() as i64)
        .sum()
}

#[test]
fn the_limits_of_a_device_are_constraints() {
    answer("", 0, "pass", json!({ "valid": 7 * 7 * 4 }));
    answer("--device sm_86", 0, "pass", json!({ "valid": counted(1024, 99 * 1024) }));
    answer("--device sm_90", 0, "pass", json!({ "valid": counted(1024, 227 * 1024) }));
    for part in [
        "(X) * (Y) <= 1024",
        "(1024 * KIB + 4 * 256) <= 232448",
        "not (X > 1) or (X * 32) <= 1024",
        "the device's limit on shared memory of a block, in launch `tile`",
    ] {
        answer("--device sm_90", 0, "pass", json!({ "": format!("~ {part}") }));
    }
    // A point that the device refuses is explained as any other.
    let told = "~ the device's limit on threads of a block, in launch `tile`";
    answer("--device sm_90 --check X=64 Y=32 KIB=1", 1, "fail", json!({ "": told }));
}

#[test]
fn an_unknown_device_is_refused() {
    let told = "~ the limits of `sm_12` are not known";
    answer("--device sm_12", 2, "error", json!({ "error.message": told }));
}
