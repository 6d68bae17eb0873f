//! Kernels made worse on purpose, one resource at a time, to see what binds them.
//!
//! A [`Pathology`] takes something away from any kernel: registers, resident blocks, a level of the compiler. It comes in
//! doses, so that a steep answer can be told from a flat one. What is harmed is a copy of the kernel that nobody keeps: it
//! is compared with the unharmed one and thrown away. A space file may declare further ones (`[[diagnose]]`). A [`HarmPlan`] is
//! either kind, made for one kernel on one device.

use evo_protocol::device::{DeviceInfo, DeviceKind, EntryAttributes};
use evo_protocol::invert::MetricDirection;
use evo_space::expr::Expr;
use evo_space::value::Value;

use crate::signature;
use crate::spec::{DiagnoseDose, DiagnoseSpec, KernelSpec, LaunchSpec, MetricEvidence, OptionSpec};

/// Takes something away from any kernel.
#[derive(Clone, Copy, Debug)]
pub struct Pathology {
    /// As `--only` and files name it.
    pub name: &'static str,
    /// What a kernel lacks that suffers from it.
    resource: &'static str,
    /// One unit of its doses.
    unit: &'static str,
    /// By what a profiler sees that it happened; nothing where no metric goes one way for certain.
    pub moves: Option<(&'static str, MetricDirection)>,
    /// The opposite: what to try where it costs much.
    try_next: &'static str,
    doses: fn(&HarmFacts<'_>) -> Result<Vec<Dose>, String>,
}

impl Pathology {
    /// All of them, in the order of `docs/INVERT.md`.
    pub const ALL: [Pathology; 7] = [
        // Fewer registers a thread, so that values are spilled to local memory.
        Pathology {
            name: "register_cap",
            resource: "registers",
            unit: "halving of the registers a thread",
            moves: Some(("local_load_sectors", MetricDirection::Up)),
            try_next: "give threads more registers: fewer threads a block, a lower second argument of \
                       __launch_bounds__, a smaller tile a thread",
            doses: register_caps,
        },
        // Shared memory that nothing uses, so that fewer blocks are resident.
        Pathology {
            name: RESIDENT_BLOCKS,
            resource: "resident blocks that hide latency",
            unit: "halving of the resident blocks",
            moves: Some(("occupancy_percent", MetricDirection::Down)),
            try_next: "more resident blocks: less shared memory or fewer registers a block, smaller tiles; or more \
                       stages of loads in flight",
            doses: resident_blocks,
        },
        Pathology {
            name: "barriers",
            resource: "barriers",
            unit: "as many barriers again",
            moves: Some(("instructions", MetricDirection::Up)),
            try_next: "fewer barriers: warp-level synchronization, double buffering, larger steps between barriers",
            doses: |_| Ok(BARRIER_DOSES.into_iter().map(barriers).collect()),
        },
        // Loads of global memory that pass by the L1 cache.
        Pathology {
            name: "l1_bypass",
            resource: "reuse in the L1 cache",
            unit: "all loads",
            moves: Some(("l1_hit_percent", MetricDirection::Down)),
            try_next: "more reuse close by: staging in shared memory or registers, __ldg, neighboring threads on \
                       neighboring data",
            doses: |facts| {
                on_gpus(facts)?;
                let options = vec!["--ptxas-options=-dlcm=cg".to_string()];
                Ok(vec![Dose::of(1.0, "L2 only".to_string(), HarmChange::Options(options))])
            },
        },
        Pathology {
            name: "compiler_level",
            resource: "instruction scheduling",
            unit: "level of optimization",
            // Another schedule may have more instructions or fewer.
            moves: None,
            try_next: "unroll and reorder by hand what the compiler schedules; --use_fast_math",
            doses: |facts| Ok(levels(facts.device.kind)),
        },
        // A delay before the first statement of each block.
        Pathology {
            name: "entry_delay",
            resource: "the time until a block has begun its work",
            unit: "about 1 µs: 1800 cycles of a GPU, 500 steps of one thread on the host",
            moves: Some(("instructions", MetricDirection::Up)),
            try_next: "longer blocks: persistent blocks, more work a block, a shorter prologue, programmatic dependent \
                       launch",
            doses: |facts| Ok(ENTRY_DOSES.into_iter().map(|units| delay(units, facts.device.kind)).collect()),
        },
        // A branch at the beginning that splits each warp in two.
        Pathology {
            name: "divergent_entry",
            resource: "issue slots of the prologue",
            unit: "8 steps of each half of a warp",
            moves: Some(("threads_per_instruction", MetricDirection::Down)),
            try_next: "a shorter prologue: precomputed indices, fewer branches, more work a thread",
            doses: |facts| {
                Ok(ENTRY_DOSES.into_iter().map(|units| divergent(units, facts.device.kind)).collect())
            },
        },
    ];

    pub fn named(name: &str) -> Option<Pathology> {
        Pathology::ALL.into_iter().find(|pathology| pathology.name == name)
    }

    fn plan(&self, facts: &HarmFacts<'_>) -> HarmPlan {
        let [name, resource, unit, try_next] =
            [self.name, self.resource, self.unit, self.try_next].map(String::from);
        let moves = self.moves.map(|(metric, direction)| MetricEvidence::of(metric, direction));
        let moves = moves.into_iter().collect();
        let shows_as = match self.name {
            RESIDENT_BLOCKS => "the driver counts fewer resident blocks",
            _ => "machine code differs",
        };
        let spec = DiagnoseSpec { name, resource, unit, try_next, lightens: false, moves, doses: Vec::new() };
        HarmPlan { spec, shows_as, doses: (self.doses)(facts) }
    }
}

/// A pathology of either kind, with the doses that a kernel gets on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct HarmPlan {
    pub spec: DiagnoseSpec,
    /// By what a change of this kind shows.
    pub shows_as: &'static str,
    /// The smallest first, or why there are none here.
    pub doses: Result<Vec<Dose>, String>,
}

/// What `--only` may name.
pub fn names(kernel: &KernelSpec) -> Vec<&str> {
    let declared = kernel.diagnose.iter().map(|declared| declared.name.as_str());
    Pathology::ALL.into_iter().map(|pathology| pathology.name).chain(declared).collect()
}

/// Plans by their names, all where no name is given.
pub fn plans(kernel: &KernelSpec, facts: &HarmFacts<'_>, only: &[String]) -> Vec<HarmPlan> {
    let generic = Pathology::ALL.iter().map(|pathology| pathology.plan(facts));
    let mut plans: Vec<HarmPlan> = generic.chain(kernel.diagnose.iter().map(declared)).collect();
    plans.retain(|plan| only.is_empty() || only.contains(&plan.spec.name));
    plans
}

fn declared(spec: &DiagnoseSpec) -> HarmPlan {
    let dose = |(at, DiagnoseDose { set, define }): (usize, &DiagnoseDose)| {
        let shown = set.iter().map(|(name, value)| format!("{name}={value}"));
        let shown = shown.chain(define.iter().map(|(name, value)| format!("{name}={value}")));
        let shown = shown.collect::<Vec<_>>().join(" ");
        let options = define.iter().map(|(name, value)| format!("-D{name}={value}")).collect();
        Dose { amount: at as f64 + 1.0, shown, change: HarmChange::Options(options), set: set.clone() }
    };
    let doses = Ok(spec.doses.iter().enumerate().map(dose).collect());
    HarmPlan { spec: spec.clone(), shows_as: "machine code or launches differ", doses }
}

const RESIDENT_BLOCKS: &str = "resident_blocks";
/// Barriers that are added to each.
const BARRIER_DOSES: [u32; 3] = [1, 2, 4];
const ENTRY_DOSES: [f64; 3] = [0.5, 1.0, 2.0];
/// One unit of a delay, about a microsecond: cycles of a GPU's clock, or steps of a counter in memory on a processor.
const CYCLES_CUDA: f64 = 1800.0;
const STEPS_HOST: f64 = 500.0;
/// Steps of one unit of a divergent entry.
const DIVERGENT_STEPS: f64 = 8.0;
/// NVRTC takes no smaller cap.
const REGISTERS_MIN: u32 = 24;
/// What is left of a thread's registers.
const REGISTER_SHARES: [f64; 3] = [0.75, 0.5, 0.35];
/// Shared memory that the system keeps of each block (CUDA programming guide, compute capability 8.0 and later), bytes.
const SHARED_RESERVED: u64 = 1024;

/// What is known of the unharmed kernel: of its launches on the problem that is timed.
#[derive(Clone, Copy, Debug)]
pub struct HarmFacts<'a> {
    pub device: &'a DeviceInfo,
    /// Of each launch, read back from the device.
    pub attributes: &'a [EntryAttributes],
}

#[derive(Clone, Debug, PartialEq)]
pub struct Dose {
    /// In units of the pathology.
    pub amount: f64,
    /// What was done, for people: `32 of 64 registers`.
    pub shown: String,
    pub change: HarmChange,
    /// Parameters that have another value.
    pub set: Vec<(String, Value)>,
}

impl Dose {
    fn of(amount: f64, shown: String, change: HarmChange) -> Dose {
        Dose { amount, shown, change, set: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum HarmChange {
    Options(Vec<String>),
    /// At least so many bytes of dynamic shared memory in each launch.
    SharedBytes(u64),
    /// A line before the source.
    Line(String),
    /// A statement at the beginning of each `__global__` function.
    Entry(String),
}

fn on_gpus(facts: &HarmFacts<'_>) -> Result<(), String> {
    match facts.device.kind {
        DeviceKind::Cuda => Ok(()),
        DeviceKind::Host | DeviceKind::Replay => Err("only a GPU has it".to_string()),
    }
}

fn register_caps(facts: &HarmFacts<'_>) -> Result<Vec<Dose>, String> {
    on_gpus(facts)?;
    let used = facts.attributes.iter().filter_map(|own| own.registers).max().unwrap_or(0);
    let caps = REGISTER_SHARES.into_iter().map(|share| (f64::from(used) * share / 8.0).floor() as u32 * 8);
    let mut caps: Vec<u32> = caps.filter(|cap| *cap >= REGISTERS_MIN && *cap < used).collect();
    caps.dedup();
    if caps.is_empty() {
        return Err(format!("{used} registers a thread leave nothing to take away"));
    }
    let dose = |cap: u32| {
        let change = HarmChange::Options(vec![format!("--maxrregcount={cap}")]);
        Dose::of((f64::from(used) / f64::from(cap)).log2(), format!("{cap} of {used} registers"), change)
    };
    Ok(caps.into_iter().map(dose).collect())
}

fn resident_blocks(facts: &HarmFacts<'_>) -> Result<Vec<Dose>, String> {
    on_gpus(facts)?;
    let resident = facts.attributes.iter().filter_map(|own| own.blocks_per_multiprocessor).max();
    let resident = resident.ok_or("the driver does not say how many blocks are resident")?;
    let fixed = facts.attributes.iter().map(|own| own.shared_static_bytes).max().unwrap_or(0);
    let most = facts.device.limits.shared_optin_bytes.saturating_sub(fixed);
    // A multiprocessor has what one block may have, and the system's part of it.
    let all = facts.device.limits.shared_optin_bytes + SHARED_RESERVED;
    let mut targets: Vec<u32> = [2, 4, 8].into_iter().map(|part| resident / part).collect();
    targets.retain(|target| *target >= 1);
    targets.dedup();
    if targets.is_empty() {
        return Err("one block a multiprocessor is resident, and none can be taken away".to_string());
    }
    let dose = |target: u32| {
        let own = (all / u64::from(target)).saturating_sub(SHARED_RESERVED + fixed);
        let amount = (f64::from(resident) / f64::from(target)).log2();
        let change = HarmChange::SharedBytes(own.min(most) / 128 * 128);
        Dose::of(amount, format!("{target} of {resident} resident blocks"), change)
    };
    Ok(targets.into_iter().map(dose).collect())
}

/// The macro's own name is not replaced within it, so each mention is the real barrier.
fn barriers(further: u32) -> Dose {
    let times = further as usize + 1;
    let all = vec!["__syncthreads()"; times].join(", ");
    let change = HarmChange::Line(format!("#define __syncthreads() ({all})"));
    Dose::of(f64::from(further), format!("each barrier {times} times"), change)
}

fn levels(kind: DeviceKind) -> Vec<Dose> {
    let dose = |(amount, level): (f64, u32)| {
        let change = match kind {
            DeviceKind::Cuda => HarmChange::Options(vec![format!("--ptxas-options=-O{level}")]),
            DeviceKind::Host | DeviceKind::Replay => {
                HarmChange::Line(format!("#pragma GCC optimize (\"O{level}\")"))
            }
        };
        Dose::of(amount, format!("level {level}"), change)
    };
    // At level 0 nothing stays in registers, which slows every kernel alike and tells nothing.
    let levels: &[(f64, u32)] = match kind {
        DeviceKind::Cuda => &[(1.0, 2), (2.0, 1)],
        // The host device compiles at level 2.
        DeviceKind::Host | DeviceKind::Replay => &[(1.0, 1)],
    };
    levels.iter().copied().map(dose).collect()
}

/// On a GPU by its clock: compilers there take a counter out of memory and its loop away, `volatile` or not. On the host by
/// such a counter, because gates hold the clock.
fn delay(units: f64, kind: DeviceKind) -> Dose {
    let (amount, what, wait) = match kind {
        DeviceKind::Cuda => {
            let cycles = units * CYCLES_CUDA;
            let wait = format!(
                "unsigned evo_t = (unsigned)clock(); while ((unsigned)clock() - evo_t < {cycles:.0}u) {{}}"
            );
            (cycles, "cycles", wait)
        }
        DeviceKind::Host | DeviceKind::Replay => {
            let steps = units * STEPS_HOST;
            (steps, "steps", counted("evo_t", steps))
        }
    };
    let first = "threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0";
    let change = format!(" if ({first}) {{ {wait} }} __syncthreads(); ");
    let shown = format!("{amount:.0} {what} at the beginning of each block");
    Dose::of(units, shown, HarmChange::Entry(change))
}

/// One half of each warp after the other; on a GPU a step reads the clock, for the same reason.
fn divergent(units: f64, kind: DeviceKind) -> Dose {
    let steps = units * DIVERGENT_STEPS;
    let half = |name: &str| match kind {
        DeviceKind::Cuda => format!(
            "unsigned {name}; for (unsigned evo_k = 0; evo_k < {steps:.0}u; ++evo_k) \
             asm volatile(\"mov.u32 %0, %%clock;\" : \"=r\"({name}));"
        ),
        DeviceKind::Host | DeviceKind::Replay => counted(name, steps),
    };
    let (even, odd) = (half("evo_even"), half("evo_odd"));
    let change = format!(" if ((threadIdx.x & 1u) == 0u) {{ {even} }} else {{ {odd} }} ");
    let shown = format!("{steps:.0} steps of each half of a warp");
    Dose::of(units, shown, HarmChange::Entry(change))
}

/// A counter that the host's compiler has to keep in memory.
fn counted(name: &str, steps: f64) -> String {
    format!("volatile unsigned {name} = {steps:.0}u; while ({name} != 0u) {name} = {name} - 1u;")
}

pub fn apply(kernel: &mut KernelSpec, change: &HarmChange) -> Result<(), String> {
    match change {
        HarmChange::Options(options) => {
            let own = options.iter().map(|text| OptionSpec { text: text.clone(), value: None, when: None });
            kernel.options.extend(own);
        }
        HarmChange::SharedBytes(bytes) => {
            for launch in &mut kernel.launches {
                launch.shared_bytes = Some(at_least(launch, *bytes)?);
            }
        }
        // Places in messages stay those of the file.
        HarmChange::Line(line) => {
            kernel.source.text = format!("{line}\n#line 1\n{}", kernel.source.text);
        }
        HarmChange::Entry(statement) => {
            let bodies = signature::bodies(&kernel.source.text);
            if bodies.is_empty() {
                return Err("no `__global__` function with a body can be read in its source".to_string());
            }
            for at in bodies.into_iter().rev() {
                kernel.source.text.insert_str(at, statement);
            }
        }
    }
    Ok(())
}

fn at_least(launch: &LaunchSpec, bytes: u64) -> Result<Expr, String> {
    let text = match &launch.shared_bytes {
        Some(own) => format!("max({}, {bytes})", own.text()),
        None => bytes.to_string(),
    };
    Expr::parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use evo_protocol::device::DeviceLimits;

    use super::*;

    fn device(kind: DeviceKind) -> DeviceInfo {
        DeviceInfo {
            kind,
            arch: "sm_90a".into(),
            multiprocessors: 132,
            limits: DeviceLimits::of_arch("sm_90a").unwrap(),
            ..DeviceInfo::default()
        }
    }

    fn shown(pathology: &str, kind: DeviceKind, registers: u32, blocks: u32) -> Result<Vec<String>, String> {
        let attributes = [EntryAttributes {
            registers: Some(registers),
            shared_static_bytes: 2048,
            blocks_per_multiprocessor: Some(blocks),
            ..EntryAttributes::default()
        }];
        let device = device(kind);
        let facts = HarmFacts { device: &device, attributes: &attributes };
        let found = Pathology::named(pathology).unwrap().plan(&facts).doses?;
        assert!(found.iter().all(|dose| dose.amount > 0.0), "{found:?}");
        assert!(found.is_sorted_by(|one, next| one.amount < next.amount), "{found:?}");
        Ok(found.into_iter().map(|dose| dose.shown).collect())
    }

    #[test]
    fn registers_are_taken_away_as_far_as_there_are_any() {
        let caps = shown("register_cap", DeviceKind::Cuda, 64, 8).unwrap();
        assert_eq!(caps, ["48 of 64 registers", "32 of 64 registers"]);
        let none = shown("register_cap", DeviceKind::Cuda, 24, 8).unwrap_err();
        assert_eq!(none, "24 registers a thread leave nothing to take away");
        assert_eq!(shown("register_cap", DeviceKind::Host, 64, 8).unwrap_err(), "only a GPU has it");
    }

    #[test]
    fn unused_shared_memory_leaves_as_many_blocks_as_it_should() {
        let found = shown(RESIDENT_BLOCKS, DeviceKind::Cuda, 64, 8).unwrap();
        assert_eq!(found, ["4 of 8 resident blocks", "2 of 8 resident blocks", "1 of 8 resident blocks"]);
        let device = device(DeviceKind::Cuda);
        let attributes = [EntryAttributes {
            shared_static_bytes: 2048,
            blocks_per_multiprocessor: Some(8),
            ..EntryAttributes::default()
        }];
        let facts = HarmFacts { device: &device, attributes: &attributes };
        for (dose, target) in resident_blocks(&facts).unwrap().iter().zip([4, 2, 1]) {
            let HarmChange::SharedBytes(bytes) = dose.change else { panic!("{dose:?}") };
            // 228 KiB a multiprocessor, of which each block takes its own, its static part and 1 KiB.
            assert_eq!(228 * 1024 / (bytes + 2048 + 1024), target, "{dose:?}");
            assert!(bytes + 2048 <= 227 * 1024);
        }
        assert!(shown(RESIDENT_BLOCKS, DeviceKind::Cuda, 64, 1).is_err());
    }

    #[test]
    fn every_device_has_the_pathologies_of_the_source() {
        for kind in [DeviceKind::Cuda, DeviceKind::Host] {
            for own in ["barriers", "entry_delay", "divergent_entry"] {
                assert_eq!(shown(own, kind, 64, 8).unwrap().len(), 3, "{own}");
            }
        }
    }

    const SOURCE: &str = "template <int N>\n__global__ void __launch_bounds__({{ THREADS }}) {{ prefix }}_one(float* x) {\n\
                          x[0] = N;\n}\n__global__ void declared(int);\nextern \"C\" __global__ void two() { }\n";

    #[test]
    fn statements_come_first_in_every_body() {
        let mut text = SOURCE.to_string();
        for at in signature::bodies(SOURCE).into_iter().rev() {
            text.insert(at, '@');
        }
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("_one(float* x) {@"), "{text}");
        assert_eq!(lines[5], "extern \"C\" __global__ void two() {@ }");
        assert_eq!(text.matches('@').count(), 2);
    }
}
