//! What a page shows as one figure: a title, a summary in words, and the picture.

use serde::Serialize;

use super::plot::PlotBox;

/// A figure.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// Names it in the page.
    pub id: String,
    pub title: String,
    /// What it shows, in words.
    pub summary: String,
    /// SVG; empty where there is nothing to draw, and then the summary says why.
    pub svg: String,
    /// What its marks mean: class and word.
    pub legend: Vec<(String, String)>,
}

impl Chart {
    /// A figure that has nothing to draw, and why.
    pub fn absent(id: &str, title: &str, why: impl Into<String>) -> Chart {
        let (id, title, summary) = (id.to_string(), title.to_string(), why.into());
        Chart { id, title, summary, svg: String::new(), legend: Vec::new() }
    }
}

/// A legend of classes and words.
pub fn legend(items: &[(&str, &str)]) -> Vec<(String, String)> {
    items.iter().map(|(class, word)| (class.to_string(), word.to_string())).collect()
}

/// The usual place of a wide chart.
pub const WIDE: PlotBox =
    PlotBox { width: 960.0, height: 320.0, left: 64.0, right: 16.0, top: 22.0, bottom: 38.0 };

/// The unit in which an axis shows times.
#[derive(Clone, Copy, Debug)]
pub struct TimeUnit {
    pub name: &'static str,
    pub nanoseconds: f64,
}

impl TimeUnit {
    /// The unit in which a time has one to three digits before the point.
    pub fn of(nanoseconds: f64) -> TimeUnit {
        let (name, nanoseconds) = match nanoseconds {
            value if value < 1e3 => ("ns", 1.0),
            value if value < 1e6 => ("µs", 1e3),
            value if value < 1e9 => ("ms", 1e6),
            _ => ("s", 1e9),
        };
        TimeUnit { name, nanoseconds }
    }

    /// The number of a tick, without zeros behind the point.
    pub fn number(&self, nanoseconds: f64) -> String {
        short(nanoseconds / self.nanoseconds)
    }
}

/// A number for a tick: four significant digits at most, without zeros at the end.
pub fn short(value: f64) -> String {
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

/// The smallest and the largest of finite positive numbers.
pub fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let sound = values.filter(|value| value.is_finite() && *value > 0.0);
    sound.fold(None, |known: Option<(f64, f64)>, value| {
        Some(known.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    })
}

/// The value below which a share of them lies.
pub fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((share * last as f64).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.5, 12.0, 12.34567, 1234.5, 0.00123];
        assert_eq!(all.map(short), ["0", "0.5", "12", "12.35", "1234", "0.00123"]);
    }
}
