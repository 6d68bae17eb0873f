//! Tables that fit the terminal. Columns of numbers that no row has are left out. When a table is too wide, it gives up columns in this order: parameters
//! with the same value in all rows move to a line below, where nothing is lost; then numbers go, the least
//! important first; then parameters, the widest first. Files and JSON always have everything.

use std::fmt::Write as _;

use evo_space::text::printable;

use super::width::wrapped;

/// A text in a line of Markdown or in a cell of a table, where a bar would begin another one.
pub fn markdown_cell(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

#[derive(Debug, Default)]
pub struct FittedTable {
    columns: Vec<TableColumn>,
}

#[derive(Debug)]
pub struct TableColumn {
    /// Its place among all columns of the table.
    number: usize,
    head: String,
    cells: Vec<String>,
    keep: Keep,
}

/// What may happen to a column when the table is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Always,
    /// It is a parameter: below the table if it is the same in all rows, left out in the end.
    Parameter,
    /// It is left out, the lowest rank first.
    Rank(u8),
}

/// The cell of a number that is not known.
pub const UNKNOWN: &str = "-";

/// Blanks before each column.
const GAP: usize = 2;

impl TableColumn {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.chars().count());
        cells.chain([self.head.chars().count()]).max().unwrap_or(0)
    }

    /// `NAME=value` if all rows have the same value.
    fn shared(&self) -> Option<String> {
        let first = self.cells.first()?;
        let same = self.keep == Keep::Parameter && self.cells.iter().all(|cell| cell == first);
        same.then(|| format!("{}={first}", self.head))
    }

    /// Whether it is a number that no row has, or that is zero in all.
    fn is_empty(&self) -> bool {
        let is_nothing = |cell: &String| cell == UNKNOWN || cell.parse() == Ok(0.0);
        matches!(self.keep, Keep::Rank(_)) && self.cells.iter().all(is_nothing)
    }

    /// The name for people; the column of remarks has no head.
    fn name(&self) -> &str {
        if self.head.is_empty() { "remarks" } else { &self.head }
    }
}

impl FittedTable {
    pub fn add(&mut self, head: &str, keep: Keep, cells: Vec<String>) {
        let number = self.columns.len();
        self.columns.push(TableColumn { number, head: head.to_string(), cells, keep });
    }

    /// The table, at most `width` characters wide if its columns that always stay allow that, without parameters that are
    /// the same in all rows.
    pub fn rows(&self, width: usize) -> String {
        grid(&self.fitted(width, true).0)
    }

    /// The table with lines below it that name what is not a column.
    pub fn text(&self, width: usize) -> String {
        let (shown, shared, left_out) = self.fitted(width, false);
        grid(&shown) + &footer(&shared, &left_out, width)
    }

    /// For rows that come one by one, of a table whose columns have every cell that they may have: the columns that fit
    /// beside a last one, by number and with their width, and the lines below the table.
    pub fn layout(&self, width: usize, last: usize) -> (Vec<(usize, usize)>, String) {
        let (shown, shared, left_out) = self.fitted(width.saturating_sub(last), false);
        let columns = shown.iter().map(|column| (column.number, column.width())).collect();
        (columns, footer(&shared, &left_out, width))
    }

    /// The columns that fit, parameters with one value, and the names of what else does not fit.
    fn fitted(&self, width: usize, is_brief: bool) -> (Vec<&TableColumn>, Vec<String>, Vec<&str>) {
        let mut shown: Vec<&TableColumn> = self.columns.iter().filter(|column| !column.is_empty()).collect();
        let total = |shown: &[&TableColumn]| shown.iter().map(|column| GAP + column.width()).sum::<usize>();
        let too_wide = |shown: &[&TableColumn]| total(shown) > width;
        let (mut shared, mut left_out) = (Vec::new(), Vec::new());
        if is_brief || too_wide(&shown) {
            shared = shown.iter().filter_map(|column| column.shared()).collect();
            shown.retain(|column| column.shared().is_none());
        }
        while too_wide(&shown) {
            let Some(position) = expendable(&shown) else { break };
            left_out.push(shown.remove(position).name());
        }
        (shown, shared, left_out)
    }
}

fn footer(shared: &[String], left_out: &[&str], width: usize) -> String {
    let mut text = String::new();
    if !shared.is_empty() {
        text += &wrapped(&format!("same in all rows: {}", shared.join(", ")), width);
    }
    if !left_out.is_empty() {
        text += &wrapped(&format!("not shown in {width} columns: {}", left_out.join(", ")), width);
    }
    text
}

/// The number of rank lowest, else the widest parameter, if there is anything to leave out.
fn expendable(shown: &[&TableColumn]) -> Option<usize> {
    let rank = |position: &usize| match shown[*position].keep {
        Keep::Rank(rank) => Some(rank),
        Keep::Always | Keep::Parameter => None,
    };
    let ranked = (0..shown.len()).filter(|position| rank(position).is_some()).min_by_key(rank);
    let parameters = (0..shown.len()).filter(|position| shown[*position].keep == Keep::Parameter);
    ranked.or_else(|| parameters.max_by_key(|position| shown[*position].width()))
}

/// Aligned columns: right, but for the last if it has no head, which holds remarks.
fn grid(shown: &[&TableColumn]) -> String {
    let rows = shown.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let widths: Vec<usize> = shown.iter().map(|column| column.width()).collect();
    let mut text = String::new();
    for row in 0..=rows {
        let mut line = String::new();
        for (column, width) in shown.iter().zip(&widths) {
            let cell = match row {
                0 => &column.head,
                _ => &column.cells[row - 1],
            };
            let width = if column.head.is_empty() { 0 } else { *width };
            let _ = write!(line, "{:GAP$}{cell:>width$}", "");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> FittedTable {
        let column = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let mut table = FittedTable::default();
        table.add("#", Keep::Always, column(["1", "2"]));
        table.add("BLOCK", Keep::Parameter, column(["64", "128"]));
        table.add("layout", Keep::Parameter, column(["swizzled", "swizzled"]));
        table.add("STAGES", Keep::Parameter, column(["2", "3"]));
        table.add("time", Keep::Always, column(["1.0 µs", "2.0 µs"]));
        table.add("regs", Keep::Rank(1), column(["32", "40"]));
        table.add("speed", Keep::Rank(2), column(["2.00×", "-"]));
        table.add("", Keep::Rank(3), column(["", "baseline"]));
        table
    }

    #[test]
    fn columns_go_in_their_order() {
        let text = |width| table().text(width);
        insta::assert_snapshot!(text(65), @"
          #  BLOCK    layout  STAGES    time  regs  speed
          1     64  swizzled       2  1.0 µs    32  2.00×
          2    128  swizzled       3  2.0 µs    40      -  baseline
        ");
        insta::assert_snapshot!(text(58), @"
          #  BLOCK  STAGES    time  regs  speed
          1     64       2  1.0 µs    32  2.00×
          2    128       3  2.0 µs    40      -  baseline
        same in all rows: layout=swizzled
        ");
        insta::assert_snapshot!(text(44), @"
          #  BLOCK  STAGES    time  speed
          1     64       2  1.0 µs  2.00×
          2    128       3  2.0 µs      -  baseline
        same in all rows: layout=swizzled
        not shown in 44 columns: regs
        ");
        insta::assert_snapshot!(text(20), @"
          #  BLOCK    time
          1     64  1.0 µs
          2    128  2.0 µs
        same in all rows:
          layout=swizzled
        not shown in 20
          columns: regs,
          speed, remarks,
          STAGES
        ");
        let mut table = table();
        table.add("TFLOP/s", Keep::Rank(9), vec!["-".to_string(); 2]);
        assert_eq!(table.text(120), text(120), "a number that no row has has no column");
        for width in 20..70 {
            assert!(text(width).lines().all(|line| line.chars().count() <= width), "{width}");
        }
    }
}
