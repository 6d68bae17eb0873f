//! The files from which a candidate of the past can be judged again: its configuration, its source and its launches.

use evo_protocol::device::DeviceKind;
use evo_space::genome::{Configuration, ContentHash};
use thiserror::Error;

use super::prepared::source_of;
use evo_compile::search_path::SearchPath;
use evo_compile::toolbox::Toolbox;
use evo_kernel::launch_file::LaunchFile;
use evo_kernel::spec::SpaceFile;

/// What a record says of a candidate.
#[derive(Clone, Copy, Debug)]
pub struct RestoreRequest<'a> {
    pub configuration: &'a Configuration,
    /// Its rendered source, where that is not the space's own.
    pub source: Option<&'a str>,
    /// The text of its launch file.
    pub launch: Option<&'a str>,
    /// Of the source that was measured.
    pub source_hash: Option<&'a ContentHash>,
    pub device: DeviceKind,
}

/// The texts of the files.
#[derive(Clone, Debug)]
pub struct RestoredFiles {
    pub configuration: String,
    pub source: String,
    pub launch: String,
    /// Whether the launch file gives anything.
    pub has_launch: bool,
    /// Of the source that was measured.
    pub source_hash: Option<ContentHash>,
    /// Whether the space's own source is another one today.
    pub source_changed: bool,
    pub notes: Vec<String>,
}

/// Why a candidate cannot be restored.
#[derive(Debug, Error)]
pub enum RestoreError {
    #[error("`{space}` describes a space without a kernel")]
    NoKernel { space: String },
    #[error("`{configuration}` is not a point of `{space}` any more")]
    Stranger { space: String, configuration: Configuration },
    #[error("`{configuration}` does not render: {message}")]
    Unrendered { configuration: Configuration, message: String },
}

/// Puts the files of a candidate together.
///
/// # Errors
/// The space does not hold the candidate any more.
pub fn restored(file: &SpaceFile, request: &RestoreRequest<'_>) -> Result<RestoredFiles, RestoreError> {
    let RestoreRequest { configuration, source, launch, source_hash, device } = *request;
    let space = file.path.display().to_string();
    let Some(kernel) = &file.kernel else { return Err(RestoreError::NoKernel { space }) };
    let Some(genome) = file.space.genome(configuration) else {
        return Err(RestoreError::Stranger { space, configuration: configuration.clone() });
    };
    // In the space's own order and spelling, which decide the hash.
    let configuration = file.space.configuration(&genome);
    let launches = LaunchFile::of(kernel, &configuration);
    let mut notes: Vec<String> = Vec::new();
    if launch.is_none() {
        notes.extend(launches.left_out.iter().map(|entry| {
            format!(
                "`{entry}` is launched in several ways, which a launch file cannot hold: the space's stay"
            )
        }));
    }
    let (source, source_changed) = match source {
        Some(text) => (text.to_string(), false),
        None => {
            let search = SearchPath::of_environment(device, &Toolbox::from_env());
            let (own, hash) = source_of(kernel, &configuration, &search).map_err(|verdict| {
                RestoreError::Unrendered { configuration: configuration.clone(), message: verdict.message }
            })?;
            (own.text, source_hash.is_some_and(|measured| *measured != hash))
        }
    };
    Ok(RestoredFiles {
        configuration: format!("{:#}\n", serde_json::json!(configuration)),
        source,
        has_launch: launch.is_some() || launches.is_usable(),
        launch: launch.map_or_else(|| launches.text(), String::from),
        source_hash: source_hash.cloned(),
        source_changed,
        notes,
    })
}
