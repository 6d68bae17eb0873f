//! From the command line to the exit code.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, FromArgMatches, Id, Parser};
use evo_protocol::request::{EvaluationLevel, Visibility};

use super::answers::{self, UNKNOWN};
use super::command_line::{self, Cli, Command, ServeArgs};
use super::evaluate::EvaluateArgs;
use super::report::ReportArgs;
use super::test_one::{LevelArgs, SanitizeCandidate};
use super::{
    Answer, Call, CliError, ExitCode, Result, TestOneArgs, bench, cache, call, compile, crosscheck, evaluate,
    explain, export, gate, history, import, init, invert, man, micro, output, preflight, profile, render,
    report, request, sanitize, selftest, space, sweep, test_one, watch, worker,
};
use crate::mcp::{self, ToolSettings};
use crate::process::{keep_with, worker_program};

const WORKER: &str = "worker";

pub fn main() -> process::ExitCode {
    let arguments = command_line::modern(std::env::args_os().skip(1));
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_json = words.iter().any(|word| word == "--json" || word.starts_with("--json="));
    let name = command_name(&words);
    let call = Call::begin(&name, &words, is_json);
    // A worker's stdout belongs to its parent, and signals end it as they end any process.
    if name != WORKER
        && let Err(error) = call::watch_signals(&call)
    {
        output::say(&format!("warning: cannot watch for Ctrl-C: {error}"));
    }
    // Without it what tools leave in sessions of their own goes on if this process is killed; nothing else is lost.
    if let Ok(program) = worker_program() {
        keep_with(program, &[WORKER, "--keep"]);
    }
    // Reading the command line too may fail in ways that nobody thought of.
    let mut misread_as = None;
    let result = call.run(|| match parsed(&arguments) {
        Ok(ParsedLine { mut command, name, options }) => {
            call.settle(options.contains("json"));
            refuse_idle(preset_name(&command).unwrap_or(&name), &options)?;
            if let Some(one) = one_candidate(&mut command) {
                one.place_space()?;
            }
            dispatch(&command, &call)
        }
        Err(error) => {
            misread_as = Some(misread(&call, &error));
            Ok(Answer::from(ExitCode::Done))
        }
    });
    process::ExitCode::from(misread_as.unwrap_or_else(|| call.finish(result)) as u8)
}

struct ParsedLine {
    command: Command,
    name: String,
    /// The long names of options that the command line has, and each again with its value behind a blank.
    options: BTreeSet<String>,
}

/// Reads the command line. `--help --all` shows hidden commands too.
fn parsed(words: &[OsString]) -> Result<ParsedLine, clap::Error> {
    let mut cli = command_line::command();
    if words.len() == 2 && words.contains(&"--help".into()) && words.contains(&"--all".into()) {
        cli = cli.mut_subcommands(|command| {
            let is_served = command.get_name() == WORKER;
            command.hide(is_served)
        });
        return Err(cli
            .after_help("")
            .try_get_matches_from(["evo", "--help"])
            .expect_err("clap answers help with an error"));
    }
    for (option, presets) in IDLE {
        for preset in presets {
            let hidden = |argument: Arg| match argument.get_long() {
                Some(name) if name == option => argument.hide(true),
                _ => argument,
            };
            cli = cli.mut_subcommand(preset, |command| command.mut_args(hidden));
        }
    }
    let program = OsString::from("evo");
    let matches = cli.try_get_matches_from_mut([&program].into_iter().chain(words))?;
    let command = Cli::from_arg_matches(&matches)?.command;
    let (mut options, mut name) = (BTreeSet::new(), String::new());
    if let Some((subcommand, matches)) = matches.subcommand() {
        let is_given = |id: &Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        let all = cli.find_subcommand(subcommand).into_iter().flat_map(clap::Command::get_arguments);
        let given = all.filter(|argument| is_given(argument.get_id()));
        for (long, id) in given.filter_map(|argument| Some((argument.get_long()?, argument.get_id()))) {
            let values = matches.get_raw(id.as_str()).into_iter().flatten();
            options.extend(values.map(|value| format!("{long} {}", value.to_string_lossy())));
            options.insert(long.to_string());
        }
        name = subcommand.to_string();
    }
    Ok(ParsedLine { command, name, options })
}

/// Options of the commands that judge one candidate, each with the presets in which it has no effect.
/// One that only says how something is done that is not done here, such as `--seed` or a limit, is nobody's mistake:
/// scripts give the same to all.
const IDLE: [(&str, &[&str]); 4] = [
    ("problem", &["build", "gate"]),
    ("allow-not-run", &["build"]),
    ("sanitize on", &["build", "profile", "invert"]),
    ("limit total", &["serve"]),
];

fn refuse_idle(command: &str, options: &BTreeSet<String>) -> Result<()> {
    let is_given = |idle: &str| options.iter().any(|option| option.split('=').next() == Some(idle));
    let idle = IDLE.iter().find(|(option, presets)| presets.contains(&command) && is_given(option));
    match idle {
        None => Ok(()),
        Some((option, _)) => Err(CliError::usage(format!("`--{option}` has no effect on `evo {command}`"))
            .with_hint("leave it out")),
    }
}

fn one_candidate(command: &mut Command) -> Option<&mut TestOneArgs> {
    match command {
        Command::TestOne(arguments) => Some(&mut arguments.judge.one),
        Command::Test(arguments) => Some(&mut arguments.one),
        Command::Benchmark(arguments) | Command::Build(arguments) => Some(arguments),
        Command::Evaluate(arguments) => Some(&mut arguments.one),
        Command::Gate(arguments) => Some(&mut arguments.one),
        Command::Serve(arguments) => Some(&mut arguments.evaluate.one),
        Command::Profile(arguments) => Some(&mut arguments.one),
        Command::Invert(arguments) => Some(&mut arguments.one),
        Command::Bench(arguments) => Some(&mut arguments.with.one),
        Command::Crosscheck(arguments) => Some(&mut arguments.one),
        Command::Export(arguments) => Some(&mut arguments.one),
        Command::Sanitize(arguments) => Some(&mut arguments.one),
        _ => None,
    }
}

/// The first word that is a command's name, if that command prints JSON or serves another process.
fn command_name(words: &[String]) -> String {
    let cli = command_line::command();
    let name = words.iter().find(|word| cli.find_subcommand(word).is_some());
    let has_schema = |name: &&String| *name == WORKER || answers::commands().any(|command| command == *name);
    name.filter(has_schema).cloned().unwrap_or_else(|| UNKNOWN.to_string())
}

/// What a command line comes to that runs nothing: help and version on stdout, or what is wrong with it.
fn misread(call: &Call, error: &clap::Error) -> ExitCode {
    // `--help` and `--version` come as errors too, and their text goes to stdout.
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match output::written(error.print().and_then(|()| io::stdout().flush())) {
            Ok(()) => ExitCode::Done,
            Err(error) => {
                output::say(&format!("error: {error}"));
                error.exit_code()
            }
        };
    }
    let _ = error.print();
    if call.is_json() {
        call.finish_quietly(usage(error, call.facts().schema.trim_start_matches("evo.")));
    }
    ExitCode::Usage
}

/// The same as an error of a command: its message, and the lines that help.
fn usage(error: &clap::Error, command: &str) -> CliError {
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_help =
        |line: &&&str| ["Usage:", "tip:", "For more", "[possible"].iter().any(|lead| line.starts_with(lead));
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "the command line names no command".to_string()
        }
        _ => lines.iter().take_while(|line| !is_help(line)).copied().collect::<Vec<_>>().join(" "),
    };
    let tips = lines.iter().filter_map(|line| line.strip_prefix("tip: "));
    let possible = lines.iter().filter(|line| line.starts_with("[possible values")).copied();
    let hints: Vec<&str> = tips.chain(possible).collect();
    let hint = match command {
        _ if !hints.is_empty() => hints.join("; "),
        UNKNOWN => "`evo --help` lists the commands, `evo COMMAND --help` their options".to_string(),
        _ => format!("`evo {command} --help` lists its options"),
    };
    CliError::usage(message.strip_prefix("error: ").unwrap_or(&message)).with_hint(hint)
}

fn evaluated(arguments: EvaluateArgs, call: &Call) -> Result<Answer> {
    request::check(&arguments)?;
    let arguments = arguments.with_grid()?;
    match arguments.requests.are_taken() {
        true => request::run(&arguments, call),
        false => evaluate::run(&arguments, call),
    }
}

/// `evo serve`: the loop of `evo evaluate --serve`, or with `--mcp` the commands as tools for a program that speaks the Model
/// Context Protocol.
fn served(arguments: &ServeArgs, call: &Call) -> Result<Answer> {
    let mut evaluate = arguments.evaluate.clone();
    if !arguments.mcp {
        evaluate.requests.serve = true;
        return evaluated(evaluate, call);
    }
    let harness = |error: io::Error| CliError::harness(format!("cannot serve: {error}"));
    let is_owner = evaluate.requests.visibility == Some(Visibility::Owner);
    let options = vec![
        ("device", evaluate.one.run.device),
        ("out", evaluate.one.candidate.out.display().to_string()),
        ("visibility", if is_owner { "owner" } else { "agent" }.to_string()),
        ("time-limit", format!("{}s", evaluate.time_limit.as_secs_f64())),
    ];
    let program = std::env::current_exe().map_err(harness)?;
    let settings = ToolSettings { program, options };
    let tools: Vec<&str> = mcp::names().collect();
    output::say(&format!("note: serving {} on stdin and stdout until stdin ends", tools.join(", ")));
    mcp::serve(settings, io::BufReader::new(io::stdin()), Box::new(io::stdout())).map_err(harness)?;
    Ok(Answer::from(ExitCode::Done))
}

/// The preset that `evo test-one` with its options is short for.
fn preset_name(command: &Command) -> Option<&'static str> {
    let Command::TestOne(LevelArgs { level, against, baseline, profile, invert, .. }) = command else {
        return None;
    };
    Some(match (level, baseline) {
        _ if *invert => "invert",
        (_, Some(_)) => "gate",
        (EvaluationLevel::Confirm, _) => "evaluate",
        (EvaluationLevel::Compile, _) => "build",
        _ if against.is_some() => "evaluate",
        _ if *profile => "profile",
        _ => return None,
    })
}

/// A preset of the same judge, with its own usual values and what `evo test-one` was given.
fn preset(name: &str, arguments: &LevelArgs) -> Result<Command> {
    let LevelArgs { judge, against, baseline, profile, .. } = arguments;
    let one = judge.one.clone();
    let usual = Cli::try_parse_from(["evo", name]);
    let mut command = usual.map_err(|error| CliError::harness(error.to_string()))?.command;
    match &mut command {
        Command::Evaluate(evaluate) => {
            evaluate.against.clone_from(against);
            evaluate.profile = *profile;
            evaluate.sanitize = judge.sanitize == SanitizeCandidate::On;
            evaluate.one = one;
        }
        Command::Gate(gate) => {
            gate.baseline = baseline.clone().unwrap_or_default();
            gate.sanitize = judge.sanitize == SanitizeCandidate::On;
            gate.one = one;
        }
        Command::Build(build) => *build = one,
        Command::Profile(profile) => profile.one = one,
        Command::Invert(invert) => invert.one = one,
        _ => {}
    }
    Ok(command)
}

fn dispatch(command: &Command, call: &Call) -> Result<Answer> {
    match command {
        Command::Sweep(arguments) => sweep::run(arguments, call),
        Command::TestOne(arguments) => match preset_name(command) {
            Some(name) => {
                call.know(|facts| facts.schema = format!("evo.{name}"));
                dispatch(&preset(name, arguments)?, call)
            }
            None => test_one::run(arguments, call),
        },
        Command::Test(arguments) => test_one::test(arguments, call),
        Command::Benchmark(arguments) => test_one::benchmark(arguments, call),
        Command::Evaluate(arguments) => evaluated(arguments.clone(), call),
        Command::Bench(arguments) if arguments.is_crosscheck() => {
            call.know(|facts| facts.schema = "evo.crosscheck".to_string());
            crosscheck::run(&arguments.with, call)
        }
        Command::Bench(arguments) => bench::run(arguments, call),
        Command::Gate(arguments) => gate::run(arguments, call),
        Command::Micro(arguments) => micro::run(arguments, call),
        Command::Invert(arguments) => invert::run(arguments, call),
        Command::Crosscheck(arguments) => crosscheck::run(arguments, call),
        Command::Export(arguments) => export::run(arguments, call),
        Command::Init(arguments) => init::run(arguments, call),
        Command::Import(arguments) => import::run(arguments, call),
        Command::Profile(arguments) => profile::run(arguments, call),
        Command::Sanitize(arguments) => sanitize::run(arguments, call),
        Command::Space(arguments) => space::run(arguments, call),
        Command::Render(arguments) => render::run(arguments, call),
        Command::Compile(arguments) => compile::run(arguments, call),
        Command::Build(arguments) => test_one::build(arguments, call),
        Command::Explain(arguments) => match &arguments.schema {
            Some(name) => answers::print(name),
            None => explain::run(arguments, call),
        },
        Command::Leaderboard(arguments) => history::leaderboard(arguments, call),
        Command::History(arguments) => history::run(arguments, call),
        Command::Summary(arguments) => history::summary(arguments, call),
        Command::Restore(arguments) => history::restore(arguments, call),
        Command::Report(ReportArgs { study, out, port, watch: true, .. }) => {
            watch::run(report::choose(out, study.as_deref())?, *port)
        }
        Command::Report(arguments) => report::run(arguments, call),
        Command::Preflight(arguments) => preflight::run(arguments, call),
        Command::Selftest(arguments) => selftest::run(arguments, call),
        Command::Cache(arguments) => cache::run(arguments, call),
        Command::Serve(arguments) => served(arguments, call),
        Command::Worker(arguments) => worker::run(arguments).map(Answer::from),
        Command::Completions(arguments) => {
            man::completions(arguments, command_line::command()).map(Answer::from)
        }
        Command::Man(arguments) => man::run(arguments, command_line::command()).map(Answer::from),
    }
}
