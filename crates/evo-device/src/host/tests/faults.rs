//! Faults end the process, so each runs in a process of its own: this test binary started again with the
//! case's name in the environment.

use std::os::fd::AsRawFd;

use super::fixtures::{Case, parse};
use super::*;
use crate::host::fault::{self, FaultRecord};

const CASE: &str = "EVO_HOST_FAULT_CASE";
const OUTPUT: &str = "EVO_HOST_FAULT_OUTPUT";

fn cases() -> Vec<Case> {
    parse(include_str!("data/own_process/faults.cu")).1
}

fn run_case(name: &str, output: &str) {
    let case = cases().into_iter().find(|case| case.name == name).unwrap();
    let mut bench = Bench::new(&case.source("k", &case.rows[0]), "k");
    let (x, y) = (bench.buffer("in", &[1f32; 100]), bench.buffer("out", &[0f32; 100]));
    bench.device.protect(x, true).unwrap();
    let file = std::fs::File::create(output).unwrap();
    fault::install(None, file.as_raw_fd()).unwrap();
    bench.run(1, 8, 64, vec![buffer(x), buffer(y), int(100)]).unwrap();
}

#[test]
fn faults_are_named_in_last_words() {
    if let (Ok(case), Ok(output)) = (std::env::var(CASE), std::env::var(OUTPUT)) {
        return run_case(&case, &output);
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "host::tests::faults::faults_are_named_in_last_words";
    for Case { name: case, rows, .. } in cases() {
        let output = folder.path().join("words");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(CASE, &case).env(OUTPUT, &output);
        let status = command.output().unwrap();
        assert_eq!(status.status.code(), Some(139), "{case}: {status:?}");
        let line = std::fs::read_to_string(&output).unwrap();
        let error = serde_json::from_str::<FaultRecord>(&line).unwrap().error();
        let cause = error.cause.as_deref().map_or(String::new(), |cause| format!(":{cause}"));
        assert_eq!(format!("{}{cause} | {}", error.kind, error.message), rows[0].finds);
        assert!(error.sticky);
    }
}
