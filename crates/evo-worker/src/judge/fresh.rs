//! Calls on contents that no call has seen, beside calls on the contents of the call before.
//!
//! A kernel that recognizes its input and has kept the answer is right and fast, and its time is nobody's: it shows here,
//! where rotation among known inputs cannot show it.

use std::thread;
use std::time::Duration;

use evo_device::device::{BufferId, CopiedPart, Device, SampleOrder};
use evo_protocol::check::GateCheck;
use evo_protocol::device::{DeviceError, DeviceKind};
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::{BufferPlan, Role};
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_protocol::worker::Phase;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::bench::Asked;
use super::element::Poison;
use super::inputs::{self, Draw};
use super::pool::Pristine;
use super::run::PreparedCase;
use super::state::Judge;
use super::timed::TimedProblem;
use super::wrong;
use evo_timing::stats::{below, median, sorted};

/// After so many rounds the comparison with fresh contents is judged, a call of each kind in a round. Only a kernel
/// that is suspected every time is refused. Where other programs take the processors, few calls are undisturbed: one
/// in five, say. Then 16 rounds without an undisturbed fresh call and with five undisturbed repeated ones are not rare
/// enough (1 in 200), and 64 are (1 in a million).
const JUDGED_AFTER: &[usize] = &[4, 8, 12, 16, 32, 64];
/// Several runs of evo on one GPU can keep in step with each other for a while: of twenty honest scans that spin, five at
/// a time, four were suspected in all of 64 rounds (H100, 2026-11-27). So a suspect is looked at again, later.
const LOOKS: [&[usize]; 3] = [JUDGED_AFTER, &[4, 8, 12, 16], &[4, 8, 12, 16]];
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);
const ROUNDS_MAX: usize = 64;
/// Filled before a repeated call where a fresh one has its workspace filled; its length hardly matters.
const SPARE: &str = "spare";
const SPARE_BYTES: u64 = 1 << 20;
/// Inputs up to this size are drawn anew for a fresh call.
const FRESH_WHOLE: u64 = 1 << 18;
/// Drawing a large one would take longer than everything else. Its own contents are turned by a random distance (in
/// steps of a piece) instead, so that no element stays where it was, and pieces of so many bytes are drawn anew: at the
/// start, at the end, and so many at random between. A sum over all elements, by which a kernel might recognize its
/// input, changes with them.
const FRESH_PIECE: u64 = 1 << 12;
const FRESH_PIECES: u64 = 8;
/// A fresh call that takes this much longer than a repeated one needs an explanation.
const FRESH_RATIO: f64 = 1.3;
/// Differences below this are the clock's, nanoseconds.
const FRESH_MIN_NS: f64 = 2_000.0;
/// A processor learns which way the branches of known contents go, of so many elements, and saves so much on each.
const LEARNED: u64 = 4096;
const LEARNED_NS: f64 = 10.0;

impl Judge {
    pub fn compare_fresh(&mut self, timed: &TimedProblem, seed: u64) -> Asked {
        let varies = timed.first().case.plan.buffers.iter().any(inputs::varies);
        if timed.used_up || !varies || !timed.checks().include(GateCheck::FreshCalls) {
            return Ok(());
        }
        let turn = timed.first();
        let scratch = turn.case.plan.buffers.iter().filter(|buffer| buffer.role == Role::Scratch);
        let spare = match scratch.map(BufferPlan::bytes).sum::<u64>() {
            0 => None,
            bytes => Some(self.device().allocate(SPARE, bytes.min(SPARE_BYTES))?),
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut looked = Ok(None);
        for (number, judged_after) in LOOKS.iter().enumerate() {
            if number > 0 {
                self.report(Phase::Timing, "the same again, some time later");
                thread::sleep(BETWEEN_LOOKS);
            }
            looked = self.fresh_look(timed, spare, judged_after, &mut random);
            if !matches!(looked, Ok(Some(_))) {
                break;
            }
        }
        if let Some(spare) = spare {
            self.device().free(spare)?;
        }
        let suspected = looked?;
        for input in &turn.set.inputs {
            self.device().copy(input.buffer, turn.buffers[input.position])?;
        }
        match suspected {
            Some(verdict) => Err(wrong::about(verdict, &turn.case).into()),
            None => Ok(()),
        }
    }

    /// None as soon as chance explains the difference.
    fn fresh_look(
        &mut self,
        timed: &TimedProblem,
        spare: Option<BufferId>,
        judged_after: &[usize],
        random: &mut ChaCha8Rng,
    ) -> Result<Option<Verdict>, DeviceError> {
        let learned = match self.device().info().kind {
            DeviceKind::Host => LEARNED_NS * timed.first().case.elements().min(LEARNED) as f64,
            DeviceKind::Cuda | DeviceKind::Replay => 0.0,
        };
        let least = FRESH_MIN_NS + learned;
        let (mut fresh, mut repeated) = (Vec::new(), Vec::new());
        let mut ratio = None;
        for rounds in judged_after {
            for round in repeated.len()..*rounds {
                let new_first = below(random, 2) == 0;
                for new in [new_first, !new_first] {
                    let number = (below(random, 1 << 20) * ROUNDS_MAX + round) as u32;
                    let time = self.single_call(timed, spare, new.then_some(number))?;
                    if new { fresh.push(time) } else { repeated.push(time) }
                }
            }
            ratio = longer(&fresh, &repeated, least);
            if ratio.is_none() {
                break;
            }
        }
        let Some(ratio) = ratio else { return Ok(None) };
        let (fresh, repeated) = (median(&fresh), median(&repeated));
        let message = format!(
            "a call on new contents takes at least {ratio:.2}× the time of a call on the contents of the call \
             before (medians {:.2} µs and {:.2} µs): work is skipped where the input is known",
            fresh / 1e3,
            repeated / 1e3
        );
        let verdict = Verdict::new(VerdictKind::TimingEscape, message).with_cause("cached_result");
        Ok(Some(verdict.with("fresh_ns", fresh).with("repeated_ns", repeated).with("ratio", ratio)))
    }

    /// One call after an untimed call on the first turn's own contents: on the same contents again, or on new
    /// ones. In both cases every input is written just before, and as much is filled, so that caches and queues are in
    /// the same state.
    fn single_call(
        &mut self,
        timed: &TimedProblem,
        spare: Option<BufferId>,
        new: Option<u32>,
    ) -> Result<f64, DeviceError> {
        let turn = timed.first();
        let check = &self.slot(turn.slot)?.candidate.check;
        let own = turn.case.draw(check, 1.0);
        let name = &turn.case.plan.name;
        for again in [false, true] {
            let device = self.pool.device.as_mut();
            // A call on new contents finds new contents in workspace too: what is kept there from call to call is
            // work that is skipped. The call before has just used it, so it is in the caches in both cases.
            match (again, new, spare) {
                (true, Some(_), _) => turn.poison(device, Role::Scratch, Poison::D)?,
                (true, None, Some(spare)) => device.fill(spare, 0)?,
                _ => {}
            }
            // Drawing large inputs takes a while, and each step has a deadline of its own.
            (self.reporter)(Phase::Preparing, &format!("new contents for `{name}`"));
            for input in &turn.set.inputs {
                let buffer = turn.buffers[input.position];
                let device = self.pool.device.as_mut();
                match again && inputs::varies(&turn.case.plan.buffers[input.position]) {
                    true => {
                        write_again(device, turn, input, own, new)?;
                        self.pool.note(buffer, None);
                    }
                    false => device.copy(input.buffer, buffer)?,
                }
            }
            let device = self.pool.device.as_mut();
            turn.derive_again(device)?;
            (self.reporter)(Phase::Timing, &format!("`{name}` on new contents"));
            turn.fill_variables(device)?;
            if !again {
                device.launch(timed.module, &turn.launches)?;
                device.synchronize()?;
            }
        }
        let rotation = std::slice::from_ref(&turn.launches);
        let order = SampleOrder { rotation, mode: TimingMode::Hot, samples: 1, batch: 1, untouched: true };
        let times = self.pool.device.sample(timed.module, order)?;
        Ok(times.first().copied().unwrap_or(0.0))
    }
}

/// Writes an input before a timed call: with the contents that it had, or with those of draw number `new`. Both take
/// the same copies of the same lengths, so that they leave the same parts of the buffer in the device's caches.
fn write_again(
    device: &mut dyn Device,
    turn: &PreparedCase,
    input: &Pristine,
    own: Draw,
    new: Option<u32>,
) -> Result<(), DeviceError> {
    let plan = &turn.case.plan;
    let (buffer, target) = (&plan.buffers[input.position], turn.buffers[input.position]);
    let draw = new.map_or(own, |number| inputs::another(own, number));
    if buffer.bytes() <= FRESH_WHOLE {
        return device.write(target, &inputs::generate(plan, buffer, draw)?);
    }
    let mut random = ChaCha8Rng::seed_from_u64(draw.seed ^ u64::from(draw.index));
    let places = buffer.bytes() / FRESH_PIECE;
    let (turning, whole) = (1 + below(&mut random, places as usize - 1) as u64, places * FRESH_PIECE);
    for part in turned(turning * FRESH_PIECE, whole, buffer.bytes(), new.is_some()) {
        device.copy_part(input.buffer, target, part)?;
    }
    let pieces =
        BufferPlan { shape: vec![FRESH_PIECE / buffer.dtype.bytes() * FRESH_PIECES], ..buffer.clone() };
    let drawn = inputs::generate(plan, &pieces, draw)?;
    for (number, piece) in drawn.chunks(FRESH_PIECE as usize).enumerate() {
        let place = match number {
            0 => 0,
            1 => buffer.bytes() - FRESH_PIECE,
            _ => below(&mut random, places as usize) as u64 * FRESH_PIECE,
        };
        match new {
            Some(_) => device.write_at(target, place, piece)?,
            None => {
                let part = CopiedPart { source: place, target: place, bytes: FRESH_PIECE };
                device.copy_part(input.buffer, target, part)?;
            }
        }
    }
    Ok(())
}

/// The parts of a copy whose first `whole` bytes are turned, or which has the same parts and turns nothing.
fn turned(turn: u64, whole: u64, bytes: u64, turns: bool) -> [CopiedPart; 3] {
    let (first, second) = (whole - turn, turn);
    let sources = if turns { [turn, 0] } else { [0, first] };
    [
        CopiedPart { source: sources[0], target: 0, bytes: first },
        CopiedPart { source: sources[1], target: first, bytes: second },
        // What is left is too short to be turned with the rest on whole cache lines.
        CopiedPart { source: whole, target: whole, bytes: bytes - whole },
    ]
}

/// The ratio between the two groups, where fresh calls are longer than chance explains.
///
/// Whatever else runs on the machine only ever adds to a time, so the shortest fresh call stands for the work of one.
/// A kernel that skips it shows that in more than one repeated call: their lower quartile is compared.
fn longer(fresh: &[f64], repeated: &[f64], least: f64) -> Option<f64> {
    let (fresh, repeated) = (sorted(fresh), sorted(repeated));
    let (shortest, skipped) = (fresh[0], repeated[repeated.len() / 4]);
    let ratio = shortest / skipped.max(1.0);
    (ratio > FRESH_RATIO && shortest - skipped > least).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turned_copy_covers_every_byte_once_and_moves_it() {
        for turns in [true, false] {
            let parts = turned(8, 20, 23, turns);
            let mut room = [0u8; 23];
            for part in parts {
                assert!(part.fits(23, 23));
                for byte in 0..part.bytes {
                    room[(part.target + byte) as usize] = 1 + (part.source + byte) as u8;
                }
            }
            let moved: Vec<u8> = (9..=20).chain(1..=8).chain(21..=23).collect();
            let expected = if turns { moved } else { (1..=23).collect() };
            assert_eq!(room.to_vec(), expected);
        }
    }

    #[test]
    fn fresh_calls_are_longer_only_where_each_of_them_is() {
        let times = |base: f64| [1.0, 1.02, 0.98, 1.01, 1.3, 0.99].map(|own| own * base);
        assert_eq!(longer(&times(10_000.0), &times(10_000.0), FRESH_MIN_NS), None);
        assert!(longer(&times(40_000.0), &times(10_000.0), FRESH_MIN_NS).is_some());
        assert_eq!(
            longer(&times(2_000.0), &times(1_000.0), FRESH_MIN_NS),
            None,
            "within the clock's own resolution"
        );
        let mut wild = times(40_000.0);
        wild[0] = 9_000.0;
        assert_eq!(
            longer(&wild, &times(10_000.0), FRESH_MIN_NS),
            None,
            "one fresh call did without the work"
        );
        // A busy machine lengthens most calls, those that skip the work too.
        let mut busy = times(90_000.0);
        (busy[0], busy[1]) = (10_000.0, 11_000.0);
        assert!(longer(&times(40_000.0), &busy, FRESH_MIN_NS).is_some());
        busy[1] = 90_000.0;
        assert_eq!(longer(&times(40_000.0), &busy, FRESH_MIN_NS), None, "one short call may be chance");
    }
}
