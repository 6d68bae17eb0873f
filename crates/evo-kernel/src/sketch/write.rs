//! First space files in TOML, whatever they are made from, and a reference that is the kernel itself at its defaults.

use std::fmt::{Display, Write};

use evo_protocol::dtype::DType;
use evo_space::expr::Expr;

use super::{
    KernelSketch, SketchArgument, SketchGuess, SketchLaunch, SketchRequest, SketchRole, SketchTunable,
    guessed, guessed_reference,
};

/// A space file as it grows: tables with their keys, and notes behind them.
#[derive(Debug)]
pub struct SpaceText(String);

impl SpaceText {
    /// With the comment at the top, its signs included.
    pub fn new(head: &str, kernel: &str, source: &str) -> SpaceText {
        let mut text = SpaceText(head.to_string());
        text.table("[kernel]").key("name", quoted(kernel)).key("source", quoted(source));
        text
    }

    /// Begins a table; comments may stand before its name.
    pub fn table(&mut self, head: &str) -> &mut SpaceText {
        let _ = write!(self.0, "\n{head}\n");
        self
    }

    pub fn key(&mut self, key: &str, value: impl Display) -> &mut SpaceText {
        let _ = writeln!(self.0, "{key} = {value}");
        self
    }

    /// A comment behind the last line.
    pub fn note(&mut self, note: impl Display) -> &mut SpaceText {
        self.0.pop();
        let _ = writeln!(self.0, "  # {note}");
        self
    }

    pub fn parameter<T: Display>(&mut self, name: &str, values: &[T], default: &T) -> &mut SpaceText {
        let values = values.iter().map(T::to_string).collect::<Vec<_>>().join(", ");
        self.key(name, format!("{{ values = [{values}], default = {default} }}"))
    }

    pub fn argument(&mut self, name: &str, dtype: DType) -> &mut SpaceText {
        self.table("[[arguments]]").key("name", quoted(name)).key("dtype", quoted(dtype.as_str()))
    }

    /// The launch; `guess` says of its grid what is guessed.
    pub fn launch(&mut self, entry: &str, launch: &SketchLaunch, guess: Option<&str>) {
        self.table("[[launches]]").key("entry", quoted(entry)).key("grid", list(&launch.grid));
        if let Some(guess) = guess {
            self.note(format!("guess: {guess}"));
        }
        self.key("block", list(&launch.block));
        if let Some(bytes) = &launch.shared_bytes {
            self.key("shared_bytes", quoted(bytes));
            if guess.is_some() {
                self.note("guess");
            }
        }
    }

    pub fn end(self) -> String {
        self.0
    }
}

impl SketchLaunch {
    /// As a row of `launches`, with values in the place of parameters.
    pub(crate) fn at_values(&self, entry: &str, value_of: &dyn Fn(&str) -> Option<String>) -> String {
        let fixed = |text: &String| {
            let expr = Expr::parse(text);
            quoted(&expr.map_or_else(|_| text.clone(), |expr| expr.with_words(value_of)))
        };
        let all = |texts: &[String]| format!("[{}]", texts.iter().map(fixed).collect::<Vec<_>>().join(", "));
        let shared = self.shared_bytes.as_ref().map(|text| format!(", shared_bytes = {}", fixed(text)));
        let shared = shared.unwrap_or_default();
        let (grid, block) = (all(&self.grid), all(&self.block));
        format!("[{{ entry = {}, grid = {grid}, block = {block}{shared} }}]", quoted(entry))
    }
}

const SMALL: u64 = 3;

/// Extents on a GPU and on the host device, by how many sizes there are: no two are equal, so that swapped ones show.
const EXTENTS: [(&[u64], &[u64]); 4] = [
    (&[4_194_304], &[65_536]),
    (&[2048, 3072], &[192, 256]),
    (&[128, 256, 384], &[24, 32, 40]),
    (&[16, 24, 32, 40, 48, 56], &[4, 6, 8, 10, 12, 14]),
];

const MATRICES: (&[u64], &[u64]) = (&[1024, 1280, 768], &[64, 96, 48]);

pub(super) fn written(
    request: SketchRequest<'_>,
    entry: &str,
    arguments: &[SketchArgument],
    tunables: &[SketchTunable],
    launch: &SketchLaunch,
    mut guesses: Vec<SketchGuess>,
) -> KernelSketch {
    let head = format!(
        "# A first space file for `{entry}`, drawn from its source by `evo init`. What is marked `guess` is to be looked\n\
         # at before a number counts. docs/space_files.md explains every key.\n"
    );
    let mut text = SpaceText::new(&head, request.name, request.path);
    text.table("[parameters]");
    for SketchTunable { name, values, default, why, .. } in tunables {
        text.parameter(name, values, default).note(format!("guess: {why}"));
    }
    let mut sizes: Vec<String> =
        arguments.iter().filter_map(SketchArgument::size).map(str::to_string).collect();
    if sizes.is_empty() {
        sizes.push("N".to_string());
    }
    for argument in arguments {
        text.argument(&argument.name, argument.dtype);
        match &argument.role {
            SketchRole::Size(name) | SketchRole::Small(name) => {
                text.key("value", quoted(name));
            }
            SketchRole::Number => {
                text.key("value", "1.0").note("guess");
            }
            _ => buffer(&mut text, argument, &sizes, &mut guesses),
        }
    }
    text.launch(entry, launch, Some("fastest axis first"));
    problems(&mut text, arguments, &sizes, &mut guesses);
    let default = |name: &str| {
        tunables.iter().find(|tunable| tunable.name == name).map(|tunable| tunable.default.to_string())
    };
    let undefined = tunables.iter().filter(|tunable| tunable.is_undefined);
    let macros: Vec<_> =
        undefined.map(|tunable| (tunable.name.clone(), tunable.default.to_string())).collect();
    let reference = (!macros.is_empty()).then(|| reference("evo init", request.path, &macros));
    let source = reference.as_ref().map_or(request.path, |(name, _)| name.as_str());
    text.table(&format!(
        "{REFERENCE_NOTE}# A simple kernel of your own in its place finds both; one that says REAL for float is compiled in \
         double precision.\n[check.reference]  # guess"
    ));
    text.key("source", quoted(source)).key("launches", launch.at_values(entry, &default));
    guessed_reference(&mut guesses);
    let beside = reference.into_iter().collect();
    KernelSketch { space: text.end(), beside, entry: entry.to_string(), guesses }
}

fn buffer(text: &mut SpaceText, argument: &SketchArgument, sizes: &[String], guesses: &mut Vec<SketchGuess>) {
    let mut shape = argument.shape.clone().unwrap_or_else(|| sizes.to_vec());
    if argument.shape.is_none() {
        let what = format!("`{}` has the shape [{}]", argument.name, shape.join(", "));
        guessed(guesses, what, "its indices do not say it plainly");
    }
    if let Some(inner) = shape.last_mut().filter(|_| argument.lanes > 1) {
        *inner = format!("{} * {inner}", argument.lanes);
    }
    text.key("shape", list(&shape));
    if argument.shape.is_none() {
        text.note("guess: an element for each combination of the sizes");
    }
    text.key("role", quoted(argument.role.word()));
    if let Some(why) = &argument.doubt {
        text.note(format!("guess: {why}"));
    }
    if argument.role == (SketchRole::Inout { from_zero: true }) {
        text.key("fill", "{ constant = 0 }");
    } else if argument.holds_places {
        text.key("fill", format!("{{ uniform = [0, {}] }}", quoted(&sizes[0]))).note("guess");
    }
}

fn problems(
    text: &mut SpaceText,
    arguments: &[SketchArgument],
    sizes: &[String],
    guesses: &mut Vec<SketchGuess>,
) {
    use SketchRole::{Number, Size, Small};
    let is_flat = |shape: &Option<Vec<String>>| shape.as_ref().is_some_and(|shape| shape.len() < 3);
    let mut buffers =
        arguments.iter().filter(|argument| !matches!(argument.role, Size(_) | Small(_) | Number));
    let matrices = sizes.len() == 3 && buffers.all(|argument| is_flat(&argument.shape));
    let (cuda, host) = if matrices { MATRICES } else { EXTENTS[(sizes.len() - 1).min(EXTENTS.len() - 1)] };
    let small = arguments.iter().filter_map(|argument| match &argument.role {
        Small(name) => Some(format!("{name} = {SMALL}")),
        _ => None,
    });
    for (name, device, extents) in [("large", "cuda", cuda), ("small", "host", host)] {
        let extents = extents.iter().chain(std::iter::repeat(&2));
        let sizes = sizes.iter().zip(extents).map(|(size, extent)| format!("{size} = {extent}"));
        let sizes: Vec<String> = sizes.chain(small.clone()).collect();
        text.table("[[problems]]").key("name", quoted(name)).key("device", quoted(device));
        text.key("sizes", format!("{{ {} }}", sizes.join(", "))).note("guess: the sizes that matter to you");
    }
    guessed(guesses, "the sizes of both problems", "only you know the sizes that matter");
}

pub(crate) const REFERENCE_NOTE: &str = "# The kernel at its defaults is the reference: this finds variants that break it, and no mistake that it has itself.\n";

/// A text as TOML has it, whose escapes include those of JSON.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(crate) fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

pub(crate) fn is_plain(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || c == '"' || c == '\\')
}

/// A source that gives the kernel's macros one value each and includes it: its file's name and its text.
pub(crate) fn reference(command: &str, path: &str, macros: &[(String, String)]) -> (String, String) {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.strip_suffix(".cu").unwrap_or(file);
    let mut text = format!(
        "// The reference of `{command}`: {file} with one value for each of its macros. It finds variants that differ from\n\
         // this one; a simple kernel of your own in its place finds the mistakes of this one, too.\n"
    );
    for (name, value) in macros {
        let _ = writeln!(text, "#define {name} {value}");
    }
    let _ = writeln!(text, "#include \"{path}\"");
    (format!("{stem}_reference.cu"), text)
}
