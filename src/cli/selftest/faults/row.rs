//! What a row of the self-test is: a fault, what it does, and what must become of it on each device.

use std::time::Duration;

use evo_protocol::device::DeviceKind;

/// What must become of a fault on a device.
#[derive(Clone, Copy, Debug)]
pub enum FaultOutcome {
    /// One of these verdicts, by kind or by kind and cause.
    Is(&'static [&'static str]),
    /// As on the host: a GPU does not show it, and the host device, which is asked about finalists, does.
    ByTwin,
    /// It is honest.
    Passes,
    /// Nothing on this device shows it, and why.
    Open(&'static str),
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

#[derive(Clone, Copy, Debug)]
pub struct FaultRow {
    /// The value of the parameter `FAULT`, where the fault is in the source.
    pub name: &'static str,
    /// Its numbers in the catalogue; an honest variant may have none.
    pub catalogue: &'static [&'static str],
    /// What it does, in a few words.
    pub does: &'static str,
    pub cuda: FaultOutcome,
    pub host: FaultOutcome,
    /// The message must have one of these words, so that a person learns the cause.
    pub says: &'static [&'static str],
    pub setup: FaultSetup,
}

impl FaultRow {
    /// A row with the same verdicts on both devices.
    pub const fn new(
        name: &'static str,
        catalogue: &'static [&'static str],
        does: &'static str,
        verdicts: &'static [&'static str],
        says: &'static [&'static str],
    ) -> FaultRow {
        let outcome = FaultOutcome::Is(verdicts);
        FaultRow { name, catalogue, does, cuda: outcome, host: outcome, says, setup: FaultSetup::Plain }
    }

    /// An honest variant.
    pub const fn honest(
        name: &'static str,
        catalogue: &'static [&'static str],
        does: &'static str,
    ) -> FaultRow {
        let outcome = FaultOutcome::Passes;
        FaultRow { name, catalogue, does, cuda: outcome, host: outcome, says: &[], setup: FaultSetup::Plain }
    }

    /// The same with another outcome on CUDA.
    pub const fn on_cuda(mut self, outcome: FaultOutcome) -> FaultRow {
        self.cuda = outcome;
        self
    }

    /// The same with another outcome on the host.
    pub const fn on_host(mut self, outcome: FaultOutcome) -> FaultRow {
        self.host = outcome;
        self
    }

    /// The same with a setup of its own.
    pub const fn with(mut self, setup: FaultSetup) -> FaultRow {
        self.setup = setup;
        self
    }

    /// The verdicts of one that is refused on a kind of device; none for an honest one.
    pub fn verdicts(&self, kind: DeviceKind) -> Option<&'static [&'static str]> {
        match (self.outcome(kind), self.host) {
            (FaultOutcome::Is(wanted), _) | (FaultOutcome::ByTwin, FaultOutcome::Is(wanted)) => Some(wanted),
            _ => None,
        }
    }

    /// What must become of it on a kind of device.
    pub fn outcome(&self, kind: DeviceKind) -> FaultOutcome {
        if kind == DeviceKind::Cuda { self.cuda } else { self.host }
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
