//! What harming a kernel has shown, as text and as Markdown.

use std::fmt::Write;

use evo_protocol::invert::{InvertDose, InvertRow};

/// Where it was found.
#[derive(Clone, Copy, Debug)]
pub struct InvertSetting<'a> {
    pub kernel: &'a str,
    pub device: &'a str,
    pub configuration: &'a str,
    pub problem: &'a str,
    /// Relative difference between the unharmed kernel and itself.
    pub noise_floor: Option<f64>,
    /// A command that does the same again.
    pub repro: &'a str,
}

/// The table for a terminal, and what to try next.
pub fn text(rows: &[InvertRow], problem: &str, noise_floor: Option<f64>) -> String {
    let mut text = format!("harmed on `{problem}`, the dearest resource first:\n");
    for row in rows {
        let rank = row.rank.map_or("-".to_string(), |rank| rank.to_string());
        let _ = write!(text, "{rank:>3}  {:<16} {:<30}  ", row.pathology, slope(row));
        let _ = match row.slope.or(row.upper_bound_of_cure_ratio) {
            Some(_) => writeln!(text, "{}", row.doses.iter().map(dose).collect::<Vec<_>>().join(", ")),
            None => writeln!(text, "{}", row.how_known),
        };
    }
    text += &verdict(rows, noise_floor);
    text
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
fn verdict(rows: &[InvertRow], noise_floor: Option<f64>) -> String {
    match rows.iter().find(|row| row.is_steep(noise_floor.unwrap_or(0.0))) {
        Some(first) => {
            format!("it is bound most by: {}\ntry next: {}\n", first.resource, first.try_next)
        }
        None if rows.iter().any(|row| row.slope.is_some()) => {
            "nothing that was taken away costs time for certain: there is slack in all of it\n".to_string()
        }
        None => "nothing could be measured\n".to_string(),
    }
}

/// The page `invert-<hash>.md`.
pub fn markdown(rows: &[InvertRow], conditions: &InvertSetting<'_>) -> String {
    let InvertSetting { kernel, device, configuration, problem, noise_floor, repro } = conditions;
    let floor = noise_floor.map_or("not measured".to_string(), |floor| format!("{:.2} %", 100.0 * floor));
    let mut text = format!(
        "# What binds `{kernel}`\n\n{configuration} on {device}, problem `{problem}`; the kernel differs from itself by \
         {floor}.\n\n| rank | pathology | added time a unit | unit | doses: harmed / unharmed time | happened |\n\
         |---|---|---|---|---|---|\n"
    );
    for row in rows {
        let rank = row.rank.map_or("-".to_string(), |rank| rank.to_string());
        let unit = row.doses.first().map_or("", |dose| &dose.unit);
        let doses = row.doses.iter().map(dose).collect::<Vec<_>>().join("; ");
        let (name, slope, known) = (&row.pathology, slope(row), &row.how_known);
        let _ = writeln!(text, "| {rank} | `{name}` | {slope} | {unit} | {doses} | {known} |");
    }
    let _ = write!(text, "\n{}\nagain: `{repro}`\n", verdict(rows, *noise_floor));
    text
}

#[cfg(test)]
mod tests {
    use evo_protocol::invert::DiagnosticFlag;

    use super::*;

    fn row(pathology: &str, ratio: Option<f64>) -> InvertRow {
        let own = InvertDose {
            diagnostic: DiagnosticFlag,
            dose: 1.0,
            unit: "doubling of the barriers".into(),
            what: "each barrier 2 times".into(),
            ratio,
            ratio_low: ratio.map(|own| own - 0.01),
            ratio_high: ratio.map(|own| own + 0.01),
            verdict: "pass".into(),
            changed: Some(true),
            code_hash: None,
        };
        let row = InvertRow {
            rank: Some(1),
            doses: vec![own],
            happened: Some(true),
            how_known: "machine code differs".into(),
            ..InvertRow::of(pathology.into(), "barriers".into(), "fewer barriers".into())
        };
        row.sloped()
    }

    #[test]
    fn the_first_that_is_certainly_steep_is_named() {
        let steep = text(&[row("barriers", Some(1.3))], "p", Some(0.01));
        assert!(steep.contains("+30.0 % [+29.0 %, +31.0 %]"), "{steep}");
        assert!(steep.contains("each barrier 2 times 1.300x"), "{steep}");
        assert!(steep.ends_with("it is bound most by: barriers\ntry next: fewer barriers\n"), "{steep}");
        let flat = text(&[row("barriers", Some(1.015))], "p", Some(0.02));
        assert!(flat.contains("slack"), "{flat}");
        assert!(text(&[row("barriers", None)], "p", None).contains("nothing could be measured"));
    }

    #[test]
    fn a_page_has_its_conditions() {
        let conditions = InvertSetting {
            kernel: "gemm",
            device: "any",
            configuration: "BLOCK=64",
            problem: "square",
            noise_floor: Some(0.004),
            repro: "evo invert gemm",
        };
        let page = markdown(&[row("barriers", Some(1.3))], &conditions);
        for part in ["`gemm`", "BLOCK=64 on any", "0.40 %", "| 1 | `barriers` |", "again: `evo invert gemm`"]
        {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }
}
