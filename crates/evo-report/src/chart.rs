//! The arithmetic of charts: scales, ticks and paths. Which marks a chart has, and how it looks, is in its template
//! (`chart.html.j2`, `report.html.j2`).

use std::fmt::Write;
use std::sync::Arc;

use minijinja::value::{Object, Value, from_args};
use minijinja::{Error, ErrorKind, State};

/// One axis: values from `low` to `high` on a length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AxisScale {
    is_log: bool,
    low: f64,
    high: f64,
    /// Pixels.
    length: f64,
    is_upward: bool,
}

impl AxisScale {
    pub(crate) fn of(kind: &str, low: f64, high: f64, length: f64, is_upward: bool) -> AxisScale {
        let is_log = kind == "log";
        // Damaged records hold any number; a chart of them must still be a chart.
        let is_sound = low.is_finite() && high.is_finite() && low <= high && (!is_log || low > 0.0);
        let (low, high) = if is_sound { (low, high) } else { (1.0, 2.0) };
        let (low, high) = match (high > low, is_log) {
            (true, _) => (low, high),
            (false, true) => (low / 1.1, high * 1.1),
            (false, false) => (low - 0.5, high + 0.5),
        };
        AxisScale { is_log, low, high, length, is_upward }
    }

    /// The position of a value, pixels from the start of the axis.
    fn at(&self, value: f64) -> f64 {
        let share = match self.is_log {
            false => (value - self.low) / (self.high - self.low),
            true => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
        };
        // Far outside is outside: a path needs no more digits.
        let share = if share.is_finite() { share.clamp(-1.0, 2.0) } else { 2.0 };
        if self.is_upward { self.length * (1.0 - share) } else { self.length * share }
    }

    /// Round values for labels, about `wanted` of them.
    fn ticks(&self, wanted: usize) -> Vec<f64> {
        if self.is_log && self.high / self.low >= 6.0 {
            return log_ticks(self.low, self.high, wanted);
        }
        let step = round_step((self.high - self.low) / wanted.max(1) as f64);
        let first = (self.low / step).ceil();
        let count = ((self.high / step).floor() - first).clamp(0.0, 50.0) as usize;
        (0..=count).map(|at| (first + at as f64) * step).collect()
    }
}

impl Object for AxisScale {
    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        name: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match name {
            "at" => from_args::<(f64,)>(args).map(|(value,)| self.at(value).into()),
            "ticks" => from_args::<(usize,)>(args).map(|(wanted,)| self.ticks(wanted).into()),
            // What a script needs to find the position of a value: kind, ends, and which way.
            "data" => {
                let kind = if self.is_log { "log" } else { "linear" };
                Ok(format!("{kind} {} {} {}", self.low, self.high, u8::from(self.is_upward)).into())
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = match decades / wanted.max(1) as f64 {
        share if share < 0.35 => &[1.0, 2.0, 5.0],
        share if share < 0.7 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let first = low.log10().floor() as i32;
    let decades = first..=high.log10().ceil() as i32;
    let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
    all.filter(|value| *value >= low && *value <= high).collect()
}

/// 1, 2 or 5 times a power of ten, at least about `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= step * 0.999);
    factor.unwrap_or(10.0) * power
}

/// The scale along one side of a chart's box, which has `width`, `height` and four margins.
pub(crate) fn scale(place: &Value, side: &str, kind: &str, low: f64, high: f64) -> Result<Value, Error> {
    let number = |name: &str| place.get_attr(name).and_then(f64::try_from);
    let length = match side {
        "across" => number("width")? - number("left")? - number("right")?,
        _ => number("height")? - number("top")? - number("bottom")?,
    };
    Ok(Value::from_object(AxisScale::of(kind, low, high, length, side == "up")))
}

/// Pairs of two numbers that each item has; items that lack one of them are left out.
pub(crate) fn points(items: &Value, x: &str, y: &str) -> Result<Vec<Value>, Error> {
    let number =
        |item: &Value, name: &str| item.get_attr(name).ok().and_then(|value| f64::try_from(value).ok());
    let pair = |item: Value| Some(Value::from(vec![number(&item, x)?, number(&item, y)?]));
    Ok(items.try_iter()?.filter_map(pair).collect())
}

/// The `d` of an SVG path: `dots` at the points, a `line` through them, or a line by `steps`.
pub(crate) fn path(points: Vec<Vec<f64>>, x: &AxisScale, y: &AxisScale, kind: &str) -> String {
    let mut text = String::new();
    for (at, point) in points.iter().enumerate() {
        let (x, y) = (px(x.at(point[0])), px(y.at(point[1])));
        let _ = match (kind, at) {
            ("dots", _) => write!(text, "M{x} {y}h0"),
            (_, 0) => write!(text, "M{x} {y}"),
            ("steps", _) => write!(text, "H{x}V{y}"),
            _ => write!(text, "L{x} {y}"),
        };
    }
    text
}

/// The attributes of a rectangle between two values of each axis.
pub(crate) fn rect(x: &AxisScale, y: &AxisScale, across: Vec<f64>, up: Vec<f64>) -> Value {
    let (left, right) = (x.at(across[0]), x.at(across[1]));
    let (a, b) = (y.at(up[0]), y.at(up[1]));
    let (width, height) = (px((right - left).max(0.3)), px((a - b).abs().max(0.3)));
    let (left, top) = (px(left), px(a.min(b)));
    Value::from_safe_string(format!(r#"x="{left}" y="{top}" width="{width}" height="{height}""#))
}

/// Times as points of a row, moved up and down by turns so that equal times show as several.
pub(crate) fn spread(times: Vec<f64>, row: f64) -> Vec<Value> {
    let shift = |at: usize| 0.26 + 0.48 * ((at * 5 % 8) as f64 / 7.0);
    let point = |(at, time): (usize, f64)| Value::from(vec![time, row + shift(at)]);
    times.into_iter().enumerate().map(point).collect()
}

/// A number of pixels, to a tenth.
pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}

/// A number for a tick: four significant digits at most, without zeros at the end.
pub(crate) fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 || size == 0.0 => 0,
        size => (3 - size.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// The value below which a share of them lies.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((share * last as f64).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let linear = AxisScale::of("linear", 0.0, 97.0, 100.0, false);
        assert_eq!(linear.ticks(5), [0.0, 20.0, 40.0, 60.0, 80.0]);
        let log = AxisScale::of("log", 8.0, 900.0, 100.0, true);
        assert_eq!(log.ticks(6), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!((log.at(8.0), log.at(900.0)), (100.0, 0.0));
    }

    #[test]
    fn unsound_numbers_leave_a_chart() {
        for (low, high) in [(f64::NAN, 1.0), (2.0, 1.0), (0.0, 1.0), (1.0, f64::INFINITY), (3.0, 3.0)] {
            let scale = AxisScale::of("log", low, high, 100.0, false);
            assert!(
                scale.ticks(5).len() < 60 && scale.at(f64::NAN).is_finite() && scale.at(-1.0).is_finite()
            );
        }
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.5, 12.0, 12.34567, 1234.5, 0.00123];
        assert_eq!(all.map(short), ["0", "0.5", "12", "12.35", "1234", "0.00123"]);
    }
}
