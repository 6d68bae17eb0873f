//! Formulas of a launch plan as both languages write them.

use evo_kernel::spec::LaunchSpec;
use evo_space::expr::Expr;
use evo_space::genome::Configuration;
use evo_space::value::Value;
use serde::Serialize;

use crate::translate::{Language, Meaning, bare, translate};

/// A formula over sizes. The texts compute a whole number, a fraction or a truth, as the place needs it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExportFormula {
    pub source: String,
    pub cpp: String,
    pub python: String,
    /// The whole number, where no size is read.
    pub known: Option<i64>,
}

impl ExportFormula {
    pub(crate) fn fixed(value: i64) -> ExportFormula {
        let text = value.to_string();
        ExportFormula { source: text.clone(), cpp: text.clone(), python: text, known: Some(value) }
    }

    pub(crate) fn truth(holds: bool) -> ExportFormula {
        let python = if holds { "True" } else { "False" }.to_string();
        ExportFormula { source: python.clone(), cpp: holds.to_string(), python, known: Some(holds.into()) }
    }
}

#[derive(Clone)]
pub(crate) struct FormulaNames<'a> {
    pub configuration: &'a Configuration,
    pub constants: &'a [(String, i64)],
    /// Name and identifier of each size.
    pub sizes: &'a [(String, String)],
    /// Name and identifier of the counter of a loop.
    pub turn: Option<(String, String)>,
}

impl FormulaNames<'_> {
    fn meaning(&self, name: &str) -> Option<Meaning> {
        let variable = |own: &(String, String)| Meaning::Variable(own.1.clone());
        if let Some(turn) = self.turn.as_ref().filter(|(own, _)| own == name) {
            return Some(variable(turn));
        }
        if let Some((_, value)) = self.constants.iter().find(|(own, _)| own == name) {
            return Some(Meaning::Known(Value::Int(*value)));
        }
        let size = self.sizes.iter().find(|(own, _)| own == name).map(variable);
        size.or_else(|| self.configuration.get(name).cloned().map(Meaning::Known))
    }

    fn codes(&self, expr: &Expr, place: &str) -> Result<(String, String, Option<Value>), ExportError> {
        let code = |language| {
            translate(expr, language, &|name| self.meaning(name)).map_err(|name| {
                ExportError::not_exportable(format!(
                    "{place} = `{}` reads `{name}`, which is not a size",
                    expr.text()
                ))
            })
        };
        let (cpp, python) = (code(Language::Cpp)?, code(Language::Python)?);
        Ok((cpp.text, python.text, cpp.known))
    }

    pub(crate) fn whole(&self, expr: &Expr, place: &str) -> Result<ExportFormula, ExportError> {
        let (cpp, python, known) = self.codes(expr, place)?;
        let source = expr.text().to_string();
        let Some(value) = known else {
            let (cpp, python) = (format!("to_whole({})", bare(&cpp)), format!("to_whole({})", bare(&python)));
            return Ok(ExportFormula { source, cpp, python, known: None });
        };
        let whole = match value {
            Value::Float(own) if own.fract() == 0.0 && own.abs() < 9e15 => Some(own as i64),
            ref other => other.as_int(),
        };
        let Some(whole) = whole else {
            let text = format!("{place} = `{source}` is {value}, not a whole number");
            return Err(ExportError::not_exportable(text));
        };
        Ok(ExportFormula { source, ..ExportFormula::fixed(whole) })
    }

    pub(crate) fn wholes(
        &self,
        list: &[Expr],
        place: impl Fn(usize) -> String,
    ) -> Result<Vec<ExportFormula>, ExportError> {
        list.iter().enumerate().map(|(axis, expr)| self.whole(expr, &place(axis))).collect()
    }

    /// What a formula gives; nothing where it reads a size.
    pub(crate) fn known(&self, expr: &Expr, place: &str) -> Result<Option<Value>, ExportError> {
        Ok(self.codes(expr, place)?.2)
    }

    pub(crate) fn number(&self, expr: &Expr, place: &str) -> Result<ExportFormula, ExportError> {
        let (cpp, python, _) = self.codes(expr, place)?;
        let (cpp, python) =
            (format!("exact({}).number()", bare(&cpp)), format!("to_number({})", bare(&python)));
        Ok(ExportFormula { source: expr.text().to_string(), cpp, python, known: None })
    }

    /// A formula of which only the truth counts: where it reads no size, it is known to be 1 or 0.
    pub(crate) fn condition(&self, expr: &Expr, place: &str) -> Result<ExportFormula, ExportError> {
        let (cpp, python, known) = self.codes(expr, place)?;
        let source = expr.text().to_string();
        Ok(match known {
            Some(value) => ExportFormula { source, ..ExportFormula::truth(value.is_true()) },
            None => ExportFormula {
                source,
                cpp: format!("is_true({})", bare(&cpp)),
                python: format!("bool({})", bare(&python)),
                known: None,
            },
        })
    }
}

/// How messages call a key of a launch.
pub(crate) fn place(key: &str, launch: &LaunchSpec) -> String {
    format!("{key} of launch `{}`", launch.entry)
}

/// Why a candidate cannot be exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error("{0}")]
    NotExportable(String),
    /// A template of evo's own fails: a mistake in evo.
    #[error("the template `{name}` fails: {why}")]
    Template { name: String, why: String },
}

impl ExportError {
    pub(crate) fn not_exportable(text: impl Into<String>) -> ExportError {
        ExportError::NotExportable(text.into())
    }
}
