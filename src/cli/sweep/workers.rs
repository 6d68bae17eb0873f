//! What `--workers` means: one order for each lane. Nothing is started here.

use std::path::Path;

use evo_device::telemetry;

use super::lane_order::{LANES_MAX, LaneOrder, LaneSource, RAY_BRIDGE};
use super::workers_file;
use crate::cli::args::{ProfileWhen, SweepArgs};
use crate::cli::error::CliError;
use crate::cli::workers_args::WorkersArgs;
use crate::process::worker_program;

/// None where `--workers` was not given.
pub fn orders(arguments: &WorkersArgs) -> Result<Option<Vec<LaneOrder>>, CliError> {
    let Some(text) = arguments.workers.as_deref() else { return Ok(None) };
    let own = worker_program()?.to_string_lossy().into_owned();
    let gpus = || telemetry::list().iter().map(|gpu| gpu.index).collect::<Vec<u32>>();
    let orders = parsed(text, arguments.lanes, &own, gpus)?;
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
    let locals = || {
        orders.iter().filter_map(|order| match &order.source {
            LaneSource::Local { device } => Some(device.as_str()),
            LaneSource::Command { .. } => None,
        })
    };
    let listed = arguments.workers.workers.as_deref().unwrap_or_default();
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
    own: &str,
    gpus: impl Fn() -> Vec<u32>,
) -> Result<Vec<LaneOrder>, CliError> {
    let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
    if lanes.is_some() && kind != "cmd" {
        return Err(CliError::usage(format!("`--lanes` cannot be used with `--workers {text}`"))
            .with_hint("`--lanes` says how many workers `cmd:COMMAND` starts"));
    }
    let worker = || [own, "worker"].map(String::from).to_vec();
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
            let index = |one: &str| {
                one.trim().parse::<u32>().map_err(|_| wrong(text, &format!("`{one}` is not a GPU's number")))
            };
            let indices = list.split(',').map(index).collect::<Result<Vec<u32>, CliError>>()?;
            if let Some(twice) = twice(&indices) {
                return Err(wrong(text, &format!("GPU {twice} is named twice")));
            }
            Ok(indices.into_iter().map(|index| LaneOrder::local(format!("cuda:{index}"))).collect())
        }
        ("host", count) => {
            let count = counted(text, count.unwrap_or("1"))?;
            Ok((0..count).map(|_| LaneOrder::local("host".into())).collect())
        }
        ("cmd", Some(command)) => {
            let words = words(text, command)?;
            Ok(vec![LaneOrder::command(command.trim(), words, None); lanes.unwrap_or(1) as usize])
        }
        ("srun", Some(rest)) => {
            let (count, more) = rest.split_once(':').unwrap_or((rest, ""));
            let mut words: Vec<String> =
                ["srun", "--exact", "--gpus=1", "-n1", "-u"].map(String::from).into();
            words.extend(more.split_whitespace().map(String::from));
            words.extend(worker());
            Ok(vec![LaneOrder::command("srun", words, None); counted(text, count)? as usize])
        }
        ("ssh", Some(hosts)) => hosts.split(',').map(|host| ssh(text, host.trim())).collect(),
        ("ray", Some(rest)) => {
            let (count, accelerator) =
                rest.split_once(':').map_or((rest, None), |(count, own)| (count, Some(own)));
            let mut words: Vec<String> = ["python3", RAY_BRIDGE, "--evo", own].map(String::from).into();
            words.extend(
                accelerator.into_iter().flat_map(|own| ["--accelerator".to_string(), own.to_string()]),
            );
            Ok(vec![LaneOrder::command("ray", words, None); counted(text, count)? as usize])
        }
        _ if text.ends_with(".toml") => workers_file::read(Path::new(text)),
        _ => Err(wrong(text, "it is not a list of workers")),
    }
}

/// `HOST` or `HOST/INDEX`, where a host has several GPUs.
fn ssh(text: &str, host: &str) -> Result<LaneOrder, CliError> {
    let (name, index) = host.split_once('/').map_or((host, None), |(name, index)| (name, Some(index)));
    // A name that begins with a dash would be an option of `ssh`.
    if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
        return Err(wrong(text, &format!("`{name}` is not the name of a host")));
    }
    let device = index.map(|index| match index.parse::<u32>() {
        Ok(index) => Ok(format!("cuda:{index}")),
        Err(_) => Err(wrong(text, &format!("`{index}` is not a GPU's number"))),
    });
    let words = ["ssh", "-T", "-o", "BatchMode=yes", name, "evo", "worker"].map(String::from).to_vec();
    Ok(LaneOrder::command(&format!("ssh {host}"), words, device.transpose()?))
}

/// A command's words, split at spaces.
fn words(text: &str, command: &str) -> Result<Vec<String>, CliError> {
    let words: Vec<String> = command.split_whitespace().map(String::from).collect();
    if words.is_empty() { Err(wrong(text, "the command is empty")) } else { Ok(words) }
}

fn counted(text: &str, count: &str) -> Result<u32, CliError> {
    match count.trim().parse::<u32>() {
        Ok(count) if (1..=LANES_MAX).contains(&count) => Ok(count),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::sweep::lane_order::LaneSource;

    fn seen(text: &str, lanes: Option<u32>) -> Vec<String> {
        match parsed(text, lanes, "/bin/evo", || vec![0, 1, 2]) {
            Ok(orders) => orders.iter().map(shown).collect(),
            Err(error) => vec![error.to_string().lines().next().unwrap_or_default().to_string()],
        }
    }

    fn shown(order: &LaneOrder) -> String {
        match &order.source {
            LaneSource::Local { device } => device.clone(),
            LaneSource::Command { words, device } => {
                format!(
                    "{}: {}{}",
                    order.name,
                    words.join(" "),
                    device.as_ref().map_or(String::new(), |own| format!(" @ {own}"))
                )
            }
        }
    }

    #[test]
    fn every_form_names_its_lanes() {
        assert_eq!(seen("gpus", None), ["cuda:0", "cuda:1", "cuda:2"]);
        assert_eq!(seen("gpus:2,0", None), ["cuda:2", "cuda:0"]);
        assert_eq!(seen("host:2", None), ["host", "host"]);
        assert_eq!(seen("cmd:nice evo worker", Some(2)), ["nice evo worker: nice evo worker"; 2]);
        assert_eq!(
            seen("srun:1:--mem=4G -p gpu", None),
            ["srun: srun --exact --gpus=1 -n1 -u --mem=4G -p gpu /bin/evo worker"]
        );
        assert_eq!(
            seen("ssh:a,b/1", None),
            [
                "ssh a: ssh -T -o BatchMode=yes a evo worker",
                "ssh b/1: ssh -T -o BatchMode=yes b evo worker @ cuda:1"
            ]
        );
        assert_eq!(seen("ray:1:H200", None), ["ray: python3 evo_ray.py --evo /bin/evo --accelerator H200"]);
    }

    #[test]
    fn what_cannot_be_understood_is_said() {
        assert_eq!(seen("gpus:0,0", None), ["`--workers gpus:0,0`: GPU 0 is named twice"]);
        assert_eq!(seen("gpus:x", None), ["`--workers gpus:x`: `x` is not a GPU's number"]);
        assert_eq!(
            seen("host:0", None),
            ["`--workers host:0`: `0` is not a number of workers, from 1 to 1024"]
        );
        assert_eq!(seen("cmd: ", None), ["`--workers cmd: `: the command is empty"]);
        assert_eq!(seen("ssh:-oX", None), ["`--workers ssh:-oX`: `-oX` is not the name of a host"]);
        assert_eq!(seen("all", None), ["`--workers all`: it is not a list of workers"]);
        assert_eq!(seen("gpus", Some(2)), ["`--lanes` cannot be used with `--workers gpus`"]);
    }
}
