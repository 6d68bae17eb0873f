//! What a self-test is asked, and how it is refused.

use evo::cli::error::CliError;
use evo::cli::session::DeviceSetup;
use evo_protocol::device::DeviceError;

pub struct Order {
    pub setup: DeviceSetup,
    pub only: Option<String>,
    pub seed: u64,
    pub count: Option<usize>,
}

impl Order {
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    /// `--only` names nothing that there is.
    pub fn names_nothing(&self, kind: &str, hint: String) -> CliError {
        let only = self.only.as_deref().unwrap_or_default();
        CliError::usage(format!("no {kind} has `{only}` in its name")).with_hint(hint)
    }
}

pub fn failed(error: DeviceError) -> CliError {
    CliError::environment(error.to_string())
}
