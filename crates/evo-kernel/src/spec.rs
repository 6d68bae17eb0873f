//! What a space file says about the kernel: plain values with expressions still in them, which `resolve` computes for
//! one configuration and one problem.
//!
//! Where constraints exclude the default, the nearest valid point takes its place and everybody is told: many a tuning
//! script has no default at all, and the first values of its parameters together are often not a configuration that can
//! run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evo_protocol::dtype::DType;
use evo_protocol::invert::MetricDirection;
use evo_protocol::measurement::RankingMode;
use evo_protocol::plan::{ComparedForm, Fill, Role};
use evo_protocol::tensor_map::{OutsideFill, Swizzle};
use evo_protocol::verdict::SanitizerCheck;
use evo_protocol::worker::{CommandReference, SpecialValues, TaskTolerance};
use evo_space::expr::Expr;
use evo_space::expr::tree::Relation;
use evo_space::genome::Configuration;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use evo_space::value::Value;
use serde::Deserialize;

use crate::apart::Renderer;

#[derive(Debug)]
pub struct SpaceFile {
    /// Where it came from; embedded spaces have a name such as `attention_simt`.
    pub path: PathBuf,
    pub text: String,
    /// Parameters and constraints. Where there is a kernel, the default is valid.
    pub space: SearchSpace,
    pub replaced_default: Option<ReplacedDefault>,
    /// The kernel; absent in a file that only describes a space.
    pub kernel: Option<KernelSpec>,
}

#[derive(Clone, Debug)]
pub struct KernelSpec {
    pub name: String,
    pub source: KernelText,
    pub options: Vec<OptionSpec>,
    /// Sizes and flags that are compile-time constants: one binary for each set of their values.
    pub specialize: Vec<String>,
    /// Its blocks stay on the device and take work by turns, so few of them are meant.
    pub is_persistent: bool,
    pub arguments: Vec<ArgumentSpec>,
    pub launches: Vec<LaunchSpec>,
    pub loops: Vec<LoopSpec>,
    pub prepare: Option<PrepareSpec>,
    pub problems: Vec<ProblemSpec>,
    pub check: CheckSpec,
    pub objective: ObjectiveSpec,
    pub goals: Option<GoalsSpec>,
    pub peers: Vec<PeerSpec>,
    pub diagnose: Vec<DiagnoseSpec>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DiagnoseSpec {
    pub name: String,
    /// What a kernel lacks that suffers from it.
    pub resource: String,
    pub unit: String,
    /// The opposite: what to try where it costs much.
    pub try_next: String,
    /// It takes work away instead: answers are wrong then, and the time is a bound for any cure.
    #[serde(default)]
    pub lightens: bool,
    /// Metrics of a profiler of which one moves where it happened; none where no metric goes one way for certain.
    #[serde(default)]
    pub moves: Vec<MetricEvidence>,
    /// The smallest first; at least one in a space file.
    #[serde(skip)]
    pub doses: Vec<DiagnoseDose>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MetricEvidence {
    pub metric: String,
    pub direction: MetricDirection,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DiagnoseDose {
    pub set: Vec<(String, Value)>,
    pub define: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerSpec {
    pub name: String,
    /// Program and arguments; empty for a peer that comes with evo.
    pub command: Vec<String>,
    pub folder: PathBuf,
    pub timeout_s: Option<f64>,
    /// The file that names it, with line and column.
    pub place: (PathBuf, u32, u32),
}

#[derive(Clone, Debug)]
pub struct KernelText {
    pub kind: SourceKind,
    pub path: PathBuf,
    pub text: String,
    pub renderer: Renderer,
}

/// A compiler option; its expressions may read parameters.
#[derive(Clone, Debug)]
pub struct OptionSpec {
    /// `--use_fast_math`, or the name of one with a value: `-maxrregcount`.
    pub text: String,
    pub value: Option<Expr>,
    pub when: Option<Expr>,
}

impl OptionSpec {
    pub fn plain(text: String) -> OptionSpec {
        OptionSpec { text, value: None, when: None }
    }

    /// The option as a person reads it: `-maxrregcount=<REGISTERS> where REGISTERS > 0`.
    pub fn shown(&self) -> String {
        let value = self.value.as_ref().map_or(String::new(), |value| format!("=<{}>", value.text()));
        let when = self.when.as_ref().map_or(String::new(), |when| format!(" where {}", when.text()));
        format!("{}{value}{when}", self.text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    Template,
    /// Plain source with macros.
    Plain,
    /// Plain source that stands in for a template: a candidate's own text, without macros.
    Given,
}

#[derive(Clone, Debug)]
pub enum ArgumentSpec {
    Buffer(BufferSpec),
    Scalar(ScalarSpec),
    /// A descriptor of a buffer's layout for the copy engine (TMA), passed by value.
    TensorMap(TensorMapSpec),
}

impl KernelSpec {
    pub fn buffers(&self) -> impl Iterator<Item = &BufferSpec> {
        self.arguments.iter().filter_map(ArgumentSpec::buffer)
    }

    pub fn scalars(&self) -> impl Iterator<Item = &ScalarSpec> {
        self.arguments
            .iter()
            .filter_map(|own| if let ArgumentSpec::Scalar(own) = own { Some(own) } else { None })
    }

    pub fn tensor_maps(&self) -> impl Iterator<Item = &TensorMapSpec> {
        self.arguments
            .iter()
            .filter_map(|own| if let ArgumentSpec::TensorMap(own) = own { Some(own) } else { None })
    }
}

/// Each once, in the order in which they first come.
pub fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// The names of entry points, each once, in order of first use.
pub(crate) fn entries<'l>(launches: impl IntoIterator<Item = &'l LaunchSpec>) -> Vec<String> {
    distinct(launches.into_iter().map(|launch| launch.entry.clone()))
}

impl ArgumentSpec {
    pub fn buffer(&self) -> Option<&BufferSpec> {
        if let ArgumentSpec::Buffer(buffer) = self { Some(buffer) } else { None }
    }

    /// Whether entry points take it: a buffer that lies in a variable of the module is not passed.
    pub fn is_passed(&self) -> bool {
        !matches!(self, ArgumentSpec::Buffer(BufferSpec { symbol: Some(_), .. }))
    }

    /// Whether a reference kernel may take it: no tensor map, whose buffer it has, and nothing that is prepared from what
    /// it has.
    pub(crate) fn is_for_reference(&self) -> bool {
        !matches!(self, ArgumentSpec::TensorMap(_)) && !self.buffer().is_some_and(BufferSpec::is_prepared)
    }

    /// Whether launches that prepare inputs may take it. Outputs and workspace hold nothing yet, and a tensor map describes
    /// what may not be there.
    pub(crate) fn is_for_prepare(&self) -> bool {
        !matches!(self, ArgumentSpec::TensorMap(_))
            && self.buffer().is_none_or(|buffer| buffer.role.is_read())
    }

    pub fn name(&self) -> &str {
        match self {
            ArgumentSpec::Buffer(buffer) => &buffer.name,
            ArgumentSpec::Scalar(scalar) => &scalar.name,
            ArgumentSpec::TensorMap(map) => &map.name,
        }
    }
}

#[derive(Clone, Debug)]
pub struct BufferSpec {
    pub name: String,
    pub dtype: DType,
    /// Extents, outermost first; expressions over parameters and problem sizes.
    pub shape: Vec<Expr>,
    pub role: Role,
    pub fill: FillSpec,
    /// The variable of the module that holds it during a call; without one it is passed as a pointer.
    pub symbol: Option<String>,
    pub view: Option<ViewSpec>,
}

/// What of an output is compared; ends and steps may read parameters and problem sizes.
#[derive(Clone, Debug)]
pub struct ViewSpec {
    /// One range for each extent, outermost first; all of the output when absent.
    pub region: Option<Vec<RangeSpec>>,
    pub form: ComparedForm,
    /// Along which elements are sorted or added up; all of them together when absent.
    pub axis: Option<usize>,
}

/// Positions along an axis as Python's slices give them; what is absent is 0, the extent, 1.
#[derive(Clone, Debug)]
pub struct RangeSpec {
    pub first: Option<Expr>,
    pub stop: Option<Expr>,
    pub step: Option<Expr>,
}

impl BufferSpec {
    pub fn is_prepared(&self) -> bool {
        matches!(self.fill, FillSpec::Fixed(Fill::Prepared))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum FillSpec {
    /// The same for every problem.
    Fixed(Fill),
    /// Uniform between two ends over problem sizes. The range is hard: no input family leaves it.
    Uniform { low: Expr, high: Expr, inclusive: bool },
}

#[derive(Clone, Debug)]
pub struct ScalarSpec {
    pub name: String,
    pub dtype: DType,
    pub value: Expr,
}

/// A tensor map. Lists go from the innermost dimension to the outermost and count elements; their expressions may
/// read parameters and problem sizes.
#[derive(Clone, Debug)]
pub struct TensorMapSpec {
    pub name: String,
    pub of: String,
    /// Extents of the tensor: 1 to 5.
    pub dims: Vec<Expr>,
    /// Distances between elements of each dimension but the first; dense when absent.
    pub strides: Option<Vec<Expr>>,
    /// Extents of the box that one copy moves, as many as `dims`.
    pub extents: Vec<Expr>,
    pub swizzle: SwizzleSpec,
    pub fill: OutsideFill,
}

/// How rows of a box are permuted in shared memory.
#[derive(Clone, Debug)]
pub enum SwizzleSpec {
    Fixed(Swizzle),
    /// An expression that gives one of the words, or the span in bytes (0 for none).
    Chosen(Expr),
}

/// The one that has a value's name, or its span.
pub fn swizzle_of(value: &Value) -> Option<Swizzle> {
    Swizzle::ALL.iter().copied().find(|own| match value {
        Value::Text(text) => **text == *own.as_str(),
        other => whole(other) == Ok(own.span()),
    })
}

/// One launch. All numbers are expressions over parameters and problem sizes.
#[derive(Clone, Debug)]
pub struct LaunchSpec {
    /// The `__global__` function's name (use `extern "C"` or give a plain name; no overloads).
    pub entry: String,
    /// Launched only where this holds (a combine pass only where there is more than one split).
    pub when: Option<Expr>,
    pub grid: Vec<Expr>,
    /// Threads in x, y, z; missing ones are 1.
    pub block: Vec<Expr>,
    pub shared_bytes: Option<Expr>,
    pub cluster: Option<Vec<Expr>>,
    pub cooperative: Option<Expr>,
    /// May start before its predecessor ends (programmatic dependent launch).
    pub programmatic: Option<Expr>,
    pub l2_persist: Option<L2PersistSpec>,
    /// What it is given, in order; all of `[[arguments]]` that are passed when absent.
    pub arguments: Option<Vec<PassedSpec>>,
    /// Position of its loop in `KernelSpec::loops`. The launches of a loop stand one after the other.
    pub in_loop: Option<usize>,
}

#[derive(Clone, Debug)]
pub enum PassedSpec {
    Named(String),
    Literal(ScalarSpec),
}

#[derive(Clone, Debug)]
pub struct LoopSpec {
    pub times: Expr,
    /// The name under which expressions of its launches read which time it is, from 0.
    pub index: Option<String>,
    /// Arguments that change places after each time, for all launches that follow.
    pub swap: Vec<[String; 2]>,
}

#[derive(Clone, Debug)]
pub struct PrepareSpec {
    pub source: KernelText,
    pub launches: Vec<LaunchSpec>,
    pub loops: Vec<LoopSpec>,
}

#[derive(Clone, Debug)]
pub struct L2PersistSpec {
    pub argument: String,
    /// Share of its accesses that are kept, 0 to 1; where it is 0 there is no window.
    pub ratio: Expr,
}

#[derive(Clone, Debug, Default)]
pub struct ProblemSpec {
    pub name: String,
    pub sizes: BTreeMap<String, Value>,
    pub weight: f64,
    pub timed: bool,
    /// Whether `evo evaluate` decides by it. All timed problems are canonical where the file marks none.
    pub canonical: bool,
    /// Whether it is checked (a timed problem always is).
    pub checked: bool,
    /// Only on this device kind (`host`, `cuda`), or on any.
    pub device: Option<String>,
    /// Whether only a command that names it runs it.
    pub on_request: bool,
}

impl ProblemSpec {
    /// A shape beside the problems of the file: checked, on any device, and never timed.
    pub(crate) fn small(name: String, sizes: BTreeMap<String, Value>) -> ProblemSpec {
        ProblemSpec { name, sizes, weight: 1.0, checked: true, ..ProblemSpec::default() }
    }

    /// The loader has refused sizes that are not whole.
    pub fn whole_sizes(&self) -> BTreeMap<String, i64> {
        self.sizes.iter().filter_map(|(name, value)| Some((name.clone(), whole(value).ok()?))).collect()
    }
}

#[derive(Clone, Debug)]
pub struct CheckSpec {
    pub reference: ReferenceSpec,
    /// Parameters on which the right answer depends, such as the layout of an output; the reference sees them.
    pub reference_parameters: Vec<String>,
    /// Absolute tolerance; by data type when absent.
    pub atol: Option<f64>,
    pub rtol: Option<f64>,
    /// Allowed multiple of a trusted same-dtype computation's error.
    pub trusted_factor: f64,
    /// The rule of the benchmark from which the kernel comes; it is reported and decides nothing.
    pub task: Option<TaskTolerance>,
    pub seeds: u32,
    pub tiny: TinySpec,
    /// By size: an expression over parameters and sizes; derived shapes keep to it.
    pub multiple_of: BTreeMap<String, Expr>,
    pub allow_state: bool,
    pub special_values: SpecialValues,
    pub deterministic: bool,
    pub repeats: u32,
    /// Input families by name (`normal`, `large`, `small`, `constant`, `ramp`, `spikes`); all of the
    /// default set when empty.
    pub families: Vec<String>,
    pub spill_bytes_max: Option<u64>,
    pub demands_sanitizer: bool,
    /// What compute-sanitizer checks of this kernel; never empty.
    pub sanitizers: Vec<SanitizerCheck>,
    pub has_host_twin: bool,
}

#[derive(Clone, Debug)]
pub enum TinySpec {
    /// evo derives them from sizes, grids and the configuration's tiles.
    Derived,
    /// Each overrides sizes of the first problem with expressions over parameters and sizes.
    Listed(Vec<BTreeMap<String, Expr>>),
    None,
}

#[derive(Clone, Debug)]
pub enum ReferenceSpec {
    /// A built-in fp64 function by name (`worker::judge::reference`), with its options.
    Builtin { name: String },
    /// A naive kernel run on the same device with the same arguments.
    Kernel {
        source: KernelText,
        /// Its launches, in order; their expressions read sizes and no parameters.
        launches: Vec<LaunchSpec>,
        loops: Vec<LoopSpec>,
        /// Sizes that its source reads by their names, without arguments.
        sizes: Vec<String>,
        /// Compiled with `REAL` as `double`; floating-point arguments are then double as well.
        real: bool,
    },
    /// A command of the task's that answers for any inputs, in `.npy` files.
    Command(CommandReference),
    /// Expected outputs in `.npy` files, by buffer name; only for the problem they were made for.
    Npy { outputs: BTreeMap<String, PathBuf> },
}

impl ReferenceSpec {
    /// A reference by command in one line: `python3 ref.py (command, answers in float64)`; nothing for others.
    pub fn command_line(&self) -> Option<String> {
        let ReferenceSpec::Command(own) = self else { return None };
        let words: Vec<_> = own.command.iter().map(|word| evo_space::text::quote(word)).collect();
        let dtype = if own.single { "float32" } else { "float64" };
        let serve = if own.serve { ", one process for many cases" } else { "" };
        Some(format!("{} (command, answers in {dtype}{serve})", words.join(" ")))
    }
}

#[derive(Clone, Debug, Default)]
pub struct ObjectiveSpec {
    pub ranking: RankingMode,
    /// Operations of one call, for TFLOP/s and the roofline; over parameters and sizes.
    pub flops: Option<Expr>,
    /// Compulsory bytes of one call, for GB/s and the roofline.
    pub bytes: Option<Expr>,
    /// Whether a variant that is slower than the default on one timed problem may rank first by its mean.
    pub allow_trade: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoalsSpec {
    pub faster_than: Vec<FasterGoal>,
    /// Its slowest calls must not be slower than the baseline's.
    pub p90_not_worse: bool,
    pub metrics: Vec<MetricGoal>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FasterGoal {
    pub peer: String,
    pub by: f64,
    pub problems: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MetricGoal {
    pub metric: String,
    pub relation: Relation,
    /// In the metric's own unit.
    pub bound: f64,
    pub text: String,
}

impl MetricGoal {
    pub fn holds(&self, value: f64) -> bool {
        self.relation.holds(value.partial_cmp(&self.bound)) == Some(true)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReplacedDefault {
    /// What the file states; it is not valid.
    pub stated: Configuration,
    pub taken: Configuration,
    pub violated: Vec<String>,
}

impl ReplacedDefault {
    /// Nothing changes where the default is valid already, or where no valid point is found.
    pub fn mend(space: SearchSpace) -> (SearchSpace, Option<ReplacedDefault>) {
        let stated = space.default_genome();
        if space.contains(&stated) {
            return (space, None);
        }
        // The seed breaks ties alone, so that a file has the same default in every run.
        let Some(nearest) = space.repair(&stated, &mut seeded(0)) else { return (space, None) };
        let violated = space.violations(&stated).iter().map(|one| one.expr.text().to_string()).collect();
        let (stated, taken) = (space.configuration(&stated), space.configuration(&nearest));
        (space.with_default(&nearest), Some(ReplacedDefault { stated, taken, violated }))
    }

    pub fn note(&self) -> String {
        let changed = self.stated.iter().zip(self.taken.iter()).filter(|(old, new)| old.1 != new.1);
        let changed: Vec<String> =
            changed.map(|((name, old), (_, new))| format!("{name}={new} instead of {old}")).collect();
        let violated: Vec<String> = self.violated.iter().map(|text| format!("`{text}`")).collect();
        let (violated, changed) = (violated.join(" and "), changed.join(", "));
        format!(
            "the default configuration violates {violated}, so the nearest valid point takes its place: {changed}"
        )
    }
}

/// A whole number, however it is written, or what it is instead.
pub fn whole(value: &Value) -> Result<i64, String> {
    match value {
        Value::Int(value) => Ok(*value),
        Value::Bool(value) => Ok(i64::from(*value)),
        // 2^63 is exact as a float; what lies below it in size fits.
        Value::Float(float) if float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0 => {
            Ok(*float as i64)
        }
        Value::Float(float) if float.is_finite() && float.fract() != 0.0 => {
            Err(format!("is {float}, not a whole number (hint: `//` divides whole numbers)"))
        }
        other => Err(format!("is {}, not a whole number of 64 bits", shown(other))),
    }
}

/// A value as a macro of C has it: booleans as 1 and 0, texts as they are.
pub(crate) fn in_c(value: &Value) -> String {
    if let Value::Bool(value) = value { u8::from(*value).to_string() } else { value.to_string() }
}

pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("the text `{text}`"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_valid_point_is_the_default() {
        let text =
            "constraints = ['A * B >= 8', 'A > 1']\n[parameters]\nA = [1, 2, 4, 8]\nB = [2, 4]\nC = [5, 6]\n";
        let space = || SearchSpace::parse(text).unwrap();
        let (own, replaced) = ReplacedDefault::mend(space());
        let replaced = replaced.unwrap();
        assert_eq!(own.configuration(&own.default_genome()), replaced.taken);
        assert!(own.contains(&own.default_genome()));
        assert_eq!(own.count(), space().count());
        assert_eq!(
            replaced.note(),
            "the default configuration violates `A * B >= 8` and `A > 1`, so the nearest valid point takes its \
             place: A=4 instead of 1"
        );
    }
}
