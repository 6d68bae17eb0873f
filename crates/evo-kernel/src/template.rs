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
    unknown.retain(|name| !tests_definition(text, name));
    unknown.sort();
    unknown.iter().map(|name| unknown_name(&file, text, known, name)).collect()
}

pub(super) fn file_name(path: &Path) -> String {
    match path.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => path.display().to_string(),
    }
}

fn place(file: &str, line: Option<usize>) -> String {
    match line {
        Some(line) => format!("{file}:{line}"),
        None => file.to_string(),
    }
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
    environment.add_function("min", |values: Rest<TemplateValue>| extreme("min", &values));
    environment.add_function("max", |values: Rest<TemplateValue>| extreme("max", &values));
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
    if divisor == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "ceil_div by zero"));
    }
    let quotient = i128::from(dividend).div_euclid(i128::from(divisor));
    let rest = i128::from(dividend) - quotient * i128::from(divisor);
    // `div_euclid` leaves a remainder in 0..|divisor|; rounding up adds one where the divisor is positive.
    let up = quotient + i128::from(rest != 0 && divisor > 0);
    i64::try_from(up).map_err(|_| overflow("ceil_div"))
}

fn extreme(name: &str, values: &[TemplateValue]) -> Result<TemplateValue, Error> {
    let chosen = if name == "min" { values.iter().min() } else { values.iter().max() };
    chosen
        .cloned()
        .ok_or_else(|| Error::new(ErrorKind::MissingArgument, format!("{name} needs at least one value")))
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

fn tests_definition(text: &str, name: &str) -> bool {
    [" is defined", " is not defined", " is undefined"]
        .iter()
        .any(|test| word_position(text, &format!("{name}{test}")).is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use evo_space::value::Value;

    use super::*;

    fn place() -> &'static Path {
        Path::new("dir/k.cu.j2")
    }

    fn configuration() -> Configuration {
        let pair = |name: &str, value: Value| (Arc::from(name), value);
        Configuration::new(vec![
            pair("BLOCK", Value::Int(100)),
            pair("FAST", Value::Bool(true)),
            pair("SCALE", Value::Float(0.5)),
            pair("swizzle", Value::text("xor")),
        ])
    }

    #[track_caller]
    fn check_render(template: &str, expected: &str) {
        let shown = match render(place(), template, &configuration()) {
            Ok(shown) => shown,
            Err(error) => match &error.hint {
                Some(hint) => format!("{error} | hint: {hint}"),
                None => error.to_string(),
            },
        };
        assert_eq!(shown, expected, "template {template:?}");
    }

    #[test]
    fn values_print_as_c_reads_them() {
        check_render(
            "int a[2][1] = {{1},{2}}; {{ }} {% %} {# #}",
            "int a[2][1] = {{1},{2}}; {{ }} {% %} {# #}",
        );
        check_render(
            "<{ BLOCK }> <{ FAST }> <{ SCALE }> <{ swizzle }> <{ BLOCK > 5 }>",
            "100 true 0.5 xor true",
        );
        check_render("<{ BLOCK // 32 }> <{ BLOCK / 32 }> <{ BLOCK % 32 }>", "3 3.125 4");
        check_render("<{ ceil_div(BLOCK, 32) }> <{ BLOCK | ceil_div(100) }> <{ ceil_div(-7, 2) }>", "4 1 -3");
        check_render(
            "<{ ceil_div(7, -2) }> <{ min(BLOCK, 3) }> <{ max(1, 2, 7) }> <{ abs(-4) }>",
            "-3 3 7 4",
        );
        check_render("<{ swizzle }><{ \"<&\" }>", "xor<&");
    }

    #[test]
    fn statements_leave_no_lines_behind() {
        check_render("a\n  <% if FAST %>\nb\n  <% endif %>\n<# note #>\nc\n", "a\nb\nc\n");
        check_render("<% for i in range(BLOCK // 50) %>\nx<{ i }>;\n<% endfor %>\n", "x0;\nx1;\n");
        check_render("<% if swizzle == 'xor' %>x<% else %>y<% endif %>", "x");
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
    fn errors_name_file_line_and_cause() {
        check_render(
            "a\n<{ BLOK }>",
            "k.cu.j2:2: the template reads `BLOK`, which is not a parameter | hint: did you mean `BLOCK`?",
        );
        check_render("\n\n<{ BLOCK // 0 }>", "k.cu.j2:3: unable to calculate 100 // 0 in `BLOCK // 0`");
        check_render("<{ fail('no ' ~ swizzle) }>", "k.cu.j2:1: no xor in `fail('no ' ~ swizzle)`");
        check_render("<{ ceil_div(1, 0) }>", "k.cu.j2:1: ceil_div by zero in `ceil_div(1, 0)`");
        let error = render(place(), "x\n<% if FAST %>", &configuration()).unwrap_err();
        assert_eq!(error.line, Some(2), "{error}");
    }

    #[test]
    fn check_finds_unknown_names_in_branches_never_taken() {
        let known = ["BLOCK", "FAST"];
        let list = |template: &str| -> Vec<String> {
            check(place(), template, &known).iter().map(ToString::to_string).collect()
        };
        assert_eq!(list("<% if FAST %><{ range(BLOCK)|length + ceil_div(1,2) }><% endif %>"), [""; 0]);
        assert_eq!(
            list("<% set x = 1 %><{ x }><% for i in range(3) %><{ i + loop.index }><% endfor %>"),
            [""; 0]
        );
        assert_eq!(list("<% if EXTRA is defined %><{ EXTRA }><% endif %>"), [""; 0]);
        assert_eq!(
            list("BLOK\n\n<% if not FAST %>\n<{ BLOCK * BLOK }><% endif %>"),
            ["k.cu.j2:4: the template reads `BLOK`, which is not a parameter"]
        );
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
