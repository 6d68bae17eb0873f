//! The few system calls that an executor may make once its module is loaded.
//!
//! Kernels compute. What is left is what memory, threads and the socket to the worker need. A call that is not on the
//! list is a signal, whose handler (`fault`) names the call and the thread where a kernel made it; outside of kernels,
//! where the C library tries one thing and then another, the call just fails.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

const ALLOWED: &[i64] = &[
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_futex,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_restart_syscall,
];

pub fn are_supported() -> bool {
    const GET_ACTION_AVAILABLE: libc::c_ulong = 2;
    let action: u32 = libc::SECCOMP_RET_TRAP;
    // SAFETY: the kernel reads the number that the pointer leads to.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAILABLE, 0, &raw const action) };
    answer == 0 && filter().is_ok()
}

static OF_KERNELS: OnceLock<BpfProgram> = OnceLock::new();

thread_local! {
    static RESTRICTED: Cell<bool> = const { Cell::new(false) };
}

pub fn restrict() -> io::Result<()> {
    keep_freed_memory();
    // Not a signal: the C library blocks signals while it starts a thread. It falls back on the older call, whose
    // arguments can be looked at.
    let newer = refusing(&[libc::SYS_clone3], libc::ENOSYS)?;
    let of_kernels = refusing(&[libc::SYS_clone], libc::EPERM)?;
    for program in [&newer, &no_processes()?, &filter()?] {
        seccompiler::apply_filter_all_threads(program).map_err(io::Error::other)?;
    }
    let _ = OF_KERNELS.set(of_kernels);
    Ok(())
}

/// Before the C library gives memory back for the first time it reads a file under `/proc` to learn how. That would
/// look like the kernel's doing.
fn keep_freed_memory() {
    // SAFETY: the call changes a setting of the allocator.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}

/// Restricts the calling thread, once: a kernel starts no thread that would go on behind its back. Without effect
/// where `restrict` was not called.
pub fn restrict_thread() {
    if RESTRICTED.get() {
        return;
    }
    if let Some(program) = OF_KERNELS.get() {
        RESTRICTED.set(true);
        // The other fences hold if this one fails.
        let _ = seccompiler::apply_filter(program);
    }
}

fn refusing(calls: &[i64], error: i32) -> io::Result<BpfProgram> {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    compiled(rules, SeccompAction::Allow, SeccompAction::Errno(error.cast_unsigned()))
}

/// Lets threads be started, and no processes. Not by a signal, for the same reason.
fn no_processes() -> io::Result<BpfProgram> {
    let rule = only(0, SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64), 0)?;
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    compiled(BTreeMap::from([(libc::SYS_clone, rule)]), SeccompAction::Allow, refuse)
}

/// Calls with such an argument.
fn only(argument: u8, operator: SeccompCmpOp, value: u64) -> io::Result<Vec<SeccompRule>> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value);
    Ok(vec![SeccompRule::new(vec![condition.map_err(io::Error::other)?]).map_err(io::Error::other)?])
}

/// What becomes of calls that fit no rule, and of those that fit one.
fn compiled(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    others: SeccompAction,
    fitting: SeccompAction,
) -> io::Result<BpfProgram> {
    let architecture: TargetArch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, others, fitting, architecture).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

fn filter() -> io::Result<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    // Nothing becomes code after loading.
    let executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
    rules.insert(libc::SYS_mmap, only(2, executable.clone(), 0)?);
    rules.insert(libc::SYS_mprotect, only(2, executable, 0)?);
    // Signals to itself only.
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, only(0, SeccompCmpOp::Eq, own)?);
    rules.insert(libc::SYS_kill, only(0, SeccompCmpOp::Eq, own)?);
    // Names of threads, and further restrictions.
    let mut named = only(0, SeccompCmpOp::Eq, libc::PR_SET_NAME as u64)?;
    named.extend(only(0, SeccompCmpOp::Eq, libc::PR_SET_NO_NEW_PRIVS as u64)?);
    rules.insert(libc::SYS_prctl, named);
    rules.insert(libc::SYS_seccomp, Vec::new());
    // What becomes of these two is the other filters' to say.
    rules.insert(libc::SYS_clone, Vec::new());
    rules.insert(libc::SYS_clone3, Vec::new());
    compiled(rules, SeccompAction::Trap, SeccompAction::Allow)
}
