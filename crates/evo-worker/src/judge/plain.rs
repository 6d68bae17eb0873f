//! A candidate's launches without any judgement, for tools that watch a device: profilers and sanitizers.

use evo_protocol::device::DeviceError;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::worker::BufferSpan;

use super::bench::Bench;
use super::case::Case;
use super::element::Poison;
use super::run::RunSetting;
use super::state::{Answers, Judge};

impl Judge {
    /// How many launches there were, and where their buffers lie, if the device says so. Each launch finds fresh inputs and poisoned outputs; evo's own kernels, which fill buffers in between, are
    /// called `evo_*`. Buffers that are allocated here have no guard zones if `unguarded`.
    pub fn run_plain(
        &mut self,
        slot: u8,
        plan: &ProblemPlan,
        calls: u32,
        unguarded: bool,
    ) -> Result<(u64, Vec<BufferSpan>), DeviceError> {
        let case = Case::first(plan);
        self.pool.device.set_guarded(!unguarded);
        let prepared = self.prepare_lane(slot, &case, (0, 0), Answers::NotNeeded);
        let launched = prepared.and_then(|prepared| {
            for _ in 0..calls {
                Bench { judge: self, prepared: &prepared }.run(RunSetting::plain(Poison::A))?;
            }
            let spans = prepared.named_buffers().filter_map(|(own, buffer)| {
                let address = self.pool.device.address(buffer)?;
                Some(BufferSpan { name: own.name.clone(), address, bytes: own.bytes() })
            });
            Ok((u64::from(calls) * prepared.launches.len() as u64, spans.collect()))
        });
        self.pool.device.set_guarded(true);
        launched
    }
}
