//! One candidate by each of its names, and every way to name none: exit code 2, the place, a hint, nothing written.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use evo::study::{NameError, StudySearch};
use serde_json::Value;

use crate::support::{self, BRIEF};

const BLUR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/box_blur");

fn bench() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for name in ["blur.toml", "blur.cu", "naive.cu"] {
        std::fs::copy(Path::new(BLUR).join(name), root.path().join(name)).unwrap();
    }
    root
}

fn evo(root: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(root).env("EVO_CACHE_DIR", support::cache()).args(words);
    command.stdin(Stdio::null()).output().unwrap()
}

/// The object that `evo render` prints of a candidate.
fn rendered(root: &Path, words: &[&str]) -> Value {
    let output = evo(root, &[&["render", "blur.toml", "--json"], words].concat());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{words:?}: {message}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit code 2, these words on one screen, nothing on stdout, nothing written.
#[track_caller]
fn refused(root: &Path, words: &[&str], expected: &[&str]) {
    let before = listing(root);
    let output = evo(root, &[&["render", "blur.toml"], words].concat());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
    for part in expected {
        assert!(message.contains(part), "{words:?}: no `{part}` in: {message}");
    }
    assert!(message.starts_with("error") && message.lines().count() < 25, "{message}");
    assert!(message.contains("hint: "), "{message}");
    assert!(output.stdout.is_empty());
    assert_eq!(before, listing(root), "something was written");
}

fn listing(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn write(root: &Path, name: &str, text: &str) {
    std::fs::write(root.join(name), text).unwrap();
}

#[test]
fn configurations_by_words_and_by_files() {
    let root = bench();
    let root = root.path();
    let words = rendered(root, &["64", "2", "ROWS=4"]);
    assert_eq!(words["candidate"]["kind"], "configuration");
    write(root, "c.json", r#"{"BLOCK_X": 64, "BLOCK_Y": 2, "ROWS": 4}"#);
    let file = rendered(root, &["--config", "c.json"]);
    assert_eq!((&file["hash"], &file["text"]), (&words["hash"], &words["text"]));
    assert_eq!(file["candidate"]["from"], "c.json");
    // A row of the leaderboard, or any record that holds a configuration.
    write(root, "row.json", &format!(r#"{{"rank": 1, "configuration": {}}}"#, words["configuration"]));
    assert_eq!(rendered(root, &["--config", "row.json"])["hash"], words["hash"]);
    let baseline = rendered(root, &["@baseline"]);
    assert_eq!(
        (&baseline["text"], &baseline["candidate"]["kind"]),
        (&rendered(root, &[])["text"], &"baseline".into())
    );
}

#[test]
fn a_source_is_judged_by_its_content() {
    let root = bench();
    let root = root.path();
    std::fs::create_dir(root.join("deep")).unwrap();
    let text =
        std::fs::read_to_string(root.join("blur.cu")).unwrap().replace("sum / 9.0f", "sum * (1.0f / 9.0f)");
    write(root, "mine.cu", &text);
    write(root, "deep/other name.cu", &text);
    let one = rendered(root, &["--source", "mine.cu", "64"]);
    let other = rendered(root, &["--source", "deep/other name.cu", "64"]);
    for key in ["text", "code_hash", "options", "entries"] {
        assert_eq!(one[key], other[key], "{key}");
    }
    assert_eq!(one["candidate"]["source_hash"], other["candidate"]["source_hash"]);
    assert_eq!((&one["candidate"]["kind"], &one["candidate"]["from"]), (&"source".into(), &"mine.cu".into()));
    let own = rendered(root, &["64"]);
    assert_eq!(one["candidate"]["parent"], own["candidate"]["source_hash"], "what it stands in for");
    assert_ne!(one["candidate"]["source_hash"], own["candidate"]["source_hash"]);
    assert_eq!(one["options"], own["options"], "a plain space gives its macros");
}

#[test]
fn templates_are_rendered_and_plain_sources_of_template_spaces_are_not() {
    let root = bench();
    let root = root.path();
    let space = std::fs::read_to_string(root.join("blur.toml")).unwrap();
    write(root, "blur.toml", &space.replace("source = \"blur.cu\"", "template = \"blur.cu.j2\""));
    let text = std::fs::read_to_string(root.join("blur.cu")).unwrap();
    write(root, "blur.cu.j2", &text.replace("#define BLOCK_X 32", "#define BLOCK_X <{ BLOCK_X }>"));
    write(root, "new.cu.j2", &text.replace("#define BLOCK_X 32", "#define BLOCK_X <{ BLOCK_X + 0 }>"));
    write(
        root,
        "plain.cu",
        "extern \"C\" __global__ void blur(const float* i, float* o, int h, int w) {} // <{ X }>",
    );
    let new = rendered(root, &["--source", "new.cu.j2", "64"]);
    assert!(new["text"].as_str().unwrap().contains("#define BLOCK_X 64"));
    let plain = rendered(root, &["--source", "plain.cu", "64"]);
    assert!(plain["text"].as_str().unwrap().ends_with("// <{ X }>\n"));
    assert_eq!(plain["options"], Value::Array(Vec::new()), "no macros where the space has none");
    write(root, "bad.cu.j2", "<{ BLOCK_Q }>");
    refused(root, &["--source", "bad.cu.j2"], &["BLOCK_Q", "did you mean"]);
}

#[test]
fn names_that_mean_nothing_are_refused() {
    let root = bench();
    let root = root.path();
    refused(root, &["@champoin"], &["there is no candidate `@champoin`", "did you mean `@champion`?"]);
    refused(root, &["@"], &["there is no candidate `@`", "`@17`"]);
    for name in ["@champion", "@previous", "@17", "@abcd1234"] {
        refused(root, &[name], &["there is no study of `box_blur` under `evidence`"]);
    }
    std::fs::create_dir_all(root.join("evidence/blurred")).unwrap();
    write(root, "evidence/blurred/journal.jsonl", "no record\n");
    refused(root, &["@17"], &["the journal of `blurred` cannot be read: `--study blurred` says why"]);
    refused(root, &["@17", "--study", "blurred"], &["evidence/blurred/journal.jsonl"]);
    refused(root, &["@17", "--study", "nope"], &["there is no study `nope`"]);
    refused(root, &["@baseline", "64"], &["two candidates at once: `@baseline` and the words `64`"]);
    write(root, "c.json", "{}");
    refused(root, &["--config", "c.json", "64"], &["two candidates at once"]);
    refused(
        root,
        &["--source", "blur.cu", "@baseline"],
        &["two candidates at once: `@baseline` and `--source`"],
    );
    refused(root, &["--launch", "c.json"], &["there is no `--source`"]);
}

#[test]
fn files_with_mistakes_are_shown_with_their_places() {
    let root = bench();
    let root = root.path();
    write(root, "a.json", "{\n  \"BLOCK_X\": 65,\n  \"BLOK_Y\": 2\n}");
    refused(
        root,
        &["--config", "a.json"],
        &["a.json:2:14", "65 is not a value", "^^", "did you mean `BLOCK_Y`?"],
    );
    write(root, "b.json", "{\"BLOCK_X\": \"64\"}");
    refused(root, &["--config", "b.json"], &["the text `64` is not a value of `BLOCK_X`"]);
    let source = ["--source", "blur.cu", "--launch"];
    let launch = |text: &str, expected: &[&str]| {
        write(root, "l.json", text);
        refused(root, &[&source[..], &["l.json"]].concat(), expected);
    };
    launch(
        "{\"blur\": {\"grid\": [1], \"blok\": 2}}",
        &["l.json:1:24", "unknown key `blok`", "did you mean `block`?"],
    );
    launch("{\"blurr\": {\"grid\": [1]}}", &["unknown key `blurr`", "did you mean `blur`?"]);
    launch("{\"blur\": {\"grid\": [\"ceil_div(W, Q)\"]}}", &["unknown name `Q`", "^"]);
    launch("[]", &["not a JSON object"]);
    write(root, "l.json", "{\"blur\": {\"grid\": [");
    let output = evo(root, &[&["render", "blur.toml"], &source[..], &["l.json"]].concat());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && message.contains("l.json:1:"), "{message}");
}

#[test]
fn sources_that_are_none_are_refused() {
    let root = bench();
    let root = root.path();
    let text = std::fs::read_to_string(root.join("blur.cu")).unwrap();
    write(root, "entry.cu", &text.replace("\nblur(", "\nblurr("));
    refused(root, &["--source", "entry.cu"], &["has no entry `blur`", "`__global__` functions are `blurr`"]);
    write(root, "more.cu", &text.replace("int width) {", "int width, float scale) {"));
    let rows = [
        "takes other arguments",
        "the space passes",
        "height: i32",
        "int height",
        ">  5 (nothing)",
        "float scale",
    ];
    refused(root, &["--source", "more.cu"], &rows);
    write(root, "kinds.cu", &text.replace("int height, int width) {", "int* height, double width) {"));
    refused(root, &["--source", "kinds.cu"], &[">  3", "int *height", ">  4", "double width"]);
    write(root, "empty.cu", " \n");
    refused(root, &["--source", "empty.cu"], &["is empty"]);
    refused(root, &["--source", "nope.cu"], &["cannot read the source `nope.cu`"]);
    refused(root, &["--source", "."], &["not a regular file"]);
    refused(root, &["--source", "/dev/zero"], &["not a regular file"]);
    std::fs::File::create(root.join("big.cu")).unwrap().set_len(17 << 20).unwrap();
    refused(root, &["--source", "big.cu"], &["at most 16777216 are read"]);
    std::fs::write(root.join("bytes.cu"), [0xff, 0xfe, 0x00]).unwrap();
    refused(root, &["--source", "bytes.cu"], &["cannot read the source"]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe.cu"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    refused(root, &["--source", "pipe.cu"], &["not a regular file"]);
    refused(root, &["--config", "pipe.cu"], &["not a regular file"]);
}

#[test]
fn a_source_goes_through_the_gates_of_any_variant() {
    let root = bench();
    let root = root.path();
    let judge = |words: &[&str]| -> (Option<i32>, Value) {
        let fixed =
            ["test-one", "blur.toml", "--device", "host", "--seed", "1", "--limit=sampling=100ms", "--json"];
        let output = evo(root, &[&fixed[..], words].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let object = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{message}"));
        (output.status.code(), object)
    };
    let text = std::fs::read_to_string(root.join("blur.cu")).unwrap();
    write(root, "wrong.cu", &text.replace("sum / 9.0f", "sum / 8.0f"));
    let (code, wrong) = judge(&["--source", "wrong.cu"]);
    assert_eq!((code, &wrong["candidate"]["kind"]), (Some(1), &"source".into()), "{wrong}");
    assert!(wrong.to_string().contains("wrong_answer"), "{wrong}");
    write(root, "foreign.cu", &format!("#include \"/etc/passwd\"\n{text}"));
    let (code, foreign) = judge(&["--source", "foreign.cu"]);
    assert!(code == Some(1) && foreign.to_string().contains("static_reject"), "{foreign}");
    // Another geometry, which the space cannot say.
    write(
        root,
        "half.json",
        r#"{"blur": {"grid": ["ceil_div(W, BLOCK_X)", "max(1, H // (2 * BLOCK_Y * ROWS))"]}}"#,
    );
    let (code, half) = judge(&["--source", "blur.cu", "--launch", "half.json"]);
    assert!(code == Some(1) && half["candidate"]["launch_hash"].is_string(), "{half}");
}

#[test]
fn studies_are_asked_without_disturbing_them() {
    let root = bench();
    let root = root.path();
    let sweep = format!("sweep blur.toml --device host --budget 3 --seed 3 --finalists 1 {BRIEF}");
    let output = evo(root, &sweep.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let journal = root.join("evidence/box_blur-host/journal.jsonl");
    let before = std::fs::read(&journal).unwrap();
    let lock = std::fs::File::options().write(true).open(root.join("evidence/box_blur-host/lock")).unwrap();
    lock.lock().unwrap();
    let champion = rendered(root, &["@champion"]);
    assert_eq!(champion["candidate"]["from"], "box_blur-host");
    let number = champion["candidate"]["number"].as_u64().unwrap();
    let again = rendered(root, &[&format!("@{number}"), "--study", "evidence/box_blur-host"]);
    assert_eq!(again["text"], champion["text"]);
    for key in ["hash", "source_hash"] {
        let hash = champion["candidate"][key].as_str().unwrap();
        let found = rendered(root, &[&format!("@{}", &hash[..10])]);
        assert_eq!(
            (&found["text"], &found["candidate"]["number"]),
            (&champion["text"], &number.into()),
            "{key}"
        );
    }
    refused(root, &["@99"], &["study `box_blur-host` has no evaluation 99", "0 to 2"]);
    refused(root, &["@previous"], &["no previous champion"]);
    refused(root, &["@17", "--study", "box_blur-hots"], &["did you mean `box_blur-host`?"]);
    hashes_and_boards_are_asked(root);
    // The kernel was edited since.
    let text = std::fs::read_to_string(root.join("blur.cu")).unwrap();
    write(root, "blur.cu", &format!("{text}\n// edited\n"));
    let edited = rendered(root, &["@champion"]);
    assert_eq!(edited["candidate"]["source_changed"], true);
    let hash = champion["candidate"]["source_hash"].as_str().unwrap();
    refused(root, &[&format!("@{}", &hash[..10])], &["had another source", "edited since"]);
    // Another space of the same kernel's name, and another kernel.
    let space = std::fs::read_to_string(root.join("blur.toml")).unwrap();
    write(
        root,
        "blur.toml",
        &space.replace("ROWS = [1, 2, 4, 8]", "LINES = [1]").replace("BLOCK_Y * ROWS", "BLOCK_Y * LINES"),
    );
    refused(
        root,
        &["@champion"],
        &["is not a point of this space", "no parameter `ROWS`", "no value for `LINES`"],
    );
    write(root, "blur.toml", &space.replace("\"box_blur\"", "\"other\""));
    refused(root, &["@0", "--study", "box_blur-host"], &["is of another kernel", "`box_blur`", "`other`"]);
    assert_eq!(std::fs::read(&journal).unwrap(), before, "journals are only read");
}

/// Prefixes that several candidates share, the champion before the present one, and a board that cannot be read.
fn hashes_and_boards_are_asked(root: &Path) {
    let search = StudySearch { out: &root.join("evidence"), study: None, kernel: "box_blur", device: None };
    let NameError::Refused { text, hint } = search.hash("").unwrap_err() else {
        panic!("a journal that is not readable")
    };
    assert!(
        text.starts_with("`@` is ambiguous: 3 candidates match\n  configuration ")
            && hint == "give more digits",
        "{text}"
    );
    assert_eq!(text.lines().count(), 4, "{text}");
    // As if another variant had been the champion before.
    let board = root.join("evidence/leaderboard.json");
    let kept = std::fs::read(&board).unwrap();
    let mut object: Value = serde_json::from_slice(&kept).unwrap();
    let mut former = object["sections"][0]["history"][0].clone();
    former["configuration"] = rendered(root, &["16", "4"])["configuration"].clone();
    object["sections"][0]["history"].as_array_mut().unwrap().insert(0, former);
    std::fs::write(&board, object.to_string()).unwrap();
    let previous = rendered(root, &["@previous"]);
    assert_eq!(previous["candidate"]["kind"], "previous");
    assert_eq!(previous["text"], rendered(root, &["16", "4"])["text"]);
    std::fs::write(&board, "{").unwrap();
    refused(root, &["@champion"], &["cannot be read", "evo leaderboard --rebuild"]);
    std::fs::write(&board, kept).unwrap();
}

#[test]
fn what_render_prints_can_be_handed_back() {
    let root = bench();
    let root = root.path();
    let own = rendered(root, &["64"]);
    // With a byte order mark, as some editors save it.
    write(root, "back.cu", &format!("\u{feff}{}", own["text"].as_str().unwrap()));
    let back = rendered(root, &["--source", "back.cu", "64"]);
    // Behind the header and the line that names the file.
    let body = |of: &Value| {
        let text = of["text"].as_str().unwrap().to_string();
        assert_eq!(text.matches("end of evo header").count(), 1, "{text}");
        text.split_once("#line 1 ").unwrap().1.split_once('\n').unwrap().1.to_string()
    };
    assert_eq!(body(&back), body(&own));
    let edited = own["text"].as_str().unwrap().replace("sum / 9.0f", "sum * (1.0f / 9.0f)");
    write(root, "edited.cu", &edited);
    let built = evo(root, &["build", "blur.toml", "64", "--device", "host", "--source", "edited.cu"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    refused(root, &["--study", "nowhere"], &["names where a candidate is looked for", "@champion"]);
}
