//! Compiler options of one configuration: those that all variants have, and those that parameters choose.

use std::collections::BTreeMap;

use evo_protocol::verdict::Verdict;
use evo_space::genome::Configuration;
use evo_space::value::Value;

use super::resolve::{Names, Resolver};
use super::spec::KernelSpec;

const FAST_MATH: [&str; 2] = ["--use_fast_math", "-use_fast_math"];
const FLUSH: [&str; 2] = ["-ftz=true", "--ftz=true"];

/// In the order of the file. `static_reject:expression` for an expression without a value, or with one that cannot be
/// an option's.
pub fn options_at(kernel: &KernelSpec, configuration: &Configuration) -> Result<Vec<String>, Box<Verdict>> {
    let sizes = BTreeMap::new();
    let resolver = Resolver::without_problem(Names::new(configuration, &sizes));
    let mut options = Vec::new();
    for option in &kernel.options {
        let place = |key: &str| format!("`{key}` of option `{}`", option.text);
        if !resolver.truth(&option.when, &place("when"), true)? {
            continue;
        }
        options.push(match &option.value {
            None => option.text.clone(),
            Some(expr) => {
                let value = resolver.value(expr, &place("value"))?;
                let text = shown(&value).ok_or_else(|| {
                    resolver.refuse(expr, &place("value"), &format!("is `{value}`, which no option can have"))
                })?;
                format!("{}={text}", option.text)
            }
        });
    }
    Ok(options)
}

/// A value as an option has it: `4.0` is 4, and a text holds no blanks.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Int(value) => Some(value.to_string()),
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
            Some((*value as i64).to_string())
        }
        Value::Float(value) if value.is_finite() => Some(value.to_string()),
        Value::Text(text) if !text.is_empty() && !text.contains(char::is_whitespace) => {
            Some(text.to_string())
        }
        _ => None,
    }
}

pub fn fixed(kernel: &KernelSpec) -> Vec<String> {
    let fixed = kernel.options.iter().filter(|option| option.value.is_none() && option.when.is_none());
    fixed.map(|option| option.text.clone()).collect()
}

/// Whether options ask for fast mathematics, and whether they flush subnormal numbers.
pub fn relaxations(options: &[String]) -> (bool, bool) {
    let has = |words: &[&str]| options.iter().any(|option| words.contains(&option.as_str()));
    let fast_math = has(&FAST_MATH);
    (fast_math, fast_math || has(&FLUSH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_options_as_a_compiler_reads_them() {
        let check = |value: Value, expected: Option<&str>| assert_eq!(shown(&value).as_deref(), expected);
        check(Value::Int(64), Some("64"));
        check(Value::Float(64.0), Some("64"));
        check(Value::Float(0.5), Some("0.5"));
        check(Value::Bool(false), Some("false"));
        check(Value::text("fast"), Some("fast"));
        check(Value::text("a b"), None);
        check(Value::text(""), None);
        check(Value::Float(f64::NAN), None);
    }

    #[test]
    fn fast_mathematics_flushes_too() {
        let of = |options: &[&str]| relaxations(&options.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["-O3"]), (false, false));
        assert_eq!(of(&["-ftz=true"]), (false, true));
        assert_eq!(of(&["-lineinfo", "--use_fast_math"]), (true, true));
    }
}
