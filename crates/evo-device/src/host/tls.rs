//! Static `__shared__` variables are thread-local: one processor thread runs one block at a time. This
//! finds the calling thread's copy of a module's, to fill it before each block.

use std::ffi::{c_int, c_void};

#[derive(Clone, Copy, Debug)]
pub struct Statics {
    inside: usize,
    touch: extern "C" fn(),
    segment: Option<(usize, usize)>,
    pub code: (usize, usize),
    /// The module's first address, and the one behind its last.
    pub module: (usize, usize),
}

impl Statics {
    pub fn of(inside: usize, touch: extern "C" fn()) -> Statics {
        Statics { inside, touch, segment: None, code: (0, 0), module: (0, 0) }.searched()
    }

    /// Address and size. The copy moves never, and dies with the module.
    pub fn locate(&self) -> Option<(usize, usize)> {
        // The loader makes a thread's copy when the thread first uses it.
        (self.touch)();
        self.located()
    }

    pub fn located(&self) -> Option<(usize, usize)> {
        self.searched().segment
    }

    fn searched(mut self) -> Statics {
        self.segment = None;
        let data = &raw mut self;
        // SAFETY: the callback gets `data` back while this is alive.
        unsafe { libc::dl_iterate_phdr(Some(visit), data.cast()) };
        self
    }
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid record, and `data` is that of `searched`.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Statics>()) };
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
        search.segment = Some((info.dlpi_tls_data as usize, segment.p_memsz as usize));
    }
    1
}
