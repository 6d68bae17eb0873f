//! When somebody is killed, and who.

use std::fmt;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Events of a run of the small sweep, about as many as an undisturbed one has.
const EVENTS: usize = 34;

/// Milliseconds after the event.
const DELAY_MS: u64 = 60;

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    Evo,
    DeviceWorker,
    CompileWorker,
    Compiler,
}

impl Victim {
    pub const ALL: [Victim; 4] = [Victim::Evo, Victim::DeviceWorker, Victim::CompileWorker, Victim::Compiler];

    pub fn as_str(self) -> &'static str {
        match self {
            Victim::Evo => "evo",
            Victim::DeviceWorker => "device worker",
            Victim::CompileWorker => "compile worker",
            Victim::Compiler => "compiler",
        }
    }
}

/// A moment of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    pub victim: Victim,
    /// Events that the run has told by then.
    pub event: usize,
    pub delay_ms: u64,
}

impl Moment {
    /// The next moment of a seed; `evo` says whether evo itself may be the victim.
    pub fn draw(random: &mut ChaCha8Rng, evo: bool) -> Moment {
        let victims = if evo { &Victim::ALL[..] } else { &Victim::ALL[1..] };
        let victim = victims[random.random_range(0..victims.len())];
        // A compiler is at work only while sources are left.
        let events = if victim == Victim::Compiler { EVENTS / 2 } else { EVENTS };
        Moment { victim, event: random.random_range(0..events), delay_ms: random.random_range(0..DELAY_MS) }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ms after event {}", self.victim.as_str(), self.delay_ms, self.event)
    }
}

#[cfg(test)]
mod tests {
    use evo_space::sample::seeded;

    use super::*;

    #[test]
    fn a_seed_repeats_its_moments() {
        let draw = |seed| {
            let mut random = seeded(seed);
            (0..50).map(|_| Moment::draw(&mut random, true)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let all = draw(7);
        assert!(Victim::ALL.iter().all(|victim| all.iter().any(|moment| moment.victim == *victim)));
        let mut random = seeded(7);
        assert!((0..50).all(|_| Moment::draw(&mut random, false).victim != Victim::Evo));
    }
}
