//! Errors of a file: all of them at once, each with line, caret and hint.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::text::{as_json, is_json, objects, printable, shortened};

/// A screen holds about this many; the rest are counted.
const MAX_SHOWN: usize = 20;

const MAX_FOUND: usize = 1000;

/// Characters of a message or a hint; what a file holds may be quoted in it.
const MAX_MESSAGE: usize = 400;

#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// What is wrong: lower case, present tense, no final period.
    pub message: String,
    /// Where; `None` concerns the file as a whole.
    pub span: Option<Span>,
    pub hint: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    pub fn error(&mut self, span: Span, message: impl Into<String>) {
        self.list.push(Diagnostic { message: message.into(), span: Some(span), hint: None });
    }

    pub fn error_with_hint(&mut self, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.list.push(Diagnostic { message: message.into(), span: Some(span), hint: Some(hint.into()) });
    }

    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.list.len() >= MAX_FOUND
    }

    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// From 1 and in characters; `None` where all errors concern the text as a whole.
    pub fn first_place(&self, text: &str) -> Option<(u32, u32)> {
        let start =
            self.list.iter().filter_map(|one| one.span.as_ref()).map(|span| clamp(span, text).start).min()?;
        Some(place(text, start))
    }

    /// The way compilers print them: with snippets, in the order of the file, without color, without a final newline.
    pub fn render(&self, file_name: &str, text: &str) -> String {
        let mut sorted: Vec<&Diagnostic> = self.list.iter().collect();
        sorted.sort_by_key(|diagnostic| diagnostic.span.as_ref().map_or(usize::MAX, |span| span.start));
        // The same mistake may be met on two ways through the file.
        sorted.dedup();
        let shown = sorted.iter().take(MAX_SHOWN).map(|diagnostic| render_one(diagnostic, file_name, text));
        let mut output = shown.collect::<Vec<_>>().join("\n\n");
        if sorted.len() > MAX_SHOWN {
            output.push_str(&format!("\n\n… and {} more errors", sorted.len() - MAX_SHOWN));
        }
        output
    }
}

fn render_one(diagnostic: &Diagnostic, file_name: &str, text: &str) -> String {
    let Diagnostic { message, hint, .. } = spelled(diagnostic, text);
    let message = shortened(&message, MAX_MESSAGE);
    let title = Level::ERROR.primary_title(message.as_ref());
    let group = Group::with_title(title);
    let mut group = match &diagnostic.span {
        Some(span) => {
            let annotation = AnnotationKind::Primary.span(clamp(span, text));
            group.element(Snippet::source(text).path(file_name).annotation(annotation))
        }
        None => group.element(Origin::path(file_name)),
    };
    let hint = hint.as_ref().map(|hint| shortened(hint, MAX_MESSAGE));
    if let Some(hint) = &hint {
        group = group.element(Level::HELP.with_name("hint").message(hint.as_ref()));
    }
    let rendered = Renderer::plain().render(&[group]);
    printable(&rendered).lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

pub(crate) fn spelled(diagnostic: &Diagnostic, text: &str) -> Diagnostic {
    let mut own = diagnostic.clone();
    if is_json(text) {
        if own.message.contains("table") {
            own.message = objects(&own.message);
        }
        own.hint = own.hint.map(|hint| as_json(&hint));
    }
    own
}

/// On its first line, at character borders. Tables span many lines, of which the first says enough.
pub(crate) fn clamp(span: &Span, text: &str) -> Span {
    let mut start = span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = span.end.clamp(start, text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    start..end.min(line_end).max(start)
}

/// The name among `known` nearest to `name`, if near enough to be a slip of the finger.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    let folded = name.to_lowercase();
    let scored = known.into_iter().filter_map(|candidate| {
        // Computing a distance takes the product of the lengths, which hopeless pairs are spared.
        let far = candidate.len().abs_diff(name.len()) > 4 * limit || name.len() > 100;
        let distance = match candidate.to_lowercase() == folded {
            true => 0,
            false if far => return None,
            // Insertions, deletions, replacements, and swaps of neighbors: the commonest slip.
            false => strsim::osa_distance(name, candidate),
        };
        (distance <= limit).then_some((distance, candidate))
    });
    scored.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// A hint for a name that is unknown: the known one that was meant, if one is near.
pub fn suggestion<'k>(
    name: &str,
    known: impl IntoIterator<Item = &'k str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    nearest(name, known).map_or_else(otherwise, |near| format!("did you mean `{near}`?"))
}

/// Line and column of a byte, from 1 and in characters.
pub fn place(text: &str, at: usize) -> (u32, u32) {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

/// A byte range of a file or of an expression's text.
pub type Span = Range<usize>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_is_the_topmost() {
        let text = "é = 1\nb = é x\n";
        let at = text.find('x').unwrap();
        let mut diagnostics = Diagnostics::default();
        diagnostics.push(Diagnostic { message: "no place".into(), span: None, hint: None });
        assert_eq!(diagnostics.first_place(text), None);
        diagnostics.error(text.len() + 5..text.len() + 9, "past the end");
        assert_eq!(diagnostics.first_place(text), Some((3, 1)));
        diagnostics.error(at..at + 1, "in the second line");
        assert_eq!(diagnostics.first_place(text), Some((2, 7)));
    }

    #[test]
    fn errors_show_place_caret_and_hint() {
        let text = "[parameters]\nBLOCK = [1]\n[[constraints]]\nrequire = \"BLOK > é 0\"\n";
        let at = text.find("BLOK").unwrap();
        let mut diagnostics = Diagnostics::default();
        diagnostics.error(0..text.len(), "the whole file");
        diagnostics.error_with_hint(at..at + 4, "unknown name `BLOK`", "did you mean `BLOCK`?");
        diagnostics.push(Diagnostic { message: "no place".into(), span: None, hint: None });
        diagnostics.error(text.len() + 5..text.len() + 9, "past the end");
        insta::assert_snapshot!(diagnostics.render("dir/space.toml", text), @r#"
    error: the whole file
     --> dir/space.toml:1:1
      |
    1 | [parameters]
      | ^^^^^^^^^^^^

    error: unknown name `BLOK`
     --> dir/space.toml:4:12
      |
    4 | require = "BLOK > é 0"
      |            ^^^^
      |
      = hint: did you mean `BLOCK`?

    error: past the end
     --> dir/space.toml:4:24
      |
    4 | require = "BLOK > é 0"
      |                       ^

    error: no place
    --> dir/space.toml
    "#);
    }

    #[test]
    fn many_errors_are_counted() {
        let mut diagnostics = Diagnostics::default();
        (0..50).for_each(|at| diagnostics.error(at..at + 1, format!("error {at}")));
        let rendered = diagnostics.render("x", &"x".repeat(60));
        assert!(rendered.ends_with("… and 30 more errors"), "{rendered}");
    }

    #[test]
    fn nearest_forgives_one_slip_in_three_letters() {
        let known = ["BLOCK_M", "NUM_WARPS", "VEC"];
        let found =
            ["BLOK_M", "BLCOK_M", "num_warps", "vec", "VCE", "STAGES", ""].map(|name| nearest(name, known));
        let [block, warps, vec] = known.map(Some);
        assert_eq!(found, [block, block, warps, vec, vec, None, None]);
    }
}
