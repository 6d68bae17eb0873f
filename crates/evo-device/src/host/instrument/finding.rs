//! What was found, in words: who did what where, at which line.

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use serde_json::json;

use super::image::ModuleImage;
use super::regions::{Region, RegionKind};
use super::shadow::{AccessRecord, SeenAccess, ThreadPlace};

/// What is wrong with an access. `Beyond`: outside of the variable that the source names; a local one lies on the
/// thread's stack. `Budget`: more accesses or time than the run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Outside,
    Beyond { local: bool, line: u32 },
    Misaligned { alignment: u32, line: u32 },
    Input,
    Race { other: AccessRecord, other_writes: bool },
    Unfenced { other: AccessRecord },
    Unwritten,
    Budget,
}

impl Fault {
    pub fn check(&self) -> Option<GateCheck> {
        match self {
            Fault::Outside | Fault::Beyond { .. } => Some(GateCheck::InstrumentedBounds),
            Fault::Misaligned { .. } => Some(GateCheck::InstrumentedAlignment),
            Fault::Input => Some(GateCheck::InstrumentedInputs),
            Fault::Race { .. } | Fault::Unfenced { .. } => Some(GateCheck::InstrumentedRaces),
            Fault::Unwritten => Some(GateCheck::InstrumentedUnwritten),
            Fault::Budget => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRegion {
    pub name: String,
    pub start: usize,
    pub bytes: usize,
    pub shared: bool,
}

impl FaultRegion {
    pub fn of(region: &Region) -> FaultRegion {
        FaultRegion {
            name: region.name.clone(),
            start: region.start,
            bytes: region.bytes,
            shared: region.kind == RegionKind::Shared,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFinding {
    pub fault: Fault,
    pub access: SeenAccess,
    pub place: ThreadPlace,
    pub region: Option<FaultRegion>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct LaunchExtents {
    pub grid: [u32; 3],
    pub block: [u32; 3],
}

fn index(linear: u32, extents: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = extents.map(|extent| extent.max(1));
    [linear % x, linear / x % y, linear / x / y]
}

fn dotted([x, y, z]: [u32; 3]) -> String {
    format!("{x},{y},{z}")
}

impl AccessFinding {
    pub fn error(&self, image: &ModuleImage, extents: LaunchExtents) -> DeviceError {
        let line = match self.fault {
            Fault::Misaligned { line, .. } | Fault::Beyond { line, .. } => {
                Some(line).filter(|line| *line > 0)
            }
            _ => image.line(self.access.from),
        };
        let (kind, cause) = self.verdict();
        let mut error = DeviceError::plain(kind, self.message(image, extents, line));
        error.cause = cause.map(String::from);
        let evidence = &mut error.evidence;
        if let Some(line) = line {
            evidence.insert("line".into(), json!(line));
        }
        evidence.insert("thread".into(), json!(index(self.place.thread.into(), extents.block)));
        evidence.insert("block".into(), json!(index(self.place.block, extents.grid)));
        evidence.insert("access_bytes".into(), json!(self.access.bytes));
        if let Some(region) = &self.region {
            evidence.insert("buffer".into(), json!(region.name));
            let offset = self.access.address as i64 - region.start as i64;
            evidence.insert("offset_bytes".into(), json!(offset));
            evidence.insert("size_bytes".into(), json!(region.bytes));
        }
        if let Fault::Race { other, .. } | Fault::Unfenced { other } = &self.fault {
            if !other.by_several {
                evidence.insert("other_thread".into(), json!(index(other.thread.into(), extents.block)));
            }
            evidence.insert("other_block".into(), json!(index(other.block, extents.grid)));
            evidence.insert("other_line".into(), json!(image.line(image.range.0 + other.from as usize)));
        }
        error
    }

    fn verdict(&self) -> (VerdictKind, Option<&'static str>) {
        let shared = self.region.as_ref().is_some_and(|region| region.shared).then_some("shared");
        match self.fault {
            Fault::Outside if self.region.is_none() => (VerdictKind::CrashIllegalAddress, None),
            Fault::Outside if self.access.write => (VerdictKind::OobWrite, shared),
            Fault::Outside => (VerdictKind::OobRead, shared),
            Fault::Beyond { local, .. } => {
                let kind = if self.access.write { VerdictKind::OobWrite } else { VerdictKind::OobRead };
                (kind, if local { Some("local") } else { shared })
            }
            Fault::Misaligned { .. } => (VerdictKind::CrashMisaligned, None),
            Fault::Input => (VerdictKind::InputMutated, None),
            Fault::Race { .. } | Fault::Unfenced { .. } => (VerdictKind::Nondeterministic, Some("race")),
            Fault::Unwritten => (VerdictKind::WrongAnswer, Some("uninitialized")),
            Fault::Budget => (VerdictKind::HarnessError, Some("budget")),
        }
    }

    fn message(&self, image: &ModuleImage, extents: LaunchExtents, line: Option<u32>) -> String {
        let own = index(self.place.thread.into(), extents.block);
        let block = index(self.place.block, extents.grid);
        let who = format!("thread {} of block {}", dotted(own), dotted(block));
        let at = at_line(line);
        let does = if self.access.write { "writes" } else { "reads" };
        match &self.fault {
            Fault::Outside => format!("{who} {does} {}{at}", self.outside()),
            Fault::Beyond { local: true, .. } => {
                format!("{who} {does} outside of the local variable that the source names{at}")
            }
            Fault::Beyond { .. } => format!(
                "{who} {does} {}, outside of the variable that the source names{at}",
                self.element("memory")
            ),
            Fault::Misaligned { alignment, .. } => format!(
                "{who} {does} {} as a value that must be {alignment}-byte aligned{at}",
                self.element(&format!("address 0x{:x}", self.access.address))
            ),
            Fault::Input => format!("{who} writes {} of an input{at}", self.element("an element")),
            Fault::Unwritten => {
                format!("{who} reads {}, which nothing has written{at}", self.element("memory"))
            }
            Fault::Budget => "the instrumented run takes too long".to_string(),
            Fault::Unfenced { other } => {
                let there = at_line(image.line(image.range.0 + other.from as usize));
                let thread = dotted(index(other.thread.into(), extents.block));
                let other_block = dotted(index(other.block, extents.grid));
                format!(
                    "{who} reads {}{at} that thread {thread} of block {other_block} writes{there} before it \
                     publishes that, with no `__threadfence` in between",
                    self.element("memory")
                )
            }
            Fault::Race { other, other_writes } => {
                let theirs = if *other_writes { "writes" } else { "reads" };
                let there = at_line(image.line(image.range.0 + other.from as usize));
                let element = self.element("memory");
                let other_thread = match other.by_several {
                    true => "another thread".to_string(),
                    false => format!("thread {}", dotted(index(other.thread.into(), extents.block))),
                };
                if other.block == self.place.block {
                    format!(
                        "thread {} {does} {element}{at} that {other_thread} {theirs}{there} without a barrier in \
                         between (block {})",
                        dotted(own),
                        dotted(block)
                    )
                } else {
                    let other_block = dotted(index(other.block, extents.grid));
                    let shared = self.region.as_ref().is_some_and(|region| region.shared);
                    let lacks = if shared { "barrier of the cluster" } else { "fence and atomic operation" };
                    format!(
                        "{who} {does} {element}{at} that {other_thread} of block {other_block} {theirs}{there}, \
                         with no {lacks} in between"
                    )
                }
            }
        }
    }

    /// `` `tile[17]` ``, or the bytes where the access is not one element.
    fn element(&self, otherwise: &str) -> String {
        let Some(region) = &self.region else { return otherwise.to_string() };
        let offset = self.access.address.wrapping_sub(region.start);
        let bytes = self.access.bytes;
        if matches!(bytes, 1 | 2 | 4 | 8) && offset.is_multiple_of(bytes) {
            if region.bytes == bytes {
                return format!("`{}`", region.name);
            }
            return format!("`{}[{}]`", region.name, offset / bytes);
        }
        format!("{bytes} bytes at offset {offset} of `{}`", region.name)
    }

    fn outside(&self) -> String {
        let Some(region) = &self.region else { return "an address outside all buffers".to_string() };
        let (address, end) = (self.access.address, region.start + region.bytes);
        let (name, bytes) = (&region.name, region.bytes);
        let to = address + self.access.bytes;
        if address < region.start && to > region.start {
            format!("across the start of `{name}`")
        } else if address < region.start {
            match region.start - to {
                0 => format!("directly before the start of `{name}`"),
                gap => format!("{gap} bytes before the start of `{name}`"),
            }
        } else {
            match address.checked_sub(end) {
                None => format!("across the end of `{name}` ({bytes} bytes long)"),
                Some(0) => format!("directly behind the end of `{name}` ({bytes} bytes long)"),
                Some(gap) => format!("{gap} bytes behind the end of `{name}` ({bytes} bytes long)"),
            }
        }
    }
}

fn at_line(line: Option<u32>) -> String {
    line.map_or(String::new(), |line| format!(" (line {line})"))
}
