//! Errors by which a thread of a kernel ends its launch without a fault: traps and assertions.

use std::io;

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;

use super::fiber::ThreadRecord;

/// `EVO_STOP_…` of the header.
const TRAP: i32 = 0;
const ASSERT: i32 = 1;
pub const ILLEGAL: i32 = 3;

pub fn stopped(record: &ThreadRecord, kind: i32, line: i32, text: &str) -> DeviceError {
    let ([tx, ty, tz], [bx, by, bz]) = (record.thread, record.block);
    let place = format!("line {line}, thread {tx},{ty},{tz} of block {bx},{by},{bz}");
    let (kind, message) = match kind {
        TRAP => (VerdictKind::CrashTrap, format!("trap at {place}")),
        ASSERT => (VerdictKind::CrashAssert, format!("assertion `{text}` fails at {place}")),
        ILLEGAL => (VerdictKind::CrashIllegalInstruction, format!("{text} at {place}")),
        _ => (VerdictKind::CrashMisaligned, format!("{text} at {place}")),
    };
    let error = DeviceError::plain(kind, message).with("line", line);
    error.with("thread", record.thread).with("block", record.block)
}

pub fn no_memory(what: &str, error: &io::Error) -> DeviceError {
    DeviceError::plain(VerdictKind::OutOfMemory, format!("no memory for {what}: {error}"))
}
