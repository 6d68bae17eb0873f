//! `evo man` and `evo completions`: what is made from the same definition as `--help`. Without a word the manual is one page
//! with a section for each command, since most machines have no `evo-sweep(1)` to turn to.

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use evo_space::diagnostic::nearest;

use super::command_line::Cli;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;

/// `evo completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `evo man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command whose page is wanted (default: all)
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub fn completions(arguments: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "evo", &mut script);
    output::stdout(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::Done)
}

pub fn run(arguments: &ManArgs) -> Result<ExitCode, CliError> {
    output::stdout(&page(&root(), &arguments.command)?)?;
    Ok(ExitCode::Done)
}

fn root() -> Command {
    let mut root = Cli::command();
    // Gives each command the whole of its name, `evo selftest device`.
    root.build();
    root
}

/// The page of a command, with its own commands behind it.
fn page(root: &Command, words: &[String]) -> Result<String, CliError> {
    let mut command = root;
    for word in words {
        let Some(found) = command.find_subcommand(word) else {
            let near = nearest(word, documented(command).map(Command::get_name));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("`{} --help` lists the commands", name_of(command)),
            };
            return Err(CliError::usage(format!("there is no command `{word}`")).with_hint(hint));
        };
        command = found;
    }
    let mut page = Vec::new();
    Man::new(command.clone()).title(name_of(command).replace(' ', "-")).render(&mut page)?;
    let mut text = String::from_utf8_lossy(&page).into_owned();
    for command in documented(command) {
        text += &section(command)?;
    }
    Ok(text)
}

fn name_of(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

/// A command as a section of a longer page: what its own page calls sections are below it.
fn section(command: &Command) -> Result<String, CliError> {
    let man = Man::new(command.clone());
    let mut body = Vec::new();
    man.render_synopsis_section(&mut body)?;
    man.render_description_section(&mut body)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut body)?;
    }
    if command.get_after_help().is_some() || command.get_after_long_help().is_some() {
        man.render_extra_section(&mut body)?;
    }
    // Each part of the body begins with the same two lines about quotes.
    let body = String::from_utf8_lossy(&body).replace(".SH ", ".SS ");
    let mut text = format!(".SH \"{}\"\n{body}", name_of(command).to_uppercase());
    for below in documented(command) {
        text += &section(below)?;
    }
    Ok(text)
}

/// The commands that `--help` lists.
fn documented(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !["help", "worker"].contains(&command.get_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_section_and_the_options_of_every_command() {
        let root = root();
        let page = page(&root, &[]).unwrap();
        for command in documented(&root) {
            let name = command.get_name();
            let head = format!(".SH \"EVO {}\"\n", name.to_uppercase());
            let at = page.find(&head).unwrap_or_else(|| panic!("no section of `{name}`"));
            let own = page[at + head.len()..].split("\n.SH ").next().unwrap();
            assert!(own.contains(".SS SYNOPSIS") && own.contains(".SS DESCRIPTION"), "{name}: {own}");
        }
        assert!(page.contains("\\-\\-budget"), "{page}");
        assert!(!page.contains("EVO WORKER"), "hidden commands stay hidden");
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
