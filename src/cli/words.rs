//! `[SPACE] 32 8 4 | NAME=VALUE…`: the words of `test-one`, `render` and `compile`.
//!
//! A first word that is neither a number nor an assignment is the space; values follow in declared order, by name, or
//! both; what is not given takes its default. A violated constraint is not a mistake of the command
//! line: `test-one` reports it as a verdict, so the caller asks the space.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use evo_space::diagnostic::nearest;
use evo_space::genome::{Configuration, Genome};
use evo_space::space::{Parameter, SearchSpace};
use evo_space::value::Value;
use evo_system::lock;

use super::{CliError, Result, output};
use crate::kernel::access::SpaceAccess;
use crate::kernel::catalog;
use crate::kernel::spec::SpaceFile;

const SHOWN_VALUES: usize = 24;

/// The space among some words, and the values behind it.
#[derive(Clone, Copy, Debug)]
pub struct SpaceWords<'a> {
    /// A name or a path, where the words have one.
    pub named: Option<&'a str>,
    pub values: &'a [String],
}

pub fn named_space(words: &[String]) -> SpaceWords<'_> {
    match words.first().filter(|word| is_space(word)) {
        Some(word) => SpaceWords { named: Some(word), values: &words[1..] },
        None => SpaceWords { named: None, values: words },
    }
}

/// Whether a word means a space: `32` is a value even if there is a file of that name.
pub fn is_space(word: &str) -> bool {
    let is_value = word.contains('=') || word.parse::<f64>().is_ok();
    catalog::looks_like_space(word) || !(is_value || word.starts_with('@'))
}

impl SpaceWords<'_> {
    pub fn space(&self) -> Result<String> {
        space_name(self.named)
    }

    pub fn open(&self, access: SpaceAccess) -> Result<SpaceFile> {
        space(&self.space()?, access)
    }

    /// The point that the values mean. It may violate constraints.
    pub fn genome(&self, file: &SpaceFile) -> Result<Genome> {
        let space = self.space()?;
        let found = point(&file.space, &space, self.values);
        found.map(|(_, genome)| genome).map_err(|message| self.with_context(message, &space))
    }

    fn with_context(&self, message: String, space: &str) -> CliError {
        let is_late = |word: &&String| self.named.is_none() && catalog::looks_like_space(word);
        match self.values.iter().find(is_late) {
            Some(late) => {
                CliError::usage(message).with_hint(format!("a space comes first: `{late}`, then values"))
            }
            None => bad_point(message, space),
        }
    }
}

/// The full configuration that values in declared order or `NAME=VALUE` mean, and its genome, in the
/// space called `name`. It may violate constraints. Errors are messages.
pub fn point(space: &SearchSpace, name: &str, values: &[String]) -> Result<(Configuration, Genome), String> {
    let configuration = configure(space.parameters(), values)?;
    let genome = space.genome(&configuration);
    let genome = genome.ok_or_else(|| format!("`{configuration}` is not a point of `{name}`"))?;
    // The space's own spelling of each value (`4` for a written `4.0`) decides source and hash.
    Ok((space.configuration(&genome), genome))
}

/// The parameters, by place in declared order, and value positions that some `NAME=VALUE` mean.
pub fn assignments(parameters: &[Parameter], words: &[String]) -> Result<Vec<(usize, u16)>, String> {
    if let Some(word) = words.iter().find(|word| !word.contains('=')) {
        return Err(format!("`{word}` does not name a parameter: write NAME=VALUE"));
    }
    let chosen = chosen(parameters, words)?;
    let position = |(slot, value): (usize, &Option<Value>)| {
        Some((slot, parameters[slot].position(value.as_ref()?)? as u16))
    };
    Ok(chosen.iter().enumerate().filter_map(position).collect())
}

pub fn bad_point(message: String, space: &str) -> CliError {
    CliError::usage(message).with_hint(format!("`evo space {space}` lists the parameters of `{space}`"))
}

/// One value for each parameter: given by position or name, else its default.
fn configure(parameters: &[Parameter], words: &[String]) -> Result<Configuration, String> {
    let pair = |(parameter, value): (&Parameter, Option<Value>)| {
        (Arc::clone(&parameter.name), value.unwrap_or_else(|| parameter.default_value().clone()))
    };
    Ok(Configuration::new(parameters.iter().zip(chosen(parameters, words)?).map(pair).collect()))
}

fn chosen(parameters: &[Parameter], words: &[String]) -> Result<Vec<Option<Value>>, String> {
    let mut chosen: Vec<Option<Value>> = vec![None; parameters.len()];
    let mut next = 0;
    for word in words {
        let (position, text) = match word.split_once('=') {
            Some((name, text)) => (position_of(parameters, name)?, text),
            None => {
                next += 1;
                (next - 1, word.as_str())
            }
        };
        let Some(parameter) = parameters.get(position) else {
            return Err(format!("too many values: `{text}` comes after {}", counted(parameters)));
        };
        let value = value_of(parameter, text)?;
        if chosen[position].replace(value).is_some() {
            return Err(format!("parameter `{}` is given twice", parameter.name));
        }
    }
    Ok(chosen)
}

fn counted(parameters: &[Parameter]) -> String {
    let names: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name).collect();
    match names.len() {
        1 => format!("the only parameter {}", names[0]),
        count => format!("all {count} parameters ({})", names.join(" ")),
    }
}

fn position_of(parameters: &[Parameter], name: &str) -> Result<usize, String> {
    if let Some(position) = parameters.iter().position(|parameter| &*parameter.name == name) {
        return Ok(position);
    }
    let names: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name).collect();
    Err(match nearest(name, names.iter().copied()) {
        Some(near) => format!("there is no parameter `{name}`: did you mean `{near}`?"),
        None => format!("there is no parameter `{name}`: parameters are {}", names.join(", ")),
    })
}

/// The value of a parameter that a word means: as it is written in the space, or equal as a number;
/// `true` and `1` both mean a boolean's true.
fn value_of(parameter: &Parameter, text: &str) -> Result<Value, String> {
    let by_text = parameter.values.iter().find(|value| value.to_string() == text);
    let number = match text {
        "true" | "True" => Some(Value::Bool(true)),
        "false" | "False" => Some(Value::Bool(false)),
        _ => text.parse().map(Value::Int).or_else(|_| text.parse().map(Value::Float)).ok(),
    };
    let by_number = || number.and_then(|number| parameter.values.iter().find(|value| **value == number));
    // As text first, because a parameter of texts may have a value that looks like a number.
    by_text.or_else(by_number).cloned().ok_or_else(|| {
        let mut values: Vec<String> =
            parameter.values.iter().take(SHOWN_VALUES).map(ToString::to_string).collect();
        if parameter.values.len() > SHOWN_VALUES {
            values.push(format!("… ({} in all)", parameter.values.len()));
        }
        format!("`{text}` is not a value of `{}`: allowed are {}", parameter.name, values.join(", "))
    })
}

/// What was said already: some commands open a file more than once.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Opens a space by name or path, and says on stderr, once for each space, what took the place of an invalid default.
pub fn space(name: &str, access: SpaceAccess) -> Result<SpaceFile> {
    let file = catalog::open_with(name, access)?;
    if let Some(replaced) = &file.replaced_default {
        say_once(format!("note: in `{name}` {}", replaced.note()));
    }
    Ok(file)
}

/// The space that is meant: the named one, else the folder's only space file, which is said, or the shipped default.
pub fn space_name(named: Option<&str>) -> Result<String> {
    if let Some(named) = named {
        return Ok(named.to_string());
    }
    match &catalog::space_files(Path::new("."))[..] {
        [] => Ok(catalog::DEFAULT.to_string()),
        [only] => {
            say_once(format!("note: `{only}` is meant, the only space file of this folder"));
            Ok(only.clone())
        }
        several => Err(CliError::usage("no space is named, and this folder has several space files")
            .with_hint(format!("name one of them: {}", several.join(", ")))),
    }
}

fn say_once(note: String) {
    if lock(&SAID).insert(note.clone()) {
        output::say(&note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Vec<Parameter> {
        let parameter = |name: &str, values: Vec<Value>, default| Parameter {
            name: Arc::from(name),
            values,
            default,
            help: None,
        };
        vec![
            parameter("BLOCK", vec![16.into(), 32.into(), 64.into()], 1),
            parameter("FAST", vec![false.into(), true.into()], 0),
            parameter("SCALE", vec![Value::Float(0.5), Value::Float(4.0)], 0),
            parameter("layout", vec!["row".into(), "col".into()], 0),
        ]
    }

    #[track_caller]
    fn check(words: &str, expected: &str) {
        let words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
        let shown = match configure(&parameters(), &words) {
            Ok(configuration) => configuration.to_string(),
            Err(message) => message,
        };
        assert_eq!(shown, expected, "{words:?}");
    }

    #[test]
    fn values_by_position_and_by_name() {
        check("", "BLOCK=32 FAST=false SCALE=0.5 layout=row");
        check("64 true", "BLOCK=64 FAST=true SCALE=0.5 layout=row");
        check("16 1 4 col", "BLOCK=16 FAST=true SCALE=4.0 layout=col");
        check("layout=col 64", "BLOCK=64 FAST=false SCALE=0.5 layout=col");
        check("SCALE=4.0 FAST=0 BLOCK=16.0", "BLOCK=16 FAST=false SCALE=4.0 layout=row");
    }

    /// More of them are in `tests/data/refused.toml`.
    #[test]
    fn mistakes_say_what_is_allowed() {
        check("33", "`33` is not a value of `BLOCK`: allowed are 16, 32, 64");
        check("layout=colum", "`colum` is not a value of `layout`: allowed are row, col");
        check("16 0 4 col 7", "too many values: `7` comes after all 4 parameters (BLOCK FAST SCALE layout)");
    }

    #[test]
    fn assignments_name_their_parameter() {
        let words = ["layout=col", "BLOCK=64", "SCALE=4"].map(String::from);
        assert_eq!(assignments(&parameters(), &words), Ok(vec![(0, 2), (2, 1), (3, 1)]));
        assert_eq!(assignments(&parameters(), &[]), Ok(Vec::new()));
    }

    #[test]
    fn long_value_lists_are_cut() {
        let long = Parameter {
            name: Arc::from("N"),
            values: (0..100_i64).map(Value::Int).collect(),
            default: 0,
            help: None,
        };
        let message = configure(&[long], &["x".to_string()]).unwrap_err();
        assert!(message.ends_with("23, … (100 in all)"), "{message}");
    }
}
