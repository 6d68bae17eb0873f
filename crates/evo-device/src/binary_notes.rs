//! What evo knows of a cubin beside its code, kept behind the cubin itself: which symbol an entry's name means, and on
//! which lines threads meet on purpose.
//!
//! `f<float, N>` has a mangled name that only the compiler can tell, and whether an access was volatile stands in the
//! PTX and not in the machine code. The driver and tools do not see what follows the ELF file.

const MARK: &[u8; 8] = b"EVONOTES";
const SYMBOL: &str = "symbol\t";
const STRONG: &str = "strong\t";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct BinaryNotes {
    /// Entries and their symbols, where those differ from the names.
    pub symbols: Vec<(String, String)>,
    /// Lines, as `k.cu:6`, on which every access to shared memory is volatile, atomic or ordered.
    pub strong_lines: Vec<String>,
}

impl BinaryNotes {
    pub fn append(&self, binary: &mut Vec<u8>) {
        let symbols = self.symbols.iter().map(|(name, symbol)| format!("{SYMBOL}{name}\t{symbol}\n"));
        let lines = self.strong_lines.iter().map(|line| format!("{STRONG}{line}\n"));
        let list: String = symbols.chain(lines).collect();
        if list.is_empty() {
            return;
        }
        binary.extend_from_slice(list.as_bytes());
        binary.extend_from_slice(&(list.len() as u64).to_le_bytes());
        binary.extend_from_slice(MARK);
    }
}

fn parts(binary: &[u8]) -> Option<(&[u8], &str)> {
    let rest = binary.strip_suffix(MARK)?;
    let (rest, length) = rest.split_last_chunk::<8>()?;
    let start = rest.len().checked_sub(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((&rest[..start], str::from_utf8(&rest[start..]).ok()?))
}

fn list(binary: &[u8]) -> impl Iterator<Item = &str> {
    parts(binary).map_or("", |(_, list)| list).lines()
}

pub fn image(binary: &[u8]) -> &[u8] {
    parts(binary).map_or(binary, |(image, _)| image)
}

pub fn symbol_of<'b>(binary: &'b [u8], entry: &str) -> Option<&'b str> {
    let pairs = list(binary).filter_map(|line| line.strip_prefix(SYMBOL)?.split_once('\t'));
    pairs.filter(|(name, _)| *name == entry).map(|(_, own)| own).next()
}

pub fn strong_lines(binary: &[u8]) -> impl Iterator<Item = &str> {
    list(binary).filter_map(|line| line.strip_prefix(STRONG))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_found_behind_a_file_and_nowhere_else() {
        let mut binary = b"ELF".to_vec();
        BinaryNotes::default().append(&mut binary);
        assert_eq!(binary, b"ELF", "nothing to keep");
        assert_eq!(symbol_of(&binary, "f<4>"), None);
        let symbols = vec![("f<4>".into(), "_Z1fILi4EEvv".into()), ("ns::g".into(), "_ZN2ns1gEv".into())];
        let notes = BinaryNotes { symbols, strong_lines: vec!["k.cu:6".into(), "symbol x.cu:9".into()] };
        notes.append(&mut binary);
        assert_eq!(symbol_of(&binary, "f<4>"), Some("_Z1fILi4EEvv"));
        assert_eq!(symbol_of(&binary, "ns::g"), Some("_ZN2ns1gEv"));
        assert_eq!(symbol_of(&binary, "g"), None);
        assert_eq!(strong_lines(&binary).collect::<Vec<_>>(), ["k.cu:6", "symbol x.cu:9"]);
        assert_eq!(image(&binary), b"ELF");
        assert_eq!((image(b"ELF"), strong_lines(b"ELF").count()), (&b"ELF"[..], 0));
        // A length that no file has.
        let broken = [&[0xff; 8][..], MARK].concat();
        assert_eq!(symbol_of(&broken, "g"), None);
    }
}
