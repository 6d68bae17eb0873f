//! The order of the entries of a section, ties and trades.

use evo_protocol::leaderboard::{PairedProblem, RankedEntry, TradedProblem};
use evo_protocol::measurement::Measurement;

/// A variant that is slower than the baseline by more than this share on one problem has traded it.
const TRADE: f64 = 0.02;

/// A p90 beyond this many medians marks an entry as noisy.
pub const NOISY: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Speed {
    /// The baseline is as fast as itself; how well its time is known says `own`, the interval of its own measurement.
    pub fn of(entry: &RankedEntry, own: Speed) -> Speed {
        match (entry.speedup, entry.speedup_low, entry.speedup_high) {
            (Some(value), Some(low), Some(high)) => Speed { value, low, high },
            _ => own,
        }
    }

    pub fn of_baseline<'a>(measurements: impl Iterator<Item = &'a Measurement>) -> Speed {
        let mut own = Speed { value: 1.0, low: 1.0, high: 1.0 };
        for one in measurements.filter(|one| one.p50_ns > 0.0 && one.ci_low_ns > 0.0) {
            own.low = own.low.min(one.p50_ns / one.ci_high_ns);
            own.high = own.high.max(one.p50_ns / one.ci_low_ns);
        }
        own
    }
}

/// Unless trades are allowed, the first that trades no problem becomes champion; all others stay in the order of
/// their speeds.
pub fn rank(entries: &mut Vec<RankedEntry>, baseline: Speed, floor: f64, allow_trade: bool) {
    let value = |entry: &RankedEntry| Speed::of(entry, baseline).value;
    // Ties go to the lower number, so that the same journal always gives the same board.
    entries.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.number.cmp(&b.number)));
    if !allow_trade && let Some(position) = entries.iter().position(|entry| entry.traded.is_empty()) {
        let champion = entries.remove(position);
        entries.insert(0, champion);
    }
    let Some(first) = entries.first().map(|entry| Speed::of(entry, baseline)) else { return };
    for (position, entry) in entries.iter_mut().enumerate() {
        entry.rank = position as u32 + 1;
        let own = Speed::of(entry, baseline);
        // An entry that is faster by its mean ranks behind the champion for what it traded, not by a tie.
        let may_tie = own.value <= first.value && first.low / own.high - 1.0 <= floor;
        entry.tie_with_champion = position > 0 && may_tie;
    }
}

pub fn traded(pairs: &[PairedProblem]) -> Vec<TradedProblem> {
    let slower = pairs.iter().filter(|pair| pair.ratio_low > 1.0 + TRADE);
    slower.map(|pair| TradedProblem { problem: pair.problem.clone(), ratio: pair.ratio }).collect()
}

pub fn is_noisy<'a>(mut measurements: impl Iterator<Item = &'a Measurement>) -> bool {
    measurements.any(|one| one.p90_ns > NOISY * one.p50_ns)
}
