//! `evo invert`: harms a kernel on purpose, one resource at a time, and ranks the resources by what that costs.
//!
//! Harmed variants are typed apart: what is measured of one is an [`InvertDose`] and never an evaluation, so no board,
//! prior, seed, gate or export can take it. The study's journal keeps them as `diagnostic`.

use evo_protocol::device::DeviceKind;
use evo_protocol::invert::{InvertDose, InvertRow, ranked};
use evo_protocol::known::Known;
use evo_space::diagnostic::nearest;
use serde_json::{Value, json};

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::invert_args::InvertArgs;
use super::invert_counters::{self, HarmCounters};
use super::invert_file::{self, InvertSubject, Inverted};
use super::invert_harmed::HarmJournal;
use super::invert_harmed::{HarmBench, HarmedCopy};
use super::judge::{self, Bench, Tried};
use super::judge::{Aim, INVERT};
use super::{candidate, session};
use crate::kernel::harm::{self, HarmPlan};
use crate::kernel::spec::KernelSpec;
use crate::report::invert;

/// Runs the command.
pub fn run(arguments: &InvertArgs, call: &Call) -> Result<Answer, CliError> {
    let one = &arguments.one;
    let access = one.run.access.access();
    let file = candidate::resolve(&one.words, &one.candidate, &one.run.device, access)?.file;
    check_names(&arguments.only, session::kernel_of(&file)?)?;
    if one.problems.len() > 1 {
        let text = format!("`--problem` {} times: a kernel is harmed on one problem", one.problems.len());
        return Err(CliError::usage(text).with_hint("call `evo invert` once for each problem"));
    }
    let tried = judge::run(judge::ask(one, call, Aim::Invert)?, one, call, Aim::Invert, |bench| {
        harm_all(arguments, call, bench)
    })?;
    let Some(found) = tried.found.as_ref() else { return tried.answer(one, call, Aim::Invert, None) };
    let text = invert::text(&found.rows, &found.problem, found.noise_floor);
    let absent = (!found.rows.iter().any(InvertRow::is_finding)).then_some(INVERT);
    let ended = tried.ended(one, call, Aim::Invert, absent, &text)?;
    let checked = tried.judged.checked();
    let mut own = json!(tried.fields(&checked));
    let not_compared = "the unharmed kernel could not be compared with itself";
    own["rows"] = json!(found.rows);
    own["problem"] = json!(found.problem);
    own["noise_floor"] = json!(Known::of(found.noise_floor, not_compared));
    own["journal"] = json!(Known::from(found.journal.clone()));
    own["counters"] = json!(Known::from(found.counters.clone()));
    own["result"] = json!(tried.brief(&ended));
    own["result"]["rows"] = json!(found.rows);
    let answer = ended.answer(&own);
    if let Err(why) = &found.journal {
        if !call.is_json() {
            super::output::say(&format!("note: harmed copies are in no journal: {why}"));
        }
    }
    keep(arguments, call, &tried, found, answer)
}

/// Writes the files beside the study's; what was found is shown also where that fails.
fn keep(
    arguments: &InvertArgs,
    call: &Call,
    tried: &Tried<Inverted>,
    found: &Inverted,
    mut answer: Answer,
) -> Result<Answer, CliError> {
    let subject = InvertSubject {
        evaluation: &tried.judged.single.evaluation,
        kernel: &tried.setting.kernel,
        kind: tried.judged.device.as_ref().map_or(DeviceKind::Host, |device| device.kind),
        device: &tried.setting.device,
        repro: &tried.setting.repro,
    };
    match invert_file::keep(arguments, call, &subject, found) {
        Ok(path) => {
            if let Ok(Value::Object(mut own)) = serde_json::from_str(&answer.own) {
                own.insert("file".to_string(), path.as_str().into());
                answer.own = Value::Object(own).to_string();
            }
            if !call.is_json() {
                super::output::say(&format!("kept in {path}"));
            }
            Ok(answer)
        }
        Err(error) => Ok(answer.despite(error)),
    }
}

/// Refuses names of `--only` that the kernel has no pathology for.
fn check_names(only: &[String], kernel: &KernelSpec) -> Result<(), CliError> {
    let Some(unknown) = only.iter().find(|name| !harm::named(kernel, name)) else { return Ok(()) };
    let known = harm::names(kernel);
    let hint = match nearest(unknown, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    Err(CliError::usage(format!("`--only {unknown}`: there is no such pathology")).with_hint(hint))
}

fn harm_all(arguments: &InvertArgs, call: &Call, bench: &mut Bench<'_>) -> Result<Inverted, CliError> {
    let mut bench = HarmBench::new(&arguments.one, bench)?;
    let mut journal = HarmJournal::open(arguments, call, &bench)?;
    let plans = harm::plans(bench.kernel()?, &bench.facts(), &arguments.only);
    let mut counters = HarmCounters::open(arguments, &bench, &plans)?;
    let mut found = Inverted {
        rows: Vec::new(),
        problem: bench.problem().to_string(),
        noise_floor: bench.noise_floor(),
        journal: journal.kept(),
        counters: counters.as_ref().map(HarmCounters::version).map_err(String::clone),
    };
    let (repro, kernel) = (call.facts().repro, bench.kernel()?.name.clone());
    for plan in plans {
        found.rows.push(row(&mut bench, &mut journal, counters.as_mut().ok(), plan)?);
        found.rows = ranked(found.rows);
        let device = bench.facts().device;
        let (kind, device) = (device.kind, device.name.as_str());
        let evaluation = bench.evaluation();
        let subject = InvertSubject { evaluation, kernel: &kernel, kind, device, repro: &repro };
        // What an interrupt leaves. Whether the files can be written is told at the end, when all rows are in them.
        let _ = invert_file::keep(arguments, call, &subject, &found);
    }
    found.journal = journal.kept();
    Ok(found)
}

fn row(
    bench: &mut HarmBench<'_, '_>,
    journal: &mut HarmJournal,
    counters: Option<&mut HarmCounters>,
    plan: HarmPlan,
) -> Result<InvertRow, CliError> {
    let HarmPlan { name, resource, unit, try_next, lightens, shows_as, moves, doses } = plan;
    let mut row = InvertRow::of(name, resource, try_next);
    let not_run = |why: String| format!("not run: {why}");
    let doses = match doses {
        Ok(doses) => doses,
        Err(why) => return Ok(InvertRow { how_known: not_run(why), ..row }),
    };
    let mut timed = None;
    for dose in doses {
        match bench.measure(&dose, lightens)? {
            Ok(HarmedCopy { dose, job }) => {
                let found = InvertDose { unit: unit.clone(), ..dose };
                journal.keep(&row, lightens, &found);
                timed = job.map(|job| (job, found.what.clone())).or(timed);
                row.doses.push(found);
            }
            Err(why) => return Ok(InvertRow { how_known: not_run(why), ..row }),
        }
    }
    row.happened = row.doses.iter().filter_map(|dose| dose.changed).reduce(|one, other| one || other);
    let is_measured = row.doses.iter().any(|dose| dose.ratio.is_some());
    row.how_known = match row.doses.first() {
        _ if row.happened == Some(false) => {
            "no_effect: machine code and launches are the unharmed kernel's".to_string()
        }
        Some(first) if !is_measured => format!("not measured: {}", first.verdict),
        _ => shows_as.to_string(),
    };
    if let (Some(counters), Some((job, dose)), false) = (counters, timed, moves.is_empty()) {
        row = invert_counters::judged(row, lightens, counters.look(&moves, &job, &dose)?);
    }
    if row.happened == Some(false) {
        return Ok(row);
    }
    if lightens {
        // Answers are wrong, so only the time that is left says something.
        let ratios = row.doses.iter().filter(|dose| dose.has_changed()).filter_map(|dose| dose.ratio);
        row.upper_bound_of_cure_ratio = ratios.reduce(f64::min);
        return Ok(row);
    }
    Ok(row.sloped())
}
