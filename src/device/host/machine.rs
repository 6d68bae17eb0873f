//! What this processor is: its name, caches and memory, as the kernel's files tell.

use std::fs;

use crate::genome::ContentHash;

/// A short name of this processor's model and instruction set, fit for a macro's value.
pub fn processor_key() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or("").to_string();
    let parts = [std::env::consts::ARCH.to_string(), field("model name"), field("flags"), field("Features")];
    ContentHash::of_parts(parts.iter().map(|part| part.as_bytes())).to_string().chars().take(16).collect()
}
