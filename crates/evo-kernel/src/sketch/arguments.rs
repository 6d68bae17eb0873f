//! What the arguments are: their types from the signature, their roles from what the body does with them.

use evo_protocol::dtype::DType;

use super::{SketchArgument, SketchError, SketchGuess, SketchRole, guessed};
use crate::signature::{self, SourceParameter};
use crate::words::{is_name, is_one_of};

/// Words of a type that say nothing about its values.
const QUALIFIERS: &str =
    "const volatile register restrict __restrict__ __restrict __grid_constant__ std struct";

/// Whole numbers of these names measure no array.
const SMALL: &str = "radius halo stride pad padding order degree iterations iters steps num_steps axis dim mode flag \
    causal offset seed filter_size filter_width filter_height kernel_size window taps bins num_bins nbins";

/// Arrays of whole numbers of these names hold places of other arrays.
const PLACES: &str = "idx index indices col cols col_idx columns offsets row_ptr map perm";

pub(super) fn read(
    entry: &str,
    parameters: &[SourceParameter],
    body: &[&str],
    brackets: &[usize],
    guesses: &mut Vec<SketchGuess>,
) -> Result<Vec<SketchArgument>, SketchError> {
    let mut arguments = Vec::new();
    for (at, parameter) in parameters.iter().enumerate() {
        let refused = || SketchError::Type { entry: entry.to_string(), text: parameter.text.clone() };
        let (name, dtype, lanes, is_pointer) = typed(&parameter.text, at).ok_or_else(refused)?;
        if lanes > 1 && !is_pointer {
            return Err(refused());
        }
        let lower = name.to_lowercase();
        let (mut role, mut doubt, mut holds_places) = (SketchRole::Input, None, false);
        if is_pointer {
            let is_const = parameter.text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "const");
            if !is_const {
                (role, doubt) = Uses::of(&name, body, brackets).role();
            }
            if let Some(doubt) = &doubt {
                guessed(guesses, format!("`{name}` is {}", role.word()), doubt.clone());
            }
            holds_places = is_const && !dtype.is_float() && is_one_of(&lower, PLACES);
            if holds_places {
                doubt = Some("its values are places of an array".to_string());
                guessed(guesses, format!("`{name}` holds places of an array"), "its name says so");
            }
        } else if dtype.is_float() {
            role = SketchRole::Number;
            guessed(guesses, format!("`{name}` = 1.0"), "the source does not say what it is called with");
        } else if is_one_of(&lower, SMALL) {
            role = SketchRole::Small(name.to_uppercase());
            guessed(guesses, format!("`{name}` = 3 measures no array"), "its name says so");
        } else {
            role = SketchRole::Size(name.to_uppercase());
        }
        arguments.push(SketchArgument { name, dtype, lanes, role, doubt, holds_places, shape: None });
    }
    Ok(arguments)
}

/// Name, type, lanes and whether it is a pointer.
fn typed(text: &str, at: usize) -> Option<(String, DType, u64, bool)> {
    let is_pointer = text.contains('*') || text.contains('[');
    if text.contains(['<', '&', '(']) || text.matches(['*', '[']).count() > 1 {
        return None;
    }
    let mut words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    words.retain(|word| !word.is_empty() && !is_one_of(word, QUALIFIERS) && word.parse::<u64>().is_err());
    let (name, (dtype, lanes)) = match dtype_of(&words) {
        Some(found) => (format!("argument_{at}"), found),
        None => (words.pop()?.to_string(), dtype_of(&words)?),
    };
    Some((name, dtype, lanes, is_pointer))
}

fn dtype_of(words: &[&str]) -> Option<(DType, u64)> {
    if let Some(dtype) = signature::number(words) {
        return Some((dtype, 1));
    }
    // A vector type such as `float4`.
    let [word] = words else { return None };
    let base = word.strip_suffix(['1', '2', '3', '4'])?;
    let dtype = match base {
        "longlong" => DType::I64,
        "ulonglong" => DType::U64,
        base => signature::number(&[base])?,
    };
    Some((dtype, word[base.len()..].parse().ok()?))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Uses {
    reads: bool,
    writes: bool,
    adds: bool,
    hands_on: bool,
}

impl Uses {
    fn of(name: &str, body: &[&str], brackets: &[usize]) -> Uses {
        let mut uses = Uses::default();
        for at in (0..body.len()).filter(|at| body[*at] == name) {
            let before = |steps: usize| at.checked_sub(steps).map(|at| body[at]).unwrap_or("");
            if before(1) == "." || (before(1) == ">" && before(2) == "-") {
                continue;
            }
            uses.add(body, brackets, at);
        }
        uses
    }

    fn add(&mut self, body: &[&str], brackets: &[usize], at: usize) {
        let called = caller(body, at);
        if called.is_some_and(|own| own.starts_with("atomic")) {
            self.adds = true;
            return;
        }
        if called.is_some_and(|own| own.starts_with("__st")) {
            self.writes = true;
            return;
        }
        // `reinterpret_cast<float4*>(y)[i]`
        let mut next = at + 1;
        while body.get(next) == Some(&")") {
            next += 1;
        }
        let behind = if body.get(next) == Some(&"[") {
            brackets[next]
        } else if at > 0
            && body[at - 1] == "*"
            && (at < 2 || matches!(body[at - 2], ";" | "{" | "}" | ")" | "("))
        {
            next
        } else {
            self.hands_on = true;
            return;
        };
        self.element(&body[behind.min(body.len())..], at.checked_sub(2).map(|at| (body[at], body[at + 1])));
    }

    fn role(self) -> (SketchRole, Option<String>) {
        let because = |role, why: &str| (role, Some(why.to_string()));
        match self {
            Uses { hands_on: true, writes: true, reads: false, adds: false } => {
                because(SketchRole::Output, "the kernel writes it, and also hands the pointer on")
            }
            Uses { hands_on: true, .. } => because(
                SketchRole::Inout { from_zero: false },
                "the kernel hands the pointer on: whether it reads what it wrote is not seen",
            ),
            Uses { adds: true, reads: false, writes: false, .. } => because(
                SketchRole::Inout { from_zero: true },
                "the kernel adds to it, so it begins with zeros",
            ),
            Uses { writes: true, reads: false, adds: false, .. } => (SketchRole::Output, None),
            Uses { writes: false, adds: false, .. } => {
                because(SketchRole::Input, "it is not `const`, but the kernel does not write it")
            }
            _ => because(SketchRole::Inout { from_zero: false }, "the kernel reads and writes it"),
        }
    }

    fn element(&mut self, mut behind: &[&str], before: Option<(&str, &str)>) {
        if behind.len() > 1 && behind[0] == "." {
            behind = &behind[2..];
        }
        let sign = |at: usize| behind.get(at).copied().unwrap_or("");
        let steps = matches!(before, Some(("+", "+") | ("-", "-")));
        match (sign(0), sign(1), sign(2)) {
            ("=", second, _) if second != "=" => self.writes = true,
            ("+" | "-" | "*" | "/" | "%" | "&" | "|" | "^", "=", _) => self.adds = true,
            ("<", "<", "=") | (">", ">", "=") => self.adds = true,
            ("+", "+", _) | ("-", "-", _) => self.adds = true,
            _ if steps => self.adds = true,
            _ => self.reads = true,
        }
    }
}

fn caller<'s>(body: &[&'s str], at: usize) -> Option<&'s str> {
    let mut open = at.checked_sub(1)?;
    while matches!(body[open], "&" | "(") && !(body[open] == "(" && open > 0 && is_name(body[open - 1])) {
        open = open.checked_sub(1)?;
    }
    (body[open] == "(").then(|| body[open - 1])
}
