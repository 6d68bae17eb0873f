//! The confirmed finalists, with intervals: dots with bars, the band of ties shaded, the baseline at 1.

use evo_protocol::leaderboard::{LeaderboardSection, RankedEntry};

use super::chart::{Chart, legend, short};
use super::plot::{AxisScale, Plot, PlotBox, ScaleKind};
use crate::study_report::material::ReportMaterial;

/// Height of a row, pixels.
const ROW: f64 = 26.0;

pub fn ranking(material: &ReportMaterial) -> Chart {
    let Some(section) = &material.section else {
        let why = "Nothing is confirmed: finalists are compared in fresh processes at the end of a run.";
        return Chart::absent("ranking", "Ranking with intervals", why);
    };
    let entries: Vec<&RankedEntry> = section.entries().collect();
    let reach = |one: &&RankedEntry| one.speedup_low.zip(one.speedup_high);
    let ends: Vec<(f64, f64)> =
        entries.iter().filter_map(reach).filter(|own| own.0.is_finite() && own.1.is_finite()).collect();
    let low = ends.iter().map(|own| own.0).fold(1.0, f64::min);
    let high = ends.iter().map(|own| own.1).fold(1.0, f64::max);
    let margin = (high - low).max(0.02) * 0.06;
    let height = 60.0 + ROW * entries.len() as f64;
    let place = PlotBox { width: 960.0, height, left: 190.0, right: 16.0, top: 22.0, bottom: 38.0 };
    let (inner, tall) = place.inner();
    let x = AxisScale::across(ScaleKind::Linear, (low - margin, high + margin), inner);
    // Ranks from top to bottom.
    let y = AxisScale::across(ScaleKind::Linear, (0.0, entries.len() as f64), tall);
    let mut plot = Plot::new(place, x, y);
    plot.x_axis("speed-up over the baseline, ×", 8, short);
    if let Some((from, to)) = tie_band(section) {
        plot.bar("tie", (from, to), (0.0, entries.len() as f64), "within the noise floor of the champion");
    }
    plot.line("baseline", &[(1.0, 0.0), (1.0, entries.len() as f64)], false);
    for (at, entry) in entries.iter().enumerate() {
        draw(&mut plot, section, entry, at as f64 + 0.5);
    }
    let champion = &section.champion;
    let ties = entries.iter().filter(|own| own.tie_with_champion && own.number != champion.number).count();
    let floor = section.noise_floor.map_or("not measured".to_string(), |own| format!("{:.2} %", 100.0 * own));
    let summary = format!(
        "{} confirmed variants. The champion is evaluation {} at {}; {ties} of the others may tie with it. The noise floor \
         (A against A) is {floor}.",
        entries.len(),
        champion.number,
        champion.speedup.map_or("no paired speed-up".to_string(), |own| format!("{own:.3}×"))
    );
    let words = [
        ("best", "champion"),
        ("ok", "confirmed"),
        ("tie", "within the noise floor of the champion"),
        ("baseline", "baseline"),
    ];
    let svg = plot.finish(&summary);
    Chart {
        id: "ranking".into(),
        title: "Ranking with intervals".into(),
        summary,
        svg,
        legend: legend(&words),
    }
}

fn draw(plot: &mut Plot, section: &LeaderboardSection, entry: &RankedEntry, row: f64) {
    let is_baseline = entry.number == section.baseline.number;
    let class = if entry.number == section.champion.number { "best" } else { "ok" };
    let word = if is_baseline { " (baseline)" } else { "" };
    plot.row_label(row, &format!("{}. evaluation {}{word}", entry.rank, entry.number));
    let speed = entry.speedup.or(is_baseline.then_some(1.0)).filter(|own| own.is_finite());
    let Some(speed) = speed else { return };
    if let Some((low, high)) = entry.speedup_low.zip(entry.speedup_high) {
        plot.line(&format!("interval {class}"), &[(low, row), (high, row)], false);
    }
    plot.mark(class, (speed, row), &format!("{speed:.4}×: {}", entry.configuration));
}

/// Speed-ups that the noise floor does not tell from the champion's.
fn tie_band(section: &LeaderboardSection) -> Option<(f64, f64)> {
    let (floor, speed) = (section.noise_floor?, section.champion.speedup?);
    (floor.is_finite() && speed.is_finite() && floor > 0.0)
        .then(|| (speed / (1.0 + floor), speed * (1.0 + floor)))
}
