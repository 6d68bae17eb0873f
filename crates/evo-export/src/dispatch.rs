//! Which of several variants to call, by sizes: `dispatch.json`, `dispatch.hpp` and `dispatch.py`.

use std::collections::BTreeMap;

use evo_space::expr::Expr;
use evo_space::genome::Configuration;
use serde::Serialize;
use serde_json::{Value, json};

use crate::files::{EXACT_HPP, EXACT_PY, ExportFile, render};
use crate::model::identifiers;
use crate::translate::{ExportError, ExportFormula, Exported, FormulaNames};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DispatchVariant {
    pub folder: String,
    pub label: String,
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DispatchRule {
    /// An expression over sizes; the last step may always hold.
    pub when: Option<String>,
    pub variant: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dispatch {
    pub kernel: String,
    pub sizes: Vec<String>,
    pub variants: Vec<DispatchVariant>,
    pub rules: Vec<DispatchRule>,
    /// How much slower than the fastest the chosen variant may be: 0.05 is 5 %. None where nothing was compared.
    pub within: Option<f64>,
    /// The largest time over that of the fastest, over the problems; none where nothing was compared.
    pub worst_factor: Option<f64>,
    /// Whether no smaller set does.
    pub is_exact: bool,
    pub measured: Vec<(String, BTreeMap<String, i64>)>,
}

pub fn files(dispatch: &Dispatch, evo: &str) -> Exported<Vec<ExportFile>> {
    let mut identifiers = identifiers();
    let ident = identifiers.take(&dispatch.kernel);
    let sizes: Vec<(String, String)> =
        dispatch.sizes.iter().map(|name| (name.clone(), identifiers.take(name))).collect();
    let nothing = Configuration::new(Vec::new());
    let names = FormulaNames { configuration: &nothing, constants: &[], sizes: &sizes, turn: None };
    let mut rules = Vec::new();
    for rule in &dispatch.rules {
        let condition = |text: &String| {
            let unread =
                |error| ExportError::not_exportable(format!("the rule `{text}` cannot be read: {error}"));
            names.condition(&Expr::parse(text).map_err(unread)?, "a rule")
        };
        let when = rule.when.as_ref().map(condition).transpose()?;
        // A rule that holds whatever the sizes are has no condition, and one that never holds is none.
        match when {
            Some(formula) if formula.known == Some(0) => {}
            when => rules.push((when.filter(|formula| formula.known.is_none()), rule.variant)),
        }
    }
    let shown =
        |(when, variant): &(Option<ExportFormula>, usize)| json!({ "when": when, "variant": variant });
    let context = json!({
        "kernel": dispatch.kernel,
        "ident": ident,
        "evo": evo,
        "sizes": sizes,
        "variants": dispatch.variants,
        "rules": rules.iter().map(shown).collect::<Vec<Value>>(),
        "worst": dispatch.worst_factor.map(|factor| format!("{:.1} %", 100.0 * factor)),
    });
    let about = "which variant to call, by sizes";
    let cpp = render("dispatch.hpp", include_str!("../templates/dispatch.hpp.j2"), &context)?;
    let python = render("dispatch.py", include_str!("../templates/dispatch.py.j2"), &context)?;
    Ok(vec![
        ExportFile::of("dispatch.json", format!("{:#}\n", object(dispatch, evo)), about),
        ExportFile::of("dispatch.hpp", cpp, about),
        ExportFile::of("exact.hpp", EXACT_HPP, "arithmetic of sizes, for dispatch.hpp"),
        ExportFile::of("exact.py", EXACT_PY, "arithmetic of sizes, for dispatch.py"),
        ExportFile::of("dispatch.py", python, about),
    ])
}

fn object(dispatch: &Dispatch, evo: &str) -> Value {
    let rule =
        |own: &DispatchRule| json!({ "when": own.when, "variant": dispatch.variants[own.variant].folder });
    let measured =
        |(problem, sizes): &(String, BTreeMap<String, i64>)| json!({ "problem": problem, "sizes": sizes });
    json!({
        "schema": "evo.dispatch",
        "version": 1,
        "evo": evo,
        "kernel": dispatch.kernel,
        "sizes": dispatch.sizes,
        "variants": dispatch.variants,
        "rule": dispatch.rules.iter().map(rule).collect::<Vec<_>>(),
        "within_ratio": dispatch.within,
        "worst_factor": dispatch.worst_factor,
        "is_smallest": dispatch.is_exact,
        "measured": dispatch.measured.iter().map(measured).collect::<Vec<_>>(),
    })
}
