//! The options of `evo evaluate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::candidate::named;
use super::limits::duration;
use super::one_args::TestOneArgs;
use super::request_args::RequestArgs;

/// `evo evaluate`
#[derive(Clone, Debug, Args)]
pub struct EvaluateArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Compare with this candidate of the same space [default: the incumbent, else @champion, else @baseline]
    #[arg(long, value_name = "CANDIDATE", value_parser = named)]
    pub against: Option<String>,
    /// Least gain on a problem that counts
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = share, allow_negative_numbers = true)]
    pub accept: f64,
    /// Canonical problems that must gain; all of them where there are fewer
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub on: u16,
    /// A slowdown above this asks to go back
    #[arg(long = "revert-above", value_name = "SHARE", default_value = "2%", value_parser = share, allow_negative_numbers = true)]
    pub revert_above: f64,
    /// What the change was meant to do; kept with the evaluation
    #[arg(long, value_name = "TEXT")]
    pub hypothesis: Option<String>,
    /// What the candidate was made from: the number of an evaluation; kept with it
    #[arg(long, value_name = "NAME")]
    pub parent: Option<String>,
    /// The speed-up that its author claims; shown, and decides nothing
    #[arg(long, value_name = "FACTOR", value_parser = factor, allow_negative_numbers = true)]
    pub claimed: Option<f64>,
    /// Also judge on the `[[problems]]` of this file
    #[arg(long, value_name = "FILE")]
    pub grid: Option<PathBuf>,
    /// Have a profiler name the bottleneck of a candidate that passed; decides nothing
    #[arg(long)]
    pub profile: bool,
    /// Demand compute-sanitizer: a finding is a verdict, and without an answer nothing is accepted
    #[arg(long)]
    pub sanitize: bool,
    /// What exit code 0 means
    #[arg(long, value_enum, default_value_t = Requirement::Correct)]
    pub require: Requirement,
    /// Answer after this time, with what is known by then
    #[arg(long = "time-limit", value_name = "TIME", default_value = "300s", value_parser = duration, allow_negative_numbers = true)]
    pub time_limit: Duration,
    #[command(flatten)]
    pub requests: RequestArgs,
}

/// What is demanded of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Requirement {
    /// It passes every gate
    Correct,
    /// It is also shown not to be slower than its rival
    NotSlower,
    /// It also takes its rival's place
    Accepted,
}

impl Requirement {
    /// The word on a command line.
    pub fn word(self) -> &'static str {
        match self {
            Requirement::Correct => "correct",
            Requirement::NotSlower => "not-slower",
            Requirement::Accepted => "accepted",
        }
    }
}

impl EvaluateArgs {
    /// The options that are not at their defaults, as a command line has them, without `--against`: that is written out
    /// as the rival that was chosen. Texts that only describe are left out.
    pub fn words(&self) -> Vec<String> {
        let quoted = |text: &str| evo_space::text::quote(text).into_owned();
        let mut words: Vec<String> = Vec::new();
        let shares = [("--accept", self.accept, 0.03), ("--revert-above", self.revert_above, 0.02)];
        let changed = shares.into_iter().filter(|(_, own, usual)| own != usual);
        words.extend(changed.map(|(flag, own, _)| format!("{flag} {own}")));
        words.extend(self.profile.then(|| "--profile".to_string()));
        words.extend(self.sanitize.then(|| "--sanitize".to_string()));
        words.extend(self.grid.iter().map(|file| format!("--grid {}", quoted(&file.display().to_string()))));
        words.extend((self.on != 2).then(|| format!("--on {}", self.on)));
        let is_more = self.require != Requirement::Correct;
        words.extend(is_more.then(|| format!("--require {}", self.require.word())));
        let out = &self.one.candidate.out;
        let is_usual = out == std::path::Path::new("evidence");
        words.extend((!is_usual).then(|| format!("--out {}", quoted(&out.display().to_string()))));
        let seconds = self.time_limit.as_secs();
        words.extend((seconds != 300).then(|| format!("--time-limit {seconds}s")));
        words
    }
}

/// `3%` or `0.03`: from 0 to 10.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let value = number.parse::<f64>().ok().map(|number| number / unit);
    let value = value.filter(|value| (0.0..=10.0).contains(value));
    value.ok_or_else(|| "it is not a share from 0% to 1000%, such as `3%` or `0.03`".to_string())
}

fn factor(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('x').parse::<f64>().ok();
    let value = value.filter(|value| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| "it is not a speed-up such as `1.45`".to_string())
}
