//! T1 files, in which Kernel Tuner, KTT and BAT state tuning problems, as space files of evo.
//!
//! There are two dialects of version 1.0.0 (github.com/odgaard/TuningSchema). KTT's states the launch as `GlobalSize`,
//! Kernel Tuner's as `ProblemSize` with `GridDivX`, `GridDivY` and `GridDivZ`, defaults and constant memory. Whatever has no
//! counterpart here is refused by its name and place; nothing is left out silently.

use std::fmt::Write;

use evo_protocol::dtype::DType;
use serde_json::Value;

use crate::foreign::{ForeignError, ForeignNode, Read, parsed, shown};
use crate::sketch::write::{self, REFERENCE_NOTE, is_plain, list, quoted};
use crate::sketch::{KernelSketch, SketchGuess};

/// A T1 file's text as a space file. `kernel` is its name on the leaderboard; sources are named from the file's folder.
pub fn space_of(text: &str, kernel: &str) -> Read<KernelSketch> {
    let value = parsed(text, "", "name a T1 file, as Kernel Tuner and KTT read them")?;
    let missing = "version 1.0.0 of the format demands it";
    let root = Node::root(&value, "", missing, Some("github.com/odgaard/TuningSchema has the format"));
    let parameters = parameters(&root)?;
    let arguments = read_arguments(&root, &parameters)?;
    space(&root, kernel, &parameters, &arguments)
}

type Node<'v> = ForeignNode<'v>;

/// A text that may stand anywhere in a file: nothing in it ends a line or a literal.
fn plain<'v>(node: &Node<'v>) -> Read<&'v str> {
    let text = node.text()?;
    match is_plain(text) {
        true => Ok(text),
        false => Err(node.wrong("it has a quote, a backslash or a control character")),
    }
}

/// A name of C, as macros, variables and keys of a space file have it.
fn c_name<'v>(node: &Node<'v>) -> Read<&'v str> {
    let text = node.text()?;
    let is_word = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_word && !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) {
        true => Ok(text),
        false => Err(node.wrong("it is not a name of letters, digits and `_`")),
    }
}

/// A text, or a number as one.
fn expression(node: &Node<'_>) -> Read<String> {
    match node.value {
        Value::String(text) => Ok(spelled(text)),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(node.wrong("it is neither a text nor a number")),
    }
}

/// An expression with Python's words for C's signs.
fn spelled(text: &str) -> String {
    text.replace("&&", " and ").replace("||", " or ").trim().to_string()
}

#[derive(Clone, Debug, PartialEq)]
struct T1Parameter {
    name: String,
    /// Numbers, booleans or texts, in the file's order.
    values: Vec<Value>,
    default: Value,
}

const PARAMETERS_MAX: usize = 256;

const VALUES_MAX: i64 = 1 << 16;

/// Reads `ConfigurationSpace.TuningParameters`.
fn parameters(root: &Node<'_>) -> Read<Vec<T1Parameter>> {
    let list = root.need("ConfigurationSpace")?.need("TuningParameters")?;
    let mut found = Vec::new();
    for own in list.items()? {
        let name = c_name(&own.need("Name")?)?.to_string();
        let values = own.need("Values")?;
        let all = match values.value {
            Value::Array(all) => all.clone(),
            Value::String(text) => list_of(text).ok_or_else(|| {
                values.unsupported(
                    &format!("`{}`", shown(text)),
                    "write a list such as `[1, 2, 4]`, or `range(1, 9)`, in the file",
                )
            })?,
            _ => return Err(values.wrong("it is neither a list nor the text of one")),
        };
        let plain = |value: &Value| match value {
            Value::String(text) => is_plain(text),
            other => other.is_number() || other.is_boolean(),
        };
        if all.is_empty() || !all.iter().all(plain) {
            return Err(values.wrong("it is not a list of numbers, booleans or plain texts"));
        }
        let stated = own.find("Default").map(|own| own.value.clone());
        let default = stated.filter(|own| all.contains(own)).unwrap_or_else(|| all[0].clone());
        found.push(T1Parameter { name, values: all, default });
    }
    if found.is_empty() || found.len() > PARAMETERS_MAX {
        let count = found.len();
        return Err(list.wrong(&format!("it has {count} parameters, expected 1 to {PARAMETERS_MAX}")));
    }
    Ok(found)
}

/// `[1, 2]`, `["a", True]`, `range(1, 9, 2)`, `list(range(9))`.
fn list_of(text: &str) -> Option<Vec<Value>> {
    let text = text.trim();
    let inside = text.strip_prefix("list(").and_then(|rest| rest.strip_suffix(')'));
    let text = inside.map_or(text, str::trim);
    if let Some(inside) = text.strip_prefix("range(").and_then(|rest| rest.strip_suffix(')')) {
        let numbers: Option<Vec<i64>> = inside.split(',').map(|own| own.trim().parse().ok()).collect();
        let (from, to, step) = match numbers?[..] {
            [to] => (0, to, 1),
            [from, to] => (from, to, 1),
            [from, to, step] if step != 0 => (from, to, step),
            _ => return None,
        };
        let count = (i128::from(to) - i128::from(from)).div_euclid(i128::from(step));
        if count > i128::from(VALUES_MAX) {
            return None;
        }
        let within = |value: &i64| if step > 0 { *value < to } else { *value > to };
        let all = std::iter::successors(Some(from), |value| value.checked_add(step)).take_while(within);
        return Some(all.map(Value::from).collect());
    }
    let inside = text.strip_prefix('[').or_else(|| text.strip_prefix('('))?;
    let inside = inside.strip_suffix([']', ')'])?.trim().trim_end_matches(',');
    inside.split(',').map(|own| element(own.trim())).collect()
}

fn element(text: &str) -> Option<Value> {
    let quoted = |sign: char| text.strip_prefix(sign).and_then(|rest| rest.strip_suffix(sign));
    match text {
        "True" | "true" => Some(true.into()),
        "False" | "false" => Some(false.into()),
        _ => quoted('\'').or_else(|| quoted('"')).map(Value::from).or_else(|| {
            let number: Value = serde_json::from_str(text).ok()?;
            number.is_number().then_some(number)
        }),
    }
}

impl T1Parameter {
    /// The largest value, where all are numbers.
    fn largest(&self) -> Option<i64> {
        self.values.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>()?.into_iter().max()
    }

    /// The default as a macro has it.
    fn as_macro(&self) -> String {
        match &self.default {
            Value::Bool(own) => u8::from(*own).to_string(),
            Value::String(own) => own.clone(),
            other => other.to_string(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct T1Argument {
    name: String,
    dtype: DType,
    kind: T1Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum T1Kind {
    Scalar(Value),
    /// An array of so many elements.
    Vector {
        elements: String,
        role: &'static str,
        /// The value of `fill`, as TOML has it.
        fill: Option<String>,
        /// It is a variable of the module, and not passed.
        symbol: bool,
    },
}

const ARGUMENTS_MAX: usize = 256;

const TYPES: &[(&str, DType, u64)] = &[
    ("bool", DType::U8, 1),
    ("int8", DType::I8, 1),
    ("uint8", DType::U8, 1),
    ("int16", DType::I16, 1),
    ("uint16", DType::U16, 1),
    ("int32", DType::I32, 1),
    ("uint32", DType::U32, 1),
    ("int64", DType::I64, 1),
    ("uint64", DType::U64, 1),
    ("half", DType::F16, 1),
    ("half2", DType::F16, 2),
    ("half4", DType::F16, 4),
    ("float", DType::F32, 1),
    ("float2", DType::F32, 2),
    ("float4", DType::F32, 4),
    ("double", DType::F64, 1),
    ("double2", DType::F64, 2),
    ("double4", DType::F64, 4),
];

/// Reads `KernelSpecification.Arguments`.
fn read_arguments(root: &Node<'_>, parameters: &[T1Parameter]) -> Read<Vec<T1Argument>> {
    let kernel = root.need("KernelSpecification")?;
    let Some(list) = kernel.find("Arguments") else {
        return Err(
            kernel.unsupported("a kernel without `Arguments`", "state what the kernel takes, in order")
        );
    };
    let sizes = kernel.find("ProblemSize").map(|own| own.items()).transpose()?.unwrap_or_default();
    let items = list.items()?;
    if items.len() > ARGUMENTS_MAX {
        let count = items.len();
        return Err(list.wrong(&format!("it has {count} arguments, and at most {ARGUMENTS_MAX} are read")));
    }
    items.iter().enumerate().map(|(at, own)| argument(own, at, parameters, &sizes)).collect()
}

fn argument(own: &Node<'_>, at: usize, parameters: &[T1Parameter], sizes: &[Node<'_>]) -> Read<T1Argument> {
    let name = own
        .find("Name")
        .map(|own| c_name(&own))
        .transpose()?
        .map_or(format!("argument_{at}"), str::to_string);
    let type_node = own.need("Type")?;
    let word = type_node.text()?;
    let (_, dtype, lanes) = *TYPES.iter().find(|(known, ..)| *known == word).ok_or_else(|| {
        type_node.unsupported(
            &format!("the type `{}`", shown(word)),
            "pass a structure's fields as arguments of their own",
        )
    })?;
    let memory = own.need("MemoryType")?;
    let kind = match memory.text()? {
        "Scalar" if lanes == 1 => T1Kind::Scalar(scalar(own, dtype)?),
        "Scalar" => {
            return Err(type_node.unsupported("a vector type by value", "pass its elements one by one"));
        }
        "Vector" | "Symbol" => vector(own, memory.text()? == "Symbol", (dtype, lanes), parameters, sizes)?,
        "Local" => {
            let hint = "state the bytes as `SharedMemory`; a kernel in CUDA takes no argument for them";
            return Err(memory.unsupported("`Local`", hint));
        }
        other => return Err(memory.wrong(&format!("`{other}` is none of Scalar, Vector, Local and Symbol"))),
    };
    Ok(T1Argument { name, dtype, kind })
}

fn scalar(own: &Node<'_>, dtype: DType) -> Read<Value> {
    let value = own.need("FillValue")?;
    let whole = value.value.as_f64().filter(|own| own.fract() == 0.0 && own.abs() < 9e15);
    match (dtype.is_float(), value.value) {
        (true, Value::Number(number)) => Ok(number.as_f64().map_or(Value::Null, Value::from)),
        (false, Value::Number(_)) => whole
            .map(|own| Value::from(own as i64))
            .ok_or_else(|| value.wrong("it is not a whole number, and its type is")),
        (false, Value::Bool(own)) => Ok(u8::from(*own).into()),
        _ => Err(value.wrong("it is not a number")),
    }
}

fn vector(
    own: &Node<'_>,
    symbol: bool,
    (dtype, lanes): (DType, u64),
    parameters: &[T1Parameter],
    sizes: &[Node<'_>],
) -> Read<T1Kind> {
    let elements = elements(&own.need("Size")?, parameters, sizes)?;
    let elements = if lanes > 1 { format!("{lanes} * ({elements})") } else { elements };
    let written = own.find("Output").is_some_and(|own| own.value.as_i64() == Some(1));
    let role = match own.find("AccessType").map(|own| own.text()).transpose()? {
        Some("ReadOnly") => "input",
        Some("WriteOnly") => "output",
        Some("ReadWrite") => "inout",
        None if written => "output",
        _ => {
            return Err(own.wrong("it has no `AccessType` of ReadOnly, WriteOnly and ReadWrite"));
        }
    };
    // Kernel Tuner's word for constant memory.
    let constant = own.find("MemType").map(|own| own.text()).transpose()? == Some("Constant");
    let fill = if role == "output" { None } else { fill(own, dtype)? };
    Ok(T1Kind::Vector { elements, role, fill, symbol: symbol || constant })
}

fn fill(own: &Node<'_>, dtype: DType) -> Read<Option<String>> {
    let Some(how) = own.find("FillType") else { return Ok(None) };
    let number = || {
        let value = own.need("FillValue")?;
        let number = value.value.as_f64().ok_or_else(|| value.wrong("it is not a number"))?;
        Ok::<f64, ForeignError>(number)
    };
    Ok(Some(match how.text()? {
        "Constant" => format!("{{ constant = {} }}", number_text(number()?, dtype)),
        // From 0 up to the value, as both tools draw it.
        "Random" => match number()? {
            0.0 => "{ constant = 0 }".to_string(),
            end => {
                let (low, high) = if end > 0.0 { (0.0, end) } else { (end, 0.0) };
                format!("{{ uniform = [{}, {}] }}", number_text(low, dtype), number_text(high, dtype))
            }
        },
        "BinaryRaw" => format!("{{ raw = {} }}", Value::from(own.need("DataSource")?.text()?)),
        other => {
            let hint = "write the values to a file: `\"FillType\": \"BinaryRaw\"` with `DataSource`";
            return Err(how.unsupported(&format!("`{}`", shown(other)), hint));
        }
    }))
}

fn number_text(value: f64, dtype: DType) -> String {
    if dtype.is_float() { format!("{value:?}") } else { format!("{}", value as i64) }
}

/// The count of elements, with the words of Kernel Tuner's dialect replaced: `ProblemSize[0] + max(filter_width) - 1`.
fn elements(size: &Node<'_>, parameters: &[T1Parameter], sizes: &[Node<'_>]) -> Read<String> {
    let mut text = spelled(&expression(size)?);
    for (at, own) in sizes.iter().enumerate() {
        text = text.replace(&format!("ProblemSize[{at}]"), &expression(own)?);
    }
    for own in parameters {
        if let Some(largest) = own.largest() {
            text = text.replace(&format!("max({})", own.name), &largest.to_string());
        }
    }
    if text.contains('[') {
        return Err(size.unsupported(
            &format!("`{}`", shown(&text)),
            "state a number, or an expression of `ProblemSize[0]`",
        ));
    }
    Ok(text)
}

const AXES: [&str; 3] = ["X", "Y", "Z"];

struct T1Launch {
    grid: Vec<String>,
    block: Vec<String>,
    shared_bytes: Option<String>,
}

fn space(
    root: &Node<'_>,
    name: &str,
    parameters: &[T1Parameter],
    arguments: &[T1Argument],
) -> Read<KernelSketch> {
    let kernel = root.need("KernelSpecification")?;
    let language = kernel.need("Language")?;
    if language.text()? != "CUDA" {
        return Err(
            language.unsupported(&format!("`{}`", shown(language.text()?)), "evo tunes kernels in CUDA")
        );
    }
    let entry = plain(&kernel.need("KernelName")?)?;
    let source = plain(&kernel.need("KernelFile")?)?;
    let launch = launch(&kernel)?;
    let mut guesses = Vec::new();
    let mut text = format!(
        "# `{entry}`, taken over from a T1 file by `evo import t1`. docs/space_files.md explains every key.\n\n\
         [kernel]\nname = {}\nsource = {}\n",
        quoted(name),
        quoted(source)
    );
    let options = options(&kernel)?;
    if !options.is_empty() {
        let _ = writeln!(text, "options = [{}]", list(&options));
    }
    text.push_str("\n[parameters]\n");
    for own in parameters {
        let values: Vec<String> = own.values.iter().map(Value::to_string).collect();
        let _ = writeln!(
            text,
            "{} = {{ values = [{}], default = {} }}",
            own.name,
            values.join(", "),
            own.default
        );
    }
    text.push('\n');
    conditions(root, &mut text)?;
    arguments_text(arguments, &mut text);
    launch_text(entry, &launch, &mut text);
    text.push_str("[[problems]]\nname = \"t1\"\nsizes = {}  # the file's sizes are numbers\n\n");
    let reference = reference(source, parameters, arguments);
    check_text(entry, &launch, &reference.0, parameters, &mut text);
    guess(
        &mut guesses,
        "the reference is the kernel itself at its defaults",
        "evo has no other answer to compare with",
    );
    guess(&mut guesses, "small and odd shapes are not tried", "a T1 file has one size of each array");
    if let Some(own) = kernel.find("ReferenceArguments") {
        let why =
            "the space file's own reference stands in its place; `{ npy = { … } }` reads answers from files";
        guess(&mut guesses, format!("{} is not taken over", own.place), why);
    }
    for key in ["Search", "General", "Budget"] {
        if let Some(own) = root.find(key) {
            guess(&mut guesses, format!("{} is not taken over", own.place), "`evo sweep` has options for it");
        }
    }
    Ok(KernelSketch { space: text, reference: Some(reference), entry: entry.to_string(), guesses })
}

fn guess(guesses: &mut Vec<SketchGuess>, what: impl Into<String>, why: &str) {
    guesses.push(SketchGuess { what: what.into(), why: why.to_string() });
}

/// Compiler options; tools of before wrote some with one hyphen.
fn options(kernel: &Node<'_>) -> Read<Vec<String>> {
    let Some(all) = kernel.find("CompilerOptions") else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for own in all.items()? {
        match own.text()?.trim() {
            "" => {}
            "-use_fast_math" => found.push("--use_fast_math".to_string()),
            other => found.push(other.to_string()),
        }
    }
    Ok(found)
}

fn conditions(root: &Node<'_>, text: &mut String) -> Read<()> {
    let Some(all) = root.need("ConfigurationSpace")?.find("Conditions") else { return Ok(()) };
    for own in all.items()? {
        let _ = writeln!(
            text,
            "[[constraints]]\nrequire = {}\n",
            quoted(&spelled(own.need("Expression")?.text()?))
        );
    }
    Ok(())
}

fn arguments_text(arguments: &[T1Argument], text: &mut String) {
    for own in arguments {
        let _ = writeln!(
            text,
            "[[arguments]]\nname = {}\ndtype = {}",
            quoted(&own.name),
            quoted(own.dtype.as_str())
        );
        match &own.kind {
            T1Kind::Scalar(value) => {
                let _ = writeln!(text, "value = {value}\n");
            }
            T1Kind::Vector { elements, role, fill, symbol } => {
                let _ = writeln!(text, "shape = [{}]\nrole = {}", quoted(elements), quoted(role));
                if let Some(fill) = fill {
                    let _ = writeln!(text, "fill = {fill}");
                }
                if *symbol {
                    let _ = writeln!(text, "symbol = {}", quoted(&own.name));
                }
                text.push('\n');
            }
        }
    }
}

/// Grid and block from either dialect.
fn launch(kernel: &Node<'_>) -> Read<T1Launch> {
    let local = kernel.need("LocalSize")?;
    let axes = |node: &Node<'_>| -> Read<Vec<String>> {
        AXES.iter().map(|axis| node.find(axis).map_or(Ok("1".to_string()), |own| expression(&own))).collect()
    };
    let block = axes(&local)?;
    let grid = match kernel.find("ProblemSize") {
        Some(sizes) => by_problem(kernel, &sizes, &block)?,
        None => {
            let global = axes(&kernel.need("GlobalSize")?)?;
            let kind = kernel.find("GlobalSizeType");
            match kind.as_ref().map(|own| own.text()).transpose()? {
                // A count of threads; the others count blocks.
                Some("OpenCL") => global
                    .iter()
                    .zip(&block)
                    .map(|(threads, own)| format!("ceil_div({threads}, {own})"))
                    .collect(),
                _ => global,
            }
        }
    };
    let shared = kernel.find("SharedMemory").map(|own| expression(&own)).transpose()?;
    Ok(T1Launch { grid, block, shared_bytes: shared.filter(|own| own != "0") })
}

/// Kernel Tuner's rule: each size over the product of its divisors, rounded up; the block's extent where none are named.
fn by_problem(kernel: &Node<'_>, sizes: &Node<'_>, block: &[String]) -> Read<Vec<String>> {
    let sizes = match sizes.value {
        Value::Array(_) => sizes.items()?,
        _ => vec![sizes.clone()],
    };
    let mut grid = Vec::new();
    for (at, axis) in AXES.iter().enumerate() {
        let Some(size) = sizes.get(at) else {
            grid.push("1".to_string());
            continue;
        };
        let size = expression(size)?;
        let divisors = kernel.find(&format!("GridDiv{axis}"));
        let divisors = divisors.map(|own| own.items()).transpose()?;
        let factors = match divisors {
            Some(all) => all.iter().map(expression).collect::<Read<Vec<String>>>()?,
            None => vec![block[at].clone()],
        };
        grid.push(match factors.is_empty() {
            true => size,
            false => format!("ceil_div({size}, {})", factors.join(" * ")),
        });
    }
    Ok(grid)
}

fn launch_text(entry: &str, launch: &T1Launch, text: &mut String) {
    let _ = writeln!(text, "[[launches]]\nentry = {}", quoted(entry));
    let _ = writeln!(text, "grid = [{}]\nblock = [{}]", list(&launch.grid), list(&launch.block));
    if let Some(bytes) = &launch.shared_bytes {
        let _ = writeln!(text, "shared_bytes = {}", quoted(bytes));
    }
    text.push('\n');
}

fn check_text(entry: &str, launch: &T1Launch, source: &str, parameters: &[T1Parameter], text: &mut String) {
    let fixed =
        |all: &[String]| list(&all.iter().map(|own| at_defaults(own, parameters)).collect::<Vec<_>>());
    let shared = launch
        .shared_bytes
        .as_ref()
        .map_or(String::new(), |own| format!(", shared_bytes = {}", quoted(&at_defaults(own, parameters))));
    let _ = write!(
        text,
        "{REFERENCE_NOTE}\
         [check]\ntiny = \"none\"\nreference = {{ source = {}, launches = [{{ entry = {}, grid = [{}], block = [{}]{shared} }}] }}\n",
        quoted(source),
        quoted(entry),
        fixed(&launch.grid),
        fixed(&launch.block)
    );
}

fn at_defaults(expression: &str, parameters: &[T1Parameter]) -> String {
    let default = |name: &str| parameters.iter().find(|own| own.name == name).map(T1Parameter::as_macro);
    write::at_values(expression, &default)
}

fn reference(path: &str, parameters: &[T1Parameter], arguments: &[T1Argument]) -> (String, String) {
    let macros: Vec<_> = parameters.iter().map(|own| (own.name.clone(), own.as_macro())).collect();
    let (name, mut text) = write::reference("evo import t1", path, &macros);
    let is_symbol = |own: &&T1Argument| matches!(own.kind, T1Kind::Vector { symbol: true, .. });
    for own in arguments.iter().filter(is_symbol) {
        // evo fills a variable whose name stands in this text.
        let _ = writeln!(text, "static_assert(sizeof({0}) > 0, \"{0}\");", own.name);
    }
    (name, text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn lists_are_read_as_python_writes_them() {
        let read = |text: &str| list_of(text).map(Value::Array);
        assert_eq!(read("[1, 2, 4]"), Some(json!([1, 2, 4])));
        assert_eq!(read("(1, 0.5,)"), Some(json!([1, 0.5])));
        assert_eq!(read("['a', \"b\", True]"), Some(json!(["a", "b", true])));
        assert_eq!(read("list(range(1, 5))"), Some(json!([1, 2, 3, 4])));
        assert_eq!(read("range(8, 0, -4)"), Some(json!([8, 4])));
        assert_eq!(read("range(3)"), Some(json!([0, 1, 2])));
        for text in [
            "[2**i for i in range(5)]",
            "range(1, 2, 0)",
            "range(0, 9999999)",
            "[x]",
            "",
            "[",
            "open('f')",
            "list(list([1]))",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    fn ktt() -> Value {
        json!({
            "ConfigurationSpace": {
                "TuningParameters": [
                    { "Name": "BX", "Type": "uint", "Values": "[32, 64]" },
                    { "Name": "SOA", "Type": "bool", "Values": "[False, True]" },
                ],
                "Conditions": [{ "Parameters": ["BX", "SOA"], "Expression": "BX > 32 || SOA == 0" }],
            },
            "General": { "OutputFormat": "JSON" },
            "KernelSpecification": {
                "Language": "CUDA", "KernelName": "add", "KernelFile": "add.cu", "SharedMemory": 0,
                "CompilerOptions": ["-use_fast_math", ""],
                "GlobalSize": { "X": "4096 // BX" }, "LocalSize": { "X": "BX" },
                "Arguments": [
                    { "Name": "x", "Type": "float4", "Size": 1024, "FillType": "Random", "FillValue": 20.0,
                      "AccessType": "ReadOnly", "MemoryType": "Vector" },
                    { "Name": "y", "Type": "float", "Size": 4096, "FillType": "Constant", "FillValue": 0.0,
                      "AccessType": "WriteOnly", "MemoryType": "Vector" },
                    { "Name": "n", "Type": "int32", "FillValue": 4096, "MemoryType": "Scalar" },
                    { "Name": "a", "Type": "float", "FillValue": 3, "MemoryType": "Scalar" },
                ],
            },
        })
    }

    #[track_caller]
    fn has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.contains(line), "no `{line}` in\n{text}");
        }
    }

    #[test]
    fn the_dialect_of_ktt() {
        let drawn = space_of(&ktt().to_string(), "add").unwrap();
        has(
            &drawn.space,
            &[
                "options = [\"--use_fast_math\"]",
                "BX = { values = [32, 64], default = 32 }",
                "SOA = { values = [false, true], default = false }",
                "require = \"BX > 32  or  SOA == 0\"",
                "name = \"x\"\ndtype = \"f32\"\nshape = [\"4 * (1024)\"]\nrole = \"input\"\nfill = { uniform = [0.0, 20.0] }",
                "name = \"n\"\ndtype = \"i32\"\nvalue = 4096",
                "name = \"a\"\ndtype = \"f32\"\nvalue = 3.0",
                "grid = [\"4096 // BX\", \"1\", \"1\"]\nblock = [\"BX\", \"1\", \"1\"]",
                "grid = [\"4096 // 32\", \"1\", \"1\"]",
            ],
        );
        let (name, text) = drawn.reference.unwrap();
        assert_eq!(name, "add_reference.cu");
        assert!(text.ends_with("#define BX 32\n#define SOA 0\n#include \"add.cu\"\n"), "{text}");
        let mut threads = ktt();
        threads["KernelSpecification"]["GlobalSizeType"] = "OpenCL".into();
        has(
            &space_of(&threads.to_string(), "add").unwrap().space,
            &["grid = [\"ceil_div(4096 // BX, BX)\", \"ceil_div(1, 1)\""],
        );
    }

    #[test]
    fn the_dialect_of_kernel_tuner() {
        let mut file = ktt();
        let kernel = &mut file["KernelSpecification"];
        kernel["ProblemSize"] = json!([4096, 64]);
        kernel["GridDivX"] = json!(["BX", "SOA"]);
        kernel["Arguments"][1] = json!({ "Name": "y", "Type": "float", "Size": "ProblemSize[0]+max(BX)-1", "Output": 1,
            "FillType": "Constant", "FillValue": 0, "MemoryType": "Vector" });
        kernel["Arguments"][0]["MemType"] = "Constant".into();
        file["ConfigurationSpace"]["TuningParameters"][0]["Default"] = 64.into();
        let drawn = space_of(&file.to_string(), "add").unwrap();
        has(
            &drawn.space,
            &[
                "default = 64",
                "grid = [\"ceil_div(4096, BX * SOA)\", \"ceil_div(64, 1)\", \"1\"]",
                "shape = [\"4096+64-1\"]\nrole = \"output\"",
                "symbol = \"x\"",
            ],
        );
    }

    #[test]
    fn what_has_no_counterpart_is_refused_by_name_and_place() {
        let refused = |change: &dyn Fn(&mut Value), expected: &str| {
            let mut file = ktt();
            change(&mut file);
            let error = space_of(&file.to_string(), "add").unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(!error.hint.is_empty());
        };
        let argument = "KernelSpecification.Arguments[0]";
        refused(
            &|own| own["KernelSpecification"]["Language"] = "OpenCL".into(),
            "KernelSpecification.Language: `OpenCL` is not supported",
        );
        refused(
            &|own| own["KernelSpecification"]["Arguments"][0]["FillType"] = "Generator".into(),
            &format!("{argument}.FillType: `Generator` is not supported"),
        );
        refused(
            &|own| own["KernelSpecification"]["Arguments"][0]["Type"] = "custom".into(),
            &format!("{argument}.Type: the type `custom` is not supported"),
        );
        refused(
            &|own| own["KernelSpecification"]["Arguments"][0]["MemoryType"] = "Local".into(),
            &format!("{argument}.MemoryType: `Local` is not supported"),
        );
        refused(
            &|own| {
                own["ConfigurationSpace"]["TuningParameters"][0]["Values"] = "[2**i for i in range(3)]".into()
            },
            "ConfigurationSpace.TuningParameters[0].Values: `[2**i for i in range(3)]` is not supported",
        );
        refused(
            &|own| own["KernelSpecification"]["KernelFile"] = Value::Null,
            "KernelSpecification: it has no `KernelFile`",
        );
        refused(&|own| *own = json!([]), "the file: it has no `ConfigurationSpace`");
        assert!(
            space_of("{", "add").unwrap_err().to_string().starts_with("line 1, column 1: it is not JSON")
        );
    }
}
