//! Long sweeps with faults planted: memory grows by a bounded number of bytes per evaluation, and the numbers of open
//! files and threads do not grow at all.
//!
//! Small by default. `EVO_SOAK_REPLAYED` and `EVO_SOAK_HOST` are the sizes of the real thing, which prints its figures:
//! `EVO_SOAK_REPLAYED=100000 EVO_SOAK_HOST=2000 cargo test --test it -- soak:: --nocapture`.

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::processes::children;
use crate::sweep::NAIVE;

/// Looks at the process, spread evenly over its evaluations.
const LOOKS: usize = 8;

/// What evo keeps of one evaluation in memory may be at most this, bytes.
const BYTES_REPLAYED: f64 = 16.0 * 1024.0;
const BYTES_HOST: f64 = 64.0 * 1024.0;

/// Open files and threads come and go by a few: a pipe of a worker that is being replaced.
const MORE: usize = 12;

fn size(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// One look at a process.
#[derive(Clone, Copy, Debug)]
struct Look {
    evaluations: usize,
    /// Resident memory, bytes.
    memory: f64,
    files: usize,
    threads: usize,
}

fn look(pid: u32, evaluations: usize) -> Option<Look> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let number = |name: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(Look {
        evaluations,
        memory: number("VmRSS:")? * 1024.0,
        files: fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count(),
        threads: number("Threads:")? as usize,
    })
}

/// Reads a sweep's events until `wanted` evaluations are done, looking at it in between and calling `disturb`
/// each time.
fn watch(child: &mut Child, wanted: usize, mut disturb: impl FnMut(u32)) -> Vec<Look> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut done, mut looks) = (0, Vec::new());
    for line in lines.map_while(Result::ok) {
        if !(line.starts_with("{\"event\":\"finished\"") || line.starts_with("{\"event\":\"not_final\"")) {
            continue;
        }
        done += 1;
        if done % (wanted / LOOKS).max(1) == 0 {
            looks.extend(look(child.id(), done));
            disturb(child.id());
        }
        if done >= wanted {
            break;
        }
    }
    looks
}

/// Nothing is measured of the end, where models of 10⁵ evaluations take their time.
fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Checks the looks, and says what they came to.
fn judge(name: &str, looks: &[Look], bytes_max: f64) {
    // The first look may be at a process that still starts things.
    let (first, last) = (looks[1], looks[looks.len() - 1]);
    let growth = (last.memory - first.memory) / (last.evaluations - first.evaluations) as f64;
    println!(
        "{name}: {} evaluations, {:.1} MiB at the end, {growth:.0} bytes per evaluation, files {:?}, threads {:?}",
        last.evaluations,
        last.memory / f64::from(1 << 20),
        looks.iter().map(|look| look.files).collect::<Vec<_>>(),
        looks.iter().map(|look| look.threads).collect::<Vec<_>>(),
    );
    // A small run shows the noise of the allocator, not a growth.
    if last.evaluations >= 1000 {
        assert!(growth < bytes_max, "{name}: {growth} bytes per evaluation: {looks:#?}");
    }
    let most = |of: fn(&Look) -> usize| looks[1..].iter().map(of).max().unwrap();
    assert!(most(|look| look.files) <= first.files + MORE, "{name}: {looks:#?}");
    assert!(most(|look| look.threads) <= first.threads + MORE, "{name}: {looks:#?}");
}

/// A cache file of Kernel Tuner's with this many configurations, every seventh of which failed.
fn recording(rows: usize) -> String {
    let side = (rows as f64).sqrt().ceil() as usize;
    let values: Vec<String> = (0..side).map(|value| value.to_string()).collect();
    let values = values.join(",");
    let mut text = format!(
        "{{\"schema_version\":\"1.0.0\",\"device_name\":\"Toy\",\"kernel_name\":\"soak\",\"problem_size\":\"1\",\
         \"tune_params_keys\":[\"A\",\"B\"],\"tune_params\":{{\"A\":[{values}],\"B\":[{values}]}},\
         \"objective\":\"time\",\"cache\":{{"
    );
    for row in 0..rows {
        let (a, b) = (row / side, row % side);
        let time = if row % 7 == 3 { "\"RuntimeFailedConfig\"".to_string() } else { (1 + a + b).to_string() };
        let comma = if row == 0 { "" } else { "," };
        write!(
            text,
            "{comma}\"{a},{b}\":{{\"A\":{a},\"B\":{b},\"time\":{time},\"times\":[{}],\"compile_time\":1.0,\
             \"verification_time\":0,\"benchmark_time\":1.0,\"strategy_time\":0,\"framework_time\":0,\
             \"timestamp\":\"2026-01-01 00:00:00\"}}",
            1 + a + b
        )
        .unwrap();
    }
    text + "}}"
}

fn sweep(folder: &Path, words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_evo"))
        .current_dir(folder)
        .args(["sweep", "--json", "--strategy", "exhaustive", "--study", "s", "--seed", "1", "--pop", "500"])
        .args(["--no-prior", "--finalists", "0"])
        .args(words)
        .env("EVO_CACHE_DIR", folder.join("cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn many_replayed_evaluations_take_bounded_memory() {
    let wanted = size("EVO_SOAK_REPLAYED", 2_000);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("soak.json"), recording(wanted + 500)).unwrap();
    let mut child = sweep(folder.path(), &["--device", "replay:soak.json"]);
    let looks = watch(&mut child, wanted, |_| {});
    end(child);
    judge("replayed", &looks, BYTES_REPLAYED);
}

const KERNEL: &str = include_str!("../data/kernels/soak/soak.cu");

/// As many variants as wanted: half of them right, the others wrong, uncompilable or out of bounds.
fn space(variants: usize) -> String {
    let pads: Vec<String> = (0..variants.div_ceil(6)).map(|pad| pad.to_string()).collect();
    include_str!("../data/kernels/soak/space.toml").replace("PADS", &pads.join(", "))
}

/// Kills one child of a process: a worker.
fn kill_a_worker(pid: u32) {
    if let Some(worker) = children(pid).first() {
        let _ = Command::new("kill").args(["-9", &worker.to_string()]).status();
    }
}

#[test]
fn many_host_evaluations_with_faults_take_bounded_memory() {
    let wanted = size("EVO_SOAK_HOST", 24);
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("soak.toml", &*space(wanted + 6)), ("soak.cu", KERNEL), ("naive.cu", NAIVE)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let mut child = sweep(folder.path(), &["soak.toml", "--device", "host", "--jobs", "2"]);
    let looks = watch(&mut child, wanted, kill_a_worker);
    end(child);
    judge("host", &looks, BYTES_HOST);
}
