//! How many variants are under way at once: as many as the device takes in while one of them compiles, and a few
//! more. What is proposed later is proposed with more outcomes known, so nothing is proposed earlier than needed.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Those running and, for each two lanes, one that is next, so that no device waits while the engine syncs the journal.
pub(super) fn lane_depth(lanes: usize) -> usize {
    let lanes = lanes.max(1);
    lanes + lanes.div_ceil(2)
}

/// Variants under way before anything has been evaluated.
const FIRST: u64 = 8;

/// The same where time is limited and there are as many compilers. Every one of them is chosen blindly, and where compiling
/// is fast they take the device's time from those that are not (2026-11-28, with 16 compilers).
const FIRST_MOST: usize = 16;

/// What the device takes in while one variant compiles is a mean; its tasks come in bursts of short ones.
const MARGIN: f64 = 1.25;

#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub jobs: usize,
    pub evaluated: u64,
    pub learns: bool,
    pub lanes: usize,
    /// Whether the number of evaluations is limited, so that a blind proposal costs one that is not.
    pub is_limited: bool,
    pub useful: usize,
}

#[derive(Debug, Default)]
pub(super) struct Ahead {
    compile: Mean,
    /// Seconds that a proposal takes of the lane: nothing for one that never gets there.
    lane: Mean,
    has_run: bool,
    running: HashMap<u64, Duration>,
    queued: VecDeque<u64>,
}

impl Ahead {
    pub(super) fn submitted(&mut self, number: u64, jobs: usize, now: Duration) {
        match self.running.len() < jobs {
            true => drop(self.running.insert(number, now)),
            false => self.queued.push_back(number),
        }
    }

    /// The compilers have answered. They take sources in order, so the first that waits begins now.
    pub(super) fn answered(&mut self, number: u64, now: Duration) {
        match self.running.remove(&number) {
            Some(began) => {
                self.compile.add(now.saturating_sub(began).as_secs_f64());
                self.running.extend(self.queued.pop_front().map(|next| (next, now)));
            }
            None => self.queued.retain(|own| *own != number),
        }
    }

    pub(super) fn cancelled(&mut self) {
        self.running.clear();
        self.queued.clear();
    }

    pub(super) fn done(&mut self, seconds: f64) {
        // The first one on the device waits for the answers of the reference, which the others find.
        if seconds > 0.0 && !std::mem::replace(&mut self.has_run, true) {
            return;
        }
        self.lane.add(seconds);
    }

    pub(super) fn target(&self, need: Need) -> usize {
        let jobs = need.jobs.max(1);
        if !need.learns {
            return fixed(jobs, u64::MAX, need.lanes);
        }
        let (lanes, depth) = (need.lanes.max(1), lane_depth(need.lanes));
        // One for each process and a few that take its place, and those on the device.
        let most = jobs + (jobs / 4).max(1) + depth;
        let useful = need.useful.max(1);
        let at_first = match need.is_limited {
            true => at_first(need.evaluated, lanes).min(useful),
            // Compilers that take seconds would idle until the first outcome.
            false => at_first(need.evaluated, lanes).max(jobs.min(FIRST_MOST)),
        };
        let (Some(compile), Some(lane)) = (self.compile.value(), self.lane.value()) else {
            return most.min(at_first);
        };
        // Without a time in the lane everything is refused before it, and the compilers are the slow stage.
        let taken_in = if lane > 0.0 { compile * lanes as f64 / lane } else { f64::INFINITY };
        let wanted = (MARGIN * taken_in).ceil() as usize;
        let target = wanted.saturating_add(1 + depth).min(most);
        // Compilers that would idle cost nothing; evaluations are scarce only if they are limited.
        if need.is_limited { target.min(useful) } else { target }
    }

    /// How many sources the compilers hold at once: one more for each eight, which begin while an answer travels.
    pub(super) fn depth(jobs: usize) -> usize {
        jobs + (jobs / 8).max(1)
    }
}

/// Where times say nothing: twice the number of compilers and four more, at first less. Each further lane has two more.
pub(super) fn fixed(jobs: usize, evaluated: u64, lanes: usize) -> usize {
    at_first(evaluated, lanes).min(2 * jobs + 2 * lanes.max(1) + 2)
}

fn at_first(evaluated: u64, lanes: usize) -> usize {
    let first = FIRST.max(2 * lanes as u64);
    usize::try_from((evaluated / 2).saturating_add(first)).unwrap_or(usize::MAX)
}

/// Small, because most variants leave the device at once and a few stay long: the mean must not follow every burst.
const NEWEST: f64 = 0.06;

/// A value counts for at most this many times the mean: one hang says little about the next variant.
const MOST: f64 = 8.0;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    value: f64,
    count: u32,
}

impl Mean {
    /// Takes a value in; what is not finite or is negative is left out.
    pub(super) fn add(&mut self, value: f64) {
        if !(value.is_finite() && value >= 0.0) {
            return;
        }
        let known = if self.value > 0.0 { value.min(MOST * self.value) } else { value };
        self.count = self.count.saturating_add(1);
        // The plain mean at first, so that the first value does not weigh more than the second.
        self.value += (known - self.value) * NEWEST.max(1.0 / f64::from(self.count));
    }

    pub(super) fn value(&self) -> Option<f64> {
        (self.count > 0).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    /// What a simulated run came to, over its second half.
    #[derive(Debug)]
    struct Played {
        compile_busy: f64,
        lane_busy: f64,
        in_flight: f64,
    }

    /// Plays `count` proposals through `jobs` compilers and one lane. `of` gives the milliseconds of each in both.
    fn play(jobs: usize, count: u64, of: impl Fn(u64) -> (u64, u64)) -> Played {
        let mut ahead = Ahead::default();
        let (mut now, mut next, mut done) = (0u64, 0u64, 0u64);
        let mut ends = BinaryHeap::<Reverse<(u64, u64, bool)>>::new();
        let (mut waiting, mut ready, mut active) = (VecDeque::new(), VecDeque::new(), 0);
        let (mut lane, mut half) = (None, None::<u64>);
        let (mut compile_ms, mut lane_ms, mut flight_ms) = (0, 0, 0);
        while done < count {
            let need = Need { jobs, evaluated: done, learns: true, lanes: 1, is_limited: false, useful: 4 };
            while next < count && next - done < ahead.target(need) as u64 {
                ahead.submitted(next, jobs, Duration::from_millis(now));
                waiting.push_back(next);
                next += 1;
            }
            while active < jobs
                && let Some(number) = waiting.pop_front()
            {
                active += 1;
                ends.push(Reverse((now + of(number).0, number, false)));
            }
            if lane.is_none()
                && let Some(number) = ready.pop_front()
            {
                lane = Some(number);
                ends.push(Reverse((now + of(number).1, number, true)));
            }
            let Reverse((at, number, is_lane)) = ends.pop().expect("something is under way");
            if half.is_some() {
                compile_ms += (at - now) * active as u64;
                lane_ms += (at - now) * u64::from(lane.is_some());
                flight_ms += (at - now) * (next - done);
            }
            now = at;
            if is_lane {
                (lane, done) = (None, done + 1);
                ahead.done(of(number).1 as f64 / 1e3);
                half = half.or((done >= count / 2).then_some(now));
            } else {
                active -= 1;
                ahead.answered(number, Duration::from_millis(now));
                ready.push_back(number);
            }
        }
        let wall = (now - half.unwrap_or(0)) as f64;
        let share = |busy: u64| busy as f64 / wall;
        Played {
            compile_busy: share(compile_ms) / jobs as f64,
            lane_busy: share(lane_ms),
            in_flight: share(flight_ms),
        }
    }

    #[test]
    fn slow_compilers_are_kept_busy_and_no_more_than_needed_is_under_way() {
        let slow = play(16, 400, |_| (3000, 20));
        assert!(slow.compile_busy > 0.95 && slow.in_flight < 23.0, "{slow:?}");
        // Compile times that vary by a factor of four.
        let varied = play(16, 400, |number| (1000 + (number * 7919) % 3000, 20));
        assert!(varied.compile_busy > 0.9, "{varied:?}");
    }

    #[test]
    fn a_slow_device_has_little_under_way_and_does_not_wait() {
        let slow = play(16, 400, |_| (100, 200));
        assert!(slow.lane_busy > 0.99 && slow.in_flight < 5.0, "{slow:?}");
        let even = play(16, 400, |_| (300, 50));
        assert!(even.lane_busy > 0.97 && even.in_flight < 12.0, "{even:?}");
        // Nine of ten leave the device at once.
        let bursts = play(16, 1000, |number| (300, if number % 10 == 0 { 200 } else { 10 }));
        assert!(bursts.lane_busy > 0.85 && bursts.in_flight < 20.0, "{bursts:?}");
    }

    #[test]
    fn a_first_evaluation_that_takes_seconds_and_a_hang_are_forgotten() {
        let first = play(16, 200, |number| (300, if number == 0 { 5000 } else { 50 }));
        assert!(first.lane_busy > 0.95, "{first:?}");
        let hang = play(16, 400, |number| (300, if number == 100 { 10_000 } else { 50 }));
        assert!(hang.lane_busy > 0.95, "{hang:?}");
    }

    #[test]
    fn blind_proposals_are_few_where_evaluations_are_limited() {
        let need = Need { jobs: 16, evaluated: 0, learns: true, lanes: 1, is_limited: true, useful: 4 };
        let mut ahead = Ahead::default();
        assert_eq!(ahead.target(need), 4);
        assert_eq!(ahead.target(Need { is_limited: false, ..need }), 16, "idle compilers cost nothing");
        assert_eq!(ahead.target(Need { is_limited: false, jobs: 64, ..need }), 16, "but blind ones do");
        ahead.submitted(0, 16, Duration::ZERO);
        ahead.answered(0, Duration::from_secs(3));
        [5.0, 0.02, 0.02].iter().for_each(|seconds| ahead.done(*seconds));
        assert_eq!(
            [4, 7, 16, usize::MAX].map(|useful| ahead.target(Need { useful, ..need })),
            [4, 7, 16, 22]
        );
        assert_eq!(ahead.target(Need { is_limited: false, ..need }), 22);
        assert_eq!(ahead.target(Need { learns: false, ..need }), 36, "what does not learn is never blind");
        assert_eq!(ahead.target(Need { jobs: 1, useful: 9, ..need }), 4);
    }

    #[test]
    fn every_lane_has_its_share_under_way() {
        assert_eq!([0, 1, 2, 3, 8, 64].map(lane_depth), [2, 2, 3, 5, 12, 96]);
        let mut ahead = Ahead::default();
        ahead.submitted(0, 16, Duration::ZERO);
        ahead.answered(0, Duration::from_millis(300));
        [0.3, 0.1].iter().for_each(|seconds| ahead.done(*seconds));
        let target = |lanes, is_limited| {
            let need = Need { jobs: 64, evaluated: 500, learns: true, lanes, is_limited, useful: 4 * lanes };
            ahead.target(need)
        };
        assert_eq!([1, 2, 8].map(|lanes| target(lanes, false)), [7, 12, 43]);
        assert_eq!([1, 2, 8].map(|lanes| target(lanes, true)), [4, 8, 32]);
    }

    #[test]
    fn without_a_clock_the_number_is_fixed() {
        assert_eq!(
            [0, 1, 2, 20, 1000, u64::MAX].map(|evaluated| fixed(16, evaluated, 1)),
            [8, 8, 9, 18, 36, 36]
        );
        assert_eq!([1, 2, 8, 64].map(|lanes| fixed(1, u64::MAX, lanes)), [6, 8, 20, 132]);
        assert_eq!(fixed(1, 0, 1), 6, "never more than the compilers need");
    }

    fn of(values: &[f64]) -> Option<f64> {
        let mut mean = Mean::default();
        values.iter().for_each(|value| mean.add(*value));
        mean.value()
    }

    #[test]
    fn it_begins_as_the_plain_mean_and_follows_what_comes() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[2.0, 4.0]), Some(3.0));
        let followed = of(&[vec![1.0; 20], vec![5.0; 90]].concat()).unwrap();
        assert!((4.9..5.0).contains(&followed), "{followed}");
    }

    #[test]
    fn one_hang_moves_it_little_and_nonsense_not_at_all() {
        let usual = vec![0.2; 40];
        let after = of(&[usual.clone(), vec![10.0]].concat()).unwrap();
        assert!(after < 0.3, "{after}");
        assert_eq!(
            of(&[usual, vec![f64::NAN, f64::INFINITY, -1.0]].concat()).map(|one| (one * 1e9).round()),
            Some(2e8)
        );
    }
}
