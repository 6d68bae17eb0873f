//! The end of an executor, told to the worker's parent as if the variant had run in the worker itself.
//!
//! Deadlines, blame and recovery are the parent's, and they know workers. So a worker ends the way its executor did:
//! with the same last words, the same code or the same signal. Where there is no such parent (`evo selftest device`),
//! the end is an error that demands another process.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::{VerdictClass, VerdictKind};
use evo_protocol::worker::{Frame, Response};

use super::wire::RoomMessage;
use crate::host::fault;

/// What an executor's last packet is, if it is a fault's last words.
pub fn last_words(message: &RoomMessage) -> Option<DeviceError> {
    let frame: Frame<Response> = message.parse().ok()?;
    match frame.body {
        Response::Fault { error } if is_believed(&error) => Some(*error),
        _ => None,
    }
}

/// Whether an executor may say this of its variant. Nothing that it says may speak for it.
pub fn is_believed(error: &DeviceError) -> bool {
    let kind = error.kind;
    let class = kind.class();
    let against = matches!(class, VerdictClass::Launch | VerdictClass::Crash | VerdictClass::Wrong);
    let own = matches!(kind, VerdictKind::WorkerDied | VerdictKind::StaleBinary);
    against && !own || kind == VerdictKind::HarnessError
}

/// A kernel's fault.
pub fn of_fault(error: DeviceError) -> DeviceError {
    if fault::is_installed() { fault::pass_on(&error) } else { error.sticky() }
}

/// Something that is not what an executor says.
pub fn of_nonsense(found: &str) -> DeviceError {
    if fault::is_installed() {
        fault::break_off(found)
    }
    died(format!("the variant broke the protocol: {found}"), "protocol")
}

/// An exit or a signal, as `waitpid` tells it. Without a status the executor lived on behind a closed socket.
pub fn of_status(status: Option<i32>) -> DeviceError {
    let Some(status) = status else { return of_nonsense("it closed its socket and went on running") };
    let exited = libc::WIFEXITED(status);
    let number = if exited { libc::WEXITSTATUS(status) } else { libc::WTERMSIG(status) };
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

fn died(message: String, cause: &str) -> DeviceError {
    DeviceError::plain(VerdictKind::WorkerDied, message).with_cause(cause).sticky()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_speaks_for_a_variant_is_believed() {
        for kind in VerdictKind::ALL {
            let believed = is_believed(&DeviceError::plain(*kind, "so it says"));
            let name = kind.as_str();
            let speaks_against = name.starts_with("crash_")
                || name.starts_with("oob_")
                || ["harness_error", "out_of_memory", "launch_fail", "load_error"].contains(&name);
            assert!(believed || !speaks_against, "{name}");
        }
        for kind in
            [VerdictKind::Pass, VerdictKind::PassedOver, VerdictKind::WorkerDied, VerdictKind::TooSlow]
        {
            assert!(!is_believed(&DeviceError::plain(kind, "so it says")));
        }
        let forged = RoomMessage {
            bytes: br#"{"v":1,"id":0,"body":{"type":"fault","error":{"kind":"pass","cause":null,"message":"","code":null,"sticky":false}}}"#.to_vec(),
            descriptors: Vec::new(),
        };
        assert_eq!(last_words(&forged), None);
    }
}
