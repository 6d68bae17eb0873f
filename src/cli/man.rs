//! `evo man`: the manual pages, made from the same definition as `--help`. Without a word it is one page with a section
//! for each command, since most machines have no `evo-sweep(1)` to turn to.

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use evo_space::diagnostic::nearest;

use super::command_line::Cli;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;
use super::shell_args::ManArgs;

/// Prints the page as roff.
pub fn run(arguments: &ManArgs) -> Result<ExitCode, CliError> {
    let mut root = Cli::command();
    // Gives each command the whole of its name, `evo selftest device`.
    root.build();
    let page = if arguments.command.is_empty() { whole(&root)? } else { one(&root, &arguments.command)? };
    output::stdout(&page)?;
    Ok(ExitCode::Done)
}

/// The page of evo, with every command behind it.
fn whole(root: &Command) -> Result<String, CliError> {
    let mut page = Vec::new();
    Man::new(root.clone()).render(&mut page)?;
    let mut text = String::from_utf8_lossy(&page).into_owned();
    for command in documented(root) {
        text += &section(command)?;
    }
    Ok(text)
}

/// The page of one command, with its own commands behind it.
fn one(root: &Command, words: &[String]) -> Result<String, CliError> {
    let mut command = root;
    for word in words {
        let Some(found) = command.find_subcommand(word) else {
            let near = nearest(word, documented(command).map(Command::get_name));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("`{} --help` lists the commands", command.get_bin_name().unwrap_or("evo")),
            };
            return Err(CliError::usage(format!("there is no command `{word}`")).with_hint(hint));
        };
        command = found;
    }
    let mut page = Vec::new();
    let man = Man::new(command.clone());
    man.title(command.get_bin_name().unwrap_or("evo").replace(' ', "-")).render(&mut page)?;
    let mut text = String::from_utf8_lossy(&page).into_owned();
    for own in documented(command) {
        text += &section(own)?;
    }
    Ok(text)
}

/// A command as a section of a longer page: what its own page calls sections are below it.
fn section(command: &Command) -> Result<String, CliError> {
    let name = command.get_bin_name().unwrap_or(command.get_name());
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
    let mut text = format!(".SH \"{}\"\n{body}", name.to_uppercase());
    for own in documented(command) {
        text += &section(own)?;
    }
    Ok(text)
}

/// The commands that `--help` lists.
fn documented(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|own| !["help", "worker"].contains(&own.get_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Command {
        let mut root = Cli::command();
        root.build();
        root
    }

    #[test]
    fn the_page_has_a_section_and_the_options_of_every_command() {
        let root = root();
        let page = whole(&root).unwrap();
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
        let page = one(&root(), &words("sweep")).unwrap();
        assert!(page.contains(".TH evo-sweep 1") && page.contains("\\-\\-finalists"), "{page}");
        let error = one(&root(), &words("swep")).unwrap_err().to_string();
        assert_eq!(error, "there is no command `swep`\nhint: did you mean `sweep`?");
    }
}
