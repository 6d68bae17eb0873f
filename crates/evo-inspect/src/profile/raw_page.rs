//! Reads the page `raw` of Nsight Compute as CSV: a line of names, a line of units, then a line for each launch, all
//! quoted, numbers perhaps with commas between their thousands. Lines that begin with `==` are messages.
//!
//! A value that is not a number never becomes one. People have read `n/a` of a misspelt metric as 0.

use evo_protocol::entry_name::base;

use super::metrics::MetricUnit;

/// Columns that describe a launch; those of metrics come behind them.
const KERNEL: &str = "Kernel Name";
const NUMBER: &str = "ID";

const NO_UNITS: &str = "the line of units is missing";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawPage {
    names: Vec<String>,
    units: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl RawPage {
    /// Any bytes may stand in it.
    pub fn read(text: &str) -> Result<RawPage, String> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end_matches('\r')));
        let mut lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with("=="));
        // Whatever else was printed before.
        let is_header =
            |cells: &Vec<String>| [NUMBER, KERNEL].iter().all(|name| cells.iter().any(|cell| cell == name));
        let names = lines.find_map(|(_, line)| cells(line).filter(is_header));
        let names = names.ok_or("there is no line of names with `ID` and `Kernel Name`")?;
        let row = |(number, line): (usize, &str)| {
            let cells = cells(line)
                .ok_or_else(|| format!("line {number} ends inside of a value, or has a quote in one"))?;
            let (found, expected) = (cells.len(), names.len());
            match found == expected {
                true => Ok(cells),
                false => {
                    Err(format!("line {number} has {found} values, and the line of names has {expected}"))
                }
            }
        };
        let units = row(lines.next().ok_or(NO_UNITS)?)?;
        // Units belong to metrics: the launch has no unit of its kernel's name.
        let kernel = names.iter().position(|name| name == KERNEL);
        if kernel.and_then(|at| units.get(at)).is_some_and(|unit| !unit.is_empty()) {
            return Err(NO_UNITS.to_string());
        }
        let rows = lines.map(row).collect::<Result<Vec<_>, String>>()?;
        if rows.is_empty() {
            return Err("there is no line of a launch".to_string());
        }
        Ok(RawPage { names, units, rows })
    }

    pub fn launches(&self) -> usize {
        self.rows.len()
    }

    /// The name of a launch's kernel as the profiler prints it, without arguments and return type.
    pub fn kernel(&self, launch: usize) -> Option<&str> {
        let at = self.names.iter().position(|name| name == KERNEL)?;
        self.rows.get(launch)?.get(at).map(|name| base(name))
    }

    pub fn value(&self, launch: usize, counter: &str, unit: MetricUnit) -> Result<f64, String> {
        let at = self.names.iter().position(|name| name == counter);
        let at = at.ok_or_else(|| format!("the profiler gave no column `{counter}`"))?;
        let cell = self.rows.get(launch).and_then(|row| row.get(at)).map_or("", String::as_str);
        let number = number(cell).map_err(|why| format!("`{counter}` {why}"))?;
        let told = self.units.get(at).map_or("", String::as_str);
        let (kind, factor) = scale(told);
        let fits = match unit {
            MetricUnit::Any => true,
            MetricUnit::Percent => kind == UnitKind::Percent,
            MetricUnit::Bytes => kind == UnitKind::Bytes,
            MetricUnit::Count => kind == UnitKind::Count,
        };
        if !fits {
            return Err(format!("`{counter}` came in the unit `{told}`, which is not its own"));
        }
        let value = number * factor;
        // Rates, shares and counts; a counter that wrapped is none of them.
        if value < 0.0 && unit != MetricUnit::Any {
            return Err(format!("`{counter}` is negative: `{cell}`"));
        }
        if !value.is_finite() {
            return Err(format!("`{counter}` is too large: `{cell}`"));
        }
        Ok(value)
    }
}

/// None where the line ends inside of a cell, or a quote stands alone in one.
fn cells(line: &str) -> Option<Vec<String>> {
    const QUOTE: char = '\u{1}';
    let inner = line.strip_prefix('"')?.strip_suffix('"')?;
    let cell = |text: &str| {
        let plain = text.replace("\"\"", &QUOTE.to_string());
        (!plain.contains('"')).then(|| plain.replace(QUOTE, "\""))
    };
    inner.split("\",\"").map(cell).collect()
}

/// A number as the profiler writes it: `1,234.5`, `0.25`, `4.0e-05`.
fn number(cell: &str) -> Result<f64, String> {
    // Newer versions mark values that they do not trust.
    let text = cell.trim();
    if text.is_empty() {
        return Err("is empty".to_string());
    }
    let bad = || Err(format!("is `{}`, which is not a number", evo_space::text::shortened(text, 40)));
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, rest) = unsigned.split_at(unsigned.find(['.', 'e', 'E']).unwrap_or(unsigned.len()));
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let digits = |group: &str| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
    // A decimal comma would read as one between thousands: `12,5` is refused, because no group has one digit.
    let grouped = whole.contains(',');
    let groups_fit = groups.all(|group| digits(group) && group.len() == 3) && (!grouped || first.len() <= 3);
    let plain = |letter: char| letter.is_ascii_digit() || ".eE+-".contains(letter);
    if !digits(first) || !groups_fit || !rest.chars().all(plain) {
        return bad();
    }
    match text.replace(',', "").parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => bad(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitKind {
    Percent,
    Bytes,
    Time,
    Count,
}

/// A unit as the profiler prints it, and how many base units it is: `Mbyte` is 10⁶ bytes, `usecond` 1000 ns. Everything
/// that is none of those counts something, perhaps in thousands: `inst`, `Kinst`, `warp`, `inst/cycle`.
fn scale(unit: &str) -> (UnitKind, f64) {
    let time = [("n", 1.0), ("u", 1e3), ("m", 1e6), ("", 1e9)];
    for (prefix, factor) in time {
        if ["second", "s", "sec"].iter().any(|word| unit.strip_prefix(prefix) == Some(word)) {
            return (UnitKind::Time, factor);
        }
    }
    if unit == "%" || unit == "pct" {
        return (UnitKind::Percent, 1.0);
    }
    let prefixes = [("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
    let scaled = prefixes.iter().find_map(|(prefix, factor)| {
        let base = unit.strip_prefix(prefix)?;
        base.starts_with(|letter: char| letter.is_ascii_lowercase()).then_some((base, *factor))
    });
    let (base, factor) = scaled.unwrap_or((unit, 1.0));
    let kind = if ["byte", "bytes", "B"].contains(&base) { UnitKind::Bytes } else { UnitKind::Count };
    (kind, factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "\"ID\",\"Kernel Name\",\"dram__bytes.sum\",\"a__b.pct\"\n\"\",\"\",\"byte\",\"%\"\n";

    fn page(rows: &str) -> Result<RawPage, String> {
        RawPage::read(&format!("{HEAD}{rows}"))
    }

    #[test]
    fn numbers_are_read_and_nothing_else_becomes_one() {
        let cells = "1,234,567|1,234.50|4.0e-05|0|1e400|n/a|nan|-nan|NaN|inf|(!) n/a|(!) 12|| |12,5|1,23|,123|1,,234|\
                     1.234.567|1,234,5|12;13|-1|0x10|1 2|١|1_000|+1|--1|1e|12345,678";
        let told = cells.split('|').map(|cell| {
            let page = page(&format!("\"0\",\"k\",\"{cell}\",\"1\"\n")).unwrap();
            format!("{cell}: {:?}", page.value(0, "dram__bytes.sum", MetricUnit::Bytes))
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn units_are_brought_to_their_base_or_refused() {
        use MetricUnit::{Any, Bytes, Count, Percent};
        let told = [
            ("Kbyte", Bytes),
            ("Gbyte", Bytes),
            ("%", Bytes),
            ("", Percent),
            ("byte", Count),
            ("nsecond", Count),
            ("Minst", Count),
            ("inst/cycle", Count),
            ("usecond", Any),
            ("", Count),
        ]
        .map(|(unit, kind)| {
            let text = format!("\"ID\",\"Kernel Name\",\"m__x\"\n\"\",\"\",\"{unit}\"\n\"0\",\"k\",\"2\"\n");
            format!("{unit} {kind:?}: {:?}", RawPage::read(&text).unwrap().value(0, "m__x", kind))
        });
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn messages_stand_around_a_page_and_kernels_lose_their_arguments() {
        let text = format!(
            "==PROF== Connected to process 1\nhello, world\n\n{HEAD}\"0\",\"k\",\"1\",\"2\"\r\n==PROF== bye\n"
        );
        let named = |name: &str| {
            page(&format!("\"0\",\"{name}\",\"1\",\"2\"\n")).unwrap().kernel(0).map(String::from)
        };
        assert_eq!(named("void scale<float>(const T1 *, int)").as_deref(), Some("scale"));
        assert_eq!(named("a \"\"quoted\"\"").as_deref(), Some("\"quoted\""));
        let page = RawPage::read(&text).unwrap();
        assert_eq!((page.launches(), page.kernel(0)), (1, Some("k")));
        assert_eq!(
            page.value(0, "dram__bytes.sun", MetricUnit::Bytes).unwrap_err(),
            "the profiler gave no column `dram__bytes.sun`"
        );
        assert!(page.value(7, "dram__bytes.sum", MetricUnit::Bytes).is_err());
    }

    #[test]
    fn what_is_cut_off_is_not_a_page() {
        let whole = format!("{HEAD}\"0\",\"k\",\"1,024\",\"2\"\n\"1\",\"k\",\"1,024\",\"2\"\n");
        assert_eq!(RawPage::read(&whole).unwrap().launches(), 2);
        for end in 0..whole.len() - 1 {
            // A page that ends after a whole line has fewer launches, which whoever counts them sees.
            if let Ok(page) = RawPage::read(&whole[..end]) {
                assert_eq!(page.launches(), 1, "{}", &whole[..end]);
            }
        }
        let told = [
            "",
            "==ERROR== no\n",
            HEAD,
            "\"ID\",\"Kernel Name\"\n",
            "\"ID\",\"Kernel Name\"\n\"0\",\"k\"\n",
            &format!("{HEAD}\"0\",\"k\",\"1\n"),
            &format!("{HEAD}\"0\",\"k\"\n"),
        ]
        .map(|text| RawPage::read(text).unwrap_err());
        insta::assert_snapshot!(told.join("\n"));
    }
}
