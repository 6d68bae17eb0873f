//! What the engine knows of its lanes: who broke on what, who is lost, and how fast each card is beside the first.
//! Pure bookkeeping, which `lanes` and `anchors` act on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::Verdict;

use super::ports::LaneIdentity;

/// Variants that broke on a lane and were well on another device, after which the lane takes no more.
const SUSPICIONS: usize = 2;

/// Verdicts in a row without such a variant, after which earlier ones are forgotten.
const FORGOTTEN_AFTER: u32 = 16;

/// What is not corrected is below what a comparison of finalists claims.
const CORRECTED_FROM: f64 = 0.005;

/// Of ratios: it decides who is screened, and finalists are compared on one card in any case.
const AGREE_WITHIN: f64 = 0.02;

const WAITS_AT_END: &str = "it was still without a new worker at the end";

pub(super) struct Fleet<J> {
    pub lanes: Vec<LaneRecord>,
    pub strikes: BTreeMap<u64, Strike>,
    /// Copies of what is on the lanes, from which anchors are taken; empty where there is one lane.
    pub sent: BTreeMap<u64, J>,
    /// The baseline, and beside it the incumbent.
    pub anchors: Vec<AnchorJob<J>>,
    /// evo's own kernels: one problem that is bound by memory, one by arithmetic.
    pub own: Option<J>,
    /// Times on the confirming lane of variants whose own lane is not pooled, nanoseconds.
    pub adjusted: BTreeMap<u64, f64>,
    pub confirming: usize,
}

pub(super) struct AnchorJob<J> {
    pub number: u64,
    pub job: J,
}

pub(super) struct Strike {
    pub verdict: Verdict,
    pub lane: usize,
    pub lost: bool,
}

#[derive(Debug, Default)]
pub(super) struct LaneRecord {
    pub identity: LaneIdentity,
    pub evaluations: u64,
    pub restarts: u64,
    /// Seconds of work until the search was over, and when that was.
    pub searched: Option<f64>,
    pub searched_at: Option<f64>,
    pub out: Option<String>,
    /// Variants whose worker died on them, and which went to another lane.
    pub given_back: u64,
    /// Seconds without a worker, those since it was lost apart.
    pub absent: f64,
    /// Whether it had no worker when the search was over, and might still have got one.
    pub waits_at_end: bool,
    /// When it was lost, seconds since the run began.
    pub lost_at: Option<f64>,
    suspicions: BTreeSet<u64>,
    clean: u32,
    /// The newest time of each anchor on each problem, nanoseconds, and how often it was taken. Those of evo's own kernels
    /// have no number.
    times: BTreeMap<(Option<u64>, String), (f64, u32)>,
    /// How far the first two times of an anchor lay apart, relatively: they were taken one after the other.
    noise: f64,
    pub ratio: f64,
    pub is_pooled: bool,
    pub broken_anchors: u32,
    pub anchoring: u32,
    pub anchored_at: Option<Duration>,
}

impl<J> Fleet<J> {
    pub(super) fn new(identities: Vec<LaneIdentity>) -> Fleet<J> {
        let record = |identity| LaneRecord { identity, ratio: 1.0, is_pooled: true, ..LaneRecord::default() };
        Fleet {
            lanes: identities.into_iter().map(record).collect(),
            strikes: BTreeMap::new(),
            sent: BTreeMap::new(),
            anchors: Vec::new(),
            own: None,
            adjusted: BTreeMap::new(),
            confirming: 0,
        }
    }

    pub(super) fn is_several(&self) -> bool {
        self.lanes.len() > 1
    }

    /// `lane 1 (cuda:1)`.
    pub(super) fn shown(&self, lane: usize) -> String {
        format!("lane {lane} ({})", self.lanes[lane].identity.name)
    }

    pub(super) fn sign(&self, lane: usize, ratio: f64, evaluation: &mut Evaluation) {
        if self.is_several() {
            evaluation.lane = u32::try_from(lane).ok();
            evaluation.device_uuid = Some(self.lanes[lane].identity.device_uuid.clone());
            evaluation.lane_ratio = (ratio != 1.0).then_some(ratio);
        }
    }

    /// Whether a variant was measured on a device whose times do not compare with the first lane's.
    pub(super) fn is_apart(&self, evaluation: &Evaluation) -> bool {
        let Some(uuid) = &evaluation.device_uuid else { return false };
        self.lanes.iter().any(|lane| !lane.is_pooled && lane.identity.device_uuid == *uuid)
    }

    pub(super) fn reference(&self) -> usize {
        self.lanes.iter().position(|lane| lane.out.is_none()).unwrap_or(0)
    }

    /// The ratio, and whether all anchors agree on it. `None` without anchors that both have measured.
    pub(super) fn compare(&self, lane: usize) -> Option<(f64, bool, [f64; 2])> {
        let reference = &self.lanes[self.reference()];
        let own = &self.lanes[lane];
        let noise = own.noise.max(reference.noise);
        let both = own
            .times
            .iter()
            .filter_map(|(anchor, own)| Some((anchor.0, (own.0 / reference.times.get(anchor)?.0).ln())));
        let both: Vec<(Option<u64>, f64)> = both.collect();
        if both.is_empty() || both.iter().any(|(_, own)| !own.is_finite()) {
            return None;
        }
        let logs: Vec<f64> = both.iter().map(|(_, own)| *own).collect();
        // The study's own variants are the nearest to what is to be corrected.
        let nearest: Vec<f64> =
            both.iter().filter(|(number, _)| number.is_some()).map(|(_, own)| *own).collect();
        let nearest = if nearest.is_empty() { &logs } else { &nearest };
        let mean = (nearest.iter().sum::<f64>() / nearest.len() as f64).exp();
        let ends = logs.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], own| {
            [low.min(own.exp()), high.max(own.exp())]
        });
        let agrees = ends[1] / ends[0] - 1.0 <= AGREE_WITHIN.max(noise);
        // What could be noise is not corrected, which would only add to it.
        let ratio = if (mean - 1.0).abs() <= CORRECTED_FROM.max(noise) { 1.0 } else { mean };
        Some((ratio * reference.ratio, agrees, ends))
    }

    /// How many times as long as the reference lane a lane takes for each anchor: `default`, and evo's own by name.
    pub(super) fn anchor_ratios(&self, lane: usize) -> BTreeMap<String, f64> {
        let (reference, own) = (&self.lanes[self.reference()], &self.lanes[lane]);
        let default = self.anchors.first().map(|anchor| anchor.number);
        let mut logs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for ((number, problem), (time, _)) in &own.times {
            let name = match number {
                None => problem.as_str(),
                Some(_) if *number == default => "default",
                Some(_) => continue,
            };
            let Some((other, _)) = reference.times.get(&(*number, problem.clone())) else { continue };
            logs.entry(name.to_string()).or_default().push((time / other).ln());
        }
        logs.into_iter()
            .map(|(name, all)| (name, (all.iter().sum::<f64>() / all.len() as f64).exp()))
            .collect()
    }
}

impl LaneRecord {
    pub(super) fn has_own_anchors(&self) -> bool {
        self.times.keys().any(|(number, _)| number.is_none())
    }

    pub(super) fn note_anchor(
        &mut self,
        number: Option<u64>,
        times: impl IntoIterator<Item = (String, f64)>,
    ) {
        for (problem, time) in times {
            let before = self.times.get(&(number, problem.clone())).copied();
            // Later times are minutes apart, and may differ because the card has become warm.
            if let Some((before, 1)) = before {
                self.noise = self.noise.max((time / before).max(before / time) - 1.0);
            }
            let count = before.map_or(1, |(_, count)| count + 1);
            self.times.insert((number, problem), (time, count));
        }
    }

    pub(super) fn note_verdict(&mut self) {
        self.evaluations += 1;
        self.clean += 1;
        if self.clean >= FORGOTTEN_AFTER {
            self.suspicions.clear();
        }
    }

    /// Its launcher has led to this machine and device, which are not to blame for what broke on others.
    pub(super) fn lead_to(&mut self, host: String, device_uuid: String) {
        if (&self.identity.host, &self.identity.device_uuid) != (&host, &device_uuid) {
            self.suspicions.clear();
        }
        self.identity.host = host;
        self.identity.device_uuid = device_uuid;
    }

    pub(super) fn lose(&mut self, why: &str, at: f64) {
        self.out = Some(why.to_string());
        self.lost_at.get_or_insert(at);
    }

    pub(super) fn why_out(&self) -> Option<String> {
        let waits = self.waits_at_end.then(|| WAITS_AT_END.to_string());
        self.out.clone().or(waits)
    }

    pub(super) fn absent_until(&self, at: f64) -> f64 {
        self.absent + self.lost_at.map_or(0.0, |lost| (at - lost).max(0.0))
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
        let mut fleet = Fleet::new(vec![LaneIdentity::default(); times.len()]);
        for (lane, times) in fleet.lanes.iter_mut().zip(times) {
            for (number, time) in (0u64..).zip(*times) {
                lane.note_anchor(Some(number), [("p".to_string(), *time)]);
            }
        }
        fleet
    }

    #[test]
    fn a_slower_card_has_a_ratio_and_an_uneven_one_is_not_pooled() {
        let check = |times: &[&[f64]], expected: Option<(f64, bool)>| {
            let seen = fleet(times).compare(1).map(|(ratio, agrees, _)| (ratio, agrees));
            match (seen, expected) {
                (Some(seen), Some(expected)) => {
                    assert!((seen.0 - expected.0).abs() < 1e-9 && seen.1 == expected.1, "{seen:?} {times:?}");
                }
                (seen, expected) => assert_eq!(seen, expected, "{times:?}"),
            }
        };
        check(&[&[100.0], &[130.0]], Some((1.3, true)));
        check(&[&[100.0], &[100.4]], Some((1.0, true)));
        check(&[&[100.0], &[101.0]], Some((1.01, true)));
        check(&[&[100.0, 50.0], &[100.0, 55.0]], Some(((1.1f64).sqrt(), false)));
        check(&[&[100.0, 50.0], &[105.0, 52.5]], Some((1.05, true)));
        check(&[&[], &[105.0]], None);
    }

    #[test]
    fn evos_own_anchors_tell_cards_apart_and_leave_the_ratio_to_the_study() {
        let check = |memory: f64, compute: f64, expected: (f64, bool)| {
            let mut fleet = fleet(&[&[100.0], &[101.0]]);
            fleet.anchors.push(AnchorJob { number: 0, job: () });
            for (lane, times) in [(0, [50.0, 60.0]), (1, [50.0 * memory, 60.0 * compute])] {
                let own = ["memory", "compute"].map(String::from).into_iter().zip(times);
                fleet.lanes[lane].note_anchor(None, own);
            }
            let seen = fleet.compare(1).map(|(ratio, agrees, _)| (ratio, agrees)).unwrap();
            assert!((seen.0 - expected.0).abs() < 1e-9 && seen.1 == expected.1, "{seen:?}");
            let ratios = fleet.anchor_ratios(1);
            let told: Vec<(&str, f64)> = ratios.iter().map(|(name, own)| (name.as_str(), *own)).collect();
            for (seen, expected) in
                told.iter().zip([("compute", compute), ("default", 1.01), ("memory", memory)])
            {
                assert!(seen.0 == expected.0 && (seen.1 - expected.1).abs() < 1e-9, "{told:?}");
            }
        };
        check(1.005, 1.01, (1.01, true));
        check(1.10, 1.01, (1.01, false));
        check(1.0, 1.04, (1.01, false));
    }

    #[test]
    fn a_lane_that_is_as_noisy_as_it_is_slow_is_left_as_it_is() {
        let mut fleet = fleet(&[&[100.0], &[100.0]]);
        fleet.lanes[1].note_anchor(Some(0), [("p".to_string(), 108.0)]);
        assert_eq!(fleet.compare(1).map(|own| own.0), Some(1.0));
        // A card that has become slower since is another matter.
        fleet.lanes[1].note_anchor(Some(0), [("p".to_string(), 120.0)]);
        assert!((fleet.compare(1).unwrap().0 - 1.2).abs() < 1e-9);
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
