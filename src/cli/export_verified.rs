//! What `evo export --verify` found of one form: as a row of the answer, and as a line for a person.

use std::collections::BTreeMap;

use evo_export::format::ExportFormat;
use serde_json::{Value, json};

/// What became of one form on one problem.
#[derive(Debug)]
pub struct VerifiedRow {
    pub format: ExportFormat,
    /// Folder of the variant in the export.
    pub variant: String,
    /// None where the form as a whole is meant.
    pub problem: Option<String>,
    /// `pass`, `fail` or `not_run`.
    pub status: &'static str,
    /// Its time and ours in the mode that ranks, nanoseconds.
    pub times_ns: Option<(f64, f64)>,
    /// Why it is not `pass`.
    pub reason: Option<String>,
}

impl VerifiedRow {
    /// The row as the command's object has it; `reasons` learns why fields are null.
    pub fn object(&self, at: usize, reasons: &mut BTreeMap<String, String>) -> Value {
        let times = self.times_ns;
        if times.is_none() {
            let why = self.reason.clone().unwrap_or_else(|| "it was compared and not timed".to_string());
            for name in ["time_ns", "evo_ns", "ratio"] {
                reasons.insert(format!("result.verified.{at}.{name}"), why.clone());
            }
        }
        if self.reason.is_none() {
            reasons.insert(format!("result.verified.{at}.reason"), "it passed".to_string());
        }
        if self.problem.is_none() {
            reasons.insert(format!("result.verified.{at}.problem"), "all problems are meant".to_string());
        }
        json!({
            "format": self.format.as_str(),
            "variant": self.variant,
            "problem": self.problem,
            "status": self.status,
            "time_ns": times.map(|own| own.0),
            "evo_ns": times.map(|own| own.1),
            "ratio": times.map(|own| own.0 / own.1),
            "reason": self.reason,
        })
    }

    /// The row as a line of text.
    pub fn line(&self) -> String {
        let place = [self.variant.as_str(), self.problem.as_deref().unwrap_or("every problem")];
        let place: Vec<&str> = place.into_iter().filter(|own| !own.is_empty()).collect();
        let times = self.times_ns.map_or(String::new(), |(own, evo)| {
            format!("  {:.2} µs, evo itself {:.2} µs ({:.3})", own / 1e3, evo / 1e3, own / evo)
        });
        let reason = self.reason.as_ref().map_or(String::new(), |why| format!("  {why}"));
        format!("  {:<10} {:<24} {:<8}{times}{reason}\n", self.format.as_str(), place.join(" "), self.status)
    }
}
