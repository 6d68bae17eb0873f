//! From a request to a candidate that can be judged.

use std::time::Instant;

use evo_protocol::binary::KernelSource;
use evo_space::genome::ContentHash;

use super::session::RequestSession;
use crate::cli::error::CliError;
use crate::cli::judge::AskedCandidate;
use crate::cli::one_args::TestOneArgs;
use crate::cli::{candidate, session};
use crate::engine::candidate::{
    CandidateRequest, ConfigurationChoice, ResolvedCandidate, TextChoice, resolve,
};
use crate::kernel::render::render;
use crate::kernel::spec::SpaceFile;
use crate::report::judged::Setting;
use crate::request::ask::{EvaluationLevel, EvaluationRequest, RequestedCandidate};
use crate::request::read;

/// Why there is no verdict.
pub struct Failure {
    pub error: CliError,
    /// It is about the candidate, so its text tells nothing of the task.
    pub is_candidates: bool,
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Failure {
        Failure { error, is_candidates: false }
    }
}

/// A candidate of a request, ready to be judged.
pub struct ReadyRequest {
    pub one: TestOneArgs,
    pub asked: AskedCandidate,
    pub level: EvaluationLevel,
    pub key: ContentHash,
}

impl ReadyRequest {
    /// What decides the answer beside the session; none where a repeated request may get another one: `confirm`
    /// compares with the incumbent of the moment, and an included file may have been edited.
    pub fn answer_key(&self, request: &EvaluationRequest) -> Option<ContentHash> {
        let kernel = self.asked.kernel().ok()?;
        let source = render(kernel, &self.asked.candidate.configuration).ok()?.text;
        let includes = source.contains("#include \"");
        if self.level == EvaluationLevel::Confirm || request.feedback.profile || includes {
            return None;
        }
        let asked = EvaluationRequest { id: serde_json::Value::Null, tag: None, ..request.clone() };
        let parts = [self.key.to_string(), format!("{:?} {asked:?}", self.level), source];
        Some(ContentHash::of_parts(parts.iter().map(String::as_bytes)))
    }
}

/// Compiles a request whose turn comes next, so that the cache has it then.
pub fn compile_ahead(session: &RequestSession<'_>, text: &str) {
    if let (Some(compiler), Some(source)) = (session.compiler(), source_ahead(session, text)) {
        compiler.compile_ahead(&source);
    }
}

/// What the compiler will get for a request whose turn has not come; nothing where it is not known yet.
fn source_ahead(session: &RequestSession<'_>, text: &str) -> Option<KernelSource> {
    let request = read::request(text).ok()?;
    let (limit, level) = session.bounds(&request);
    let ready = ready(session, &request, level, Instant::now() + limit).ok()?;
    if ready.asked.refused().is_some() {
        return None;
    }
    render(ready.asked.kernel().ok()?, &ready.asked.candidate.configuration).ok()
}

/// Finds task and candidate of a request.
pub fn ready(
    session: &RequestSession<'_>,
    request: &EvaluationRequest,
    level: EvaluationLevel,
    until: Instant,
) -> Result<ReadyRequest, Failure> {
    let (space, file) = session.space(request)?;
    let key = ContentHash::of_parts([space.as_bytes(), file.text.as_bytes()]);
    let kernel = session::kernel_of(&file)?.name.clone();
    let mut one = session.arguments.one.clone();
    one.words = vec![space.clone()];
    let setup = session.setup(&request.limits, until);
    let mut resolved =
        resolved(&request.candidate, file, &one).map_err(|error| Failure { error, is_candidates: true })?;
    one.add_grid(&mut resolved.file);
    session::problems(session::kernel_of(&resolved.file)?, setup.choice.kind, &one.problems)?;
    let device = setup.choice.name.clone().unwrap_or_else(|| setup.choice.spec.clone());
    let setting =
        Setting { space: space.clone(), kernel, device, seed: session.seed, repro: repro(session, &space) };
    let asked = AskedCandidate { candidate: resolved, setup, seed: session.seed, setting };
    Ok(ReadyRequest { one, asked, level, key })
}

/// A command line that judges the same request again.
fn repro(session: &RequestSession<'_>, space: &str) -> String {
    let quoted = evo_space::text::quote(space);
    format!(
        "evo evaluate {quoted} --request REQUEST.json --device {} --seed {}",
        session.arguments.one.run.device, session.seed
    )
}

fn resolved(
    own: &RequestedCandidate,
    file: SpaceFile,
    one: &TestOneArgs,
) -> Result<ResolvedCandidate, CliError> {
    if let (Some(entry), Some(kernel)) = (&own.entry, &file.kernel)
        && !kernel.launches.iter().any(|launch| launch.entry == *entry)
    {
        let entries: Vec<String> = kernel.launches.iter().map(|own| format!("`{}`", own.entry)).collect();
        let text = format!("the task launches no entry `{entry}`");
        return Err(CliError::usage(text).with_hint(format!("it launches {}", entries.join(", "))));
    }
    let name = if own.is_template { "candidate.cu.j2" } else { "candidate.cu" };
    let configuration = match &own.configuration {
        None => ConfigurationChoice::Default,
        Some(text) => {
            ConfigurationChoice::Text { name: "candidate.configuration".into(), text: text.clone() }
        }
    };
    let request = CandidateRequest {
        configuration,
        source: own.source.as_deref().map(|text| TextChoice::Given { name, text }),
        launch: own.launches.as_deref().map(|text| TextChoice::Given { name: "candidate.launches", text }),
        out: &one.candidate.out,
        study: None,
        device: candidate::kind_of(&one.run.device),
        render_apart: one.run.access.access().render_apart,
    };
    resolve(file, &request).map_err(candidate::error)
}
