//! Errors by which a thread of a kernel ends its launch without a fault: traps and assertions.

use std::io;

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use serde_json::json;

use super::fiber::ThreadRecord;

/// `EVO_STOP_…` of the header.
const TRAP: i32 = 0;
const ASSERT: i32 = 1;
pub const ILLEGAL: i32 = 3;

pub fn stopped(record: &ThreadRecord, kind: i32, line: i32, text: &str) -> DeviceError {
    let ([tx, ty, tz], [bx, by, bz]) = (record.thread, record.block);
    let place = format!("line {line}, thread {tx},{ty},{tz} of block {bx},{by},{bz}");
    let mut error = match kind {
        TRAP => DeviceError::plain(VerdictKind::CrashTrap, format!("trap at {place}")),
        ASSERT => {
            DeviceError::plain(VerdictKind::CrashAssert, format!("assertion `{text}` fails at {place}"))
        }
        ILLEGAL => DeviceError::plain(VerdictKind::CrashIllegalInstruction, format!("{text} at {place}")),
        _ => DeviceError::plain(VerdictKind::CrashMisaligned, format!("{text} at {place}")),
    };
    error.evidence.insert("line".to_string(), json!(line));
    error.evidence.insert("thread".to_string(), json!(record.thread));
    error.evidence.insert("block".to_string(), json!(record.block));
    error
}

/// What a block did, or left undone, that a GPU leaves undefined.
pub fn illegal(message: String, line: i32, block: [u32; 3]) -> DeviceError {
    let mut error = DeviceError::plain(VerdictKind::CrashIllegalInstruction, message);
    error.evidence.insert("line".to_string(), json!(line));
    error.evidence.insert("block".to_string(), json!(block));
    error
}

pub fn no_memory(what: &str, error: &io::Error) -> DeviceError {
    DeviceError::plain(VerdictKind::OutOfMemory, format!("no memory for {what}: {error}"))
}
