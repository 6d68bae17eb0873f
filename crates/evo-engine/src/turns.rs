//! Turns on a device that somebody else measures on too while a search runs: whoever has the turn has the device to
//! himself, and who came first goes first. A turn is held for one measurement and never while anybody thinks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use evo_protocol::device::Telemetry;
use evo_supervise::job::{Judgement, Standing};
use evo_supervise::renewal::Renewal;

use crate::ports::{Evaluate, PairAnswer, Rivals};

/// The turns of one device. Clones are the same device's.
#[derive(Clone, Debug, Default)]
pub struct MeasuringTurns(Arc<TurnQueue>);

#[derive(Debug, Default)]
struct TurnQueue {
    tickets: Mutex<TurnTickets>,
    changed: Condvar,
}

/// A lock of the standard library may be taken again by whoever has just let go of it, before anybody who waits; with
/// numbers in a row nobody starves.
#[derive(Debug, Default)]
struct TurnTickets {
    next: u64,
    serving: u64,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct MeasuringTurn(Arc<TurnQueue>);

impl TurnQueue {
    fn lock(&self) -> MutexGuard<'_, TurnTickets> {
        // A poisoned lock stays usable: both numbers are changed by one assignment each.
        self.tickets.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl MeasuringTurns {
    /// Waits for everybody who asked before.
    pub fn take(&self) -> MeasuringTurn {
        let mut tickets = self.0.lock();
        let own = tickets.next;
        tickets.next += 1;
        while tickets.serving != own {
            tickets = self.0.changed.wait(tickets).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        MeasuringTurn(Arc::clone(&self.0))
    }
}

impl Drop for MeasuringTurn {
    fn drop(&mut self) {
        self.0.lock().serving += 1;
        self.0.changed.notify_all();
    }
}

/// A lane's device that waits for its turn with each measurement.
pub struct TurnTaking<J> {
    device: Box<dyn Evaluate<J>>,
    turns: MeasuringTurns,
}

impl<J> TurnTaking<J> {
    /// A device whose turns these are.
    pub fn new(device: Box<dyn Evaluate<J>>, turns: MeasuringTurns) -> TurnTaking<J> {
        TurnTaking { device, turns }
    }
}

impl<J> Evaluate<J> for TurnTaking<J> {
    fn evaluate(&mut self, job: &J, standing: &Standing) -> Judgement {
        let _turn = self.turns.take();
        self.device.evaluate(job, standing)
    }

    fn expect_pairs(&mut self) {
        self.device.expect_pairs();
    }

    fn pair(&mut self, rivals: &Rivals<J>) -> Vec<PairAnswer> {
        let _turn = self.turns.take();
        self.device.pair(rivals)
    }

    fn noise_floor(&mut self, job: &J, problems: usize) -> Result<f64, String> {
        let _turn = self.turns.take();
        self.device.noise_floor(job, problems)
    }

    fn begin(&mut self) {
        let _turn = self.turns.take();
        self.device.begin();
    }

    fn telemetry(&mut self) -> Option<Telemetry> {
        self.device.telemetry()
    }

    fn renew(&mut self) -> Option<Renewal> {
        self.device.renew()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_came_first_goes_first_and_nobody_goes_beside_another() {
        let turns = MeasuringTurns::default();
        let first = turns.take();
        let (told, seen) = channel();
        let mut threads = Vec::new();
        for number in 0..4u64 {
            let (own, told) = (turns.clone(), told.clone());
            threads.push(thread::spawn(move || {
                let _turn = own.take();
                told.send(number).unwrap();
            }));
            // Until it stands in the row.
            while turns.0.lock().next < number + 2 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        assert!(seen.try_recv().is_err(), "somebody went beside the first");
        drop(first);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    /// Whoever lets go and comes back at once waits for the one who was waiting.
    #[test]
    fn nobody_starves() {
        let turns = MeasuringTurns::default();
        let own = turns.clone();
        let first = turns.take();
        let waiting = thread::spawn(move || drop(own.take()));
        while turns.0.lock().next < 2 {
            thread::sleep(Duration::from_millis(1));
        }
        drop(first);
        drop(turns.take());
        assert!(waiting.join().is_ok());
        assert_eq!(turns.0.lock().serving, 3);
    }
}
