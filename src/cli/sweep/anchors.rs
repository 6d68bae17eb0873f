//! evo's own anchors: a kernel that is bound by memory at one size and by arithmetic at another, which every lane of a
//! sweep over several devices times beside the study's own variants.
//!
//! Its sizes follow the device, so that the first reads past every cache; on the host they are small, because the
//! times of lanes that share a processor are not compared.

use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::measurement::RankingMode;

use crate::cli::error::CliError;
use crate::cli::judge;
use crate::cli::session::{self, DeviceSetup};
use crate::engine::prepared::PreparedKernel;
use crate::engine::single;
use crate::kernel::catalog;
use crate::kernel::spec::{ProblemSpec, SpaceFile};
use crate::supervise::job::{Job, JobReach};

/// Elements of each of the three arrays at least, and how many times the cache they take together.
const ELEMENTS_MIN: u64 = 1 << 24;
const CACHES: u64 = 4;

/// Elements on the host: three arrays of 4 MiB, more than the caches of one core.
const ELEMENTS_HOST: u64 = 1 << 20;

const SPACE: &str = include_str!("anchors.toml");

pub fn own(setup: &DeviceSetup, info: &DeviceInfo, ranking: RankingMode, seed: u64) -> Result<Job, CliError> {
    let file = space(info)?;
    let kernel = session::kernel_of(&file)?;
    let problems: Vec<&ProblemSpec> = session::problems(kernel, info.kind, &[])?;
    let recipe = session::recipe(kernel, &problems, setup, info, seed)?;
    let genome = file.space.default_genome();
    let configuration = file.space.configuration(&genome);
    let compile = |prepared: &PreparedKernel| judge::compile(setup, prepared);
    match single::job(&recipe, genome, configuration, false, compile)? {
        Ok((_, job)) => Ok(Job { reach: JobReach::Anchor, several: Vec::new(), ranking, ..job }),
        Err(refused) => Err(CliError::harness(format!(
            "they were refused: {}: {}",
            refused.verdict.label(),
            refused.verdict.message
        ))),
    }
}

/// Compiled while something else goes on. A sweep goes on without anchors where there are none.
pub fn beside<T>(
    own: Option<impl FnOnce() -> Result<Job, CliError> + Send>,
    other: impl FnOnce() -> T,
) -> (T, (Option<Job>, Option<String>)) {
    let (other, own) = std::thread::scope(|scope| {
        let own = own.map(|own| scope.spawn(own));
        let other = other();
        (other, own.map(|own| own.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
    });
    match own {
        Some(Err(error)) => (other, (None, Some(format!("evo's own anchors are not measured: {error}")))),
        own => (other, (own.and_then(Result::ok), None)),
    }
}

fn space(info: &DeviceInfo) -> Result<SpaceFile, CliError> {
    let (memory, [compute, rounds]) = sizes(info);
    let sizes = [("MEMORY", memory), ("COMPUTE_ROUNDS", rounds), ("COMPUTE", compute)];
    let text =
        sizes.iter().fold(SPACE.to_string(), |text, (name, size)| text.replace(name, &size.to_string()));
    Ok(catalog::from_text("evo's anchors", text)?)
}

fn sizes(info: &DeviceInfo) -> (u64, [u64; 2]) {
    match info.kind {
        // Three arrays of 4 bytes an element.
        DeviceKind::Cuda => ((CACHES * info.l2_bytes / 12).max(ELEMENTS_MIN), [1 << 20, 4096]),
        DeviceKind::Host | DeviceKind::Replay => (ELEMENTS_HOST, [1 << 14, 512]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::example as fake;

    #[test]
    fn the_anchor_of_memory_reads_past_every_cache() {
        let host = fake::header().device;
        for (kind, l2_bytes) in
            [(DeviceKind::Host, 1 << 28), (DeviceKind::Cuda, 50 << 20), (DeviceKind::Cuda, 126 << 20)]
        {
            let info = DeviceInfo { kind, l2_bytes, ..host.clone() };
            let file = space(&info).unwrap();
            let kernel = session::kernel_of(&file).unwrap();
            assert_eq!(session::problems(kernel, kind, &[]).unwrap().len(), 2);
            let (memory, _) = sizes(&info);
            assert!(kind == DeviceKind::Host || 12 * memory + 12 > CACHES * l2_bytes, "{memory}");
        }
    }
}
