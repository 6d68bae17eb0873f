//! Where a kernel stands beside other people's implementations: what the newest benchmark with a peer says of it.

use std::collections::BTreeMap;

use evo_journal::own_folder::OwnFolder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The folder of all benchmarks, below the output folder.
const BENCHES: &str = "bench";
/// The file of one, and how long it may be.
const FILE: &str = "bench.json";
const FILE_MAX: u64 = 1 << 26;
/// Benchmarks of a device that are looked at, the newest names first.
const LOOKED_AT: usize = 100;

/// A kernel beside the best of other people's implementations.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Standing {
    /// Of the benchmark, below the output folder.
    pub folder: String,
    pub at: Value,
    pub problems: BTreeMap<String, PeerTime>,
}

/// The best row of ours on a problem, and the fastest peer in the same run. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PeerTime {
    pub implementation: Value,
    pub peer: Value,
    pub p50_ns: Option<f64>,
    pub p90_ns: Option<f64>,
    pub peer_p50_ns: Option<f64>,
    pub peer_p90_ns: Option<f64>,
    #[serde(flatten)]
    pub ratio: PeerRatio,
}

/// Our time over the peer's, paired, with its 95 % interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerRatio {
    pub ratio_to_best_peer: Option<f64>,
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    /// `faster`, `slower`, `same` or `ambiguous`.
    pub decision: Option<String>,
}

/// The newest comparison of a kernel with peers on a device of this name, below the output folder; none where there is
/// none that can be read.
pub fn beside_peers(out: &OwnFolder, kernel: &str, device: &str) -> Option<Standing> {
    let benches = out.folder(BENCHES).ok()?;
    let mut newest: Option<(String, Standing)> = None;
    for name in benches.names().ok()? {
        let Ok(folder) = benches.folder(&name) else { continue };
        let mut runs = folder.names().unwrap_or_default();
        // Names begin with their date.
        runs.sort_by(|a, b| b.cmp(a));
        for run in runs.into_iter().take(LOOKED_AT) {
            let Some(file) = read(&folder, &run) else { continue };
            if file["kernel"] != kernel || file["device"] != device {
                continue;
            }
            let at = file["at"].as_str().unwrap_or_default();
            let is_newer = newest.as_ref().is_none_or(|(known, _)| at > known.as_str());
            let place = format!("{BENCHES}/{name}/{run}");
            if let Some(value) = is_newer.then(|| standing(&file, &place)).flatten() {
                newest = Some((at.to_string(), value));
            }
        }
    }
    newest.map(|(_, value)| value)
}

fn read(folder: &OwnFolder, run: &str) -> Option<Value> {
    let bytes = folder.folder(run).ok()?.read_at_most(FILE, FILE_MAX).ok()??;
    serde_json::from_slice(&bytes).ok()
}

/// The best row of ours for each problem that was compared; none where no problem was.
fn standing(file: &Value, place: &str) -> Option<Standing> {
    let listed = |name: &str| file[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let peers: Vec<&Value> = listed("implementations").iter().filter(|own| own["kind"] == "peer").collect();
    let is_peer = |row: &Value| peers.iter().any(|own| own["name"] == row["implementation"]);
    let mode = file["ranking_mode"].as_str()?;
    let time = |row: &Value| row["modes"][mode]["p50_ns"].as_f64().unwrap_or(f64::INFINITY);
    let right = || listed("rows").iter().filter(|row| row["status"] == "pass");
    let mut problems: BTreeMap<&str, (&Value, f64)> = BTreeMap::new();
    for row in right().filter(|row| !is_peer(row)) {
        let compared = row["problem"].as_str().zip(row["ratio_to_best_peer"].as_f64());
        let Some((problem, ratio)) = compared else { continue };
        if problems.get(problem).is_none_or(|(_, best)| ratio < *best) {
            problems.insert(problem, (row, ratio));
        }
    }
    let compared = problems.iter().filter_map(|(problem, (row, _))| {
        let peers = right().filter(|other| other["problem"] == **problem && is_peer(other));
        let peer = peers.min_by(|a, b| time(a).total_cmp(&time(b)))?;
        let number = |row: &Value, name: &str| row["modes"][mode][name].as_f64();
        let times = PeerTime {
            implementation: row["implementation"].clone(),
            peer: peer["implementation"].clone(),
            p50_ns: number(row, "p50_ns"),
            p90_ns: number(row, "p90_ns"),
            peer_p50_ns: number(peer, "p50_ns"),
            peer_p90_ns: number(peer, "p90_ns"),
            ratio: PeerRatio::deserialize(*row).ok()?,
        };
        Some((problem.to_string(), times))
    });
    let problems: BTreeMap<String, PeerTime> = compared.collect();
    (!problems.is_empty()).then(|| Standing { folder: place.into(), at: file["at"].clone(), problems })
}

#[cfg(test)]
mod tests {
    use evo_journal::ladder::Rung;
    use serde_json::json;

    use super::*;
    use crate::history::history;

    fn bench(at: &str, ratio: Option<f64>) -> Value {
        let row = |name: &str, p50_ns: f64, ratio: Option<f64>| {
            json!({ "problem": "p", "implementation": name, "status": "pass", "modes": { "hot": { "p50_ns": p50_ns } },
                "ratio_to_best_peer": ratio, "ratio_low": ratio, "ratio_high": ratio,
                "decision": ratio.map(|_| "faster") })
        };
        json!({ "kernel": "scale", "device": "d", "at": at, "ranking_mode": "hot",
            "implementations": [{ "name": "own", "kind": "own" }, { "name": "torch/a", "kind": "peer" },
                { "name": "torch/b", "kind": "peer" }],
            "rows": [row("own", 8.0, ratio), row("torch/a", 12.0, None), row("torch/b", 10.0, None)] })
    }

    #[test]
    fn the_newest_comparison_with_a_peer_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |run: &str, value: &Value| {
            let folder = root.path().join("bench/d").join(run);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(FILE), value.to_string()).unwrap();
        };
        let out = OwnFolder::open(root.path()).unwrap();
        let seen = |kernel: &str, device: &str| beside_peers(&out, kernel, device);
        assert_eq!(seen("scale", "d"), None);
        write("2026-01-01-a", &bench("2026-01-01T00:00:00Z", Some(0.8)));
        write("2026-01-02-b", &bench("2026-01-02T00:00:00Z", Some(0.9)));
        // One without a peer, and a file of something else.
        write("2026-01-03-c", &bench("2026-01-03T00:00:00Z", None));
        write("2026-01-04-d", &json!({ "kernel": 1 }));
        let own = seen("scale", "d").unwrap();
        let times = json!({ "implementation": "own", "peer": "torch/b", "p50_ns": 8.0, "p90_ns": null,
            "peer_p50_ns": 10.0, "peer_p90_ns": null, "ratio_to_best_peer": 0.9, "ratio_low": 0.9,
            "ratio_high": 0.9, "decision": "faster" });
        let (folder, at) = ("bench/d/2026-01-02-b", "2026-01-02T00:00:00Z");
        assert_eq!(json!(own), json!({ "folder": folder, "at": at, "problems": { "p": times } }));
        let rung = Rung { kernel: "scale".into(), ..Rung::default() };
        let text = history(&[(&rung, Some(own))], &[]).text();
        assert!(text.contains("\nbeside peers: p takes 0.900 of the time of torch/b (faster)\n"), "{text}");
        assert_eq!((seen("other", "d"), seen("scale", "e")), (None, None));
    }
}
