//! Where the time to a ready space goes when everything is warm: reading the document, parsing the
//! expressions, building the index. Shows what is left to gain; no bar is judged by it.

use anyhow::Result;
use evo_space::diagnostic::Diagnostics;
use evo_space::document;
use evo_space::expr::Expr;
use evo_space::space::SearchSpace;
use serde::Serialize;

use super::cold;
use super::spread::Spread;

/// Runs of each phase.
const RUNS: usize = 25;

/// Seconds of each phase; the rest of the whole is reading values and checking names.
#[derive(Debug, Serialize)]
pub struct Phases {
    pub document_seconds: Spread,
    pub expressions_seconds: Spread,
    pub construction_seconds: Spread,
    pub whole_seconds: Spread,
}

/// Measures them all.
pub fn measure(text: &str, space: &SearchSpace) -> Result<Phases> {
    let texts: Vec<String> = space.constraints().iter().map(|c| c.expr.text().to_owned()).collect();
    let parts = || (space.parameters().to_vec(), space.constraints().to_vec());
    let build = |(parameters, constraints)| SearchSpace::new(parameters, constraints);
    Ok(Phases {
        document_seconds: Spread::seconds(RUNS, || document::parse(text, &mut Diagnostics::default())),
        expressions_seconds: Spread::seconds(RUNS, || {
            texts.iter().map(|text| Expr::parse(text)).collect::<Vec<_>>()
        }),
        construction_seconds: Spread::seconds(RUNS, || build(parts())),
        whole_seconds: Spread::seconds(RUNS, || cold::space(text)),
    })
}
