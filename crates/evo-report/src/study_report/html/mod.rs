//! `report.html`: one page with everything in it, from a template, a style and a script of evo's own.
//!
//! The page reads without its script: charts are SVG and the fastest rows are a table already. The script adds sorting,
//! filters, the value under the pointer, and zoom. A content security policy names style and script by their hashes and
//! allows nothing else, so that no text of a kernel or a compiler can load or run anything.

mod calibration;
mod chart;
mod context;
mod convergence;
mod course;
mod parameters;
mod plot;
mod policy;
mod ranking;
mod roofline;
mod rows;
mod tables;

use evo_space::text::printable;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};

use super::material::ReportMaterial;
use context::PageContext;

const TEMPLATE: &str = include_str!("../../../templates/report.html.j2");
const STYLE: &str = include_str!("../../../templates/report.css");
const SCRIPT: &str = include_str!("../../../templates/report.js");

/// Where a page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    File,
    /// `evo watch` serves it and says when there is more.
    Live,
}

pub fn page(material: &ReportMaterial, kind: PageKind) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("report.html", TEMPLATE)?;
    let is_live = kind == PageKind::Live;
    let page = PageContext::of(material);
    let text = environment.get_template("report.html")?.render(context! {
        policy => policy::policy(STYLE, SCRIPT, is_live),
        style => STYLE,
        script => SCRIPT,
        data => rows::embedded(&rows::data(material)),
        is_live,
        page => Serde(&page),
    })?;
    // A terminal that prints the page obeys nothing in it, and no text of it is written backwards.
    Ok(printable(&text).into_owned())
}
