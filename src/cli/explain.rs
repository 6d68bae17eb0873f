//! `evo explain VERDICT`: the page on verdicts, a section at a time.
//!
//! The page is the only text; this finds its parts, so that what a browser shows and what a terminal shows
//! cannot differ.

use clap::Args;
use evo_protocol::verdict::{VerdictClass, VerdictKind};
use evo_space::diagnostic::nearest;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;
use crate::report::width::{stdout_width, wrapped};

const PAGE: &str = include_str!("../../docs/verdicts.md");

/// Leads of a section's paragraphs, with their names in JSON.
const LEADS: [(&str, &str); 4] =
    [("Seen", "seen"), ("Usual causes", "usual_causes"), ("Next", "next"), ("Example", "example")];

/// Runs the command.
pub fn run(arguments: &ExplainArgs) -> Result<Answer, CliError> {
    let Some(label) = &arguments.verdict else {
        output::stdout(&VerdictKind::ALL.iter().map(|kind| format!("{kind}\n")).collect::<String>())?;
        return Ok(ExitCode::Done.into());
    };
    let explained = explain(label)?;
    if arguments.json {
        return Ok(Answer::of(ExitCode::Done, &explained.answer()));
    }
    output::stdout(&explained.text(stdout_width()))?;
    Ok(ExitCode::Done.into())
}

/// A verdict with its section, and the cause that was asked for.
struct ExplainedVerdict {
    kind: VerdictKind,
    cause: Option<String>,
    section: VerdictSection,
}

/// A section of the page.
#[derive(Debug)]
struct VerdictSection {
    /// In the order of `LEADS`.
    paragraphs: [String; 4],
    /// Cause and text.
    causes: Vec<(String, String)>,
}

/// The section that a label such as `wrong_answer:tail` means.
fn explain(label: &str) -> Result<ExplainedVerdict, CliError> {
    let (name, cause) = match label.split_once(':') {
        Some((name, cause)) => (name, Some(cause.to_string()).filter(|cause| !cause.is_empty())),
        None => (label, None),
    };
    let Some(kind) = VerdictKind::ALL.iter().copied().find(|kind| kind.as_str() == name) else {
        let names = VerdictKind::ALL.iter().map(|kind| kind.as_str());
        let of: Vec<String> = with_cause(name).iter().map(|kind| format!("`{kind}:{name}`")).collect();
        let hint = match nearest(name, names) {
            _ if !of.is_empty() => format!("`{name}` is a cause: try {}", of.join(" or ")),
            Some(near) => format!("did you mean `{near}`?"),
            None => "`evo explain` lists all verdicts".to_string(),
        };
        return Err(CliError::usage(format!("there is no verdict `{name}`")).with_hint(hint));
    };
    let section = section(kind)
        .ok_or_else(|| CliError::harness(format!("the page on verdicts has no section on `{kind}`")))?;
    Ok(ExplainedVerdict { kind, cause, section })
}

fn with_cause(cause: &str) -> Vec<VerdictKind> {
    let has = |kind: &VerdictKind| {
        section(*kind).is_some_and(|section| section.causes.iter().any(|(name, _)| name == cause))
    };
    VerdictKind::ALL.iter().copied().filter(has).collect()
}

fn section(kind: VerdictKind) -> Option<VerdictSection> {
    let heading = format!("\n## `{kind}`\n");
    let start = PAGE.find(&heading)? + heading.len();
    let rest = &PAGE[start..];
    let text = rest.find("\n## ").map_or(rest, |end| &rest[..end]);
    let blocks: Vec<String> = text.split("\n\n").map(one_line).collect();
    let paragraph = |lead: &str| {
        let lead = format!("**{lead}.** ");
        blocks.iter().find_map(|block| block.strip_prefix(&lead)).map(str::to_string)
    };
    let [seen, usual, next, example] = LEADS.map(|(lead, _)| paragraph(lead));
    let list = text.split("**Causes.**").nth(1).unwrap_or_default();
    let cause = |item: &str| {
        let (name, text) = item.strip_prefix('`')?.split_once("`: ")?;
        Some((name.to_string(), one_line(text)))
    };
    let causes = list.split("\n- ").filter_map(cause).collect();
    Some(VerdictSection { paragraphs: [seen?, usual?, next?, example?], causes })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl ExplainedVerdict {
    /// What the page says of the cause, if it knows it.
    fn cause_text(&self) -> Option<&str> {
        let cause = self.cause.as_ref()?;
        self.section.causes.iter().find(|(name, _)| name == cause).map(|(_, text)| text.as_str())
    }

    fn text(&self, width: usize) -> String {
        let label =
            self.cause.as_ref().map_or(self.kind.to_string(), |cause| format!("{}:{cause}", self.kind));
        let mut text = format!("{label}\n");
        if let Some(cause) = &self.cause {
            let about = self.cause_text().map(str::to_string).unwrap_or_else(|| {
                let names = self.section.causes.iter().map(|(name, _)| name.as_str());
                match nearest(cause, names) {
                    Some(near) => format!("`{cause}` is not a cause of it: did you mean `{near}`?"),
                    None => format!(
                        "`{cause}` is not a cause that this version of evo names: it may be a size, a signal or an \
                         exit code"
                    ),
                }
            });
            text += &format!("\n{}", wrapped(&format!("Cause: {about}"), width));
        }
        for ((lead, _), paragraph) in LEADS.iter().zip(&self.section.paragraphs) {
            text += &format!("\n{}", wrapped(&format!("{lead}: {paragraph}"), width));
        }
        if self.cause.is_none() && !self.section.causes.is_empty() {
            text += "\nCauses:\n";
            for (name, about) in &self.section.causes {
                text += &wrapped(&format!("- {name}: {about}"), width);
            }
        }
        text
    }

    fn answer(&self) -> Explained<'_> {
        let [seen, usual_causes, next, example] = &self.section.paragraphs;
        let causes = self.section.causes.iter().map(|(cause, text)| ExplainedCause { cause, text });
        Explained {
            verdict: self.kind,
            class: self.kind.class(),
            cause: self.cause.as_deref(),
            cause_text: self.cause_text(),
            causes: causes.collect(),
            seen,
            usual_causes,
            next,
            example,
        }
    }
}

/// `evo explain VERDICT`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Explained<'a> {
    verdict: VerdictKind,
    class: VerdictClass,
    cause: Option<&'a str>,
    cause_text: Option<&'a str>,
    causes: Vec<ExplainedCause<'a>>,
    seen: &'a str,
    usual_causes: &'a str,
    next: &'a str,
    example: &'a str,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ExplainedCause<'a> {
    cause: &'a str,
    text: &'a str,
}

/// `evo explain`
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
            let section =
                section(*kind).unwrap_or_else(|| panic!("no section on `{kind}`, or a part is missing"));
            assert!(section.paragraphs.iter().all(|text| !text.is_empty()), "{kind}: {section:?}");
        }
        let headings = PAGE.matches("\n## `").count();
        assert_eq!(headings, VerdictKind::ALL.len(), "a section on a verdict that is gone");
    }

    #[test]
    fn every_cause_is_mentioned() {
        for cause in Cause::ALL {
            assert!(
                !with_cause(cause.as_str()).is_empty(),
                "no section names the cause `{}`",
                cause.as_str()
            );
        }
    }

    #[test]
    fn labels_with_a_cause_show_it_and_unknown_names_get_near_ones() {
        let shown = |label: &str| match explain(label) {
            Ok(explained) => explained.text(usize::MAX).lines().nth(2).unwrap_or_default().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(shown("hang").starts_with("Seen: A launch did not end"), "{}", shown("hang"));
        assert!(shown("wrong_answer:precision").starts_with("Cause: small errors only"));
        assert!(
            shown("wrong_answer:causal").contains("`causal` is not a cause that this version of evo names")
        );
        assert!(shown("worng_answer").contains("did you mean `wrong_answer`?"), "{}", shown("worng_answer"));
        assert!(shown("unwritten").contains("`unwritten` is a cause: try `wrong_answer:unwritten`"));
        assert!(shown("xyzzy").contains("`evo explain` lists all verdicts"));
    }
}
