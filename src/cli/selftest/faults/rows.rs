//! The faults and honest variants that are played. `docs/FAULTS.md` says what each does and what must become of it on each
//! device, beside the catalogue whose numbers they have; `words.toml` has the words of which each verdict must have one.

use std::sync::LazyLock;
use std::time::Duration;

use evo_protocol::device::DeviceKind;
use evo_protocol::words;
use serde::Deserialize;

#[derive(Deserialize)]
pub struct FaultWords {
    remembers: Vec<String>,
    faults: Vec<Vec<String>>,
    faults_heads: Vec<Vec<String>>,
    pub sanitized: Vec<[String; 3]>,
}

pub static WORDS: LazyLock<FaultWords> =
    LazyLock::new(|| toml::from_str(include_str!("words.toml")).expect("a table of words"));

pub fn rows() -> [(&'static str, Vec<FaultRow>); 2] {
    let rows =
        |all: &'static [Vec<String>]| all.iter().map(|row| FaultRow::of(row).expect("a name")).collect();
    [("faults", rows(&WORDS.faults)), ("faults_heads", rows(&WORDS.faults_heads))]
}

/// The tables of the page: the catalogue numbers every known way to be bad.
const PAGE: &str = include_str!("../../../../docs/FAULTS.md");

/// A line of the page's tables that is played.
#[derive(Clone, Copy, Debug)]
pub struct PageRow {
    pub number: &'static str,
    pub name: &'static str,
    pub does: &'static str,
    host: &'static str,
    cuda: &'static str,
}

/// The lines that are played. A line without a number has that of the line above.
pub fn page() -> impl Iterator<Item = PageRow> {
    let mut last = "";
    PAGE.lines().filter_map(move |line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let (number, _, fault) = (cells.next()?, cells.next()?, cells.next()?);
        last = if number.is_empty() { last } else { number };
        let (name, does) = fault.strip_prefix('`')?.split_once("`: ")?;
        Some(PageRow { number: last, name, does, host: cells.next()?, cuda: cells.next()? })
    })
}

/// What must become of a fault on a device.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultOutcome {
    /// One of these verdicts, by kind or by kind and cause.
    Is(Vec<&'static str>),
    /// As on the host: a GPU does not show it, and the host device, which is asked about finalists, does.
    ByTwin,
    /// It is honest.
    Passes,
    /// Nothing on this device shows it, and why.
    Open(&'static str),
}

impl FaultOutcome {
    fn of(cell: &'static str) -> FaultOutcome {
        match cell {
            "`pass`: it is honest" => FaultOutcome::Passes,
            "as there, by the host device" => FaultOutcome::ByTwin,
            _ => match cell.strip_prefix("*open*: ") {
                Some(why) => FaultOutcome::Open(why),
                None => FaultOutcome::Is(cell.split(", ").map(|verdict| verdict.trim_matches('`')).collect()),
            },
        }
    }
}

words! {
    /// What is special about a row beside its source, by the row's name; all others are plain.
    FaultSetup {
        /// The good variant is the incumbent.
        Incumbent = "slow",
        /// The compiler gets `SHORT_COMPILE` instead of two minutes.
        ShortCompile = "compile_hang",
        /// The compiler gets `SMALL_COMPILE` bytes.
        SmallCompile = "compile_memory",
        /// What it shows ends with compiling, so it is not judged as a finalist.
        CompilerOnly = "compile_flood",
        /// The good variant's binary, handed out as another variant's.
        StaleBinary = "stale_binary",
        /// The good variant's binary for another target.
        ForeignBinary = "foreign_binary",
        /// The good variant at a problem that claims to move a thousand times its bytes.
        InflatedWork = "inflated_work",
    }
}

/// The deadline of a compiler that is kept busy.
pub const SHORT_COMPILE: Duration = Duration::from_secs(4);
/// The memory of a compiler that wants too much, bytes: enough for every other row.
pub const SMALL_COMPILE: u64 = 300 << 20;

#[derive(Clone, Debug)]
pub struct FaultRow {
    pub page: PageRow,
    pub says: &'static [String],
    pub setup: Option<FaultSetup>,
    pub catalogue: Vec<&'static str>,
}

impl FaultRow {
    fn of(words: &'static [String]) -> Option<FaultRow> {
        let (name, says) = words.split_first()?;
        let name = name.as_str();
        let rows: Vec<PageRow> = page().filter(|row| row.name == name).collect();
        let Some(first) = rows.first() else { panic!("docs/FAULTS.md has no `{name}`") };
        let catalogue = rows.iter().map(|row| row.number).collect();
        let says = if says == ["(remembers)"] { &WORDS.remembers[..] } else { says };
        Some(FaultRow { page: *first, says, setup: FaultSetup::named(name), catalogue })
    }

    /// Whether the row is the good variant, and what is wrong happens outside its source.
    pub fn is_outside(&self) -> bool {
        use FaultSetup::{ForeignBinary, InflatedWork, StaleBinary};
        matches!(self.setup, Some(StaleBinary | ForeignBinary | InflatedWork))
    }

    /// The verdicts of one that is refused on a kind of device; none for an honest one.
    pub fn verdicts(&self, kind: DeviceKind) -> Option<Vec<&'static str>> {
        match self.outcome(kind) {
            FaultOutcome::Is(wanted) => Some(wanted),
            FaultOutcome::ByTwin => self.verdicts(DeviceKind::Host),
            FaultOutcome::Passes | FaultOutcome::Open(_) => None,
        }
    }

    /// What must become of it on a kind of device.
    pub fn outcome(&self, kind: DeviceKind) -> FaultOutcome {
        FaultOutcome::of(if kind == DeviceKind::Cuda { self.page.cuda } else { self.page.host })
    }

    /// How long it may hold up everybody else: what is refused unseen costs nothing, a compiler ends at its
    /// deadline, a launch at its own. The rest is compiling, honest work and recovery, with room for a busy
    /// machine.
    pub fn delay_max(&self, kind: DeviceKind) -> Duration {
        let work = match kind {
            DeviceKind::Cuda | DeviceKind::Replay => Duration::from_secs(10),
            DeviceKind::Host => Duration::from_secs(30),
        };
        let unseen = |verdict: &&str| verdict.starts_with("static_reject") || *verdict == "compile_error";
        match self.outcome(kind) {
            // Evaluated twice, the second time as a finalist.
            FaultOutcome::Passes => 3 * work,
            FaultOutcome::Is(verdicts) if verdicts.iter().all(unseen) => work / 2,
            FaultOutcome::Is(_) if self.setup == Some(FaultSetup::ShortCompile) => SHORT_COMPILE + work / 2,
            // Compilers run at a low priority, and this one works until its memory is full.
            FaultOutcome::Is(_) if self.setup == Some(FaultSetup::SmallCompile) => 2 * work,
            _ => work,
        }
    }
}
