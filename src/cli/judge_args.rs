//! The options of `evo test-one` and `evo test`.

use clap::{Args, ValueEnum};
use evo_protocol::device::DeviceKind;

use super::error::CliError;
use super::one_args::TestOneArgs;

/// `evo test-one` and `evo test`
#[derive(Clone, Debug, Args)]
pub struct JudgeArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Whether compute-sanitizer looks at a candidate that passed on a GPU: `auto` where it is found, `on` demands its answer
    #[arg(long, value_enum, default_value_t, value_name = "auto|on|off", hide_possible_values = true)]
    pub sanitize: SanitizeCandidate,
}

/// Whether compute-sanitizer looks at one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SanitizeCandidate {
    /// Where it is found.
    #[default]
    Auto,
    /// Without its answer nothing passes.
    On,
    /// Never.
    Off,
}

/// What a candidate's sanitizer is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SanitizeDuty {
    pub runs: bool,
    /// Without an answer the candidate does not pass.
    pub is_demanded: bool,
}

impl SanitizeCandidate {
    /// What this comes to on a kind of device, for a space that may demand the sanitizer.
    ///
    /// # Errors
    /// The user does not want what the space file demands.
    pub fn duty(self, kind: DeviceKind, is_required: bool) -> Result<SanitizeDuty, CliError> {
        match self {
            SanitizeCandidate::Off if is_required => Err(CliError::usage(
                "`--sanitize off`: the space file demands the sanitizer (`[check] sanitize = \"required\"`)",
            )
            .with_hint("leave the option out, or say `--allow-not-run sanitize`")),
            SanitizeCandidate::Off => Ok(SanitizeDuty { runs: false, is_demanded: false }),
            SanitizeCandidate::On => Ok(SanitizeDuty { runs: true, is_demanded: true }),
            SanitizeCandidate::Auto => {
                Ok(SanitizeDuty { runs: is_required || kind == DeviceKind::Cuda, is_demanded: is_required })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_runs_where_it_can_and_is_demanded_where_somebody_says_so() {
        let check = |own: SanitizeCandidate, kind, is_required, expected: Option<(bool, bool)>| {
            let duty = own.duty(kind, is_required).ok().map(|duty| (duty.runs, duty.is_demanded));
            assert_eq!(duty, expected, "{own:?} {kind:?} {is_required}");
        };
        let (host, cuda) = (DeviceKind::Host, DeviceKind::Cuda);
        check(SanitizeCandidate::Auto, cuda, false, Some((true, false)));
        check(SanitizeCandidate::Auto, host, false, Some((false, false)));
        check(SanitizeCandidate::Auto, host, true, Some((true, true)));
        check(SanitizeCandidate::On, host, false, Some((true, true)));
        check(SanitizeCandidate::Off, cuda, false, Some((false, false)));
        check(SanitizeCandidate::Off, cuda, true, None);
    }
}
