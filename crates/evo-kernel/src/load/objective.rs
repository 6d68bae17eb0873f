//! `[objective]`: what ranks, and the work of one call for TFLOP/s, GB/s and the roofline.

use evo_protocol::measurement::RankingMode;
use evo_space::document::Node;

use super::fields::Reader;
use super::names::KnownNames;
use crate::spec::ObjectiveSpec;

const MODES: &[(&str, RankingMode)] = &[("hot", RankingMode::Hot), ("cold", RankingMode::Cold)];

/// Reads the table; an absent one ranks by hot time.
pub(super) fn read(reader: &mut Reader, node: Option<&Node>, names: &KnownNames) -> Option<ObjectiveSpec> {
    let Some(node) = node else {
        let ranking = RankingMode::Hot;
        return Some(ObjectiveSpec { ranking, flops: None, bytes: None, allow_trade: false });
    };
    let fields = reader.fields(node, "`objective`", &["ranking", "flops", "bytes", "allow_trade"])?;
    let ranking = match fields.get("ranking") {
        Some(node) => reader.choice(node, &fields.name("ranking"), MODES),
        None => Some(RankingMode::Hot),
    };
    let allow_trade = match fields.get("allow_trade") {
        Some(node) => reader.boolean(node, &fields.name("allow_trade")),
        None => Some(false),
    };
    let mut work = |key: &str| match fields.get(key) {
        Some(node) => reader.expression(node, &fields.name(key), names).map(Some),
        None => Some(None),
    };
    let (flops, bytes) = (work("flops"), work("bytes"));
    Some(ObjectiveSpec { ranking: ranking?, flops: flops?, bytes: bytes?, allow_trade: allow_trade? })
}
