//! A space file as the command line opens it: which one is meant, with a note where its default was replaced.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::error::CliError;
use super::output;
use crate::kernel::access::SpaceAccess;
use crate::kernel::catalog;
use crate::kernel::spec::SpaceFile;

/// What was said already: some commands open a file more than once.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Opens a space by name or path, and says on stderr, once for each space, what took the place of an invalid default.
pub fn space(name: &str, access: SpaceAccess) -> Result<SpaceFile, CliError> {
    let file = catalog::open_with(name, access)?;
    if let Some(replaced) = &file.replaced_default {
        say_once(format!("note: in `{name}` {}", replaced.note()));
    }
    Ok(file)
}

/// The space that is meant: the named one, else the folder's only space file, which is said, or the shipped default.
pub fn space_name(named: Option<&str>) -> Result<String, CliError> {
    if let Some(named) = named {
        return Ok(named.to_string());
    }
    match &catalog::space_files(Path::new("."))[..] {
        [] => Ok(catalog::DEFAULT.to_string()),
        [only] => {
            say_once(format!("note: `{only}` is meant, the only space file of this folder"));
            Ok(only.clone())
        }
        several => Err(CliError::usage("no space is named, and this folder has several space files")
            .with_hint(format!("name one of them: {}", several.join(", ")))),
    }
}

fn say_once(note: String) {
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(note.clone()) {
        output::say(&note);
    }
}
