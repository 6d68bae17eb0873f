//! What bad space files get: all errors at once, each with line, caret and a way out.
//!
//! Every case is a small change to one sound file, so the snapshot shows what that change costs.

mod files;
mod fuzz;
mod names;
mod values;

use std::fs;
use std::path::Path;

use evo::kernel::load::load_file;

/// The message for `text`, saved as `space.toml` in a folder with the sources of `tests/data/saxpy`.
fn message_of(text: &str) -> String {
    message_beside(text, "")
}

/// The same, with a source `changed.cu` beside it.
fn message_beside(text: &str, source: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("changed.cu"), source).unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/saxpy");
    for name in ["saxpy.cu", "naive.cu"] {
        fs::copy(data.join(name), folder.path().join(name)).unwrap();
    }
    fs::write(
        folder.path().join("broken.cu.j2"),
        "line\n<% if BLOCK > 64 %>\n<{ BLOK // N }>\n<% endif %>\n",
    )
    .unwrap();
    fs::write(folder.path().join("open.cu.j2"), "line\n<% if UNROLL %>\n").unwrap();
    fs::write(folder.path().join("refuses.cu.j2"), "x\n<{ fail('no ' ~ BLOCK) }>\n").unwrap();
    let path = folder.path().join("space.toml");
    fs::write(&path, text).unwrap();
    let shown = match load_file(&path) {
        Ok(_) => "no error".to_string(),
        Err(error) => error.to_string(),
    };
    shown.replace(&format!("{}/", folder.path().display()), "")
}

/// The message for the sound file with some texts replaced, each of which it must have.
fn changed(changes: &[(&str, &str)]) -> String {
    let mut text = include_str!("../../data/saxpy/saxpy.toml").to_string();
    for (from, to) in changes {
        assert!(text.contains(from), "the sound file has no {from:?}");
        text = text.replacen(from, to, 1);
    }
    message_of(&text)
}

/// The message for the sound file with the sound source, after one text in it has been replaced.
fn changed_source(from: &str, to: &str) -> String {
    let source = include_str!("../../data/saxpy/saxpy.cu");
    assert!(source.contains(from), "the sound source has no {from:?}");
    let text = include_str!("../../data/saxpy/saxpy.toml").replacen("saxpy.cu", "changed.cu", 1);
    message_beside(&text, &source.replacen(from, to, 1))
}
