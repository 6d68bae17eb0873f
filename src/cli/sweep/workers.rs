//! What `--workers` means, one order for each lane; and their start, side by side, which refuses those that do not belong
//! together.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use evo_device::probe::{self, DeviceChoice};
use evo_device::{cuda_arch, telemetry};
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::{ErrorCode, ErrorPlace};
use evo_space::text::shortened;
use serde::Deserialize;

use crate::cli::args::{ProfileWhen, SweepArgs};
use crate::cli::session::side_by_side;
use crate::cli::{CliError, DeviceSetup, Result, session};
use crate::compile::FarmOptions;
use crate::journal::record::LaneAccount;
use crate::kernel::spec::KernelSpec;
use crate::machine_name;
use crate::process::worker_program;
use crate::supervise::child::DeviceClass;
use crate::supervise::lane::{Lane, LaneError, LaneLimits, LaneOptions, describe};

/// Stands in a command for the file with the bridge to Ray, which is written before the first lane starts.
pub const RAY_BRIDGE: &str = "evo_ray.py";

const LANES_MAX: u32 = 1024;

const NAME_MAX: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneOrder {
    /// For people: `cuda:1`, `ssh node7`.
    pub name: String,
    /// Its stdin and stdout lead to a worker, perhaps on another machine; workers of this program on this machine where it
    /// is absent.
    pub command: Option<Vec<String>>,
    /// What a worker opens; the run's own where a command has none.
    pub device: Option<String>,
}

impl LaneOrder {
    fn local(device: impl Into<String>) -> LaneOrder {
        let device = device.into();
        LaneOrder { name: device.clone(), command: None, device: Some(device) }
    }

    fn command(name: &str, words: Vec<String>, device: Option<String>) -> LaneOrder {
        // Long enough to be told from others.
        let name = shortened(name, NAME_MAX).into_owned();
        LaneOrder { name, command: Some(words), device }
    }

    pub fn local_device(&self) -> Option<&str> {
        self.device.as_deref().filter(|_| self.command.is_none())
    }
}

/// None where `--workers` was not given.
pub fn orders(arguments: &SweepArgs) -> Result<Option<Vec<LaneOrder>>> {
    let Some(text) = arguments.workers.as_deref() else { return Ok(None) };
    let program = worker_program()?.to_string_lossy().into_owned();
    let gpus = || telemetry::list().iter().map(|gpu| gpu.index).collect::<Vec<u32>>();
    let orders = parsed(text, arguments.lanes, &program, gpus)?;
    match orders.len() as u64 {
        0 => Err(wrong(text, "no worker is named")),
        count if count > u64::from(LANES_MAX) => {
            Err(wrong(text, &format!("{LANES_MAX} workers are the most")))
        }
        _ => Ok(Some(orders)),
    }
}

/// Refuses options that would quietly use a device that is none of the lanes'.
pub fn refuse_elsewhere(arguments: &SweepArgs, orders: &[LaneOrder]) -> Result<()> {
    let locals = || orders.iter().filter_map(LaneOrder::local_device);
    let listed = arguments.workers.as_deref().unwrap_or_default();
    if arguments.profile != ProfileWhen::Off && locals().next().is_none() {
        return Err(CliError::usage(format!(
            "`--profile` cannot be used with `--workers {listed}`: it needs a device of this machine, and every lane is a \
             command"
        ))
        .with_hint("leave it out, or name a lane of this machine in a TOML list: `[[lanes]]` with `device`"));
    }
    let named = arguments.device.as_str();
    match locals().next() {
        Some(first)
            if named != "auto"
                && !locals().any(|own| own == named || own.split(':').next() == Some(named)) =>
        {
            Err(CliError::usage(format!(
                "`--device {named}` cannot be used with `--workers {listed}`: its first lane is on `{first}`"
            ))
            .with_hint("leave `--device` out: a lane of this machine names its device"))
        }
        _ => Ok(()),
    }
}

fn parsed(
    text: &str,
    lanes: Option<u32>,
    program: &str,
    gpus: impl Fn() -> Vec<u32>,
) -> Result<Vec<LaneOrder>> {
    let (kind, rest) = halves(text, ':');
    if lanes.is_some() && kind != "cmd" {
        return Err(CliError::usage(format!("`--lanes` cannot be used with `--workers {text}`"))
            .with_hint("`--lanes` says how many workers `cmd:COMMAND` starts"));
    }
    match (kind, rest) {
        ("gpus", None) => {
            let found = gpus();
            if found.is_empty() {
                return Err(CliError::environment("no NVIDIA GPU is visible through NVML on this machine")
                    .with_hint("`--workers host:N` needs no GPU; `evo preflight` shows what is missing"));
            }
            Ok(found.into_iter().map(|index| LaneOrder::local(format!("cuda:{index}"))).collect())
        }
        ("gpus", Some(list)) => {
            let indices = list.split(',').map(|index| gpu(text, index)).collect::<Result<Vec<u32>>>()?;
            if let Some(twice) = twice(&indices) {
                return Err(wrong(text, &format!("GPU {twice} is named twice")));
            }
            Ok(indices.into_iter().map(|index| LaneOrder::local(format!("cuda:{index}"))).collect())
        }
        ("host", count) => Ok(vec![LaneOrder::local("host"); counted(text, count.unwrap_or("1"))?]),
        ("cmd", Some(command)) => {
            let words = words(command).ok_or_else(|| wrong(text, NO_WORDS))?;
            Ok(vec![LaneOrder::command(command.trim(), words, None); lanes.unwrap_or(1) as usize])
        }
        ("srun", Some(rest)) => {
            let (count, more) = rest.split_once(':').unwrap_or((rest, ""));
            let launcher = ["srun", "--exact", "--gpus=1", "-n1", "-u"].into_iter();
            let words = launcher.chain(more.split_whitespace()).chain([program, "worker"]).map(String::from);
            Ok(vec![LaneOrder::command("srun", words.collect(), None); counted(text, count)?])
        }
        ("ssh", Some(hosts)) => hosts.split(',').map(|host| ssh(text, host.trim())).collect(),
        ("ray", Some(rest)) => {
            let (count, accelerator) = halves(rest, ':');
            let accelerator = accelerator.into_iter().flat_map(|kind| ["--accelerator", kind]);
            let words =
                ["python3", RAY_BRIDGE, "--evo", program].into_iter().chain(accelerator).map(String::from);
            Ok(vec![LaneOrder::command("ray", words.collect(), None); counted(text, count)?])
        }
        _ if text.ends_with(".toml") => listed(Path::new(text)),
        _ => Err(wrong(text, "it is not a list of workers")),
    }
}

/// `HOST` or `HOST/INDEX`, where a host has several GPUs.
fn ssh(text: &str, host: &str) -> Result<LaneOrder> {
    let (name, index) = halves(host, '/');
    // A name that begins with a dash would be an option of `ssh`.
    if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
        return Err(wrong(text, &format!("`{name}` is not the name of a host")));
    }
    let device = index.map(|index| gpu(text, index).map(|index| format!("cuda:{index}")));
    let words = ["ssh", "-T", "-o", "BatchMode=yes", name, "evo", "worker"].map(String::from).to_vec();
    Ok(LaneOrder::command(&format!("ssh {host}"), words, device.transpose()?))
}

const NO_WORDS: &str = "the command is empty";

/// A command's words, split at spaces; `None` without any.
fn words(command: &str) -> Option<Vec<String>> {
    let words: Vec<String> = command.split_whitespace().map(String::from).collect();
    (!words.is_empty()).then_some(words)
}

fn halves(text: &str, between: char) -> (&str, Option<&str>) {
    text.split_once(between).map_or((text, None), |(first, second)| (first, Some(second)))
}

fn gpu(text: &str, index: &str) -> Result<u32> {
    index.trim().parse().map_err(|_| wrong(text, &format!("`{index}` is not a GPU's number")))
}

fn counted(text: &str, count: &str) -> Result<usize> {
    match count.trim().parse::<u32>() {
        Ok(count) if (1..=LANES_MAX).contains(&count) => Ok(count as usize),
        _ => Err(wrong(text, &format!("`{count}` is not a number of workers, from 1 to {LANES_MAX}"))),
    }
}

fn twice(indices: &[u32]) -> Option<u32> {
    indices.iter().enumerate().find(|(at, own)| indices[..*at].contains(own)).map(|(_, own)| *own)
}

fn wrong(text: &str, why: &str) -> CliError {
    CliError::usage(format!("`--workers {text}`: {why}")).with_hint(
        "use `gpus`, `gpus:0,1`, `host:N`, `srun:N`, `ssh:HOST,HOST`, `ray:N`, `cmd:COMMAND` with `--lanes N`, or a \
         TOML file",
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkersFile {
    lanes: Vec<ListedLane>,
}

/// One entry, for one lane or several that are alike.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedLane {
    /// Leads to a worker; workers of this machine where it is absent.
    command: Option<String>,
    device: Option<String>,
    name: Option<String>,
    count: Option<u32>,
}

/// `--workers FILE.toml`: lanes of several kinds.
fn listed(path: &Path) -> Result<Vec<LaneOrder>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        CliError::usage(format!("cannot read the list of workers `{shown}`: {error}"))
            .at(ErrorPlace::file(path))
    })?;
    let file: WorkersFile = toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1) as u32);
        let place = ErrorPlace { line, column: line.map(|_| 1), ..ErrorPlace::file(path) };
        CliError::usage(format!("`{shown}` is not a list of workers: {}", error.message()))
            .with_hint("each `[[lanes]]` has `command` or `device`, and perhaps `count` and `name`")
            .at(place)
    })?;
    let mut orders = Vec::new();
    for (at, lane) in file.lanes.into_iter().enumerate() {
        let order = ordered(&lane).map_err(|why| {
            CliError::usage(format!("`{shown}`, entry {}: {why}", at + 1)).at(ErrorPlace::file(path))
        })?;
        orders.extend(std::iter::repeat_n(order, lane.count.unwrap_or(1) as usize));
    }
    Ok(orders)
}

fn ordered(lane: &ListedLane) -> Result<LaneOrder, String> {
    if lane.count.is_some_and(|count| !(1..=LANES_MAX).contains(&count)) {
        return Err(format!("`count` is from 1 to {LANES_MAX}"));
    }
    let Some(name) = lane.command.as_ref().or(lane.device.as_ref()) else {
        return Err("it has neither `command` nor `device`".into());
    };
    let command = lane.command.as_deref().map(|command| words(command).ok_or(NO_WORDS)).transpose()?;
    let name = lane.name.as_ref().unwrap_or(name).clone();
    Ok(LaneOrder { name, command, device: lane.device.clone() })
}

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
pub fn device_choice(orders: &[LaneOrder], named: &str) -> Result<DeviceChoice> {
    if let Some(device) = orders.iter().find_map(LaneOrder::local_device) {
        return Ok(probe::choose(device)?);
    }
    // This machine need not have what the others have.
    let is_here = named == "host" || named != "auto" || !telemetry::list().is_empty();
    let Some(words) = orders.first().and_then(|order| order.command.as_ref()).filter(|_| !is_here) else {
        return Ok(probe::choose(named)?);
    };
    let bridge = bridge(orders, &FarmOptions::new(DeviceKind::Host, "host").cache)?;
    let gpus = describe(&with_bridge(words, &bridge), DESCRIBED_WITHIN)
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

pub fn start_all(orders: &[LaneOrder], setup: &DeviceSetup, kernel: &KernelSpec) -> Result<Vec<StartedLane>> {
    let base = session::lane_options(setup, Some(kernel))?;
    let limits = LaneLimits { second_elsewhere: orders.len() > 1, ..setup.limits };
    let bridge = bridge(orders, &setup.farm.cache)?;
    let options: Vec<LaneOptions> = orders.iter().map(|order| options_of(order, &base, &bridge)).collect();
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
        let host = if own { machine_name() } else { lane.host().to_string() };
        let options = own.then_some(options);
        let name = order.name.clone();
        let account = LaneAccount { name, host, device_uuid, ..LaneAccount::default() };
        lanes.push(StartedLane { lane, account, options });
    }
    check_lanes(&lanes)?;
    Ok(lanes)
}

fn with_bridge(words: &[String], bridge: &str) -> Vec<String> {
    let word = |word: &String| if word == RAY_BRIDGE { bridge.to_string() } else { word.clone() };
    words.iter().map(word).collect()
}

/// Written only where a lane needs it; gives its path.
fn bridge(orders: &[LaneOrder], cache: &Path) -> Result<String> {
    let path = cache.join(RAY_BRIDGE);
    if orders.iter().flat_map(|order| &order.command).flatten().any(|word| word == RAY_BRIDGE) {
        let written = std::fs::create_dir_all(cache).and_then(|()| std::fs::write(&path, RAY_SCRIPT));
        written
            .map_err(|error| CliError::environment(format!("cannot write `{}`: {error}", path.display())))?;
    }
    Ok(path.to_string_lossy().into_owned())
}

fn options_of(order: &LaneOrder, base: &LaneOptions, bridge: &str) -> LaneOptions {
    let device = order.device.clone().unwrap_or_else(|| base.device.clone());
    match &order.command {
        None => LaneOptions { device, ..base.clone() },
        Some(words) => {
            LaneOptions { command: Some(with_bridge(words, bridge)), device, leased: true, ..base.clone() }
        }
    }
}

fn check_lanes(lanes: &[StartedLane]) -> Result<()> {
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
        let settings = [first, lane].map(|own| lane_settings(&own.lane));
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

pub fn lane_settings(lane: &Lane) -> BTreeMap<String, String> {
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

    fn shown(order: &LaneOrder) -> String {
        let device = order.device.as_deref().unwrap_or_default();
        match &order.command {
            None => device.to_string(),
            Some(words) if device.is_empty() => format!("{}: {}", order.name, words.join(" ")),
            Some(words) => format!("{}: {} @ {device}", order.name, words.join(" ")),
        }
    }

    /// What cannot be understood is in `tests/data/refused.toml`.
    #[test]
    fn every_form_names_its_lanes() {
        for (text, lanes, expected) in [
            ("gpus", None, "cuda:0, cuda:1, cuda:2"),
            ("gpus:2,0", None, "cuda:2, cuda:0"),
            ("host:2", None, "host, host"),
            (
                "cmd:nice evo worker",
                Some(2),
                "nice evo worker: nice evo worker, nice evo worker: nice evo worker",
            ),
            (
                "srun:1:--mem=4G -p gpu",
                None,
                "srun: srun --exact --gpus=1 -n1 -u --mem=4G -p gpu /bin/evo worker",
            ),
            (
                "ssh:a,b/1",
                None,
                "ssh a: ssh -T -o BatchMode=yes a evo worker, ssh b/1: ssh -T -o BatchMode=yes b evo worker @ cuda:1",
            ),
            ("ray:1:H200", None, "ray: python3 evo_ray.py --evo /bin/evo --accelerator H200"),
        ] {
            let orders = parsed(text, lanes, "/bin/evo", || vec![0, 1, 2]).unwrap();
            assert_eq!(orders.iter().map(shown).collect::<Vec<_>>().join(", "), expected, "{text}");
        }
    }

    #[test]
    fn lanes_of_several_kinds_stand_in_one_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lanes.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            match listed(&path) {
                Ok(orders) => orders.into_iter().map(|own| own.name).collect::<Vec<_>>().join(", "),
                Err(error) => error.to_string().replace(&path.display().to_string(), "FILE"),
            }
        };
        let text = "[[lanes]]\ncommand = \"ssh a evo worker\"\ncount = 2\n[[lanes]]\ndevice = \"cuda:1\"\nname = \"own\"\n";
        assert_eq!(read(text), "ssh a evo worker, ssh a evo worker, own");
        assert_eq!(read("[[lanes]]\ncount = 2\n"), "`FILE`, entry 1: it has neither `command` nor `device`");
        assert!(
            read("[[lanes]]\nkommand = 2\n")
                .starts_with("`FILE` is not a list of workers: unknown field `kommand`")
        );
    }

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
