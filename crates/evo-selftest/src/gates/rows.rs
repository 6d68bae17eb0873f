//! Which fixture shows what a check is worth.
//!
//! A fixture is written so that only its check finds it. Where a check finds what another one would find as well, the
//! row says what is lost without it: the name of the cause, or an early refusal. A check that stands behind another is
//! shown with that one left out in both runs, and the row says why both are there.
//!
//! The task of a fixture is a space file that is put together here: `tasks.toml` has what differs between them, a line
//! or two.

use std::sync::LazyLock;

use evo::cli::error::CliError;
use evo::kernel::catalog;
use evo::kernel::spec::SpaceFile;
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceKind;
use evo_protocol::words;
use evo_space::diagnostic::Diagnostics;
use evo_space::document::{self, Node};

words! {
    /// What becomes of a fixture without its check, from strongest to weakest.
    #[derive(PartialOrd, Ord)]
    CheckWorth {
        /// It passes.
        Needed = "needed",
        /// It is refused, and the cause has another name.
        NamesCause = "names the cause",
        /// A later gate refuses it with the same words.
        RefusesEarly = "refuses early",
        /// The same gate refuses it with the same words.
        Nothing = "NOT NEEDED",
    }
}

#[derive(Clone, Copy, Debug)]
pub enum RowPlan {
    /// The least that the check must be worth.
    Shows(CheckWorth),
    /// The same where another check is left out in both runs, and why both are there.
    Behind(GateCheck, &'static str),
    /// Nothing on this device, and why.
    Absent(&'static str),
}

impl RowPlan {
    fn of(cell: &'static str) -> Option<RowPlan> {
        match cell.split_once(": ") {
            Some(("absent", why)) => Some(Absent(why)),
            Some((other, why)) => Some(Behind(GateCheck::named(other.strip_prefix("behind ")?)?, why)),
            None => CheckWorth::named(cell).map(Shows),
        }
    }
}

words! {
    Handling {
        /// As a contender of a sweep, with its instrumented build.
        Contender = "contender",
        /// As a finalist: this check looks longer at those.
        Finalist = "finalist",
        /// In a new worker, whose memory nobody has filled.
        NewWorker = "new worker",
        ShortDeadlines = "short deadlines",
        LittleOutput = "little output",
        OtherBinary = "other binary",
        FastRival = "fast rival",
    }
}

#[derive(Clone, Debug)]
pub struct GateRow {
    pub check: GateCheck,
    pub task: FixtureTask,
    pub fixture: &'static str,
    /// The verdict with the check, by kind or by kind and cause.
    pub verdicts: Vec<&'static str>,
    pub handling: Handling,
    pub host: RowPlan,
    pub cuda: RowPlan,
}

use RowPlan::{Absent, Behind, Shows};

/// Every row, in the order of the checks.
pub static ROWS: LazyLock<Vec<GateRow>> = LazyLock::new(|| {
    let table = include_str!("rows.md").lines().filter(|line| line.starts_with('|'));
    // Behind the head and the line under it.
    table.skip(2).map(|line| GateRow::of(line).unwrap_or_else(|| panic!("{line}"))).collect()
});

impl GateRow {
    fn of(line: &'static str) -> Option<GateRow> {
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
        let [check, task, fixture, verdicts, handling, host, cuda] = cells[..] else { return None };
        Some(GateRow {
            check: GateCheck::named(check)?,
            task: FixtureTask::named(task)?,
            fixture,
            verdicts: verdicts.split(", ").collect(),
            handling: Handling::named(handling)?,
            host: RowPlan::of(host)?,
            cuda: RowPlan::of(if cuda == "as there" { host } else { cuda })?,
        })
    }

    /// What it shows on a kind of device.
    pub fn plan(&self, kind: DeviceKind) -> RowPlan {
        if kind == DeviceKind::Cuda { self.cuda } else { self.host }
    }

    pub fn runs_on(&self, kind: DeviceKind) -> bool {
        !matches!(self.plan(kind), Absent(_))
    }

    /// Whether it shall pass without its check, and so has to meet everything that judges a finalist.
    pub fn slips_through(&self) -> bool {
        matches!(self.host, Shows(CheckWorth::Needed) | Behind(..))
    }
}

/// With a mark for each part that tasks differ in.
const TASK: &str = include_str!("task.toml");

static TASKS: LazyLock<Node> = LazyLock::new(|| {
    document::parse(include_str!("tasks.toml"), &mut Diagnostics::default()).expect("tables of tasks")
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixtureTask(&'static str);

impl FixtureTask {
    pub fn named(name: &'static str) -> Option<FixtureTask> {
        TASKS.get(name).map(|_| FixtureTask(name))
    }

    /// What the task says itself, or else the one that it is like.
    fn part(self, key: &str) -> &'static str {
        let task = TASKS.get(self.0);
        let like = || task.and_then(|task| task.text("like")).map(|like| FixtureTask(like).part(key));
        task.and_then(|task| task.text(key)).or_else(like).unwrap_or_default()
    }

    /// Opens the task with a fixture beside the honest kernel.
    pub fn open(self, fixture: &str) -> Result<SpaceFile, CliError> {
        let values = if fixture == "none" { "\"none\"".into() } else { format!("\"none\", \"{fixture}\"") };
        // The reference names its entry, which is the task's.
        let keys = ["reference", "entry", "arguments", "lost", "blocks", "sizes", "tiny", "rules", "bytes"];
        let text = keys.iter().fold(TASK.replace("@values@", &values), |text, key| {
            text.replace(&format!("@{key}@"), self.part(key))
        });
        Ok(catalog::from_text(&format!("gates ({}, {fixture})", self.part("entry")), text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_row_in_the_order_of_the_checks() {
        let mut checks: Vec<GateCheck> = ROWS.iter().map(|row| row.check).collect();
        assert!(checks.is_sorted());
        checks.dedup();
        assert_eq!(checks, GateCheck::ALL);
    }

    #[test]
    fn every_check_is_shown_on_a_device_and_every_task_is_a_space_file() {
        for check in GateCheck::ALL {
            let rows = || ROWS.iter().filter(|row| row.check == *check);
            let kinds = [DeviceKind::Host, DeviceKind::Cuda];
            assert!(rows().any(|row| kinds.iter().any(|kind| row.runs_on(*kind))), "{check:?}");
        }
        for row in ROWS.iter() {
            let file = row.task.open("any").unwrap_or_else(|error| panic!("{row:?}: {error}"));
            assert_eq!(file.space.count(), 2, "{row:?}");
        }
    }
}
