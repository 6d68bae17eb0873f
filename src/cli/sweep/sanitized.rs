//! `evo sweep --sanitize`: which variants compute-sanitizer looks at, with which tool.

use std::num::NonZeroU32;

use evo_protocol::device::DeviceKind;

use crate::cli::error::CliError;
use crate::cli::sanitize::SanitizeWhen;
use crate::engine::live_sanitizer::DeviceSanitizer;
use crate::engine::{NoSanitizer, SanitizePlan, Sanitizer};
use crate::supervise::job::Job;

/// Of a sweep that was asked for nothing else.
const EVERY: NonZeroU32 = NonZeroU32::new(5).expect("is not 0");

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

/// A sanitizer for a lane, and what to tell people. `device` is absent for a lane by command: no tool of this machine can
/// look at its device.
pub fn ready(
    plan: SanitizePlan,
    kind: DeviceKind,
    device: Option<DeviceSanitizer>,
) -> (Box<dyn Sanitizer<Job>>, Option<String>) {
    const OUT_OF_REACH: &str = "the device of a lane by command is out of reach of this machine's tools";
    if !plan.finalists {
        return (Box::new(NoSanitizer("`--sanitize off`")), None);
    }
    let (why, by) = match &device {
        Some(device) => {
            (device.tool.as_ref().err().map(|failure| failure.message.clone()), "not looked at by")
        }
        None => (Some(OUT_OF_REACH.to_string()), "looked at neither by"),
    };
    let host = if device.is_none() { " nor on the host device" } else { "" };
    let notice = why.and_then(|why| match (plan.demanded, kind) {
        (true, _) => {
            Some(format!("warning: compute-sanitizer is demanded, so nothing will be confirmed: {why}"))
        }
        (false, DeviceKind::Cuda) => Some(format!("finalists are {by} compute-sanitizer{host}: {why}")),
        // No host device has the tool, so there is nothing to report.
        (false, DeviceKind::Host | DeviceKind::Replay) => None,
    });
    match device {
        Some(device) => (Box::new(device), notice),
        None => (Box::new(NoSanitizer(OUT_OF_REACH)), notice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_tool_can_look_at_is_said() {
        let seen = |finalists, demanded, kind| {
            ready(SanitizePlan { finalists, every: None, demanded }, kind, None).1.unwrap_or_default()
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
