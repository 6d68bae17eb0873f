//! What a compiler made of one source, before it is kept in the cache.

use evo_protocol::binary::EntryResources;
use evo_space::genome::ContentHash;

#[derive(Clone, Debug)]
pub struct Compiled {
    pub bytes: Vec<u8>,
    pub code_hash: ContentHash,
    pub resources: Vec<EntryResources>,
    pub log: String,
    pub log_truncated: bool,
    pub compile_ms: f64,
}

/// Two variants may launch different kernels of the same code.
pub fn launched(code_hash: ContentHash, symbols: &[(String, String)]) -> ContentHash {
    if symbols.is_empty() {
        return code_hash;
    }
    let launched = symbols.iter().flat_map(|(name, symbol)| [name.as_bytes(), symbol.as_bytes()]);
    ContentHash::of_parts([code_hash.as_str().as_bytes()].into_iter().chain(launched))
}
