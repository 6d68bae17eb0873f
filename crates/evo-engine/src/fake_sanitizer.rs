//! A sanitizer that costs nothing, for tests of the engine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evo_space::genome::Configuration;

use super::fake::{FakeJob, Log};
use super::ports::{NoSanitizer, Sanitizer, SanitizerAnswer};

/// What the fake sanitizer says of a job.
pub(super) type FakeSanitizer = Arc<dyn Fn(&FakeJob) -> SanitizerAnswer + Send + Sync>;

/// Answers as a test says.
pub(super) struct PlayedSanitizer {
    pub answers: Option<FakeSanitizer>,
    pub log: Arc<Mutex<Log>>,
}

impl Sanitizer<FakeJob> for PlayedSanitizer {
    fn is_there(&self) -> bool {
        self.answers.is_some()
    }

    fn look_ahead(&mut self, configurations: Vec<Configuration>) {
        let labels = configurations.iter().map(ToString::to_string).collect();
        self.log.lock().unwrap().looks_ahead.push(labels);
    }

    fn sanitize(
        &mut self,
        job: &FakeJob,
        _configuration: &Configuration,
        within: Option<Duration>,
    ) -> SanitizerAnswer {
        self.log.lock().unwrap().looks_within.push(within);
        let Some(answers) = &self.answers else { return NoSanitizer("there is none").answer() };
        self.log.lock().unwrap().sanitized.push(job.label.clone());
        answers(job)
    }
}
