//! The rows as people read them.

use super::play::RowResult;

/// A line for a row, with another one for what it has to say.
pub fn line(row: &RowResult) -> String {
    let mark = match row.passed {
        Some(true) => "pass   ",
        Some(false) => "FAIL   ",
        None => "not_run",
    };
    let verdict = |own: &Option<String>| own.clone().unwrap_or_else(|| "-".to_string());
    let (with, without) = (verdict(&row.with_check), verdict(&row.without_check));
    let mut text =
        format!("{mark} {:<24} {:<16} {with:<30} {without:<30} {}", row.check, row.fixture, row.state);
    let clear = row.passed == Some(true) && row.without_check.as_deref() == Some("pass");
    if !row.message.is_empty() && !clear {
        text.push_str(&format!("\n        {}", row.message));
    }
    text.push('\n');
    text
}

/// The names of the columns.
pub fn header() -> String {
    format!("        {:<24} {:<16} {:<30} {:<30} {}\n", "check", "fixture", "with it", "without it", "state")
}

/// How many checks were shown to be worth something.
pub fn summary(rows: &[RowResult]) -> String {
    let count = |passed: Option<bool>| rows.iter().filter(|row| row.passed == passed).count();
    format!(
        "{} rows pass, {} fail, {} not on this device\n",
        count(Some(true)),
        count(Some(false)),
        count(None)
    )
}
