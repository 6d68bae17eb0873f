//! What is timed: a problem's launches, bound to several sets of inputs and outputs that take turns.
//!
//! A kernel that is timed again and again on one set can see that its output is right already, that its input is
//! the one of the last call, or that in-place data no longer changes, and skip the work. So calls rotate: input
//! set and output buffer change from call to call with different periods, and an output that is about to be
//! written holds the answer to another input. It looks like any answer and is never the right one, so the
//! outputs of timed calls can be checked as they are, without poison that would tell the kernel that it is being
//! watched. Buffers that a call uses up (`inout`, accumulators) get a copy for each call of a sample, and are
//! restored between samples, outside the timed span.
//!
//! What rotation cannot show, a comparison does: calls on contents that no call has seen, beside calls on the
//! contents of the call before (`fresh`).

use std::cell::Cell;
use std::collections::BTreeSet;

use evo_device::device::{BoundLaunch, ModuleId, SampleOrder};
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo};
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role};

use super::bench::{Asked, Bench};
use super::case::Case;
use super::element::Poison;
use super::run::{PreparedCase, accumulates};
use super::state::{Answers, Judge};
use super::{inputs, kept, shapes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// One: a screening, which only tells who is far behind.
    One,
    /// As many as the cache and the memory allow.
    Several,
}

#[derive(Debug)]
pub struct TimedProblem {
    pub(super) module: ModuleId,
    turns: Vec<PreparedCase>,
    rotation: Vec<Vec<BoundLaunch>>,
    outputs: usize,
    /// Whether a call uses up what its buffers hold.
    pub(super) used_up: bool,
    /// Whether a call leaves something in the module's variables, which are restored before each timed call.
    keeps_state: bool,
    /// The turn with which the last order began, and its calls from there on.
    last: Cell<(usize, usize)>,
    next: Cell<usize>,
}

/// Copies of buffers that calls use up: so many calls make a hot sample at most.
const COPIES_MAX: u64 = 16;
/// Bytes that all copies may take.
const COPIES_BYTES: u64 = 256 << 20;
/// Input sets that take turns.
const INPUT_SETS: u32 = 2;

impl TimedProblem {
    pub fn first(&self) -> &PreparedCase {
        &self.turns[0]
    }

    pub fn checks(&self) -> CheckSet {
        self.first().checks
    }

    /// Where calls use up their buffers, a hot sample holds no more calls than there are copies. Otherwise it goes
    /// round all turns, because it begins with the first one each time: after part of a round an output would meet
    /// the input whose answer it holds.
    pub fn batch(&self, mode: TimingMode, wanted: u32) -> u32 {
        let turns = self.turns.len() as u32;
        match (mode, self.used_up) {
            (TimingMode::Hot, _) if self.keeps_state => 1,
            (TimingMode::Hot, true) => wanted.min(turns),
            (TimingMode::Hot, false) if wanted > 1 => wanted.next_multiple_of(turns),
            _ => 1,
        }
    }
}

fn sets(plan: &ProblemPlan, info: &DeviceInfo, seeds: u32) -> (u32, u32) {
    let bytes = |roles: &[Role]| -> u64 {
        let own = plan.buffers.iter().filter(|buffer| roles.contains(&buffer.role));
        own.map(BufferPlan::bytes).sum()
    };
    let (inputs, outputs) = (bytes(&[Role::Input]), bytes(&[Role::Output, Role::Scratch]));
    let varies = plan.buffers.iter().any(inputs::varies);
    let wanted = if varies { INPUT_SETS.min(seeds) } else { 1 };
    // With one input an output that takes its turn again would hold the right answer already.
    if wanted < 2 {
        return (1, 1);
    }
    let all = u64::from(wanted) * inputs + u64::from(wanted + 1) * outputs;
    // A variable of the module holds one set, and is filled outside of the timed span.
    if plan.buffers.iter().any(|buffer| buffer.symbol.is_some()) {
        return (1, 1);
    }
    // In a cache that holds one set and not all of them, rotation would turn hot calls into cold ones. Beyond
    // the cache nothing stays from call to call in any case.
    let fits = all <= info.l2_bytes / 2 || inputs + outputs > info.l2_bytes;
    // Other variants' data stays on the device as well.
    if fits && all <= info.memory_bytes / 8 { (wanted, wanted + 1) } else { (1, 1) }
}

impl Judge {
    /// Inputs filled, launches bound, answers on the device: ready to be timed.
    pub fn prepare_timed(
        &mut self,
        slot: u8,
        plan: &ProblemPlan,
        turns: Turns,
        answers: Answers,
    ) -> Result<TimedProblem, DeviceError> {
        let check = &self.slot(slot)?.candidate.check;
        let seeds = check.seeds;
        let turns = if check.checks.include(GateCheck::Rotation) { turns } else { Turns::One };
        let used_up = accumulates(plan);
        let lanes: Vec<(u32, u32)> = if used_up {
            let copies = if turns == Turns::One { 1 } else { copies(plan) };
            (0..copies).map(|lane| (0, lane)).collect()
        } else {
            let (inputs, outputs) = match turns {
                Turns::One => (1, 1),
                Turns::Several => sets(plan, self.pool.device.info(), seeds),
            };
            // Periods without a common divisor: every output meets every input.
            (0..inputs * outputs).map(|turn| (turn % inputs, turn % outputs)).collect()
        };
        let outputs = lanes.iter().map(|(_, output)| *output as usize + 1).max().unwrap_or(1);
        if answers == Answers::Needed {
            let seeds: BTreeSet<u32> = lanes.iter().map(|lane| lane.0).collect();
            let wanted = seeds.into_iter().map(|seed_index| Case { seed_index, ..Case::first(plan) });
            let check = self.slot(slot)?.candidate.check.clone();
            self.foresee(&check, &wanted.collect::<Vec<_>>())?;
        }
        let mut cases = Vec::new();
        for lane in lanes {
            let case = Case { seed_index: lane.0, ..Case::first(plan) };
            let prepared = self.prepare_lane(slot, &case, lane, answers)?;
            // The first output check means something only if nothing right stands there before.
            prepared.fill(&mut self.pool, Poison::A)?;
            cases.push(prepared);
        }
        let rotation = cases.iter().map(|own| own.launches.clone()).collect();
        let module = cases[0].module;
        let keeps_state = kept::is_kept(&mut Bench { judge: self, prepared: &cases[0] })?;
        let (last, next) = (Cell::new((0, 0)), Cell::new(0));
        Ok(TimedProblem { module, turns: cases, rotation, outputs, used_up, keeps_state, last, next })
    }

    /// Takes samples, nanoseconds per call. Each is prepared by itself where calls find what others have left: buffers that
    /// they use up, or variables of the module, which are as they were when it was loaded. None of that is timed, nor is
    /// filling the variables that are arguments.
    pub fn sample(
        &mut self,
        timed: &TimedProblem,
        mode: TimingMode,
        samples: u32,
        batch: u32,
    ) -> Result<Vec<f64>, DeviceError> {
        let batch = timed.batch(mode, batch);
        let untouched = timed.used_up || timed.keeps_state;
        let (rounds, samples) = if untouched { (samples, 1) } else { (1, samples) };
        // A batch is whole rounds, so it may begin anywhere, and the graph of one can be replayed.
        let calls = if batch > 1 { batch } else { samples } as usize;
        let begin = if timed.used_up { 0 } else { timed.next.get() };
        let all_calls = if timed.used_up { calls } else { calls * rounds as usize };
        let mut times = Vec::with_capacity((rounds * samples) as usize);
        for round in 0..rounds as usize {
            let mut rotation = timed.rotation.clone();
            if timed.used_up {
                for turn in &timed.turns[..batch as usize] {
                    // Its inputs come again, so an answer must not be found in the workspace either.
                    turn.fill(&mut self.pool, Poison::A)?;
                }
            } else {
                rotation.rotate_left((begin + round * calls) % timed.turns.len());
            }
            let device = self.device();
            if timed.keeps_state {
                device.restore_variables(timed.module)?;
            }
            timed.first().fill_variables(device)?;
            let order = SampleOrder { rotation: &rotation, mode, samples, batch, untouched };
            times.extend(device.sample(timed.module, order)?);
            timed.first().read_variables(device)?;
        }
        timed.last.set((begin, all_calls));
        timed.next.set((begin + all_calls) % timed.turns.len());
        Ok(times)
    }

    /// Checks what the calls of the last sample wrote. With one set the outputs are poisoned and one more sample is
    /// taken, because an answer of an earlier call could not be told from one of the last.
    pub fn check_sampled(&mut self, timed: &TimedProblem, mode: TimingMode, batch: u32) -> Asked {
        if !timed.checks().include(GateCheck::TimedOutputs) {
            return Ok(());
        }
        if timed.turns.len() == 1 && !timed.used_up {
            timed.first().poison(self.device(), Role::Output, Poison::A)?;
            self.sample(timed, mode, 1, batch)?;
        }
        let (begin, calls) = timed.last.get();
        let kept = if timed.used_up { calls } else { timed.outputs };
        for call in calls.saturating_sub(kept)..calls {
            let turn = &timed.turns[(begin + call) % timed.turns.len()];
            shapes::check_written(&mut Bench { judge: self, prepared: turn })?;
        }
        Ok(())
    }
}

fn copies(plan: &ProblemPlan) -> u32 {
    if plan.buffers.iter().any(|buffer| buffer.symbol.is_some() && buffer.role != Role::Input) {
        return 1;
    }
    let changed = plan.buffers.iter().filter(|buffer| buffer.role != Role::Input);
    let bytes: u64 = changed.map(BufferPlan::bytes).sum();
    (COPIES_BYTES / bytes.max(1)).clamp(1, COPIES_MAX) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fake::info;
    use crate::judge::reference::testing::{buffer, plan};
    use evo_protocol::dtype::DType;

    fn problem(elements: u64) -> ProblemPlan {
        let of = |name, role| buffer(name, DType::F32, &[elements], role);
        plan("p", &[], vec![of("x", Role::Input), of("y", Role::Output)])
    }

    #[test]
    fn sets_rotate_where_the_cache_holds_all_or_not_even_one() {
        let device = DeviceInfo { l2_bytes: 1 << 20, ..info() };
        assert_eq!(sets(&problem(1 << 10), &device, 3), (2, 3));
        // One input: an output would hold the right answer when its turn comes again.
        assert_eq!(sets(&problem(1 << 10), &device, 1), (1, 1));
        // One set of 800 kB fits the cache, five halves of it do not.
        assert_eq!(sets(&problem(100_000), &device, 3), (1, 1));
        assert_eq!(sets(&problem(1 << 20), &device, 3), (2, 3));
    }
}
