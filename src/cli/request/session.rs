//! What stays from one request to the next: a device with its worker, compilers, and the times of baselines.

use std::sync::Arc;
use std::time::Instant;

use evo_protocol::device::DeviceKind;
use evo_space::genome::ContentHash;

use super::baselines::MeasuredBaselines;
use super::known::KnownAnswers;
use crate::cli::device_lane;
use crate::cli::error::CliError;
use crate::cli::evaluate::EvaluateArgs;
use crate::cli::judge::Aim;
use crate::cli::session::{self, DeviceSetup};
use crate::cli::{opened, seed, words};
use crate::compile::warm::WarmCompiler;
use crate::kernel::spec::SpaceFile;
use crate::request::ask::{EvaluationLevel, EvaluationRequest, RequestLimits, Visibility};
use crate::request::beneath::space_beneath;
use crate::supervise::lane::Lane;

/// A device that has judged a kernel and can judge it again at once.
pub struct WarmTask {
    /// Of the space's name and its text.
    pub key: ContentHash,
    pub lane: Lane,
    pub baselines: MeasuredBaselines,
}

/// The answers of one process.
pub struct RequestSession<'a> {
    pub arguments: &'a EvaluateArgs,
    /// Of the inputs: one for the whole session, so that answers of the reference are computed once.
    pub seed: u64,
    pub warm: Option<WarmTask>,
    pub known: KnownAnswers,
    setup: DeviceSetup,
}

impl<'a> RequestSession<'a> {
    /// A session whose device is chosen and not open yet.
    pub fn begin(arguments: &'a EvaluateArgs) -> Result<RequestSession<'a>, CliError> {
        let one = &arguments.one;
        Aim::Evaluate.check_names(&one.allow_not_run)?;
        let mut setup = session::setup_for(&one.run)?;
        setup.warm = Some(Arc::new(WarmCompiler::start(&setup.farm)?));
        let seed = one.run.seed.map_or_else(seed::random, Ok)?;
        Ok(RequestSession { arguments, seed, warm: None, known: KnownAnswers::default(), setup })
    }

    /// The device and its compilers within what a request may take, and by when it wants its answer.
    pub fn setup(&self, limits: &RequestLimits, until: Instant) -> DeviceSetup {
        let mut setup = self.setup.clone();
        setup.farm.deadline = limits.compile.map_or(setup.farm.deadline, |own| own.min(setup.farm.deadline));
        setup.step_max = match (setup.step_max, limits.run) {
            (Some(own), Some(asked)) => Some(own.min(asked)),
            (own, asked) => own.or(asked),
        };
        setup.until = Some(until);
        setup
    }

    /// The kind of the chosen device.
    pub fn device_kind(&self) -> DeviceKind {
        self.setup.choice.kind
    }

    /// The compilers that stay.
    pub fn compiler(&self) -> Option<&WarmCompiler> {
        self.setup.warm.as_deref()
    }

    /// How long a request may take, and how far it goes.
    pub fn bounds(&self, request: &EvaluationRequest) -> (std::time::Duration, EvaluationLevel) {
        let most = self.arguments.time_limit;
        let limit = request.limits.total.map_or(most, |own| own.min(most));
        let level = match self.arguments.requests.quick {
            true => request.level.unwrap_or(EvaluationLevel::Quick).min(EvaluationLevel::Quick),
            false => request.level.unwrap_or(EvaluationLevel::Confirm),
        };
        (limit, level)
    }

    /// Who reads the answer: the command line decides that it is an agent, or leaves it to the request.
    pub fn visibility(&self, asked: Option<Visibility>) -> Visibility {
        visibility(self.arguments.requests.visibility, asked)
    }

    /// The space of a request: its name, and the file.
    pub fn space(&self, request: &EvaluationRequest) -> Result<(String, SpaceFile), CliError> {
        let name = match (words::named_space(&self.arguments.one.words).named, &request.space) {
            (Some(named), Some(asked)) if named != asked => {
                return Err(CliError::usage("`task.space` is not the space that this evo was started for")
                    .with_hint("leave `task` out")
                    .about_request());
            }
            (Some(named), _) => named.to_string(),
            (None, Some(asked)) => {
                space_beneath(asked).map_err(|refusal| {
                    CliError::usage(refusal.text("`task.space`")).with_hint(refusal.hint()).about_request()
                })?;
                asked.to_string()
            }
            (None, None) => {
                return Err(CliError::usage("the request names no task")
                    .with_hint("add \"task\": {\"space\": \"NAME\"}, or start evo with a space")
                    .about_request());
            }
        };
        let file = opened::space(&name, self.arguments.one.run.access.access())?;
        Ok((name, file))
    }

    /// A lane for a kernel, warm where the last request had the same one; and whether it is new.
    pub fn lane(
        &mut self,
        key: &ContentHash,
        setup: &DeviceSetup,
        file: &SpaceFile,
    ) -> Result<(WarmTask, bool), CliError> {
        if let Some(mut warm) = self.warm.take().filter(|own| own.key == *key) {
            warm.lane.answer_by(setup.until);
            warm.lane.limit_steps(setup.step_max);
            return Ok((warm, false));
        }
        let command = self.arguments.one.run.worker_command.as_deref();
        let lane = device_lane::lane(setup, command, Some(session::kernel_of(file)?))?;
        Ok((WarmTask { key: key.clone(), lane, baselines: MeasuredBaselines::new() }, true))
    }
}

/// Who reads an answer.
pub fn visibility(flag: Option<Visibility>, asked: Option<Visibility>) -> Visibility {
    match flag {
        Some(Visibility::Agent) => Visibility::Agent,
        Some(Visibility::Owner) => asked.unwrap_or(Visibility::Owner),
        None => asked.unwrap_or(Visibility::Agent),
    }
}
