//! From a compiler's log to a verdict: which kind of failure, and the lines that a person needs.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use evo_protocol::verdict::{Cause, Verdict, VerdictKind};

use evo_system::process::{CappedLog, is_fault, signal_name};

const MESSAGE_MAX: usize = 2 * 1024;
/// Every verdict goes into the journal, so a space in which each variant fails would otherwise fill it with logs.
pub const LOG_MAX: usize = 20 * 1024;
const WARNINGS_MAX: usize = 4 * 1024;

/// A compiler that uses more than this share of its memory limit has reached it. The share is below 1 because the allocation
/// that failed is not in use yet, and because resident memory is compared with a limit on addresses.
const MEMORY_SHARE: f64 = 0.6;

// Parted by `;`, in lower case.
const MEMORY_WORDS: &str = "out of memory;cannot allocate memory;memory exhausted;bad_alloc;\
    memory allocation of;memoryerror";

const CRASH_WORDS: &str = "internal compiler error;signal terminated program;terminated with signal;\
    unable to execute command;please submit a bug report;please submit a full bug report;(c7600);\
    register allocation failed;llvm error";

/// Crashes among them that a signal from outside looks like; the others follow from the source.
const SIGNAL_WORDS: &str = "signal terminated program;terminated with signal;unable to execute command;\
    internal compiler error: segmentation fault;internal compiler error: aborted;internal compiler error: bus error";

const MACHINE_WORDS: &str = "no space left on device;disk quota exceeded;resource temporarily unavailable;\
    too many open files;input/output error;read-only file system;stale file handle;text file busy;temporary file;\
    cannot execute;cannot find 'ld';cannot find 'as';installation problem";

fn says(text: &str, words: &str) -> bool {
    let lower = text.to_lowercase();
    words.split(';').any(|word| lower.contains(word))
}

/// How drivers name the signals that no fault of a program causes.
const OUTSIDE_SIGNALS: &[(&str, i32)] = &[
    ("killed", libc::SIGKILL),
    ("terminated", libc::SIGTERM),
    ("hangup", libc::SIGHUP),
    ("interrupt", libc::SIGINT),
    ("quit", libc::SIGQUIT),
    ("cpu time limit exceeded", libc::SIGXCPU),
];

const KILLED_HINT: &str = "see whether the kernel's out-of-memory killer or another program ends processes (`dmesg`), or use fewer `--jobs`";

#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryUse {
    pub peak: u64,
    /// 0 for none.
    pub limit: u64,
}

impl MemoryUse {
    fn is_at_limit(self) -> bool {
        self.limit > 0 && self.peak as f64 > MEMORY_SHARE * self.limit as f64
    }
}

pub fn refused(log: &str, memory: MemoryUse) -> Box<Verdict> {
    if says(log, MEMORY_WORDS) {
        return out_of_memory(log, memory);
    }
    // What a compiler's driver says of a part that was killed also contains the words of a crash.
    if let Some(signal) = log.lines().find_map(killed_part) {
        return killed("the C++ compiler", signal, log, memory);
    }
    let kind = if says(log, CRASH_WORDS) { VerdictKind::CompilerCrash } else { VerdictKind::CompileError };
    let mut verdict = with_log(kind, first_errors(log), log);
    if says(log, SIGNAL_WORDS) || machine_line(log).is_some() {
        verdict = verdict.in_doubt();
    }
    match says(log, "too much shared data") {
        true => Box::new(verdict.with_cause("smem")),
        false => Box::new(verdict),
    }
}

/// Messages about a source begin with a place in it; a source cannot make a tool speak in its own name.
pub fn machine_line(log: &str) -> Option<&str> {
    log.lines().find(|line| is_own(line) && says(line, MACHINE_WORDS))
}

/// Whether a tool speaks in its own name: `g++: fatal error: …`, and not `unit.cpp:3:1: error: …`.
fn is_own(line: &str) -> bool {
    let place = line.split_once(':');
    place.is_some_and(|(name, rest)| !name.is_empty() && !name.contains(' ') && rest.starts_with(' '))
}

fn killed_part(line: &str) -> Option<i32> {
    if !is_own(line) {
        return None;
    }
    let lower = line.to_lowercase();
    let named = |(name, signal): &(&str, i32)| {
        let by_name = [format!(" {name} signal terminated program"), format!("execute command: {name}")];
        let by_number = format!("terminated with signal {signal} ");
        (by_name.iter().any(|words| lower.contains(words)) || lower.contains(&by_number)).then_some(*signal)
    };
    OUTSIDE_SIGNALS.iter().find_map(named)
}

pub fn machine(message: impl Into<String>, hint: &str) -> Box<Verdict> {
    let verdict = Verdict::new(VerdictKind::HarnessError, message).with_cause(Cause::Machine);
    Box::new(verdict.with(Verdict::HINT, hint))
}

pub fn ended(who: &str, status: ExitStatus, log: &str, memory: MemoryUse) -> Box<Verdict> {
    match status.signal() {
        _ if memory.is_at_limit() => out_of_memory(log, memory),
        Some(signal) if !is_fault(signal) => killed(who, signal, log, memory),
        _ if says(log, MEMORY_WORDS) => out_of_memory(log, memory),
        Some(signal) => with_memory(died(&signal_name(signal), log), memory),
        None => with_memory(died(&format!("exit code {}", status.code().unwrap_or(-1)), log), memory),
    }
}

/// The variant is not to blame, unless its memory was used up.
fn killed(who: &str, signal: i32, log: &str, memory: MemoryUse) -> Box<Verdict> {
    if memory.is_at_limit() {
        return out_of_memory(log, memory);
    }
    let message = format!("{who} was killed by {}", signal_name(signal));
    let verdict = with_log(VerdictKind::HarnessError, message, log).with_cause(Cause::Killed);
    with_memory(Box::new(verdict.with(Verdict::HINT, KILLED_HINT)), memory)
}

fn with_memory(mut verdict: Box<Verdict>, memory: MemoryUse) -> Box<Verdict> {
    verdict.evidence.insert("memory_peak_bytes", memory.peak);
    verdict.evidence.insert("memory_limit_bytes", memory.limit);
    verdict
}

/// Refused memory below the limit has to be seen twice: the machine may have had none left at that moment. Without a
/// limit it is the machine's trouble in any case.
pub fn out_of_memory(log: &str, memory: MemoryUse) -> Box<Verdict> {
    let line = log.lines().find(|line| says(line, MEMORY_WORDS));
    let said = line.map_or(String::new(), |line| format!(": {}", line.trim()));
    if memory.limit == 0 {
        let message = format!("this machine has no memory left for a compiler{said}");
        return with_memory(machine(message, "use fewer `--jobs`, or end other programs"), memory);
    }
    let verdict = with_log(VerdictKind::CompileOom, format!("the compiler ran out of memory{said}"), log);
    let verdict = if memory.is_at_limit() { verdict } else { verdict.in_doubt() };
    with_memory(Box::new(verdict), memory)
}

/// `how` names the signal or exit code, `log` is the end of its output. A death has to be seen again before it
/// counts.
pub fn died(how: &str, log: &str) -> Box<Verdict> {
    let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let separator = if last.is_empty() { "" } else { ": " };
    let message = format!("the compiler died ({how}){separator}{last}");
    Box::new(with_log(VerdictKind::CompilerCrash, message, log).in_doubt())
}

fn with_log(kind: VerdictKind, message: String, log: &str) -> Verdict {
    let (message, _) = cap(&message, MESSAGE_MAX);
    let (log, truncated) = cap(log.trim(), LOG_MAX);
    let mut verdict = Verdict::new(kind, message);
    if !log.is_empty() {
        verdict.evidence.insert("log", log);
    }
    if truncated {
        verdict.evidence.insert("log_truncated", true);
    }
    verdict
}

fn first_errors(log: &str) -> String {
    let is_error = |line: &&str| {
        let lower = line.trim().to_lowercase();
        // Compilers end with a total such as `2 errors detected`, which says nothing that the errors do not.
        let total = says(&lower, "error detected;errors detected");
        // `#error` is the source's own line, shown below the message that quotes it.
        says(&lower, "error;fatal") && lower.contains(':') && !lower.starts_with('#') && !total
    };
    let lines: Vec<&str> = log.lines().collect();
    let found = (0..lines.len()).filter(|at| is_error(&lines[*at])).take(3);
    let errors: Vec<String> =
        found.map(|at| in_macro(&lines[at..]).unwrap_or_else(|| lines[at].trim().to_string())).collect();
    match errors.is_empty() {
        true => {
            log.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect::<Vec<_>>().join("\n")
        }
        false => errors.join("\n"),
    }
}

/// If g++ found the error in what a parameter's macro stands for, the place that it names is the `#define` in evo's
/// own part of the file.
fn in_macro(lines: &[&str]) -> Option<String> {
    let (place, said) = lines[0].split_once(": error: ")?;
    if !place.contains("unit.cpp:") {
        return None;
    }
    let next_error = |line: &&&str| !line.contains(": error: ");
    let note = lines[1..]
        .iter()
        .take_while(next_error)
        .find_map(|line| line.split_once(": note: in expansion of macro "))?;
    let name = note.1.trim_matches(['\'', '‘', '’', '`']);
    Some(format!(
        "{}: error: {said}, where the macro `{name}` of a parameter or an option stands",
        note.0.trim()
    ))
}

/// Two thirds from the text's start, the rest from its end, since compilers put causes first and totals last. Says
/// whether it was cut.
pub fn cap(text: &str, max: usize) -> (String, bool) {
    let mut log = CappedLog::new(max);
    log.push(text.as_bytes());
    (log.text(), log.truncated())
}

/// What is kept of the messages of a compiler that made its file.
pub fn warnings(text: &str, is_cut: bool) -> String {
    let (mut log, cut) = cap(text.trim(), WARNINGS_MAX);
    if cut || is_cut {
        log.push_str("\n[log_truncated]");
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 8 << 30;
    const FAR: MemoryUse = MemoryUse { peak: 40 << 20, limit: LIMIT };
    const NEAR: MemoryUse = MemoryUse { peak: LIMIT - 1, limit: LIMIT };

    #[test]
    fn logs_are_told_apart() {
        let logs = include_str!("logs.txt").split("////").skip(1);
        let logs = logs.map(|log| log.split_once('\n').unwrap().1.trim_end_matches('\n'));
        let told = logs.map(|log| {
            let (far, near) = (refused(log, FAR), refused(log, NEAR));
            let doubt = if far.is_in_doubt() { ", in doubt" } else { "" };
            let machine = machine_line(log).map_or("", |_| ", of the machine");
            format!("{}{doubt}{machine}; {} near the limit\n  {}", far.label(), near.label(), far.message)
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn the_end_of_a_process_blames_the_variant_only_where_it_was_its_doing() {
        let ends = |signal: i32, log: &str, memory| {
            let verdict = ended("the compile worker", ExitStatus::from_raw(signal), log, memory);
            (verdict.label(), verdict.message, verdict.evidence.get(Verdict::IN_DOUBT).is_some())
        };
        let killed = "the compile worker was killed by SIGKILL".to_string();
        assert_eq!(ends(libc::SIGKILL, "", FAR), ("harness_error:killed".into(), killed.clone(), false));
        assert_eq!(ends(libc::SIGKILL, "", MemoryUse::default()).1, killed);
        assert_eq!(ends(libc::SIGKILL, "", NEAR).0, "compile_oom");
        assert_eq!(ends(libc::SIGTERM, "", FAR).0, "harness_error:killed");
        let crash = ("compiler_crash".into(), "the compiler died (SIGSEGV)".into(), true);
        assert_eq!(ends(libc::SIGSEGV, "", FAR), crash);
        let refused = ends(libc::SIGABRT, "LLVM ERROR: out of memory\n", FAR);
        assert_eq!((refused.0.as_str(), refused.2), ("compile_oom", true), "it has to happen twice");
        let none = ends(libc::SIGABRT, "memory allocation of 5 bytes failed", MemoryUse::default());
        assert_eq!(none.0, "harness_error:machine");
        assert_eq!(ends(7 << 8, "odd", FAR).1, "the compiler died (exit code 7): odd");
    }

    #[test]
    fn long_logs_are_cut_in_the_middle_and_say_so() {
        let log = format!("a.cu: error: first\n{}last line", "é".repeat(40_000));
        let verdict = refused(&log, FAR);
        let kept = verdict.evidence.get("log").unwrap().as_str().unwrap();
        assert!(kept.len() < LOG_MAX + 100 && kept.starts_with("a.cu: error") && kept.ends_with("last line"));
        assert_eq!(verdict.evidence.get("log_truncated"), Some(&true.into()));
        assert!(verdict.message.len() < MESSAGE_MAX + 100);
    }
}
