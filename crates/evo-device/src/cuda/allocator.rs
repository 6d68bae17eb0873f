//! The C library's allocator in a process that fills large buffers again and again.

/// Blocks up to this size are kept when they are freed: the largest value that glibc takes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BLOCK: libc::c_int = 32 << 20;
/// So much free memory at the end of a heap is not given back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_TOP: libc::c_int = 256 << 20;

/// Keeps freed memory in this process instead of returning it to the system at once.
///
/// Sixteen threads that draw inputs allocate and free blocks of half a megabyte. By default each is mapped anew, and the
/// threads wait for each other and for the pages to be zeroed: on a virtual machine with an H200 that took four fifths
/// of the time of drawing 67 million values (200 ms, 2026-11-23).
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: mallopt takes two integers and changes limits of the allocator; both parameters are documented
        // (mallopt(3)). A value that it does not take leaves the limit as it is.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BLOCK);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_TOP);
        }
    }
}
