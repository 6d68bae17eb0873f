//! `evo selftest faults`: broken variants between good ones, in random order, on a lane and in the same way as a sweep. Each
//! must get its own verdict with its cause in words and within its time, leave nothing behind, and the good one after it
//! must be judged as if nothing had happened. Some variants are honest and odd: they must pass.
//!
//! `docs/FAULTS.md` has the catalogue, which numbers every known way to be bad, and what of it cannot be played.

mod aftermath;
mod rows;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::evaluation::Recovery;
use evo_protocol::verdict::Verdict;
use evo_protocol::worker::BinaryRef;
use evo_space::genome::ContentHash;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::json;

use self::aftermath::{GoodNeighbor, LeftoverWatch};
use self::rows::FaultOutcome::{Open, Passes};
use self::rows::{FaultRow, FaultSetup, SANITIZE_LIMIT, SHORT_COMPILE, SMALL_COMPILE};
use super::bench::{SelftestBench, SelftestCheck, SelftestReport};
use crate::cli::sanitize::{HostTwin, tool_on};
use crate::cli::{CliError, DeviceSetup, Result, output, session};
use crate::compile::FarmOptions;
use crate::inspect::twin::HostLook;
use crate::kernel::catalog;
use crate::supervise::deadline::Deadlines;
use crate::supervise::job::{Job, Standing};
use crate::supervise::lane::LaneLimits;

pub use self::aftermath::{ProcessLine, processes, scratch};
pub use self::rows::SanitizedFault;

/// What a variant may print here; a sweep gives it sixteen times as much.
const OUTPUT_MAX: u64 = 1 << 20;
/// The number of no machine, as a shared object has it.
const ELF_MACHINE_NONE: [u8; 2] = [0xff, 0xff];
/// The host's deadline of a launch here; a sweep waits five times as long.
const HOST_LAUNCH: Duration = Duration::from_secs(2);

/// Of the inputs that the host device makes for its look.
const TWIN_SEED: u64 = 1;

/// The device for faults. What is compiled goes to a folder that ends with the self-test.
fn staged(setup: &DeviceSetup, cache: &tempfile::TempDir) -> DeviceSetup {
    let farm = FarmOptions { cache: cache.path().to_path_buf(), ..setup.farm.clone() };
    DeviceSetup { farm, ..setup.clone() }
}

/// Whether `only` is in a fault's name or one of its numbers; absent, it means all.
fn is_wanted(only: Option<&str>, name: &str) -> bool {
    let has_number = |only: &str| rows::page().any(|row| row.name == name && row.number == only);
    only.is_none_or(|only| name.contains(only) || has_number(only))
}

pub fn run(setup: &DeviceSetup, only: Option<&str>, seed: u64) -> Result<(DeviceInfo, SelftestReport)> {
    let cache = tempfile::tempdir()?;
    let setup = staged(setup, &cache);
    let (mut info, mut report) = (None, SelftestReport::default());
    for (space, mut rows) in rows::rows() {
        rows.retain(|row| is_wanted(only, row.page.name));
        if rows.is_empty() {
            continue;
        }
        rows.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let file = catalog::open(space)?;
        let mut bench = SelftestBench::start(&file, &setup, seed, limits(setup.choice.kind))?;
        info = Some(bench.lane.info().clone());
        let mut stage = FaultStage::begin(&mut bench, &setup)?;
        let (median, fastest, slowest) = stage.good.first();
        let [median, fastest, slowest] = [median, fastest, slowest].map(|ns| format!("{:.2}", ns / 1e3));
        let message = format!("good variant: {median} µs (min {fastest}, max {slowest})");
        report.push(SelftestCheck::new(space, Some(true), message));
        for row in &rows {
            stage.play(row, &mut report)?;
        }
    }
    info.map(|info| (info, report)).ok_or_else(|| {
        let only = only.unwrap_or_default();
        CliError::usage(format!("no fault has `{only}` in its name or as its number")).with_hint(
            "docs/FAULTS.md lists the faults, and those that nothing can play; without `--only` all are played",
        )
    })
}

/// Has compute-sanitizer look at the wanted faults that it may see.
pub fn sanitize(setup: &DeviceSetup, only: Option<&str>, seed: u64) -> Result<(DeviceInfo, SelftestReport)> {
    let kind = setup.choice.kind;
    let tool = tool_on(kind, None)?;
    let faults: Vec<_> = SanitizedFault::all().filter(|fault| is_wanted(only, fault.name)).collect();
    if faults.is_empty() {
        let only = only.unwrap_or_default();
        return Err(CliError::usage(format!("no fault with `{only}` is looked at by compute-sanitizer"))
            .with_hint("docs/sanitize.md lists those that are; without `--only` all of them are looked at"));
    }
    let cache = tempfile::tempdir()?;
    let setup = staged(setup, &cache);
    let file = catalog::open("faults")?;
    let bench = SelftestBench::start(&file, &setup, seed, limits(kind))?;
    let options = session::lane_options(&setup, Some(session::kernel_of(&file)?))?;
    let mut report = SelftestReport::default();
    report.push(rows::heads(&tool));
    for fault in faults {
        report.push(match bench.job(&bench.with_fault(fault.name), false)? {
            Ok(job) => fault.looked((kind, &tool), &options, &job),
            Err(verdict) => {
                let (label, why) = (verdict.label(), &verdict.message);
                let message = format!("it does not come to a launch: {label}: {why}");
                SelftestCheck::new(fault.name, Some(false), message)
            }
        });
        output::say(fault.name);
    }
    Ok((bench.lane.info().clone(), report))
}

fn limits(kind: DeviceKind) -> LaneLimits {
    let short = Deadlines::tiny(kind).with_launched(HOST_LAUNCH);
    let deadlines = (kind == DeviceKind::Host).then_some(short);
    LaneLimits { deadlines, output_bytes_max: OUTPUT_MAX, ..LaneLimits::default() }
}

/// A lane with a good variant that has shown what it is.
struct FaultStage<'a, 'b> {
    bench: &'a mut SelftestBench<'b>,
    setup: &'a DeviceSetup,
    good: GoodNeighbor,
    watch: LeftoverWatch,
    /// Binaries that are tampered with.
    folder: tempfile::TempDir,
}

impl<'a, 'b> FaultStage<'a, 'b> {
    fn begin(bench: &'a mut SelftestBench<'b>, setup: &'a DeviceSetup) -> Result<FaultStage<'a, 'b>> {
        let good = GoodNeighbor::begin(bench)?;
        let watch = LeftoverWatch::begin(&setup.farm.cache);
        Ok(FaultStage { bench, setup, good, watch, folder: tempfile::tempdir()? })
    }

    fn play(&mut self, row: &FaultRow, report: &mut SelftestReport) -> Result<()> {
        let kind = self.setup.choice.kind;
        let outcome = row.outcome(kind);
        if let Open(why) = outcome {
            report.skip(row.page.name, &format!("open: {why}"));
            return Ok(());
        }
        let began = Instant::now();
        let (mut verdict, recovery) = self.judge(row, matches!(outcome, Passes))?;
        let took = began.elapsed();
        if verdict.is_pass() && row.setup.is_none() {
            // As a finalist's is; it holds up nobody on the device.
            verdict = self.twin_verdict(row).unwrap_or(verdict);
        }
        let label = verdict.label();
        let is_named =
            |wanted: &[&str]| wanted.iter().any(|want| label == *want || verdict.kind.as_str() == *want);
        let (is_right, is_told) = match row.verdicts(kind) {
            Some(wanted) => (is_named(&wanted), row.says.iter().any(|word| verdict.message.contains(word))),
            None => (verdict.is_pass(), true),
        };
        // The neighbor comes first: what a fault leaves on the device must not be waited for.
        let neighbor = self.good.judge(&mut self.bench.lane);
        let left_behind = self.watch.find();
        let limit = row.delay_max(kind);
        // `docs/FAULTS.md` says what must hold for each.
        let cells = [
            ("verdict", is_right),
            ("evidence", is_told),
            ("neighbor", neighbor.is_ok()),
            ("leftovers", left_behind.is_empty()),
            ("delay", took <= limit),
        ];
        let failed: Vec<&str> = cells.iter().filter(|(_, right)| !right).map(|(name, _)| *name).collect();
        let delay_ms = took.as_secs_f64() * 1e3;
        let parts = [
            Some(format!("{label} in {delay_ms:.0} ms")),
            recovery.map(|own| format!("{} {:.0} ms", own.level.as_str(), own.elapsed_ms)),
            Some(match &neighbor {
                Err(error) => format!("NEIGHBOR FAILED: {error}"),
                Ok(ratio) => format!("neighbor {ratio:.2}×"),
            }),
            (!failed.is_empty()).then(|| format!("WRONG: {}", failed.join(", "))),
            (!left_behind.is_empty()).then(|| format!("left behind: {}", left_behind.join(", "))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let message = format!("{}; {}", parts.join(", "), verdict.message);
        let check = SelftestCheck::new(row.page.name, Some(failed.is_empty()), message);
        let mut fault = json!({
            "catalogue": row.catalogue, "does": row.page.does, "label": label,
            "neighbor_ratio": neighbor.ok(), "delay_ms": delay_ms,
            "delay_max_ms": limit.as_secs_f64() * 1e3, "recovery": recovery, "left_behind": left_behind,
        });
        cells.into_iter().for_each(|(name, right)| fault[name] = right.into());
        report.push(check.with(&json!({ "fault": fault })));
        Ok(())
    }

    /// What the host device says of a row that a GPU lets pass.
    fn twin_verdict(&self, row: &FaultRow) -> Option<Verdict> {
        let DeviceSetup { choice, sandbox, .. } = self.setup;
        let twin = HostTwin::beside(choice.kind, self.bench.file(), *sandbox, TWIN_SEED)?;
        let configuration = self.bench.with_fault(row.page.name);
        twin.look(&configuration, SANITIZE_LIMIT).fault().cloned()
    }

    /// The path of a sweep first; what passes there is judged as a finalist.
    fn judge(&mut self, row: &FaultRow, honest: bool) -> Result<(Verdict, Option<Recovery>)> {
        let standing = match row.setup {
            Some(FaultSetup::Incumbent) => self.good.standing.clone(),
            _ => Standing::default(),
        };
        let depths = if row.setup == Some(FaultSetup::CompilerOnly) { &[false][..] } else { &[false, true] };
        let (mut verdict, mut recovery) = (Verdict::pass(), None);
        for deep in depths {
            match self.job(row, *deep)? {
                Err(refused) => verdict = *refused,
                Ok(job) => {
                    // An honest variant's time has been judged; seconds of more samples would add nothing.
                    let job = if *deep && honest { job.gates_only() } else { job };
                    let result = self.bench.lane.evaluate(&job, &standing);
                    (verdict, recovery) = (result.verdict, result.recovery);
                }
            }
            if !verdict.is_pass() {
                break;
            }
        }
        Ok((verdict, recovery))
    }

    fn job(&mut self, row: &FaultRow, deep: bool) -> Result<Result<Job, Box<Verdict>>> {
        if row.is_outside() {
            return self.tampered(row.setup);
        }
        let configuration = self.bench.with_fault(row.page.name);
        let farm = &self.setup.farm;
        let farm = match row.setup {
            Some(FaultSetup::ShortCompile) => FarmOptions { deadline: SHORT_COMPILE, ..farm.clone() },
            Some(FaultSetup::SmallCompile) => FarmOptions { memory_bytes: SMALL_COMPILE, ..farm.clone() },
            _ => farm.clone(),
        };
        self.bench.job_by(&farm, &configuration, deep)
    }

    /// The good variant with something wrong around it.
    fn tampered(&mut self, setup: Option<FaultSetup>) -> Result<Result<Job, Box<Verdict>>> {
        let mut job = self.good.timed.clone();
        match setup {
            Some(FaultSetup::StaleBinary) => {
                job.candidate.builds[0].variant_hash = ContentHash::of(b"another variant")
            }
            Some(FaultSetup::ForeignBinary) if self.setup.choice.kind == DeviceKind::Cuda => {
                let own = &self.setup.choice.arch;
                let other = if own.starts_with("sm_8") { "sm_90" } else { "sm_80" };
                let farm = FarmOptions { arch: other.into(), ..self.setup.farm.clone() };
                let good = self.bench.configuration(&[]);
                return self.bench.job_by(&farm, &good, false);
            }
            Some(FaultSetup::ForeignBinary) => {
                let build = &mut job.candidate.builds[0];
                build.binary = self.foreign(&build.binary)?;
            }
            _ => job.timed.iter_mut().for_each(|plan| plan.bytes = plan.bytes.map(|bytes| bytes * 1000.0)),
        }
        Ok(Ok(job))
    }

    /// A shared object with another machine in its header, in a file of its own.
    fn foreign(&self, binary: &BinaryRef) -> Result<BinaryRef> {
        let path: PathBuf =
            binary.path.clone().ok_or_else(|| CliError::harness("a binary without a file"))?;
        let mut bytes = std::fs::read(path)?;
        // `e_machine` of an ELF header, 64 bits wide or 32.
        if let Some(machine) = bytes.get_mut(18..20) {
            machine.copy_from_slice(&ELF_MACHINE_NONE);
        }
        let path = self.folder.path().join("foreign.so");
        std::fs::write(&path, &bytes)?;
        Ok(BinaryRef { hash: ContentHash::of(&bytes), path: Some(path) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use evo_space::value::Value;

    use super::*;

    /// Every number of the catalogue has a row that is played, or a reason and a test that there is.
    #[test]
    fn the_page_of_faults_is_played_or_says_why_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = fs::read_to_string(root.join("docs/FAULTS.md")).unwrap();
        let names: BTreeSet<&str> =
            rows::rows().iter().flat_map(|(_, rows)| rows).map(|row| row.page.name).collect();
        assert_eq!(rows::page().map(|row| row.name).collect::<BTreeSet<_>>(), names);
        let mut numbers: BTreeSet<&str> = rows::page().map(|row| row.number).collect();
        for line in page.lines().filter(|line| line.contains("| *not played*: ")) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            assert!(numbers.insert(cells[1]), "{line}");
            if let Some((_, test)) = cells[3].rsplit_once("; `") {
                let (file, test) = test.trim_end_matches('`').split_once("`: `").expect(line);
                let text = fs::read_to_string(root.join(file)).unwrap();
                assert!(text.contains(&format!("fn {test}()")), "{file} has no `{test}`");
            }
        }
        assert_eq!(numbers.len(), 75);
        assert_eq!(
            page.matches("\n| ").count() - 6,
            rows::page().count() + page.matches("| *not played*: ").count()
        );
    }

    /// A value that nobody plays would look tested.
    #[test]
    fn every_value_of_the_spaces_is_a_row() {
        for (space, rows) in rows::rows() {
            let file = catalog::open(space).unwrap();
            let inside = rows.iter().filter(|row| !row.is_outside());
            let mut named: BTreeSet<&str> = inside.map(|row| row.page.name).collect();
            named.insert("none");
            let parameter = file.space.parameters().iter().find(|one| &*one.name == "FAULT").unwrap();
            let values: Vec<String> = parameter.values.iter().map(Value::to_string).collect();
            assert_eq!(values.iter().map(String::as_str).collect::<BTreeSet<_>>(), named, "{space}");
        }
    }
}
