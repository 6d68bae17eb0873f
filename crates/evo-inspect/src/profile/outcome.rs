//! What a profiler's messages mean. It prints them in lines that begin with `==ERROR==` or `==WARNING==`, and its exit code
//! says little.
//!
//! Words are those of Nsight Compute 2022 to 2025, as its documentation and public reports of users have them.

use crate::tool::{PERMISSION_HINT, ToolFailure, ToolState};

const INCOMPATIBLE_HINT: &str = "install the Nsight Compute that came with the driver's CUDA version, or update the driver; EVO_NCU names another one";
const BUSY_HINT: &str =
    "end the other profiler; for NVIDIA's monitoring: `dcgmi profile --pause`, afterwards `--resume`";

/// The first that is found counts.
const KNOWN: &[(&str, ToolState, Option<&str>)] = &[
    ("ERR_NVGPUCTRPERM", ToolState::Refused, Some(PERMISSION_HINT)),
    ("does not have permission to access", ToolState::Refused, Some(PERMISSION_HINT)),
    ("requires administrator privileges", ToolState::Refused, Some(PERMISSION_HINT)),
    ("driver is not compatible with", ToolState::Incompatible, Some(INCOMPATIBLE_HINT)),
    ("driver version is insufficient", ToolState::Incompatible, Some(INCOMPATIBLE_HINT)),
    (
        "Profiling is not supported",
        ToolState::Incompatible,
        Some("this version of the profiler does not know this device"),
    ),
    ("driver resource was unavailable", ToolState::Busy, Some(BUSY_HINT)),
    ("concurrently collecting profiling data", ToolState::Busy, Some(BUSY_HINT)),
    ("Already under profiling", ToolState::Busy, Some(BUSY_HINT)),
    ("InterprocessLock", ToolState::Busy, Some(BUSY_HINT)),
    ("nsight-compute-lock", ToolState::Busy, Some(BUSY_HINT)),
    ("Failed to load Nsight Compute CUDA modules", ToolState::Incompatible, Some(INCOMPATIBLE_HINT)),
    (
        "failed to connect to the CUDA driver",
        ToolState::Incompatible,
        Some("there is no CUDA driver that it can use"),
    ),
    ("No kernels were profiled", ToolState::Broken, None),
];

const NO_METRIC: &str = "Failed to find metric";

const QUOTED: usize = 300;

pub fn named_failure(log: &str) -> Option<ToolFailure> {
    KNOWN.iter().find_map(|(words, state, hint)| {
        let line = messages(log).find(|line| line.contains(words))?;
        let message = format!("`ncu` says: {}", quoted(line));
        Some(ToolFailure { state: *state, message, hint: hint.map(String::from) })
    })
}

pub fn unknown_counters<'a>(log: &str, asked: &'a [String]) -> Vec<&'a String> {
    // A name may come as a pattern, with its points escaped and all that it could end in: `regex:^a__b\.(sum|avg)$`.
    let lines: Vec<String> =
        messages(log).filter(|line| line.contains(NO_METRIC)).map(|line| line.replace('\\', "")).collect();
    let base = |counter: &str| counter.split('.').next().unwrap_or_default().to_string();
    let is_in = |line: &String, counter: &String| {
        line.contains(counter.as_str()) || words(line).any(|word| word == base(counter))
    };
    asked.iter().filter(|counter| lines.iter().any(|line| is_in(line, counter))).collect()
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
}

/// The last message of a log, for failures that have no name.
pub fn last_message(log: &str) -> String {
    messages(log).last().map(|line| format!(" ({})", quoted(line))).unwrap_or_default()
}

fn messages(log: &str) -> impl Iterator<Item = &str> {
    log.lines().map(str::trim).filter(|line| line.starts_with("==ERROR==") || line.starts_with("==WARNING=="))
}

fn quoted(line: &str) -> String {
    let text = line.trim_start_matches("==ERROR==").trim_start_matches("==WARNING==").trim();
    evo_space::text::printable(&evo_space::text::shortened(text, QUOTED)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_a_state() {
        let check = |log: &str, expected| {
            let failure = named_failure(log);
            assert_eq!(failure.as_ref().map(|own| own.state), expected, "{log}: {failure:?}");
        };
        // Those of each state are played in `tests/it/profile.rs`. The reason comes before what follows from it.
        check("==WARNING== No kernels were profiled.\n==ERROR== ERR_NVGPUCTRPERM", Some(ToolState::Refused));
        check("==PROF== Connected to process 12 (/usr/bin/evo)\n==PROF== Disconnected", None);
        check("a kernel prints ERR_NVGPUCTRPERM", None);
        check("", None);
    }

    #[test]
    fn metrics_that_are_not_known_are_found_by_name_or_pattern() {
        let asked: Vec<String> =
            ["a__b.sum", "a__bc.sum", "d__e.avg.pct", "d__f.avg"].map(String::from).to_vec();
        let found =
            |log: &str| unknown_counters(log, &asked).into_iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(found("==ERROR== Failed to find metric a__b.sum"), ["a__b.sum"]);
        assert_eq!(found(r"==ERROR== Failed to find metric regex:^d__e\.(sum|avg|pct)$"), ["d__e.avg.pct"]);
        assert_eq!(
            found("==ERROR== Failed to find metric(s) a__bc.sum, d__f.avg"),
            ["a__bc.sum", "d__f.avg"]
        );
        assert_eq!(found("==PROF== a__b.sum"), [""; 0]);
    }
}
