//! Variants that `evo invert` harmed on purpose, as a journal keeps them. They are not evaluations: they have no number, no
//! objective and no gates, and what ranks, seeds, gates or exports is made of evaluations and confirmations alone.

use evo_protocol::invert::InvertDose;
use evo_space::genome::{Configuration, ContentHash};
use serde::{Deserialize, Serialize};

/// A harmed copy of a variant beside that variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiagnosticVariant {
    pub beside: UnharmedVariant,
    pub pathology: String,
    /// What a kernel lacks that suffers from it.
    pub resource: String,
    /// Whether work was taken away, so that answers may be wrong and a shorter time means nothing.
    pub lightens: bool,
    pub dose: InvertDose,
    /// UTC, RFC 3339.
    pub at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnharmedVariant {
    pub configuration: Configuration,
    pub configuration_hash: ContentHash,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_hash: Option<ContentHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_hash: Option<ContentHash>,
    pub problem: String,
    /// Relative difference between the unharmed variant and itself; absent where it could not be measured.
    pub noise_floor: Option<f64>,
    /// When the call began that harmed it: UTC, RFC 3339.
    pub begun: String,
}
