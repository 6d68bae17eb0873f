//! What is known of a variant once it is compiled and before anything of it runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Facts of a compiled variant. Of several kernels and launches each fact is the worst; `None` is not
/// known, as most are on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<f64>,
    /// Bytes per thread spilled to local memory, stores and loads together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill_bytes: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_bytes: Option<f64>,
    /// Shared memory per block, static and dynamic, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<f64>,
    /// Resident warps over the device's maximum, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
    /// Size of the compiled file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary_bytes: Option<f64>,
}

impl Facts {
    pub const COUNT: usize = 6;

    pub const NAMES: [&'static str; Facts::COUNT] =
        ["registers", "spill_bytes", "stack_bytes", "shared_bytes", "occupancy", "binary_bytes"];

    pub fn values(&self) -> [Option<f64>; Facts::COUNT] {
        [
            self.registers,
            self.spill_bytes,
            self.stack_bytes,
            self.shared_bytes,
            self.occupancy,
            self.binary_bytes,
        ]
    }

    pub fn is_empty(&self) -> bool {
        self.values().iter().all(Option::is_none)
    }
}
