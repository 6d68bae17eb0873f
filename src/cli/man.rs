//! `evo man` and `evo completions`: what is made from the same definition as `--help`. A page has those of its commands behind
//! it, since most machines have no `evo-sweep(1)` to turn to.

use std::io;

use clap::{Args, Command};
use clap_mangen::Man;
use evo_space::document::suggestion;

use super::{CliError, ExitCode, Result, output};

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command whose page is wanted (default: all)
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub fn completions(arguments: &CompletionsArgs, mut root: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut root, "evo", &mut script);
    output::stdout(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::Done)
}

pub fn run(arguments: &ManArgs, mut root: Command) -> Result<ExitCode> {
    // Gives each command the whole of its name, `evo selftest device`.
    root.build();
    output::stdout(&page(&root, &arguments.command)?)?;
    Ok(ExitCode::Done)
}

fn page(root: &Command, words: &[String]) -> Result<String> {
    let mut command = root;
    for word in words {
        let Some(found) = command.find_subcommand(word) else {
            let otherwise = || format!("`{} --help` lists the commands", name_of(command));
            let hint = suggestion(word, documented(command).map(Command::get_name), otherwise);
            return Err(CliError::usage(format!("there is no command `{word}`")).with_hint(hint));
        };
        command = found;
    }
    let mut text = Vec::new();
    write(command, &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn write(command: &Command, to: &mut Vec<u8>) -> io::Result<()> {
    Man::new(command.clone()).title(name_of(command).replace(' ', "-")).render(to)?;
    documented(command).try_for_each(|below| write(below, to))
}

fn name_of(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

fn documented(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !["help", "worker"].contains(&command.get_name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command_line;

    fn root() -> Command {
        let mut root = command_line::command();
        root.build();
        root
    }

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let root = root();
        let pages = page(&root, &[]).unwrap();
        for command in documented(&root) {
            let name = command.get_name();
            assert!(pages.contains(&format!("\n.TH evo-{name} 1 ")), "no page of `{name}`");
        }
        assert!(pages.contains("\\-\\-budget"), "{pages}");
        assert!(!pages.contains("evo-worker"), "hidden commands stay hidden");
    }

    #[test]
    fn a_command_has_a_page_of_its_own() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let text = page(&root(), &words("sweep")).unwrap();
        assert!(text.contains(".TH evo-sweep 1") && text.contains("\\-\\-finalists"), "{text}");
        let error = page(&root(), &words("swep")).unwrap_err().to_string();
        assert_eq!(error, "there is no command `swep`\nhint: did you mean `sweep`?");
    }
}
