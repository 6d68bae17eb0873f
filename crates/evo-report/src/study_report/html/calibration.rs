//! Whether the search's model was right: expected against measured times.

use super::chart::{Chart, TimeUnit, legend, range};
use super::plot::{AxisScale, Plot, PlotBox, ScaleKind};
use crate::study_report::known::KnownTime;
use crate::study_report::material::ReportMaterial;

const PLACE: PlotBox =
    PlotBox { width: 470.0, height: 400.0, left: 64.0, right: 14.0, top: 22.0, bottom: 38.0 };

pub fn calibration(material: &ReportMaterial) -> Chart {
    let title = "Expected against measured";
    let known = material.evaluations().iter().filter_map(|one| {
        let expected =
            one.expected.map(|own| own.objective_ns).filter(|own| own.is_finite() && *own > 0.0)?;
        match KnownTime::of(one) {
            KnownTime::Measured(time) => Some((expected, time, true)),
            KnownTime::AtLeast(time) => Some((expected, time, false)),
            KnownTime::Unknown => None,
        }
    });
    let known: Vec<(f64, f64, bool)> = known.collect();
    let Some((low, high)) = range(known.iter().flat_map(|own| [own.0, own.1])) else {
        let why = "No proposal of this study came with an expectation of a model.";
        return Chart::absent("calibration", title, why);
    };
    let (width, height) = PLACE.inner();
    let unit = TimeUnit::of(low);
    let ends = (low * 0.94, high * 1.06);
    let x = AxisScale::across(ScaleKind::Log, ends, width);
    let y = AxisScale::upward(ScaleKind::Log, ends, height);
    let mut plot = Plot::new(PLACE, x, y);
    plot.x_axis(&format!("expected, {}", unit.name), 5, |value| unit.number(value));
    plot.y_axis(&format!("measured, {}", unit.name), 5, |value| unit.number(value));
    plot.line("baseline", &[(ends.0, ends.0), (ends.1, ends.1)], false);
    plot.dots("slow", known.iter().filter(|own| !own.2).map(|own| (own.0, own.1)));
    plot.dots("ok", known.iter().filter(|own| own.2).map(|own| (own.0, own.1)));
    plot.hoverable("expected", "time");
    let summary = material.study.insight.as_ref().and_then(|own| own.calibration.as_ref()).map_or_else(
        || format!("{} evaluations came with an expectation.", known.len()),
        |own| {
            let inside = own.inside.map_or("unknown".to_string(), |share| format!("{:.0} %", 100.0 * share));
            let factor = own.typical_factor.map_or("unknown".to_string(), |factor| format!("{factor:.3}"));
            format!(
                "{} of {} evaluations with an expectation were measured. The median factor between expected and measured is \
                 {factor}; {inside} of the times were inside their interval (68 % if it is right). The model expected {:.0} % to \
                 fail, and {:.0} % failed.",
                own.measured,
                own.expected,
                100.0 * own.risk_expected,
                100.0 * own.risk_came
            )
        },
    );
    let words = [("ok", "measured"), ("slow", "given up: at least"), ("baseline", "expected = measured")];
    let svg = plot.finish(&summary);
    Chart { id: "calibration".into(), title: title.into(), summary, svg, legend: legend(&words) }
}
