//! `evo sweep --sanitize`: which variants compute-sanitizer looks at, with which tool.

use std::num::NonZeroU32;
use std::time::Duration;

use evo_protocol::device::DeviceKind;

use crate::cli::error::CliError;
use crate::cli::sanitize::SanitizeWhen;
use crate::cli::sanitize::tool_on;
use crate::engine::live_sanitizer::DeviceSanitizer;
use crate::engine::live_sanitizer::TwinLooks;
use crate::engine::{NoSanitizer, SanitizePlan, Sanitizer};
use crate::inspect::sanitize::SanitizerCheck;
use crate::supervise::job::Job;
use crate::supervise::lane::LaneOptions;

/// Of a sweep that was asked for nothing else.
const EVERY: NonZeroU32 = NonZeroU32::new(5).expect("is not 0");

const OFF: &str = "`--sanitize off`";

/// What the user or the space file asks for is demanded.
pub fn plan(asked: Option<SanitizeWhen>, is_required: bool) -> Result<SanitizePlan, CliError> {
    let plan = |every, demanded| SanitizePlan { finalists: true, every, demanded };
    Ok(match asked {
        None => plan(Some(EVERY), is_required),
        Some(SanitizeWhen::Finalists) => plan(None, true),
        Some(SanitizeWhen::Every(every)) => plan(Some(every), true),
        Some(SanitizeWhen::Off) if is_required => {
            return Err(CliError::usage(
                "`--sanitize off`: the space file demands the sanitizer (`[check] sanitize = \"required\"`)",
            )
            .with_hint("leave the option out, or edit the space file"));
        }
        Some(SanitizeWhen::Off) => SanitizePlan::default(),
    })
}

pub struct ReadySanitizer {
    pub sanitizer: Box<dyn Sanitizer<Job>>,
    pub notice: Option<String>,
}

pub struct SanitizedDevice {
    pub kind: DeviceKind,
    pub options: LaneOptions,
    pub checks: Vec<SanitizerCheck>,
    pub limit: Duration,
    pub twin: Option<TwinLooks>,
}

/// For a lane by command: no tool of this machine can look at its device.
pub fn out_of_reach(plan: SanitizePlan, kind: DeviceKind) -> ReadySanitizer {
    if !plan.finalists {
        return ReadySanitizer { sanitizer: Box::new(NoSanitizer(OFF)), notice: None };
    }
    let why = "the device of a lane by command is out of reach of this machine's tools";
    let notice = match (plan.demanded, kind) {
        (true, _) => {
            Some(format!("warning: compute-sanitizer is demanded, so nothing will be confirmed: {why}"))
        }
        (false, DeviceKind::Cuda) => Some(format!(
            "finalists are looked at neither by compute-sanitizer nor on the host device: {why}"
        )),
        (false, DeviceKind::Host | DeviceKind::Replay) => None,
    };
    ReadySanitizer { sanitizer: Box::new(NoSanitizer(why)), notice }
}

pub fn ready(plan: SanitizePlan, device: SanitizedDevice) -> ReadySanitizer {
    let SanitizedDevice { kind, options, checks, limit, twin } = device;
    if !plan.finalists {
        return ReadySanitizer { sanitizer: Box::new(NoSanitizer(OFF)), notice: None };
    }
    let tool = tool_on(kind, None);
    let why = tool.as_ref().err().map(|failure| failure.message.clone());
    let notice = match (why, plan.demanded, kind) {
        (None, ..) => None,
        (Some(why), true, _) => {
            Some(format!("warning: compute-sanitizer is demanded, so nothing will be confirmed: {why}"))
        }
        (Some(why), false, DeviceKind::Cuda) => {
            Some(format!("finalists are not looked at by compute-sanitizer: {why}"))
        }
        // No host device has the tool, so there is nothing to report.
        (Some(_), false, DeviceKind::Host | DeviceKind::Replay) => None,
    };
    let (is_demanded, stuck) = (plan.demanded, Vec::new());
    let sanitizer = DeviceSanitizer { kind, tool, checks, options, limit, is_demanded, stuck, twin };
    ReadySanitizer { sanitizer: Box::new(sanitizer), notice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_tool_can_look_at_is_said() {
        let seen = |finalists, demanded, kind| {
            out_of_reach(SanitizePlan { finalists, every: None, demanded }, kind).notice.unwrap_or_default()
        };
        assert!(
            seen(true, false, DeviceKind::Cuda).starts_with("finalists are looked at neither by compute-san")
        );
        assert!(seen(true, true, DeviceKind::Host).contains("nothing will be confirmed"));
        assert_eq!(seen(false, false, DeviceKind::Cuda), "");
        // No host device has the tool.
        assert_eq!(seen(true, false, DeviceKind::Host), "");
    }

    #[test]
    fn what_is_asked_for_is_demanded() {
        let seen = |asked, is_required| {
            plan(asked, is_required)
                .map(|plan| (plan.finalists, plan.every.map(NonZeroU32::get), plan.demanded))
        };
        let three = NonZeroU32::new(3).unwrap();
        assert_eq!(seen(None, false).unwrap(), (true, Some(5), false));
        assert_eq!(seen(None, true).unwrap(), (true, Some(5), true));
        assert_eq!(seen(Some(SanitizeWhen::Finalists), false).unwrap(), (true, None, true));
        assert_eq!(seen(Some(SanitizeWhen::Every(three)), false).unwrap(), (true, Some(3), true));
        assert_eq!(seen(Some(SanitizeWhen::Off), false).unwrap(), (false, None, false));
        assert!(seen(Some(SanitizeWhen::Off), true).is_err());
    }
}
