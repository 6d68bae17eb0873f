//! The command line of each check.

use std::path::Path;
use std::time::Duration;

use crate::tool::{FoundTool, ToolArguments};
use evo_protocol::verdict::SanitizerCheck;

/// What the tool exits with if it found something. No program that evo starts exits with it otherwise.
pub(super) const FOUND: i32 = 86;

const PRINT_LIMIT: &str = "100";

/// Bytes that memcheck puts behind each allocation, so that an access slightly beyond one does not meet the next.
const PADDING_BYTES: &str = "4096";

/// The names of evo's own kernels, which are trusted and take most of the time.
const OWN_KERNELS: &str = "evo_";

/// The first of the ports on which the tool listens for the program that it watches.
const PORT: &str = "--port";
/// Its default, and how far apart the ports of checks are that are made at once: the tool may take several.
const PORT_BASE: u16 = 49_152;
const PORTS: u16 = 64;

pub(super) fn has_ports(tool: &FoundTool) -> bool {
    tool.options.contains(PORT)
}

/// Names of what the tool writes. Its default is stdout, which is the worker's protocol.
pub(super) const LOG: &str = "sanitizer.log";
pub(super) const RECORDS: &str = "sanitizer.xml";

/// The arguments, which end before the program that the tool starts, and notes for a person. `entries` are the
/// candidate's kernels, `limit` is that of the whole run, `place` its place among checks that are made at once.
pub fn sanitizer_command(
    tool: &FoundTool,
    (check, place): (SanitizerCheck, usize),
    entries: &[String],
    folder: &Path,
    limit: Duration,
) -> (ToolArguments, Vec<String>) {
    // Without the first five there is no answer, or none that means what evo reads into it.
    let mut arguments = ToolArguments::of(tool)
        .demanded("--tool", [check.as_str()])
        .demanded("--log-file", [literal(&folder.join(LOG))])
        .demanded("--xml", [""; 0])
        .demanded("--save", [literal(&folder.join(RECORDS))])
        .demanded("--error-exitcode", [FOUND.to_string()])
        .preferred("--target-processes", ["application-only"])
        .preferred("--launch-timeout", [limit.as_secs().max(1).to_string()])
        .preferred("--show-backtrace", ["device"])
        .preferred("--print-limit", [PRINT_LIMIT])
        // The worker says which call failed; a record must be about the kernel.
        .preferred("--report-api-errors", ["no"])
        .preferred("--check-warpgroup-mma", ["yes"])
        .preferred("--check-bulk-copy", ["yes"]);
    if place > 0 {
        let port = PORT_BASE.saturating_add(PORTS.saturating_mul(place as u16)).to_string();
        arguments = arguments.preferred(PORT, [port]);
    }
    let track = "--initcheck-track-filtered-global-memory";
    let sees_fills = check != SanitizerCheck::Initcheck || tool.options.contains(track);
    arguments = match check {
        SanitizerCheck::Memcheck => arguments.preferred("--padding", [PADDING_BYTES]),
        SanitizerCheck::Racecheck => {
            // Before the whole run is ended, which would leave no record.
            let patience = (limit / 2).as_millis().to_string();
            arguments.preferred("--racecheck-deadlock-timeout", [patience])
        }
        SanitizerCheck::Initcheck => {
            arguments.preferred("--initcheck-address-space", ["all"]).preferred(track, ["yes"])
        }
        SanitizerCheck::Synccheck => arguments,
    };
    let mut notes = Vec::new();
    // The tool looks for the text anywhere in a name: a kernel that happens to have it would not be checked at all.
    match entries.iter().find(|entry| entry.contains(OWN_KERNELS)) {
        Some(entry) => {
            notes.push(format!("evo's own kernels are checked too, because `{entry}` is named like one"));
        }
        None if !sees_fills => notes.push(
            "evo's own kernels are checked too, because this version would not see what they write"
                .to_string(),
        ),
        None => {
            arguments = arguments.preferred("--kernel-name-exclude", [format!("kns={OWN_KERNELS}")]);
        }
    }
    (arguments, notes)
}

/// A path in which the tool replaces nothing: `%p` would become its process id.
fn literal(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tool::{ToolKind, ToolVersion};

    const OPTIONS: &str = "--tool --log-file --xml --save --error-exitcode --target-processes --launch-timeout \
        --show-backtrace --print-limit --padding --kernel-name-exclude";

    /// The line, what it lacks, and its notes.
    fn told((check, place, known, entry): (SanitizerCheck, usize, &str, &str)) -> String {
        let options: BTreeSet<String> = known.split_whitespace().map(String::from).collect();
        let (kind, version) = (ToolKind::ComputeSanitizer, ToolVersion::of(&[2025, 3]));
        let tool = FoundTool { kind, path: "/t".into(), version, options };
        let (entries, folder, limit) = ([entry.to_string()], Path::new("/f%p"), Duration::from_secs(30));
        let (made, notes) = sanitizer_command(&tool, (check, place), &entries, folder, limit);
        let words: Vec<_> = made.words.iter().map(|word| word.to_string_lossy()).collect();
        let (line, left_out, lacking) = (words.join(" "), made.left_out.join(" "), made.lacking.join(" "));
        format!("{check:?} {place} {entry}: {line}\n  left out: {left_out}; lacking: {lacking}; {notes:?}")
    }

    #[test]
    fn lines_are_the_documented_ones_and_what_an_answer_needs_is_demanded() {
        use SanitizerCheck::{Initcheck, Memcheck, Racecheck, Synccheck};
        let with = |more: &str| format!("{OPTIONS} {more}");
        let (ports, deadlock) = (with("--port"), "--racecheck-deadlock-timeout");
        let newer = with("--initcheck-track-filtered-global-memory --initcheck-address-space");
        let rows = [
            (Memcheck, 0, OPTIONS, "scale"),
            // Checks that are made at once listen on ports of their own.
            (Memcheck, 0, &ports, "scale"),
            (Memcheck, 1, &ports, "scale"),
            (Memcheck, 3, &ports, "scale"),
            // No kernel of the candidate is filtered out, and initcheck sees what evo writes.
            (Synccheck, 0, OPTIONS, "my_evo_kernel"),
            (Initcheck, 0, OPTIONS, "scale"),
            (Initcheck, 0, &newer, "scale"),
            (Racecheck, 0, deadlock, "scale"),
        ];
        let demanded = ["--xml", "--save", "--log-file", "--error-exitcode", "--tool"];
        let without = demanded.map(|option| told((Synccheck, 0, &OPTIONS.replace(option, ""), "scale")));
        insta::assert_snapshot!([&rows.map(told)[..], &without[..]].concat().join("\n"));
    }
}
