//! Texts of exported files, and what fills templates in.

use evo_kernel::template;
use serde_json::Value as Json;

use crate::error::ExportError;
use crate::literal::{self, Language};
use crate::source::one_line;

pub(crate) const EXACT_HPP: &str = include_str!("../templates/exact.hpp");
pub(crate) const EXACT_PY: &str = include_str!("../templates/exact.py");
/// A peer that calls the exported files; it needs `evo_peer.py` beside it.
pub const VERIFY_PEER: &str = include_str!("../templates/verify_peer.py");
/// What times and checks exported files with other people's tools; it needs the two beside it.
pub const CROSSCHECK: &str = include_str!("../templates/crosscheck.py");

pub(crate) fn render(name: &str, text: &str, context: &Json) -> Result<String, ExportError> {
    let fault =
        |why: minijinja::Error| ExportError::Template { name: name.to_string(), why: format!("{why:#}") };
    let mut environment = template::plain_environment();
    environment.add_filter("comment", |text: String| one_line(&text));
    environment.add_filter("cpp", |text: String| literal::text(Language::Cpp, &text));
    environment.add_filter("py", |text: String| literal::text(Language::Python, &text));
    environment.render_named_str(name, text, template::json_value(context)).map_err(fault)
}
