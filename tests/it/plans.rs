//! What a space file becomes for one configuration: what launches and references are passed, and which options compilers get.

use evo::engine::Recipe;
use evo::engine::ports::JobOrder;
use evo::engine::recipe::KernelRecipe;
use evo::kernel::render::render;
use evo::kernel::resolve::resolve;
use evo::kernel::spec::ProblemSpec;
use evo_protocol::binary::Binary;
use evo_protocol::device::DeviceLimits;
use evo_protocol::plan::{ArgumentRef, L2Persist, LaunchPlan, ProblemPlan};
use evo_protocol::verdict::Verdict;
use evo_space::genome::{Configuration, ContentHash};
use evo_space::value::Value;
use serde_json::json;

use crate::support::kernels::Kernel;

const fn buffer(number: usize) -> ArgumentRef {
    ArgumentRef::Buffer(number)
}

const fn scalar(number: usize) -> ArgumentRef {
    ArgumentRef::Scalar(number)
}

/// The kernel with these texts of its space replaced.
fn changed(name: &str, changes: &[(&str, &str)]) -> Kernel {
    let kernel = Kernel::copy(name);
    changes.iter().for_each(|(from, to)| {
        kernel.edit("space.toml", from, to);
    });
    kernel
}

/// The plan of the default configuration with some values changed.
fn plan_with(kernel: &Kernel, changes: &[(&str, i64)]) -> Result<ProblemPlan, Box<Verdict>> {
    let file = kernel.load();
    let default = file.space.configuration(&file.space.default_genome());
    let changed = |name: &str| changes.iter().find(|(other, _)| *other == name);
    let value =
        |name: &str, own: &Value| changed(name).map_or_else(|| own.clone(), |(_, to)| Value::Int(*to));
    let values = default.iter().map(|(name, own)| (name.into(), value(name, own))).collect();
    let kernel = file.kernel.as_ref().unwrap();
    resolve(kernel, &Configuration::new(values), &kernel.problems[0])
}

#[test]
fn a_loop_has_each_launch_with_its_own_numbers_and_buffers() {
    let own = Kernel::copy("heat").plan(1).unwrap();
    let seen: Vec<(&str, &[ArgumentRef])> =
        own.launches.iter().map(|launch| (launch.entry.as_str(), &launch.arguments[..])).collect();
    let (u, v, n) = (buffer(0), buffer(1), scalar(0));
    let number = ArgumentRef::Literal;
    let expected: [(&str, &[ArgumentRef]); 4] = [
        ("smooth", &[u, v, number(0), number(1), n]),
        ("smooth", &[v, u, number(2), number(3), n]),
        ("decay", &[u, n]),
        ("smooth", &[u, v, number(4), number(5), n]),
    ];
    assert_eq!(seen, expected);
    let values: Vec<f64> = own.literals.iter().map(|own| own.value).collect();
    assert_eq!(values[..6], [0.375, 0.0, 0.25, 1.0, 0.125 + 0.25 / 3.0, 2.0]);
    // The reference's numbers are the same values of other launches.
    assert_eq!(own.reference_launches.len(), 4);
    assert_eq!(own.reference_launches[2].arguments, [u, n]);
    assert_eq!(Kernel::copy("heat").plan(0).unwrap().launches.len(), 24);
    // Buffers stay where a loop has left them.
    let after = "[[launches]]\nentry = \"decay\"\ngrid = 1\nblock = \"BLOCK\"\narguments = [\"v\", \"n\"]\n";
    let own = changed("heat", &[("[[problems]]\n", &format!("{after}[[problems]]\n"))]).plan(1).unwrap();
    assert_eq!(own.launches.last().unwrap().arguments[0], buffer(0));
}

#[test]
fn pointers_are_passed_and_variables_are_filled() {
    let own = Kernel::copy("convolve").plan(0).unwrap();
    assert_eq!(own.launches[0].arguments, [buffer(0), buffer(1), scalar(0)]);
    assert_eq!(own.buffers[2].symbol.as_deref(), Some("taps::d_filter"));
    let all = [buffer(0), buffer(1), buffer(2), buffer(3), scalar(0)];
    assert_eq!(own.reference_launches[0].arguments, all);
    assert!(own.reference_variables.is_empty());
    let kernel = changed("convolve", &[("naive.cu", "own_variables.cu")]);
    let own = kernel.plan(0).unwrap();
    assert_eq!(own.reference_launches[0].arguments, [buffer(0), buffer(1), scalar(0)]);
    assert_eq!(own.reference_variables, [2, 3]);
    // What a launch of the reference is given lies in no variable of its module.
    let listed = "block = 1, arguments = [\"x\", \"y\", \"filter\", \"n\"] }";
    kernel.edit("space.toml", "block = 1 }", listed);
    let own = kernel.edit("own_variables.cu", "int n)", "const float* filter, int n)").plan(0).unwrap();
    assert_eq!(own.reference_launches[0].arguments, [buffer(0), buffer(1), buffer(2), scalar(0)]);
    assert_eq!(own.reference_variables, [3]);
}

#[test]
fn a_reference_gets_what_was_drawn_and_not_what_was_prepared() {
    let own = Kernel::copy("gemv").plan(0).unwrap();
    let prepared = [buffer(0), buffer(1), scalar(0), scalar(1), ArgumentRef::Literal(0)];
    assert_eq!(own.prepare_launches[0].arguments, prepared);
    assert_eq!(own.literals[0].integer, Some(151));
    let drawn = [buffer(0), buffer(2), buffer(3), scalar(0), scalar(1)];
    assert_eq!(own.reference_launches[0].arguments, drawn);
}

#[test]
fn launches_receive_tensor_maps() {
    let own = Kernel::copy("row_sum_map").plan(0).unwrap();
    let maps = serde_json::to_value(&own.tensor_maps).unwrap();
    let map = json!({"dtype": "f32", "dims": [104, 300], "strides": [416], "box": [32, 32], "swizzle": "128B",
        "fill": "zero"});
    assert_eq!(maps, json!([{"name": "x_map", "of": 0, "map": map}]));
    let map = ArgumentRef::TensorMap(0);
    assert_eq!(own.launches[0].arguments, [map, buffer(1), scalar(0), scalar(1)]);
    // A reference kernel works on plain arrays.
    assert_eq!(own.reference_launches[0].arguments, [buffer(0), buffer(1), scalar(0), scalar(1)]);
    // Strides in elements; a swizzle by word; a map of a launch that is left out has no place in the plan.
    let view = [
        ("box = [\"BOX_COLUMNS\"", "strides = [\"2 * COLUMNS\"]\nfill = \"nan\"\nbox = [\"BOX_COLUMNS\""),
        ("dims = [\"COLUMNS\", \"ROWS\"]", "dims = [\"COLUMNS\", \"ROWS // 2\"]"),
        ("swizzle = \"SPAN\"", "swizzle = \"'none' if SPAN == 0 else '128B'\""),
    ];
    let own = plan_with(&changed("row_sum_map", &view), &[("SPAN", 0)]).unwrap();
    let map = json!({"dtype": "f32", "dims": [104, 150], "strides": [832], "box": [32, 32], "swizzle": "none",
        "fill": "nan"});
    assert_eq!(serde_json::to_value(&own.tensor_maps).unwrap()[0]["map"], map);
    let unused = [("entry = \"row_sum\"\n", "entry = \"row_sum\"\nwhen = \"ROWS > 1000\"\n")];
    let none = plan_with(&changed("row_sum_map", &unused), &[("BOX_ROWS", 512)]).unwrap();
    assert!(none.tensor_maps.is_empty() && none.launches.is_empty());
    assert!(!serde_json::to_string(&none).unwrap().contains("tensor_maps"));
}

#[test]
fn a_map_that_breaks_a_rule_is_refused_at_its_expression() {
    let kernel = Kernel::copy("row_sum_map");
    let refused = |name: &str, value: i64| *plan_with(&kernel, &[(name, value)]).unwrap_err();
    let verdict = refused("BOX_ROWS", 512);
    assert_eq!(verdict.evidence.get("place"), Some(&"box[1] of argument `x_map`".into()));
    let words = [verdict, refused("SPAN", 64), refused("SPAN", 96)]
        .map(|own| format!("{}: {}", own.label(), own.message));
    insta::assert_snapshot!(words.join("\n"));
}

#[test]
fn a_window_of_the_l2_cache_names_the_buffer_and_its_share() {
    let launch = |ratio: &str, per_thread: i64| -> Result<LaunchPlan, String> {
        let window =
            format!("block = \"BLOCK\", l2_persist = {{ argument = \"y\", ratio = \"{ratio}\" }} }}]");
        let kernel = changed("saxpy", &[("block = \"BLOCK\" }]", &window)]);
        let plan = plan_with(&kernel, &[("BLOCK", 64), ("PER_THREAD", per_thread)]);
        plan.map(|own| own.launches[0].clone()).map_err(|own| format!("{}: {}", own.label(), own.message))
    };
    let half = launch("PER_THREAD / 4", 2).unwrap();
    assert_eq!(half.l2_persist, Some(L2Persist { buffer: 1, ratio: 0.5 }));
    let text = serde_json::to_value(launch("PER_THREAD / 4", 4).unwrap()).unwrap();
    assert_eq!(text["l2_persist"], json!({"buffer": 1, "ratio": 1.0}));
    // Without a share there is no window, and a plan without one is written as before.
    let none = launch("PER_THREAD // 4", 2).unwrap();
    assert_eq!(none.l2_persist, None);
    assert!(serde_json::to_value(none).unwrap().get("l2_persist").is_none());
    assert_eq!(
        launch("PER_THREAD / 2", 4).unwrap_err(),
        "static_reject:l2_persist: ratio of `l2_persist` of launch `saxpy` = `PER_THREAD / 2` is 2, expected 0 to 1, \
         in problem `small`"
    );
}

/// Options that parameters choose.
fn with_options() -> Kernel {
    let options = "[\"--fmad=false\", { option = \"--use_fast_math\", when = \"UNROLL\" }, \
                   { option = \"-maxrregcount\", value = \"8192 / BLOCK\", when = \"PER_THREAD > 1\" }]";
    let line = "source = \"saxpy.cu\"\n";
    changed("saxpy", &[(line, &format!("{line}options = {options}\n"))])
}

fn configuration(block: i64, per_thread: i64, unroll: bool) -> Configuration {
    Configuration::new(vec![
        ("BLOCK".into(), Value::Int(block)),
        ("PER_THREAD".into(), Value::Int(per_thread)),
        ("UNROLL".into(), Value::Bool(unroll)),
    ])
}

#[test]
fn each_variant_has_the_options_that_its_parameters_choose() {
    let file = with_options().load();
    let kernel = file.kernel.as_ref().unwrap();
    let own = |block, per_thread, unroll| {
        let options = render(kernel, &configuration(block, per_thread, unroll)).unwrap().options;
        options.into_iter().filter(|option| !option.starts_with("-D")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(own(128, 1, false), "--fmad=false");
    assert_eq!(own(128, 1, true), "--fmad=false --use_fast_math");
    assert_eq!(own(64, 2, false), "--fmad=false -maxrregcount=128");
    assert_eq!(own(256, 2, true), "--fmad=false --use_fast_math -maxrregcount=32");
    let refused = render(kernel, &configuration(0, 2, true)).unwrap_err();
    assert_eq!(refused.label(), "static_reject:expression");
    assert!(refused.message.starts_with("`value` of option `-maxrregcount` = `8192 / BLOCK` has no value"));
}

#[test]
fn only_the_variant_that_declares_fast_mathematics_is_judged_by_it() {
    let file = with_options().load();
    let kernel = file.kernel.as_ref().unwrap();
    let problems: Vec<&ProblemSpec> = kernel.problems.iter().collect();
    let recipe = KernelRecipe::new(kernel, DeviceLimits::of_arch("sm_90a").unwrap(), &problems, None, 1);
    let judged = |unroll: bool| {
        let prepared = recipe.prepare(&configuration(128, 1, unroll)).unwrap();
        let binary = Binary { path: "k.cubin".into(), ..Binary::default() };
        let (label, variant_hash) = (String::new(), ContentHash::of(b"variant"));
        let order = JobOrder { number: 1, label, variant_hash, deep: None };
        let check = recipe.job(&prepared, &vec![binary], order).unwrap().candidate.check;
        (check.fast_math, check.flushes_subnormals, recipe.identity(&prepared).plan)
    };
    let (strict, fast) = (judged(false), judged(true));
    assert_eq!((strict.0, strict.1, fast.0, fast.1), (false, false, true, true));
    assert_ne!(strict.2, fast.2, "equal machine code is judged by both rules");
    assert!(!recipe.check.fast_math);
}

#[test]
fn folders_of_headers_become_options_where_a_source_includes_something_of_them() {
    let kernel = changed("headers", &[("include_dirs = [\"common\"]\n", "")]);
    let options = || {
        let all = kernel.load().kernel.unwrap().options;
        let below = format!("{}/", kernel.root().display());
        all.iter().map(|own| own.text.replace(&below, "")).collect::<Vec<_>>()
    };
    assert_eq!(options(), ["-Ikernels", "-Inaive"]);
    kernel.edit("kernels/scale.cu", "\"own.cuh\"", "<math.h>");
    assert_eq!(options(), ["-Inaive"]);
}
