//! The spaces and templates that ship: each loads, is large enough, and compiles for every target.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use evo::compile::{CompileFarm, FarmOptions};
use evo::kernel::limits;
use evo::kernel::spec::{KernelSpec, SpaceFile};
use evo::kernel::{catalog, load, render, resolve, specialize, tiny};
use evo_protocol::binary::{Binary, CompileOutcome};
use evo_protocol::check::CheckSet;
use evo_protocol::device::{DeviceKind, DeviceLimits};
use evo_space::genome::Configuration;
use evo_space::sample::seeded;

use crate::skip::is_full;
use crate::support::processes::wait;
use crate::toolchain;

/// Shipped spaces by the fewest valid points that each promises.
const SPACES: &[(u128, &str)] = &[
    (200, "attention_simt softmax rmsnorm reduction transpose"),
    (
        10_000,
        "attention_mma attention_mma_bf16 attention_mma_d80 attention_mma_d96 attention_mma_d128 \
             attention_mma_d256 attention_layouts attention_ladder attention_decode \
             attention_decode_bf16 attention_decode_d64 attention_decode_layouts attention_hopper \
             attention_hopper_bf16 attention_hopper_d80 attention_hopper_d96 attention_hopper_d128 \
             attention_hopper_d256 attention_hopper_layouts gemm_mma gemm_mma_bf16 gemm_hopper \
             gemm_hopper_bf16",
    ),
    (2_000, "gemm"),
];

/// Their names, each with its number.
fn spaces() -> impl Iterator<Item = (&'static str, u128)> {
    SPACES.iter().flat_map(|(least, names)| names.split(' ').map(|name| (name, *least)))
}

/// Whether a space is for this target: some are for Hopper and the host only.
fn is_for(name: &str, arch: &str) -> bool {
    !name.contains("hopper") || ["sm_90a", "host"].contains(&arch)
}

const EXAMPLE: &str = "examples/box_blur/blur.toml";

fn open(name: &str) -> SpaceFile {
    catalog::open(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn example() -> SpaceFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(EXAMPLE);
    load::load_file(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn kernel_of(file: &SpaceFile) -> &KernelSpec {
    file.kernel.as_ref().expect("has a kernel")
}

/// The default, and of as many points as end before the last place, the same in every run, those at these places.
fn sample(file: &SpaceFile, places: Range<usize>) -> Vec<Configuration> {
    let mut rng = seeded(20_261_121);
    let mut genomes = vec![file.space.default_genome()];
    genomes.extend(file.space.sample_distinct(places.end, &mut rng).into_iter().skip(places.start));
    genomes.iter().map(|genome| file.space.configuration(genome)).collect()
}

#[test]
fn every_space_is_large_enough_and_its_default_is_valid() {
    for (name, least) in spaces() {
        let file = open(name);
        assert!(file.space.count() >= least, "{name} has {} valid points", file.space.count());
        assert!(file.space.contains(&file.space.default_genome()), "{name}");
        assert!(file.space.constraints().iter().all(|constraint| constraint.because.is_some()), "{name}");
        let kernel = kernel_of(&file);
        for device in ["host", "cuda"] {
            let timed = |problem: &&evo::kernel::spec::ProblemSpec| {
                problem.timed && problem.device.as_deref().is_none_or(|only| only == device)
            };
            assert!(kernel.problems.iter().any(|problem| timed(&problem)), "{name} on {device}");
        }
    }
}

/// A space has one data type, so bf16 has files of its own, which must not drift apart.
#[test]
fn spaces_for_bf16_are_those_for_fp16_but_for_the_type() {
    let text = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("search_spaces");
        std::fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap()
    };
    for name in ["gemm_mma", "attention_mma", "attention_decode", "gemm_hopper", "attention_hopper"] {
        let twin = format!("{name}_bf16");
        let expected = text(name)
            .replace("\"f16\"", "\"bf16\"")
            .replace("fp16 in and out", "bf16 in and out")
            .replace(&format!("name = \"{name}\"\ntemplate"), &format!("name = \"{twin}\"\ntemplate"));
        assert_eq!(text(&twin), expected);
        assert_ne!(text(name), expected);
    }
}

#[test]
fn attention_takes_three_numbers_and_large_tiles() {
    let file = open("attention_simt");
    let words: Vec<&str> = file.space.parameters().iter().map(|parameter| &*parameter.name).collect();
    assert_eq!(words[..3], ["BLOCK_M", "NUM_WARPS", "VEC"]);
    for (rows, warps) in [(64, 2), (128, 4), (128, 8), (128, 16)] {
        let found = file.space.iter().map(|genome| file.space.configuration(&genome)).any(|configuration| {
            let is = |name: &str, value: i64| configuration.get(name).and_then(|v| v.as_int()) == Some(value);
            is("BLOCK_M", rows) && is("NUM_WARPS", warps)
        });
        assert!(found, "BLOCK_M={rows} NUM_WARPS={warps}");
    }
}

/// Every problem and tiny shape resolves, and what the default launches fits the smallest target.
#[test]
fn plans_resolve_and_the_default_fits_every_target() {
    let files = spaces().map(|(name, _)| open(name)).chain([example()]);
    for file in files {
        let kernel = kernel_of(&file);
        for (place, configuration) in sample(&file, 0..12).iter().enumerate() {
            let mut plans = tiny::shapes(kernel, configuration, &specialize::of_kernel(kernel), &|_| true)
                .unwrap_or_else(|verdict| panic!("{verdict:?}"))
                .plans;
            assert!(plans.len() >= 2, "{}: tiny shapes {}", kernel.name, plans.len());
            for problem in &kernel.problems {
                plans.push(
                    resolve::resolve(kernel, configuration, problem)
                        .unwrap_or_else(|verdict| panic!("{verdict:?}")),
                );
            }
            for arch in ["sm_80", "sm_89", "sm_90a"] {
                let limits = DeviceLimits::of_arch(arch).expect("is known");
                let refused = plans
                    .iter()
                    .find_map(|plan| limits::check_launches(plan, &limits, CheckSet::default()).err());
                let fits = place > 0 || refused.is_none() || !is_for(&kernel.name, arch);
                assert!(fits, "{} {arch}: {refused:?}", kernel.name);
            }
        }
    }
}

#[test]
fn every_space_compiles_for_every_gpu_target() {
    if !is_full("kernels") {
        return;
    }
    if toolchain::lacks_nvrtc() {
        return;
    }
    // No template asks whether it is compiled for sm_80 or sm_89: each gets half of the points.
    for (arch, places) in [("sm_80", 0..3), ("sm_89", 3..6), ("sm_90a", 0..6)] {
        let compiled = compile_all(FarmOptions::new(DeviceKind::Cuda, arch), places);
        // Their constraints count registers, and the compiler need not serialize products for want of them.
        let is_variant = |label: &str| label.contains("_hopper") && !label.starts_with("reference");
        let of_hopper: Vec<_> = compiled.iter().filter(|(label, _)| is_variant(label)).collect();
        assert_eq!(of_hopper.len(), if arch == "sm_90a" { 2 * 7 + 7 * 2 } else { 0 });
        for (label, binary) in of_hopper {
            for entry in &binary.resources {
                let spilled = entry.spill_store_bytes.expect("the compiler says it");
                assert!(spilled <= 64, "{label} spills {spilled} bytes with {:?} registers", entry.registers);
            }
        }
    }
}

#[test]
fn every_space_compiles_for_the_host() {
    if !is_full("kernels") {
        return;
    }
    compile_all(FarmOptions::new(DeviceKind::Host, "host"), 0..3);
}

/// Compiles samples of all spaces for the target and of the example, references included, in one farm. Gives what came of
/// each, with its label.
fn compile_all(options: FarmOptions, places: Range<usize>) -> Vec<(String, Binary)> {
    let folder = tempfile::tempdir().unwrap();
    let target = options.arch.clone();
    let outcomes: Arc<Mutex<Vec<(String, CompileOutcome)>>> = Arc::default();
    let toolbox = match options.kind {
        DeviceKind::Cuda => toolchain::toolbox(),
        DeviceKind::Host | DeviceKind::Replay => toolchain::host_toolbox(),
    };
    let options = FarmOptions { jobs: 2, cache: folder.path().to_path_buf(), toolbox, ..options };
    let farm = CompileFarm::start(options).unwrap();
    let submit = |label: String, source| {
        let seen = Arc::clone(&outcomes);
        farm.submit(source, move |outcome| seen.lock().unwrap().push((label, outcome)));
    };
    let mut seen_templates = HashSet::new();
    let own = spaces().filter(|(name, _)| is_for(name, &target));
    for file in own.map(|(name, _)| open(name)).chain([example()]) {
        let kernel = kernel_of(&file);
        // A space that shares its template with an earlier one has one more point compiled beside its default.
        let is_first = seen_templates.insert(kernel.source.path.clone());
        for configuration in sample(&file, if is_first { places.clone() } else { 0..1 }) {
            let source =
                render::render(kernel, &configuration).unwrap_or_else(|verdict| panic!("{verdict:?}"));
            submit(format!("{} {configuration}", kernel.name), source);
        }
        if let Some(reference) = render::render_reference(kernel) {
            submit(format!("reference of {}", kernel.name), reference);
        }
    }
    wait(&format!("all compile for {target}"), || farm.pending() == 0);
    let (mut compiled, mut failures) = (Vec::new(), Vec::new());
    for (label, outcome) in outcomes.lock().unwrap().drain(..) {
        match outcome {
            Ok(binary) => compiled.push((label, binary)),
            Err(verdict) => failures.push(format!("{label}: {verdict:?}")),
        }
    }
    assert!(failures.is_empty(), "{target}\n{}", failures.join("\n"));
    compiled
}

/// The story of the blocks of 64 rows that hung elsewhere: here each way to share them out is a valid point, or is refused
/// with its reason before anything is compiled.
#[test]
fn blocks_of_64_rows_are_valid_or_refused_with_a_reason() {
    let mut valid = Vec::new();
    for (warps, groups) in [1, 2, 4, 8].into_iter().flat_map(|warps| [1, 2, 4, 8].map(|own| (warps, own))) {
        let words = format!("space attention_mma --check BLOCK_M=64 NUM_WARPS={warps} KV_GROUPS={groups}");
        let output = crate::support::evo(&std::env::temp_dir(), &words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if text.starts_with("valid") {
            valid.push((warps, groups));
        } else {
            assert!(text.starts_with("invalid") && text.contains("    because "), "{words}: {text}");
        }
    }
    assert_eq!(valid, [(2, 1), (4, 1), (4, 2), (8, 2), (8, 4)]);
}
