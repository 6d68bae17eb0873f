//! The generated launch code launches what evo's own plan says, for kernels that ship with evo and for one with everything
//! that a plan can have.

use std::collections::BTreeMap;
use std::fs;

use evo_export::files::{ExportFile, ExportFormat, ExportUnit, files};
use evo_export::model::{ExportModel, model};
use evo_export::record;
use evo_export::source::plain;
use evo_export::translate::ExportError;
use evo_kernel::access::SpaceAccess;
use evo_kernel::catalog;
use evo_kernel::render::render_for;
use evo_kernel::resolve::resolve;
use evo_kernel::spec::SpaceFile;
use evo_kernel::specialize::constants_of;
use evo_protocol::binary::Specialization;
use evo_protocol::plan::ProblemPlan;

use crate::support::{is_there, printed};

mod support;

fn space(text: &str, source: &str) -> (tempfile::TempDir, SpaceFile) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("k.cu"), source).unwrap();
    fs::write(folder.path().join("k.toml"), text).unwrap();
    let path = folder.path().join("k.toml");
    let file = catalog::open_with(path.to_str().unwrap(), SpaceAccess::default())
        .unwrap_or_else(|error| panic!("{error}"));
    (folder, file)
}

fn model_of(file: &SpaceFile, constants: &Specialization) -> Result<ExportModel, ExportError> {
    let configuration = file.space.configuration(&file.space.default_genome());
    let kernel = file.kernel.as_ref().unwrap();
    model(kernel, &configuration, constants, &|_| None)
}

fn exported(file: &SpaceFile, constants: &Specialization) -> (ExportModel, Vec<ExportFile>) {
    let kernel = file.kernel.as_ref().unwrap();
    let configuration = file.space.configuration(&file.space.default_genome());
    let own = model_of(file, constants).unwrap();
    let source = render_for(kernel, &configuration, constants).unwrap();
    let label = format!("{} {configuration}", kernel.name);
    let source = plain(&source, std::slice::from_ref(&label));
    let unit = ExportUnit {
        model: &own,
        label: &label,
        hash: &configuration.hash(),
        source: &source,
        headers: &[],
        cubin: Some(("sm_90a", b"not a cubin")),
        example: &BTreeMap::from([("N".to_string(), 7)]),
        evo: "0.0.0",
    };
    let all = files(&unit, ExportFormat::ALL).unwrap();
    (own, all)
}

fn written(files: &[ExportFile]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &file.contents).unwrap();
    }
    folder
}

/// Runs both programs of an export at the plans' sizes and at some that have none.
fn check(file: &SpaceFile, constants: &Specialization, refused: &[&[(&str, i64)]]) {
    let kernel = file.kernel.as_ref().unwrap();
    let configuration = file.space.configuration(&file.space.default_genome());
    let served = kernel.problems.iter().filter(|own| constants_of(&kernel.specialize, own) == *constants);
    let plans: Vec<ProblemPlan> = served.map(|own| resolve(kernel, &configuration, own).unwrap()).collect();
    assert!(!plans.is_empty());
    let mut sizes: Vec<BTreeMap<String, i64>> = plans.iter().map(|own| own.sizes.clone()).collect();
    let others = refused.iter().map(|own| own.iter().map(|(name, size)| (name.to_string(), *size)).collect());
    sizes.extend(others);
    let (own, mut files) = exported(file, constants);
    files.extend(record::programs(&own, &sizes).unwrap());
    let folder = written(&files);
    let compile = "g++ -std=c++17 -Wall -Wextra -Werror -I. -o record record.cpp";
    let programs = [("python3", &["python3 record.py"][..]), ("g++", &[compile, "./record"])];
    for (program, commands) in programs.into_iter().filter(|(program, _)| is_there(program)) {
        let output = commands.iter().fold(String::new(), |_, command| printed(folder.path(), command));
        let (good, bad) = split(&output, plans.len());
        record::compare(&own, &good, &plans).unwrap_or_else(|why| panic!("{program}: {why}"));
        assert!(bad.iter().all(|own| own.contains("refused")), "{bad:?}");
    }
}

/// What was printed for the first problems, and for each of the others.
fn split(printed: &str, count: usize) -> (String, Vec<String>) {
    let all: Vec<String> = printed.split("problem\n").skip(1).map(String::from).collect();
    let good = all[..count].iter().map(|own| format!("problem\n{own}")).collect();
    (good, all[count..].to_vec())
}

const EVERYTHING: &str = include_str!("spaces/everything.toml");

#[test]
fn a_plan_with_everything_is_launched_as_it_is_resolved() {
    let (_folder, file) = space(EVERYTHING, "// kernels");
    let refused: [&[(&str, i64)]; 3] = [
        &[("N", 1001), ("class", 3), ("STEPS", 1)],
        &[("N", -2), ("class", 3), ("STEPS", 1)],
        &[("N", 2), ("class", 3), ("STEPS", -1)],
    ];
    check(&file, &Specialization::default(), &refused);
}

#[test]
fn shipped_kernels_are_launched_as_they_are_resolved() {
    for name in ["gemm", "softmax", "attention_simt", "reduction"] {
        let file = catalog::open(name).unwrap();
        check(&file, &Specialization::default(), &[]);
    }
    let file = catalog::open("attention_mma").unwrap();
    for causal in [0, 1] {
        let constants = Specialization::of(&["CAUSAL".into()], &BTreeMap::from([("CAUSAL".into(), causal)]));
        let other = [("B", 1), ("HQ", 1), ("HKV", 1), ("SQ", 128), ("SKV", 128), ("CAUSAL", 1 - causal)];
        check(&file, &constants, &[&other]);
    }
}

/// Tensor maps are encoded for what evo's plan says, box by box.
#[test]
fn kernels_of_the_copy_engine_are_launched_as_they_are_resolved() {
    for name in ["attention_hopper", "attention_hopper_d128", "attention_hopper_layouts", "gemm_hopper"] {
        let file = catalog::open(name).unwrap();
        let kernel = file.kernel.as_ref().unwrap();
        let mut all: Vec<Specialization> =
            kernel.problems.iter().map(|own| constants_of(&kernel.specialize, own)).collect();
        all.dedup();
        check(&file, &all[0], &[]);
        let configuration = file.space.configuration(&file.space.default_genome());
        let plan = resolve(kernel, &configuration, &kernel.problems[0]).unwrap();
        assert!(!plan.tensor_maps.is_empty(), "{name}");
    }
}

/// Rows in boxes, and the same elements in one line.
const BOXES: &str = include_str!("spaces/boxes.toml");

#[test]
fn maps_that_evo_refuses_are_refused_by_an_export() {
    let (_folder, file) = space(BOXES, "// kernels");
    check(&file, &Specialization::default(), &[&[("N", 4), ("M", 20)], &[("N", 0), ("M", 16)]]);
    // A map that ends behind its buffer, as evo's plan refuses it too; and names that the code of a launch has.
    let text = BOXES
        .replace("dims = [\"N * M\"]", "dims = [\"32\", \"ceil_div(N * M, 32)\"]\nstrides = [\"32\"]")
        .replace("box = [\"2 * BOX\"]", "box = [\"2 * BOX\", 1]")
        .replace("\"y\"", "\"line_dims\"")
        .replace(
            "arguments = [\"line\", \"line_dims\"]",
            "arguments = [\"line\", \"line_dims\", \"line\", \"x_map\"]",
        );
    let (_folder, file) = space(&text, "// kernels");
    check(&file, &Specialization::default(), &[&[("N", 5), ("M", 16)]]);
}

#[test]
fn the_files_of_a_kernel_read_well() {
    let source = "extern \"C\" __global__ void combine(float*, float*, double*, unsigned, float);\n";
    let (_folder, file) = space(EVERYTHING, source);
    let (_, files) = exported(&file, &Specialization::default());
    let paths = "kernel.cu kernel_cubin.hpp launch.hpp launch_plan.py torch_op.py README.md torch_ext/binding.cpp \
                 tvm_ffi/binding.cc tvm_ffi/load.py";
    for path in paths.split(' ') {
        let own = files.iter().find(|own| own.path == path).unwrap();
        insta::assert_snapshot!(path.replace('/', "_"), str::from_utf8(&own.contents).unwrap());
    }
    let names: Vec<&str> = files.iter().map(|own| own.path.as_str()).collect();
    insta::assert_snapshot!("names", names.join("\n"));
}

#[test]
fn python_files_compile() {
    if !is_there("python3") {
        return;
    }
    let (_folder, file) = space(EVERYTHING, "// kernels");
    for file in [file, catalog::open("gemm_hopper").unwrap()] {
        let (_, files) = exported(&file, &Specialization::default());
        let folder = written(&files);
        printed(folder.path(), "python3 -m compileall -q .");
    }
}

#[test]
fn what_no_file_can_say_is_refused_by_its_name() {
    let refused = |from: &str, to: &str| {
        let text = EVERYTHING.replacen(from, to, 1);
        assert_ne!(text, EVERYTHING);
        let (_folder, file) = space(&text, "// kernels");
        model_of(&file, &Specialization::default()).unwrap_err().to_string()
    };
    let found = [
        refused("KEEP = [0, 1]", "KEEP = [1, 0]"),
        refused("role = \"scratch\"\n", "role = \"scratch\"\nsymbol = \"d_part\"\n"),
        refused("dtype = \"f32\"\nvalue", "dtype = \"f16\"\nvalue"),
    ];
    insta::assert_snapshot!(found.join("\n"), @r"
    `l2_persist` of launch `combine` keeps `u` in the L2 cache, which an export does not ask for
    the argument `part` lies in the variable `d_part` of the module (`symbol`), and an export passes arguments only
    the scalar `factor` is passed as `f16`, and exports pass whole numbers, f32 and f64
    ");
}
