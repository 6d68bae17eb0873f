//! Space files that load, what they become, and what `evo render` prints of them.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use evo::kernel::limits;
use evo::kernel::spec::{FillSpec, KernelSpec, ReferenceSpec, SpaceFile};
use evo::kernel::{catalog, load, render, resolve, specialize, tiny};
use evo_protocol::check::CheckSet;
use evo_protocol::plan::{Fill, LaunchPlan, ProblemPlan};
use evo_space::genome::Configuration;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kernels").join(name)
}

fn saxpy() -> SpaceFile {
    load::load_file(&data("saxpy/saxpy.toml")).unwrap()
}

fn kernel_of(file: &SpaceFile) -> &KernelSpec {
    file.kernel.as_ref().unwrap()
}

fn default_of(file: &SpaceFile) -> Configuration {
    file.space.configuration(&file.space.default_genome())
}

fn table(plans: &[ProblemPlan]) -> String {
    let launch = |plan: &LaunchPlan| {
        let LaunchPlan { entry, grid, block, shared_bytes, .. } = plan;
        let mut line = format!("{entry} grid {grid:?} block {block:?} shared {shared_bytes}");
        if let Some(cluster) = plan.cluster {
            line.push_str(&format!(" cluster {cluster:?}"));
        }
        for (flag, name) in [(plan.cooperative, " cooperative"), (plan.programmatic, " programmatic")] {
            line.push_str(if flag { name } else { "" });
        }
        line
    };
    let row = |plan: &ProblemPlan| {
        let buffers: Vec<String> =
            plan.buffers.iter().map(|buffer| format!("{}{:?}", buffer.name, buffer.shape)).collect();
        let scalars: Vec<String> =
            plan.scalars.iter().map(|scalar| format!("{}={}", scalar.name, scalar.value)).collect();
        let launches: Vec<String> =
            plan.launches.iter().chain(&plan.reference_launches).map(launch).collect();
        format!("{}: {} | {} | {}", plan.name, buffers.join(" "), scalars.join(" "), launches.join("; "))
    };
    plans.iter().map(row).collect::<Vec<_>>().join("\n")
}

fn evo() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evo"))
}

#[test]
fn a_file_of_thirty_lines_says_it_all() {
    let file = saxpy();
    let kernel = kernel_of(&file);
    assert!(file.text.lines().count() <= 30);
    assert_eq!(file.space.count(), 16);
    let check = &kernel.check;
    assert_eq!((check.seeds, check.repeats, check.trusted_factor, check.deterministic), (3, 10, 3.0, true));
    let [evo::kernel::spec::ArgumentSpec::Buffer(x), ..] = kernel.arguments.as_slice() else { panic!() };
    assert_eq!(x.fill, FillSpec::Fixed(Fill::Unrestricted));
    assert!(
        matches!(&check.reference, ReferenceSpec::Kernel { launches, .. } if launches[0].entry == "saxpy_naive")
    );
}

#[test]
fn problems_resolve_to_numbers() {
    let file = saxpy();
    let kernel = kernel_of(&file);
    let configuration = default_of(&file);
    let plans: Vec<ProblemPlan> = kernel
        .problems
        .iter()
        .map(|problem| resolve::resolve(kernel, &configuration, problem).unwrap())
        .collect();
    insta::assert_snapshot!(table(&plans));
    assert_eq!(plans[1].bytes, Some(786_432.0));
    insta::assert_snapshot!(table(
        &tiny::shapes(kernel, &configuration, &specialize::of_kernel(kernel), &|_| true).unwrap().plans
    ));
}

/// `BLOCK - 64` is 0 at BLOCK=64: that shape is dropped and no other.
#[test]
fn tiny_shapes_without_meaning_are_dropped() {
    let file = saxpy();
    let genome = file.space.iter().next().unwrap();
    let configuration = file.space.configuration(&genome);
    assert_eq!(configuration.to_string(), "BLOCK=64 PER_THREAD=1 UNROLL=true");
    let plans =
        tiny::shapes(kernel_of(&file), &configuration, &specialize::of_kernel(kernel_of(&file)), &|_| true)
            .unwrap()
            .plans;
    let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
    assert_eq!(names, ["tiny:N=1", "tiny:N=65"]);
}

#[test]
fn plain_sources_get_macros_and_a_header() {
    let file = saxpy();
    let source = render::render(kernel_of(&file), &default_of(&file)).unwrap();
    insta::assert_snapshot!(source.text.split("extern \"C\" __global__").next().unwrap());
    assert_eq!(source.options, ["-DBLOCK=128", "-DPER_THREAD=1", "-DUNROLL=1"]);
    assert_eq!(source.entries, ["saxpy"]);
    assert!(source.text.contains(source.variant_hash.as_str()));
    let reference = render::render_reference(kernel_of(&file)).unwrap();
    assert_eq!((reference.options.len(), reference.entries), (0, vec!["saxpy_naive".to_string()]));
}

/// Two configurations whose rendered code is the same have the same code hash, although headers and
/// variant hashes differ.
#[test]
fn the_header_is_no_code() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("k.cu.j2"), "// <{ BLOCK }>\n").unwrap();
    let text = include_str!("../data/kernels/saxpy/saxpy.toml");
    let text = text.replace("source = \"saxpy.cu\"", "template = \"k.cu.j2\"");
    std::fs::copy(data("saxpy/naive.cu"), folder.path().join("naive.cu")).unwrap();
    std::fs::write(folder.path().join("space.toml"), text).unwrap();
    let file = load::load_file(&folder.path().join("space.toml")).unwrap();
    let sources: Vec<_> = file
        .space
        .iter()
        .map(|genome| render::render(kernel_of(&file), &file.space.configuration(&genome)).unwrap())
        .collect();
    let distinct = |hashes: Vec<String>| hashes.into_iter().collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(distinct(sources.iter().map(|source| source.code_hash().to_string()).collect()), 3);
    assert_eq!(
        distinct(sources.iter().map(|source| source.variant_hash.to_string()).collect()),
        sources.len()
    );
}

/// Every embedded space loads, and each of its problems and tiny shapes can be launched somewhere by
/// the default configuration.
#[test]
fn embedded_spaces_load_resolve_and_render() {
    let limits = evo_protocol::device::DeviceLimits::of_arch("sm_90a").unwrap();
    for name in catalog::names() {
        let file = catalog::open(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let kernel = kernel_of(&file);
        let configuration = default_of(&file);
        let mut plans =
            tiny::shapes(kernel, &configuration, &specialize::of_kernel(kernel), &|_| true).unwrap().plans;
        assert!(!plans.is_empty(), "{name}");
        for problem in &kernel.problems {
            plans.push(resolve::resolve(kernel, &configuration, problem).unwrap());
        }
        for plan in &plans {
            limits::check_launches(plan, &limits, CheckSet::default())
                .unwrap_or_else(|verdict| panic!("{name}: {}", verdict.message));
        }
        render::render(kernel, &configuration).unwrap();
    }
}

/// JSON is the same file: the same space, plans and hashes.
#[test]
fn json_says_the_same() {
    let toml = saxpy();
    let value: toml::Value = toml::from_str(&toml.text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["saxpy.cu", "naive.cu"] {
        std::fs::copy(data("saxpy").join(name), folder.path().join(name)).unwrap();
    }
    let path = folder.path().join("saxpy.json");
    // The order of parameters is the file's: JSON written from a sorted map would lose it.
    let mut object = serde_json::to_value(&value).unwrap();
    let parameters = serde_json::json!({
        "BLOCK": value["parameters"]["BLOCK"], "PER_THREAD": [1, 2, 4], "UNROLL": [true, false],
    });
    object["parameters"] = parameters;
    std::fs::write(&path, serde_json::to_string_pretty(&object).unwrap()).unwrap();
    let json = load::load_file(&path).unwrap();
    assert_eq!(json.space.count(), toml.space.count());
    let (from_toml, from_json) = (default_of(&toml), default_of(&json));
    assert_eq!(from_toml.hash(), from_json.hash());
    for (a, b) in kernel_of(&toml).problems.iter().zip(&kernel_of(&json).problems) {
        assert_eq!(
            resolve::resolve(kernel_of(&toml), &from_toml, a).unwrap(),
            resolve::resolve(kernel_of(&json), &from_json, b).unwrap()
        );
    }
}

#[test]
fn render_prints_exactly_what_the_compiler_gets() {
    let path = data("saxpy/saxpy.toml");
    let output = evo().arg("render").arg(&path).args(["64", "UNROLL=false"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = saxpy();
    let words = [path.display().to_string(), "64".into(), "UNROLL=false".into()];
    let genome = evo::cli::words::named_space(&words).genome(&file).unwrap();
    let configuration = file.space.configuration(&genome);
    let source = render::render(kernel_of(&file), &configuration).unwrap();
    // With the macros that the compiler gets as options, ahead of the user's first line.
    let macros = [("BLOCK", "64"), ("PER_THREAD", "1"), ("UNROLL", "0")]
        .map(|(name, value)| format!("#ifndef {name}\n#define {name} {value}\n#endif\n"))
        .concat();
    let expected = source.text.replacen("#line 1 ", &format!("{macros}#line 1 "), 1);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);

    let output = evo().arg("render").arg(&path).args(["64", "UNROLL=false", "--json"]).output().unwrap();
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["text"], source.text);
    assert_eq!(object["hash"], source.variant_hash.as_str());
    assert_eq!(object["configuration"]["BLOCK"], 64);
}

#[test]
fn the_default_space_needs_no_name() {
    let named = evo().args(["render", "attention_simt", "16", "4"]).output().unwrap();
    let unnamed = evo().args(["render", "16", "4"]).output().unwrap();
    assert!(named.status.success() && unnamed.status.success());
    assert_eq!(named.stdout, unnamed.stdout);
}

/// A configuration that a constraint forbids still renders: `test-one` wants to explain it.
#[test]
fn a_violated_constraint_is_a_warning() {
    let output = evo().arg("render").arg(data("saxpy/saxpy.toml")).args(["256", "4"]).output().unwrap();
    assert!(output.status.success());
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(talk.contains("warning: this configuration violates `BLOCK * PER_THREAD <= 512`"), "{talk}");
}

/// What the plan of the first valid configuration (BLOCK=64) says about problem `small` when the
/// sound file is changed; the default (BLOCK=128) must be sound, or the file would not load.
fn plan_of(changes: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for name in ["saxpy.cu", "naive.cu"] {
        // Whatever type the file gives it: nothing is compiled here.
        let source = std::fs::read_to_string(data("saxpy").join(name)).unwrap();
        std::fs::write(folder.path().join(name), source.replace("int n", "Size n")).unwrap();
    }
    let mut text = include_str!("../data/kernels/saxpy/saxpy.toml").to_string();
    for (from, to) in changes {
        assert!(text.contains(from), "the sound file has no {from:?}");
        text = text.replacen(from, to, 1);
    }
    std::fs::write(folder.path().join("space.toml"), text).unwrap();
    let file = load::load_file(&folder.path().join("space.toml")).unwrap_or_else(|error| panic!("{error}"));
    let genome = file.space.iter().next().unwrap();
    let kernel = kernel_of(&file);
    match resolve::resolve(kernel, &file.space.configuration(&genome), &kernel.problems[0]) {
        Ok(plan) => table(&[plan]),
        Err(verdict) => format!("{}: {}", verdict.label(), verdict.message),
    }
}

#[test]
fn whole_floats_are_integers_and_fractions_are_refused() {
    let grid = "\"ceil_div(N, BLOCK * PER_THREAD)\"";
    insta::assert_snapshot!(plan_of(&[(grid, "\"BLOCK / 32\"")]), @r"small: x[1000] y[1000] | a=0.5 n=1000 | saxpy grid [2, 1, 1] block [64, 1, 1] shared 0; saxpy_naive grid [4, 1, 1] block [256, 1, 1] shared 0");
    insta::assert_snapshot!(plan_of(&[(grid, "\"BLOCK / 128 \"")]), @r"static_reject:expression: grid[0] of launch `saxpy` = `BLOCK / 128 ` is 0.5, not a whole number (hint: `//` divides whole numbers), in problem `small`");
    insta::assert_snapshot!(plan_of(&[(grid, "[4, \"N // (BLOCK - 64)\"]")]), @r"static_reject:expression: grid[1] of launch `saxpy` = `N // (BLOCK - 64)` has no value: division by zero: 1000 // 0, in problem `small`");
    insta::assert_snapshot!(plan_of(&[(grid, "\"4 if BLOCK > 64 else 'four'\"")]), @r"static_reject:expression: grid[0] of launch `saxpy` = `4 if BLOCK > 64 else 'four'` is the text `four`, not a whole number of 64 bits, in problem `small`");
    insta::assert_snapshot!(plan_of(&[(grid, "\"(128 // BLOCK - 1) * 9223372036854775807 * 2 + 1\"")]), @r"static_reject:expression: grid[0] of launch `saxpy` = `(128 // BLOCK - 1) * 9223372036854775807 * 2 + 1` has no value: the result does not fit 64 bits: 9223372036854775807 * 2, in problem `small`");
}

#[test]
fn shapes_and_scalars_must_fit() {
    let shape = "shape = [\"N\"], role = \"input\"";
    let change = |shape: &str| format!("shape = [{shape}], role = \"input\"");
    insta::assert_snapshot!(plan_of(&[(shape, &change("\"N\", \"BLOCK - 64\""))]), @"small: x[1000, 0] y[1000] | a=0.5 n=1000 | saxpy grid [16, 1, 1] block [64, 1, 1] shared 0; saxpy_naive grid [4, 1, 1] block [256, 1, 1] shared 0");
    insta::assert_snapshot!(plan_of(&[(shape, &change("\"BLOCK - 65\""))]), @r"static_reject:shape: argument `x` has the negative extent -1, in problem `small`");
    insta::assert_snapshot!(plan_of(&[(shape, &change("\"2 ** (188 - BLOCK) if BLOCK > 64 else 2 ** 62\""))]), @r"static_reject:shape: argument `x` has more than 2^63 bytes, in problem `small`");
    insta::assert_snapshot!(plan_of(&[("dtype = \"i32\"", "dtype = \"u8\""), ("value = \"N\"", "value = \"BLOCK - 65 + (BLOCK > 64) * 0\"")]), @r"static_reject:expression: value of argument `n` = `BLOCK - 65 + (BLOCK > 64) * 0` is -1, which does not fit `u8`, in problem `small`");
}

/// A launch whose `when` is false is left out; a plan without launches is zero work.
#[test]
fn launches_may_not_take_place() {
    let changes = [("block = \"BLOCK\"", "block = \"BLOCK\", when = \"BLOCK > 64\"")];
    insta::assert_snapshot!(plan_of(&changes), @r"small: x[1000] y[1000] | a=0.5 n=1000 | saxpy_naive grid [4, 1, 1] block [256, 1, 1] shared 0");
}

/// Numbers and booleans stand for expressions; missing extents are 1.
#[test]
fn launches_take_plain_values() {
    let block = "block = [\"BLOCK\", 2], cluster = [2], cooperative = true, programmatic = \"BLOCK > 64\", shared_bytes = 512";
    insta::assert_snapshot!(plan_of(&[("block = \"BLOCK\"", block)]), @r"small: x[1000] y[1000] | a=0.5 n=1000 | saxpy grid [16, 1, 1] block [64, 2, 1] shared 512 cluster [2, 1, 1] cooperative; saxpy_naive grid [4, 1, 1] block [256, 1, 1] shared 0");
}

/// Files of this repository that are not embedded spaces: examples for people.
#[test]
fn examples_load() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for folder in std::fs::read_dir(root).unwrap() {
        for entry in std::fs::read_dir(folder.unwrap().path()).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                load::load_file(&path).unwrap_or_else(|error| panic!("{error}"));
                count += 1;
            }
        }
    }
    assert!(count > 0);
}

/// What the header and `evo test-one` print is what the command line reads back.
#[test]
fn positional_values_read_back() {
    for name in catalog::names() {
        let file = catalog::open(name).unwrap();
        for genome in file.space.iter().step_by(97).take(40) {
            let configuration = file.space.configuration(&genome);
            let mut words = vec![name.to_string()];
            words.extend(configuration.positional().split(' ').map(str::to_string));
            let point = evo::cli::words::named_space(&words).genome(&file).unwrap();
            let read = file.space.configuration(&point);
            assert_eq!((read.hash(), point), (configuration.hash(), genome), "{name} {configuration}");
        }
    }
}

/// The header's symbol survives a C++ compiler, for templates and plain sources alike; the space's
/// own line numbers appear in its messages.
#[test]
fn the_hash_can_be_read_from_a_compiled_binary() {
    use object::{Object, ObjectSection, ObjectSymbol};
    let file = saxpy();
    let source = render::render(kernel_of(&file), &default_of(&file)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let before = "#define __device__\n#define __global__\nstruct Index { int x; };\n\
                  static Index blockIdx, threadIdx;\n";
    std::fs::write(folder.path().join("k.cpp"), format!("{before}{}\n#error here\n", source.text)).unwrap();
    let compile = |name: &str| {
        let mut command = std::process::Command::new("c++");
        command.args(&source.options).args(["-c", "-o", "k.o", name]).current_dir(folder.path());
        command.output().unwrap()
    };
    let messages = String::from_utf8(compile("k.cpp").stderr).unwrap();
    let lines = include_str!("../data/kernels/saxpy/saxpy.cu").lines().count();
    assert!(messages.contains(&format!("saxpy.cu:{}:", lines + 2)), "{messages}");

    std::fs::write(folder.path().join("k.cpp"), format!("{before}{}", source.text)).unwrap();
    let output = compile("k.cpp");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(folder.path().join("k.o")).unwrap();
    let binary = object::File::parse(&*bytes).unwrap();
    let symbol = binary.symbols().find(|symbol| symbol.name() == Ok(render::HASH_SYMBOL)).unwrap();
    let section = binary.section_by_index(symbol.section_index().unwrap()).unwrap();
    let data = section.data_range(symbol.address(), 32).unwrap().unwrap();
    assert_eq!(data, source.variant_hash.as_str().as_bytes());
}

/// The page on space files shows a file with every key; it must load, and forget none.
#[test]
fn the_documented_file_loads() {
    let page = include_str!("../../docs/space_files.md");
    let text = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["scale.cu", "naive.cu"] {
        std::fs::write(folder.path().join(name), "// any text\n").unwrap();
    }
    let path = folder.path().join("scale.toml");
    std::fs::write(&path, text).unwrap();
    let file = load::load_file(&path).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(file.space.count(), 8);
    // An unknown key's hint lists what is known: all of it must be on the page.
    for (section, first) in
        [("[check]", "seeds"), ("[objective]", "flops"), ("[[problems]]", "name"), ("[[launches]]", "entry")]
    {
        std::fs::write(&path, text.replacen(section, &format!("{section}\nqqqqqqqqqqqq = 1"), 1)).unwrap();
        let message = load::load_file(&path).unwrap_err().to_string();
        let known = message.split("known keys: ").nth(1).unwrap().lines().next().unwrap();
        assert!(known.contains(first), "{known}");
        for key in known.split(", ") {
            assert!(text.contains(&format!("\n{key} = ")), "`{key}` of {section} is not on the page");
        }
    }
}

/// The saxpy space with one edit of its text, in a folder of its own.
fn edited(from: &str, to: &str) -> (tempfile::TempDir, SpaceFile) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["saxpy.toml", "saxpy.cu", "naive.cu"] {
        let text = std::fs::read_to_string(data("saxpy").join(name)).unwrap();
        std::fs::write(folder.path().join(name), text.replace(from, to)).unwrap();
    }
    let file = load::load_file(&folder.path().join("saxpy.toml")).unwrap();
    (folder, file)
}

#[test]
fn trades_are_allowed_only_where_the_file_says_so() {
    assert!(!kernel_of(&saxpy()).objective.allow_trade);
    let (_folder, file) = edited("bytes = \"12 * N\"", "allow_trade = true");
    assert!(kernel_of(&file).objective.allow_trade);
}

#[test]
fn a_reference_gets_the_include_folders_and_nothing_else() {
    let (_folder, file) = edited(
        "source = \"saxpy.cu\"",
        "source = \"saxpy.cu\"\noptions = [\"-I\", \"inc\", \"--use_fast_math\", \"--include-path=more\"]",
    );
    let reference = render::render_reference(kernel_of(&file)).unwrap();
    assert_eq!(reference.options, ["-Iinc", "-Imore"]);
}
