//! `[kernel]`: its name, its text, compiler options; and the search for the files that it names.
//!
//! Folders for `#include`: those that `include_dirs` names, and the folder of a source that includes files beside it.
//!
//! `[prepare]`: launches of the task's own that derive inputs from inputs, outside of the timed span.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use evo_space::diagnostic::nearest;
use evo_space::document::{Data, Node};

use super::fields::{Field, expression, label, read_all};
use super::{launches, problems};
use crate::access::{self, ARRAY_MAX, TEMPLATES};
use crate::apart::{RenderFailure, Renderer};
use crate::signature::included;
use crate::spec::{ArgumentSpec, KernelText, OptionSpec, PassedSpec, PrepareSpec, SourceKind};

pub(super) struct Header {
    pub(super) name: String,
    pub(super) source: KernelText,
    pub(super) options: Vec<OptionSpec>,
    pub(super) include_dirs: Vec<PathBuf>,
    pub(super) specialize: Vec<String>,
    pub(super) is_persistent: bool,
}

/// Reads the table, and checks that a template parses and reads only names that exist.
pub(super) fn read(field: &Field) -> Option<Header> {
    field.keys(&["name", "template", "source", "options", "include_dirs", "specialize", "persistent"])?;
    let names = &field.context.names;
    let name = field.need("name", "add name = \"…\"", label);
    let specialize = field.or("specialize", Vec::new(), problems::read_specialize);
    // A template may read all of them, even where one of the names is wrong.
    let constants =
        specialize.clone().unwrap_or_else(|| names.sizes().iter().map(ToString::to_string).collect());
    let source = match (field.get("template"), field.get("source")) {
        (Some(own), None) => {
            read_text(&own, SourceKind::Template).inspect(|text| check_template(&own, text, &constants))
        }
        (None, Some(own)) => plain_source(&own),
        (Some(_), Some(own)) => {
            let hint = "a template is rendered; a source gets parameters as -D macros";
            own.refuse("`kernel` has both `template` and `source`", hint)
        }
        (None, None) => {
            let hint = "add source = \"my.cu\" (parameters as macros) or template = \"my.cu.j2\"";
            field.need("source", hint, plain_source)
        }
    };
    let scope = field.context.naming(names.parameters_only());
    let options =
        field.with(&scope).or("options", Vec::new(), |own| own.each("compiler options", compiler_option));
    let include_dirs = field.or("include_dirs", Vec::new(), |own| own.each("folders", include_folder));
    let is_persistent = field.or("persistent", false, Field::boolean);
    read_all!(Header { name, source, options, include_dirs, specialize, is_persistent })
}

/// A text, or a table with what a parameter chooses.
fn compiler_option(item: &Field) -> Option<OptionSpec> {
    if !matches!(item.node.data, Data::Table(_)) {
        return item.string().map(OptionSpec::plain);
    }
    let field = item.at(item.node, format!("an entry of {item}"));
    field.keys(&["option", "value", "when"])?;
    let hint = "add option = \"--use_fast_math\", with `when`; or option = \"-maxrregcount\", with `value`";
    let text = field.need("option", hint, |own| {
        let text = own.string()?;
        let needs_value = field.get("value").is_some();
        if text.contains(char::is_whitespace) || (needs_value && text.contains('=')) {
            let message = format!("{own} is `{text}`, expected a single word without `=`");
            return own.refuse(message, "`value` stands behind the `=`, which evo writes");
        }
        Some(text)
    });
    let (value, when) = (field.optional("value", expression), field.optional("when", expression));
    read_all!(OptionSpec { text, value, when })
}

pub(super) fn plain_source(field: &Field) -> Option<KernelText> {
    read_text(field, SourceKind::Plain)
}

/// A source file: beside the space file, else among the embedded ones.
fn read_text(field: &Field, kind: SourceKind) -> Option<KernelText> {
    let name = field.string()?;
    let scope = field.context;
    let beside = scope.path_beside(&name);
    if let Some(folder) = scope.folder {
        match access::read_beside(folder, &name, scope.allow_outside) {
            Ok(mut text) => {
                // evo's header comes first, and a byte order mark is none in the middle of a text.
                if text.starts_with('\u{feff}') {
                    text.remove(0);
                }
                return Some(KernelText { kind, path: beside, text, renderer: scope.renderer.clone() });
            }
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            // A file that is there and cannot be read is an error: an embedded one must not take its place.
            Err(cause) => return unreadable(field, &beside, &cause),
        }
    }
    if let Some((_, text)) = TEMPLATES.iter().find(|(template, _)| *template == name) {
        let (path, renderer) = (PathBuf::from(&name), Renderer::Here);
        return Some(KernelText { kind, path, text: (*text).to_string(), renderer });
    }
    let hint = match nearest(&name, TEMPLATES.iter().map(|(template, _)| *template)) {
        Some(near) => format!("did you mean the embedded `{near}`?"),
        None => format!("looked for `{}`", beside.display()),
    };
    field.refuse(format!("{field}: there is no file `{name}`"), hint)
}

fn check_template(field: &Field, text: &KernelText, constants: &[String]) {
    let names = &field.context.names;
    let sizes = names.sizes();
    let known: Vec<&str> =
        names.parameters().into_iter().chain(constants.iter().map(String::as_str)).collect();
    let errors = match text.renderer.check(&text.path, &text.text, &known) {
        Ok(errors) => errors,
        Err(RenderFailure::Template(error)) => vec![error],
        Err(RenderFailure::Machine(message)) => return field.error(message),
    };
    for error in errors {
        let is_size = error.name.as_deref().is_some_and(|name| sizes.contains(name));
        let of_size = "a size of problems is an argument; `specialize` makes it a template variable too";
        let hint = if is_size { Some(of_size.to_string()) } else { error.hint.clone() };
        field.complain(&field.node.span, error.to_string(), hint);
    }
}

pub(super) fn existing_file(field: &Field) -> Option<PathBuf> {
    let name = field.string()?;
    let path = field.context.path_beside(&name);
    let folder = field.context.folder.unwrap_or(Path::new("."));
    match access::open_beside(folder, &name, ARRAY_MAX, field.context.allow_outside) {
        Ok(_) => Some(path),
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            let hint = format!("looked for `{}`", path.display());
            field.refuse(format!("{field}: there is no file `{name}`"), hint)
        }
        Err(cause) => unreadable(field, &path, &cause),
    }
}

pub(super) const OUTSIDE_HINT: &str =
    "copy the file beside the space file, or pass `--allow-outside` if you trust the space";

fn unreadable<T>(field: &Field, path: &Path, cause: &io::Error) -> Option<T> {
    let message = format!("{field}: cannot read `{}`: {cause}", path.display());
    if access::is_outside(cause) { field.refuse(message, OUTSIDE_HINT) } else { field.wrong(message) }
}

fn include_folder(field: &Field) -> Option<PathBuf> {
    let name = field.string()?;
    let path = field.context.path_beside(&name);
    let base = field.context.folder.unwrap_or(Path::new("."));
    if !path.is_dir() {
        let hint = format!("looked for `{}`; folders are relative to the space file", path.display());
        return field.refuse(format!("{field}: there is no folder `{name}`"), hint);
    }
    if !field.context.allow_outside && !access::is_below(base, &path) {
        let hint = "copy the headers beside the space file, or pass `--allow-outside` if you trust the space";
        return field.refuse(format!("{field}: `{name}` is outside the folder of the space file"), hint);
    }
    Some(path)
}

/// The compiler's options for these folders, and for the folder of each text that includes a file that lies beside it.
pub(super) fn include_options<'t>(
    folders: &[PathBuf],
    texts: impl IntoIterator<Item = &'t KernelText>,
) -> Vec<OptionSpec> {
    let mut all: Vec<PathBuf> = folders.to_vec();
    for text in texts {
        let own = text.path.parent().unwrap_or(Path::new(""));
        let beside = included(&text.text).any(|name| own.join(name).is_file());
        if beside && !all.iter().any(|known| known == own) {
            all.push(own.to_path_buf());
        }
    }
    let option = |path: PathBuf| {
        let folder = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
        OptionSpec::plain(format!("-I{}", folder.display()))
    };
    all.into_iter().map(option).collect()
}

const FILL_HINT: &str = "give the input that the launches write fill = { prepared = true }";

/// Reads the table, if there is one, and checks that inputs are prepared where the file says so.
pub(super) fn read_prepare(root: &Field, arguments: &[ArgumentSpec]) -> Option<Option<PrepareSpec>> {
    let buffers = arguments.iter().filter_map(ArgumentSpec::buffer);
    let prepared: Vec<_> = buffers.filter(|buffer| buffer.is_prepared()).collect();
    // The fill of an argument.
    let place = |name: &str| {
        let items = root.node.get("arguments").and_then(Node::items).unwrap_or_default();
        let item = items.iter().find(|item| item.text("name") == Some(name));
        root.at(item.map_or(root.node, |item| item.get("fill").unwrap_or(item)), "")
    };
    for buffer in prepared.iter().filter(|buffer| !buffer.role.is_read()) {
        let message = format!("`{}` is prepared, and not an input", buffer.name);
        place(&buffer.name).hinted(message, "what is prepared is an input of the timed launches");
    }
    let Some(node) = root.node.get("prepare") else {
        let Some(buffer) = prepared.first() else { return Some(None) };
        let message = format!("`{}` is prepared, and there is no [prepare]", buffer.name);
        let hint = "add [prepare] with source, entry, grid, block and arguments";
        return place(&buffer.name).refuse(message, hint);
    };
    let scope = root.context.passing(arguments.iter().filter(|argument| argument.is_for_prepare()));
    let field = root.at(node, "`prepare`");
    let field = field.with(&scope);
    if prepared.is_empty() {
        field.hinted("[prepare] prepares no argument", FILL_HINT);
    }
    field.keys(&launches::keys_beside(&["source", "launches"]))?;
    let source = field.need("source", "add source = \"prepare.cu\", a file of its own", plain_source);
    let read = launches::read_beside(&field);
    let (source, (launches, loops)) = (source?, read?);
    let is_passed = |name: &str| {
        let is_named = |passed: &PassedSpec| matches!(passed, PassedSpec::Named(own) if own == name);
        launches.iter().any(|launch| launch.arguments.as_ref().is_none_or(|all| all.iter().any(is_named)))
    };
    if let Some(buffer) = prepared.iter().find(|buffer| !is_passed(&buffer.name)) {
        let hint = "name it among the `arguments` of the launch that writes it";
        return field.refuse(format!("no launch of [prepare] is given `{}`", buffer.name), hint);
    }
    Some(Some(PrepareSpec { source, launches, loops }))
}
