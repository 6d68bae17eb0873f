//! What bad space files get: all errors at once, each with line, caret and a way out. A case of `mistakes.toml` beside a
//! sound kernel is a small change to it, so the snapshot of the folder shows what that change costs.

use std::fs;

use serde::Deserialize;

use crate::support::kernels::{Kernel, data};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistakes {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    rule: String,
    /// In place of the whole space file.
    text: Option<String>,
    #[serde(default)]
    edit: Vec<Vec<String>>,
}

/// The messages of a folder's cases, below what each case is about.
fn shown(folder: &str) -> String {
    let list = fs::read_to_string(data(&format!("kernels/{folder}/mistakes.toml"))).unwrap();
    let list: Mistakes = toml::from_str(&list).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let shown = |case: &Case| {
        let kernel = Kernel::copy(folder);
        if let Some(text) = &case.text {
            kernel.write("space.toml", text);
        }
        case.edit.iter().for_each(|edit| {
            kernel.change(edit);
        });
        format!("== {}\n{}", case.rule, kernel.message())
    };
    assert!(!list.cases.is_empty(), "{folder}");
    list.cases.iter().map(shown).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn mistakes_have_a_place_and_a_way_out() {
    let folders = fs::read_dir(data("kernels")).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = folders.filter(|path| path.join("mistakes.toml").is_file()).collect();
    let names = folders.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
    // One that is lost would leave its snapshot behind, and nobody would see it.
    let snapshots = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshots")).unwrap();
    let snapshots = snapshots.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let own = snapshots.filter(|name| name.starts_with("it__mistakes__") && name.ends_with(".snap"));
    assert_eq!(own.count(), folders.len());
    for name in names {
        insta::assert_snapshot!(name, shown(name));
    }
}
