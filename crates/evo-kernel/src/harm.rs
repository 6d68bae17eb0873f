//! Kernels made worse on purpose, one resource at a time, to see what binds them.
//!
//! A [`Pathology`] takes something away from any kernel: registers, resident blocks, a level of the compiler; `harm.toml` has
//! all of them. It comes in doses, so that a steep answer can be told from a flat one. What is harmed is a copy of the
//! kernel that nobody keeps: it is compared with the unharmed one and thrown away. A space file may declare further ones
//! (`[[diagnose]]`). A [`HarmPlan`] is either kind, made for one kernel on one device.

use std::sync::LazyLock;

use evo_protocol::device::{DeviceInfo, DeviceKind, EntryAttributes};
use evo_space::expr::Expr;
use evo_space::value::Value;
use minijinja::context;
use serde::Deserialize;

use crate::signature;
use crate::spec::{DiagnoseDose, DiagnoseSpec, KernelSpec, OptionSpec};
use crate::template::plain_environment;

#[derive(Debug, Deserialize)]
struct HarmFile {
    pathologies: Vec<Pathology>,
}

#[derive(Debug, Deserialize)]
pub struct Pathology {
    #[serde(flatten)]
    pub spec: DiagnoseSpec,
    /// By what else a change of this kind shows.
    shows_as: Option<String>,
    cuda: Option<DoseForm>,
    host: Option<DoseForm>,
    any: Option<DoseForm>,
}

/// Doses of a pathology that differ in a number, `n` of the texts.
#[derive(Debug, Deserialize)]
struct DoseForm {
    amounts: Vec<f64>,
    #[serde(default)]
    base: f64,
    step: f64,
    shown: String,
    #[serde(flatten)]
    change: HarmChange,
}

impl DoseForm {
    fn dose(&self, amount: f64) -> Dose {
        let n = (self.base + self.step * amount) as i64;
        let environment = plain_environment();
        let filled = |text: &String| {
            environment.render_str(text, context! { n }).expect("a template of evo's own finds its names")
        };
        let HarmChange { shared_bytes, option, line, entry } = &self.change;
        let [option, line, entry] = [option, line, entry].map(|text| text.as_ref().map(filled));
        let change = HarmChange { shared_bytes: *shared_bytes, option, line, entry };
        Dose { amount, shown: filled(&self.shown), change, ..Dose::default() }
    }
}

impl Pathology {
    /// All of them, in the order of `docs/INVERT.md`.
    pub fn all() -> &'static [Pathology] {
        static ALL: LazyLock<HarmFile> =
            LazyLock::new(|| toml::from_str(include_str!("harm.toml")).expect("a table of pathologies"));
        &ALL.pathologies
    }

    pub fn named(name: &str) -> Option<&'static Pathology> {
        Pathology::all().iter().find(|pathology| pathology.spec.name == name)
    }

    fn plan(&self, device: &DeviceInfo, attributes: &[EntryAttributes]) -> HarmPlan {
        let shows_as = self.shows_as.clone().unwrap_or_else(|| "machine code differs".to_string());
        HarmPlan { spec: self.spec.clone(), shows_as, doses: self.doses(device, attributes) }
    }

    fn doses(&self, device: &DeviceInfo, attributes: &[EntryAttributes]) -> Result<Vec<Dose>, String> {
        let is_gpu = device.kind == DeviceKind::Cuda;
        let form = if is_gpu { &self.cuda } else { &self.host };
        match (form.as_ref().or(self.any.as_ref()), self.spec.name.as_str()) {
            (Some(form), _) => Ok(form.amounts.iter().map(|amount| form.dose(*amount)).collect()),
            (None, "register_cap") if is_gpu => register_caps(attributes),
            (None, RESIDENT_BLOCKS) if is_gpu => resident_blocks(device, attributes),
            (None, _) => Err("only a GPU has it".to_string()),
        }
    }
}

/// A pathology of either kind, with the doses that a kernel gets on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct HarmPlan {
    pub spec: DiagnoseSpec,
    /// By what a change of this kind shows.
    pub shows_as: String,
    /// The smallest first, or why there are none here.
    pub doses: Result<Vec<Dose>, String>,
}

/// What `--only` may name.
pub fn names(kernel: &KernelSpec) -> Vec<&str> {
    let declared = kernel.diagnose.iter().map(|declared| declared.name.as_str());
    Pathology::all().iter().map(|pathology| pathology.spec.name.as_str()).chain(declared).collect()
}

/// Plans by their names, all where no name is given. `attributes` are those of each launch of the unharmed kernel on the
/// problem that is timed, read back from the device.
pub fn plans(
    kernel: &KernelSpec,
    device: &DeviceInfo,
    attributes: &[EntryAttributes],
    only: &[String],
) -> Vec<HarmPlan> {
    let generic = Pathology::all().iter().map(|pathology| pathology.plan(device, attributes));
    let mut plans: Vec<HarmPlan> = generic.chain(kernel.diagnose.iter().map(declared)).collect();
    plans.retain(|plan| only.is_empty() || only.contains(&plan.spec.name));
    plans
}

fn declared(spec: &DiagnoseSpec) -> HarmPlan {
    let dose = |(at, DiagnoseDose { set, define }): (usize, &DiagnoseDose)| {
        let shown = set.iter().map(|(name, value)| format!("{name}={value}"));
        let shown = shown.chain(define.iter().map(|(name, value)| format!("{name}={value}")));
        let shown = shown.collect::<Vec<_>>().join(" ");
        let (set, define) = (set.clone(), define.clone());
        Dose { amount: at as f64 + 1.0, shown, set, define, ..Dose::default() }
    };
    let doses = Ok(spec.doses.iter().enumerate().map(dose).collect());
    HarmPlan { spec: spec.clone(), shows_as: "machine code or launches differ".to_string(), doses }
}

const RESIDENT_BLOCKS: &str = "resident_blocks";
/// NVRTC takes no smaller cap.
const REGISTERS_MIN: u32 = 24;
/// What is left of a thread's registers.
const REGISTER_SHARES: [f64; 3] = [0.75, 0.5, 0.35];
/// Shared memory that the system keeps of each block (CUDA programming guide, compute capability 8.0 and later), bytes.
const SHARED_RESERVED: u64 = 1024;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dose {
    /// In units of the pathology.
    pub amount: f64,
    /// What was done, for people: `32 of 64 registers`.
    pub shown: String,
    change: HarmChange,
    /// Parameters that have another value.
    pub set: Vec<(String, Value)>,
    /// Macros that the compiler is given.
    define: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct HarmChange {
    /// One more option of the compiler.
    option: Option<String>,
    /// At least so many bytes of dynamic shared memory in each launch.
    shared_bytes: Option<u64>,
    /// A line before the source.
    line: Option<String>,
    /// A statement at the beginning of each `__global__` function.
    entry: Option<String>,
}

fn register_caps(attributes: &[EntryAttributes]) -> Result<Vec<Dose>, String> {
    let used = attributes.iter().filter_map(|own| own.registers).max().unwrap_or(0);
    let caps = REGISTER_SHARES.into_iter().map(|share| (f64::from(used) * share / 8.0).floor() as u32 * 8);
    let mut caps: Vec<u32> = caps.filter(|cap| *cap >= REGISTERS_MIN && *cap < used).collect();
    caps.dedup();
    if caps.is_empty() {
        return Err(format!("{used} registers a thread leave nothing to take away"));
    }
    let dose = |cap: u32| {
        let amount = (f64::from(used) / f64::from(cap)).log2();
        let change = HarmChange { option: Some(format!("--maxrregcount={cap}")), ..HarmChange::default() };
        Dose { amount, shown: format!("{cap} of {used} registers"), change, ..Dose::default() }
    };
    Ok(caps.into_iter().map(dose).collect())
}

fn resident_blocks(device: &DeviceInfo, attributes: &[EntryAttributes]) -> Result<Vec<Dose>, String> {
    let resident = attributes.iter().filter_map(|own| own.blocks_per_multiprocessor).max();
    let resident = resident.ok_or("the driver does not say how many blocks are resident")?;
    let fixed = attributes.iter().map(|own| own.shared_static_bytes).max().unwrap_or(0);
    let most = device.limits.shared_optin_bytes.saturating_sub(fixed);
    // A multiprocessor has what one block may have, and the system's part of it.
    let all = device.limits.shared_optin_bytes + SHARED_RESERVED;
    let mut targets: Vec<u32> = [2, 4, 8].into_iter().map(|part| resident / part).collect();
    targets.retain(|target| *target >= 1);
    targets.dedup();
    if targets.is_empty() {
        return Err("one block a multiprocessor is resident, and none can be taken away".to_string());
    }
    let dose = |target: u32| {
        let own = (all / u64::from(target)).saturating_sub(SHARED_RESERVED + fixed);
        let amount = (f64::from(resident) / f64::from(target)).log2();
        let change = HarmChange { shared_bytes: Some(own.min(most) / 128 * 128), ..HarmChange::default() };
        Dose { amount, shown: format!("{target} of {resident} resident blocks"), change, ..Dose::default() }
    };
    Ok(targets.into_iter().map(dose).collect())
}

pub fn apply(kernel: &mut KernelSpec, dose: &Dose) -> Result<(), String> {
    let HarmChange { option, shared_bytes, line, entry } = &dose.change;
    let macros = dose.define.iter().map(|(name, value)| format!("-D{name}={value}"));
    let options = option.clone().into_iter().chain(macros);
    kernel.options.extend(options.map(OptionSpec::plain));
    if let Some(bytes) = shared_bytes {
        for launch in &mut kernel.launches {
            let own = launch.shared_bytes.as_ref();
            let text = own.map_or(bytes.to_string(), |own| format!("max({}, {bytes})", own.text()));
            launch.shared_bytes = Some(Expr::parse(&text).map_err(|error| error.to_string())?);
        }
    }
    if let Some(statement) = entry {
        let bodies = signature::bodies(&kernel.source.text);
        if bodies.is_empty() {
            return Err("no `__global__` function with a body can be read in its source".to_string());
        }
        for at in bodies.into_iter().rev() {
            kernel.source.text.insert_str(at, statement);
        }
    }
    if let Some(line) = line {
        // Places in messages stay those of the file.
        kernel.source.text = format!("{line}\n#line 1\n{}", kernel.source.text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use evo_protocol::device::DeviceLimits;

    use super::*;

    fn doses(pathology: &str, kind: DeviceKind, registers: u32, blocks: u32) -> Result<Vec<Dose>, String> {
        let attributes = [EntryAttributes {
            registers: Some(registers),
            shared_static_bytes: 2048,
            blocks_per_multiprocessor: Some(blocks),
            ..EntryAttributes::default()
        }];
        let device = DeviceInfo {
            kind,
            arch: "sm_90a".into(),
            multiprocessors: 132,
            limits: DeviceLimits::of_arch("sm_90a").unwrap(),
            ..DeviceInfo::default()
        };
        let found = Pathology::named(pathology).unwrap().plan(&device, &attributes).doses?;
        assert!(found.iter().all(|dose| dose.amount > 0.0), "{found:?}");
        assert!(found.is_sorted_by(|one, next| one.amount < next.amount), "{found:?}");
        Ok(found)
    }

    #[test]
    fn every_device_has_its_doses() {
        let of = |name: &str, kind: DeviceKind, registers| {
            let row = |own: &Dose| format!("  {}: {:?}\n", own.shown, own.change);
            let found = doses(name, kind, registers, 8);
            let rows = found.map_or_else(|why| format!("  {why}\n"), |all| all.iter().map(row).collect());
            format!("{name} on {} with {registers} registers\n{rows}", kind.as_str())
        };
        let kinds = [DeviceKind::Cuda, DeviceKind::Host];
        let all = Pathology::all().iter().flat_map(|own| kinds.map(|kind| of(&own.spec.name, kind, 64)));
        let none = of("register_cap", DeviceKind::Cuda, 24);
        insta::assert_snapshot!(all.chain([none]).collect::<String>());
    }

    #[test]
    fn unused_shared_memory_leaves_as_many_blocks_as_it_should() {
        let found = doses(RESIDENT_BLOCKS, DeviceKind::Cuda, 64, 8).unwrap();
        for (dose, target) in found.iter().zip([4, 2, 1]) {
            assert_eq!(dose.shown, format!("{target} of 8 resident blocks"));
            let bytes = dose.change.shared_bytes.unwrap();
            // 228 KiB a multiprocessor, of which each block takes its own, its static part and 1 KiB.
            assert_eq!(228 * 1024 / (bytes + 2048 + 1024), target, "{dose:?}");
            assert!(bytes + 2048 <= 227 * 1024);
        }
        assert_eq!(found.len(), 3);
        assert!(doses(RESIDENT_BLOCKS, DeviceKind::Cuda, 64, 1).is_err());
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
