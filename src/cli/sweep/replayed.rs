//! A sweep with `--device replay:FILE`: a recording answers in the place of compilers and device.

use std::path::Path;

use evo_protocol::device::DeviceInfo;

use super::live::Stage;
use crate::cli::args::SweepArgs;
use crate::cli::sanitize::SanitizeWhen;
use crate::cli::{CliError, session, words};
use crate::engine::{Inbox, LanePart, NoSanitizer};
use crate::journal::record::StudyHeader;
use crate::replay::Recording;
use crate::replay::device::{RecordedBuild, ReplayCompilers, ReplayDevice, info, space_hash};

pub struct ReplayedSubject {
    pub recording: Recording,
    /// `--device` without `replay:`, as the result names the recording.
    pub path: String,
    /// The space as the study's header names it, and its text where the user named one.
    space: String,
    space_text: String,
    jobs: usize,
}

impl ReplayedSubject {
    pub fn open(arguments: &SweepArgs, path: &Path) -> Result<ReplayedSubject, CliError> {
        refuse_others(arguments)?;
        let access = arguments.limits.access();
        let open = |name| words::space(name, access);
        let named = arguments.space.as_deref().map(open).transpose()?;
        let (space, space_text) = match &named {
            Some(file) => (session::space_word(file), file.text.clone()),
            None => (arguments.device.clone(), String::new()),
        };
        let recording = Recording::open_in(path, named.map(|file| file.space))?;
        let (path, jobs) = (path.display().to_string(), arguments.jobs.unwrap_or(1));
        Ok(ReplayedSubject { recording, path, space, space_text, jobs })
    }

    /// `KERNEL-replay-GPU` in letters that a folder may have.
    pub fn default_study(&self) -> String {
        let name = format!("{}-replay-{}", self.recording.kernel, self.recording.gpu);
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' }
        };
        name.chars().map(plain).collect::<String>().trim_start_matches('.').to_string()
    }

    /// `header` is that of the study on a device.
    pub fn start(
        &self,
        header: impl FnOnce(DeviceInfo) -> StudyHeader,
        inbox: &Inbox<RecordedBuild>,
    ) -> Stage<'_, &Recording> {
        let recording = &self.recording;
        let header = StudyHeader {
            space: self.space.clone(),
            space_hash: space_hash(recording, &self.space_text),
            problems: vec![recording.problem.clone()],
            ..header(info(recording))
        };
        Stage {
            recipe: recording,
            compilers: Box::new(ReplayCompilers { jobs: self.jobs, sender: inbox.sender() }),
            lanes: LanePart::only(
                Box::new(ReplayDevice::new(recording)),
                Box::new(NoSanitizer("a recording launches nothing")),
            ),
            header,
            notices: self.notices(),
        }
    }

    fn notices(&self) -> Vec<String> {
        let Recording { name, format, notices, .. } = &self.recording;
        let rows = self.recording.rows().len();
        let first = format!(
            "this is a replay: nothing is compiled or run; the recording of `{name}` answers ({}, {rows} \
             configurations)",
            format.as_str()
        );
        [first].into_iter().chain(notices.iter().cloned()).collect()
    }
}

fn refuse_others(arguments: &SweepArgs) -> Result<(), CliError> {
    let (option, why) = if arguments.worker_command.is_some() {
        ("--worker-command", "a replay has no worker")
    } else if arguments.workers.is_some() {
        ("--workers", "a replay has no worker")
    } else if !arguments.problems.is_empty() {
        ("--problem", "a recording has one problem")
    } else if arguments.sanitize.is_some_and(|when| when != SanitizeWhen::Off) {
        ("--sanitize", "a recording launches nothing")
    } else {
        return Ok(());
    };
    let text = format!("`{option}` cannot be used with `--device {}`: {why}", arguments.device);
    Err(CliError::usage(text).with_hint("leave it out"))
}
