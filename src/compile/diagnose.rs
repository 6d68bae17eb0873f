//! From a compiler's log to a verdict: which kind of failure, and the lines that a person needs.

use evo_protocol::verdict::{Verdict, VerdictKind};

use crate::process::CappedLog;

/// Bytes of a verdict's message: about a screen.
pub const MESSAGE_MAX: usize = 2 * 1024;
/// Bytes of log kept in a verdict's evidence. Every verdict goes into the journal, so a space in which each variant fails
/// would otherwise fill it with logs.
pub const LOG_MAX: usize = 20 * 1024;
/// Bytes of warnings kept with a binary.
pub const WARNINGS_MAX: usize = 4 * 1024;

/// Words by which compilers, the C++ library, shells and Python say that memory ran out.
const MEMORY_WORDS: &[&str] = &[
    "out of memory",
    "cannot allocate memory",
    "memory exhausted",
    "bad_alloc",
    "memory allocation of",
    "memoryerror",
    // What g++ says of a part that was ended by SIGKILL, the signal of the out-of-memory killer.
    "killed signal terminated program",
];

/// Words of a compiler that broke instead of refusing.
const CRASH_WORDS: &[&str] = &[
    "internal compiler error",
    "signal terminated program",
    "please submit a bug report",
    "please submit a full bug report",
    "(c7600)",
    "register allocation failed",
    "llvm error",
];

/// The verdict on a source that the compiler did not accept, from its log.
pub fn refused(log: &str) -> Box<Verdict> {
    let lower = log.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    // Before crashes: what g++ says of a part that the out-of-memory killer ended also contains the words of
    // a crash.
    if says(MEMORY_WORDS) {
        return out_of_memory(log);
    }
    let kind = if says(CRASH_WORDS) { VerdictKind::CompilerCrash } else { VerdictKind::CompileError };
    let verdict = with_log(kind, first_errors(log), log);
    match lower.contains("too much shared data") {
        true => Box::new(verdict.with_cause("smem")),
        false => Box::new(verdict),
    }
}

/// The verdict on a compiler that met its memory limit.
pub fn out_of_memory(log: &str) -> Box<Verdict> {
    let line = log.lines().find(|line| MEMORY_WORDS.iter().any(|word| line.to_lowercase().contains(word)));
    let message = format!(
        "the compiler ran out of memory{}",
        line.map_or(String::new(), |line| format!(": {}", line.trim()))
    );
    Box::new(with_log(VerdictKind::CompileOom, message, log))
}

/// The verdict on a compiler that died without an answer; `how` names the signal or exit code, `log` is the end of its output.
pub fn died(how: &str, log: &str) -> Box<Verdict> {
    if MEMORY_WORDS.iter().any(|word| log.to_lowercase().contains(word)) {
        return out_of_memory(log);
    }
    let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let separator = if last.is_empty() { "" } else { ": " };
    Box::new(with_log(VerdictKind::CompilerCrash, format!("the compiler died ({how}){separator}{last}"), log))
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

/// The first lines that report errors, or the first lines at all.
fn first_errors(log: &str) -> String {
    let is_error = |line: &&str| {
        let lower = line.trim().to_lowercase();
        // Compilers end with a total such as `2 errors detected`, which says nothing that the errors do not.
        let total = ["error detected", "errors detected"].iter().any(|words| lower.contains(words));
        // `#error` is the source's own line, shown below the message that quotes it.
        let says = lower.contains("error") || lower.contains("fatal");
        says && lower.contains(':') && !lower.starts_with('#') && !total
    };
    let errors: Vec<&str> = log.lines().filter(is_error).take(3).map(str::trim).collect();
    match errors.is_empty() {
        true => {
            log.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect::<Vec<_>>().join("\n")
        }
        false => errors.join("\n"),
    }
}

/// At most `max` bytes of a text: two thirds from its start, the rest from its end, since compilers put
/// causes first and totals last. Says whether it was cut.
pub fn cap(text: &str, max: usize) -> (String, bool) {
    let mut log = CappedLog::new(max);
    log.push(text.as_bytes());
    (log.text(), log.truncated())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(log: &str, kind: &str, message: &str) {
        let verdict = refused(log);
        assert_eq!((verdict.label().as_str(), verdict.message.as_str()), (kind, message), "{log}");
    }

    #[test]
    fn logs_are_told_apart() {
        check(
            "k.cu(2): warning: odd\nk.cu(3): error: expected a \";\"\n  int x\n       ^\n\n1 error detected in the compilation of \"k.cu\".",
            "compile_error",
            "k.cu(3): error: expected a \";\"",
        );
        check(
            "ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)",
            "compile_error:smem",
            "ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)",
        );
        check(
            "cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes",
            "compile_oom",
            "the compiler ran out of memory: cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes",
        );
        check(
            "k.cu:3:1: internal compiler error: Segmentation fault",
            "compiler_crash",
            "k.cu:3:1: internal compiler error: Segmentation fault",
        );
        check(
            "ptxas fatal   : (C7600) Register allocation failed with register count of '32'",
            "compiler_crash",
            "ptxas fatal   : (C7600) Register allocation failed with register count of '32'",
        );
        check("something odd", "compile_error", "something odd");
    }

    #[test]
    fn a_death_by_lack_of_memory_is_not_a_crash() {
        assert_eq!(died("signal 6", "LLVM ERROR: out of memory\n").kind, VerdictKind::CompileOom);
        let crash = died("signal 11", "");
        assert_eq!(
            (crash.kind, crash.message.as_str()),
            (VerdictKind::CompilerCrash, "the compiler died (signal 11)")
        );
    }

    #[test]
    fn long_logs_are_cut_in_the_middle_and_say_so() {
        let log = format!("a.cu: error: first\n{}last line", "é".repeat(40_000));
        let verdict = refused(&log);
        let kept = verdict.evidence.get("log").unwrap().as_str().unwrap();
        assert!(kept.len() < LOG_MAX + 100 && kept.starts_with("a.cu: error") && kept.ends_with("last line"));
        assert_eq!(verdict.evidence.get("log_truncated"), Some(&true.into()));
        assert!(verdict.message.len() < MESSAGE_MAX + 100);
    }
}
