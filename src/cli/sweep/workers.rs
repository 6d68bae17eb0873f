//! What `--workers` means: one order for each lane. Nothing is started here.

use std::path::Path;

use evo_device::telemetry;
use evo_protocol::envelope::ErrorPlace;
use evo_space::text::shortened;
use serde::Deserialize;

use crate::cli::args::{ProfileWhen, SweepArgs};
use crate::cli::error::CliError;
use crate::process::worker_program;

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
pub fn orders(arguments: &SweepArgs) -> Result<Option<Vec<LaneOrder>>, CliError> {
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
pub fn refuse_elsewhere(arguments: &SweepArgs, orders: &[LaneOrder]) -> Result<(), CliError> {
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
) -> Result<Vec<LaneOrder>, CliError> {
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
            let indices =
                list.split(',').map(|index| gpu(text, index)).collect::<Result<Vec<u32>, CliError>>()?;
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
fn ssh(text: &str, host: &str) -> Result<LaneOrder, CliError> {
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

fn gpu(text: &str, index: &str) -> Result<u32, CliError> {
    index.trim().parse().map_err(|_| wrong(text, &format!("`{index}` is not a GPU's number")))
}

fn counted(text: &str, count: &str) -> Result<usize, CliError> {
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
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

/// `--workers FILE.toml`: lanes of several kinds.
fn listed(path: &Path) -> Result<Vec<LaneOrder>, CliError> {
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
        orders.extend(std::iter::repeat_n(order, lane.count as usize));
    }
    Ok(orders)
}

fn ordered(lane: &ListedLane) -> Result<LaneOrder, String> {
    if !(1..=LANES_MAX).contains(&lane.count) {
        return Err(format!("`count` is from 1 to {LANES_MAX}"));
    }
    let Some(name) = lane.command.as_ref().or(lane.device.as_ref()) else {
        return Err("it has neither `command` nor `device`".into());
    };
    let command = lane.command.as_deref().map(|command| words(command).ok_or(NO_WORDS)).transpose()?;
    let name = lane.name.as_ref().unwrap_or(name).clone();
    Ok(LaneOrder { name, command, device: lane.device.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
