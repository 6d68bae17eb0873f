//! The end of an executor, told to the worker's parent as if the variant had run in the worker itself.
//!
//! Deadlines, blame and recovery are the parent's, and they know workers. So a worker ends the way its executor did:
//! with the same report of a fault, the same code or the same signal. Where there is no such parent (`evo selftest device`),
//! the end is an error that demands another process.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::{VerdictClass, VerdictKind};

use crate::host::fault;

/// What an executor was asked, as far as it decides what is believed of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To load its module. No code of the variant has run, so evo's own code speaks.
    Load,
    /// To run a call and watch its accesses. Where that takes too long, the call is left out.
    Watch,
    Other,
}

/// Whether an executor may say this of its variant. Nothing that it says may speak for it, and trouble of the harness
/// would keep the variant from a verdict for ever: once the variant's code has run, only the worker may claim that.
pub fn is_believed(error: &DeviceError, asked: Asked) -> bool {
    let kind = error.kind;
    let class = kind.class();
    let against = matches!(class, VerdictClass::Launch | VerdictClass::Crash | VerdictClass::Wrong);
    let own = matches!(kind, VerdictKind::WorkerDied | VerdictKind::StaleBinary);
    let too_long = || error.cause.as_deref() == Some("budget");
    let excused = match asked {
        Asked::Load => true,
        Asked::Watch => too_long(),
        Asked::Other => false,
    };
    against && !own || kind == VerdictKind::HarnessError && excused
}

pub fn of_fault(error: DeviceError) -> DeviceError {
    if fault::is_installed() { fault::pass_on(&error) } else { error.sticky() }
}

pub fn of_nonsense(found: &str) -> DeviceError {
    if fault::is_installed() {
        fault::break_off(found)
    }
    died(format!("the variant broke the protocol: {found}"), "protocol")
}

/// As `waitpid` tells it. From the worker's own end by a signal that a process does not bring upon itself, the parent
/// would conclude that somebody killed the worker, so that is told in words. Without a status the executor lived on
/// behind a closed socket.
pub fn of_status(status: Option<i32>) -> DeviceError {
    let Some(status) = status else { return of_nonsense("it closed its socket and went on running") };
    let exited = libc::WIFEXITED(status);
    let number = if exited { libc::WEXITSTATUS(status) } else { libc::WTERMSIG(status) };
    if !exited && fault::is_installed() && !FAULTS.contains(&number) {
        let killed = DeviceError::plain(VerdictKind::WorkerDied, "the variant's process was killed");
        fault::pass_on(&DeviceError { code: Some(number), ..killed });
    }
    if fault::is_installed() {
        // SAFETY: ends this process, in the way in which the variant has ended its own.
        unsafe {
            if !exited {
                libc::signal(number, libc::SIG_DFL);
                libc::raise(number);
            }
            libc::_exit(if exited { number } else { 128 + number })
        }
    }
    match exited {
        true => died(format!("the variant ended its process with code {number}"), &format!("exit_{number}")),
        false => died(format!("signal {number} ended the variant's process"), &format!("signal_{number}")),
    }
}

const FAULTS: [i32; 7] =
    [libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGSYS, libc::SIGTRAP];

/// The machine's doing, as no code of the variant has run. Nothing where loading itself crashed.
pub fn before_loading(status: Option<i32>) -> Option<DeviceError> {
    let status = status?;
    let how = match libc::WIFEXITED(status) {
        true => format!("ended with code {}", libc::WEXITSTATUS(status)),
        false if FAULTS.contains(&libc::WTERMSIG(status)) => return None,
        false => format!("was killed by signal {}", libc::WTERMSIG(status)),
    };
    let message = format!("the process that loads the variant {how} before it was ready");
    Some(DeviceError::plain(VerdictKind::HarnessError, message).sticky())
}

fn died(message: String, cause: &str) -> DeviceError {
    DeviceError::plain(VerdictKind::WorkerDied, message).with_cause(cause).sticky()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_that_never_loaded_says_nothing_about_its_variant() {
        let kind = |status| before_loading(Some(status)).map(|error| error.kind);
        assert_eq!(kind(70 << 8), Some(VerdictKind::HarnessError));
        assert_eq!(kind(libc::SIGKILL), Some(VerdictKind::HarnessError));
        assert_eq!(kind(libc::SIGSEGV), None);
        assert!(before_loading(None).is_none());
    }

    #[test]
    fn nothing_that_speaks_for_a_variant_is_believed() {
        let trouble = DeviceError::plain(VerdictKind::HarnessError, "the machine is broken, so it says");
        let late = trouble.clone().with_cause("budget");
        let asked = [Asked::Load, Asked::Watch, Asked::Other];
        assert_eq!(asked.map(|asked| is_believed(&trouble, asked)), [true, false, false]);
        assert_eq!(asked.map(|asked| is_believed(&late, asked)), [true, true, false]);
        let believes = |kind| is_believed(&DeviceError::plain(kind, "so it says"), Asked::Other);
        for kind in VerdictKind::ALL {
            let believed = believes(*kind);
            let name = kind.as_str();
            let speaks_against = name.starts_with("crash_")
                || name.starts_with("oob_")
                || ["out_of_memory", "launch_fail", "load_error"].contains(&name);
            assert!(believed || !speaks_against, "{name}");
        }
        for kind in
            [VerdictKind::Pass, VerdictKind::PassedOver, VerdictKind::WorkerDied, VerdictKind::TooSlow]
        {
            assert!(!believes(kind));
        }
    }
}
