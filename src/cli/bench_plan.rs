//! What a command line of `evo bench` asks for: candidates, shapes, modes and peers. Nothing is written yet.

use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::ErrorCode;
use evo_protocol::measurement::TimingMode;
use evo_space::diagnostic::{Diagnostics, nearest};

use super::bench_args::BenchArgs;
use super::candidate::{self, CandidateArgs};
use super::error::CliError;
use super::session::{self, DeviceSetup};
use super::{bench_names, opened, output, peers};
use crate::bench::{self, BenchCandidate, BenchFile, BenchShape};
use crate::engine::candidate::{self as find, ResolvedCandidate};
use crate::kernel::catalog;
use crate::kernel::label::{LABEL_HINT, is_label};
use crate::kernel::spec::{KernelSpec, PeerSpec, SpaceFile};
use crate::peer::SHIPPED;
use crate::report::study::NamedEvaluation;

/// Stands for all members of the portfolio.
const PORTFOLIO: &str = "@portfolio";

/// What takes part.
#[derive(Debug)]
pub struct BenchPlan {
    pub name: String,
    pub space: SpaceFile,
    /// With their names in rows.
    pub candidates: Vec<(String, ResolvedCandidate)>,
    pub shapes: Vec<BenchShape>,
    pub modes: Vec<TimingMode>,
    pub ranking: TimingMode,
    pub peers: Vec<PeerSpec>,
}

/// Reads everything that the command line and its files ask for.
pub fn plan(arguments: &BenchArgs, setup: &DeviceSetup) -> Result<BenchPlan, CliError> {
    let target = opened::space_name(arguments.target.as_deref())?;
    let is_file = std::path::Path::new(&target).is_file() && !catalog::names().contains(&target.as_str());
    let file = if is_file { bench::read_bench_file(std::path::Path::new(&target))? } else { None };
    let named = file.as_ref().map_or(target.as_str(), |file| file.space.as_str());
    let space = opened::space(named, arguments.run.access.access())?;
    let kernel = session::kernel_of(&space)?;
    let name = match (&arguments.name, &file) {
        (Some(name), _) if is_label(name) => name.clone(),
        (Some(name), _) => {
            let text = format!("`--name {name}` cannot be a name");
            return Err(CliError::usage(text).with_hint(LABEL_HINT));
        }
        (None, Some(file)) => file.name.clone(),
        (None, None) => kernel.name.clone(),
    };
    let shapes = shapes(arguments, file.as_ref(), kernel, &space, setup.choice.kind)?;
    let candidates = candidates(arguments, file.as_ref(), (named, &space))?;
    let peers = peers(arguments, file.as_ref(), kernel)?;
    if let Some((own, _)) = candidates.iter().find(|(own, _)| peers.iter().any(|peer| peer.name == *own)) {
        return Err(
            CliError::usage(format!("`{own}` is a candidate and a peer")).with_hint("rename one of them")
        );
    }
    let ranking = kernel.objective.ranking.timing();
    let asked: Vec<TimingMode> = arguments.modes.iter().map(|mode| mode.timing()).collect();
    let of_file = file.as_ref().map(|file| file.modes.clone()).filter(|modes| !modes.is_empty());
    let mut modes = match (asked.is_empty(), of_file) {
        (false, _) => asked,
        (true, Some(modes)) => modes,
        (true, None) => vec![TimingMode::Hot, TimingMode::Cold],
    };
    let ranking = if modes.contains(&ranking) { ranking } else { modes[0] };
    if arguments.quick {
        modes = vec![ranking];
    }
    modes.dedup();
    Ok(BenchPlan { name, candidates, shapes, modes, ranking, peers, space })
}

fn shapes(
    arguments: &BenchArgs,
    file: Option<&BenchFile>,
    kernel: &KernelSpec,
    space: &SpaceFile,
    kind: DeviceKind,
) -> Result<Vec<BenchShape>, CliError> {
    let mut diagnostics = Diagnostics::default();
    let grid = file.and_then(|file| file.grid.as_ref().map(|grid| (file, grid)));
    let mut shapes = match grid {
        Some((file, grid)) => {
            let found = bench::of_grid(grid, kernel, &space.space, &mut diagnostics);
            found.ok_or_else(|| CliError::from(file.error(&diagnostics)))?
        }
        None => bench::of_problems(kernel, kind),
    };
    let hint = |name: &str| {
        let known = shapes.iter().map(|shape| shape.problem.name.as_str());
        match nearest(name, known.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", known.take(20).collect::<Vec<_>>().join(", ")),
        }
    };
    let is_known = |name: &str| shapes.iter().any(|shape| shape.problem.name == name);
    if let Some(file) = file {
        for (name, span) in file.problems.iter().filter(|(name, _)| !is_known(name)) {
            let text = format!("`{}` has no timed problem `{name}` on {}", kernel.name, kind.as_str());
            diagnostics.error_with_hint(span.clone(), text, hint(name));
        }
        if !diagnostics.is_empty() {
            return Err(file.error(&diagnostics).into());
        }
    }
    if let Some(name) = arguments.problems.iter().find(|name| !is_known(name)) {
        let text = format!("there is no problem `{name}` on {}", kind.as_str());
        return Err(CliError::usage(text).with_hint(hint(name)));
    }
    let of_file: Vec<String> =
        file.into_iter().flat_map(|own| &own.problems).map(|own| own.0.clone()).collect();
    let wanted =
        |names: &[String], shape: &BenchShape| names.is_empty() || names.contains(&shape.problem.name);
    shapes.retain(|shape| wanted(&of_file, shape) && wanted(&arguments.problems, shape));
    if of_file.is_empty() && arguments.problems.is_empty() {
        shapes.retain(|shape| !shape.problem.on_request);
    }
    if arguments.quick && shapes.iter().any(|shape| shape.canonical) {
        shapes.retain(|shape| shape.canonical);
    }
    if shapes.is_empty() {
        let text = format!("`{}` has no timed problem on {}", kernel.name, kind.as_str());
        return Err(CliError::usage(text)
            .with_hint("add one to `[[problems]]`, or write a benchmark file with a grid"));
    }
    Ok(shapes)
}

/// `named` is the space as it was named, and opened.
fn candidates(
    arguments: &BenchArgs,
    file: Option<&BenchFile>,
    (space, opened): (&str, &SpaceFile),
) -> Result<Vec<(String, ResolvedCandidate)>, CliError> {
    let words = |text: &String| {
        let words = text.split_whitespace().map(String::from).collect();
        BenchCandidate { words, ..BenchCandidate::default() }
    };
    let asked: Vec<BenchCandidate> = arguments.candidates.iter().map(words).collect();
    let of_file = file.map(|file| file.candidates.clone()).unwrap_or_default();
    let wanted = if asked.is_empty() { of_file } else { asked };
    if wanted.is_empty() {
        let named =
            |word: &str| BenchCandidate { words: vec![word.to_string()], ..BenchCandidate::default() };
        let champion = resolve(arguments, space, &named("@champion"));
        return match champion {
            Ok(own) => Ok(vec![("@champion".to_string(), own)]),
            Err(error) => {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default().to_string();
                output::say(&format!("note: the default configuration takes part: {first}"));
                Ok(vec![("@baseline".to_string(), resolve(arguments, space, &named("@baseline"))?)])
            }
        };
    }
    let mut found: Vec<(String, ResolvedCandidate)> = Vec::new();
    let mut members = Vec::new();
    for own in &wanted {
        match own.words.as_slice() {
            [word] if word == PORTFOLIO => members.extend(portfolio(arguments, opened)?),
            _ => members.push(own.clone()),
        }
    }
    for (own, name) in members.iter().zip(bench_names::names(&members)?) {
        found.push((name, resolve(arguments, space, own)?));
    }
    Ok(found)
}

/// Each configuration of the portfolio, by its number in rows and by its values.
fn portfolio(arguments: &BenchArgs, space: &SpaceFile) -> Result<Vec<BenchCandidate>, CliError> {
    let device = candidate::kind_of(&arguments.run.device);
    let all = find::portfolio(space, &arguments.out, arguments.study.as_deref(), device);
    let of = |own: NamedEvaluation| BenchCandidate {
        name: Some(format!("@{}", own.number)),
        words: own.configuration.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        ..BenchCandidate::default()
    };
    Ok(all.map_err(candidate::error)?.into_iter().map(of).collect())
}

fn resolve(arguments: &BenchArgs, space: &str, own: &BenchCandidate) -> Result<ResolvedCandidate, CliError> {
    let all: Vec<String> = [space.to_string()].into_iter().chain(own.words.iter().cloned()).collect();
    let is_looked_up = own.words.iter().any(|word| word.starts_with('@') && word != "@baseline");
    let candidate = CandidateArgs {
        config: own.config.clone(),
        source: own.source.clone(),
        launch: own.launch.clone(),
        out: arguments.out.clone(),
        study: arguments.study.clone().filter(|_| is_looked_up),
    };
    candidate::resolve(&all, &candidate, &arguments.run.device, arguments.run.access.access())
}

/// The peers that take part: those of the files, or those that the command line names.
fn peers(
    arguments: &BenchArgs,
    file: Option<&BenchFile>,
    kernel: &KernelSpec,
) -> Result<Vec<PeerSpec>, CliError> {
    let mut known: Vec<PeerSpec> = file.map(|file| file.peers.clone()).unwrap_or_default();
    let more = kernel.peers.iter().filter(|own| !known.iter().any(|other| other.name == own.name));
    let more: Vec<PeerSpec> = more.cloned().collect();
    known.extend(more);
    let mut wanted: Vec<PeerSpec> = Vec::new();
    for name in &arguments.peers {
        match peers::named(name, &known) {
            Some(own) if wanted.iter().any(|other| other.name == own.name) => {}
            Some(own) => wanted.push(own),
            None => {
                let names = known.iter().map(|own| own.name.as_str()).chain(SHIPPED.iter().copied());
                let hint = match nearest(name, names.clone()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "there are {}; others go into `[[peers]]`",
                        names.collect::<Vec<_>>().join(", ")
                    ),
                };
                return Err(CliError::usage(format!("there is no peer `{name}`")).with_hint(hint));
            }
        }
    }
    let wanted = if arguments.peers.is_empty() { known } else { wanted };
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
