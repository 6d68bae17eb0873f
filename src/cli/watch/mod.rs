//! `evo report --watch`: the page of a study, live, for this machine's own browser. It reads the journal and writes nothing.

mod follow;
mod request;
mod serve;

use std::net::TcpListener;
use std::sync::Arc;

use super::answer::Answer;
use super::error::CliError;
use super::output;
use super::report::ChosenStudy;
use follow::{Follower, LivePage};
use serve::{PageServer, token};

/// Runs the command. A signal ends it (`guard`), because nothing here needs to be put in order first.
pub fn run(chosen: ChosenStudy, port: u16) -> Result<Answer, CliError> {
    let place = chosen.folder.path().display().to_string();
    let mut follower = Follower::begin(chosen)?;
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| {
        CliError::environment(format!("cannot listen on port {port} of 127.0.0.1: {error}"))
            .with_hint("name another port, or none")
    })?;
    let trouble = |error: std::io::Error| CliError::harness(format!("cannot serve the page: {error}"));
    let port = listener.local_addr().map_err(trouble)?.port();
    let live = Arc::new(LivePage::new(follower.page()?));
    let token = token()?;
    PageServer { token: token.clone(), port, live: Arc::clone(&live) }.start(listener).map_err(trouble)?;
    output::stdout(&format!("http://127.0.0.1:{port}/?token={token}\n"))?;
    output::say(&format!("study: {place}; Ctrl-C ends this"));
    follower.follow(&live)
}
