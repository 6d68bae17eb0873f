//! Right answers at tiny and full shapes: two poisons, guards, mutation, comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use evo_device::device::Placement;
use evo_protocol::check::GateCheck;
use evo_protocol::device::{DeviceError, DeviceKind};
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan};
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{Depth, GateAnswer, ReferencePlan, SpecialValues};
use evo_space::text::counted;
use serde_json::{Map, Value, json};

use super::afterwards::{self, PROBE_ELEMENTS};
use super::bench::{Asked, Bench, Failure, GateRun};
use super::case::{self, Case};
use super::element::Poison;
use super::run::{PreparedCase, RunSetting};
use super::wrong::{self, CaseResult};
use super::{command, deep, inputs, kept, npy, parity};

/// After a wrong answer this many further cases are run, to learn what the failing ones share.
const CASES_AFTER_FAILURE: usize = 12;
const TIME_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// The first case of a problem is moved to the other end of its buffers up to this size.
const MOVED_ELEMENTS: u64 = 1 << 25;

/// Readings at which clocks start in two of a problem's runs. A kernel that looks for a moment looks at the low bits or
/// at a remainder, and zero is a multiple of everything.
const CLOCK_ZEROS: u64 = 0;
const CLOCK_ONES: u64 = (1 << 40) - 1;

/// The first failure that is not a wrong answer ends it. At small shapes `Deep` only asks what `Full` has not asked.
pub(super) fn check(run: &mut GateRun<'_>) -> Result<(), DeviceError> {
    let (check, depth, plans) = (run.check.clone(), run.depth, run.plans);
    // Small shapes come first, so large ones need not go over the range of the data type again if these showed it.
    let history = &run.judge.slot(run.slot)?.history;
    let explored = wrong::explored(history);
    let met_small = history.iter().any(|result| result.name.starts_with("tiny:"));
    let (fitting, others): (Vec<&ProblemPlan>, Vec<&ProblemPlan>) =
        plans.iter().partition(|plan| fits_files(&check.reference, plan));
    let skipped = others.len();
    let mut walk = CaseWalk::default();
    let passing = run.gate == Gate::TinyShapes && depth == Depth::Deep;
    if passing {
        let further = deep::shapes(&check, &fitting, history);
        let further = further.filter(|_| check.checks.include(GateCheck::FurtherShapes));
        let cases = walk.through(run, Questions::InPassing { runs: 2 }, further)?;
        run.found.report.evidence.insert("further_shapes", cases);
    } else {
        let cases = case::cases(&check, &fitting, depth, explored)?;
        let began = Instant::now();
        let count = walk.through(run, Questions::Of(depth), cases)?;
        let case_time = began.elapsed() / count.max(1);
        let asks = check.checks.include(GateCheck::FamiliesAtSize);
        if run.gate == Gate::FullShapes && depth == Depth::Deep && asks {
            // Where a single case takes seconds, nobody waits for twenty more.
            let met = match case_time < deep::AT_SIZE * deep::series(&check) {
                true => {
                    let history = &run.judge.slot(run.slot)?.history;
                    let cases = deep::at_size(&check, &fitting, history)?;
                    json!(walk.through(run, Questions::InPassing { runs: 1 }, cases)?)
                }
                false => json!(format!("not met: a case takes {:.1} s", case_time.as_secs_f64())),
            };
            run.found.report.evidence.insert("families_at_size", met);
        }
    }
    if check.checks.include(GateCheck::FurtherSeeds) && (passing || (depth == Depth::Deep && !met_small)) {
        // A second run would find what the shape's own cases have found.
        let questions = Questions::InPassing { runs: 1 };
        let cases = walk.through(run, questions, deep::seeds(&check, &fitting))?;
        run.found.report.evidence.insert("further_seeds", cases);
        let families = deep::while_it_lasts(&check, deep::families(&check, &fitting)?);
        let cases = walk.through(run, questions, families)?;
        run.found.report.evidence.insert("further_families", cases);
    }
    if run.found.verdict.is_some() {
        return Ok(());
    }
    walk.tell(&mut run.found, skipped);
    if check.special_values == SpecialValues::AsDefault {
        let report = &mut run.found.report;
        report.evidence.insert("special_values", "not_run");
        report.message = format!(
            "{}; special values not tried (`as_default`: the default configuration's answers are not taken)",
            report.message
        );
    }
    if run.gate == Gate::FullShapes {
        tell_of_views(&mut run.found, &fitting);
    }
    let report = &mut run.found.report;
    if passing {
        report.message = format!("{}, at shapes drawn by lot and with more seeds", report.message);
    }
    if walk.failed_at.is_some() {
        let history = &run.judge.slot(run.slot)?.history;
        if let Some(verdict) = wrong::classify(history, check.checks, run.gate == Gate::FullShapes) {
            run.found.refuse(verdict);
        }
    } else if report.cases == 0 && skipped == 0 && !passing {
        run.found = nothing_checked(run.gate, &walk.not_taken);
    }
    Ok(())
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
        self == Questions::Of(Depth::Deep) && is_plain(case) && !case.plan.name.starts_with("tiny:")
    }
}

fn is_plain(case: &Case) -> bool {
    case.seed_index == 0 && case.family == inputs::Family::Normal
}

/// What a case shows beside a failure.
#[derive(Default)]
struct Findings {
    /// What is wrong with the answer.
    wrong: Option<Verdict>,
    /// Largest ‖error‖ / ‖answer‖ of its outputs.
    relative_norm: f64,
    parity: Option<Value>,
}

#[derive(Default)]
struct CaseWalk {
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
    fn through(
        &mut self,
        run: &mut GateRun<'_>,
        questions: Questions,
        cases: impl IntoIterator<Item = Case>,
    ) -> Result<u32, DeviceError> {
        let before = run.found.report.cases;
        for case in cases {
            let knows_enough = self.failed_at.is_some_and(|(at, first)| {
                at.elapsed() > TIME_AFTER_FAILURE || self.number - first > CASES_AFTER_FAILURE
            });
            if self.ended || knows_enough {
                break;
            }
            if self.not_taken.contains(&case.plan.name) {
                continue;
            }
            self.number += 1;
            let findings = run_case(run, &case, questions);
            if matches!(questions, Questions::InPassing { .. }) {
                run.judge.forget_case(run.slot, &case)?;
            }
            self.take(run, &case, findings);
        }
        Ok(run.found.report.cases - before)
    }

    fn take(&mut self, run: &mut GateRun<'_>, case: &Case, findings: Result<Findings, Failure>) {
        let findings = match findings {
            Ok(findings) => findings,
            Err(Failure::Kernel(verdict)) => Findings { wrong: Some(*verdict), ..Findings::default() },
            // The reference has no answer, so the case is skipped.
            Err(Failure::Machine(error)) if no_question(&error, case) => {
                match case.family {
                    inputs::Family::Normal => self.not_taken.insert(case.plan.name.clone()),
                    family => self.unanswered.insert(family.as_str()),
                };
                return;
            }
            Err(failure) => {
                run.found.report.cases += 1;
                let verdict = run.judge.blame(failure, case);
                // The wrong answer came first and stays the verdict, whatever crashes later.
                if self.failed_at.is_none() {
                    run.found.refuse(verdict);
                }
                self.ended = true;
                return;
            }
        };
        let report = &mut run.found.report;
        report.cases += 1;
        self.worst = self.worst.max(findings.relative_norm);
        if let Some(parity) = findings.parity {
            self.parity.insert(case.plan.name.clone(), parity);
            report.evidence.insert(GateReport::PARITY, self.parity.clone());
        }
        if findings.wrong.is_some() && self.failed_at.is_none() {
            self.failed_at = Some((Instant::now(), self.number));
        }
        if let Some(slot) = run.judge.slots.get_mut(&run.slot) {
            slot.history.push(CaseResult::of(case, findings.wrong.clone()));
        }
        if let Some(failure) = findings.wrong.filter(|verdict| verdict.kind != VerdictKind::WrongAnswer) {
            run.found.refuse(failure);
            self.ended = true;
        }
    }

    fn tell(&self, found: &mut GateAnswer, skipped: usize) {
        let report = &mut found.report;
        report.message = format!("{} right", counted(report.cases, "case"));
        if !self.not_taken.is_empty() {
            report.evidence.insert(GateReport::NOT_TAKEN, json!(self.not_taken));
        }
        report.evidence.insert("relative_norm_max", wrong::number(self.worst));
        if !self.unanswered.is_empty() {
            report.evidence.insert("families_without_answer", json!(self.unanswered));
        }
        if skipped == 0 {
            return;
        }
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

/// No case had an answer, or there was none. The reference may take none of the derived shapes.
fn nothing_checked(gate: Gate, not_taken: &BTreeSet<String>) -> GateAnswer {
    if not_taken.is_empty() {
        return GateAnswer::not_run(gate, "no problem to check");
    }
    let mut answer = GateAnswer::not_run(gate, "no small shape has an answer; tails not checked");
    answer.report.evidence.insert(GateReport::NOT_TAKEN, json!(not_taken));
    answer.report.evidence.insert(GateReport::TAILS, GateReport::NOT_CHECKED);
    answer
}

/// Says what of each output is compared, where that is not all of it.
fn tell_of_views(found: &mut GateAnswer, plans: &[&ProblemPlan]) {
    let of = |plan: &ProblemPlan| -> BTreeMap<String, String> {
        let viewed = plan.buffers.iter().filter_map(|own| Some((own, own.view.as_ref()?)));
        viewed.map(|(own, view)| (own.name.clone(), view.describe(&own.shape))).collect()
    };
    let said: BTreeMap<&str, BTreeMap<String, String>> =
        plans.iter().map(|plan| (plan.name.as_str(), of(plan))).filter(|(_, own)| !own.is_empty()).collect();
    let Some((problem, outputs)) = said.first_key_value() else { return };
    let outputs: Vec<String> =
        outputs.iter().map(|(name, words)| format!("`{name}` is compared {words}")).collect();
    let report = &mut found.report;
    report.message = format!("{}; {} (`{problem}`)", report.message, outputs.join(", "));
    report.evidence.insert(GateReport::IN_PART, json!(said));
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
        Fill::Npy { path } => shape(path).is_none_or(|found| found == buffer.shape),
        Fill::Raw { path } => std::fs::metadata(path).ok().is_none_or(|file| file.len() == buffer.bytes()),
        _ => true,
    };
    if small && !plan.buffers.iter().all(fits_input) {
        return false;
    }
    let ReferencePlan::Npy { outputs } = reference else { return true };
    outputs.iter().all(|(name, path)| {
        let buffer = plan.buffers.iter().find(|buffer| buffer.name == *name);
        buffer.is_none_or(|buffer| shape(path).is_none_or(|found| found == buffer.shape))
    })
}

fn run_case(run: &mut GateRun<'_>, case: &Case, questions: Questions) -> Result<Findings, Failure> {
    let prepared = run.judge.prepare_case(run.slot, case)?;
    let findings = attempt(&mut Bench { judge: run.judge, prepared: &prepared }, questions);
    let kind = match &findings {
        Ok(findings) => findings.wrong.as_ref().map(|verdict| verdict.kind),
        Err(Failure::Kernel(verdict)) => Some(verdict.kind),
        Err(Failure::Machine(_)) => None,
    };
    if !matches!(kind, Some(VerdictKind::WrongAnswer | VerdictKind::InputMutated)) {
        return findings;
    }
    let intact = prepared.set_intact(run.judge.device())?;
    if intact && kind == Some(VerdictKind::WrongAnswer) {
        return findings;
    }
    // An earlier variant may have written here past all guards, so the case runs again on fresh data.
    if !intact {
        run.judge.pool.drop_set(&prepared.set.key);
    }
    run.judge.at(run.slot, case, |bench| attempt(bench, questions))
}

fn attempt(bench: &mut Bench<'_>, questions: Questions) -> Result<Findings, Failure> {
    let (deterministic, seed, task) = {
        let check = bench.check()?;
        (check.deterministic, check.seed, check.task)
    };
    let prepared = bench.prepared;
    let case = &prepared.case;

    // Runs that differ in everything an honest kernel ignores: what outputs, workspace, shared memory and stacks
    // hold, the order of threads, and which end of a buffer is watched. An element that is never written shows
    // the poison of each run, and stale contents that happen to be right do not survive.
    let mut runs = Vec::new();
    let mut outputs = Vec::new();
    for setting in settings(seed, bench.prepared, questions, bench.device().info().kind) {
        bench.run(setting)?;
        stayed_inside(bench, setting)?;
        // Counted before the next run fills the outputs again.
        let poisoned = bench.prepared.poisoned(bench.device(), setting.outputs)?;
        runs.push(ObservedRun { setting, poisoned, hash: bench.output_hash()? });
        // Where runs may differ, each of them has to be right.
        if !deterministic {
            outputs.extend(bench.compare()?);
        }
    }
    inputs_stay(bench)?;
    let first = &runs[0];
    if let Some(odd) =
        runs.iter().find(|run| run.hash != first.hash && bench.includes(GateCheck::RunAgreement))
    {
        // Before the disagreement is examined, because unwritten elements are its simplest cause: one holds the first
        // poison after the first run and the second after a run that disagrees. Either alone may be an honest integer;
        // NaN is never honest, and outputs that agree cannot hold both.
        let mut pairs = first.poisoned.iter().zip(&odd.poisoned);
        if let Some((_, (position, count))) = pairs.find(|(first, second)| first.1 > 0 && second.1 > 0) {
            return Err(wrong::unwritten(bench.prepared, *position, *count).into());
        }
        if deterministic {
            afterwards::disagree(bench, [(first.setting, first.hash), (odd.setting, odd.hash)])?;
        }
    }
    if deterministic {
        outputs = bench.compare()?;
    }
    let norms = outputs.iter().map(|output| output.comparison.relative_norm());
    let mut findings =
        Findings { relative_norm: norms.fold(0.0, |most, norm| norm.max(most)), ..Findings::default() };
    if questions.wants_parity(case) {
        findings.parity = Some(parity::of(bench.device(), prepared, task)?);
    }
    let hash = if deterministic { Some(bench.output_hash()?) } else { None };
    if let Some(mismatch) = bench.prepared.mismatch(&outputs) {
        findings.wrong = Some(afterwards::explain(bench, &mismatch, hash)?);
        return Ok(findings);
    }
    if let Some(hash) = hash.filter(|_| questions.is_thorough()) {
        afterwards::called_again(bench, hash)?;
    }
    // Once for each problem: whether a kernel reads outside depends on the shape more than on the values.
    if questions.is_thorough() && is_plain(case) {
        afterwards::reads_outside(bench, hash)?;
    }
    Ok(findings)
}

struct ObservedRun {
    setting: RunSetting,
    poisoned: Vec<(usize, u64)>,
    hash: u64,
}

/// Damage outside the outputs is looked for first: after a stray write no other finding is reliable.
fn stayed_inside(bench: &mut Bench<'_>, setting: RunSetting) -> Asked {
    bench.guards_hold()?;
    let Some(position) = bench.prepared.written_although_empty(bench.device(), setting)? else {
        return Ok(());
    };
    let name = &bench.prepared.case.plan.buffers[position].name;
    let verdict = Verdict::new(VerdictKind::OobWrite, format!("writes to `{name}`, which has no elements"));
    Err(bench.about(verdict.with("buffer", name.clone())).into())
}

fn inputs_stay(bench: &mut Bench<'_>) -> Asked {
    let Some(position) = bench.prepared.mutated(&mut bench.judge.pool)? else { return Ok(()) };
    let name = bench.prepared.case.plan.buffers[position].name.clone();
    let verdict = Verdict::new(VerdictKind::InputMutated, format!("input `{name}` is changed"));
    Err(bench.about(verdict.with("buffer", name)).into())
}

/// Every case has two. The case that a contender's problem meets first has two more, and on a GPU only this case, at
/// problems of the file, has other contents of shared memory and a disturbed order, because each of both is a kernel
/// of its own there.
fn settings(seed: u64, prepared: &PreparedCase, questions: Questions, kind: DeviceKind) -> Vec<RunSetting> {
    let case = &prepared.case;
    if let Questions::InPassing { runs } = questions {
        return [Poison::A, Poison::B].into_iter().take(runs).map(RunSetting::plain).collect();
    }
    let first = questions.is_thorough() && is_plain(case);
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

/// What the outputs hold after timed calls, which nothing has filled in between.
pub(super) fn check_written(bench: &mut Bench<'_>) -> Asked {
    let case = &bench.prepared.case;
    bench.guards_hold()?;
    inputs_stay(bench)?;
    let poisoned = bench.prepared.poisoned(bench.device(), Poison::A)?;
    // Floats only: the poison is a NaN there, which is never right, while an integer may equal it.
    let is_left =
        |(position, count): &(usize, u64)| *count > 0 && case.plan.buffers[*position].dtype.is_float();
    let symptom = match poisoned.into_iter().find(is_left) {
        Some((position, count)) => Some(wrong::unwritten(bench.prepared, position, count)),
        None => bench.wrong_answer()?,
    };
    let Some(symptom) = symptom else { return Ok(()) };
    let label = symptom.label();
    kept::is_reset(bench).map_err(|failure| failure.with("symptom", label.clone()))?;
    let message = format!("right when checked, wrong when timed: {}", symptom.message);
    let verdict = Verdict { kind: VerdictKind::TimingEscape, message, ..symptom };
    Err(verdict.with("symptom", label).with_cause("phase_dependent").into())
}
