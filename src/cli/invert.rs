//! `evo invert`: harms a kernel on purpose, one resource at a time, and ranks the resources by what that costs.
//!
//! Harmed variants are typed apart: what is measured of one is an [`InvertDose`] and never an evaluation, so no journal,
//! board, prior, seed, gate or export can take it.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, ValueEnum};
use evo_protocol::device::{DeviceKind, EntryAttributes};
use evo_protocol::invert::{InvertDose, InvertMetric, InvertRow, MetricDirection, ranked};
use evo_protocol::known::Known;
use evo_protocol::verdict::VerdictClass;
use evo_space::document::suggestion;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::judge::{self, Aim, AskedCandidate, Bench, INVERT, JobDepth, OtherPoint, VerdictEnd};
use super::profile::attributes_of;
use super::{Answer, Call, CliError, Result, TestOneArgs, output, session};
use crate::compile::cache::{self, Cache};
use crate::engine::ports::{Evaluate, Rivals};
use crate::engine::single::Single;
use crate::inspect::profile::{self, Collection, ProfiledLaunch};
use crate::kernel::harm::{self, Dose, HarmPlan, apply};
use crate::kernel::spec::{DiagnoseSpec, KernelSpec, MetricEvidence};
use crate::report::invert::{self, Inverted};
use crate::report::judged::{VerdictBrief, VerdictFields};
use crate::supervise::job::{Job, JobReach};
use crate::supervise::lane::LaneOptions;
use crate::tool::{self, FoundTool, ToolKind, ToolPlaces};

#[derive(Debug, Args)]
pub struct InvertArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Only these pathologies (`barriers,entry_delay`) [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Whether Nsight Compute, where it is found, looks at the largest dose of each pathology
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub counters: InvertCounters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InvertCounters {
    /// Where one is found
    Auto,
    /// Machine code and launches alone tell what happened
    Off,
}

pub fn run(arguments: &InvertArgs, call: &Call) -> Result<Answer> {
    let one = &arguments.one;
    if one.problems.len() > 1 {
        let text = format!("`--problem` {} times: a kernel is harmed on one problem", one.problems.len());
        return Err(CliError::usage(text).with_hint("call `evo invert` once for each problem"));
    }
    let asked = judge::ask(one, call, Aim::Invert)?;
    check_names(&arguments.only, asked.kernel()?)?;
    let tried = judge::run(asked, call, Aim::Invert, |bench| Harm::run(arguments, call, bench))?;
    let Some((found, counters, file)) = &tried.found else { return tried.answer(call) };
    let absent = (!found.rows.iter().any(InvertRow::is_finding)).then_some(INVERT);
    let VerdictEnd { answer, fields, brief } = tried.ended(call, absent, &invert::text(found))?;
    let answer = answer.with(&InvertAnswer {
        fields,
        rows: &found.rows,
        problem: &found.problem,
        noise_floor: Known::of(found.noise_floor, "the unharmed kernel could not be compared with itself"),
        counters: counters.as_ref().map(|counters| json!(counters)).map_err(String::clone).into(),
        file: file.as_deref().ok(),
        result: InvertBrief { brief, rows: &found.rows },
    });
    match file {
        Ok(path) => {
            if !call.is_json() {
                output::say(&format!("kept in {path}"));
            }
            Ok(answer)
        }
        // What was found is shown also where its files cannot be written.
        Err(why) => Ok(answer.despite(CliError::harness(why.clone()))),
    }
}

/// The answer about a candidate that was harmed; about another one it is that of `test-one`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InvertAnswer<'a> {
    #[serde(flatten)]
    fields: VerdictFields<'a>,
    rows: &'a [InvertRow],
    problem: &'a str,
    noise_floor: Known<f64>,
    counters: Known<Value>,
    /// Absent where it could not be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    result: InvertBrief<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct InvertBrief<'a> {
    #[serde(flatten)]
    brief: VerdictBrief<'a>,
    rows: &'a [InvertRow],
}

fn check_names(only: &[String], kernel: &KernelSpec) -> Result<()> {
    let known = harm::names(kernel);
    let Some(unknown) = only.iter().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    let hint = suggestion(unknown, known.iter().copied(), || format!("there are {}", known.join(", ")));
    Err(CliError::usage(format!("`--only {unknown}`: there is no such pathology")).with_hint(hint))
}

const DIGITS: usize = 12;

/// What was found, the version of the profiler that looked too or why none did, and the file `invert-<hash>.json`.
type Harmed = (Inverted, Result<String, String>, Result<String, String>);

/// The unharmed kernel on a device, and what is known of it.
struct Harm<'b, 'a> {
    bench: &'b mut Bench<'a>,
    attributes: Vec<EntryAttributes>,
    /// How far the unharmed kernel differs from itself.
    noise_floor: Option<f64>,
    counters: Result<HarmCounters, String>,
}

impl<'b, 'a> Harm<'b, 'a> {
    /// Measures every dose. Files are written after each pathology, so that an interrupt leaves what is finished.
    fn run(arguments: &InvertArgs, call: &Call, bench: &'b mut Bench<'a>) -> Result<Harmed> {
        let job: &'a Job = bench.job;
        let timed = job.timed.first().ok_or_else(|| {
            CliError::usage("no problem of this kernel is timed, so nothing can be compared")
                .with_hint("name one with `--problem`, or give one `timed = true`")
        })?;
        let attributes = attributes_of(&bench.single.attributes, job, timed).to_vec();
        let device = bench.lane.info().clone();
        let kernel = session::kernel_of(bench.file)?;
        let of = (kernel.name.as_str(), device.kind.as_str());
        let folder = judge::study_folder(&arguments.one.candidate, of, &call.facts());
        let folder = folder.map_err(|(path, error)| CliError::lost_file(&path, &error))?;
        bench.lane.expect_pairs();
        let noise_floor = Evaluate::noise_floor(bench.lane, job, 1).ok();
        let plans = harm::plans(kernel, &device, &attributes, &arguments.only);
        let counters = HarmCounters::open(arguments, bench, &plans);
        let evaluation = &bench.single.evaluation;
        let mut found = Inverted {
            rows: Vec::new(),
            kernel: kernel.name.clone(),
            device: device.name.clone(),
            configuration: evaluation.configuration.to_string(),
            problem: timed.name.clone(),
            noise_floor,
            repro: call.facts().repro,
        };
        let hash = arguments.one.candidate.hash(evaluation).as_str();
        let name = format!("invert-{}", &hash[..DIGITS.min(hash.len())]);
        let place = |extension: &str| format!("{name}.{extension}");
        let mut lost = None;
        let mut harm = Harm { bench, attributes, noise_floor, counters };
        for plan in plans {
            found.rows.push(harm.row(plan)?);
            found.rows = ranked(found.rows);
            let files = [("json", format!("{:#}\n", json!(found.rows))), ("md", invert::markdown(&found))];
            lost = files.into_iter().find_map(|(extension, text)| {
                let error = folder.replace(&place(extension), text.as_bytes(), true).err()?;
                Some(format!("cannot write `{}`: {error}", folder.place(&place(extension)).display()))
            });
        }
        let file = lost.map_or_else(|| Ok(folder.place(&place("json")).display().to_string()), Err);
        Ok((found, harm.counters.map(|counters| counters.tool.version.to_string()), file))
    }

    fn row(&mut self, plan: HarmPlan) -> Result<InvertRow> {
        let HarmPlan { spec, shows_as, doses } = plan;
        let DiagnoseSpec { name: pathology, resource, unit, try_next, lightens, moves, .. } = spec;
        let mut row = InvertRow { pathology, resource, try_next, ..InvertRow::default() };
        let not_run = |why: String| format!("not run: {why}");
        let doses = match doses {
            Ok(doses) => doses,
            Err(why) => return Ok(InvertRow { how_known: not_run(why), ..row }),
        };
        let mut timed = None;
        for dose in &doses {
            let (dose, job) = match self.measure(dose, &unit, lightens)? {
                Ok(measured) => measured,
                Err(why) => return Ok(InvertRow { how_known: not_run(why), ..row }),
            };
            timed = job.map(|job| (job, dose.what.clone())).or(timed);
            row.doses.push(dose);
        }
        row.happened = row.doses.iter().filter_map(|dose| dose.changed).reduce(|one, other| one || other);
        let is_measured = row.doses.iter().any(|dose| dose.ratio.is_some());
        row.how_known = match row.doses.first() {
            _ if row.happened == Some(false) => {
                "no_effect: machine code and launches are the unharmed kernel's".to_string()
            }
            Some(first) if !is_measured => format!("not measured: {}", first.verdict),
            _ => shows_as,
        };
        if let (Ok(counters), Some((job, dose)), false) = (&self.counters, timed, moves.is_empty()) {
            row = judged(row, lightens, counters.look(&moves, &job, &dose));
        }
        if row.happened == Some(false) {
            return Ok(row);
        }
        if lightens {
            // Answers are wrong, so only the time that is left says something.
            let ratios = row.doses.iter().filter(|dose| dose.has_changed()).filter_map(|dose| dose.ratio);
            row.upper_bound_of_cure_ratio = ratios.reduce(f64::min);
            return Ok(row);
        }
        Ok(row.sloped())
    }

    /// Judges a harmed copy and compares it with the unharmed kernel: the dose, and the job where it was timed. The inner
    /// error says why that cannot be done. One that `lightens` may be wrong.
    fn measure(
        &mut self,
        dose: &Dose,
        unit: &str,
        lightens: bool,
    ) -> Result<Result<(InvertDose, Option<Job>), String>> {
        let Bench { asked: AskedCandidate { candidate, setup, seed, options, .. }, lane, .. } =
            &mut *self.bench;
        let file = &candidate.file;
        let mut kernel = session::kernel_of(file)?.clone();
        if let Err(why) = apply(&mut kernel, dose) {
            return Ok(Err(why));
        }
        let configuration = candidate.configuration.with(&dose.set);
        let Some(genome) = file.space.genome(&configuration) else {
            return Ok(Err(format!("`{configuration}` is not a point of this space")));
        };
        let (unit, what) = (unit.to_string(), dose.shown.clone());
        let mut found = InvertDose { dose: dose.amount, unit, what, ..InvertDose::default() };
        let problems = session::problems(&kernel, setup.choice.kind, &options.problems)?;
        let recipe = session::recipe(&kernel, &problems, setup, lane.info(), *seed)?;
        // The gates alone: the comparison times it.
        let depth = JobDepth { reach: JobReach::Whole, is_timed: false };
        let point = OtherPoint { what: "a harmed variant", file, genome, configuration };
        let (judged, job) = match point.judged(&recipe, setup, lane, depth)? {
            Ok(judged) => judged,
            Err(refused) => {
                found.verdict = refused.label;
                return Ok(Ok((found, None)));
            }
        };
        let verdict = &judged.evaluation.verdict;
        found.verdict = verdict.label();
        found.changed = Some(self.differs(&judged, &job));
        found.code_hash.clone_from(&judged.evaluation.code_hash);
        let may_be_timed = verdict.is_pass() || lightens && verdict.kind.class() == VerdictClass::Wrong;
        if found.has_changed() && may_be_timed {
            self.compare(&job, &mut found);
        }
        let job = found.ratio.is_some().then_some(job);
        Ok(Ok((found, job)))
    }

    /// Whether machine code or launches are others than the unharmed kernel's.
    fn differs(&self, judged: &Single, job: &Job) -> bool {
        let plan = job.timed.first();
        let harmed = plan.map_or(&[][..], |plan| attributes_of(&judged.attributes, job, plan));
        let resident = |all: &[EntryAttributes]| -> Vec<Option<u32>> {
            all.iter().map(|launch| launch.blocks_per_multiprocessor).collect()
        };
        judged.evaluation.code_hash != self.bench.single.evaluation.code_hash
            || resident(harmed) != resident(&self.attributes)
    }

    fn compare(&mut self, job: &Job, found: &mut InvertDose) {
        let rivals = Rivals {
            baseline: self.bench.job.clone(),
            finalist: job.clone(),
            problems: vec![0],
            noise_floor: self.noise_floor.unwrap_or(0.0),
            within: Some(Duration::ZERO),
        };
        match Evaluate::pair(self.bench.lane, &rivals).into_iter().next() {
            Some(Ok(pair)) => {
                found.ratio = Some(pair.ratio);
                found.ratio_low = Some(pair.ratio_low);
                found.ratio_high = Some(pair.ratio_high);
            }
            Some(Err(why)) => found.verdict = format!("not compared: {why}"),
            None => found.verdict = "not compared".to_string(),
        }
    }
}

/// Counts what a copy stores, so that one which leaves out work is told from one that is harmed.
const STORES: &str = "global_store_sectors";
/// Copies may store to fewer sectors by this share: a kernel that writes beside others does not do so the same way twice.
const STORES_LOST: f64 = 0.02;

/// A profiler, and what it saw of the unharmed kernel: whether what should move did move.
struct HarmCounters {
    tool: FoundTool,
    options: LaneOptions,
    arch: String,
    limit: Duration,
    unharmed: Vec<ProfiledLaunch>,
}

impl HarmCounters {
    /// Has the profiler look at the unharmed kernel, or says why it does not.
    fn open(arguments: &InvertArgs, bench: &Bench<'_>, plans: &[HarmPlan]) -> Result<HarmCounters, String> {
        let device = bench.lane.info();
        if device.kind != DeviceKind::Cuda {
            return Err("the host device has no counters".to_string());
        }
        if arguments.counters == InvertCounters::Off {
            return Err("`--counters off`".to_string());
        }
        let fields: BTreeSet<&str> =
            plans.iter().flat_map(|plan| &plan.spec.moves).map(|evidence| evidence.metric.as_str()).collect();
        if fields.is_empty() {
            return Err("no pathology of this call names a metric".to_string());
        }
        let tool = tool::locate(ToolKind::Ncu, None, &ToolPlaces::of_environment())
            .map_err(|failure| failure.to_string())?;
        let kernel = session::kernel_of(bench.file).map_err(|error| error.to_string())?;
        let options =
            session::lane_options(&bench.asked.setup, Some(kernel)).map_err(|error| error.to_string())?;
        let (arch, limit) = (device.arch.clone(), arguments.one.run.limits.tool);
        let counters = HarmCounters { tool, options, arch, limit, unharmed: Vec::new() };
        let unharmed = counters.collect(bench.job, fields)?;
        Ok(HarmCounters { unharmed, ..counters })
    }

    fn look(&self, moves: &[MetricEvidence], job: &Job, dose: &str) -> Result<InvertMetric, String> {
        let harmed = self.collect(job, moves.iter().map(|evidence| evidence.metric.as_str()))?;
        movement(moves, dose, &self.unharmed, &harmed)
    }

    fn collect<'f>(
        &self,
        job: &Job,
        fields: impl IntoIterator<Item = &'f str>,
    ) -> Result<Vec<ProfiledLaunch>, String> {
        let plan = job.timed.first().ok_or("no problem is timed")?;
        let fields: Vec<&str> = fields.into_iter().chain([STORES]).collect();
        let wanted = profile::named(&fields, &self.arch);
        let cache = Cache::open(&cache::default_dir()).map_err(|error| error.to_string())?;
        let scratch = cache.scratch().map_err(|error| error.to_string())?;
        let (tool, options, folder, limit) = (&self.tool, &self.options, scratch.path(), self.limit);
        let collected =
            profile::collect(&Collection { tool, options, job, plan, wanted: &wanted, folder, limit });
        collected.map(|collected| collected.launches).map_err(|failure| failure.to_string())
    }
}

/// The first of the metrics that moved, else the first that has a value.
fn movement(
    moves: &[MetricEvidence],
    dose: &str,
    unharmed: &[ProfiledLaunch],
    harmed: &[ProfiledLaunch],
) -> Result<InvertMetric, String> {
    let stores = profile::movement(STORES, MetricDirection::Down, unharmed, harmed).ok();
    // A kernel whose stores are all asynchronous has none that are counted.
    let stores = stores.filter(|stores| stores.before > 0.0);
    let stores_kept = stores.map(|stores| stores.after >= stores.before * (1.0 - STORES_LOST));
    let metric = |evidence: &MetricEvidence| {
        let moved = profile::movement(&evidence.metric, evidence.direction, unharmed, harmed)?;
        Ok(InvertMetric {
            name: evidence.metric.clone(),
            direction: evidence.direction,
            unharmed: moved.before,
            harmed: moved.after,
            moved: moved.has_moved,
            dose: dose.to_string(),
            stores_kept,
        })
    };
    let mut metrics: Vec<Result<InvertMetric, String>> = moves.iter().map(metric).collect();
    let rank =
        |metric: &Result<InvertMetric, String>| metric.as_ref().map_or(2, |metric| u8::from(!metric.moved));
    metrics.sort_by_key(rank);
    metrics.into_iter().next().unwrap_or_else(|| Err("the pathology names no metric".to_string()))
}

/// A metric's number for people: counts in full, averages with two digits.
fn counted(value: f64) -> String {
    let digits = if value.fract() == 0.0 && value.abs() < 1e15 { 0 } else { 2 };
    format!("{value:.digits$}")
}

/// A row with what a profiler saw of it. A harm that did not happen has no effect, whatever its copy's machine code is.
fn judged(row: InvertRow, lightens: bool, metric: Result<InvertMetric, String>) -> InvertRow {
    let metric = match metric {
        Ok(metric) => metric,
        Err(why) => return InvertRow { how_known: format!("{}; no metric: {why}", row.how_known), ..row },
    };
    let InvertMetric { name, direction, unharmed, harmed, moved, stores_kept, .. } = &metric;
    let (before, after) = (counted(*unharmed), counted(*harmed));
    let objection = match stores_kept {
        // What takes work away may store less.
        Some(false) if !lightens => Some("the copy stores less than the unharmed kernel".to_string()),
        _ => (!moved).then(|| format!("`{name}` did not go {} ({before} to {after})", direction.as_str())),
    };
    let how_known = match &objection {
        Some(why) => format!("no_effect: {why}, so whatever the copy costs is not told of this resource"),
        None => format!("{}; `{name}` went from {before} to {after}", row.how_known),
    };
    InvertRow { happened: Some(objection.is_none()), how_known, metric: Some(metric), ..row }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(values: &[(&str, f64)]) -> Vec<ProfiledLaunch> {
        let metrics = values.iter().map(|(field, value)| (field.to_string(), Some(*value))).collect();
        vec![ProfiledLaunch { entry: "k".into(), grid: [1, 1, 1], block: [32, 1, 1], metrics }]
    }

    fn row(lightens: bool, moves: &[(&str, MetricDirection)], harmed: &[(&str, f64)]) -> InvertRow {
        let evidence = |own: &(&str, _)| MetricEvidence { metric: own.0.to_string(), direction: own.1 };
        let moves: Vec<_> = moves.iter().map(evidence).collect();
        let unharmed = launch(&[("l1_hit_percent", 60.0), ("instructions", 100.0), (STORES, 64.0)]);
        let how_known = "machine code differs".to_string();
        let row = InvertRow { happened: Some(true), how_known, ..InvertRow::default() };
        judged(row, lightens, movement(&moves, "L2 only", &unharmed, &launch(harmed)))
    }

    #[test]
    fn the_metric_that_moved_speaks_for_a_row() {
        use MetricDirection::{Down, Up};
        let both = [("instructions", Up), ("l1_hit_percent", Down)];
        let kept = row(false, &both, &[("l1_hit_percent", 0.0), ("instructions", 100.0), (STORES, 64.0)]);
        let metric = kept.metric.as_ref().unwrap();
        assert_eq!((metric.name.as_str(), metric.stores_kept), ("l1_hit_percent", Some(true)));
        assert_eq!(kept.happened, Some(true));
        assert!(kept.how_known.ends_with("`l1_hit_percent` went from 60 to 0"), "{kept:?}");
        let none = row(false, &both, &[("l1_hit_percent", 60.0), ("instructions", 100.0), (STORES, 64.0)]);
        assert_eq!(none.happened, Some(false));
        let stayed = "no_effect: `instructions` did not go up (100 to 100), so";
        assert!(none.how_known.starts_with(stayed), "{none:?}");
        assert_eq!([100_669_374.0, 0.977].map(counted), ["100669374", "0.98"]);
        // Without a value machine code alone speaks.
        let blind = row(false, &both[1..], &[("instructions", 1.0)]);
        assert_eq!((blind.happened, blind.metric), (Some(true), None));
        assert_eq!(blind.how_known, "machine code differs; no metric: `l1_hit_percent` has no value");
    }

    #[test]
    fn a_copy_that_leaves_out_stores_is_not_a_harmed_kernel() {
        let l1 = [("l1_hit_percent", MetricDirection::Down)];
        let less = [("l1_hit_percent", 0.0), (STORES, 32.0)];
        let refused = row(false, &l1, &less);
        assert_eq!(refused.happened, Some(false));
        assert!(refused.how_known.contains("stores less"), "{refused:?}");
        assert_eq!(row(true, &l1, &less).happened, Some(true), "lightened on purpose");
        assert_eq!(row(false, &l1, &less[..1]).metric.unwrap().stores_kept, None);
    }
}
