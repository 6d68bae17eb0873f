//! Input that would take for ever, fill the memory or leave its folder: each ends with exit code 2 and a message that
//! names place and cause. Nothing here measures time: what took minutes would run into the tests' own end.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use evo_space::{SearchSpace, SpaceWatch};
use flate2::Compression;
use flate2::write::GzEncoder;

fn evo(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder).args(words).env("EVO_CACHE_DIR", folder.join("cache"));
    command.stdin(Stdio::null()).output().unwrap()
}

/// Exit code 2 and all of these words on a screen of stderr.
#[track_caller]
fn refused(output: &Output, expected: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.len() < 20_000, "{} bytes of message", message.len());
    for words in expected {
        assert!(message.contains(words), "no `{words}` in: {message}");
    }
}

#[track_caller]
fn space(text: &str, name: &str, words: &[&str], expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), text).unwrap();
    refused(&evo(folder.path(), &[&["space", name], words].concat()), expected);
}

/// Clauses of three letters each, drawn by a fixed rule, near the ratio at which they are hardest.
fn three_sat(letters: u64, clauses: u64) -> String {
    let mut state = 12_345u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let clause = |_| {
        let letter = |draw: &mut dyn FnMut() -> u64| {
            let not = if draw().is_multiple_of(2) { "not " } else { "" };
            format!("{not}x{}", draw() % letters)
        };
        format!("\"{} or {} or {}\"", letter(&mut draw), letter(&mut draw), letter(&mut draw))
    };
    let clauses: Vec<String> = (0..clauses).map(clause).collect();
    let parameters: String = (0..letters).map(|at| format!("x{at} = [0, 1]\n")).collect();
    format!("constraints = [{}]\n[parameters]\n{parameters}", clauses.join(",\n"))
}

#[test]
fn a_space_that_takes_too_long_is_refused_with_the_constraint_named() {
    let text = three_sat(90, 380);
    assert!(text.len() < 12_000, "small in every other way");
    let expected = [
        "counting the valid points takes too long",
        "sat.toml:",
        " or ",
        "longer than 0.1 s",
        "--limit space=TIME",
    ];
    space(&text, "sat.toml", &["--limit", "space=0.1s"], &expected);
    space("[parameters]\nA = [1]\n", "a.toml", &["--limit", "space=0s"], &["--limit space=0s", "not a time"]);
}

#[test]
fn a_watch_ends_each_kind_of_work() {
    let values = |count: usize| (0..count).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let alternatives = (0..5000).map(|at| format!("A == {}", 2 * at)).collect::<Vec<_>>().join(" or ");
    let tabulated = format!("constraints = [\"{alternatives}\"]\n[parameters]\nA = [{}]\n", values(60_000));
    for text in [tabulated, three_sat(90, 380)] {
        // Says yes at the thousandth question, which no other kind of space comes to.
        let asked = std::sync::atomic::AtomicU32::new(0);
        let watch = SpaceWatch::new(move || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 1000);
        let errors = SearchSpace::parse_watched(&text, &watch).unwrap_err();
        assert!(watch.constraint().is_some());
        assert!(errors.render("s.toml", &text).contains("this constraint was being worked on"));
    }
}

#[test]
fn long_lists_sums_and_tables_take_linear_work() {
    // Each of these took 19 s and more when it was read or lowered in quadratic time.
    let sum = vec!["A"; 49_000].join("+");
    let sum = format!("constraints = [\"{sum} > 60000\"]\n[parameters]\nA = [1, 2, 3]\n");
    assert_eq!(SearchSpace::parse(&sum).unwrap().count(), 2);
    let members = (0..14_000).map(|value| (3 * value).to_string()).collect::<Vec<_>>().join(", ");
    let constraints: Vec<String> = (1..5).map(|k| format!("\"A + {k} * B in [{members}]\"")).collect();
    let list = |count: usize| (0..count).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!(
        "constraints = [{}]\n[parameters]\nA = [{}]\nB = [{}]\n",
        constraints.join(", "),
        list(120),
        list(100)
    );
    // A + k B is a multiple of 3 for k = 1 and k = 2 only if both are.
    assert_eq!(SearchSpace::parse(&text).unwrap().count(), 40 * 34);
    let keys: String = (0..100_000).map(|at| format!("\"k{at}\":1,")).collect();
    space(
        &format!("{{{keys}\"parameters\":{{\"A\":[1]}}}}"),
        "k.json",
        &[],
        &["unknown key `k0`", "more errors"],
    );
}

#[test]
fn names_and_numbers_of_a_million_letters_are_errors_and_not_panics() {
    let long = "A".repeat(1_000_000);
    space(&format!("[parameters]\n{long} = [1, 2]\n"), "n.toml", &[], &["longer than 128 letters"]);
    let digits = "9".repeat(1_000_000);
    space(&format!("[parameters]\nA = [{digits}]\n"), "d.toml", &[], &["does not fit 64 bits"]);
    space(&"[".repeat(1_000_000), "deep.toml", &[], &["error"]);
    let closed = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    space(&format!("{{\"x\":{closed}}}"), "deep.json", &[], &["nesting is deeper than 100"]);
    space(&format!("{{\"x\":{}", "[".repeat(1_000_000)), "open.json", &[], &["found the end of the file"]);
    space(&"x = y\n".repeat(100_000), "errors.toml", &[], &["more errors"]);
}

#[test]
fn more_than_anybody_writes_is_refused_at_once() {
    let many = vec!["\"A < B\""; 10_001].join(", ");
    let rest = "\n[parameters]\nA = [1, 2]\nB = [1, 2]\n";
    space(&format!("constraints = [{many}]{rest}"), "c.toml", &[], &["more than 10000 constraints"]);
    let long = format!("\"A in [{}]\"", vec!["1"; 30_000].join(", "));
    let many = [long.as_str(); 12].join(", ");
    space(&format!("constraints = [{many}]{rest}"), "b.toml", &[], &["more than 1024 KiB of constraints"]);
    let parameters: String = (0..501).map(|at| format!("P{at} = [1]\n")).collect();
    space(&format!("[parameters]\n{parameters}"), "p.toml", &[], &["more than 500 parameters"]);
    space(&" ".repeat((4 << 20) + 1), "s.toml", &[], &["larger than 4 MiB"]);
}

const SCALE: &str = r#"
[kernel]
name = "scale"
source = "k.cu"
[parameters]
BLOCK = [32, 64]
[[arguments]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "output"
[[launches]]
entry = "scale"
grid = ["ceil_div(N, BLOCK)"]
block = ["BLOCK"]
[[problems]]
name = "small"
sizes = { N = 100 }
[check]
reference = { source = "naive.cu", entry = "naive", grid = 1, block = 1 }
"#;

/// A folder with a space file, its sources in it, and a secret beside it.
fn with_sources(text: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("space");
    std::fs::create_dir(&folder).unwrap();
    for name in ["k.cu", "naive.cu"] {
        std::fs::write(folder.join(name), "extern \"C\" __global__ void scale(float* y) {}\n").unwrap();
    }
    std::fs::write(root.path().join("secret.cu"), "// secret\n").unwrap();
    std::fs::write(folder.join("s.toml"), text).unwrap();
    root
}

#[test]
fn a_space_reads_its_own_folder_alone() {
    let render = |text: &str, flags: &[&str]| {
        let root = with_sources(text);
        symlink("../secret.cu", root.path().join("space/link.cu")).unwrap();
        evo(root.path(), &[&["render", "space/s.toml"], flags].concat())
    };
    assert!(render(SCALE, &[]).status.success());
    for outside in ["../secret.cu", "link.cu", "/etc/passwd"] {
        let text = SCALE.replace("k.cu", outside);
        let expected = ["it is outside the folder of the space file", outside, "--allow-outside"];
        refused(&render(&text, &[]), &expected);
    }
    let allowed = render(&SCALE.replace("k.cu", "link.cu"), &["--allow-outside"]);
    assert!(String::from_utf8_lossy(&allowed.stdout).contains("// secret"), "{allowed:?}");
    let npy = SCALE.replace("role = \"output\"", "role = \"inout\"\nfill = { npy = \"/dev/zero\" }");
    refused(&render(&npy, &[]), &["it is outside the folder"]);
    refused(&render(&npy, &["--allow-outside"]), &["it is not a regular file"]);
    let raw = npy.replace("npy =", "raw =");
    refused(&render(&raw, &[]), &["it is outside the folder"]);
    refused(&render(&raw, &["--allow-outside"]), &["it is not a regular file"]);
}

#[test]
fn names_are_plain() {
    for (from, to) in [("\"scale\"\nsource", "\"../scale\"\nsource"), ("\"small\"", "\"sm\\u001b[2Jall\"")] {
        let root = with_sources(&SCALE.replace(from, to));
        let output = evo(root.path(), &["render", "space/s.toml"]);
        refused(&output, &["which cannot be a name", "letters, digits"]);
        assert!(!output.stderr.contains(&0x1b), "an escape sequence reached the terminal");
    }
    let root = with_sources(SCALE);
    for study in ["../x", ".x", "a/b", &"a".repeat(101)] {
        let words = ["sweep", "space/s.toml", "--device", "host", "--study", study, "--gen", "1"];
        refused(&evo(root.path(), &words), &["is not a name for a study"]);
    }
}

#[test]
fn what_a_terminal_would_obey_is_written_out() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[parameters]\nA = { values = [1, 2], help = \"\\u001b]0;title\\u0007 \\u202e\" }\n";
    std::fs::write(folder.path().join("s.toml"), text).unwrap();
    let shown = evo(folder.path(), &["space", "s.toml"]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains(r"\u001b]0;title\u0007 \u202e"), "{shown}");
    let json = evo(folder.path(), &["space", "s.toml", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["parameters"][0]["help"], "\u{1b}]0;title\u{7} \u{202e}");
}

#[test]
fn a_bomb_in_gzip_is_not_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = GzEncoder::new(Vec::new(), Compression::default());
    member.write_all(&vec![b' '; 1 << 20]).unwrap();
    let member = member.finish().unwrap();
    std::fs::write(folder.path().join("r.json.gz"), member.repeat(600)).unwrap();
    let output = evo(folder.path(), &["sweep", "--device", "replay:r.json.gz"]);
    refused(&output, &["r.json.gz", "larger than 512 MiB"]);
}

#[test]
fn without_a_home_the_cache_is_this_users_below_the_temporary_folder() {
    let folder = tempfile::tempdir().unwrap();
    let place = |variables: &[(&str, &str)]| -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
        command.args(["cache", "--json"]).current_dir(folder.path()).env_clear().env("TMPDIR", folder.path());
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        value["folder"].as_str().unwrap_or_else(|| panic!("{value}")).to_string()
    };
    let user = rustix::process::geteuid().as_raw();
    let own = folder.path().join(format!("evo-cache-{user}")).display().to_string();
    for variables in [&[][..], &[("HOME", "")], &[("HOME", "here"), ("XDG_CACHE_HOME", "there")]] {
        assert_eq!(place(variables), own, "{variables:?}");
    }
    assert_eq!(place(&[("HOME", "/nobody")]), "/nobody/.cache/evo");
}

#[test]
fn the_cache_tells_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let output = evo(folder.path(), &["cache", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((answer["entries"].as_u64(), answer["bytes"].as_u64()), (Some(0), Some(0)));
    assert_eq!(answer["bytes_max"].as_u64(), Some(10 << 30));
    let pruned = evo(folder.path(), &["cache", "--prune"]);
    assert!(String::from_utf8_lossy(&pruned.stdout).contains("removed  0 entries"), "{pruned:?}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.arg("cache").env("EVO_CACHE_DIR", folder.path()).env("EVO_CACHE_BYTES", "10G");
    refused(&command.output().unwrap(), &["EVO_CACHE_BYTES=`10G` is not a number of bytes", "hint: "]);
}

/// A space whose kernel is a template.
fn template(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let space = crate::sweep::SPACE.replace("source = \"scale.cu\"", "template = \"k.cu.j2\"");
    for (name, text) in [("s.toml", &*space), ("naive.cu", crate::sweep::NAIVE), ("k.cu.j2", text)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The most memory that this process has had, bytes.
fn own_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_template_that_doubles_a_text_is_refused_before_it_fills_the_memory() {
    let doubled = "<% set x = x ~ x %>".repeat(40);
    let captured = "<% set x %><{ x }><{ x }><% endset %>".repeat(40);
    let listed = "<% set l = [x, x, x, x, x, x, x, x, x, x] %><% set x = l | join(x) %>".repeat(12);
    for growth in [doubled, captured, listed, "<% set x = 'x' * 99999999 ~ 'x' * 99999999 %>".into()] {
        let folder = template(&format!("<% set x = 'evo' %>{growth}\n{}", crate::sweep::KERNEL));
        let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
        command.current_dir(folder.path()).args(["space", "s.toml"]).stdin(Stdio::null());
        let said = std::fs::File::create(folder.path().join("said")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(said).spawn().unwrap();
        let (status, peak) = evo::process::wait_measured(child).unwrap();
        let said = std::fs::read_to_string(folder.path().join("said")).unwrap();
        assert_eq!(status.code(), Some(2), "{said}");
        for words in ["k.cu.j2: rendering needs more than 96 MiB of memory", "look for a text or a list"] {
            assert!(said.contains(words), "no `{words}` in: {said}");
        }
        // A child is counted with the memory of this process until it becomes evo.
        let most = (200 << 20).max(own_peak() + (32 << 20));
        assert!(peak < most, "evo and its children took {} MiB: {growth}", peak >> 20);
    }
}

#[test]
fn a_template_of_a_file_is_rendered_as_one_that_ships_is() {
    let text = format!("#define HALF <{{ BLOCK // 2 }}>\n{}", crate::sweep::KERNEL);
    let folder = template(&text);
    let output = evo(folder.path(), &["render", "s.toml"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("#define HALF 16\n"), "{output:?}");
    let folder = template("a\n<{ BLOK }>\n");
    refused(
        &evo(folder.path(), &["render", "s.toml"]),
        &["k.cu.j2:2: the template reads `BLOK`", "`BLOCK`?"],
    );
    // An error of the rendering itself comes back with its line.
    let folder = template("a\n<{ fail('not ' ~ BLOCK) }>\n");
    refused(&evo(folder.path(), &["render", "s.toml"]), &["k.cu.j2:2: not 32"]);
}
