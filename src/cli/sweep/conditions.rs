//! The conditions of a sweep on a device, its inputs and its definition: what decides whether results outlive an edit, and
//! what names the edit.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::worker::CheckPlan;
use evo_space::genome::ContentHash;
use evo_space::space::SearchSpace;

use crate::cli::one_args::SandboxMode;
use crate::compile::CompileFarm;
use crate::compile::includes::FileReader;
use crate::compile::search_path::SearchPath;
use crate::journal::definition::Conditions;
use crate::journal::definition::{DefinedParameter, DefinedProblem, StudyDefinition};
use crate::journal::record::{InputRole, StudyInput};
use crate::kernel::render;
use crate::kernel::render::{render, render_prepare, render_reference};
use crate::kernel::spec::{
    ArgumentSpec, FillSpec, KernelSpec, OptionSpec, ProblemSpec, ReferenceSpec, SpaceFile,
};

const VALUES_MAX: usize = 256;

/// `gates` is the worker's, `references` is the machine code of a reference kernel.
pub struct JudgedUnder {
    pub gates: String,
    pub device: DeviceInfo,
    /// How the device is set up, as far as that changes its times.
    pub settings: BTreeMap<String, String>,
    pub sandbox: SandboxMode,
    pub sampling_max: Option<Duration>,
    pub kernel: KernelSpec,
    pub check: CheckPlan,
    pub references: Vec<ContentHash>,
    pub inputs: Vec<StudyInput>,
}

impl JudgedUnder {
    pub fn conditions(&self) -> Conditions {
        let mut conditions = Conditions::default();
        conditions.add("gates", self.gates.as_str());
        conditions.add("ranking", self.kernel.objective.ranking.as_str());
        // Where it is not, nothing is said, so that results from before there was the limit are still taken over.
        if let Some(most) = self.sampling_max {
            conditions.add("longest sampling", format!("{} ms", most.as_millis()));
        }
        self.add_device(&mut conditions);
        self.add_check(&mut conditions);
        self.add_inputs(&mut conditions);
        conditions
    }

    /// Results of one card hold for another one like it, and not for one that is set up otherwise.
    fn add_device(&self, conditions: &mut Conditions) {
        let device = &self.device;
        let is_host = device.kind == DeviceKind::Host;
        let memory = match is_host {
            // What the kernel keeps for itself varies from boot to boot.
            true => format!("{} GiB", device.memory_bytes.div_ceil(1 << 30)),
            false => device.memory_bytes.to_string(),
        };
        let rates = [device.bandwidth, device.flops_f32, device.flops_f16];
        let pairs = [
            ("device kind", device.kind.as_str().to_string()),
            ("device name", device.name.clone()),
            ("device arch", device.arch.clone()),
            ("device driver", device.driver.clone()),
            ("device multiprocessors", device.multiprocessors.to_string()),
            ("device memory", memory),
            ("device cache", device.l2_bytes.to_string()),
            ("device limits", serde_json::to_string(&device.limits).unwrap_or_default()),
            // From the clocks that the device may reach.
            ("device rates", format!("{rates:?}")),
        ];
        pairs.into_iter().for_each(|(name, value)| conditions.add(name, value));
        for (name, value) in &self.settings {
            conditions.add(format!("device {name}"), value.as_str());
        }
        if is_host {
            let fences = if self.sandbox == SandboxMode::On { "on" } else { "off" };
            conditions.add("sandbox", fences);
        }
    }

    /// The seed does not count: inputs are drawn anew by the same recipe.
    fn add_check(&self, conditions: &mut Conditions) {
        let check = serde_json::to_value(&self.check).unwrap_or_default();
        let settings = check.as_object().into_iter().flatten();
        for (name, value) in settings.filter(|(name, value)| *name != "seed" && !value.is_null()) {
            conditions.add(format!("check {name}"), value.to_string());
        }
        // Asked of the compiler's report, which is not there where a result is taken over by its source.
        if let Some(bytes) = self.kernel.check.spill_bytes_max {
            conditions.add("check spill_bytes_max", bytes.to_string());
        }
        for (position, hash) in self.references.iter().enumerate() {
            conditions.add(format!("reference code {position}"), hash.as_str());
        }
    }

    fn add_inputs(&self, conditions: &mut Conditions) {
        let has_kernel = matches!(self.kernel.check.reference, ReferenceSpec::Kernel { .. });
        for input in &self.inputs {
            match input.role {
                InputRole::Compiler => {
                    conditions.add("compiler", input.name.as_str());
                    conditions.add("compiler and its arguments", input.hash.as_str());
                }
                InputRole::Data => conditions.add(format!("input {}", input.name), input.hash.as_str()),
                // The machine code of a reference kernel says more than its text.
                InputRole::Reference if !has_kernel => {
                    conditions.add(format!("answers {}", input.name), input.hash.as_str());
                }
                // Part of every variant's own source.
                InputRole::Space | InputRole::Kernel | InputRole::Include | InputRole::Reference => {}
            }
        }
    }
}

pub fn definition(space: &SearchSpace, kernel: &KernelSpec, problems: &[&ProblemSpec]) -> StudyDefinition {
    let parameter = |one: &evo_space::space::Parameter| DefinedParameter {
        name: one.name.to_string(),
        values: match one.values.len() {
            0..=VALUES_MAX => one.values.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        },
        count: one.values.len(),
        default: one.default_value().to_string(),
    };
    let problem = |one: &&ProblemSpec| DefinedProblem {
        name: one.name.clone(),
        sizes: one.sizes.iter().map(|(name, size)| (name.clone(), size.to_string())).collect(),
        weight: one.weight,
        timed: one.timed,
    };
    StudyDefinition {
        parameters: space.parameters().iter().map(parameter).collect(),
        constraints: space.constraints().iter().map(|one| one.expr.text().to_string()).collect(),
        problems: problems.iter().map(problem).collect(),
        options: kernel.options.iter().map(OptionSpec::shown).collect(),
    }
}

/// The files and tools that decide what a study finds. Their hash is the study's `space_hash`: an edit of any of them begins
/// another study.
pub fn inputs(
    file: &SpaceFile,
    kernel: &KernelSpec,
    search: &SearchPath,
    farm: &CompileFarm,
) -> Vec<StudyInput> {
    let mut inputs = vec![
        text(InputRole::Space, &file.path, &file.text),
        text(InputRole::Kernel, &kernel.source.path, &kernel.source.text),
    ];
    if let Some(own) = &kernel.prepare {
        inputs.push(text(InputRole::Data, &own.source.path, &own.source.text));
    }
    match &kernel.check.reference {
        ReferenceSpec::Kernel { source, .. } => {
            inputs.push(text(InputRole::Reference, &source.path, &source.text));
        }
        ReferenceSpec::Npy { outputs } => {
            inputs.extend(outputs.values().map(|path| data(InputRole::Reference, path)));
        }
        ReferenceSpec::Command(own) => {
            inputs.extend(own.files.iter().map(|path| data(InputRole::Reference, path)));
        }
        ReferenceSpec::Builtin { .. } => {}
    }
    inputs.extend(kernel.arguments.iter().filter_map(|argument| match argument {
        ArgumentSpec::Buffer(buffer) => match &buffer.fill {
            FillSpec::Fixed(own) => own.file().map(|path| data(InputRole::Data, path)),
            _ => None,
        },
        ArgumentSpec::Scalar(_) | ArgumentSpec::TensorMap(_) => None,
    }));
    inputs.extend(included(file, kernel, search));
    let compiler = InputRole::Compiler;
    inputs.push(StudyInput {
        role: compiler,
        name: farm.toolchain().to_string(),
        hash: farm.compiler_hash(),
    });
    inputs
}

fn included(file: &SpaceFile, kernel: &KernelSpec, search: &SearchPath) -> Vec<StudyInput> {
    let mut texts = vec![(kernel.source.text.clone(), render::fixed(kernel))];
    // The template itself shows the directives of all variants, the default variant those that an
    // expression makes.
    texts.extend(
        render(kernel, &file.space.configuration(&file.space.default_genome()))
            .map(|source| (source.text, source.options)),
    );
    let of_task = render_reference(kernel).into_iter().chain(render_prepare(kernel));
    texts.extend(of_task.map(|source| (source.text, source.options)));
    let reader = FileReader::default();
    let mut found: Vec<StudyInput> = Vec::new();
    for (text, options) in texts {
        let scan = reader.scan(&text, &search.with_options(options));
        found.extend(scan.existing().map(|(path, hash)| StudyInput {
            role: InputRole::Include,
            name: path.display().to_string(),
            hash: hash.clone(),
        }));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup();
    found
}

fn text(role: InputRole, path: &Path, text: &str) -> StudyInput {
    StudyInput { role, name: path.display().to_string(), hash: ContentHash::of(text.as_bytes()) }
}

/// A file that cannot be read has the hash of no bytes, and the judge will complain of it.
fn data(role: InputRole, path: &Path) -> StudyInput {
    let hash = ContentHash::of(&fs::read(path).unwrap_or_default());
    StudyInput { role, name: path.display().to_string(), hash }
}

#[cfg(test)]
mod tests {
    use evo_protocol::device::DeviceLimits;

    use super::*;
    use crate::engine::recipe::KernelRecipe;
    use crate::journal::example as fake;
    use crate::kernel::catalog;

    fn conditions(seed: u64, change: impl FnOnce(&mut JudgedUnder)) -> Conditions {
        let kernel = catalog::open("gemm").unwrap().kernel.unwrap();
        let limits = DeviceLimits::of_arch("sm_90a").unwrap();
        let check = KernelRecipe::new(&kernel, limits, &[], None, seed).check;
        let input = |role, name: &str| StudyInput { role, name: name.into(), hash: ContentHash::of(b"1") };
        let mut judged = JudgedUnder {
            gates: "evo 1".into(),
            device: fake::header().device,
            settings: BTreeMap::new(),
            sandbox: SandboxMode::On,
            sampling_max: None,
            kernel,
            check,
            references: vec![ContentHash::of(b"reference")],
            inputs: vec![input(InputRole::Compiler, "c++ 12"), input(InputRole::Data, "x.npy")],
        };
        change(&mut judged);
        judged.conditions()
    }

    #[test]
    fn whatever_decides_a_verdict_is_a_condition() {
        let plain = conditions(1, |_| {});
        let check = |change: fn(&mut JudgedUnder), name: &str| {
            let changes = plain.changes(&conditions(1, change));
            assert!(changes.len() == 1 && changes[0].starts_with(name), "{name}: {changes:?}");
        };
        check(|parts| parts.gates = "evo 2".into(), "`gates`");
        check(|parts| parts.device.name = "other".into(), "`device name`");
        check(|parts| parts.device.driver = "other".into(), "`device driver`");
        check(|parts| parts.device.memory_bytes = 80 << 30, "`device memory`");
        check(|parts| parts.device.limits.shared_optin_bytes = 1, "`device limits`");
        check(|parts| parts.device.flops_f32 = Some(1e12), "`device rates`");
        check(|parts| parts.sandbox = SandboxMode::Off, "`sandbox`");
        check(|parts| parts.sampling_max = Some(Duration::from_millis(100)), "`longest sampling`");
        check(|parts| parts.check.rtol = Some(0.5), "`check rtol`");
        check(|parts| parts.check.seeds += 1, "`check seeds`");
        check(|parts| parts.check.families = vec!["normal".into()], "`check families`");
        check(|parts| parts.kernel.check.spill_bytes_max = Some(0), "`check spill_bytes_max`");
        check(|parts| parts.references[0] = ContentHash::of(b"other"), "`reference code 0`");
        check(|parts| parts.inputs[0].hash = ContentHash::of(b"2"), "`compiler and its arguments`");
        check(|parts| parts.inputs[1].hash = ContentHash::of(b"2"), "`input x.npy`");
    }

    #[test]
    fn another_seed_and_another_card_of_the_class_are_no_other_conditions() {
        let plain = conditions(1, |_| {});
        assert_eq!(plain.hash(), conditions(2, |_| {}).hash());
        assert_eq!(plain.hash(), conditions(1, |parts| parts.device.uuid = "another".into()).hash());
    }
}
