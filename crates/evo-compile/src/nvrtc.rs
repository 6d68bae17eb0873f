//! NVRTC behind thin bindings of our own: CUDA source in, cubin for an exact target out.
//!
//! It is loaded at run time and only inside compile workers, because it serializes all threads of a
//! process (28 compilations a second with one thread, 25 with 16) and because it can abort or use up
//! all memory: a process of its own can be killed.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use evo_device::binary_notes::BinaryNotes;
use evo_device::host::translate::SHIPPED_HEADERS;
use evo_protocol::binary::{Binary, EntryResources, KernelSource};
use evo_protocol::device::capability;
use evo_protocol::entry_name::EntryName;
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::ContentHash;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};

use super::confined::{self, Reach};
use super::diagnose::MemoryUse;
use super::error::{CompileSetupError, NVRTC_HINT};
use super::image::Compiled;
pub use super::locate::{NvrtcLibrary, locate};
use super::search_path::SearchPath;
use super::strong;
use super::{diagnose, entries, image, includes, standard};
use evo_system::process;

type Program = *mut c_void;
type Status = c_int;

const SUCCESS: Status = 0;
const OUT_OF_MEMORY: Status = 1;
const COMPILATION: Status = 6;

const VERBOSE: &CStr = c"--ptxas-options=-v";

/// Lets a tool name the line of an instruction. It leaves the code alone, so every build has it: what a tool looks at
/// is what was timed.
const LINES: &CStr = c"--generate-line-info";

/// Keeps the preprocessor from looking for names in quotes in the working folder, which may hold anything.
const NO_WORKING_FOLDER: &CStr = c"--no-source-include";

const NO_WORKING_FOLDER_SINCE: (c_int, c_int) = (11, 8);

const FOLDERS_HINT: &str = "\nhint: files are opened in the folders that `options` name with `-I`, and nowhere else; \
    links that lead out of them are not followed";

const KEYED_HEADERS: &[&str] =
    &["cuda_fp16.h", "cuda_fp16.hpp", "cuda_bf16.h", "cuda_bf16.hpp", "mma.h", "crt/mma.h"];

const TEXTURES_HINT: &str = "\nhint: CUDA 12 has removed texture and surface references, and evo passes no textures: read the \
                             data through a pointer, with `__ldg` or a `__constant__` variable";
/// What an error says of a header that is not there, before 13.0 and since.
const NO_FILE: [&str; 2] = ["could not open source file", "cannot open source file"];

macro_rules! bindings {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) -> $answer:ty;)*) => {
        /// Valid while the library is loaded.
        struct Functions { $($field: unsafe extern "C" fn($($argument),*) -> $answer,)* }

        impl Functions {
            fn find(library: &Library) -> Result<Functions, libloading::Error> {
                // SAFETY: names and signatures are those of nvrtc.h, stable since CUDA 11.2. The
                // pointers are kept beside the library, which is never unloaded before them.
                unsafe { Ok(Functions { $($field: *library.get($symbol)?,)* }) }
            }
        }
    };
}

bindings! {
    version = b"nvrtcVersion": fn(*mut c_int, *mut c_int) -> Status;
    error_string = b"nvrtcGetErrorString": fn(Status) -> *const c_char;
    arch_count = b"nvrtcGetNumSupportedArchs": fn(*mut c_int) -> Status;
    archs = b"nvrtcGetSupportedArchs": fn(*mut c_int) -> Status;
    create = b"nvrtcCreateProgram": fn(
        *mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
    ) -> Status;
    destroy = b"nvrtcDestroyProgram": fn(*mut Program) -> Status;
    compile = b"nvrtcCompileProgram": fn(Program, c_int, *const *const c_char) -> Status;
    cubin_size = b"nvrtcGetCUBINSize": fn(Program, *mut usize) -> Status;
    cubin = b"nvrtcGetCUBIN": fn(Program, *mut c_char) -> Status;
    ptx_size = b"nvrtcGetPTXSize": fn(Program, *mut usize) -> Status;
    ptx = b"nvrtcGetPTX": fn(Program, *mut c_char) -> Status;
    log_size = b"nvrtcGetProgramLogSize": fn(Program, *mut usize) -> Status;
    log = b"nvrtcGetProgramLog": fn(Program, *mut c_char) -> Status;
    add_name = b"nvrtcAddNameExpression": fn(Program, *const c_char) -> Status;
    lowered_name = b"nvrtcGetLoweredName": fn(Program, *const c_char, *mut *const c_char) -> Status;
}

pub struct Nvrtc {
    functions: Functions,
    pub(super) toolchain: String,
    version: (c_int, c_int),
    includes: Vec<PathBuf>,
    /// What else any compilation may read: the library's own folder, of which it may load more, and what the header
    /// folders link to.
    beside: Vec<PathBuf>,
    pub is_confined: bool,
    pub(super) fingerprint: ContentHash,
    // Unloaded last.
    _library: Library,
    _builtins: Option<Library>,
}

impl NvrtcLibrary {
    /// Costs about 120 MB of address space.
    pub fn load(&self) -> Result<Nvrtc, CompileSetupError> {
        let unusable = |reason: String| CompileSetupError::Unusable {
            what: format!("`{}`", self.path.display()),
            reason,
        };
        let failed = |error: libloading::Error| unusable(error.to_string());
        // NVRTC opens its companion by bare name; one that is loaded already is found by that name.
        let builtins = self.builtins.as_ref().map(|path| open(path, RTLD_NOW | RTLD_GLOBAL));
        let builtins = builtins.transpose().map_err(failed)?;
        let library = open(&self.path, RTLD_NOW | RTLD_LOCAL).map_err(failed)?;
        let functions = Functions::find(&library).map_err(failed)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: two live integers.
        if unsafe { (functions.version)(&mut major, &mut minor) } != SUCCESS {
            return Err(unusable("it does not tell its version".to_string()));
        }
        let file = self.path.file_name().unwrap_or_default();
        // A toolkit update can change the headers without changing NVRTC, so their text is part of the cache
        // key.
        let read =
            |name: &&str| self.includes.iter().find_map(|folder| std::fs::read(folder.join(name)).ok());
        let keyed = KEYED_HEADERS.iter().chain(standard::VERSIONS).map(read);
        // NVRTC tells no patch level; its size does in most cases.
        let size = std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        let mut parts = vec![format!("nvrtc {major}.{minor} {} {size}", file.display()).into_bytes()];
        parts.extend([LINES, NO_WORKING_FOLDER].map(|option| option.to_bytes().to_vec()));
        parts.extend(keyed.map(Option::unwrap_or_default));
        parts.extend(standard::fingerprint());
        // Which of the toolkit's folders are searched, wherever it lies.
        let inner =
            |folder: &PathBuf| folder.strip_prefix(self.includes.first()?).ok().map(Path::to_path_buf);
        let inner = self.includes.iter().filter_map(inner);
        parts.extend(inner.map(|folder| folder.display().to_string().into_bytes()));
        for (name, text) in SHIPPED_HEADERS {
            parts.extend([name.as_bytes().to_vec(), text.as_bytes().to_vec()]);
        }
        let own = self.path.parent().map(Path::to_path_buf).into_iter();
        Ok(Nvrtc {
            functions,
            toolchain: format!("nvrtc {major}.{minor}"),
            version: (major, minor),
            includes: self.includes.clone(),
            // Some packagers put a toolkit together from links.
            beside: own.chain(confined::linked(&self.includes)).collect(),
            is_confined: true,
            fingerprint: ContentHash::of_parts(parts.iter().map(Vec::as_slice)),
            _library: library,
            _builtins: builtins,
        })
    }
}

fn open(path: &Path, flags: c_int) -> Result<Library, libloading::Error> {
    // SAFETY: NVRTC's and its companion's initializers have no preconditions.
    unsafe { Library::open(Some(path), flags) }
}

impl Nvrtc {
    /// Names the targets that this NVRTC does know.
    pub fn check_arch(&self, arch: &str) -> Result<(), CompileSetupError> {
        let number = capability(arch).and_then(|number| c_int::try_from(number).ok());
        let known = self.archs();
        // An NVRTC that cannot list its targets is not refused; compiling will tell.
        if known.is_empty() || number.is_some_and(|number| known.contains(&number)) {
            return Ok(());
        }
        let known: Vec<String> = known.iter().map(|number| format!("sm_{number}")).collect();
        Err(CompileSetupError::UnknownArch {
            toolchain: self.toolchain.clone(),
            arch: arch.to_string(),
            known: known.join(", "),
        })
    }

    fn archs(&self) -> Vec<c_int> {
        let mut count = 0;
        // SAFETY: one live integer.
        if unsafe { (self.functions.arch_count)(&mut count) } != SUCCESS {
            return Vec::new();
        }
        let mut archs = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: NVRTC writes as many integers as it just announced.
        let status = unsafe { (self.functions.archs)(archs.as_mut_ptr()) };
        if status == SUCCESS { archs } else { Vec::new() }
    }

    /// The cubin is for exactly `arch`.
    pub fn compile(&self, source: &KernelSource, arch: &str) -> Result<Compiled, Box<Verdict>> {
        let options = self.options(source, arch)?;
        if !self.is_confined {
            return self.compile_as(source, options);
        }
        confined::run(&self.reach(source), || self.compile_as(source, options)).unwrap_or_else(|error| {
            let message = format!("cannot start a thread for NVRTC: {error}");
            Err(diagnose::machine(message, process::EXHAUSTED_HINT))
        })
    }

    fn reach(&self, source: &KernelSource) -> Reach {
        let search = SearchPath::default().with_options(&source.options);
        let is_macro = |option: &&String| option.trim_start_matches('-').starts_with(['D', 'd']);
        let named = source.options.iter().filter(|option| !is_macro(option));
        // The file of an option such as `--use-pch=kernel.pch`.
        let named = named.filter_map(|option| Some(PathBuf::from(option.split_once('=')?.1)));
        let own = self.includes.iter().chain(&self.beside).cloned();
        let forced = search.forced.iter().map(PathBuf::from);
        let readable = own.chain(search.folders).chain(forced).chain(named).collect();
        Reach { readable, ..Reach::default() }
    }

    fn compile_as(&self, source: &KernelSource, options: Vec<CString>) -> Result<Compiled, Box<Verdict>> {
        let program = OpenProgram::create(self, source)?;
        let names = program.ask_for(&source.entries)?;
        let (status, log) = program.compile(&options);
        let (reported, text) = split_log(&log);
        if status != SUCCESS && text.is_empty() {
            // NVRTC 13.0 loses the assembler's errors when the assembler is verbose; ask again.
            let quiet: Vec<CString> =
                options.into_iter().filter(|option| option.as_c_str() != VERBOSE).collect();
            let program = OpenProgram::create(self, source)?;
            program.ask_for(&source.entries)?;
            let (_, log) = program.compile(&quiet);
            return Err(self.refusal(status, &log));
        }
        if status != SUCCESS {
            let unnamed = names.iter().find_map(|(entry, name)| Some((entry, unknown_name(&text, name)?)));
            return Err(match unnamed {
                Some((entry, why)) => entries::refusal(source, entry, &[], Some(why)),
                None => self.refusal(status, &text),
            });
        }
        let bytes = program.fetch(self.functions.cubin_size, self.functions.cubin);
        let mut bytes = bytes.map_err(|status| self.refusal(status, &text))?;
        let image = image::read(&bytes).map_err(|error| {
            let message = format!("the compiler wrote a broken cubin: {error}");
            Box::new(Verdict::new(VerdictKind::CompilerCrash, message))
        })?;
        let symbols = program.symbols(names);
        let resources = resources(source, &image.kernels, &reported, &symbols)?;
        let log = diagnose::warnings(&text, false);
        let mut code_hash = image.code_hash;
        if !symbols.is_empty() {
            // Two variants may launch different kernels of the same code.
            let launched = symbols.iter().flat_map(|(name, symbol)| [name.as_bytes(), symbol.as_bytes()]);
            code_hash = ContentHash::of_parts([code_hash.as_str().as_bytes()].into_iter().chain(launched));
        }
        // Lines move without a change of the code, so its hash does not count them.
        let ptx = program.fetch(self.functions.ptx_size, self.functions.ptx).unwrap_or_default();
        BinaryNotes { symbols, strong_lines: strong::strong_lines(&ptx) }.append(&mut bytes);
        Ok((bytes, Binary { code_hash, resources, log, ..Binary::default() }))
    }

    fn options(&self, source: &KernelSource, arch: &str) -> Result<Vec<CString>, Box<Verdict>> {
        let mut own = vec![format!("--gpu-architecture={arch}")];
        own.extend([VERBOSE, LINES].map(|option| option.to_string_lossy().into_owned()));
        if self.is_confined && self.version >= NO_WORKING_FOLDER_SINCE {
            own.push(NO_WORKING_FOLDER.to_string_lossy().into_owned());
        }
        own.extend(standard::options(&source.text));
        let folders: Vec<String> =
            self.includes.iter().map(|folder| format!("-I{}", folder.display())).collect();
        // A default only: a kernel that names its own C++ standard keeps it.
        let standard = source.options.iter().all(|option| !option.contains("-std=") && option != "-std");
        let standard = standard.then(|| "--std=c++17".to_string());
        // The toolkit's folders last, as nvcc has them: somebody who names a folder of CUTLASS or CUB means its files.
        let all = own.iter().chain(&standard).chain(&source.options).chain(&folders);
        all.map(|option| text(option)).collect()
    }

    fn refusal(&self, status: Status, log: &str) -> Box<Verdict> {
        // SAFETY: NVRTC gives a static text for every number.
        let name = unsafe { CStr::from_ptr((self.functions.error_string)(status)) }.to_string_lossy();
        if let Some(verdict) = includes::unopened(log, &self.includes).filter(|_| self.is_confined) {
            return verdict;
        }
        let mut verdict = match status {
            OUT_OF_MEMORY => diagnose::out_of_memory(log, own_memory()),
            // Some failures come without a log, and then the status is all there is to say.
            _ if status != COMPILATION && log.trim().is_empty() => refused(&name),
            _ => refused(log),
        };
        if ["texture is not a template", "surface is not a template"].iter().any(|text| log.contains(text)) {
            verdict.message.push_str(TEXTURES_HINT);
        }
        let lacks = NO_FILE.iter().any(|text| log.contains(text));
        if self.includes.is_empty() && lacks {
            verdict.message.push_str(&format!("\nhint: no CUDA headers were found; {NVRTC_HINT}"));
        } else if lacks && self.is_confined {
            verdict.message.push_str(FOLDERS_HINT);
        }
        verdict.evidence.insert("nvrtc_status", name.to_string());
        verdict
    }
}

/// What the assembler reports of every entry point (`--ptxas-options=-v`), by the names of the object file. NVRTC mixes
/// these lines with the compiler's own diagnostics; the rest is the log that a person wants to see.
fn split_log(log: &str) -> (Vec<EntryResources>, String) {
    let mut entries: Vec<EntryResources> = Vec::new();
    let mut rest = String::new();
    let mut inside_entry = false;
    for line in log.lines() {
        // The line with the stack frame has no `ptxas` prefix, so its words identify it.
        let text = match line.strip_prefix("ptxas ").map(str::trim_start) {
            Some(report) => report.strip_prefix("info").or_else(|| report.strip_prefix('.')),
            None => line.trim().contains("bytes stack frame").then_some(line),
        };
        let Some(text) = text.map(|text| text.trim_matches([' ', ':', '.'])) else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        if let Some(quoted) = text.strip_prefix("Compiling entry function '") {
            let entry = quoted.split('\'').next().unwrap_or_default().to_string();
            entries.push(EntryResources { entry, ..EntryResources::default() });
        } else if let Some(function) = text.strip_prefix("Function properties for ") {
            // Device functions that are not inlined have properties of their own.
            inside_entry = entries.last().is_some_and(|last| last.entry == function);
        } else if let Some(entry) = entries.last_mut() {
            if let Some(usage) = text.strip_prefix("Used ") {
                // The assembler says nothing about shared memory that is not used.
                entry.shared_static_bytes = Some(0);
                read_numbers(usage, entry);
            } else if inside_entry && text.contains("bytes stack frame") {
                read_numbers(text, entry);
            }
        }
    }
    (entries, rest.trim().to_string())
}

/// `40 registers, used 1 barriers, 1024 bytes smem`; `8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads`.
fn read_numbers(text: &str, entry: &mut EntryResources) {
    for part in text.split(',') {
        let Some((number, what)) = part.trim().split_once(' ') else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match what {
            "registers" => entry.registers = u32::try_from(number).ok(),
            "bytes smem" => entry.shared_static_bytes = Some(number),
            "bytes stack frame" => entry.stack_bytes = Some(number),
            "bytes spill stores" => entry.spill_store_bytes = Some(number),
            "bytes spill loads" => entry.spill_load_bytes = Some(number),
            _ => {}
        }
    }
}

/// The log's numbers, completed from the file. A launch's entry that is not among them is a compile error.
fn resources(
    source: &KernelSource,
    kernels: &[EntryResources],
    reported: &[EntryResources],
    symbols: &[(String, String)],
) -> Result<Vec<EntryResources>, Box<Verdict>> {
    for entry in &source.entries {
        let listed = symbols.iter().any(|(name, _)| name == entry);
        if !listed && !image::has(kernels, entry) {
            let names: Vec<&str> = kernels.iter().map(|kernel| image::plain_name(&kernel.entry)).collect();
            return Err(entries::refusal(source, entry, &names, None));
        }
    }
    // A kernel that two entries name is reported for both.
    let named = kernels.iter().flat_map(|kernel| {
        let own = symbols.iter().filter(|(_, symbol)| *symbol == kernel.entry);
        let mut own: Vec<&str> = own.map(|(name, _)| name.as_str()).collect();
        let plain = image::plain_name(&kernel.entry);
        if own.is_empty() || source.entries.iter().any(|entry| entry == plain) {
            own.push(plain);
        }
        own.into_iter().map(move |name| (name, kernel))
    });
    let merged = named.map(|(name, kernel)| {
        let log = reported.iter().find(|report| report.entry == kernel.entry).cloned().unwrap_or_default();
        EntryResources {
            entry: name.to_string(),
            // The log comes first; the file fills the gaps, and has neither spills nor shared memory.
            registers: log.registers.or(kernel.registers),
            stack_bytes: log.stack_bytes.or(kernel.stack_bytes),
            threads_max: kernel.threads_max,
            ..log
        }
    });
    Ok(merged.collect())
}

/// What a log says against a name, if it says nothing against the source: the words of the error before the one that
/// quotes it.
fn unknown_name<'l>(log: &'l str, name: &CStr) -> Option<&'l str> {
    // NVRTC quotes the name with blanks between its words.
    let bare = |text: &str| text.replace(' ', "");
    let quotes =
        |line: &str| bare(line).contains(&bare(&format!("expression was:\"{}\"", name.to_string_lossy())));
    let (at, _) = log
        .match_indices("Input name expression")
        .find(|(at, _)| log[*at..].lines().next().is_some_and(quotes))?;
    let before = &log[..at];
    let errors = |text: &'l str| text.lines().filter(|line| line.contains(" error: "));
    if errors(log).any(|line| !line.starts_with("__nv_name_map")) {
        return None;
    }
    let mut words = errors(before).filter_map(|line| Some(line.split_once("error: ")?.1));
    words.rfind(|words| !words.starts_with("Error in parsing"))
}

fn own_memory() -> MemoryUse {
    MemoryUse { peak: 0, limit: process::memory_limit() }
}

fn refused(said: &str) -> Box<Verdict> {
    diagnose::refused(said, own_memory())
}

fn text(text: &str) -> Result<CString, Box<Verdict>> {
    CString::new(text).map_err(|_| {
        Box::new(Verdict::new(VerdictKind::CompileError, "the source or an option holds a zero byte"))
    })
}

struct OpenProgram<'library> {
    functions: &'library Functions,
    handle: Program,
}

impl<'library> OpenProgram<'library> {
    fn create(nvrtc: &'library Nvrtc, source: &KernelSource) -> Result<OpenProgram<'library>, Box<Verdict>> {
        let functions = &nvrtc.functions;
        let (code, name) = (text(&source.text)?, text(&source.file_name)?);
        let mut handle = ptr::null_mut();
        let mut headers = Vec::new();
        let search = SearchPath::default().with_options(&source.options);
        let standard = standard::headers(&search.folders, &nvrtc.includes);
        for (name, contents) in SHIPPED_HEADERS.iter().chain(&standard) {
            headers.push((text(name)?, text(contents)?));
        }
        let names: Vec<*const c_char> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let contents: Vec<*const c_char> = headers.iter().map(|(_, contents)| contents.as_ptr()).collect();
        // SAFETY: all texts live through the call, which copies them; both lists are as long as said.
        let status = unsafe {
            let count = headers.len() as c_int;
            let (code, name) = (code.as_ptr(), name.as_ptr());
            (functions.create)(&mut handle, code, name, count, contents.as_ptr(), names.as_ptr())
        };
        match status {
            SUCCESS => Ok(OpenProgram { functions, handle }),
            OUT_OF_MEMORY => Err(diagnose::out_of_memory("", own_memory())),
            _ => Err(refused(&format!("NVRTC does not accept the source (status {status})"))),
        }
    }

    /// Asks for instances of templates and for overloads; the answer is each entry with the expression that stands
    /// for it.
    fn ask_for(&self, entries: &[String]) -> Result<Vec<(String, CString)>, Box<Verdict>> {
        let named = entries.iter().filter_map(|entry| Some((entry, EntryName::parse(entry)?)));
        let mut asked = Vec::new();
        for (entry, name) in named.filter(|(_, name)| name.is_qualified()) {
            let expression = text(&name.expression())?;
            // SAFETY: the handle is live; the text lives through the call, which copies it.
            let status = unsafe { (self.functions.add_name)(self.handle, expression.as_ptr()) };
            if status != SUCCESS {
                return Err(refused(&format!("NVRTC takes no name `{entry}`")));
            }
            asked.push((entry.clone(), expression));
        }
        Ok(asked)
    }

    fn symbols(&self, asked: Vec<(String, CString)>) -> Vec<(String, String)> {
        let lowered = |expression: &CStr| {
            let mut symbol = ptr::null();
            // SAFETY: the handle is live and compiled; NVRTC points to a text of its own, which lives as long as it.
            unsafe {
                let status = (self.functions.lowered_name)(self.handle, expression.as_ptr(), &mut symbol);
                (status == SUCCESS && !symbol.is_null())
                    .then(|| CStr::from_ptr(symbol).to_string_lossy().into_owned())
            }
        };
        asked.into_iter().filter_map(|(entry, name)| Some((entry, lowered(&name)?))).collect()
    }

    fn compile(&self, options: &[CString]) -> (Status, String) {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the handle is live, and so are the option texts.
        let status =
            unsafe { (self.functions.compile)(self.handle, pointers.len() as c_int, pointers.as_ptr()) };
        let log = self.fetch(self.functions.log_size, self.functions.log).unwrap_or_default();
        // The size that NVRTC reports includes the zero at the end.
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        (status, String::from_utf8_lossy(&log[..end]).into_owned())
    }

    fn fetch(
        &self,
        size: unsafe extern "C" fn(Program, *mut usize) -> Status,
        get: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    ) -> Result<Vec<u8>, Status> {
        let mut length = 0;
        // SAFETY: the handle is live; NVRTC writes one size.
        let status = unsafe { size(self.handle, &mut length) };
        if status != SUCCESS {
            return Err(status);
        }
        let mut bytes = vec![0u8; length];
        // SAFETY: the buffer has the size that NVRTC asked for.
        let status = unsafe { get(self.handle, bytes.as_mut_ptr().cast()) };
        if status == SUCCESS { Ok(bytes) } else { Err(status) }
    }
}

impl Drop for OpenProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from `create` and is destroyed once.
        unsafe { (self.functions.destroy)(&mut self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = include_str!("nvrtc_lines.cu");

    #[test]
    fn line_information_leaves_the_code_alone() {
        let Some(nvrtc) = crate::nvrtc_for("line information") else { return };
        let source = KernelSource::plain("scale.cu", SOURCE, ["scale"]);
        for arch in ["sm_80", "sm_90a"] {
            let with = nvrtc.options(&source, arch).unwrap();
            assert!(with.iter().any(|option| option.as_c_str() == LINES));
            let without = with.iter().filter(|option| option.as_c_str() != LINES).cloned().collect();
            let (bytes, with) = nvrtc.compile_as(&source, with).unwrap();
            let (plain, without) = nvrtc.compile_as(&source, without).unwrap();
            assert_eq!((with.code_hash, with.resources), (without.code_hash, without.resources), "{arch}");
            assert_ne!(bytes, plain, "{arch}: a tool would find no lines");
        }
    }

    #[test]
    fn every_entry_is_read_and_the_rest_is_kept() {
        // Properties of device functions are not the entry's; errors of the assembler stay in the log.
        let error = "ptxas error   : Entry function 'k' uses too much shared data\n";
        let told = [include_str!("ptxas_13.log"), include_str!("ptxas_older.log"), error].map(|log| {
            let (entries, rest) = split_log(log);
            entries.iter().map(|entry| format!("{entry:?}\n")).collect::<String>() + "rest: " + &rest
        });
        insta::assert_snapshot!(told.join("\n\n"));
    }
}
