//! Charts as SVG that reads without a script: axes, dots, lines, areas.
//!
//! The marks of a chart are in an `svg` of their own inside the first, which cuts off what lies beyond the axes, and in a
//! group that a script may stretch along the x axis. Lines and dots keep their width when it does.

use std::fmt::Write;

/// How values become positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleKind {
    Linear,
    Log,
}

/// One axis: values from `low` to `high` on a length.
#[derive(Clone, Copy, Debug)]
pub struct AxisScale {
    kind: ScaleKind,
    low: f64,
    high: f64,
    length: f64,
    is_upward: bool,
}

impl AxisScale {
    /// From left to right.
    pub fn across(kind: ScaleKind, (low, high): (f64, f64), length: f64) -> AxisScale {
        AxisScale::of(kind, low, high, length, false)
    }

    /// From bottom to top.
    pub fn upward(kind: ScaleKind, (low, high): (f64, f64), length: f64) -> AxisScale {
        AxisScale::of(kind, low, high, length, true)
    }

    fn of(kind: ScaleKind, low: f64, high: f64, length: f64, is_upward: bool) -> AxisScale {
        // Damaged records hold any number; a chart of them must still be a chart.
        let is_sound =
            low.is_finite() && high.is_finite() && low <= high && (kind == ScaleKind::Linear || low > 0.0);
        let (low, high) = if is_sound { (low, high) } else { (1.0, 2.0) };
        let (low, high) = match (high > low, kind) {
            (true, _) => (low, high),
            (false, ScaleKind::Log) => (low / 1.1, high * 1.1),
            (false, ScaleKind::Linear) => (low - 0.5, high + 0.5),
        };
        AxisScale { kind, low, high, length, is_upward }
    }

    /// The position of a value, pixels from the start of the axis.
    pub fn at(&self, value: f64) -> f64 {
        let share = match self.kind {
            ScaleKind::Linear => (value - self.low) / (self.high - self.low),
            ScaleKind::Log => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
        };
        // Far outside is outside: a path needs no more digits.
        let share = if share.is_finite() { share.clamp(-1.0, 2.0) } else { 2.0 };
        if self.is_upward { self.length * (1.0 - share) } else { self.length * share }
    }

    /// Round values for labels, about `wanted` of them.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        if self.kind == ScaleKind::Log && self.high / self.low >= 6.0 {
            return log_ticks(self.low, self.high, wanted);
        }
        let step = round_step((self.high - self.low) / wanted.max(1) as f64);
        let first = (self.low / step).ceil();
        let count = ((self.high / step).floor() - first).clamp(0.0, 50.0) as usize;
        (0..=count).map(|at| (first + at as f64) * step).collect()
    }

    /// What a script needs to find the position of a value: kind, ends, and which way.
    fn attribute(&self) -> String {
        let kind = if self.kind == ScaleKind::Log { "log" } else { "linear" };
        format!("{kind} {} {} {}", self.low, self.high, u8::from(self.is_upward))
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

fn word(x: &str, y: f64, class: &str, text: &str) -> String {
    format!(r#"<text x="{x}" y="{}" class="{class}">{}</text>"#, px(y), escape(text))
}

/// Height of a line of words, pixels.
const LINE: f64 = 14.0;

/// A number of pixels, to a tenth.
pub fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}

/// Text with everything escaped that would be markup.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in evo_space::text::printable(text).chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Where the marks of a chart are, pixels.
#[derive(Clone, Copy, Debug)]
pub struct PlotBox {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl PlotBox {
    pub fn inner(&self) -> (f64, f64) {
        (self.width - self.left - self.right, self.height - self.top - self.bottom)
    }
}

/// A chart under construction.
#[derive(Debug)]
pub struct Plot {
    place: PlotBox,
    pub x: AxisScale,
    pub y: AxisScale,
    /// Inside the axes; stretched by a script.
    marks: String,
    /// Axes and the words beside them.
    around: String,
    /// Words over the marks.
    above: String,
    /// Attributes for a script.
    data: String,
}

impl Plot {
    pub fn new(place: PlotBox, x: AxisScale, y: AxisScale) -> Plot {
        Plot {
            place,
            x,
            y,
            marks: String::new(),
            around: String::new(),
            above: String::new(),
            data: String::new(),
        }
    }

    /// Says which columns of the rows the dots are, so that a script can name the one under the pointer and zoom.
    pub fn hoverable(&mut self, x_column: &str, y_column: &str) {
        let (x, y) = (self.x.attribute(), self.y.attribute());
        let _ = write!(self.data, r#" data-x="{x}" data-y="{y}" data-columns="{x_column} {y_column}""#);
    }

    /// Dots of one kind, as one path.
    pub fn dots(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "M{} {}h0", px(self.x.at(x)), px(self.y.at(y)));
        }
        if !path.is_empty() {
            let _ = write!(self.marks, r#"<path class="dots {class}" d="{path}"/>"#);
        }
    }

    /// A line through points; from value to value by steps where `is_step`.
    pub fn line(&mut self, class: &str, points: &[(f64, f64)], is_step: bool) {
        let mut path = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let (x, y) = (px(self.x.at(*x)), px(self.y.at(*y)));
            let _ = match (at, is_step) {
                (0, _) => write!(path, "M{x} {y}"),
                (_, true) => write!(path, "H{x}V{y}"),
                (_, false) => write!(path, "L{x} {y}"),
            };
        }
        if !path.is_empty() {
            let _ = write!(self.marks, r#"<path class="line {class}" d="{path}"/>"#);
        }
    }

    /// What lies between two lines, given as `(x, low, high)`.
    pub fn band(&mut self, class: &str, points: &[(f64, f64, f64)]) {
        let place = |x: f64, y: f64| format!("{} {}", px(self.x.at(x)), px(self.y.at(y)));
        let upper = points.iter().map(|(x, _, high)| place(*x, *high));
        let lower = points.iter().rev().map(|(x, low, _)| place(*x, *low));
        let all: Vec<String> = upper.chain(lower).collect();
        if points.len() > 1 {
            let _ = write!(self.marks, r#"<path class="band {class}" d="M{}Z"/>"#, all.join("L"));
        }
    }

    /// A rectangle between two values of each axis.
    pub fn bar(&mut self, class: &str, x: (f64, f64), y: (f64, f64), title: &str) {
        let (left, right) = (self.x.at(x.0), self.x.at(x.1));
        let (a, b) = (self.y.at(y.0), self.y.at(y.1));
        let (top, bottom) = (a.min(b), a.max(b));
        let inside = match title {
            "" => "/>".to_string(),
            title => format!("><title>{}</title></rect>", escape(title)),
        };
        let (width, height) = (px((right - left).max(0.3)), px((bottom - top).max(0.3)));
        let (left, top) = (px(left), px(top));
        let _ = write!(
            self.marks,
            r#"<rect class="{class}" x="{left}" y="{top}" width="{width}" height="{height}"{inside}"#
        );
    }

    /// A mark with a word for whoever points at it.
    pub fn mark(&mut self, class: &str, (x, y): (f64, f64), title: &str) {
        let (x, y) = (px(self.x.at(x)), px(self.y.at(y)));
        let title = escape(title);
        let _ = write!(
            self.marks,
            r#"<path class="dots mark {class}" d="M{x} {y}h0"><title>{title}</title></path>"#
        );
    }

    /// Ticks and labels below.
    pub fn x_axis(&mut self, name: &str, wanted: usize, label: impl Fn(f64) -> String) {
        let (_, height) = self.place.inner();
        let base = self.place.top + height;
        let mut text = String::new();
        for tick in self.x.ticks(wanted) {
            let x = px(self.place.left + self.x.at(tick));
            let (top, under) = (px(self.place.top), px(base + 16.0));
            let _ = write!(text, r#"<path class="grid" d="M{x} {top}V{}"/>"#, px(base));
            let _ = write!(
                text,
                r#"<text x="{x}" y="{under}" class="tick middle">{}</text>"#,
                escape(&label(tick))
            );
        }
        let _ = write!(self.around, r#"<g class="axis x">{text}</g>"#);
        if !name.is_empty() {
            let (x, y) = (px(self.place.width - self.place.right), px(self.place.height - 4.0));
            let _ = write!(self.around, r#"<text x="{x}" y="{y}" class="name end">{}</text>"#, escape(name));
        }
    }

    /// Ticks and labels on the left.
    pub fn y_axis(&mut self, name: &str, wanted: usize, label: impl Fn(f64) -> String) {
        let (left, right) = (px(self.place.left), px(self.place.width - self.place.right));
        for tick in self.y.ticks(wanted) {
            let y = self.place.top + self.y.at(tick);
            let _ = write!(self.around, r#"<path class="grid" d="M{left} {}H{right}"/>"#, px(y));
            self.word(px(self.place.left - 6.0), y + 4.0, "tick end", &label(tick));
        }
        if !name.is_empty() {
            self.word("4".into(), 12.0, "name", name);
        }
    }

    /// A word on the left of a row.
    pub fn row_label(&mut self, value: f64, text: &str) {
        let y = self.place.top + self.y.at(value) + 4.0;
        self.word(px(self.place.left - 6.0), y, "tick end", text);
    }

    /// A word inside the axes, at values of both.
    pub fn note(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let (x, y) = (self.place.left + self.x.at(x), self.place.top + self.y.at(y));
        self.above.push_str(&word(&px(x), y, class, text));
    }

    /// Words beside points, moved down where they would cover each other.
    pub fn labels(&mut self, mut points: Vec<((f64, f64), &str)>) {
        points.sort_by(|a, b| self.y.at(a.0.1).total_cmp(&self.y.at(b.0.1)).then(a.1.cmp(b.1)));
        let mut last = f64::NEG_INFINITY;
        for ((x, y), text) in points {
            let own = (self.y.at(y) + 4.0).max(last + LINE);
            last = own;
            let x = px(self.place.left + self.x.at(x) + 9.0);
            self.above.push_str(&word(&x, self.place.top + own, "label", text));
        }
    }

    fn word(&mut self, x: String, y: f64, class: &str, text: &str) {
        self.around.push_str(&word(&x, y, class, text));
    }

    /// The whole chart. `summary` is what a reader gets who does not see it.
    pub fn finish(self, summary: &str) -> String {
        let PlotBox { width, height, left, top, .. } = self.place;
        let (inner_width, inner_height) = self.place.inner();
        let (w, h) = (px(inner_width), px(inner_height));
        format!(
            r#"<svg class="plot" width="{width}" viewBox="0 0 {} {}" role="img" aria-label="{}"{}>{}<svg class="marks" x="{}" y="{}" width="{w}" height="{h}" viewBox="0 0 {w} {h}"><g class="zoom">{}</g></svg><g class="words">{}</g></svg>"#,
            px(width),
            px(height),
            escape(summary),
            self.data,
            self.around,
            px(left),
            px(top),
            self.marks,
            self.above
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let linear = AxisScale::across(ScaleKind::Linear, (0.0, 97.0), 100.0);
        assert_eq!(linear.ticks(5), [0.0, 20.0, 40.0, 60.0, 80.0]);
        let log = AxisScale::upward(ScaleKind::Log, (8.0, 900.0), 100.0);
        assert_eq!(log.ticks(6), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!((log.at(8.0), log.at(900.0)), (100.0, 0.0));
    }

    #[test]
    fn unsound_numbers_leave_a_chart() {
        for (low, high) in [(f64::NAN, 1.0), (2.0, 1.0), (0.0, 1.0), (1.0, f64::INFINITY), (3.0, 3.0)] {
            let scale = AxisScale::across(ScaleKind::Log, (low, high), 100.0);
            assert!(
                scale.ticks(5).len() < 60 && scale.at(f64::NAN).is_finite() && scale.at(-1.0).is_finite()
            );
        }
    }

    #[test]
    fn words_are_no_markup() {
        let place = PlotBox { width: 50.0, height: 50.0, left: 0.0, right: 0.0, top: 0.0, bottom: 0.0 };
        let scale = AxisScale::across(ScaleKind::Linear, (0.0, 1.0), 50.0);
        let mut plot = Plot::new(place, scale, scale);
        plot.mark("a", (0.5, 0.5), "</script><script>alert(1)</script>");
        let text = plot.finish("\"><b>");
        assert!(!text.contains("<script") && !text.contains("<b>"), "{text}");
    }
}
