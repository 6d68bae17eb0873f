//! What other clocks and checks said of a candidate, as text and as Markdown.

use std::fmt::Write;

use evo_protocol::crosscheck::CrosscheckRow;

use crate::table::{markdown_cell, markdown_table};

/// Where it was found.
#[derive(Clone, Copy, Debug)]
pub struct CrosscheckSetting<'a> {
    pub kernel: &'a str,
    pub device: &'a str,
    pub configuration: &'a str,
    /// evo's own.
    pub verdict: &'a str,
    /// Relative difference between the default configuration and itself.
    pub noise_floor: Option<f64>,
    /// A command that does the same again.
    pub repro: &'a str,
}

/// What matters most: answers that are judged differently come before times that differ.
pub fn headline(rows: &[CrosscheckRow]) -> String {
    let of = |row: &CrosscheckRow| {
        let why = row.reason.as_deref().unwrap_or_default();
        format!("{} on `{}`: {why}", row.harness, row.problem)
    };
    if let Some(row) = rows.iter().find(|row| row.differs_in_answers()) {
        return format!("DISAGREEMENT ON THE ANSWERS: {}", of(row));
    }
    if let Some(row) = rows.iter().find(|row| row.disagrees()) {
        let count = rows.iter().filter(|row| row.disagrees()).count();
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        return format!("disagreement: {}{more}", of(row));
    }
    let agreed: Vec<&CrosscheckRow> = rows.iter().filter(|row| row.is_complete(false)).collect();
    let mut names: Vec<&str> = agreed.iter().map(|row| row.harness.as_str()).collect();
    names.dedup();
    match names.is_empty() {
        true => "nobody else both checked and timed it".to_string(),
        false => {
            let plural = if agreed.len() == 1 { " agrees" } else { "s agree" };
            format!("{} comparison{plural} with evo ({})", agreed.len(), names.join(", "))
        }
    }
}

/// The table for a terminal.
pub fn text(rows: &[CrosscheckRow]) -> String {
    let mut text = String::new();
    for row in rows {
        let _ = write!(text, "  {:<12} {:<16} {:<10}", row.harness, row.problem, word(row));
        if let Some(time) = row.time_ns {
            let _ = write!(text, "{}, spread {}", micro(time), percent(row.spread_ratio));
        }
        if let (Some(ours), Some(ratio)) = (row.evo_ns, row.ratio) {
            let _ = write!(text, "; evo {} ({ratio:.3})", micro(ours));
        }
        match &row.reason {
            Some(why) => {
                let _ = writeln!(text, "  {why}");
            }
            None => text.push('\n'),
        }
    }
    text
}

/// The page `crosscheck.md`.
pub fn markdown(rows: &[CrosscheckRow], setting: &CrosscheckSetting<'_>) -> String {
    let CrosscheckSetting { kernel, device, configuration, verdict, noise_floor, repro } = setting;
    let floor = noise_floor.map_or(String::new(), |floor| {
        format!("; the default configuration differs from itself by {}", percent(Some(floor)))
    });
    let columns = "harness | problem | | mode | time | spread | evo | ratio | answers | evo's answers | \
                   faster than default | faster than peer | signs kept | remark";
    let time = |time: Option<f64>| time.map(micro).unwrap_or_default();
    let word_of = |[yes, no]: [&str; 2], own: Option<bool>| {
        own.map_or("", |own| if own { yes } else { no }).to_string()
    };
    let (answers, yes) = (["right", "wrong"], ["yes", "no"]);
    let rows_of = rows.iter().map(|row| {
        [
            row.harness.clone() + &row.version.as_ref().map(|own| format!(" ({own})")).unwrap_or_default(),
            row.problem.clone(),
            word(row).to_string(),
            row.mode.map_or("", |mode| mode.as_str()).to_string(),
            time(row.time_ns),
            row.spread_ratio.map(|_| percent(row.spread_ratio)).unwrap_or_default(),
            time(row.evo_ns),
            row.ratio.map(|ratio| format!("{ratio:.3}")).unwrap_or_default(),
            word_of(answers, row.correct),
            word_of(answers, row.evo_correct),
            word_of(yes, row.faster_than_baseline),
            word_of(yes, row.faster_than_peer),
            word_of(yes, row.sign_kept),
            row.reason.clone().unwrap_or_default(),
        ]
    });
    format!(
        "# Other clocks and checks on `{kernel}`\n\n**{}**\n\n{configuration} on {device}. evo's verdict: \
         `{verdict}`{floor}.\n\n{}\nagain: `{repro}`\n",
        markdown_cell(&headline(rows)),
        markdown_table(columns, rows_of)
    )
}

fn word(row: &CrosscheckRow) -> &'static str {
    match row {
        _ if row.disagrees() => "DISAGREES",
        _ if row.is_complete(false) => "agrees",
        _ if row.time_ns.is_some() => "partly",
        _ if row.correct.is_some() => "untimed",
        _ => "not_run",
    }
}

fn micro(time_ns: f64) -> String {
    format!("{:.2} µs", time_ns / 1e3)
}

fn percent(share: Option<f64>) -> String {
    share.map_or("unknown".to_string(), |share| format!("{:.1} %", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(harness: &str, ratio: f64, agrees: bool, correct: bool) -> CrosscheckRow {
        CrosscheckRow {
            time_ns: Some(1000.0 * ratio),
            spread_ratio: Some(0.01),
            evo_ns: Some(1000.0),
            ratio: Some(ratio),
            agrees: Some(agrees),
            correct: Some(correct),
            reason: (!agrees || !correct).then(|| "a|b".to_string()),
            ..CrosscheckRow::not_run(harness, "p", Some(true), "")
        }
    }

    #[test]
    fn the_headline_is_what_matters_most() {
        let absent = CrosscheckRow::not_run("nvbench", "p", Some(true), "it is not installed");
        let agreed = row("torch", 1.01, true, true);
        assert_eq!(headline(std::slice::from_ref(&absent)), "nobody else both checked and timed it");
        assert_eq!(headline(&[absent.clone(), agreed.clone()]), "1 comparison agrees with evo (torch)");
        let (slow, wrong) = (row("command", 1.4, false, true), row("command", 1.0, true, false));
        assert_eq!(headline(&[agreed.clone(), slow.clone()]), "disagreement: command on `p`: a|b");
        assert!(headline(&[slow.clone(), wrong]).starts_with("DISAGREEMENT ON THE ANSWERS: command"));
        let lines = text(&[absent.clone(), agreed, slow.clone()]);
        assert!(
            lines.contains("nvbench      p                not_run     not run: it is not installed"),
            "{lines}"
        );
        assert!(lines.contains(
            "torch        p                agrees    1.01 µs, spread 1.0 %; evo 1.00 µs (1.010)\n"
        ));
        let setting = CrosscheckSetting {
            kernel: "sums",
            device: "this processor",
            configuration: "BLOCK=32",
            verdict: "pass",
            noise_floor: Some(0.01),
            repro: "evo crosscheck sums 32",
        };
        let page = markdown(&[absent, slow], &setting);
        assert!(page.contains("| a\\|b |") && page.contains("`evo crosscheck sums 32`"), "{page}");
    }
}
