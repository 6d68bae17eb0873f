//! A space file as the command line opens it: with a note where its default was replaced.

use std::collections::BTreeSet;
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
        let note = format!("note: in `{name}` {}", replaced.note());
        if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(note.clone()) {
            output::say(&note);
        }
    }
    Ok(file)
}
