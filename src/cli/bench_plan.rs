//! What a command line of `evo bench` asks for: candidates, shapes, modes and peers. Nothing is written yet.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::ErrorCode;
use evo_protocol::measurement::TimingMode;
use evo_space::diagnostic::{Diagnostics, nearest};

use super::candidate::named;
use super::candidate::{self, CandidateArgs};
use super::error::CliError;
use super::one_args::RunArgs;
use super::session::{self, DeviceSetup};
use super::words;
use super::{output, peers};
use crate::bench::{self, BenchCandidate, BenchFile, BenchShape};
use crate::engine::candidate::{self as find, ResolvedCandidate};
use crate::kernel::catalog;
use crate::kernel::label::{LABEL_HINT, LABEL_MAX, is_label};
use crate::kernel::spec::{KernelSpec, PeerSpec, SpaceFile};
use crate::peer::SHIPPED;
use crate::report::study::NamedEvaluation;

/// `evo bench`
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// A benchmark file (it has a key `space`), or a space by name or path
    #[arg(value_name = "FILE.toml|SPACE")]
    pub target: Option<String>,
    /// Canonical problems and the ranking mode only, in under a minute
    #[arg(long)]
    pub quick: bool,
    /// A peer: `torch`, `python`, or the name of one in `[[peers]]` (repeatable) [default: those of the files]
    #[arg(long = "peer", value_name = "NAME")]
    pub peers: Vec<String>,
    /// A candidate as other commands take its words, quoted, or @portfolio for the fastest of each problem (repeatable) [default: those of the file, else @champion, else @baseline]
    #[arg(long = "candidate", value_name = "WORDS", value_parser = named)]
    pub candidates: Vec<String>,
    /// A timing mode (repeatable) [default: those of the file, else hot and cold]
    #[arg(long = "mode", value_enum, value_name = "MODE")]
    pub modes: Vec<BenchMode>,
    /// Only these problems or points of the grid (repeatable)
    #[arg(long = "problem", value_name = "NAME")]
    pub problems: Vec<String>,
    /// Rounds of two blocks each [default: 6, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// The run's name, part of its folder's [default: that of the file or the space]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The folder of evidence: the run's own is OUT/bench/DEVICE/DATE-NAME
    #[arg(long = "out", value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// With `@…`: the study, by name or folder [default: the newest of the kernel]
    #[arg(long = "study", value_name = "NAME")]
    pub study: Option<String>,
    /// Let a problem, a peer or one implementation of it not run and pass all the same; the object says so (repeatable)
    #[arg(long = "allow-not-run", value_name = "NAME")]
    pub allow_not_run: Vec<String>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// A timing mode on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchMode {
    /// Calls back to back
    Hot,
    /// Each call after the caches were flushed
    Cold,
    /// Each call with its launch
    Eager,
}

impl BenchMode {
    /// The mode.
    pub fn timing(self) -> TimingMode {
        match self {
            BenchMode::Hot => TimingMode::Hot,
            BenchMode::Cold => TimingMode::Cold,
            BenchMode::Eager => TimingMode::Eager,
        }
    }
}

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
    let target = words::space_name(arguments.target.as_deref())?;
    let is_file = std::path::Path::new(&target).is_file() && !catalog::names().contains(&target.as_str());
    let file = if is_file { bench::read_bench_file(std::path::Path::new(&target))? } else { None };
    let named = file.as_ref().map_or(target.as_str(), |file| file.space.as_str());
    let space = words::space(named, arguments.run.access.access())?;
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
    for (own, name) in members.iter().zip(names(&members)?) {
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
    let wanted = match arguments.peers.is_empty() {
        true => known,
        false => peers::all_named(&arguments.peers, &known)?,
    };
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

/// Names of candidates in rows, each once: those that were given, else words. Words too long for a column lose what all
/// candidates share; where the rest is too long still, the later of two equal beginnings has a number.
fn names(members: &[BenchCandidate]) -> Result<Vec<String>, CliError> {
    let whole: Vec<String> = members.iter().map(name_of).collect();
    let is_shared = |word: &String| members.len() > 1 && members.iter().all(|own| own.words.contains(word));
    let mut found: Vec<String> = Vec::new();
    for (index, (own, full)) in members.iter().zip(&whole).enumerate() {
        if whole[..index].contains(full) {
            let text = format!("two candidates are called `{}`", cut(full, LABEL_MAX));
            return Err(CliError::usage(text).with_hint("give them names: `{ name = \"…\", words = \"…\" }`"));
        }
        let is_long = own.name.is_none() && full.chars().count() > LABEL_MAX;
        let telling: Vec<String> = own.words.iter().filter(|word| !is_shared(word)).cloned().collect();
        let short = if is_long && !telling.is_empty() {
            name_of(&BenchCandidate { words: telling, ..own.clone() })
        } else {
            full.clone()
        };
        let mut name = cut(&short, LABEL_MAX);
        let mut number = 2;
        while found.contains(&name) {
            let end = format!(" #{number}");
            name = cut(&short, LABEL_MAX - end.len()) + &end;
            number += 1;
        }
        found.push(name);
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
        let words = words.split(' ').map(String::from).collect();
        BenchCandidate { words, ..BenchCandidate::default() }
    }

    #[test]
    fn long_words_lose_what_all_share_and_names_stay_apart() {
        let shared: Vec<String> = (0..20).map(|own| format!("PARAMETER_{own}=1")).collect();
        let long = |end: &str| candidate(&format!("{} {end}", shared.join(" ")));
        assert_eq!(names(&[long("LAST=1"), long("LAST=2")]).unwrap(), ["LAST=1", "LAST=2"]);
        assert_eq!(names(&[candidate("A=1 B=1"), candidate("A=1 B=2")]).unwrap(), ["A=1 B=1", "A=1 B=2"]);
        let alone = names(&[long("LAST=1")]).unwrap();
        assert!(alone[0].starts_with("PARAMETER_0=1") && alone[0].len() == LABEL_MAX);
        // Nothing is shared by all three, and the first two begin alike.
        let three = names(&[long("LAST=1"), long("LAST=2"), candidate("OTHER=1")]).unwrap();
        assert!(three[1].ends_with(" #2") && three[1].len() == LABEL_MAX && three[0] != three[1]);
    }

    #[test]
    fn the_same_candidate_twice_is_refused() {
        let error = names(&[candidate("A=1"), candidate("A=1")]).unwrap_err().to_string();
        assert!(error.contains("two candidates are called `A=1`"), "{error}");
        let named = |name: &str| BenchCandidate { name: Some(name.to_string()), ..candidate("A=1") };
        assert_eq!(names(&[named("x"), named("y")]).unwrap(), ["x", "y"]);
        assert!(names(&[named("x"), named("x")]).is_err());
    }
}
