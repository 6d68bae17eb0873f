//! What was found, in words: who did what where, at which line.

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;

use super::image::ModuleImage;
use super::order::AccessRecord;
use super::shadow::{Region, RegionKind, SeenAccess};
use crate::device::BoundLaunch;

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
    pub region: Option<FaultRegion>,
}

pub fn index(linear: u32, extents: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = extents.map(|extent| extent.max(1));
    [linear % x, linear / x % y, linear / x / y]
}

fn dotted([x, y, z]: [u32; 3]) -> String {
    format!("{x},{y},{z}")
}

impl AccessFinding {
    pub fn error(&self, image: &ModuleImage, bound: &BoundLaunch) -> DeviceError {
        let line = match self.fault {
            Fault::Misaligned { line, .. } | Fault::Beyond { line, .. } => {
                Some(line).filter(|line| *line > 0)
            }
            _ => image.line(self.access.from),
        };
        let thread = |thread: u16| index(thread.into(), bound.block);
        let block = |block: u32| index(block, bound.grid);
        let line_of = |other: &AccessRecord| image.line(image.start + other.from as usize);
        let (own_thread, own_block) = (thread(self.access.place.thread), block(self.access.place.block));
        let is_shared = self.region.as_ref().is_some_and(|region| region.shared);
        let shared = is_shared.then_some("shared");
        let (does, outside) = match self.access.write {
            true => ("writes", VerdictKind::OobWrite),
            false => ("reads", VerdictKind::OobRead),
        };
        let (who, at) = (format!("thread {}", dotted(own_thread)), at_line(line));
        let in_block = format!("{who} of block {}", dotted(own_block));
        let element = self.element("memory");
        let (kind, cause, message) = match &self.fault {
            Fault::Outside => {
                let kind = if self.region.is_none() { VerdictKind::CrashIllegalAddress } else { outside };
                (kind, shared, format!("{in_block} {does} {}{at}", self.outside()))
            }
            Fault::Beyond { local: true, .. } => {
                let text =
                    format!("{in_block} {does} outside of the local variable that the source names{at}");
                (outside, Some("local"), text)
            }
            Fault::Beyond { .. } => {
                let place = "outside of the variable that the source names";
                (outside, shared, format!("{in_block} {does} {element}, {place}{at}"))
            }
            Fault::Misaligned { alignment, .. } => {
                let element = self.element(&format!("address 0x{:x}", self.access.address));
                let must = format!("as a value that must be {alignment}-byte aligned");
                (VerdictKind::CrashMisaligned, None, format!("{in_block} {does} {element} {must}{at}"))
            }
            Fault::Input => {
                let text = format!("{in_block} writes {} of an input{at}", self.element("an element"));
                (VerdictKind::InputMutated, None, text)
            }
            Fault::Unwritten => {
                let text = format!("{in_block} reads {element}, which nothing has written{at}");
                (VerdictKind::WrongAnswer, Some("uninitialized"), text)
            }
            Fault::Budget => {
                (VerdictKind::HarnessError, Some("budget"), "the instrumented run takes too long".to_string())
            }
            Fault::Race { other, .. } | Fault::Unfenced { other } => {
                let theirs = match other.by_several {
                    true => "another thread".to_string(),
                    false => format!("thread {}", dotted(thread(other.thread))),
                };
                let (there, block) = (at_line(line_of(other)), dotted(block(other.block)));
                let text = match self.fault {
                    Fault::Race { other_writes, .. } => {
                        let did = if other_writes { "writes" } else { "reads" };
                        if other.block == self.access.place.block {
                            format!(
                                "{who} {does} {element}{at} that {theirs} {did}{there} without a barrier in between \
                                 (block {block})"
                            )
                        } else {
                            let lacks = if is_shared {
                                "barrier of the cluster"
                            } else {
                                "fence and atomic operation"
                            };
                            format!(
                                "{in_block} {does} {element}{at} that {theirs} of block {block} {did}{there}, with no \
                                 {lacks} in between"
                            )
                        }
                    }
                    _ => format!(
                        "{in_block} reads {element}{at} that {theirs} of block {block} writes{there} before it \
                         publishes that, with no `__threadfence` in between"
                    ),
                };
                (VerdictKind::Nondeterministic, Some("race"), text)
            }
        };
        let mut error = DeviceError::plain(kind, message);
        error.cause = cause.map(String::from);
        if let Some(line) = line {
            error = error.with("line", line);
        }
        error = error.with("thread", own_thread).with("block", own_block);
        error = error.with("access_bytes", self.access.bytes);
        if let Some(region) = &self.region {
            let offset = self.access.address as i64 - region.start as i64;
            error = error.with("buffer", region.name.as_str()).with("offset_bytes", offset);
            error = error.with("size_bytes", region.bytes);
        }
        if let Fault::Race { other, .. } | Fault::Unfenced { other } = &self.fault {
            if !other.by_several {
                error = error.with("other_thread", thread(other.thread));
            }
            error = error.with("other_block", block(other.block)).with("other_line", line_of(other));
        }
        error
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
