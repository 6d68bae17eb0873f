//! Watched launches beside what fixtures say of them: turns at accesses, and modules without instruments.

use super::*;

/// A counter that threads read and write without atomic operations loses counts only where they take turns in
/// between.
#[test]
fn threads_give_way_at_accesses() {
    let text = "__global__ void k(int* count) { volatile int* own = count; int old = *own; *own = old + 1; }";
    let mut bench = Bench::watched(text, "k");
    let mut counted = |order: u64| {
        let count = bench.buffer("count", &[0i32]);
        let bound = bench.bound(1, 128, 0, vec![buffer(count)]);
        let watch = watch(&[(count, WatchedContents::Given)], order);
        let report = bench.device.launch_watched(bench.module, &[bound], &watch).unwrap().unwrap();
        assert!(report.accesses >= 256, "{report:?}");
        bench.values::<i32>(count)[0]
    };
    let (first, again, other) = (counted(7), counted(7), counted(8));
    assert!(first < 128 && other < 128, "{first} {other}");
    assert_eq!(first, again, "the same seed takes the same turns");
}

#[test]
fn a_module_without_instruments_is_not_watched() {
    let mut bench = Bench::new("__global__ void k(int* out) { out[0] = 1; }", "k");
    let out = bench.buffer("out", &[0i32]);
    let bound = bench.bound(1, 1, 0, vec![buffer(out)]);
    let watch = watch(&[(out, WatchedContents::Output)], 1);
    assert_eq!(bench.device.launch_watched(bench.module, &[bound], &watch), Ok(None));
}

#[test]
fn a_cluster_in_which_nobody_goes_on_gives_its_blocks_as_evidence() {
    let text = "#include <evo/ptx.cuh>
        __global__ void k() { if (evo::cluster_rank() == 1) evo::bar_sync(1, 96); evo::cluster_sync(); }";
    let mut bench = Bench::new(text, "k");
    let bound = BoundLaunch { cluster: Some([2, 1, 1]), ..bench.bound(2, 64, 0, vec![]) };
    let error = bench.device.launch(bench.module, &[bound]).unwrap_err();
    assert_eq!(error.evidence["cluster"][1]["block"], serde_json::json!([1, 0, 0]));
}
