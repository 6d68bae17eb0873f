//! A profiler's look at harmed copies beside the unharmed kernel: whether what should move did move.

use std::collections::BTreeSet;
use std::time::Duration;

use evo_protocol::device::DeviceKind;
use evo_protocol::invert::{InvertMetric, InvertRow, MetricDirection, counted};
use evo_protocol::plan::ProblemPlan;

use super::device_lane;
use super::error::CliError;
use super::invert_args::{InvertArgs, InvertCounters};
use super::invert_harmed::HarmBench;
use crate::compile::cache::{self, Cache};
use crate::inspect::profile::{self, Collection, ProfiledLaunch};
use crate::kernel::harm::HarmPlan;
use crate::kernel::spec::MetricEvidence;
use crate::supervise::job::Job;
use crate::supervise::lane::LaneOptions;
use crate::tool::{self, FoundTool, ToolKind, ToolPlaces};

/// Counts what a copy stores, so that one which leaves out work is told from one that is harmed.
const STORES: &str = "global_store_sectors";
/// Copies may store to fewer sectors by this share: a kernel that writes beside others does not do so the same way twice.
const STORES_LOST: f64 = 0.02;

/// A profiler, and what it saw of the unharmed kernel.
pub struct HarmCounters {
    tool: FoundTool,
    options: LaneOptions,
    arch: String,
    limit: Duration,
    unharmed: Vec<ProfiledLaunch>,
}

impl HarmCounters {
    /// Has the profiler look at the unharmed kernel; the inner error says why nobody looks.
    pub fn open(
        arguments: &InvertArgs,
        bench: &HarmBench<'_, '_>,
        plans: &[HarmPlan],
    ) -> Result<Result<HarmCounters, String>, CliError> {
        let (device, run) = (bench.facts().device, &arguments.one.run);
        if device.kind != DeviceKind::Cuda {
            return Ok(Err("the host device has no counters".to_string()));
        }
        if arguments.counters == InvertCounters::Off {
            return Ok(Err("`--counters off`".to_string()));
        }
        let fields: BTreeSet<&str> =
            plans.iter().flat_map(|plan| &plan.moves).map(|own| own.metric.as_str()).collect();
        if fields.is_empty() {
            return Ok(Err("no pathology of this call names a metric".to_string()));
        }
        let tool = match tool::locate(ToolKind::Ncu, None, &ToolPlaces::of_environment()) {
            Ok(tool) => tool,
            Err(failure) => return Ok(Err(failure.to_string())),
        };
        let kernel = bench.kernel()?;
        let options = device_lane::lane_options(bench.setup(), run.worker_command.as_deref(), Some(kernel))?;
        let (arch, limit) = (device.arch.clone(), run.limits.limit_tool);
        let mut counters = HarmCounters { tool, options, arch, limit, unharmed: Vec::new() };
        let fields: Vec<&str> = fields.into_iter().collect();
        let (job, plan) = bench.unharmed_job()?;
        Ok(counters.collect(job, plan, &fields)?.map(|unharmed| HarmCounters { unharmed, ..counters }))
    }

    /// The profiler's version.
    pub fn version(&self) -> String {
        self.tool.version.to_string()
    }

    /// What the profiler sees of a harmed copy. The first of the metrics that moved counts, else the first that has a value.
    ///
    /// # Errors
    /// evo's own folders and files; the inner error says why nothing was seen.
    pub fn look(
        &mut self,
        moves: &[MetricEvidence],
        job: &Job,
        dose: &str,
    ) -> Result<Result<InvertMetric, String>, CliError> {
        let Some(plan) = job.timed.first() else { return Ok(Err("no problem is timed".to_string())) };
        let fields: Vec<&str> = moves.iter().map(|own| own.metric.as_str()).collect();
        let harmed = match self.collect(job, plan, &fields)? {
            Ok(harmed) => harmed,
            Err(why) => return Ok(Err(why)),
        };
        Ok(seen(moves, dose, &self.unharmed, &harmed))
    }

    /// Metrics of each launch, the stores besides; the inner error is the profiler's.
    fn collect(
        &mut self,
        job: &Job,
        plan: &ProblemPlan,
        fields: &[&str],
    ) -> Result<Result<Vec<ProfiledLaunch>, String>, CliError> {
        let fields: Vec<&str> = fields.iter().copied().chain([STORES]).collect();
        let wanted = profile::named(&fields, &self.arch);
        let scratch = Cache::open(&cache::default_dir())?.scratch()?;
        let (tool, options, folder, limit) = (&self.tool, &self.options, scratch.path(), self.limit);
        let collected =
            profile::collect(&Collection { tool, options, job, plan, wanted: &wanted, folder, limit });
        Ok(collected.map(|own| own.launches).map_err(|failure| failure.to_string()))
    }
}

fn seen(
    moves: &[MetricEvidence],
    dose: &str,
    unharmed: &[ProfiledLaunch],
    harmed: &[ProfiledLaunch],
) -> Result<InvertMetric, String> {
    let stores = profile::movement(STORES, MetricDirection::Down, unharmed, harmed).ok();
    // A kernel whose stores are all asynchronous has none that are counted.
    let stores = stores.filter(|own| own.before > 0.0);
    let stores_kept = stores.map(|own| own.after >= own.before * (1.0 - STORES_LOST));
    let mut why = "the pathology names no metric".to_string();
    let mut first: Option<InvertMetric> = None;
    for MetricEvidence { metric, direction } in moves {
        let movement = match profile::movement(metric, *direction, unharmed, harmed) {
            Ok(movement) => movement,
            Err(reason) => {
                why = reason;
                continue;
            }
        };
        let found = InvertMetric {
            name: metric.clone(),
            direction: *direction,
            unharmed: movement.before,
            harmed: movement.after,
            moved: movement.has_moved,
            dose: dose.to_string(),
            stores_kept,
        };
        if found.moved {
            return Ok(found);
        }
        first = first.or(Some(found));
    }
    first.ok_or(why)
}

/// A row with what a profiler saw of it. A harm that did not happen has no effect, whatever its copy's machine code is.
pub fn judged(row: InvertRow, lightens: bool, seen: Result<InvertMetric, String>) -> InvertRow {
    let metric = match seen {
        Ok(metric) => metric,
        Err(why) => {
            let how_known = format!("{}; no metric: {why}", row.how_known);
            return InvertRow { how_known, ..row };
        }
    };
    // What takes work away may store less.
    let objection = match lightens {
        true => InvertMetric { stores_kept: None, ..metric.clone() }.objection(),
        false => metric.objection(),
    };
    let InvertMetric { name, unharmed, harmed, .. } = &metric;
    let (happened, how_known) = match objection {
        Some(why) => {
            (false, format!("no_effect: {why}, so whatever the copy costs is not told of this resource"))
        }
        None => {
            let (before, after) = (counted(*unharmed), counted(*harmed));
            (true, format!("{}; `{name}` went from {before} to {after}", row.how_known))
        }
    };
    InvertRow { happened: Some(happened), how_known, metric: Some(metric), ..row }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(values: &[(&str, f64)]) -> Vec<ProfiledLaunch> {
        let metrics = values.iter().map(|(field, value)| (field.to_string(), Some(*value))).collect();
        vec![ProfiledLaunch { entry: "k".into(), grid: [1, 1, 1], block: [32, 1, 1], metrics }]
    }

    fn row() -> InvertRow {
        InvertRow {
            happened: Some(true),
            how_known: "machine code differs".into(),
            ..InvertRow::of("l1_bypass".into(), "reuse in the L1 cache".into(), String::new())
        }
    }

    fn found(moves: &[(&str, MetricDirection)], harmed: &[(&str, f64)]) -> Result<InvertMetric, String> {
        let moves: Vec<_> = moves.iter().map(|(name, way)| MetricEvidence::of(name, *way)).collect();
        let unharmed = launch(&[("l1_hit_percent", 60.0), ("instructions", 100.0), (STORES, 64.0)]);
        seen(&moves, "L2 only", &unharmed, &launch(harmed))
    }

    #[test]
    fn the_metric_that_moved_speaks_for_a_row() {
        use MetricDirection::{Down, Up};
        let both = [("instructions", Up), ("l1_hit_percent", Down)];
        let moved =
            found(&both, &[("l1_hit_percent", 0.0), ("instructions", 100.0), (STORES, 64.0)]).unwrap();
        assert_eq!(
            (moved.name.as_str(), moved.moved, moved.stores_kept),
            ("l1_hit_percent", true, Some(true))
        );
        let kept = judged(row(), false, Ok(moved));
        assert_eq!(kept.happened, Some(true));
        assert!(kept.how_known.ends_with("`l1_hit_percent` went from 60 to 0"), "{kept:?}");
        let stayed =
            found(&both, &[("l1_hit_percent", 60.0), ("instructions", 100.0), (STORES, 64.0)]).unwrap();
        assert_eq!((stayed.name.as_str(), stayed.moved), ("instructions", false));
        let none = judged(row(), false, Ok(stayed));
        assert_eq!(none.happened, Some(false));
        assert!(none.how_known.starts_with("no_effect: `instructions` did not go up"), "{none:?}");
    }

    #[test]
    fn a_copy_that_leaves_out_stores_is_not_a_harmed_kernel() {
        let less =
            found(&[("l1_hit_percent", MetricDirection::Down)], &[("l1_hit_percent", 0.0), (STORES, 32.0)]);
        let less = less.unwrap();
        assert_eq!(less.stores_kept, Some(false));
        assert_eq!(judged(row(), false, Ok(less.clone())).happened, Some(false));
        assert_eq!(judged(row(), true, Ok(less)).happened, Some(true), "lightened on purpose");
        let uncounted =
            found(&[("l1_hit_percent", MetricDirection::Down)], &[("l1_hit_percent", 0.0)]).unwrap();
        assert_eq!(uncounted.stores_kept, None);
        let moves = [MetricEvidence::of("instructions", MetricDirection::Up)];
        let (before, after) =
            ([("instructions", 1.0), (STORES, 0.0)], [("instructions", 2.0), (STORES, 0.0)]);
        assert_eq!(seen(&moves, "", &launch(&before), &launch(&after)).unwrap().stores_kept, None);
    }

    #[test]
    fn without_a_value_machine_code_alone_speaks() {
        let none = found(&[("l1_hit_percent", MetricDirection::Down)], &[("instructions", 1.0)]);
        assert_eq!(none.clone().unwrap_err(), "`l1_hit_percent` has no value");
        let row = judged(row(), false, none);
        assert_eq!((row.happened, row.metric), (Some(true), None));
        assert_eq!(row.how_known, "machine code differs; no metric: `l1_hit_percent` has no value");
    }
}
