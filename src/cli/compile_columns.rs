//! The table of `evo compile`, printed row by row while the farm works. It fits the terminal: its columns are
//! chosen before the first row, by what the space and the target say.

use std::fmt::Write as _;

use evo_protocol::device::DeviceKind;
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;

use super::compile_table::CompiledVariant;
use crate::kernel::spec::KernelSpec;
use crate::kernel::specialize;
use crate::report::width::wrapped;

/// Blanks between columns.
const GAP: usize = 2;

/// Room for the verdict, whose length is not known before the last row: `static_reject:registers` and shorter.
const VERDICT_WIDTH: usize = 23;

/// The columns after parameters and entry: head, width, whether the host's compiler tells the number, and how
/// long the column stays when the table is too wide.
const NUMBERS: &[(&str, usize, bool, u8)] = &[
    ("regs", 4, false, 6),
    ("stack", 6, false, 1),
    ("spill", 6, false, 5),
    ("smem static", 11, false, 3),
    ("dynamic", 8, true, 4),
    ("threads", 7, true, 2),
];

/// Heads and widths; known before the first row, so that rows need not wait for the last.
pub struct ResourceColumns {
    parameters: Vec<(String, usize)>,
    entry_width: usize,
    /// Positions in `NUMBERS`.
    numbers: Vec<usize>,
    /// `NAME=value` of parameters that are the same in all rows and had no room.
    shared: Vec<String>,
    left_out: Vec<String>,
    width: usize,
}

impl ResourceColumns {
    /// Wide enough for every value of every parameter and every entry, and at most `width` characters in all.
    /// `only` is the configuration of a table with one variant.
    pub fn of(
        space: &SearchSpace,
        kernel: &KernelSpec,
        kind: DeviceKind,
        only: Option<&Configuration>,
        width: usize,
    ) -> ResourceColumns {
        let longest = |name: &str, values: &mut dyn Iterator<Item = usize>| {
            values.chain([name.len()]).max().unwrap_or(0)
        };
        let parameters = space.parameters().iter().map(|parameter| {
            let mut lengths = parameter.values.iter().map(|value| value.to_string().len());
            (parameter.name.to_string(), longest(&parameter.name, &mut lengths))
        });
        let fixed = space.parameters().iter().filter_map(|parameter| {
            let only = only.and_then(|configuration| configuration.get(&parameter.name));
            let single = parameter.values.first().filter(|_| parameter.values.len() == 1);
            Some((parameter.name.to_string(), only.or(single)?.to_string()))
        });
        // With their constants in brackets, as `EntryUse::name` gives them.
        let longest_set = specialize::of_kernel(kernel).iter().map(|own| own.to_string().len()).max();
        let brackets = longest_set.filter(|length| *length > 0).map_or(0, |length| length + 3);
        let mut entries = kernel.launches.iter().map(|launch| launch.entry.len() + brackets);
        let entry_width = longest("entry", &mut entries);
        let is_told = |at: &usize| kind != DeviceKind::Host || NUMBERS[*at].2;
        let numbers = (0..NUMBERS.len()).filter(is_told).collect();
        let (shared, left_out) = (Vec::new(), Vec::new());
        let columns = ResourceColumns {
            parameters: parameters.collect(),
            entry_width,
            numbers,
            shared,
            left_out,
            width,
        };
        columns.fitted(&fixed.collect::<Vec<_>>())
    }

    /// Gives up columns in the order of other tables: parameters that are the same in all rows move below, then
    /// numbers go, then the widest parameters.
    fn fitted(mut self, fixed: &[(String, String)]) -> ResourceColumns {
        if self.is_too_wide() {
            self.shared = fixed.iter().map(|(name, value)| format!("{name}={value}")).collect();
            self.parameters.retain(|(name, _)| !fixed.iter().any(|(own, _)| own == name));
        }
        while self.is_too_wide() {
            let least = (0..self.numbers.len()).min_by_key(|at| NUMBERS[self.numbers[*at]].3);
            let widest = (0..self.parameters.len()).max_by_key(|at| self.parameters[*at].1);
            match (least, widest) {
                (Some(at), _) => self.left_out.push(NUMBERS[self.numbers.remove(at)].0.to_string()),
                (None, Some(at)) => self.left_out.push(self.parameters.remove(at).0),
                (None, None) => break,
            }
        }
        self
    }

    fn is_too_wide(&self) -> bool {
        let parameters: usize = self.parameters.iter().map(|(_, width)| width + GAP).sum();
        let numbers: usize = self.numbers.iter().map(|at| NUMBERS[*at].1 + GAP).sum();
        parameters + self.entry_width + numbers + GAP + VERDICT_WIDTH > self.width
    }

    /// The line of heads.
    pub fn header(&self) -> String {
        let mut line = String::new();
        for (name, width) in &self.parameters {
            let _ = write!(line, "{name:>width$}  ");
        }
        let _ = write!(line, "{:<1$}", "entry", self.entry_width);
        for at in &self.numbers {
            let (name, width, ..) = NUMBERS[*at];
            let _ = write!(line, "  {name:>width$}");
        }
        line + "  verdict\n"
    }

    /// What the table leaves out, if it leaves out anything.
    pub fn footer(&self) -> String {
        let mut text = String::new();
        if !self.shared.is_empty() {
            text += &wrapped(&format!("same in all rows: {}", self.shared.join(", ")), self.width);
        }
        if !self.left_out.is_empty() {
            let list = self.left_out.join(", ");
            text += &wrapped(&format!("not shown in {} columns: {list}", self.width), self.width);
        }
        text
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
            text.push_str(&self.row(&head, &entry.name(), entry.cells(), &outcome));
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
        for at in &self.numbers {
            let cell = if cells[*at].is_empty() { "-" } else { &cells[*at] };
            let width = NUMBERS[*at].1;
            let _ = write!(line, "  {cell:>width$}");
        }
        format!("{line}  {outcome}\n")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evo_protocol::binary::{Binary, EntryResources};
    use evo_protocol::plan::ProblemPlan;
    use evo_protocol::specialization::Specialization;
    use evo_protocol::verdict::{Verdict, VerdictKind};
    use evo_space::genome::ContentHash;
    use evo_space::value::Value;
    use serde_json::json;

    use super::*;
    use crate::cli::compile_table::{CompileCounts, CompiledCode};

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
        let code = CompiledCode {
            constants: vec![Specialization::default()],
            binaries: binary.into_iter().collect(),
        };
        CompiledVariant::new(configuration, &[plan(1024, 128), plan(65_536, 64)], code, verdict)
    }

    fn columns(width: usize) -> ResourceColumns {
        let columns = ResourceColumns {
            parameters: vec![("BLOCK".to_string(), 5), ("mode".to_string(), 4)],
            entry_width: 5,
            numbers: (0..NUMBERS.len()).collect(),
            shared: Vec::new(),
            left_out: Vec::new(),
            width,
        };
        columns.fitted(&[("mode".to_string(), "xor".to_string())])
    }

    #[test]
    fn the_table_fits_the_terminal() {
        let variant = variant(None, None);
        let text = |width| {
            let columns = columns(width);
            format!("{}{}{}", columns.header(), columns.rows(&variant), columns.footer())
        };
        insta::assert_snapshot!(text(80), @r"
        BLOCK  entry  regs   spill  smem static   dynamic  verdict
           64  k         -       -            -     65536  fits
        same in all rows: mode=xor
        not shown in 80 columns: stack, threads
        ");
        insta::assert_snapshot!(text(40), @r"
        BLOCK  entry  verdict
           64  k      fits
        same in all rows: mode=xor
        not shown in 40 columns: stack, threads,
          smem static, dynamic, spill, regs
        ");
        for width in 40..120 {
            assert!(text(width).lines().all(|line| line.chars().count() <= width), "{width}");
        }
    }

    #[test]
    fn rows_show_the_largest_demand_and_failures_their_message() {
        let columns = columns(100);
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
