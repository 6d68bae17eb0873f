//! What the tool's text says: its summary, and troubles of its own.

use super::finding::number;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SanitizerLog {
    pub errors: Option<u64>,
    /// Errors and warnings, as `RACECHECK SUMMARY` counts them; absent without such a line.
    pub hazards: Option<(u64, u64)>,
    pub not_attached: Option<String>,
    pub trouble: Option<String>,
    pub target: Option<String>,
}

const NOT_ATTACHED: [&str; 2] =
    ["Target application terminated before first instrumented API call", "No attachable process found"];

const TROUBLES: [&str; 4] = [
    "Internal Sanitizer Error",
    "Results might be incorrect",
    "Errors might go undetected",
    "Internal Error",
];

const ENDS: [&str; 2] = ["process didn't terminate successfully", "Target application returned an error"];

pub fn read_log(text: &str) -> SanitizerLog {
    let mut log = SanitizerLog::default();
    for line in text.lines() {
        // What programs print may stand between the tool's lines and looks like anything.
        let Some(said) = line.trim_start().strip_prefix("=========").map(str::trim) else { continue };
        if let Some(count) = said.strip_prefix("ERROR SUMMARY:").and_then(|rest| counted(rest, "error")) {
            log.errors = Some(log.errors.unwrap_or(0).saturating_add(count));
        }
        if let Some((errors, warnings)) = said.strip_prefix("RACECHECK SUMMARY:").and_then(hazards) {
            let (before, also) = log.hazards.unwrap_or_default();
            log.hazards = Some((before.saturating_add(errors), also.saturating_add(warnings)));
        }
        let among = |known: &[&str]| known.iter().any(|text| said.contains(text));
        // Records begin with what was found; racecheck's alone have the level in front.
        let of_its_own =
            said.strip_prefix("Error:").is_some_and(|rest| !rest.trim_start().starts_with("Race"));
        let slots = [
            (&mut log.not_attached, among(&NOT_ATTACHED)),
            (&mut log.trouble, among(&TROUBLES) || of_its_own && !among(&ENDS)),
            (&mut log.target, among(&ENDS)),
        ];
        for (slot, applies) in slots {
            if applies && slot.is_none() {
                *slot = Some(said.chars().take(300).collect());
            }
        }
    }
    log
}

/// `1 hazard displayed (1 error, 0 warnings)`.
fn hazards(rest: &str) -> Option<(u64, u64)> {
    let (shown, counts) = rest.split_once('(')?;
    counted(shown.trim().strip_suffix(" displayed")?, "hazard")?;
    let (errors, warnings) = counts.trim_end().strip_suffix(')')?.split_once(',')?;
    Some((counted(errors, "error")?, counted(warnings, "warning")?))
}

/// `0 errors`, `1 error`, and nothing behind it: a line about errors that were not printed counts those a second time.
fn counted(text: &str, what: &str) -> Option<u64> {
    let (count, word) = text.trim().split_once(' ')?;
    let word = word.trim();
    (word.strip_suffix('s').unwrap_or(word) == what).then(|| number(count)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_and_troubles_are_told_apart() {
        let texts = [
            "========= ERROR SUMMARY: 0 errors",
            "========= ERROR SUMMARY: 1 error",
            "========= ERROR SUMMARY: 1,133 errors\n\
             ========= ERROR SUMMARY: 1033 errors were not printed. Use --print-limit option",
            "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
            "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)",
            "========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning) ",
            "========= RACECHECK SUMMARY: ",
            "========= RACECHECK SUMMARY: 0 hazards",
            "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors",
            "========= RACECHECK SUMMARY: x hazards displayed (0 errors, 0 warnings)",
            // What the program prints is not a summary.
            "ERROR SUMMARY: 0 errors",
            "x ========= ERROR SUMMARY: 0 errors",
            "========= ERROR SUMMARY: 0",
            "========= LEAK SUMMARY: 1024 bytes leaked in 1 allocations",
            // As compute-sanitizer 2026.4 prints it on a machine without a GPU.
            "========= Error: process didn't terminate successfully\n\
             ========= Error: Target application terminated before first instrumented API call",
            "========= Internal Sanitizer Error: Errors might go undetected",
            "========= Error: Device not supported. See the documentation\n========= ERROR SUMMARY: 0 errors",
            "========= Error: Race reported between Write access at k(int *)+0x90\n\
             ========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)",
        ];
        let told = texts.map(|text| {
            let log = read_log(&format!("========= COMPUTE-SANITIZER\n{text}\n"));
            format!("{text}\n  {log:?}")
        });
        insta::assert_snapshot!(told.join("\n"));
    }
}
