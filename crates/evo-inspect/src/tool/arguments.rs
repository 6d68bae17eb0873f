//! The arguments of a tool, without options that its version lacks.

use std::collections::BTreeSet;
use std::ffi::OsString;

#[derive(Clone, Debug, Default)]
pub struct ToolArguments {
    words: Vec<OsString>,
    left_out: Vec<String>,
    lacking: Vec<String>,
}

impl ToolArguments {
    #[must_use]
    pub fn plain<W: Into<OsString>>(mut self, words: impl IntoIterator<Item = W>) -> ToolArguments {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn preferred<W: Into<OsString>>(
        self,
        known: &BTreeSet<String>,
        option: &str,
        values: impl IntoIterator<Item = W>,
    ) -> ToolArguments {
        self.option(known, option, values, |own| &mut own.left_out)
    }

    /// Without this option the answer would not mean what it says: where it is not known the tool must not run, which
    /// [`Self::lacking`] says.
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

    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    pub fn lacking(&self) -> &[String] {
        &self.lacking
    }
}

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
