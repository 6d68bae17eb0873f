//! The zones round static shared variables: where they lie, and what a block changed there.
//!
//! Each variable of `rewrite.rs` has a symbol in the thread-local segment and a function that describes it. Both
//! belong to the same function of the source, so their mangled names begin alike.

use std::ffi::{CStr, c_char};

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use object::{Object, ObjectSymbol, SymbolKind};

use super::pattern;

/// Mirror of `evo_zone`.
#[repr(C)]
struct ZoneRecord {
    before: usize,
    bytes: usize,
    whole: usize,
    name: *const c_char,
    kernel: *const c_char,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVariable {
    pub name: String,
    /// The kernel in whose body it stands; none if it is a device function's.
    pub kernel: Option<String>,
    /// The mangled name of its function: instances of a template differ in it.
    pub function: String,
    pub bytes: usize,
    start: usize,
    before: usize,
    whole: usize,
}

/// # Safety
/// `base` is the address at which the module that was made of `binary` is loaded.
pub unsafe fn variables(binary: &[u8], base: usize) -> Vec<SharedVariable> {
    let Ok(file) = object::File::parse(binary) else { return Vec::new() };
    let mut segments = Vec::new();
    let mut notes = Vec::new();
    for symbol in file.symbols() {
        let Ok(name) = symbol.name() else { continue };
        if symbol.kind() == SymbolKind::Tls {
            segments.extend(owner(name, "evo_shared_").map(|owner| (owner, symbol.address() as usize)));
        } else if name.contains("12evo_describe") && symbol.address() != 0 {
            notes.extend(owner(name, "evo_note_").map(|owner| (owner, symbol.address() as usize)));
        }
    }
    let variable = |((function, number), address): &((String, String), usize)| {
        let (_, start) = segments.iter().find(|((own, n), _)| own == function && n == number)?;
        let mut record =
            ZoneRecord { before: 0, bytes: 0, whole: 0, name: std::ptr::null(), kernel: std::ptr::null() };
        // SAFETY: as the caller promises; a symbol of this name is the function that `EVO_SHARED` wrote, which fills
        // in the record and points to constants of the module.
        let (name, kernel) = unsafe {
            let describe = std::mem::transmute::<usize, extern "C" fn(*mut ZoneRecord)>(base + address);
            describe(&mut record);
            (text(record.name), text(record.kernel))
        };
        let ZoneRecord { before, bytes, whole, .. } = record;
        let kernel = Some(kernel).filter(|kernel| !kernel.is_empty());
        Some(SharedVariable { name, kernel, function: function.clone(), bytes, start: *start, before, whole })
    };
    notes.iter().filter_map(variable).collect()
}

/// `_ZZ4gemmPfEN10evo_note_3…` or `_ZZ4gemmPfE12evo_shared_3`: the function's part, and the variable's number.
fn owner(symbol: &str, word: &str) -> Option<(String, String)> {
    let at = symbol.find(word)?;
    let before = &symbol[..at];
    let function = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let length: usize = before[function.len()..].parse().ok()?;
    let number = symbol.get(at + word.len()..at + length)?;
    Some((function.strip_suffix('N').unwrap_or(function).to_string(), number.to_string()))
}

unsafe fn text(pointer: *const c_char) -> String {
    // SAFETY: as the caller promises, a constant string.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// # Safety
/// `segment` is where the thread-local segment of the variables' module lies, and no block runs on it.
pub unsafe fn check(
    variables: &[SharedVariable],
    segment: usize,
    pattern: u32,
    block: [u32; 3],
) -> Option<DeviceError> {
    variables.iter().find_map(|variable| {
        let start = segment + variable.start;
        let (own, end) = (start + variable.before, start + variable.whole);
        // SAFETY: as the caller promises; the zones are parts of the segment.
        let (before, behind) = unsafe {
            let behind = own + variable.bytes;
            (
                pattern::changed(start, variable.before, pattern),
                pattern::changed(behind, end - behind, pattern),
            )
        };
        let (first, count) = before.or(behind)?;
        Some(damage(&variable.name, first as i64 - own as i64, variable.bytes, count, block))
    })
}

pub fn damage(name: &str, offset: i64, bytes: usize, count: u64, block: [u32; 3]) -> DeviceError {
    let [x, y, z] = block;
    let place = match offset - bytes as i64 {
        _ if offset < 0 => format!("{} bytes before the start of", -offset),
        0 => "directly behind the end of".to_string(),
        behind => format!("{behind} bytes behind the end of"),
    };
    let message = format!("block {x},{y},{z} writes {place} `{name}` in shared memory ({bytes} bytes long)");
    let error = DeviceError::plain(VerdictKind::OobWrite, message).with_cause("shared").with("buffer", name);
    let error = error.with("offset_bytes", offset).with("size_bytes", bytes);
    error.with("bytes_changed", count).with("block", block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_one_variable_have_one_owner() {
        let of = |symbol: &str, word: &str| owner(symbol, word).unwrap();
        let expected = ("_ZZ4gemmPfE".to_string(), "12".to_string());
        assert_eq!(of("_ZZ4gemmPfE13evo_shared_12", "evo_shared_"), expected);
        assert_eq!(of("_ZZ4gemmPfEN11evo_note_1212evo_describeEP8evo_zone", "evo_note_"), expected);
        assert_eq!(owner("_ZZ4gemmE4tile", "evo_shared_"), None);
    }
}
