//! Names with a value (macros without arguments, constants), and what can be tuned: macros with a default, and names
//! that the source leaves to whoever compiles it.

use std::collections::{BTreeMap, BTreeSet};

use super::{SketchGuess, SketchTunable, guessed};
use crate::words::{self, is_name, is_one_of};

/// Names that stand for names many times over would fill the memory.
const DEPTH: usize = 8;
const EXPRESSION_MAX: usize = 2048;
const VALUE_TOKENS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Definitions<'s> {
    /// Of `#define NAME …`, the first of each.
    macros: BTreeMap<&'s str, Vec<&'s str>>,
    /// Those whose definition stands behind an `#ifndef` of the same name.
    guarded: Vec<&'s str>,
    /// Of `NAME = … ;`.
    constants: BTreeMap<&'s str, Vec<&'s str>>,
    functions: BTreeSet<&'s str>,
    /// Names that conditions of the preprocessor ask for by themselves: `#if NAME`.
    flags: BTreeSet<&'s str>,
}

impl<'s> Definitions<'s> {
    pub(super) fn of(source: &'s str, tokens: &[&'s str]) -> Definitions<'s> {
        let mut own = Definitions::default();
        let mut guard = None;
        for line in words::directives(source) {
            let Some(rest) = line.trim_start().strip_prefix('#') else { continue };
            let rest = rest.trim_start();
            let (word, rest) = rest.split_at(rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len()));
            match word {
                "ifndef" => guard = words::tokens(rest).first().copied(),
                "define" => own.define(rest, guard),
                "if" | "elif" => own.asks(rest, &mut guard),
                "ifdef" | "else" | "endif" => guard = None,
                _ => {}
            }
        }
        for at in 2..tokens.len() {
            let is_value = tokens[at] == "=" && tokens.get(at + 1) != Some(&"=") && is_name(tokens[at - 1]);
            if is_value && is_name(tokens[at - 2]) {
                let value: Vec<&str> = tokens[at + 1..]
                    .iter()
                    .take(VALUE_TOKENS)
                    .take_while(|own| **own != ";")
                    .copied()
                    .collect();
                own.constants.entry(tokens[at - 1]).or_insert(value);
            }
        }
        own
    }

    fn define(&mut self, rest: &'s str, guard: Option<&'s str>) {
        let text = rest.trim_start();
        let (name, value) =
            text.split_at(text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()));
        if value.starts_with('(') {
            self.functions.insert(name);
            return;
        }
        if self.macros.contains_key(name) {
            return;
        }
        if guard == Some(name) {
            self.guarded.push(name);
        }
        self.macros.insert(name, words::tokens(value));
    }

    fn asks(&mut self, rest: &'s str, guard: &mut Option<&'s str>) {
        let tokens = words::tokens(rest);
        *guard = match tokens[..] {
            ["!", "defined", "(", name, ")"] | ["!", "defined", name] => Some(name),
            _ => None,
        };
        for (at, token) in tokens.iter().enumerate() {
            let sign = |at: Option<usize>| at.and_then(|at| tokens.get(at)).copied().unwrap_or("&");
            let alone = |sign: &str| matches!(sign, "&" | "|" | "!" | "(" | ")");
            let before = sign(at.checked_sub(1));
            if is_name(token) && alone(before) && alone(sign(Some(at + 1))) && before != "defined" {
                self.flags.insert(token);
            }
        }
    }

    fn number(&self, name: &str) -> Option<i64> {
        let value = self.macros.get(name)?;
        let (["(", inside, ")"] | [inside]) = value[..] else { return None };
        inside.parse().ok()
    }

    pub(super) fn is_defined(&self, name: &str) -> bool {
        self.macros.contains_key(name) || self.functions.contains(name) || self.constants.contains_key(name)
    }

    /// An expression of a source as one of space files, over `known` names; nothing where it has anything else.
    pub(super) fn expression(&self, tokens: &[&str], known: &dyn Fn(&str) -> bool) -> Option<String> {
        self.expand(tokens, known, 0)
    }

    fn expand(&self, tokens: &[&str], known: &dyn Fn(&str) -> bool, depth: usize) -> Option<String> {
        let mut text = String::new();
        for token in tokens {
            let own = match *token {
                "+" | "-" | "*" => format!(" {token} "),
                "/" => " // ".to_string(),
                "(" | ")" => token.to_string(),
                name if known(name) => name.to_string(),
                number if number.parse::<i64>().is_ok() => number.to_string(),
                number if number.strip_suffix(['u', 'U']).is_some_and(|own| own.parse::<i64>().is_ok()) => {
                    number[..number.len() - 1].to_string()
                }
                name if depth < DEPTH => {
                    let value = self.macros.get(name).or_else(|| self.constants.get(name))?;
                    let own = self.expand(value, known, depth + 1)?;
                    match value.len() {
                        0 => return None,
                        1 => own,
                        _ if own.starts_with('(') && own.ends_with(')') => own,
                        _ => format!("({own})"),
                    }
                }
                _ => return None,
            };
            text.push_str(&own);
            if text.len() > EXPRESSION_MAX {
                return None;
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

const THREADS_MAX: i64 = 1024;

/// More tunables than this are a source that means something else.
const TUNABLES_MAX: usize = 64;

/// Names of libraries that look like macros of the source's own, and starts of such.
const FOREIGN: &str = "INFINITY NAN NULL M_PI M_E HUGE_VALF HUGE_VAL RAND_MAX REAL NDEBUG EOF";
const FOREIGN_STARTS: &str = "__ CUDART_ CUDA_ FLT_ DBL_ INT_ UINT_ INT8_ INT16_ INT32_ INT64_ LONG_ CHAR_ SHRT_ M_ \
    LLONG_ UCHAR_ USHRT_ ULONG_ UINT8_ UINT16_ UINT32_ UINT64_";

const DECLARING: &str = "int unsigned typename class struct enum auto float double bool size_t long short char const half \
    void using namespace goto uint32_t int32_t uint T";

pub(super) fn tunables<'s>(
    tokens: &[&str],
    definitions: &Definitions<'s>,
    guesses: &mut Vec<SketchGuess>,
) -> Vec<SketchTunable> {
    let mut found = Vec::new();
    let numbered = |name: &&'s str| Some((*name, definitions.number(name)?));
    for (name, default) in definitions.guarded.iter().filter_map(numbered).take(TUNABLES_MAX) {
        let flag =
            (0..=1).contains(&default) && (definitions.flags.contains(name) || is_switch(name, tokens));
        let values = if flag { vec![0, 1] } else { around(default, is_block(name)) };
        let why = format!("around the source's own {default}");
        found.push(SketchTunable { name: name.to_string(), values, default, is_undefined: false, why });
    }
    for name in undefined(tokens, definitions) {
        let (values, default) = match (is_block(name), name.to_lowercase().ends_with(['y', 'z'])) {
            (true, true) => (vec![1, 2, 4, 8, 16], 1),
            (true, false) => (vec![32, 64, 128, 256, 512, 1024], 256),
            (false, _) => (vec![1, 2, 4, 8], 1),
        };
        let why = "the source leaves it to whoever compiles it".to_string();
        found.push(SketchTunable { name: name.to_string(), values, default, is_undefined: true, why });
    }
    for own in &found {
        let values: Vec<String> = own.values.iter().map(i64::to_string).collect();
        guessed(guesses, format!("`{}` is one of {}", own.name, values.join(", ")), own.why.clone());
    }
    let used: BTreeSet<&str> = tokens.iter().copied().collect();
    let guarded: BTreeSet<&str> = definitions.guarded.iter().copied().collect();
    // A value from outside would clash with macros that nothing guards.
    let fixed = definitions.macros.keys().filter(|name| used.contains(*name) && !guarded.contains(*name));
    for (name, value) in fixed.filter_map(numbered) {
        guessed(
            guesses,
            format!("`{name}` stays {value}"),
            format!("nothing guards it: put its `#define` between `#ifndef {name}` and `#endif` to tune it"),
        );
    }
    found
}

pub(super) fn is_block(name: &str) -> bool {
    let name = name.to_lowercase();
    let counts_work = ["per_thread", "items", "elems", "work"].iter().any(|word| name.contains(word));
    !counts_work
        && (name.contains("block")
            || name.contains("threads")
            || name == "tpb"
            || name == "bx"
            || name == "by")
}

fn is_switch(name: &str, tokens: &[&str]) -> bool {
    let lower = name.to_lowercase();
    if ["use_", "enable_", "has_", "with_", "do_"].iter().any(|start| lower.starts_with(start)) {
        return true;
    }
    let sign = |at: Option<usize>| at.and_then(|at| tokens.get(at)).copied().unwrap_or("");
    (0..tokens.len()).filter(|at| tokens[*at] == name).any(|at| {
        let (before, after) = (sign(at.checked_sub(1)), sign(Some(at + 1)));
        let asked = matches!(before, "(" | "&" | "|" | "!") && matches!(after, ")" | "&" | "|" | "?");
        asked && (before != "(" || sign(at.checked_sub(2)) == "if" || after != ")")
    })
}

fn around(default: i64, is_block: bool) -> Vec<i64> {
    if default < 1 {
        return vec![default, default + 1];
    }
    let max = if is_block { THREADS_MAX } else { i64::MAX / 8 };
    let factors: &[(i64, i64)] = match (default, is_block) {
        (1, _) => &[(1, 1), (2, 1), (4, 1), (8, 1)],
        (_, true) => &[(1, 4), (1, 2), (1, 1), (2, 1), (4, 1)],
        (_, false) => &[(1, 4), (1, 2), (1, 1), (2, 1)],
    };
    let scaled = |(up, down): &(i64, i64)| (default % down == 0).then(|| default.saturating_mul(*up) / down);
    let mut values: Vec<i64> =
        factors.iter().filter_map(scaled).filter(|own| (1..=max).contains(own)).collect();
    if !values.contains(&default) {
        values.push(default);
    }
    values.sort_unstable();
    values
}

fn undefined<'s>(tokens: &[&'s str], definitions: &Definitions<'_>) -> Vec<&'s str> {
    let (mut names, mut declared) = (Vec::new(), BTreeSet::new());
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| looks_like_macro(token)) {
        let before = at.checked_sub(1).map(|at| tokens[at]).unwrap_or("");
        let after = tokens.get(at + 1).copied().unwrap_or("");
        if is_one_of(before, DECLARING) {
            declared.insert(*token);
        }
        let is_value = !matches!(before, "." | ":") && !matches!(after, "(" | ":");
        if is_value && is_name(token) && !definitions.is_defined(token) && seen.insert(*token) {
            names.push(*token);
        }
    }
    names.retain(|name| !declared.contains(name));
    names.truncate(TUNABLES_MAX);
    // A name directly before another one is a type.
    let is_type = |name: &str| tokens.windows(2).any(|pair| pair[0] == name && is_name(pair[1]));
    names.retain(|name| !is_type(name));
    names
}

fn looks_like_macro(token: &str) -> bool {
    let kernel_tuner =
        is_one_of(token, "block_size_x block_size_y block_size_z tile_size_x tile_size_y tile_size_z");
    let upper = token.len() > 1
        && token.starts_with(|c: char| c.is_ascii_uppercase())
        && token.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let foreign =
        is_one_of(token, FOREIGN) || FOREIGN_STARTS.split(' ').any(|start| token.starts_with(start));
    (kernel_tuner || upper) && !foreign
}
