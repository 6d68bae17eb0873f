//! `[kernel]`: its name, its text, compiler options; and the search for the files that it names.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use evo_space::diagnostic::nearest;
use evo_space::document::{Data, Node};

use super::fields::{Fields, Reader};
use super::names::KnownNames;
use super::{include_dirs, specialize};
use crate::access::{self, ARRAY_MAX};
use crate::apart::{RenderFailure, Renderer};
use crate::spec::{KernelText, OptionSpec, SourceKind};

/// Embedded files that a space file may name: name and text.
pub(super) type Files = [(&'static str, &'static str)];

/// What `[kernel]` says.
pub(super) struct Header {
    pub(super) name: String,
    pub(super) source: KernelText,
    pub(super) options: Vec<OptionSpec>,
    pub(super) include_dirs: Vec<PathBuf>,
    pub(super) specialize: Vec<String>,
    pub(super) is_persistent: bool,
}

/// Reads the table, and checks that a template parses and reads only names that exist.
pub(super) fn read(reader: &mut Reader, node: &Node, names: &KnownNames, files: &Files) -> Option<Header> {
    let known = ["name", "template", "source", "options", "include_dirs", "specialize", "persistent"];
    let fields = reader.fields(node, "`kernel`", &known)?;
    let name = reader.required(&fields, "name", "add name = \"…\"");
    let name = name.and_then(|node| reader.label(node, &fields.name("name")));
    let specialize = match fields.get("specialize") {
        Some(node) => specialize::read(reader, node, &fields.name("specialize"), names),
        None => Some(Vec::new()),
    };
    // A template may read all of them, even where one of the names is wrong.
    let constants =
        specialize.clone().unwrap_or_else(|| names.sizes().iter().map(ToString::to_string).collect());
    let source = match (fields.get("template"), fields.get("source")) {
        (Some(node), None) => read_text(reader, node, &fields, "template", SourceKind::Template, files)
            .inspect(|text| check_template(reader, node, text, names, &constants)),
        (None, Some(node)) => read_text(reader, node, &fields, "source", SourceKind::Plain, files),
        (Some(_), Some(node)) => {
            let hint = "a template is rendered; a source gets parameters as -D macros".to_string();
            reader.hinted(&node.span, "`kernel` has both `template` and `source`", Some(hint));
            None
        }
        (None, None) => {
            let hint = "add source = \"my.cu\" (parameters as macros) or template = \"my.cu.j2\"";
            let _ = reader.required(&fields, "source", hint);
            None
        }
    };
    let options = match fields.get("options") {
        Some(node) => read_options(reader, node, &fields.name("options"), &names.parameters_only()),
        None => Some(Vec::new()),
    };
    let include_dirs = match fields.get("include_dirs") {
        Some(node) => include_dirs::read(reader, node, &fields.name("include_dirs")),
        None => Some(Vec::new()),
    };
    let is_persistent = match fields.get("persistent") {
        Some(node) => reader.boolean(node, &fields.name("persistent")),
        None => Some(false),
    };
    Some(Header {
        name: name?,
        source: source?,
        options: options?,
        include_dirs: include_dirs?,
        specialize: specialize?,
        is_persistent: is_persistent?,
    })
}

fn read_options(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<Vec<OptionSpec>> {
    let items = reader.list(node, what, "compiler options")?;
    let options: Vec<_> = items.iter().map(|item| option(reader, item, what, names)).collect();
    options.into_iter().collect()
}

/// A text, or a table with what a parameter chooses.
fn option(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<OptionSpec> {
    if !matches!(node.data, Data::Table(_)) {
        return Some(OptionSpec { text: reader.string(node, what)?, value: None, when: None });
    }
    let fields = reader.fields(node, &format!("an entry of {what}"), &["option", "value", "when"])?;
    let hint = "add option = \"--use_fast_math\", with `when`; or option = \"-maxrregcount\", with `value`";
    let text = reader.required(&fields, "option", hint);
    let text = text.and_then(|node| {
        let name = fields.name("option");
        let text = reader.string(node, &name)?;
        let needs_value = fields.get("value").is_some();
        if text.contains(char::is_whitespace) || (needs_value && text.contains('=')) {
            let hint = Some("`value` stands behind the `=`, which evo writes".to_string());
            reader.hinted(
                &node.span,
                format!("{name} is `{text}`, expected a single word without `=`"),
                hint,
            );
            return None;
        }
        Some(text)
    });
    let mut expression = |key: &str| match fields.get(key) {
        Some(node) => reader.expression(node, &fields.name(key), names).map(Some),
        None => Some(None),
    };
    let (value, when) = (expression("value"), expression("when"));
    Some(OptionSpec { text: text?, value: value?, when: when? })
}

/// A source file: beside the space file, else among the embedded ones.
pub(super) fn read_text(
    reader: &mut Reader,
    node: &Node,
    fields: &Fields,
    key: &str,
    kind: SourceKind,
    files: &Files,
) -> Option<KernelText> {
    let what = fields.name(key);
    let name = reader.string(node, &what)?;
    let beside = reader.path_beside(&name);
    if let Some(folder) = reader.folder {
        match access::read_beside(folder, &name, reader.allow_outside) {
            Ok(mut text) => {
                // evo's header comes first, and a byte order mark is none in the middle of a text.
                if text.starts_with('\u{feff}') {
                    text.remove(0);
                }
                return Some(KernelText { kind, path: beside, text, renderer: reader.renderer.clone() });
            }
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            // A file that is there and cannot be read is an error: an embedded one must not take its place.
            Err(cause) => {
                reader.unreadable(node, &what, &beside, &cause);
                return None;
            }
        }
    }
    if let Some((_, text)) = files.iter().find(|(own, _)| *own == name) {
        let (path, renderer) = (PathBuf::from(&name), Renderer::Here);
        return Some(KernelText { kind, path, text: (*text).to_string(), renderer });
    }
    let hint = match nearest(&name, files.iter().map(|(own, _)| *own)) {
        Some(near) => format!("did you mean the embedded `{near}`?"),
        None => format!("looked for `{}`", beside.display()),
    };
    reader.hinted(&node.span, format!("{what}: there is no file `{name}`"), Some(hint));
    None
}

fn check_template(
    reader: &mut Reader,
    node: &Node,
    text: &KernelText,
    names: &KnownNames,
    constants: &[String],
) {
    let sizes = names.sizes();
    let known: Vec<&str> =
        names.parameters().into_iter().chain(constants.iter().map(String::as_str)).collect();
    let errors = match text.renderer.check(&text.path, &text.text, &known) {
        Ok(errors) => errors,
        Err(RenderFailure::Template(error)) => vec![error],
        Err(RenderFailure::Machine(message)) => return reader.hinted(&node.span, message, None),
    };
    for error in errors {
        let is_size = error.name.as_deref().is_some_and(|name| sizes.contains(name));
        let hint = match is_size {
            true => Some(
                "a size of problems is an argument; `specialize` makes it a template variable too"
                    .to_string(),
            ),
            false => error.hint.clone(),
        };
        reader.hinted(&node.span, error.to_string(), hint);
    }
}

impl Reader<'_> {
    /// A file that is named in this one and exists.
    pub(super) fn existing_file(&mut self, node: &Node, what: &str) -> Option<PathBuf> {
        let name = self.string(node, what)?;
        let path = self.path_beside(&name);
        let folder = self.folder.unwrap_or(Path::new("."));
        match access::open_beside(folder, &name, ARRAY_MAX, self.allow_outside) {
            Ok(_) => return Some(path),
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            Err(cause) => {
                self.unreadable(node, what, &path, &cause);
                return None;
            }
        }
        let hint = format!("looked for `{}`", path.display());
        self.hinted(&node.span, format!("{what}: there is no file `{name}`"), Some(hint));
        None
    }

    fn unreadable(&mut self, node: &Node, what: &str, path: &Path, cause: &io::Error) {
        let hint = access::is_outside(cause).then(|| {
            "copy the file beside the space file, or pass `--allow-outside` if you trust the space"
                .to_string()
        });
        self.hinted(&node.span, format!("{what}: cannot read `{}`: {cause}", path.display()), hint);
    }
}
