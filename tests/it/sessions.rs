//! Sessions: command lines that follow one another in a folder, as people type them, each with how it ends, what it says,
//! what its answer holds and what it leaves. They are files of `tests/data/sessions`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::skip::has_programs;
use crate::support::answer::{self, holds, is_as, value_at};
use crate::support::cache;
use crate::support::kernels::data;
use crate::support::stage::{Ran, Stage};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    /// The folder whose files are there at the start, as `Stage::of` takes it.
    stage: Option<String>,
    /// Whether the device worker is played.
    #[serde(default)]
    scripted: bool,
    /// Programs without which it is skipped.
    #[serde(default)]
    needs: Vec<String>,
    /// Words behind the command lines of a command.
    #[serde(default)]
    always: BTreeMap<String, String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    steps: Vec<Step>,
}

/// First the folder is changed, then evo is run. In texts `{ROOT}` is the repository, `{NAME}` what `keep` has called so, and
/// `{}` the first text of a row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// What the step is there for, where its words do not say it.
    #[serde(default)]
    rule: String,
    #[serde(default)]
    write: BTreeMap<String, String>,
    /// A file, a text that it has, and what takes its place.
    #[serde(default)]
    edit: Vec<[String; 3]>,
    /// Commands of the shell, to which evo is `$EVO`.
    sh: Option<String>,
    run: Option<String>,
    /// An empty text takes a variable away.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// The exit code, and the status of the one object, which is asked for with `--json`.
    #[serde(default = "passes")]
    ends: String,
    /// Texts of stderr, of stdout, or of the message and the hint of an error.
    #[serde(default)]
    says: Vec<String>,
    /// The same for texts that are said once.
    #[serde(default)]
    once: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
    /// What stdout is, and stderr (`answer::is_as`).
    #[serde(default)]
    out: Vec<Value>,
    #[serde(default)]
    err: Vec<Value>,
    /// What the object holds (`answer::holds`).
    #[serde(default)]
    at: BTreeMap<String, Value>,
    /// Whether files are there; for a folder the names in it, for a text what it is, for JSON and lines of JSON what they hold.
    #[serde(default)]
    files: BTreeMap<String, Value>,
    /// Names for values of the object, or of a file that stands before the path.
    #[serde(default)]
    keep: BTreeMap<String, String>,
    /// The files that the step writes and edits are as before afterwards.
    #[serde(default)]
    undo: bool,
    /// The step once for each: what takes the place of `{}`, and what is said beside `says`.
    #[serde(default)]
    rows: Vec<Vec<String>>,
}

fn passes() -> String {
    "0 pass".into()
}

/// A session at work.
struct Play<'s> {
    session: &'s Session,
    stage: Stage,
    kept: BTreeMap<String, Value>,
    /// For messages.
    place: String,
}

impl Play<'_> {
    fn filled(&self, text: &str, row: &[String]) -> String {
        let text = row.first().map_or_else(|| text.to_string(), |own| text.replace("{}", own));
        let text = text.replace("{ROOT}", env!("CARGO_MANIFEST_DIR"));
        self.kept.iter().fold(text, |text, (name, value)| {
            let shown = value.as_str().map_or_else(|| value.to_string(), String::from);
            text.replace(&format!("{{{name}}}"), &shown)
        })
    }

    /// What is expected, with the values that were kept.
    fn expected(&self, value: &Value, row: &[String]) -> Value {
        let Some(text) = value.as_str() else { return value.clone() };
        let name = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let kept = name.and_then(|name| self.kept.get(name)).cloned();
        kept.unwrap_or_else(|| self.filled(text, row).into())
    }

    fn step(&mut self, step: &Step, row: &[String]) {
        let names = step.write.keys().chain(step.edit.iter().map(|own| &own[0]));
        let places: BTreeSet<_> = names.map(|name| self.stage.at(&self.filled(name, row))).collect();
        let before: Vec<_> = places.iter().map(|place| (place, fs::read(place).ok())).collect();
        for (name, text) in &step.write {
            self.stage.write(&self.filled(name, row), &self.filled(text, row));
        }
        for edit in &step.edit {
            let [name, from, to] = edit.each_ref().map(|text| self.filled(text, row));
            self.stage.edit(&name, &from, &to);
        }
        if let Some(script) = &step.sh {
            let mut shell = Command::new("sh");
            shell.args(["-euc", &self.filled(script, row)]).current_dir(self.stage.path());
            shell.env("EVO", env!("CARGO_BIN_EXE_evo")).env("EVO_CACHE_DIR", cache());
            assert!(shell.status().unwrap().success(), "{}: {script}", self.place);
        }
        if let Some(words) = &step.run {
            let words = self.filled(words, row);
            self.run(step, words.strip_prefix("evo ").unwrap_or(&words), row);
        }
        let asks =
            [&step.says, &step.once, &step.lacks].iter().any(|own| !own.is_empty()) || !step.at.is_empty();
        assert!(step.run.is_some() || !asks, "{}: nothing ran", self.place);
        for (name, expected) in &step.files {
            self.file(&self.filled(name, row), expected, row);
        }
        for (place, text) in before.iter().filter(|_| step.undo || !step.rows.is_empty()) {
            text.as_ref().map_or_else(|| fs::remove_file(place), |text| fs::write(place, text)).unwrap();
        }
    }

    fn run(&mut self, step: &Step, words: &str, row: &[String]) {
        let command = words.split(' ').next().unwrap();
        let (code, status) = step.ends.split_once(' ').map_or((&*step.ends, None), |(a, b)| (a, Some(b)));
        assert!(status.is_some() || step.at.is_empty(), "{}: only an object holds something", self.place);
        let always = self.session.always.get(command).map_or(String::new(), |own| self.filled(own, row));
        let json = if status.is_some() && !words.contains("--json") { "--json" } else { "" };
        let mut evo = self.stage.evo("");
        evo.args(shlex::split(&format!("{words} {always} {json}")).unwrap());
        for (name, value) in self.session.environment.iter().chain(&step.environment) {
            let value = self.filled(value, row);
            if value.is_empty() {
                evo.env_remove(name)
            } else {
                evo.env(name, value)
            };
        }
        let ran = Ran::of(words, &evo.output().unwrap());
        let place = format!("{}: {ran}", self.place);
        assert_eq!(ran.code, Some(code.parse::<i32>().unwrap()), "{place}");
        let mut told = format!("{}{}", ran.err, ran.out);
        if let Some(status) = status {
            let object = answer::ended(&ran, code, status, !step.at.contains_key("schema"));
            // A word of the command line in it is not said.
            let mut own = object.clone();
            own["repro"] = Value::Null;
            let before = ran.out.trim_end().rsplit_once('\n').map_or("", |(lines, _)| lines);
            told = format!("{}{before}{own}", ran.err);
            for part in ["message", "hint"] {
                told += &format!("\n{part}: {}", object["error"][part].as_str().unwrap_or_default());
            }
            for (path, expected) in &step.at {
                let (found, expected) = (value_at(&object, path), self.expected(expected, row));
                let is_so = is_as(&object, found.as_ref(), &expected);
                assert!(is_so, "`{path}` is {found:?}, not {expected}: {place}");
            }
            for (name, path) in step.keep.iter().filter(|(_, path)| !path.contains(' ')) {
                let value = value_at(&object, path).unwrap_or_else(|| panic!("no `{path}`: {place}"));
                self.kept.insert(name.clone(), value);
            }
        }
        for part in step.says.iter().chain(row.iter().skip(1)).map(|part| self.filled(part, row)) {
            assert!(told.contains(&part), "no `{part}`: {place}");
        }
        for part in step.lacks.iter().map(|part| self.filled(part, row)) {
            assert!(!told.contains(&part), "`{part}` is said: {place}");
        }
        for part in step.once.iter().map(|part| self.filled(part, row)) {
            assert_eq!(
                ran.err.matches(&part).count() + ran.out.matches(&part).count(),
                1,
                "`{part}`: {place}"
            );
        }
        for (text, expected) in [(&ran.out, &step.out), (&ran.err, &step.err)] {
            for expected in expected.iter().map(|own| self.expected(own, row)) {
                let is_so = is_as(&Value::Null, Some(&Value::from(text.as_str())), &expected);
                assert!(is_so, "it is not {expected}: {place}");
            }
        }
        for (name, source) in &step.keep {
            if let Some((file, path)) = source.split_once(' ') {
                let file = self.filled(file, row);
                let value = value_at(&self.json(&file), &self.filled(path, row));
                self.kept
                    .insert(name.clone(), value.unwrap_or_else(|| panic!("no `{path}` in {file}: {place}")));
            }
        }
    }

    /// JSON, or the lines of it.
    fn json(&self, name: &str) -> Value {
        let text = self.stage.read(name);
        let lines = || text.lines().map(serde_json::from_str::<Value>).collect();
        let value: Result<Value, _> =
            if name.ends_with(".jsonl") { lines() } else { serde_json::from_str(&text) };
        value.unwrap_or_else(|error| panic!("{}: {name}: {error}: {text}", self.place))
    }

    fn file(&self, name: &str, expected: &Value, row: &[String]) {
        let (path, place) = (self.stage.at(name), &self.place);
        match expected {
            Value::Bool(is_there) => assert_eq!(path.exists(), *is_there, "{place}: {name}"),
            Value::Array(_) if path.is_dir() => {
                let names = fs::read_dir(&path).unwrap().map(|own| own.unwrap().file_name().into_string());
                let names: BTreeSet<String> = names.collect::<Result<_, _>>().unwrap();
                assert_eq!(Value::from_iter(names), *expected, "{place}: {name}");
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.file(name, part, row)),
            Value::Object(paths) => {
                let paths = paths.iter().map(|(path, own)| (self.filled(path, row), self.expected(own, row)));
                holds(&self.json(name), &paths.collect::<serde_json::Map<_, _>>().into());
            }
            _ => {
                let (text, expected) = (self.stage.read(name), self.expected(expected, row));
                let is_so = is_as(&Value::Null, Some(&Value::from(&*text)), &expected);
                assert!(is_so, "{place}: {name} is not {expected}: {text}");
            }
        }
    }
}

fn play(name: &str) {
    let text = fs::read_to_string(data(&format!("sessions/{name}.toml"))).unwrap();
    let session: Session = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    if !has_programs(&session.needs.iter().map(String::as_str).collect::<Vec<_>>(), "a session") {
        return;
    }
    let stage = session.stage.as_ref().map_or_else(Stage::empty, |own| Stage::of(own));
    let stage = if session.scripted { stage.scripted() } else { stage };
    let mut play = Play { session: &session, stage, kept: BTreeMap::new(), place: String::new() };
    for (number, step) in (1..).zip(&session.steps) {
        let once = [Vec::new()];
        for row in if step.rows.is_empty() { &once[..] } else { &step.rows } {
            play.place = format!("{name}, step {number} {} {row:?}", step.rule);
            play.step(step, row);
        }
    }
}

#[test]
fn every_session_is_played() {
    let names = fs::read_dir(data("sessions")).unwrap().map(|own| own.unwrap().file_name());
    for name in names.map(|name| name.into_string().unwrap()) {
        let call = format!("play(\"{}\")", name.strip_suffix(".toml").unwrap());
        assert!(include_str!("sessions.rs").contains(&call), "{name}");
    }
}

#[test]
fn commands_leave_one_object_whatever_happens() {
    play("contract");
}

#[test]
fn a_candidate_is_judged_and_what_is_missing_said() {
    play("judging");
    play("sanitize");
}

#[test]
fn no_absence_is_a_pass() {
    play("taken_away");
}

#[test]
fn a_baseline_is_made_kept_and_rewritten_after_a_pass_only() {
    play("gate_baseline");
}

#[test]
fn a_gate_passes_nothing_that_is_missing() {
    play("gate_missing");
}

#[test]
fn what_is_no_baseline_is_refused() {
    play("gate_refused");
}

#[test]
fn evaluations_keep_reject_and_revert() {
    play("evaluate_ladder");
}

#[test]
fn evaluations_of_what_is_demanded_and_of_files() {
    play("evaluate_sanitize");
    play("evaluate_files");
}

#[test]
fn what_was_tried_is_listed_and_can_be_had_back() {
    play("history");
    play("history_refused");
    play("history_numbers");
}

#[test]
fn profiles_without_counters_are_no_pass() {
    play("profile");
}

#[test]
fn first_steps() {
    play("newcomer");
}

#[test]
fn first_steps_of_spaces_and_studies() {
    play("newcomer_spaces");
    play("newcomer_studies");
}

#[test]
fn candidates_have_many_names() {
    play("candidates");
    play("candidates_refused");
}

#[test]
fn exports_are_what_evo_runs() {
    play("export");
    play("export_constants");
}

#[test]
fn kernels_and_tasks_become_spaces() {
    play("init");
    play("init_refused");
    play("import_t1");
}

#[test]
fn tasks_that_cannot_be_taken_over_are_refused() {
    play("import_refused");
    play("import_python");
}

#[test]
fn sweeps_that_end_otherwise() {
    play("sweep");
}

#[test]
fn sweeps_beside_a_board() {
    play("sweep_sanitize");
    play("sweep_later");
}

#[test]
fn sweeps_of_recordings() {
    play("prior");
    play("replay");
}

#[test]
fn sweeps_for_each_problem() {
    play("per_problem");
}

#[test]
fn results_outlive_edits_in_other_studies() {
    play("outlive_fresh");
    play("outlive_problems");
}

#[test]
fn results_outlive_edits_in_the_same_study() {
    play("outlive_resume");
}

#[test]
fn references_by_command() {
    play("reference_command");
}

#[test]
fn benchmarks_that_cannot_begin_and_problems_on_request() {
    play("bench");
}

#[test]
fn others_time_and_check_a_kernel() {
    play("crosscheck");
}

#[test]
fn odd_places_and_reports_of_nothing() {
    play("bad_input");
    play("report_refused");
}

#[test]
fn kernels_that_are_harmed_on_purpose() {
    play("invert");
}

#[test]
fn the_host_twin_names_faults_that_no_answer_shows() {
    play("instrumented");
}
