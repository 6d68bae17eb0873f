//! The faults and honest variants that are played. `docs/FAULTS.md` says what each does and what must become of it on each
//! device, beside the catalogue whose numbers they have; here are the words that each verdict must have.

use std::time::Duration;

use evo_protocol::device::DeviceKind;

use self::FaultSetup::{
    CompilerOnly, ForeignBinary, Incumbent, InflatedWork, Plain, ShortCompile, SmallCompile, StaleBinary,
};

/// The tables of the page: the catalogue numbers every known way to be bad.
const PAGE: &str = include_str!("../../../../docs/FAULTS.md");

/// A line of the page's tables that is played.
#[derive(Clone, Copy, Debug)]
pub struct PageRow {
    pub number: &'static str,
    pub name: &'static str,
    /// What it does, in a few words.
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
    /// What a cell of the page means.
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

/// What is special about a row beside its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSetup {
    Plain,
    /// The good variant is the incumbent.
    Incumbent,
    /// The compiler gets `SHORT_COMPILE` instead of two minutes.
    ShortCompile,
    /// The compiler gets `SMALL_COMPILE` bytes.
    SmallCompile,
    /// What it shows ends with compiling, so it is not judged as a finalist.
    CompilerOnly,
    /// The good variant's binary, handed out as another variant's.
    StaleBinary,
    /// The good variant's binary for another target.
    ForeignBinary,
    /// The good variant at a problem that claims to move a thousand times its bytes.
    InflatedWork,
}

impl FaultSetup {
    /// Whether the row is the good variant, and what is wrong happens outside its source.
    pub fn is_outside(self) -> bool {
        matches!(self, FaultSetup::StaleBinary | FaultSetup::ForeignBinary | FaultSetup::InflatedWork)
    }
}

/// The deadline of a compiler that is kept busy.
pub const SHORT_COMPILE: Duration = Duration::from_secs(4);
/// The memory of a compiler that wants too much, bytes: enough for every other row.
pub const SMALL_COMPILE: u64 = 300 << 20;

/// A row's name, which is the value of the parameter `FAULT` where the fault is in the source; words of which the message
/// must have one, so that a person learns the cause; what is special about it.
pub type FaultWords = (&'static str, &'static [&'static str], FaultSetup);

#[derive(Clone, Debug)]
pub struct FaultRow {
    pub page: PageRow,
    pub says: &'static [&'static str],
    pub setup: FaultSetup,
    /// Its numbers in the catalogue.
    pub catalogue: Vec<&'static str>,
}

impl FaultRow {
    /// The row as the page of faults has it.
    pub fn of((name, says, setup): FaultWords) -> FaultRow {
        let rows: Vec<PageRow> = page().filter(|row| row.name == name).collect();
        let Some(first) = rows.first() else { panic!("docs/FAULTS.md has no `{name}`") };
        let catalogue = rows.iter().map(|row| row.number).collect();
        FaultRow { page: *first, says, setup, catalogue }
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
            FaultOutcome::Is(_) if self.setup == FaultSetup::ShortCompile => SHORT_COMPILE + work / 2,
            // Compilers run at a low priority, and this one works until its memory is full.
            FaultOutcome::Is(_) if self.setup == FaultSetup::SmallCompile => 2 * work,
            _ => work,
        }
    }
}

/// What is said of an output that depends on earlier calls.
const REMEMBERS_SAYS: &[&str] = &[
    "earlier launches",
    "call before",
    "old output",
    "wrong when timed",
    "work is skipped",
    "never written",
    "gives another output",
    "gives different outputs",
    "before writing",
    "outside the tolerance",
    "changes with every call",
];

/// Those of the space `faults`, in the order of its template, and those that are played on its good variant.
pub const FAULTS: &[FaultWords] = &[
    // Wrong answers.
    ("empty", &["never written"], Plain),
    ("unwritten", &["never written"], Plain),
    ("tail", &["never written"], Plain),
    ("drop", &["`y`"], Plain),
    ("half", &["error"], Plain),
    ("sixteen_bits", &["error"], Plain),
    ("lean", &["lean"], Plain),
    ("bias", &["error"], Plain),
    ("offset", &["error"], Plain),
    ("nan", &["NaN"], Plain),
    ("range", &["famil"], Plain),
    ("constant", &["`y`"], Plain),
    ("special", &["NaN"], Plain),
    ("subnormal", &["special_values"], Plain),
    ("size_path", &["error"], Plain),
    (
        "narrow_index",
        &["before the start", "outside the buffers", "outside the tolerance", "illegal memory", "NaN"],
        Plain,
    ),
    ("counter", &["output"], Plain),
    ("nth_call", REMEMBERS_SAYS, Plain),
    ("rare", REMEMBERS_SAYS, Plain),
    ("race", &["barrier", "different outputs"], Plain),
    ("missing_fence", &["output", "before writing"], Plain),
    ("unset_shared", &["before writing"], Plain),
    ("unset_bit", &["before writing"], Plain),
    ("unset_local", &["before writing", "outside the tolerance"], Plain),
    ("unset_scratch", &["before writing", "outside the tolerance", "outputs"], Plain),
    ("kept_scratch", REMEMBERS_SAYS, Plain),
    ("kept_ticket", &["set it back"], Plain),
    ("oob_write", &["behind"], Plain),
    ("near_write", &["behind"], Plain),
    ("oob_read", &["outside the buffers", "behind the end"], Plain),
    ("near_read", &["behind"], Plain),
    ("shared_overrun", &["shared", "illegal memory"], Plain),
    // An H200 faults where the overrun leaves the block's shared memory, and serves it where it does not.
    ("local_overrun", &["local variable"], Plain),
    ("input_mutated", &["`x`"], Plain),
    ("input_borrowed", &["`x`"], Plain),
    // Right answers, false times.
    ("memo", REMEMBERS_SAYS, Plain),
    ("pointer_memo", REMEMBERS_SAYS, Plain),
    ("known_output", REMEMBERS_SAYS, Plain),
    (
        "sniffed_output",
        &[
            "wrong when timed",
            "outside the tolerance",
            "gives different outputs",
            "old output",
            "reads",
            "work is skipped",
            "call before",
        ],
        Plain,
    ),
    ("ahead", REMEMBERS_SAYS, Plain),
    ("warm_cheat", REMEMBERS_SAYS, Plain),
    // Hangs and crashes.
    ("slow", &["best so far"], Incumbent),
    ("spin", &["no end"], Plain),
    ("grid_wait", &["no end"], Plain),
    ("odd_hang", &["no end"], Plain),
    ("late_hang", &["no end"], Plain),
    ("transfer_hang", &["no end", "mbarrier"], Plain),
    ("barrier", &["__syncthreads"], Plain),
    ("barrier_spin", &["no end", "__syncthreads"], Plain),
    ("illegal_address", &["address", "illegal memory access"], Plain),
    ("misaligned", &["aligned"], Plain),
    ("trap", &["trap", "launch failure", "instruction"], Plain),
    ("assert", &["assert"], Plain),
    ("recursion", &["stack", "illegal memory access", "device work failed"], Plain),
    ("exit", &["exited"], Plain),
    ("forged_answer", &["protocol"], Plain),
    ("heap_leak", &["device heap"], Plain),
    // Printing takes so long that the deadline may come first.
    ("print_flood", &["printed", "no end"], Plain),
    // Compilers.
    ("syntax", &["does not compile"], Plain),
    ("include", &["/etc/"], Plain),
    ("compile_hang", &["did not finish"], ShortCompile),
    ("compile_memory", &["memory"], SmallCompile),
    ("compile_flood", &[], CompilerOnly),
    ("spills", &["spill"], Plain),
    // Launches.
    ("registers", &["registers", "threads"], Plain),
    ("threads", &["threads"], Plain),
    ("bounds", &["threads"], Plain),
    ("smem", &["shared"], Plain),
    ("static_smem", &["shared"], Plain),
    ("zero_grid", &["grid"], Plain),
    ("wide_grid", &["grid"], Plain),
    ("grid_overflow", &["grid"], Plain),
    ("zero_work", &["no launch"], Plain),
    ("huge_scratch", &["`work`"], Plain),
    ("cluster", &["cluster"], Plain),
    // A grid of 782 small blocks fits a GPU at once.
    ("cooperative", &["resident"], Plain),
    ("cooperative_wide", &["resident"], Plain),
    // Honest and odd.
    ("persistent", &[], Plain),
    ("atomics", &[], Plain),
    ("lock", &[], Plain),
    ("early_exit", &[], Plain),
    ("block_wait", &[], Plain),
    // Outside of the source.
    ("stale_binary", &["hash"], StaleBinary),
    ("foreign_binary", &["image", "ELF", "the module: "], ForeignBinary),
    ("inflated_work", &["memory"], InflatedWork),
];

/// Those of the space `faults_heads`: several axes, a flag, and two outputs of which one is a gradient.
pub const HEADS: &[FaultWords] = &[
    ("diagonal", &["CAUSAL=1"], Plain),
    ("swapped_inputs", &["`o`"], Plain),
    ("swapped_axes", &["`o`"], Plain),
    ("swapped_layout", &["`o`", "output", "outside"], Plain),
    ("gradient", &["`dv`"], Plain),
    ("statistics", &["`sum`"], Plain),
    ("dropped_terms", &["`o`"], Plain),
    ("half_sum", &["error"], Plain),
    ("unset_sum", &["`dv`"], Plain),
    ("atomic_sum", &[], Plain),
];
