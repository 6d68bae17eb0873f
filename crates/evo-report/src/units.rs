//! Times and paces as people read them.

/// The unit in which a time has one to three digits before the point, and its nanoseconds.
pub(crate) fn unit(nanoseconds: f64) -> (&'static str, f64) {
    match nanoseconds {
        value if value < 1e3 => ("ns", 1.0),
        value if value < 1e6 => ("µs", 1e3),
        value if value < 1e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

/// Nanoseconds with a unit and about four significant digits.
pub fn time(nanoseconds: f64) -> String {
    let (unit, factor) = unit(nanoseconds);
    let value = nanoseconds / factor;
    let digits = match value {
        value if value < 10.0 => 3,
        value if value < 100.0 => 2,
        _ => 1,
    };
    format!("{value:.digits$} {unit}")
}

/// A pace in the unit in which it is not `0.0`: `12.3 evaluations/s`, `4.0 evaluations/min`.
pub fn rate(per_second: f64, what: &str) -> String {
    let (value, unit) = match per_second {
        value if value <= 0.0 => return format!("0{what}/s"),
        value if value >= 0.1 => (value, "s"),
        value if value * 60.0 >= 0.1 => (value * 60.0, "min"),
        value => (value * 3600.0, "h"),
    };
    format!("{value:.1}{what}/{unit}")
}
