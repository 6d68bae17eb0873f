//! `evo-baseline.json`: what `evo gate` compares with. It is committed beside the kernel and holds the rendered
//! source, so it can be built again at any commit. Its times only label: both sides are measured in each run.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use evo_protocol::device::DeviceKind;
use evo_space::diagnostic::Diagnostics;
use evo_space::document;
use evo_space::genome::{Configuration, ContentHash};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::own_folder::OwnFolder;
use evo_system::regular;

pub const BASELINE_SCHEMA: &str = "evo.baseline";
/// Raised by any change that an older reader would misread.
pub const BASELINE_VERSION: u32 = 1;
/// A source has at most 16 MiB.
const BYTES_MAX: u64 = 32 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateBaseline {
    pub schema: String,
    pub version: u32,
    pub at: String,
    pub kernel: String,
    pub space: String,
    pub space_hash: ContentHash,
    pub device: String,
    pub device_kind: DeviceKind,
    pub problems: BTreeMap<String, BaselineTimes>,
    pub configuration: Configuration,
    /// The text of a launch file as JSON; null where one cannot hold the launches, which are then the space's.
    pub launch: Option<Value>,
    pub source: String,
    pub source_hash: Option<ContentHash>,
    pub code_hash: Option<ContentHash>,
    pub toolchain: Option<String>,
    /// The relative difference between the baseline and itself.
    pub noise_floor: Option<f64>,
    pub git_commit: Option<String>,
    pub git_dirty: Option<bool>,
    pub conditions: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BaselineTimes {
    pub sizes: BTreeMap<String, i64>,
    pub p50_ns: f64,
    pub p90_ns: f64,
    pub ci_low_ns: f64,
    pub ci_high_ns: f64,
}

#[derive(Debug, Error)]
pub enum BaselineError {
    #[error("cannot read the baseline `{path}`: {source}")]
    Unreadable { path: String, source: io::Error },
    #[error("the baseline `{path}` cannot be understood: {cause}")]
    Malformed { path: String, cause: String, line: Option<u32>, column: Option<u32> },
}

impl GateBaseline {
    pub fn read(path: &Path) -> Result<GateBaseline, BaselineError> {
        let shown = path.display().to_string();
        let mut bytes = Vec::new();
        regular::open(path)
            .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|source| BaselineError::Unreadable { path: shown.clone(), source })?;
        GateBaseline::parse(&bytes, &shown)
    }

    /// `shown` names the text in messages.
    pub fn parse(bytes: &[u8], shown: &str) -> Result<GateBaseline, BaselineError> {
        let at = |place: (Option<u32>, Option<u32>), cause: String| {
            let (line, column) = place;
            BaselineError::Malformed { path: shown.to_string(), cause, line, column }
        };
        let malformed = |cause: String| at((None, None), cause);
        let placed = |error: serde_json::Error| {
            let known = |number: usize| Some(number as u32).filter(|number| *number > 0);
            at((known(error.line()), known(error.column())), error.to_string())
        };
        if bytes.len() as u64 > BYTES_MAX {
            return Err(malformed(format!("it has more than {BYTES_MAX} bytes")));
        }
        // Schema and version first: another version has other fields.
        let head: Value = serde_json::from_slice(bytes).map_err(placed)?;
        if head["schema"] != BASELINE_SCHEMA {
            return Err(malformed(format!("its `schema` is {}, not \"{BASELINE_SCHEMA}\"", head["schema"])));
        }
        if head["version"] != BASELINE_VERSION {
            let (found, known) = (&head["version"], BASELINE_VERSION);
            return Err(malformed(format!("its version is {found}; this evo reads {known}")));
        }
        let baseline: GateBaseline = serde_json::from_slice(bytes).map_err(placed)?;
        // The reader of maps takes the last of two values, and people see the first.
        let text = String::from_utf8_lossy(bytes);
        let mut found = Diagnostics::default();
        document::parse(&text, &mut found);
        if let Some(first) = found.list().first() {
            return Err(at(found.first_place(&text).unzip(), first.message.clone()));
        }
        baseline.fault().map_or(Ok(baseline), |cause| Err(malformed(cause)))
    }

    fn fault(&self) -> Option<String> {
        if self.problems.is_empty() {
            return Some("it has no problem".into());
        }
        if self.noise_floor.is_some_and(|floor| !floor.is_finite() || floor < 0.0) {
            return Some("its noise floor is negative".into());
        }
        self.problems.iter().find_map(|(name, times)| {
            let BaselineTimes { p50_ns, p90_ns, ci_low_ns, ci_high_ns, .. } = times;
            if [ci_low_ns, p50_ns, p90_ns, ci_high_ns].iter().any(|time| !time.is_finite() || **time <= 0.0) {
                return Some(format!("a time of the problem `{name}` is not positive"));
            }
            let is_ordered = ci_low_ns <= p50_ns && p50_ns <= ci_high_ns && p50_ns <= p90_ns;
            (!is_ordered).then(|| format!("the times of the problem `{name}` are not in order"))
        })
    }

    pub fn text(&self) -> serde_json::Result<String> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    pub fn write(&self, path: &Path) -> io::Result<()> {
        let folder = OwnFolder::open(path.parent().unwrap_or(Path::new("")))?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name =
            name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is not a name of a file"))?;
        folder.replace(name, self.text()?.as_bytes(), true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn baseline() -> GateBaseline {
        let times = json!({
            "sizes": { "N": 64 }, "p50_ns": 10.5, "p90_ns": 12.0, "ci_low_ns": 10.0, "ci_high_ns": 11.0,
        });
        serde_json::from_value(json!({
            "schema": BASELINE_SCHEMA, "version": BASELINE_VERSION, "at": "2026-01-01T00:00:00Z", "kernel": "k",
            "space": "k.toml", "space_hash": ContentHash::of(b"space"), "device": "d", "device_kind": "host",
            "problems": { "p": times }, "configuration": {}, "source": "text\n",
            "launch": { "k": { "grid": ["N"], "block": ["64"] } }, "source_hash": ContentHash::of(b"text"),
            "toolchain": "g++", "noise_floor": 0.002, "conditions": { "seed": 1 },
        }))
        .unwrap()
    }

    #[test]
    fn the_file_is_as_it_was() {
        insta::assert_snapshot!(baseline().text().unwrap());
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("evo-baseline.json");
        baseline().write(&path).unwrap();
        assert_eq!(GateBaseline::read(&path).unwrap(), baseline());
    }

    #[test]
    fn what_is_no_baseline_is_refused_with_its_place() {
        let text = baseline().text().unwrap();
        let twice = "\"configuration\": {\n    \"WORK\": 1,\n    \"WORK\": 80";
        let edits = [
            ("\"version\": 1", "\"version\": 2"),
            ("\"kernel\": \"k\",", ""),
            ("10.5", "0"),
            ("10.5", "13"),
            ("\"ci_low_ns\": 10.0", "\"ci_low_ns\": 10.6"),
            ("0.002", "-0.5"),
            ("\"host\"", "\"hots\""),
            ("\"configuration\": {", twice),
        ];
        let edited = edits.map(|(from, to)| text.replace(from, to));
        let told = ["{", "[]"]
            .into_iter()
            .chain(edited.iter().map(String::as_str))
            .map(|text| GateBaseline::parse(text.as_bytes(), "b.json").unwrap_err().to_string());
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
    }
}
