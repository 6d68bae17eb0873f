//! The templates of what people read: the files of a study, and the text of a terminal.

use evo_space::text::{counted, quote, shortened};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior, context};
use serde::Serialize;

use crate::chart;
use crate::markdown::{block, code, named, plain};
use crate::table::markdown_cell;
use crate::units::{rate, time, unit};
use crate::width::wrapped;

macro_rules! templates {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("../templates/", $name)))),*] };
}

const TEMPLATES: [(&str, &str); 34] = templates![
    "findings.j2",
    "report.md.j2",
    "final_summary.md.j2",
    "chart.html.j2",
    "report.html.j2",
    "board.txt.j2",
    "champions.txt.j2",
    "insight.txt.j2",
    "details.txt.j2",
    "run.txt.j2",
    "closing.txt.j2",
    "verdict.txt.j2",
    "figures.txt.j2",
    "evaluate.txt.j2",
    "profile.txt.j2",
    "sanitize.txt.j2",
    "crosscheck.txt.j2",
    "crosscheck.page.j2",
    "invert.j2",
    "bench.page.j2",
    "invert.txt.j2",
    "invert.page.j2",
    "gate.page.j2",
    "ladder.j2",
    "history.txt.j2",
    "summary.txt.j2",
    "preflight.txt.j2",
    "explain.txt.j2",
    "space.txt.j2",
    "check.txt.j2",
    "init.txt.j2",
    "bench.txt.j2",
    "export.txt.j2",
    "compile.txt.j2",
];

/// In `.md.j2` every text that is not marked as safe is escaped, so that no text of a kernel is markup.
pub(crate) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_syntax(
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()?,
    );
    environment.set_auto_escape_callback(|name| match name {
        name if name.ends_with(".html.j2") => AutoEscape::Html,
        name if name.ends_with(".md.j2") => AutoEscape::Custom("markdown".into()),
        _ => AutoEscape::None,
    });
    environment.set_formatter(|output, state, value| match state.auto_escape() {
        AutoEscape::Custom(_) if value.is_safe() => Ok(output.write_str(value.as_str().unwrap_or_default())?),
        AutoEscape::Custom(_) => {
            // Blanks between pieces of a line stay.
            let text = value.to_string();
            let (lead, tail) = (text.starts_with(' '), text.len() > 1 && text.ends_with(' '));
            let blank = |is_there| if is_there { " " } else { "" };
            Ok(write!(output, "{}{}{}", blank(lead), plain(&text), blank(tail))?)
        }
        _ => minijinja::escape_formatter(output, state, value),
    });
    let safe = Value::from_safe_string;
    environment.add_filter("time", time);
    environment
        .add_filter("rate", |pace: f64, what: Option<&str>| rate(pace, what.unwrap_or(" evaluations")));
    environment.add_filter("fixed", |value: f64, digits: usize| format!("{value:.digits$}"));
    environment.add_filter("percent", |share: f64, digits: usize| format!("{:.digits$} %", 100.0 * share));
    environment.add_filter("number", |value: f64| value.to_string());
    environment.add_filter("scientific", |value: f64| format!("{value:.3e}"));
    environment.add_filter("short", chart::short);
    environment.add_filter("px", chart::px);
    environment.add_filter("quote", |text: String| quote(&text).into_owned());
    environment.add_filter("cut", |text: String, most: usize| shortened(&text, most).into_owned());
    // By characters, where `%-9s` of `format` counts bytes.
    environment.add_filter("pad", |text: String, width: usize| format!("{text:<width$}"));
    environment.add_filter("code", move |text: String| safe(code(&text)));
    environment.add_filter("block", move |text: String, language: &str| safe(block(language, &text)));
    environment.add_filter("cell", |text: String| markdown_cell(&text));
    environment.add_filter("named", move |finding: String| safe(named(&finding)));
    environment.add_filter("points", chart::points);
    environment.add_filter("path", chart::path);
    environment.add_filter("spread", chart::spread);
    environment.add_filter("quantile", chart::quantile);
    environment.add_function("counted", |count: u64, noun: &str| counted(count, noun));
    environment.add_function("scale", chart::scale);
    environment.add_function("rect", chart::rect);
    environment.add_function("time_unit", |time_ns: f64| {
        let (name, nanoseconds) = unit(time_ns);
        context! { name, nanoseconds }
    });
    for (name, text) in TEMPLATES {
        environment.add_template(name, text)?;
    }
    Ok(environment)
}

fn rendered(name: &str, values: Value) -> String {
    let text = environment().and_then(|environment| environment.get_template(name)?.render(values));
    // That is a mistake of evo's own, which must not hide the numbers beside it.
    text.unwrap_or_else(|error| format!("`{name}` does not render: {error:#}"))
}

/// A text whose lines stand in its template, without blanks at their ends.
pub(crate) fn lines(name: &str, values: Value) -> String {
    rendered(name, values).lines().map(|line| line.trim_end().to_string() + "\n").collect()
}

/// The same for a page that another crate fills in.
pub fn page(name: &str, values: &impl Serialize) -> String {
    lines(name, Value::from(Serde(values)))
}

/// The paragraphs of a text, each in one line. In their templates blank lines stand between them, and lines are broken
/// anywhere.
pub(crate) fn paragraphs(name: &str, values: Value) -> Vec<String> {
    let line = |paragraph: &str| {
        let lines = paragraph.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" ")
    };
    rendered(name, values).split("\n\n").map(line).filter(|line| !line.is_empty()).collect()
}

/// The same, broken for a terminal.
pub(crate) fn prose(name: &str, values: Value, width: usize) -> String {
    paragraphs(name, values).iter().map(|line| wrapped(line, width)).collect()
}
