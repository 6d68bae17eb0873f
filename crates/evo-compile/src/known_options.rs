//! The options that NVRTC knows. The host device has no use for most of them and leaves them out, but a mistyped one must
//! not pass there and fail on a GPU.
//!
//! Names from NVRTC's manual (13.0, "Supported Compile Options"); each is accepted by a real NVRTC 13.0.

use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::diagnostic::nearest;

/// Names without their dashes; a value follows `=`, or stands in the next word.
const NAMES: &str = include_str!("known_options.txt");

/// Names whose value may follow without `=`: `-DN=4`, `-Iinc`.
const JOINED: &[&str] = &["D", "U", "I"];

pub(crate) fn refusal(options: &[String]) -> Option<Box<Verdict>> {
    let unknown = options.iter().find(|option| !is_known(option))?;
    let name = name_of(unknown).unwrap_or_default();
    // One letter is near to half of the list.
    let near = nearest(name, NAMES.split_whitespace().filter(|own| own.len() > 2));
    let advice = near.map_or(String::new(), |near| {
        let dashes = unknown.len() - unknown.trim_start_matches('-').len();
        format!(": did you mean `{}{near}`?", &unknown[..dashes])
    });
    let message = format!("`{unknown}` is not an option of NVRTC, the compiler for CUDA{advice}");
    Some(Box::new(
        Verdict::new(VerdictKind::CompileError, message)
            .with_cause("option")
            .with("option", unknown.as_str()),
    ))
}

fn is_known(option: &str) -> bool {
    // A word without dashes is the value of the option before it.
    let Some(name) = name_of(option) else { return true };
    let is_joined = !option.starts_with("--") && JOINED.iter().any(|own| name.starts_with(own));
    is_joined || NAMES.split_whitespace().any(|own| own == name)
}

fn name_of(option: &str) -> Option<&str> {
    let name = option.strip_prefix("--").or_else(|| option.strip_prefix('-'))?;
    Some(name.split_once('=').map_or(name, |(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_option_is_named_with_the_near_one() {
        let of = |words: &str| {
            let words: Vec<String> = words.split(' ').map(String::from).collect();
            refusal(&words).map_or("known".to_string(), |verdict| verdict.message.clone())
        };
        let known = "-DN=4 -D X -Iinc -I inc --include-path=x -UX --use_fast_math -use_fast_math -maxrregcount=32 \
                     --fmad=false -std=c++17 -lineinfo -G --pre-include=x.h";
        assert_eq!(of(known), "known");
        assert_eq!(
            of("-DN=4 --use_fast_maths"),
            "`--use_fast_maths` is not an option of NVRTC, the compiler for CUDA: did you mean `--use_fast_math`?"
        );
        assert_eq!(
            of("-no-such-thing=1"),
            "`-no-such-thing=1` is not an option of NVRTC, the compiler for CUDA"
        );
    }
}
