//! Last words of a dying executor: what a memory fault in a kernel hit, in numbers, which the worker judges and words.
//!
//! The signal handler looks the address up in a fixed table and ends the process with the status that a shell shows
//! for a segmentation fault. It allocates nothing and takes no lock.

use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use evo_protocol::worker::{Frame, PROTOCOL_VERSION, Response};
use serde::{Deserialize, Serialize};

use super::fiber::{REGION, ThreadRecord, record_address};
use super::mapping::{Mapping, page_bytes};
use super::zones;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RangeKind {
    Buffer = 1,
    /// The stacks of a processor thread's fibers.
    Stacks = 2,
    /// Dynamic shared memory with its guards.
    Shared = 3,
}

#[derive(Debug)]
struct RangeSlot {
    kind: AtomicU8,
    low: AtomicUsize,
    high: AtomicUsize,
    start: AtomicUsize,
    bytes: AtomicUsize,
    name: AtomicPtr<u8>,
    name_bytes: AtomicUsize,
}

const FREE: u8 = 0;
const CLAIMED: u8 = 255;
const SLOTS: usize = 2048;
static TABLE: [RangeSlot; SLOTS] = [const {
    RangeSlot {
        kind: AtomicU8::new(FREE),
        low: AtomicUsize::new(0),
        high: AtomicUsize::new(0),
        start: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        name: AtomicPtr::new(std::ptr::null_mut()),
        name_bytes: AtomicUsize::new(0),
    }
}; SLOTS];

static REQUEST: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
static OUTPUT: AtomicI32 = AtomicI32::new(-1);

/// A range in the table; leaves it when dropped. A full table only makes messages poorer.
#[derive(Debug)]
pub struct Registered {
    slot: Option<&'static RangeSlot>,
    _name: Box<str>,
}

#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    pub kind: RangeKind,
    /// The whole range, guards included.
    pub whole: (usize, usize),
    /// First address and size of the usable part.
    pub inner: (usize, usize),
    pub name: &'a str,
}

impl Registered {
    pub fn new(range: Range<'_>) -> Registered {
        // The handler's line has room for so many letters, each as JSON spells it: an error would be allocated.
        let name: Box<str> = range.name.chars().take(256).collect::<String>().into();
        let claim = |slot: &&RangeSlot| {
            slot.kind.compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let slot = TABLE.iter().find(claim);
        if let Some(slot) = slot {
            slot.low.store(range.whole.0, Ordering::Relaxed);
            slot.high.store(range.whole.1, Ordering::Relaxed);
            slot.start.store(range.inner.0, Ordering::Relaxed);
            slot.bytes.store(range.inner.1, Ordering::Relaxed);
            slot.name.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
            slot.name_bytes.store(name.len(), Ordering::Relaxed);
            // Last and with `Release`: the handler looks at a slot only after it has seen its kind.
            slot.kind.store(range.kind as u8, Ordering::Release);
        }
        Registered { slot, _name: name }
    }

    pub fn set_inner(&self, start: usize, bytes: usize) {
        if let Some(slot) = self.slot {
            slot.start.store(start, Ordering::Relaxed);
            slot.bytes.store(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            // The name is a field, so it is dropped after this. A slot in use never points to a name that
            // is gone.
            slot.kind.store(FREE, Ordering::Release);
        }
    }
}

thread_local! {
    static IN_KERNEL: Cell<bool> = const { Cell::new(false) };
    static SIGNAL_STACK: Cell<Option<&'static Mapping>> = const { Cell::new(None) };
}

/// Says whether this processor thread runs a kernel: only then is a fault the kernel's.
pub fn in_kernel(inside: bool) {
    IN_KERNEL.set(inside);
}

/// Gives this thread a stack of its own for signals, once: a fiber's may be what overflowed.
pub fn prepare_thread() -> io::Result<()> {
    const BYTES: usize = 64 * 1024;
    if SIGNAL_STACK.get().is_some() {
        return Ok(());
    }
    let mapping = Mapping::reserve(BYTES + page_bytes())?;
    // The lowest page stays closed, so that a handler that overflows its stack faults instead of writing
    // elsewhere.
    let start = mapping.start() + page_bytes();
    mapping.open(start, BYTES)?;
    let stack = libc::stack_t { ss_sp: start as *mut libc::c_void, ss_flags: 0, ss_size: BYTES };
    // SAFETY: the memory is leaked below, so it outlives every signal of this thread.
    if unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    SIGNAL_STACK.set(Some(Box::leak(Box::new(mapping))));
    Ok(())
}

pub fn release_thread() {
    let Some(mapping) = SIGNAL_STACK.take() else { return };
    let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: no signal of this thread uses the stack after this; the mapping is the box that `prepare_thread` leaked.
    unsafe {
        libc::sigaltstack(&none, std::ptr::null_mut());
        drop(Box::from_raw(std::ptr::from_ref(mapping).cast_mut()));
    }
}

/// A kernel's fault writes a [`FaultRecord`] to `fd` and ends the process. A worker, which runs no kernels, has a number of
/// the request that it serves, with which [`pass_on`] answers.
pub fn install(request_id: Option<&'static AtomicU64>, fd: i32) -> io::Result<()> {
    let request_id = request_id.map_or(std::ptr::null_mut(), |own| std::ptr::from_ref(own).cast_mut());
    REQUEST.store(request_id, Ordering::Release);
    OUTPUT.store(fd, Ordering::Release);
    prepare_thread()?;
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGSYS] {
        // SAFETY: all zeros is a valid `sigaction`; the handler has the signature that SA_SIGINFO asks for.
        let status = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &action, std::ptr::null_mut())
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The only answer that an executor gives by itself.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FaultRecord {
    signal: i32,
    address: usize,
    /// The processor's general protection: no address is known.
    protection: bool,
    write: bool,
    misaligned: bool,
    /// The system call that a fence stopped.
    call: Option<i64>,
    /// In which the address lies.
    range: Option<FaultedRange>,
    /// The thread in its block, and the block.
    thread: Option<[[u32; 3]; 2]>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FaultedRange {
    kind: u8,
    name: Cow<'static, str>,
    start: usize,
    bytes: usize,
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if signal == libc::SIGSYS && !IN_KERNEL.get() {
        // The C library tries calls and takes no for an answer.
        // SAFETY: the kernel passes a valid ucontext to a handler installed with SA_SIGINFO.
        unsafe { refuse_call(context) };
        return;
    }
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let foreign = unsafe { sent_by_another(&*info) };
    let is_worker = !REQUEST.load(Ordering::Acquire).is_null();
    if foreign || is_worker || !IN_KERNEL.get() {
        // Not a kernel's: die of it as if nobody had listened.
        // SAFETY: resetting a signal to its default is async-signal-safe.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        if foreign {
            // A signal that was sent does not come again by itself, as the one of a faulting instruction does.
            // SAFETY: both are async-signal-safe; the signal is delivered once this handler returns.
            unsafe { libc::kill(libc::getpid(), signal) };
        }
        return;
    }
    // SAFETY: the kernel passes a valid siginfo and ucontext to a handler installed with SA_SIGINFO.
    let fault = unsafe { read_fault(signal, &*info, context) };
    // On the stack, because allocating is not async-signal-safe; numbers and texts are written without.
    let mut line = [0; 3072];
    let mut room = &mut line[..];
    let _ = serde_json::to_writer(&mut room, &fault);
    let left = room.len();
    let fd = OUTPUT.load(Ordering::Acquire);
    let mut rest = &line[..line.len() - left];
    while !rest.is_empty() {
        // SAFETY: the buffer is on this stack; `write` is async-signal-safe.
        let written = unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) };
        if written <= 0 {
            break;
        }
        rest = &rest[written as usize..];
    }
    // SAFETY: ends the process without running anything else.
    unsafe { libc::_exit(139) }
}

/// Whether another process sent the signal: nothing that a kernel did.
///
/// # Safety
/// `info` is what a signal handler was given.
unsafe fn sent_by_another(info: &libc::siginfo_t) -> bool {
    // Codes above 0 are the kernel's, which names no sender.
    // SAFETY: for signals that were sent, `si_pid` is set; `getpid` is async-signal-safe.
    info.si_code <= 0 && unsafe { info.si_pid() != libc::getpid() }
}

/// The system call that was not made, and where its result goes.
///
/// # Safety
/// `context` is the ucontext of a handler of SIGSYS.
unsafe fn call_registers<'a>(context: *mut libc::c_void) -> (i64, &'a mut i64) {
    // SAFETY: as the caller promises.
    let machine = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    {
        let result = &mut machine.gregs[libc::REG_RAX as usize];
        (*result, result)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let number = machine.regs[8] as i64;
        // SAFETY: the two types differ in their sign only.
        (number, unsafe { &mut *(&raw mut machine.regs[0]).cast::<i64>() })
    }
}

/// Lets a call that was not made fail.
///
/// # Safety
/// As for `call_registers`.
unsafe fn refuse_call(context: *mut libc::c_void) {
    // SAFETY: as the caller promises.
    let (_, result) = unsafe { call_registers(context) };
    *result = -i64::from(libc::EPERM);
}

fn call_purpose(number: i64) -> &'static str {
    match number {
        libc::SYS_openat | libc::SYS_openat2 => "opens a file, which kernels may not",
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open | libc::SYS_creat => "opens a file, which kernels may not",
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork | libc::SYS_vfork => "starts a process, which kernels may not",
        libc::SYS_clone | libc::SYS_clone3 => "starts a process or a thread, which kernels may not",
        libc::SYS_execve | libc::SYS_execveat => "starts a program, which kernels may not",
        libc::SYS_socket | libc::SYS_socketpair | libc::SYS_connect => {
            "makes a socket, which kernels may not"
        }
        libc::SYS_ptrace | libc::SYS_process_vm_readv | libc::SYS_process_vm_writev => {
            "reaches for another process, which kernels may not"
        }
        libc::SYS_kill | libc::SYS_tgkill | libc::SYS_tkill => {
            "signals another process, which kernels may not"
        }
        libc::SYS_rt_sigaction => "changes how signals are handled, which kernels may not",
        libc::SYS_setitimer | libc::SYS_timer_create | libc::SYS_timerfd_create => {
            "sets a timer, which kernels may not"
        }
        libc::SYS_mmap | libc::SYS_mprotect => "makes memory executable, which kernels may not",
        _ => "makes a system call that kernels may not make",
    }
}

/// # Safety
/// `context` is the ucontext of a signal handler.
unsafe fn read_fault(signal: i32, info: &libc::siginfo_t, context: *mut libc::c_void) -> FaultRecord {
    // SAFETY: for these signals `si_addr` is set.
    let address = unsafe { info.si_addr() } as usize;
    let protection = signal == libc::SIGSEGV && info.si_code == libc::SI_KERNEL;
    // SAFETY: as the caller promises.
    let call = (signal == libc::SIGSYS).then(|| unsafe { call_registers(context) }.0);
    let fault =
        FaultRecord { signal, address, protection, call, range: range_at(address), ..Default::default() };
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: as the caller promises.
        let registers = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let instruction = registers[libc::REG_RIP as usize] as *const u8;
        FaultRecord {
            // Bit 1 of the page fault's error code says that it was a write.
            write: registers[libc::REG_ERR as usize] & 2 != 0,
            // SAFETY: the processor has just read this instruction; the longest prefix looked at is shorter
            // than any vector move.
            misaligned: protection && unsafe { demands_alignment(instruction) },
            thread: thread_at(registers[libc::REG_RSP as usize] as usize),
            ..fault
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    FaultRecord { misaligned: signal == libc::SIGBUS, ..fault }
}

/// Whether the instruction is an aligned vector move (`movaps`, `movdqa`, `movntps`, … and their VEX and EVEX forms).
#[cfg(target_arch = "x86_64")]
unsafe fn demands_alignment(instruction: *const u8) -> bool {
    // SAFETY: as the caller promises, at least five bytes are readable.
    let byte = |at: usize| unsafe { *instruction.add(at) };
    let mut at = 0;
    while at < 3 && (matches!(byte(at), 0x66 | 0xf2 | 0xf3) || byte(at) & 0xf0 == 0x40) {
        at += 1;
    }
    let opcode = match byte(at) {
        0x0f => byte(at + 1),
        0xc5 => byte(at + 2),
        0xc4 => byte(at + 3),
        0x62 => byte(at + 4),
        _ => return false,
    };
    matches!(opcode, 0x28 | 0x29 | 0x2b | 0x6f | 0x7f | 0xe7)
}

pub fn is_installed() -> bool {
    OUTPUT.load(Ordering::Acquire) >= 0
}

/// What `body` says, under the number of the request that is served. Ends this process as a fault of its own would.
pub fn pass_on(error: &DeviceError) -> ! {
    // SAFETY: `install` stores a reference that lives for ever.
    let id = unsafe { REQUEST.load(Ordering::Acquire).as_ref() }.map_or(0, |own| own.load(Ordering::Acquire));
    let body = Response::Fault { error: Box::new(error.clone()) };
    let line =
        serde_json::to_string(&Frame { v: PROTOCOL_VERSION, id, lease: None, body }).unwrap_or_default();
    say_and_exit(&line)
}

pub fn break_off(found: &str) -> ! {
    let clean: String = found.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    // Never a frame, whatever it holds.
    say_and_exit(&format!("not the protocol: {clean}"))
}

fn say_and_exit(line: &str) -> ! {
    // SAFETY: the descriptor is the worker's for its frames, the text is alive, and the process ends.
    unsafe {
        let text = format!("{line}\n");
        libc::write(OUTPUT.load(Ordering::Acquire), text.as_ptr().cast(), text.len());
        libc::_exit(139)
    }
}

fn range_at(address: usize) -> Option<FaultedRange> {
    let slot = TABLE.iter().find(|slot| {
        !matches!(slot.kind.load(Ordering::Acquire), FREE | CLAIMED)
            && (slot.low.load(Ordering::Relaxed)..slot.high.load(Ordering::Relaxed)).contains(&address)
    })?;
    let (data, length) = (slot.name.load(Ordering::Relaxed), slot.name_bytes.load(Ordering::Relaxed));
    // SAFETY: a slot in use points to the UTF-8 name that its `Registered` owns.
    let name = unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(data, length)) };
    Some(FaultedRange {
        kind: slot.kind.load(Ordering::Acquire),
        name: name.into(),
        start: slot.start.load(Ordering::Relaxed),
        bytes: slot.bytes.load(Ordering::Relaxed),
    })
}

/// The thread on whose stack the address lies.
fn thread_at(stack: usize) -> Option<[[u32; 3]; 2]> {
    range_at(stack).filter(|range| range.kind == RangeKind::Stacks as u8)?;
    // SAFETY: inside the stacks every region with a live stack pointer has a record, written when its fiber began.
    let record = unsafe { &*(record_address(stack) as *const ThreadRecord) };
    Some([record.thread, record.block])
}

impl FaultRecord {
    pub fn error(&self) -> DeviceError {
        let (kind, cause, what, range) = self.judge();
        let who = match self.thread {
            Some([[tx, ty, tz], [bx, by, bz]]) => format!("thread {tx},{ty},{tz} of block {bx},{by},{bz}"),
            None => "a thread".to_string(),
        };
        let mut error = DeviceError::plain(kind, format!("{who} {what}")).sticky();
        (error.cause, error.code) = (cause.map(str::to_string), Some(self.signal));
        error = error.with("address", format!("0x{:x}", self.address));
        if let Some(number) = self.call {
            error = error.with("system_call", number);
        }
        if let Some(FaultedRange { name, start, bytes, .. }) = range {
            let offset = self.address.wrapping_sub(*start) as i64;
            let place = match offset {
                ..0 => format!("{} `{name}`", zones::place(offset, *bytes)),
                _ if offset < *bytes as i64 => format!("to input `{name}`, {offset} bytes from its start"),
                _ => format!("{} `{name}` ({bytes} bytes long)", zones::place(offset, *bytes)),
            };
            error.message.push_str(&format!(" {place}"));
            error = error.with("buffer", &**name).with("offset_bytes", offset).with("size_bytes", *bytes);
        }
        match self.thread {
            Some([thread, block]) => error.with("thread", thread).with("block", block),
            None => error,
        }
    }

    /// Verdict, cause, what was done, and to which range.
    fn judge(&self) -> (VerdictKind, Option<&'static str>, &'static str, Option<&FaultedRange>) {
        let address = VerdictKind::CrashIllegalAddress;
        let (kind, what) = match self.write {
            true => (VerdictKind::OobWrite, "writes"),
            false => (VerdictKind::OobRead, "reads"),
        };
        match (self.signal, &self.range) {
            _ if self.call.is_some() => {
                let what = call_purpose(self.call.unwrap_or_default());
                (VerdictKind::CrashOther, Some("system_call"), what, None)
            }
            // These signals carry no address of data, so the table has no answer for them.
            (libc::SIGFPE, _) => {
                (VerdictKind::CrashOther, Some("divide"), "divides an integer by zero", None)
            }
            (libc::SIGILL, _) => {
                (VerdictKind::CrashIllegalInstruction, None, "runs an illegal instruction", None)
            }
            (libc::SIGABRT, _) => (VerdictKind::CrashAssert, Some("abort"), "aborts", None),
            _ if self.misaligned => {
                (VerdictKind::CrashMisaligned, None, "uses a misaligned address for a vector access", None)
            }
            _ if self.protection => (address, None, "uses an address that cannot exist", None),
            (_, None) => (address, None, "uses an address outside all buffers", None),
            (_, Some(range)) if range.kind == RangeKind::Stacks as u8 => {
                // Regions are aligned to their size, and the lowest page of each is its guard.
                match self.address % REGION < page_bytes() {
                    true => (VerdictKind::CrashStack, None, "overflows its stack", None),
                    false => (address, None, "uses an address of another thread's stack", None),
                }
            }
            (_, Some(range)) if range.kind == RangeKind::Shared as u8 => {
                (kind, Some("shared"), what, Some(range))
            }
            // Nothing inside a buffer faults but writes to one that kernels may only read.
            (_, Some(range)) if self.write && self.address.wrapping_sub(range.start) < range.bytes => {
                (VerdictKind::InputMutated, None, what, Some(range))
            }
            (_, Some(range)) => (kind, None, what, Some(range)),
        }
    }
}
