//! Starts the lanes of `--workers`, side by side, and refuses those that do not belong together.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use evo_device::probe::{self, DeviceChoice};
use evo_device::{cuda_arch, telemetry};
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::ErrorCode;

use super::workers::{LaneOrder, RAY_BRIDGE};
use crate::cli::session::side_by_side;
use crate::cli::{CliError, DeviceSetup, device_lane};
use crate::compile::FarmOptions;
use crate::journal::record::LaneAccount;
use crate::kernel::spec::KernelSpec;
use crate::machine;
use crate::supervise::class::DeviceClass;
use crate::supervise::lane::{Lane, LaneError, LaneLimits, LaneOptions, describe};

const RAY_SCRIPT: &str = include_str!("../../../python/evo_ray.py");

/// What a launcher may take until a worker answers.
const DESCRIBED_WITHIN: Duration = Duration::from_secs(120);

pub struct StartedLane {
    pub lane: Lane,
    /// With name, host and device: of this lane only, also where several share one processor.
    pub account: LaneAccount,
    /// What its workers are told; none for a lane by command, whose device no tool of this machine can look at.
    pub options: Option<LaneOptions>,
}

/// The first local one, or what the first command leads to.
pub fn choice(orders: &[LaneOrder], named: &str) -> Result<DeviceChoice, CliError> {
    if let Some(device) = orders.iter().find_map(LaneOrder::local_device) {
        return Ok(probe::choose(device)?);
    }
    // This machine need not have what the others have.
    let is_here = named == "host" || named != "auto" || !telemetry::list().is_empty();
    let Some(words) = orders.first().and_then(|order| order.command.as_ref()).filter(|_| !is_here) else {
        return Ok(probe::choose(named)?);
    };
    let bridge = bridge(orders, &FarmOptions::new(DeviceKind::Host, "host").cache)?;
    let gpus = describe(&command(words, &bridge), DESCRIBED_WITHIN)
        .map_err(|error| not_started(&orders[0], 0, &error))?;
    match gpus.first() {
        Some(gpu) => Ok(DeviceChoice {
            kind: DeviceKind::Cuda,
            spec: "cuda:0".into(),
            arch: cuda_arch(gpu.capability.0, gpu.capability.1),
            name: Some(gpu.name.clone()),
        }),
        None => Ok(probe::choose("host")?),
    }
}

pub fn start(
    orders: &[LaneOrder],
    setup: &DeviceSetup,
    kernel: &KernelSpec,
) -> Result<Vec<StartedLane>, CliError> {
    let base = device_lane::lane_options(setup, Some(kernel))?;
    let limits = LaneLimits { second_elsewhere: orders.len() > 1, ..setup.limits };
    let bridge = bridge(orders, &setup.farm.cache)?;
    let options: Vec<LaneOptions> = orders.iter().map(|order| options(order, &base, &bridge)).collect();
    let started = side_by_side(&options, |one| Lane::start_with(one.clone(), limits));
    let mut lanes = Vec::new();
    for (at, ((order, options), lane)) in orders.iter().zip(options).zip(started).enumerate() {
        let lane = lane.map_err(|error| not_started(order, at, &error))?;
        let (info, own) = (lane.info(), order.command.is_none());
        let device_uuid = match info.kind {
            // Lanes on one processor are told apart.
            DeviceKind::Host => format!("{}#{at}", info.uuid),
            DeviceKind::Cuda | DeviceKind::Replay => info.uuid.clone(),
        };
        let host = if own { machine::name() } else { lane.host().to_string() };
        let options = own.then_some(options);
        let name = order.name.clone();
        let account = LaneAccount { name, host, device_uuid, ..LaneAccount::default() };
        lanes.push(StartedLane { lane, account, options });
    }
    check(&lanes)?;
    Ok(lanes)
}

fn command(words: &[String], bridge: &str) -> Vec<String> {
    let word = |word: &String| if word == RAY_BRIDGE { bridge.to_string() } else { word.clone() };
    words.iter().map(word).collect()
}

/// Written only where a lane needs it; gives its path.
fn bridge(orders: &[LaneOrder], cache: &Path) -> Result<String, CliError> {
    let path = cache.join(RAY_BRIDGE);
    if orders.iter().flat_map(|order| &order.command).flatten().any(|word| word == RAY_BRIDGE) {
        let written = std::fs::create_dir_all(cache).and_then(|()| std::fs::write(&path, RAY_SCRIPT));
        written
            .map_err(|error| CliError::environment(format!("cannot write `{}`: {error}", path.display())))?;
    }
    Ok(path.to_string_lossy().into_owned())
}

fn options(order: &LaneOrder, base: &LaneOptions, bridge: &str) -> LaneOptions {
    let device = order.device.clone().unwrap_or_else(|| base.device.clone());
    match &order.command {
        None => LaneOptions { device, ..base.clone() },
        Some(words) => {
            LaneOptions { command: Some(command(words, bridge)), device, leased: true, ..base.clone() }
        }
    }
}

fn check(lanes: &[StartedLane]) -> Result<(), CliError> {
    let Some(first) = lanes.first() else { return Ok(()) };
    let shown = |at: usize| format!("lane {at} ({})", lanes[at].account.name);
    for (at, lane) in lanes.iter().enumerate() {
        if let Some(other) =
            lanes[..at].iter().position(|own| own.account.device_uuid == lane.account.device_uuid)
        {
            let uuid = &lane.account.device_uuid;
            return Err(CliError::usage(format!(
                "{} and {} have the same device `{uuid}`",
                shown(other),
                shown(at)
            ))
            .with_hint("each lane needs a device of its own; see what the launcher gives to its processes"));
        }
        let settings = [first, lane].map(|own| settings(&own.lane));
        let [own, other] = [(first, &settings[0]), (lane, &settings[1])].map(|(own, settings)| DeviceClass {
            info: own.lane.info(),
            settings,
            judge: own.lane.judge(),
        });
        if let Some(difference) = own.difference(&other) {
            return Err(CliError::usage(format!(
                "{} is not of the same class as {}: {difference}",
                shown(at),
                shown(0)
            ))
            .with_hint(
                "a study has one class of device; results of another class serve as `--prior STUDY`",
            ));
        }
    }
    Ok(())
}

pub fn settings(lane: &Lane) -> BTreeMap<String, String> {
    if !lane.settings().is_empty() {
        return lane.settings().clone();
    }
    let own = telemetry::settings(&lane.info().uuid).into_iter();
    own.map(|(name, value)| (name.to_string(), value)).collect()
}

/// Why a lane does not start, with the end of what its command printed.
fn not_started(order: &LaneOrder, at: usize, error: &LaneError) -> CliError {
    let Some(words) = &order.command else {
        return CliError::environment(format!("lane {at} ({}) does not start: {error}", order.name))
            .with_hint(format!("`evo preflight --device {}` shows what is missing", order.name))
            .with_code(ErrorCode::NoDevice);
    };
    let log = if let LaneError::Died { death } = error { death.log.tail(4 << 10) } else { String::new() };
    let text =
        format!("lane {at} does not start: the command `{}`: {error}\n{}", words.join(" "), log.trim());
    let text = text.trim_end();
    CliError::usage(text)
        .with_hint("a lane's command must end in `evo worker`, of the same version as this evo")
}

#[cfg(test)]
mod tests {
    use evo_protocol::device::DeviceInfo;

    use super::*;
    use crate::journal::example as fake;

    #[test]
    fn a_lane_of_another_class_is_refused_by_name() {
        let info = fake::header().device;
        let check = |other: &DeviceInfo, limit: &str, judge: &str, expected: Option<&str>| {
            let settings =
                ["700 W", limit].map(|one| BTreeMap::from([("power limit".to_string(), one.to_string())]));
            let first = DeviceClass { info: &info, settings: &settings[0], judge: "evo 1" };
            let seen = first.difference(&DeviceClass { info: other, settings: &settings[1], judge });
            assert_eq!(seen.as_deref(), expected);
        };
        check(&DeviceInfo { uuid: "another".into(), ..info.clone() }, "700 W", "evo 1", None);
        check(&info, "500 W", "evo 1", Some("its power limit is `500 W` and not `700 W`"));
        check(&info, "700 W", "evo 2", Some("its evo is `evo 2` and not `evo 1`"));
        let other = DeviceInfo { name: "other".into(), l2_bytes: 1, ..info.clone() };
        check(&other, "700 W", "evo 1", Some(&format!("its name is `other` and not `{}`", info.name)));
    }
}
