//! The command line of each check.

use std::path::Path;
use std::time::Duration;

use crate::tool::{FoundTool, ToolArguments};
use evo_protocol::sanitizer::SanitizerCheck;

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

    type Made = (String, ToolArguments, Vec<String>);

    fn made(check: SanitizerCheck, place: usize, known: &str, entry: &str) -> Made {
        let options: BTreeSet<String> = known.split_whitespace().map(String::from).collect();
        let (kind, version) = (ToolKind::ComputeSanitizer, ToolVersion::of(&[2025, 3]));
        let tool = FoundTool { kind, path: "/t".into(), version, options };
        let (entries, folder, limit) = ([entry.to_string()], Path::new("/f%p"), Duration::from_secs(30));
        let (arguments, notes) = sanitizer_command(&tool, (check, place), &entries, folder, limit);
        let words: Vec<_> = arguments.words.iter().map(|word| word.to_string_lossy()).collect();
        (words.join(" "), arguments, notes)
    }

    #[test]
    fn the_line_is_the_documented_one_and_what_an_answer_needs_is_demanded() {
        let (words, arguments, notes) = made(SanitizerCheck::Memcheck, 0, OPTIONS, "scale");
        assert_eq!(
            words,
            "--tool memcheck --log-file /f%%p/sanitizer.log --xml --save /f%%p/sanitizer.xml --error-exitcode 86 \
             --target-processes application-only --launch-timeout 30 --show-backtrace device --print-limit 100 \
             --padding 4096 --kernel-name-exclude kns=evo_"
        );
        let left_out = ["--report-api-errors", "--check-warpgroup-mma", "--check-bulk-copy"];
        assert_eq!(arguments.left_out, left_out);
        assert!(arguments.lacking.is_empty() && notes.is_empty());
        for option in ["--xml", "--save", "--log-file", "--error-exitcode", "--tool"] {
            let known: Vec<&str> = OPTIONS.split(' ').filter(|own| *own != option).collect();
            assert_eq!(made(SanitizerCheck::Synccheck, 0, &known.join(" "), "scale").1.lacking, [option]);
        }
    }

    #[test]
    fn checks_that_are_made_at_once_listen_on_ports_of_their_own() {
        let ports = [0, 1, 3].map(|place| {
            let (words, arguments, _) =
                made(SanitizerCheck::Memcheck, place, &format!("{OPTIONS} --port"), "scale");
            assert!(!arguments.left_out.iter().any(|option| option == "--port"));
            words.split_once("--port ").and_then(|(_, rest)| rest.split(' ').next()).map(String::from)
        });
        assert_eq!(ports, [None, Some("49216".to_string()), Some("49344".to_string())]);
    }

    #[test]
    fn initcheck_sees_what_evo_writes_and_no_kernel_of_the_candidate_is_filtered_out() {
        use SanitizerCheck::{Initcheck, Racecheck, Synccheck};
        let track = "--initcheck-track-filtered-global-memory";
        let newer = format!("{OPTIONS} {track} --initcheck-address-space");
        let seen = format!("--initcheck-address-space all {track} yes --kernel-name-exclude kns=evo_");
        let (deadlock, timeout) = ("--racecheck-deadlock-timeout", "--racecheck-deadlock-timeout 15000");
        for (check, known, entry, expected, note) in [
            (Synccheck, OPTIONS, "my_evo_kernel", None, "my_evo_kernel"),
            (Initcheck, OPTIONS, "scale", None, "would not see"),
            (Initcheck, &newer, "scale", Some(&*seen), ""),
            (Racecheck, deadlock, "scale", Some(timeout), ""),
        ] {
            let (words, _, notes) = made(check, 0, known, entry);
            assert!(expected.is_none_or(|expected| words.ends_with(expected)), "{words}");
            assert!(expected.is_some() || !words.contains("--kernel-name-exclude"), "{words}");
            assert!(notes.concat().contains(note) && notes.is_empty() == note.is_empty());
        }
    }
}
