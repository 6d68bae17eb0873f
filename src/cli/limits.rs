//! `--limit NAME=TIME,…`: what a command may take, step by step and as a whole. One grammar for all commands, each of
//! which knows some of the names.

use std::fmt::Write;
use std::io;
use std::ops::Deref;
use std::time::{Duration, Instant};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use evo_protocol::envelope::LimitsReport;
use evo_space::document::suggestion;

use super::{Call, CliError, Result, call};
use crate::kernel::access::SpaceAccess;

/// One name of `--limit`, with its default, the smallest and the largest as a user writes them, and what it is for.
struct LimitSpec(&'static str, &'static str, [&'static str; 2], &'static str);

/// Sets of names, a bit for each place in `LIMITS`: those that a command knows which opens a space and does no more with
/// it, and so on.
pub const OPENING: u8 = 0b001_0000;
pub const COMPILING: u8 = 0b011_0001;
pub const RANKING: u8 = 0b011_0011;
pub const JUDGING: u8 = 0b011_1111;
pub const WHOLE: u8 = 0b010_0000;
pub const IMPORTING: u8 = 0b100_0000;

const LIMITS: [LimitSpec; 7] = [
    LimitSpec("compile", "120s", ["1s", "24h"], "compiling one variant"),
    LimitSpec("device", "300s", ["1s", "24h"], "one step on the device"),
    LimitSpec("tool", "300s", ["1s", "24h"], "one run of an outside program"),
    LimitSpec("sampling", "off", ["100ms", "5s"], "sampling one problem in one timing mode"),
    LimitSpec("space", "10s", ["100ms", "24h"], "opening the space, in processor time"),
    LimitSpec("total", "off", ["1s", "10000h"], "the whole command"),
    LimitSpec("python", "120s", ["1s", "1h"], "a Python file to say what it computes"),
];

/// What a command may take. A limit whose name the command does not know has its default.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub compile: Duration,
    pub device: Duration,
    pub tool: Duration,
    /// Absent for as long as a better interval is in sight.
    pub sampling: Option<Duration>,
    space: Duration,
    pub total: Option<Duration>,
    pub python: Duration,
    /// `--time-limit` of a command that has one; the shorter of it and `total` counts.
    pub time_limit: Option<Duration>,
    allow_outside: bool,
}

/// The limits of a command that knows these names, and how it may open a space if it opens one.
#[derive(Clone, Debug)]
pub struct LimitArgs<const KNOWN: u8>(pub Limits);

impl<const KNOWN: u8> Deref for LimitArgs<KNOWN> {
    type Target = Limits;

    fn deref(&self) -> &Limits {
        &self.0
    }
}

fn known_of(known: u8) -> impl Iterator<Item = &'static LimitSpec> + Clone {
    LIMITS.iter().enumerate().filter(move |(at, _)| known & 1 << at != 0).map(|(_, spec)| spec)
}

impl<const KNOWN: u8> Args for LimitArgs<KNOWN> {
    fn augment_args(command: Command) -> Command {
        let mut help = "Longest times, such as `".to_string();
        for (at, LimitSpec(name, default, _, about)) in known_of(KNOWN).enumerate() {
            let lead = if at == 0 { format!("{name}=30s`: ") } else { ", ".to_string() };
            let _ = write!(help, "{lead}{name} for {about} [{default}]");
        }
        let limit = Arg::new("limit").long("limit").value_name("NAME=TIME,…").help(help);
        let command = command.arg(limit.action(ArgAction::Append).value_delimiter(','));
        match KNOWN & OPENING != 0 {
            true => command.arg(
                Arg::new("allow_outside")
                    .long("allow-outside")
                    .action(ArgAction::SetTrue)
                    .help("Let the space file name files outside its own folder"),
            ),
            false => command,
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const KNOWN: u8> FromArgMatches for LimitArgs<KNOWN> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let words: Vec<&str> = given(matches).collect();
        let allow_outside = matches.try_get_one("allow_outside").ok().flatten() == Some(&true);
        let mut limits = Limits { allow_outside, ..Limits::default() };
        for LimitSpec(name, default, ..) in &LIMITS {
            time(default).into_iter().for_each(|time| limits.set(name, time));
        }
        for (at, word) in words.iter().enumerate() {
            let (spec, time) = read(word, KNOWN).map_err(|(text, hint)| wrong(word, &text, &hint))?;
            if words[..at].iter().any(|before| before.split('=').next() == Some(spec.0)) {
                return Err(wrong(word, &format!("`{}` has a limit already", spec.0), "name each once"));
            }
            limits.set(spec.0, time);
        }
        Ok(LimitArgs(limits))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What a command line says behind `--limit`, an item for each `NAME=TIME`.
fn given(matches: &ArgMatches) -> impl Iterator<Item = &str> {
    let given = matches.try_get_many::<String>("limit").ok().flatten();
    given.into_iter().flatten().map(String::as_str)
}

/// The same as clap says of a value that it refuses.
fn wrong(word: &str, text: &str, hint: &str) -> clap::Error {
    let message =
        format!("`--limit {word}`: {text}\n\n  tip: {hint}\n\nFor more information, try '--help'.\n");
    clap::Error::raw(ErrorKind::ValueValidation, message)
}

/// One limit and its time; an error is what is wrong, and the way out.
fn read(word: &str, known: u8) -> Result<(&'static LimitSpec, Duration), (String, String)> {
    let names = known_of(known).map(|spec| spec.0);
    let all = || format!("there are {}", names.clone().collect::<Vec<_>>().join(", "));
    let Some((name, text)) = word.split_once('=') else {
        return Err(("expected NAME=TIME".to_string(), all()));
    };
    let Some(spec) = known_of(known).find(|spec| spec.0 == name) else {
        let hint = suggestion(name, names.clone(), all);
        return Err((format!("this command has no limit `{name}`"), hint));
    };
    let LimitSpec(_, _, [least, most], about) = spec;
    let hint = format!("`{name}` is for {about}: {least} to {most}");
    match (time(text), time(least), time(most)) {
        (Err(text), _, _) => Err((text, hint)),
        (Ok(time), Ok(from), Ok(to)) if !(from..=to).contains(&time) => {
            Err((format!("it is not between {least} and {most}"), hint))
        }
        (Ok(time), _, _) => Ok((spec, time)),
    }
}

/// A time as options take it: `500ms`, `90s`, `10m`, `2h`.
pub fn time(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let factor = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let number = text[..text.len() - unit.len()].parse::<f64>().unwrap_or(f64::NAN);
    let time = Duration::try_from_secs_f64(number * factor).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| "it is not a time such as `500ms`, `90s`, `10m` or `2h`".to_string())
}

pub fn total(text: &str) -> Result<Duration, String> {
    let read = read(&format!("total={text}"), u8::MAX);
    read.map(|(_, time)| time).map_err(|(text, hint)| format!("{text}; {hint}"))
}

/// What a command that ends in order by itself gets beyond its limit: its answer is promised after 15 s at the latest.
const GRACE: Duration = Duration::from_secs(14);

impl Limits {
    fn set(&mut self, name: &str, time: Duration) {
        match name {
            "compile" => self.compile = time,
            "device" => self.device = time,
            "tool" => self.tool = time,
            "sampling" => self.sampling = Some(time),
            "space" => self.space = time,
            "total" => self.total = Some(time),
            _ => self.python = time,
        }
    }

    pub fn access(&self) -> SpaceAccess {
        SpaceAccess { limit: self.space, allow_outside: self.allow_outside, render_apart: true }
    }

    /// When the limit of the whole command is used up, counted from now.
    pub fn until(&self) -> Option<Instant> {
        self.in_force().and_then(|(limit, _)| Instant::now().checked_add(limit))
    }

    fn in_force(&self) -> Option<(Duration, &'static str)> {
        let total = self.total.map(|limit| (limit, "--limit total=TIME"));
        total.into_iter().chain(self.time_limit.map(|limit| (limit, "--time-limit"))).min()
    }

    /// The error that the limit in force is used up; none where there is no limit.
    pub fn used_up(&self) -> Option<CliError> {
        let (limit, option) = self.in_force()?;
        Some(call::total_is_over(limit).with_hint(format!("allow more with `{option}`")))
    }
}

impl<const KNOWN: u8> LimitArgs<KNOWN> {
    /// Puts the limits in force: the call's object names them, and the whole command ends when its time is used up.
    pub fn begin(&self, call: &Call) -> Result<()> {
        self.watch(call, Duration::ZERO)
    }

    pub fn begin_orderly(&self, call: &Call) -> Result<()> {
        self.watch(call, GRACE)
    }

    fn watch(&self, call: &Call, grace: Duration) -> Result<()> {
        let in_force = self.in_force();
        // The first name is `compile`: who compiles nothing runs nothing either.
        let step = |limit: Duration| (KNOWN & 1 != 0).then_some(limit.as_secs_f64());
        let [compile_s, device_s, tool_s] = [self.compile, self.device, self.tool].map(step);
        let total_s = in_force.map(|(limit, _)| limit.as_secs_f64());
        let limits = LimitsReport { compile_s, device_s, tool_s, total_s, hit: None };
        call.know(|facts| facts.limits = Some(limits));
        let Some((limit, option)) = in_force else { return Ok(()) };
        let failed = |error: io::Error| CliError::harness(format!("cannot watch the clock: {error}"));
        call::limit_total(call, limit, option, grace).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct OnlyLimits {
        #[command(flatten)]
        limits: LimitArgs<JUDGING>,
    }

    /// What is refused is in `tests/data/refused.toml`.
    #[test]
    fn a_limit_is_a_name_and_a_time() {
        let line = "evo --limit tool=1h,sampling=500ms --limit total=2m";
        let read = OnlyLimits::try_parse_from(line.split_whitespace()).unwrap().limits.0;
        let [tool, device, compile] = [read.tool, read.device, read.compile].map(|limit| limit.as_secs());
        assert_eq!((tool, device, compile), (3600, 300, 120));
        assert_eq!(read.sampling, Some(Duration::from_millis(500)));
        assert_eq!((read.total, read.space), (Some(Duration::from_secs(120)), Duration::from_secs(10)));
    }

    #[test]
    fn a_command_has_less_than_years() {
        assert_eq!(total("90s"), Ok(Duration::from_secs(90)));
        assert!(total("5000000000000000h").unwrap_err().contains("it is not between 1s and 10000h"));
    }
}
