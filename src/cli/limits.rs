//! `--limit-compile`, `--limit-device`, `--limit-tool` and `--limit-total`: what a command may take, step by step and
//! as a whole.

use std::io;
use std::time::{Duration, Instant};

use clap::Args;
use evo_protocol::envelope::LimitsReport;

use super::call::Call;
use super::error::CliError;
use super::guard;
use crate::budget;

/// What a command may take.
#[derive(Debug, Clone, Args)]
pub struct LimitArgs {
    /// Longest time for compiling one variant: `90s`, `2m`, `1h`
    #[arg(long = "limit-compile", value_name = "TIME", default_value = "120s", value_parser = duration, allow_negative_numbers = true)]
    pub limit_compile: Duration,
    /// Longest time for one step of a variant on the device, such as a launch
    #[arg(long = "limit-device", value_name = "TIME", default_value = "300s", value_parser = duration, allow_negative_numbers = true)]
    pub limit_device: Duration,
    /// Longest time for one run of an outside program
    #[arg(long = "limit-tool", value_name = "TIME", default_value = "300s", value_parser = duration, allow_negative_numbers = true)]
    pub limit_tool: Duration,
    #[command(flatten)]
    pub total: TotalLimit,
}

/// What a command may take as a whole.
#[derive(Debug, Clone, Args)]
pub struct TotalLimit {
    /// Longest time for the whole command [default: off]
    #[arg(long = "limit-total", value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    pub limit_total: Option<Duration>,
    /// `--time-limit` of a command that has one; the shorter of both counts.
    #[arg(skip)]
    pub time_limit: Option<Duration>,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    budget::duration(text).ok_or_else(|| "it is not a time such as `90s`, `10m` or `2h`".to_string())
}

/// What a command that ends in order by itself gets beyond its limit: its answer is promised after 15 s at the latest.
const GRACE: Duration = Duration::from_secs(14);

impl LimitArgs {
    /// Puts the limits in force: the call's object names them, and the whole command ends when its time is used up.
    ///
    /// # Errors
    /// The machine starts no thread.
    pub fn begin(&self, call: &Call) -> Result<(), CliError> {
        self.begin_with(call, Duration::ZERO)
    }

    pub fn begin_orderly(&self, call: &Call) -> Result<(), CliError> {
        self.begin_with(call, GRACE)
    }

    fn begin_with(&self, call: &Call, grace: Duration) -> Result<(), CliError> {
        let steps = [self.limit_compile, self.limit_device, self.limit_tool];
        self.total.watch(call, steps.map(Some), grace)
    }
}

impl TotalLimit {
    /// Puts the limit in force where it is the only one.
    pub fn begin(&self, call: &Call) -> Result<(), CliError> {
        self.watch(call, [None; 3], Duration::ZERO)
    }

    /// When the limit is used up, counted from now.
    pub fn until(&self) -> Option<Instant> {
        self.in_force().map(|(limit, _)| Instant::now() + limit)
    }

    fn in_force(&self) -> Option<(Duration, &'static str)> {
        let total = self.limit_total.map(|limit| (limit, "--limit-total"));
        total.into_iter().chain(self.time_limit.map(|limit| (limit, "--time-limit"))).min()
    }

    /// The error that the limit in force is used up; none where there is no limit.
    pub fn used_up(&self) -> Option<CliError> {
        let (limit, flag) = self.in_force()?;
        Some(guard::total_is_over(limit).with_hint(format!("allow more with `{flag}`")))
    }

    fn watch(&self, call: &Call, steps: [Option<Duration>; 3], grace: Duration) -> Result<(), CliError> {
        let in_force = self.in_force();
        let seconds = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64());
        let [compile_s, device_s, tool_s] = steps.map(seconds);
        let total_s = seconds(in_force.map(|(limit, _)| limit));
        let limits = LimitsReport { compile_s, device_s, tool_s, total_s, hit: None };
        call.know(|facts| facts.limits = Some(limits));
        let Some((limit, flag)) = in_force else { return Ok(()) };
        let failed = |error: io::Error| CliError::harness(format!("cannot watch the clock: {error}"));
        guard::limit_total(call, limit, flag, grace).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct OnlyLimits {
        #[command(flatten)]
        limits: LimitArgs,
    }

    #[test]
    fn a_limit_is_a_time_with_its_unit() {
        let read = |line: &str| OnlyLimits::try_parse_from(line.split_whitespace()).map(|read| read.limits);
        let limits = read("evo --limit-tool 1h --limit-total 2m").unwrap();
        assert_eq!((limits.limit_tool.as_secs(), limits.limit_device), (3600, Duration::from_secs(300)));
        for bad in ["0s", "5", "-1s", "1.5h", "soon", "99999999999999999999h"] {
            assert!(read(&format!("evo --limit-device {bad}")).is_err(), "{bad}");
        }
    }
}
