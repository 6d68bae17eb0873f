//! What harming a kernel has shown, as text and as Markdown.

use evo_protocol::invert::InvertRow;
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use super::templates;

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
        let floor = self.noise_floor.unwrap_or(0.0);
        let steep = self.rows.iter().find(|row| row.is_steep(floor));
        context! { steep => Serde(steep), ..Value::from(Serde(self)) }
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::invert::InvertDose;

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
        for words in ["`gemm`", "1.00 %", "| 1 | `barriers` |"] {
            assert!(page.contains(words), "{page}");
        }
    }
}
