//! Which spaces a program may name: embedded ones, and space files below the folder that evo runs in. A space file can
//! name commands, so a stranger must not choose any file of this machine.

use std::path::Path;

use crate::kernel::access::open_beside;
use crate::kernel::catalog;

/// A space file of this size is refused before it is read.
const SPACE_MAX: u64 = 4 << 20;

/// Why a space may not be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceRefusal {
    /// The file is none of a space.
    NotASpace,
    /// There is nothing of that name that may be named.
    NotBeneath,
}

impl SpaceRefusal {
    /// What is wrong with the field `what`, as the beginning of a message.
    pub fn text(self, what: &str) -> String {
        match self {
            SpaceRefusal::NotASpace => format!("{what} names a file that is not a space file"),
            SpaceRefusal::NotBeneath => {
                format!("{what} names neither an embedded space nor a file below this folder")
            }
        }
    }

    /// The way out.
    pub fn hint(self) -> &'static str {
        match self {
            SpaceRefusal::NotASpace => "a space file ends in `.toml` or `.json`",
            SpaceRefusal::NotBeneath => {
                "paths are relative to the folder in which evo was started, and stay inside it"
            }
        }
    }

    /// Both in one line.
    pub fn said(self, what: &str) -> String {
        format!("{}: {}", self.text(what), self.hint())
    }
}

/// Whether a program may name this space.
pub fn space_beneath(name: &str) -> Result<(), SpaceRefusal> {
    if catalog::names().contains(&name) {
        return Ok(());
    }
    match open_beside(Path::new("."), name, SPACE_MAX, false) {
        Ok(_) if catalog::looks_like_space(name) => Ok(()),
        Ok(_) => Err(SpaceRefusal::NotASpace),
        Err(_) => Err(SpaceRefusal::NotBeneath),
    }
}
