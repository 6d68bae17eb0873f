//! What is asked of a compiler and what it answers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use evo_space::genome::ContentHash;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// The source that a compiler gets, with everything that decides its binary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelSource {
    pub text: String,
    /// `-D` and other options, in order.
    pub options: Vec<String>,
    pub entries: Vec<String>,
    /// A name for messages and logs, such as `attention_simt.cu`.
    pub file_name: String,
    /// Hash of the configuration and of `constants`, compiled into the binary as the symbol `evo_variant_hash`.
    pub variant_hash: ContentHash,
    /// Compile it so that the host device sees every access; other devices have no such builds.
    pub instrumented: bool,
    /// Sizes of problems that are constants of the text; empty where it serves every problem.
    #[serde(default, skip_serializing_if = "Specialization::is_empty")]
    pub constants: Specialization,
}

impl KernelSource {
    /// A source that no configuration decides: without options, and known by the hash of its text.
    pub fn plain<E: Into<String>>(
        file_name: &str,
        text: impl Into<String>,
        entries: impl IntoIterator<Item = E>,
    ) -> KernelSource {
        let text = text.into();
        KernelSource {
            variant_hash: ContentHash::of(text.as_bytes()),
            text,
            options: Vec::new(),
            entries: entries.into_iter().map(Into::into).collect(),
            file_name: file_name.to_string(),
            instrumented: false,
            constants: Specialization::default(),
        }
    }

    /// Hash of what matters to the machine code: text below the header, options, entries. Two
    /// configurations with equal hashes differ only in parameters that the source never uses.
    pub fn code_hash(&self) -> ContentHash {
        // The header names the configuration, so with it no two hashes would ever be equal.
        let body = match self.text.split_once(HEADER_END) {
            Some((_, body)) => body,
            None => &self.text,
        };
        let mut parts: Vec<&[u8]> = vec![body.as_bytes()];
        parts.extend(self.options.iter().map(|option| option.as_bytes()));
        parts.extend(self.entries.iter().map(|entry| entry.as_bytes()));
        ContentHash::of_parts(parts)
    }
}

/// Last line of the header that names configuration and hash.
pub const HEADER_END: &str = "// ---- end of evo header ----\n";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Binary {
    /// Hash of the file: its name in the cache and in the worker protocol.
    pub hash: ContentHash,
    /// Hash of the code sections alone: equal for configurations that compile to the same code.
    pub code_hash: ContentHash,
    pub path: PathBuf,
    pub resources: Vec<EntryResources>,
    /// Compiler and version: `nvrtc 13.0`, `g++ 12.2.0`.
    pub toolchain: String,
    /// Time the compiler took, milliseconds (as first measured, when cached).
    pub compile_ms: f64,
    pub cached: bool,
    pub log: String,
}

/// What one entry point uses, as the compiler reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntryResources {
    pub entry: String,
    pub registers: Option<u32>,
    /// Stack frame per thread, bytes.
    pub stack_bytes: Option<u64>,
    /// Bytes per thread that spill stores write to local memory.
    pub spill_store_bytes: Option<u64>,
    /// Bytes per thread that spill loads read back.
    pub spill_load_bytes: Option<u64>,
    /// Static shared memory per block, bytes.
    pub shared_static_bytes: Option<u64>,
    /// `__launch_bounds__` limit on threads, if it has one.
    pub threads_max: Option<u32>,
}

/// The answer to a compile request; a failure is a verdict.
pub type CompileOutcome = Result<Binary, Box<Verdict>>;

/// Sizes and flags that are compile-time constants of a source and of the binary that it becomes, with their values.
/// Empty where one binary serves every problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Specialization(BTreeMap<String, i64>);

impl Specialization {
    /// The values that a problem has for these names. A name that the problem lacks is left out; the loader of space
    /// files refuses such names.
    pub fn of(names: &[String], sizes: &BTreeMap<String, i64>) -> Specialization {
        let pair = |name: &String| Some((name.clone(), *sizes.get(name)?));
        Specialization(names.iter().filter_map(pair).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    pub fn serves(&self, sizes: &BTreeMap<String, i64>) -> bool {
        self.0.iter().all(|(name, value)| sizes.get(name) == Some(value))
    }

    /// The hash that the binary carries as a symbol: of the configuration and of the constants, so that two binaries of
    /// one configuration are told apart. Without constants it is the configuration's own.
    pub fn variant_hash(&self, configuration: &ContentHash) -> ContentHash {
        match self.is_empty() {
            true => configuration.clone(),
            false => ContentHash::of_parts([configuration.as_str().as_bytes(), self.to_string().as_bytes()]),
        }
    }
}

impl fmt::Display for Specialization {
    /// `CAUSAL=1 D=64`, by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, value)) in self.iter().enumerate() {
            let space = if position == 0 { "" } else { " " };
            write!(f, "{space}{name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
        pairs.iter().map(|(name, value)| ((*name).to_string(), *value)).collect()
    }

    #[test]
    fn constants_choose_problems() {
        let own =
            Specialization::of(&["D".into(), "CAUSAL".into()], &sizes(&[("CAUSAL", 1), ("D", 64), ("S", 7)]));
        assert_eq!(own.to_string(), "CAUSAL=1 D=64");
        assert!(own.serves(&sizes(&[("CAUSAL", 1), ("D", 64), ("S", 9)])));
        assert!(!own.serves(&sizes(&[("CAUSAL", 0), ("D", 64)])) && !own.serves(&sizes(&[("D", 64)])));
        assert!(Specialization::default().serves(&sizes(&[])));
    }

    #[test]
    fn binaries_of_one_configuration_carry_different_hashes() {
        let hash = ContentHash::of(b"configuration");
        let one = |value| Specialization::of(&["D".into()], &sizes(&[("D", value)])).variant_hash(&hash);
        assert_ne!(one(64), one(128));
        assert_eq!(Specialization::default().variant_hash(&hash), hash);
    }
}
