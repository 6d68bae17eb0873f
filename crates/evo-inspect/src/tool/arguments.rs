//! The arguments of a tool, without options that its version lacks.

use std::collections::BTreeSet;
use std::ffi::OsString;

/// Arguments that are passed as they are, without a shell.
#[derive(Clone, Debug, Default)]
pub struct ToolArguments {
    words: Vec<OsString>,
    left_out: Vec<String>,
    lacking: Vec<String>,
}

impl ToolArguments {
    /// Adds words that every version takes.
    #[must_use]
    pub fn plain<W: Into<OsString>>(mut self, words: impl IntoIterator<Item = W>) -> ToolArguments {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// Adds an option with its values if `known` has it; left out otherwise, which [`Self::left_out`] says.
    #[must_use]
    pub fn preferred<W: Into<OsString>>(
        self,
        known: &BTreeSet<String>,
        option: &str,
        values: impl IntoIterator<Item = W>,
    ) -> ToolArguments {
        self.option(known, option, values, |own| &mut own.left_out)
    }

    /// Adds an option without which the answer would not mean what it says. Where it is not known the tool must not
    /// run, which [`Self::lacking`] says.
    #[must_use]
    pub fn demanded<W: Into<OsString>>(
        self,
        known: &BTreeSet<String>,
        option: &str,
        values: impl IntoIterator<Item = W>,
    ) -> ToolArguments {
        self.option(known, option, values, |own| &mut own.lacking)
    }

    fn option<W: Into<OsString>>(
        mut self,
        known: &BTreeSet<String>,
        option: &str,
        values: impl IntoIterator<Item = W>,
        otherwise: impl FnOnce(&mut ToolArguments) -> &mut Vec<String>,
    ) -> ToolArguments {
        if known.contains(option) {
            self.words.push(option.into());
            self.words.extend(values.into_iter().map(Into::into));
        } else {
            otherwise(&mut self).push(option.to_string());
        }
        self
    }

    /// The words in order.
    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Options that this version lacks and that were left out.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Options that this version lacks and without which it must not run.
    pub fn lacking(&self) -> &[String] {
        &self.lacking
    }
}

/// The long options that a help text names: every `--word` in it.
pub(super) fn options_in(help: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    let words = help.split(|letter: char| !is_part(letter));
    let words = words
        .filter(|word| word.len() > 3 && word.starts_with("--") && word.as_bytes()[2].is_ascii_lowercase());
    words.map(|word| word.trim_end_matches('-').to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_a_version_lacks_are_left_out_and_named() {
        let known = options_in(
            "  --log-file arg   File (see --xml).\n  -h [ --help ]\n  --tool arg (=memcheck) -- x --Case\n",
        );
        assert_eq!(
            known.iter().map(String::as_str).collect::<Vec<_>>(),
            ["--help", "--log-file", "--tool", "--xml"]
        );
        let arguments = ToolArguments::default()
            .plain(["--tool", "memcheck"])
            .preferred(&known, "--log-file", ["f"])
            .preferred(&known, "--padding", ["4096"])
            .demanded(&known, "--xml", [""; 0])
            .demanded(&known, "--save", ["x"]);
        assert_eq!(arguments.words(), ["--tool", "memcheck", "--log-file", "f", "--xml"]);
        assert_eq!(
            (arguments.left_out(), arguments.lacking()),
            (&["--padding".to_string()][..], &["--save".to_string()][..])
        );
    }
}
