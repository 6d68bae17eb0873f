//! Static `__shared__` variables are thread-local: one processor thread runs one block at a time. This
//! finds the calling thread's copy of a module's, to fill it before each block.

use std::ffi::{c_int, c_void};

/// Where a module's thread-local segment can be found.
#[derive(Clone, Copy, Debug)]
pub struct Statics {
    /// Some address inside the module.
    inside: usize,
    /// Makes the calling thread's copy exist.
    touch: extern "C" fn(),
}

struct SegmentSearch {
    inside: usize,
    found: Option<(usize, usize)>,
}

impl Statics {
    /// Of the module that contains `inside`.
    pub fn of(inside: usize, touch: extern "C" fn()) -> Statics {
        Statics { inside, touch }
    }

    /// The calling thread's copy: its address and size. It moves never, and dies with the module.
    pub fn locate(&self) -> Option<(usize, usize)> {
        // The loader makes a thread's copy when the thread first uses it.
        (self.touch)();
        let mut search = SegmentSearch { inside: self.inside, found: None };
        let data: *mut SegmentSearch = &mut search;
        // SAFETY: the callback gets `data` back while `search` is alive.
        unsafe { libc::dl_iterate_phdr(Some(visit), data.cast()) };
        search.found
    }
}

/// Fills a located copy with ones: a NaN of every floating type.
///
/// # Safety
/// The range is what `locate` told this thread, and the module is still loaded.
pub unsafe fn poison((start, bytes): (usize, usize)) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::write_bytes(start as *mut u8, 0xff, bytes) };
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid record, and `data` is the `SegmentSearch` of `locate`.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<SegmentSearch>()) };
    // SAFETY: the record points to its program headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let contains = |header: &&libc::Elf64_Phdr| {
        let start = info.dlpi_addr as usize + header.p_vaddr as usize;
        header.p_type == libc::PT_LOAD && (start..start + header.p_memsz as usize).contains(&search.inside)
    };
    if !headers.iter().any(|header| contains(&header)) {
        return 0;
    }
    let segment = headers.iter().find(|header| header.p_type == libc::PT_TLS);
    if let Some(segment) = segment.filter(|_| !info.dlpi_tls_data.is_null()) {
        search.found = Some((info.dlpi_tls_data as usize, segment.p_memsz as usize));
    }
    1
}
