//! Static `__shared__` variables are thread-local: one processor thread runs one block at a time. This
//! finds the calling thread's copy of a module's, to fill it before each block.

use std::ffi::{c_int, c_void};

#[derive(Clone, Copy, Debug)]
pub struct Statics {
    inside: usize,
    touch: extern "C" fn(),
    code: (usize, usize),
    module: (usize, usize),
}

struct SegmentSearch {
    inside: usize,
    found: Option<(usize, usize)>,
    code: (usize, usize),
    module: (usize, usize),
}

impl Statics {
    pub fn of(inside: usize, touch: extern "C" fn()) -> Statics {
        let SegmentSearch { code, module, .. } = search(inside);
        Statics { inside, touch, code, module }
    }

    /// Address and size. The copy moves never, and dies with the module.
    pub fn locate(&self) -> Option<(usize, usize)> {
        // The loader makes a thread's copy when the thread first uses it.
        (self.touch)();
        search(self.inside).found
    }

    pub fn located(&self) -> Option<(usize, usize)> {
        search(self.inside).found
    }

    /// The module's first address, and the one behind its last.
    pub fn module(&self) -> (usize, usize) {
        self.module
    }

    pub fn code(&self) -> (usize, usize) {
        self.code
    }
}

fn search(inside: usize) -> SegmentSearch {
    let mut search = SegmentSearch { inside, found: None, code: (0, 0), module: (0, 0) };
    let data: *mut SegmentSearch = &mut search;
    // SAFETY: the callback gets `data` back while `search` is alive.
    unsafe { libc::dl_iterate_phdr(Some(visit), data.cast()) };
    search
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid record, and `data` is that of `search`.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<SegmentSearch>()) };
    // SAFETY: the record points to its program headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let range = |header: &libc::Elf64_Phdr| {
        let start = info.dlpi_addr as usize + header.p_vaddr as usize;
        (start, start + header.p_memsz as usize)
    };
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    if !loaded().map(range).any(|(start, end)| (start..end).contains(&search.inside)) {
        return 0;
    }
    search.module = (info.dlpi_addr as usize, loaded().map(|header| range(header).1).max().unwrap_or(0));
    if let Some(code) = loaded().find(|header| header.p_flags & libc::PF_X != 0) {
        search.code = range(code);
    }
    let segment = headers.iter().find(|header| header.p_type == libc::PT_TLS);
    if let Some(segment) = segment.filter(|_| !info.dlpi_tls_data.is_null()) {
        search.found = Some((info.dlpi_tls_data as usize, segment.p_memsz as usize));
    }
    1
}
