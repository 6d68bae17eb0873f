//! A loaded shared object.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::{CStr, c_char, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use evo_protocol::device::DeviceError;
use evo_protocol::entry_name::base;
use evo_protocol::tensor_map::TENSOR_MAP_BYTES;
use evo_protocol::verdict::VerdictKind;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use object::SymbolKind;
use rustix::fs::MemfdFlags;

use super::fiber::ABI;
use super::instrument::ModuleImage;
use super::mapping::memory_file;
use super::variables::ModuleMemory;
use super::{initializers, tls};
use crate::device::BoundArgument;
use crate::variables::{GUARD, Variable, VariablePlace, identifiers, symbols, variables};

/// Mirror of `evo_argument`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct ArgumentRecord {
    bytes: u32,
    kind: u32,
}

const POINTER: u32 = 1;

/// Mirror of `evo_entry`.
#[repr(C)]
#[derive(Debug)]
struct EntryRecord {
    name: *const c_char,
    run: unsafe extern "C" fn(*mut *mut c_void),
    arguments: *const ArgumentRecord,
    count: u32,
    threads_max: u32,
}

/// Mirror of `evo_module`.
#[repr(C)]
#[derive(Debug)]
struct ModuleRecord {
    abi: u32,
    count: u32,
    entries: *const EntryRecord,
    touch: extern "C" fn(),
    hash: *const c_char,
    shared_alignment: u64,
    kernels: *const c_char,
}

#[derive(Clone, Debug)]
pub struct HostFunction {
    pub name: String,
    pub run: unsafe extern "C" fn(*mut *mut c_void),
    arguments: Vec<ArgumentRecord>,
    /// From `__launch_bounds__`, if it has one.
    pub threads_max: Option<u32>,
    /// Static shared memory, bytes, as far as symbols tell whose it is.
    pub shared_static_bytes: u64,
}

/// A module in memory; unloaded when dropped.
#[derive(Debug)]
pub struct HostModule {
    entries: Vec<HostFunction>,
    hash: Option<String>,
    pub shared_alignment: usize,
    pub statics: tls::Statics,
    pub image: Option<ModuleImage>,
    pub variables: Vec<Variable>,
    /// Static shared variables, by place in the thread-local segment.
    pub shared: Arc<[VariablePlace]>,
    pub data_bytes: u64,
    _library: Library,
    // The name under which the loader knows the library must stay this file's.
    _file: File,
}

fn refused(message: impl Into<String>) -> DeviceError {
    DeviceError::plain(VerdictKind::LoadError, message)
}

impl HostModule {
    pub fn load(binary: &[u8], entries: &[String]) -> Result<HostModule, DeviceError> {
        initializers::check(binary)?;
        let (library, file) = open_library(binary)?;
        // SAFETY: the symbol, if it exists, is the `evo_module` that `translate` wrote.
        let record = unsafe { library.get::<*const ModuleRecord>(b"evo_module_table\0") }
            .map_err(|error| refused(format!("the module has no table of entry points: {error}")))?;
        // SAFETY: as above; the table lives as long as the library.
        let record: &ModuleRecord = unsafe { &**record };
        if record.abi != ABI {
            return Err(refused(format!(
                "the module was made for another version of evo ({} != {ABI})",
                record.abi
            )));
        }
        let statics = tls::Statics::of(std::ptr::from_ref(record) as usize, record.touch);
        let loaded = variables(binary).into_iter().map(|place| {
            let address = statics.module.0 as u64 + place.address;
            Variable::new(place, address, &ModuleMemory)
        });
        let variables = loaded.collect::<Result<_, _>>()?;
        // SAFETY: the table holds `count` entries.
        let records = unsafe { std::slice::from_raw_parts(record.entries, record.count as usize) };
        // SAFETY: each entry's pointers are to constants of the library.
        let mut read: Vec<HostFunction> =
            records.iter().map(|record| unsafe { read_entry(record) }).collect();
        let mut shared = symbols(binary, SymbolKind::Tls, |_, _| true);
        shared.retain(|own| own.symbol != "_ZL10evo_anchor");
        // SAFETY: the names are a constant string of the library.
        let kernels = unsafe { text(record.kernels) };
        let mut kernels: Vec<&str> = kernels.split(' ').collect();
        let names: Vec<String> = read.iter().map(|entry| base(&entry.name).to_string()).collect();
        kernels.extend(names.iter().map(String::as_str));
        for (entry, name) in read.iter_mut().zip(&names) {
            entry.shared_static_bytes = static_bytes(name, &kernels, &shared);
        }
        if let Some(missing) = entries.iter().find(|name| !read.iter().any(|entry| entry.name == **name)) {
            return Err(refused(format!("the module has no entry point `{missing}`")));
        }
        // SAFETY: the hash is null or a constant string of the library.
        let hash = (!record.hash.is_null()).then(|| unsafe { text(record.hash) });
        // SAFETY: only instrumented modules have the symbol: a pointer, null until a launch is watched.
        let slot = unsafe { library.get::<*const AtomicPtr<c_void>>(b"evo_watch_slot\0") };
        let image = slot.ok().map(|slot| ModuleImage::of(*slot, binary, statics.module.0));
        Ok(HostModule {
            entries: read,
            hash,
            shared_alignment: record.shared_alignment as usize,
            statics,
            image,
            variables,
            shared: shared.into(),
            data_bytes: initializers::data_bytes(binary),
            _library: library,
            _file: file,
        })
    }

    pub fn hash(&self) -> Option<&str> {
        self.hash.as_deref()
    }

    pub fn entry(&self, name: &str) -> Result<&HostFunction, DeviceError> {
        let found = self.entries.iter().find(|entry| entry.name == name);
        found.ok_or_else(|| refused(format!("the module has no entry point `{name}`")))
    }
}

impl HostFunction {
    /// Compares a launch's arguments with the kernel's own signature.
    pub fn check_arguments(&self, bound: &[BoundArgument]) -> Result<(), DeviceError> {
        let refuse = |message: String| {
            Err(DeviceError::plain(VerdictKind::LaunchFail, message).with_cause("arguments"))
        };
        let name = &self.name;
        if bound.len() != self.arguments.len() {
            let (takes, given) = (self.arguments.len(), bound.len());
            return refuse(format!("`{name}` takes {takes} arguments, the launch gives {given}"));
        }
        for (number, (bound, own)) in bound.iter().zip(&self.arguments).enumerate() {
            let (is_pointer, bytes) = (own.kind == POINTER, own.bytes as usize);
            let fits = match bound {
                BoundArgument::Buffer(_) => is_pointer,
                BoundArgument::Scalar(value) => !is_pointer && value.len() == bytes,
                BoundArgument::TensorMap { .. } => !is_pointer && bytes == TENSOR_MAP_BYTES,
            };
            if fits {
                continue;
            }
            let is =
                |value: &str| format!("{} of {bytes} bytes", if is_pointer { "a pointer" } else { value });
            let (is, given) = match bound {
                BoundArgument::Buffer(_) => ("not a pointer".to_string(), "a buffer".to_string()),
                BoundArgument::Scalar(value) => {
                    (is("a number"), format!("a number of {} bytes", value.len()))
                }
                BoundArgument::TensorMap { .. } => {
                    (is("a value"), format!("a tensor map of {TENSOR_MAP_BYTES} bytes by value"))
                }
            };
            let number = number + 1;
            return refuse(format!("argument {number} of `{name}` is {is}, the launch gives {given}"));
        }
        Ok(())
    }
}

/// The loader takes two libraries of one name for the same, and a descriptor's number is used again: so the name is
/// made new each time by slashes that mean nothing.
fn open_library(binary: &[u8]) -> Result<(Library, File), DeviceError> {
    static LOADED: AtomicU64 = AtomicU64::new(0);
    let number = LOADED.fetch_add(1, Ordering::Relaxed);
    let file = memory_file("evo-variant", MemfdFlags::empty(), binary)
        .map_err(|error| DeviceError::plain(VerdictKind::HarnessError, format!("memory file: {error}")))?;
    let detour: String = (0..40).map(|bit| if number >> bit & 1 == 1 { "//." } else { "/." }).collect();
    let path = format!("/proc/self/fd{detour}/{}", file.as_raw_fd());
    // SAFETY: loading runs no code of the module: `load` has refused one with constructors, destructors or indirect
    // functions in the tables that the loader reads.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
    // The path means nothing to a reader of the error.
    let reason = |error: libloading::Error| error.source().map_or(error.to_string(), ToString::to_string);
    let library = library.map_err(|error| refused(reason(error).replace(&path, "the module")))?;
    Ok((library, file))
}

unsafe fn read_entry(record: &EntryRecord) -> HostFunction {
    // SAFETY: as the caller promises.
    unsafe {
        HostFunction {
            shared_static_bytes: 0,
            name: text(record.name),
            run: record.run,
            arguments: std::slice::from_raw_parts(record.arguments, record.count as usize).to_vec(),
            threads_max: (record.threads_max != 0).then_some(record.threads_max),
        }
    }
}

unsafe fn text(pointer: *const c_char) -> String {
    // SAFETY: as the caller promises, a constant string.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// The variables of the kernel's own body and of device functions, which it may call, not those of other kernels. Of
/// several instances of its template the largest counts.
fn static_bytes(own: &str, kernels: &[&str], shared: &[VariablePlace]) -> u64 {
    let (mut common, mut instances) = (0, HashMap::<&str, u64>::new());
    for VariablePlace { name, symbol, bytes, .. } in shared.iter().filter(|variable| variable.name != GUARD) {
        // A local variable's mangled name begins with its function's: `_ZZ4gemmE4tile`.
        let end = symbol.rfind(&format!("E{}{name}", name.len())).unwrap_or(0);
        let function = &symbol[..end];
        // Of a function in no namespace the first word is the name: its types follow.
        let is_nested = function.trim_start_matches(['_', 'Z']).starts_with('N');
        let words = identifiers(function).into_iter().take(if is_nested { usize::MAX } else { 1 });
        match words.into_iter().find(|word| kernels.contains(word)) {
            None => common += bytes,
            Some(kernel) if kernel == own => *instances.entry(function).or_default() += bytes,
            Some(_) => {}
        }
    }
    common + instances.into_values().max().unwrap_or(0)
}
