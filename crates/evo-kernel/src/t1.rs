//! T1 files, in which Kernel Tuner, KTT and BAT state tuning problems, as space files of evo.
//!
//! There are two dialects of version 1.0.0 (github.com/odgaard/TuningSchema). KTT's states the launch as `GlobalSize`,
//! Kernel Tuner's as `ProblemSize` with `GridDivX`, `GridDivY` and `GridDivZ`, defaults and constant memory. Whatever has no
//! counterpart here is refused by its name and place; nothing is left out silently.

use evo_protocol::dtype::DType;
use evo_space::expr::Expr;
use serde_json::Value;

use crate::foreign::{ForeignNode, Read, parsed, shown};
use crate::sketch::write::{self, REFERENCE_NOTE, SpaceText, is_plain, list, quoted};
use crate::sketch::{KernelSketch, SketchLaunch, guessed, guessed_reference};
use crate::words::is_c_name;

/// A T1 file's text as a space file. `name` is the kernel's on the leaderboard; sources are named from the file's folder.
pub fn space_of(text: &str, name: &str) -> Read<KernelSketch> {
    let value = parsed(text, "", "name a T1 file, as Kernel Tuner and KTT read them")?;
    let missing = "version 1.0.0 of the format demands it";
    let root = Node::root(&value, "", missing, Some("github.com/odgaard/TuningSchema has the format"));
    let parameters = parameters(&root)?;
    let kernel = root.need("KernelSpecification")?;
    let language = kernel.need("Language")?;
    let word = language.text()?;
    if word != "CUDA" {
        return Err(language.unsupported(&format!("`{}`", shown(word)), "evo tunes kernels in CUDA"));
    }
    let entry = plain(&kernel.need("KernelName")?)?;
    let source = plain(&kernel.need("KernelFile")?)?;
    let head = format!(
        "# `{entry}`, taken over from a T1 file by `evo import t1`. docs/space_files.md explains every key.\n"
    );
    let mut text = SpaceText::new(&head, name, source);
    let options = options(&kernel)?;
    if !options.is_empty() {
        text.key("options", list(&options));
    }
    text.table("[parameters]");
    for parameter in &parameters {
        text.parameter(&parameter.name, &parameter.values, &parameter.default);
    }
    for condition in root.need("ConfigurationSpace")?.list("Conditions")? {
        let expression = spelled(condition.need("Expression")?.text()?);
        text.table("[[constraints]]").key("require", quoted(&expression));
    }
    let symbols = arguments(&kernel, &parameters, &mut text)?;
    let launch = launch(&kernel)?;
    text.launch(entry, &launch, None);
    text.table("[[problems]]").key("name", "\"t1\"").key("sizes", "{}").note("the file's sizes are numbers");
    let macros: Vec<_> = parameters.iter().map(|own| (own.name.clone(), own.as_macro())).collect();
    let (file, mut reference) = write::reference("evo import t1", source, &macros);
    for symbol in symbols {
        // evo fills a variable whose name stands in this text.
        reference += &format!("static_assert(sizeof({symbol}) > 0, \"{symbol}\");\n");
    }
    let default = |name: &str| macros.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let launches = launch.at_values(entry, &default);
    text.table(&format!("{REFERENCE_NOTE}[check]")).key("tiny", "\"none\"");
    text.key("reference", format!("{{ source = {}, launches = {launches} }}", quoted(&file)));
    let mut guesses = Vec::new();
    guessed_reference(&mut guesses);
    guessed(&mut guesses, "small and odd shapes are not tried", "a T1 file has one size of each array");
    if let Some(answers) = kernel.find("ReferenceArguments") {
        let why =
            "the space file's own reference stands in its place; `{ npy = { … } }` reads answers from files";
        guessed(&mut guesses, format!("{} is not taken over", answers.place), why);
    }
    for section in ["Search", "General", "Budget"].iter().filter_map(|key| root.find(key)) {
        let what = format!("{} is not taken over", section.place);
        guessed(&mut guesses, what, "`evo sweep` has options for it");
    }
    let beside = vec![(file, reference)];
    Ok(KernelSketch { space: text.end(), beside, entry: entry.to_string(), guesses })
}

type Node<'v> = ForeignNode<'v>;

fn checked<'v>(node: &Node<'v>, is_right: fn(&str) -> bool, wrong: &str) -> Read<&'v str> {
    let text = node.text()?;
    if is_right(text) { Ok(text) } else { Err(node.wrong(wrong)) }
}

/// A text that may stand anywhere in a file: nothing in it ends a line or a literal.
fn plain<'v>(node: &Node<'v>) -> Read<&'v str> {
    checked(node, is_plain, "it has a quote, a backslash or a control character")
}

fn c_name<'v>(node: &Node<'v>) -> Read<&'v str> {
    checked(node, is_c_name, "it is not a name of letters, digits and `_`")
}

fn expression(node: &Node<'_>) -> Read<String> {
    as_expression(node, written(node)?)
}

fn as_expression(node: &Node<'_>, text: String) -> Read<String> {
    let checked = Expr::parse(&text).map(|_| text);
    checked.map_err(|error| node.wrong(&format!("it is not an expression: {error}")))
}

/// A text or a number as a text.
fn written(node: &Node<'_>) -> Read<String> {
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

fn parameters(root: &Node<'_>) -> Read<Vec<T1Parameter>> {
    let list = root.need("ConfigurationSpace")?.need("TuningParameters")?;
    let mut found = Vec::new();
    for own in list.items()? {
        let name = c_name(&own.need("Name")?)?.to_string();
        let values = own.need("Values")?;
        let all = match values.value {
            Value::Array(all) => all.clone(),
            Value::String(text) => list_of(text).ok_or_else(|| {
                let hint = "write a list such as `[1, 2, 4]`, or `range(1, 9)`, in the file";
                values.unsupported(&format!("`{}`", shown(text)), hint)
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
    inside.split(',').map(|element| value_of(element.trim())).collect()
}

fn value_of(text: &str) -> Option<Value> {
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
    fn largest(&self) -> Option<i64> {
        self.values.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>()?.into_iter().max()
    }

    fn as_macro(&self) -> String {
        match &self.default {
            Value::Bool(own) => u8::from(*own).to_string(),
            Value::String(own) => own.clone(),
            other => other.to_string(),
        }
    }
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

/// Reads and writes `KernelSpecification.Arguments`: the names of variables of the module, which are not passed.
fn arguments(kernel: &Node<'_>, parameters: &[T1Parameter], text: &mut SpaceText) -> Read<Vec<String>> {
    let without =
        || kernel.unsupported("a kernel without `Arguments`", "state what the kernel takes, in order");
    let list = kernel.find("Arguments").ok_or_else(without)?;
    let sizes = kernel.list("ProblemSize")?;
    let items = list.items()?;
    if items.len() > ARGUMENTS_MAX {
        let count = items.len();
        return Err(list.wrong(&format!("it has {count} arguments, and at most {ARGUMENTS_MAX} are read")));
    }
    let read = |(at, node)| argument(node, at, parameters, &sizes, text).transpose();
    items.iter().enumerate().filter_map(read).collect()
}

/// Its name, where it is a variable of the module.
fn argument(
    node: &Node<'_>,
    at: usize,
    parameters: &[T1Parameter],
    sizes: &[Node<'_>],
    text: &mut SpaceText,
) -> Read<Option<String>> {
    let name = node.find("Name").map(|name| c_name(&name)).transpose()?;
    let name = name.map_or(format!("argument_{at}"), str::to_string);
    let type_node = node.need("Type")?;
    let word = type_node.text()?;
    let (_, dtype, lanes) = *TYPES.iter().find(|(known, ..)| *known == word).ok_or_else(|| {
        let hint = "pass a structure's fields as arguments of their own";
        type_node.unsupported(&format!("the type `{}`", shown(word)), hint)
    })?;
    text.argument(&name, dtype);
    let memory = node.need("MemoryType")?;
    match memory.text()? {
        "Scalar" if lanes == 1 => {
            text.key("value", scalar(node, dtype)?);
            return Ok(None);
        }
        "Scalar" => {
            return Err(type_node.unsupported("a vector type by value", "pass its elements one by one"));
        }
        "Vector" | "Symbol" => {}
        "Local" => {
            let hint = "state the bytes as `SharedMemory`; a kernel in CUDA takes no argument for them";
            return Err(memory.unsupported("`Local`", hint));
        }
        other => return Err(memory.wrong(&format!("`{other}` is none of Scalar, Vector, Local and Symbol"))),
    }
    let mut elements = elements(&node.need("Size")?, parameters, sizes)?;
    if lanes > 1 {
        elements = format!("{lanes} * ({elements})");
    }
    let is_output = node.find("Output").is_some_and(|output| output.value.as_i64() == Some(1));
    let role = match node.word("AccessType")? {
        Some("ReadOnly") => "input",
        Some("WriteOnly") => "output",
        Some("ReadWrite") => "inout",
        None if is_output => "output",
        _ => return Err(node.wrong("it has no `AccessType` of ReadOnly, WriteOnly and ReadWrite")),
    };
    text.key("shape", format!("[{}]", quoted(&elements))).key("role", quoted(role));
    if role != "output"
        && let Some(fill) = fill(node, dtype)?
    {
        text.key("fill", fill);
    }
    // Kernel Tuner's word for constant memory.
    let is_constant = node.word("MemType")? == Some("Constant");
    if memory.text()? == "Vector" && !is_constant {
        return Ok(None);
    }
    text.key("symbol", quoted(&name));
    Ok(Some(name))
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

fn fill(own: &Node<'_>, dtype: DType) -> Read<Option<String>> {
    let Some(how) = own.find("FillType") else { return Ok(None) };
    let number = || -> Read<f64> {
        let value = own.need("FillValue")?;
        value.value.as_f64().ok_or_else(|| value.wrong("it is not a number"))
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
    let mut text = written(size)?;
    for (at, own) in sizes.iter().enumerate() {
        text = text.replace(&format!("ProblemSize[{at}]"), &expression(own)?);
    }
    for own in parameters {
        if let Some(largest) = own.largest() {
            text = text.replace(&format!("max({})", own.name), &largest.to_string());
        }
    }
    if text.contains('[') {
        let hint = "state a number, or an expression of `ProblemSize[0]`";
        return Err(size.unsupported(&format!("`{}`", shown(&text)), hint));
    }
    as_expression(size, text)
}

const AXES: [&str; 3] = ["X", "Y", "Z"];

/// Compiler options; tools of before wrote some with one hyphen.
fn options(kernel: &Node<'_>) -> Read<Vec<String>> {
    let all = kernel.list("CompilerOptions")?;
    let options = all.iter().map(|option| option.text().map(str::trim)).collect::<Read<Vec<&str>>>()?;
    let spelled = |own: &str| if own == "-use_fast_math" { format!("-{own}") } else { own.to_string() };
    Ok(options.into_iter().filter(|option| !option.is_empty()).map(spelled).collect())
}

fn launch(kernel: &Node<'_>) -> Read<SketchLaunch> {
    let local = kernel.need("LocalSize")?;
    let axes = |node: &Node<'_>| -> Read<Vec<String>> {
        AXES.iter().map(|axis| node.find(axis).map_or(Ok("1".to_string()), |own| expression(&own))).collect()
    };
    let block = axes(&local)?;
    let grid = match kernel.find("ProblemSize") {
        Some(sizes) => by_problem(kernel, &sizes, &block)?,
        None => {
            let global = axes(&kernel.need("GlobalSize")?)?;
            match kernel.word("GlobalSizeType")? {
                // A count of threads; the others count blocks.
                Some("OpenCL") => {
                    let blocks = |(threads, own): (&String, &String)| format!("ceil_div({threads}, {own})");
                    global.iter().zip(&block).map(blocks).collect()
                }
                _ => global,
            }
        }
    };
    let shared = kernel.find("SharedMemory").map(|own| expression(&own)).transpose()?;
    Ok(SketchLaunch { grid, block, shared_bytes: shared.filter(|own| own != "0") })
}

/// Kernel Tuner's rule: each size over the product of its divisors, rounded up; the block's extent where none are named.
fn by_problem(kernel: &Node<'_>, sizes: &Node<'_>, block: &[String]) -> Read<Vec<String>> {
    let sizes = if let Value::Array(_) = sizes.value { sizes.items()? } else { vec![sizes.clone()] };
    let blocks = |(at, axis): (usize, &&str)| {
        let Some(size) = sizes.get(at).map(expression).transpose()? else { return Ok("1".to_string()) };
        let factors = match kernel.find(&format!("GridDiv{axis}")) {
            Some(own) => own.items()?.iter().map(expression).collect::<Read<Vec<String>>>()?,
            None => vec![block[at].clone()],
        };
        let factors = factors.join(" * ");
        Ok(if factors.is_empty() { size } else { format!("ceil_div({size}, {factors})") })
    };
    AXES.iter().enumerate().map(blocks).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sketch::tests::check_drawn;

    #[test]
    fn lists_are_read_as_python_writes_them() {
        let read = |text: &str| list_of(text).map(Value::Array);
        assert_eq!(read("[1, 2, 4]"), Some(json!([1, 2, 4])));
        assert_eq!(read("(1, 0.5,)"), Some(json!([1, 0.5])));
        assert_eq!(read("['a', \"b\", True]"), Some(json!(["a", "b", true])));
        assert_eq!(read("['TrueType', \"it's\"]"), Some(json!(["TrueType", "it's"])));
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

    const KTT: &str = include_str!("../tests/drawn/ktt.json");

    #[test]
    fn both_dialects_become_space_files() {
        check_drawn("ktt", &space_of(KTT, "add").unwrap());
        let text = include_str!("../tests/drawn/kernel_tuner.json");
        check_drawn("kernel_tuner", &space_of(text, "add").unwrap());
        let threads = KTT.replace("\"GlobalSize\"", "\"GlobalSizeType\": \"OpenCL\", \"GlobalSize\"");
        let space = space_of(&threads, "add").unwrap().space;
        assert!(space.contains("grid = [\"ceil_div(4096 // BX, BX)\", \"ceil_div(1, 1)\""), "{space}");
    }

    #[test]
    fn what_has_no_counterpart_is_refused_by_name_and_place() {
        let rows = [
            ("KernelSpecification/Language", json!("OpenCL")),
            ("KernelSpecification/Arguments/0/FillType", json!("Generator")),
            ("KernelSpecification/Arguments/0/Type", json!("custom")),
            ("KernelSpecification/Arguments/0/MemoryType", json!("Local")),
            ("ConfigurationSpace/TuningParameters/0/Values", json!("[2**i for i in range(3)]")),
            ("KernelSpecification/LocalSize/X", json!("BX ? 32 : 64")),
            ("KernelSpecification/Arguments/0/Size", json!("BX ? 32 : 64")),
            ("KernelSpecification/KernelFile", Value::Null),
            ("", json!([])),
        ];
        let refused = rows.map(|(place, value)| {
            let mut file: Value = serde_json::from_str(KTT).unwrap();
            let pointer = if place.is_empty() { String::new() } else { format!("/{place}") };
            *file.pointer_mut(&pointer).unwrap() = value;
            let error = space_of(&file.to_string(), "add").unwrap_err();
            format!("{error} | hint: {}\n", error.hint)
        });
        insta::assert_snapshot!(refused.concat());
        assert!(space_of("{", "").unwrap_err().to_string().starts_with("line 1, column 1: it is not JSON"));
    }
}
