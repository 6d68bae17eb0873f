//! Complaints about a file: all of them at once, each with line, caret and hint.

use super::document::Span;

/// One complaint.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// What is wrong: lower case, present tense, no final period.
    pub message: String,
    /// Where; `None` concerns the file as a whole.
    pub span: Option<Span>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// A collection of complaints about one file.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Adds a complaint.
    pub fn error(&mut self, span: Span, message: impl Into<String>) {
        self.list.push(Diagnostic { message: message.into(), span: Some(span), hint: None });
    }

    /// Adds a complaint with a hint.
    pub fn error_with_hint(&mut self, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.list.push(Diagnostic { message: message.into(), span: Some(span), hint: Some(hint.into()) });
    }

    /// Adds any complaint.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The complaints.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// All complaints as text, with snippets of `text`, the way compilers print them.
    pub fn render(&self, file_name: &str, text: &str) -> String {
        let _ = (file_name, text);
        panic!("to be written by the space module")
    }
}

/// The name among `known` nearest to `name`, if near enough to be a slip of the finger.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let _ = name;
    known.into_iter().next()
}
