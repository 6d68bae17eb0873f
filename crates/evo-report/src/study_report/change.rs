//! What one candidate changes of another: its parameters, and its source line by line.

use evo_space::genome::Configuration;
use similar::TextDiff;

/// Lines of a diff that are shown; a rewrite is better read in the files themselves.
const DIFF_LINES: usize = 400;
const CONTEXT: usize = 3;

#[derive(Clone, Debug)]
pub struct SourceText {
    /// `the default configuration`, `evaluation 17`.
    pub name: String,
    pub text: String,
}

/// `BLOCK: 32 → 64, VEC: 1 → 4`; empty where nothing differs.
pub fn parameters(before: &Configuration, after: &Configuration) -> String {
    let changed = after.iter().filter(|(name, value)| before.get(name) != Some(*value));
    let told = changed.map(|(name, value)| match before.get(name) {
        Some(old) => format!("{name}: {old} → {value}"),
        None => format!("{name}: {value} (new)"),
    });
    told.collect::<Vec<_>>().join(", ")
}

/// A unified diff; `None` where the texts are equal.
pub fn source(before: &SourceText, after: &SourceText) -> Option<String> {
    let diff = TextDiff::from_lines(&before.text, &after.text);
    let text = diff.unified_diff().context_radius(CONTEXT).header(&before.name, &after.name).to_string();
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return None;
    }
    let shown = lines[..lines.len().min(DIFF_LINES)].join("\n");
    Some(match lines.len().saturating_sub(DIFF_LINES) {
        0 => shown + "\n",
        more => format!("{shown}\n… {more} more lines\n"),
    })
}
