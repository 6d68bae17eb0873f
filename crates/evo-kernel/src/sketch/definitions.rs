//! Names with a value: macros without arguments, and constants of the source.

use std::collections::{BTreeMap, BTreeSet};

use crate::words;

/// How deep names may stand for names, and how long the expression may become: names that stand for names many times
/// over would fill the memory.
const DEPTH: usize = 8;
const EXPRESSION_MAX: usize = 2048;
/// Tokens of a value that are looked at.
const VALUE_TOKENS: usize = 64;

/// What names of a source stand for.
#[derive(Debug, Default)]
pub(super) struct Definitions<'s> {
    /// Of `#define NAME …`, the first of each.
    macros: BTreeMap<&'s str, Vec<&'s str>>,
    /// Those whose definition stands behind an `#ifndef` of the same name.
    guarded: Vec<&'s str>,
    /// Of `NAME = … ;`.
    constants: BTreeMap<&'s str, Vec<&'s str>>,
    /// Macros with arguments.
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

    /// A condition: `#if !defined(NAME)` guards too.
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

    /// The tunables that the source itself offers: guarded macros with a whole number.
    pub(super) fn offered(&self) -> impl Iterator<Item = (&'s str, i64)> + '_ {
        self.guarded.iter().filter_map(|name| Some((*name, self.number(name)?)))
    }

    /// Macros with a whole number that nothing guards: a value from outside would clash with them.
    pub(super) fn fixed(&self) -> impl Iterator<Item = (&'s str, i64)> + '_ {
        let guarded: BTreeSet<&str> = self.guarded.iter().copied().collect();
        let free = self.macros.keys().filter(move |name| !guarded.contains(*name));
        free.filter_map(|name| Some((*name, self.number(name)?)))
    }

    fn number(&self, name: &str) -> Option<i64> {
        let value = self.macros.get(name)?;
        let inside = match value[..] {
            ["(", own, ")"] | [own] => own,
            _ => return None,
        };
        inside.parse().ok()
    }

    pub(super) fn is_defined(&self, name: &str) -> bool {
        self.macros.contains_key(name) || self.functions.contains(name) || self.constants.contains_key(name)
    }

    pub(super) fn is_flag(&self, name: &str) -> bool {
        self.flags.contains(name)
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

pub(super) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}
