//! What the engine knows of its lanes: who broke on what, who is lost, and how fast each card is beside the first.
//!
//! Cards of one class differ by several percent. Their anchor is a job that every lane measures, so that times of
//! different cards can be compared: the baseline, before a lane's first variant, every few minutes and after a fault. A
//! lane's times are divided by how much longer than the first lane it takes. What that leaves, such as a card that is
//! slower on some kernels only, decides who is screened and not who wins: the best of other lanes are measured again on
//! the confirming lane before they are ranked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evo_journal::record::LaneAccount;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::Measurement;
use evo_protocol::verdict::Verdict;

/// Between two measurements of the anchor on a lane.
pub(super) const EVERY: Duration = Duration::from_secs(300);

/// Verdicts after which lanes stop waiting for an anchor: where nothing passes there is none.
pub(super) const PATIENCE: u64 = 4;

/// Variants that broke on a lane and were well on another device, after which the lane takes no more.
const SUSPICIONS: usize = 2;

/// Verdicts in a row without such a variant, after which earlier ones are forgotten.
const FORGOTTEN_AFTER: u32 = 16;

/// What is not corrected is below what a comparison of finalists claims.
const CORRECTED_FROM: f64 = 0.005;

pub(super) struct Fleet<J> {
    pub lanes: Vec<LaneRecord>,
    pub strikes: BTreeMap<u64, Strike>,
    /// The baseline, with its number.
    pub anchor: Option<(u64, J)>,
    /// Variants of other lanes as the confirming lane has measured them: over all problems, nanoseconds, and on each.
    pub adjusted: BTreeMap<u64, (f64, Vec<Measurement>)>,
    pub confirming: usize,
}

pub(super) struct Strike {
    pub verdict: Verdict,
    pub lane: usize,
    pub lost: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LaneTimes {
    pub busy_seconds: f64,
    pub absent_seconds: f64,
    /// Whether it has no worker, and may still get one.
    pub waits: bool,
}

#[derive(Debug, Default)]
pub(super) struct LaneRecord {
    /// What is counted as it happens; the rest is filled in when somebody asks.
    pub account: LaneAccount,
    /// Seconds without a worker, those since it was lost apart.
    pub absent: f64,
    /// What the search came to for it, once that is over.
    pub at_end: Option<LaneTimes>,
    /// When it was lost, seconds since the run began.
    pub lost_at: Option<f64>,
    suspicions: BTreeSet<u64>,
    clean: u32,
    /// The newest time of the anchor on each problem, nanoseconds, and how often it was taken.
    times: BTreeMap<String, (f64, u32)>,
    /// How far the first two times of the anchor lay apart, relatively: they were taken one after the other.
    noise: f64,
    pub broken_anchors: u32,
    pub anchoring: u32,
    pub anchored_at: Option<Duration>,
}

impl<J> Fleet<J> {
    pub(super) fn new(accounts: Vec<LaneAccount>) -> Fleet<J> {
        let record = |(lane, account)| {
            let account = LaneAccount { lane, ratio: 1.0, ..account };
            LaneRecord { account, ..LaneRecord::default() }
        };
        Fleet {
            lanes: (0..).zip(accounts).map(record).collect(),
            strikes: BTreeMap::new(),
            anchor: None,
            adjusted: BTreeMap::new(),
            confirming: 0,
        }
    }

    pub(super) fn is_several(&self) -> bool {
        self.lanes.len() > 1
    }

    /// `lane 1 (cuda:1)`.
    pub(super) fn shown(&self, lane: usize) -> String {
        format!("lane {lane} ({})", self.lanes[lane].account.name)
    }

    pub(super) fn sign(&self, lane: usize, ratio: f64, evaluation: &mut Evaluation) {
        if self.is_several() {
            evaluation.lane = u32::try_from(lane).ok();
            evaluation.device_uuid = Some(self.lanes[lane].account.device_uuid.clone());
            evaluation.lane_ratio = (ratio != 1.0).then_some(ratio);
        }
    }

    pub(super) fn reference(&self) -> usize {
        self.lanes.iter().position(|lane| lane.account.out.is_none()).unwrap_or(0)
    }

    /// How many times as long as the reference lane a lane takes; `None` before both have measured the anchor.
    pub(super) fn compare(&self, lane: usize) -> Option<f64> {
        let [own, reference] = [lane, self.reference()].map(|lane| &self.lanes[lane]);
        let logs = own.times.iter().filter_map(|(problem, (time, _))| {
            let (other, _) = reference.times.get(problem)?;
            Some((time / other).ln())
        });
        let logs: Vec<f64> = logs.collect();
        let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        if !mean.is_finite() {
            return None;
        }
        // What could be noise is not corrected, which would only add to it.
        let least = CORRECTED_FROM.max(own.noise).max(reference.noise);
        let ratio = if (mean - 1.0).abs() <= least { 1.0 } else { mean };
        Some(ratio * reference.account.ratio)
    }
}

impl LaneRecord {
    pub(super) fn note_anchor(&mut self, times: impl IntoIterator<Item = (String, f64)>) {
        for (problem, time) in times {
            let before = self.times.get(&problem).copied();
            // Later times are minutes apart, and may differ because the card has become warm.
            if let Some((before, 1)) = before {
                self.noise = self.noise.max((time / before).max(before / time) - 1.0);
            }
            let count = before.map_or(1, |(_, count)| count + 1);
            self.times.insert(problem, (time, count));
        }
    }

    pub(super) fn note_verdict(&mut self) {
        self.account.evaluations += 1;
        self.clean += 1;
        if self.clean >= FORGOTTEN_AFTER {
            self.suspicions.clear();
        }
    }

    /// Its launcher has led to this machine and device, which are not to blame for what broke on others.
    pub(super) fn lead_to(&mut self, host: String, device_uuid: String) {
        if (&self.account.host, &self.account.device_uuid) != (&host, &device_uuid) {
            self.suspicions.clear();
        }
        self.account.host = host;
        self.account.device_uuid = device_uuid;
    }

    pub(super) fn lose(&mut self, why: &str, at: f64) {
        self.account.out = Some(why.to_string());
        self.lost_at.get_or_insert(at);
    }

    pub(super) fn suspect(&mut self, number: u64) -> bool {
        self.clean = 0;
        self.suspicions.insert(number);
        self.suspicions.len() >= SUSPICIONS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(times: &[&[f64]]) -> Fleet<()> {
        let mut fleet = Fleet::new(vec![LaneAccount::default(); times.len()]);
        for (lane, times) in fleet.lanes.iter_mut().zip(times) {
            lane.note_anchor(["p", "q"].map(String::from).into_iter().zip(times.iter().copied()));
        }
        fleet
    }

    #[test]
    fn a_slower_card_has_a_ratio_and_one_that_is_as_noisy_as_slow_is_left_as_it_is() {
        let near = |seen: Option<f64>, expected: Option<f64>| match (seen, expected) {
            (Some(seen), Some(expected)) => (seen - expected).abs() < 1e-9,
            (seen, expected) => seen == expected,
        };
        for (times, expected) in [
            ([&[100.0][..], &[130.0]], Some(1.3)),
            ([&[100.0], &[100.4]], Some(1.0)),
            ([&[100.0], &[101.0]], Some(1.01)),
            ([&[100.0, 50.0], &[100.0, 55.0]], Some((1.1f64).sqrt())),
            ([&[], &[105.0]], None),
        ] {
            let seen = fleet(&times).compare(1);
            assert!(near(seen, expected), "{seen:?} {times:?}");
        }
        let mut fleet = fleet(&[&[100.0], &[100.0]]);
        fleet.lanes[1].note_anchor([("p".to_string(), 108.0)]);
        assert_eq!(fleet.compare(1), Some(1.0));
        // A card that has become slower since is another matter.
        fleet.lanes[1].note_anchor([("p".to_string(), 120.0)]);
        assert!(near(fleet.compare(1), Some(1.2)));
    }

    #[test]
    fn two_variants_that_are_well_elsewhere_put_a_lane_out_unless_enough_goes_well() {
        let mut lane = LaneRecord::default();
        assert!(!lane.suspect(1) && !lane.suspect(1), "one variant alone says nothing of the device");
        assert!(lane.suspect(2));
        let mut lane = LaneRecord::default();
        lane.suspect(1);
        (0..FORGOTTEN_AFTER).for_each(|_| lane.note_verdict());
        assert!(!lane.suspect(2));
    }
}
