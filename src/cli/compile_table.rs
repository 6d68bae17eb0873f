//! The resource table of `evo compile`: rows for people, objects for programs, and one line in the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use evo_protocol::binary::{Binary, EntryResources};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::Verdict;
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;
use serde_json::json;

use crate::kernel::spec::KernelSpec;

/// One variant, compiled or not.
pub struct CompiledVariant {
    configuration: Configuration,
    entries: Vec<EntryUse>,
    binary: Option<Binary>,
    /// Absent for a variant that compiles and fits.
    verdict: Option<Verdict>,
}

/// What one entry point uses, and what its launches ask for at most.
struct EntryUse {
    resources: EntryResources,
    shared_dynamic_bytes: Option<i64>,
    threads: Option<i64>,
}

impl CompiledVariant {
    /// Joins the compiler's report with the launches of all problems. Kernels that no launch uses are
    /// left out; launches that never happen are too.
    pub fn new(
        configuration: Configuration,
        plans: &[ProblemPlan],
        binary: Option<Binary>,
        verdict: Option<Verdict>,
    ) -> CompiledVariant {
        let mut entries: Vec<EntryUse> = Vec::new();
        for launch in plans.iter().flat_map(|plan| &plan.launches) {
            // Saturating, because refused launches are shown too, whatever extents they ask for.
            let threads = launch.block.iter().copied().fold(1, i64::saturating_mul);
            let position = entries.iter().position(|entry| entry.resources.entry == launch.entry);
            let position = position.unwrap_or_else(|| {
                let reported = binary.iter().flat_map(|binary| &binary.resources);
                let resources = reported.into_iter().find(|entry| entry.entry == launch.entry).cloned();
                let resources = resources.unwrap_or_else(|| EntryResources {
                    entry: launch.entry.clone(),
                    ..EntryResources::default()
                });
                entries.push(EntryUse { resources, shared_dynamic_bytes: None, threads: None });
                entries.len() - 1
            });
            let entry = &mut entries[position];
            entry.shared_dynamic_bytes = entry.shared_dynamic_bytes.max(Some(launch.shared_bytes));
            entry.threads = entry.threads.max(Some(threads));
        }
        CompiledVariant { configuration, entries, binary, verdict }
    }

    /// `fits`, or the verdict's label.
    fn outcome(&self) -> String {
        self.verdict.as_ref().map_or("fits".to_string(), Verdict::label)
    }

    fn spills(&self) -> bool {
        let spilled = |entry: &EntryUse| spill_bytes(&entry.resources).is_some_and(|bytes| bytes > 0);
        self.entries.iter().any(spilled)
    }

    /// One object. `fits` says that it compiles and may be launched, not that it is right.
    pub fn json(&self, kernel: &str, arch: &str) -> serde_json::Value {
        let entries = self.entries.iter().map(|entry| {
            json!({
                "entry": entry.resources.entry,
                "registers": entry.resources.registers,
                "stack_bytes": entry.resources.stack_bytes,
                "spill_store_bytes": entry.resources.spill_store_bytes,
                "spill_load_bytes": entry.resources.spill_load_bytes,
                "shared_static_bytes": entry.resources.shared_static_bytes,
                "shared_dynamic_bytes": entry.shared_dynamic_bytes,
                "threads": entry.threads,
                "threads_max": entry.resources.threads_max,
            })
        });
        json!({
            "kernel": kernel,
            "arch": arch,
            "configuration": self.configuration,
            "configuration_hash": self.configuration.hash(),
            "fits": self.verdict.is_none(),
            "verdict": self.verdict,
            "entries": entries.collect::<Vec<_>>(),
            "binary_hash": self.binary.as_ref().map(|binary| &binary.hash),
            "code_hash": self.binary.as_ref().map(|binary| &binary.code_hash),
            "path": self.binary.as_ref().map(|binary| &binary.path),
            "toolchain": self.binary.as_ref().map(|binary| &binary.toolchain),
            "compile_ms": self.binary.as_ref().map(|binary| binary.compile_ms),
            "cached": self.binary.as_ref().map(|binary| binary.cached),
            "log": self.binary.as_ref().map(|binary| &binary.log),
        })
    }
}

/// Bytes stored and loaded by spills, if the compiler said.
fn spill_bytes(entry: &EntryResources) -> Option<u64> {
    Some(entry.spill_store_bytes? + entry.spill_load_bytes?)
}

/// Heads and widths; known before the first row, so that rows need not wait for the last.
pub struct ResourceColumns {
    parameters: Vec<(String, usize)>,
    entry_width: usize,
}

/// The columns after parameters and entry, and their widths.
const NUMBERS: &[(&str, usize)] =
    &[("regs", 4), ("stack", 6), ("spill", 6), ("smem static", 11), ("dynamic", 8), ("threads", 7)];

impl ResourceColumns {
    /// Wide enough for every value of every parameter and every entry.
    pub fn of(space: &SearchSpace, kernel: &KernelSpec) -> ResourceColumns {
        let width = |name: &str, values: &mut dyn Iterator<Item = usize>| {
            values.chain([name.len()]).max().unwrap_or(0)
        };
        let parameters = space.parameters().iter().map(|parameter| {
            let mut lengths = parameter.values.iter().map(|value| value.to_string().len());
            (parameter.name.to_string(), width(&parameter.name, &mut lengths))
        });
        let mut entries = kernel.launches.iter().map(|launch| launch.entry.len());
        ResourceColumns { parameters: parameters.collect(), entry_width: width("entry", &mut entries) }
    }

    /// The line of heads.
    pub fn header(&self) -> String {
        let mut line = String::new();
        for (name, width) in &self.parameters {
            let _ = write!(line, "{name:>width$}  ");
        }
        let _ = write!(line, "{:<1$}", "entry", self.entry_width);
        for (name, width) in NUMBERS {
            let _ = write!(line, "  {name:>width$}");
        }
        line + "  verdict\n"
    }

    /// A row for each entry; the message of a failure below.
    pub fn rows(&self, variant: &CompiledVariant) -> String {
        let mut text = String::new();
        let mut head = String::new();
        for (name, width) in &self.parameters {
            let value = variant.configuration.get(name).map(ToString::to_string).unwrap_or_default();
            let _ = write!(head, "{value:>width$}  ");
        }
        let outcome = variant.outcome();
        for entry in &variant.entries {
            text.push_str(&self.row(&head, &entry.resources.entry, entry.cells(), &outcome));
        }
        if variant.entries.is_empty() {
            text.push_str(&self.row(&head, "", Default::default(), &outcome));
        }
        if let Some(verdict) = &variant.verdict {
            verdict.message.lines().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
        text
    }

    fn row(&self, head: &str, entry: &str, cells: [String; 6], outcome: &str) -> String {
        let mut line = format!("{head}{entry:<width$}", width = self.entry_width);
        for (cell, (_, width)) in cells.iter().zip(NUMBERS) {
            let cell = if cell.is_empty() { "-" } else { cell };
            let _ = write!(line, "  {cell:>width$}");
        }
        format!("{line}  {outcome}\n")
    }
}

impl EntryUse {
    fn cells(&self) -> [String; 6] {
        fn cell<T: ToString>(value: Option<T>) -> String {
            value.map(|value| value.to_string()).unwrap_or_default()
        }
        [
            cell(self.resources.registers),
            cell(self.resources.stack_bytes),
            cell(spill_bytes(&self.resources)),
            cell(self.resources.shared_static_bytes),
            cell(self.shared_dynamic_bytes),
            cell(self.threads),
        ]
    }
}

/// Counts over all variants.
#[derive(Default)]
pub struct CompileCounts {
    outcomes: BTreeMap<String, usize>,
    count: usize,
    fits: usize,
    spilling: usize,
    cached: usize,
    compiled: usize,
}

impl CompileCounts {
    /// Counts one more.
    pub fn add(&mut self, variant: &CompiledVariant) {
        self.count += 1;
        self.spilling += usize::from(variant.spills());
        match &variant.binary {
            Some(binary) if binary.cached => self.cached += 1,
            Some(_) => self.compiled += 1,
            None => {}
        }
        match &variant.verdict {
            None => self.fits += 1,
            Some(verdict) => *self.outcomes.entry(verdict.label()).or_default() += 1,
        }
    }

    /// Variants so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Variants that do not compile or do not fit.
    pub fn failures(&self) -> usize {
        self.count - self.fits
    }

    /// `8 variants for sm_89 by nvrtc 13.0: 6 fit, 2 static_reject:smem; 1 spill` and how long it took.
    pub fn text(&self, arch: &str, toolchain: &str, jobs: usize, elapsed: Duration) -> String {
        let mut outcomes = format!("{} fit", self.fits);
        for (label, count) in &self.outcomes {
            let _ = write!(outcomes, ", {count} {label}");
        }
        if self.spilling > 0 {
            let _ = write!(outcomes, "; {} spill", self.spilling);
        }
        let (seconds, plural) = (elapsed.as_secs_f64(), if self.count == 1 { "" } else { "s" });
        let (compiled, cached) = (self.compiled, self.cached);
        let processes = if jobs == 1 { "process" } else { "processes" };
        format!(
            "{} variant{plural} for {arch} by {toolchain}: {outcomes}\n\
             {compiled} compiled and {cached} from the cache in {seconds:.1} s by {jobs} {processes}\n",
            self.count
        )
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::VerdictKind;
    use evo_space::genome::ContentHash;
    use evo_space::value::Value;

    use super::*;

    fn plan(shared_bytes: i64, threads: i64) -> ProblemPlan {
        let launch = json!({"entry": "k", "grid": [1, 1, 1], "block": [threads, 1, 1], "shared_bytes": shared_bytes,
            "cluster": null, "cooperative": false, "programmatic": false, "arguments": []});
        serde_json::from_value(json!({"name": "p", "sizes": {}, "weight": 1.0, "buffers": [], "scalars": [],
            "launches": [launch], "flops": null, "bytes": null}))
        .unwrap()
    }

    fn variant(resources: Option<EntryResources>, verdict: Option<Verdict>) -> CompiledVariant {
        let configuration =
            Configuration::new(vec![("BLOCK".into(), Value::Int(64)), ("mode".into(), Value::text("xor"))]);
        let binary = resources.map(|resources| Binary {
            hash: ContentHash::of(b"h"),
            code_hash: ContentHash::of(b"c"),
            path: "k.cubin".into(),
            resources: vec![resources],
            toolchain: "nvrtc 13.0".to_string(),
            compile_ms: 40.0,
            cached: false,
            log: String::new(),
        });
        CompiledVariant::new(configuration, &[plan(1024, 128), plan(65_536, 64)], binary, verdict)
    }

    #[test]
    fn rows_show_the_largest_demand_and_failures_their_message() {
        let columns = ResourceColumns {
            parameters: vec![("BLOCK".to_string(), 5), ("mode".to_string(), 4)],
            entry_width: 5,
        };
        let used = EntryResources {
            entry: "k".to_string(),
            registers: Some(255),
            stack_bytes: Some(16),
            spill_store_bytes: Some(8),
            spill_load_bytes: Some(12),
            shared_static_bytes: Some(49_152),
            threads_max: None,
        };
        let verdict = Verdict::new(VerdictKind::StaticReject, "too much").with_cause("smem");
        let good = variant(Some(used.clone()), None);
        let refused = variant(Some(used), Some(verdict));
        let broken =
            variant(None, Some(Verdict::new(VerdictKind::CompileError, "k.cu(1): error: no\nsecond")));
        let mut counts = CompileCounts::default();
        let mut text = columns.header();
        for variant in [&good, &refused, &broken] {
            text.push_str(&columns.rows(variant));
            counts.add(variant);
        }
        text.push_str(&counts.text("sm_89", "nvrtc 13.0", 2, Duration::from_millis(1500)));
        insta::assert_snapshot!(text, @r"
        BLOCK  mode  entry  regs   stack   spill  smem static   dynamic  threads  verdict
           64   xor  k       255      16      20        49152     65536      128  fits
           64   xor  k       255      16      20        49152     65536      128  static_reject:smem
            too much
           64   xor  k         -       -       -            -     65536      128  compile_error
            k.cu(1): error: no
            second
        3 variants for sm_89 by nvrtc 13.0: 1 fit, 1 compile_error, 1 static_reject:smem; 2 spill
        2 compiled and 0 from the cache in 1.5 s by 2 processes
        ");
    }
}
