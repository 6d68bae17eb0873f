//! `evo space --device`: what a device's limits exclude is not counted, and says so.

use std::fs;

use serde_json::Value;

use crate::support::evo;

const SPACE: &str = include_str!("../data/kernels/tile/space.toml");

fn answer(words: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tile.toml"), SPACE).unwrap();
    fs::write(folder.path().join("tile.cu"), "// any text\n").unwrap();
    let output = evo(folder.path(), &format!("space ./tile.toml {words} --json")).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
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
    let all = answer("");
    assert_eq!(all["valid"], 7 * 7 * 4);
    let sm_90 = answer("--device sm_90");
    assert_eq!(sm_90["valid"], counted(1024, 227 * 1024));
    assert_eq!(answer("--device sm_86")["valid"], counted(1024, 99 * 1024));
    let text = sm_90.to_string();
    for part in [
        "(X) * (Y) <= 1024",
        "(1024 * KIB + 4 * 256) <= 232448",
        "not (X > 1) or (X * 32) <= 1024",
        "the device's limit on shared memory of a block, in launch `tile`",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A point that the device refuses is explained as any other.
    let refused = answer("--device sm_90 --check X=64 Y=32 KIB=1");
    assert_eq!(refused["exit_code"], 1, "{refused}");
    assert!(
        refused.to_string().contains("the device's limit on threads of a block, in launch `tile`"),
        "{refused}"
    );
}

#[test]
fn an_unknown_device_is_refused() {
    let own = answer("--device sm_12");
    assert_eq!(own["exit_code"], 2);
    assert!(
        own["error"]["message"].as_str().unwrap().contains("the limits of `sm_12` are not known"),
        "{own}"
    );
}
