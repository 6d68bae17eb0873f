//! `evo bench`: candidates and other people's implementations over shapes, judged and timed in one run.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use evo_protocol::bench::{BenchRun, MeanRatio};
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::{EnvelopeStatus, ErrorCode};
use evo_protocol::measurement::TimingMode;
use evo_space::diagnostic::Diagnostics;
use evo_space::document::suggestion;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::candidate::{self, CandidateArgs, named};
use super::judge::HARNESSES;
use super::{
    Answer, Call, CliError, DeviceSetup, ExitCode, Result, TestOneArgs, cache, evaluate, judge, output,
    peers, seed, session, words,
};
use crate::bench::{
    self, BenchCandidate, BenchError, BenchFile, BenchFolder, BenchOrder, BenchOutcome, BenchRow,
    Implementation, OwnCandidate, RowStatus,
};
use crate::engine::candidate::{self as find, ResolvedCandidate};
use crate::journal::error::JournalError;
use crate::kernel::catalog;
use crate::kernel::label::{LABEL_HINT, LABEL_MAX, is_label};
use crate::kernel::load::candidate as load;
use crate::kernel::spec::{KernelSpec, PeerSpec, ProblemSpec, SpaceFile};
use crate::peer::{PeerSeat, SHIPPED};
use crate::report::study::NamedEvaluation;
use crate::supervise::lane::Lane;

/// `evo crosscheck`, which is `evo bench` of one candidate with `--clock`
#[derive(Clone, Debug, Args)]
pub struct CrosscheckArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Who measures one candidate too, each of whom has to do so then: nvbench, torch, kernelbench, cutlass, command
    #[arg(
        long = "clock",
        alias = "harness",
        value_parser = HARNESSES,
        value_name = "A,B",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub clocks: Vec<String>,
    /// A program of yours for the clock `command`; the path of a request becomes its last argument
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// A peer that evo times beside it: `torch`, `python`, or the name of one in `[[peers]]` (repeatable) [default of `bench`: those of the files]
    #[arg(long = "peer", value_name = "NAME")]
    pub peers: Vec<String>,
}

#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    pub with: CrosscheckArgs,
    /// Canonical problems and the ranking mode only, in under a minute
    #[arg(long, conflicts_with_all = ["clocks", "command"])]
    pub quick: bool,
    /// A candidate as other commands take its words, quoted, or @portfolio for the fastest of each problem (repeatable) [default: those of the file, else @champion, else @baseline]
    #[arg(long = "candidate", value_name = "WORDS", value_parser = named, conflicts_with_all = ["clocks", "command"])]
    pub candidates: Vec<String>,
    /// A timing mode: `hot`, `cold` or `eager` (repeatable) [default: those of the file, else hot and cold]
    #[arg(long = "mode", hide_possible_values = true, value_parser = mode(), value_name = "MODE", conflicts_with_all = ["clocks", "command"])]
    pub modes: Vec<TimingMode>,
    /// Rounds of two blocks each [default: 6, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["clocks", "command"])]
    pub rounds: Option<u32>,
    /// The run's name, part of its folder's: OUT/bench/DEVICE/DATE-NAME [default: that of the file or the space]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["clocks", "command"])]
    pub name: Option<String>,
}

impl BenchArgs {
    /// Whether other people's clocks measure one candidate, which is `evo crosscheck`.
    pub fn is_crosscheck(&self) -> bool {
        !self.with.clocks.is_empty() || self.with.command.is_some()
    }
}

fn mode() -> impl TypedValueParser<Value = TimingMode> {
    let value = |mode: &TimingMode| {
        PossibleValue::new(mode.as_str()).help(match mode {
            TimingMode::Hot => "Calls back to back",
            TimingMode::Cold => "Each call after the caches were flushed",
            TimingMode::Eager => "Each call with its launch",
        })
    };
    PossibleValuesParser::new(TimingMode::ALL.iter().map(value))
        .try_map(|word| TimingMode::named(&word).ok_or("it is not a mode"))
}

/// Rounds of two blocks: twelve blocks give an interval, and six are the fewest of which one is claimed.
const ROUNDS: u32 = 6;
const ROUNDS_QUICK: u32 = 3;
/// A quick run begins no shape after this.
const QUICK: Duration = Duration::from_secs(45);

pub fn run(arguments: &BenchArgs, call: &Call) -> Result<Answer> {
    let CrosscheckArgs { one: TestOneArgs { candidate: place, allow_not_run, run: options, .. }, .. } =
        &arguments.with;
    options.limits.begin(call)?;
    let setup = session::setup_for(options)?;
    let seed = options.seed.map_or_else(seed::random, Ok)?;
    let plan = plan(arguments, &setup, seed)?;
    let run = &plan.run;
    let repro = call.chose(Some(&setup.choice.spec), seed);
    if let [(_, only)] = &plan.candidates[..] {
        session::candidate(call, only);
    }
    check_allowed(allow_not_run, &plan)?;
    let seats = peers::start(&plan.peers, &setup.choice.spec, arguments.quick)?;
    let kernel = session::kernel_of(&plan.space)?;
    let mut lane = session::lane(&setup, Some(kernel))?;
    let names: Vec<String> = plan.shapes.iter().map(|shape| shape.name.clone()).collect();
    session::know_device(call, lane.info(), seed, &names);
    let named: Vec<_> = plan.candidates.iter().map(|(name, resolved)| (name.as_str(), resolved)).collect();
    let own = unbuilt(&named, &plan.shapes, &setup, &mut lane, seed)?;
    // From here on others wait: two at once would disturb each other's times.
    let _turn = evaluate::take_turn(&place.out, &setup.choice)?;
    let made = folder(&place.out, &plan, &mut lane, repro);
    let mut folder = made.map_err(|error| JournalError::io("make", &place.out.join("bench"), error))?;
    let path = folder.path().display().to_string();
    let mut so_far = json!(run);
    so_far["folder"] = path.as_str().into();
    so_far["result"] = json!(BenchBrief { folder: &path, rows: BTreeMap::new(), summary: &[], why: &[] });
    call.know_so_far(Answer::of(ExitCode::Done, &so_far));
    let order = BenchOrder {
        run,
        lane: &mut lane,
        kernel,
        own,
        peers: seats,
        shapes: &plan.shapes,
        deep: !run.quick,
        until: run.quick.then(|| Instant::now() + QUICK),
        cache: setup.farm.cache.clone(),
    };
    let mut keep = |rows: &[BenchRow], all: &[Implementation]| folder.keep(("unfinished", &[]), rows, all);
    let (rows, implementations) =
        bench::run(order, &mut |prepared| judge::compile(&setup, prepared), &mut keep)?;
    let BenchOutcome { status, why, allowed } =
        bench::outcome(&rows, &implementations, !plan.peers.is_empty(), allow_not_run);
    folder.keep((status.as_str(), &why), &rows, &implementations).map_err(|error| files(&error))?;

    let means = bench::summary(&rows, &implementations);
    let count = |status: &RowStatus| rows.iter().filter(|row| row.status == *status).count();
    let counts = RowStatus::ALL.iter().map(|status| (status.as_str(), count(status))).collect();
    let sentences: String = means.iter().map(|mean| format!("{}\n", bench::sentence(mean))).collect();
    let lines = bench::printed(&rows, &implementations, run.ranking_mode);
    call.show(&format!("{lines}{sentences}kept in {path}\n"))?;
    for why in why.iter().take(10) {
        output::say(&format!("{}: {why}", status.as_str()));
    }
    let exit = if status == EnvelopeStatus::Pass { ExitCode::Done } else { ExitCode::Failed };
    let own = BenchAnswer {
        run,
        folder: &path,
        implementations: &implementations,
        rows: &rows,
        summary: &means,
        why: &why,
        result: BenchBrief { folder: &path, rows: counts, summary: &means, why: &why },
    };
    Ok(Answer { status, allowed_not_run: allowed, ..Answer::of(exit, &own) })
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BenchAnswer<'a> {
    #[serde(flatten)]
    run: &'a BenchRun,
    folder: &'a str,
    implementations: &'a [Implementation],
    rows: &'a [BenchRow],
    summary: &'a [MeanRatio],
    why: &'a [String],
    result: BenchBrief<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BenchBrief<'a> {
    folder: &'a str,
    /// How many have each status.
    rows: BTreeMap<&'static str, usize>,
    summary: &'a [MeanRatio],
    why: &'a [String],
}

/// The run's folder, with what it runs on.
fn folder(out: &Path, plan: &BenchPlan, lane: &mut Lane, repro: String) -> io::Result<BenchFolder> {
    let info = lane.info().clone();
    let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let peers = plan
        .peers
        .iter()
        .map(|peer| json!({ "name": peer.name, "command": peer.command, "timeout_s": peer.timeout_s }));
    let environment = json!({
        "evo": env!("CARGO_PKG_VERSION"),
        "at": at,
        "command": repro,
        "environment": cache::look(),
        "device": info,
        "telemetry": lane.telemetry(),
        "gates": lane.judge(),
        "seed": plan.run.seed,
        "peers": peers.collect::<Vec<Value>>(),
    });
    BenchFolder::create(out, plan.run.clone(), info.name, (at, repro), &environment)
}

fn files(error: &io::Error) -> CliError {
    let text = format!("cannot write the files of the benchmark: {error}");
    CliError::harness(text)
        .with_hint("the folder of `--out` and the cache (`EVO_CACHE_DIR`) need room on the disk")
}

/// Refuses names of `--allow-not-run` that nothing can have.
fn check_allowed(allowed: &[String], plan: &BenchPlan) -> Result<()> {
    let mut known: Vec<&str> = plan.peers.iter().map(|own| own.name.as_str()).collect();
    known.extend(plan.candidates.iter().map(|(name, _)| name.as_str()));
    known.extend(plan.shapes.iter().map(|shape| shape.name.as_str()));
    let is_known = |name: &&String| {
        let peer = name.split('/').next().unwrap_or_default();
        known.contains(&name.as_str())
            || (name.contains('/') && plan.peers.iter().any(|own| own.name == peer))
    };
    let Some(unknown) = allowed.iter().find(|name| !is_known(name)) else { return Ok(()) };
    let hint = suggestion(unknown, known, || {
        "name a problem, a peer, or an implementation of one as `PEER/NAME`".to_string()
    });
    let text = format!("`--allow-not-run {unknown}`: nothing that runs here has this name");
    Err(CliError::usage(text).with_hint(hint))
}

/// Candidates with their names in rows, before any is built. They will be asked for these shapes.
fn unbuilt<'a>(
    named: &[(&str, &'a ResolvedCandidate)],
    shapes: &'a [ProblemSpec],
    setup: &DeviceSetup,
    lane: &mut Lane,
    seed: u64,
) -> Result<Vec<OwnCandidate<'a>>> {
    let problems: Vec<_> = shapes.iter().collect();
    let mut all = Vec::new();
    for (name, resolved) in named {
        let kernel = session::kernel_of(&resolved.file)?;
        let recipe =
            session::recipe(kernel, &[], setup, lane.info(), seed)?.serving(problems.iter().copied());
        if all.is_empty() {
            judge::rehearse(lane, kernel, &problems, &resolved.configuration, &recipe)?;
        }
        let version = resolved.provenance.source_hash.as_ref().map(|hash| hash.short().to_string());
        let (space, configuration) = (&resolved.file.space, resolved.configuration.clone());
        all.push(OwnCandidate::new(name.to_string(), version, space, configuration, recipe));
    }
    Ok(all)
}

/// The rows of candidates and peers in the mode that ranks, for commands that keep none of them.
pub fn rows(
    named: &[(&str, &ResolvedCandidate)],
    peers: Vec<PeerSeat>,
    shapes: &[ProblemSpec],
    setup: &DeviceSetup,
    lane: &mut Lane,
    seed: u64,
    deep: bool,
) -> Result<Vec<BenchRow>> {
    let Some((_, first)) = named.first() else { return Ok(Vec::new()) };
    let kernel = session::kernel_of(&first.file)?;
    let ranking_mode = kernel.objective.ranking.timing();
    let run = BenchRun {
        name: kernel.name.clone(),
        space: session::space_word(&first.file),
        kernel: kernel.name.clone(),
        seed,
        quick: false,
        modes: vec![ranking_mode],
        ranking_mode,
        rounds: ROUNDS,
    };
    let own = unbuilt(named, shapes, setup, lane, seed)?;
    let cache = setup.farm.cache.clone();
    let order = BenchOrder { run: &run, lane, kernel, own, peers, shapes, deep, until: None, cache };
    let compile = &mut |prepared: &_| judge::compile(setup, prepared);
    bench::run(order, compile, &mut |_, _| Ok(())).map(|(rows, _)| rows)
}

impl From<BenchError> for CliError {
    fn from(error: BenchError) -> CliError {
        match error {
            BenchError::Lost(why) => CliError::device(why),
            BenchError::Files(error) => files(&error),
        }
    }
}

const PORTFOLIO: &str = "@portfolio";

#[derive(Debug)]
struct BenchPlan {
    run: BenchRun,
    space: SpaceFile,
    /// With their names in rows.
    candidates: Vec<(String, ResolvedCandidate)>,
    shapes: Vec<ProblemSpec>,
    peers: Vec<PeerSpec>,
}

fn plan(arguments: &BenchArgs, setup: &DeviceSetup, seed: u64) -> Result<BenchPlan> {
    let CrosscheckArgs { one, peers: named_peers, .. } = &arguments.with;
    let words = words::named_space(&one.words);
    let target = words.space()?;
    let is_file = Path::new(&target).is_file() && !catalog::names().contains(&target.as_str());
    let file = if is_file { bench::read_bench_file(Path::new(&target))? } else { None };
    let mut wanted = file.unwrap_or_else(|| BenchFile { space: target, ..BenchFile::default() });
    let space = words::space(&wanted.space, one.run.limits.access())?;
    let kernel = session::kernel_of(&space)?;
    let name = match (&arguments.name, wanted.name.as_str()) {
        (Some(name), _) if is_label(name) => name.clone(),
        (Some(name), _) => {
            let text = format!("`--name {name}` cannot be a name");
            return Err(CliError::usage(text).with_hint(LABEL_HINT));
        }
        (None, "") => kernel.name.clone(),
        (None, name) => name.to_string(),
    };
    let shapes = shapes(arguments, &wanted, kernel, &space, setup.choice.kind)?;
    let mut candidates: Vec<BenchCandidate> = Vec::new();
    if !words.values.is_empty() || one.candidate.is_given() {
        let CandidateArgs { config, source, launch, .. } = one.candidate.clone();
        candidates.push(BenchCandidate { name: None, words: words.values.to_vec(), config, source, launch });
    }
    candidates.extend(arguments.candidates.iter().map(|text| BenchCandidate::of_words(text)));
    if !candidates.is_empty() {
        wanted.candidates = candidates;
    }
    let candidates = self::candidates(one, wanted.candidates, (&wanted.space, &space))?;
    let peers = peers(named_peers, wanted.peers, kernel)?;
    if let Some((own, _)) = candidates.iter().find(|(own, _)| peers.iter().any(|peer| peer.name == *own)) {
        return Err(
            CliError::usage(format!("`{own}` is a candidate and a peer")).with_hint("rename one of them")
        );
    }
    let usual = vec![TimingMode::Hot, TimingMode::Cold];
    let lists = [arguments.modes.clone(), wanted.modes, usual];
    let mut modes = lists.into_iter().find(|modes| !modes.is_empty()).unwrap_or_default();
    let ranking = kernel.objective.ranking.timing();
    let ranking_mode = if modes.contains(&ranking) { ranking } else { modes[0] };
    let quick = arguments.quick;
    if quick {
        modes = vec![ranking_mode];
    }
    modes.dedup();
    let run = BenchRun {
        name,
        space: session::space_word(&space),
        kernel: kernel.name.clone(),
        seed,
        quick,
        modes,
        ranking_mode,
        rounds: arguments.rounds.unwrap_or(if quick { ROUNDS_QUICK } else { ROUNDS }),
    };
    Ok(BenchPlan { run, candidates, shapes, peers, space })
}

fn shapes(
    arguments: &BenchArgs,
    file: &BenchFile,
    kernel: &KernelSpec,
    space: &SpaceFile,
    kind: DeviceKind,
) -> Result<Vec<ProblemSpec>> {
    let mut diagnostics = Diagnostics::default();
    let mut shapes = if file.has_shapes {
        let shown = file.path.display().to_string();
        let problems = load::grid_problems(&shown, &file.text, space, bench::KEYS)?;
        let is_here = |device: &str| device == kind.as_str();
        bench::of_problems(problems.iter().filter(|problem| problem.device.as_deref().is_none_or(is_here)))
    } else {
        bench::of_kernel(kernel, kind)
    };
    let hint = |name: &str| {
        let known = shapes.iter().map(|shape| shape.name.as_str());
        suggestion(name, known.clone(), || {
            format!("there are {}", known.take(20).collect::<Vec<_>>().join(", "))
        })
    };
    let is_known = |name: &str| shapes.iter().any(|shape| shape.name == name);
    for (name, span) in file.problems.iter().filter(|(name, _)| !is_known(name)) {
        let text = format!("`{}` has no timed problem `{name}` on {}", kernel.name, kind.as_str());
        diagnostics.error_with_hint(span.clone(), text, hint(name));
    }
    if !diagnostics.is_empty() {
        return Err(file.error(&diagnostics).into());
    }
    let of_line = &arguments.with.one.problems;
    if let Some(name) = of_line.iter().find(|name| !is_known(name)) {
        let text = format!("there is no problem `{name}` on {}", kind.as_str());
        return Err(CliError::usage(text).with_hint(hint(name)));
    }
    let of_file: Vec<String> = file.problems.iter().map(|(name, _)| name.clone()).collect();
    let lists = [&of_file, of_line];
    shapes.retain(|shape| match lists.iter().all(|names| names.is_empty()) {
        true => !shape.on_request,
        false => lists.iter().all(|names| names.is_empty() || names.contains(&shape.name)),
    });
    if arguments.quick && shapes.iter().any(|shape| shape.canonical) {
        shapes.retain(|shape| shape.canonical);
    }
    if shapes.is_empty() {
        let text = format!("`{}` has no timed problem on {}", kernel.name, kind.as_str());
        return Err(
            CliError::usage(text).with_hint("add one to `[[problems]]`, or write a benchmark file with some")
        );
    }
    Ok(shapes)
}

/// `named` is the space as it was named, and opened.
fn candidates(
    one: &TestOneArgs,
    wanted: Vec<BenchCandidate>,
    (space, opened): (&str, &SpaceFile),
) -> Result<Vec<(String, ResolvedCandidate)>> {
    let resolve = |own: &BenchCandidate| {
        let files = [&own.config, &own.source, &own.launch].map(Clone::clone);
        one.other(space, own.words.iter().cloned(), files)
    };
    if wanted.is_empty() {
        let usual = |name: &str| Ok(vec![(name.to_string(), resolve(&BenchCandidate::of_words(name))?)]);
        return usual("@champion").or_else(|error: CliError| {
            output::say(&format!("note: the default configuration takes part: {}", error.first_line()));
            usual("@baseline")
        });
    }
    let mut members = Vec::new();
    for candidate in wanted {
        match candidate.words.as_slice() {
            [word] if word == PORTFOLIO => members.extend(portfolio(one, opened)?),
            _ => members.push(candidate),
        }
    }
    let names = names(&members)?.into_iter();
    names.zip(&members).map(|(name, member)| Ok((name, resolve(member)?))).collect()
}

fn portfolio(one: &TestOneArgs, space: &SpaceFile) -> Result<Vec<BenchCandidate>> {
    let device = candidate::kind_of(&one.run.device);
    let all = find::portfolio(space, &one.candidate.out, one.candidate.study.as_deref(), device);
    let of = |own: NamedEvaluation| BenchCandidate {
        name: Some(format!("@{}", own.number)),
        words: own.configuration.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        ..BenchCandidate::default()
    };
    Ok(all.map_err(candidate::error)?.into_iter().map(of).collect())
}

/// The peers that take part: those of the files, or those that the command line names.
fn peers(named: &[String], of_file: Vec<PeerSpec>, kernel: &KernelSpec) -> Result<Vec<PeerSpec>> {
    let mut known = of_file;
    for peer in &kernel.peers {
        if !known.iter().any(|other| other.name == peer.name) {
            known.push(peer.clone());
        }
    }
    let wanted = if named.is_empty() { known } else { peers::all_named(named, &known)? };
    let is_empty = |own: &&PeerSpec| own.command.is_empty() && !SHIPPED.contains(&own.name.as_str());
    match wanted.iter().find(is_empty) {
        Some(own) => {
            let text =
                format!("the peer `{}` has no `command`, and none of this name comes with evo", own.name);
            let hint = format!("add command = […], or name one of {}", SHIPPED.join(", "));
            Err(CliError::usage(text).with_code(ErrorCode::BadFile).at(peers::place(own)).with_hint(hint))
        }
        None => Ok(wanted),
    }
}

/// Names of candidates in rows, each once: those that were given, else words. Where words are too long for a column, the
/// later of two equal beginnings has a number.
fn names(members: &[BenchCandidate]) -> Result<Vec<String>> {
    let whole: Vec<String> = members.iter().map(name_of).collect();
    let mut found: Vec<String> = Vec::new();
    for (index, full) in whole.iter().enumerate() {
        if whole[..index].contains(full) {
            let text = format!("two candidates are called `{}`", cut(full, LABEL_MAX));
            return Err(CliError::usage(text).with_hint("give them names: `{ name = \"…\", words = \"…\" }`"));
        }
        let numbered = (2..).map(|number| format!(" #{number}"));
        let mut names = [String::new()].into_iter().chain(numbered);
        let name = names.find_map(|end| {
            Some(cut(full, LABEL_MAX - end.len()) + &end).filter(|name| !found.contains(name))
        });
        found.extend(name);
    }
    Ok(found)
}

fn cut(text: &str, length: usize) -> String {
    text.chars().take(length).collect()
}

/// A candidate as rows name it, however long. A slash would look like a peer's.
fn name_of(own: &BenchCandidate) -> String {
    let stem = |path: &std::path::PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let file = own.source.as_ref().or(own.config.as_ref()).and_then(stem);
    let words = own.words.join(" ");
    let name = own.name.clone().unwrap_or_else(|| match (file, words.is_empty()) {
        (Some(file), true) => file,
        (Some(file), false) => format!("{file} {words}"),
        (None, false) => words,
        (None, true) => "@baseline".to_string(),
    });
    name.replace('/', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(words: &str) -> BenchCandidate {
        BenchCandidate::of_words(words)
    }

    #[test]
    fn names_too_long_for_a_column_stay_apart() {
        let shared: Vec<String> = (0..20).map(|own| format!("PARAMETER_{own}=1")).collect();
        let long = |end: &str| candidate(&format!("{} {end}", shared.join(" ")));
        assert_eq!(names(&[candidate("A=1 B=1"), candidate("A=1 B=2")]).unwrap(), ["A=1 B=1", "A=1 B=2"]);
        let alone = names(&[long("LAST=1")]).unwrap();
        assert!(alone[0].starts_with("PARAMETER_0=1") && alone[0].len() == LABEL_MAX);
        // The first two begin alike.
        let three = names(&[long("LAST=1"), long("LAST=2"), candidate("OTHER=1")]).unwrap();
        assert!(three[1].ends_with(" #2") && three[1].len() == LABEL_MAX && three[0] != three[1]);
    }

    #[test]
    fn the_same_name_twice_is_refused() {
        let named = |name: &str| BenchCandidate { name: Some(name.to_string()), ..candidate("A=1") };
        assert_eq!(names(&[named("x"), named("y")]).unwrap(), ["x", "y"]);
        assert!(names(&[named("x"), named("x")]).is_err());
    }
}
