//! The template environment: delimiters that leave C braces alone, strict names, a few functions.
//!
//! `<{ expression }>` prints, `<% statement %>` decides, `<# comment #>` vanishes. Parameters are
//! variables by their name. A name that the template does not know is an error and never an empty
//! text, because an empty text in C often still compiles. `/` is true division as in Python: write
//! `//` where a whole number is meant.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use evo_space::diagnostic::nearest;
use evo_space::genome::Configuration;
use evo_space::value::{Number, NumberError};
use minijinja::syntax::SyntaxConfig;
pub use minijinja::value::Serde;
use minijinja::value::{Rest, Value as TemplateValue, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::words::is_c_name;

/// Instructions of one rendering: a second or two of work, and a thousand times what the largest template here takes.
const FUEL: u64 = 20_000_000;

/// Depth of macros that call each other; each level takes a few kilobytes of stack.
const RECURSION: usize = 100;

pub const RENDERED_MAX: usize = 16 << 20;

pub const FUNCTIONS: &[&str] = &["ceil_div", "min", "max", "abs", "fail"];

/// Why a template gives no text. Displays as `FILE:LINE: cause`.
#[derive(Clone, Debug, PartialEq, Error, Serialize, Deserialize)]
#[error("{}: {message}", place(.file, *.line))]
pub struct TemplateError {
    pub file: String,
    pub line: Option<usize>,
    pub message: String,
    pub hint: Option<String>,
    pub name: Option<String>,
}

impl TemplateError {
    pub(super) fn of(file: &str, message: String, hint: &str) -> TemplateError {
        TemplateError { file: file.into(), line: None, message, hint: Some(hint.into()), name: None }
    }
}

/// In this process; `path` names the template in messages.
pub fn render(path: &Path, text: &str, configuration: &Configuration) -> Result<String, TemplateError> {
    let known: Vec<&str> = configuration.iter().map(|(name, _)| name).collect();
    let environment = environment();
    let file = file_name(path);
    let fault = |error: Error| template_error(&file, text, &known, &error);
    let template = environment.template_from_named_str(&file, text).map_err(fault)?;
    let mut rendered = CappedText::default();
    let result = template.render_captured_to(Serde(configuration), &mut rendered).map(drop);
    if rendered.is_over {
        let message = format!("the rendered source is longer than {} MiB", RENDERED_MAX >> 20);
        let hint =
            "the longest kernels in use have some hundred kilobytes; look for a loop that runs too often";
        let line = result.err().and_then(|error| error.line());
        return Err(TemplateError { line, ..TemplateError::of(&file, message, hint) });
    }
    result.map_err(fault)?;
    // Only whole texts are written to it; this does not copy them.
    Ok(String::from_utf8(rendered.bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[derive(Default)]
struct CappedText {
    bytes: Vec<u8>,
    is_over: bool,
}

impl Write for CappedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > RENDERED_MAX {
            self.is_over = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Syntax, and that every name it reads is known. One that the template itself tests with `is defined` may be unknown.
pub fn check(path: &Path, text: &str, known: &[&str]) -> Vec<TemplateError> {
    let environment = environment();
    let file = file_name(path);
    let template = match environment.template_from_named_str(&file, text) {
        Ok(template) => template,
        Err(error) => return vec![template_error(&file, text, known, &error)],
    };
    let globals: BTreeSet<String> = environment.globals().map(|(name, _)| name.to_string()).collect();
    let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
    unknown.retain(|name| !known.contains(&name.as_str()) && !globals.contains(name));
    let tests = [" is defined", " is not defined", " is undefined"];
    unknown.retain(|name| !tests.iter().any(|test| word_position(text, &format!("{name}{test}")).is_some()));
    unknown.sort();
    unknown.iter().map(|name| unknown_name(&file, text, known, name)).collect()
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn place(file: &str, line: Option<usize>) -> String {
    line.map_or_else(|| file.to_string(), |line| format!("{file}:{line}"))
}

/// The environment of texts that evo writes itself: the same syntax and strictness, and Python's ways to print.
pub fn plain_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax());
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // The output is code, which the escaping of HTML would damage.
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment
}

fn environment() -> Environment<'static> {
    let mut environment = plain_environment();
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.set_formatter(print);
    environment.set_debug(true);
    environment.add_function("ceil_div", ceil_div);
    environment.add_filter("ceil_div", ceil_div);
    environment.add_function("min", |values: Rest<TemplateValue>| extreme("min", values.iter().min()));
    environment.add_function("max", |values: Rest<TemplateValue>| extreme("max", values.iter().max()));
    environment.add_function("abs", |value: i64| value.checked_abs().ok_or_else(|| overflow("abs")));
    environment.add_function("fail", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment
}

fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder()
        .block_delimiters("<%", "%>")
        .variable_delimiters("<{", "}>")
        .comment_delimiters("<#", "#>")
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()
        .expect("three pairs of distinct delimiters are a valid syntax")
}

/// Prints a value as C++ reads it: minijinja would print Python's `True`.
fn print(output: &mut Output, state: &mut State, value: &TemplateValue) -> Result<(), Error> {
    if value.kind() == ValueKind::Bool {
        output.write_str(if value.is_true() { "true" } else { "false" })?;
        return Ok(());
    }
    minijinja::escape_formatter(output, state, value)
}

fn ceil_div(dividend: i64, divisor: i64) -> Result<i64, Error> {
    match Number::ceil_div(Number::Int(dividend), Number::Int(divisor)) {
        Ok(Number::Int(quotient)) => Ok(quotient),
        Err(NumberError::DivisionByZero) => Err(Error::new(ErrorKind::InvalidOperation, "ceil_div by zero")),
        _ => Err(overflow("ceil_div")),
    }
}

fn extreme(name: &str, chosen: Option<&TemplateValue>) -> Result<TemplateValue, Error> {
    let none = || Error::new(ErrorKind::MissingArgument, format!("{name} needs at least one value"));
    chosen.cloned().ok_or_else(none)
}

fn overflow(name: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{name} overflows 64 bits"))
}

/// Our form of minijinja's error: the innermost cause, with the text it points at.
fn template_error(file: &str, text: &str, known: &[&str], error: &Error) -> TemplateError {
    let snippet = error.range().and_then(|range| text.get(range)).map(str::trim);
    if error.kind() == ErrorKind::UndefinedError
        && let Some(name) = snippet.filter(|name| is_c_name(name) && !known.contains(name))
    {
        return TemplateError { line: error.line(), ..unknown_name(file, text, known, name) };
    }
    if error.kind() == ErrorKind::OutOfFuel {
        let message = "the template takes too long to render".to_string();
        let error_of_fuel = TemplateError::of(file, message, "look for a loop that runs too often");
        return TemplateError { line: error.line(), ..error_of_fuel };
    }
    let cause = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    let adds = |snippet: &&str| !snippet.is_empty() && !snippet.contains('\n') && !cause.contains(*snippet);
    let message = match snippet.filter(adds) {
        Some(snippet) => format!("{cause} in `{snippet}`"),
        None => cause,
    };
    TemplateError { file: file.to_string(), line: error.line(), message, hint: None, name: None }
}

fn unknown_name(file: &str, text: &str, known: &[&str], name: &str) -> TemplateError {
    let near = nearest(name, known.iter().copied().chain(FUNCTIONS.iter().copied()));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    let message = format!("the template reads `{name}`, which is not a parameter");
    let (line, name) = (line_of_name(text, name), Some(name.to_string()));
    TemplateError { line, name, ..TemplateError::of(file, message, &hint) }
}

/// The first line that has `name` as a whole word inside `<{ }>` or `<% %>`.
fn line_of_name(text: &str, name: &str) -> Option<usize> {
    let mut offset = 0;
    while let Some(start) = text[offset..].find(['<']).map(|at| at + offset) {
        offset = start + 1;
        let rest = &text[start..];
        let close = match rest.as_bytes().get(1) {
            Some(b'{') => "}>",
            Some(b'%') => "%>",
            _ => continue,
        };
        let inside = rest.find(close).map_or(rest, |end| &rest[..end]);
        if let Some(at) = word_position(inside, name) {
            return Some(text[..start + at].matches('\n').count() + 1);
        }
    }
    None
}

fn word_position(text: &str, word: &str) -> Option<usize> {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let before = at.checked_sub(1).and_then(|at| text.as_bytes().get(at));
        !is_word(before) && !is_word(text.as_bytes().get(at + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use evo_space::SearchSpace;

    use super::*;

    fn place() -> &'static Path {
        Path::new("dir/k.cu.j2")
    }

    fn configuration() -> Configuration {
        let text = "parameters = { BLOCK = [100], FAST = [true], SCALE = [0.5], swizzle = ['xor'] }";
        let space = SearchSpace::parse(text).unwrap();
        space.configuration(&space.default_genome())
    }

    #[test]
    fn values_print_as_c_reads_them_and_errors_name_file_line_and_cause() {
        let rendered = |template: &str| match render(place(), template, &configuration()) {
            Ok(text) => format!("{template:?} -> {text:?}\n"),
            Err(error) => format!("{template:?} -> {error} | hint: {:?}\n", error.hint),
        };
        let templates = [
            "int a[2][1] = {{1},{2}}; {{ }} {% %} {# #}",
            "<{ BLOCK }> <{ FAST }> <{ SCALE }> <{ swizzle }> <{ BLOCK > 5 }>",
            "<{ BLOCK // 32 }> <{ BLOCK / 32 }> <{ BLOCK % 32 }>",
            "<{ ceil_div(BLOCK, 32) }> <{ BLOCK | ceil_div(100) }> <{ ceil_div(-7, 2) }>",
            "<{ ceil_div(7, -2) }> <{ min(BLOCK, 3) }> <{ max(1, 2, 7) }> <{ abs(-4) }>",
            "<{ swizzle }><{ \"<&\" }>",
            // Statements leave no lines behind.
            "a\n  <% if FAST %>\nb\n  <% endif %>\n<# note #>\nc\n",
            "<% for i in range(BLOCK // 50) %>\nx<{ i }>;\n<% endfor %>\n",
            "<% if swizzle == 'xor' %>x<% else %>y<% endif %>",
            "a\n<{ BLOK }>",
            "\n\n<{ BLOCK // 0 }>",
            "<{ fail('no ' ~ swizzle) }>",
            "<{ ceil_div(1, 0) }>",
            "<{ ceil_div(-9223372036854775807 - 1, 0) }>",
            "x\n<% if FAST %>",
        ];
        insta::assert_snapshot!(templates.map(rendered).concat());
    }

    #[test]
    fn a_template_that_does_not_end_is_an_error_with_its_line() {
        let endless = "a\n<% for i in range(99999) %><% for j in range(99999) %><% endfor %><% endfor %>";
        let error = render(place(), endless, &configuration()).unwrap_err();
        assert_eq!(error.message, "the template takes too long to render");
        assert_eq!((error.line, error.hint.is_some()), (Some(2), true));
        let long = "a\n<% for i in range(9999) %><{ '0123456789' * 1000 }><% endfor %>";
        let error = render(place(), long, &configuration()).unwrap_err();
        assert_eq!(error.message, "the rendered source is longer than 16 MiB");
        let deep = "<% macro f() %><{ f() }><% endmacro %><{ f() }>";
        assert!(render(place(), deep, &configuration()).is_err());
    }

    #[test]
    fn check_finds_unknown_names_in_branches_never_taken() {
        let list =
            |template: &str| format!("{template:?} -> {:?}\n", check(place(), template, &["BLOCK", "FAST"]));
        let templates = [
            "<% if FAST %><{ range(BLOCK)|length + ceil_div(1,2) }><% endif %>",
            "<% set x = 1 %><{ x }><% for i in range(3) %><{ i + loop.index }><% endfor %>",
            "<% if EXTRA is defined %><{ EXTRA }><% endif %>",
            "BLOK\n\n<% if not FAST %>\n<{ BLOCK * BLOK }><% endif %>",
        ];
        insta::assert_snapshot!(templates.map(list).concat());
    }

    #[test]
    fn rounding_up_agrees_with_the_definition() {
        for dividend in -20_i64..=20 {
            for divisor in (-6_i64..=6).filter(|divisor| *divisor != 0) {
                let expected = (dividend as f64 / divisor as f64).ceil() as i64;
                assert_eq!(ceil_div(dividend, divisor).unwrap(), expected, "{dividend} / {divisor}");
            }
        }
    }
}
