//! `[kernel]`: its name, its text, compiler options; and the search for the files that it names.
//!
//! Folders for `#include`: those that `include_dirs` names, and the folder of a source that includes files beside it.
//!
//! `[prepare]`: launches of the task's own that derive inputs from inputs, outside of the timed span.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use evo_space::diagnostic::nearest;
use evo_space::document::{Data, Node, Span};

use super::fields::{Fields, KnownNames, Reader};
use super::{launches, problems};
use crate::access::{self, ARRAY_MAX};
use crate::apart::{RenderFailure, Renderer};
use crate::spec::{ArgumentSpec, BufferSpec, KernelText, OptionSpec, PassedSpec, PrepareSpec, SourceKind};

/// Embedded files that a space file may name: name and text.
pub(super) type Files = [(&'static str, &'static str)];

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
    let name = reader.need(&fields, "name", "add name = \"…\"", Reader::label);
    let specialize = match fields.get("specialize") {
        Some(node) => problems::read_specialize(reader, node, &fields.name("specialize"), names),
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
            let hint = "a template is rendered; a source gets parameters as -D macros";
            reader.refuse(&node.span, "`kernel` has both `template` and `source`", hint)
        }
        (None, None) => {
            let hint = "add source = \"my.cu\" (parameters as macros) or template = \"my.cu.j2\"";
            let _ = reader.required(&fields, "source", hint);
            None
        }
    };
    let options = reader.value(&fields, "options", Vec::new(), |reader, node, what| {
        let names = names.parameters_only();
        reader
            .each(node, what, "compiler options", |reader, item| compiler_option(reader, item, what, &names))
    });
    let include_dirs = reader.value(&fields, "include_dirs", Vec::new(), include_dirs);
    let is_persistent = reader.value(&fields, "persistent", false, Reader::boolean);
    Some(Header {
        name: name?,
        source: source?,
        options: options?,
        include_dirs: include_dirs?,
        specialize: specialize?,
        is_persistent: is_persistent?,
    })
}

/// A text, or a table with what a parameter chooses.
fn compiler_option(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<OptionSpec> {
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
    let mut expression =
        |key: &str| reader.optional(&fields, key, |reader, node, what| reader.expression(node, what, names));
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
    reader.refuse(&node.span, format!("{what}: there is no file `{name}`"), hint)
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
        self.refuse(&node.span, format!("{what}: there is no file `{name}`"), hint)
    }

    fn unreadable(&mut self, node: &Node, what: &str, path: &Path, cause: &io::Error) {
        let hint = access::is_outside(cause).then(|| {
            "copy the file beside the space file, or pass `--allow-outside` if you trust the space"
                .to_string()
        });
        self.hinted(&node.span, format!("{what}: cannot read `{}`: {cause}", path.display()), hint);
    }
}

pub(super) fn include_dirs(reader: &mut Reader, node: &Node, what: &str) -> Option<Vec<PathBuf>> {
    reader.each(node, what, "folders", |reader, item| include_folder(reader, item, what))
}

fn include_folder(reader: &mut Reader, node: &Node, what: &str) -> Option<PathBuf> {
    let name = reader.string(node, what)?;
    let path = reader.path_beside(&name);
    let base = reader.folder.unwrap_or(Path::new("."));
    if !path.is_dir() {
        let hint = format!("looked for `{}`; folders are relative to the space file", path.display());
        return reader.refuse(&node.span, format!("{what}: there is no folder `{name}`"), hint);
    }
    if !reader.allow_outside && !access::is_below(base, &path) {
        let hint = "copy the headers beside the space file, or pass `--allow-outside` if you trust the space";
        let message = format!("{what}: `{name}` is outside the folder of the space file");
        return reader.refuse(&node.span, message, hint);
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
        OptionSpec { text: format!("-I{}", folder.display()), value: None, when: None }
    };
    all.into_iter().map(option).collect()
}

/// The names in the `#include` lines of a text, also in lines that a preprocessor or a template would leave out.
fn included(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let word = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let end = if word.starts_with('<') { '>' } else { '"' };
        word.strip_prefix(['<', '"'])?.split(end).next()
    })
}

const FILL_HINT: &str = "give the input that the launches write fill = { prepared = true }";

/// Reads the table, if there is one, and checks that inputs are prepared where the file says so.
pub(super) fn read_prepare(
    reader: &mut Reader,
    root: &Node,
    names: &KnownNames,
    arguments: &[ArgumentSpec],
    files: &Files,
) -> Option<Option<PrepareSpec>> {
    let buffers = || {
        arguments.iter().filter_map(|own| if let ArgumentSpec::Buffer(own) = own { Some(own) } else { None })
    };
    let prepared: Vec<&BufferSpec> = buffers().filter(|own| own.is_prepared()).collect();
    let place = |name: &str| place_of(root, name);
    for own in &prepared {
        if !own.role.is_read() {
            let hint = "what is prepared is an input of the timed launches".to_string();
            reader.hinted(
                &place(&own.name),
                format!("`{}` is prepared, and not an input", own.name),
                Some(hint),
            );
        }
    }
    let Some(node) = root.get("prepare") else {
        if let Some(own) = prepared.first() {
            let hint = "add [prepare] with source, entry, grid, block and arguments";
            return reader.refuse(
                &place(&own.name),
                format!("`{}` is prepared, and there is no [prepare]", own.name),
                hint,
            );
        }
        return Some(None);
    };
    if prepared.is_empty() {
        reader.hinted(&node.span, "[prepare] prepares no argument", Some(FILL_HINT.to_string()));
    }
    let fields = reader.fields(node, "`prepare`", &launches::keys_beside(&["source"]))?;
    // Outputs and workspace hold nothing yet, and a tensor map describes what may not be there.
    let is_there = |own: &&ArgumentSpec| match own {
        ArgumentSpec::Buffer(own) => own.role.is_read(),
        ArgumentSpec::Scalar(_) => true,
        ArgumentSpec::TensorMap(_) => false,
    };
    let known: Vec<String> = arguments.iter().filter(is_there).map(|own| own.name().to_string()).collect();
    let text = reader.required(&fields, "source", "add source = \"prepare.cu\", a file of its own");
    let text = text.and_then(|node| read_text(reader, node, &fields, "source", SourceKind::Plain, files));
    let read = launches::read_beside(reader, &fields, names, &known);
    let (source, (launches, loops)) = (text?, read?);
    let passes = |name: &str| {
        let is_own = |own: &PassedSpec| matches!(own, PassedSpec::Named(own) if own == name);
        launches.iter().any(|own| own.arguments.as_ref().is_none_or(|all| all.iter().any(is_own)))
    };
    if let Some(own) = prepared.iter().find(|own| !passes(&own.name)) {
        let hint = "name it among the `arguments` of the launch that writes it";
        return reader.refuse(&node.span, format!("no launch of [prepare] is given `{}`", own.name), hint);
    }
    Some(Some(PrepareSpec { source, launches, loops }))
}

fn place_of(root: &Node, name: &str) -> Span {
    let Some(Data::List(items)) = root.get("arguments").map(|node| &node.data) else {
        return Span::default();
    };
    let own = items
        .iter()
        .find(|item| matches!(item.get("name").map(|node| &node.data), Some(Data::Text(own)) if own == name));
    own.map(|own| own.get("fill").unwrap_or(own).span.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_included_files_are_found_in_both_spellings() {
        let text =
            "#include \"a.cuh\"\n  # include <sub/b.cuh> // why\n// #include \"c\"\n#include MACRO\nint x;";
        assert_eq!(included(text).collect::<Vec<_>>(), ["a.cuh", "sub/b.cuh"]);
    }
}
