//! What the commands that run kernels share: a device's compilers and limits, the recipe of a kernel on it, and its worker:
//! what it is told, evo's own kernels for it, and why it does not start.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use evo_device::cuda::SUPPORT_SOURCE;
use evo_device::host::RoomOptions;
use evo_device::probe::{self, DeviceChoice};
use evo_protocol::binary::{Binary, CompileOutcome, KernelSource};
use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::envelope::{CommandEnvelope, ErrorCode};
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_protocol::worker::ReferenceKernels;
use evo_space::SpaceWatch;
use evo_space::explain::conflict;
use serde_json::{Value, json};

use super::limits::Limits;
use super::one_args::{RunArgs, SandboxMode};
use super::{Call, CliError, Result};
use crate::compile::WarmCompiler;
use crate::compile::search_path::SearchPath;
use crate::compile::toolbox::Toolbox;
use crate::compile::{self, CompileSetupError, FarmOptions, VariantOutcome, compile_one, with_constants};
use crate::engine::candidate::ResolvedCandidate;
use crate::engine::recipe::{KernelRecipe, problems_on};
use crate::kernel::render::{render_prepare, render_reference, render_single_reference};
use crate::kernel::spec::{KernelSpec, ProblemSpec, ReferenceSpec, SpaceFile};
use crate::process::{self, worker_program};
use crate::supervise::lane::{Lane, LaneError, LaneLimits, LaneOptions};
use crate::worker::judge::on_device;
use crate::worker::serve;

/// A device and the compilers for it, neither started yet.
#[derive(Clone, Debug)]
pub struct DeviceSetup {
    pub choice: DeviceChoice,
    pub farm: FarmOptions,
    pub sandbox: SandboxMode,
    pub limits: LaneLimits,
    pub warm: Option<Arc<WarmCompiler>>,
    /// What starts a worker in place of evo's own, split at spaces.
    pub worker_command: Option<String>,
}

impl DeviceSetup {
    pub fn device_name(&self) -> String {
        self.choice.name.clone().unwrap_or_else(|| self.choice.spec.clone())
    }

    pub fn fenced(self, sandbox: SandboxMode) -> DeviceSetup {
        DeviceSetup { sandbox, ..self }
    }

    pub fn within(mut self, limits: &Limits) -> DeviceSetup {
        self.farm.deadline = limits.compile;
        self.limits.step_max = Some(limits.device);
        self.limits.sampling_max = limits.sampling;
        self
    }

    pub fn compile(&self, source: KernelSource) -> Result<CompileOutcome, CompileSetupError> {
        let left = self.limits.until.map(|until| until.saturating_duration_since(Instant::now()));
        let deadline = left.map_or(self.farm.deadline, |left| left.min(self.farm.deadline));
        let outcome = match &self.warm {
            Some(warm) => warm.compile(&source, Some(deadline)),
            None => compile_one(&FarmOptions { deadline, ..self.farm.clone() }, source)?,
        };
        let is_late = deadline < self.farm.deadline;
        Ok(outcome.map_err(|verdict| match verdict.kind {
            VerdictKind::CompileTimeout if is_late => {
                let message = "the time by which an answer was wanted was over before it was compiled";
                Box::new(Verdict::new(VerdictKind::Interrupted, message))
            }
            _ => verdict,
        }))
    }

    fn compile_side_by_side(
        &self,
        sources: &[KernelSource],
    ) -> Vec<Result<CompileOutcome, CompileSetupError>> {
        side_by_side(sources, |source| self.compile(source.clone()))
    }

    pub fn compile_all(&self, sources: &[KernelSource]) -> Result<VariantOutcome, CompileSetupError> {
        if let [only] = sources {
            return Ok(self.compile(only.clone())?.map(|own| vec![own]));
        }
        let jobs = self.farm.jobs.clamp(1, sources.len().max(1));
        let mut binaries = Vec::new();
        for some in sources.chunks(jobs) {
            let outcomes = self.compile_side_by_side(some);
            for (source, outcome) in some.iter().zip(outcomes) {
                match with_constants(source, outcome?) {
                    Ok(binary) => binaries.push(binary),
                    Err(verdict) => return Ok(Err(verdict)),
                }
            }
        }
        Ok(Ok(binaries))
    }
}

/// What is made of each item, in threads. Where this machine starts no more of them, one is made after the other.
pub fn side_by_side<T: Sync, R: Send>(items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let make = &make;
    thread::scope(|scope| {
        let begin =
            |item| thread::Builder::new().spawn_scoped(scope, move || make(item)).map_err(|_| make(item));
        let begun: Vec<_> = items.iter().map(begin).collect();
        let ended = begun.into_iter().map(|begun| match begun {
            Ok(running) => running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(made) => made,
        });
        ended.collect()
    })
}

pub fn setup(device: &str) -> Result<DeviceSetup> {
    Ok(setup_on(probe::choose(device)?))
}

pub fn setup_on(choice: DeviceChoice) -> DeviceSetup {
    DeviceSetup {
        farm: FarmOptions::new(choice.kind, &choice.arch),
        choice,
        sandbox: SandboxMode::On,
        limits: LaneLimits::default(),
        warm: None,
        worker_command: None,
    }
}

/// The same for a command that runs candidates, within its limits.
pub fn setup_for(run: &RunArgs) -> Result<DeviceSetup> {
    let setup = setup(&run.device)?.fenced(run.sandbox).within(&run.limits);
    Ok(DeviceSetup { worker_command: run.worker_command.clone(), ..setup })
}

/// The kernel of a space file, if the file has one and the space has points.
pub fn kernel_of(file: &SpaceFile) -> Result<&KernelSpec> {
    let shown = file.path.display();
    let kernel = kernel_to(file, "run").map_err(|error| {
        error.with_hint(format!(
            "add `[kernel]`, `[[arguments]]`, `[[launches]]` and `[[problems]]`, or look at it with `evo space \
             {shown}`"
        ))
    })?;
    if file.space.count() == 0 {
        let (parameters, constraints) = (file.space.parameters(), file.space.constraints());
        let culprits = conflict(parameters, constraints, &SpaceWatch::default());
        let list: Vec<String> =
            culprits.iter().map(|at| format!("`{}`", constraints[*at].expr.text())).collect();
        let list = if list.is_empty() { "all constraints together".to_string() } else { list.join(" and ") };
        return Err(CliError::usage(format!("`{shown}` has no valid point"))
            .with_hint(format!("no combination of values satisfies {list}")));
    }
    Ok(kernel)
}

/// The kernel of a space file, which there must be to do `what` to it.
pub fn kernel_to<'a>(file: &'a SpaceFile, what: &str) -> Result<&'a KernelSpec> {
    file.kernel.as_ref().ok_or_else(|| {
        let shown = file.path.display();
        CliError::usage(format!("`{shown}` describes a space without a kernel: there is nothing to {what}"))
    })
}

/// The problems to run, in the file's order: those that `names` has, or all that nobody has to ask for.
pub fn problems<'a>(
    kernel: &'a KernelSpec,
    kind: DeviceKind,
    names: &[String],
) -> Result<Vec<&'a ProblemSpec>> {
    let all = problems_on(kernel, kind);
    let known = all.iter().map(|problem| problem.name.as_str());
    let list = known.clone().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = names.iter().find(|name| !known.clone().any(|own| own == name.as_str())) {
        let text = format!("`{}` has no problem `{unknown}` on {}", kernel.name, kind.as_str());
        return Err(CliError::usage(text).with_hint(format!("there are {list}")));
    }
    let is_asked = |own: &&ProblemSpec| names.contains(&own.name) || names.is_empty() && !own.on_request;
    let chosen: Vec<&ProblemSpec> = all.into_iter().filter(is_asked).collect();
    if !chosen.iter().any(|problem| problem.timed) {
        let text = format!("`{}` has no timed problem on {}", kernel.name, kind.as_str());
        let hint = "add one to `[[problems]]`, or name another with `--problem`";
        return Err(CliError::usage(text).with_hint(hint));
    }
    Ok(chosen)
}

/// A recipe for a kernel on a device; compiles the task's own kernels.
pub fn recipe<'a>(
    kernel: &'a KernelSpec,
    problems: &[&'a ProblemSpec],
    setup: &DeviceSetup,
    info: &DeviceInfo,
    seed: u64,
) -> Result<KernelRecipe<'a>> {
    let [reference, single, prepare] = task_kernels(kernel, setup);
    let of_task = |what: &str, compiled: Option<CompiledTask>| {
        compiled.map(|compiled| of_task(kernel, what, compiled)).transpose()
    };
    let reference = of_task("reference kernel", reference)?;
    let prepare = of_task("preparing kernel", prepare)?;
    // Where it does not compile in single precision, there are the answers in double precision all the same.
    let single = single.map(|(_, outcome)| outcome).transpose()?.and_then(Result::ok);
    let recipe = KernelRecipe::new(kernel, info.limits.clone(), problems, reference, seed);
    let mut recipe = recipe.with_single(single.as_ref()).preparing(prepare).on_device(info);
    recipe.search = search(setup);
    Ok(recipe)
}

/// A kernel of the task's, compiled or not, with its entries.
type CompiledTask = (Vec<String>, Result<CompileOutcome, CompileSetupError>);

/// The task's own kernels, compiled side by side: the naive reference, the same in single precision, and what prepares
/// inputs; none of those that it does not have.
pub fn task_kernels(kernel: &KernelSpec, setup: &DeviceSetup) -> [Option<CompiledTask>; 3] {
    let sources = [render_reference(kernel), render_single_reference(kernel), render_prepare(kernel)];
    let given: Vec<KernelSource> = sources.iter().flatten().cloned().collect();
    let mut outcomes = setup.compile_side_by_side(&given).into_iter();
    sources.map(|source| source.and_then(|source| Some((source.entries, outcomes.next()?))))
}

/// A kernel of the task's that has to compile, with its entries.
fn of_task(
    kernel: &KernelSpec,
    what: &str,
    (entries, outcome): CompiledTask,
) -> Result<(Binary, Vec<String>)> {
    match outcome? {
        Ok(binary) => Ok((binary, entries)),
        Err(verdict) if verdict.kind == VerdictKind::Interrupted => {
            Err(CliError::limit(verdict.message.as_str()))
        }
        Err(verdict) if verdict.is_trouble() => {
            Err(trouble(&format!("the {what} of `{}` was not compiled", kernel.name), &verdict))
        }
        Err(verdict) => Err(CliError::usage(format!(
            "the {what} of `{}` does not compile: {}\n{}",
            kernel.name,
            verdict.label(),
            verdict.message
        ))),
    }
}

/// A verdict that says nothing about the variant, because evo or the machine failed.
pub fn trouble(what: &str, verdict: &Verdict) -> CliError {
    let hint = verdict.evidence.get(Verdict::HINT).and_then(|hint| hint.as_str());
    CliError::harness(format!("{what}: {}", verdict.message)).with_hint_of(hint)
}

/// Where the environment lets a device's compiler look for included files.
pub fn search(setup: &DeviceSetup) -> SearchPath {
    SearchPath::of_environment(setup.choice.kind, &Toolbox::from_env())
}

/// How the space is named on a command line: an embedded one by name, another by path.
pub fn space_word(file: &SpaceFile) -> String {
    let stem = file.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let embedded = crate::kernel::catalog::names().contains(&stem.as_str())
        && crate::kernel::catalog::open(&stem).is_ok_and(|own| own.path == file.path);
    if embedded { stem } else { file.path.display().to_string() }
}

/// Notes the candidate as a command's object names it: what it is, and where it comes from. What it does not have is
/// left out.
pub fn candidate(call: &Call, resolved: &ResolvedCandidate) {
    let ResolvedCandidate { file, configuration, provenance, .. } = resolved;
    let mut fields = json!({
        "space": space_word(file),
        "kernel": file.kernel.as_ref().map(|kernel| &kernel.name),
        "default_replaced": file.replaced_default.as_ref().map(|replaced| replaced.note()),
        "configuration": configuration,
        "configuration_hash": configuration.hash(),
    });
    if let (Value::Object(fields), Value::Object(from)) = (&mut fields, json!(provenance)) {
        fields.extend(from);
        fields.retain(|_, value| !value.is_null());
    }
    call.know(|facts| facts.candidate = Some(fields));
}

/// The study that a candidate's name means, as it was noted; none for a candidate that no study names.
pub fn study(facts: &CommandEnvelope) -> Option<String> {
    let candidate = facts.candidate.as_ref()?;
    let is_named = ["champion", "previous", "number", "hash"].iter().any(|kind| candidate["kind"] == *kind);
    candidate["from"].as_str().filter(|_| is_named).map(String::from)
}

pub fn know_device(call: &Call, device: &DeviceInfo, seed: u64, problems: &[String]) {
    call.know(|facts| {
        facts.device = Some(device.name.clone());
        facts.conditions = Some(conditions(device, seed, problems));
    });
}

pub fn conditions(device: &DeviceInfo, seed: u64, problems: &[String]) -> Value {
    json!({
        "device_kind": device.kind,
        "arch": device.arch,
        "driver": device.driver,
        "seed": seed,
        "problems": problems,
        "evo": env!("CARGO_PKG_VERSION"),
    })
}

pub fn lane(setup: &DeviceSetup, kernel: Option<&KernelSpec>) -> Result<Lane> {
    let options = lane_options(setup, kernel)?;
    Lane::start_with(options, setup.limits).map_err(|error| not_started(setup, &error))
}

pub fn lane_options(setup: &DeviceSetup, kernel: Option<&KernelSpec>) -> Result<LaneOptions> {
    let words = |text: &String| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    let command = setup.worker_command.as_ref().map(words);
    if command.as_ref().is_some_and(Vec::is_empty) {
        return Err(CliError::usage("`--worker-command` is empty"));
    }
    let (support_cubin, reference_kernels) = own_kernels(setup, kernel)?;
    Ok(LaneOptions {
        // A command of the user's own says for itself what it wants.
        command: match setup.sandbox {
            SandboxMode::Off if command.is_none() => Some(unfenced_worker()?),
            _ => command,
        },
        device: setup.choice.spec.clone(),
        cache: setup.farm.cache.clone(),
        support_cubin,
        reference_kernels,
        leased: false,
    })
}

fn unfenced_worker() -> Result<Vec<String>> {
    let program = worker_program()?.to_string_lossy().into_owned();
    Ok(vec![program, "worker".to_string(), "--sandbox".to_string(), "off".to_string()])
}

pub fn rooms(sandbox: SandboxMode) -> std::io::Result<RoomOptions> {
    serve::rooms(sandbox == SandboxMode::On)
}

fn not_started(setup: &DeviceSetup, error: &LaneError) -> CliError {
    let device = &setup.choice.spec;
    let is_foreign = setup.worker_command.is_some();
    match error {
        LaneError::Spawn { source, .. } if process::is_exhausted(source) => {
            CliError::harness(error.to_string()).with_hint(process::EXHAUSTED_HINT)
        }
        LaneError::Open { .. } | LaneError::Spawn { .. } => {
            CliError::environment(format!("cannot open the device `{device}`: {error}"))
                .with_hint(format!("`evo preflight --device {device}` shows what is missing"))
                .with_code(ErrorCode::NoDevice)
        }
        LaneError::Died { .. } | LaneError::Refused { .. } | LaneError::Unexpected { .. } if is_foreign => {
            CliError::usage(format!("the command of `--worker-command` is not a device worker: {error}"))
                .with_hint("it must end in `evo worker`, as `ssh host evo worker` does")
        }
        LaneError::Lost { .. } => CliError::device(error.to_string()),
        LaneError::OutOfTime => CliError::limit(error.to_string()),
        LaneError::Died { .. } | LaneError::Refused { .. } | LaneError::Unexpected { .. } => {
            CliError::harness(format!("cannot start the device worker: {error}"))
        }
    }
}

pub fn support_cubin(setup: &DeviceSetup) -> Result<Option<PathBuf>> {
    if setup.choice.kind != DeviceKind::Cuda {
        return Ok(None);
    }
    let source = KernelSource::plain("evo_support.cu", SUPPORT_SOURCE, [""; 0]);
    Ok(Some(compile::own_kernels(&setup.farm, source)?))
}

/// A built-in reference, what a reference of the user's needs, or all of it, as kernels of this device, compiled. None where
/// the device has no kernels for it.
pub fn reference_kernels(setup: &DeviceSetup, name: Option<&str>) -> Result<Option<PathBuf>> {
    let Some(text) = on_device::source(name) else { return Ok(None) };
    let entries = on_device::entries(name);
    let source = KernelSource::plain("evo_references.cu", text, entries);
    Ok(Some(compile::own_kernels(&setup.farm, source)?))
}

/// The helper kernels and those for a reference. On the host neither is needed, because the processor is the
/// device.
fn own_kernels(
    setup: &DeviceSetup,
    kernel: Option<&KernelSpec>,
) -> Result<(Option<PathBuf>, Option<ReferenceKernels>)> {
    if setup.choice.kind != DeviceKind::Cuda {
        return Ok((None, None));
    }
    let name = kernel.map(|kernel| match &kernel.check.reference {
        ReferenceSpec::Builtin { name } => name.as_str(),
        _ => on_device::OWN,
    });
    // Each takes the compiler some hundred milliseconds, once per cache. The task's kernels are only put into the cache, where
    // whoever needs them finds them, or meets the same error.
    std::thread::scope(|scope| {
        let ahead = || kernel.map(|kernel| drop(task_kernels(kernel, setup)));
        let _ = std::thread::Builder::new().spawn_scoped(scope, ahead);
        let compiled = |name| reference_kernels(setup, Some(name));
        let references = name.map(|name| {
            let running = std::thread::Builder::new().spawn_scoped(scope, move || compiled(name));
            (name, running.map_err(|_| compiled(name)))
        });
        let support = support_cubin(setup)?;
        let Some((name, references)) = references else { return Ok((support, None)) };
        let path = match references {
            Ok(running) => running.join().map_err(|_| CliError::harness("a compiling thread panicked"))?,
            Err(compiled) => compiled,
        }?;
        Ok((support, path.map(|path| ReferenceKernels { name: name.to_string(), path })))
    })
}
