//! Limits that are known before a launch: threads, grid, shared memory, cluster, zero work.
//!
//! Everything here is arithmetic on the launch plan, so a configuration that cannot be launched
//! costs microseconds instead of a compile. Each refusal says the number, the limit, the launch
//! and the problem, because "too much shared memory" alone has sent people hunting hangs.

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::DeviceLimits;
use evo_protocol::plan::{LaunchPlan, ProblemPlan};
use evo_protocol::verdict::{Verdict, VerdictKind};

const AXES: [&str; 3] = ["x", "y", "z"];

/// Refuses a plan that the device cannot launch (`static_reject` with the cause `threads`, `grid`, `smem`,
/// `cluster` or `cooperative`). A plan without launches is legal: a call at a size of 0 may have nothing to do.
pub fn check(plan: &ProblemPlan, limits: &DeviceLimits, checks: CheckSet) -> Result<(), Box<Verdict>> {
    let limit =
        |check, answer: Result<(), Box<Verdict>>| answer.or_else(|verdict| pass(checks, check, verdict));
    for launch in &plan.launches {
        let check = LaunchCheck { plan, launch, limits };
        limit(GateCheck::LimitThreads, check.threads())?;
        limit(GateCheck::LimitGrid, check.grid())?;
        limit(GateCheck::LimitShared, check.shared_memory())?;
        limit(GateCheck::LimitCluster, check.cluster())?;
        check.cooperative()?;
    }
    Ok(())
}

/// The verdict, unless its check is left out.
fn pass(checks: CheckSet, check: GateCheck, verdict: Box<Verdict>) -> Result<(), Box<Verdict>> {
    if checks.include(check) { Err(verdict) } else { Ok(()) }
}

/// Refuses a timed problem without launches (`static_reject:zero_work`): there is nothing to time.
pub fn check_timed(plan: &ProblemPlan, checks: CheckSet) -> Result<(), Box<Verdict>> {
    if plan.launches.is_empty() && checks.include(GateCheck::LimitWork) {
        let message =
            format!("no launch of timed problem `{}` takes place: every `when` is false", plan.name);
        return Err(refusal(plan, "zero_work", message));
    }
    Ok(())
}

fn refusal(plan: &ProblemPlan, cause: &str, message: String) -> Box<Verdict> {
    let verdict = Verdict::new(VerdictKind::StaticReject, message).with_cause(cause);
    Box::new(verdict.with("problem", plan.name.clone()))
}

struct LaunchCheck<'a> {
    plan: &'a ProblemPlan,
    launch: &'a LaunchPlan,
    limits: &'a DeviceLimits,
}

impl LaunchCheck<'_> {
    /// A refusal whose sentence ends in the launch and the problem, with the number and its limit
    /// as evidence under `name` and `name_limit`.
    fn refuse(&self, cause: &str, what: String, name: &str, value: i64, limit: u64) -> Box<Verdict> {
        let message = format!("{what}, in launch `{}` of problem `{}`", self.launch.entry, self.plan.name);
        let verdict = *refusal(self.plan, cause, message);
        let verdict = verdict.with("entry", self.launch.entry.clone());
        Box::new(verdict.with(name, value).with(&format!("{name}_limit"), limit))
    }

    fn threads(&self) -> Result<(), Box<Verdict>> {
        let limit = u64::from(self.limits.threads_per_block);
        for (axis, &extent) in self.launch.block.iter().enumerate() {
            let name = AXES[axis];
            if extent < 1 {
                let what = format!("a block of {extent} threads in {name} does no work");
                return Err(self.refuse("threads", what, "block", extent, self.limits.block[axis].into()));
            }
        }
        // From here on the extents are positive, which `product` and the casts below rely on.
        let threads = product(self.launch.block);
        let threads_shown = threads.unwrap_or(i64::MAX);
        if threads.is_none_or(|threads| threads as u64 > limit) {
            let what =
                format!("a block of {} threads exceeds the limit of {limit}", extents(self.launch.block));
            return Err(self.refuse("threads", what, "threads", threads_shown, limit));
        }
        for (axis, &extent) in self.launch.block.iter().enumerate() {
            let limit = u64::from(self.limits.block[axis]);
            if extent as u64 > limit {
                let what =
                    format!("a block of {extent} threads in {} exceeds the limit of {limit}", AXES[axis]);
                return Err(self.refuse("threads", what, "block", extent, limit));
            }
        }
        Ok(())
    }

    fn grid(&self) -> Result<(), Box<Verdict>> {
        for (axis, &extent) in self.launch.grid.iter().enumerate() {
            let (name, limit) = (AXES[axis], u64::from(self.limits.grid[axis]));
            let what = match extent {
                ..=-1 => format!("a grid of {extent} blocks in {name} is negative"),
                0 => format!("a grid of 0 blocks in {name} does no work"),
                _ if extent as u64 > limit => {
                    format!("a grid of {extent} blocks in {name} exceeds the limit of {limit}")
                }
                _ => continue,
            };
            let verdict = self.refuse("grid", what, "grid", extent, limit);
            let hint = "a launch with `when` is left out where there is nothing to do: when = \"N > 0\"";
            return Err(if extent == 0 { Box::new(verdict.with("hint", hint)) } else { verdict });
        }
        Ok(())
    }

    fn shared_memory(&self) -> Result<(), Box<Verdict>> {
        let (bytes, limit) = (self.launch.shared_bytes, self.limits.shared_optin_bytes);
        let what = match bytes {
            ..=-1 => format!("{bytes} bytes of dynamic shared memory are negative"),
            _ if bytes as u64 > limit => {
                format!("{bytes} bytes of dynamic shared memory exceed the limit of {limit}")
            }
            _ => return Ok(()),
        };
        Err(self.refuse("smem", what, "shared_bytes", bytes, limit))
    }

    fn cluster(&self) -> Result<(), Box<Verdict>> {
        let Some(cluster) = self.launch.cluster else { return Ok(()) };
        let limit = u64::from(self.limits.cluster);
        for (axis, (&extent, &blocks)) in cluster.iter().zip(&self.launch.grid).enumerate() {
            let name = AXES[axis];
            if extent < 1 {
                let what = format!("a cluster of {extent} blocks in {name} does no work");
                return Err(self.refuse("cluster", what, "cluster", extent, limit));
            }
            if blocks % extent != 0 {
                let what =
                    format!("a cluster of {extent} blocks in {name} does not divide the grid of {blocks}");
                return Err(self.refuse("cluster", what, "cluster", extent, limit));
            }
        }
        let blocks = product(cluster);
        if blocks.is_none_or(|blocks| blocks as u64 > limit) {
            let what = match limit {
                1 => format!("a cluster of {} blocks needs a device with clusters", extents(cluster)),
                _ => format!("a cluster of {} blocks exceeds the limit of {limit}", extents(cluster)),
            };
            return Err(self.refuse("cluster", what, "cluster", blocks.unwrap_or(i64::MAX), limit));
        }
        Ok(())
    }

    fn cooperative(&self) -> Result<(), Box<Verdict>> {
        if !self.launch.cooperative || self.limits.cooperative {
            return Ok(());
        }
        let what = "a cooperative launch needs a device that supports it".to_string();
        Err(self.refuse("cooperative", what, "cooperative", 1, 0))
    }
}

/// The product of positive extents; `None` past 63 bits.
fn product(extents: [i64; 3]) -> Option<i64> {
    extents[0].checked_mul(extents[1])?.checked_mul(extents[2])
}

/// `32`, `32x4` or `32x4x2`.
fn extents(extents: [i64; 3]) -> String {
    let used = extents.iter().rposition(|extent| *extent != 1).map_or(1, |last| last + 1);
    extents[..used].iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn launch() -> LaunchPlan {
        LaunchPlan {
            entry: "k".into(),
            grid: [4, 2, 1],
            block: [32, 4, 1],
            shared_bytes: 0,
            cluster: None,
            cooperative: false,
            programmatic: false,
            l2_persist: None,
            arguments: Vec::new(),
        }
    }

    fn plan(launches: Vec<LaunchPlan>) -> ProblemPlan {
        ProblemPlan {
            name: "p".into(),
            sizes: BTreeMap::new(),
            weight: 1.0,
            buffers: Vec::new(),
            scalars: Vec::new(),
            tensor_maps: Vec::new(),
            launches,
            reference_launches: Vec::new(),
            reference_variables: Vec::new(),
            prepare_launches: Vec::new(),
            reference_sizes: Vec::new(),
            reference_parameters: Default::default(),
            literals: Vec::new(),
            flops: None,
            bytes: None,
        }
    }

    #[track_caller]
    fn check_on(arch: &str, change: impl FnOnce(&mut LaunchPlan), expected: &str) {
        let mut changed = launch();
        change(&mut changed);
        let limits = DeviceLimits::of_arch(arch).unwrap();
        // A good launch goes first: every launch counts, not only the first.
        let shown = match check(&plan(vec![launch(), changed]), &limits, CheckSet::default()) {
            Ok(()) => "ok".to_string(),
            Err(verdict) => {
                assert_eq!(verdict.kind, VerdictKind::StaticReject);
                format!("{}: {}", verdict.cause.unwrap(), verdict.message)
            }
        };
        assert_eq!(shown.replace(", in launch `k` of problem `p`", " @"), expected);
    }

    #[test]
    fn limits_are_met_exactly() {
        check_on("sm_90a", |_| {}, "ok");
        check_on("sm_90a", |l| l.block = [1024, 1, 1], "ok");
        check_on("sm_90a", |l| l.grid = [2_147_483_647, 65_535, 65_535], "ok");
        check_on("sm_89", |l| l.shared_bytes = 101_376, "ok");
        check_on("sm_90a", |l| l.cluster = Some([4, 2, 1]), "ok");
        check_on("sm_89", |l| l.cluster = Some([1, 1, 1]), "ok");
        check_on("sm_89", |l| l.cooperative = true, "ok");
    }

    #[test]
    fn threads() {
        check_on("sm_90a", |l| l.block[1] = 0, "threads: a block of 0 threads in y does no work @");
        check_on("sm_90a", |l| l.block[0] = -32, "threads: a block of -32 threads in x does no work @");
        check_on(
            "sm_90a",
            |l| l.block = [256, 8, 1],
            "threads: a block of 256x8 threads exceeds the limit of 1024 @",
        );
        check_on(
            "sm_90a",
            |l| l.block = [1, 1, 128],
            "threads: a block of 128 threads in z exceeds the limit of 64 @",
        );
        check_on(
            "sm_90a",
            |l| l.block = [i64::MAX, 2, 1],
            "threads: a block of 9223372036854775807x2 threads exceeds the limit of 1024 @",
        );
    }

    #[test]
    fn grid() {
        check_on("sm_90a", |l| l.grid[0] = 0, "grid: a grid of 0 blocks in x does no work @");
        check_on("sm_90a", |l| l.grid[2] = -1, "grid: a grid of -1 blocks in z is negative @");
        check_on(
            "sm_90a",
            |l| l.grid[1] = 65_536,
            "grid: a grid of 65536 blocks in y exceeds the limit of 65535 @",
        );
        check_on(
            "sm_90a",
            |l| l.grid[0] = 1 << 40,
            "grid: a grid of 1099511627776 blocks in x exceeds the limit of 2147483647 @",
        );
    }

    #[test]
    fn shared_memory_depends_on_the_device() {
        check_on(
            "sm_89",
            |l| l.shared_bytes = 101_377,
            "smem: 101377 bytes of dynamic shared memory exceed the limit of 101376 @",
        );
        check_on("sm_90a", |l| l.shared_bytes = 101_377, "ok");
        check_on("sm_90a", |l| l.shared_bytes = -4, "smem: -4 bytes of dynamic shared memory are negative @");
    }

    #[test]
    fn cluster_and_cooperative() {
        check_on(
            "sm_90a",
            |l| l.cluster = Some([3, 1, 1]),
            "cluster: a cluster of 3 blocks in x does not divide the grid of 4 @",
        );
        check_on(
            "sm_90a",
            |l| (l.grid, l.cluster) = ([16, 2, 1], Some([16, 1, 1])),
            "cluster: a cluster of 16 blocks exceeds the limit of 8 @",
        );
        check_on(
            "sm_89",
            |l| l.cluster = Some([2, 1, 1]),
            "cluster: a cluster of 2 blocks needs a device with clusters @",
        );
        check_on(
            "sm_90a",
            |l| l.cluster = Some([2, 0, 1]),
            "cluster: a cluster of 0 blocks in y does no work @",
        );
        let mut limits = DeviceLimits::of_arch("sm_90a").unwrap();
        limits.cooperative = false;
        let verdict =
            check(&plan(vec![LaunchPlan { cooperative: true, ..launch() }]), &limits, CheckSet::default())
                .unwrap_err();
        assert_eq!(verdict.label(), "static_reject:cooperative");
    }

    #[test]
    fn no_launch_is_zero_work_and_evidence_has_numbers() {
        let limits = DeviceLimits::of_arch("sm_90a").unwrap();
        assert!(check(&plan(vec![]), &limits, CheckSet::default()).is_ok());
        assert_eq!(
            check_timed(&plan(vec![]), CheckSet::default()).unwrap_err().label(),
            "static_reject:zero_work"
        );
        assert!(check_timed(&plan(vec![launch()]), CheckSet::default()).is_ok());
        let too_much = LaunchPlan { shared_bytes: 300_000, ..launch() };
        let verdict = check(&plan(vec![too_much]), &limits, CheckSet::default()).unwrap_err();
        assert_eq!(verdict.evidence.get("shared_bytes"), Some(&300_000.into()));
        assert_eq!(verdict.evidence.get("shared_bytes_limit"), Some(&232_448.into()));
        assert_eq!(verdict.evidence.get("problem"), Some(&"p".into()));
    }
}
