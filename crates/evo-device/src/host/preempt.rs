//! Time slices for fibers: a thread that waits for another of its block by reading memory again and again must
//! not keep that other from running.
//! A GPU runs the threads of a block side by side, so a spin on a flag ends there; here, where fibers give way only
//! at barriers and warp operations, it would last for ever. So a ticker (`pool.rs`) looks every 10 ms at what each processor
//! thread does, and when one of them has run the same fiber since the last look, a signal makes the fiber call the
//! scheduler as if the kernel had done so itself. A launch whose threads all come to a barrier or an end within a
//! slice never gets a signal.
//!
//! A launch in a seeded order may begin with blocks that wait for blocks that come later. When no processor thread
//! has begun another block for three looks, the ticker asks for one more processor thread.
//!
//! Only on x86-64: elsewhere a spin without `__nanosleep` hangs.
//!
//! The handler only acts when the interrupted instruction is the kernel's own: in this program's or the C
//! library's code somebody may hold a lock or the runner. It then puts the address of the instruction on the fiber's
//! stack, below the 128 bytes that a function may use without saying so, and has the signal return to a
//! trampoline instead. That saves all registers, calls the scheduler, restores them and returns to the
//! instruction, which notices nothing but the time.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use machine::send;
pub use machine::{enter, install, leave};

use super::fiber::ThreadRecord;

#[derive(Clone, Copy, Debug)]
pub struct InterruptSection {
    /// First address and the one behind the last.
    pub code: (usize, usize),
    pub stacks: (usize, usize),
    /// What an interrupted thread calls.
    pub give_way: extern "C" fn(*mut ThreadRecord),
}

/// Counts the turns of one processor thread's fibers.
#[derive(Debug, Default)]
pub struct TurnClock {
    turns: AtomicU64,
    /// The turn that has lasted a whole slice.
    overdue: AtomicU64,
    /// The operating system's number of the thread while it runs a kernel, else 0.
    thread: AtomicI32,
    pub interruptions: AtomicU64,
    /// Threads of this launch wait for each other: slices are short.
    pub hurried: AtomicBool,
    /// Blocks that were begun.
    pub blocks: AtomicU64,
    /// More threads than processors run blocks that may wait for each other.
    pub crowded: AtomicBool,
}

impl TurnClock {
    /// Only the processor thread itself calls this.
    #[inline]
    pub fn turn(&self) {
        self.turns.store(self.turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// `thread` is 0 when it ends its part of a launch.
    fn occupy(&self, thread: i32) {
        self.hurried.store(false, Ordering::Relaxed);
        self.crowded.store(false, Ordering::Relaxed);
        self.turn();
        self.blocks.fetch_add(1, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Release);
    }

    /// The thread and its turn while it runs a kernel.
    pub fn look(&self) -> Option<(i32, u64)> {
        let thread = self.thread.load(Ordering::Acquire);
        (thread != 0).then(|| (thread, self.turns.load(Ordering::Relaxed)))
    }

    /// The thread is asked to end this turn.
    pub fn interrupt(&self, (thread, turn): (i32, u64)) {
        self.overdue.store(turn, Ordering::Release);
        send(thread);
    }

    fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Acquire) == self.turns.load(Ordering::Relaxed)
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod machine {
    use std::arch::naked_asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::cell::Cell;
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::host::fiber::{REGION, ThreadRecord, record_address};
    use crate::host::mapping::page_bytes;
    use crate::host::preempt::{InterruptSection, TurnClock};

    /// A signal that is ignored where nobody listens, and that debuggers pass on.
    const SIGNAL: i32 = libc::SIGURG;

    /// Stack that must be left for registers and the scheduler, bytes.
    const ROOM: usize = 16 * 1024;

    /// State components that kernels use: x87, SSE, AVX, the three of AVX-512, and the registers of APX.
    const COMPONENTS: u64 = 0xe7 | 1 << 19;

    static SAVED: AtomicU64 = AtomicU64::new(0);
    static SAVED_BYTES: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        static CLOCK: Cell<*const TurnClock> = const { Cell::new(std::ptr::null()) };
        static THREAD: Cell<i32> = const { Cell::new(0) };
        static SECTION: Cell<Option<InterruptSection>> = const { Cell::new(None) };
    }

    /// `clock` lives until `leave`.
    pub fn enter(clock: &TurnClock, section: InterruptSection) {
        SECTION.set(Some(section));
        CLOCK.set(clock);
        if THREAD.get() == 0 {
            // SAFETY: asks for this thread's own number.
            THREAD.set(unsafe { libc::gettid() });
        }
        clock.occupy(THREAD.get());
    }

    pub fn leave(clock: &TurnClock) {
        clock.occupy(0);
        CLOCK.set(std::ptr::null());
    }

    /// Nothing happens if the thread has ended.
    pub fn send(thread: i32) {
        // SAFETY: the handler is installed, and does nothing in a thread that runs no kernel.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
    }

    /// Whether this processor can save its registers.
    pub fn install() -> io::Result<bool> {
        let Some((components, bytes)) = saved_state() else { return Ok(false) };
        SAVED.store(components, Ordering::Relaxed);
        SAVED_BYTES.store(bytes, Ordering::Relaxed);
        // SAFETY: all zeros is a valid `sigaction`; the handler has the signature that SA_SIGINFO asks for.
        let status = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(SIGNAL, &action, std::ptr::null_mut())
        };
        if status == 0 { Ok(true) } else { Err(io::Error::last_os_error()) }
    }

    /// The components to save, and their bytes in the standard form of XSAVE.
    fn saved_state() -> Option<(u64, u64)> {
        // CPUID 1, ECX bit 27: the operating system has switched XSAVE on.
        if __cpuid(1).ecx >> 27 & 1 == 0 {
            return None;
        }
        let (low, high): (u32, u32);
        // SAFETY: XSAVE is on, so the processor has this instruction.
        unsafe {
            std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack))
        };
        let components = (u64::from(high) << 32 | u64::from(low)) & COMPONENTS;
        // The first two components lie in the 512 bytes before the 64 of the header.
        let end = |component: u32| {
            let place = __cpuid_count(0xd, component);
            u64::from(place.eax) + u64::from(place.ebx)
        };
        let extended = (2..63).filter(|component| components >> component & 1 == 1);
        Some((components, extended.map(end).max().unwrap_or(0).max(576)))
    }

    extern "C" fn handle(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let clock = CLOCK.get();
        let Some(section) = SECTION.get().filter(|_| !clock.is_null()) else { return };
        // SAFETY: the clock lives until `leave`, which has not been called.
        if !unsafe { (*clock).is_overdue() } {
            return;
        }
        // SAFETY: the kernel passes a valid ucontext to a handler installed with SA_SIGINFO.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let instruction = registers[libc::REG_RIP as usize] as usize;
        let stack = registers[libc::REG_RSP as usize] as usize;
        let within = |(start, end): (usize, usize), address| (start..end).contains(&address);
        let room = (stack & (REGION - 1)).saturating_sub(page_bytes());
        if !within(section.code, instruction) || !within(section.stacks, stack) || room < ROOM {
            return;
        }
        let place = stack - 128 - 8;
        // SAFETY: the fiber's stack is open there, and nothing of the interrupted function lies there.
        unsafe { *(place as *mut usize) = instruction };
        registers[libc::REG_RSP as usize] = place as i64;
        registers[libc::REG_RIP as usize] = trampoline as *const () as i64;
    }

    /// Entered with the address of the interrupted instruction on the stack, 128 bytes below its frame.
    #[unsafe(naked)]
    unsafe extern "C" fn trampoline() {
        naked_asm!(
            "pushfq",
            "push rax",
            "push rbx",
            "push rcx",
            "push rdx",
            "push rsi",
            "push rdi",
            "push rbp",
            "push r8",
            "push r9",
            "push r10",
            "push r11",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "cld",
            "mov rbp, rsp",
            "sub rsp, qword ptr [rip + {bytes}]",
            "and rsp, -64",
            // XSAVE reads the header before it writes it.
            "xor eax, eax",
            "mov qword ptr [rsp + 512], rax",
            "mov qword ptr [rsp + 520], rax",
            "mov qword ptr [rsp + 528], rax",
            "mov qword ptr [rsp + 536], rax",
            "mov qword ptr [rsp + 544], rax",
            "mov qword ptr [rsp + 552], rax",
            "mov qword ptr [rsp + 560], rax",
            "mov qword ptr [rsp + 568], rax",
            "mov eax, dword ptr [rip + {components}]",
            "mov edx, dword ptr [rip + {components} + 4]",
            "xsave64 [rsp]",
            // Numbers that the kernel has on the x87 stack must not lie there when another fiber goes on.
            "fninit",
            "mov rdi, rsp",
            "call {call}",
            "mov eax, dword ptr [rip + {components}]",
            "mov edx, dword ptr [rip + {components} + 4]",
            "xrstor64 [rsp]",
            "mov rsp, rbp",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop r11",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rbp",
            "pop rdi",
            "pop rsi",
            "pop rdx",
            "pop rcx",
            "pop rbx",
            "pop rax",
            "popfq",
            "ret 128",
            bytes = sym SAVED_BYTES,
            components = sym SAVED,
            call = sym interrupted,
        )
    }

    extern "C" fn interrupted(stack: usize) {
        if let Some(section) = SECTION.get() {
            // SAFETY: an interrupted fiber runs between `enter` and `leave`, while the clock lives.
            unsafe { (*CLOCK.get()).interruptions.fetch_add(1, Ordering::Relaxed) };
            (section.give_way)(record_address(stack) as *mut ThreadRecord);
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod machine {
    use std::io;

    use crate::host::preempt::{InterruptSection, TurnClock};

    pub fn enter(_clock: &TurnClock, _section: InterruptSection) {}

    pub fn leave(_clock: &TurnClock) {}

    pub fn send(_thread: i32) {}

    pub fn install() -> io::Result<bool> {
        Ok(false)
    }
}
