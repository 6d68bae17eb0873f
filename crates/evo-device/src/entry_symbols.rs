//! Which symbol of a cubin an entry's name means, kept behind the cubin itself.
//!
//! `f<float, N>` has a mangled name that only the compiler can tell. The driver and tools read the ELF file in front and
//! do not see what follows it.

/// The last bytes of a file that has such a list.
const MARK: &[u8; 8] = b"EVOENTRY";

/// The list in a line for each entry: the name, a tab, the symbol.
pub fn append(binary: &mut Vec<u8>, symbols: &[(String, String)]) {
    let list: String = symbols.iter().map(|(name, symbol)| format!("{name}\t{symbol}\n")).collect();
    binary.extend_from_slice(list.as_bytes());
    binary.extend_from_slice(&(list.len() as u64).to_le_bytes());
    binary.extend_from_slice(MARK);
}

/// The file in front of the list, and the list; none where the file has none.
fn parts(binary: &[u8]) -> Option<(&[u8], &str)> {
    let rest = binary.strip_suffix(MARK)?;
    let (rest, length) = rest.split_last_chunk::<8>()?;
    let start = rest.len().checked_sub(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((&rest[..start], str::from_utf8(&rest[start..]).ok()?))
}

/// The file as the compiler made it.
pub fn image(binary: &[u8]) -> &[u8] {
    parts(binary).map_or(binary, |(image, _)| image)
}

/// The symbol of an entry, if the file has a list with it.
pub fn symbol_of<'b>(binary: &'b [u8], entry: &str) -> Option<&'b str> {
    let (_, list) = parts(binary)?;
    list.lines().filter_map(|line| line.split_once('\t')).find(|(name, _)| *name == entry).map(|(_, own)| own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_behind_a_file_and_nowhere_else() {
        let mut binary = b"ELF".to_vec();
        assert_eq!(symbol_of(&binary, "f<4>"), None);
        append(&mut binary, &[("f<4>".into(), "_Z1fILi4EEvv".into()), ("ns::g".into(), "_ZN2ns1gEv".into())]);
        assert_eq!(symbol_of(&binary, "f<4>"), Some("_Z1fILi4EEvv"));
        assert_eq!(symbol_of(&binary, "ns::g"), Some("_ZN2ns1gEv"));
        assert_eq!(symbol_of(&binary, "g"), None);
        assert_eq!(image(&binary), b"ELF");
        assert_eq!(image(b"ELF"), b"ELF");
        // A length that no file has.
        let broken = [&[0xff; 8][..], MARK].concat();
        assert_eq!(symbol_of(&broken, "g"), None);
    }
}
