//! `evo gate` on the host device, with kernels whose variants differ by far and thresholds that no machine's noise
//! reaches. The rule itself is tested on samples (`timing::regression`).

use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use evo_space::genome::ContentHash;
use serde_json::Value;

use crate::skip::has_programs;
use crate::support::scale::{HEAD, SOURCE, stage};
use crate::support::{self, BRIEF, answer, scale};

/// No machine is so loud; `WORK=500` is slower by more than that.
const LOUD: &str = "--threshold 100% --device host";

fn space(change: impl Fn(String) -> String) -> String {
    change(scale::space(HEAD))
}

fn evo(folder: &Path, words: &str) -> Command {
    let mut command = support::evo(folder, words);
    command.env_remove("GITHUB_ACTIONS").env_remove("GITHUB_STEP_SUMMARY");
    // A test that looks into its cache has made one of its own.
    let own = folder.join("cache");
    if own.exists() {
        command.env("EVO_CACHE_DIR", own);
    }
    command
}

#[track_caller]
fn object(words: &str, stdout: &[u8]) -> Value {
    let object = answer::object("gate", words, stdout);
    if object["error"].is_null() {
        answer::hold_nulls(&object);
    }
    object
}

#[track_caller]
fn judged(output: &Output, words: &str, code: i32, status: &str) -> Value {
    answer::judged("gate", words, output, code, status);
    object(words, &output.stdout)
}

#[track_caller]
fn check(folder: &Path, words: &str, code: i32, status: &str) -> Value {
    let words = format!("gate {words} {BRIEF} --json");
    judged(&evo(folder, &words).output().unwrap(), &words, code, status)
}

fn baseline(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("evo-baseline.json")).unwrap()).unwrap()
}

#[test]
fn a_baseline_is_made_kept_and_rewritten_after_a_pass_only() {
    let folder = stage();
    let root = folder.path();
    assert_eq!(check(root, "scale.toml --init --device host", 0, "pass")["result"]["updated"], true);
    let first = baseline(root);
    assert_eq!(
        (&first["schema"], &first["version"], &first["kernel"]),
        (&"evo.baseline".into(), &1.into(), &"scale".into())
    );
    assert!(first["source"].as_str().unwrap().contains("volatile float"), "{first}");
    assert!(first["problems"]["p"]["p50_ns"].as_f64().unwrap() > 0.0, "{first}");
    assert!(
        first["toolchain"].is_string() && first["noise_floor"].is_number() && first["code_hash"].is_string()
    );
    assert_eq!(first["launch"]["scale"]["grid"][0], "ceil_div(N, 64)");
    check(root, "scale.toml --init --device host", 2, "error");
    // The baseline against today's source, which is the same: by the space that the baseline names.
    let same = check(root, LOUD, 0, "pass");
    let row = &same["result"]["problems"][0];
    assert_eq!(
        (&row["decision"], &row["correct"], &row["problem"]),
        (&"pass".into(), &true.into(), &"p".into())
    );
    assert_eq!(row["stored_p50_ns"], first["problems"]["p"]["p50_ns"]);
    assert!(row["rounds"].is_number(), "{row}");
    assert_eq!((&same["result"]["notes"], baseline(root)), (&Value::Array(Vec::new()), first.clone()));
    let slow = check(root, &format!("{LOUD} --candidate WORK=500 --update"), 1, "fail");
    assert_eq!(slow["result"]["problems"][0]["decision"], "regression", "{slow}");
    assert_eq!((&slow["result"]["updated"], baseline(root)), (&false.into(), first));
    let wrong = check(root, &format!("{LOUD} --candidate FAULT=1 --update"), 1, "fail");
    let row = &wrong["result"]["problems"][0];
    assert_eq!(
        (&row["decision"], &row["correct"], &row["ratio"]),
        (&"incorrect".into(), &false.into(), &Value::Null)
    );
    let fast = check(root, &format!("{LOUD} --candidate WORK=1 --update"), 0, "pass");
    assert_eq!(
        (&fast["result"]["updated"], &baseline(root)["configuration"]["WORK"]),
        (&true.into(), &1.into())
    );
    assert!(fast["result"]["problems"][0]["ratio"].as_f64().unwrap() < 0.7, "{fast}");
    // The source of the baseline outlives an edit of the kernel.
    fs::write(root.join("scale.cu"), SOURCE.replace("step < WORK", "step < 500 + WORK")).unwrap();
    let edited = check(root, LOUD, 1, "fail");
    assert_eq!(edited["result"]["problems"][0]["decision"], "regression", "{edited}");
    // Files of the last run, and a line of each.
    let kept: Value =
        serde_json::from_str(&fs::read_to_string(root.join("evidence/gate/gate.json")).unwrap()).unwrap();
    assert_eq!((&kept["schema"], &kept["result"]["decision"]), (&"evo.gate.run".into(), &"fail".into()));
    assert!(fs::read_to_string(root.join("evidence/gate/gate.md")).unwrap().contains("| p |"));
    let history = evo(root, "history --json").output().unwrap();
    let history: Value = serde_json::from_slice(&history.stdout).unwrap();
    let decisions: Vec<&str> = history["result"]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| own["decision"].as_str().unwrap())
        .collect();
    assert_eq!(decisions, ["pass", "fail", "fail", "pass", "fail"]);
}

#[test]
fn what_is_missing_never_passes() {
    let folder = stage();
    let root = folder.path();
    check(root, "scale.toml --init --device host", 0, "pass");
    // A sanitizer is demanded, by a flag or by the space, and there is none for this device.
    let demanded = check(root, &format!("{LOUD} --sanitize"), 1, "not_run");
    assert_eq!(demanded["result"]["missing"], serde_json::json!(["sanitize"]), "{demanded}");
    let allowed = check(root, &format!("{LOUD} --sanitize --allow-not-run sanitize"), 0, "pass");
    assert_eq!(allowed["allowed_not_run"], serde_json::json!(["sanitize"]));
    let required = |text: String| text.replace("[check]", "[check]\nsanitize = \"required\"");
    fs::write(root.join("scale.toml"), space(required)).unwrap();
    assert_eq!(check(root, LOUD, 1, "not_run")["result"]["missing"], serde_json::json!(["sanitize"]));
    fs::write(root.join("scale.toml"), space(|text| text)).unwrap();
    // A problem is gone.
    fs::write(root.join("scale.toml"), space(|text| text.replace("name = \"p\"", "name = \"q\""))).unwrap();
    let gone = check(root, LOUD, 1, "fail");
    let rows = gone["result"]["problems"].as_array().unwrap();
    assert_eq!(
        rows.iter().map(|row| row["decision"].as_str().unwrap()).collect::<Vec<_>>(),
        ["pass", "missing"]
    );
    assert!(gone["result"]["notes"].to_string().contains("was edited"), "{gone}");
    // It has its name still, and is another one.
    fs::write(root.join("scale.toml"), space(|text| text.replace("N = 2000", "N = 40"))).unwrap();
    let other = check(root, LOUD, 1, "fail");
    let row = &other["result"]["problems"][0];
    assert_eq!((&row["decision"], &row["stored_p50_ns"]), (&"missing".into(), &Value::Null));
    assert!(row["why"].as_str().unwrap().contains("with N=2000, and the space times it with N=40"), "{row}");
    // The baseline does not pass its gates any more, because it is wrong now.
    fs::write(root.join("scale.toml"), space(|text| text)).unwrap();
    let mut own = baseline(root);
    let edit = |own: &mut Value, from: &str, to: &str| {
        own["source"] = own["source"].as_str().unwrap().replace(from, to).into();
        fs::write(root.join("evo-baseline.json"), own.to_string()).unwrap();
    };
    let rehash = |own: &mut Value| {
        let hash = ContentHash::of(own["source"].as_str().unwrap().as_bytes());
        own["source_hash"] = hash.as_str().into();
        fs::write(root.join("evo-baseline.json"), own.to_string()).unwrap();
    };
    edit(&mut own, "2.0f * value", "3.0f * value");
    // Its author says nothing of that edit.
    let edited = check(root, LOUD, 2, "error");
    assert_eq!(edited["error"]["code"], "bad_file", "{edited}");
    rehash(&mut own);
    let wrong = check(root, LOUD, 1, "not_run");
    assert!(
        wrong["result"]["why"].as_str().unwrap().contains("the baseline does not pass its gates"),
        "{wrong}"
    );
    // Goals that nothing can judge here. The candidate is far faster, so that its p90 is too.
    edit(&mut own, "3.0f * value", "2.0f * value");
    rehash(&mut own);
    let goals = "\n[goals]\np90 = \"not worse\"\nmetrics = [\"sm_busy_percent >= 70\"]\nfaster_than = [{ peer = \"torch\", by = \"10%\" }]\n";
    fs::write(root.join("scale.toml"), space(|text| text + goals)).unwrap();
    let words = format!("{LOUD} --goals --candidate WORK=1 --allow-not-run metrics");
    let open = check(root, &words, 1, "not_run");
    let states: Vec<&str> = open["result"]["goals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| own["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["not_run", "met", "not_run"], "{open}");
    let allowed = check(root, &format!("{words} --allow-not-run faster_than"), 0, "pass");
    assert_eq!(allowed["allowed_not_run"].as_array().unwrap().len(), 2);
}

/// A kernel whose pace changes every few milliseconds, by up to ten times: no round tells 2 % from that.
#[test]
fn what_the_noise_hides_is_noisy_and_never_a_pass() {
    let folder = stage();
    let root = folder.path();
    let pace = "(int)(((unsigned)(clock64() >> 25) * 2654435761u) >> 22)";
    let unsteady = SOURCE.replace("step < WORK", &format!("step < WORK + {pace}"));
    assert_ne!(unsteady, SOURCE);
    // Once a call; in the condition it would be asked in every step.
    let unsteady = unsteady
        .replace("    for (int step = 0;", &format!("    const int pace = {pace};\n    for (int step = 0;"))
        .replace(&format!("WORK + {pace}"), "WORK + pace");
    fs::write(root.join("scale.cu"), unsteady).unwrap();
    check(root, "scale.toml --init --device host", 0, "pass");
    let before = baseline(root);
    let words = format!("gate --device host --update {BRIEF} --json");
    let mut command = evo(root, &words);
    let summary = root.join("summary.md");
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary);
    let output = command.output().unwrap();
    let noisy = judged(&output, &words, 1, "noisy");
    let row = &noisy["result"]["problems"][0];
    assert_eq!(
        (&row["decision"], &row["correct"], &row["rounds"]),
        (&"noisy".into(), &true.into(), &3.into())
    );
    assert!(row["floor"].as_f64().unwrap() > 0.02 || row["ratio_low"].as_f64().unwrap() < 0.98, "{row}");
    assert_eq!((&noisy["result"]["updated"], baseline(root)), (&false.into(), before));
    assert!(String::from_utf8_lossy(&output.stderr).contains("::warning"), "{output:?}");
    assert!(fs::read_to_string(summary).unwrap().contains("noisy"));
}

/// A peer takes 1 ms for each call by the clock: `WORK=1` is faster by far, and nothing is 100 times as fast as that.
#[test]
fn a_candidate_has_to_be_faster_than_peers() {
    if !has_programs(&["python3"], "the peer of this test") {
        return;
    }
    let folder = stage();
    let root = folder.path();
    fs::write(root.join("peer.py"), include_str!("../data/peers/fake_peer.py")).unwrap();
    fs::DirBuilder::new().mode(0o700).create(root.join("cache")).unwrap();
    let peer = |name: &str, how: &str| {
        format!(
            "\n[[peers]]\nname = \"{name}\"\ncommand = [\"python3\", \"peer.py\", \"{how}\", \"state\"]\n"
        )
    };
    let peers = [("fake", "well"), ("wrong", "wrong"), ("dead", "die_block"), ("false", "too_short")];
    let peers: String = peers.iter().map(|(name, how)| peer(name, how)).collect();
    let with = |goals: &str| {
        let goals = format!("{peers}\n[goals]\nfaster_than = [{goals}]\n");
        fs::write(root.join("scale.toml"), space(|text| text + &goals)).unwrap();
    };
    with("{ peer = \"fake\" }");
    check(root, "scale.toml --init --device host --seed 1 --candidate WORK=500", 0, "pass");
    let words = format!("{LOUD} --seed 1 --goals --candidate");
    let met = check(root, &format!("{words} WORK=1"), 0, "pass");
    assert_eq!(met["result"]["goals"][0]["state"], "met", "{met}");
    with(
        "{ peer = \"fake\", by = \"10000%\" }, { peer = \"fake\", problems = 2 }, { peer = \"wrong\" }, \
         { peer = \"dead\" }, { peer = \"false\" }",
    );
    let unmet = check(root, &format!("{words} WORK=500 --allow-not-run faster_than"), 1, "fail");
    let goals = unmet["result"]["goals"].as_array().unwrap();
    let expected = [
        ("unmet", "`p`"),
        ("not_run", "asks for 2 problems"),
        ("not_run", "wrong_answer"),
        ("not_run", "SIGKILL"),
        ("not_run", "by our clock"),
    ];
    for (goal, (state, why)) in goals.iter().zip(expected) {
        assert_eq!(goal["state"], state, "{goal}");
        assert!(goal["why"].as_str().unwrap().contains(why), "no `{why}` in {goal}");
    }
    assert_eq!(goals.len(), expected.len());
    let left: Vec<_> = fs::read_dir(root.join("cache/peers")).unwrap().collect();
    assert!(left.is_empty(), "files of peers are left: {left:?}");
    // Minutes of work would come before anybody heard of a name that nobody has.
    with("{ peer = \"fke\" }");
    let unknown = check(root, &format!("{words} WORK=1"), 2, "error");
    let error = unknown["error"].to_string();
    assert!(error.contains("names the peer `fke`") && error.contains("did you mean `fake`?"), "{error}");
}

#[test]
fn github_reads_annotations_and_a_table() {
    let folder = stage();
    let root = folder.path();
    check(root, "scale.toml --init --device host", 0, "pass");
    let summary = root.join("summary.md");
    let run = |words: &str, summary: &Path| {
        let mut command = evo(root, &format!("gate {LOUD} {BRIEF} --candidate WORK=500 {words}"));
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", summary).output().unwrap()
    };
    let output = run("", &summary);
    let text = String::from_utf8_lossy(&output.stdout).to_string();
    assert_eq!(output.status.code(), Some(1));
    let line = HEAD.lines().position(|line| line == "name = \"p\"").unwrap() + 1;
    let expected = format!("::error file=scale.toml,line={line},title=evo gate%3A p regression::slower by ");
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.lines().next().unwrap().contains(" %25 ("), "{text}");
    assert!(fs::read_to_string(&summary).unwrap().starts_with("## evo gate: scale"));
    // One object on stdout; a page that cannot be written changes nothing.
    let output = run("--json", &root.join("missing/summary.md"));
    judged(&output, "--json", 1, "fail");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("::error file=") && told.contains("warning: cannot append"), "{told}");
    // Nobody reads stderr, and stdout still has its object.
    let mut command = evo(root, &format!("gate {LOUD} --candidate FAULT=1 --format github --json"));
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    judged(&command.stderr(full).output().unwrap(), "--json 2>/dev/full", 1, "fail");
    let plain = run("--format text", &summary);
    assert!(!String::from_utf8_lossy(&plain.stdout).contains("::error"));
}

/// A baseline whose source has another entry, with the hash of that source or of the one before.
fn without_entry(baseline: &str, hashed: bool) -> String {
    let mut own: Value = serde_json::from_str(baseline).unwrap();
    let source = own["source"].as_str().unwrap().replace("void scale(", "void other(");
    if hashed {
        own["source_hash"] = ContentHash::of(source.as_bytes()).as_str().into();
    }
    own["source"] = source.into();
    own.to_string()
}

#[test]
fn what_is_no_baseline_is_refused_and_nothing_is_written() {
    let folder = stage();
    let root = folder.path();
    let place = root.join("evo-baseline.json");
    let refuse = |words: &str, code: &str, told: &str| {
        let answer = check(root, &format!("{words} --device host"), 2, "error");
        let error = &answer["error"];
        assert_eq!(error["code"], code, "`{words}`: {answer}");
        let all = format!("{} {}", error["message"].as_str().unwrap(), error["hint"]);
        assert!(all.contains(told), "`{words}`: no `{told}` in {all}");
        assert!(!root.join("evidence").exists(), "`{words}`");
        answer
    };
    refuse("scale.toml", "bad_file", "--init");
    refuse("scale.toml --baseline missing/b.json --init", "bad_file", "no folder");
    refuse("scale.toml --init --update", "usage", "cannot be used with");
    refuse("scale.toml --threshold lots", "usage", "share");
    refuse("scale.toml --candidate=", "usage", "names no candidate");
    for (text, told) in
        [("", "EOF"), ("[1, 2]", "`schema`"), ("{\"schema\":\"evo.baseline\",\"version\":7}", "version is 7")]
    {
        fs::write(&place, text).unwrap();
        assert_eq!(refuse("scale.toml", "bad_file", told)["error"]["place"]["file"], "evo-baseline.json");
    }
    fs::remove_file(&place).unwrap();
    assert!(Command::new("mkfifo").arg(&place).status().unwrap().success());
    refuse("scale.toml", "bad_file", "named pipe");
    fs::remove_file(&place).unwrap();
    symlink(root.join("away.json"), &place).unwrap();
    refuse("scale.toml --init", "bad_file", "is a link");
    fs::remove_file(&place).unwrap();
    check(root, "scale.toml --init --device host", 0, "pass");
    fs::remove_dir_all(root.join("evidence")).unwrap();
    refuse("attention_simt", "usage", "its kernel is `scale`");
    refuse("scale.toml --goals", "usage", "no `[goals]`");
    refuse("scale.toml --candidate WORK=3", "usage", "WORK");
    refuse("scale.toml --allow-not-run metrcs", "usage", "did you mean `metrics`");
    let whole = fs::read_to_string(&place).unwrap();
    fs::write(&place, whole.replace("\"WORK\": 80", "\"WORK\": 7")).unwrap();
    refuse("scale.toml", "usage", "`WORK=7` is not among the values");
    fs::write(&place, whole.replace("\"WORK\": 80", "\"WORK\": 1, \"WORK\": 80")).unwrap();
    refuse("scale.toml", "bad_file", "duplicate key `WORK`");
    fs::write(&place, without_entry(&whole, false)).unwrap();
    refuse("scale.toml", "bad_file", "whose hash it carries");
    fs::write(&place, without_entry(&whole, true)).unwrap();
    refuse("scale.toml", "usage", "has no entry `scale`");
    fs::write(&place, whole.replace("\"device_kind\": \"host\"", "\"device_kind\": \"cuda\"")).unwrap();
    refuse("scale.toml", "usage", "was made on cuda");
    fs::write(&place, &whole).unwrap();
    for (goals, told) in [
        ("metrics = [\"sm_busy_percnt >= 70\"]", "did you mean `sm_busy_percent`?"),
        ("metrics = [\"sm_busy_percent\"]", "is not a goal"),
        ("metrics = [\"sm_busy_percent >= many\"]", "is not a number"),
        ("p90 = \"worse\"", "not worse"),
        ("faster_than = [{ by = \"10%\" }]", "peer"),
        ("faster_than = [{ peer = \"torch\", by = \"lots\" }]", "not a share"),
        ("faster_than = [{ peer = \"torch\", problems = 0 }]", "problems"),
        ("fastr_than = []", "faster_than"),
        ("metrics = []", "asks for nothing"),
    ] {
        fs::write(root.join("scale.toml"), space(|text| format!("{text}\n[goals]\n{goals}\n"))).unwrap();
        let answer = check(root, "scale.toml --goals --device host", 2, "error");
        let error = &answer["error"];
        assert!(error["message"].as_str().unwrap().contains(told), "`{goals}`: {error}");
        assert!(error["place"]["line"].as_u64().unwrap() > 20, "`{goals}`: {error}");
    }
}

#[test]
fn an_end_from_outside_leaves_one_object_and_the_baseline() {
    let folder = stage();
    let root = folder.path();
    check(root, "scale.toml --init --device host", 0, "pass");
    let before = baseline(root);
    let words = "gate --device host --candidate FAULT=2 --update --json";
    let late = evo(root, &format!("{words} --limit total=3s")).output().unwrap();
    judged(&late, words, 1, "not_run");
    let child = evo(root, words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text = answer::interrupted_at_work(child, &root.join("evidence/scale-host/iterations.lock"));
    assert_eq!(object("Ctrl-C", text.as_bytes())["status"], "interrupted");
    assert_eq!(baseline(root), before);
}
