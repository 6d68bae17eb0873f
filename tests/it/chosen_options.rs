//! Compiler options that parameters choose: what each variant gets, and how that relaxes its judgement alone.

use std::fs;
use std::path::Path;

use evo::engine::Recipe;
use evo::engine::ports::JobOrder;
use evo::engine::recipe::KernelRecipe;
use evo::kernel::load::load_file;
use evo::kernel::render::render;
use evo::kernel::spec::{ProblemSpec, SpaceFile};
use evo_protocol::binary::Binary;
use evo_protocol::device::DeviceLimits;
use evo_space::genome::{Configuration, ContentHash};
use evo_space::value::Value;

const OPTIONS: &str = r#"[
    "--fmad=false",
    { option = "--use_fast_math", when = "UNROLL" },
    { option = "-maxrregcount", value = "8192 / BLOCK", when = "PER_THREAD > 1" },
]"#;

/// The sound file with these options, or what is wrong with it.
fn load(options: &str) -> Result<SpaceFile, String> {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/saxpy");
    for name in ["saxpy.cu", "naive.cu"] {
        fs::copy(data.join(name), folder.path().join(name)).unwrap();
    }
    let text = fs::read_to_string(data.join("saxpy.toml")).unwrap();
    let line = "source = \"saxpy.cu\"\n";
    assert!(text.contains(line));
    let path = folder.path().join("space.toml");
    fs::write(&path, text.replace(line, &format!("{line}options = {options}\n"))).unwrap();
    load_file(&path).map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
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
    let file = load(OPTIONS).unwrap();
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
    let file = load(OPTIONS).unwrap();
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
fn mistakes_have_a_place_and_a_way_out() {
    let options = r#"[
    { option = "-maxrregcount=", value = "BLOK" },
    { when = "N > 3" },
    { option = "--use_fast_math", if = "UNROLL" },
]"#;
    insta::assert_snapshot!(load(options).unwrap_err(), @r#"
    error: `option` of an entry of `options` of `kernel` is `-maxrregcount=`, expected a single word without `=`
      --> space.toml:18:16
       |
    18 |     { option = "-maxrregcount=", value = "BLOK" },
       |                ^^^^^^^^^^^^^^^^
       |
       = hint: `value` stands behind the `=`, which evo writes

    error: `value` of an entry of `options` of `kernel`: unknown name `BLOK`
      --> space.toml:18:43
       |
    18 |     { option = "-maxrregcount=", value = "BLOK" },
       |                                           ^^^^
       |
       = hint: did you mean `BLOCK`?

    error: an entry of `options` of `kernel` has no `option`
      --> space.toml:19:5
       |
    19 |     { when = "N > 3" },
       |     ^^^^^^^^^^^^^^^^^^
       |
       = hint: add option = "--use_fast_math", with `when`; or option = "-maxrregcount", with `value`

    error: `when` of an entry of `options` of `kernel`: unknown name `N`
      --> space.toml:19:15
       |
    19 |     { when = "N > 3" },
       |               ^
       |
       = hint: known names: BLOCK, PER_THREAD, UNROLL

    error: unknown key `if` in an entry of `options` of `kernel`
      --> space.toml:20:35
       |
    20 |     { option = "--use_fast_math", if = "UNROLL" },
       |                                   ^^
       |
       = hint: known keys: option, value, when
    "#);
    let message = load(r#"[{ option = "-maxrregcount", value = "8192 / (BLOCK - 128)" }]"#).unwrap_err();
    assert!(
        message.contains("has no value") && message.contains("this is the default configuration"),
        "{message}"
    );
}
