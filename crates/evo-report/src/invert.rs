//! What harming a kernel has shown, as text and as Markdown.

use evo_protocol::invert::{InvertDose, InvertRow};
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use super::templates;

/// What was found, and where.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Inverted {
    /// The most expensive first.
    pub rows: Vec<InvertRow>,
    pub kernel: String,
    pub device: String,
    pub configuration: String,
    /// The problem that was timed.
    pub problem: String,
    /// Relative difference between the unharmed kernel and itself; absent where it could not be measured.
    pub noise_floor: Option<f64>,
    /// A command that does the same again.
    pub repro: String,
}

/// The table for a terminal, and what to try next.
pub fn text(found: &Inverted) -> String {
    templates::lines("invert.txt.j2", found.values())
}

/// The page `invert-<hash>.md`.
pub fn markdown(found: &Inverted) -> String {
    templates::lines("invert.page.j2", found.values())
}

impl Inverted {
    fn values(&self) -> Value {
        let row = |row| (row, slope(row), row.doses.iter().map(dose).collect::<Vec<_>>());
        let rows: Vec<(&InvertRow, _, _)> = self.rows.iter().map(row).collect();
        context! { rows => Serde(rows), verdict => verdict(self), ..Value::from(Serde(self)) }
    }
}

/// The relative time that a unit adds, with its interval.
fn slope(row: &InvertRow) -> String {
    let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
    match (row.slope, row.slope_low, row.slope_high) {
        (Some(slope), Some(low), Some(high)) => {
            format!("{} [{}, {}]", percent(slope), percent(low), percent(high))
        }
        _ => row
            .upper_bound_of_cure_ratio
            .map_or(String::new(), |bound| format!("a cure gains at most {:.2}x", 1.0 / bound)),
    }
}

fn dose(own: &InvertDose) -> String {
    let found = match own.ratio {
        Some(ratio) => format!("{ratio:.3}x"),
        None if own.changed == Some(false) => "no_effect".to_string(),
        None => own.verdict.clone(),
    };
    format!("{} {found}", own.what)
}

/// What binds the kernel, if anything does.
fn verdict(Inverted { rows, noise_floor, .. }: &Inverted) -> String {
    match rows.iter().find(|row| row.is_steep(noise_floor.unwrap_or(0.0))) {
        Some(first) => {
            format!("it is bound most by: {}\ntry next: {}", first.resource, first.try_next)
        }
        None if rows.iter().any(|row| row.slope.is_some()) => {
            "nothing that was taken away costs time for certain: there is slack in all of it".to_string()
        }
        None => "nothing could be measured".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ratio: Option<f64>, noise_floor: Option<f64>) -> Inverted {
        let dose = InvertDose {
            dose: 1.0,
            what: "each barrier 2 times".into(),
            ratio,
            ratio_low: ratio.map(|ratio| ratio - 0.01),
            ratio_high: ratio.map(|ratio| ratio + 0.01),
            changed: Some(true),
            ..InvertDose::default()
        };
        let row = InvertRow {
            rank: Some(1),
            pathology: "barriers".into(),
            resource: "barriers".into(),
            try_next: "fewer barriers".into(),
            doses: vec![dose],
            ..InvertRow::default()
        };
        Inverted { rows: vec![row.sloped()], kernel: "gemm".into(), noise_floor, ..Inverted::default() }
    }

    #[test]
    fn the_first_that_is_certainly_steep_is_named() {
        let steep = found(Some(1.3), Some(0.01));
        let shown = text(&steep);
        assert!(shown.contains("+30.0 % [+29.0 %, +31.0 %]"), "{shown}");
        assert!(shown.contains("each barrier 2 times 1.300x"), "{shown}");
        assert!(shown.ends_with("it is bound most by: barriers\ntry next: fewer barriers\n"), "{shown}");
        assert!(text(&found(Some(1.015), Some(0.02))).contains("slack"));
        assert!(text(&found(None, None)).contains("nothing could be measured"));
        let page = markdown(&steep);
        assert!(
            page.contains("`gemm`") && page.contains("1.00 %") && page.contains("| 1 | `barriers` |"),
            "{page}"
        );
    }
}
