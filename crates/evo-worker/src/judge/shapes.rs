//! Right answers at tiny and full shapes: two poisons, guards, mutation, comparison.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use evo_device::device::Placement;
use evo_protocol::check::GateCheck;
use evo_protocol::device::{DeviceError, DeviceKind};
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan};
use evo_protocol::verdict::{Cause, Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{Depth, GateAnswer, ReferencePlan, SpecialValues};
use evo_space::text::counted;
use serde_json::{Map, Value, json};

use super::afterwards::{self, PROBE_ELEMENTS};
use super::bench::Bench;
use super::case::{self, Case};
use super::element::Poison;
use super::run::{self, ComparedOutput, PhaseSink, PreparedCase, RunSetting};
use super::state::Judge;
use super::wrong::{self, CaseResult};
use super::{command, deep, disagree, inputs, npy, parity, views, workspace};

/// After a wrong answer this many further cases are run, to learn what the failing ones share.
const CASES_AFTER_FAILURE: usize = 12;
const TIME_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// The first case of a problem is moved to the other end of its buffers up to this size.
const MOVED_ELEMENTS: u64 = 1 << 25;

/// Readings at which clocks start in two of a problem's runs. A kernel that looks for a moment looks at the low bits or
/// at a remainder, and zero is a multiple of everything.
const CLOCK_ZEROS: u64 = 0;
const CLOCK_ONES: u64 = (1 << 40) - 1;

struct Seen {
    failure: Option<Verdict>,
    /// Largest ‖error‖ / ‖answer‖ of its outputs.
    relative_norm: f64,
    parity: Option<Value>,
}

/// The first failure that is not a wrong answer ends it. At small shapes `Deep` only asks what `Full` has not asked.
pub(super) fn check(
    judge: &mut Judge,
    slot: u8,
    gate: Gate,
    depth: Depth,
    plans: &[ProblemPlan],
    phase: &mut PhaseSink<'_>,
) -> Result<GateAnswer, DeviceError> {
    let check = judge.slot(slot)?.candidate.check.clone();
    // Small shapes come first, so large ones need not go over the range of the data type again if these showed it.
    let history = &judge.slot(slot)?.history;
    let explored = wrong::explored(history);
    let met_small = history.iter().any(|result| result.name.starts_with("tiny:"));
    let (fitting, others): (Vec<&ProblemPlan>, Vec<&ProblemPlan>) =
        plans.iter().partition(|plan| fits_files(&check.reference, plan));
    let skipped = others.len();
    let mut walk = CaseWalk::begin(gate);
    let passing = gate == Gate::TinyShapes && depth == Depth::Deep;
    if passing {
        let further = deep::shapes(&check, &fitting, &judge.slot(slot)?.history);
        let judged = check.checks.include(GateCheck::FurtherShapes);
        let further = further.filter(|_| judged);
        let seen = walk.through(judge, slot, Questions::InPassing { runs: 2 }, further, phase)?;
        walk.found.report.evidence.insert("further_shapes", seen);
    } else {
        let cases = case::cases(&check, &fitting, depth, explored)?;
        let began = Instant::now();
        let count = walk.through(judge, slot, Questions::Of(depth), cases, phase)?;
        // Where a single case takes seconds, nobody waits for twenty more.
        let is_quick = began.elapsed() < deep::AT_SIZE * deep::series(&check) * count.max(1);
        let judged = check.checks.include(GateCheck::FamiliesAtSize);
        if gate == Gate::FullShapes && depth == Depth::Deep && is_quick && judged {
            let cases = deep::at_size(&check, &fitting, &judge.slot(slot)?.history)?;
            let seen = walk.through(judge, slot, Questions::InPassing { runs: 1 }, cases, phase)?;
            walk.found.report.evidence.insert("families_at_size", seen);
        }
    }
    let judged = check.checks.include(GateCheck::FurtherSeeds);
    if judged && (passing || (depth == Depth::Deep && !met_small)) {
        let seeds = deep::seeds(&check, &fitting);
        // A second run would find what the shape's own cases have found.
        let seen = walk.through(judge, slot, Questions::InPassing { runs: 1 }, seeds, phase)?;
        walk.found.report.evidence.insert("further_seeds", seen);
        let families = deep::while_it_lasts(&check, deep::families(&check, &fitting)?);
        let seen = walk.through(judge, slot, Questions::InPassing { runs: 1 }, families, phase)?;
        walk.found.report.evidence.insert("further_families", seen);
    }
    if walk.found.verdict.is_some() {
        return Ok(walk.found);
    }
    let failed = walk.failed_at.is_some();
    let mut found = walk.conclude(skipped);
    tell_of_special_values(&mut found, check.special_values);
    if gate == Gate::FullShapes {
        views::tell(&mut found, &fitting);
    }
    if passing {
        found.report.message =
            format!("{}, at shapes drawn by lot and with more seeds", found.report.message);
    }
    if failed {
        if let Some(verdict) = wrong::classify(&judge.slot(slot)?.history, check.checks) {
            found.refuse(only_large(judge, slot, gate, verdict));
        }
    } else if found.report.cases == 0 && skipped == 0 && !passing {
        return Ok(nothing_checked(gate, found));
    }
    Ok(found)
}

/// How much is asked at a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Questions {
    /// What the depth asks.
    Of(Depth),
    /// So many plain runs and a comparison, and the case's data is given up at once: nobody asks again.
    InPassing { runs: usize },
}

impl Questions {
    fn is_thorough(self) -> bool {
        matches!(self, Questions::Of(Depth::Full | Depth::Deep))
    }

    /// Whether a person will want to see the plain parity: of each problem of the file once, at full depth.
    fn wants_parity(self, case: &Case) -> bool {
        let plain = case.seed_index == 0 && case.family == inputs::Family::Normal;
        self == Questions::Of(Depth::Deep) && plain && !case.plan.name.starts_with("tiny:")
    }
}

struct CaseWalk {
    found: GateAnswer,
    worst: f64,
    parity: Map<String, Value>,
    unanswered: BTreeSet<&'static str>,
    not_taken: BTreeSet<String>,
    /// When the first answer was wrong, and which case it was.
    failed_at: Option<(Instant, usize)>,
    number: usize,
    ended: bool,
}

impl CaseWalk {
    fn begin(gate: Gate) -> CaseWalk {
        let found = GateAnswer::begin(gate);
        CaseWalk {
            found,
            worst: 0.0,
            parity: Map::new(),
            unanswered: BTreeSet::new(),
            not_taken: BTreeSet::new(),
            failed_at: None,
            number: 0,
            ended: false,
        }
    }

    fn through(
        &mut self,
        judge: &mut Judge,
        slot: u8,
        questions: Questions,
        cases: impl IntoIterator<Item = Case>,
        phase: &mut PhaseSink<'_>,
    ) -> Result<u32, DeviceError> {
        let before = self.found.report.cases;
        for case in cases {
            if self.ended || self.knows_enough() {
                break;
            }
            if self.not_taken.contains(&case.plan.name) {
                continue;
            }
            self.number += 1;
            let seen = run_case(judge, slot, &case, questions, phase);
            if matches!(questions, Questions::InPassing { .. }) {
                judge.forget_case(slot, &case)?;
            }
            self.take(judge, slot, &case, seen);
        }
        Ok(self.found.report.cases - before)
    }

    fn knows_enough(&self) -> bool {
        self.failed_at.is_some_and(|(at, first)| {
            at.elapsed() > TIME_AFTER_FAILURE || self.number - first > CASES_AFTER_FAILURE
        })
    }

    fn take(&mut self, judge: &mut Judge, slot: u8, case: &Case, seen: Result<Seen, DeviceError>) {
        let seen = match seen {
            Ok(seen) => seen,
            // The reference has no answer, so the case is skipped.
            Err(error) if no_question(&error, case) && case.family == inputs::Family::Normal => {
                self.not_taken.insert(case.plan.name.clone());
                return;
            }
            Err(error) if no_question(&error, case) => {
                self.unanswered.insert(case.family.as_str());
                return;
            }
            Err(error) => {
                self.found.report.cases += 1;
                judge.note_error(&error);
                // The wrong answer came first and stays the verdict, whatever crashes later.
                if self.failed_at.is_none() {
                    self.found.refuse(wrong::from_error(&error, case));
                }
                self.ended = true;
                return;
            }
        };
        self.found.report.cases += 1;
        self.worst = self.worst.max(seen.relative_norm);
        if let Some(parity) = seen.parity {
            self.parity.insert(case.plan.name.clone(), parity);
            self.found.report.evidence.insert(GateReport::PARITY, self.parity.clone());
        }
        if seen.failure.is_some() && self.failed_at.is_none() {
            self.failed_at = Some((Instant::now(), self.number));
        }
        let result = CaseResult::of(case, seen.failure.clone());
        if let Some(own) = judge.slots.get_mut(&slot) {
            own.history.push(result);
        }
        if let Some(failure) = seen.failure.filter(|own| own.kind != VerdictKind::WrongAnswer) {
            self.found.refuse(failure);
            self.ended = true;
        }
    }

    fn conclude(self, skipped: usize) -> GateAnswer {
        let CaseWalk { mut found, worst, unanswered, not_taken, .. } = self;
        if !not_taken.is_empty() {
            found.report.evidence.insert(GateReport::NOT_TAKEN, json!(not_taken));
        }
        found.report.evidence.insert("relative_norm_max", wrong::number(worst));
        tell_what_was_left_out(&mut found, &unanswered, skipped);
        found
    }
}

/// No case had an answer, or there was none. The reference may take none of the derived shapes.
fn nothing_checked(gate: Gate, found: GateAnswer) -> GateAnswer {
    let Some(shapes) = found.report.evidence.get(GateReport::NOT_TAKEN).cloned() else {
        return GateAnswer::not_run(gate, "no problem to check");
    };
    let mut answer = GateAnswer::not_run(gate, "no small shape has an answer; tails not checked");
    answer.report.evidence.insert(GateReport::NOT_TAKEN, shapes);
    answer.report.evidence.insert(GateReport::TAILS, GateReport::NOT_CHECKED);
    answer
}

fn tell_of_special_values(found: &mut GateAnswer, wanted: SpecialValues) {
    if wanted == SpecialValues::AsDefault {
        let report = &mut found.report;
        report.evidence.insert("special_values", "not_run");
        report.message = format!(
            "{}; special values not tried (`as_default`: the default configuration's answers are not taken)",
            report.message
        );
    }
}

fn tell_what_was_left_out(found: &mut GateAnswer, unanswered: &BTreeSet<&str>, skipped: usize) {
    let report = &mut found.report;
    report.message = format!("{} right", counted(report.cases, "case"));
    if !unanswered.is_empty() {
        report.evidence.insert("families_without_answer", json!(unanswered));
    }
    if skipped > 0 {
        report.evidence.insert("problems_without_reference", skipped);
        if report.cases == 0 {
            report.state = GateState::NotRun;
            if report.gate == Gate::TinyShapes {
                // As where none was asked for: a variant ranks without, and the board says so.
                report.evidence.insert(GateReport::TAILS, GateReport::NOT_CHECKED);
            }
        }
        let missed = counted(skipped, "problem");
        report.message = format!("{}; {missed} without a matching file of inputs or answers", report.message);
    }
}

/// A command that fails has not said that there is no answer.
fn no_question(error: &DeviceError, case: &Case) -> bool {
    let task = error.kind == VerdictKind::HarnessError && error.cause.as_deref() == Some("task");
    // A derived shape is ours: that the task has no answer at a single element is not its author's fault.
    let derived = case.plan.name.starts_with("tiny:");
    task && !command::is_failure(error) && !error.sticky && (case.family != inputs::Family::Normal || derived)
}

/// Whether files of inputs and answers, which are made for one shape, have the shape of this plan.
pub(super) fn fits_files(reference: &ReferencePlan, plan: &ProblemPlan) -> bool {
    let shape = |path: &std::path::Path| {
        let file = std::fs::File::open(path).ok()?;
        Some(npy::NpyHeader::read(file).ok()?.shape)
    };
    // A file that cannot be read is not skipped: reading the case's data will report what is wrong with it. Nor is a
    // problem of the file whose inputs do not fit, because that is a mistake.
    let small = plan.name.starts_with("tiny:");
    let fits_input = |buffer: &BufferPlan| match &buffer.fill {
        Fill::Npy { path } => shape(path).is_none_or(|own| own == buffer.shape),
        Fill::Raw { path } => std::fs::metadata(path).ok().is_none_or(|own| own.len() == buffer.bytes()),
        _ => true,
    };
    if small && !plan.buffers.iter().all(fits_input) {
        return false;
    }
    let ReferencePlan::Npy { outputs } = reference else { return true };
    outputs.iter().all(|(name, path)| {
        let own = plan.buffers.iter().find(|buffer| buffer.name == *name);
        match (own, shape(path)) {
            (Some(own), Some(shape)) => own.shape == shape,
            _ => true,
        }
    })
}

/// Everything small is right and everything large is grossly wrong: the kernel tells sizes apart.
fn only_large(judge: &Judge, slot: u8, gate: Gate, verdict: Verdict) -> Verdict {
    if gate != Gate::FullShapes || !verdict.has_cause(Cause::Value) {
        return verdict;
    }
    let Ok(own) = judge.slot(slot) else { return verdict };
    if !own.candidate.check.checks.include(GateCheck::NameLargeSizes) {
        return verdict;
    }
    let largest = own.history.iter().filter(|r| r.failure.is_none()).map(|r| r.elements).max();
    let smallest = own.history.iter().filter(|r| r.failure.is_some()).map(|r| r.elements).min();
    match (largest, smallest) {
        (Some(right), Some(wrong)) if right < wrong => {
            verdict.with("symptom", Cause::Value.as_str()).with_cause(Cause::TimedShape)
        }
        _ => verdict,
    }
}

fn run_case(
    judge: &mut Judge,
    slot: u8,
    case: &Case,
    questions: Questions,
    phase: &mut PhaseSink<'_>,
) -> Result<Seen, DeviceError> {
    let prepared = judge.prepare_case(slot, case, phase)?;
    let seen = attempt(&mut Bench::new(judge, &prepared, phase), questions)?;
    let suspicious = seen
        .failure
        .as_ref()
        .is_some_and(|own| matches!(own.kind, VerdictKind::WrongAnswer | VerdictKind::InputMutated));
    if !suspicious {
        return Ok(seen);
    }
    let mutated = seen.failure.as_ref().is_some_and(|own| own.kind == VerdictKind::InputMutated);
    let intact = prepared.set_intact(judge.device.as_mut())?;
    if intact && !mutated {
        return Ok(seen);
    }
    // An earlier variant may have written here past all guards, so the case runs again on fresh data.
    if !intact {
        let key = prepared.set.key.clone();
        judge.pool.drop_set(judge.device.as_mut(), &key);
    }
    let fresh = judge.prepare_case(slot, case, phase)?;
    attempt(&mut Bench::new(judge, &fresh, phase), questions)
}

fn attempt(bench: &mut Bench<'_>, questions: Questions) -> Result<Seen, DeviceError> {
    let check = &bench.judge.slot(bench.prepared.slot)?.candidate.check;
    let (deterministic, task) = (check.deterministic, check.task);
    let case = &bench.prepared.case;
    let failed = |verdict: Verdict| Ok(Seen { failure: Some(verdict), relative_norm: 0.0, parity: None });

    // Runs that differ in everything an honest kernel ignores: what outputs, workspace, shared memory and stacks
    // hold, the order of threads, and which end of a buffer is watched. An element that is never written shows
    // the poison of each run, and stale contents that happen to be right do not survive.
    let settings = settings(check.seed, bench.prepared, questions, bench.judge.device.info().kind);
    let runs = match observe(bench, settings)? {
        Ok(runs) => runs,
        Err(verdict) => return failed(verdict),
    };
    if let Some(position) = bench.prepared.mutated(bench.judge.device.as_mut(), &mut bench.judge.pool)? {
        return failed(input_mutated(bench.prepared, position));
    }
    let agree = bench.includes(GateCheck::RunAgreement);
    let odd = runs[1..].iter().find(|run| run.hash != runs[0].hash).filter(|_| agree);
    // Before the disagreement is examined, because unwritten elements are its simplest cause.
    if let Some(verdict) = odd.and_then(|odd| unwritten(bench.prepared, &runs[0].poisoned, &odd.poisoned)) {
        return failed(verdict);
    }
    if let Some(odd) = odd.filter(|_| deterministic) {
        let pair = [(runs[0].setting, runs[0].hash), (odd.setting, odd.hash)];
        return failed(disagree::explain(bench, pair)?);
    }
    let outputs: Vec<ComparedOutput> = match deterministic {
        true => bench.compare()?,
        false => runs.into_iter().flat_map(|run| run.outputs).collect(),
    };
    let relative_norm = largest_norm(&outputs);
    let parity = match questions.wants_parity(case) {
        true => Some(parity::of(bench.judge.device.as_mut(), bench.prepared, task)?),
        false => None,
    };
    let hash = match deterministic {
        true => Some(bench.output_hash()?),
        false => None,
    };
    let mismatch = bench.prepared.mismatch(&outputs);
    if let (None, Some(hash), true) = (&mismatch, hash, questions.is_thorough())
        && let Some(verdict) = afterwards::called_again(bench, hash)?
    {
        return failed(verdict);
    }
    let failure = match mismatch {
        Some(mismatch) => Some(afterwards::explain(bench, &mismatch, hash)?),
        // Once for each problem: whether a kernel reads outside depends on the shape more than on the values.
        None if questions.is_thorough() && case.seed_index == 0 && case.family == inputs::Family::Normal => {
            afterwards::reads_outside(bench, hash)?
        }
        None => None,
    };
    Ok(Seen { failure, relative_norm, parity })
}

fn observe(
    bench: &mut Bench<'_>,
    settings: Vec<RunSetting>,
) -> Result<Result<Vec<ObservedRun>, Verdict>, DeviceError> {
    let case = &bench.prepared.case;
    let deterministic = bench.judge.slot(bench.prepared.slot)?.candidate.check.deterministic;
    let mut runs = Vec::new();
    for setting in settings {
        bench.run(setting)?;
        // Damage outside the outputs is looked for first: after a stray write no other finding is reliable.
        if let Some(verdict) = wrong::out_of_bounds(&run::guards(bench.device())?, case) {
            return Ok(Err(verdict));
        }
        if let Some(position) = bench.prepared.written_although_empty(bench.device(), setting)? {
            let name = &case.plan.buffers[position].name;
            let verdict =
                Verdict::new(VerdictKind::OobWrite, format!("writes to `{name}`, which has no elements"));
            return Ok(Err(wrong::about(verdict.with("buffer", name.clone()), case)));
        }
        // Counted before the next run fills the outputs again.
        let poisoned = bench.prepared.poisoned(bench.device(), setting.outputs)?;
        let hash = bench.output_hash()?;
        // Where runs may differ, each of them has to be right.
        let outputs = match deterministic {
            true => Vec::new(),
            false => bench.compare()?,
        };
        runs.push(ObservedRun { setting, poisoned, hash, outputs });
    }
    Ok(Ok(runs))
}

struct ObservedRun {
    setting: RunSetting,
    poisoned: Vec<(usize, u64)>,
    hash: u64,
    /// Only where runs may differ.
    outputs: Vec<ComparedOutput>,
}

/// Every case has two. The case that a contender's problem meets first has two more, and on a GPU only this case, at
/// problems of the file, has other contents of shared memory and a disturbed order, because each of both is a kernel
/// of its own there.
fn settings(seed: u64, prepared: &PreparedCase, questions: Questions, kind: DeviceKind) -> Vec<RunSetting> {
    let case = &prepared.case;
    if let Questions::InPassing { runs } = questions {
        return [Poison::A, Poison::B].into_iter().take(runs).map(RunSetting::plain).collect();
    }
    let first = questions.is_thorough() && case.seed_index == 0 && case.family == inputs::Family::Normal;
    // Moving large buffers to their other end costs more than the launch.
    let small = case.elements() <= if first { MOVED_ELEMENTS } else { PROBE_ELEMENTS };
    let other_end = if small { Placement::Start } else { Placement::End };
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(case.name().as_bytes());
    let drawn = u64::from_le_bytes(hasher.finalize().as_bytes()[..8].try_into().unwrap_or_default());
    // The host's orders of an even seed and the next one are opposite: what matters comes first in one of them.
    let order = |number: u64| Some((drawn & !1) + number);
    let small_shape = case.plan.name.starts_with("tiny:");
    // In half of the cases workspace looks like anything that a kernel may have left there.
    let ordinary = |otherwise: Poison| if drawn >> 1 & 1 == 1 { Poison::D } else { otherwise };
    if kind == DeviceKind::Cuda && (!first || small_shape) {
        let second = RunSetting { scratch: ordinary(Poison::B), ..RunSetting::plain(Poison::B) };
        return vec![RunSetting::plain(Poison::A), second];
    }
    let mut settings = vec![
        RunSetting::disturbed(Poison::A, None, Placement::End),
        RunSetting { scratch: ordinary(Poison::B), ..RunSetting::disturbed(Poison::B, order(0), other_end) },
    ];
    if first {
        settings[1] = settings[1].at_clock(CLOCK_ZEROS);
        settings.push(RunSetting::disturbed(Poison::C, order(1), Placement::End).at_clock(CLOCK_ONES));
    }
    // Whoever takes NaN and huge values for rubbish believes this. Half of the other cases are enough.
    if first || (kind == DeviceKind::Host && drawn >> 2 & 1 == 1) {
        settings.push(RunSetting::disturbed(Poison::B, order(2), Placement::End).on_ordinary_residue());
    }
    settings
}

fn largest_norm(outputs: &[ComparedOutput]) -> f64 {
    outputs.iter().fold(0.0, |most, own| own.comparison.relative_norm().max(most))
}

fn input_mutated(prepared: &PreparedCase, position: usize) -> Verdict {
    let name = prepared.case.plan.buffers[position].name.clone();
    let verdict = Verdict::new(VerdictKind::InputMutated, format!("input `{name}` is changed"));
    wrong::about(verdict.with("buffer", name), &prepared.case)
}

/// An element that holds the first poison after the first run and the second after a run that disagrees.
/// Either alone may be an honest integer; NaN is never honest, and outputs that agree cannot hold both.
fn unwritten(prepared: &PreparedCase, first: &[(usize, u64)], second: &[(usize, u64)]) -> Option<Verdict> {
    let mut pairs = first.iter().zip(second);
    let ((position, _), (_, count)) = pairs.find(|((_, first), (_, second))| *first > 0 && *second > 0)?;
    Some(wrong::unwritten(prepared, &prepared.case.plan.buffers[*position], *count))
}

pub(super) fn check_written(bench: &mut Bench<'_>) -> Result<Option<Verdict>, DeviceError> {
    let case = &bench.prepared.case;
    if let Some(verdict) = wrong::out_of_bounds(&run::guards(bench.device())?, case) {
        return Ok(Some(verdict));
    }
    if let Some(position) = bench.prepared.mutated(bench.judge.device.as_mut(), &mut bench.judge.pool)? {
        return Ok(Some(input_mutated(bench.prepared, position)));
    }
    let poisoned = bench.prepared.poisoned(bench.device(), Poison::A)?;
    // Floats only: the poison is a NaN there, which is never right, while an integer may equal it.
    let left = poisoned
        .into_iter()
        .find(|(position, count)| *count > 0 && case.plan.buffers[*position].dtype.is_float());
    let symptom = match left {
        Some((position, count)) => {
            Some(wrong::unwritten(bench.prepared, &case.plan.buffers[position], count))
        }
        None => bench.wrong_answer()?,
    };
    let Some(symptom) = symptom else { return Ok(None) };
    if let Some(verdict) = workspace::not_reset(bench)? {
        return Ok(Some(verdict.with("symptom", symptom.label())));
    }
    let mut verdict = symptom.clone();
    verdict.kind = VerdictKind::TimingEscape;
    verdict.message = format!("right when checked, wrong when timed: {}", symptom.message);
    let verdict = verdict.with("symptom", symptom.label()).with_cause("phase_dependent");
    Ok(Some(verdict))
}
