//! Which fixture shows what a check is worth.
//!
//! A fixture is written so that only its check finds it. Where a check finds what another one would find as well, the
//! row says what is lost without it: the name of the cause, or an early refusal. A check that stands behind another is
//! shown with that one left out in both runs, and the row says why both are there.

use std::sync::LazyLock;

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceKind;

use super::tasks::FixtureTask;

/// What becomes of a fixture without its check, from strongest to weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckWorth {
    /// It passes.
    Needed,
    /// It is refused, and the cause has another name.
    NamesCause,
    /// A later gate refuses it with the same words.
    RefusesEarly,
    /// The same gate refuses it with the same words.
    Nothing,
}

impl CheckWorth {
    pub fn as_str(self) -> &'static str {
        match self {
            CheckWorth::Needed => "needed",
            CheckWorth::NamesCause => "names the cause",
            CheckWorth::RefusesEarly => "refuses early",
            CheckWorth::Nothing => "NOT NEEDED",
        }
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
            None => {
                let worths = [CheckWorth::Needed, CheckWorth::NamesCause, CheckWorth::RefusesEarly];
                worths.into_iter().find(|worth| worth.as_str() == cell).map(Shows)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// As a contender of a sweep, with its instrumented build.
    Contender,
    /// As a finalist: this check looks longer at those.
    Finalist,
    /// In a new worker, whose memory nobody has filled.
    NewWorker,
    ShortDeadlines,
    LittleOutput,
    OtherBinary,
    FastRival,
}

const HANDLINGS: [(&str, Handling); 7] = [
    ("contender", Handling::Contender),
    ("finalist", Handling::Finalist),
    ("new worker", Handling::NewWorker),
    ("short deadlines", Handling::ShortDeadlines),
    ("little output", Handling::LittleOutput),
    ("other binary", Handling::OtherBinary),
    ("fast rival", Handling::FastRival),
];

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
            handling: HANDLINGS.iter().find(|(name, _)| *name == handling)?.1,
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
    fn every_check_is_shown_on_a_device() {
        let shown = |plan: RowPlan| !matches!(plan, Absent(_));
        for check in GateCheck::ALL {
            let rows = || ROWS.iter().filter(|row| row.check == *check);
            assert!(rows().any(|row| shown(row.host) || shown(row.cuda)), "{check:?}");
        }
    }
}
