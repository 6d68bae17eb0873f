//! Small shapes that evo derives where a space file lists none, and what `evo space` says about the others.

use evo::kernel::load::load_file;
use evo::kernel::spec::{KernelSpec, SpaceFile};
use evo::kernel::specialize;
use evo::kernel::tiny::{self, TinyShapes};
use evo_protocol::plan::{Fill, ProblemPlan};
use evo_space::genome::Configuration;

/// A file of a kernel without tiny shapes; `{check}` and what follows are replaced by tests.
const VECTOR: &str = include_str!("../data/kernels/shapes/vector.toml");

const MATRIX: &str = include_str!("../data/kernels/shapes/matrix.toml");

struct Loaded {
    file: SpaceFile,
    // Keeps the file's folder.
    _folder: tempfile::TempDir,
}

impl Loaded {
    fn kernel(&self) -> &KernelSpec {
        self.file.kernel.as_ref().unwrap()
    }

    fn default(&self) -> Configuration {
        self.file.space.configuration(&self.file.space.default_genome())
    }

    /// The shapes that a device takes.
    fn shapes(&self, takes: &dyn Fn(&ProblemPlan) -> bool) -> TinyShapes {
        let constants = specialize::of_kernel(self.kernel());
        tiny::shapes(self.kernel(), &self.default(), &constants, takes).unwrap()
    }

    fn drawn(&self, seed: u64) -> Vec<ProblemPlan> {
        let constants = specialize::of_kernel(self.kernel());
        tiny::drawn_shapes(self.kernel(), &self.default(), &constants, seed, &|_| true)
    }
}

/// The file with some texts replaced, each of which it must have.
fn load(text: &str, changes: &[(&str, &str)]) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("k.cu"), "// no kernel\n").unwrap();
    let mut text = text.to_string();
    for (from, to) in changes {
        assert!(text.contains(from), "no {from:?}");
        text = text.replace(from, to);
    }
    let path = folder.path().join("space.toml");
    std::fs::write(&path, text).unwrap();
    Loaded { file: load_file(&path).unwrap_or_else(|error| panic!("{error}")), _folder: folder }
}

fn derive(loaded: &Loaded) -> TinyShapes {
    loaded.shapes(&|_| true)
}

/// The names of the shapes, or why there are none.
fn shown(text: &str, changes: &[(&str, &str)]) -> Vec<String> {
    let shapes = derive(&load(text, changes));
    match shapes.absent.is_empty() {
        true => shapes.plans.iter().map(|plan| plan.name.clone()).collect(),
        false => vec![shapes.absent],
    }
}

#[test]
fn the_tails_of_a_tile_are_derived() {
    let expected = ["tiny:N=257", "tiny:N=255", "tiny:N=1", "tiny:N=513", "tiny:N=256", "tiny:N=769"];
    assert_eq!(shown(VECTOR, &[]), expected);
    assert!(derive(&load(VECTOR, &[])).derived);
    let floor = ("ceil_div(N, BLOCK * PER_THREAD)", "(N + BLOCK * PER_THREAD - 1) // (BLOCK * PER_THREAD)");
    assert_eq!(shown(VECTOR, &[floor]), expected);
}

/// No grid divides `KEYS`, and a kernel that loops over its tiles says only by a map's box how large they are.
#[test]
fn the_box_of_a_tensor_map_is_a_tile() {
    let map = "{ name = \"x_map\", kind = \"tensor_map\", of = \"x\", dims = [\"D\", \"KEYS\"], box = [\"D\", \"TILE\"] },";
    let changes = [
        ("\"H\", \"ROWS\", \"COLS\", \"D\"", "\"KEYS\", \"D\""),
        ("arguments = [", &format!("arguments = [ {map}")),
        ("{ name = \"rows\", dtype = \"i32\", value = \"ROWS\" },", ""),
        (
            "grid = [\"ceil_div(COLS, TILE)\", \"ceil_div(ROWS, TILE)\", \"H\"]",
            "grid = [\"ceil_div(COLS, TILE)\"]",
        ),
        ("H = 4, ROWS = 512", "KEYS = 512"),
        ("H = 8, ROWS = 1024", "KEYS = 1024"),
        ("grid = \"ROWS\"", "grid = \"KEYS\""),
    ];
    let shapes = derive(&load(MATRIX, &changes));
    let keys: Vec<i64> = shapes.plans.iter().map(|plan| plan.sizes["KEYS"]).collect();
    for tail in [31, 33, 65] {
        assert!(keys.contains(&tail), "{keys:?}");
    }
    assert!(shapes.plans.iter().all(|plan| plan.tensor_maps[0].map.dims == [64, plan.sizes["KEYS"]]));
}

#[test]
fn extents_differ_flags_alternate_and_fixed_sizes_stay() {
    let shapes = derive(&load(MATRIX, &[]));
    insta::assert_snapshot!(
        shapes.plans.iter().map(|plan| plan.name.as_str()).collect::<Vec<_>>().join("\n")
    );
    assert!(shapes.plans.iter().all(|plan| plan.sizes["D"] == 64));
    assert!(shapes.plans.iter().all(|plan| plan.sizes["ROWS"] != plan.sizes["COLS"]));
    let elements = |plan: &ProblemPlan| plan.buffers.iter().map(|b| b.elements()).sum::<u64>();
    assert!(shapes.plans.iter().all(|plan| elements(plan) <= 1 << 20));
}

/// A margin between two sizes stays, and so does a ratio.
#[test]
fn sizes_of_like_names_follow_each_other() {
    let changes =
        [("ROWS", "W_IN"), ("COLS", "W_OUT"), ("W_IN = 512", "W_IN = 514"), ("W_IN = 1024", "W_IN = 1026")];
    let shapes = derive(&load(MATRIX, &changes));
    assert!(shapes.plans.len() > 3);
    assert!(shapes.plans.iter().all(|plan| plan.sizes["W_IN"] == plan.sizes["W_OUT"] + 2));
    let doubled = [
        ("ROWS", "W_IN"),
        ("COLS", "W_OUT"),
        ("W_IN = 512", "W_IN = 1024"),
        ("W_IN = 1024, W_OUT = 1024", "W_IN = 2048, W_OUT = 1024"),
    ];
    let shapes = derive(&load(MATRIX, &doubled));
    assert!(shapes.plans.len() > 3);
    assert!(shapes.plans.iter().all(|plan| plan.sizes["W_IN"] == 2 * plan.sizes["W_OUT"]));
}

/// A grid that leaves out a margin launches nothing at shapes of a tile.
#[test]
fn halos_are_added_to_tiles() {
    let grid = |text: &'static str| shown(VECTOR, &[("ceil_div(N, BLOCK * PER_THREAD)", text)]);
    let expected = ["tiny:N=265", "tiny:N=263", "tiny:N=9", "tiny:N=521", "tiny:N=264", "tiny:N=777"];
    assert_eq!(grid("ceil_div(N - 8, BLOCK * PER_THREAD)"), expected);
    assert_eq!(grid("(N - 8 + BLOCK * PER_THREAD - 1) // (BLOCK * PER_THREAD)"), expected);
    assert_eq!(grid("max(1, ceil_div(N - 2 * PER_THREAD, BLOCK * PER_THREAD))"), expected);
    assert_eq!(grid("N - 64")[0], "tiny:N=67");
    // What is added pads the size and takes nothing off.
    assert_eq!(grid("ceil_div(N + 8, BLOCK * PER_THREAD)")[..3], ["tiny:N=257", "tiny:N=255", "tiny:N=1"]);
}

/// A kernel that is not told a size was written for it.
#[test]
fn a_size_that_the_kernel_is_not_told_stays() {
    let baked = ("value = \"N\"", "value = \"7\"");
    let expected = "no shape can be derived: no size changes of which the kernel is told; tails not checked";
    assert_eq!(shown(VECTOR, &[baked]), [expected]);
}

#[test]
fn a_file_can_declare_what_its_kernel_supports() {
    let none = ("check = {", "check = { tiny = \"none\",");
    let expected = "the file says that only the sizes of its problems are supported; tails not checked";
    assert_eq!(shown(VECTOR, &[none]), [expected]);
    let whole = ("check = {", "check = { multiple_of = { N = \"BLOCK * PER_THREAD\" },");
    let large = ("100000", "102400");
    assert_eq!(shown(VECTOR, &[whole, large]), ["tiny:N=512", "tiny:N=256", "tiny:N=768", "tiny:N=1024"]);
    let vectors = ("check = {", "check = { multiple_of = { N = 4 },");
    assert_eq!(shown(VECTOR, &[vectors])[..3], ["tiny:N=260", "tiny:N=252", "tiny:N=4"]);
}

/// A shape of ours that the device cannot take is left out and refuses nothing.
#[test]
fn shapes_that_do_not_fit_are_left_out() {
    let loaded = load(VECTOR, &[]);
    let small = |plan: &ProblemPlan| plan.sizes["N"] <= 256;
    let shapes = loaded.shapes(&small);
    let names: Vec<&str> = shapes.plans.iter().map(|plan| plan.name.as_str()).collect();
    assert_eq!(names, ["tiny:N=255", "tiny:N=1", "tiny:N=256"]);
    let shapes = loaded.shapes(&|_| false);
    assert!(shapes.absent.ends_with("tails not checked"), "{}", shapes.absent);
    // A division that is not whole has no launch plan.
    let exact = ("ceil_div(N, BLOCK * PER_THREAD)", "N / (BLOCK * PER_THREAD)");
    assert_eq!(shown(VECTOR, &[exact, ("100000", "102400")]), ["tiny:N=256"]);
}

#[test]
fn space_warns_of_what_a_file_does_not_check() {
    let warnings = |text: &str, changes: &[(&str, &str)]| {
        let loaded = load(text, changes);
        evo::kernel::lint::warnings(loaded.kernel(), &loaded.default()).join("\n")
    };
    assert_eq!(warnings(VECTOR, &[]), "");
    insta::assert_snapshot!(warnings(VECTOR, &[("name = \"x\", dtype = \"f32\"", "name = \"idx\", dtype = \"i32\"")]), @r#"input `idx` takes every value of i32: add fill = { uniform = [0, "N"] } if the kernel uses it as an index"#);
    insta::assert_snapshot!(warnings(VECTOR, &[("check = {", "check = { tiny = [{ N = \"2 * BLOCK * PER_THREAD\" }],")]), @"no shape of `tiny` leaves a partial tile of `N` (a tile has 256): a wrong tail would pass; add one element to a tile, or leave `tiny` out and evo derives shapes");
    insta::assert_snapshot!(warnings(VECTOR, &[("check = {", "check = { tiny = \"none\",")]), @"the file says that only the sizes of its problems are supported; tails not checked");
    let same = [("ROWS = 512", "ROWS = 1024")];
    insta::assert_snapshot!(warnings(MATRIX, &same), @"`ROWS` is the same in every problem, so derived shapes keep it, and no partial tile of it (a tile has 32) is checked: add a problem with timed = false and another `ROWS` if the kernel supports it");
    let square = [
        ("H = 4, ROWS = 512, COLS = 512, D = 64", "H = 64, ROWS = 64, COLS = 64, D = 64"),
        ("H = 8, ROWS = 1024, COLS = 1024, D = 64", "H = 32, ROWS = 32, COLS = 32, D = 32"),
    ];
    insta::assert_snapshot!(warnings(MATRIX, &square), @"`COLS`, `D`, `H`, `ROWS` are equal in every problem, which hides swapped strides: add a problem with timed = false in which they differ");
}

#[test]
fn the_command_prints_warnings_in_both_forms() {
    let loaded = load(VECTOR, &[("check = {", "check = { tiny = \"none\",")]);
    let path = loaded.file.path.to_str().unwrap().to_string();
    let (code, _, stderr) = crate::space_command::evo_space(&[&path]);
    let expected = "the file says that only the sizes of its problems are supported; tails not checked";
    assert_eq!((code, stderr), (0, format!("warning: {expected}\n")));
    let (_, stdout, stderr) = crate::space_command::evo_space(&[&path, "--json"]);
    let object: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&object["warnings"], stderr.as_str()), (&serde_json::json!([expected]), ""));
}

/// Ranges of indices follow the sizes of each problem.
#[test]
fn a_range_may_depend_on_sizes() {
    use evo::kernel::resolve::resolve;
    let ranged = (
        "shape = [\"N\"], role = \"input\"",
        "shape = [\"N\"], role = \"input\", fill = { uniform = [0, \"N - 1\"], inclusive = true }",
    );
    let loaded = load(VECTOR, &[("name = \"x\", dtype = \"f32\"", "name = \"x\", dtype = \"i32\""), ranged]);
    let plan = resolve(loaded.kernel(), &loaded.default(), &loaded.kernel().problems[0]).unwrap();
    assert_eq!(plan.buffers[0].fill, Fill::Uniform { low: 0.0, high: 99_999.0, inclusive: true });
    let shapes = derive(&loaded);
    assert_eq!(shapes.plans[0].buffers[0].fill, Fill::Uniform { low: 0.0, high: 256.0, inclusive: true });
}

#[test]
fn contenders_meet_several_tiles_and_finalists_shapes_by_lot() {
    let several = |text: &str, changes: &[(&str, &str)]| {
        let loaded = load(text, changes);
        let shapes = loaded.shapes(&|_| true);
        shapes.several.into_iter().map(|plan| plan.name).collect::<Vec<_>>()
    };
    assert_eq!(several(VECTOR, &[]), ["tiny:N=1281"]);
    // Too large to be cheap.
    assert_eq!(several(VECTOR, &[("[64]", "[4096]")]), [""; 0]);
    assert_eq!(several(VECTOR, &[("N = 100000", "N = 1280")]), [""; 0]);

    let loaded = load(MATRIX, &[]);
    let drawn = |seed| loaded.drawn(seed);
    let plans = drawn(1);
    assert!(plans.len() > 100, "{}", plans.len());
    let elements = |plan: &ProblemPlan| -> u64 { plan.buffers.iter().map(|buffer| buffer.elements()).sum() };
    assert!(plans.iter().all(|plan| elements(plan) <= 1 << 20));
    let large = plans.iter().filter(|plan| elements(plan) > 1 << 16).count();
    assert!((4..=plans.len() / 2).contains(&large), "{large} of {}", plans.len());
    let square = plans.iter().filter(|plan| plan.sizes["ROWS"] == plan.sizes["COLS"]).count();
    assert!((2..plans.len() / 4).contains(&square), "{square} of {}", plans.len());
    assert!((0..2).all(|flag| plans.iter().any(|plan| plan.sizes["FLAG"] == flag)));
    assert!(plans.iter().all(|plan| plan.sizes["D"] == 64));
    let names = |seed| drawn(seed).into_iter().map(|plan| plan.name).collect::<Vec<_>>();
    assert_eq!(names(1), names(1));
    assert_ne!(names(1), names(2));

    // A file that lists its shapes says which sizes its kernel supports.
    for tiny in ["tiny = [{ N = 65 }]", "tiny = \"none\""] {
        let loaded = load(VECTOR, &[("block = 64 } }", &format!("block = 64 }}, {tiny} }}"))]);
        assert!(loaded.drawn(1).is_empty());
    }
}

#[test]
fn finalists_meet_sizes_just_below_the_timed_ones() {
    let near = |text: &str, changes: &[(&str, &str)], problem: usize| {
        let loaded = load(text, changes);
        let kernel = loaded.kernel();
        let plans = tiny::near_shapes(kernel, &loaded.default(), &kernel.problems[problem], &|_| true);
        plans.into_iter().map(|plan| plan.name).collect::<Vec<_>>()
    };
    assert_eq!(near(VECTOR, &[], 0), ["tiny:N=99999", "tiny:N=99971", "tiny:N=99980"]);
    let stepped = [("block = 64 } }", "block = 64 }, multiple_of = { N = 16 } }")];
    assert_eq!(near(VECTOR, &stepped, 0), ["tiny:N=99984"]);
    // Beyond what is looked at on the way.
    assert_eq!(near(VECTOR, &[("N = 100000", "N = 100000000")], 0), [""; 0]);
    let small = [("ROWS = 512, COLS = 512", "ROWS = 64, COLS = 96"), ("D = 64", "D = 4")];
    let shapes = near(MATRIX, &small, 0);
    assert_eq!(shapes.len(), 3);
    assert!(shapes.iter().all(|name| name.contains("ROWS=") && !name.contains("D=")), "{shapes:?}");
}

/// A batch of one, of which the kernel is told.
#[test]
fn a_batch_of_one_becomes_three_where_it_only_multiplies() {
    let one = [("{ H = 4,", "{ H = 1,"), ("{ H = 8,", "{ H = 1,")];
    let shapes = shown(MATRIX, &one);
    assert!(!shapes.is_empty() && shapes.iter().all(|name| name.contains("H=3")), "{shapes:?}");
    let warned = |changes: &[(&str, &str)]| {
        let loaded = load(MATRIX, changes);
        let warnings = evo::kernel::lint::warnings(loaded.kernel(), &loaded.default());
        warnings.into_iter().filter(|own| own.contains("1 in every problem")).collect::<Vec<_>>()
    };
    assert_eq!(warned(&one), [""; 0]);
    // Something else depends on it, so nobody knows what more of it means.
    let mut divided = one.to_vec();
    divided.push(("value = \"FLAG\"", "value = \"COLS // H\""));
    assert!(shown(MATRIX, &divided).iter().all(|name| !name.contains("H=")));
    assert!(warned(&divided)[0].starts_with("`H` is 1 in every problem and small shape"));
}

#[test]
fn equal_extents_and_built_in_values_are_named() {
    let warned = |changes: &[(&str, &str)]| {
        let loaded = load(MATRIX, changes);
        evo::kernel::lint::warnings(loaded.kernel(), &loaded.default()).join("\n")
    };
    // Derived shapes tell rows from columns, and listed ones may not.
    assert_eq!(warned(&[]), "");
    let listed = [("check = {", "check = { tiny = [{ ROWS = 33, COLS = 33, H = 2 }],")];
    assert!(
        warned(&listed)
            .starts_with("`COLS`, `ROWS` are equal to each other in every problem and small shape")
    );
    let scalar = warned(&[("value = \"FLAG\"", "value = 3")]);
    assert!(scalar.contains("`transposed` has one value in every problem"), "{scalar}");
}
