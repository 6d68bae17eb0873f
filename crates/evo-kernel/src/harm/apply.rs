//! A change put into a kernel's description.

use evo_space::expr::Expr;

use super::dose::HarmChange;
use crate::signature;
use crate::spec::{KernelSpec, LaunchSpec, OptionSpec};

/// Puts a change into a kernel.
///
/// # Errors
/// Why it cannot be done to this kernel.
pub fn apply(kernel: &mut KernelSpec, change: &HarmChange) -> Result<(), String> {
    match change {
        HarmChange::Options(options) => {
            let own = options.iter().map(|text| OptionSpec { text: text.clone(), value: None, when: None });
            kernel.options.extend(own);
        }
        HarmChange::SharedBytes(bytes) => {
            for launch in &mut kernel.launches {
                launch.shared_bytes = Some(at_least(launch, *bytes)?);
            }
        }
        // Places in messages stay those of the file.
        HarmChange::Line(line) => {
            kernel.source.text = format!("{line}\n#line 1\n{}", kernel.source.text);
        }
        HarmChange::Entry(statement) => {
            let bodies = signature::bodies(&kernel.source.text);
            if bodies.is_empty() {
                return Err("no `__global__` function with a body can be read in its source".to_string());
            }
            for at in bodies.into_iter().rev() {
                kernel.source.text.insert_str(at, statement);
            }
        }
    }
    Ok(())
}

fn at_least(launch: &LaunchSpec, bytes: u64) -> Result<Expr, String> {
    let text = match &launch.shared_bytes {
        Some(own) => format!("max({}, {bytes})", own.text()),
        None => bytes.to_string(),
    };
    Expr::parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "template <int N>\n__global__ void __launch_bounds__({{ THREADS }}) {{ prefix }}_one(float* x) {\n\
                          x[0] = N;\n}\n__global__ void declared(int);\nextern \"C\" __global__ void two() { }\n";

    #[test]
    fn statements_come_first_in_every_body() {
        let mut text = SOURCE.to_string();
        for at in signature::bodies(SOURCE).into_iter().rev() {
            text.insert(at, '@');
        }
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("_one(float* x) {@"), "{text}");
        assert_eq!(lines[5], "extern \"C\" __global__ void two() {@ }");
        assert_eq!(text.matches('@').count(), 2);
    }
}
