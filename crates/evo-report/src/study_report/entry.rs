//! A step of the iteration log.

/// One step, each field a paragraph in Markdown.
pub(super) struct LogEntry {
    pub(super) title: String,
    pub(super) fields: Vec<(&'static str, String)>,
}

impl LogEntry {
    /// Its section, numbered from 1.
    pub(super) fn text(&self, number: usize) -> String {
        let field = |(name, text): &(&'static str, String)| match text.contains('\n') {
            true => format!("- **{name}**:\n\n{text}\n"),
            false => format!("- **{name}**: {text}\n"),
        };
        format!("## {number}. {}\n\n{}\n", self.title, self.fields.iter().map(field).collect::<String>())
    }
}
