//! The roofline: how much arithmetic a problem asks for each byte, and how near its variants come to what the device
//! can do.

use evo_journal::leaderboard::roofline_ns;
use evo_journal::record::ProblemWork;
use evo_protocol::device::DeviceInfo;

use super::chart::{Chart, WIDE, legend, range, short};
use super::plot::{AxisScale, Plot, ScaleKind};
use crate::study_report::material::ReportMaterial;

/// Problems that the summary describes; the table of problems has them all.
const DESCRIBED: usize = 3;

/// Bytes and operations of a problem, and the speeds of its variants, operations per second.
struct Workload<'a> {
    work: &'a ProblemWork,
    /// Operations per byte.
    intensity: f64,
    flops: f64,
    champion_ns: Option<f64>,
}

pub fn roofline(material: &ReportMaterial) -> Chart {
    let device = &material.study.header.device;
    let absent = |why: &str| Chart::absent("roofline", "Roofline", why);
    let all = workloads(material);
    if all.is_empty() {
        return absent(
            "No confirmed problem says how many operations and bytes one call takes, so there is no roofline.",
        );
    }
    let is_half = all.iter().any(|own| own.work.half);
    let peak = if is_half { device.flops_f16.or(device.flops_f32) } else { device.flops_f32 };
    let (Some(peak), Some(bandwidth)) = (peak, device.bandwidth) else {
        return absent("The peak rates of this device are not known, so there is no roofline.");
    };
    let ridge = peak / bandwidth;
    let speeds = all.iter().filter_map(|own| Some(own.flops / own.champion_ns? * 1e9));
    let (slowest, _) = range(speeds).unwrap_or((peak / 1e3, peak));
    let intensities = all.iter().map(|own| own.intensity).chain([ridge]);
    let (left, right) = range(intensities).unwrap_or((1.0, 100.0));
    let (width, height) = WIDE.inner();
    let x = AxisScale::across(ScaleKind::Log, (left / 3.0, right * 3.0), width);
    let y = AxisScale::upward(ScaleKind::Log, (slowest / 8.0, peak * 2.0), height);
    let mut plot = Plot::new(WIDE, x, y);
    plot.x_axis("operations per byte", 8, short);
    plot.y_axis("10¹² operations per second", 6, |value| short(value / 1e12));
    plot.line("roof", &[(left / 3.0, bandwidth * left / 3.0), (ridge, peak), (right * 3.0, peak)], false);
    all.iter().for_each(|own| draw(&mut plot, material, own));
    let labels = all.iter().filter_map(|own| {
        Some(((own.intensity, own.flops / own.champion_ns? * 1e9), own.work.problem.as_str()))
    });
    plot.labels(labels.collect());
    let told = all.iter().take(DESCRIBED).map(|own| described(device, own)).collect::<Vec<_>>().join("; ");
    let summary = format!(
        "Peaks: {} · 10¹² operations and {} · 10⁹ bytes per second; they meet at {} operations per byte. {told}.",
        short(peak / 1e12),
        short(bandwidth / 1e9),
        short(ridge)
    );
    let words = [("roof", "what the device's peaks allow"), ("ok", "correct variants"), ("best", "champion")];
    let svg = plot.finish(&summary);
    Chart { id: "roofline".into(), title: "Roofline".into(), summary, svg, legend: legend(&words) }
}

/// The problems of the champion that say what they take.
fn workloads(material: &ReportMaterial) -> Vec<Workload<'_>> {
    let Some(section) = &material.section else { return Vec::new() };
    let champion = section.champion.number;
    let confirmations = &material.study.history.confirmations;
    let Some(own) = confirmations.iter().rev().find(|one| one.number == champion) else { return Vec::new() };
    let mode = section.ranking.timing();
    let of = |work| {
        let work: &ProblemWork = work;
        let (flops, bytes) = (work.flops?, work.bytes?);
        let measured = own.evaluation.measurements.iter();
        let mut time =
            measured.filter(|one| one.mode == mode && one.problem == work.problem).map(|one| one.p50_ns);
        let is_sound = flops.is_finite() && bytes.is_finite() && flops > 0.0 && bytes > 0.0;
        let champion_ns = time.find(|time| time.is_finite() && *time > 0.0);
        is_sound.then_some(Workload { work, intensity: flops / bytes, flops, champion_ns })
    };
    own.work.iter().filter_map(of).collect()
}

fn draw(plot: &mut Plot, material: &ReportMaterial, own: &Workload<'_>) {
    let mode = material.study.header.ranking.timing();
    let passed = material.evaluations().iter().filter(|one| one.verdict.is_pass());
    let times = passed
        .flat_map(|one| &one.measurements)
        .filter(|one| one.mode == mode && one.problem == own.work.problem);
    let sound = times.map(|one| one.p50_ns).filter(|time| time.is_finite() && *time > 0.0);
    plot.dots(
        "ok",
        sound.map(|time| (own.intensity, own.flops / time * 1e9)).collect::<Vec<_>>().into_iter(),
    );
    if let Some(time) = own.champion_ns {
        let at = (own.intensity, own.flops / time * 1e9);
        plot.mark("best", at, &format!("{}: {}", own.work.problem, crate::text::time(time)));
    }
}

fn described(device: &DeviceInfo, own: &Workload<'_>) -> String {
    let share = roofline_ns(device, own.work).zip(own.champion_ns).map(|(least, time)| least / time);
    let share = share.map_or("an unknown share".to_string(), |own| format!("{:.1} %", 100.0 * own));
    format!(
        "`{}` ({} operations per byte) reaches {share} of its roof",
        own.work.problem,
        short(own.intensity)
    )
}
