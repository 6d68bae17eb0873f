//! A first space file for a plain kernel, drawn from its source: its signature says what the arguments are, its macros
//! what can be tuned, its use of `blockIdx` how it is launched. Whatever is guessed is marked, in the file and in a list.
//!
//! Nothing is compiled here. What a source does not say plainly is guessed on the safe side: a grid that is too large
//! is slow, one that is too small is wrong.

mod arguments;
mod definitions;
mod extents;
mod launch;
mod model;
#[cfg(test)]
mod tests;
mod tunables;
mod write;

use super::first_file::is_plain;
use super::signature::{self, SourceEntry};
use super::words;
use definitions::Definitions;
pub use model::{KernelSketch, SketchError, SketchGuess, SketchRequest};

/// CUDA passes fewer.
const PARAMETERS_MAX: usize = 1024;

/// Draws a space file.
///
/// # Errors
/// The source has no kernel, several and none is chosen, one whose signature cannot be read or passed, or one with
/// nothing to tune.
pub fn sketch(request: SketchRequest<'_>) -> Result<KernelSketch, SketchError> {
    let names = signature::names(request.source);
    let entry = match (request.entry, &names[..]) {
        (Some(entry), _) => entry.to_string(),
        (None, []) => return Err(SketchError::NoKernel),
        (None, [only]) => only.clone(),
        (None, _) => return Err(SketchError::Several(names)),
    };
    let parameters = match signature::find(request.source, &entry) {
        SourceEntry::Absent if names.is_empty() => return Err(SketchError::NoKernel),
        SourceEntry::Absent => return Err(SketchError::NoSuchKernel(entry, names)),
        SourceEntry::Unreadable if !names.contains(&entry) && !names.is_empty() => {
            return Err(SketchError::NoSuchKernel(entry, names));
        }
        SourceEntry::Unreadable => return Err(SketchError::Unreadable(entry)),
        SourceEntry::Read(mut definitions) => definitions.pop().unwrap_or_default(),
    };
    if let Some(odd) = [entry.as_str(), request.path].into_iter().find(|own| !is_plain(own)) {
        return Err(SketchError::Odd(odd.to_string()));
    }
    if parameters.len() > PARAMETERS_MAX {
        return Err(SketchError::Unreadable(entry));
    }
    let tokens = words::tokens(request.source);
    let body = signature::body_of(&tokens, &entry);
    let definitions = Definitions::of(request.source, &tokens);
    let mut guesses = Vec::new();
    let arguments = arguments::read(&entry, &parameters, body, &mut guesses)?;
    let mut tunables = tunables::read(&tokens, &definitions, &mut guesses);
    let mut extents = extents::IndexExtents::of(&arguments, body);
    let clues = launch::LaunchClues { arguments: &arguments, body, tokens: &tokens };
    let launch = launch::guess(clues, &mut extents, &definitions, &mut tunables, &mut guesses);
    if tunables.is_empty() {
        return Err(SketchError::NothingToTune(entry));
    }
    let brackets = arguments::closings(body);
    let shapes = arguments.iter().map(|own| extents.shape(&own.name, body, &brackets)).collect();
    let drawing = write::Drawing {
        request,
        entry: &entry,
        arguments: &arguments,
        shapes,
        tunables: &tunables,
        launch: &launch,
    };
    Ok(write::written(&drawing, guesses))
}
