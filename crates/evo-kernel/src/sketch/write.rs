//! First space files in TOML, whatever they are made from, and a reference that is the kernel itself at its defaults.

use std::fmt::Write;

use super::arguments::word;
use super::{
    KernelSketch, SketchArgument, SketchGuess, SketchLaunch, SketchRequest, SketchRole, SketchTunable,
    guessed,
};

pub(super) struct Drawing<'a> {
    pub(super) request: SketchRequest<'a>,
    pub(super) entry: &'a str,
    pub(super) arguments: &'a [SketchArgument],
    pub(super) shapes: Vec<Option<Vec<String>>>,
    pub(super) tunables: &'a [SketchTunable],
    pub(super) launch: &'a SketchLaunch,
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

pub(super) fn written(drawing: &Drawing<'_>, mut guesses: Vec<SketchGuess>) -> KernelSketch {
    let undefined = drawing.tunables.iter().any(|own| own.is_undefined);
    let reference = undefined.then(|| drawing.reference());
    let mut text = String::new();
    drawing.head(&mut text);
    drawing.parameters(&mut text);
    drawing.list_arguments(&mut text, &mut guesses);
    drawing.launches(&mut text);
    drawing.problems(&mut text, &mut guesses);
    let source = reference.as_ref().map_or(drawing.request.path, |(name, _)| name.as_str());
    drawing.check(&mut text, source, &mut guesses);
    KernelSketch { space: text, reference, entry: drawing.entry.to_string(), guesses }
}

impl Drawing<'_> {
    fn head(&self, text: &mut String) {
        let Drawing { request, entry, .. } = self;
        let _ = write!(
            text,
            "# A first space file for `{entry}`, drawn from its source by `evo init`. What is marked `guess` is to be looked\n\
             # at before a number counts. docs/space_files.md explains every key.\n\n\
             [kernel]\nname = {}\nsource = {}\n\n",
            quoted(request.name),
            quoted(request.path),
        );
    }

    fn parameters(&self, text: &mut String) {
        text.push_str("[parameters]\n");
        for SketchTunable { name, values, default, why, .. } in self.tunables {
            let values: Vec<String> = values.iter().map(i64::to_string).collect();
            let _ = writeln!(
                text,
                "{name} = {{ values = [{}], default = {default} }}  # guess: {why}",
                values.join(", ")
            );
        }
        text.push('\n');
    }

    fn list_arguments(&self, text: &mut String, guesses: &mut Vec<SketchGuess>) {
        for (argument, shape) in self.arguments.iter().zip(&self.shapes) {
            let _ = write!(
                text,
                "[[arguments]]\nname = {}\ndtype = {}\n",
                quoted(&argument.name),
                quoted(argument.dtype.as_str())
            );
            match &argument.role {
                SketchRole::Size(name) | SketchRole::Small(name) => {
                    let _ = writeln!(text, "value = {}", quoted(name));
                }
                SketchRole::Number => text.push_str("value = 1.0  # guess\n"),
                _ => self.buffer(text, argument, shape.as_deref(), guesses),
            }
            text.push('\n');
        }
    }

    fn buffer(
        &self,
        text: &mut String,
        argument: &SketchArgument,
        shape: Option<&[String]>,
        guesses: &mut Vec<SketchGuess>,
    ) {
        let mark =
            if shape.is_some() { "" } else { "  # guess: an element for each combination of the sizes" };
        if shape.is_none() {
            let why = "its indices do not say it plainly";
            guessed(guesses, format!("`{}` has the shape [{}]", argument.name, self.whole().join(", ")), why);
        }
        let mut shape = shape.map_or_else(|| self.whole(), <[String]>::to_vec);
        if let Some(inner) = shape.last_mut().filter(|_| argument.lanes > 1) {
            *inner = format!("{} * {inner}", argument.lanes);
        }
        let shape: Vec<String> = shape.iter().map(|own| quoted(own)).collect();
        let _ = writeln!(text, "shape = [{}]{mark}", shape.join(", "));
        let doubt = argument.doubt.as_ref().map_or(String::new(), |why| format!("  # guess: {why}"));
        let _ = writeln!(text, "role = {}{doubt}", quoted(word(&argument.role)));
        let is_place =
            argument.role == SketchRole::Input && !argument.dtype.is_float() && argument.doubt.is_some();
        if argument.role == (SketchRole::Inout { from_zero: true }) {
            text.push_str("fill = { constant = 0 }\n");
        } else if is_place && argument.doubt.as_ref().is_some_and(|why| why.contains("places")) {
            let _ = writeln!(text, "fill = {{ uniform = [0, {}] }}  # guess", quoted(&self.whole()[0]));
        }
    }

    fn whole(&self) -> Vec<String> {
        let sizes: Vec<String> =
            self.arguments.iter().filter_map(SketchArgument::size).map(str::to_string).collect();
        if sizes.is_empty() { vec!["N".to_string()] } else { sizes }
    }

    fn launches(&self, text: &mut String) {
        let _ = writeln!(text, "[[launches]]\nentry = {}", quoted(self.entry));
        let _ = writeln!(text, "grid = [{}]  # guess: fastest axis first", list(&self.launch.grid));
        let _ = writeln!(text, "block = [{}]", list(&self.launch.block));
        if let Some(bytes) = &self.launch.shared_bytes {
            let _ = writeln!(text, "shared_bytes = {}  # guess", quoted(bytes));
        }
        text.push('\n');
    }

    fn problems(&self, text: &mut String, guesses: &mut Vec<SketchGuess>) {
        let sizes = self.whole();
        let flat = |shape: &Option<Vec<String>>| shape.as_ref().is_none_or(|own| own.len() < 3);
        let buffers = || self.arguments.iter().zip(&self.shapes).filter(|(own, _)| self.is_buffer(own));
        let matrices = sizes.len() == 3 && buffers().all(|(_, shape)| shape.is_some() && flat(shape));
        let (cuda, host) =
            if matrices { MATRICES } else { EXTENTS[(sizes.len() - 1).min(EXTENTS.len() - 1)] };
        let small = self.arguments.iter().filter_map(|own| match &own.role {
            SketchRole::Small(name) => Some(format!("{name} = {SMALL}")),
            _ => None,
        });
        let small: Vec<String> = small.collect();
        for (name, device, extents) in [("large", "cuda", cuda), ("small", "host", host)] {
            let extents = extents.iter().chain(std::iter::repeat(&2));
            let own = sizes.iter().zip(extents).map(|(size, extent)| format!("{size} = {extent}"));
            let all: Vec<String> = own.chain(small.iter().cloned()).collect();
            let _ = write!(
                text,
                "[[problems]]\nname = {}\ndevice = {}\nsizes = {{ {} }}  # guess: the sizes that matter to you\n\n",
                quoted(name),
                quoted(device),
                all.join(", ")
            );
        }
        guessed(guesses, "the sizes of both problems", "only you know the sizes that matter");
    }

    fn is_buffer(&self, argument: &SketchArgument) -> bool {
        matches!(argument.role, SketchRole::Input | SketchRole::Output | SketchRole::Inout { .. })
    }

    fn check(&self, text: &mut String, source: &str, guesses: &mut Vec<SketchGuess>) {
        let fixed = |all: &[String]| list(&all.iter().map(|own| self.at_defaults(own)).collect::<Vec<_>>());
        let shared = self.launch.shared_bytes.as_ref();
        let _ = write!(
            text,
            "{REFERENCE_NOTE}\
             # A simple kernel of your own in its place finds both; one that says REAL for float is compiled in double precision.\n\
             [check.reference]  # guess\nsource = {}\n",
            quoted(source)
        );
        match shared {
            None => {
                let _ = write!(
                    text,
                    "entry = {}\ngrid = [{}]\nblock = [{}]\n",
                    quoted(self.entry),
                    fixed(&self.launch.grid),
                    fixed(&self.launch.block)
                );
            }
            Some(bytes) => {
                let _ = writeln!(
                    text,
                    "launches = [{{ entry = {}, grid = [{}], block = [{}], shared_bytes = {} }}]",
                    quoted(self.entry),
                    fixed(&self.launch.grid),
                    fixed(&self.launch.block),
                    quoted(&self.at_defaults(bytes))
                );
            }
        }
        guessed(
            guesses,
            "the reference is the kernel itself at its defaults",
            "evo has no other answer to compare with",
        );
    }

    fn at_defaults(&self, expression: &str) -> String {
        let default = |name: &str| self.tunables.iter().find(|own| own.name == name);
        at_values(expression, &|name| default(name).map(|own| own.default.to_string()))
    }

    fn reference(&self) -> (String, String) {
        let undefined = self.tunables.iter().filter(|own| own.is_undefined);
        let macros: Vec<_> = undefined.map(|own| (own.name.clone(), own.default.to_string())).collect();
        reference("evo init", self.request.path, &macros)
    }
}

pub(crate) const REFERENCE_NOTE: &str = "# The kernel at its defaults is the reference: this finds variants that break it, and no mistake that it has itself.\n";

/// A text as TOML has it, whose escapes include those of JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(crate) fn list<T: AsRef<str>>(all: &[T]) -> String {
    all.iter().map(|own| quoted(own.as_ref())).collect::<Vec<_>>().join(", ")
}

pub(crate) fn is_plain(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || c == '"' || c == '\\')
}

pub(crate) fn at_values(expression: &str, value_of: &dyn Fn(&str) -> Option<String>) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut text = String::new();
    for piece in expression.split_inclusive(|c: char| !is_word(c)) {
        let name = piece.trim_end_matches(|c: char| !is_word(c));
        text.push_str(value_of(name).as_deref().unwrap_or(name));
        text.push_str(&piece[name.len()..]);
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_whole_names() {
        let value_of = |name: &str| (name == "B").then(|| "64".to_string());
        assert_eq!(at_values("ceil_div(N, B * BB) + B", &value_of), "ceil_div(N, 64 * BB) + 64");
        assert_eq!(at_values("", &value_of), "");
    }
}
