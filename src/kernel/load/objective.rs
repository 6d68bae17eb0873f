//! `[objective]`: what ranks, and the work of one call for TFLOP/s, GB/s and the roofline.

use evo_protocol::measurement::RankingMode;
use evo_space::document::Node;

use super::fields::Reader;
use super::names::KnownNames;
use crate::kernel::spec::ObjectiveSpec;

const MODES: &[(&str, RankingMode)] = &[("hot", RankingMode::Hot), ("cold", RankingMode::Cold)];

/// Reads the table; an absent one ranks by hot time.
pub(super) fn read(reader: &mut Reader, node: Option<&Node>, names: &KnownNames) -> Option<ObjectiveSpec> {
    let Some(node) = node else {
        return Some(ObjectiveSpec { ranking: RankingMode::Hot, flops: None, bytes: None });
    };
    let fields = reader.fields(node, "`objective`", &["ranking", "flops", "bytes"])?;
    let ranking = match fields.get("ranking") {
        Some(node) => reader.choice(node, &fields.name("ranking"), MODES),
        None => Some(RankingMode::Hot),
    };
    let mut work = |key: &str| match fields.get(key) {
        Some(node) => reader.expression(node, &fields.name(key), names).map(Some),
        None => Some(None),
    };
    let (flops, bytes) = (work("flops"), work("bytes"));
    Some(ObjectiveSpec { ranking: ranking?, flops: flops?, bytes: bytes? })
}
