//! `evo explain VERDICT`: the page on verdicts, a section at a time.
//!
//! The page is the only text; this finds its parts, so that what a browser shows and what a terminal shows
//! cannot differ.

use clap::Args;
use evo_protocol::verdict::{VerdictClass, VerdictKind};
use evo_space::diagnostic::nearest;
use evo_space::document::suggestion;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{Answer, Call, CliError, ExitCode, Result, output};
use crate::report::templates::page;
use crate::report::width::{stdout_width, wrapped};

const PAGE: &str = include_str!("../../docs/verdicts.md");

pub fn run(arguments: &ExplainArgs, call: &Call) -> Result<Answer> {
    let Some(label) = &arguments.verdict else {
        output::stdout(&VerdictKind::ALL.iter().map(|kind| format!("{kind}\n")).collect::<String>())?;
        return Ok(ExitCode::Done.into());
    };
    let explained = explain(label)?;
    call.show(&explained.text(stdout_width()))?;
    Ok(Answer::of(ExitCode::Done, &explained))
}

/// `evo explain VERDICT`: a section of the page, and the cause that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Explained {
    verdict: VerdictKind,
    class: VerdictClass,
    cause: Option<String>,
    cause_text: Option<String>,
    causes: Vec<ExplainedCause>,
    seen: String,
    usual_causes: String,
    next: String,
    example: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ExplainedCause {
    cause: String,
    text: String,
}

fn explain(label: &str) -> Result<Explained> {
    let (name, cause) = label.split_once(':').unwrap_or((label, ""));
    let Some(kind) = VerdictKind::named(name) else {
        let names = VerdictKind::ALL.iter().map(|kind| kind.as_str());
        let of: Vec<String> = with_cause(name).map(|kind| format!("`{kind}:{name}`")).collect();
        let hint = match of.is_empty() {
            true => suggestion(name, names, || "`evo explain` lists all verdicts".to_string()),
            false => format!("`{name}` is a cause: try {}", of.join(" or ")),
        };
        return Err(CliError::usage(format!("there is no verdict `{name}`")).with_hint(hint));
    };
    let mut section = section(kind)
        .ok_or_else(|| CliError::harness(format!("the page on verdicts has no section on `{kind}`")))?;
    section.cause = Some(cause.to_string()).filter(|cause| !cause.is_empty());
    section.cause_text =
        section.causes.iter().find(|known| known.cause == cause).map(|known| known.text.clone());
    Ok(section)
}

fn with_cause(cause: &str) -> impl Iterator<Item = VerdictKind> {
    let has = move |kind: &VerdictKind| {
        section(*kind).is_some_and(|section| section.causes.iter().any(|known| known.cause == cause))
    };
    VerdictKind::ALL.iter().copied().filter(has)
}

fn section(kind: VerdictKind) -> Option<Explained> {
    let heading = format!("\n## `{kind}`\n");
    let start = PAGE.find(&heading)? + heading.len();
    let rest = &PAGE[start..];
    let text = rest.find("\n## ").map_or(rest, |end| &rest[..end]);
    let blocks: Vec<String> = text.split("\n\n").map(one_line).collect();
    let paragraph = |lead: &str| {
        let lead = format!("**{lead}.** ");
        blocks.iter().find_map(|block| block.strip_prefix(&lead)).map(str::to_string)
    };
    let list = text.split("**Causes.**").nth(1).unwrap_or_default();
    let cause = |item: &str| {
        let (name, text) = item.strip_prefix('`')?.split_once("`: ")?;
        Some(ExplainedCause { cause: name.to_string(), text: one_line(text) })
    };
    Some(Explained {
        verdict: kind,
        class: kind.class(),
        cause: None,
        cause_text: None,
        causes: list.split("\n- ").filter_map(cause).collect(),
        seen: paragraph("Seen")?,
        usual_causes: paragraph("Usual causes")?,
        next: paragraph("Next")?,
        example: paragraph("Example")?,
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Explained {
    fn text(&self, width: usize) -> String {
        let known = self.causes.iter().map(|known| known.cause.as_str());
        let near = self.cause.as_ref().and_then(|cause| nearest(cause, known));
        let text = page("explain.txt.j2", &json!({ "section": self, "near": near }));
        text.lines().map(|line| wrapped(line, width)).collect()
    }
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A verdict, with a cause if you like; all verdicts are listed without one
    #[arg(value_name = "VERDICT[:CAUSE]")]
    pub verdict: Option<String>,
    /// Print a JSON schema of what evo writes for programs: `leaderboard-file`, `evaluation`, `sweep`, …
    #[arg(long, value_name = "NAME", conflicts_with_all = ["verdict", "json"])]
    pub schema: Option<String>,
    /// One JSON object on stdout
    #[arg(long, requires = "verdict")]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::Cause;

    use super::*;

    #[test]
    fn every_verdict_has_a_section_with_all_its_parts() {
        for kind in VerdictKind::ALL {
            let section = section(*kind).unwrap_or_else(|| panic!("no whole section on `{kind}`"));
            let paragraphs = [&section.seen, &section.usual_causes, &section.next, &section.example];
            assert!(paragraphs.iter().all(|text| !text.is_empty()), "{kind}: {section:?}");
        }
        let headings = PAGE.matches("\n## `").count();
        assert_eq!(headings, VerdictKind::ALL.len(), "a section on a verdict that is gone");
    }

    #[test]
    fn every_cause_is_mentioned() {
        for cause in Cause::ALL {
            let is_named = with_cause(cause.as_str()).next().is_some();
            assert!(is_named, "no section names the cause `{}`", cause.as_str());
        }
    }

    #[test]
    fn labels_with_a_cause_show_it() {
        let shown = |label: &str| {
            let text = explain(label).unwrap().text(usize::MAX);
            text.lines().nth(2).unwrap_or_default().to_string()
        };
        assert!(shown("hang").starts_with("Seen: A launch did not end"), "{}", shown("hang"));
        assert!(shown("wrong_answer:precision").starts_with("Cause: small errors only"));
        assert!(
            shown("wrong_answer:causal").contains("`causal` is not a cause that this version of evo names")
        );
    }
}
