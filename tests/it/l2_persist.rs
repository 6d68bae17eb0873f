//! Windows of the L2 cache for launches: what files say, what plans hold, what is refused.

use std::fs;
use std::path::Path;

use evo::kernel::load::load_file;
use evo::kernel::resolve::resolve;
use evo_protocol::plan::{L2Persist, LaunchPlan};
use evo_space::genome::Configuration;
use evo_space::value::Value;

use crate::support::{BRIEF, evo};

/// The file of a sound kernel whose launch has this window.
fn folder(window: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/saxpy");
    for name in ["saxpy.cu", "naive.cu"] {
        fs::copy(data.join(name), folder.path().join(name)).unwrap();
    }
    let text = fs::read_to_string(data.join("saxpy.toml")).unwrap();
    let end = "block = \"BLOCK\" }]";
    assert!(text.contains(end));
    let text = text.replace(end, &format!("block = \"BLOCK\", l2_persist = {window} }}]"));
    fs::write(folder.path().join("space.toml"), text).unwrap();
    folder
}

fn message(window: &str) -> String {
    let folder = folder(window);
    let shown = load_file(&folder.path().join("space.toml"))
        .map_or_else(|error| error.to_string(), |_| "none".into());
    shown.replace(&format!("{}/", folder.path().display()), "")
}

/// The launch at a number of elements a thread, or the verdict's label and message.
fn launch(window: &str, per_thread: i64) -> Result<LaunchPlan, String> {
    let file = load_file(&folder(window).path().join("space.toml")).unwrap_or_else(|error| panic!("{error}"));
    let kernel = file.kernel.as_ref().unwrap();
    let configuration = Configuration::new(vec![
        ("BLOCK".into(), Value::Int(64)),
        ("PER_THREAD".into(), Value::Int(per_thread)),
        ("UNROLL".into(), Value::Bool(true)),
    ]);
    match resolve(kernel, &configuration, &kernel.problems[0]) {
        Ok(plan) => Ok(plan.launches[0].clone()),
        Err(verdict) => Err(format!("{}: {}", verdict.label(), verdict.message)),
    }
}

#[test]
fn a_plan_names_the_buffer_and_its_share() {
    let own = |per_thread| launch("{ argument = \"y\", ratio = \"PER_THREAD / 4\" }", per_thread).unwrap();
    assert_eq!(own(2).l2_persist, Some(L2Persist { buffer: 1, ratio: 0.5 }));
    let text = serde_json::to_value(own(4)).unwrap();
    assert_eq!(text["l2_persist"], serde_json::json!({"buffer": 1, "ratio": 1.0}));
    // Without a share there is no window, and a plan without one is written as before.
    let none = launch("{ argument = \"y\", ratio = \"PER_THREAD // 4\" }", 2).unwrap();
    assert_eq!(none.l2_persist, None);
    assert!(serde_json::to_value(none).unwrap().get("l2_persist").is_none());
}

#[test]
fn a_share_outside_of_0_to_1_refuses_the_configuration() {
    let refused = launch("{ argument = \"y\", ratio = \"PER_THREAD / 2\" }", 4).unwrap_err();
    assert_eq!(
        refused,
        "static_reject:l2_persist: ratio of `l2_persist` of launch `saxpy` = `PER_THREAD / 2` is 2, expected 0 to 1, \
         in problem `small`"
    );
}

#[test]
fn on_the_host_a_window_has_no_effect() {
    let folder = folder("{ argument = \"x\", ratio = 1 }");
    let words = format!("test-one ./space.toml --device host --seed 3 {BRIEF}");
    let output = evo(folder.path(), &words).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("verdict: pass"), "{output:?}");
}

#[test]
fn mistakes_have_a_place_and_a_way_out() {
    insta::assert_snapshot!(message("{ argument = \"z\", share = 1 }"));
    insta::assert_snapshot!(message("{ argument = \"n\", ratio = \"RATE\" }"));
    insta::assert_snapshot!(message("{ argument = \"a\", ratio = 0.5 }"));
    insta::assert_snapshot!(message("0.5"));
}
