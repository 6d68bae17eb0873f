//! What is asked of a compiler and what it answers.

use std::path::PathBuf;

use evo_space::genome::ContentHash;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::specialization::Specialization;
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
