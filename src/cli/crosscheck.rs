//! `evo crosscheck`: other people's clocks and checks beside evo's own, on the exported form of a candidate.
//!
//! evo judges and times the candidate first, as `evo benchmark` does, and then asks one harness after the other about the
//! same inputs. A row compares; it never becomes a result of the candidate.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::collections::BTreeMap;

use evo_protocol::crosscheck::{CrosscheckProblem, CrosscheckRow, OwnFinding};
use evo_protocol::envelope::EnvelopeStatus;
use serde_json::{Value, json};

use super::answer::Answer;
use super::call::Call;
use super::crosscheck_args::{CrosscheckArgs, Harness};
use super::crosscheck_harness::{
    AskedRole, CrosscheckTask, ExportedOne, HarnessAnswer, HarnessProgram, command_words, why_not_on,
};
use super::error::CliError;
use super::exit_code::ExitCode;
use super::judge::{self, Bench};
use super::judge::{Aim, CROSSCHECK};
use super::{
    candidate, candidate_folder, crosscheck_file, crosscheck_peers, evaluate, output, session, test_one,
};
use crate::engine::candidate::ResolvedCandidate;
use crate::kernel::spec::PeerSpec;
use crate::report::crosscheck::{self as report, CrosscheckSetting};
use crate::report::judged::Compared;

/// What was found, and the file in which it stands.
struct Crosschecked {
    rows: Vec<CrosscheckRow>,
    file: String,
}

/// Runs the command.
pub fn run(arguments: &CrosscheckArgs, call: &Call) -> Result<Answer, CliError> {
    let words = command_words(arguments)?;
    let peers = crosscheck_peers::named(arguments)?;
    let tried = judge::run(
        judge::ask(&arguments.one, call, Aim::Crosscheck)?,
        &arguments.one,
        call,
        Aim::Crosscheck,
        |bench| CrosscheckRun { arguments, call, bench, words: &words, peers: &peers }.run(),
    )?;
    let one = &arguments.one;
    let Some(found) = &tried.found else { return tried.answer(one, call, Aim::Crosscheck, None) };
    let headline = report::headline(&found.rows);
    let text = report::text(&found.rows);
    let ended = tried.ended(one, call, Aim::Crosscheck, absent(arguments, &found.rows), &text)?;
    let checked = tried.judged.checked();
    let mut own = json!(tried.fields(&checked));
    own["rows"] = json!(found.rows);
    own["file"] = json!(found.file);
    own["result"] = json!(tried.brief(&ended));
    own["result"]["headline"] = headline.clone().into();
    own["result"]["rows"] = json!(found.rows);
    let mut answer = ended.answer(&own);
    if found.rows.iter().any(CrosscheckRow::disagrees) && answer.error.is_none() {
        (answer.exit, answer.status) = (ExitCode::Failed, EnvelopeStatus::Fail);
    }
    answer.reasons.extend(why_null(&found.rows));
    output::say(&headline);
    if !call.is_json() {
        output::say(&format!("kept in {}", found.file));
    }
    Ok(answer)
}

/// Harnesses that were named and did not do all that was asked; without names, one has to have done so.
fn absent(arguments: &CrosscheckArgs, rows: &[CrosscheckRow]) -> Vec<&'static str> {
    let is_done = |row: &CrosscheckRow| row.is_complete(row.harness == Harness::Cutlass.as_str());
    let lacks = |own: &&Harness| !rows.iter().filter(|row| row.harness == own.as_str()).all(is_done);
    let named: Vec<&'static str> = arguments.harnesses.iter().filter(lacks).map(|own| own.as_str()).collect();
    // A point of reference checks nothing.
    let checked = rows.iter().any(|row| row.is_complete(false));
    if named.is_empty() && !checked { vec![CROSSCHECK] } else { named }
}

/// Why fields of rows are null.
fn why_null(rows: &[CrosscheckRow]) -> BTreeMap<String, String> {
    let mut reasons = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let Value::Object(fields) = json!(row) else { continue };
        for (name, _) in fields.iter().filter(|(_, value)| value.is_null()) {
            let why = match (name.as_str(), &row.reason) {
                ("reason", _) => "nothing is to be said beside the numbers".to_string(),
                ("faster_than_peer", _) => "the harness timed no peer".to_string(),
                ("version", _) => "the harness did not say it".to_string(),
                ("sign_kept" | "faster_than_baseline", None) => {
                    "one of both has no comparison with the default configuration".to_string()
                }
                (_, Some(reason)) => reason.clone(),
                (_, None) => "the harness did not say it".to_string(),
            };
            reasons.insert(format!("result.rows.{at}.{name}"), why);
        }
    }
    reasons
}

/// One call.
struct CrosscheckRun<'c, 'b, 'a> {
    arguments: &'c CrosscheckArgs,
    call: &'c Call,
    bench: &'b mut Bench<'a>,
    words: &'c [String],
    peers: &'c [PeerSpec],
}

impl CrosscheckRun<'_, '_, '_> {
    fn run(mut self) -> Result<Crosschecked, CliError> {
        let one = &self.arguments.one;
        let (kernel, kind) = (session::kernel_of(self.bench.file)?.name.clone(), self.bench.lane.info().kind);
        let folder = candidate_folder::open(&one.candidate, (&kernel, kind.as_str()), &self.call.facts());
        let folder = crosscheck_file::checked(folder)?;
        // The device's time belongs to one command at a time.
        let _turn = evaluate::take_turn(&one.candidate.out, &self.bench.setup.choice)?;
        let compared = match self.is_default() || !self.bench.single.evaluation.verdict.is_pass() {
            true => None,
            false => Some(test_one::against_default(self.bench)?),
        };
        let setting = self.call.facts();
        let configuration = self.bench.single.evaluation.configuration.to_string();
        let device = self.bench.lane.info().name.clone();
        let setting = CrosscheckSetting {
            kernel: &kernel,
            device: &device,
            configuration: &configuration,
            verdict: &self.bench.single.evaluation.verdict.label(),
            noise_floor: compared.as_ref().and_then(|own| own.noise_floor),
            repro: &setting.repro,
        };
        let handed = self.hand_out(one.run.limits.limit_tool.as_secs_f64())?;
        let (mut rows, mut file) = (Vec::new(), String::new());
        for harness in self.arguments.asked() {
            output::say(&format!("asking {}", harness.as_str()));
            let own = self.rows(harness, &handed, compared.as_ref())?;
            if harness == Harness::Kernelbench {
                let ran_in = handed.as_ref().ok().map(|own| own.task.folder());
                crosscheck_file::keep_report(&folder, ran_in, &own)?;
            }
            rows.extend(own);
            file = crosscheck_file::keep(&folder, &rows, &setting)?;
        }
        Ok(Crosschecked { rows, file })
    }

    /// Whether the candidate is what it would be compared with.
    fn is_default(&self) -> bool {
        let space = &self.bench.file.space;
        let own = &self.bench.single.evaluation.configuration;
        self.arguments.one.candidate.source.is_none() && *own == space.configuration(&space.default_genome())
    }

    /// What harnesses are handed, or why they cannot be asked.
    fn hand_out(&mut self, limit_s: f64) -> Result<Result<Handed, String>, CliError> {
        let task = match CrosscheckTask::new(self.bench, limit_s)? {
            Ok(task) => task,
            Err(why) => return Ok(Err(why)),
        };
        let one = &self.arguments.one;
        let access = one.run.access.access();
        let mut resolved = candidate::resolve(&one.words, &one.candidate, &one.run.device, access)?;
        one.add_grid(&mut resolved.file);
        let ResolvedCandidate { file, configuration, provenance, .. } = &resolved;
        let source_hash = provenance.source_hash.as_ref();
        let own = ExportedOne { role: AskedRole::Candidate, file, configuration, source_hash };
        let candidate = match task.export(self.bench, own)? {
            Ok(problems) => problems,
            Err(why) => return Ok(Err(why)),
        };
        let passed = self.bench.single.evaluation.verdict.is_pass();
        let peers = if passed { self.peers } else { &[] };
        let against_peers = crosscheck_peers::ratios(self.bench, peers, &resolved)?;
        let mut baseline = None;
        if !self.is_default() {
            let file = self.bench.file;
            let configuration = &file.space.configuration(&file.space.default_genome());
            let own = ExportedOne { role: AskedRole::Baseline, file, configuration, source_hash: None };
            baseline = task.export(self.bench, own)?.ok();
        }
        Ok(Ok(Handed { task, candidate, baseline, against_peers }))
    }

    /// One harness about every problem.
    fn rows(
        &self,
        harness: Harness,
        handed: &Result<Handed, String>,
        compared: Option<&Compared>,
    ) -> Result<Vec<CrosscheckRow>, CliError> {
        let kind = self.bench.setup.choice.kind;
        let mut baseline = HarnessAnswer::default();
        let answer = match handed {
            Err(why) => HarnessAnswer::without(why),
            Ok(handed) => match why_not_on(harness, kind, handed.task.is_gemm()) {
                Some(why) => HarnessAnswer::without(why),
                None => {
                    let answer = self.ask(harness, handed, AskedRole::Candidate, &handed.candidate)?;
                    let has_time = answer.lines.iter().any(|own| own.time_ns.is_some());
                    if let Some(problems) =
                        handed.baseline.as_ref().filter(|_| has_time && harness != Harness::Cutlass)
                    {
                        baseline = self.ask(harness, handed, AskedRole::Baseline, problems)?;
                    }
                    answer
                }
            },
        };
        let against_peers = handed.as_ref().ok().map(|own| &own.against_peers);
        let evaluation = &self.bench.single.evaluation;
        let timed = self.bench.job.timed.iter().enumerate();
        Ok(timed
            .map(|(at, plan)| {
                let pair = compared.and_then(|own| own.problems.get(at)).and_then(|own| own.as_ref().ok());
                let own = OwnFinding {
                    correct: Some(evaluation.verdict.is_pass()),
                    measurements: &evaluation.measurements,
                    noise_floor: compared.and_then(|own| own.noise_floor),
                    against_baseline: pair,
                    against_peer: against_peers.and_then(|own| own.get(&plan.name)).copied(),
                };
                let name = harness.as_str();
                match answer.of(&plan.name) {
                    None => CrosscheckRow::not_run(name, &plan.name, own.correct, &answer.why_not),
                    Some(line) if harness == Harness::Cutlass => CrosscheckRow::reference(name, line, &own),
                    Some(line) => CrosscheckRow::judged(name, line, baseline.of(&plan.name), &own),
                }
            })
            .collect())
    }

    fn ask(
        &self,
        harness: Harness,
        handed: &Handed,
        role: AskedRole,
        problems: &[CrosscheckProblem],
    ) -> Result<HarnessAnswer, CliError> {
        let request = handed.task.request(harness, role, problems)?;
        let limit = self.arguments.one.run.limits.limit_tool;
        let program = HarnessProgram { harness, words: self.words, folder: handed.task.folder(), limit };
        Ok(program.ask(&request))
    }
}

/// What harnesses are asked about.
struct Handed {
    task: CrosscheckTask,
    candidate: Vec<CrosscheckProblem>,
    /// The default configuration, unless the candidate is that.
    baseline: Option<Vec<CrosscheckProblem>>,
    /// Candidate's time / the fastest peer's, by problem.
    against_peers: BTreeMap<String, f64>,
}
