//! What `evo compile` knows of each variant: objects for programs, and one line in the end. The table for
//! people is in `compile_columns`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use evo_protocol::binary::{Binary, EntryResources};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::specialization::Specialization;
use evo_protocol::verdict::Verdict;
use evo_space::genome::Configuration;
use serde_json::json;

pub struct CompiledVariant {
    pub configuration: Configuration,
    pub entries: Vec<EntryUse>,
    code: CompiledCode,
    /// Absent for a variant that compiles and fits.
    pub verdict: Option<Verdict>,
}

/// What the compiler made of a variant's sources.
#[derive(Default)]
pub struct CompiledCode {
    /// Of each source; one empty set where nothing is specialized.
    pub constants: Vec<Specialization>,
    /// In the same order; none where a source did not compile.
    pub binaries: Vec<Binary>,
}

impl CompiledCode {
    /// Position of the source that a problem runs.
    fn position(&self, plan: &ProblemPlan) -> usize {
        self.constants.iter().position(|own| own.serves(&plan.sizes)).unwrap_or(0)
    }
}

/// What one entry point uses, and what its launches ask for at most.
pub struct EntryUse {
    constants: Specialization,
    pub resources: EntryResources,
    shared_dynamic_bytes: Option<i64>,
    threads: Option<i64>,
}

impl CompiledVariant {
    /// Joins the compiler's report with the launches of all problems. Kernels that no launch uses are
    /// left out; launches that never happen are too.
    pub fn new(
        configuration: Configuration,
        plans: &[ProblemPlan],
        code: CompiledCode,
        verdict: Option<Verdict>,
    ) -> CompiledVariant {
        let mut entries: Vec<EntryUse> = Vec::new();
        for (plan, launch) in plans.iter().flat_map(|plan| plan.launches.iter().map(move |one| (plan, one))) {
            let at = code.position(plan);
            let constants = code.constants.get(at).cloned().unwrap_or_default();
            // Saturating, because refused launches are shown too, whatever extents they ask for.
            let threads = launch.block.iter().copied().fold(1, i64::saturating_mul);
            let position = entries
                .iter()
                .position(|entry| entry.resources.entry == launch.entry && entry.constants == constants);
            let position = position.unwrap_or_else(|| {
                let reported = code.binaries.get(at).into_iter().flat_map(|binary| &binary.resources);
                let resources = reported.into_iter().find(|entry| entry.entry == launch.entry).cloned();
                let resources = resources.unwrap_or_else(|| EntryResources {
                    entry: launch.entry.clone(),
                    ..EntryResources::default()
                });
                entries.push(EntryUse { constants, resources, shared_dynamic_bytes: None, threads: None });
                entries.len() - 1
            });
            let entry = &mut entries[position];
            entry.shared_dynamic_bytes = entry.shared_dynamic_bytes.max(Some(launch.shared_bytes));
            entry.threads = entry.threads.max(Some(threads));
        }
        CompiledVariant { configuration, entries, code, verdict }
    }

    /// `fits`, or the verdict's label.
    pub fn outcome(&self) -> String {
        self.verdict.as_ref().map_or("fits".to_string(), Verdict::label)
    }

    /// Milliseconds of compiling all of its binaries; absent where there are none.
    fn compile_ms(&self) -> Option<f64> {
        let binaries = &self.code.binaries;
        (!binaries.is_empty()).then(|| binaries.iter().map(|binary| binary.compile_ms).sum())
    }

    /// Whether all of its binaries came from the cache; absent where there are none.
    fn is_cached(&self) -> Option<bool> {
        let binaries = &self.code.binaries;
        (!binaries.is_empty()).then(|| binaries.iter().all(|binary| binary.cached))
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
                "constants": entry.constants,
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
        // One binary for all problems is described by the variant's own fields.
        let only = self.code.binaries.first().filter(|_| self.code.binaries.len() == 1);
        let pairs = self.code.constants.iter().zip(&self.code.binaries);
        let binaries = pairs.map(|(constants, binary)| {
            json!({
                "constants": constants,
                "binary_hash": binary.hash,
                "code_hash": binary.code_hash,
                "path": binary.path,
                "compile_ms": binary.compile_ms,
                "cached": binary.cached,
                "log": binary.log,
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
            "binaries": binaries.collect::<Vec<_>>(),
            "binary_hash": only.map(|binary| &binary.hash),
            "code_hash": only.map(|binary| &binary.code_hash),
            "path": only.map(|binary| &binary.path),
            "toolchain": self.code.binaries.first().map(|binary| &binary.toolchain),
            "compile_ms": self.compile_ms(),
            "cached": self.is_cached(),
            "log": only.map(|binary| &binary.log),
        })
    }
}

/// Bytes stored and loaded by spills, if the compiler said.
fn spill_bytes(entry: &EntryResources) -> Option<u64> {
    Some(entry.spill_store_bytes? + entry.spill_load_bytes?)
}

impl EntryUse {
    /// Its name, with its constants where it has some: `attention_forward [CAUSAL=1]`.
    pub fn name(&self) -> String {
        match self.constants.is_empty() {
            true => self.resources.entry.clone(),
            false => format!("{} [{}]", self.resources.entry, self.constants),
        }
    }

    /// Registers, stack, spills, static and dynamic shared memory, threads; empty where unknown.
    pub fn cells(&self) -> [String; 6] {
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
        match variant.is_cached() {
            Some(true) => self.cached += 1,
            Some(false) => self.compiled += 1,
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

    /// The last object of a stream.
    pub fn json(&self, kernel: &str, arch: &str) -> serde_json::Value {
        json!({
            "kernel": kernel,
            "arch": arch,
            "variants": self.count,
            "fitting": self.fits,
            "spilling": self.spilling,
            "compiled": self.compiled,
            "cached": self.cached,
            "outcomes": self.outcomes,
        })
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
