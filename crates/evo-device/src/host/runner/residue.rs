//! Calls a thread on a stack that holds a pattern: what a kernel reads there before it writes is then the
//! pattern, not what the thread before happened to leave.
//!
//! Filling costs time for each thread, so it goes only as deep as threads go: 16 KiB for the first thread of a
//! launch on each processor thread, and then 1 KiB deeper than any thread was seen to write, at least 4 KiB.
//! When that last KiB is written, the next thread gets 16 KiB again.

use std::ffi::c_void;

const DEPTH_MAX: usize = 16 * 1024;
const DEPTH_MIN: usize = 4 * 1024;
/// What is filled below the deepest known write, bytes.
const MARGIN: usize = 1024;

/// Unpacks the arguments and calls a kernel.
pub type EntryPoint = unsafe extern "C" fn(*mut *mut c_void);

#[derive(Clone, Copy, Debug)]
pub struct StackResidue {
    pattern: u32,
    depth: usize,
    deepest: usize,
}

impl StackResidue {
    pub fn new(pattern: u32) -> StackResidue {
        StackResidue { pattern, depth: DEPTH_MAX, deepest: 0 }
    }

    pub fn learn(&mut self, depth: usize, written: usize) {
        let whole = depth == DEPTH_MAX;
        self.deepest = self.deepest.max(written);
        // Who wrote into the margin may have written below it too: the next thread finds out.
        let known = whole || written + MARGIN <= depth;
        self.depth = if known {
            (self.deepest + MARGIN).next_multiple_of(64).clamp(DEPTH_MIN, DEPTH_MAX)
        } else {
            DEPTH_MAX
        };
    }

    /// Gives the depth that was filled and how deep the thread wrote.
    ///
    /// # Safety
    /// `run` may be called with `arguments`, and the stack has room for `DEPTH_MAX` bytes and more.
    pub unsafe fn call(self, run: EntryPoint, arguments: *mut *mut c_void) -> (usize, usize) {
        // SAFETY: as the caller promises.
        let top = unsafe { call_on_pattern(run, arguments, self.pattern, self.depth) };
        let looked_at = if self.depth == DEPTH_MAX { DEPTH_MAX } else { MARGIN };
        let bottom = top - self.depth;
        let pattern = u64::from(self.pattern) << 32 | u64::from(self.pattern);
        // SAFETY: the stack is open there, and nothing lives below the call that has returned.
        let written = unsafe { first_other(bottom as *const u64, looked_at / 8, pattern) };
        (self.depth, written.map_or(0, |address| top - address))
    }
}

/// Each thread of a checked run pays for this, so words are looked at together. Read by pointer, and in the caller's
/// frame: this is a stack, whose upper end others use.
///
/// # Safety
/// So many words from `start` on are readable.
#[inline(always)]
unsafe fn first_other(start: *const u64, words: usize, pattern: u64) -> Option<usize> {
    const TOGETHER: usize = 32;
    // SAFETY: as the caller promises.
    let differs = |at: usize| unsafe { start.add(at).read() ^ pattern };
    let some = (0..words).step_by(TOGETHER).find(|from| {
        let end = words.min(from + TOGETHER);
        (*from..end).fold(0, |all, at| all | differs(at)) != 0
    })?;
    (some..words).find(|at| differs(*at) != 0).map(|at| start as usize + 8 * at)
}

/// Fills `bytes` below the stack pointer and the vector registers that a call may use, then calls; gives the
/// stack pointer.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn call_on_pattern(run: EntryPoint, arguments: *mut *mut c_void, pattern: u32, bytes: usize) -> usize {
    let top: usize;
    // SAFETY: the block keeps the calling convention: the stack is aligned here, and everything that a call may
    // change is named as changed. Nothing of this function lies below its stack pointer.
    unsafe {
        std::arch::asm!(
            "mov rdi, rsp",
            "sub rdi, rdx",
            "mov rcx, rdx",
            "shr rcx, 2",
            "rep stosd",
            "movd xmm0, eax",
            "pshufd xmm0, xmm0, 0",
            "movdqa xmm1, xmm0",
            "movdqa xmm2, xmm0",
            "movdqa xmm3, xmm0",
            "movdqa xmm4, xmm0",
            "movdqa xmm5, xmm0",
            "movdqa xmm6, xmm0",
            "movdqa xmm7, xmm0",
            "mov rdi, rsi",
            "call r8",
            "mov rax, rsp",
            inout("rax") u64::from(pattern) => top,
            inout("rdx") bytes => _,
            inout("rsi") arguments => _,
            inout("r8") run => _,
            clobber_abi("C"),
        );
    }
    top
}

/// As well as it can be said without the machine's own language: a function's frame is filled and left behind.
#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
unsafe fn call_on_pattern(run: EntryPoint, arguments: *mut *mut c_void, pattern: u32, bytes: usize) -> usize {
    #[inline(never)]
    fn leave(pattern: u32) -> usize {
        let mut area = [std::mem::MaybeUninit::<u32>::uninit(); DEPTH_MAX / 4];
        for word in &mut area {
            // SAFETY: a word of this function's own array.
            unsafe { word.as_mut_ptr().write_volatile(pattern) };
        }
        (&raw const area) as usize + DEPTH_MAX
    }
    let _ = bytes;
    let top = leave(pattern) & !15;
    // SAFETY: as the caller promises.
    unsafe { run(arguments) };
    top
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_follows_what_threads_write() {
        let mut residue = StackResidue::new(7);
        residue.learn(DEPTH_MAX, 500);
        assert_eq!(residue.depth, DEPTH_MIN);
        residue.learn(DEPTH_MIN, DEPTH_MIN - MARGIN + 8);
        assert_eq!(residue.depth, DEPTH_MAX);
        residue.learn(DEPTH_MAX, 9000);
        assert_eq!(residue.depth, 10_048);
        residue.learn(10_048, 0);
        assert_eq!(residue.depth, 10_048);
    }

    #[test]
    fn the_deepest_write_is_found_wherever_it_is() {
        let mut words = vec![7; 300];
        // SAFETY: a vector of so many words.
        let first = |words: &[u64]| unsafe { first_other(words.as_ptr(), words.len(), 7) };
        assert_eq!((first(&words), first(&[])), (None, None));
        for place in [299, 64, 63, 33, 32, 31, 0] {
            words[place] = 8;
            assert_eq!(first(&words), Some(words.as_ptr() as usize + 8 * place));
        }
    }
}
