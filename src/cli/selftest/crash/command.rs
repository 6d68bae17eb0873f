//! The command: an undisturbed run, then studies with kills until there were enough moments.

use std::collections::BTreeMap;

use super::moment::Victim;
use super::stage::CrashStage;
use super::study::{self, MOMENTS, PlayedStudy};
use crate::cli::answer::Answer;
use crate::cli::args::SelftestArgs;
use crate::cli::error::CliError;
use crate::cli::exit_code::ExitCode;
use crate::cli::output;

/// Moments without `--count`.
const COUNT: usize = 200;

/// Runs the command: 0 where every study came to the verdicts of the undisturbed run, 1 otherwise.
pub fn run(arguments: &SelftestArgs, seed: u64) -> Result<Answer, CliError> {
    let count = arguments.count.unwrap_or(COUNT);
    output::say(&format!("seed {seed}: repeat with --seed {seed} --count {count}"));
    let stage = CrashStage::new()?;
    stage.prepare("undisturbed")?;
    stage.start("undisturbed", 1)?.finish()?;
    let expected = stage.journal("undisturbed")?.verdicts;
    if expected.is_empty() {
        return Err(CliError::environment("the sweep of the self-test does not run on this machine")
            .with_hint("`evo preflight --device host` shows what is missing"));
    }
    let mut all: Vec<PlayedStudy> = Vec::new();
    let mut left = count;
    while left > 0 {
        let own = seed.wrapping_add(all.len() as u64);
        let moments = left.min(MOMENTS);
        let played = study::play(&stage, own, moments, &expected)?;
        left -= moments;
        if !arguments.json {
            tell(&played, moments)?;
        }
        all.push(played);
    }
    let passed = all.iter().all(|study| study.problems.is_empty());
    let exit = if passed { ExitCode::Done } else { ExitCode::Failed };
    if arguments.json {
        let whole = serde_json::json!({
            "seed": seed, "count": count, "passed": passed, "variants": expected.len(),
            "killed": killed(&all), "studies": all,
        });
        return Ok(Answer::object(exit, &whole));
    }
    output::stdout(&summary(&all, count, expected.len()))?;
    Ok(exit.into())
}

/// A study that went wrong, with the command that repeats it.
fn tell(played: &PlayedStudy, moments: usize) -> Result<(), CliError> {
    if played.problems.is_empty() {
        return Ok(());
    }
    let mut text = format!("FAIL study of seed {}\n", played.seed);
    played.moments.iter().for_each(|moment| text += &format!("     {moment}\n"));
    played.problems.iter().for_each(|problem| text += &format!("  ✗  {problem}\n"));
    text += &format!("     again: evo selftest crash --seed {} --count {moments}\n", played.seed);
    output::stdout(&text)
}

fn killed(all: &[PlayedStudy]) -> BTreeMap<Victim, u32> {
    let mut killed = BTreeMap::new();
    for (victim, times) in all.iter().flat_map(|study| &study.killed) {
        *killed.entry(*victim).or_default() += times;
    }
    killed
}

fn summary(all: &[PlayedStudy], count: usize, variants: usize) -> String {
    let killed: Vec<String> =
        killed(all).iter().map(|(victim, times)| format!("{} {times}", victim.as_str())).collect();
    let bad = all.iter().filter(|study| !study.problems.is_empty()).count();
    let runs: usize = all.iter().map(|study| study.runs).sum();
    let not_final: usize = all.iter().map(|study| study.not_final).sum();
    format!(
        "{count} moments in {} studies of {variants} variants and {runs} runs; killed: {}\n\
         {not_final} variants had no verdict for a while; {bad} studies differ from the undisturbed one\n",
        all.len(),
        killed.join(", "),
    )
}
