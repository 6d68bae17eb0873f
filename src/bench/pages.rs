//! The files of a benchmark and the lines on a terminal: rows for people and for spreadsheets.

use std::io;
use std::path::{Path, PathBuf};

use evo_protocol::bench::{BenchReport, BenchRow, BenchRun, Implementation, RowStatus};
use evo_protocol::measurement::TimingMode;
use serde_json::{Map, Value, json};

use super::outcome::{is_own, sentence, summary};
use crate::journal::own_folder::OwnFolder;
use crate::report::csv::cell;
use crate::report::templates::page;

const TIMES: [&str; 5] = ["p50_ns", "p90_ns", "ci_low_ns", "ci_high_ns", "samples"];

/// Names that are tried: so many runs of one name on one day.
const NUMBERS_MAX: u32 = 10_000;

/// A run's folder, open, which never was there before. Its files are written again while the run goes on, so that whatever
/// ends it leaves the rows that were finished.
#[derive(Debug)]
pub struct BenchFolder {
    folder: OwnFolder,
    report: BenchReport,
}

impl BenchFolder {
    /// Makes `OUT/bench/DEVICE/DATE-NAME`, or `DATE-NAME-2` and so on where there is one. `at` is when the run began.
    pub fn create(
        out: &Path,
        run: BenchRun,
        device: String,
        (at, command): (String, String),
        environment: &Value,
    ) -> io::Result<BenchFolder> {
        let (date, name) = (at.split('T').next().unwrap_or_default(), &run.name);
        let place = OwnFolder::create(out)?.create_folder("bench")?.create_folder(&slug(&device))?;
        let folder = (1..=NUMBERS_MAX).find_map(|number| {
            let name = match number {
                1 => format!("{date}-{name}"),
                _ => format!("{date}-{name}-{number}"),
            };
            match place.create_new_folder(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                made => Some(made),
            }
        });
        let folder = folder.unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::AlreadyExists)))?;
        folder.replace("environment.json", &pretty(environment), false)?;
        let report = BenchReport {
            schema: "evo.bench-rows",
            version: 1,
            run,
            device,
            at,
            command,
            status: "unfinished",
            why: Vec::new(),
            implementations: Vec::new(),
            rows: Vec::new(),
            summary: Vec::new(),
        };
        Ok(BenchFolder { folder, report })
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// Writes all files of a run that goes on, or with another status than `unfinished` of one that is done.
    pub fn keep(
        &mut self,
        (status, why): (&'static str, &[String]),
        rows: &[BenchRow],
        implementations: &[Implementation],
    ) -> io::Result<()> {
        let report = &mut self.report;
        (report.status, report.why) = (status, why.to_vec());
        report.summary = summary(rows, implementations);
        (report.rows, report.implementations) = (rows.to_vec(), implementations.to_vec());
        let [table, comparison] = pages(&self.report);
        // `bench.json` last: whoever reads it finds the others as new.
        let files = [
            ("bench.csv", csv(rows)),
            ("bench.md", table.into()),
            ("comparison.md", comparison.into()),
            ("bench.json", pretty(&json!(self.report))),
        ];
        files.iter().try_for_each(|(name, bytes)| self.folder.replace(name, bytes, false))
    }
}

fn pretty(value: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// A device's name as a folder's: `nvidia-h200`.
fn slug(device: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = device.chars().map(plain).take(80).collect();
    let parts: Vec<&str> = text.split('-').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "device".to_string() } else { parts.join("-") }
}

/// `bench.csv`: a line a row. What is not known is an empty cell; `bench.json` has the reasons.
fn csv(rows: &[BenchRow]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let plain = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => cell(text).into_owned(),
        other => cell(&other.to_string()).into_owned(),
    };
    for (at, row) in rows.iter().enumerate() {
        let Ok(Value::Object(fields)) = serde_json::to_value(row) else { continue };
        let one = fields.iter().filter(|(name, _)| !["sizes", "modes", "reasons"].contains(&name.as_str()));
        let mut named: Vec<(String, String)> =
            one.map(|(name, value)| (name.clone(), plain(value))).collect();
        let sizes = row.sizes.iter().map(|(name, value)| format!("{name}={value}"));
        named.push(("sizes".to_string(), cell(&sizes.collect::<Vec<_>>().join(" ")).into_owned()));
        for mode in TimingMode::ALL.iter().map(|mode| mode.as_str()) {
            let time = |time| (format!("{mode}_{time}"), plain(&fields["modes"][mode][time]));
            named.extend(TIMES.map(time));
        }
        // Writing into memory cannot fail: every row has the same columns.
        if at == 0 {
            let _ = writer.write_record(named.iter().map(|(name, _)| name));
        }
        let _ = writer.write_record(named.iter().map(|(_, value)| value));
    }
    writer.into_inner().unwrap_or_default()
}

/// `bench.md`, every row, and `comparison.md`, our rows beside the best right peer.
fn pages(report: &BenchReport) -> [String; 2] {
    let BenchReport { rows, implementations, .. } = report;
    let is_peer = |row: &&BenchRow| !is_own(row, implementations);
    let is_right = |row: &&BenchRow| row.status == RowStatus::Pass;
    let mode = report.run.ranking_mode.as_str();
    let time = |row: &&BenchRow| row.modes.get(mode).map_or(f64::INFINITY, |own| own.p50_ns);
    let best = |problem: &str| {
        let peers = rows.iter().filter(is_peer).filter(is_right).filter(|row| row.problem == problem);
        peers.min_by(|a, b| time(a).total_cmp(&time(b)))
    };
    let own = rows.iter().filter(|row| !is_peer(row));
    let compared: Vec<_> = own.map(|row| (row, best(&row.problem))).collect();
    let wrong: Vec<_> = rows.iter().filter(is_peer).filter(|row| !is_right(row)).collect();
    let means: Vec<String> = report.summary.iter().map(sentence).collect();
    let comparison = json!({ "compared": compared, "wrong": wrong, "means": means });
    [json!({}), comparison].map(|more| {
        let all = [json!(report), more].into_iter().filter_map(|value| Some(value.as_object()?.clone()));
        page("bench.page.j2", &all.flatten().collect::<Map<_, _>>())
    })
}

const LINES_MAX: usize = 60;

pub fn printed(rows: &[BenchRow], implementations: &[Implementation], ranking: TimingMode) -> String {
    let width = implementations.iter().map(|own| own.name.chars().count()).max().unwrap_or(0);
    let (shown, more) = rows.split_at(rows.len().min(LINES_MAX));
    page(
        "bench.txt.j2",
        &json!({ "rows": shown, "more": more.len(), "width": width.max(1), "mode": ranking.as_str() }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_there_is_never_used_again() {
        let root = tempfile::tempdir().unwrap();
        let create = || {
            let run = BenchRun {
                name: "a".into(),
                space: String::new(),
                kernel: String::new(),
                seed: 1,
                quick: false,
                modes: Vec::new(),
                ranking_mode: TimingMode::Hot,
                rounds: 1,
            };
            let at = ("2026-01-02T03:04:05Z".to_string(), String::new());
            let made = BenchFolder::create(root.path(), run, "NVIDIA H200 (x)".to_string(), at, &json!({}));
            made.unwrap().path()
        };
        // Each is dropped before the next, which would wait for it.
        let (first, second) = (create(), create());
        assert!(first.ends_with("bench/nvidia-h200-x/2026-01-02-a"), "{first:?}");
        assert!(second.ends_with("2026-01-02-a-2"), "{second:?}");
        assert!(second.join("environment.json").is_file());
        assert_eq!(slug("../.."), "device");
    }

    #[test]
    fn rows_are_timed_or_say_why_not() {
        let row = |problem: &str, status: &str, time: Option<f64>, why: Option<&str>| {
            json!({
                "problem": problem, "implementation": "größer", "status": status, "reason": why, "format": "cu",
                "modes": time.map_or(json!({}), |p50_ns| json!({ "hot": { "p50_ns": p50_ns } })),
                "ratio_to_best_peer": time.map(|_| 0.5), "decision": time.map(|_| "faster"), "variant": "v1",
                "time_ns": time, "evo_ns": time, "ratio": time.map(|_| 1.0), "written": why.is_none(),
            })
        };
        let mut rows = ["größe", "p"].map(|name| row(name, "pass", Some(1500.0), None)).to_vec();
        rows[1]["ratio"] = json!(f64::NAN);
        rows[1]["modes"]["hot"]["p50_ns"] = json!(f64::NAN);
        rows.extend([row("p", "not_run", None, Some("no time")), row("p", "fail", None, Some("wrong"))]);
        let bench = page("bench.txt.j2", &json!({ "rows": rows, "more": 2, "width": 8, "mode": "hot" }));
        let export = json!({ "folder": "to", "judged": "now", "formats": rows, "verified": rows });
        insta::assert_snapshot!(bench + &page("export.txt.j2", &export));
    }
}
