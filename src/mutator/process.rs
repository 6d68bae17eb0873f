//! A mutator's program: started, asked, and given up after its third strike. A strike is an answer that is late, is not
//! the protocol, or does not come because the program ended; the program is then killed with all that it started, and
//! started again when it is needed, after a pause that grows.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evo_protocol::mutator::{
    MUTATOR_LINE_MAX, MUTATOR_VERSION, MutatorAnswer, MutatorMessage, MutatorOrder, MutatorProposal,
    MutatorRequest, MutatorResult, MutatorTask,
};
use serde_json::{Value, json};

use super::records::{MutatorEvent, MutatorRecords};
use super::wire::{self, MutatorLine};
use crate::process::{CappedLog, Conversation, DeathCause, ProcessDeath, ProcessGroup, RunMark, signal_name};

/// Strikes after which a mutator is given up.
pub const STRIKES_MAX: u32 = 3;
/// The pause before a program is started again; it doubles with every strike.
const PAUSE: Duration = Duration::from_millis(500);
/// Bytes kept of what it prints on stderr, and of that in records and messages.
const LOG_MAX: usize = 64 << 10;
const TAIL: usize = 8 << 10;
/// Between the farewell and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(2);
/// Lines beside the answer, before a program counts as one that babbles.
const STRAY_MAX: usize = 64;

/// Where proposals come from.
pub trait Proposer {
    /// Asks for proposals: the number of the question and what came. None when nothing will come any more.
    fn propose(
        &mut self,
        order: &MutatorOrder,
        records: &mut MutatorRecords,
    ) -> Option<(u64, Vec<MutatorProposal>)>;

    /// Tells what became of a proposal.
    fn tell(&mut self, result: &MutatorResult, records: &mut MutatorRecords);

    /// The end; why nothing comes any more, if that is the proposer's doing.
    fn end(&mut self, records: &mut MutatorRecords) -> Option<String>;
}

/// An end from outside, for a mutator that is thinking. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct MutatorStop(Arc<Mutex<StopState>>);

#[derive(Debug, Default)]
struct StopState {
    is_set: bool,
    running: Option<ProcessGroup>,
}

impl MutatorStop {
    /// Kills the program that is running, and lets none begin any more.
    pub fn stop(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_set = true;
        state.running.iter().for_each(ProcessGroup::kill);
    }

    pub fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_set
    }

    /// Takes in a program that began.
    fn running(&self, group: &ProcessGroup) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_set {
            group.kill();
        }
        state.running = Some(group.clone());
    }
}

/// One running program.
#[derive(Debug)]
pub struct MutatorProgram {
    talk: Conversation<Value, Value>,
    group: ProcessGroup,
    // Below the conversation, so that it is dropped after the kill of the group: a program that goes on could start
    // more.
    _mark: RunMark,
}

/// Why an answer does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct MutatorFault {
    /// In one sentence.
    pub why: String,
    /// The end of what the program printed on stderr.
    pub log_tail: String,
    /// Whether the program is gone.
    pub is_dead: bool,
}

impl MutatorProgram {
    /// Starts a program, without asking it anything. It sees no GPU: the device is the judge's.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(words: &[String]) -> io::Result<MutatorProgram> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "its command is empty"));
        };
        let mut command = Command::new(program);
        command.args(arguments).env("CUDA_VISIBLE_DEVICES", "");
        let mark = RunMark::put_on(&mut command);
        let (log, group) = (CappedLog::of_end(LOG_MAX), ProcessGroup::default());
        let talk = Conversation::start(command, MUTATOR_VERSION, group.clone(), log)?;
        Ok(MutatorProgram { talk: talk.with_line_max(MUTATOR_LINE_MAX), group, _mark: mark })
    }

    /// Sends a message, and keeps it.
    pub fn send(&mut self, message: &Value, records: &mut MutatorRecords) {
        self.talk.send_line(message.to_string().as_bytes());
        records.keep(MutatorEvent::Sent(message.clone()));
    }

    /// Waits for the answer to the message of a number. Messages of unknown types are answered by `error`.
    ///
    /// # Errors
    /// None came that counts; the program is dead then, unless it answered with `error`.
    pub fn answer(
        &mut self,
        id: u64,
        limit: Duration,
        records: &mut MutatorRecords,
    ) -> Result<MutatorAnswer, MutatorFault> {
        let since = Instant::now();
        for _ in 0..STRAY_MAX {
            let line = self.talk.receive_line(since, limit).map_err(|death| fault(&death))?;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let read = wire::read(&line).map_err(|why| self.broken(format!("it sent {why}")))?;
            records.keep(MutatorEvent::Received(serde_json::from_slice(&line).unwrap_or_default()));
            match read {
                MutatorLine::Unknown { id, kind } => {
                    let text = format!("this evo does not know messages of the type `{kind}`");
                    let request = MutatorRequest::Error { message: text };
                    self.send(&message(id, &request), records);
                }
                MutatorLine::Answer { id: own, answer: MutatorAnswer::Error { message } } if own == id => {
                    let why = format!("it answered with an error: {}", wire::shown(&message));
                    return Err(MutatorFault { why, log_tail: self.talk.log().tail(TAIL), is_dead: false });
                }
                MutatorLine::Answer { id: own, answer } if own == id => return Ok(answer),
                // About a message that wants no answer, such as a result.
                MutatorLine::Answer { answer: MutatorAnswer::Error { .. }, .. } => {}
                MutatorLine::Answer { id: own, .. } => {
                    return Err(self.broken(format!("it answered message {own}, and {id} is open")));
                }
            }
        }
        Err(self.broken(format!("it sent {STRAY_MAX} lines and no answer")))
    }

    /// Greets it; what it calls itself.
    ///
    /// # Errors
    /// It gave no answer that counts.
    pub fn greet(
        &mut self,
        id: u64,
        task: &MutatorTask,
        limit: Duration,
        records: &mut MutatorRecords,
    ) -> Result<Option<String>, MutatorFault> {
        self.send(&message(id, &MutatorRequest::Hello(Box::new(task.clone()))), records);
        match self.answer(id, limit, records)? {
            MutatorAnswer::Ready { name } => Ok(name),
            _ => Err(self.broken("it answered `hello` with something else than `ready`".to_string())),
        }
    }

    /// Asks it for proposals.
    ///
    /// # Errors
    /// It gave no answer that counts.
    pub fn ask(
        &mut self,
        id: u64,
        order: &MutatorOrder,
        limit: Duration,
        records: &mut MutatorRecords,
    ) -> Result<Vec<MutatorProposal>, MutatorFault> {
        self.send(&message(id, &MutatorRequest::Propose(Box::new(order.clone()))), records);
        match self.answer(id, limit, records)? {
            MutatorAnswer::Proposals { proposals } if proposals.len() <= order.n => Ok(proposals),
            MutatorAnswer::Proposals { proposals } => {
                let (count, most) = (proposals.len(), order.n);
                Err(self.broken(format!("it sent {count} proposals, and {most} were asked for")))
            }
            _ => Err(self.broken("it answered `propose` with something else than `proposals`".to_string())),
        }
    }

    /// Says goodbye; its status, where it ends by itself in time. It is gone in either case.
    pub fn shutdown(mut self, id: u64, records: &mut MutatorRecords) -> Option<ExitStatus> {
        self.send(&message(id, &MutatorRequest::Shutdown), records);
        self.talk.close_input();
        self.talk.status_within(GRACE)
    }

    fn broken(&mut self, why: String) -> MutatorFault {
        let death = self.talk.break_off(why.as_str());
        MutatorFault { why, log_tail: death.log.tail(TAIL), is_dead: true }
    }
}

/// A message of evo's as it is sent.
pub fn message(id: u64, body: &MutatorRequest) -> Value {
    let message = MutatorMessage { v: MUTATOR_VERSION, id, body };
    serde_json::to_value(message).unwrap_or_else(|_| json!({}))
}

fn fault(death: &ProcessDeath) -> MutatorFault {
    let why = match &death.cause {
        DeathCause::Deadline { limit } => format!("no answer within {} s", limit.as_secs_f64()),
        DeathCause::Exit(status) => ending(*status),
        DeathCause::Protocol { found } => format!("it sent {found}"),
    };
    MutatorFault { why, log_tail: death.log.tail(TAIL), is_dead: true }
}

/// How a program ended, in words.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process ended with exit code {code}"),
        (None, Some(signal)) => format!("its process was killed by {}", signal_name(signal)),
        (None, None) => "its process ended".to_string(),
    }
}

/// A mutator that is kept going until its third strike.
#[derive(Debug)]
pub struct LiveMutator {
    words: Vec<String>,
    task: MutatorTask,
    timeout: Duration,
    /// Running; greeted where `greeted`.
    program: Option<MutatorProgram>,
    greeted: bool,
    last_id: u64,
    strikes: u32,
    last_fault: String,
    stop: MutatorStop,
    /// Says a strike to a person.
    say: fn(&str),
}

impl LiveMutator {
    /// Takes over a program that was started and not asked anything yet.
    pub fn new(
        words: Vec<String>,
        program: MutatorProgram,
        task: MutatorTask,
        timeout: Duration,
        say: fn(&str),
    ) -> LiveMutator {
        LiveMutator {
            words,
            task,
            timeout,
            program: Some(program),
            greeted: false,
            last_id: 0,
            strikes: 0,
            last_fault: String::new(),
            stop: MutatorStop::default(),
            say,
        }
    }

    /// The same, which ends where `stop` says so.
    #[must_use]
    pub fn stopped_by(self, stop: MutatorStop) -> LiveMutator {
        self.program.iter().for_each(|program| stop.running(&program.group));
        LiveMutator { stop, ..self }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A program that is ready.
    fn ready(&mut self, records: &mut MutatorRecords) -> Result<&mut MutatorProgram, MutatorFault> {
        let id = self.next_id();
        let program = match &mut self.program {
            Some(program) => program,
            none => {
                self.greeted = false;
                let started = MutatorProgram::start(&self.words).map_err(|error| {
                    let why = format!("it does not start: {error}");
                    MutatorFault { why, log_tail: String::new(), is_dead: true }
                })?;
                self.stop.running(&started.group);
                none.insert(started)
            }
        };
        if !self.greeted {
            program.greet(id, &self.task, self.timeout, records)?;
            self.greeted = true;
        }
        Ok(program)
    }

    fn strike(&mut self, fault: &MutatorFault, records: &mut MutatorRecords) {
        self.strikes += 1;
        self.last_fault.clone_from(&fault.why);
        let (count, why) = (self.strikes, fault.why.clone());
        let last = fault.log_tail.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map_or(String::new(), |line| format!(" (last words: {})", wire::shown(line)));
        (self.say)(&format!("note: the mutator, strike {count} of {STRIKES_MAX}: {why}{last}"));
        records.keep(MutatorEvent::Strike { count, why, log_tail: fault.log_tail.clone() });
        // One that answered `error` to `hello` is not ready either.
        if fault.is_dead || !self.greeted {
            self.program = None;
        }
        if self.strikes < STRIKES_MAX {
            std::thread::sleep(PAUSE * 2u32.pow(self.strikes - 1));
        }
    }
}

impl Proposer for LiveMutator {
    fn propose(
        &mut self,
        order: &MutatorOrder,
        records: &mut MutatorRecords,
    ) -> Option<(u64, Vec<MutatorProposal>)> {
        while self.strikes < STRIKES_MAX && !self.stop.is_set() {
            let limit =
                self.timeout.min(Duration::try_from_secs_f64(order.deadline_s).unwrap_or(self.timeout));
            let asked = match self.ready(records) {
                Ok(_) => {
                    let id = self.next_id();
                    let program = self.program.as_mut()?;
                    program.ask(id, order, limit, records).map(|proposals| (id, proposals))
                }
                Err(fault) => Err(fault),
            };
            match asked {
                Ok(found) => return Some(found),
                // What was killed from outside has done nothing wrong.
                Err(_) if self.stop.is_set() => self.program = None,
                Err(fault) => self.strike(&fault, records),
            }
        }
        None
    }

    fn tell(&mut self, result: &MutatorResult, records: &mut MutatorRecords) {
        let id = self.next_id();
        let request = message(id, &MutatorRequest::Result(Box::new(result.clone())));
        match &mut self.program {
            Some(program) => program.send(&request, records),
            // Kept all the same: the file says what became of each proposal.
            None => records.keep(MutatorEvent::Sent(request)),
        }
    }

    fn end(&mut self, records: &mut MutatorRecords) -> Option<String> {
        let id = self.next_id();
        if let Some(program) = self.program.take() {
            program.shutdown(id, records);
        }
        (self.strikes >= STRIKES_MAX)
            .then(|| format!("it was given up after {STRIKES_MAX} strikes; the last: {}", self.last_fault))
    }
}
