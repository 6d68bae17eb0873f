//! Whatever a command needs is taken away or broken, one thing at a time: tools, peers, references, compilers, devices,
//! shapes, rivals, baselines, time. No absence is a pass. What the gate lacks beside these is in `gate.rs`
//! (`what_is_missing_never_passes`), and what tools answer when they fail in `profile.rs` and `sanitize.rs`.

use std::fs;
use std::path::Path;

use crate::contract::stage;
use crate::support::{BRIEF, answer, evo};

/// What is gone, what is done to the folder for it, and a command that would pass otherwise with its exit code and status.
struct Absence {
    gone: &'static str,
    /// A file and what is replaced in it; a file that is not there is written, and one without text removed.
    edit: Option<(&'static str, &'static str, &'static str)>,
    environment: Option<(&'static str, &'static str)>,
    words: &'static str,
    ends: (i32, &'static str),
}

const NONE: Absence = Absence { gone: "", edit: None, environment: None, words: "", ends: (1, "not_run") };

const PEER: &str = "space = \"scale.toml\"\nmodes = [\"hot\"]\n[[peers]]\nname = \"p\"\ncommand = ";
const NAIVE: &str = "{ source = \"naive.cu\", entry = \"naive\", grid = 1, block = 1 }";

const ABSENCES: [Absence; 20] = [
    Absence { gone: "the profiler's counters", words: "profile scale.toml", ..NONE },
    Absence { gone: "the sanitizer", words: "sanitize scale.toml", ..NONE },
    Absence {
        gone: "a sanitizer that a flag demands",
        words: "evaluate scale.toml BLOCK=32 --sanitize",
        ..NONE
    },
    Absence {
        gone: "a peer's program",
        edit: Some(("b.toml", PEER, "[\"./none\"]")),
        words: "bench b.toml --rounds 3",
        ends: (2, "error"),
        ..NONE
    },
    Absence {
        gone: "a peer that dies",
        edit: Some(("b.toml", PEER, "[\"false\"]")),
        words: "bench b.toml --rounds 3",
        ..NONE
    },
    Absence {
        gone: "a peer that says nothing",
        edit: Some(("b.toml", PEER, "[\"sleep\", \"600\"]\ntimeout_s = 1")),
        words: "bench b.toml --rounds 3",
        ..NONE
    },
    Absence {
        gone: "the goals",
        words: "gate scale.toml --goals --threshold 90%",
        ends: (2, "error"),
        ..NONE
    },
    Absence {
        gone: "the baseline",
        words: "gate scale.toml --baseline none.json",
        ends: (2, "error"),
        ..NONE
    },
    Absence {
        gone: "a shape that no memory holds",
        edit: Some(("grid.toml", "", "[[problems]]\nname = \"huge\"\nsizes = { N = 99999999999999 }\n")),
        words: "evaluate scale.toml BLOCK=32 --grid grid.toml",
        ends: (1, "fail"),
        ..NONE
    },
    Absence {
        gone: "a rival that passes its gates",
        words: "evaluate scale.toml BLOCK=32 --against FAULT=1 --require accepted",
        ..NONE
    },
    Absence { gone: "the default configuration's time", words: "benchmark wrong.toml FAULT=0", ..NONE },
    Absence { gone: "the time", words: "evaluate hang.toml --time-limit 1s", ..NONE },
    Absence { gone: "the time of all", words: "test hang.toml --limit total=1s", ..NONE },
    Absence {
        gone: "the compiler",
        environment: Some(("CXX", "/nonexistent/c++")),
        words: "test scale.toml",
        ends: (2, "error"),
        ..NONE
    },
    Absence {
        gone: "the compiler's output",
        environment: Some(("CXX", "/bin/true")),
        words: "gate scale.toml --threshold 90%",
        ends: (4, "error"),
        ..NONE
    },
    Absence {
        gone: "the reference's source",
        edit: Some(("naive.cu", "", "")),
        words: "test scale.toml",
        ends: (2, "error"),
        ..NONE
    },
    Absence {
        gone: "the reference's program",
        edit: Some(("scale.toml", NAIVE, "{ command = [\"./none\"] }")),
        words: "evaluate scale.toml BLOCK=32",
        ends: (2, "error"),
        ..NONE
    },
    Absence {
        gone: "the reference's answer",
        edit: Some(("scale.toml", NAIVE, "{ command = [\"true\"] }")),
        words: "evaluate scale.toml BLOCK=32",
        ends: (2, "error"),
        ..NONE
    },
    Absence {
        gone: "the worker",
        words: "test scale.toml --worker-command false",
        ends: (2, "error"),
        ..NONE
    },
    Absence { gone: "the problem", words: "evaluate scale.toml --problem q", ends: (2, "error"), ..NONE },
];

fn edit(root: &Path, (name, from, to): (&str, &str, &str)) {
    let path = root.join(name);
    match fs::read_to_string(&path) {
        Ok(_) if from.is_empty() && to.is_empty() => fs::remove_file(path).unwrap(),
        Ok(text) => {
            assert!(text.contains(from), "{name} has no `{from}`");
            fs::write(path, text.replacen(from, to, 1)).unwrap();
        }
        Err(_) => fs::write(path, format!("{from}{to}")).unwrap(),
    }
}

#[test]
fn no_absence_is_a_pass() {
    let folder = stage();
    let root = folder.path();
    let judge = |words: &str, environment: Option<(&str, &str)>, ends: (i32, &str), gone: &str| {
        let sampling = if words.starts_with("test") || words.starts_with("profile") { "" } else { BRIEF };
        let sampling = if words.starts_with("sanitize") { "" } else { sampling };
        let words = format!("{words} {sampling} --device host --json");
        let output = evo(root, &words).envs(environment).output().unwrap();
        let command = words.split(' ').next().unwrap();
        answer::judged(command, &format!("without {gone}: {words}"), &output, ends.0, ends.1)
    };
    let space = fs::read_to_string(root.join("scale.toml")).unwrap();
    fs::write(root.join("hang.toml"), space.replace("default = 0", "default = 2")).unwrap();
    // With everything there each kind of command passes.
    judge("gate scale.toml --init --baseline evo-baseline.json", None, (0, "pass"), "nothing");
    judge("test scale.toml", None, (0, "pass"), "nothing");
    judge("evaluate scale.toml BLOCK=32", None, (0, "pass"), "nothing");
    let naive = fs::read_to_string(root.join("naive.cu")).unwrap();
    for Absence { gone, edit: change, environment, words, ends } in ABSENCES {
        if let Some(change) = change {
            edit(root, change);
        }
        judge(words, environment, ends, gone);
        fs::write(root.join("scale.toml"), &space).unwrap();
        fs::write(root.join("naive.cu"), &naive).unwrap();
        for extra in ["b.toml", "grid.toml"] {
            let _ = fs::remove_file(root.join(extra));
        }
    }
}
