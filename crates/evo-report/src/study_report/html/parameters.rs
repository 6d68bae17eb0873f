//! What the parameters do: times by value, the two most important ones against each other, and their importance.

use evo_space::value::Value;

use super::chart::{Chart, TimeUnit, quantile, range};
use super::plot::{AxisScale, Plot, PlotBox, ScaleKind};
use crate::study_report::columns::{TriedParameter, tried};
use crate::study_report::known::KnownTime;
use crate::study_report::material::ReportMaterial;
use crate::text::time;

/// Rows of a strip plot; a parameter with more values shows those that were tried most.
const ROWS: usize = 16;
/// Dots of a row, spread evenly over the evaluations.
const DOTS: usize = 200;
/// Parameters that get a strip plot: the most important ones first.
const PARAMETERS: usize = 12;
/// Columns and rows of a heat map.
const CELLS: usize = 16;
/// Shades of a heat map, from fast to slow.
const SHADES: usize = 9;
/// A time that many times the best gets the last shade.
const SLOWEST: f64 = 4.0;

/// Strip plots, the most important parameter first.
pub fn strips(material: &ReportMaterial) -> Vec<Chart> {
    let evaluations = material.evaluations();
    let times: Vec<f64> = evaluations.iter().filter_map(|one| KnownTime::of(one).value()).collect();
    let Some((low, _)) = range(times.iter().copied()) else { return Vec::new() };
    let high = quantile(times, 0.95).unwrap_or(low).max(low * 1.2);
    let columns = by_importance(material);
    let varied = columns.iter().filter(|own| own.values.len() > 1).take(PARAMETERS);
    varied.map(|own| strip(material, own, (low, high))).collect()
}

fn strip(material: &ReportMaterial, column: &TriedParameter, (low, high): (f64, f64)) -> Chart {
    let mut rows: Vec<StripRow<'_>> = column.values.iter().map(StripRow::new).collect();
    for one in material.evaluations() {
        if let Some(at) = column.position(&one.configuration) {
            rows[at].add(KnownTime::of(one));
        }
    }
    let left_out = rows.len().saturating_sub(ROWS);
    if left_out > 0 {
        let mut sizes: Vec<usize> = rows.iter().map(|own| own.all).collect();
        sizes.sort_by(|a, b| b.cmp(a));
        let least = sizes[ROWS - 1];
        rows.retain(|own| own.all >= least);
        rows.truncate(ROWS);
    }
    let height = 62.0 + 20.0 * rows.len() as f64;
    let place = PlotBox { width: 470.0, height, left: 96.0, right: 14.0, top: 8.0, bottom: 38.0 };
    let (inner, tall) = place.inner();
    let unit = TimeUnit::of(low);
    let x = AxisScale::across(ScaleKind::Log, (low * 0.96, high * 1.04), inner);
    let y = AxisScale::across(ScaleKind::Linear, (0.0, rows.len() as f64), tall);
    let mut plot = Plot::new(place, x, y);
    plot.x_axis(&format!("time, {}", unit.name), 5, |value| unit.number(value));
    for (at, row) in rows.iter().enumerate() {
        row.draw(&mut plot, at as f64);
    }
    let best = rows.iter().filter_map(|own| Some((own.best?, own.value)));
    let best = best.min_by(|a, b| a.0.total_cmp(&b.0));
    let more = if left_out > 0 {
        format!(" {left_out} values that were tried less are not shown.")
    } else {
        String::new()
    };
    let summary = match best {
        Some((best, value)) => format!("{} is fastest with {value} ({}).{more}", column.name, time(best)),
        None => format!("No value of {} has a measured time.{more}", column.name),
    };
    let svg = plot.finish(&summary);
    Chart {
        id: format!("strip-{}", column.name),
        title: column.name.clone(),
        summary,
        svg,
        legend: Vec::new(),
    }
}

/// The times of one value.
struct StripRow<'a> {
    value: &'a Value,
    measured: Vec<f64>,
    beyond: Vec<f64>,
    best: Option<f64>,
    all: usize,
}

impl StripRow<'_> {
    fn new(value: &Value) -> StripRow<'_> {
        StripRow { value, measured: Vec::new(), beyond: Vec::new(), best: None, all: 0 }
    }

    fn add(&mut self, known: KnownTime) {
        self.all += 1;
        match known {
            KnownTime::Measured(time) => {
                self.measured.push(time);
                self.best = Some(self.best.map_or(time, |best| best.min(time)));
            }
            KnownTime::AtLeast(time) => self.beyond.push(time),
            KnownTime::Unknown => {}
        }
    }

    fn draw(&self, plot: &mut Plot, row: f64) {
        plot.row_label(row + 0.5, &shown(self.value));
        plot.dots("slow small", spread(&self.beyond, row));
        plot.dots("ok small", spread(&self.measured, row));
        let all: Vec<f64> = self.measured.iter().chain(&self.beyond).copied().collect();
        if let Some(median) = quantile(all, 0.5) {
            plot.line("median", &[(median, row + 0.12), (median, row + 0.88)], false);
        }
        if let Some(best) = self.best {
            let title = format!("{}: best {}, {} evaluations", shown(self.value), time(best), self.all);
            plot.mark("best", (best, row + 0.5), &title);
        }
    }
}

/// Dots of a row, moved up and down by turns so that equal times show as several.
fn spread(times: &[f64], row: f64) -> impl Iterator<Item = (f64, f64)> {
    let step = times.len().div_ceil(DOTS).max(1);
    let shift = |at: usize| 0.26 + 0.48 * ((at * 5 % 8) as f64 / 7.0);
    times
        .iter()
        .copied()
        .step_by(step)
        .enumerate()
        .map(move |(at, time)| (time, row + shift(at)))
        .collect::<Vec<_>>()
        .into_iter()
}

/// At most so many characters of a value.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.chars().count() > 14 {
        true => text.chars().take(13).chain(['…']).collect(),
        false => text,
    }
}

/// The parameters, the most important first where that is known.
fn by_importance(material: &ReportMaterial) -> Vec<TriedParameter> {
    let mut columns = tried(&material.study.header, material.evaluations());
    if let Some(importance) = material.study.insight.as_ref().and_then(|own| own.importance.as_ref()) {
        let rank =
            |name: &str| importance.parameters.iter().position(|own| own.name == name).unwrap_or(usize::MAX);
        columns.sort_by_key(|own| rank(&own.name));
    }
    columns
}

/// The best time for each pair of values of the two most important parameters.
pub fn heat_map(material: &ReportMaterial) -> Chart {
    let title = "The two most important parameters";
    let is_known = material.study.insight.as_ref().is_some_and(|own| own.importance.is_some());
    let columns: Vec<TriedParameter> = by_importance(material)
        .into_iter()
        .filter(|own| (2..=CELLS).contains(&own.values.len()))
        .take(2)
        .collect();
    let [across, down] = &columns[..] else {
        return Chart::absent("heat", title, "Fewer than two parameters have 2 to 16 tried values.");
    };
    if !is_known {
        let why = "Too few measurements to say which parameters matter; this appears when a run ends.";
        return Chart::absent("heat", title, why);
    }
    let cells = cells(material, across, down);
    let Some((best, _)) = range(cells.iter().flatten().filter_map(|own| own.value())) else {
        return Chart::absent("heat", title, "Nothing has a measured time.");
    };
    let (wide, tall) = (across.values.len() as f64, down.values.len() as f64);
    let place = PlotBox {
        width: 124.0 + 52.0 * wide,
        height: 60.0 + 30.0 * tall,
        left: 110.0,
        right: 14.0,
        top: 22.0,
        bottom: 38.0,
    };
    let (inner, height) = place.inner();
    let x = AxisScale::across(ScaleKind::Linear, (0.0, wide), inner);
    let y = AxisScale::across(ScaleKind::Linear, (0.0, tall), height);
    let mut plot = Plot::new(place, x, y);
    for (row, cells) in cells.iter().enumerate() {
        plot.row_label(row as f64 + 0.5, &shown(&down.values[row]));
        for (at, known) in cells.iter().enumerate() {
            let names = format!("{}={} {}={}", across.name, across.values[at], down.name, down.values[row]);
            cell(&mut plot, (at, row), *known, best, &names);
        }
    }
    for (at, value) in across.values.iter().enumerate() {
        plot.note((at as f64 + 0.5, tall + 18.0 / 30.0), "tick middle", &shown(value));
    }
    plot.note((0.0, -0.25), "name end", &format!("{} ↓", down.name));
    plot.note((wide, tall + 1.1), "name end", &format!("{} →", across.name));
    let summary = format!(
        "Best time for each pair of values of {} (across) and {} (down), over the best of all ({}). ≥: every variant there \
         was given up as slower.",
        across.name,
        down.name,
        time(best)
    );
    let svg = plot.finish(&summary);
    Chart { id: "heat".into(), title: title.into(), summary, svg, legend: Vec::new() }
}

fn cells(material: &ReportMaterial, across: &TriedParameter, down: &TriedParameter) -> Vec<Vec<KnownTime>> {
    let mut cells = vec![vec![KnownTime::Unknown; across.values.len()]; down.values.len()];
    for one in material.evaluations() {
        let place = across.position(&one.configuration).zip(down.position(&one.configuration));
        let Some((at, row)) = place else { continue };
        let own = &mut cells[row][at];
        *own = match (*own, KnownTime::of(one)) {
            (KnownTime::Measured(a), KnownTime::Measured(b)) => KnownTime::Measured(a.min(b)),
            (KnownTime::AtLeast(a), KnownTime::AtLeast(b)) => KnownTime::AtLeast(a.min(b)),
            (KnownTime::Measured(a), _) | (_, KnownTime::Measured(a)) => KnownTime::Measured(a),
            (KnownTime::Unknown, other) => other,
            (known, KnownTime::Unknown) => known,
        };
    }
    cells
}

fn cell(plot: &mut Plot, (at, row): (usize, usize), known: KnownTime, best: f64, names: &str) {
    let (x, y) = ((at as f64, at as f64 + 1.0), (row as f64, row as f64 + 1.0));
    let Some(value) = known.value() else {
        return plot.bar("cell none", x, y, &format!("{names}: nothing measured"));
    };
    let ratio = value / best;
    let shade =
        (ratio.ln() / SLOWEST.ln() * (SHADES - 1) as f64).round().clamp(0.0, (SHADES - 1) as f64) as usize;
    let lead = if matches!(known, KnownTime::AtLeast(_)) { "≥" } else { "" };
    plot.bar(
        &format!("cell heat{shade}"),
        x,
        y,
        &format!("{names}: {lead}{} ({ratio:.3}× the best)", time(value)),
    );
    let text = if ratio < 10.0 { format!("{lead}{ratio:.2}") } else { format!("{lead}{ratio:.0}") };
    let ink = if shade >= SHADES / 2 { "middle cell-text deep" } else { "middle cell-text" };
    plot.note((x.0 + 0.5, y.0 + 0.64), ink, &text);
}
