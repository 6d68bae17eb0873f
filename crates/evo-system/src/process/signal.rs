//! Signals by their names, and which of them a program brings upon itself.

/// `SIGKILL`; a number for signals without a name.
pub fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_string)
}

/// Any other signal comes from another process or from the kernel's out-of-memory killer.
pub fn is_fault(signal: i32) -> bool {
    let faults =
        [libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGSYS, libc::SIGTRAP];
    faults.contains(&signal)
}

/// Whether this process was started to ignore a signal, as `nohup` does with SIGHUP.
pub fn is_ignored(signal: i32) -> bool {
    ignores(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), signal)
}

fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn signals_have_their_names() {
        assert_eq!([9, 11, 34].map(signal_name), ["SIGKILL", "SIGSEGV", "signal 34"]);
        assert!(is_fault(libc::SIGSEGV) && !is_fault(libc::SIGKILL));
    }

    #[test]
    fn only_what_is_ignored_counts_as_ignored() {
        assert!(!is_ignored(libc::SIGSEGV));
        let script = "trap '' HUP; cat /proc/self/status";
        let shown = Command::new("sh").args(["-c", script]).output().unwrap();
        let status = String::from_utf8(shown.stdout).unwrap();
        assert!(ignores(&status, libc::SIGHUP) && !ignores(&status, libc::SIGSEGV), "{status}");
    }
}
