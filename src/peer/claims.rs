//! Whether the times that a peer reports can be true: our own wall clock bounds them from both sides.

use evo_protocol::measurement::TimingMode;

/// Samples of one block at most.
const SAMPLES_MAX: usize = 10_000;
/// A peer's clock and ours may differ by this share, and each sample by this much, nanoseconds.
const CLOCKS: f64 = 0.02;
const TICK_NS: f64 = 1_000.0;
/// A block is there to be timed: calls that fill less than this share of it are not what took the time. Honest peers
/// fill most of a block once they are warm; a busy machine costs a factor of a few.
const FILLED_LEAST: f64 = 0.02;

/// What is known of the times of one implementation in one mode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClaimedTime {
    /// The largest share of a block's wall time that its samples added up to.
    filled: f64,
}

impl ClaimedTime {
    /// Takes the samples of a block (nanoseconds a call, each the mean of so many calls) that took `wall_ns`.
    pub fn add(&mut self, samples_ns: &[f64], calls: u32, wall_ns: f64) -> Result<(), String> {
        if samples_ns.is_empty() {
            return Err("it reported a block without samples".to_string());
        }
        if samples_ns.len() > SAMPLES_MAX {
            return Err(format!(
                "it reported {} samples, at most {SAMPLES_MAX} make a block",
                samples_ns.len()
            ));
        }
        if let Some(bad) = samples_ns.iter().find(|time| !(time.is_finite() && **time > 0.0)) {
            return Err(format!("it reported a sample of {bad} ns"));
        }
        if calls == 0 {
            return Err("it reported samples of 0 calls".to_string());
        }
        let claimed = samples_ns.iter().sum::<f64>() * f64::from(calls);
        let most = wall_ns * (1.0 + CLOCKS) + TICK_NS * samples_ns.len() as f64;
        if claimed > most {
            let (claimed, wall) = (claimed / 1e6, wall_ns / 1e6);
            return Err(format!(
                "it reported {claimed:.3} ms of samples for a block that took {wall:.3} ms by our clock"
            ));
        }
        self.filled = self.filled.max(claimed / wall_ns.max(1.0));
        Ok(())
    }

    /// Whether all blocks together can be true. A cold block spends its time on flushing caches, so nothing can be told
    /// from it; in other modes calls fill a block.
    pub fn conclude(&self, mode: TimingMode) -> Result<(), String> {
        if mode == TimingMode::Cold || self.filled >= FILLED_LEAST {
            return Ok(());
        }
        let share = 100.0 * self.filled;
        Err(format!(
            "its samples add up to {share:.4} % of the time that its blocks took by our clock, so they are not the \
             times of its calls"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(samples: &[f64], calls: u32, wall_ns: f64) -> Result<(), String> {
        ClaimedTime::default().add(samples, calls, wall_ns)
    }

    #[test]
    fn samples_cannot_add_up_to_more_than_the_block() {
        assert_eq!(add(&[1e6; 10], 1, 10.1e6), Ok(()));
        assert_eq!(add(&[1e4; 10], 100, 10.1e6), Ok(()));
        assert!(add(&[1e6; 10], 1, 9e6).unwrap_err().contains("10.000 ms of samples"));
        assert!(add(&[1e6; 10], 2, 10.1e6).is_err());
        for bad in [&[][..], &[f64::NAN], &[0.0], &[-1.0], &[f64::INFINITY], &[1.0; 10_001]] {
            assert!(add(bad, 1, 1e12).is_err(), "{bad:?}");
        }
        assert!(add(&[1.0], 0, 1e12).is_err());
    }

    #[test]
    fn samples_that_fill_nothing_are_not_the_times_of_calls() {
        let concluded = |mode, blocks: &[f64]| {
            let mut own = ClaimedTime::default();
            blocks.iter().for_each(|claimed| own.add(&[*claimed], 1, 20e6).unwrap());
            own.conclude(mode)
        };
        assert!(concluded(TimingMode::Hot, &[1.0, 20.0]).unwrap_err().contains("0.0001 %"));
        // One undisturbed block shows that the peer does time its calls.
        assert_eq!(concluded(TimingMode::Hot, &[100.0, 15e6]), Ok(()));
        assert!(concluded(TimingMode::Eager, &[1.0]).is_err());
        assert_eq!(concluded(TimingMode::Cold, &[1.0]), Ok(()));
        assert!(ClaimedTime::default().conclude(TimingMode::Hot).is_err(), "no block at all");
    }
}
